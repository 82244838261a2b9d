//! Approval gates: how a turn parks, how it is decided, how it goes on.

#[path = "support/cut.rs"]
mod cut;
mod support;

use std::sync::Arc;

use cut::{Cut, Side};
use inspan_engine::{Code, Error, ForkArgs, ReplayRule};
use inspan_wire::v1::{self, EventKind, ExecState, event::Body, tool_result};
use inspan_wire::{SessionUid, parse};

use support::{Act, Answer, Tool, World, decision, end, input, request, start, uid};

fn world() -> World {
    World::with_tool(Tool::new(ReplayRule::Keyed))
}

fn tool(world: &World) -> &Tool {
    world.tool.as_ref().expect("these worlds have a tool")
}

/// A session whose turn plays `script` and parks.
async fn parked(world: &World, script: &str) -> (SessionUid, v1::ApprovalRef) {
    let session = world.create().await;
    let view = world.exec(&session, script).await.unwrap();
    (session, view.pending_approval.expect("it waits"))
}

async fn fence(world: &World, session: &SessionUid) -> i64 {
    world.journal.session(session).await.unwrap().unwrap().fence
}

async fn receipt(world: &World, session: &SessionUid) -> v1::ToolResult {
    let records = world.records(session).await;
    let events = records.iter().map(|r| parse::event(&r.event).unwrap());
    let receipts = events.filter_map(|e| match e.body {
        Some(Body::Result(r)) => Some(r),
        _ => None,
    });
    receipts.last().expect("there is a receipt")
}

/// R-APPR-2, R-APPR-6, R-APPR-15, R-APPR-17, R-APPR-25, R-APPR-27: park, decide, go on.
#[tokio::test]
async fn a_gated_call_waits_and_runs_once_approved() {
    let w = world();
    let (s, _) = parked(&w, "model a; gate c k; result").await;
    assert_eq!(w.engine.session(&s).await.unwrap().exec_state(), ExecState::ExecAwaiting);
    assert_eq!(tool(&w).count(), 0, "nothing runs before the decision");
    w.decide(&s, true).await.unwrap();
    let view = w.engine.session(&s).await.unwrap();
    assert_eq!((view.pending_approval, tool(&w).count()), (None, 0), "a decision runs nothing");
    let w = w.restart();
    let view = w.engine.resume(&s).await.unwrap();
    assert_eq!(view.exec_state(), ExecState::ExecCompleted);
    assert_eq!((tool(&w).count(), w.model.count()), (1, 1));
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user model a; gate c k; result
         3 MODEL_CALL m hashed
         4 OUTPUT assistant re:a
         5 TOOL_CALL c k
         6 APPROVAL_REQUEST c
         7 LIFECYCLE SUSPEND
         8 APPROVAL_RESULT c yes of 6
         9 TOOL_RESULT c ok by 8
         10 OUTPUT assistant c ok
         11 END COMPLETED
         12 LIFECYCLE RESUME",
    )
    .await;
    let r = receipt(&w, &s).await;
    assert_eq!((r.approval_request_seq, r.approval_decision_seq, r.is_error, r.code), (6, 8, false, 0));
    // R-REPLAY-6, R-APPR-31: decision and receipt are served, nothing runs.
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["re:a", "c ok"]);
    assert_eq!(tool(&w).count(), 1);
    assert!(w.exec(&s, "model b").await.is_ok(), "R-APPR-32: the receipt makes way");
}

/// R-APPR-26: denied is a result, the tool does not run.
#[tokio::test]
async fn a_denied_call_does_not_run() {
    let w = world();
    let (s, _) = parked(&w, "gate c k; result").await;
    w.decide(&s, false).await.unwrap();
    w.engine.resume(&s).await.unwrap();
    let r = receipt(&w, &s).await;
    assert_eq!((tool(&w).count(), r.is_error, r.code()), (0, true, tool_result::Code::ApprovalDenied));
    assert_eq!((r.content.len(), r.error.as_str()), (1, "the call was not approved and did not run"));
    assert_eq!(w.engine.rerun(&s).await.unwrap().executions, 1);
}

