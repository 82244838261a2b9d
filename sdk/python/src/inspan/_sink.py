"""The sink whose host is at the other end of a stream."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from inspan import messages, v1
from inspan.contract import (
    Completion,
    Failed,
    InvalidRequestError,
    Parked,
    Sink,
    SinkClosedError,
    SinkError,
    Start,
    ToolReply,
)

if TYPE_CHECKING:
    from inspan._connect import Stream

DESCRIPTION_CHARS_MAX: Final = 8192
"""Of a failure's text: it is journaled."""

MEDIATED: Final = v1.MEDIATION_CONTROLLER_MEDIATED
APPROVAL: Final = v1.MEDIATION_REQUIRES_APPROVAL


class WireSink(Sink):
    """A sink that asks over a stream, one request at a time.

    Three states end it for good, and each is told to every later operation: parked, failed, closed.
    """

    def __init__(self, start: Start, stream: Stream) -> None:
        self._start = start
        self._stream = stream
        self._turn = asyncio.Lock()
        self._closed = asyncio.get_running_loop().create_future()
        self._failure: str | None = None
        self._parked: v1.ApprovalRef | None = None
        self._models = 0
        self._tools = 0

    async def model(
        self,
        conversation: Iterable[v1.Message],
        *,
        model: str = "",
        params: Mapping[str, str] | None = None,
        tools: Iterable[v1.ToolDefinition] = (),
        tool_choice: v1.ToolChoice | None = None,
    ) -> Completion:
        if tool_choice is not None and tool_choice.mode not in v1.ToolChoice.Mode.values():
            raise InvalidRequestError(f"tool choice mode {tool_choice.mode} is not one of this contract")
        call = v1.ModelCall(model=model, messages=conversation, params=params, tools=tools, tool_choice=tool_choice)
        async with self._operation():
            self._models += 1
            call.id = f"model-{self._models}"
            await self._stream.write(self._event(kind=v1.EVENT_MODEL_CALL, model=call))
            reply = (await self._frame("model")).model
            if reply.model_call_id != call.id:
                self._break(f"a completion came for model call {reply.model_call_id!r} while {call.id!r} waited")
            if not reply.HasField("message"):
                self._break(f"the completion of model call {call.id!r} has no message")
            return Completion(reply.message, reply.usage if reply.HasField("usage") else None)

    async def output(self, text: str) -> None:
        event = self._event(kind=v1.EVENT_OUTPUT, message=messages.assistant(text))
        async with self._operation():
            await self._stream.write(event)

    async def tool(
        self, call: v1.ToolCall, *, mediation: v1.Mediation | None = None, idempotency_key: str | None = None
    ) -> ToolReply:
        call = messages.copied(call)
        call.mediation = mediation or call.mediation or MEDIATED
        call.idempotency_key = idempotency_key or call.idempotency_key
        if call.mediation not in {MEDIATED, APPROVAL}:
            raise InvalidRequestError("a tool that the harness runs itself is told with report, not called with tool")
        if call.mediation == APPROVAL and not call.id:
            raise InvalidRequestError("a call that needs approval needs an id: the decision names it")
        async with self._operation():
            self._tools += 1
            call.idempotency_key = call.idempotency_key or f"{self._start.execution_id}/{self._tools}"
            await self._stream.write(self._event(kind=v1.EVENT_TOOL_CALL, tool=call))
            return await (self._gated(call) if call.mediation == APPROVAL else self._mediated(call))

    async def report(self, result: v1.ToolResult) -> None:
        event = self._event(kind=v1.EVENT_TOOL_RESULT, result=result)
        async with self._operation():
            if is_host_owned(event.result):
                self._break("a reported result carries what is host-owned: approval seqs or APPROVAL_DENIED")
            await self._stream.write(event)

    async def usage(self, usage: v1.Usage) -> None:
        event = self._event(kind=v1.EVENT_USAGE, usage=usage)
        async with self._operation():
            await self._stream.write(event)

    def close(self) -> None:
        """Interrupts what waits and refuses what comes (W-10)."""
        if not self._closed.done():
            self._closed.set_result(None)

    def terminal(self, ended: BaseException | None) -> v1.Event:
        """The one event that may follow a run which raised `ended` (W-5, and step 4 of the park exchange)."""
        if self._failure is not None:
            return self._end("FAILED", self._failure)
        if self._parked is not None and (ended is None or is_park(ended, self._parked)):
            return self._event(kind=v1.EVENT_PARKED, parked=self._parked)
        if ended is not None:
            return self._end("FAILED", described(ended))
        return self._end("COMPLETED", None)

    @contextlib.asynccontextmanager
    async def _operation(self) -> AsyncIterator[None]:
        """One operation: it waits for its turn, and what it leaves behind half done breaks the sink."""
        async with self._turn:
            self._check()
            try:
                yield
            except (SinkError, Parked):
                raise
            except asyncio.CancelledError:
                # Its answer may still come and would be taken for the answer to the next request.
                self._failure = self._failure or "an operation was cancelled before the host had answered it"
                raise
            except Exception as error:
                self._break(f"the stream to the host broke: {described(error)}", error)

    def _check(self) -> None:
        """Refuses an operation on a sink that has ended."""
        if self._parked is not None:
            raise Parked(self._parked)
        if self._failure is not None:
            raise SinkError(self._failure)
        if self._closed.done():
            raise SinkClosedError("the run has returned: its sink takes nothing more")

    def _break(self, why: str, cause: BaseException | None = None) -> NoReturn:
        """Fails this operation and all later ones, whatever the harness makes of it."""
        self._failure = self._failure or why
        raise SinkError(self._failure) from cause

    async def _mediated(self, call: v1.ToolCall) -> ToolReply:
        """The answer to an ordinary call."""
        result = (await self._frame("tool")).tool
        self._check_id(result, call)
        if is_host_owned(result):
            self._break(f"the result of tool call {call.id!r} carries host-owned fields, but it was not gated")
        return ToolReply(result)

    async def _gated(self, call: v1.ToolCall) -> ToolReply:
        """The answer to a call that needs a decision: a park, or the decision and then its receipt."""
        frame = await self._frame("approval", "park")
        if not self._start.session:
            self._break("a host without a session cannot decide: the start frame named none")
        if frame.HasField("park"):
            self._park(frame.park, call)
        decision = frame.approval
        if decision.tool_call_id != call.id:
            self._break(f"a decision came for tool call {decision.tool_call_id!r} while {call.id!r} waited")
        if decision.request_seq <= 0:
            self._break(f"the decision on tool call {call.id!r} has request_seq {decision.request_seq}")
        result = (await self._frame("tool")).tool
        self._check_id(result, call)
        if wrong := wrong_receipt(result, decision):
            self._break(f"the receipt of tool call {call.id!r} {wrong}")
        return ToolReply(result, decision)

    def _park(self, ref: v1.ApprovalRef, call: v1.ToolCall) -> NoReturn:
        """Ends the run's work when the host's tuple is this call's (step 3 of the park exchange)."""
        if ref.execution_id != self._start.execution_id:
            self._break(f"a park came for execution {ref.execution_id!r}")
        if ref.tool_call_id != call.id:
            self._break(f"a park came for tool call {ref.tool_call_id!r} while {call.id!r} waited")
        if ref.request_seq <= 0:
            self._break(f"the park of tool call {call.id!r} has request_seq {ref.request_seq}")
        self._parked = ref
        raise Parked(ref)

    def _check_id(self, result: v1.ToolResult, call: v1.ToolCall) -> None:
        if result.id != call.id:
            self._break(f"a result came for tool call {result.id!r} while {call.id!r} waited")

    async def _frame(self, *kinds: str) -> v1.ControllerFrame:
        """The next frame, which has to be this turn's and of one of these kinds (W-1)."""
        reading = asyncio.ensure_future(self._stream.read())
        try:
            await asyncio.wait({reading, self._closed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            interrupted = reading.cancel()
        if interrupted:
            raise SinkClosedError("the run has returned: the answer is not waited for")
        frame = reading.result()
        wanted = " or ".join(kinds)
        if frame is None:
            self._break(f"the host ended the stream while a frame {wanted} was due")
        if frame.execution_id != self._start.execution_id:
            self._break(f"a frame came for execution {frame.execution_id!r}")
        if frame.session != self._start.session:
            self._break(f"a frame came for session {frame.session!r}")
        if (kind := frame.WhichOneof("frame")) not in kinds:
            self._break(f"a frame {kind or 'of no known kind'} came while {wanted} was due")
        return frame

    def _event(self, **body: Any) -> v1.Event:
        return v1.Event(execution_id=self._start.execution_id, **body)

    def _end(self, state: str, description: str | None) -> v1.Event:
        error = None if description is None else v1.Error(description=description)
        return self._event(kind=v1.EVENT_END, end=v1.HarnessEnd(state=state, error=error))


def is_host_owned(result: v1.ToolResult) -> bool:
    """Whether a result has what only a host's receipt may have (W-8)."""
    seqs = result.approval_request_seq or result.approval_decision_seq
    return bool(seqs) or result.code == v1.ToolResult.APPROVAL_DENIED


def wrong_receipt(result: v1.ToolResult, decision: v1.ApprovalResult) -> str | None:
    """What is wrong with the receipt that followed a decision (steps 3 and 4 of the decided gate)."""
    if result.approval_request_seq != decision.request_seq:
        return f"belongs to request {result.approval_request_seq}, not {decision.request_seq}"
    if result.approval_decision_seq <= 0:
        return f"has approval_decision_seq {result.approval_decision_seq}"
    outcome = (result.code, result.is_error)
    done = {(v1.ToolResult.CODE_UNSPECIFIED, False), (v1.ToolResult.EXECUTOR_ERROR, True)}
    allowed = done if decision.approved else {(v1.ToolResult.APPROVAL_DENIED, True)}
    if outcome not in allowed:
        said = "approved" if decision.approved else "denied"
        return f"has code {result.code} and is_error {result.is_error} after it was {said}"
    return None


def is_park(ended: BaseException, ref: v1.ApprovalRef) -> bool:
    """Whether a run ended by this park and by nothing else; tasks that parked together count as one."""
    # Looked up by name: exception groups are younger than the oldest Python that this runs on.
    together: tuple[BaseException, ...] | None = getattr(ended, "exceptions", None)
    if together is not None:
        return all(is_park(one, ref) for one in together)
    return isinstance(ended, Parked) and ended.ref == ref


def described(error: BaseException) -> str:
    """The text of a failure, fit for a journal."""
    text = str(error)
    if not isinstance(error, Failed | SinkError) or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text[:DESCRIPTION_CHARS_MAX].encode(errors="replace").decode()
