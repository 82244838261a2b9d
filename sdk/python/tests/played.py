"""A host in miniature: it plays a model and tools, keeps what it answered, and serves that when a turn runs again.

What a turn asks is compared with what it asked before, byte for byte, as a real host compares it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
from scripted import EXECUTION, SESSION, Turn

from inspan import messages, v1

ANSWERED = (v1.EVENT_MODEL_CALL, v1.EVENT_TOOL_CALL)


@dataclass
class Effect:
    """What was asked and the frames that answered it; none while a call waits for a decision."""

    asked: bytes
    frames: list[dict[str, Any]]


@dataclass
class World:
    """The model, the tools, and the record of one turn."""

    completions: Sequence[v1.Message]
    tools: dict[str, Callable[[dict[str, messages.Json]], messages.Json]] = field(default_factory=dict)
    start: v1.StartFrame = field(default_factory=v1.StartFrame)
    record: list[Effect] = field(default_factory=list)
    decisions: dict[str, bool] = field(default_factory=dict)
    model_calls: list[v1.ModelCall] = field(default_factory=list)
    tool_calls: list[v1.ToolCall] = field(default_factory=list)

    async def drive(self, channel: grpc.aio.Channel, *, cut: int | None = None) -> str:
        """Drives the turn: `completed`, `parked`, the description of a failure, or `cut` before answer number `cut`."""
        one = Turn(channel, SESSION, EXECUTION)
        await one.send(start=self.start)
        position = 0
        while True:
            event = await one.call.read()
            assert isinstance(event, v1.Event), "the stream ended without a terminal event"
            if event.kind == v1.EVENT_END:
                await one.ended()
                return "completed" if event.end.state == "COMPLETED" else event.end.error.description
            if position == cut:
                one.call.cancel()
                return "cut"
            frames = self.answer(position, event)
            position += 1
            if frames is None:
                ref = v1.ApprovalRef(execution_id=EXECUTION, tool_call_id=event.tool.id, request_seq=position)
                await one.send(park=ref)
                await one.parked(ref)
                return "parked"
            for frame in frames:
                await one.send(**frame)

    def answer(self, position: int, event: v1.Event) -> list[dict[str, Any]] | None:
        """From the record, where there is one. None while a decision is due."""
        asked = event.SerializeToString(deterministic=True)
        if position < len(self.record):
            assert self.record[position].asked == asked, f"diverged at {position}: {event}"
            return self.record[position].frames
        frames = self.live(position, event)
        if frames is not None:
            self.record.append(Effect(asked, frames))
        return frames

    def live(self, position: int, event: v1.Event) -> list[dict[str, Any]] | None:
        if event.kind == v1.EVENT_MODEL_CALL:
            self.model_calls.append(event.model)
            said = self.completions[len(self.model_calls) - 1]
            return [{"model": v1.ModelResult(message=said, model_call_id=event.model.id)}]
        if event.kind != v1.EVENT_TOOL_CALL:
            return []
        call = event.tool
        if call.mediation != v1.MEDIATION_REQUIRES_APPROVAL:
            return [{"tool": self.result(call)}]
        if call.id not in self.decisions:
            return None
        seq, approved = position + 1, self.decisions[call.id]
        decision = v1.ApprovalResult(tool_call_id=call.id, approved=approved, request_seq=seq)
        denial = v1.ToolResult(id=call.id, is_error=True, code=v1.ToolResult.APPROVAL_DENIED, error="denied")
        receipt = self.result(call) if approved else denial
        receipt.approval_request_seq, receipt.approval_decision_seq = seq, seq + 1
        return [{"approval": decision}, {"tool": receipt}]

    def result(self, call: v1.ToolCall) -> v1.ToolResult:
        self.tool_calls.append(call)
        output = {"result": self.tools[call.tool](messages.plain(call.args))}
        return v1.ToolResult(id=call.id, output=messages.struct(output))


def calls(*calls: v1.ToolCall, text: str = "") -> v1.Message:
    """A completion that calls tools."""
    said = [messages.text_part(text)] if text else []
    return v1.Message(role="assistant", parts=[*said, *(v1.Part(tool_call=call) for call in calls)])
