"""Messages from text and text from messages, tool calls and their results, plain Python values from the wire's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from google.protobuf import struct_pb2

from inspan import v1

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
"""What arguments, results and schemas are made of."""

INTERRUPTED = "the turn ended before this call had a result"


def user(content: str) -> v1.Message:
    """A user's message of one text part."""
    return message("user", content)


def system(content: str) -> v1.Message:
    """A system message of one text part."""
    return message("system", content)


def assistant(content: str) -> v1.Message:
    """An assistant's message of one text part."""
    return message("assistant", content)


def message(role: str, content: str) -> v1.Message:
    """A message of one text part."""
    return v1.Message(role=role, parts=[text_part(content)])


def text_part(content: str) -> v1.Part:
    """A part that is text; empty text is a part too."""
    return v1.Part(text=v1.TextPart(text=content))


def text(said: v1.Message) -> str:
    """The text parts of a message, joined; other parts are left out."""
    return "".join(part.text.text for part in said.parts if part.HasField("text"))


def tool_calls(said: v1.Message) -> list[v1.ToolCall]:
    """Copies of the tool calls in a message, in order."""
    return [copied(part.tool_call) for part in said.parts if part.HasField("tool_call")]


def copied(call: v1.ToolCall) -> v1.ToolCall:
    """Another message that is equal: a completion's own parts stay as they were recorded."""
    copy = v1.ToolCall()
    copy.CopyFrom(call)
    return copy


def tool_call(tool: str, args: Mapping[str, Json] | None = None, *, id: str = "") -> v1.ToolCall:
    """A call for `Sink.tool`. No args and empty args are two different calls."""
    return v1.ToolCall(id=id, tool=tool, args=None if args is None else struct(args))


def tool_definition(name: str, description: str, schema: Mapping[str, Json]) -> v1.ToolDefinition:
    """A tool to offer to a model; `schema` is the JSON schema of its arguments."""
    return v1.ToolDefinition(name=name, description=description, input_schema=struct(schema))


def tool_result(result: v1.ToolResult) -> v1.Message:
    """The message that answers a tool call: role `tool`, the result as one part."""
    return v1.Message(role="tool", parts=[v1.Part(tool_result=result)])


def result_text(result: v1.ToolResult) -> str:
    """What a result says: its text content, else its error, else its output as JSON."""
    said = "".join(part.text.text for part in result.content if part.HasField("text"))
    if said or result.error:
        return said or result.error
    if result.HasField("output"):
        return json_text(plain(result.output))
    return result.output_uri


@dataclass(slots=True)
class _Asked:
    """A message, and for each tool call in it the result that was recorded."""

    execution_id: str
    message: v1.Message
    results: dict[str, v1.ToolResult | None]

    def is_open_for(self, event: v1.Event) -> bool:
        """Whether this message waits for the result in `event`."""
        missing = object()
        return event.execution_id == self.execution_id and self.results.get(event.result.id, missing) is None

    def said(self) -> Iterator[v1.Message]:
        """The message, then what answers it."""
        yield self.message
        for call_id, result in self.results.items():
            yield tool_result(result or v1.ToolResult(id=call_id, is_error=True, error=INTERRUPTED))


def conversation(history: Iterable[v1.Event]) -> list[v1.Message]:
    """The messages of a session's past turns, as a model wants them.

    These are the inputs and the outputs in the order in which they were recorded, each output that calls tools followed
    by the recorded results. A call without one, because its turn was cut short, is answered with an error, since models
    refuse a call that nothing answers.
    """
    asked: list[_Asked] = []
    for event in history:
        if event.kind in {v1.EVENT_INPUT, v1.EVENT_OUTPUT} and event.HasField("message"):
            calls = tool_calls(event.message)
            asked.append(_Asked(event.execution_id, event.message, {call.id: None for call in calls}))
        elif event.kind == v1.EVENT_TOOL_RESULT:
            waiting = next((earlier for earlier in reversed(asked) if earlier.is_open_for(event)), None)
            if waiting is not None:
                waiting.results[event.result.id] = event.result
    return [said for one in asked for said in one.said()]


def struct(values: Mapping[str, Json]) -> struct_pb2.Struct:
    """The wire's form of a JSON object.

    Raises TypeError for a value that JSON does not have, ValueError for a number that it cannot carry: not finite,
    or an integer beyond 2^53 - 1, which would come back as another one.
    """
    return struct_pb2.Struct(fields={key: wire_value(value) for key, value in values.items()})


INTEGER_MAX = 2**53 - 1


def wire_value(value: Json) -> struct_pb2.Value:
    """The wire's form of a JSON value."""
    if value is None:
        return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, int | float):
        return struct_pb2.Value(number_value=wire_number(value))
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    if isinstance(value, Mapping):
        return struct_pb2.Value(struct_value=struct(value))
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return struct_pb2.Value(list_value=struct_pb2.ListValue(values=[wire_value(item) for item in value]))
    raise TypeError(f"JSON has no {type(value).__name__}")


def wire_number(value: float) -> float:
    """A number as the double that the wire carries."""
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise ValueError("an integer beyond 2^53 - 1 would not arrive as it is: pass it as a string")
    if not math.isfinite(value):
        raise ValueError("JSON has no infinity and no NaN")
    return float(value)


def plain(values: struct_pb2.Struct) -> dict[str, Json]:
    """A plain dict from the wire's form of a JSON object. Whole numbers come back as `int`."""
    return {key: plain_value(value) for key, value in values.fields.items()}


def plain_value(value: struct_pb2.Value) -> Json:
    """A plain value from the wire's form of a JSON value."""
    match value.WhichOneof("kind"):
        case "struct_value":
            return plain(value.struct_value)
        case "list_value":
            return [plain_value(item) for item in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) <= INTEGER_MAX else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case _:
            return None


def json_text(value: Json) -> str:
    """A JSON text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
