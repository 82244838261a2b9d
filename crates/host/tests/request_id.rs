//! The id of a request, from the caller to the provider.

mod support;

use std::sync::Arc;

use hyper::Method;
use inspan_host::catalog::{Static, in_process};
use inspan_models::{Api, Provider, build};
use inspan_testkit::harness::Moves;
use inspan_testkit::provider::{Answer, Provider as Server, Reply};
use inspan_wire::v1;
use support::http::{post, read, send};
use support::{Running, exec, start_with};

/// A host whose harness asks a provider over HTTP.
async fn start(provider: &Server) -> Running {
    let mut settings = Provider::new(Api::OpenAi, "m");
    settings.base_url = format!("{}/v1/", provider.url()).parse().expect("the server has a good address");
    settings.retry.attempts = 1;
    let model = build(settings).expect("a good provider");
    let catalog = Static::new(Arc::clone(&model)).with(in_process("moves", Moves::default(), model));
    start_with(|config| config.catalog = Arc::new(catalog)).await
}

/// The id that the provider's last call came with.
fn arrived(provider: &Server) -> String {
    provider.calls().last().and_then(|call| call.header("x-request-id").map(str::to_owned)).expect("it says an id")
}

/// A turn's calls carry the id of the request that drives the turn: the Exec's own over either protocol,
/// and the Resume's when that makes the call again. What is no id is replaced before it gets that far.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_reaches_the_provider() {
    let provider = Server::start().await;
    provider.always(Reply::text(&["a"]).openai_sse());
    let running = start(&provider).await;

    let uid = running.session("moves").await;
    let mut request = tonic::Request::new(exec(&uid, "model one"));
    request.metadata_mut().insert("x-request-id", "from-grpc".parse().expect("metadata"));
    let mut frames = running.sessions().await.exec(request).await.expect("it is accepted").into_inner();
    while frames.message().await.expect("the turn ends well").is_some() {}
    assert_eq!(arrived(&provider), "from-grpc");

    let path = format!("/v1/sessions/{uid}/turns");
    let turn = async |id: &str| {
        let body = r#"{"inputs":[{"role":"user","parts":[{"text":{"text":"model two"}}]}]}"#;
        let headers = [("content-type", "application/json"), ("x-request-id", id)];
        let answer = read(send(&running, Method::POST, &path, &headers, body).await).await;
        assert!(answer.status.is_success(), "{answer:?}");
        answer.header("x-request-id").to_owned()
    };
    assert_eq!(turn("from.http").await, "from.http");
    assert_eq!(arrived(&provider), "from.http");
    let replaced = turn("no id").await;
    assert!(replaced.len() == 24 && replaced.bytes().all(|b| b.is_ascii_hexdigit()), "{replaced}");
    assert_eq!(arrived(&provider), replaced);

    provider.then(Answer::json(500, "{}"));
    post(&running, &path, r#"{"inputs":[{"role":"user","parts":[{"text":{"text":"model three"}}]}]}"#).await;
    let failed = arrived(&provider);
    let mut request = tonic::Request::new(v1::ResumeRequest { session: uid, ..Default::default() });
    request.metadata_mut().insert("x-request-id", "second_try".parse().expect("metadata"));
    running.sessions().await.resume(request).await.expect("it is resumed");
    assert_ne!(failed, "second_try");
    assert_eq!(arrived(&provider), "second_try");
    assert_eq!(provider.count(), 5);
}
