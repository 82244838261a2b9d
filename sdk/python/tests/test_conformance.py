"""Harnesses made with this package before the conformance kit of the binary that INSPAN_BIN names."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable

import pytest
from agent_loop import AgentLoop
from test_examples import langgraph

from inspan import Harness, Server


@pytest.fixture
def binary() -> str:
    named = os.environ.get("INSPAN_BIN")
    if not named:
        pytest.skip("set INSPAN_BIN to an inspan binary")
    return named


@pytest.mark.parametrize("make", [lambda: AgentLoop("m"), langgraph], ids=["agent loop", "langgraph"])
async def test_the_examples_keep_the_rules(binary: str, make: Callable[[], Harness], loopback: str) -> None:
    async with Server(make(), loopback) as server:
        process = await asyncio.create_subprocess_exec(
            *(binary, "conformance", "harness", server.address, "--expect-tool", "--expect-gate", "--json"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
    report = json.loads(said)
    broken = [check for check in report["checks"] if check["result"] == "fail"]
    assert (report["verdict"], broken) == ("pass", [])
    skipped = {check["check"] for check in report["checks"] if check["result"] == "skip"}
    assert skipped <= {"describe-id", "replay-output", "replay-usage"}
