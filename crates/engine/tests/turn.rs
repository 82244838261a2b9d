//! A live turn: order of records, what the harness sees, how it ends.

mod support;

use std::sync::Arc;

use inspan_engine::{Code, Error};
use inspan_testkit::harness::Moves;
use inspan_wire::v1::{self, ExecState, event::Body};
use inspan_wire::{Digest, input, parse};
use support::{Answer, World, request, uid};

/// R-LIVE-1, R-START-1, R-START-2, R-MODEL-1.
#[tokio::test]
async fn a_one_call_turn_has_five_records() {
    let w = World::new();
    let s = w.create().await;
    let view = w.exec(&s, "model hi").await.unwrap();
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user model hi
         3 MODEL_CALL m hashed
         4 OUTPUT assistant re:hi
         5 END COMPLETED",
    )
    .await;
    assert_eq!((view.last_seq, view.exec_state()), (5, ExecState::ExecCompleted));
    assert_eq!(view.compute_state(), v1::ComputeState::ComputeLive, "R-LIFE-2");
}

/// R-LIVE-1, R-MODEL-3, R-LIVE-4: and ERROR carries its code.
#[tokio::test]
async fn a_model_failure_ends_the_turn_with_error() {
    let w = World::new();
    let s = w.create().await;
    w.model.then([Answer::Fail("no luck".to_owned())]);
    let e = w.exec(&s, "model hi").await.unwrap_err();
    assert_eq!(e.code(), Code::Internal, "R-LIVE-6");
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user model hi
         3 MODEL_CALL m hashed
         4 ERROR 13 the model call failed: no luck",
    )
    .await;
    assert_eq!(w.engine.session(&s).await.unwrap().exec_state(), ExecState::ExecFailed);
}

/// R-LIVE-2, R-MODEL-14: deltas before the OUTPUT, one closing delta, nothing of them in the journal.
#[tokio::test]
async fn an_observer_sees_records_and_deltas_in_order() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "model a:b").await.unwrap();
    let log = w.watcher.log.lock().unwrap().join("|");
    assert_eq!(
        log,
        "1 EXECUTION_START moves@1 inputs=1|2 INPUT user model a:b|3 MODEL_CALL m hashed|\
         ~ \"re:\"|~ \"a:\"|~ \"b\"|~ \"\" done|4 OUTPUT assistant re:a:b|5 END COMPLETED"
    );
}

/// R-START-4: every earlier event, the current start and inputs not.
#[tokio::test]
async fn history_is_every_earlier_event() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "past").await.unwrap();
    w.engine.suspend(&s).await.unwrap();
    w.exec(&s, "past").await.unwrap();
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user past
         3 OUTPUT assistant 0 none
         4 END COMPLETED
         5 LIFECYCLE SUSPEND
         6 EXECUTION_START moves@1 inputs=1
         7 INPUT user past
         8 OUTPUT assistant 5 EVENT_LIFECYCLE
         9 END COMPLETED",
    )
    .await;
}

/// R-START-1, R-START-3: an input count of zero is recorded; config and cursor are kept as they came.
#[tokio::test]
async fn config_cursor_and_zero_inputs_are_recorded() {
    let w = World::new();
    let s = w.create().await;
    let r = v1::ExecRequest {
        session: s.to_string(),
        config: bytes::Bytes::from_static(&[0, 255, 32]),
        resume_from_seq: -7,
        ..Default::default()
    };
    w.exec_request(r).await.unwrap();
    let first = parse::event(&w.records(&s).await[0].event).unwrap();
    let Some(Body::ExecutionStart(start)) = first.body else { panic!("no start") };
    assert_eq!((start.input_count, start.resume_from_seq, &start.config[..]), (Some(0), -7, &[0, 255, 32][..]));
}

