"""Calls that need a decision: the park exchange and the decided gate, each step and each way to get it wrong."""

import asyncio
from typing import Any

import pytest
from scripted import EXECUTION, SESSION, Turn, approval_call, caught, serving, turn

from inspan import Failed, Parked, Sink, SinkError, Start, messages, v1

CODE = v1.ToolResult
REF = v1.ApprovalRef(execution_id=EXECUTION, tool_call_id="call-1", request_seq=4)


async def pay(start: Start, sink: Sink) -> None:
    """A harness with one gated call, that tells what came of it."""
    reply = await sink.tool(approval_call())
    await sink.output("denied" if reply.denied else reply.result.error or "paid")


async def test_an_undecided_call_parks_the_turn(address: str) -> None:
    """Steps 1 to 4 of the exchange: the call, the park, one acknowledgement, OK without END."""
    async with turn(pay, address) as one:
        assert (await one.event(v1.EVENT_TOOL_CALL)).tool == approval_call()
        await one.send(park=REF)
        await one.parked(REF)


async def test_the_park_reaches_the_harness_with_its_tuple(loopback: str) -> None:
    seen: list[BaseException] = []

    async def run(start: Start, sink: Sink) -> None:
        seen.append(await caught(sink.tool(approval_call())))
        raise seen[0]

    async with turn(run, loopback) as one:
        await one.event(v1.EVENT_TOOL_CALL)
        await one.send(park=REF)
        await one.parked(REF)
    (park,) = seen
    assert isinstance(park, Parked)
    assert not isinstance(park, Exception), "an agent's own handling of its tools' errors does not see it"
    assert park.ref == REF


async def test_a_swallowed_park_still_parks_and_every_later_operation_is_refused(address: str) -> None:
    """R-APPR-3, over the wire: nothing after the park reaches the host but the acknowledgement."""

    async def run(start: Start, sink: Sink) -> None:
        await caught(sink.tool(approval_call()))
        late = (
            sink.model([]),
            sink.output("x"),
            sink.tool(approval_call("call-2")),
            sink.report(v1.ToolResult()),
            sink.usage(v1.Usage()),
        )
        for operation in late:
            assert isinstance(await caught(operation), Parked)

    async with turn(run, address) as one:
        await one.event(v1.EVENT_TOOL_CALL)
        await one.send(park=REF)
        await one.parked(REF)


