"""Both examples do the same job on the same host, so both pass the same tests: live, cut anywhere, parked, replayed."""

from collections.abc import Callable

import pytest
from agent_loop import STEPS_MAX, AgentLoop
from played import World, calls
from scripted import serving

from inspan import Harness, messages, v1


def langgraph() -> Harness:
    pytest.importorskip("langgraph", reason="langgraph cannot be imported: install the extra inspan[langgraph]")
    from langgraph_agent import GraphAgent  # noqa: PLC0415 - only where it can be imported

    return GraphAgent("m")


EXAMPLES: dict[str, Callable[[], Harness]] = {"agent loop": lambda: AgentLoop("m"), "langgraph": langgraph}


@pytest.fixture(params=list(EXAMPLES.values()), ids=list(EXAMPLES))
def example(request: pytest.FixtureRequest) -> Harness:
    make: Callable[[], Harness] = request.param
    return make()


WEATHER = messages.tool_call("weather", {"place": "Sani Pass"}, id="w1")
BOOKING = messages.tool_call("book_hut", {"hut": "Mzimkhulu", "persons": 4}, id="b1")
REASONING = v1.Part(reasoning=v1.ReasoningPart(provider="p", opaque_bytes=b"\x00\xfe", ordinal=1))


def world(*completions: v1.Message) -> World:
    return World(
        completions=completions,
        tools={"weather": lambda args: f"sun over {args['place']}", "book_hut": lambda args: args["persons"]},
        start=v1.StartFrame(inputs=[messages.user("Four of us for the pass, please")]),
    )


def two_tools() -> World:
    first = calls(WEATHER, text="I look")
    first.parts.insert(0, REASONING)
    return world(first, calls(BOOKING), messages.assistant("Booked, and the sun shines"))


