"""Python's own gRPC drives every call of the two services."""

import grpc
import pytest

from conftest import SECONDS_MAX, check_chain


@pytest.fixture
def sessions(host, stubs):
    return stubs.Sessions(host.channel)


@pytest.fixture
def journal(host, stubs):
    return stubs.Journal(host.channel)


def create(sessions, stubs, **metadata):
    metadata = stubs.common.ResourceMetadata(**metadata)
    request = stubs.session.CreateSessionRequest(session=stubs.session.Session(metadata=metadata))
    return sessions.CreateSession(request, timeout=SECONDS_MAX).metadata.uid


def exec_turn(sessions, stubs, session, *texts, **more):
    request = stubs.session.ExecRequest(session=session, inputs=[stubs.user(text) for text in texts], **more)
    return list(sessions.Exec(request, timeout=SECONDS_MAX))


def kinds(stubs, records):
    return [stubs.common.EventKind.Name(record.event.kind).removeprefix("EVENT_") for record in records]


def watch(journal, stubs, session, until, **more):
    """The records of a session up to seq `until`."""
    records = []
    call = journal.Watch(stubs.inspan.WatchRequest(session=session, records_only=True, **more), timeout=SECONDS_MAX)
    for update in call:
        if update.HasField("record"):
            records.append(update.record)
            if update.record.seq >= until:
                call.cancel()
                return records
    raise AssertionError(f"the watch ended before seq {until}")


def refused(call, request, code):
    """That a call fails with `code`; gives the text, which must say something."""
    with pytest.raises(grpc.RpcError) as caught:
        answer = call(request, timeout=SECONDS_MAX)
        if hasattr(answer, "__iter__"):
            list(answer)
    assert caught.value.code() == code, caught.value.details()
    assert caught.value.details()
    return caught.value.details()