/// R-CAS-4: the caller's expected head, zero included.
#[tokio::test]
async fn an_expected_head_is_a_promise() {
    let w = World::new();
    let s = w.create().await;
    let at = |n| v1::ExecRequest { expected_last_seq: Some(n), ..request(&s, "model hi") };
    w.exec_request(at(0)).await.unwrap();
    let e = w.exec_request(at(0)).await.unwrap_err();
    assert_eq!(e.code(), Code::Aborted);
    w.exec_request(at(5)).await.unwrap();
    assert_eq!(w.records(&s).await.len(), 10);
}

/// R-CAS-2: every admitted turn takes a fence; a refused one does not.
#[tokio::test]
async fn each_turn_takes_the_next_fence() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "model a").await.unwrap();
    let refused = v1::ExecRequest { expected_last_seq: Some(99), ..request(&s, "model b") };
    w.exec_request(refused).await.unwrap_err();
    w.exec(&s, "model c").await.unwrap();
    let fences: Vec<_> = w.records(&s).await.iter().map(|r| r.fence).collect();
    assert_eq!(fences, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
}

/// R-CAS-5: the guard never waits; reads do not take it.
#[tokio::test]
async fn a_busy_session_refuses_a_second_turn() {
    let w = World::new();
    let s = w.create().await;
    let first = w.engine.accept(request(&s, "hang"), "default").await.unwrap();
    let running = tokio::spawn(first.run());
    while w.engine.session(&s).await.unwrap().exec_state() != ExecState::ExecRunning {
        tokio::task::yield_now().await;
    }
    for e in [
        w.exec(&s, "model b").await.unwrap_err(),
        w.engine.resume(&s).await.unwrap_err(),
        w.engine.suspend(&s).await.unwrap_err(),
        w.engine.fork(&s, Default::default()).await.unwrap_err(),
        w.engine.delete(&s).await.unwrap_err(),
    ] {
        assert_eq!(e, Error::Busy(s.clone()));
        assert_eq!(e.code(), Code::Aborted);
    }
    running.abort();
}

/// R-START-7: a new turn supersedes an interrupted one; its input stays in history.
#[tokio::test]
async fn a_new_turn_supersedes_an_interrupted_one() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "fail boom").await.unwrap_err();
    w.exec(&s, "past").await.unwrap();
    w.engine.resume(&s).await.unwrap();
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user fail boom
         3 ERROR 13 boom
         4 EXECUTION_START moves@1 inputs=1
         5 INPUT user past
         6 OUTPUT assistant 3 EVENT_ERROR
         7 END COMPLETED",
    )
    .await;
}

/// A deadline inside a turn is DEADLINE_EXCEEDED, the provider's call is dropped, and the turn is resumable.
#[tokio::test]
async fn a_deadline_ends_the_turn() {
    let w = World::new();
    let s = w.create().await;
    w.model.then([Answer::Hang]);
    let now_s = inspan_journal::Clock::now_ns(&*w.hand) / 1_000_000_000;
    let r = v1::ExecRequest { deadline_unix: now_s + 60, ..request(&s, "model hi") };
    let turn = tokio::spawn(w.engine.accept(r, "default").await.unwrap().run());
    while w.model.count() == 0 {
        tokio::task::yield_now().await;
    }
    w.hand.advance_s(61);
    assert_eq!(turn.await.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(w.model.dropped.load(std::sync::atomic::Ordering::SeqCst), 1, "the provider's call was dropped");
    w.engine.resume(&s).await.unwrap();
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user model hi
         3 MODEL_CALL m hashed
         4 ERROR 4 the deadline of the turn passed
         5 OUTPUT assistant re:hi
         6 END COMPLETED
         7 LIFECYCLE RESUME",
    )
    .await;
    let past = v1::ExecRequest { deadline_unix: now_s, ..request(&s, "model late") };
    assert_eq!(w.exec_request(past).await.unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(w.records(&s).await.len(), 7, "a deadline in the past records nothing");
}

/// Cancel ends the running turn with CANCELED and a LIFECYCLE_CANCEL; the model call is dropped.
#[tokio::test]
async fn cancel_ends_a_running_turn() {
    let w = World::new();
    let s = w.create().await;
    w.model.then([Answer::Hang]);
    let turn = tokio::spawn(w.engine.accept(request(&s, "model hi"), "default").await.unwrap().run());
    while w.model.count() == 0 {
        tokio::task::yield_now().await;
    }
    let other = w.engine.cancel(&s, "0000000000000000", "USER").await.unwrap_err();
    assert_eq!(other.code(), Code::Aborted, "another turn runs");
    let view = w.engine.cancel(&s, "", "USER").await.unwrap();
    assert_eq!(view.exec_state(), ExecState::ExecCanceled);
    assert_eq!(turn.await.unwrap().unwrap_err().code(), Code::Cancelled);
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user model hi
         3 MODEL_CALL m hashed
         4 LIFECYCLE CANCEL USER
         5 END CANCELED",
    )
    .await;
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.records(&s).await.len(), 5, "a cancelled turn is over");
    assert_eq!(w.engine.cancel(&s, "", "USER").await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(w.engine.rerun(&s).await.unwrap().executions, 0);
}