async def test_concurrent_operations_park_together(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        await asyncio.gather(sink.tool(approval_call()), sink.tool(approval_call("call-2")), sink.model([]))

    async with turn(run, loopback) as one:
        assert (await one.event(v1.EVENT_TOOL_CALL)).tool.id == "call-1"
        await one.send(park=REF)
        await one.parked(REF)


async def test_a_group_of_nothing_but_the_park_is_the_park(loopback: str) -> None:
    """What a task group makes of two tasks that parked."""

    class Group(BaseException):
        def __init__(self, *exceptions: BaseException) -> None:
            self.exceptions = exceptions

    def run_with(other: BaseException | None) -> Any:
        async def run(start: Start, sink: Sink) -> None:
            park = await caught(sink.tool(approval_call()))
            raise Group(park, Group(other or await caught(sink.output(""))))

        return run

    async with turn(run_with(None), loopback) as one:
        await one.event(v1.EVENT_TOOL_CALL)
        await one.send(park=REF)
        await one.parked(REF)
    async with turn(run_with(ValueError("and this")), loopback) as one:
        await one.event(v1.EVENT_TOOL_CALL)
        await one.send(park=REF)
        assert "Group" in await one.failed(), "a joined error is told instead of an acknowledgement"


@pytest.mark.parametrize("error", [Failed("no patience"), Parked(v1.ApprovalRef(execution_id=EXECUTION))])
async def test_another_error_after_the_park_is_told_instead_of_an_acknowledgement(
    loopback: str, error: BaseException
) -> None:
    async def run(start: Start, sink: Sink) -> None:
        await caught(sink.tool(approval_call()))
        raise error

    async with turn(run, loopback) as one:
        await one.event(v1.EVENT_TOOL_CALL)
        await one.send(park=REF)
        assert await one.failed()


async def test_a_park_that_no_host_asked_for_is_a_failure(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        raise Parked(REF)

    async with turn(run, loopback) as one:
        assert "Parked" in await one.failed()


def ref(**changed: Any) -> v1.ApprovalRef:
    values: dict[str, Any] = {"execution_id": EXECUTION, "tool_call_id": "call-1", "request_seq": 4}
    return v1.ApprovalRef(**(values | changed))


PARKS = {
    "another execution in the body": {"park": ref(execution_id="other")},
    "no execution in the body": {"park": ref(execution_id="")},
    "another execution in the envelope": {"execution": "other", "park": ref()},
    "another session in the envelope": {"session": "other", "park": ref()},
    "no session in the envelope": {"session": "", "park": ref()},
    "another call": {"park": ref(tool_call_id="other")},
    "no call": {"park": ref(tool_call_id="")},
    "no request": {"park": ref(request_seq=0)},
    "a request below zero": {"park": ref(request_seq=-4)},
    "an empty body": {"park": v1.ApprovalRef()},
}


@pytest.mark.parametrize("frame", PARKS.values(), ids=PARKS.keys())
async def test_a_park_with_a_wrong_tuple_is_a_failure_and_never_a_park(address: str, frame: dict[str, Any]) -> None:
    """Step 3 of the exchange; the failure stays, whatever the harness makes of it."""

    async def run(start: Start, sink: Sink) -> None:
        first = await caught(sink.tool(approval_call()))
        assert isinstance(first, SinkError)
        assert str(await caught(sink.output("on"))) == str(first)

    async with turn(run, address) as one:
        await one.event(v1.EVENT_TOOL_CALL)
        await one.send(**frame)
        assert await one.failed()


async def test_a_host_without_a_session_cannot_park_and_cannot_decide(loopback: str) -> None:
    for frame in ({"park": REF}, {"approval": v1.ApprovalResult(tool_call_id="call-1", approved=True, request_seq=4)}):
        async with turn(pay, loopback, session="") as one:
            await one.event(v1.EVENT_TOOL_CALL)
            await one.send(**frame)
            assert "without a session" in await one.failed()


def decision(approved: bool, **changed: Any) -> v1.ApprovalResult:
    values: dict[str, Any] = {"tool_call_id": "call-1", "approved": approved, "reason": "because", "request_seq": 4}
    return v1.ApprovalResult(**(values | changed))


def receipt(**changed: Any) -> v1.ToolResult:
    values: dict[str, Any] = {"id": "call-1", "approval_request_seq": 4, "approval_decision_seq": 6}
    return v1.ToolResult(**(values | changed))


DECIDED = {
    "approved and done": (decision(True), receipt(output=messages.struct({"n": 1})), "paid"),
    "approved and failed": (
        decision(True),
        receipt(is_error=True, error="declined", code=CODE.EXECUTOR_ERROR),
        "declined",
    ),
    "denied": (decision(False), receipt(is_error=True, code=CODE.APPROVAL_DENIED), "denied"),
}


@pytest.mark.parametrize(("decided", "result", "said"), DECIDED.values(), ids=DECIDED.keys())
async def test_a_decided_call_gets_its_decision_and_then_its_receipt(
    address: str, decided: v1.ApprovalResult, result: v1.ToolResult, said: str
) -> None:
    async def run(start: Start, sink: Sink) -> None:
        reply = await sink.tool(approval_call())
        assert reply.decision == decided
        assert reply.result == result
        await sink.output("denied" if reply.denied else reply.result.error or "paid")

    async with turn(run, address) as one:
        await one.event(v1.EVENT_TOOL_CALL)
        await one.send(approval=decided)
        await one.send(tool=result)
        assert messages.text((await one.event(v1.EVENT_OUTPUT)).message) == said
        await one.completed()


APPROVED, DENIED = {"approval": decision(True)}, {"approval": decision(False)}
DONE = {"tool": receipt()}

WRONG: dict[str, list[dict[str, Any]]] = {
    "a receipt without a decision": [DONE],
    "a decision on another call": [{"approval": decision(True, tool_call_id="other")}],
    "a decision on no request": [{"approval": decision(True, request_seq=0)}],
    "a decision of another execution": [{"execution": "other", **APPROVED}],
    "a decision of another session": [{"session": "other", **APPROVED}],
    "two decisions": [APPROVED, APPROVED],
    "a park after the decision": [APPROVED, {"park": REF}],
    "a completion instead": [{"model": v1.ModelResult(message=messages.assistant(""))}],
    "a completion after the decision": [APPROVED, {"model": v1.ModelResult(message=messages.assistant(""))}],
    "a receipt of another call": [APPROVED, {"tool": receipt(id="other")}],
    "a receipt of another execution": [APPROVED, {"execution": "other", **DONE}],
    "a receipt of another session": [APPROVED, {"session": "other", **DONE}],
    "a receipt of another request": [APPROVED, {"tool": receipt(approval_request_seq=5)}],
    "a receipt of no request": [APPROVED, {"tool": receipt(approval_request_seq=0)}],
    "a receipt of no decision": [APPROVED, {"tool": receipt(approval_decision_seq=0)}],
    "approved, an error without a code": [APPROVED, {"tool": receipt(is_error=True)}],
    "approved, a code without an error": [APPROVED, {"tool": receipt(code=CODE.EXECUTOR_ERROR)}],
    "approved, a denial": [APPROVED, {"tool": receipt(is_error=True, code=CODE.APPROVAL_DENIED)}],
    "approved, an unknown code": [APPROVED, {"tool": receipt(is_error=True, code=7)}],
    "approved, an unknown code and no error": [APPROVED, {"tool": receipt(code=7)}],
    "denied, done": [DENIED, DONE],
    "denied, an executor's error": [DENIED, {"tool": receipt(is_error=True, code=CODE.EXECUTOR_ERROR)}],
    "denied, an error without a code": [DENIED, {"tool": receipt(is_error=True)}],
    "denied, no error": [DENIED, {"tool": receipt(code=CODE.APPROVAL_DENIED)}],
    "denied, an unknown code": [DENIED, {"tool": receipt(is_error=True, code=7)}],
}


@pytest.mark.parametrize("frames", WRONG.values(), ids=WRONG.keys())
async def test_a_gate_that_is_answered_wrongly_fails_the_turn_for_good(
    loopback: str, frames: list[dict[str, Any]]
) -> None:
    """Step 4 of the decided gate."""

    async def run(start: Start, sink: Sink) -> None:
        assert isinstance(await caught(sink.tool(approval_call())), SinkError)
        assert isinstance(await caught(sink.tool(approval_call("call-2"))), SinkError)

    async with turn(run, loopback) as one:
        await one.event(v1.EVENT_TOOL_CALL)
        for frame in frames:
            await one.send(**frame)
        assert await one.failed()


@pytest.mark.parametrize("frames", [[], [APPROVED]], ids=["before the decision", "between decision and receipt"])
async def test_a_stream_that_ends_inside_the_gate_fails_the_turn(address: str, frames: list[dict[str, Any]]) -> None:
    async with turn(pay, address) as one:
        await one.event(v1.EVENT_TOOL_CALL)
        for frame in frames:
            await one.send(**frame)
        await one.call.done_writing()
        assert "ended the stream" in await one.failed()


async def test_gates_follow_one_another_in_one_turn(loopback: str) -> None:
    """The turn is driven from its start each time: what is decided is served, the next gate parks."""

    async def run(start: Start, sink: Sink) -> None:
        for call_id in ("call-1", "call-2"):
            await sink.tool(approval_call(call_id))
        await sink.output("both")

    async with serving(run, loopback) as channel:
        for decided in range(3):
            one = Turn(channel, SESSION)
            await one.start()
            for n in range(1, decided + 1):
                call_id = f"call-{n}"
                assert (await one.event(v1.EVENT_TOOL_CALL)).tool.id == call_id
                await one.send(approval=decision(True, tool_call_id=call_id))
                await one.send(tool=receipt(id=call_id))
            if decided == 2:
                await one.event(v1.EVENT_OUTPUT)
                await one.completed()
            else:
                waiting = ref(tool_call_id=f"call-{decided + 1}")
                await one.event(v1.EVENT_TOOL_CALL)
                await one.send(park=waiting)
                await one.parked(waiting)
