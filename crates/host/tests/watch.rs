//! Following a session: no gap, no repetition, whatever the viewer does.

mod support;

use std::time::Duration;

use inspan_host::hub::RingLimits;
use inspan_wire::{inspan_v1 as pb, v1};
use support::http::{self, Event};
use support::{exec, start, start_with};
use tonic::Code;

/// A word for a frame of a gRPC watch.
fn word(frame: &pb::WatchUpdate) -> String {
    use pb::watch_update::Update;
    match frame.update.as_ref().expect("a frame has a body") {
        Update::Record(record) => format!("{} {}", record.seq, support::kind(record.event.as_ref().expect("an event"))),
        Update::Delta(delta) if delta.done => "done".to_owned(),
        Update::Delta(delta) => format!("delta {:?}", delta.chunk),
        Update::Heartbeat(heartbeat) => format!("heartbeat@{}", heartbeat.last_seq),
        Update::Session(session) => session.exec_state().as_str_name().trim_start_matches("EXEC_").to_owned(),
    }
}

fn watch(uid: &str, from_seq: i64) -> pb::WatchRequest {
    pb::WatchRequest { session: uid.to_owned(), from_seq, records_only: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_sees_state_records_and_deltas_of_a_turn() {
    let running = start().await;
    let uid = running.session("gated").await;
    let mut stream = running.watching().await.watch(watch(&uid, 0)).await.expect("it is there").into_inner();
    let mut next = async || word(&stream.message().await.expect("it is well").expect("it goes on"));
    assert_eq!(next().await, "PENDING");
    let turn = running.sessions().await.exec(exec(&uid, "model a")).await.expect("accepted");
    running.gates.asked().await;
    assert_eq!(next().await, "1 EXECUTION_START");
    assert_eq!(next().await, "2 INPUT");
    assert_eq!(next().await, "RUNNING");
    assert_eq!(next().await, "3 MODEL_CALL");
    running.gates.chunk("x");
    assert_eq!(next().await, "delta \"x\"");
    running.gates.finish("x");
    for expected in ["done", "4 OUTPUT", "5 END", "COMPLETED"] {
        assert_eq!(next().await, expected);
    }
    drop(turn);
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_broken_by_heartbeats_in_both_spellings() {
    let running = start_with(|config| config.settings.heartbeat = Duration::from_millis(1)).await;
    let uid = running.session("echo").await;
    running.turn(&uid, "a").await;
    let mut stream = running.watching().await.watch(watch(&uid, 6)).await.expect("it is there").into_inner();
    let mut words = Vec::new();
    for _ in 0..3 {
        words.push(word(&stream.message().await.expect("it is well").expect("it goes on")));
    }
    assert_eq!(words, ["COMPLETED", "heartbeat@5", "heartbeat@5"]);

    let mut events = http::events(&running, &format!("/v1/sessions/{uid}/records?from=6&follow=true"), &[]).await;
    for _ in 0..2 {
        let event = events.next().await.expect("it goes on");
        assert_eq!((event.name.as_str(), event.data), ("heartbeat", serde_json::json!({ "last_seq": "5" })));
    }
    // A record after heartbeats is not lost on them.
    running.turn(&uid, "b").await;
    assert_eq!(events.next_real().await.expect("it goes on").id, Some(6));

    let request = v1::ExecRequest { harness: "gated".to_owned(), ..exec(&uid, "model a") };
    let body = inspan_wire::json::to_value(&request).expect("it has a JSON form").to_string();
    let headers = [("content-type", "application/json")];
    let turn = http::send(&running, hyper::Method::POST, "/v1/turns", &headers, body).await;
    let mut turn = http::Events::new(turn);
    running.gates.asked().await;
    while turn.next().await.expect("it goes on").name != "heartbeat" {}
    running.gates.finish("done");
    assert_eq!(turn.words().await.last().map(String::as_str), Some("end"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_comes_back_by_its_cursor() {
    let running = start().await;
    let uid = running.session("echo").await;
    running.turn(&uid, "a").await;
    running.turn(&uid, "b").await;
    let path = format!("/v1/sessions/{uid}/records?follow=true");
    for last in 0..=10_i64 {
        // The header is stronger than the parameter: an EventSource repeats its URL.
        let headers = [("last-event-id", &*last.to_string())];
        let mut events = http::events(&running, &format!("{path}&from=1"), &headers).await;
        for expected in last + 1..=10 {
            assert_eq!(events.next().await.expect("it goes on").id, Some(expected));
        }
    }
    // Behind the head by one is live; further is another session's cursor, or a mistake.
    for (from, code) in [(11, None), (12, Some(Code::OutOfRange)), (i64::MAX, Some(Code::OutOfRange))] {
        let answer = running.watching().await.watch(watch(&uid, from)).await;
        assert_eq!(answer.err().map(|status| status.code()), code, "{from}");
    }
    let headers = [("last-event-id", "11")];
    let refused = http::send(&running, hyper::Method::GET, &path, &headers, "").await;
    assert_eq!(refused.status(), hyper::StatusCode::BAD_REQUEST);
    for wrong in ["x", "-1", "1.5", "9223372036854775807", "99999999999999999999", ""] {
        let refused = http::send(&running, hyper::Method::GET, &path, &[("last-event-id", wrong)], "").await;
        assert_eq!(refused.status(), hyper::StatusCode::BAD_REQUEST, "{wrong:?}");
    }
    let unknown = running.watching().await.watch(watch("sess-none", 0)).await.expect_err("unknown");
    assert_eq!(unknown.code(), Code::NotFound);
}

/// Reads records until `last`, checking that each follows the one before.
async fn read_all(events: &mut http::Events, last: i64) -> Vec<Event> {
    let mut records: Vec<Event> = Vec::new();
    while records.last().and_then(|record| record.id) != Some(last) {
        let event = events.next().await.expect("it goes on");
        if event.name == "record" {
            let before = records.last();
            assert_eq!(event.id, Some(before.and_then(|record| record.id).unwrap_or(0) + 1));
            if let Some(before) = before {
                assert_eq!(event.data["prev_hash"], before.data["content_hash"]);
            }
            records.push(event);
        }
    }
    records
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_of_every_speed_see_every_record_once() {
    // A ring of four: everyone who is not at once there reads the journal again and again.
    let running = start_with(|config| config.ring = RingLimits { items_max: 4, bytes_max: 4096 }).await;
    let uid = running.session("echo").await;
    let path = format!("/v1/sessions/{uid}/watch");
    let mut quick = Vec::new();
    for _ in 0..4 {
        let mut events = http::events(&running, &path, &[]).await;
        quick.push(tokio::spawn(async move { read_all(&mut events, 300).await }));
    }
    // This one reads nothing until all is over; it stops nobody.
    let mut slow = http::events(&running, &path, &[]).await;
    let mut sessions = running.sessions().await;
    for turn in 0..60 {
        let mut stream = sessions.exec(exec(&uid, &format!("turn {turn}"))).await.expect("accepted").into_inner();
        while stream.message().await.expect("the turn ends well").is_some() {}
    }
    let late = read_all(&mut slow, 300).await;
    for viewer in quick {
        assert_eq!(viewer.await.expect("it sees all"), late);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_that_join_in_the_middle_of_turns_miss_nothing() {
    let running = start().await;
    let uid = running.session("echo").await;
    let (done, mut over) = tokio::sync::watch::channel(false);
    let driver = {
        let (uid, mut sessions) = (uid.clone(), running.sessions().await);
        tokio::spawn(async move {
            for turn in 0..40 {
                let mut stream =
                    sessions.exec(exec(&uid, &format!("turn {turn}"))).await.expect("accepted").into_inner();
                while stream.message().await.expect("the turn ends well").is_some() {}
            }
            done.send_replace(true);
        })
    };
    let mut viewers = Vec::new();
    while !*over.borrow_and_update() {
        let mut events = http::events(&running, &format!("/v1/sessions/{uid}/watch"), &[]).await;
        viewers.push(tokio::spawn(async move { read_all(&mut events, 200).await.len() }));
        tokio::task::yield_now().await;
        if viewers.len() >= 16 {
            over.changed().await.expect("the driver goes on");
        }
    }
    driver.await.expect("every turn ends well");
    for viewer in viewers {
        assert_eq!(viewer.await.expect("it sees all"), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_when_its_session_is_deleted() {
    let running = start().await;
    let uid = running.session("echo").await;
    running.turn(&uid, "a").await;
    let mut stream = running.watching().await.watch(watch(&uid, 1)).await.expect("it is there").into_inner();
    for _ in 0..6 {
        stream.message().await.expect("it is well").expect("it goes on");
    }
    let mut records = http::events(&running, &format!("/v1/sessions/{uid}/records?from=6&follow=true"), &[]).await;
    let request = v1::DeleteSessionRequest { uid: uid.clone() };
    running.sessions().await.delete_session(request).await.expect("it is deleted");
    assert_eq!(stream.message().await.expect_err("it is gone").code(), Code::NotFound);
    let last = records.next_real().await.expect("the reason");
    assert_eq!((last.name.as_str(), &last.data["status"]), ("error", &"NOT_FOUND".into()));
    assert_eq!(records.next().await, None);
}