/// Cancel of an interrupted turn closes it, so that Resume leaves it alone.
#[tokio::test]
async fn cancel_closes_an_interrupted_turn() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "model a; fail boom").await.unwrap_err();
    let view = w.engine.cancel(&s, "", "").await.unwrap();
    assert_eq!(view.exec_state(), ExecState::ExecCanceled);
    w.engine.resume(&s).await.unwrap();
    assert!(w.journal_text(&s).await.ends_with("LIFECYCLE CANCEL USER\n7 END CANCELED"));
}

/// R-OUT-1, R-OUT-2, R-OUT-4: output, reported results and usage are records of the harness's own.
#[tokio::test]
async fn output_reports_and_usage_are_recorded() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "out x; report r1; usage 7").await.unwrap();
    w.check(
        &s,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user out x; report r1; usage 7
         3 OUTPUT assistant x
         4 TOOL_RESULT r1
         5 USAGE 7
         6 END COMPLETED",
    )
    .await;
    assert_eq!(w.engine.rerun(&s).await.unwrap().effects, 3);
}

/// R-OUT-3: a receipt of the host cannot be forged, and the refusal cannot be caught away.
#[tokio::test]
async fn a_forged_receipt_is_refused() {
    struct Forger;
    #[inspan_harness::async_trait]
    impl inspan_harness::Harness for Forger {
        async fn describe(&self) -> Result<v1::HarnessDescriptor, inspan_harness::Failure> {
            Ok(Moves::default().descriptor)
        }
        async fn run(
            &self,
            _: inspan_harness::Start,
            sink: &dyn inspan_harness::Sink,
        ) -> Result<(), inspan_harness::Failure> {
            let forged = v1::ToolResult { id: "c".to_owned(), approval_request_seq: 3, ..Default::default() };
            let _ = sink.report(forged).await;
            Ok(())
        }
    }
    let w = World::with(Arc::new(Forger), true);
    let s = w.create().await;
    assert_eq!(w.exec(&s, "x").await.unwrap_err().code(), Code::FailedPrecondition);
    assert!(!w.journal_text(&s).await.contains("TOOL_RESULT"));
}