/// R-APPR-25: a tool that fails after its approval gives a receipt too, and the harness sees a result.
#[tokio::test]
async fn a_failure_behind_an_approval_is_a_receipt() {
    for (act, text) in [(Act::SayFailed, "it says no"), (Act::Lose, "no answer"), (Act::Miss, "not reached")] {
        let w = world();
        let (s, _) = parked(&w, "gate c k; result").await;
        w.decide(&s, true).await.unwrap();
        tool(&w).then([act]);
        w.engine.resume(&s).await.unwrap();
        let r = receipt(&w, &s).await;
        assert_eq!((r.is_error, r.code(), r.error.as_str()), (true, tool_result::Code::ExecutorError, text));
        assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, [format!("c {text}")]);
    }
}

/// R-APPR-3, R-APPR-4: nothing happens behind a park, whatever the harness does.
#[tokio::test]
async fn a_park_cannot_be_swallowed() {
    let w = world();
    let (s, _) = parked(&w, "swallowgate c k; swallow x; swallowgate d l").await;
    assert_eq!((w.model.count(), tool(&w).count()), (0, 0));
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user swallowgate c k; swallow x; swallowgate d l
         3 TOOL_CALL c k
         4 APPROVAL_REQUEST c
         5 LIFECYCLE SUSPEND",
    )
    .await;
    // R-APPR-4, R-APPR-7: a failure on the way out is reported, not recorded; the request can be decided.
    let s = w.create().await;
    let failed = w.exec(&s, "brokengate c k").await.unwrap_err();
    assert_eq!((failed.code(), failed.to_string().as_str()), (Code::Internal, "broken on its way out"));
    let text = w.journal_text(&s).await;
    assert!(text.ends_with("4 APPROVAL_REQUEST c"), "{text}");
    w.decide(&s, true).await.unwrap();
}

/// R-APPR-1: what cannot be gated is refused before any record, with its own status, and the turn may go on.
#[tokio::test]
async fn what_cannot_be_gated_is_refused() {
    let w = world();
    for (script, code) in [
        ("gate  k", Code::FailedPrecondition),
        ("gate c ", Code::Internal),
        ("tool c k; gate c l", Code::FailedPrecondition),
    ] {
        let s = w.create().await;
        let failed = w.exec(&s, script).await.unwrap_err();
        assert_eq!(failed.code(), code, "{script}: {failed}");
        assert!(!w.journal_text(&s).await.contains("APPROVAL"), "{script}");
    }
    // R-TOOL-14: the refusal comes again on a re-run, without the recording's help.
    let (s, asked) = parked(&w, "tool c k; trygate c l; gate d m; result").await;
    assert_eq!(asked.tool_call_id, "d");
    w.decide(&s, true).await.unwrap();
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["d ok"]);
}

/// R-APPR-16: a decision names everything.
#[tokio::test]
async fn an_incomplete_decision_is_refused() {
    let w = world();
    let (s, asked) = parked(&w, "gate c k").await;
    let whole = decision(&s, &asked, true);
    type Spoil = fn(&mut v1::ApproveRequest);
    let spoils: [Spoil; 5] = [
        |r| r.session.clear(),
        |r| r.execution_id.clear(),
        |r| r.tool_call_id.clear(),
        |r| r.request_seq = 0,
        |r| r.approved = None,
    ];
    for spoil in spoils {
        let mut request = whole.clone();
        spoil(&mut request);
        assert_eq!(w.engine.approve(&request).await.unwrap_err().code(), Code::InvalidArgument);
    }
    let unknown = v1::ApproveRequest { session: "sess-0".to_owned(), ..whole };
    assert_eq!(w.engine.approve(&unknown).await.unwrap_err().code(), Code::NotFound);
}

