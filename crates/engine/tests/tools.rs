//! Tool calls that the host runs: what is recorded when, what is driven again, what a policy says.

mod support;

use std::sync::Arc;

use inspan_engine::{Action, Code, Policy, ReplayRule, ToolRun, Verdict};
use inspan_harness::{Failure, Harness, Sink, Start};
use inspan_testkit::harness::Moves;
use inspan_wire::v1::{self, EventKind, event::Body, tool_result};
use inspan_wire::{SessionUid, parse};

use support::{Act, Tool, World, input, start};

fn world(rule: ReplayRule) -> World {
    World::with_tool(Tool::new(rule))
}

fn tool(world: &World) -> &Tool {
    world.tool.as_ref().expect("these worlds have a tool")
}

async fn events(world: &World, session: &SessionUid) -> Vec<v1::Event> {
    world.records(session).await.iter().map(|r| parse::event(&r.event).unwrap()).collect()
}

/// R-TOOL-3, R-TOOL-10: the call is on record before it runs, its result carries the call's id; a re-run runs nothing.
#[tokio::test]
async fn a_call_is_recorded_run_and_recorded() {
    let w = world(ReplayRule::Ask);
    let s = w.create().await;
    w.exec(&s, "tool c k; result; model a").await.unwrap();
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user tool c k; result; model a
         3 TOOL_CALL c k
         4 TOOL_RESULT c
         5 OUTPUT assistant c ok
         6 MODEL_CALL m hashed
         7 OUTPUT assistant re:a
         8 END COMPLETED",
    )
    .await;
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["c ok", "re:a"]);
    assert_eq!(tool(&w).count(), 1);
}

/// R-TOOL-5, R-TOOL-13, R-TOOL-15: a tool that cannot be reached is the harness's to handle, live and again.
#[tokio::test]
async fn a_failed_run_leaves_no_receipt() {
    let w = world(ReplayRule::Keyed);
    let s = w.create().await;
    tool(&w).then([Act::Lose]);
    w.exec(&s, "trytool c k; tool d l; result").await.unwrap();
    let text = w.journal_text(&s).await;
    assert!(text.contains("3 TOOL_CALL c k\n4 TOOL_CALL d l\n5 TOOL_RESULT d"), "{text}");
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["d ok"]);
    let s = w.create().await;
    tool(&w).then([Act::SayFailed]);
    w.exec(&s, "tool c k; result").await.unwrap();
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["c it says no"], "a tool that says no has answered");
}

fn call() -> v1::Event {
    let call = v1::ToolCall {
        id: "c".to_owned(),
        tool: "t".to_owned(),
        mediation: v1::Mediation::ControllerMediated.into(),
        idempotency_key: "k".to_owned(),
        ..Default::default()
    };
    v1::Event::new("e1", EventKind::EventToolCall, Body::Tool(call))
}

async fn cut_at_the_call(world: &World) -> SessionUid {
    let session = world.create().await;
    world.plant(&session, vec![start("e1", Some(1), "moves", "1"), input("e1", "tool c k; result"), call()]).await;
    session
}

/// R-TOOL-6, R-TOOL-11, R-TOOL-16: an unknown outcome is driven again with its key, told as a repetition, when the tool
/// bears it.
#[tokio::test]
async fn an_unknown_outcome_is_driven_again_when_it_may_be() {
    for rule in [ReplayRule::Safe, ReplayRule::Keyed] {
        let w = world(rule);
        let s = cut_at_the_call(&w).await;
        w.engine.resume(&s).await.unwrap();
        let call = v1::ToolCall { idempotency_key: "k".to_owned(), ..Default::default() };
        let key = ToolRun { session: s.clone(), call, seq: 3, again: false }.effect_key();
        assert_eq!(*tool(&w).runs.lock().unwrap(), [(key, true)]);
        assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["c ok"]);
    }
}

/// A tool that must not run twice is asked about, and its answer stands.
#[tokio::test]
async fn an_unknown_outcome_is_asked_about() {
    let w = world(ReplayRule::Ask);
    let s = cut_at_the_call(&w).await;
    let view = w.engine.resume(&s).await.unwrap();
    assert!(view.pending_approval.is_some(), "a person decides");
    assert_eq!(tool(&w).count(), 0);
    let text = w.journal_text(&s).await;
    assert!(text.contains("4 APPROVAL_REQUEST c (this call was sent"), "{text}");
    w.decide(&s, true).await.unwrap();
    w.engine.resume(&s).await.unwrap();
    assert_eq!(tool(&w).count(), 1);
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["c ok"]);
}