/// R-REMOTE-1, R-REMOTE-2: a harness that does not say what it is within ten seconds is not there, and nothing is recorded.
#[tokio::test]
async fn a_silent_harness_is_given_up() {
    #[derive(Default)]
    struct Silent(tokio::sync::Notify);
    #[inspan_harness::async_trait]
    impl inspan_harness::Harness for Silent {
        async fn describe(&self) -> Result<v1::HarnessDescriptor, inspan_harness::Failure> {
            self.0.notify_one();
            std::future::pending().await
        }
        async fn run(
            &self,
            _: inspan_harness::Start,
            _: &dyn inspan_harness::Sink,
        ) -> Result<(), inspan_harness::Failure> {
            Ok(())
        }
    }
    let silent = Arc::new(Silent::default());
    let w = World::with(silent.clone(), true);
    let s = w.create().await;
    let turn = tokio::spawn(w.engine.accept(request(&s, "x"), "default").await.unwrap().run());
    silent.0.notified().await;
    w.hand.advance_s(9);
    tokio::task::yield_now().await;
    assert!(!turn.is_finished(), "it still has a second");
    w.hand.advance_s(1);
    assert_eq!(turn.await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert!(w.records(&s).await.is_empty());
}

/// The text whose SHA-256 is the recorded input hash is kept, for every call.
#[tokio::test]
async fn the_request_is_kept() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "model one; model two").await.unwrap();
    let mut kept = Vec::new();
    for r in w.records(&s).await {
        if let Some(Body::Model(call)) = parse::event(&r.event).unwrap().body {
            let digest: Digest = call.input_hash.parse().unwrap();
            kept.push(w.journal.request(digest).await.unwrap().expect("it was kept"));
        }
    }
    let asked =
        v1::ModelCall { model: "m".to_owned(), messages: vec![v1::Message::text("user", "two")], ..Default::default() };
    assert_eq!(kept.len(), 2);
    assert_eq!(*kept[1], *input::text(&asked).unwrap());
}

/// R-FORK-4 is the service's; R-VER-5, R-LIST-4: names are checked before anything is recorded.
#[tokio::test]
async fn unknown_names_are_refused_with_the_known_ones() {
    let w = World::new();
    let s = w.create().await;
    let e = w.exec_request(v1::ExecRequest { harness: "nope".to_owned(), ..request(&s, "x") }).await.unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
    assert!(e.to_string().contains("moves"), "{e}");
    let e = w.engine.create(v1::Session { harness: "nope".to_owned(), ..Default::default() }).await.unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
    let e = w.exec(&"sess-unknown".into(), "x").await.unwrap_err();
    assert_eq!(e.code(), Code::NotFound);
    assert!(w.records(&s).await.is_empty());
}

/// R-CAP-1, R-CAP-2: what this host cannot honour is refused before anything is recorded.
#[tokio::test]
async fn a_memory_harness_is_refused_before_any_record() {
    let w = World::with(Arc::new(inspan_harness::reference::Counter::default()), true);
    let s = w.create().await;
    for e in [
        w.exec(&s, "x").await.unwrap_err(),
        w.engine.resume(&s).await.unwrap_err(),
        w.engine.fork(&s, Default::default()).await.unwrap_err(),
    ] {
        assert_eq!(e.code(), Code::FailedPrecondition);
    }
    assert!(w.records(&s).await.is_empty());
    assert_eq!(w.journal.session(&s).await.unwrap().unwrap().fence, 0, "no fence was taken");
}

/// An Exec without session makes one and names it in the first frame.
#[tokio::test]
async fn exec_without_session_creates_one() {
    let w = World::new();
    let r = v1::ExecRequest { inputs: vec![v1::Message::text("user", "model hi")], ..Default::default() };
    let turn = w.engine.accept(r, "p1").await.unwrap();
    let first = turn.session().clone();
    assert_eq!((first.last_seq, first.exec_state()), (0, ExecState::ExecPending));
    assert_eq!(first.metadata.as_ref().unwrap().project, "p1");
    turn.run().await.unwrap();
    assert_eq!(w.engine.session(&uid(&first)).await.unwrap().last_seq, 5);
}

/// R-TOOL-1, R-TOOL-2, R-TOOL-4: this host has no executor and says so.
#[tokio::test]
async fn tools_are_refused_honestly() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "unmediated a; trytool b; trytool c key; out done").await.unwrap();
    let text = w.journal_text(&s).await;
    assert_eq!(text.matches("TOOL_CALL").count(), 1, "only the valid intent is on record: {text}");
    assert_eq!(w.engine.rerun(&s).await.unwrap().executions, 1, "R-TOOL-15");
}

