//! Resume: what is served, what is driven again, what is refused.

mod support;

use std::sync::Arc;

use inspan_engine::{Code, Error};
use inspan_harness::Harness;
use inspan_testkit::harness::Moves;
use inspan_wire::v1::{self, ComputeState, ExecState, event::Body};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;

use support::{Answer, World, end, error, input, model_call, output, request, start};

fn moves(harness: Moves) -> Vec<(String, Arc<dyn Harness>)> {
    vec![("moves".to_owned(), Arc::new(harness))]
}

/// R-MODEL-6, R-MODEL-11, R-RESUME-2, R-RESUME-3, R-RESUME-7, R-RESUME-8: the answered call is served, the open
/// one is made once, nothing is written twice.
#[tokio::test]
async fn a_cut_model_call_is_driven_once() {
    let w = World::new();
    let s = w.create().await;
    w.plant(
        &s,
        vec![
            start("e1", Some(1), "moves", "1"),
            input("e1", "model a; model b; out x"),
            model_call("e1", "a"),
            output("e1", "A!"),
            model_call("e1", "b"),
        ],
    )
    .await;
    assert_eq!(w.engine.session(&s).await.unwrap().exec_state(), ExecState::ExecFailed, "cut, and says so");
    let view = w.engine.resume(&s).await.unwrap();
    assert_eq!(w.model.take_calls(), ["b"]);
    assert_eq!((view.exec_state(), view.compute_state()), (ExecState::ExecCompleted, ComputeState::ComputeLive));
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user model a; model b; out x
         3 MODEL_CALL m hashed
         4 OUTPUT assistant A!
         5 MODEL_CALL m hashed
         6 OUTPUT assistant re:b
         7 OUTPUT assistant x
         8 END COMPLETED
         9 LIFECYCLE RESUME",
    )
    .await;
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["A!", "re:b", "x"], "R-OUT-5");
}

/// R-RESUME-4: inputs are there, the harness was never called.
#[tokio::test]
async fn a_turn_cut_before_its_harness_ran_is_resumed() {
    let w = World::new();
    let s = w.create().await;
    w.plant(&s, vec![start("e1", Some(1), "moves", "1"), input("e1", "model a")]).await;
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.model.take_calls(), ["a"]);
}

/// R-MODEL-7, R-MODEL-13, R-RESUME-8: a failed recovery leaves ERROR, and the next one drives the call again.
#[tokio::test]
async fn a_failed_redrive_is_driven_again() {
    let w = World::new();
    let s = w.create().await;
    w.model.then([Answer::Fail("x".to_owned()), Answer::Fail("y".to_owned())]);
    w.exec(&s, "model a").await.unwrap_err();
    w.engine.resume(&s).await.unwrap_err();
    w.engine.resume(&s).await.unwrap();
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user model a
         3 MODEL_CALL m hashed
         4 ERROR 13 the model call failed: x
         5 ERROR 13 the model call failed: y
         6 OUTPUT assistant re:a
         7 END COMPLETED
         8 LIFECYCLE RESUME",
    )
    .await;
    assert_eq!(w.engine.rerun(&s).await.unwrap().effects, 2);
}

/// R-MODEL-7: a harness that retries leaves MODEL_CALL, MODEL_CALL, OUTPUT, and both resume and re-run serve it.
#[tokio::test]
async fn a_retrying_harness_is_served_its_own_retries() {
    let w = World::new();
    let s = w.create().await;
    w.model.then([Answer::Fail("x".to_owned())]);
    w.exec(&s, "retry 3 a; fail later").await.unwrap_err();
    let before = w.journal_text(&s).await;
    assert_eq!(before.matches("MODEL_CALL").count(), 2);
    w.model.take_calls();
    w.engine.resume(&s).await.unwrap_err();
    assert_eq!(w.model.count(), 0, "R-MODEL-11: nothing is asked again");
}

