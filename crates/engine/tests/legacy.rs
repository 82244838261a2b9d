//! Journals of hosts from before execution ids (R-LEGACY).

mod support;

use std::sync::{Arc, Mutex};

use inspan_engine::{Code, Error};
use inspan_harness::{Failure, Harness, Sink, Start};
use inspan_testkit::harness::Moves;
use inspan_wire::canon;
use inspan_wire::v1::{self, EventKind, ExecState, event::Body};
use support::{World, end, error, input, model_call, output};

/// Notes the execution id and the history's length of every start.
#[derive(Default)]
struct Noting(Moves, Mutex<Vec<(String, usize)>>);

#[inspan_harness::async_trait]
impl Harness for Noting {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        self.0.describe().await
    }

    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        self.1.lock().unwrap().push((start.execution_id.clone(), start.history.len()));
        self.0.run(start, sink).await
    }
}

fn world() -> (World, Arc<Noting>) {
    let noting = Arc::new(Noting::default());
    (World::with(noting.clone(), true), noting)
}

/// R-LEGACY-5, R-LEGACY-6, R-LEGACY-7, R-LEGACY-8: only the last INPUT is the turn; its records keep no id and get no start
/// marker; the start's id is stable over retries.
#[tokio::test]
async fn the_last_input_is_resumed() {
    let (w, noting) = world();
    let s = w.create().await;
    w.plant(
        &s,
        vec![
            input("", "out x"),
            output("", "x"),
            end(""),
            input("", "model a; out y"),
            model_call("", "a"),
            output("", "A"),
        ],
    )
    .await;
    w.engine.resume(&s).await.unwrap();
    w.check(
        &s,
        "1 INPUT user out x
         2 OUTPUT assistant x
         3 END COMPLETED
         4 INPUT user model a; out y
         5 MODEL_CALL m hashed
         6 OUTPUT assistant A
         7 OUTPUT assistant y
         8 END COMPLETED
         9 LIFECYCLE RESUME",
    )
    .await;
    assert_eq!(w.model.count(), 0);
    let starts = noting.1.lock().unwrap().clone();
    assert_eq!(starts.len(), 1);
    assert_eq!(starts[0].1, 3, "history is what was before the input");
    assert!(starts[0].0.starts_with("legacy-") && starts[0].0.len() == 71, "{}", starts[0].0);
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.records(&s).await.len(), 9, "END after the last INPUT: complete");
}

/// R-LEGACY-8: the same turn has the same id again, another session another.
#[tokio::test]
async fn legacy_ids_are_stable() {
    let (w, noting) = world();
    let (a, b) = (w.create().await, w.create().await);
    for s in [&a, &b] {
        w.plant(s, vec![input("", "model a"), model_call("", "a")]).await;
    }
    for s in [&a, &b] {
        let e = w.engine.resume(s).await.unwrap_err();
        assert!(e.to_string().contains("recorded completion missing"), "R-MODEL-9: {e}");
        w.engine.resume(s).await.unwrap();
    }
    let ids: Vec<_> = noting.1.lock().unwrap().iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(ids.len(), 2, "ERROR after the last INPUT: complete");
    assert_eq!(w.model.count(), 0, "R-MODEL-9: never driven again");
    let first = w.records(&a).await.remove(0);
    for (s, id) in [(&a, &ids[0]), (&b, &ids[1])] {
        assert_eq!(*id, canon::legacy_execution_id(s.as_str(), 1, &first.event), "whoever computes it, and when");
    }
    assert_ne!(ids[0], ids[1]);
}

/// R-LEGACY-3: one run over all inputs with the whole journal as history, also when unfinished.
#[tokio::test]
async fn a_pure_legacy_log_is_one_run() {
    let (w, noting) = world();
    let s = w.create().await;
    w.plant(
        &s,
        vec![input("", "model a"), model_call("", "a"), output("", "A"), end(""), input("", "ignored by moves")],
    )
    .await;
    let rerun = w.engine.rerun(&s).await.unwrap();
    assert_eq!((rerun.executions, rerun.outputs), (1, vec!["A".to_owned()]));
    assert_eq!(noting.1.lock().unwrap()[0].1, 5);
}

