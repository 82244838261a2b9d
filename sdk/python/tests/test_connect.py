"""Harness.Connect from the author's end: the rules of the stream, each against a host that the test plays."""

import asyncio
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from scripted import EXECUTION, SESSION, Agent, Body, Turn, approval_call, caught, mediated_call, serving, turn

from inspan import (
    MEMORY,
    Descriptor,
    Failed,
    InvalidRequestError,
    Sink,
    SinkClosedError,
    SinkError,
    Start,
    messages,
    v1,
)
from inspan._connect import drive
from inspan._gen.agentsessions.v1 import harness_pb2_grpc


async def nothing(start: Start, sink: Sink) -> None:
    """A run that does nothing."""


async def echo(start: Start, sink: Sink) -> None:
    await sink.model([messages.user(messages.text(start.inputs[-1]))], model="echo")


async def test_describe_says_what_the_descriptor_says(address: str) -> None:
    tool = v1.ToolSpec(name="pay", description="pays", mediation=v1.MEDIATION_REQUIRES_APPROVAL)
    descriptor = Descriptor(
        id="agent", version="7", models=["m"], tools=[tool], resumability=MEMORY, fork_safe=True, reasoning_replay=True
    )
    async with serving(Agent(nothing, descriptor), address) as channel:
        told = await harness_pb2_grpc.HarnessStub(channel).Describe(v1.DescribeRequest())
    capabilities = v1.Capabilities(resumability=MEMORY, fork_safe=True, reasoning_replay=True)
    assert told == v1.HarnessDescriptor(id="agent", version="7", models=["m"], tools=[tool], capabilities=capabilities)


async def test_a_describe_that_fails_is_told(loopback: str) -> None:
    class Broken(Agent):
        def describe(self) -> Descriptor:
            raise RuntimeError("no configuration")

    async with serving(Broken(nothing), loopback) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="RuntimeError: no configuration"):
            await harness_pb2_grpc.HarnessStub(channel).Describe(v1.DescribeRequest())


async def test_w_2_the_first_frame_is_a_start_with_an_execution_id(address: str) -> None:
    async with serving(nothing, address) as channel:
        nameless = Turn(channel, execution="")
        await nameless.start()
        assert "execution_id" in await nameless.refused()
        wrong = Turn(channel)
        await wrong.send(cancel=v1.Cancel(reason="USER"))
        assert "not a start" in await wrong.refused()
        empty = Turn(channel)
        await empty.send()
        assert "empty" in await empty.refused()
        silent = Turn(channel)
        await silent.call.done_writing()
        assert "ended before" in await silent.refused()


async def test_w_3_the_start_arrives_whole(address: str) -> None:
    seen: list[Start] = []

    async def keep(start: Start, sink: Sink) -> None:
        seen.append(start)

    history = [v1.Event(kind=v1.EVENT_LIFECYCLE), v1.Event(kind=v1.EVENT_INPUT, message=messages.user("before"))]
    identity = v1.IdentityContext(principal=v1.IdentityRef(principal="ann"))
    async with serving(keep, address) as channel:
        one = Turn(channel)
        await one.start("now", config=b"{}", history=history, identity=identity, resume_from_seq=-3)
        await one.completed()
        other = Turn(channel, session="")
        await other.start()
        await other.completed()
    assert seen[0] == Start(
        session=SESSION,
        execution_id=EXECUTION,
        config=b"{}",
        history=tuple(history),
        inputs=(messages.user("now"),),
        identity=identity,
        resume_from_seq=-3,
    )
    assert seen[1] == Start(session="", execution_id=EXECUTION)


async def test_a_model_call_carries_the_request_and_its_completion_comes_back(address: str) -> None:
    tool = messages.tool_definition("look", "looks", {"type": "object"})
    choice = v1.ToolChoice(mode=v1.ToolChoice.MODE_REQUIRED, name="look")
    said = v1.Message(
        role="assistant",
        parts=[
            v1.Part(reasoning=v1.ReasoningPart(provider="p", opaque_bytes=b"\x00\xff")),
            messages.text_part("let me "),
            messages.text_part("look"),
            v1.Part(tool_call=messages.tool_call("look", {"n": 2}, id="c1")),
        ],
    )

    async def run(start: Start, sink: Sink) -> None:
        answer = await sink.model(start.inputs, model="m", params={"t": "0"}, tools=[tool], tool_choice=choice)
        assert answer.message == said
        assert answer.text == "let me look"
        (call,) = answer.tool_calls
        call.args["n"] = 3
        assert answer.message == said, "a call is a copy: the recorded message does not change"

    async with turn(run, address, "hi") as one:
        asked = await one.answer_model(said)
        assert asked.id
        wanted = v1.ModelCall(
            id=asked.id, model="m", params={"t": "0"}, messages=[messages.user("hi")], tools=[tool], tool_choice=choice
        )
        assert asked == wanted
        await one.completed()