/// R-APPR-17, R-APPR-18, R-APPR-19, R-APPR-20: the same again is the same record; anything else is refused; neither
/// takes a fence.
#[tokio::test]
async fn a_decision_stands() {
    let w = world();
    let (s, asked) = parked(&w, "gate c k; gate d l").await;
    let identity = Some(v1::IdentityRef { principal: "ann".to_owned(), ..Default::default() });
    let first = v1::ApproveRequest { reason: "fine".to_owned(), identity, ..decision(&s, &asked, true) };
    let done = w.engine.approve(&first).await.unwrap();
    let event = parse::event(&done.record.event).unwrap();
    assert_eq!((event.actor.unwrap().principal.as_str(), event.ts.is_some()), ("ann", true));
    let before = (fence(&w, &s).await, w.records(&s).await);
    assert_eq!(w.engine.approve(&first).await.unwrap().record, done.record);
    for other in [
        v1::ApproveRequest { approved: Some(false), ..first.clone() },
        v1::ApproveRequest { reason: "else".to_owned(), ..first.clone() },
        v1::ApproveRequest { identity: None, ..first.clone() },
        v1::ApproveRequest { tool_call_id: "d".to_owned(), ..first.clone() },
        v1::ApproveRequest { execution_id: "0".to_owned(), ..first.clone() },
        v1::ApproveRequest { request_seq: 3, ..first.clone() },
        v1::ApproveRequest { request_seq: 99, ..first.clone() },
    ] {
        let refused = w.engine.approve(&other).await.unwrap_err();
        assert!(matches!(refused, Error::InvalidApprovalDecision(_)), "{refused}");
        assert_eq!(refused.code(), Code::FailedPrecondition);
    }
    assert_eq!((fence(&w, &s).await, w.records(&s).await), before);
    // Still so once the turn has gone on, waits again, has ended, and a newer one is there.
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.engine.approve(&first).await.unwrap().record, done.record);
    let again = w.engine.session(&s).await.unwrap().pending_approval.unwrap();
    assert_eq!(again.tool_call_id, "d", "R-APPR-33: a second gate of the same turn");
    w.decide(&s, true).await.unwrap();
    w.engine.resume(&s).await.unwrap();
    w.exec(&s, "model x").await.unwrap();
    assert_eq!(w.engine.approve(&first).await.unwrap().record, done.record);
    assert_eq!(tool(&w).effects(), 2);
}

/// An identity that says nothing is none (C-3).
#[tokio::test]
async fn an_empty_identity_is_none() {
    let w = world();
    let (s, asked) = parked(&w, "gate c k").await;
    let empty = v1::ApproveRequest { identity: Some(v1::IdentityRef::default()), ..decision(&s, &asked, true) };
    let done = w.engine.approve(&empty).await.unwrap();
    assert_eq!(parse::event(&done.record.event).unwrap().actor, None);
    assert_eq!(w.engine.approve(&decision(&s, &asked, true)).await.unwrap().record, done.record);
}

/// R-APPR-22, R-APPR-35: an undecided gate is answered again, without a fence, a record or a harness.
#[tokio::test]
async fn an_undecided_turn_goes_on_waiting() {
    let w = world();
    let (s, asked) = parked(&w, "gate c k").await;
    let before = (fence(&w, &s).await, w.records(&s).await.len());
    let nobody = w.restart_with(vec![("echo".to_owned(), Arc::new(inspan_harness::reference::Echo))]);
    let view = nobody.engine.resume(&s).await.unwrap();
    assert_eq!((view.exec_state(), view.pending_approval), (ExecState::ExecAwaiting, Some(asked.clone())));
    assert_eq!((fence(&w, &s).await, w.records(&s).await.len()), before);
    let refused = nobody.engine.suspend(&s).await.unwrap_err();
    assert!(matches!(refused, Error::RecordedHarnessNotServed(_)), "{refused}");
    w.engine.suspend(&s).await.unwrap();
    assert_eq!(w.engine.session(&s).await.unwrap().pending_approval, Some(asked));
}

/// R-APPR-24, R-APPR-32: a new turn waits for the receipt; without inputs an Exec goes on with the turn.
#[tokio::test]
async fn an_exec_without_inputs_goes_on() {
    let w = world();
    let (s, asked) = parked(&w, "gate c k; result").await;
    let refused = w.engine.accept(request(&s, "model x"), "default").await.map(drop).unwrap_err();
    assert!(matches!(refused, Error::ApprovalBlocked { .. }), "{refused}");
    let empty = v1::ExecRequest { session: s.to_string(), harness: "nobody".to_owned(), ..Default::default() };
    let view = w.exec_request(empty.clone()).await.unwrap();
    assert_eq!(view.pending_approval, Some(asked.clone()));
    w.decide(&s, true).await.unwrap();
    let refused = w.engine.accept(request(&s, "model x"), "default").await.map(drop).unwrap_err();
    assert!(matches!(refused, Error::ApprovalBlocked { .. }), "the receipt makes way, not the decision: {refused}");
    let stale = v1::ExecRequest { expected_last_seq: Some(1), ..empty.clone() };
    assert_eq!(w.exec_request(stale).await.unwrap_err().code(), Code::Aborted);
    let late = v1::ExecRequest { deadline_unix: 1, expected_last_seq: Some(1), ..empty.clone() };
    assert_eq!(w.exec_request(late).await.unwrap_err().code(), Code::DeadlineExceeded);
    let turn = w.engine.accept(empty, "default").await.unwrap();
    assert_eq!((turn.recovers(), turn.execution_id()), (true, asked.execution_id.as_str()));
    assert_eq!(turn.run().await.unwrap().exec_state(), ExecState::ExecCompleted);
    assert_eq!(tool(&w).count(), 1);
}

