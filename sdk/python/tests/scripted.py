"""The host's side of Harness.Connect, played by the test: it writes frames, it reads events, it records nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from inspan import Descriptor, Harness, Server, Sink, Start, messages, v1
from inspan._gen.agentsessions.v1 import harness_pb2_grpc

SESSION = "sess-1"
EXECUTION = "0123456789abcdef"

Body = Callable[[Start, Sink], Awaitable[None]]


class Agent(Harness):
    """A harness whose run is a function of the test."""

    def __init__(self, body: Body, descriptor: Descriptor | None = None) -> None:
        self.body = body
        self.descriptor = descriptor or Descriptor(id="test", version="1")

    def describe(self) -> Descriptor:
        return self.descriptor

    async def run(self, start: Start, sink: Sink) -> None:
        await self.body(start, sink)


class Turn:
    """One Connect stream, seen from the host."""

    def __init__(self, channel: grpc.aio.Channel, session: str = SESSION, execution: str = EXECUTION) -> None:
        self.session, self.execution = session, execution
        self.call = harness_pb2_grpc.HarnessStub(channel).Connect()
        self.events: list[v1.Event] = []

    async def send(self, *, session: str | None = None, execution: str | None = None, **frame: Any) -> None:
        """Writes a frame; the envelope is this turn's unless the test says otherwise."""
        one = v1.ControllerFrame(
            session=self.session if session is None else session,
            execution_id=self.execution if execution is None else execution,
            **frame,
        )
        await self.call.write(one)

    async def start(self, *inputs: str, **start: Any) -> None:
        await self.send(start=v1.StartFrame(inputs=[messages.user(text) for text in inputs], **start))

    async def event(self, kind: v1.EventKind) -> v1.Event:
        """The next event, which has to be of this kind and of this execution (W-1)."""
        event = await self.call.read()
        assert isinstance(event, v1.Event), f"the stream ended while {v1.EventKind.Name(kind)} was due"
        assert event.execution_id == self.execution
        assert event.kind == kind, event
        self.events.append(event)
        return event

    async def answer_model(self, said: str | v1.Message) -> v1.ModelCall:
        """Takes a model call and answers it."""
        call = (await self.event(v1.EVENT_MODEL_CALL)).model
        message = messages.assistant(said) if isinstance(said, str) else said
        await self.send(model=v1.ModelResult(message=message, model_call_id=call.id))
        return call

    async def answer_tool(self, **result: Any) -> v1.ToolCall:
        """Takes a tool call and answers it with a plain result."""
        call = (await self.event(v1.EVENT_TOOL_CALL)).tool
        await self.send(tool=v1.ToolResult(id=call.id, **result))
        return call

    async def ended(self) -> None:
        """The stream ends here, with OK and nothing more."""
        event = await self.call.read()
        assert not isinstance(event, v1.Event), event
        assert await self.call.code() == grpc.StatusCode.OK

    async def completed(self) -> None:
        """W-5: END{COMPLETED}, once, last."""
        end = (await self.event(v1.EVENT_END)).end
        assert end.state == "COMPLETED", end
        assert not end.HasField("error")
        await self.ended()

    async def failed(self) -> str:
        """W-5: END{FAILED}, once, last. Gives its description."""
        end = (await self.event(v1.EVENT_END)).end
        assert end.state == "FAILED"
        assert end.error.description
        await self.ended()
        return end.error.description

    async def parked(self, ref: v1.ApprovalRef) -> None:
        """The acknowledgement of a park: exactly one event with the same tuple, OK, no END."""
        event = await self.event(v1.EVENT_PARKED)
        assert event.parked == ref
        await self.ended()

    async def refused(self) -> str:
        """The stream ends with INVALID_ARGUMENT before any event. Gives the text."""
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await self.call.read()
        assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        return refusal.value.details() or ""


@contextlib.asynccontextmanager
async def serving(harness: Harness | Body, address: str) -> AsyncIterator[grpc.aio.Channel]:
    """A harness behind a real server, and a channel to it as a host has one."""
    harness = harness if isinstance(harness, Harness) else Agent(harness)
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with (
        Server(harness, address) as server,
        grpc.aio.insecure_channel(server.address, options=options) as channel,
    ):
        yield channel


@contextlib.asynccontextmanager
async def turn(harness: Harness | Body, address: str, *inputs: str, session: str = SESSION) -> AsyncIterator[Turn]:
    """A turn that has started."""
    async with serving(harness, address) as channel:
        one = Turn(channel, session)
        await one.start(*inputs)
        yield one


def approval_call(call_id: str = "call-1") -> v1.ToolCall:
    """A call that needs a person's yes."""
    return v1.ToolCall(id=call_id, tool="pay", mediation=v1.MEDIATION_REQUIRES_APPROVAL, idempotency_key="key-1")


def mediated_call(call_id: str = "call-1") -> v1.ToolCall:
    """A call that the host runs at once."""
    return v1.ToolCall(id=call_id, tool="look", mediation=v1.MEDIATION_CONTROLLER_MEDIATED, idempotency_key="key-1")


async def caught(operation: Awaitable[object]) -> BaseException:
    """What an operation raises, whatever it is; cancellations pass."""
    try:
        await operation
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error
    raise AssertionError("the operation raised nothing")
