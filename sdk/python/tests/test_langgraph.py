"""The bridge to LangChain: what goes over it and comes back is what was recorded."""

from typing import Any

import pytest
from played import calls

from inspan import InvalidRequestError, messages, v1

pytest.importorskip("langchain_core", reason="langchain_core cannot be imported: install the extra inspan[langgraph]")

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from scripted import turn

from inspan import Sink, Start
from inspan.langgraph import ChatModel, chosen, from_wire, host_tool, to_wire

FILE = v1.Part(file=v1.FilePart(mime="image/png", bytes=b"\x89PNG", name="hut.png", digest="sha256:00"))
LINK = v1.Part(file=v1.FilePart(mime="application/pdf", uri="https://example.com/map.pdf"))
DATA = v1.Part(data=v1.DataPart(data=messages.struct({"b": 1, "a": [2.5]})))
REASONING = v1.Part(reasoning=v1.ReasoningPart(provider="p", opaque_bytes=b"\xff\x00"))

RECORDED = {
    "text": messages.user("hello"),
    "no text": v1.Message(role="user"),
    "two texts": v1.Message(role="user", parts=[messages.text_part("a"), messages.text_part("b")]),
    "files and data": v1.Message(role="user", parts=[messages.text_part("look"), FILE, LINK, DATA]),
    "a system message": messages.system("be brief"),
    "reasoning": v1.Message(role="assistant", parts=[REASONING, messages.text_part("so"), REASONING]),
    "calls": calls(messages.tool_call("t", {"n": 2, "f": 1.5}, id="1"), messages.tool_call("u", id="2"), text="I look"),
    "a result": messages.tool_result(v1.ToolResult(id="1", output=messages.struct({"n": 1}), content=[FILE])),
    "a receipt": messages.tool_result(
        v1.ToolResult(
            id="1",
            is_error=True,
            error="no",
            code=v1.ToolResult.APPROVAL_DENIED,
            approval_request_seq=4,
            approval_decision_seq=5,
        )
    ),
}


@pytest.mark.parametrize("said", RECORDED.values(), ids=list(RECORDED))
def test_what_was_recorded_goes_back_unchanged(said: v1.Message) -> None:
    (message,) = from_wire(said)
    assert to_wire(message) == said
    stored = type(message).model_validate(message.model_dump())
    assert to_wire(stored) == said, "also through what a graph keeps it in"


def test_what_was_edited_goes_back_edited() -> None:
    (human,) = from_wire(messages.user("hello"))
    human.content = "hello there"
    assert to_wire(human) == messages.user("hello there")
    (ai,) = from_wire(RECORDED["calls"])
    assert isinstance(ai, AIMessage)
    ai.tool_calls = ai.tool_calls[:1]
    assert [call.id for call in messages.tool_calls(to_wire(ai))] == ["1"]
    (told,) = from_wire(RECORDED["a result"])
    told.content = "shortened"
    assert messages.result_text(to_wire(told).parts[0].tool_result) == "shortened"


def test_messages_that_were_never_recorded() -> None:
    said: list[tuple[BaseMessage, v1.Message]] = [
        (SystemMessage("s"), messages.system("s")),
        (HumanMessage("h"), messages.user("h")),
        (AIMessage("a"), messages.assistant("a")),
        (
            AIMessage("", tool_calls=[{"name": "t", "args": {"n": 2}, "id": "1"}]),
            calls(messages.tool_call("t", {"n": 2}, id="1")),
        ),
        (
            HumanMessage(
                [{"type": "text", "text": "x"}, {"type": "image", "base64": "iVBORw==", "mime_type": "image/png"}]
            ),
            v1.Message(
                role="user",
                parts=[messages.text_part("x"), v1.Part(file=v1.FilePart(mime="image/png", bytes=b"\x89PNG"))],
            ),
        ),
        (
            ToolMessage("bad", tool_call_id="1", status="error"),
            messages.tool_result(
                v1.ToolResult(id="1", is_error=True, error="bad", content=[messages.text_part("bad")])
            ),
        ),
    ]
    for message, wanted in said:
        assert to_wire(message) == wanted


def test_what_no_model_takes_is_refused() -> None:
    with pytest.raises(TypeError, match="RemoveMessage"):
        to_wire(RemoveMessage(id="x"))
    with pytest.raises(TypeError, match="non_standard"):
        to_wire(HumanMessage([{"type": "non_standard", "value": {"type": "sticker"}}]))