/// A tool that is never run twice leaves its call closed as unknown.
#[tokio::test]
async fn an_unknown_outcome_is_closed() {
    let w = world(ReplayRule::Never);
    let s = cut_at_the_call(&w).await;
    w.engine.resume(&s).await.unwrap();
    assert_eq!(tool(&w).count(), 0);
    let outputs = w.engine.rerun(&s).await.unwrap().outputs;
    assert!(outputs[0].starts_with("c the call was sent and how it ended is not known"), "{outputs:?}");
}

/// R-TOOL-16: the same key in two sessions, a fork among them, is two effects; in one session it is one.
#[tokio::test]
async fn effects_are_told_apart_by_session_and_key() {
    let w = world(ReplayRule::Keyed);
    let (a, b) = (w.create().await, w.create().await);
    for session in [&a, &b] {
        w.exec(session, "tool c k").await.unwrap();
    }
    let child = support::uid(&w.engine.fork(&a, Default::default()).await.unwrap()[0]);
    w.exec(&child, "tool c k").await.unwrap();
    assert_eq!((tool(&w).count(), tool(&w).effects()), (3, 3));
}

/// R-CAS-3: no tool runs without a session to tell its effects apart by: a request that names none gets one.
#[tokio::test]
async fn a_tool_always_runs_for_a_session() {
    let w = world(ReplayRule::Keyed);
    let view = w.exec_request(v1::ExecRequest { session: String::new(), ..support::request(&"".into(), "tool c k") });
    let session = support::uid(&view.await.unwrap());
    assert!(!session.as_str().is_empty());
    let call = v1::ToolCall { idempotency_key: "k".to_owned(), ..Default::default() };
    let run = ToolRun { session, call, seq: 3, again: false };
    assert_eq!(tool(&w).runs.lock().unwrap()[0].0, run.effect_key());
}

/// R-TOOL-17: what an argument is worth is the tool's to judge, not the host's.
#[tokio::test]
async fn odd_arguments_are_recorded_and_passed_on() {
    struct Odd;
    #[inspan_harness::async_trait]
    impl Harness for Odd {
        async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
            Moves::default().describe().await
        }
        async fn run(&self, _: Start, sink: &dyn Sink) -> Result<(), Failure> {
            let number = |n| prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(n)) };
            let fields = [("big", number(1e308)), ("beyond 2^53", number(9_007_199_254_740_993.0)), ("", number(-0.0))];
            let args = prost_types::Struct { fields: fields.map(|(k, v)| (k.to_owned(), v)).into() };
            let mediation = v1::Mediation::ControllerMediated.into();
            let call =
                v1::ToolCall { args: Some(args), mediation, idempotency_key: "k".to_owned(), ..Default::default() };
            sink.tool(call).await?;
            Ok(())
        }
    }
    let w = world(ReplayRule::Keyed).restart_with(vec![("odd".to_owned(), Arc::new(Odd))]);
    let s = w.create().await;
    w.exec(&s, "x").await.unwrap();
    assert_eq!((tool(&w).count(), w.engine.rerun(&s).await.unwrap().effects), (1, 2));
}

/// Rules by the call's id.
struct ById;

impl Policy for ById {
    fn decide(&self, _: &v1::Session, harness: &str, call: &v1::ToolCall) -> Option<Verdict> {
        assert_eq!(harness, "moves");
        let action = match call.id.as_str() {
            "yes" => Action::Allow,
            "no" => Action::Deny,
            "who" => Action::Ask,
            _ => return None,
        };
        Some(Verdict { action, rule: format!("rule-{}", call.id), expires: None })
    }
}

fn under_policy() -> World {
    World::with_tool(Tool { policy: Some(Arc::new(ById)), ..Tool::new(ReplayRule::Keyed) })
}

fn rule_of(events: &[v1::Event], seq: usize) -> Option<&str> {
    events[seq - 1].actor.as_ref().filter(|a| a.principal == inspan_engine::POLICY).map(|a| a.subject.as_str())
}

