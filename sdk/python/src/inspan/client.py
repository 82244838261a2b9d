"""Drives sessions on a host: `agentsessions.v1.Sessions` over grpcio."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, TypeVar

import grpc
import grpc.aio

from inspan import messages, v1
from inspan._gen.agentsessions.v1 import session_pb2_grpc

MESSAGE_BYTES_MAX: Final = 256 << 20
"""Of one record or answer."""

Said = str | v1.Message
"""An input: a message, or the text of a user's message."""

Answer = TypeVar("Answer")


class HostError(Exception):
    """A host refused a call, or could not be reached."""

    def __init__(self, code: grpc.StatusCode, text: str, session: v1.Session | None = None) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code = code
        """What kind of refusal. UNAVAILABLE promises that nothing was recorded and that a later try may succeed."""
        self.text = text
        """What was wrong and what to do next, as the host says it."""
        self.session = session
        """The session as a turn's first frame gave it, when the error ended a turn.

        A turn that was to create its session and failed did create it: use its uid for the next try.
        """


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    """The session's state: first of all, and last of all when the turn waits for a decision."""

    session: v1.Session


@dataclass(frozen=True, slots=True)
class RecordUpdate:
    """A record that is durable."""

    record: v1.LogRecord


@dataclass(frozen=True, slots=True)
class DeltaUpdate:
    """A piece of a completion while it comes. Never journaled; the OUTPUT record has the whole."""

    execution_id: str
    text: str
    done: bool
    part_index: int = 0


Update = SessionUpdate | RecordUpdate | DeltaUpdate
"""What a turn streams."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn from its first update to its last."""

    session: v1.Session
    """As the last session update says; `pending` is read from it."""
    records: Sequence[v1.LogRecord] = field(default_factory=tuple)

    @property
    def uid(self) -> str:
        """The session's uid."""
        return self.session.metadata.uid

    @property
    def pending(self) -> v1.ApprovalRef | None:
        """The decision that the turn waits for; None when it has ended."""
        return self.session.pending_approval if self.session.HasField("pending_approval") else None

    @property
    def outputs(self) -> list[v1.Message]:
        """The recorded outputs, in order."""
        return [record.event.message for record in self.records if record.event.kind == v1.EVENT_OUTPUT]

    @property
    def text(self) -> str:
        """The text of the last output; empty when there is none."""
        return messages.text(self.outputs[-1]) if self.outputs else ""


