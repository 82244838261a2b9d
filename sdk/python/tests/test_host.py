"""The client and harnesses with a real host: the binary that INSPAN_BIN names."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import re
import sys
from collections.abc import AsyncIterator, Iterable

import grpc
import pytest
from agent_loop import AgentLoop
from scripted import Agent, approval_call

from inspan import Client, DeltaUpdate, Harness, HostError, RecordUpdate, Server, Sink, Start, messages, v1

HERE = pathlib.Path(__file__).parent

SCRIPT = """
loop: true
calls_log: {log}
turns:
  - text: "so it is"
"""


@pytest.fixture
def binary() -> str:
    named = os.environ.get("INSPAN_BIN")
    if not named:
        pytest.skip("set INSPAN_BIN to an inspan binary")
    return named


@contextlib.asynccontextmanager
async def host(
    binary: str, folder: pathlib.Path, *, harness: str | None = None, script: str = SCRIPT
) -> AsyncIterator[Client]:
    """`inspan serve` on the journal in `folder`, with a harness at an address and a model that follows a script."""
    model = folder / "model.yaml"
    model.write_text(script.format(log=folder / "calls.log"))
    attached = [] if harness is None else [f"--harness=mine={harness}"]
    process = await asyncio.create_subprocess_exec(
        *(binary, "serve", "--addr=127.0.0.1:0", f"--journal={folder}/journal.db"),
        *("--model=m", f"--model-script={model}", *attached),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said, address = "", None
    while address is None and (line := (await process.stderr.readline()).decode()):
        said += line
        if listening := re.search(r'msg="inspan listening".* addr=(\S+)', line):
            address = listening[1]
    rest = asyncio.ensure_future(process.stderr.read())
    try:
        assert address is not None, f"the host did not start: {said}"
        async with Client(address) as client:
            yield client
    finally:
        process.kill()
        await process.wait()
        await rest


def kinds(records: Iterable[v1.LogRecord]) -> list[str]:
    return [v1.EventKind.Name(record.event.kind).removeprefix("EVENT_") for record in records]


ONE_CALL = ["EXECUTION_START", "INPUT", "MODEL_CALL", "OUTPUT", "END"]
TWO_CALLS = ["EXECUTION_START", "INPUT", "MODEL_CALL", "OUTPUT", "MODEL_CALL", "OUTPUT", "END"]


def model_calls(folder: pathlib.Path) -> int:
    """How often the host asked the model."""
    log = folder / "calls.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


async def test_the_client_drives_every_verb(binary: str, tmp_path: pathlib.Path) -> None:
    async with host(binary, tmp_path) as client:
        made = await client.create(name="first", project="p", labels={"a": "b"}, harness="chat")
        uid = made.metadata.uid
        updates = [update async for update in client.exec(uid, "hello", expected_last_seq=0)]
        assert kinds(update.record for update in updates if isinstance(update, RecordUpdate)) == ONE_CALL
        deltas = [update.text for update in updates if isinstance(update, DeltaUpdate)]
        assert "".join(deltas) == "so it is"
        turn = await client.run(uid, ["and", "again"])
        assert turn.text == "so it is"
        assert turn.pending is None
        replayed = [record async for record in client.replay(uid)]
        assert [record.seq for record in replayed] == list(range(1, 12))
        children = await client.fork(uid, at_seq=5, count=2, names=["a", "b"])
        assert [(child.metadata.name, child.fork_seq, child.parent_uid) for child in children] == [
            ("a", 5, uid),
            ("b", 5, uid),
        ]
        listed = [one.metadata.uid async for one in client.list(project="p", page_size=1)]
        assert sorted(listed) == sorted([uid, *(child.metadata.uid for child in children)])
        assert (await client.suspend(uid)).compute_state == v1.COMPUTE_COLD
        assert (await client.resume(uid)).compute_state == v1.COMPUTE_LIVE
        with pytest.raises(HostError) as refusal:
            await client.run(uid, "x", expected_last_seq=3)
        assert refusal.value.code == grpc.StatusCode.ABORTED
        await client.delete(children[0].metadata.uid)
        with pytest.raises(HostError) as refusal:
            await client.get(children[0].metadata.uid)
        assert refusal.value.code == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("kind", ["tcp", "unix"])
async def test_a_harness_takes_turns_on_a_host(binary: str, tmp_path: pathlib.Path, kind: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        answer = await sink.model(start.conversation(), model="m")
        await sink.output(f"{len(start.history)} before: {answer.text}")

    address = "127.0.0.1:0" if kind == "tcp" else f"unix://{tmp_path}/h.sock"
    async with Server(Agent(run), address) as server, host(binary, tmp_path, harness=server.address) as client:
        uid = (await client.create(harness="mine")).metadata.uid
        turn = await client.run(uid, "hello")
        assert kinds(turn.records) == [*ONE_CALL[:-1], "OUTPUT", "END"]
        assert [messages.text(said) for said in turn.outputs] == ["so it is", "0 before: so it is"]
        again = await client.run(uid, "hello again")
        assert messages.text(again.outputs[-1]) == "6 before: so it is"
        start = again.records[0].event.execution_start
        assert (start.harness, start.harness_version, start.input_count) == ("mine", "1", 1)
        replayed = [record async for record in client.replay(uid)]
        assert [record.content_hash for record in replayed] == [
            record.content_hash for record in (*turn.records, *again.records)
        ]


async def test_a_history_beyond_four_mebibytes_reaches_the_harness(binary: str, tmp_path: pathlib.Path) -> None:
    async def run(start: Start, sink: Sink) -> None:
        await sink.output(str(sum(len(messages.text(event.message)) for event in start.history)))

    async with Server(Agent(run), "127.0.0.1:0") as server, host(binary, tmp_path, harness=server.address) as client:
        uid = (await client.create(harness="mine")).metadata.uid
        for _ in range(4):
            await client.run(uid, "x" * (2 << 20))
        turn = await client.run(uid, "how much?")
        assert int(turn.text) > 8 << 20


async def test_a_turn_whose_harness_is_killed_goes_on_in_another(binary: str, tmp_path: pathlib.Path) -> None:
    """The completion that was recorded is served: the model is asked once for each of the two calls."""
    address = f"unix://{tmp_path}/h.sock"
    async with host(binary, tmp_path, harness=address) as client:
        uid = (await client.create(harness="mine")).metadata.uid
        with pytest.raises(HostError) as refusal:
            await client.run(uid, "hello")
        assert refusal.value.code == grpc.StatusCode.UNAVAILABLE, "nothing answers there yet"
        assert [record async for record in client.replay(uid)] == []
        async with halting(address, "halt") as doomed:
            running = asyncio.ensure_future(client.run(uid, "hello"))
            assert doomed.stderr is not None
            while b"halted" not in await doomed.stderr.readline():
                pass
            doomed.kill()
            with pytest.raises(HostError) as refusal:
                await running
            assert refusal.value.code == grpc.StatusCode.INTERNAL
        async with halting(address):
            await client.resume(uid)
        records = [record async for record in client.replay(uid)]
        effects = [kind for kind in kinds(records) if kind not in {"ERROR", "LIFECYCLE"}]
        assert effects == TWO_CALLS
        assert model_calls(tmp_path) == 2


@contextlib.asynccontextmanager
async def halting(address: str, *how: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The harness of halting.py as a process that listens."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / "halting.py"), address, *how, stderr=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stderr is not None
    assert b"serves on" in await process.stderr.readline()
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def test_a_failed_run_is_told_to_the_caller_and_recorded(binary: str, tmp_path: pathlib.Path) -> None:
    async def run(start: Start, sink: Sink) -> None:
        raise RuntimeError("the till is empty")

    async with Server(Agent(run), "127.0.0.1:0") as server, host(binary, tmp_path, harness=server.address) as client:
        uid = (await client.create(harness="mine")).metadata.uid
        with pytest.raises(HostError, match="the till is empty") as refusal:
            await client.run(uid, "hello")
        assert refusal.value.code == grpc.StatusCode.INTERNAL
        records = [record async for record in client.replay(uid)]
        assert kinds(records) == ["EXECUTION_START", "INPUT", "ERROR"]
        assert "the till is empty" in records[-1].event.error.description


async def test_a_gated_call_parks_on_a_host_and_a_denial_drives_it_on(binary: str, tmp_path: pathlib.Path) -> None:
    async def run(start: Start, sink: Sink) -> None:
        reply = await sink.tool(approval_call())
        await sink.output(f"denied: {reply.denied}")

    harness = Agent(run)
    async with Server(harness, "127.0.0.1:0") as server, host(binary, tmp_path, harness=server.address) as client:
        await parked_then_denied(client, harness)


async def parked_then_denied(client: Client, harness: Harness) -> None:
    uid = (await client.create(harness="mine")).metadata.uid
    turn = await client.run(uid, "pay")
    assert turn.pending is not None, harness.describe().id
    assert turn.pending.tool_call_id == "call-1"
    assert kinds(turn.records) == ["EXECUTION_START", "INPUT", "TOOL_CALL", "APPROVAL_REQUEST", "LIFECYCLE"]
    answer = await client.deny(uid, turn.pending, reason="too dear")
    assert answer.decision.event.approval_result.reason == "too dear"
    await client.resume(uid)
    records = [record async for record in client.replay(uid)]
    assert kinds(records)[4:] == ["LIFECYCLE", "APPROVAL_RESULT", "TOOL_RESULT", "OUTPUT", "END", "LIFECYCLE"]
    assert messages.text(records[7].event.message) == "denied: True"


async def test_the_agent_loop_books_nothing_that_nobody_allowed(binary: str, tmp_path: pathlib.Path) -> None:
    script = """
turns:
  - text: "I ask"
    tool_calls:
      - {{id: b1, tool: book_hut, args: {{hut: Mzimkhulu, persons: 4}}}}
  - text: "Then not"
calls_log: {log}
"""
    server = Server(AgentLoop("m"), "127.0.0.1:0")
    async with server, host(binary, tmp_path, harness=server.address, script=script) as client:
        uid = (await client.create(harness="mine")).metadata.uid
        turn = await client.run(uid, "book it")
        assert turn.pending is not None
        await client.deny(uid, turn.pending)
        await client.resume(uid)
        records = [record async for record in client.replay(uid)]
        outputs = [record.event.message for record in records if record.event.kind == v1.EVENT_OUTPUT]
        assert messages.text(outputs[-1]) == "Then not"
        assert model_calls(tmp_path) == 2
