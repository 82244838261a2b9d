//! The HTTP spelling beside the gRPC one: same sessions, same refusals, strict about what comes in.

mod support;

use hyper::{Method, StatusCode};
use inspan_wire::{json, v1};
use serde_json::{Value, json};
use support::http::{self, Answer, get, post, read, send};
use support::{Running, start};
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_the_same_in_both_spellings() {
    let running = start().await;
    let body = r#"{"session":{"metadata":{"project":"p","name":"n"},"harness":"echo","model":"m",
        "identity":{"principal":"me"},"origin":{"source":"test","attributes":{"k":"v"}},
        "labels":{"a":"b"},"annotations":{"c":"d"}}}"#;
    let created = post(&running, "/v1/sessions", body).await;
    assert_eq!(created.status, StatusCode::OK, "{}", created.json());
    let uid = created.json()["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let mut sessions = running.sessions().await;
    let same = async |http: Value| {
        let request = v1::GetSessionRequest { uid: uid.clone() };
        let grpc = sessions.get_session(request).await.expect("it is there").into_inner();
        assert_eq!(json::to_value(&grpc).expect("it has a JSON form"), http);
    };
    let mut same = same;
    same(created.json()).await;
    running.turn(&uid, "hello").await;
    let path = format!("/v1/sessions/{uid}");
    same(get(&running, &path).await.json()).await;
    let listed = get(&running, "/v1/sessions?project=p").await.json();
    same(listed["sessions"][0].clone()).await;
    same(post(&running, &format!("{path}/suspend"), "").await.json()).await;
    let parts = json!([{ "last_seq": "6" }, { "compute_state": "COMPUTE_COLD" }]);
    for part in parts.as_array().expect("two") {
        let session = get(&running, &path).await.json();
        for (name, value) in part.as_object().expect("fields") {
            assert_eq!(&session[name], value);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_served_as_they_were_hashed() {
    let running = start().await;
    let uid = running.session("echo").await;
    running.turn(&uid, "naïve \u{1F600} \"quoted\"").await;
    let stored = running.journal.records(&uid.as_str().into(), 1, i64::MAX, 100).await.expect("they are there");
    let path = format!("/v1/sessions/{uid}/records");
    let answer = read(send(&running, Method::GET, &path, &[("accept", "application/x-ndjson")], "").await).await;
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    let text = String::from_utf8(answer.body.to_vec()).expect("UTF-8");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.last().copied(), Some(r#"{"end":{"last_seq":"5"}}"#));
    for (line, record) in lines.iter().zip(&stored) {
        let event = std::str::from_utf8(&record.event).expect("UTF-8");
        assert!(line.ends_with(&format!("\"event\":{event}}}}}")), "{line}");
        let value: Value = serde_json::from_str(line).expect("JSON");
        let shown = &value["record"];
        assert_eq!(shown["seq"], record.seq.to_string());
        assert_eq!(shown["content_hash"], record.content_hash.to_string());
        assert_eq!(shown["fence"], record.fence.to_string());
        let time = shown["ts"].as_str().expect("a time");
        assert!(time.ends_with('Z') && time.len() >= 20, "{time}");
    }
    assert_eq!(lines.len(), stored.len() + 1);

    for (query, expected) in [
        ("?from=2&to=3", vec!["2 INPUT", "3 MODEL_CALL", "end"]),
        ("?from=-5&to=1", vec!["1 EXECUTION_START", "end"]),
        ("?from=5&to=900", vec!["5 END", "end"]),
        ("?from=6", vec!["end"]),
        ("?from=4&to=2", vec!["end"]),
    ] {
        assert_eq!(http::events(&running, &format!("{path}{query}"), &[]).await.words().await, expected, "{query}");
    }
}

/// The fault of an answer, checked for its form.
fn fault(answer: &Answer, status: u16) -> (Code, String) {
    assert_eq!(answer.status.as_u16(), status, "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(answer.header("content-type"), "application/json");
    let fault = answer.json();
    let fields = fault.as_object().expect("an object");
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["code", "message", "status"]);
    let code = i32::try_from(fault["code"].as_i64().expect("a number")).expect("a small one");
    (Code::from_i32(code), fault["message"].as_str().expect("a text").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_request_is_said_by_name() {
    let running = start().await;
    let uid = running.session("echo").await;
    let turns = format!("/v1/sessions/{uid}/turns");
    for (path, body, said) in [
        (&*turns, r#"{"inptus":[]}"#, "inptus"),
        (&turns, r#"{"inputs":[{"role":"user","text":"x"}]}"#, "text"),
        (&turns, r#"{"inputs":7}"#, "ExecRequest"),
        (&turns, r#"{"expected_last_seq":1e30}"#, "ExecRequest"),
        (&turns, r#"{"expected_last_seq":"9223372036854775808"}"#, "ExecRequest"),
        (&turns, r#"{"inputs":[]} x"#, "trailing"),
        (&turns, "{", "ExecRequest"),
        (&turns, "", "ExecRequest"),
        (&turns, "[]", "ExecRequest"),
        (&turns, "\u{0}", "ExecRequest"),
        (&turns, r#"{"session":"sess-other"}"#, "sess-other"),
        (&turns, r#"{"harness":"nobody"}"#, "echo, gated, moves"),
        ("/v1/sessions", r#"{"session":{"harness":"nobody"}}"#, "echo, gated, moves"),
        ("/v1/sessions", r#"{"session":{"labels":{"a":1}}}"#, "CreateSessionRequest"),
        (&*format!("/v1/sessions/{uid}/fork"), r#"{"identity":{}}"#, "ForkRequest.identity is unsupported"),
        (&*format!("/v1/sessions/{uid}/fork"), r#"{"count":129}"#, "fork: "),
        (&*format!("/v1/sessions/{uid}/approve"), r#"{"execution_id":"e"}"#, "tool_call_id"),
    ] {
        let (code, message) = fault(&post(&running, path, body).await, 400);
        assert_eq!(code, Code::InvalidArgument, "{body}: {message}");
        assert!(message.contains(said), "{body}: {message}");
    }
    for (path, said) in [
        ("/v1/sessions?page_size=x", "page_size"),
        ("/v1/sessions?page_size=99999999999", "page_size"),
        ("/v1/sessions?page_token=%FF", "page_token"),
        ("/v1/sessions?pagesize=1", "pagesize"),
        ("/v1/sessions?project=a&project=b", "project"),
        (&*format!("/v1/sessions/{uid}/records?from=1.5"), "from"),
        (&*format!("/v1/sessions/{uid}/records?to=-1"), "to_seq"),
        (&*format!("/v1/sessions/{uid}/records?follow=yes"), "follow"),
        (&*format!("/v1/sessions/{uid}/records?follow=true&to=3"), "to and follow"),
        (&*format!("/v1/sessions/{uid}/records/x/request"), "seq"),
        (&*format!("/v1/sessions/{uid}/blobs/abc"), "digest"),
        ("/v1/sessions/%FF", "UTF-8"),
    ] {
        let (code, message) = fault(&get(&running, path).await, 400);
        assert_eq!(code, Code::InvalidArgument, "{path}");
        assert!(message.contains(said), "{path}: {message}");
    }
    // Bytes that are no text at all.
    let headers = [("content-type", "application/json")];
    let bytes = read(send(&running, Method::POST, &turns, &headers, b"{\"harness\":\"\xff\"}".to_vec()).await).await;
    assert_eq!(fault(&bytes, 400).0, Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_things_and_wrong_methods_say_so() {
    let running = start().await;
    let uid = running.session("echo").await;
    running.turn(&uid, "x").await;
    for path in [
        "/v1/sessions/sess-none",
        "/v1/sessions/a%00b",
        "/v1/sessions/sess-none/records",
        "/v1/sessions/sess-none/watch",
        "/v1/sessions/sess-none/records/1/request",
        &*format!("/v1/sessions/{uid}/records/99/request"),
        &*format!("/v1/sessions/{uid}/records/0/request"),
        &*format!("/v1/sessions/{uid}/blobs/{}", "0".repeat(64)),
        "/v1/nothing",
        "/",
        "/v1/sessions/",
        &*format!("/v1/sessions/{uid}/"),
    ] {
        assert_eq!(fault(&get(&running, path).await, 404).0, Code::NotFound, "{path}");
    }
    for verb in ["suspend", "resume", "fork", "cancel", "rerun"] {
        let path = format!("/v1/sessions/sess-none/{verb}");
        assert_eq!(fault(&post(&running, &path, "{}").await, 404).0, Code::NotFound, "{path}");
    }
    let wrong = read(send(&running, Method::PUT, "/v1/sessions", &[], "").await).await;
    assert_eq!(fault(&wrong, 405).0, Code::Unimplemented);
    let mut allowed: Vec<_> = wrong.header("allow").split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
    // A wrong record for what is asked of it.
    let (code, message) = fault(&get(&running, &format!("/v1/sessions/{uid}/records/1/request")).await, 400);
    assert_eq!((code, message.contains("EVENT_MODEL_CALL")), (Code::InvalidArgument, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_json_drives_a_session() {
    let running = start().await;
    let uid = running.session("echo").await;
    for path in ["/v1/turns", &format!("/v1/sessions/{uid}/turns"), &format!("/v1/sessions/{uid}/fork"), "/v1/sessions"]
    {
        for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("multipart/form-data")] {
            let headers: Vec<_> = kind.map(|kind| ("content-type", kind)).into_iter().collect();
            let refused = read(send(&running, Method::POST, path, &headers, "{}").await).await;
            assert_eq!(fault(&refused, 415).0, Code::InvalidArgument, "{path} {kind:?}");
        }
    }
    let headers = [("content-type", "Application/JSON; charset=utf-8")];
    let turn = send(&running, Method::POST, &format!("/v1/sessions/{uid}/turns"), &headers, "{}").await;
    assert_eq!(turn.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_above_the_bound_is_refused_with_the_bound() {
    let running = start().await;
    let text = "x".repeat(64 << 20);
    let (code, message) = fault(&post(&running, "/v1/turns", &format!("{{}}{text}")).await, 413);
    assert_eq!((code, message.contains("67108864 bytes")), (Code::ResourceExhausted, true));

    let request = support::exec("", &text);
    let refused = running.sessions().await.exec(request).await.expect_err("it is too large");
    assert_eq!(refused.code(), Code::OutOfRange);
    assert!(refused.message().contains("67108864 bytes"), "{refused}");
}

async fn grpc_code<T>(call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>) -> Code {
    call.await.err().map_or(Code::Ok, |status| status.code())
}

/// Also R-REPLAY-7, but for a session that is not there: that is NOT_FOUND here, and not an empty stream.
#[tokio::test(flavor = "multi_thread")]
async fn codes_follow_the_table() {
    let running = start().await;
    let uid = running.session("echo").await;
    running.turn(&uid, "x").await;
    let mut s = running.sessions().await;
    let session = |uid: &str| uid.to_owned();
    assert_eq!(grpc_code(s.get_session(v1::GetSessionRequest { uid: session("") })).await, Code::InvalidArgument);
    assert_eq!(grpc_code(s.get_session(v1::GetSessionRequest { uid: session("no") })).await, Code::NotFound);
    let list = v1::ListSessionsRequest { page_token: "!".to_owned(), ..Default::default() };
    assert_eq!(grpc_code(s.list_sessions(list)).await, Code::InvalidArgument);
    assert_eq!(grpc_code(s.exec(support::exec("no", "x"))).await, Code::NotFound);
    let unknown = v1::ExecRequest { harness: "nobody".to_owned(), ..support::exec(&uid, "x") };
    assert_eq!(grpc_code(s.exec(unknown)).await, Code::InvalidArgument);
    let replay = v1::ReplayRequest { session: session("no"), ..Default::default() };
    assert_eq!(grpc_code(s.replay(replay)).await, Code::NotFound);
    for uid in ["", "no"] {
        let code = if uid.is_empty() { Code::InvalidArgument } else { Code::NotFound };
        assert_eq!(grpc_code(s.suspend(v1::SuspendRequest { session: session(uid) })).await, code);
        assert_eq!(grpc_code(s.resume(v1::ResumeRequest { session: session(uid), boot: true })).await, code);
        assert_eq!(grpc_code(s.fork(v1::ForkRequest { session: session(uid), ..Default::default() })).await, code);
        assert_eq!(grpc_code(s.cancel(v1::CancelRequest { session: session(uid), ..Default::default() })).await, code);
        assert_eq!(grpc_code(s.delete_session(v1::DeleteSessionRequest { uid: session(uid) })).await, code);
    }
    let cancel = v1::CancelRequest { session: uid.clone(), ..Default::default() };
    assert_eq!(grpc_code(s.cancel(cancel)).await, Code::FailedPrecondition);
    // The identity is looked at before the session is.
    let fork = v1::ForkRequest { session: session("no"), identity: Some(Default::default()), ..Default::default() };
    let refused = s.fork(fork).await.expect_err("no identity");
    assert_eq!(refused.message(), "ForkRequest.identity is unsupported: per-child principals are not enforced");
    let beyond = v1::ForkRequest { session: uid.clone(), at_seq: 99, ..Default::default() };
    assert_eq!(grpc_code(s.fork(beyond)).await, Code::OutOfRange);
    approvals(&mut s, &uid).await;
    exec_codes(&running, &uid).await;
}

/// R-APPR is not on this host: a whole tuple is answered honestly.
async fn approvals(s: &mut inspan_host::proto::SessionsClient<tonic::transport::Channel>, uid: &str) {
    let whole = v1::ApproveRequest {
        session: uid.to_owned(),
        execution_id: "e".to_owned(),
        tool_call_id: "t".to_owned(),
        request_seq: 3,
        approved: Some(false),
        ..Default::default()
    };
    type Spoil = fn(&mut v1::ApproveRequest);
    let spoils: [Spoil; 6] = [
        |r| r.session.clear(),
        |r| r.execution_id.clear(),
        |r| r.tool_call_id.clear(),
        |r| r.request_seq = 0,
        |r| r.request_seq = -1,
        |r| r.approved = None,
    ];
    for spoil in spoils {
        let mut request = whole.clone();
        spoil(&mut request);
        assert_eq!(grpc_code(s.approve(request)).await, Code::InvalidArgument);
    }
    let unknown = v1::ApproveRequest { session: "no".to_owned(), ..whole.clone() };
    assert_eq!(grpc_code(s.approve(unknown)).await, Code::NotFound);
    assert_eq!(grpc_code(s.approve(whole)).await, Code::FailedPrecondition);
}

/// Refusals that come after the first frame.
async fn exec_codes(running: &Running, uid: &str) {
    let late = |request: v1::ExecRequest| async {
        let mut stream = running.sessions().await.exec(request).await.expect("a first frame").into_inner();
        stream.message().await.expect("the session").expect("the session");
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Code::Ok,
                Err(status) => return status.code(),
            }
        }
    };
    let base = support::exec(uid, "x");
    let stale = v1::ExecRequest { expected_last_seq: Some(0), ..base.clone() };
    assert_eq!(late(stale).await, Code::Aborted);
    let current = v1::ExecRequest { expected_last_seq: Some(5), ..base.clone() };
    assert_eq!(late(current).await, Code::Ok);
    let past = v1::ExecRequest { deadline_unix: 1, ..base.clone() };
    assert_eq!(late(past).await, Code::DeadlineExceeded);
    let memory = v1::ExecRequest { harness: "counter".to_owned(), ..base };
    assert_eq!(late(memory).await, Code::FailedPrecondition);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_turn_pages() {
    let running = start().await;
    let mut created = Vec::new();
    for _ in 0..7 {
        created.push(running.session("echo").await);
    }
    let mut listed = Vec::new();
    let mut token = String::new();
    loop {
        let page = get(&running, &format!("/v1/sessions?page_size=3&page_token={token}")).await.json();
        for session in page["sessions"].as_array().expect("sessions") {
            listed.push(session["metadata"]["uid"].as_str().expect("a uid").to_owned());
        }
        match page["next_page_token"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    listed.sort();
    created.sort();
    assert_eq!(listed, created);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_needs_http_only() {
    let running = start().await;
    let uid = running.session("echo").await;
    running.turn(&uid, "what was asked").await;
    let path = format!("/v1/sessions/{uid}");
    let records = http::events(&running, &format!("{path}/records?from=3&to=3"), &[]).await.next().await;
    let input_hash = records.expect("the call").data["event"]["model"]["input_hash"].clone();
    let request = get(&running, &format!("{path}/records/3/request")).await;
    assert_eq!(inspan_wire::Digest::of(&request.body).to_string(), input_hash.as_str().expect("a digest"));
    assert!(request.json().to_string().contains("what was asked"));

    let rerun = post(&running, &format!("{path}/rerun"), "").await.json();
    assert_eq!((&rerun["executions"], &rerun["outputs"]), (&json!("1"), &json!(["what was asked"])));

    let children = post(&running, &format!("{path}/fork"), r#"{"at_seq":"5","count":2,"child_names":["a","b"]}"#).await;
    assert_eq!(children.json()["children"][1]["metadata"]["name"], "b");
    let harnesses = get(&running, "/v1/harnesses").await.json();
    assert_eq!(harnesses, json!({ "harnesses": ["counter", "echo", "gated", "moves"], "default": "echo" }));
    assert_eq!(get(&running, "/healthz").await.json(), json!({ "status": "SERVING" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_is_read_by_who_may_read_its_session() {
    let running = start().await;
    let (uid, other) = (running.session("echo").await, running.session("echo").await);
    let bytes = vec![7_u8; 100_000];
    let file = v1::FilePart {
        mime: "application/octet-stream".to_owned(),
        source: Some(v1::file_part::Source::Bytes(bytes.clone().into())),
        ..Default::default()
    };
    let part = v1::Part { part: Some(v1::part::Part::File(file)) };
    let request = v1::ExecRequest {
        session: uid.clone(),
        inputs: vec![v1::Message { role: "user".to_owned(), parts: vec![part] }],
        ..Default::default()
    };
    let mut stream = running.sessions().await.exec(request).await.expect("accepted").into_inner();
    while stream.message().await.expect("the turn ends well").is_some() {}
    let digest = inspan_wire::Digest::of(&bytes);
    for name in [digest.to_string(), format!("sha256:{digest}")] {
        let blob = get(&running, &format!("/v1/sessions/{uid}/blobs/{name}")).await;
        assert_eq!((blob.status, blob.body.as_ref()), (StatusCode::OK, bytes.as_slice()));
        assert_eq!(blob.header("content-disposition"), "attachment");
        assert_eq!(blob.header("x-content-type-options"), "nosniff");
    }
    let foreign = get(&running, &format!("/v1/sessions/{other}/blobs/{digest}")).await;
    assert_eq!(fault(&foreign, 404).0, Code::NotFound);
}
