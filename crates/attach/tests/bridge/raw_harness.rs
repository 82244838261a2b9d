//! The host's end against a harness that breaks the rules.

use inspan_harness::{Failure, Harness as _, SinkError};
use inspan_wire::v1::{self, EventKind, Mediation, controller_frame::Frame, event::Body};
use tonic::{Code, Status};

use crate::raw::{RawHarness, Say, end, event};
use crate::support::*;

fn model(id: &str) -> v1::Event {
    event(EventKind::EventModelCall, Some(Body::Model(v1::ModelCall { id: id.to_owned(), ..request("x") })))
}

fn tool(id: &str, mediation: Mediation) -> v1::Event {
    event(EventKind::EventToolCall, Some(Body::Tool(call(id, mediation))))
}

fn output(text: &str) -> v1::Event {
    event(EventKind::EventOutput, Some(Body::Message(v1::Message::text("assistant", text))))
}

fn acknowledged(at: v1::ApprovalRef) -> v1::Event {
    event(EventKind::EventParked, Some(Body::Parked(at)))
}

/// Runs one turn of a raw harness.
async fn run(says: impl IntoIterator<Item = Say>, sink: &TestSink) -> (Result<(), Failure>, Vec<v1::ControllerFrame>) {
    let raw = RawHarness::new(says).await;
    let outcome = raw.remote.run(start(), sink).await;
    (outcome, raw.frames())
}

async fn failed(says: impl IntoIterator<Item = v1::Event>) -> String {
    let (outcome, _) = run(says.into_iter().map(Say::Event), &TestSink::default()).await;
    text(outcome)
}

/// W-1: every frame carries session and execution id, and answers carry the id of what they answer; an event of another
/// execution fails the turn at once.
#[tokio::test]
async fn envelopes_are_filled_and_checked() {
    let sink = TestSink::with_tools([Ok(v1::ToolResult { id: "c".into(), ..Default::default() }.into())]);
    let says = [
        Say::Event(model("m-1")),
        Say::Take,
        Say::Event(tool("c", Mediation::ControllerMediated)),
        Say::Take,
        Say::Event(end("COMPLETED", "")),
    ];
    let (outcome, frames) = run(says, &sink).await;
    assert_eq!(outcome, Ok(()));
    assert!(frames.iter().all(|f| f.session == SESSION && f.execution_id == EXECUTION), "{frames:?}");
    let bodies: Vec<Frame> = frames.into_iter().filter_map(|f| f.frame).collect();
    let [Frame::Start(_), Frame::Model(answer), Frame::Tool(result)] = &bodies[..] else { panic!("{bodies:?}") };
    assert_eq!((answer.model_call_id.as_str(), result.id.as_str()), ("m-1", "c"));
    assert_eq!(answer.message.as_ref().map(v1::Message::concat_text).as_deref(), Some("echo:x"));

    let stranger = v1::Event { execution_id: "e9".into(), ..output("x") };
    assert!(failed([stranger]).await.contains("execution \"e9\""));
    let nameless = v1::Event { execution_id: String::new(), ..end("COMPLETED", "") };
    assert!(failed([nameless]).await.contains("execution \"\""));
}

/// W-5, W-6: one state is success; what follows END is not read; a stream that only closes is a failure.
#[tokio::test]
async fn only_completed_is_success() {
    let (outcome, _) =
        run([Say::Event(end("COMPLETED", "")), Say::Event(end("FAILED", "twice"))], &TestSink::default()).await;
    assert_eq!(outcome, Ok(()));
    for (state, said) in [
        ("FAILED", "the harness ended with FAILED: why"),
        ("CANCELED", "the harness ended with CANCELED: why"),
        ("", "the harness ended with no state: why"),
        ("completed", "the harness ended with completed: why"),
    ] {
        assert_eq!(failed([end(state, "why")]).await, said);
    }
    assert_eq!(failed([end("FAILED", "")]).await, "the harness ended with FAILED");
    assert_eq!(failed([event(EventKind::EventEnd, None)]).await, "the harness ended with no state");
    assert_eq!(failed([output("x")]).await, "the harness closed its stream without EVENT_END");
    let (outcome, _) = run([Say::Status(Status::resource_exhausted("too much"))], &TestSink::default()).await;
    assert_eq!(text(outcome), "the harness answered ResourceExhausted: too much");
}

/// W-7, R-START-6: what is the host's to record is refused.
#[tokio::test]
async fn the_hosts_own_records_are_refused() {
    for (kind, body) in [
        (EventKind::EventApprovalRequest, Body::Approval(v1::ApprovalRequest::default())),
        (EventKind::EventApprovalResult, Body::ApprovalResult(decision(true))),
        (EventKind::EventExecutionStart, Body::ExecutionStart(v1::ExecutionStart::default())),
        (EventKind::EventParked, Body::Parked(at("c"))),
    ] {
        for body in [Some(body), None] {
            let said = failed([event(kind, body), end("COMPLETED", "")]).await;
            assert!(said.contains(kind.as_str_name()) && said.contains("the host's to say"), "{said}");
        }
    }
}