/// R-MODEL-8: an unanswered call that is not the last effect is not driven; the harness may handle it.
#[tokio::test]
async fn an_unanswered_call_in_the_middle_is_missing() {
    let w = World::new();
    let s = w.create().await;
    w.plant(
        &s,
        vec![start("e1", Some(1), "moves", "1"), input("e1", "try a; out x"), model_call("e1", "a"), output("e1", "x")],
    )
    .await;
    // By position the output is the completion of the call before it (R-MODEL-2).
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.model.count(), 0);

    let s = w.create().await;
    w.plant(
        &s,
        vec![
            start("e1", Some(1), "moves", "1"),
            input("e1", "model a; model b"),
            model_call("e1", "a"),
            model_call("e1", "b"),
        ],
    )
    .await;
    let e = w.engine.resume(&s).await.unwrap_err();
    assert!(e.to_string().contains("recorded completion missing"), "{e}");
    assert_eq!(w.model.count(), 0);
}

/// R-MODEL-4, R-MODEL-10: another request at the cut is divergence, without a provider call, with ERROR; the right
/// harness still resumes afterwards.
#[tokio::test]
async fn another_request_diverges_and_the_right_one_still_works() {
    let w = World::new();
    let s = w.create().await;
    w.model.then([Answer::Fail("x".to_owned())]);
    w.exec(&s, "model a; out done").await.unwrap_err();
    w.model.take_calls();
    let twisted = w.restart_with(moves(Moves::default().twisted("model a", "model b")));
    let e = twisted.engine.resume(&s).await.unwrap_err();
    assert!(matches!(e, Error::ReplayDiverged { seq: 3, .. }), "{e}");
    assert_eq!(e.code(), Code::Internal);
    assert_eq!(w.model.count(), 0);
    assert!(w.journal_text(&s).await.contains("5 ERROR 13 replay diverged at seq 3"));
    w.engine.resume(&s).await.unwrap();
    assert!(w.journal_text(&s).await.ends_with("OUTPUT assistant done\n8 END COMPLETED\n9 LIFECYCLE RESUME"));
}

/// R-TOOL-12, promise 3: a divergence cannot be caught away, and no later effect happens.
#[tokio::test]
async fn a_swallowed_divergence_still_fails() {
    let w = World::new();
    let s = w.create().await;
    w.plant(&s, vec![start("e1", Some(1), "moves", "1"), input("e1", "model a"), model_call("e1", "a")]).await;
    let twisted = w.restart_with(moves(Moves::default().twisted("model a", "swallow b; swallow c")));
    let e = twisted.engine.resume(&s).await.unwrap_err();
    assert!(matches!(e, Error::ReplayDiverged { .. }), "{e}");
    assert_eq!(w.model.count(), 0);
    let text = w.journal_text(&s).await;
    assert!(text.lines().last().unwrap().starts_with("4 ERROR 13"), "{text}");
}

/// R-LIVE-3: success with recorded effects left over is divergence, without END.
#[tokio::test]
async fn unconsumed_effects_are_divergence() {
    let w = World::new();
    let s = w.create().await;
    w.plant(
        &s,
        vec![start("e1", Some(1), "moves", "1"), input("e1", "out x; out y"), output("e1", "x"), output("e1", "y")],
    )
    .await;
    let twisted = w.restart_with(moves(Moves::default().twisted("; out y", "")));
    let e = twisted.engine.resume(&s).await.unwrap_err();
    assert!(matches!(e, Error::ReplayDiverged { seq: 4, .. }), "{e}");
    assert!(!w.journal_text(&s).await.contains("END"));
}

/// R-OUT-1, R-OUT-2, R-OUT-4: what the recording is compared by.
#[tokio::test]
async fn outputs_and_usage_are_compared_reports_are_not() {
    for (play, twist, diverges) in [
        ("out x; fail f", "out y; fail f", true),
        ("usage 1; fail f", "usage 2; fail f", true),
        ("report a; fail f", "report b; fail f", false),
        ("out x; fail f", "report x; fail f", true),
    ] {
        let w = World::new();
        let s = w.create().await;
        w.exec(&s, play).await.unwrap_err();
        let e = w.restart_with(moves(Moves::default().twisted(play, twist))).engine.resume(&s).await.unwrap_err();
        assert_eq!(matches!(e, Error::ReplayDiverged { .. }), diverges, "{play} then {twist}: {e}");
    }
}

