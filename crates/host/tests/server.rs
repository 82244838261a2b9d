//! The listener: who may come in, what is said of each request, and how it stops.

mod support;

use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use inspan_host::server::{Address, BindError, Config, Server};
use inspan_wire::{inspan_v1 as pb, v1};
use support::http::{self, Events, read, send};
use support::{Running, exec, journal_words, start, start_on, start_with, word};
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_names_of_others_drive_nothing() {
    let running = start_with(|config| config.allowed_hosts.push("agents.test".to_owned())).await;
    let own = format!("http://{}", running.authority());
    let body = r#"{"inputs":[{"role":"user","parts":[{"text":{"text":"x"}}]}]}"#;
    for (headers, status) in [
        (vec![], 200),
        (vec![("origin", own.as_str())], 200),
        (vec![("host", "agents.test")], 200),
        (vec![("origin", "https://agents.test")], 200),
        (vec![("host", "evil.test")], 403),
        (vec![("host", "localhost:1")], 403),
        (vec![("origin", "http://evil.test")], 403),
        (vec![("origin", "null")], 403),
        (vec![("origin", "http://localhost:3000")], 403),
    ] {
        let mut headers = headers;
        headers.push(("content-type", "application/json"));
        let answer = send(&running, Method::POST, "/v1/turns", &headers, body).await;
        assert_eq!(answer.status().as_u16(), status, "{headers:?}");
        let answer = read(answer).await;
        if status == 403 {
            assert_eq!(answer.json()["status"], "PERMISSION_DENIED");
        }
        // The description and the health of the host are nobody else's business either.
        let health = send(&running, Method::GET, "/healthz", &headers, "").await;
        assert_eq!(health.status().as_u16(), status, "{headers:?}");
    }
    let listed = http::get(&running, "/v1/sessions").await.json();
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(4), "refused requests made no session");
}

