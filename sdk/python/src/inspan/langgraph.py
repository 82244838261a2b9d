"""A chat model and tools for LangGraph and LangChain that go through a sink, so that a graph's turns are durable.

Needs the extra `inspan[langgraph]`. A graph that is built with `ChatModel` in place of its model and `host_tool` around
each of its tools does nothing else to the world, so a turn of it can be replayed and resumed. It runs async only.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict

from inspan import messages, v1
from inspan.contract import Sink, Start

AS_RECORDED: Final = "inspan"
"""Where a message of LangChain keeps the recorded one."""

ROLES: Final = ((SystemMessage, "system"), (HumanMessage, "user"), (AIMessage, "assistant"))

ASYNC_ONLY: Final = "a turn is async: use ainvoke or astream"


class ChatModel(BaseChatModel):
    """A chat model whose calls the host makes and records."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    sink: Sink
    """The turn's sink."""
    model: str = ""
    """The model to ask for."""
    params: dict[str, str] = {}  # noqa: RUF012 - pydantic copies a default
    """Provider parameters of every call."""

    @property
    def _llm_type(self) -> str:
        return "inspan"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The same model with tools to call."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], tool_choice=tool_choice, **kwargs)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        *,
        tools: Sequence[dict[str, Any]] = (),
        tool_choice: str | dict[str, Any] | bool | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if stop or kwargs:
            unknown = ", ".join(["stop"] * bool(stop) + sorted(kwargs))
            raise ValueError(f"the host would not see {unknown}: put provider parameters into ChatModel.params")
        completion = await self.sink.model(
            [to_wire(message) for message in messages],
            model=self.model,
            params=self.params,
            tools=[offered(tool["function"]) for tool in tools],
            tool_choice=chosen(tool_choice),
        )
        return ChatResult(generations=[ChatGeneration(message=ai_message(completion.message))])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise TypeError(ASYNC_ONLY)


