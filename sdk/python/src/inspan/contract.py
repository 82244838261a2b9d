"""What a harness is: it describes itself, it runs a turn, and it reaches the world through a sink only."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from inspan import messages, v1

MEMORY: Final = v1.RESUMABILITY_REQUIRES_MEMORY_SNAPSHOT
REPLAY: Final = v1.RESUMABILITY_STATELESS_REPLAY


class SinkError(Exception):
    """A sink operation did not succeed.

    Over the wire a host has no negative reply: when a model or a tool fails there, the host ends the turn, which is
    seen here as this error or as a cancellation. So it is about the run itself, and catching it changes nothing: every
    later operation fails with the same error, and the turn ends as FAILED.
    """


class InvalidRequestError(SinkError):
    """The request broke a rule of the contract and was refused here: nothing was sent, the turn can go on."""


class SinkClosedError(SinkError):
    """The run has returned, or its turn was cancelled: nothing more can be recorded."""


class Parked(BaseException):
    """The turn waits for a person. Let it pass: return from `run` without calling anything further.

    What follows is driven from the journal when the decision is there, in this process or in another one.
    Like `asyncio.CancelledError` it is no `Exception`, so that an agent's own `except Exception` around its
    tools does not take it for a tool's failure.
    """

    def __init__(self, ref: v1.ApprovalRef) -> None:
        super().__init__(f"the turn waits for a decision on tool call {ref.tool_call_id}")
        self.ref = ref
        """What waits: execution id, tool call id and the seq of the request."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a harness is and needs. Static: a host may ask for it at any time."""

    id: str
    """A stable name of the kind of harness; not empty."""
    version: str = ""
    """Changes when the same journal would drive the harness otherwise; empty means that no one looks."""
    models: Sequence[str] = ()
    """Models that it asks for."""
    tools: Sequence[v1.ToolSpec] = ()
    """Tools that it may call, and who runs them."""
    resumability: v1.Resumability = REPLAY
    """`REPLAY` when the journal is enough to rebuild it, `MEMORY` when only its memory is."""
    fork_safe: bool = False
    """Whether a turn has no side effects that a replay cannot repeat."""
    requires_gpu: bool = False
    streaming: bool = False
    reasoning_replay: bool = False
    """Whether it hands opaque reasoning parts back to the model unchanged."""

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a descriptor needs an id: it is how a host recognises this harness")

    def to_proto(self) -> v1.HarnessDescriptor:
        """The message that Describe answers with."""
        return v1.HarnessDescriptor(
            id=self.id,
            version=self.version,
            models=self.models,
            tools=self.tools,
            capabilities=v1.Capabilities(
                resumability=self.resumability,
                fork_safe=self.fork_safe,
                requires_gpu=self.requires_gpu,
                streaming=self.streaming,
                reasoning_replay=self.reasoning_replay,
            ),
        )


