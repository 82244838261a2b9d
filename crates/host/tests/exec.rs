//! The stream of a turn, in both spellings: order, outcome, and viewers that leave.

mod support;

use hyper::Method;
use inspan_wire::v1;
use support::http::{self, Events};
use support::{exec, journal_words, start, word};
use tonic::Code;

const ECHO_TURN: [&str; 9] = [
    "session@0",
    "1 EXECUTION_START",
    "2 INPUT",
    "3 MODEL_CALL",
    "delta \"he\"",
    "delta \"llo\"",
    "done",
    "4 OUTPUT",
    "5 END",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_streams_in_the_order_of_the_contract() {
    let running = start().await;
    let uid = running.session("echo").await;
    let frames = running.turn(&uid, "hello").await;
    assert_eq!(frames.iter().map(word).collect::<Vec<_>>(), ECHO_TURN);

    let http = http::send(
        &running,
        Method::POST,
        "/v1/turns",
        &[("content-type", "application/json")],
        r#"{"inputs":[{"role":"user","parts":[{"text":{"text":"hello"}}]}]}"#,
    );
    let mut words = Events::new(http.await).words().await;
    assert_eq!(words.pop().as_deref(), Some("end"));
    assert_eq!(words, ECHO_TURN);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_comes_before_the_turn_runs() {
    let running = start().await;
    let uid = running.session("gated").await;
    let mut stream = running.sessions().await.exec(exec(&uid, "model a")).await.expect("accepted").into_inner();
    let mut next = async || stream.message().await.expect("no error yet").map(|frame| word(&frame));
    assert_eq!(next().await.as_deref(), Some("session@0"));
    assert_eq!(running.gates.asked().await, "a");
    for expected in ["1 EXECUTION_START", "2 INPUT", "3 MODEL_CALL"] {
        assert_eq!(next().await.as_deref(), Some(expected));
    }
    // Each chunk is there before the next one is made.
    for chunk in ["one", "two"] {
        running.gates.chunk(chunk);
        assert_eq!(next().await, Some(format!("delta {chunk:?}")));
    }
    running.gates.finish("one two");
    for expected in ["done", "4 OUTPUT", "5 END"] {
        assert_eq!(next().await.as_deref(), Some(expected));
    }
    assert_eq!(next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_turn_shows_its_error_record_and_then_the_status() {
    let running = start().await;
    let uid = running.session("moves").await;
    let mut stream =
        running.sessions().await.exec(exec(&uid, "out a;fail broken")).await.expect("accepted").into_inner();
    let mut words = Vec::new();
    let status = loop {
        match stream.message().await {
            Ok(frame) => words.push(word(&frame.expect("the stream ends with its error"))),
            Err(status) => break status,
        }
    };
    assert_eq!(words, ["session@0", "1 EXECUTION_START", "2 INPUT", "3 OUTPUT", "4 ERROR"]);
    assert_eq!((status.code(), status.message()), (Code::Internal, "broken"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_outlives_its_viewer_in_every_phase() {
    let running = start().await;
    for frames_seen in 0..=4 {
        let uid = running.session("gated").await;
        let mut stream = running.sessions().await.exec(exec(&uid, "model a")).await.expect("accepted").into_inner();
        for _ in 0..frames_seen {
            stream.message().await.expect("no error yet").expect("no end yet");
        }
        drop(stream);
        running.gates.asked().await;
        running.gates.chunk("x");
        running.gates.finish("x");
        let mut watch = http::events(&running, &format!("/v1/sessions/{uid}/records?follow=true"), &[]).await;
        for expected in ["1 EXECUTION_START", "2 INPUT", "3 MODEL_CALL", "4 OUTPUT", "5 END"] {
            assert_eq!(watch.next_real().await.expect("a record").word(), expected, "left after {frames_seen}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_driver_is_refused_and_sees_nothing_of_the_first() {
    let running = start().await;
    let uid = running.session("gated").await;
    let mut first = running.sessions().await.exec(exec(&uid, "model a")).await.expect("accepted").into_inner();
    running.gates.asked().await;
    let mut second = running.sessions().await.exec(exec(&uid, "model b")).await.expect("accepted").into_inner();
    let frame = second.message().await.expect("the session first").expect("a frame");
    assert_eq!(word(&frame), "session@3");
    let refused = second.message().await.expect_err("it is busy");
    assert_eq!(refused.code(), Code::Aborted, "{refused}");
    running.gates.finish("a");
    let mut last = None;
    while let Some(frame) = first.message().await.expect("the first goes on") {
        last = Some(word(&frame));
    }
    assert_eq!(last.as_deref(), Some("5 END"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_drivers_race_and_each_sees_its_own_turn_only() {
    let running = start().await;
    let uid = running.session("echo").await;
    let racers: Vec<_> = (0..32)
        .map(|n| {
            let (uid, channel) = (uid.clone(), running.sessions());
            let request = exec(&uid, &format!("text {n}"));
            async move { (n, channel.await.exec(request).await.expect("accepted").into_inner()) }
        })
        .collect();
    let streams = futures_util::future::join_all(racers).await;
    let mut completed = 0;
    for (n, mut stream) in streams {
        let mut inputs = Vec::new();
        let outcome = loop {
            match stream.message().await {
                Ok(Some(frame)) => inputs.extend(input_text(&frame)),
                Ok(None) => break Code::Ok,
                Err(status) => break status.code(),
            }
        };
        match outcome {
            Code::Ok => {
                assert_eq!(inputs, [format!("text {n}")]);
                completed += 1;
            }
            code => {
                assert_eq!(code, Code::Aborted);
                assert_eq!(inputs, [""; 0]);
            }
        }
    }
    assert!(completed >= 1, "one of them is first");
    assert_eq!(journal_words(&running, &uid).await.len(), completed * 5);
}

fn input_text(frame: &v1::ExecUpdate) -> Option<String> {
    let Some(v1::exec_update::Update::Record(record)) = &frame.update else { return None };
    let event = record.event.as_ref().expect("an event");
    match (event.kind(), &event.body) {
        (v1::EventKind::EventInput, Some(v1::event::Body::Message(message))) => Some(message.concat_text()),
        _ => None,
    }
}