MODES = v1.ToolChoice
CHOICES: list[tuple[Any, v1.ToolChoice | None]] = [
    (None, None),
    (False, None),
    ("auto", MODES(mode=MODES.MODE_AUTO)),
    ("none", MODES(mode=MODES.MODE_NONE)),
    ("any", MODES(mode=MODES.MODE_REQUIRED)),
    ("required", MODES(mode=MODES.MODE_REQUIRED)),
    (True, MODES(mode=MODES.MODE_REQUIRED)),
    ("look", MODES(mode=MODES.MODE_REQUIRED, name="look")),
    ({"type": "function", "function": {"name": "look"}}, MODES(mode=MODES.MODE_REQUIRED, name="look")),
]


@pytest.mark.parametrize(("choice", "wanted"), CHOICES, ids=[str(choice) for choice, _ in CHOICES])
def test_every_spelling_of_a_tool_choice(choice: Any, wanted: v1.ToolChoice | None) -> None:
    assert chosen(choice) == wanted


def test_a_tool_choice_of_no_known_spelling_is_refused() -> None:
    with pytest.raises(ValueError, match="chooses no tool"):
        chosen({"type": "anything"})


@tool
def look(place: str, floors: int = 2) -> str:
    """Looks at a place."""
    raise AssertionError("the tool's own code does not run")


async def test_a_bound_model_asks_the_host(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        model = ChatModel(sink=sink, model="m", params={"temperature": "0"})
        bound = model.bind_tools([host_tool(look, sink)], tool_choice="any")
        answer = await bound.ainvoke([SystemMessage("s"), HumanMessage("h")])
        assert isinstance(answer, AIMessage)
        assert answer.content == "hi"
        chunks = [chunk.content async for chunk in model.astream("again")]
        assert "".join(str(chunk) for chunk in chunks) == "streamed"

    async with turn(run, loopback) as one:
        call = await one.answer_model("hi")
        assert (call.model, dict(call.params)) == ("m", {"temperature": "0"})
        assert list(call.messages) == [messages.system("s"), messages.user("h")]
        assert call.tool_choice.mode == MODES.MODE_REQUIRED
        (offered,) = call.tools
        assert (offered.name, offered.description) == ("look", "Looks at a place.")
        schema = messages.plain(offered.input_schema)
        assert schema["required"] == ["place"]
        await one.answer_model("streamed")
        await one.completed()


async def test_a_host_tool_is_run_by_the_host(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        told = await host_tool(look, sink).ainvoke(
            {"type": "tool_call", "name": "look", "args": {"place": "x"}, "id": "1"}
        )
        assert isinstance(told, ToolMessage)
        assert (told.content, told.tool_call_id, told.status, told.name) == ("seen", "1", "success", "look")
        failed = await host_tool(look, sink).ainvoke({"type": "tool_call", "name": "look", "args": {}, "id": "2"})
        assert (failed.content, failed.status) == ("where?", "error")
        assert await host_tool(look, sink).ainvoke({"place": "y"}) == "seen"
        with pytest.raises(InvalidRequestError, match="needs an id"):
            await host_tool(look, sink, approval=True).ainvoke({"place": "y"})

    seen = [messages.text_part("seen")]
    async with turn(run, loopback) as one:
        call = await one.answer_tool(content=seen)
        assert (call.id, call.tool, messages.plain(call.args)) == ("1", "look", {"place": "x"})
        assert call.mediation == v1.MEDIATION_CONTROLLER_MEDIATED
        await one.answer_tool(is_error=True, error="where?")
        assert (await one.answer_tool(content=seen)).id == ""
        await one.completed()


async def test_what_a_turn_cannot_do_is_refused_at_once(loopback: str) -> None:
    async def run(start: Start, sink: Sink) -> None:
        model = ChatModel(sink=sink)
        with pytest.raises(TypeError, match="async"):
            model.invoke("x")
        with pytest.raises(TypeError, match="async"):
            host_tool(look, sink).invoke({"place": "x"})
        with pytest.raises(ValueError, match="stop, temperature"):
            await model.ainvoke("x", stop=["."], temperature=1)

    async with turn(run, loopback) as one:
        await one.completed()