@dataclass(frozen=True, slots=True)
class Start:
    """Everything that a turn starts from. A replay or a resume of the turn starts from an equal one."""

    session: str
    """The session's uid; empty on a host that has neither tools nor approvals."""
    execution_id: str
    """This turn's id, the same each time that this turn is driven."""
    config: bytes = b""
    """Opaque bytes of the caller, journaled as they came. Not a place for secrets."""
    history: Sequence[v1.Event] = ()
    """Every earlier event of the session, in journal order. Empty after a restore of memory."""
    inputs: Sequence[v1.Message] = ()
    """The turn's messages."""
    identity: v1.IdentityContext | None = None
    """On whose behalf the turn runs, when the host says so."""
    resume_from_seq: int = 0
    """The harness's own cursor."""

    @classmethod
    def from_frame(cls, frame: v1.ControllerFrame) -> Start:
        """What the first frame of a stream says."""
        start = frame.start
        return cls(
            session=frame.session,
            execution_id=frame.execution_id,
            config=start.config,
            history=tuple(start.history),
            inputs=tuple(start.inputs),
            identity=start.identity if start.HasField("identity") else None,
            resume_from_seq=start.resume_from_seq,
        )

    def conversation(self) -> list[v1.Message]:
        """The session's conversation so far and then this turn's inputs: what an agent sends to its model."""
        return [*messages.conversation(self.history), *self.inputs]


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered."""

    message: v1.Message
    """The assistant's message as the provider gave it. Put it into the next request unchanged."""
    usage: v1.Usage | None = None
    """Token counts, when the host passes them on."""

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return messages.text(self.message)

    @property
    def tool_calls(self) -> list[v1.ToolCall]:
        """Copies of the calls that it asks for, in order: changing one does not change the message."""
        return messages.tool_calls(self.message)


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What the host answered to a tool call."""

    result: v1.ToolResult
    """The result as it is recorded; a tool that failed or was denied says so with `is_error`."""
    decision: v1.ApprovalResult | None = None
    """The decision that the result followed, for a call that asked for one."""

    @property
    def denied(self) -> bool:
        """Whether a person or a policy said no: the tool was not called."""
        return self.result.code == v1.ToolResult.APPROVAL_DENIED

    @property
    def message(self) -> v1.Message:
        """The message that tells the model."""
        return messages.tool_result(self.result)


class Sink(abc.ABC):
    """The one way to the world, valid until `run` returns.

    Operations run one after another, also when several tasks ask at once: then in the order in which they asked.
    Each is durable at the host before a reply comes, and on a replay or a resume the recorded reply is served
    instead of a new one. That holds as long as `run` asks the same things in the same order, so nothing that it
    decides by may come from elsewhere: no clock, no randomness, no network of its own.
    """

    @abc.abstractmethod
    async def model(
        self,
        conversation: Iterable[v1.Message],
        *,
        model: str = "",
        params: Mapping[str, str] | None = None,
        tools: Iterable[v1.ToolDefinition] = (),
        tool_choice: v1.ToolChoice | None = None,
    ) -> Completion:
        """Asks a model. Its completion is recorded by the host: do not repeat it with `output`.

        Raises InvalidRequestError for a mode of tool choice that this contract does not have, and SinkError.
        """

    @abc.abstractmethod
    async def output(self, text: str) -> None:
        """Records text of the assistant that no model made."""

    @abc.abstractmethod
    async def tool(
        self, call: v1.ToolCall, *, mediation: v1.Mediation | None = None, idempotency_key: str | None = None
    ) -> ToolReply:
        """Has the host run a tool and waits for its result. `call` is not changed.

        `mediation` says who decides: `MEDIATION_CONTROLLER_MEDIATED`, which is also what a call that says
        nothing gets, or `MEDIATION_REQUIRES_APPROVAL`. The idempotency key, when neither the call nor the
        argument has one, is made of the execution id and the call's place in the turn: another one in every
        turn of the session, the same one whenever this turn is driven again.

        Raises Parked when a person has to decide first, InvalidRequestError for a call that the contract does not
        allow, and SinkError.
        """

    @abc.abstractmethod
    async def report(self, result: v1.ToolResult) -> None:
        """Records the result of a tool that the harness ran itself.

        Such a tool runs again when the turn is driven again. Raises SinkError for a result that looks like the
        host's own: with approval seqs or as denied.
        """

    @abc.abstractmethod
    async def usage(self, usage: v1.Usage) -> None:
        """Records token counts."""


class Harness(abc.ABC):
    """An agent."""

    @abc.abstractmethod
    def describe(self) -> Descriptor:
        """What this harness is and needs; the same answer at any time."""

    @abc.abstractmethod
    async def run(self, start: Start, sink: Sink) -> None:
        """Drives one turn: to return is COMPLETED, to raise is FAILED.

        The error's text goes to the caller and into the journal, so it holds no secrets. Many turns may run at the same
        time, each with its own sink. A run is cancelled when its turn is.
        """


class Failed(Exception):  # noqa: N818 - the word of the contract for such an end
    """Raise it from `run` to fail the turn with exactly this text; other errors are told with their type."""
