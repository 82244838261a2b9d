//! The executors against real servers: ours that counts its effects, and MCP servers by others.

mod http;
mod mcp;
mod streamable;
mod support;
