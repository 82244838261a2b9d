"""Helpers that turn text, JSON and journals into what the wire carries, and back."""

import math

import pytest

from inspan import messages, v1

VALUES: dict[str, messages.Json] = {
    "nothing": None,
    "yes": True,
    "whole": 3,
    "negative": -7,
    "part": 1.5,
    "largest": 2**53 - 1,
    "text": "zwei \U0001f402",
    "list": [1, [2, {}], "x", None],
    "object": {"a": {"b": []}},
}


def test_json_values_come_back_as_they_went() -> None:
    back = messages.plain(messages.struct(VALUES))
    assert back == VALUES
    assert isinstance(back["whole"], int)
    assert isinstance(back["part"], float)
    assert back["yes"] is True


@pytest.mark.parametrize("value", [2**53, -(2**53), math.inf, -math.inf, math.nan])
def test_numbers_that_would_arrive_as_others_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"2\^53|infinity"):
        messages.struct({"n": value})


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object()])
def test_what_json_does_not_have_is_refused(value: messages.Json) -> None:
    with pytest.raises(TypeError, match="JSON has no"):
        messages.struct({"x": [value]})


def test_absent_and_empty_arguments_are_two_things() -> None:
    """R-TOOL-8."""
    assert not messages.tool_call("t").HasField("args")
    assert messages.tool_call("t", {}).HasField("args")


def test_a_results_text_is_its_content_or_its_error_or_its_output() -> None:
    result = v1.ToolResult
    assert messages.result_text(result(content=[messages.text_part("a"), messages.text_part("b")], error="e")) == "ab"
    assert messages.result_text(result(error="e", output=messages.struct({}))) == "e"
    assert messages.result_text(result(output=messages.struct({"b": 1, "a": "ä"}))) == '{"a":"ä","b":1}'
    assert messages.result_text(result(output_uri="blob:x")) == "blob:x"
    assert messages.result_text(result()) == ""


def event(kind: v1.EventKind, execution: str, body: v1.Message | v1.ToolResult | None = None) -> v1.Event:
    if isinstance(body, v1.ToolResult):
        return v1.Event(kind=kind, execution_id=execution, result=body)
    return v1.Event(kind=kind, execution_id=execution, message=body)


def calling(*ids: str) -> v1.Message:
    parts = [v1.Part(tool_call=v1.ToolCall(id=call_id, tool="t")) for call_id in ids]
    return v1.Message(role="assistant", parts=parts)


def test_a_conversation_has_inputs_outputs_and_results_and_nothing_else() -> None:
    history = [
        event(v1.EVENT_EXECUTION_START, "a"),
        event(v1.EVENT_INPUT, "a", messages.user("hi")),
        event(v1.EVENT_MODEL_CALL, "a"),
        event(v1.EVENT_OUTPUT, "a", messages.assistant("hello")),
        event(v1.EVENT_USAGE, "a"),
        event(v1.EVENT_END, "a"),
        v1.Event(kind=v1.EVENT_LIFECYCLE),
        event(v1.EVENT_INPUT, "b", messages.user("again")),
        event(v1.EVENT_ERROR, "b"),
    ]
    assert messages.conversation(history) == [messages.user("hi"), messages.assistant("hello"), messages.user("again")]


def test_results_follow_the_message_that_asked_for_them() -> None:
    """Whatever was recorded in between: models want the answers right behind the calls."""
    one, two = v1.ToolResult(id="1", error="e"), v1.ToolResult(id="2")
    history = [
        event(v1.EVENT_OUTPUT, "a", calling("1", "2")),
        event(v1.EVENT_OUTPUT, "a", messages.assistant("working on it")),
        event(v1.EVENT_TOOL_RESULT, "a", two),
        event(v1.EVENT_TOOL_RESULT, "a", one),
        event(v1.EVENT_TOOL_RESULT, "a", v1.ToolResult(id="reported, and nobody asked")),
    ]
    answers = [messages.tool_result(one), messages.tool_result(two)]
    assert messages.conversation(history) == [calling("1", "2"), *answers, messages.assistant("working on it")]


def test_a_call_that_nothing_answered_is_answered_with_an_error() -> None:
    """And a later turn's result of the same id is not taken for it."""
    late = v1.ToolResult(id="1")
    history = [
        event(v1.EVENT_OUTPUT, "a", calling("1")),
        event(v1.EVENT_ERROR, "a"),
        event(v1.EVENT_INPUT, "b", messages.user("next")),
        event(v1.EVENT_TOOL_RESULT, "b", late),
    ]
    asked, answer, following = messages.conversation(history)
    assert asked == calling("1")
    assert answer.parts[0].tool_result.is_error
    assert answer.parts[0].tool_result.id == "1"
    assert following == messages.user("next")