/// R-VER-1, R-VER-2, R-VER-3: exact bytes of the version; a mismatch runs, writes and fences nothing.
#[tokio::test]
async fn another_version_is_refused() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "fail boom").await.unwrap_err();
    let fence = w.journal.session(&s).await.unwrap().unwrap().fence;
    for served in ["2", "", "1 ", "01"] {
        let other = w.restart_with(moves(Moves::version(served)));
        let e = other.engine.resume(&s).await.unwrap_err();
        assert!(matches!(&e, Error::HarnessVersionMismatch { .. }), "{served:?}: {e}");
        assert_eq!(e.code(), Code::FailedPrecondition);
    }
    assert_eq!(w.records(&s).await.len(), 3);
    assert_eq!(w.journal.session(&s).await.unwrap().unwrap().fence, fence);

    let s = w.create().await;
    w.plant(&s, vec![start("e1", Some(1), "moves", ""), input("e1", "out x")]).await;
    w.restart_with(moves(Moves::version("9"))).engine.resume(&s).await.unwrap();
}

/// R-VER-4, R-VER-5: the recorded name is what resumes, also after an override; metadata keeps the stored one.
#[tokio::test]
async fn an_override_is_resumed_on_its_own_harness() {
    let w = World::new();
    let both = w.restart_with(vec![
        ("moves".to_owned(), Arc::new(Moves::default())),
        ("other".to_owned(), Arc::new(Moves::default())),
    ]);
    let s = both.create().await;
    both.exec_request(v1::ExecRequest { harness: "other".to_owned(), ..request(&s, "fail boom") }).await.unwrap_err();
    assert_eq!(both.engine.session(&s).await.unwrap().harness, "");
    let e = w.engine.resume(&s).await.unwrap_err();
    assert_eq!(e, Error::RecordedHarnessNotServed("other".to_owned()));
    assert_eq!(e.code(), Code::FailedPrecondition);
    let fixed = w.restart_with(vec![
        ("moves".to_owned(), Arc::new(Moves::version("7"))),
        ("other".to_owned(), Arc::new(Moves::default().twisted("fail boom", "out ok"))),
    ]);
    fixed.engine.resume(&s).await.unwrap();
    // A missing recorded name falls back to the stored one.
    let s = fixed.create().await;
    fixed.plant(&s, vec![start("e1", Some(1), "", ""), input("e1", "out x")]).await;
    fixed.engine.resume(&s).await.unwrap();
}

/// R-RESUME-1: only the last execution by first appearance; a complete or empty journal is a no-op.
#[tokio::test]
async fn only_the_last_execution_is_picked() {
    let w = World::new();
    let s = w.create().await;
    w.plant(
        &s,
        vec![
            start("old", Some(1), "moves", "1"),
            input("old", "model never"),
            start("new", Some(1), "moves", "1"),
            input("new", "out x"),
            output("new", "x"),
            end("new"),
            error("old", "late"),
        ],
    )
    .await;
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.model.count(), 0);
    assert_eq!(w.records(&s).await.len(), 7, "a no-op on a live session appends nothing");
    assert_eq!(w.engine.session(&s).await.unwrap().exec_state(), ExecState::ExecCompleted);
}

/// R-RESUME-5, R-LIFE-1, R-LIFE-2: a sleeping session is woken by RESUME; a live one needs none.
#[tokio::test]
async fn resume_wakes_a_sleeping_session_once() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "out x").await.unwrap();
    let asleep = w.engine.suspend(&s).await.unwrap();
    assert_eq!(asleep.compute_state(), ComputeState::ComputeCold);
    let awake = w.engine.resume(&s).await.unwrap();
    assert_eq!((awake.compute_state(), awake.last_seq), (ComputeState::ComputeLive, 6));
    assert_eq!(w.engine.resume(&s).await.unwrap().last_seq, 6);
    let Some(Body::Lifecycle(l)) = inspan_wire::parse::event(&w.records(&s).await[4].event).unwrap().body else {
        panic!("no lifecycle")
    };
    assert_eq!(l.snapshot_local, s.as_str(), "R-LIFE-1, R-RESUME-6: the handle is the session itself");
    assert!(!l.snapshot_memory);
}