/// R-LEGACY-9: usage is not served and not compared; a log of LIFECYCLE only is no invocation.
#[tokio::test]
async fn legacy_usage_is_ignored() {
    let (w, _) = world();
    let s = w.create().await;
    let usage =
        v1::Event::new("", EventKind::EventUsage, Body::Usage(v1::Usage { input_tokens: 5, ..Default::default() }));
    w.plant(&s, vec![input("", "usage 9; out x"), usage, output("", "x"), end("")]).await;
    assert_eq!(w.engine.rerun(&s).await.unwrap().effects, 1);

    let s = w.create().await;
    w.engine.suspend(&s).await.unwrap();
    assert_eq!(w.engine.rerun(&s).await.unwrap().executions, 0);
    w.engine.resume(&s).await.unwrap();
}

/// R-LEGACY-2, R-LEGACY-4: a start marker supersedes any tail; the legacy part is cut back to its last END.
#[tokio::test]
async fn a_modern_turn_supersedes_a_legacy_tail() {
    let (w, noting) = world();
    let s = w.create().await;
    w.plant(&s, vec![input("", "model a"), model_call("", "a"), output("", "A"), end(""), input("", "model never")])
        .await;
    assert_eq!(w.engine.session(&s).await.unwrap().exec_state(), ExecState::ExecFailed);
    w.exec(&s, "past").await.unwrap();
    assert!(
        w.journal_text(&s).await.contains("8 OUTPUT assistant 5 EVENT_INPUT"),
        "its history holds every legacy event"
    );
    noting.1.lock().unwrap().clear();
    let rerun = w.engine.rerun(&s).await.unwrap();
    assert_eq!((rerun.executions, rerun.effects), (2, 3));
    assert_eq!(w.model.count(), 0);

    // Without an END in the legacy part there is nothing of it to run.
    let s = w.create().await;
    w.plant(&s, vec![input("", "model a"), model_call("", "a")]).await;
    w.exec(&s, "out x").await.unwrap();
    assert_eq!(w.engine.rerun(&s).await.unwrap().executions, 1);
}

/// R-LEGACY-1, R-LEGACY-2: what no legacy journal can hold stops new turns too.
#[tokio::test]
async fn a_broken_legacy_boundary_is_refused() {
    let approval = v1::Event::new("", EventKind::EventApprovalRequest, Body::Approval(v1::ApprovalRequest::default()));
    for events in [vec![input("", "x"), approval], vec![input("", "x"), input("e1", "y")]] {
        let (w, _) = world();
        let s = w.create().await;
        w.plant(&s, events).await;
        for e in [w.exec(&s, "out x").await.unwrap_err(), w.engine.resume(&s).await.unwrap_err()] {
            assert!(matches!(&e, Error::InvalidExecutionLog { .. }), "{e}");
            assert_eq!(e.code(), Code::FailedPrecondition);
        }
        assert_eq!(w.records(&s).await.len(), 2);
    }
    // A finished prefix may be followed by a bare id.
    let (w, _) = world();
    let s = w.create().await;
    w.plant(&s, vec![input("", "out x"), error("", "boom"), input("e1", "out y")]).await;
    w.engine.resume(&s).await.unwrap();
}

/// R-LEGACY-10: there is no gate in a legacy turn.
#[tokio::test]
async fn a_legacy_turn_has_no_approval() {
    struct Gated;
    #[inspan_harness::async_trait]
    impl Harness for Gated {
        async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
            Moves::default().describe().await
        }
        async fn run(&self, _: Start, sink: &dyn Sink) -> Result<(), Failure> {
            let call = v1::ToolCall {
                id: "c".to_owned(),
                idempotency_key: "k".to_owned(),
                mediation: v1::Mediation::RequiresApproval.into(),
                ..Default::default()
            };
            sink.tool(call).await?;
            Ok(())
        }
    }
    let w = World::with(Arc::new(Gated), true);
    let s = w.create().await;
    w.plant(&s, vec![input("", "x")]).await;
    w.engine.resume(&s).await.unwrap_err();
    assert!(w.journal_text(&s).await.starts_with("1 INPUT user x\n2 ERROR 9"), "nothing of the call is on record");
}
