//! The executors against real servers: ours that counts its effects, and MCP servers by others.

#[path = "../support/mod.rs"]
mod host;
mod http;
mod mcp;
mod streamable;
mod support;
mod turns;