/// R-EXEC-2, R-EXEC-3, R-EXEC-4, R-EXEC-6, R-REPLAY-3: a malformed journal is refused before anything runs or is written.
#[tokio::test]
async fn malformed_journals_are_refused() {
    let no_body = v1::Event {
        execution_id: "e".to_owned(),
        kind: v1::EventKind::EventExecutionStart.into(),
        ..Default::default()
    };
    let no_message =
        v1::Event { execution_id: "e".to_owned(), kind: v1::EventKind::EventInput.into(), ..Default::default() };
    let bad: Vec<(&str, Vec<v1::Event>)> = vec![
        ("no id after the first", vec![start("e", Some(0), "moves", "1"), input("", "x")]),
        ("second start", vec![start("e", Some(0), "moves", "1"), start("e", Some(0), "moves", "1")]),
        ("late start", vec![input("e", "x"), start("e", Some(0), "moves", "1")]),
        ("start without body", vec![no_body]),
        ("count absent", vec![start("e", None, "moves", "1")]),
        ("count negative", vec![start("e", Some(-1), "moves", "1")]),
        ("input without message", vec![start("e", Some(1), "moves", "1"), no_message]),
        ("more inputs", vec![start("e", Some(0), "moves", "1"), input("e", "x")]),
        ("ended with fewer inputs", vec![start("e", Some(1), "moves", "1"), end("e")]),
        (
            "start of an earlier execution again",
            vec![
                start("e", Some(0), "moves", "1"),
                start("f", Some(0), "moves", "1"),
                start("e", Some(0), "moves", "1"),
            ],
        ),
    ];
    for (name, events) in bad {
        let w = World::new();
        let s = w.create().await;
        let n = events.len();
        w.plant(&s, events).await;
        for e in [w.engine.resume(&s).await.unwrap_err(), w.engine.rerun(&s).await.unwrap_err()] {
            assert!(matches!(&e, Error::InvalidExecutionLog { .. }), "{name}: {e}");
            assert_eq!(e.code(), Code::FailedPrecondition, "{name}");
        }
        assert_eq!(w.records(&s).await.len(), n, "{name}");
        assert_eq!(w.model.count(), 0, "{name}");
    }
}

/// R-EXEC-4: an unfinished turn without all its inputs advises a new turn.
#[tokio::test]
async fn an_incomplete_invocation_is_refused() {
    let w = World::new();
    let s = w.create().await;
    w.plant(&s, vec![start("e1", Some(2), "moves", "1"), input("e1", "out x")]).await;
    let e = w.engine.resume(&s).await.unwrap_err();
    assert_eq!(e, Error::IncompleteInvocation { have: 1, want: 2 });
    assert!(e.to_string().contains("new turn"));
    w.exec(&s, "out y").await.unwrap();
}

/// R-EXEC-1, R-EXEC-5: an execution with ids and no start marker: no config, its INPUTs as inputs.
#[tokio::test]
async fn a_markerless_execution_is_resumed() {
    let w = World::new();
    let s = w.create().await;
    w.plant(&s, vec![input("e1", "model a"), model_call("e1", "a")]).await;
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.model.take_calls(), ["a"]);
    assert_eq!(w.engine.rerun(&s).await.unwrap().executions, 1);
}

/// R-START-5, R-CAS-1: a turn that loses the race for its first append leaves nothing.
#[tokio::test]
async fn two_hosts_race_and_one_wins() {
    let w = World::new();
    let other = w.restart();
    let s = w.create().await;
    w.model.then([Answer::Hang]);
    let zombie = tokio::spawn(w.engine.accept(request(&s, "model a; out z"), "default").await.unwrap().run());
    while w.model.count() == 0 {
        tokio::task::yield_now().await;
    }
    // Another host takes over the interrupted turn; the first one is still in its model call.
    other.engine.resume(&s).await.unwrap();
    let text = other.journal_text(&s).await;
    assert!(text.ends_with("END COMPLETED\n7 LIFECYCLE RESUME"), "{text}");
    let cancelled = w.engine.cancel(&s, "", "USER").await.unwrap();
    assert_eq!(cancelled.last_seq, 7, "the zombie could not write even its end");
    let e = zombie.await.unwrap().unwrap_err();
    assert!(matches!(e.code(), Code::Cancelled | Code::Aborted), "{e}");
    assert_eq!(other.journal_text(&s).await, text);
}

