//! What a person is shown, and what happens when nobody decides.

mod support;

use std::sync::Arc;
use std::time::Duration;

use inspan_engine::ask::args_digest;
use inspan_engine::{Action, AskedBy, Code, EXPIRY, Error, ForkArgs, Policy, ReplayRule, Verdict};
use inspan_journal::{AskQuery, Asks, Session};
use inspan_wire::v1::{self, EventKind, ExecState, event::Body, tool_result};
use inspan_wire::{Digest, SessionUid, parse};

use support::{Tool, World, uid};

const HOUR_S: i64 = 3600;

/// Asks about every call whose id starts with `ask` and gives nobody longer than an hour for `ask-hour`.
struct Asking;

impl Policy for Asking {
    fn decide(&self, _: &v1::Session, _: &str, call: &v1::ToolCall) -> Option<Verdict> {
        let expires = (call.id == "ask-hour").then_some(Duration::from_secs(HOUR_S as u64));
        let rule = format!("rule-{}", call.id);
        call.id.starts_with("ask").then_some(Verdict { action: Action::Ask, rule, expires })
    }
}

fn world() -> World {
    World::with_tool(Tool { policy: Some(Arc::new(Asking)), ..Tool::new(ReplayRule::Keyed) })
}

fn runs(world: &World) -> usize {
    world.tool.as_ref().expect("these worlds have a tool").count()
}

async fn parked(world: &World, script: &str) -> (SessionUid, v1::ApprovalRef) {
    let session = world.create().await;
    let view = world.exec(&session, script).await.unwrap();
    (session, view.pending_approval.expect("it waits"))
}

fn decision(session: &SessionUid, asked: &v1::ApprovalRef, approved: bool) -> v1::ApproveRequest {
    v1::ApproveRequest {
        session: session.to_string(),
        execution_id: asked.execution_id.clone(),
        tool_call_id: asked.tool_call_id.clone(),
        request_seq: asked.request_seq,
        approved: Some(approved),
        ..Default::default()
    }
}

async fn stored(world: &World, session: &SessionUid) -> Session {
    world.journal.session(session).await.unwrap().unwrap()
}

async fn waiting(world: &World, of: Asks) -> Vec<String> {
    let page = world.journal.asks(AskQuery { of, limit: 100, after: None }).await.unwrap();
    page.asks.iter().map(|ask| ask.session.uid.to_string()).collect()
}

/// The last decision and the last receipt of a session.
async fn outcome(world: &World, session: &SessionUid) -> (v1::Event, v1::ToolResult) {
    let (mut decided, mut receipt) = (None, None);
    for record in world.records(session).await {
        let event = parse::event(&record.event).unwrap();
        match event.body.clone() {
            Some(Body::ApprovalResult(_)) => decided = Some(event),
            Some(Body::Result(result)) => receipt = Some(result),
            _ => {}
        }
    }
    (decided.expect("it was decided"), receipt.expect("it has a receipt"))
}