class HostTool(BaseTool):
    """A tool that the host runs. It has the name, the description and the arguments of the tool that it stands for."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    sink: Sink
    """The turn's sink."""
    approval: bool = False
    """Whether a person has to say yes first."""

    async def ainvoke(
        self,
        input: str | dict[str, Any] | Any,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Answers a model's call with a ToolMessage, and plain arguments with the result's text."""
        if not isinstance(input, dict):
            raise TypeError(f"the arguments of {self.name} are an object")
        called = input.get("type") == "tool_call"
        args, call_id = (input["args"], input["id"] or "") if called else (input, "")
        mediation = v1.MEDIATION_REQUIRES_APPROVAL if self.approval else v1.MEDIATION_CONTROLLER_MEDIATED
        reply = await self.sink.tool(messages.tool_call(self.name, args, id=call_id), mediation=mediation)
        return tool_message(reply.result, self.name) if called else messages.result_text(reply.result)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(ASYNC_ONLY)


def host_tool(tool: BaseTool, sink: Sink, *, approval: bool = False) -> HostTool:
    """`tool` as the host runs it: its own code is not used. With `approval` a person has to say yes first."""
    return HostTool(
        name=tool.name, description=tool.description, args_schema=tool.args_schema, sink=sink, approval=approval
    )


def conversation(start: Start) -> list[BaseMessage]:
    """The session's conversation and the turn's inputs, as LangChain's messages."""
    return [message for said in start.conversation() for message in from_wire(said)]


def from_wire(said: v1.Message) -> list[BaseMessage]:
    """A message as LangChain has it; one with several tool results is several there."""
    match said.role:
        case "system":
            return [SystemMessage(messages.text(said), additional_kwargs=as_recorded(said))]
        case "assistant":
            return [ai_message(said)]
        case "tool":
            return [tool_message(part.tool_result) for part in said.parts if part.HasField("tool_result")]
        case _:
            return [HumanMessage(content(said), additional_kwargs=as_recorded(said))]


def ai_message(said: v1.Message) -> AIMessage:
    """An assistant's message."""
    calls = [
        {"name": call.tool, "args": messages.plain(call.args), "id": call.id, "type": "tool_call"}
        for call in messages.tool_calls(said)
    ]
    return AIMessage(messages.text(said), tool_calls=calls, additional_kwargs=as_recorded(said))


def content(said: v1.Message) -> str | list[str | dict[str, Any]]:
    """Text as text, anything more as blocks."""
    if all(part.HasField("text") for part in said.parts):
        return messages.text(said)
    return [block(part) for part in said.parts if part.WhichOneof("part") in {"text", "file", "data"}]


def as_recorded(message: v1.Message | v1.ToolResult) -> dict[str, Any]:
    """What a message carries along to go back unchanged: kinds of parts that LangChain lacks, opaque reasoning."""
    return {AS_RECORDED: base64.b64encode(message.SerializeToString(deterministic=True)).decode()}


def tool_message(result: v1.ToolResult, name: str | None = None) -> ToolMessage:
    """A tool's result, with what it was recorded as for its artifact."""
    return ToolMessage(
        messages.result_text(result),
        tool_call_id=result.id,
        name=name,
        status="error" if result.is_error else "success",
        artifact=as_recorded(result),
    )


def block(part: v1.Part) -> dict[str, Any]:
    """A part as a content block."""
    if part.HasField("text"):
        return {"type": "text", "text": part.text.text}
    if part.HasField("data"):
        return {"type": "text", "text": messages.json_text(messages.plain(part.data.data))}
    file = part.file
    kind = file.mime.partition("/")[0]
    source = {"url": file.uri} if file.HasField("uri") else {"base64": base64.b64encode(file.bytes).decode()}
    return {"type": kind if kind in {"image", "audio", "video"} else "file", "mime_type": file.mime, **source}


def to_wire(message: BaseMessage) -> v1.Message:
    """A message as it goes to the model. What was recorded and not edited since goes back unchanged."""
    if isinstance(message, ToolMessage):
        return messages.tool_result(wire_result(message))
    role = next((role for kind, role in ROLES if isinstance(message, kind)), None)
    if role is None:
        raise TypeError(f"a model is not sent a {type(message).__name__}")
    recorded = v1.Message()
    if was_recorded(message.additional_kwargs, recorded) and is_same(from_wire(recorded), message):
        return recorded
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    called = [messages.tool_call(call["name"], call["args"], id=call["id"] or "") for call in calls]
    return v1.Message(role=role, parts=[*wire_parts(message), *(v1.Part(tool_call=call) for call in called)])


def is_same(recorded: list[BaseMessage], message: BaseMessage) -> bool:
    """Whether a message still says what was recorded."""
    if len(recorded) != 1 or recorded[0].content != message.content:
        return False
    calls = [one.tool_calls for one in (recorded[0], message) if isinstance(one, AIMessage)]
    return not calls or calls[0] == calls[-1]


def wire_result(message: ToolMessage) -> v1.ToolResult:
    """A tool's result; one that the host did not make is its text."""
    recorded = v1.ToolResult()
    if isinstance(message.artifact, dict) and was_recorded(message.artifact, recorded):
        known = tool_message(recorded)
        if (known.content, known.tool_call_id) == (message.content, message.tool_call_id):
            return recorded
    is_error = message.status == "error"
    said = message.text
    return v1.ToolResult(
        id=message.tool_call_id, is_error=is_error, error=said if is_error else "", content=[messages.text_part(said)]
    )


def was_recorded(beside: dict[str, Any], into: v1.Message | v1.ToolResult) -> bool:
    """Reads what was recorded from beside a message, if it is there."""
    try:
        into.ParseFromString(base64.b64decode(beside[AS_RECORDED]))
    except (KeyError, TypeError, ValueError, DecodeError):
        return False
    return True


def wire_parts(message: BaseMessage) -> list[v1.Part]:
    """The parts of a message's content; its tool calls are apart."""
    return [wire_part(one) for one in message.content_blocks if one["type"] not in {"tool_call", "reasoning"}]


def wire_part(content: Any) -> v1.Part:
    """A content block as a part."""
    kind = content["type"]
    if kind == "text":
        return messages.text_part(content["text"])
    mime = content.get("mime_type", "")
    if kind in {"image", "audio", "video", "file"} and "base64" in content:
        return v1.Part(file=v1.FilePart(mime=mime, bytes=base64.b64decode(content["base64"])))
    if kind in {"image", "audio", "video", "file"} and "url" in content:
        return v1.Part(file=v1.FilePart(mime=mime, uri=content["url"]))
    raise TypeError(f"a model is not sent content of type {kind}")


def offered(function: dict[str, Any]) -> v1.ToolDefinition:
    """A tool as it is offered to the model."""
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return messages.tool_definition(function["name"], function.get("description", ""), parameters)


def chosen(choice: str | dict[str, Any] | bool | None) -> v1.ToolChoice | None:
    """A tool choice in any of the spellings that LangChain's models take."""
    mode = v1.ToolChoice
    match choice:
        case None | False:
            return None
        case "auto":
            return mode(mode=mode.MODE_AUTO)
        case "none":
            return mode(mode=mode.MODE_NONE)
        case "any" | "required" | True:
            return mode(mode=mode.MODE_REQUIRED)
        case str(name) | {"function": {"name": str(name)}}:
            return mode(mode=mode.MODE_REQUIRED, name=name)
        case _:
            raise ValueError(f"{choice} chooses no tool")
