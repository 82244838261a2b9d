//! Answers that come when nobody waits for them any more.

mod support;

use inspan_engine::{Code, ReplayRule, ToolRun};
use inspan_wire::v1::{self, ExecState};
use inspan_wire::{SessionUid, parse};

use support::{Act, Answer, Tool, World};

fn tool(world: &World) -> &Tool {
    world.tool.as_ref().expect("these worlds have a tool")
}

/// A session whose turn has a call at 3 that was sent and never answered.
async fn unanswered(rule: ReplayRule, script: &str) -> (World, SessionUid) {
    let w = World::with_tool(Tool::new(rule));
    let s = w.create().await;
    tool(&w).then([Act::Lose]);
    let _ = w.exec(&s, script).await;
    (w, s)
}

fn run(session: &SessionUid, id: &str) -> ToolRun {
    let call = v1::ToolCall {
        id: id.to_owned(),
        tool: "t".to_owned(),
        mediation: v1::Mediation::ControllerMediated.into(),
        idempotency_key: "k".to_owned(),
        ..Default::default()
    };
    ToolRun { session: session.clone(), call, seq: 3, again: false }
}

fn answer() -> v1::ToolResult {
    v1::ToolResult { error: "it says no".to_owned(), is_error: true, ..Default::default() }
}

/// R-HASH-1, R-EXEC-1: it is in the chain, and changes nothing: not the turn, not its re-run, not what its key stands for.
#[tokio::test]
async fn a_late_answer_is_recorded_and_not_applied() {
    let (w, s) = unanswered(ReplayRule::Never, "trytool c k; out x").await;
    let before = w.engine.session(&s).await.unwrap();
    assert!(w.engine.record_late(&run(&s, "c"), answer()).await.unwrap());
    let text = w.journal_text(&s).await;
    let record = text.lines().last().unwrap();
    assert!(record.starts_with("6 LIFECYCLE UNSPECIFIED late result of 3: {"), "{text}");
    let (_, event) = record.split_once(": ").unwrap();
    let event = parse::event(event.as_bytes()).expect("the canonical JSON of an event");
    assert_eq!(event.kind(), v1::EventKind::EventToolResult);
    let view = w.engine.session(&s).await.unwrap();
    assert_eq!((view.exec_state, view.compute_state), (before.exec_state, before.compute_state));
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["x"]);
    w.exec(&s, "tool d k; result").await.unwrap();
    assert!(
        w.journal_text(&s).await.contains("how it ended is not known"),
        "its outcome for the session stays unknown"
    );
    assert_eq!(tool(&w).count(), 1);
}

/// While a turn is under way or was cut it waits, with nothing recorded; while a person is asked it is there to be seen.
#[tokio::test]
async fn a_late_answer_waits_for_its_turn() {
    let (w, s) = unanswered(ReplayRule::Ask, "tool c k; result").await;
    let before = w.records(&s).await.len();
    assert!(!w.engine.record_late(&run(&s, "c"), answer()).await.unwrap(), "Resume may be about to take the turn up");
    assert_eq!(w.records(&s).await.len(), before);
    w.engine.resume(&s).await.unwrap();
    assert!(w.waits(&s).await.is_some());
    let fence = w.journal.session(&s).await.unwrap().unwrap().fence;
    assert!(w.engine.record_late(&run(&s, "c"), answer()).await.unwrap());
    assert_eq!(w.journal.session(&s).await.unwrap().unwrap().fence, fence, "nobody is overtaken for it");
    w.decide(&s, true).await.unwrap();
    let view = w.engine.resume(&s).await.unwrap();
    assert_eq!((view.exec_state(), tool(&w).count()), (ExecState::ExecCompleted, 2));

    w.model.then([Answer::Hang]);
    let running = w.exec(&s, "model a");
    let late = async {
        while w.model.count() == 0 {
            tokio::task::yield_now().await;
        }
        w.engine.record_late(&run(&s, "c"), answer()).await.unwrap()
    };
    tokio::select! { biased; r = running => panic!("{r:?}"), recorded = late => assert!(!recorded) }
}

/// What was not asked is not recorded, and a large output becomes a blob.
#[tokio::test]
async fn a_late_answer_belongs_to_a_call() {
    let (w, s) = unanswered(ReplayRule::Never, "trytool c k").await;
    let refused = w.engine.record_late(&run(&s, "d"), answer()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let text = prost_types::value::Kind::StringValue("x".repeat(70_000));
    let value = prost_types::Value { kind: Some(text) };
    let output = prost_types::Struct { fields: [("out".to_owned(), value)].into() };
    let large = v1::ToolResult { output: Some(output), ..Default::default() };
    assert!(w.engine.record_late(&run(&s, "c"), large).await.unwrap());
    let text = w.journal_text(&s).await;
    assert!(text.len() < 2000 && text.contains("inspan-blob:sha256:"), "{text}");
}
