"""SIGKILL in the middle of a model call; the same client resumes."""

import grpc

from conftest import SECONDS_MAX, check_chain
from test_grpcio import create, exec_turn, kinds, watch

# The first call hangs for longer than any test runs; the log has one line for each call.
SCRIPT = """
calls_log: calls.txt
stream: false
turns:
  - match: slow
    text: at last
    delay_ms: {delay_ms}
  - text: quick
"""


def test_a_turn_that_was_killed_in_a_model_call_is_resumed(make_host, stubs, tmp_path):
    """R-RESUME-1: what was recorded stays, the open call is made once more, the rest goes on."""
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT.format(delay_ms=3_600_000))
    host = make_host("--model", "m", "--model-script", str(script))
    sessions = stubs.Sessions(host.channel)
    first = exec_turn(sessions, stubs, "", "one", harness="chat")
    uid = first[0].session.metadata.uid

    request = stubs.session.ExecRequest(session=uid, inputs=[stubs.user("slow")])
    seen = []
    try:
        for update in sessions.Exec(request, timeout=SECONDS_MAX):
            if update.HasField("record"):
                seen.append(update.record)
                if update.record.event.kind == stubs.common.EVENT_MODEL_CALL:
                    host.kill()
    except (grpc.RpcError, ValueError):
        pass  # The connection went with the host.
    assert kinds(stubs, seen) == ["EXECUTION_START", "INPUT", "MODEL_CALL"]

    script.write_text(SCRIPT.format(delay_ms=0))
    host = make_host("--model", "m", "--model-script", str(script))
    sessions, journal = stubs.Sessions(host.channel), stubs.Journal(host.channel)
    before = watch(journal, stubs, uid, 8)
    assert [r.content_hash for r in before[5:]] == [r.content_hash for r in seen], "nothing acknowledged was lost"
    resumed = sessions.Resume(stubs.session.ResumeRequest(session=uid), timeout=SECONDS_MAX)
    assert resumed.exec_state == stubs.session.EXEC_COMPLETED

    after = watch(journal, stubs, uid, resumed.last_seq)
    check_chain(after)
    assert after[:8] == before, "what was recorded did not change"
    turn = [record for record in after if record.event.execution_id == seen[0].event.execution_id]
    assert kinds(stubs, turn) == ["EXECUTION_START", "INPUT", "MODEL_CALL", "OUTPUT", "END"]
    assert turn[3].event.message.parts[0].text.text == "at last"
    calls = (tmp_path / "calls.txt").read_text().splitlines()
    assert len(calls) == 3, "one call for the first turn, and the open one was made at most once more"


def test_a_finished_turn_survives_a_kill_right_after_its_end(make_host, stubs):
    """Nothing acknowledged is lost, twenty times."""
    host = make_host()
    uid = create(stubs.Sessions(host.channel), stubs)
    for n in range(1, 21):
        exec_turn(stubs.Sessions(host.channel), stubs, uid, f"turn {n}")
        host.kill()
        host = make_host()
        got = stubs.Sessions(host.channel).GetSession(stubs.session.GetSessionRequest(uid=uid), timeout=SECONDS_MAX)
        assert got.last_seq == 5 * n
    check_chain(watch(stubs.Journal(host.channel), stubs, uid, 100))


def test_a_graceful_stop_ends_with_code_0(make_host, stubs):
    host = make_host()
    uid = create(stubs.Sessions(host.channel), stubs)
    exec_turn(stubs.Sessions(host.channel), stubs, uid, "one")
    assert host.stop() == 0
    assert any("shutting down" in line for line in host.log)
