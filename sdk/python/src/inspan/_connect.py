"""The author's end of one Harness.Connect stream: frames in, events out, one turn.

It knows nothing of gRPC: a stream is whatever reads frames and writes events. The rules W-1 to W-10, the park exchange
and the decided gate are here and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from inspan import v1
from inspan._sink import WireSink
from inspan.contract import Harness, SinkError, Start

CANCEL_SECONDS_MAX: Final = 5.0
"""How long a cancelled run may tidy up before its stream is let go."""


log = logging.getLogger("inspan")


class Stream(Protocol):
    """What carries a turn."""

    async def read(self) -> v1.ControllerFrame | None:
        """The next frame; None at the end."""

    async def write(self, event: v1.Event) -> None:
        """Sends an event."""


class NotAStartError(Exception):
    """The stream did not begin with a usable start (W-2)."""


async def drive(harness: Harness, stream: Stream) -> None:
    """Drives one turn on a fresh stream, up to its terminal event: END once, or the acknowledgement of a park.

    A cancellation of this call is the turn's: the run is cancelled and nothing more is sent (W-9).
    """
    start = await received_start(stream)
    sink = WireSink(start, stream)
    ended = await finished(running(harness, start, sink), sink)
    terminal = sink.terminal(ended)
    if terminal.end.state == "FAILED":
        # The host is told the text; where it comes from is told here, unless it comes from the host.
        trace = None if isinstance(ended, SinkError) else ended
        log.warning("turn %s failed: %s", start.execution_id, terminal.end.error.description, exc_info=trace)
    await stream.write(terminal)


async def running(harness: Harness, start: Start, sink: WireSink) -> None:
    """The run; whatever is wrong with the method itself is its failure too."""
    await harness.run(start, sink)


async def received_start(stream: Stream) -> Start:
    """What the first frame says, which has to be a start that names its execution."""
    frame = await stream.read()
    if frame is None:
        raise NotAStartError("the stream ended before a start frame")
    kind = frame.WhichOneof("frame")
    if kind != "start":
        raise NotAStartError(f"the first frame is {kind or 'empty'}, not a start")
    if not frame.execution_id:
        raise NotAStartError("the start frame names no execution_id")
    return Start.from_frame(frame)


async def finished(run: Coroutine[Any, Any, None], sink: WireSink) -> BaseException | None:
    """Waits until the run is over, closes its sink (W-10), and gives what the run raised."""
    task = asyncio.ensure_future(run)
    try:
        await asyncio.wait({task})
    finally:
        sink.close()
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_SECONDS_MAX)
    return asyncio.CancelledError("the run cancelled itself") if task.cancelled() else task.exception()