class Client:
    """Sessions on the host at `address` (`host:port` or `unix:///path`). An async context manager.

    Every method raises HostError when the host says no. `timeout` is in seconds and bounds the whole call.
    """

    def __init__(
        self,
        address: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> None:
        options = [
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        ]
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(address, options=options)
        else:
            self._channel = grpc.aio.secure_channel(address, credentials, options=options)
        self._sessions = session_pb2_grpc.SessionsStub(self._channel)
        self._metadata = tuple(metadata)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection and what still runs on it."""
        await self._channel.close(None)

    async def create(
        self,
        *,
        harness: str = "",
        name: str = "",
        project: str = "",
        model: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> v1.Session:
        """Creates a session; an empty harness or project is the host's default."""
        session = v1.Session(
            metadata=v1.ResourceMetadata(project=project, name=name),
            harness=harness,
            model=model,
            labels=labels,
            annotations=annotations,
        )
        request = v1.CreateSessionRequest(session=session)
        return await self._answer(self._sessions.CreateSession(request, timeout=timeout, metadata=self._metadata))

    async def get(self, session: str, *, timeout: float | None = None) -> v1.Session:
        """A session's state."""
        request = v1.GetSessionRequest(uid=session)
        return await self._answer(self._sessions.GetSession(request, timeout=timeout, metadata=self._metadata))

    async def list(
        self, *, project: str = "", page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[v1.Session, None]:
        """Every session of a project, the newest first, page by page; `timeout` bounds each page."""
        token = ""
        while True:
            request = v1.ListSessionsRequest(project=project, page_size=page_size, page_token=token)
            call = self._sessions.ListSessions(request, timeout=timeout, metadata=self._metadata)
            page: v1.ListSessionsResponse = await self._answer(call)
            for session in page.sessions:
                yield session
            token = page.next_page_token
            if not token:
                return

    async def exec(
        self,
        session: str = "",
        inputs: Said | Iterable[Said] = (),
        *,
        harness: str = "",
        config: bytes = b"",
        resume_from_seq: int = 0,
        expected_last_seq: int | None = None,
        deadline_unix: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[Update, None]:
        """Runs a turn and gives what it streams, in order.

        Without a session it creates one, and the first update says which.

        `expected_last_seq`, when given, has the turn start only if that is the journal's last record. Who stops
        reading does not stop the turn; `cancel` does.
        """
        request = v1.ExecRequest(
            session=session,
            inputs=as_messages(inputs),
            harness=harness,
            config=config,
            resume_from_seq=resume_from_seq,
            expected_last_seq=expected_last_seq,
            deadline_unix=deadline_unix,
        )
        call = self._sessions.Exec(request, timeout=timeout, metadata=self._metadata)
        known: v1.Session | None = None
        try:
            async for frame in call:
                update = typed(frame)
                if isinstance(update, SessionUpdate):
                    known = update.session
                if update is not None:
                    yield update
        except grpc.aio.AioRpcError as error:
            raise HostError(error.code(), error.details() or "", known) from error
        finally:
            call.cancel()

    async def run(
        self,
        session: str = "",
        inputs: Said | Iterable[Said] = (),
        *,
        harness: str = "",
        config: bytes = b"",
        resume_from_seq: int = 0,
        expected_last_seq: int | None = None,
        deadline_unix: int = 0,
        timeout: float | None = None,
    ) -> Turn:
        """Runs a turn to its end, or to where it waits for a decision. Arguments as for `exec`."""
        updates = self.exec(
            session,
            inputs,
            harness=harness,
            config=config,
            resume_from_seq=resume_from_seq,
            expected_last_seq=expected_last_seq,
            deadline_unix=deadline_unix,
            timeout=timeout,
        )
        last, records = v1.Session(), []
        async for update in updates:
            match update:
                case SessionUpdate(known):
                    last = known
                case RecordUpdate(record):
                    records.append(record)
                case DeltaUpdate():
                    pass
        return Turn(last, tuple(records))

    async def replay(
        self, session: str, *, from_seq: int = 0, to_seq: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[v1.LogRecord, None]:
        """The records of a session, from the first to the head unless told otherwise. An unknown one has none."""
        request = v1.ReplayRequest(session=session, from_seq=from_seq, to_seq=to_seq)
        call = self._sessions.Replay(request, timeout=timeout, metadata=self._metadata)
        try:
            with told():
                async for record in call:
                    yield record
        finally:
            call.cancel()

    async def approve(
        self,
        session: str,
        ref: v1.ApprovalRef | None = None,
        *,
        reason: str = "",
        identity: v1.IdentityRef | None = None,
        timeout: float | None = None,
    ) -> v1.ApproveResponse:
        """Decides yes on what `ref` names, or on what the session waits for now. `resume` then goes on with the turn.

        Repeated with the same words it gives the same decision; with others it is refused. Pass the `ref` that was
        shown to whoever decided: what waits can have changed since.
        """
        return await self._decide(session, ref, True, reason, identity, timeout)

    async def deny(
        self,
        session: str,
        ref: v1.ApprovalRef | None = None,
        *,
        reason: str = "",
        identity: v1.IdentityRef | None = None,
        timeout: float | None = None,
    ) -> v1.ApproveResponse:
        """Decides no; otherwise as `approve`. The tool is not called, and the resumed turn learns why."""
        return await self._decide(session, ref, False, reason, identity, timeout)

    async def suspend(self, session: str, *, timeout: float | None = None) -> v1.Session:
        """Puts a session to sleep: its compute is let go."""
        request = v1.SuspendRequest(session=session)
        return await self._answer(self._sessions.Suspend(request, timeout=timeout, metadata=self._metadata))

    async def resume(self, session: str, *, timeout: float | None = None) -> v1.Session:
        """Wakes a session and drives its last turn to its end when that was cut short or decided."""
        request = v1.ResumeRequest(session=session)
        return await self._answer(self._sessions.Resume(request, timeout=timeout, metadata=self._metadata))

    async def fork(
        self,
        session: str,
        *,
        at_seq: int = 0,
        count: int = 1,
        names: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Sequence[v1.Session]:
        """Children that share the journal up to `at_seq`, the head when left out. Names: none, or one for each."""
        request = v1.ForkRequest(session=session, at_seq=at_seq, count=count, child_names=names, labels=labels)
        call = self._sessions.Fork(request, timeout=timeout, metadata=self._metadata)
        answer: v1.ForkResponse = await self._answer(call)
        return tuple(answer.children)

    async def cancel(
        self, session: str, *, execution_id: str = "", reason: str = "USER", timeout: float | None = None
    ) -> v1.Session:
        """Ends the turn that runs, or that execution; the answer comes when it has ended."""
        request = v1.CancelRequest(session=session, execution_id=execution_id, reason=reason)
        return await self._answer(self._sessions.Cancel(request, timeout=timeout, metadata=self._metadata))

    async def delete(self, session: str, *, timeout: float | None = None) -> v1.Session:
        """Hides a session; what its forks need of it stays."""
        request = v1.DeleteSessionRequest(uid=session)
        return await self._answer(self._sessions.DeleteSession(request, timeout=timeout, metadata=self._metadata))

    async def _decide(
        self,
        session: str,
        ref: v1.ApprovalRef | None,
        approved: bool,
        reason: str,
        identity: v1.IdentityRef | None,
        timeout: float | None,
    ) -> v1.ApproveResponse:
        if ref is None:
            state = await self.get(session, timeout=timeout)
            if not state.HasField("pending_approval"):
                raise HostError(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"session {session} waits for no decision; resume goes on with a turn that is decided",
                    state,
                )
            ref = state.pending_approval
        request = v1.ApproveRequest(
            session=session,
            execution_id=ref.execution_id,
            tool_call_id=ref.tool_call_id,
            request_seq=ref.request_seq,
            approved=approved,
            reason=reason,
            identity=identity,
        )
        return await self._answer(self._sessions.Approve(request, timeout=timeout, metadata=self._metadata))

    @staticmethod
    async def _answer(call: Awaitable[Answer]) -> Answer:
        with told():
            return await call


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Turns gRPC's errors into ours."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise HostError(error.code(), error.details() or "") from error


def as_messages(inputs: Said | Iterable[Said]) -> list[v1.Message]:
    """The messages of a turn's inputs."""
    said = [inputs] if isinstance(inputs, str | v1.Message) else inputs
    return [messages.user(one) if isinstance(one, str) else one for one in said]


def typed(frame: v1.ExecUpdate) -> Update | None:
    """The update in a frame; None for one that this version does not know."""
    match frame.WhichOneof("update"):
        case "session":
            return SessionUpdate(frame.session)
        case "record":
            return RecordUpdate(frame.record)
        case "delta":
            delta = frame.delta
            return DeltaUpdate(delta.execution_id, delta.chunk, delta.done, delta.part_index)
        case _:
            return None