/// Every call is put to the policy, and the rule that spoke is on record.
#[tokio::test]
async fn a_policy_allows_and_denies() {
    let w = under_policy();
    let s = w.create().await;
    w.exec(&s, "tool yes k; tool other l; tool no m; result; model a").await.unwrap();
    let all = events(&w, &s).await;
    assert_eq!(tool(&w).count(), 2, "what is denied does not run");
    assert_eq!((rule_of(&all, 3), rule_of(&all, 5), rule_of(&all, 7)), (Some("rule-yes"), None, Some("rule-no")));
    let Some(Body::Result(denied)) = &all[7].body else { panic!("{:?}", all[7]) };
    assert_eq!((denied.is_error, denied.code()), (true, tool_result::Code::ExecutorError));
    let rerun = w.engine.rerun(&s).await.unwrap();
    assert_eq!(rerun.outputs[0], "no policy rule rule-no denies this call: it did not run");
}

/// A gated call that a rule denies gets its whole gate, decided by the rule.
#[tokio::test]
async fn a_policy_decides_at_the_gate() {
    let w = under_policy();
    let s = w.create().await;
    let view = w.exec(&s, "gate no k; result; gate yes l").await.unwrap();
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user gate no k; result; gate yes l
         3 TOOL_CALL no k
         4 APPROVAL_REQUEST no
         5 APPROVAL_RESULT no no of 4
         6 TOOL_RESULT no error by 5
         7 OUTPUT assistant no the call was not approved and did not run: policy rule rule-no
         8 TOOL_CALL yes l
         9 APPROVAL_REQUEST yes (policy rule rule-yes)
         10 LIFECYCLE SUSPEND",
    )
    .await;
    let all = events(&w, &s).await;
    assert_eq!((rule_of(&all, 5), all[4].ts.is_some()), (Some("rule-no"), true));
    assert!(view.pending_approval.is_some(), "a rule that allows does not take away what the harness asked for");
    assert_eq!(tool(&w).count(), 0);
}

/// An ordinary call that a rule asks about waits like a gated one.
#[tokio::test]
async fn a_policy_asks() {
    let w = under_policy();
    let s = w.create().await;
    let view = w.exec(&s, "model a; tool who k; result").await.unwrap();
    assert!(view.pending_approval.is_some(), "it waits");
    let text = w.journal_text(&s).await;
    assert!(text.contains("6 APPROVAL_REQUEST who (policy rule rule-who)\n7 LIFECYCLE SUSPEND"), "{text}");
    w.decide(&s, true).await.unwrap();
    let w = w.restart();
    w.engine.resume(&s).await.unwrap();
    assert_eq!((tool(&w).count(), w.model.count()), (1, 1));
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["re:a", "who ok"]);
    // Without an id of its own it cannot be asked about: the harness is told, nothing is recorded.
    let refused = w.exec(&s, "tool  k").await;
    assert!(refused.is_ok(), "no rule speaks of it");
}

/// R-APPR-10: the id of a call that waited comes not again in its turn, whoever made it wait; the refusal is told before
/// anything is recorded, and the same on a re-run.
#[tokio::test]
async fn the_id_of_a_call_that_waited_is_not_used_again() {
    let w = under_policy();
    let s = w.create().await;
    w.exec(&s, "tool who k; trytool who l; tool yes m; result").await.unwrap();
    w.decide(&s, true).await.unwrap();
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.journal_text(&s).await.matches("TOOL_CALL who").count(), 1);
    assert_eq!(w.restart().engine.rerun(&s).await.unwrap().outputs, ["yes ok"]);
    let s = w.create().await;
    w.exec(&s, "gate no k; trytool no l; tool yes m; result").await.unwrap();
    assert_eq!(w.restart().engine.rerun(&s).await.unwrap().outputs, ["yes ok"]);
}

/// R-APPR-1, R-REPLAY-6: a harness whose memory would have to be kept gets no gate, and a re-run says the same.
#[tokio::test]
async fn a_memory_harness_gets_no_gate() {
    let mut keeps = Moves::default();
    keeps.descriptor.capabilities.as_mut().unwrap().resumability = v1::Resumability::RequiresMemorySnapshot.into();
    let w = world(ReplayRule::Keyed).restart_with(vec![("moves".to_owned(), Arc::new(keeps))]).keeping_memory();
    let s = w.create().await;
    let failed = w.exec(&s, "gate c k").await.unwrap_err();
    assert_eq!(failed.code(), Code::FailedPrecondition, "{failed}");
    w.exec(&s, "trygate c k; out x").await.unwrap();
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["x"]);
}
