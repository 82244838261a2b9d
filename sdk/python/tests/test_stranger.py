"""The harness that is made of grpcio and the .proto files alone, on the same frames as ours."""

import asyncio
import contextlib
import pathlib
import subprocess
import sys
from collections.abc import AsyncIterator

import grpc.aio
import pytest
from played import World
from scripted import EXECUTION, Turn

from inspan import messages, v1

PLAIN = pathlib.Path(__file__).parents[3] / "tests" / "strangers" / "plain_harness.py"


@contextlib.asynccontextmanager
async def plain(address: str) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the stranger, which runs as its own process."""
    if not PLAIN.exists():
        pytest.skip("the plain harness is in the project's checkout only")
    process = await asyncio.create_subprocess_exec(sys.executable, str(PLAIN), address, stdout=subprocess.PIPE)
    assert process.stdout is not None
    listening = (await process.stdout.readline()).decode().strip()
    try:
        async with grpc.aio.insecure_channel(listening) as channel:
            yield channel
    finally:
        process.kill()
        await process.wait()


def world(text: str) -> World:
    tools = {"look": lambda args: args["text"], "pay": lambda args: args["text"]}
    start = v1.StartFrame(inputs=[messages.user(text)])
    return World(completions=[messages.assistant("said")], tools=tools, start=start)


async def test_the_plain_harness_does_its_turns(address: str) -> None:
    async with plain(address) as channel:
        for text, tools in (("hello", 0), ("look there", 1)):
            one = world(text)
            assert await one.drive(channel) == "completed"
            assert await one.drive(channel) == "completed"
            assert (len(one.tool_calls), len(one.model_calls)) == (tools, 1)
        for approved in (True, False):
            one = world("pay 4")
            assert await one.drive(channel) == "parked"
            one.decisions["pay-1"] = approved
            assert await one.drive(channel) == "completed"
            assert messages.text(one.model_calls[0].messages[0]) == ("done" if approved else "denied")


async def test_the_plain_harness_refuses_what_does_not_fit(loopback: str) -> None:
    async with plain(loopback) as channel:
        wrong = Turn(channel)
        await wrong.send(cancel=v1.Cancel())
        await wrong.refused()
        for frame in (
            {"model": v1.ModelResult(model_call_id="other")},
            {"execution": "other", "model": v1.ModelResult(model_call_id="ask")},
            {"tool": v1.ToolResult()},
        ):
            one = Turn(channel)
            await one.start("hello")
            await one.event(v1.EVENT_MODEL_CALL)
            await one.send(**frame)
            await one.failed()
        for ref in (
            v1.ApprovalRef(execution_id="other", tool_call_id="pay-1", request_seq=1),
            v1.ApprovalRef(execution_id=EXECUTION, tool_call_id="other", request_seq=1),
            v1.ApprovalRef(execution_id=EXECUTION, tool_call_id="pay-1"),
        ):
            one = Turn(channel)
            await one.start("pay")
            await one.event(v1.EVENT_TOOL_CALL)
            await one.send(park=ref)
            await one.failed()