def test_health_and_reflection_answer_without_our_files(host):
    raw = lambda kind, path: getattr(host.channel, kind)(path, None, None)
    check = raw("unary_unary", "/grpc.health.v1.Health/Check")
    assert check(b"", timeout=SECONDS_MAX) == b"\x08\x01", "SERVING"
    info = raw("stream_stream", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
    services = next(info(iter([b"\x3a\x00"]), timeout=SECONDS_MAX))
    assert b"agentsessions.v1.Sessions" in services and b"inspan.v1.Journal" in services


def test_a_turn_streams_its_records_in_order(sessions, journal, stubs):
    """R-LIVE-2: the session first, then each record after it is durable; R-HASH: a stranger computes the same chain."""
    uid = create(sessions, stubs, name="first")
    updates = exec_turn(sessions, stubs, uid, "hello")
    assert updates[0].session.metadata.uid == uid and updates[0].session.last_seq == 0
    records = [update.record for update in updates if update.HasField("record")]
    assert kinds(stubs, records) == ["EXECUTION_START", "INPUT", "MODEL_CALL", "OUTPUT", "END"]
    assert [record.seq for record in records] == [1, 2, 3, 4, 5]
    assert records[3].event.message.parts[0].text.text == "echo:hello"

    exec_turn(sessions, stubs, uid, "zwei", "drei – \U0001f402")
    seen = watch(journal, stubs, uid, 11)
    check_chain(seen)
    replayed = list(sessions.Replay(stubs.session.ReplayRequest(session=uid), timeout=SECONDS_MAX))
    assert [(r.seq, r.content_hash) for r in replayed] == [(r.seq, r.content_hash) for r in seen]
    assert all(record.ts.seconds > 0 for record in seen), "every record carries its commit time"


def test_a_replay_is_a_range(sessions, stubs):
    uid = create(sessions, stubs)
    exec_turn(sessions, stubs, uid, "hello")
    part = sessions.Replay(stubs.session.ReplayRequest(session=uid, from_seq=2, to_seq=4), timeout=SECONDS_MAX)
    assert [record.seq for record in part] == [2, 3, 4]


def test_an_exec_without_a_session_creates_one(sessions, stubs):
    updates = exec_turn(sessions, stubs, "", "hello")
    uid = updates[0].session.metadata.uid
    got = sessions.GetSession(stubs.session.GetSessionRequest(uid=uid), timeout=SECONDS_MAX)
    assert got.last_seq == 5 and got.exec_state == stubs.session.EXEC_COMPLETED


def test_listing_pages_newest_first(sessions, stubs):
    """R-LIST-1."""
    made = [create(sessions, stubs, project="pages", name=f"s{n}") for n in range(5)]
    seen, token = [], ""
    while True:
        request = stubs.session.ListSessionsRequest(project="pages", page_size=2, page_token=token)
        page = sessions.ListSessions(request, timeout=SECONDS_MAX)
        assert len(page.sessions) <= 2
        seen += [session.metadata.uid for session in page.sessions]
        token = page.next_page_token
        if not token:
            break
    assert seen == made[::-1]


def test_a_fork_shares_its_parents_records(sessions, journal, stubs):
    """R-FORK-1: the prefix is the parent's, hash for hash; then comes the marker."""
    uid = create(sessions, stubs)
    exec_turn(sessions, stubs, uid, "one")
    request = stubs.session.ForkRequest(session=uid, count=2, child_names=["a", "b"])
    children = sessions.Fork(request, timeout=SECONDS_MAX).children
    assert [(child.metadata.name, child.parent_uid, child.fork_seq) for child in children] == [("a", uid, 5), ("b", uid, 5)]
    parent = watch(journal, stubs, uid, 5)
    for child in children:
        records = watch(journal, stubs, child.metadata.uid, 6)
        check_chain(records)
        assert [r.content_hash for r in records[:5]] == [r.content_hash for r in parent]
        assert kinds(stubs, records[5:]) == ["LIFECYCLE"]
    exec_turn(sessions, stubs, children[0].metadata.uid, "two")
    assert sessions.GetSession(stubs.session.GetSessionRequest(uid=uid), timeout=SECONDS_MAX).last_seq == 5


def test_a_session_sleeps_and_wakes(sessions, stubs):
    """R-LIFE-1."""
    uid = create(sessions, stubs)
    exec_turn(sessions, stubs, uid, "one")
    asleep = sessions.Suspend(stubs.session.SuspendRequest(session=uid), timeout=SECONDS_MAX)
    assert asleep.compute_state == stubs.session.COMPUTE_COLD and asleep.last_seq == 6
    awake = sessions.Resume(stubs.session.ResumeRequest(session=uid), timeout=SECONDS_MAX)
    assert awake.compute_state == stubs.session.COMPUTE_LIVE
    again = sessions.Resume(stubs.session.ResumeRequest(session=uid), timeout=SECONDS_MAX)
    assert again.last_seq == awake.last_seq, "resuming a live session appends nothing"


def test_a_rerun_asks_no_model_and_appends_nothing(sessions, journal, stubs):
    uid = create(sessions, stubs)
    for text in ("one", "two"):
        exec_turn(sessions, stubs, uid, text)
    answer = journal.Rerun(stubs.inspan.RerunRequest(session=uid), timeout=SECONDS_MAX)
    assert answer.executions == 2 and list(answer.outputs) == ["echo:one", "echo:two"]
    verified = journal.Verify(stubs.inspan.VerifyRequest(session=uid), timeout=SECONDS_MAX)
    assert (verified.records, verified.last_seq, verified.fault) == (10, 10, "")


def test_what_a_model_was_asked_is_kept(sessions, journal, stubs):
    """R-IN-1: the text has the recorded hash."""
    import hashlib

    uid = create(sessions, stubs)
    records = [update.record for update in exec_turn(sessions, stubs, uid, "what?") if update.HasField("record")]
    kept = journal.GetModelRequest(stubs.inspan.GetModelRequestRequest(session=uid, seq=3), timeout=SECONDS_MAX)
    assert hashlib.sha256(kept.text.encode()).hexdigest() == kept.input_hash == records[2].event.model.input_hash
    assert "what?" in kept.text


def test_refusals_have_the_code_that_tells_whether_a_retry_helps(sessions, journal, stubs):
    request, code = stubs.session, grpc.StatusCode
    uid = create(sessions, stubs)
    exec_turn(sessions, stubs, uid, "one")
    stale = request.ExecRequest(session=uid, inputs=[stubs.user("x")], expected_last_seq=4)
    refused(sessions.Exec, stale, code.ABORTED)
    refused(sessions.Exec, request.ExecRequest(session="sess-none"), code.NOT_FOUND)
    refused(sessions.Exec, request.ExecRequest(session=uid, harness="none"), code.INVALID_ARGUMENT)
    refused(sessions.GetSession, request.GetSessionRequest(uid="sess-none"), code.NOT_FOUND)
    refused(sessions.GetSession, request.GetSessionRequest(), code.INVALID_ARGUMENT)
    refused(sessions.ListSessions, request.ListSessionsRequest(page_token="!"), code.INVALID_ARGUMENT)
    refused(sessions.Replay, request.ReplayRequest(session="sess-none"), code.NOT_FOUND)
    refused(sessions.Fork, request.ForkRequest(session=uid, at_seq=99), code.OUT_OF_RANGE)
    refused(sessions.Fork, request.ForkRequest(session=uid, count=129), code.INVALID_ARGUMENT)
    identity = request.ForkRequest(session=uid, identity=stubs.common.IdentityRef())
    refused(sessions.Fork, identity, code.INVALID_ARGUMENT)
    refused(journal.Verify, stubs.inspan.VerifyRequest(session="sess-none"), code.NOT_FOUND)
    assert sessions.GetSession(request.GetSessionRequest(uid=uid), timeout=SECONDS_MAX).last_seq == 5, "nothing was journaled"


def test_a_deleted_session_is_gone_and_its_child_lives(sessions, stubs):
    uid = create(sessions, stubs, project="gone")
    exec_turn(sessions, stubs, uid, "one")
    child = sessions.Fork(stubs.session.ForkRequest(session=uid), timeout=SECONDS_MAX).children[0].metadata.uid
    sessions.DeleteSession(stubs.session.DeleteSessionRequest(uid=uid), timeout=SECONDS_MAX)
    refused(sessions.GetSession, stubs.session.GetSessionRequest(uid=uid), grpc.StatusCode.NOT_FOUND)
    records = list(sessions.Replay(stubs.session.ReplayRequest(session=child), timeout=SECONDS_MAX))
    assert [record.seq for record in records] == [1, 2, 3, 4, 5, 6]


def test_a_watch_follows_a_session_to_live(sessions, journal, stubs):
    """No gap and no duplicate between what was there and what comes."""
    uid = create(sessions, stubs)
    exec_turn(sessions, stubs, uid, "one")
    call = journal.Watch(stubs.inspan.WatchRequest(session=uid, from_seq=4), timeout=SECONDS_MAX)
    seqs = []
    for update in call:
        if update.HasField("record"):
            seqs.append(update.record.seq)
            if seqs[-1] == 5:
                exec_turn(sessions, stubs, uid, "two")
            if seqs[-1] == 10:
                call.cancel()
                break
    assert seqs == list(range(4, 11))


def test_an_export_is_imported_elsewhere(make_host, sessions, journal, stubs):
    uid = create(sessions, stubs)
    exec_turn(sessions, stubs, uid, "one")
    chunks = list(journal.Export(stubs.inspan.ExportRequest(session=uid), timeout=SECONDS_MAX))
    other = stubs.Journal(make_host().channel)
    imported = other.Import(iter(chunks), timeout=SECONDS_MAX)
    assert [session.metadata.uid for session in imported.sessions] == [uid] and imported.records == 5
    assert watch(other, stubs, uid, 5) == watch(journal, stubs, uid, 5)
