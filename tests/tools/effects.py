"""A tool server on the Python SDK of MCP: it shows what it was given, and tells a socket what becomes of a call."""

import os
import socket

import anyio
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("effects")


@server.tool()
async def meta(ctx: Context) -> dict[str, object]:
    """Gives back the `_meta` of this very call."""
    return dict(ctx.request_context.meta or {})


@server.tool()
async def wait(port: int) -> str:
    """Says `started` on a local port, then waits until it is cancelled, and says that."""
    with socket.create_connection(("127.0.0.1", port)) as told:
        told.sendall(b"started\n")
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            told.sendall(b"cancelled\n")
            raise
    return "never"


@server.tool()
async def die() -> str:
    """Ends the server in the middle of the call."""
    os._exit(1)


@server.tool()
async def pid() -> str:
    """The server's process."""
    return str(os.getpid())


server.run()