/// R-APPR-28: without an executor the decision stands and nothing is written; a host that has one goes on.
#[tokio::test]
async fn a_decision_waits_for_an_executor() {
    let w = world();
    let (s, _) = parked(&w, "gate c k; result").await;
    w.decide(&s, true).await.unwrap();
    let before = w.records(&s).await.len();
    let bare = w.restart_tool(None);
    let refused = bare.engine.resume(&s).await.unwrap_err();
    assert!(matches!(refused, Error::MissingToolExecutor(_)), "{refused}");
    assert_eq!((refused.code(), w.records(&s).await.len()), (Code::FailedPrecondition, before));
    w.restart().engine.resume(&s).await.unwrap();
    assert_eq!(tool(&w).count(), 1);
}

fn event(kind: EventKind, body: Body) -> v1::Event {
    v1::Event::new("e1", kind, body)
}

fn gated_call() -> v1::Event {
    let call = v1::ToolCall {
        id: "c".to_owned(),
        tool: "t".to_owned(),
        mediation: v1::Mediation::RequiresApproval.into(),
        idempotency_key: "k".to_owned(),
        ..Default::default()
    };
    event(EventKind::EventToolCall, Body::Tool(call))
}

fn asks() -> v1::Event {
    let asks = v1::ApprovalRequest { tool_call_id: "c".to_owned(), reason: String::new() };
    event(EventKind::EventApprovalRequest, Body::Approval(asks))
}

fn decided(request_seq: i64) -> v1::Event {
    let decided =
        v1::ApprovalResult { tool_call_id: "c".to_owned(), approved: true, reason: String::new(), request_seq };
    event(EventKind::EventApprovalResult, Body::ApprovalResult(decided))
}

fn receipted(decision_seq: i64) -> v1::Event {
    let receipt = v1::ToolResult {
        id: "c".to_owned(),
        approval_request_seq: 4,
        approval_decision_seq: decision_seq,
        ..Default::default()
    };
    event(EventKind::EventToolResult, Body::Result(receipt))
}

async fn planted(world: &World, events: Vec<v1::Event>) -> SessionUid {
    let session = world.create().await;
    let begun = [start("e1", Some(1), "moves", "1"), input("e1", "gate c k; result")];
    world.plant(&session, begun.into_iter().chain(events).collect()).await;
    session
}

/// R-APPR-5, R-APPR-23: a crash between the call and its request is repaired under one fence, and then waits.
#[tokio::test]
async fn a_lost_request_is_repaired() {
    let w = world();
    let s = planted(&w, vec![gated_call()]).await;
    assert_eq!(w.engine.session(&s).await.unwrap().pending_approval, None, "R-APPR-15");
    let before = fence(&w, &s).await;
    let view = w.engine.resume(&s).await.unwrap();
    assert_eq!(view.pending_approval.as_ref().map(|asked| asked.request_seq), Some(4));
    assert_eq!((fence(&w, &s).await, w.records(&s).await.len()), (before + 1, 4));
    assert!(view.pending_approval.is_some());
    w.decide(&s, true).await.unwrap();
    w.engine.resume(&s).await.unwrap();
    assert_eq!(tool(&w).count(), 1);
}

