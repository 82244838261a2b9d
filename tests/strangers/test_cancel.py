"""Cancel of a turn that runs, as Python's own gRPC sees it from both sides."""

import grpc

from conftest import SECONDS_MAX, check_chain
from test_grpcio import create, exec_turn, kinds, refused, watch

# The first call hangs for longer than any test runs.
SCRIPT = """
stream: false
turns:
  - match: slow
    text: never said
    delay_ms: 3600000
  - text: quick
"""


def test_a_running_turn_is_cancelled(make_host, stubs, tmp_path):
    """The turn's own stream shows how it ended, then fails with CANCELLED; the session goes on."""
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    host = make_host("--model", "m", "--model-script", str(script))
    sessions, journal = stubs.Sessions(host.channel), stubs.Journal(host.channel)
    uid = create(sessions, stubs, name="slow")

    request = stubs.session.ExecRequest(session=uid, harness="chat", inputs=[stubs.user("slow")])
    turn = sessions.Exec(request, timeout=SECONDS_MAX)
    seen, canceled = [], None
    with_reason = lambda execution: stubs.session.CancelRequest(session=uid, execution_id=execution, reason="TIMEOUT")
    try:
        for update in turn:
            if update.HasField("record"):
                seen.append(update.record)
                if update.record.event.kind == stubs.common.EVENT_MODEL_CALL:
                    refused(sessions.Cancel, with_reason("0000000000000000"), grpc.StatusCode.ABORTED)
                    canceled = sessions.Cancel(with_reason(update.record.event.execution_id), timeout=SECONDS_MAX)
    except grpc.RpcError as ended:
        assert ended.code() == grpc.StatusCode.CANCELLED and "TIMEOUT" in ended.details()
    else:
        raise AssertionError("a cancelled turn does not end well")
    assert canceled.exec_state == stubs.session.EXEC_CANCELED and canceled.last_seq == 5
    assert kinds(stubs, seen) == ["EXECUTION_START", "INPUT", "MODEL_CALL", "LIFECYCLE", "END"]

    records = watch(journal, stubs, uid, 5)
    check_chain(records)
    assert [r.content_hash for r in records] == [r.content_hash for r in seen]
    lifecycle, end = records[3].event.lifecycle, records[4].event.end
    assert lifecycle.kind == stubs.common.Lifecycle.LIFECYCLE_CANCEL and lifecycle.detail == "TIMEOUT"
    assert end.state == "CANCELED"

    refused(sessions.Cancel, with_reason(""), grpc.StatusCode.FAILED_PRECONDITION)
    resumed = sessions.Resume(stubs.session.ResumeRequest(session=uid), timeout=SECONDS_MAX)
    assert resumed.last_seq == 5, "a cancelled turn is not taken up again"
    exec_turn(sessions, stubs, uid, "go on", harness="chat")
    assert kinds(stubs, watch(journal, stubs, uid, 10)[5:]) == ["EXECUTION_START", "INPUT", "MODEL_CALL", "OUTPUT", "END"]