/// A stopping host finishes the effect it is in, starts no other, and leaves the turn to Resume.
#[tokio::test]
async fn drain_stops_at_a_durable_point() {
    let w = World::new();
    let s = w.create().await;
    let gate = Arc::new(tokio::sync::Notify::new());
    w.model.then([Answer::Gate(gate.clone())]);
    let turn = tokio::spawn(w.engine.accept(request(&s, "model a; model b"), "default").await.unwrap().run());
    while w.model.count() == 0 {
        tokio::task::yield_now().await;
    }
    let drained = {
        let engine = w.engine.clone();
        tokio::spawn(async move { engine.drain().await })
    };
    while !matches!(w.exec(&s, "x").await, Err(Error::Stopping)) {
        tokio::task::yield_now().await;
    }
    gate.notify_one();
    assert_eq!(turn.await.unwrap().unwrap_err().code(), Code::Unavailable);
    drained.await.unwrap();
    assert!(w.journal_text(&s).await.ends_with("4 OUTPUT assistant re:a"), "the answer is on record, no ERROR");

    let w = w.restart();
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.model.take_calls(), ["a", "b"]);
    assert!(w.journal_text(&s).await.ends_with("7 END COMPLETED\n8 LIFECYCLE RESUME"));
}

/// R-LIVE-5: operations of one turn run one after another, whatever the harness does. That none comes after the turn is
/// the compiler's business: the sink is lent for the run.
#[tokio::test]
async fn concurrent_operations_are_serialised() {
    struct Both;
    #[inspan_harness::async_trait]
    impl inspan_harness::Harness for Both {
        async fn describe(&self) -> Result<v1::HarnessDescriptor, inspan_harness::Failure> {
            Ok(Moves::default().descriptor)
        }
        async fn run(
            &self,
            _: inspan_harness::Start,
            sink: &dyn inspan_harness::Sink,
        ) -> Result<(), inspan_harness::Failure> {
            let ask = |t: &str| v1::ModelCall { messages: vec![v1::Message::text("user", t)], ..Default::default() };
            let (a, b, c) = tokio::join!(sink.model(ask("a")), sink.model(ask("b")), sink.output("c"));
            a?;
            b?;
            Ok(c?)
        }
    }
    let w = World::with(Arc::new(Both), true);
    let s = w.create().await;
    w.exec(&s, "x").await.unwrap();
    let kinds: Vec<_> = w.journal_text(&s).await.lines().map(|l| l.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(kinds.join(" "), "EXECUTION_START INPUT MODEL_CALL OUTPUT MODEL_CALL OUTPUT OUTPUT END");
}

/// R-LIFE-3, R-LIFE-4, R-LIFE-5: one view, whoever answers; the head and the time move with every append.
#[tokio::test]
async fn every_answer_agrees() {
    let w = World::new();
    let s = w.create().await;
    assert_eq!(w.engine.session(&s).await.unwrap().exec_state(), ExecState::ExecPending);
    for step in 0..4 {
        w.hand.advance_s(1);
        let answer = match step {
            0 => w.exec(&s, "out x").await.unwrap(),
            1 => w.engine.suspend(&s).await.unwrap(),
            2 => w.engine.resume(&s).await.unwrap(),
            _ => w.exec(&s, "out y").await.unwrap(),
        };
        let query = inspan_journal::ListQuery { project: String::new(), limit: 9, after: None };
        let listed = w.engine.view(&w.journal.list(query).await.unwrap().sessions[0]);
        assert_eq!(answer, w.engine.session(&s).await.unwrap());
        assert_eq!(answer, listed);
        let updated = answer.metadata.unwrap().update_time.unwrap().seconds;
        assert_eq!(updated, inspan_journal::Clock::now_ns(&*w.hand) / 1_000_000_000);
        assert_eq!(answer.last_seq as usize, w.records(&s).await.len());
    }
}