/// R-APPR-8, R-APPR-9, R-APPR-10, R-APPR-11, R-APPR-13, R-APPR-31: evidence that does not fit together stops the turn before its harness
/// runs.
#[tokio::test]
async fn bad_evidence_is_refused() {
    let other = |mut event: v1::Event| {
        match &mut event.body {
            Some(Body::Approval(a)) => a.tool_call_id = "d".to_owned(),
            Some(Body::ApprovalResult(a)) => a.tool_call_id = "d".to_owned(),
            Some(Body::Result(r)) => r.id = "d".to_owned(),
            Some(Body::Tool(t)) => t.idempotency_key.clear(),
            _ => {}
        }
        event
    };
    let status = |mut event: v1::Event| {
        if let Some(Body::Result(r)) = &mut event.body {
            r.code = tool_result::Code::ApprovalDenied.into();
            r.is_error = true;
        }
        event
    };
    let internal = Code::Internal;
    let precondition = Code::FailedPrecondition;
    let cases = [
        (vec![asks()], precondition),
        (vec![decided(3)], precondition),
        (vec![receipted(5)], precondition),
        (vec![other(gated_call()), asks()], precondition),
        (vec![gated_call(), asks(), asks()], precondition),
        (vec![gated_call(), asks(), receipted(5)], precondition),
        (vec![gated_call(), asks(), decided(4), decided(4)], precondition),
        (vec![gated_call(), gated_call()], precondition),
        (vec![gated_call(), asks(), input("e1", "x")], precondition),
        (vec![gated_call(), asks(), support::output("e1", "x")], precondition),
        (vec![gated_call(), asks(), support::model_call("e1", "x")], precondition),
        (vec![gated_call(), asks(), decided(4), receipted(5), gated_call()], precondition),
        (vec![gated_call(), other(asks())], internal),
        (vec![gated_call(), asks(), other(decided(4))], internal),
        (vec![gated_call(), asks(), decided(3)], internal),
        (vec![gated_call(), asks(), decided(4), other(receipted(5))], internal),
        (vec![gated_call(), asks(), decided(4), receipted(4)], internal),
        (vec![gated_call(), asks(), decided(4), status(receipted(5))], internal),
    ];
    for (events, code) in cases {
        let w = world();
        let text: Vec<_> = events.iter().map(|e| e.kind().as_str_name()).collect();
        let s = planted(&w, events.clone()).await;
        let refused = w.engine.resume(&s).await.map(drop).unwrap_err();
        assert_eq!(refused.code(), code, "{text:?}: {refused}");
        assert_eq!((w.model.count(), tool(&w).count()), (0, 0));
    }
    // R-APPR-13: an ERROR and a SUSPEND in between are none of the call's.
    let w = world();
    let s = planted(&w, vec![gated_call(), support::error("e1", "x"), asks(), support::error("e1", "y")]).await;
    assert!(w.engine.session(&s).await.unwrap().pending_approval.is_some());
}

/// END behind an open gate breaks it; a turn that was cancelled while it waited is over.
#[tokio::test]
async fn a_waiting_turn_can_be_cancelled() {
    let w = world();
    let s = planted(&w, vec![gated_call(), asks(), end("e1")]).await;
    assert_eq!(w.engine.resume(&s).await.unwrap_err().code(), Code::FailedPrecondition);
    let (s, asked) = parked(&w, "gate c k").await;
    let view = w.engine.cancel(&s, "", "").await.unwrap();
    assert_eq!((view.exec_state(), view.pending_approval), (ExecState::ExecCanceled, None));
    let refused = w.engine.approve(&decision(&s, &asked, true)).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidApprovalDecision(_)), "R-APPR-19: {refused}");
    w.exec(&s, "model a").await.unwrap();
    assert_eq!(w.engine.rerun(&s).await.unwrap().executions, 1);
}

/// R-APPR-30: another call at the gate's place is a divergence, not a decision on it.
#[tokio::test]
async fn a_decision_fits_its_call_only() {
    let w = world();
    let (s, _) = parked(&w, "gate c k").await;
    w.decide(&s, true).await.unwrap();
    let twisted = inspan_testkit::harness::Moves::default().twisted("c k", "c other");
    let other = w.restart_with(vec![("moves".to_owned(), Arc::new(twisted))]);
    let refused = other.engine.resume(&s).await.unwrap_err();
    assert!(matches!(refused, Error::ReplayDiverged { seq: 3, .. }), "{refused}");
    assert_eq!(tool(&w).count(), 0);
    w.engine.resume(&s).await.unwrap();
    assert_eq!(tool(&w).count(), 1);
}

/// R-APPR-34, R-FORK-9: an inherited gate is the parent's; the child starts anew.
#[tokio::test]
async fn a_fork_does_not_inherit_the_decision() {
    let w = world();
    let (s, asked) = parked(&w, "gate c k").await;
    let child = uid(&w.engine.fork(&s, ForkArgs::default()).await.unwrap()[0]);
    let view = w.engine.session(&child).await.unwrap();
    assert_eq!(view.pending_approval, None);
    assert!(matches!(w.engine.resume(&child).await.unwrap_err(), Error::InheritedToolIntent));
    let refused = w.engine.approve(&decision(&child, &asked, true)).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidApprovalDecision(_)), "{refused}");
    w.exec(&child, "model a").await.unwrap();
    w.decide(&s, true).await.unwrap();
    w.engine.resume(&s).await.unwrap();
    // R-APPR-14: what a child shows is what its own part of the journal says.
    let child = uid(&w.engine.fork(&s, ForkArgs { at_seq: 2, ..Default::default() }).await.unwrap()[0]);
    let view = w.engine.session(&child).await.unwrap();
    assert_eq!((view.last_seq, view.exec_state(), view.pending_approval), (3, ExecState::ExecFailed, None));
    // With its receipt it is served.
    let child = uid(&w.engine.fork(&s, ForkArgs { at_seq: 7, ..Default::default() }).await.unwrap()[0]);
    w.engine.resume(&child).await.unwrap();
    assert_eq!(tool(&w).count(), 1);
}