/// An ask is what its records say: the call as it would run, who asks, and since when.
#[tokio::test]
async fn an_ask_shows_the_recorded_call() {
    let w = world();
    for (script, by, rule, args) in [
        (r#"gate c k {"to": "ann", "amount": 5.0}"#, AskedBy::Harness, "", r#"{"amount":5,"to":"ann"}"#),
        (r#"tool ask-1 k {"to": "<bob>"}"#, AskedBy::Policy, "rule-ask-1", r#"{"to":"<bob>"}"#),
        ("gate ask-2 k", AskedBy::Harness, "rule-ask-2", ""),
        ("gate d k {}", AskedBy::Harness, "", "{}"),
    ] {
        let (s, reference) = parked(&w, script).await;
        w.hand.advance_s(1);
        let asked = w.engine.asked(&stored(&w, &s).await).await.unwrap().expect("it waits");
        assert_eq!((asked.by, asked.rule.as_str(), asked.args.as_str()), (by, rule, args), "{script}");
        assert_eq!(asked.args_digest, Digest::of(args.as_bytes()));
        assert_eq!((asked.call, asked.call_seq, asked.tool.as_str()), (reference.clone(), 3, "t"));
        assert_eq!((asked.harness.as_str(), asked.deadline_ns), ("moves", None));
        let records = w.records(&s).await;
        assert_eq!(asked.since_ms, records[usize::try_from(reference.request_seq).unwrap() - 1].ts_ms);
        let Some(Body::Tool(call)) = parse::event(&records[2].event).unwrap().body else { panic!("no call") };
        assert_eq!(args_digest(&call).unwrap(), asked.args_digest, "of what is on record");
    }
    let quiet = w.create().await;
    w.exec(&quiet, "model a").await.unwrap();
    assert_eq!(w.engine.asked(&stored(&w, &quiet).await).await.unwrap(), None);
}

/// What was shown is what runs: a decision that names other arguments is refused, and records and fences nothing.
#[tokio::test]
async fn a_decision_on_other_arguments_is_refused() {
    let w = world();
    let (s, asked) = parked(&w, r#"gate c k {"to": "ann"}; result"#).await;
    let shown = Digest::of(br#"{"to":"ann"}"#);
    let before = stored(&w, &s).await;
    for other in [Digest::of(br#"{"to":"bob"}"#), Digest::of(b"")] {
        for approved in [true, false] {
            let refused = w.engine.approve_shown(&decision(&s, &asked, approved), Some(other)).await.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition);
            let text = refused.to_string();
            assert!(text.contains(&shown.to_string()) && text.contains(&other.to_string()), "{text}");
        }
    }
    assert_eq!(stored(&w, &s).await, before, "no record, no fence");
    let decided = w.engine.approve_shown(&decision(&s, &asked, true), Some(shown)).await.unwrap();
    // R-APPR-18: the same again is the same record, with the digest and without it; with another it is refused.
    for again in [Some(shown), None] {
        let decided_again = w.engine.approve_shown(&decision(&s, &asked, true), again).await.unwrap();
        assert_eq!(decided_again.record, decided.record);
    }
    let refused = w.engine.approve_shown(&decision(&s, &asked, true), Some(Digest::of(b"x"))).await;
    assert!(matches!(refused, Err(Error::InvalidApprovalDecision(_))), "{refused:?}");
    w.restart().engine.resume(&s).await.unwrap();
    assert_eq!(runs(&w), 1);
}

/// A digest opens nothing in a fork, and a decision is good for its own request only.
#[tokio::test]
async fn a_digest_is_good_for_its_own_request() {
    let w = world();
    let (s, asked) = parked(&w, r#"gate c k {"a": 1}; gate d l {"a": 1}; result"#).await;
    let child = uid(&w.engine.fork(&s, ForkArgs::default()).await.unwrap()[0]);
    let shown = Some(Digest::of(br#"{"a":1}"#));
    let refused = w.engine.approve_shown(&decision(&child, &asked, true), shown).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(waiting(&w, Asks::All).await, [s.to_string()], "the child waits for nobody (R-APPR-34)");
    w.engine.approve_shown(&decision(&s, &asked, true), shown).await.unwrap();
    assert!(waiting(&w, Asks::All).await.is_empty(), "decided");
    w.engine.resume(&s).await.unwrap();
    assert_eq!(waiting(&w, Asks::All).await, [s.to_string()], "the second gate asks for itself (R-APPR-33)");
    let next = stored(&w, &s).await.state.pending.unwrap();
    let mixed = v1::ApprovalRef { tool_call_id: asked.tool_call_id, ..next };
    assert!(w.engine.approve_shown(&decision(&s, &mixed, true), shown).await.is_err());
    assert_eq!(runs(&w), 1);
}

/// What ends a wait takes it off the list: a decision, a cancel, a delete. What does not, does not.
#[tokio::test]
async fn a_wait_is_listed_until_it_ends() {
    let w = world();
    let (canceled, _) = parked(&w, "gate c k").await;
    let (deleted, _) = parked(&w, "gate c k").await;
    let (slept, _) = parked(&w, "gate c k").await;
    w.engine.suspend(&slept).await.unwrap();
    w.engine.resume(&slept).await.unwrap();
    assert_eq!(waiting(&w, Asks::All).await.len(), 3);
    w.engine.cancel(&canceled, "", "").await.unwrap();
    w.engine.delete(&deleted).await.unwrap();
    assert_eq!(waiting(&w, Asks::All).await, [slept.to_string()]);
}

/// Nobody decided in time: a denial by the host that says so, and the turn goes on from it, on another host too.
#[tokio::test]
async fn silence_is_an_outcome_of_its_own() {
    let w = world();
    let (s, _) = parked(&w, "tool ask-hour k; result").await;
    assert_eq!(waiting(&w, Asks::Due).await, [s.to_string()]);
    let asked = w.engine.asked(&stored(&w, &s).await).await.unwrap().unwrap();
    assert_eq!(asked.deadline_ns, stored(&w, &s).await.state.deadline_ns);
    assert_eq!(asked.reason, "policy rule rule-ask-hour; expires 2023-11-14T23:13:20Z");
    w.hand.advance_s(HOUR_S - 1);
    assert_eq!(w.engine.expire(&s).await.unwrap(), None, "a second is left");
    w.hand.advance_s(1);
    // The deadline is in the record: a host that starts later, with no policy at all, keeps to it.
    let w = w.restart_tool(Some(Arc::new(Tool::new(ReplayRule::Keyed))));
    let record = w.engine.expire(&s).await.unwrap().expect("it is due");
    assert_eq!(record.seq, 6);
    assert_eq!(w.engine.expire(&s).await.unwrap(), None, "once");
    assert!(waiting(&w, Asks::All).await.is_empty() && waiting(&w, Asks::Due).await.is_empty());
    let view = w.engine.resume(&s).await.unwrap();
    assert_eq!((view.exec_state(), runs(&w)), (ExecState::ExecCompleted, 0));
    let (decided, receipt) = outcome(&w, &s).await;
    assert_eq!(decided.kind(), EventKind::EventApprovalResult);
    let actor = decided.actor.expect("the host decided");
    assert_eq!((actor.principal.as_str(), actor.subject.as_str()), (EXPIRY, "rule-ask-hour"));
    let Some(Body::ApprovalResult(result)) = decided.body else { unreachable!("it is a decision") };
    assert_eq!((result.approved, result.reason.as_str()), (false, "nobody decided until 2023-11-14T23:13:20Z"));
    assert_eq!(receipt.code(), tool_result::Code::ApprovalDenied);
    assert_eq!(receipt.error, "the call was not approved and did not run: nobody decided in time");
    assert_eq!(w.engine.rerun(&s).await.unwrap().executions, 1, "and it re-runs like any denial");
}

/// Without a deadline a call waits for ever.
#[tokio::test]
async fn without_a_deadline_nothing_expires() {
    let w = world();
    let (s, asked) = parked(&w, "tool ask-ever k; result").await;
    w.hand.advance_s(100 * 365 * 24 * HOUR_S);
    assert_eq!(w.engine.expire(&s).await.unwrap(), None);
    w.engine.resume(&s).await.unwrap();
    w.engine.approve(&decision(&s, &asked, true)).await.unwrap();
    w.engine.resume(&s).await.unwrap();
    assert_eq!(runs(&w), 1);
}

/// An answer that comes too late is none, also before anybody has written down that it is too late; Resume does.
#[tokio::test]
async fn an_answer_behind_the_deadline_is_refused() {
    let w = world();
    let (s, asked) = parked(&w, "tool ask-hour k; result").await;
    w.hand.advance_s(HOUR_S);
    let before = stored(&w, &s).await;
    let late = w.engine.approve(&decision(&s, &asked, true)).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    assert!(late.to_string().contains("2023-11-14T23:13:20Z"), "{late}");
    assert_eq!(stored(&w, &s).await, before);
    let view = w.engine.resume(&s).await.unwrap();
    assert_eq!((view.exec_state(), runs(&w)), (ExecState::ExecCompleted, 0));
    assert_eq!(outcome(&w, &s).await.0.actor.unwrap().principal, EXPIRY);
}

/// Runs `work` on a runtime of its own, on this thread.
fn alone<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// A decision and the deadline at the same time: one of them is on record, whoever raced.
#[tokio::test]
async fn a_decision_and_the_deadline_have_one_winner() {
    for _ in 0..50 {
        let w = world();
        let (s, asked) = parked(&w, "tool ask-hour k; result").await;
        // Two hosts on one store: no guard is between them, only the journal is.
        let other = w.restart();
        w.hand.advance_s(HOUR_S - 1);
        let yes = decision(&s, &asked, true);
        let start = std::sync::Barrier::new(2);
        let (decided, expired) = std::thread::scope(|threads| {
            let deciding = threads.spawn(|| {
                start.wait();
                alone(async { other.engine.approve(&yes).await.map(|decided| decided.record) })
            });
            start.wait();
            w.hand.advance_s(1);
            let expired = std::thread::scope(|own| own.spawn(|| alone(w.engine.expire(&s))).join().unwrap());
            (deciding.join().unwrap(), expired)
        });
        let won = usize::from(decided.is_ok()) + usize::from(matches!(expired, Ok(Some(_))));
        assert_eq!(won, 1, "{decided:?} {expired:?}");
        let w = w.restart();
        w.engine.resume(&s).await.unwrap();
        assert_eq!(runs(&w), usize::from(decided.is_ok()));
        let text = w.journal_text(&s).await;
        assert_eq!(text.matches("APPROVAL_RESULT").count(), 1, "{text}");
    }
}

/// Nobody else decides in the host's name.
#[tokio::test]
async fn the_hosts_own_names_are_its_own() {
    let w = world();
    let (s, asked) = parked(&w, "gate c k").await;
    for name in ["expiry", "policy"] {
        let identity = Some(v1::IdentityRef { principal: name.to_owned(), ..Default::default() });
        let request = v1::ApproveRequest { identity, ..decision(&s, &asked, false) };
        assert_eq!(w.engine.approve(&request).await.unwrap_err().code(), Code::InvalidArgument);
    }
    assert_eq!(waiting(&w, Asks::All).await.len(), 1);
}

/// An ask with a deadline that a fork has inherited is its parent's: the child lets nobody's time run out.
#[tokio::test]
async fn a_fork_inherits_no_deadline() {
    let w = world();
    let (s, _) = parked(&w, "tool ask-hour k; result").await;
    let child = uid(&w.engine.fork(&s, ForkArgs::default()).await.unwrap()[0]);
    w.hand.advance_s(2 * HOUR_S);
    assert_eq!(waiting(&w, Asks::Due).await, [s.to_string()]);
    assert_eq!(stored(&w, &child).await.state.deadline_ns, None);
    assert_eq!(w.engine.expire(&child).await.unwrap(), None);
    assert!(w.engine.expire(&s).await.unwrap().is_some());
}
