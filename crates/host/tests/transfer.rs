//! Sessions out of one host and into another, and what a file must be for that.

mod support;

use hyper::{Method, StatusCode};
use inspan_wire::inspan_v1 as pb;
use serde_json::{Value, json};
use support::http::{self, get, post, read, send};
use support::{Running, exec, journal_words, start, start_with};
use tonic::Code;

/// A host with a session of three turns, one of which names a payload.
async fn filled() -> (Running, String) {
    let running = start().await;
    let uid = running.session("echo").await;
    for text in ["one", "two", "three"] {
        running.turn(&uid, text).await;
    }
    let file = inspan_wire::v1::FilePart {
        mime: "application/octet-stream".to_owned(),
        source: Some(inspan_wire::v1::file_part::Source::Bytes(vec![9; 300_000].into())),
        ..Default::default()
    };
    let mut request = exec(&uid, "four");
    request.inputs[0].parts.push(inspan_wire::v1::Part { part: Some(inspan_wire::v1::part::Part::File(file)) });
    let mut stream = running.sessions().await.exec(request).await.expect("accepted").into_inner();
    while stream.message().await.expect("the turn ends well").is_some() {}
    (running, uid)
}

async fn import(running: &Running, file: impl Into<bytes::Bytes>) -> http::Answer {
    let headers = [("content-type", "application/x-ndjson")];
    read(send(running, Method::POST, "/v1/import", &headers, file).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_moves_between_hosts_by_http_and_by_grpc() {
    let (running, uid) = filled().await;
    let exported = get(&running, &format!("/v1/sessions/{uid}/export")).await;
    assert_eq!((exported.status, exported.header("content-type")), (StatusCode::OK, "application/x-ndjson"));
    let report = inspan_journal::verify::export(exported.body.as_ref(), None).expect("it is read");
    assert_eq!((report.records, report.blobs, report.requests, report.fault), (20, 1, 4, None));

    let request = pb::ExportRequest { session: uid.clone() };
    let mut stream = running.watching().await.export(request).await.expect("it is there").into_inner();
    let mut by_grpc = Vec::new();
    while let Some(chunk) = stream.message().await.expect("the file is whole") {
        by_grpc.extend_from_slice(&chunk.data);
    }
    assert!(by_grpc == exported.body, "both spellings write the same file");

    let scratch = tempfile::tempdir().expect("a folder");
    let in_memory = start().await;
    let on_disk = start_with(|config| config.settings.scratch = Some(scratch.path().to_owned())).await;
    for other in [&in_memory, &on_disk] {
        let imported = import(other, exported.body.clone()).await;
        assert_eq!(imported.status, StatusCode::OK, "{}", imported.json());
        assert_eq!(imported.json()["records"], "20");
        assert_eq!(imported.json()["sessions"][0]["metadata"]["uid"], *uid);
        assert_eq!(journal_words(other, &uid).await, journal_words(&running, &uid).await);
        let verified = post(other, &format!("/v1/sessions/{uid}/verify"), "").await.json();
        assert_eq!(verified["fault"], Value::Null);
        assert_eq!(
            (&verified["records"], &verified["blobs"], &verified["requests"]),
            (&json!("20"), &json!("1"), &json!("4"))
        );
        // It lives on there.
        assert!(!other.turn(&uid, "five").await.is_empty());
        let again = import(other, exported.body.clone()).await;
        assert_eq!((again.status, &again.json()["status"]), (StatusCode::CONFLICT, &json!("ALREADY_EXISTS")));
    }
    assert_eq!(std::fs::read_dir(scratch.path()).expect("it is there").count(), 0, "nothing is left in scratch");

    let chunks: Vec<_> =
        exported.body.chunks(1000).map(|data| pb::Chunk { data: bytes::Bytes::copy_from_slice(data) }).collect();
    let third = start().await;
    let imported = third.watching().await.import(tokio_stream::iter(chunks)).await.expect("it holds").into_inner();
    assert_eq!((imported.records, imported.sessions.len()), (20, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_does_not_hold_is_refused_and_leaves_nothing() {
    let (running, uid) = filled().await;
    let whole = get(&running, &format!("/v1/sessions/{uid}/export")).await.body;
    let other = start().await;
    let text = String::from_utf8(whole.to_vec()).expect("UTF-8");
    let first_lines = text.lines().take(4).collect::<Vec<_>>().join("\n");
    for file in [
        String::new(),
        "no export".to_owned(),
        first_lines,
        text.replacen("\"fence\":", "\"fense\":", 1),
        text.replace("three", "threw"),
        "SQLite format 3\0".to_owned(),
    ] {
        let refused = import(&other, file).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.json());
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let other = start_with(|config| config.settings.scratch = Some(scratch.path().to_owned())).await;
    let refused = import(&other, "SQLite format 3\0 and then nothing of the kind").await;
    assert_eq!(refused.json()["status"], "INVALID_ARGUMENT");
    assert_eq!(get(&other, "/v1/sessions").await.json(), json!({}));
    let form = read(send(&other, Method::POST, "/v1/import", &[("content-type", "text/plain")], "x").await).await;
    assert_eq!(form.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let request = pb::ExportRequest { session: "sess-none".to_owned() };
    let unknown = other.watching().await.export(request).await.expect_err("unknown");
    assert_eq!(unknown.code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_reading_an_export_stops_its_writer() {
    let (mut running, uid) = filled().await;
    for _ in 0..20 {
        let export = send(&running, Method::GET, &format!("/v1/sessions/{uid}/export"), &[], "").await;
        drop(export);
    }
    running.stop();
    // The threads of writers that nobody reads would keep the runtime from ending.
    let stopped = running.stopped().await;
    assert!(stopped.closed, "{stopped:?}");
}