async def test_an_unknown_mode_of_tool_choice_is_refused_and_not_sent(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        error = await caught(sink.model([], tool_choice=v1.ToolChoice(mode=cast("v1.ToolChoice.Mode", 9))))
        assert isinstance(error, InvalidRequestError)

    async with turn(run, loopback) as one:
        await one.completed()


async def test_outputs_reports_and_usage_go_out_in_order_and_wait_for_nothing(address: str) -> None:
    result = v1.ToolResult(id="mine", is_error=True, error="no such file", code=v1.ToolResult.EXECUTOR_ERROR)
    counts = v1.Usage(model="m", input_tokens=1, output_tokens=2, reasoning_tokens=3)

    async def run(start: Start, sink: Sink) -> None:
        await sink.output("")
        await sink.report(result)
        await sink.usage(counts)

    async with turn(run, address) as one:
        assert (await one.event(v1.EVENT_OUTPUT)).message == messages.assistant("")
        assert (await one.event(v1.EVENT_TOOL_RESULT)).result == result
        assert (await one.event(v1.EVENT_USAGE)).usage == counts
        await one.completed()


async def test_a_mediated_tool_call_is_sent_as_it_is_and_answered(address: str) -> None:
    result = v1.ToolResult(id="call-1", output=messages.struct({"found": [1, "two", None, True]}))

    async def run(start: Start, sink: Sink) -> None:
        reply = await sink.tool(mediated_call())
        assert reply.result == result
        assert reply.decision is None
        assert not reply.denied
        assert reply.message == messages.tool_result(result)

    async with turn(run, address) as one:
        assert (await one.event(v1.EVENT_TOOL_CALL)).tool == mediated_call()
        await one.send(tool=result)
        await one.completed()


async def test_a_call_that_says_nothing_is_mediated_with_a_key_of_its_place_in_the_turn(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        bare = messages.tool_call("look")
        await sink.tool(bare)
        await sink.tool(bare)
        await sink.tool(bare, idempotency_key="mine")
        assert bare == messages.tool_call("look"), "the harness's own message is not changed"

    async with turn(run, loopback) as one:
        calls = [await one.answer_tool() for _ in range(3)]
        assert [call.idempotency_key for call in calls] == [f"{EXECUTION}/1", f"{EXECUTION}/2", "mine"]
        assert {call.mediation for call in calls} == {v1.MEDIATION_CONTROLLER_MEDIATED}
        await one.completed()


async def test_calls_that_the_contract_does_not_allow_are_refused_and_not_sent(loopback: str) -> None:
    """R-TOOL-1 for the tiers; a gated call needs an id, since the decision names it."""

    async def run(start: Start, sink: Sink) -> None:
        reported = v1.MEDIATION_IN_HARNESS_REPORTED
        assert isinstance(await caught(sink.tool(mediated_call(), mediation=reported)), InvalidRequestError)
        assert isinstance(await caught(sink.tool(approval_call(""))), InvalidRequestError)
        await sink.tool(mediated_call(""))

    async with turn(run, loopback) as one:
        assert (await one.answer_tool()).id == "", "R-TOOL-9: an ordinary call may do without"
        await one.completed()


async def test_one_request_is_outstanding_at_a_time_in_the_order_asked() -> None:
    async def run(start: Start, sink: Sink) -> None:
        async def ask(text: str) -> str:
            return (await sink.model([messages.user(text)])).text

        asked = [ask(str(n)) for n in range(3)]
        *said, _, _ = await asyncio.gather(*asked, sink.tool(mediated_call()), sink.output("last"))
        assert said == ["a0", "a1", "a2"]

    stream = InMemory()
    await stream.frames.put(frame(start=v1.StartFrame()))
    driving = asyncio.ensure_future(drive(Agent(run), stream))
    for n in range(3):
        call = (await stream.events.get()).model
        assert messages.text(call.messages[0]) == str(n)
        await settled()
        assert stream.events.empty(), "nothing is asked before the answer is there"
        await stream.frames.put(frame(model=v1.ModelResult(message=messages.assistant(f"a{n}"), model_call_id=call.id)))
    assert (await stream.events.get()).kind == v1.EVENT_TOOL_CALL
    await settled()
    assert stream.events.empty()
    await stream.frames.put(frame(tool=v1.ToolResult(id="call-1")))
    await driving
    assert [stream.events.get_nowait().kind for _ in range(2)] == [v1.EVENT_OUTPUT, v1.EVENT_END]


class InMemory:
    """A stream whose every step the test sees."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[v1.ControllerFrame] = asyncio.Queue()
        self.events: asyncio.Queue[v1.Event] = asyncio.Queue()

    async def read(self) -> v1.ControllerFrame | None:
        return await self.frames.get()

    async def write(self, event: v1.Event) -> None:
        await self.events.put(event)


def frame(**body: Any) -> v1.ControllerFrame:
    return v1.ControllerFrame(session=SESSION, execution_id=EXECUTION, **body)


async def settled() -> None:
    """Lets every task run until it waits for something from outside."""
    for _ in range(50):
        await asyncio.sleep(0)


REPLIES = {
    "another execution": {"execution": "other", "model": v1.ModelResult()},
    "another session": {"session": "other", "model": v1.ModelResult()},
    "no session": {"session": "", "model": v1.ModelResult()},
    "another model call": {"model": v1.ModelResult(message=messages.assistant("x"), model_call_id="other")},
    "no model call": {"model": v1.ModelResult(message=messages.assistant("x"))},
    "no message": {"model": v1.ModelResult(model_call_id="model-1")},
    "a tool's result": {"tool": v1.ToolResult()},
    "a decision": {"approval": v1.ApprovalResult()},
    "a park": {"park": v1.ApprovalRef(execution_id=EXECUTION, request_seq=1)},
    "W-9: a cancel frame": {"cancel": v1.Cancel(reason="USER")},
    "a second start": {"start": v1.StartFrame()},
    "nothing": {},
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES.keys())
async def test_w_1_a_wrong_answer_to_a_model_call_fails_the_turn_for_good(loopback: str, reply: dict[str, Any]) -> None:
    async def run(start: Start, sink: Sink) -> None:
        first = await caught(sink.model([]))
        again = await caught(sink.output("on I go"))
        assert isinstance(first, SinkError)
        assert str(again) == str(first)

    async with turn(run, loopback) as one:
        await one.event(v1.EVENT_MODEL_CALL)
        await one.send(**reply)
        assert await one.failed(), "the run returned as if nothing were wrong, the turn fails all the same"


RESULTS = {
    "another call": {"tool": v1.ToolResult(id="other")},
    "another execution": {"execution": "other", "tool": v1.ToolResult(id="call-1")},
    "another session": {"session": "other", "tool": v1.ToolResult(id="call-1")},
    "W-8: a request seq": {"tool": v1.ToolResult(id="call-1", approval_request_seq=4)},
    "W-8: a decision seq": {"tool": v1.ToolResult(id="call-1", approval_decision_seq=5)},
    "W-8: a denial": {"tool": v1.ToolResult(id="call-1", is_error=True, code=v1.ToolResult.APPROVAL_DENIED)},
    "a completion": {"model": v1.ModelResult(message=messages.assistant("x"))},
    "a decision": {"approval": v1.ApprovalResult(tool_call_id="call-1", approved=True, request_seq=4)},
    "a park of an ordinary call": {
        "park": v1.ApprovalRef(execution_id=EXECUTION, tool_call_id="call-1", request_seq=4)
    },
}


@pytest.mark.parametrize("reply", RESULTS.values(), ids=RESULTS.keys())
async def test_a_wrong_answer_to_a_mediated_call_fails_the_turn_for_good(loopback: str, reply: dict[str, Any]) -> None:
    async def run(start: Start, sink: Sink) -> None:
        assert isinstance(await caught(sink.tool(mediated_call())), SinkError)
        assert isinstance(await caught(sink.usage(v1.Usage())), SinkError)

    async with turn(run, loopback) as one:
        await one.event(v1.EVENT_TOOL_CALL)
        await one.send(**reply)
        text = await one.failed()
        if reply.get("tool") and reply["tool"].id == "call-1" and not {"execution", "session"} & reply.keys():
            assert "host-owned" in text


async def test_an_end_of_the_stream_while_an_answer_is_due_fails_the_turn(address: str) -> None:
    async with turn(echo, address, "hi") as one:
        await one.event(v1.EVENT_MODEL_CALL)
        await one.call.done_writing()
        assert "ended the stream" in await one.failed()


async def test_a_host_that_only_listens_is_served(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        await sink.output("said")

    async with serving(run, loopback) as channel:
        one = Turn(channel)
        await one.start()
        await one.call.done_writing()
        await one.event(v1.EVENT_OUTPUT)
        await one.completed()


FORGED = {
    "a request seq": v1.ToolResult(id="x", approval_request_seq=1),
    "a decision seq": v1.ToolResult(id="x", approval_decision_seq=1),
    "a denial": v1.ToolResult(id="x", is_error=True, code=v1.ToolResult.APPROVAL_DENIED),
}


@pytest.mark.parametrize("result", FORGED.values(), ids=FORGED.keys())
async def test_w_8_a_report_of_what_is_host_owned_fails_the_turn_for_good(loopback: str, result: v1.ToolResult) -> None:
    async def run(start: Start, sink: Sink) -> None:
        assert "host-owned" in str(await caught(sink.report(result)))
        assert "host-owned" in str(await caught(sink.report(v1.ToolResult(id="x"))))

    async with turn(run, loopback) as one:
        assert "host-owned" in await one.failed()


FAILURES = [
    (Failed("the till is empty"), "the till is empty"),
    (ValueError("3 is no colour"), "ValueError: 3 is no colour"),
    (KeyError(), "KeyError"),
    (Failed(""), "Failed"),
    (RuntimeError("lone \udc80 surrogate"), "RuntimeError: lone ? surrogate"),
    (RuntimeError("x" * 100_000), ("RuntimeError: " + "x" * 100_000)[:8192]),
]


@pytest.mark.parametrize(("error", "text"), FAILURES, ids=[text[:20] for _, text in FAILURES])
async def test_w_5_a_run_that_raises_ends_failed_once_with_its_text(loopback: str, error: Exception, text: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        await sink.output("so far so good")
        raise error

    async with turn(run, loopback) as one:
        await one.event(v1.EVENT_OUTPUT)
        assert await one.failed() == text


async def test_a_run_that_is_no_coroutine_has_failed(loopback: str, caplog: pytest.LogCaptureFixture) -> None:
    """And the author is told where: the traceback is in the log of the harness."""

    def run(start: Start, sink: Sink) -> None:
        """Someone forgot the `async`."""

    async with turn(cast("Body", run), loopback) as one:
        assert "TypeError" in await one.failed()
    (record,) = [record for record in caplog.records if record.name == "inspan"]
    assert EXECUTION in record.getMessage()
    assert record.exc_info is not None


async def test_a_run_that_cancels_itself_has_failed(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        raise asyncio.CancelledError

    async with turn(run, loopback) as one:
        assert "CancelledError" in await one.failed()


async def test_w_4_w_9_a_cancelled_stream_cancels_the_run(address: str) -> None:
    """A host that cannot go on says so by ending the stream: the run learns it where it waits.

    What it learns first, the end of the frames or the cancellation, is the network's to say.
    """
    cancelled = asyncio.Event()

    async def run(start: Start, sink: Sink) -> None:
        try:
            await sink.model([])
        except (asyncio.CancelledError, SinkError):
            cancelled.set()
            raise

    async with turn(run, address) as one:
        await one.event(v1.EVENT_MODEL_CALL)
        one.call.cancel()
        await cancelled.wait()


async def test_w_9_a_run_between_operations_is_cancelled_too(loopback: str) -> None:
    cancelled = asyncio.Event()

    async def run(start: Start, sink: Sink) -> None:
        await sink.output("on")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with turn(run, loopback) as one:
        await one.event(v1.EVENT_OUTPUT)
        one.call.cancel()
        await cancelled.wait()


async def test_w_10_what_a_run_leaves_behind_is_interrupted_and_sends_nothing(address: str) -> None:
    left: list[asyncio.Future[BaseException]] = []
    kept: list[Sink] = []

    async def run(start: Start, sink: Sink) -> None:
        kept.append(sink)
        left.append(asyncio.ensure_future(caught(sink.model([]))))
        left.append(asyncio.ensure_future(caught(sink.tool(mediated_call()))))
        await asyncio.sleep(0)

    async with turn(run, address) as one:
        await one.event(v1.EVENT_MODEL_CALL)
        await one.completed()
        assert [type(error) for error in await asyncio.gather(*left)] == [SinkClosedError, SinkClosedError]
        assert isinstance(await caught(kept[0].usage(v1.Usage())), SinkClosedError)


async def test_an_operation_that_is_given_up_fails_the_turn(loopback: str) -> None:
    """Its answer could come later and would be taken for the answer to another request."""

    async def run(start: Start, sink: Sink) -> None:
        asking = asyncio.ensure_future(sink.model([]))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking})
        assert "cancelled before" in str(await caught(sink.output("and now for something else")))

    async with turn(run, loopback) as one:
        await one.event(v1.EVENT_MODEL_CALL)
        assert "cancelled before" in await one.failed()


async def test_what_protobuf_cannot_carry_is_the_callers_error_and_breaks_nothing(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        assert isinstance(await caught(sink.output("\udc80")), ValueError)
        assert isinstance(await caught(sink.usage(cast("v1.Usage", "many"))), TypeError)
        assert isinstance(await caught(sink.report(cast("v1.ToolResult", 3))), TypeError)
        assert isinstance(await caught(sink.model(cast("list[v1.Message]", "hi"))), TypeError)
        await sink.output("fine")

    async with turn(run, loopback) as one:
        await one.event(v1.EVENT_OUTPUT)
        await one.completed()


async def test_a_history_beyond_four_mebibytes_and_an_event_as_large_pass(address: str) -> None:
    piece = "x" * (1 << 20)
    past = [v1.Event(kind=v1.EVENT_INPUT, message=messages.user(piece)) for _ in range(24)]

    async def run(start: Start, sink: Sink) -> None:
        answer = await sink.model(start.conversation())
        assert len(answer.text) == 5 << 20
        await sink.output("".join(messages.text(event.message) for event in start.history))

    async with serving(run, address) as channel:
        one = Turn(channel)
        await one.start("now", history=past)
        assert len((await one.answer_model("y" * (5 << 20))).messages) == 25
        assert len(messages.text((await one.event(v1.EVENT_OUTPUT)).message)) == 24 << 20
        await one.completed()


async def test_each_stream_is_a_turn_of_its_own(address: str) -> None:
    async with serving(echo, address) as channel:
        turns = [Turn(channel, session=f"sess-{n}", execution=f"exec-{n}") for n in range(50)]
        for n, one in enumerate(turns):
            await one.start(str(n))
        asked = [await one.answer_model("ok") for one in reversed(turns)]
        assert [messages.text(call.messages[0]) for call in asked] == [str(n) for n in reversed(range(50))]
        for one in turns:
            await one.completed()


async def test_the_same_frames_give_the_same_events(address: str) -> None:
    """What a replay rests on: nothing of the clock, of chance or of an earlier turn gets into what is sent."""

    async def run(start: Start, sink: Sink) -> None:
        answer = await sink.model(start.conversation(), model="m")
        reply = await sink.tool(messages.tool_call("look", {"b": 1, "a": [answer.text]}))
        await sink.output("done")
        await sink.model([*start.conversation(), answer.message, reply.message], model="m")

    async def once(channel: grpc.aio.Channel) -> list[bytes]:
        one = Turn(channel)
        await one.start("go")
        await one.answer_model("first")
        await one.answer_tool(output=messages.struct({"n": 1}))
        await one.event(v1.EVENT_OUTPUT)
        await one.answer_model("second")
        await one.completed()
        return [event.SerializeToString(deterministic=True) for event in one.events]

    async with serving(run, address) as channel:
        assert await once(channel) == await once(channel)
