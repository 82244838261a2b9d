//! The author's end against a host that breaks the rules.

use inspan_wire::v1::{self, EventKind, controller_frame::Frame, event::Body};
use tonic::{Code, Status};

use crate::raw::{frame, host};
use crate::support::*;

fn opening() -> v1::ControllerFrame {
    frame(Frame::Start(v1::Start::default()))
}

/// How a turn ended, in one line; more than one last event is said too.
fn told(events: &[v1::Event], outcome: &Result<(), Status>) -> String {
    let ends = |e: &&v1::Event| matches!(e.kind(), EventKind::EventEnd | EventKind::EventParked);
    let ends: Vec<String> = events
        .iter()
        .filter(ends)
        .map(|event| match &event.body {
            Some(Body::End(end)) => {
                format!("{} {}", end.state, end.error.as_ref().map(|e| e.description.as_str()).unwrap_or_default())
            }
            Some(Body::Parked(at)) => format!("PARKED {} {} {}", at.execution_id, at.tool_call_id, at.request_seq),
            other => panic!("{other:?}"),
        })
        .collect();
    let last_is_end = events.last().is_none_or(|e| matches!(e.kind(), EventKind::EventEnd | EventKind::EventParked));
    assert!(last_is_end, "nothing may follow the end: {events:?}");
    match outcome {
        Ok(()) => ends.join(" and ").trim_end().to_owned(),
        Err(status) => format!("{:?} {}", status.code(), status.message()),
    }
}

/// Has one gated or ordinary call answered with `frames`; the harness swallows the failure and goes on.
async fn answered(step: Step, frames: Vec<v1::ControllerFrame>) -> String {
    let script = script([Step::Swallow, step, Step::Swallow, Step::Output("went on")]);
    let served = Served::new(Socket::Unix, script).await;
    let (events, outcome) = host(&served, opening(), [frames]).await;
    told(&events, &outcome)
}

/// W-2: a turn that does not begin with Start and an execution id is no turn.
#[tokio::test]
async fn the_first_frame_opens_the_turn() {
    let served = Served::new(Socket::Unix, script([])).await;
    let nameless = v1::ControllerFrame { execution_id: String::new(), ..opening() };
    let cancel = frame(Frame::Cancel(v1::Cancel { reason: "USER".into() }));
    let empty = v1::ControllerFrame { frame: None, ..opening() };
    for first in [nameless, cancel, empty, frame(Frame::Park(at("c")))] {
        let (events, outcome) = host(&served, first, []).await;
        assert_eq!((events.len(), outcome.expect_err("refused").code()), (0, Code::InvalidArgument));
    }
    let (events, outcome) = host(&served, opening(), []).await;
    assert_eq!(told(&events, &outcome), "COMPLETED");
}

/// W-1: an answer must be of this turn, of this request, and of the right type; otherwise the turn is over for good, whatever the
/// harness makes of it. W-9: a cancel frame is none of these.
#[tokio::test]
async fn an_answer_that_does_not_fit_ends_the_turn() {
    let model = |id: &str, message: Option<v1::Message>| {
        Frame::Model(v1::ModelResult { message, usage: None, model_call_id: id.to_owned() })
    };
    let said = Some(v1::Message::text("assistant", "hi"));
    let id = "0000000000000001";
    let good = frame(model(id, said.clone()));
    let ask = || Step::Model("x".into());
    assert_eq!(answered(ask(), vec![good.clone()]).await, "COMPLETED");
    let wrong = [
        (v1::ControllerFrame { session: "sess-2".into(), ..good.clone() }, "another turn"),
        (v1::ControllerFrame { session: String::new(), ..good.clone() }, "another turn"),
        (v1::ControllerFrame { execution_id: "e9".into(), ..good.clone() }, "another turn"),
        (v1::ControllerFrame { frame: None, ..good }, "without a body"),
        (frame(model("other", said)), "another model call"),
        (frame(model(id, None)), "without a message"),
        (frame(Frame::Tool(v1::ToolResult::default())), "wrong type: tool"),
        (frame(Frame::Park(at("c"))), "wrong type: park"),
        (frame(Frame::Approval(decision(true))), "wrong type: approval"),
        (frame(Frame::Start(v1::Start::default())), "wrong type: start"),
        (frame(Frame::Cancel(v1::Cancel::default())), "wrong type: cancel"),
    ];
    for (frame, want) in wrong {
        let said = answered(ask(), vec![frame]).await;
        assert!(said.starts_with("FAILED ") && said.contains(want), "{said}, not {want}");
    }
}

/// A stream that ends before the answer is no answer.
#[tokio::test]
async fn a_host_that_closes_its_side_fails_the_turn() {
    let served = Served::new(Socket::Unix, script([Step::Swallow, Step::Model("x".into())])).await;
    let (events, outcome) = host(&served, opening(), []).await;
    assert_eq!(told(&events, &outcome), "FAILED the host closed the stream before it answered");
}

