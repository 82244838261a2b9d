"""The client against a service that the test plays: what is sent, what comes back, what is raised."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from inspan import Client, DeltaUpdate, HostError, RecordUpdate, SessionUpdate, messages, v1
from inspan._gen.agentsessions.v1 import session_pb2_grpc

Context = Any

WAITING = v1.ApprovalRef(execution_id="e1", tool_call_id="c1", request_seq=4)


def session(uid: str, **more: Any) -> v1.Session:
    return v1.Session(metadata=v1.ResourceMetadata(uid=uid), **more)


class Played(session_pb2_grpc.SessionsServicer):
    """Keeps what it was asked; the answers are made of it."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.metadata: list[tuple[str, str]] = []

    async def CreateSession(self, request: v1.CreateSessionRequest, context: Context) -> v1.Session:  # noqa: N802
        self.asked.append(request)
        self.metadata = list(context.invocation_metadata())
        request.session.metadata.uid = "sess-new"
        return request.session

    async def GetSession(self, request: v1.GetSessionRequest, context: Context) -> v1.Session:  # noqa: N802
        if request.uid == "waiting":
            return session("waiting", pending_approval=WAITING)
        if request.uid == "unknown":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no session unknown: list shows those that there are")
        return session(request.uid)

    async def ListSessions(self, request: v1.ListSessionsRequest, context: Context) -> v1.ListSessionsResponse:  # noqa: N802
        self.asked.append(request)
        page = int(request.page_token or 0)
        uids = [f"{request.project}-{page * 2 + n}" for n in range(2 if page < 2 else 1)]
        following = str(page + 1) if page < 2 else ""
        return v1.ListSessionsResponse(sessions=[session(uid) for uid in uids], next_page_token=following)

    async def Exec(self, request: v1.ExecRequest, context: Context) -> AsyncIterator[v1.ExecUpdate]:  # noqa: N802
        self.asked.append(request)
        uid = request.session or "sess-new"
        yield v1.ExecUpdate(session=session(uid))
        if request.session == "endless":
            while True:
                yield v1.ExecUpdate(delta=v1.Delta(chunk="more"))
                await asyncio.sleep(0)
        if request.harness == "away":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "harness away does not answer")
        yield v1.ExecUpdate(delta=v1.Delta(execution_id="e1", chunk="he"))
        yield v1.ExecUpdate(delta=v1.Delta(execution_id="e1", done=True))
        yield v1.ExecUpdate()
        output = v1.Event(execution_id="e1", kind=v1.EVENT_OUTPUT, message=messages.assistant("hello"))
        yield v1.ExecUpdate(record=v1.LogRecord(seq=4, event=output))
        if request.session == "waiting":
            yield v1.ExecUpdate(session=session(uid, pending_approval=WAITING))

    async def Replay(self, request: v1.ReplayRequest, context: Context) -> AsyncIterator[v1.LogRecord]:  # noqa: N802
        for seq in range(request.from_seq or 1, (request.to_seq or 3) + 1):
            yield v1.LogRecord(seq=seq)
        if request.session == "broken":
            await context.abort(grpc.StatusCode.INTERNAL, "record 4 cannot be read")

    async def Approve(self, request: v1.ApproveRequest, context: Context) -> v1.ApproveResponse:  # noqa: N802
        self.asked.append(request)
        return v1.ApproveResponse(session=session(request.session), decision=v1.LogRecord(seq=5))

    async def Fork(self, request: v1.ForkRequest, context: Context) -> v1.ForkResponse:  # noqa: N802
        self.asked.append(request)
        return v1.ForkResponse(children=[session(f"child-{n}") for n in range(request.count)])

    async def Suspend(self, request: v1.SuspendRequest, context: Context) -> v1.Session:  # noqa: N802
        return session(request.session, compute_state=v1.COMPUTE_COLD)

    async def Resume(self, request: v1.ResumeRequest, context: Context) -> v1.Session:  # noqa: N802
        return session(request.session, compute_state=v1.COMPUTE_LIVE)

    async def Cancel(self, request: v1.CancelRequest, context: Context) -> v1.Session:  # noqa: N802
        self.asked.append(request)
        return session(request.session, exec_state=v1.EXEC_CANCELED)

    async def DeleteSession(self, request: v1.DeleteSessionRequest, context: Context) -> v1.Session:  # noqa: N802
        return session(request.uid)


