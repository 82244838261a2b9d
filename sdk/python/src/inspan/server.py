"""Serves a harness, so that a host can attach it by address."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import signal
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio

from inspan import v1
from inspan._connect import NotAStartError, drive
from inspan._gen.agentsessions.v1 import harness_pb2_grpc
from inspan._sink import described
from inspan.contract import Harness

if TYPE_CHECKING:
    from inspan._socket import SocketLock

    _Context = grpc.aio.ServicerContext[v1.ControllerFrame, v1.Event]

MESSAGE_BYTES_MAX: Final = 256 << 20
"""Of one frame or event, as at the host's end.

A start carries the whole history, so gRPC's usual 4 MiB would end long sessions.
"""

GRACE_SECONDS: Final = 10.0

# For streams that were cancelled.
ENDING_SECONDS_MAX: Final = 2.0

log = logging.getLogger("inspan")


def serve(harness: Harness, address: str, *, allow_remote: bool = False, grace_seconds: float = GRACE_SECONDS) -> None:
    """Serves `harness` at `address` until SIGINT or SIGTERM, then lets turns that run end, up to `grace_seconds`.

    A second signal ends them at once. The address is `host:port`, `unix:path` or `unix:///path`. Whoever can connect
    can drive the harness, in clear text and without authentication, so an address that other machines can reach is
    refused unless `allow_remote` says that this is meant.

    Raises ValueError for an address of another form, OSError when it cannot be listened on.
    """
    asyncio.run(_serve_until_signalled(harness, address, allow_remote, grace_seconds))


async def _serve_until_signalled(harness: Harness, address: str, allow_remote: bool, grace_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    first, second = asyncio.Event(), asyncio.Event()

    def signalled() -> None:
        (second if first.is_set() else first).set()

    # Where a loop handles no signals, an interrupt ends asyncio.run by itself.
    with contextlib.suppress(NotImplementedError):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, signalled)
    server = Server(harness, address, allow_remote=allow_remote)
    await server.start()
    print(f"inspan: harness {harness.describe().id} serves on {server.address}", file=sys.stderr, flush=True)
    try:
        await first.wait()
        stopping = asyncio.ensure_future(server.drain(grace_seconds))
        hurried = asyncio.ensure_future(second.wait())
        await asyncio.wait({stopping, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
    finally:
        await server.stop()
        # Streams that were cancelled are still ending: the loop's own end would cut them off with a traceback each.
        if ending := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(ending, timeout=ENDING_SECONDS_MAX)


class Server:
    """A harness at an address, inside a program that has its own event loop. Also an async context manager."""

    def __init__(self, harness: Harness, address: str, *, allow_remote: bool = False) -> None:
        self._harness = harness
        self._path = socket_path(address)
        if self._path is None and not allow_remote:
            check_loopback(address)
        self.address = address
        """Where it listens; with port 0 the real port once it has started."""
        self._lock: SocketLock | None = None
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Starts to listen. Raises OSError when the address is taken."""
        options = [
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            # A host whose machine is gone says nothing: it is asked.
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 20_000),
            # Two servers on one port would each get some of a host's turns.
            ("grpc.so_reuseport", 0),
        ]
        server = grpc.aio.server(options=options)
        harness_pb2_grpc.add_HarnessServicer_to_server(_Servicer(self._harness), server)
        if self._path is not None:
            self._lock = locked(self._path)
        try:
            port = server.add_insecure_port(self.address if self._path is None else f"unix:{self._path}")
        except RuntimeError as error:
            self._release()
            raise OSError(f"{self.address} cannot be listened on: {error}") from error
        await server.start()
        if self._lock is None:
            self.address = f"{self.address.rpartition(':')[0]}:{port}"
        else:
            self._lock.bound()
        self._server = server

    async def drain(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Takes no more turns and waits for those that run; after `grace_seconds` they are cancelled."""
        if self._server is not None:
            await self._server.stop(grace_seconds)

    async def stop(self) -> None:
        """Stops at once: turns that run are cancelled, the address is free. Does nothing the second time."""
        await self.drain(0)
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class _Servicer(harness_pb2_grpc.HarnessServicer):
    """The service, over one harness."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    async def Describe(  # noqa: N802 - the method's name on the wire
        self, request: v1.DescribeRequest, context: _Context
    ) -> v1.HarnessDescriptor:
        try:
            return self._harness.describe().to_proto()
        except Exception as error:
            log.exception("describe failed")
            return await context.abort(grpc.StatusCode.INTERNAL, f"describe failed: {described(error)}")

    async def Connect(self, _: object, context: _Context) -> None:  # noqa: N802 - as above
        try:
            await drive(self._harness, _GrpcStream(context))
        except NotAStartError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))


class _GrpcStream:
    """A stream of gRPC as the turn wants it."""

    def __init__(self, context: _Context) -> None:
        self._context = context
        self._writing = asyncio.Lock()

    async def read(self) -> v1.ControllerFrame | None:
        frame = await self._context.read()
        # At the end gRPC gives a mark of its own.
        return frame if isinstance(frame, v1.ControllerFrame) else None

    async def write(self, event: v1.Event) -> None:
        # gRPC takes one write at a time, and one that was given up half way is not over: the next waits for it.
        await asyncio.shield(self._written(event))

    async def _written(self, event: v1.Event) -> None:
        async with self._writing:
            await self._context.write(event)


def socket_path(address: str) -> str | None:
    """The path of a unix address; None for a TCP address. Raises ValueError for any other."""
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        path = path.removeprefix("//") if path.startswith("//") else path
        if not path.strip("/."):
            raise ValueError(f"{address} names no socket: write unix:///path/of/the/socket")
        return path
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 0xFFFF) or "/" in host:
        raise ValueError(f"{address} is no address: write host:port or unix:///path")
    return None


def locked(path: str) -> SocketLock:
    """The lock of a socket's path."""
    # Imported here since it needs what only unix has.
    from inspan._socket import SocketLock  # noqa: PLC0415

    return SocketLock.take(path)


def check_loopback(address: str) -> None:
    """Refuses an address that other machines can reach."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    if host != "localhost":
        raise ValueError(f"{address} is open to other machines, without authentication: pass allow_remote to mean it")
