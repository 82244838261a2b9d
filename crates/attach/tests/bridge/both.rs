//! Both ends of ours.

use inspan_harness::{Harness as _, History, Start};
use inspan_wire::v1::{self, EventKind, event::Body};

use crate::support::*;

/// W-1, W-3: everything of Start arrives, every operation crosses, and nothing is made up on the way.
#[tokio::test]
async fn a_whole_turn_crosses_either_kind_of_socket() {
    for socket in [Socket::Tcp, Socket::Unix] {
        let script = script([
            Step::Past,
            Step::Model("one".into()),
            Step::Output("said"),
            mediated("c"),
            Step::Report(v1::ToolResult { id: "r".into(), ..Default::default() }),
            Step::Usage(7),
            Step::Model("two".into()),
        ]);
        let served = Served::new(socket, script.clone()).await;
        let remote = served.remote();
        assert_eq!(remote.describe().await.expect("it answers").id, "script");
        let sink = TestSink::with_tools([Ok(v1::ToolResult { id: "c".into(), ..Default::default() }.into())]);
        let history = (0..3).map(|n| text_event(&format!("{n}"))).collect();
        let outcome = remote.run(Start { history: History::from_events(history), ..start() }, &sink).await;
        assert_eq!(outcome, Ok(()), "{socket:?}");
        assert_eq!(
            script.seen(),
            ["history of 3 events, 3 bytes", "echo:one", "c code=0 is_error=false seqs=0/0", "echo:two"]
        );
        assert_eq!(sink.asked(), ["model one", "output said", "tool c key-c", "report r", "usage 7", "model two"]);
    }
}

fn text_event(text: &str) -> v1::Event {
    v1::Event::new("e0", EventKind::EventInput, Body::Message(v1::Message::text("user", text)))
}

/// W-3: Start in full, as the harness's own code sees it.
#[tokio::test]
async fn start_arrives_as_it_was_sent() {
    struct Shows(std::sync::Arc<std::sync::Mutex<Option<Start>>>);
    #[inspan_harness::async_trait]
    impl inspan_harness::Harness for Shows {
        async fn describe(&self) -> Result<v1::HarnessDescriptor, inspan_harness::Failure> {
            Ok(v1::HarnessDescriptor::default())
        }
        async fn run(&self, start: Start, _: &dyn inspan_harness::Sink) -> Result<(), inspan_harness::Failure> {
            *self.0.lock().expect("never poisoned") = Some(start);
            Ok(())
        }
    }
    let got = std::sync::Arc::default();
    let served = Served::new(Socket::Unix, Shows(std::sync::Arc::clone(&got))).await;
    let sent = Start {
        config: vec![0, 255].into(),
        inputs: vec![v1::Message::text("user", "hello")],
        identity: Some(v1::IdentityContext { can_mint_tokens: true, ..Default::default() }),
        resume_from_seq: -3,
        ..start()
    };
    served.remote().run(sent.clone(), &TestSink::default()).await.expect("a turn");
    let got = got.lock().expect("never poisoned").take().expect("the harness ran");
    assert_eq!((got.session, got.execution_id), (sent.session, sent.execution_id));
    assert_eq!((got.config, got.inputs, got.identity), (sent.config, sent.inputs, sent.identity));
    assert_eq!((got.resume_from_seq, got.history.len()), (-3, 0));
}

/// A history, a request and a completion far beyond gRPC's usual 4 MiB.
#[tokio::test]
async fn messages_may_be_large() {
    const MIB: usize = 1 << 20;
    let script = script([Step::Past, Step::Model("x".repeat(9 * MIB))]);
    let served = Served::new(Socket::Tcp, script.clone()).await;
    let history = (0..24).map(|_| text_event(&"h".repeat(MIB))).collect();
    let sink = TestSink::default();
    let outcome = served.remote().run(Start { history: History::from_events(history), ..start() }, &sink).await;
    assert_eq!(outcome, Ok(()));
    let seen = script.seen();
    assert_eq!(seen[0], format!("history of 24 events, {} bytes", 24 * MIB));
    assert_eq!(seen[1].len(), 9 * MIB + "echo:".len());
}

/// A history that no message can carry is refused by its size, before anything is sent.
#[tokio::test]
async fn a_history_beyond_the_limit_is_refused_with_the_limit() {
    struct Endless(std::sync::Arc<v1::Event>);
    #[inspan_harness::async_trait]
    impl inspan_harness::HistorySource for Endless {
        async fn page(&self, _: usize) -> Result<Vec<std::sync::Arc<v1::Event>>, inspan_harness::Failure> {
            Ok(vec![self.0.clone()])
        }
    }
    let script = script([]);
    let served = Served::new(Socket::Unix, script.clone()).await;
    let event = std::sync::Arc::new(text_event(&"h".repeat(32 << 20)));
    let history = History::new(std::sync::Arc::new(Endless(event)), 1000);
    let refused = text(served.remote().run(Start { history, ..start() }, &TestSink::default()).await);
    assert!(refused.contains("more than the 256 MiB"), "{refused}");
}