@contextlib.asynccontextmanager
async def playing(**options: Any) -> AsyncIterator[tuple[Client, Played]]:
    played = Played()
    server = grpc.aio.server()
    session_pb2_grpc.add_SessionsServicer_to_server(played, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with Client(f"127.0.0.1:{port}", **options) as client:
        yield client, played
    await server.stop(None)


async def test_create_sends_what_it_is_told() -> None:
    async with playing(metadata=[("x-request-id", "r1")]) as (client, played):
        made = await client.create(
            harness="h", name="n", project="p", model="m", labels={"a": "b"}, annotations={"c": "d"}
        )
        assert made.metadata.uid == "sess-new"
        assert made.metadata.project == "p"
        assert (made.harness, made.model, made.metadata.name) == ("h", "m", "n")
        assert (dict(made.labels), dict(made.annotations)) == ({"a": "b"}, {"c": "d"})
        assert ("x-request-id", "r1") in played.metadata


async def test_a_list_goes_through_every_page() -> None:
    async with playing() as (client, played):
        uids = [one.metadata.uid async for one in client.list(project="p", page_size=2)]
        assert uids == [f"p-{n}" for n in range(5)]
        assert [request.page_token for request in played.asked] == ["", "1", "2"]


async def test_a_refusal_has_its_code_and_its_text() -> None:
    async with playing() as (client, _):
        with pytest.raises(HostError, match="NOT_FOUND: no session unknown") as refusal:
            await client.get("unknown")
        assert refusal.value.code == grpc.StatusCode.NOT_FOUND
        assert refusal.value.text == "no session unknown: list shows those that there are"
        assert refusal.value.session is None


async def test_a_host_that_is_not_there_is_told_as_a_host_error() -> None:
    async with playing() as (client, _):
        pass
    async with Client("127.0.0.1:1") as client:
        with pytest.raises(HostError) as refusal:
            await client.get("x", timeout=5)
        assert refusal.value.code == grpc.StatusCode.UNAVAILABLE


async def test_exec_streams_typed_updates_in_order() -> None:
    async with playing() as (client, played):
        updates = [update async for update in client.exec("s", ["one", messages.system("two")], config=b"{}")]
        assert [type(update) for update in updates] == [SessionUpdate, DeltaUpdate, DeltaUpdate, RecordUpdate]
        assert updates[1] == DeltaUpdate(execution_id="e1", text="he", done=False)
        (asked,) = played.asked
        assert list(asked.inputs) == [messages.user("one"), messages.system("two")]
        assert asked.config == b"{}"
        assert not asked.HasField("expected_last_seq")


async def test_an_expected_head_of_zero_is_sent() -> None:
    async with playing() as (client, played):
        await client.run("s", "x", expected_last_seq=0, deadline_unix=7, harness="h", resume_from_seq=-1)
        (asked,) = played.asked
        assert asked.HasField("expected_last_seq")
        assert asked.expected_last_seq == 0
        assert (asked.deadline_unix, asked.harness, asked.resume_from_seq) == (7, "h", -1)


async def test_run_gives_the_whole_turn() -> None:
    async with playing() as (client, _):
        turn = await client.run("", "x")
        assert turn.uid == "sess-new"
        assert turn.text == "hello"
        assert turn.pending is None
        assert [record.seq for record in turn.records] == [4]
        assert (await client.run("waiting", "x")).pending == WAITING


async def test_a_failed_turn_says_which_session_it_made() -> None:
    async with playing() as (client, _):
        with pytest.raises(HostError, match="UNAVAILABLE") as refusal:
            await client.run("", "x", harness="away")
        assert refusal.value.session is not None
        assert refusal.value.session.metadata.uid == "sess-new"


async def test_a_stream_can_be_left_early() -> None:
    async with playing() as (client, _):
        stream = client.exec("endless", "x")
        async for update in stream:
            if isinstance(update, DeltaUpdate):
                break
        await stream.aclose()


async def test_replay_streams_records_and_raises_at_the_end() -> None:
    async with playing() as (client, _):
        assert [record.seq async for record in client.replay("s")] == [1, 2, 3]
        assert [record.seq async for record in client.replay("s", from_seq=2, to_seq=2)] == [2]
        records = client.replay("broken")
        assert [(await anext(records)).seq for _ in range(3)] == [1, 2, 3]
        with pytest.raises(HostError, match="record 4"):
            await anext(records)


async def test_a_decision_names_what_it_decides() -> None:
    async with playing() as (client, played):
        who = v1.IdentityRef(principal="ann")
        await client.approve("s", WAITING, reason="fine", identity=who)
        await client.deny("waiting")
        yes, no = played.asked
        assert yes == v1.ApproveRequest(
            session="s",
            execution_id="e1",
            tool_call_id="c1",
            request_seq=4,
            approved=True,
            reason="fine",
            identity=who,
        )
        assert no.HasField("approved")
        assert (no.approved, no.request_seq) == (False, 4)
        with pytest.raises(HostError, match="waits for no decision"):
            await client.approve("s")


async def test_the_other_verbs() -> None:
    async with playing() as (client, played):
        assert (await client.suspend("s")).compute_state == v1.COMPUTE_COLD
        assert (await client.resume("s")).compute_state == v1.COMPUTE_LIVE
        assert (await client.delete("s")).metadata.uid == "s"
        assert (await client.cancel("s", execution_id="e1")).exec_state == v1.EXEC_CANCELED
        children = await client.fork("s", at_seq=3, count=2, names=["a", "b"], labels={"x": "y"})
        assert [child.metadata.uid for child in children] == ["child-0", "child-1"]
        cancel, fork = played.asked
        assert (cancel.execution_id, cancel.reason) == ("e1", "USER")
        assert fork == v1.ForkRequest(session="s", at_seq=3, count=2, child_names=["a", "b"], labels={"x": "y"})