/// W-7: what the host does not handle is passed over, and so is an unasked event without a body; a call without one fails.
#[tokio::test]
async fn what_nobody_asks_for_is_passed_over() {
    let sink = TestSink::default();
    let mut unknown = event(EventKind::Unspecified, None);
    unknown.kind = 99;
    let ignored = [
        event(EventKind::EventInput, Some(Body::Message(v1::Message::text("user", "x")))),
        event(EventKind::EventLifecycle, Some(Body::Lifecycle(v1::Lifecycle::default()))),
        event(EventKind::EventError, Some(Body::Error(v1::Error::default()))),
        event(EventKind::Unspecified, None),
        unknown,
        event(EventKind::EventOutput, None),
        event(EventKind::EventToolResult, None),
        event(EventKind::EventUsage, None),
        end("COMPLETED", ""),
    ];
    let (outcome, frames) = run(ignored.map(Say::Event), &sink).await;
    assert_eq!((outcome, sink.asked(), frames.len()), (Ok(()), Vec::new(), 1));
    for kind in [EventKind::EventToolCall, EventKind::EventModelCall] {
        assert!(failed([event(kind, None)]).await.contains("without its call"));
        assert!(failed([event(kind, Some(Body::Usage(v1::Usage::default())))]).await.contains("without its call"));
    }
}

/// W-8: the host's side refuses a forged receipt too, in the sink's words when the sink has any.
#[tokio::test]
async fn a_forged_receipt_is_refused_by_the_host() {
    let forged = event(EventKind::EventToolResult, Some(Body::Result(receipt(0, false))));
    assert_eq!(failed([forged, end("COMPLETED", "")]).await, "host-owned, says the sink");
}

#[tokio::test]
async fn an_unknown_tool_choice_mode_is_refused_by_the_host() {
    let tool_choice = Some(v1::ToolChoice { mode: 4, ..Default::default() });
    let call = v1::ModelCall { tool_choice, ..request("x") };
    let said = failed([event(EventKind::EventModelCall, Some(Body::Model(call)))]).await;
    assert!(said.contains("tool choice of an unknown mode"), "{said}");
}

/// The park exchange, step 2: the frame names the request in full; steps 5 and 6: nothing but the same tuple and a clean close is an
/// acknowledgement, and the cause of a failed park is told (R-APPR-7).
#[tokio::test]
async fn a_park_is_acknowledged_word_for_word() {
    let parked = || TestSink::with_tools([Err(SinkError::Parked(at("c")))]);
    let gate = || [Say::Event(tool("c", Mediation::RequiresApproval)), Say::Take];
    let (outcome, frames) = run(gate().into_iter().chain([Say::Event(acknowledged(at("c")))]), &parked()).await;
    assert_eq!(outcome, Err(Failure::Parked));
    assert_eq!(frames[1].frame, Some(Frame::Park(at("c"))));
    assert_eq!((frames[1].session.as_str(), frames[1].execution_id.as_str()), (SESSION, EXECUTION));

    let seq = v1::ApprovalRef { request_seq: 5, ..at("c") };
    let execution = v1::ApprovalRef { execution_id: "e9".into(), ..at("c") };
    let envelope = v1::Event { execution_id: "e9".into(), ..acknowledged(at("c")) };
    let ack = || Say::Event(acknowledged(at("c")));
    let cases: Vec<(&str, Vec<Say>)> = vec![
        ("acknowledgement", vec![]),
        ("acknowledgement", vec![Say::Event(acknowledged(at("d")))]),
        ("acknowledgement", vec![Say::Event(acknowledged(seq))]),
        ("acknowledgement", vec![Say::Event(acknowledged(execution))]),
        ("acknowledgement", vec![Say::Event(envelope)]),
        ("acknowledgement", vec![Say::Event(event(EventKind::EventParked, None))]),
        ("acknowledgement", vec![Say::Event(output("x"))]),
        ("acknowledgement", vec![Say::Event(model("m"))]),
        ("acknowledgement", vec![Say::Event(end("COMPLETED", ""))]),
        ("acknowledgement of the park: the harness ended with FAILED: why", vec![Say::Event(end("FAILED", "why"))]),
        ("closure", vec![ack(), ack()]),
        ("closure", vec![ack(), Say::Event(end("COMPLETED", ""))]),
        ("closure", vec![ack(), Say::Hang]),
        ("acknowledgement", vec![Say::Hang]),
        ("DataLoss: gone", vec![Say::Status(Status::data_loss("gone"))]),
        ("DataLoss: gone", vec![ack(), Say::Status(Status::data_loss("gone"))]),
    ];
    for (want, says) in cases {
        let told = format!("{says:?}");
        let (outcome, _) = run(gate().into_iter().chain(says), &parked()).await;
        let said = text(outcome);
        assert!(said.contains(want), "{told}: {said}");
    }
}

/// R-REMOTE-2: which answers of a peer mean that a later try may help.
#[tokio::test]
async fn the_peers_code_decides_whether_a_retry_can_help() {
    for (code, helps) in [
        (Code::Unavailable, true),
        (Code::DeadlineExceeded, true),
        (Code::Internal, false),
        (Code::Unimplemented, false),
        (Code::Unknown, false),
    ] {
        let raw = RawHarness::describing(Err(Status::new(code, "no")), []).await;
        let failure = raw.remote.describe().await.expect_err("it says no");
        assert_eq!(matches!(failure, Failure::Unavailable(_)), helps, "{code:?}: {failure}");
    }
}

/// R-REMOTE-5, W-6: a connection that breaks in the middle of a turn fails it.
#[tokio::test]
async fn a_broken_stream_fails_the_turn() {
    let raw = RawHarness::new([Say::Event(output("x")), Say::Status(Status::unavailable("going down"))]).await;
    let sink = TestSink::default();
    let said = text(raw.remote.run(start(), &sink).await);
    assert_eq!(
        (said.as_str(), sink.asked()),
        ("the harness answered Unavailable: going down", vec!["output x".to_owned()])
    );
}