/// W-4: what the host cannot do ends the bridge: the harness never sees an error to handle.
#[tokio::test]
async fn a_failure_on_the_host_ends_the_turn_and_its_stream() {
    let script = script([Step::Swallow, Step::Model("x".into()), Step::Output("went on")]);
    let sink = TestSink::without_model();
    assert_eq!(text(turn(&script, &sink).await), "the model call failed: no credit");
    script.dropped.notified().await;
    assert_eq!(script.seen(), Vec::<String>::new());
    assert_eq!(sink.asked(), ["model x"]);
}

/// W-5: how the harness failed is what the host says; a panic is its own turn's failure.
#[tokio::test]
async fn a_failed_harness_is_quoted() {
    let script_ = script([Step::Output("before"), Step::Fail("ran out of ideas")]);
    assert_eq!(text(turn(&script_, &TestSink::default()).await), "the harness ended with FAILED: ran out of ideas");
    let served = Served::new(Socket::Unix, script([Step::Panic("slipped")])).await;
    for _ in 0..2 {
        let failed = text(served.remote().run(start(), &TestSink::default()).await);
        assert_eq!(failed, "the harness ended with FAILED: the harness panicked: slipped");
    }
}

/// W-9: dropping the turn cancels the stream, and the harness's run is dropped at its next await point.
#[tokio::test]
async fn a_dropped_turn_ends_the_harness_run() {
    for socket in [Socket::Tcp, Socket::Unix] {
        let script = script([Step::Model("x".into()), Step::Hang]);
        let served = Served::new(socket, script.clone()).await;
        let (remote, sink) = (served.remote(), TestSink::default());
        tokio::select! {
            outcome = remote.run(start(), &sink) => panic!("a turn that hangs ended: {outcome:?}"),
            () = script.started.notified() => {}
        }
        script.dropped.notified().await;
    }
}

/// W-8, R-OUT-3: a receipt of the host's cannot be reported, and a harness that ignores the refusal has failed all the
/// same; the host is not even asked.
#[tokio::test]
async fn a_forged_receipt_is_refused_for_good() {
    for forged in [receipt(0, false), v1::ToolResult { code: 1, is_error: true, ..Default::default() }] {
        let script = script([Step::Swallow, Step::Report(forged), Step::Swallow, Step::Output("went on")]);
        let sink = TestSink::default();
        let failed = text(turn(&script, &sink).await);
        assert!(failed.contains("host-owned"), "{failed}");
        assert_eq!(script.seen().len(), 2, "the refusal is sticky: {:?}", script.seen());
        assert_eq!(sink.asked(), Vec::<String>::new());
    }
}

/// A tool choice of an unknown mode is never sent as the default one.
#[tokio::test]
async fn an_unknown_tool_choice_mode_is_refused_by_the_harness_side() {
    let script = script([Step::Swallow, Step::Mode(9), Step::Model("x".into())]);
    let sink = TestSink::default();
    assert_eq!(turn(&script, &sink).await, Ok(()));
    assert_eq!(script.seen(), ["swallowed: the request has a tool choice of an unknown mode", "echo:x"]);
    assert_eq!(sink.asked(), ["model x"]);
}

/// W-10: nothing follows the end, whatever the harness left open; and an answer that nobody took is not read as
/// another request's.
#[tokio::test]
async fn an_operation_that_was_given_up_poisons_the_next() {
    let open = script([Step::GiveUp]);
    let sink = TestSink::default();
    assert_eq!(turn(&open, &sink).await, Ok(()));
    let script = script([Step::GiveUp, Step::Model("x".into())]);
    let failed = text(turn(&script, &TestSink::default()).await);
    assert!(failed.contains("given up before its answer came"), "{failed}");
}

#[tokio::test]
async fn turns_share_a_connection_and_do_not_mix() {
    let script = script([Step::Model("a".into()), Step::Model("b".into())]);
    let served = Served::new(Socket::Unix, script.clone()).await;
    let remote = served.remote();
    let sinks: Vec<TestSink> = (0..32).map(|_| TestSink::default()).collect();
    let turns = sinks.iter().enumerate().map(|(n, sink)| {
        let start = Start { execution_id: format!("e{n}"), session: format!("s{n}"), ..start() };
        remote.run(start, sink)
    });
    for outcome in futures_util::future::join_all(turns).await {
        assert_eq!(outcome, Ok(()));
    }
    assert!(sinks.iter().all(|sink| sink.asked() == ["model a", "model b"]));
}