/// R-CAS-2, R-MODEL-11: what another host commits while this one prepares its Resume is seen before anything is
/// driven; a call whose outcome came in that instant is not made again.
#[tokio::test]
async fn a_resume_that_was_overtaken_while_it_prepared_drives_nothing() {
    /// Lets the other host's turn end while it describes itself.
    struct Late(Arc<Notify>, Mutex<Option<JoinHandle<Result<v1::Session, Error>>>>);
    #[inspan_harness::async_trait]
    impl Harness for Late {
        async fn describe(&self) -> Result<v1::HarnessDescriptor, inspan_harness::Failure> {
            let turn = self.1.lock().await.take();
            if let Some(turn) = turn {
                self.0.notify_one();
                turn.await.unwrap().unwrap();
            }
            Moves::default().describe().await
        }
        async fn run(
            &self,
            start: inspan_harness::Start,
            sink: &dyn inspan_harness::Sink,
        ) -> Result<(), inspan_harness::Failure> {
            Moves::default().run(start, sink).await
        }
    }
    let a = World::new();
    let s = a.create().await;
    let gate = Arc::new(Notify::new());
    a.model.then([Answer::Gate(gate.clone())]);
    let turn = tokio::spawn(a.engine.accept(request(&s, "model a"), "default").await.unwrap().run());
    while a.model.count() == 0 {
        tokio::task::yield_now().await;
    }
    let late: Arc<dyn Harness> = Arc::new(Late(gate, Mutex::new(Some(turn))));
    let b = a.restart_with(vec![("moves".to_owned(), late)]);
    assert_eq!(b.engine.resume(&s).await.unwrap_err().code(), Code::Aborted);
    assert_eq!(a.model.take_calls(), ["a"], "the receipt was there: nobody asked again");
    b.engine.resume(&s).await.unwrap();
    assert!(a.journal_text(&s).await.ends_with("4 OUTPUT assistant re:a\n5 END COMPLETED"));
}

/// R-REPLAY-1, R-REPLAY-2, R-REPLAY-4, R-REPLAY-5, R-MODEL-5: completed turns only, nothing asked, nothing written.
#[tokio::test]
async fn a_rerun_asks_nobody_and_writes_nothing() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "model a; again").await.unwrap();
    w.exec(&s, "model b; fail boom").await.unwrap_err();
    w.exec(&s, "past; model c").await.unwrap();
    w.model.take_calls();
    let before = w.journal_text(&s).await;
    let rerun = w.engine.rerun(&s).await.unwrap();
    assert_eq!((rerun.executions, rerun.effects), (2, 7));
    assert_eq!(
        rerun.outputs,
        ["re:a", "re:re:a", "12 EVENT_ERROR", "re:c"],
        "R-REPLAY-1: failed turns stay in history"
    );
    assert_eq!(w.model.count(), 0);
    assert_eq!(w.journal_text(&s).await, before);
    let more = w.restart_with(moves(Moves::default().twisted("model c", "model c; model d")));
    assert_eq!(more.engine.rerun(&s).await.unwrap_err(), Error::ReplayInvokedModel, "R-MODEL-5");
    let less = w.restart_with(moves(Moves::default().twisted("; again", "")));
    assert!(matches!(less.engine.rerun(&s).await.unwrap_err(), Error::ReplayDiverged { seq: 5, .. }));
    assert_eq!(w.model.count(), 0);
}

/// R-MODEL-2, R-MODEL-8, R-TOOL-15: what a harness says directly behind a failed call is not taken for the outcome
/// of that call, by no re-run and by no Resume.
#[tokio::test]
async fn an_apology_is_not_replayed_as_the_completion() {
    let w = World::new();
    let s = w.create().await;
    w.model.then([Answer::Fail("no".to_owned())]);
    w.exec(&s, "try a; out sorry; trytool c key; report c; model b").await.unwrap();
    assert_eq!(w.model.take_calls(), ["a", "b"]);
    let rerun = w.engine.rerun(&s).await.unwrap();
    assert_eq!((rerun.executions, rerun.outputs), (1, vec!["sorry".to_owned(), "re:b".to_owned()]));
}
