//! Gated calls, both ends of ours.

use inspan_harness::{Failure, SinkError, ToolReply};
use inspan_wire::v1;

use crate::support::*;

fn parked() -> TestSink {
    TestSink::with_tools([Err(SinkError::Parked(at("c")))])
}

/// R-APPR-2, R-APPR-3: the park reaches the harness, it lets go, and only then the turn has parked. A harness that
/// swallows the park and goes on is stopped at its next operation and has parked too.
#[tokio::test]
async fn an_undecided_gate_parks_the_turn() {
    let stops = script([gated("c"), Step::Output("went on")]);
    assert_eq!(turn(&stops, &parked()).await, Err(Failure::Parked));

    let swallows = script([
        Step::Swallow,
        gated("c"),
        Step::Swallow,
        Step::Output("went on"),
        Step::Swallow,
        Step::Model("x".into()),
    ]);
    let sink = parked();
    assert_eq!(turn(&swallows, &sink).await, Err(Failure::Parked));
    assert_eq!(sink.asked(), ["tool c key-c"]);
    assert_eq!(swallows.seen(), ["swallowed: the turn waits for a decision"; 3]);
}

/// R-APPR-4, R-APPR-7: a harness that fails while it unwinds has not acknowledged the park, and its own error is what
/// is told.
#[tokio::test]
async fn a_harness_that_fails_on_its_way_out_has_not_parked() {
    let script = script([Step::Swallow, gated("c"), Step::Fail("could not tidy up")]);
    let failed = text(turn(&script, &parked()).await);
    assert!(failed.contains("acknowledgement") && failed.contains("could not tidy up"), "{failed}");
}

#[tokio::test]
async fn a_park_that_no_host_asked_for_is_a_failure() {
    let failed = text(turn(&script([Step::SayParked]), &TestSink::default()).await);
    assert!(failed.contains("none of its calls waits for a decision"), "{failed}");
}

/// R-APPR-25, R-APPR-26, R-APPR-27: the decision comes before the receipt; the harness sees both, a denial and a failed
/// executor as results and not as errors.
#[tokio::test]
async fn a_decided_gate_is_answered_with_decision_and_receipt() {
    for (approved, code, is_error) in [(true, 0, false), (true, 2, true), (false, 1, true)] {
        let script = script([gated("c"), Step::Model("x".into())]);
        let reply = ToolReply { result: receipt(code, is_error), decision: Some(decision(approved)) };
        assert_eq!(turn(&script, &TestSink::with_tools([Ok(reply)])).await, Ok(()));
        let answer = format!("c code={code} is_error={is_error} seqs=4/5 approved={approved} because");
        assert_eq!(script.seen(), [answer, "echo:x".to_owned()]);
    }
}

/// The decided gate, step 4: an answer of the host's own that does not fit sends nothing.
#[tokio::test]
async fn a_host_that_contradicts_itself_sends_nothing() {
    let wrong: [(v1::ToolResult, Option<v1::ApprovalResult>); 5] = [
        (receipt(0, false), None),
        (receipt(0, false), Some(decision(false))),
        (receipt(7, false), Some(decision(true))),
        (v1::ToolResult { approval_decision_seq: 0, ..receipt(0, false) }, Some(decision(true))),
        (v1::ToolResult { id: "other".into(), ..receipt(0, false) }, Some(decision(true))),
    ];
    for (result, decision) in wrong {
        let script = script([Step::Swallow, gated("c")]);
        let failed = text(turn(&script, &TestSink::with_tools([Ok(ToolReply { result, decision })])).await);
        assert!(failed.contains("gated tool call"), "{failed}");
        assert_eq!(script.seen(), Vec::<String>::new(), "nothing reached the harness");
    }
}

/// The host's policy asks about an ordinary call: there is no frame for that, so the stream ends and the turn parks;
/// when it is driven again the answer looks like any other (W-8).
#[tokio::test]
async fn an_ordinary_call_that_waits_parks_without_a_frame() {
    let waits = script([Step::Swallow, mediated("c"), Step::Output("went on")]);
    let sink = parked();
    assert_eq!(turn(&waits, &sink).await, Err(Failure::Parked));
    waits.dropped.notified().await;
    assert_eq!((waits.seen(), sink.asked()), (Vec::new(), vec!["tool c key-c".to_owned()]));

    for (code, is_error, shown) in
        [(0, false, "c code=0 is_error=false seqs=0/0"), (1, true, "c code=2 is_error=true seqs=0/0")]
    {
        let again = script([mediated("c")]);
        let reply = ToolReply { result: receipt(code, is_error), decision: Some(decision(code == 0)) };
        assert_eq!(turn(&again, &TestSink::with_tools([Ok(reply)])).await, Ok(()));
        assert_eq!(again.seen(), [shown]);
    }
}