/// W-8 and step 5 of the decided gate: an ordinary call is answered with its own plain result.
#[tokio::test]
async fn an_ordinary_call_takes_no_gates_answer() {
    let ask = || mediated("c");
    let plain = v1::ToolResult { id: "c".into(), code: 2, is_error: true, ..Default::default() };
    assert_eq!(answered(ask(), vec![frame(Frame::Tool(plain.clone()))]).await, "COMPLETED");
    let other = v1::ToolResult { id: "d".into(), ..Default::default() };
    for (answer, want) in [
        (Frame::Tool(other), "another tool call"),
        (Frame::Tool(receipt(0, false)), "host-owned"),
        (Frame::Tool(v1::ToolResult { code: 1, ..plain }), "host-owned"),
        (Frame::Park(at("c")), "wrong type: park"),
        (Frame::Approval(decision(true)), "wrong type: approval"),
    ] {
        let said = answered(ask(), vec![frame(answer)]).await;
        assert!(said.starts_with("FAILED ") && said.contains(want), "{said}, not {want}");
    }
}

/// The park exchange, steps 3 and 4: one acknowledgement with the same tuple and nothing else, or a failure and no
/// acknowledgement.
#[tokio::test]
async fn a_park_must_name_the_call_that_waits() {
    let park = |at: v1::ApprovalRef| frame(Frame::Park(at));
    assert_eq!(answered(gated("c"), vec![park(at("c"))]).await, format!("PARKED {EXECUTION} c 4"));
    for wrong in [
        at("d"),
        v1::ApprovalRef { execution_id: "e9".into(), ..at("c") },
        v1::ApprovalRef { execution_id: String::new(), ..at("c") },
        v1::ApprovalRef { request_seq: 0, ..at("c") },
        v1::ApprovalRef { request_seq: -4, ..at("c") },
    ] {
        let said = answered(gated("c"), vec![park(wrong)]).await;
        assert!(said.starts_with("FAILED the host parked the turn at another call"), "{said}");
    }
    let elsewhere = v1::ControllerFrame { session: "sess-2".into(), ..park(at("c")) };
    assert!(answered(gated("c"), vec![elsewhere]).await.starts_with("FAILED the host answered for another turn"));
    assert!(answered(gated(""), vec![park(at(""))]).await.starts_with("FAILED "), "a call without an id cannot park");

    // A host without a session cannot park anything.
    let served = Served::new(Socket::Unix, script([gated("c")])).await;
    let nobody = |f: v1::ControllerFrame| v1::ControllerFrame { session: String::new(), ..f };
    let (events, outcome) = host(&served, nobody(opening()), [vec![nobody(park(at("c")))]]).await;
    assert!(told(&events, &outcome).starts_with("FAILED the host parked the turn"));
}

/// The decided gate, steps 2 to 4: the decision, then its receipt; anything else is a failure that sticks.
#[tokio::test]
async fn a_decided_gate_is_checked_on_this_side_too() {
    let decided = |d: v1::ApprovalResult, r: v1::ToolResult| vec![frame(Frame::Approval(d)), frame(Frame::Tool(r))];
    for (approved, code, is_error) in [(true, 0, false), (true, 2, true), (false, 1, true)] {
        let said = answered(gated("c"), decided(decision(approved), receipt(code, is_error))).await;
        assert_eq!(said, "COMPLETED");
    }
    let wrong = [
        decided(decision(false), receipt(0, false)),
        decided(decision(true), receipt(1, true)),
        decided(decision(true), receipt(0, true)),
        decided(decision(true), receipt(3, true)),
        decided(v1::ApprovalResult { tool_call_id: "d".into(), ..decision(true) }, receipt(0, false)),
        decided(v1::ApprovalResult { request_seq: 0, ..decision(true) }, receipt(0, false)),
        decided(v1::ApprovalResult { request_seq: 3, ..decision(true) }, receipt(0, false)),
        decided(decision(true), v1::ToolResult { approval_decision_seq: 0, ..receipt(0, false) }),
        decided(decision(true), v1::ToolResult { id: "d".into(), ..receipt(0, false) }),
        vec![frame(Frame::Approval(decision(true))), frame(Frame::Approval(decision(true)))],
        vec![frame(Frame::Approval(decision(true))), frame(Frame::Park(at("c")))],
    ];
    for frames in wrong {
        let told = format!("{frames:?}");
        let said = answered(gated("c"), frames).await;
        assert!(said.starts_with("FAILED the host's answer to a gated tool call does not fit"), "{told}: {said}");
    }
    assert!(answered(gated("c"), vec![frame(Frame::Tool(receipt(0, false)))]).await.contains("wrong type: tool"));
}

/// The decided gate: a stream that ends between the two frames is no decision.
#[tokio::test]
async fn a_decision_without_its_receipt_is_none() {
    // The second event finds no list of answers, and the host's side closes; the harness has sent only the first.
    let script = script([Step::Output("first"), gated("c")]);
    let served = Served::new(Socket::Unix, script).await;
    let answers = [vec![frame(Frame::Approval(decision(true)))]];
    let (events, outcome) = host(&served, opening(), answers).await;
    assert_eq!(told(&events, &outcome), "FAILED the host closed the stream before it answered");
}