async def test_a_turn_calls_tools_until_the_model_needs_no_more(example: Harness, address: str) -> None:
    one = two_tools()
    one.decisions = {"b1": True}
    async with serving(example, address) as channel:
        assert await one.drive(channel) == "completed"
    assert [(call.tool, messages.plain(call.args)) for call in one.tool_calls] == [
        ("weather", {"place": "Sani Pass"}),
        ("book_hut", {"hut": "Mzimkhulu", "persons": 4}),
    ]
    last = one.model_calls[-1]
    assert last.model == "m"
    assert [tool.name for tool in last.tools] == ["weather", "book_hut"]
    assert [message.role for message in last.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert last.messages[1] == one.completions[0], "the completion goes back unchanged, opaque reasoning included"
    receipt = last.messages[4].parts[0].tool_result
    assert (receipt.id, receipt.approval_request_seq, receipt.approval_decision_seq) == ("b1", 4, 5)


async def test_a_turn_that_is_cut_anywhere_goes_on_where_its_record_ends(example: Harness, loopback: str) -> None:
    whole = two_tools()
    whole.decisions = {"b1": True}
    async with serving(example, loopback) as channel:
        await whole.drive(channel)
        for cut in range(len(whole.record)):
            one = two_tools()
            one.decisions = {"b1": True}
            assert await one.drive(channel, cut=cut) == "cut"
            assert len(one.record) == cut
            assert await one.drive(channel) == "completed"
            assert one.record == whole.record
            assert len(one.model_calls) == 3, "no model was asked twice"


async def test_a_replay_asks_nothing_anew(example: Harness, loopback: str) -> None:
    one = two_tools()
    one.decisions = {"b1": True}
    async with serving(example, loopback) as channel:
        await one.drive(channel)
        asked = (len(one.model_calls), len(one.tool_calls))
        for _ in range(5):
            assert await one.drive(channel) == "completed"
    assert (len(one.model_calls), len(one.tool_calls)) == asked


@pytest.mark.parametrize("approved", [True, False])
async def test_a_gated_tool_parks_the_turn_and_its_decision_drives_it_on(
    example: Harness, loopback: str, approved: bool
) -> None:
    one = two_tools()
    async with serving(example, loopback) as channel:
        assert await one.drive(channel) == "parked"
        assert await one.drive(channel) == "parked"
        one.decisions["b1"] = approved
        assert await one.drive(channel) == "completed"
    told = one.model_calls[-1].messages[-1].parts[0].tool_result
    assert told.is_error is not approved
    assert [call.tool for call in one.tool_calls] == ["weather"] + ["book_hut"] * approved
    assert len(one.model_calls) == 3


async def test_calls_that_a_model_makes_together_run_in_its_order_every_time(example: Harness, loopback: str) -> None:
    together = [messages.tool_call("weather", {"place": f"peak {n}"}, id=f"w{n}") for n in range(16)]
    one = world(calls(*together), messages.assistant("All sunny"))
    async with serving(example, loopback) as channel:
        assert await one.drive(channel) == "completed"
        assert [call.id for call in one.tool_calls] == [call.id for call in together]
        for cut in (1, 2, 9, 16, 17):
            del one.record[cut:]
            one.model_calls = one.model_calls[:1]
            assert await one.drive(channel) == "completed"


async def test_gated_calls_that_a_model_makes_together_are_decided_one_by_one(example: Harness, loopback: str) -> None:
    together = [messages.tool_call("book_hut", {"hut": f"h{n}", "persons": n}, id=f"b{n}") for n in range(3)]
    one = world(calls(*together), messages.assistant("Two of three"))
    async with serving(example, loopback) as channel:
        for call, approved in zip(together, (True, False, True), strict=True):
            assert await one.drive(channel) == "parked"
            one.decisions[call.id] = approved
        assert await one.drive(channel) == "completed"
    assert [call.id for call in one.tool_calls] == ["b0", "b2"]


async def test_a_later_turn_tells_the_model_the_whole_conversation(example: Harness, loopback: str) -> None:
    said = calls(WEATHER, text="I look")
    result = v1.ToolResult(id="w1", output=messages.struct({"result": "sun"}))
    history = [
        v1.Event(kind=v1.EVENT_EXECUTION_START, execution_id="e1"),
        v1.Event(kind=v1.EVENT_INPUT, execution_id="e1", message=messages.user("and the weather?")),
        v1.Event(kind=v1.EVENT_OUTPUT, execution_id="e1", message=said),
        v1.Event(kind=v1.EVENT_TOOL_CALL, execution_id="e1", tool=WEATHER),
        v1.Event(kind=v1.EVENT_TOOL_RESULT, execution_id="e1", result=result),
        v1.Event(kind=v1.EVENT_OUTPUT, execution_id="e1", message=messages.assistant("Sunny")),
        v1.Event(kind=v1.EVENT_END, execution_id="e1"),
    ]
    one = world(messages.assistant("You are welcome"))
    one.start = v1.StartFrame(history=history, inputs=[messages.user("thanks")])
    async with serving(example, loopback) as channel:
        assert await one.drive(channel) == "completed"
    assert list(one.model_calls[0].messages) == [
        messages.user("and the weather?"),
        said,
        messages.tool_result(result),
        messages.assistant("Sunny"),
        messages.user("thanks"),
    ]


async def test_a_tool_that_nobody_offered_is_the_models_mistake(example: Harness, loopback: str) -> None:
    one = world(calls(messages.tool_call("fly", {}, id="f1")), messages.assistant("Then we walk"))
    async with serving(example, loopback) as channel:
        assert await one.drive(channel) == "completed"
    told = one.model_calls[1].messages[-1].parts[0].tool_result
    assert told.id == "f1"
    assert told.is_error
    assert one.tool_calls == []


async def test_a_model_that_never_stops_calling_is_stopped(example: Harness, loopback: str) -> None:
    again = [calls(messages.tool_call("weather", {"place": "x"}, id=f"w{n}")) for n in range(STEPS_MAX * 10)]
    one = world(*again)
    async with serving(example, loopback) as channel:
        assert await one.drive(channel) not in {"completed", "parked"}