/// Sends one HTTP/2 request with this authority to the host.
async fn over_h2(
    running: &Running,
    authority: &str,
    headers: &[(&str, &str)],
) -> hyper::Response<hyper::body::Incoming> {
    let Address::Tcp(address) = running.address else { panic!("it listens on TCP") };
    let stream = tokio::net::TcpStream::connect(address).await.expect("the host accepts");
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{authority}/agentsessions.v1.Sessions/GetSession"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Empty::<bytes::Bytes>::new()).expect("the request is well formed");
    sender.send_request(request).await.expect("the host answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_is_guarded_by_its_authority() {
    let running = start().await;
    let own = running.authority();
    let refused = async |authority: &str, headers: &[(&str, &str)]| {
        let answer = over_h2(&running, authority, headers).await;
        let status = answer.headers().get("grpc-status").map(|value| value.to_str().expect("text").to_owned());
        (answer.status(), status)
    };
    let denied = (StatusCode::FORBIDDEN, Some("7".to_owned()));
    assert_eq!(refused("evil.test", &[]).await, denied);
    assert_eq!(refused(&own, &[("host", "evil.test")]).await, denied);
    assert_eq!(refused(&own, &[("origin", "http://evil.test")]).await, denied);
    // An own name gets as far as the service, which misses the message.
    assert_eq!(refused(&own, &[]).await.0, StatusCode::OK);
    assert_eq!(over_h2(&running, &own, &[("origin", &format!("http://{own}"))]).await.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_carries_its_request_id() {
    let running = start().await;
    let id = async |path: &str, given: Option<&str>| {
        let headers: Vec<_> = given.map(|id| ("x-request-id", id)).into_iter().collect();
        read(send(&running, Method::GET, path, &headers, "").await).await.header("x-request-id").to_owned()
    };
    assert_eq!(id("/healthz", Some("mine-1.2_3")).await, "mine-1.2_3");
    assert_eq!(id("/v1/nothing", Some("mine")).await, "mine");
    for bad in ["a b", "", &"a".repeat(129)] {
        assert_eq!(id("/healthz", Some(bad)).await.len(), 24, "{bad:?}");
    }
    let mut request = tonic::Request::new(v1::GetSessionRequest { uid: "none".to_owned() });
    request.metadata_mut().insert("x-request-id", "from-grpc".parse().expect("metadata"));
    let status = running.sessions().await.get_session(request).await.expect_err("there is none");
    assert_eq!(status.metadata().get("x-request-id").map(|id| id.to_str().expect("text")), Some("from-grpc"));
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_reflection_are_there() {
    let running = start().await;
    let mut health = tonic_health::pb::health_client::HealthClient::new(running.channel().await);
    for service in ["", "agentsessions.v1.Sessions", "inspan.v1.Journal", "inspan.v1.Asks"] {
        let request = tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
        let answer = health.check(request).await.expect("it is known").into_inner();
        assert_eq!(answer.status(), tonic_health::pb::health_check_response::ServingStatus::Serving, "{service}");
    }
    use tonic_reflection::pb::v1 as reflection;
    let mut client = reflection::server_reflection_client::ServerReflectionClient::new(running.channel().await);
    let request = reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(reflection::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut answers =
        client.server_reflection_info(tokio_stream::once(request)).await.expect("it is served").into_inner();
    let answer = answers.message().await.expect("an answer").expect("an answer");
    let Some(reflection::server_reflection_response::MessageResponse::ListServicesResponse(list)) =
        answer.message_response
    else {
        panic!("another answer")
    };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    for name in ["agentsessions.v1.Sessions", "inspan.v1.Journal", "inspan.v1.Asks", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_grpc_method_is_unimplemented() {
    let running = start().await;
    let channel = running.channel().await;
    // The registry is an operator's surface and not on this port.
    let mut registry =
        inspan_host::proto::agentsessions_v1::harness_registry_client::HarnessRegistryClient::new(channel);
    let refused = registry.list_harnesses(v1::ListHarnessesRequest::default()).await.expect_err("it is not here");
    assert_eq!(refused.code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_reach_needs_a_word() {
    let running = start().await;
    let open = Address::Tcp(([0, 0, 0, 0], 0).into());
    let catalog = running.host.engine().catalog().clone();
    let mut config = Config::new(open.clone(), running.journal.clone(), catalog);
    let refused = Server::bind(config.clone()).await.err().expect("it is refused");
    assert!(matches!(refused, BindError::NotLoopback(_)), "{refused}");
    config.insecure = true;
    assert!(Server::bind(config.clone()).await.is_ok());
    config.address = running.address.clone();
    let taken = Server::bind(config).await.err().expect("it is taken");
    assert!(matches!(taken, BindError::InUse(_)), "{taken}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_serves_both_spellings_and_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("host.sock");
    // What a killed host leaves behind does not stop the next one.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let mut running = start_with(|config| config.address = Address::Unix(path.clone())).await;
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let uid = running.session("echo").await;
    assert_eq!(running.turn(&uid, "hello").await.len(), 9);
    let stream = tokio::net::UnixStream::connect(&path).await.expect("the host accepts");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1");
    tokio::spawn(connection);
    let request = Request::builder().uri("/healthz").header("host", "localhost").body(Empty::<bytes::Bytes>::new());
    let answer = sender.send_request(request.expect("well formed")).await.expect("the host answers");
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.into_body().collect().await.expect("whole").to_bytes(), r#"{"status":"SERVING"}"#);
    running.stop();
    running.stopped().await;
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_middle_of_a_turn_leaves_it_to_resume() {
    let mut running = start().await;
    let uid = running.session("gated").await;
    let mut turn = running.sessions().await.exec(exec(&uid, "model a;model b")).await.expect("accepted").into_inner();
    assert_eq!(running.gates.asked().await, "a");
    let mut watch = http::events(&running, &format!("/v1/sessions/{uid}/watch"), &[]).await;
    let request = pb::WatchRequest { session: uid.clone(), from_seq: 1, records_only: true };
    let mut grpc_watch = running.watching().await.watch(request).await.expect("it is there").into_inner();
    let mut sessions = running.sessions().await;
    // Only a connection that has been served is known to have been accepted.
    sessions.get_session(v1::GetSessionRequest { uid: uid.clone() }).await.expect("it is there");

    running.stop();
    // New work is refused while the turn is still in its effect.
    let refused = loop {
        match sessions.exec(exec(&uid, "model c")).await {
            Err(status) => break status,
            // The stop has not reached the engine: the session is busy, which says nothing yet.
            Ok(busy) => {
                let mut busy = busy.into_inner();
                while busy.message().await.is_ok_and(|frame| frame.is_some()) {}
            }
        }
    };
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    running.gates.finish("first");

    let mut words = Vec::new();
    let status = loop {
        match turn.message().await {
            Ok(frame) => words.push(word(&frame.expect("it does not end well"))),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(words.last().map(String::as_str), Some("4 OUTPUT"), "the effect that ran is recorded: {words:?}");

    // Watchers see the last record, and then a reason.
    let seen = watch.words().await;
    assert!(seen.contains(&"4 OUTPUT".to_owned()), "{seen:?}");
    assert_eq!(seen.last().map(String::as_str), Some("error"));
    let ended = loop {
        match grpc_watch.message().await {
            Ok(frame) => drop(frame.expect("it says why it ends")),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::Unavailable);
    let journal = running.journal.clone();
    let stopped = running.stopped().await;
    assert!(stopped.drained && stopped.closed, "{stopped:?}");

    // The next host finishes the turn without asking for what it has.
    let running = start_on(journal, |_| {}).await;
    let mut sessions = running.sessions().await;
    let resumed = tokio::spawn(async move {
        sessions.resume(v1::ResumeRequest { session: uid.clone(), boot: false }).await.map(|_| uid)
    });
    assert_eq!(running.gates.asked().await, "b");
    running.gates.finish("second");
    let uid = resumed.await.expect("no panic").expect("it is resumed");
    let words = journal_words(&running, &uid).await;
    assert!(words.contains(&"7 END".to_owned()), "{words:?}");
    assert_eq!(words.iter().filter(|word| word.ends_with("MODEL_CALL")).count(), 2, "{words:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_does_not_reach_a_durable_point_is_not_waited_for_ever() {
    let mut running = start_with(|config| config.stop_within = Duration::from_millis(1)).await;
    let uid = running.session("gated").await;
    let headers = [("content-type", "application/json")];
    let body = r#"{"inputs":[{"role":"user","parts":[{"text":{"text":"model a"}}]}]}"#;
    let turn = send(&running, Method::POST, &format!("/v1/sessions/{uid}/turns"), &headers, body).await;
    let mut turn = Events::new(turn);
    running.gates.asked().await;
    assert_eq!(turn.next_real().await.expect("the first frame").word(), "session@0");
    running.stop();
    // Its viewer is told, and nobody has to be cut off.
    let words = turn.words().await;
    assert_eq!(words.last().map(String::as_str), Some("error"), "{words:?}");
    let stopped = running.stopped().await;
    assert!(!stopped.drained && stopped.closed, "{stopped:?}");
}