/// R-APPR-12: a decided gate of an older turn is none of the newer one's.
#[tokio::test]
async fn only_the_last_turn_waits() {
    let w = world();
    let s = planted(&w, vec![gated_call(), asks()]).await;
    w.plant(&s, vec![start("e2", Some(1), "moves", "1"), input("e2", "model a")]).await;
    assert_eq!(w.engine.session(&s).await.unwrap().pending_approval, None);
    w.engine.resume(&s).await.unwrap();
    assert_eq!((w.model.count(), tool(&w).count()), (1, 0));
}

/// R-APPR-21: a journal that another host has moved on takes no decision.
#[tokio::test]
async fn a_decision_that_comes_too_late_is_aborted() {
    let w = world();
    let (s, asked) = parked(&w, "gate c k").await;
    let before = w.records(&s).await.len();
    let overtaken = Cut::new(w.journal.clone(), 0, Side::Overtaken);
    let late = World::over(overtaken, w.hand.clone(), Vec::new(), w.model.clone());
    let refused = late.engine.approve(&decision(&s, &asked, true)).await.unwrap_err();
    assert_eq!((refused.code(), w.records(&s).await.len()), (Code::Aborted, before + 1), "{refused}");
    assert!(w.engine.session(&s).await.unwrap().pending_approval.is_some());
}

/// Of many decisions at once one stands, and all the same ones get it.
#[tokio::test]
async fn of_many_decisions_one_stands() {
    let w = world();
    let (s, asked) = parked(&w, "gate c k").await;
    let racers = (0..64).map(|n| {
        let (w, request) = (w.clone(), decision(&s, &asked, n % 2 == 0));
        tokio::spawn(async move { w.engine.approve(&request).await })
    });
    let mut stands = Vec::new();
    for racer in racers.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Ok(decided) => stands.push(decided.record),
            Err(e) => assert!(matches!(e.code(), Code::Aborted | Code::FailedPrecondition), "{e}"),
        }
    }
    assert!(!stands.is_empty());
    assert!(stands.iter().all(|record| *record == stands[0]));
    assert_eq!(w.journal_text(&s).await.matches("APPROVAL_RESULT").count(), 1);
}

/// R-APPR-29: a receipt that was lost is made again with the same key; what may not run twice is closed as unknown.
#[tokio::test]
async fn a_lost_receipt_is_made_again_with_its_key() {
    for (rule, runs, text) in [
        (ReplayRule::Keyed, 2, "c ok"),
        (ReplayRule::Safe, 2, "c ok"),
        (ReplayRule::Never, 1, "c the call was sent and how it ended is not known; it is not run again"),
    ] {
        let w = World::with_tool(Tool::new(rule));
        let (s, _) = parked(&w, "gate c k; result").await;
        w.decide(&s, true).await.unwrap();
        tool(&w).then([Act::Hang]);
        let engine = w.engine.clone();
        let cut = {
            let s = s.clone();
            tokio::spawn(async move { engine.resume(&s).await })
        };
        while tool(&w).count() == 0 {
            tokio::task::yield_now().await;
        }
        cut.abort();
        drop(cut.await);
        let w = w.restart();
        w.engine.resume(&s).await.unwrap();
        assert_eq!((tool(&w).count(), tool(&w).effects()), (runs, 1), "{rule:?}");
        assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, [text]);
    }
}

/// A model call and a gate in one turn: the model is asked once over all of it.
#[tokio::test]
async fn a_wait_costs_no_model_call() {
    let w = world();
    w.model.then([Answer::Reply]);
    let (s, _) = parked(&w, "model a; gate c k; again").await;
    w.decide(&s, true).await.unwrap();
    w.restart().engine.resume(&s).await.unwrap();
    assert_eq!(w.model.take_calls(), ["a", "c ok"]);
}
