//! Providers over real HTTP: the scripted server of the testkit plays exact bytes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::header::HeaderValue;
use inspan_engine::{Completion, Model, ModelError};
use inspan_models::{Api, AuthHeader, Key, Provider, Retry, Timeouts, build, request_id};
use inspan_testkit::provider::{Answer, End, Framing, Gate, Provider as Server, Reply};
use inspan_wire::v1;

const APIS: [Api; 2] = [Api::OpenAi, Api::Anthropic];
const KEY: &str = "sk-very-secret";

/// A provider at `server` that never waits before it asks again.
fn provider(server: &Server, api: Api) -> Provider {
    let mut provider = Provider::new(api, "m");
    provider.base_url = format!("{}/v1/", server.url()).parse().expect("the server has a good address");
    provider.key = Key::new(KEY);
    provider.retry.base = Duration::ZERO;
    provider
}

fn model(server: &Server, api: Api) -> Arc<dyn Model> {
    build(provider(server, api)).expect("a good provider")
}

fn hello() -> v1::ModelCall {
    v1::ModelCall { messages: vec![v1::Message::text("user", "hi")], ..Default::default() }
}

/// Calls once, and gives the delivered chunks beside the outcome.
async fn call(model: &dyn Model) -> (Result<Completion, ModelError>, Vec<String>) {
    let delivered = Mutex::new(Vec::new());
    let on_text = |text: &str| delivered.lock().expect("no test panicked here").push(text.to_owned());
    let outcome = model.call(&hello(), &on_text).await;
    (outcome, delivered.into_inner().expect("as above"))
}

fn streamed(api: Api, reply: &Reply) -> Answer {
    match api {
        Api::OpenAi => reply.openai_sse(),
        Api::Anthropic => reply.anthropic_sse(),
    }
}

fn events(api: Api, reply: &Reply) -> String {
    match api {
        Api::OpenAi => reply.openai_events(),
        Api::Anthropic => reply.anthropic_events(),
    }
}

fn plain(api: Api, reply: &Reply) -> Answer {
    match api {
        Api::OpenAi => reply.openai_plain(),
        Api::Anthropic => reply.anthropic_plain(),
    }
}

#[tokio::test]
async fn a_call_streamed_and_plain() {
    let reply = Reply::text(&["Hel", "lo 👋"]).call("c", "f", r#"{"a":1}"#).usage(5, 6);
    for api in APIS {
        let server = Server::start().await;
        server.then(streamed(api, &reply)).then(plain(api, &reply));
        let (first, chunks) = call(&*model(&server, api)).await;
        assert_eq!(chunks, ["Hel", "lo 👋"]);
        let mut quiet = provider(&server, api);
        quiet.stream = false;
        let quiet = build(quiet).expect("a good provider");
        assert!(!quiet.streams() && model(&server, api).streams());
        let (second, chunks) = call(&*quiet).await;
        assert!(chunks.is_empty(), "a model that does not stream delivers nothing");
        let usage = first.as_ref().expect("a completion").usage.clone();
        assert_eq!(
            usage,
            Some(v1::Usage { model: "m".to_owned(), input_tokens: 5, output_tokens: 6, reasoning_tokens: 0 })
        );
        assert_eq!(first, second, "{api:?}: streamed and plain cost and say the same");
        assert_eq!(server.count(), 2);
    }
}

#[tokio::test]
async fn the_request_goes_to_the_right_place_with_the_right_headers() {
    for (api, target, header, value) in [
        (Api::OpenAi, "/v1/chat/completions", "authorization", format!("Bearer {KEY}")),
        (Api::Anthropic, "/v1/messages", "x-api-key", KEY.to_owned()),
    ] {
        let server = Server::start().await;
        server.always(streamed(api, &Reply::text(&["a"])));
        call(&*model(&server, api)).await.0.expect("a completion");
        let sent = &server.calls()[0];
        assert_eq!((sent.method.as_str(), sent.target.as_str()), ("POST", target));
        assert_eq!(sent.header(header), Some(value.as_str()));
        assert_eq!(sent.header("content-type"), Some("application/json"));
        assert_eq!(sent.header("accept"), Some("text/event-stream"));
        assert_eq!(sent.header("anthropic-version"), (api == Api::Anthropic).then_some("2023-06-01"));
        assert!(sent.text().starts_with(r#"{"model":"m","#), "{}", sent.text());
        assert!(!sent.text().contains(KEY) && !sent.target.contains(KEY));
    }
}

/// The id goes along on every attempt, also from a task of its own, and no further than its request.
#[tokio::test]
async fn a_call_says_which_request_it_is_for() {
    let server = Server::start().await;
    server.then(Answer::json(503, "{}")).always(Reply::text(&["a"]).openai_sse());
    let model = model(&server, Api::OpenAi);
    request_id::within(HeaderValue::from_static("req-1"), async { call(&*model).await.0.expect("a completion") }).await;
    call(&*model).await.0.expect("a completion");
    let apart = async {
        let model = Arc::clone(&model);
        tokio::spawn(request_id::carried(async move { call(&*model).await.0 })).await
    };
    let apart = request_id::within(HeaderValue::from_static("req-2"), apart).await;
    apart.expect("no panic").expect("a completion");
    let calls = server.calls();
    let ids: Vec<_> = calls.iter().map(|sent| sent.header("x-request-id")).collect();
    assert_eq!(ids, [Some("req-1"), Some("req-1"), None, Some("req-2")]);
}

#[tokio::test]
async fn the_key_goes_where_it_is_told() {
    let server = Server::start().await;
    server.always(Reply::text(&["a"]).openai_sse());
    for header in ["api-key", "", "AUTHORIZATION"] {
        let mut provider = provider(&server, Api::OpenAi);
        provider.auth_header = AuthHeader::from_name(header);
        provider.path = "chat?api-version=1".to_owned();
        call(&*build(provider).expect("good")).await.0.expect("a completion");
    }
    let calls = server.calls();
    let keys: Vec<_> = calls.iter().map(|c| (c.header("api-key"), c.header("authorization"))).collect();
    assert_eq!(keys, [(Some(KEY), None), (None, None), (None, Some("Bearer sk-very-secret"))]);
    assert_eq!(calls[0].target, "/v1/chat?api-version=1");
}

/// No cut of any kind at any byte gives a completion that the provider did not finish.
#[tokio::test]
async fn cut_at_every_byte() {
    // A body that ends with its connection looks whole, and a reset can come at any time: every byte. Where the
    // framing itself shows the cut, every fifth.
    let cuts = [
        (Framing::Close, End::Fin, 1),
        (Framing::Chunked, End::Reset, 1),
        (Framing::Chunked, End::Fin, 5),
        (Framing::Length, End::Fin, 5),
    ];
    let all = cuts.into_iter().flat_map(|(framing, end, step)| APIS.map(|api| cut_everywhere(api, framing, end, step)));
    futures_util::future::join_all(all).await;
}

async fn cut_everywhere(api: Api, framing: Framing, end: End, step: usize) {
    let reply = Reply::text(&["né"]).call("c", "f", "{}").usage(1, 2);
    let server = Server::start().await;
    let model = model(&server, api);
    let body = events(api, &reply);
    let marker = match api {
        Api::OpenAi => r#""finish_reason":"tool_calls""#,
        Api::Anthropic => r#"data: {"type":"message_stop""#,
    };
    let stop = body.find(marker).expect("the body stops");
    let stop = stop + body[stop..].find('\n').expect("a line has an end");
    // A reset may overtake bytes on their way; after an orderly end every byte before it counts.
    let certain = if end == End::Fin { stop + 2 } else { usize::MAX };
    let answer = streamed(api, &reply).framed(framing);
    for (calls, at) in (0..body.len()).step_by(step).enumerate() {
        server.then(answer.clone().cut(at, end));
        match call(&*model).await.0 {
            Ok(completion) => {
                assert!(at >= stop, "{api:?} {framing:?} {end:?}: a false completion at {at}");
                assert_eq!(completion.message.parts.len(), 2, "{api:?} {framing:?} {end:?} at {at}");
            }
            Err(e) => {
                assert!(at < certain, "{api:?} {framing:?} {end:?}: complete at {at}, yet {e}");
                assert!(e.retryable, "{e}");
            }
        }
        assert_eq!(server.count(), calls + 1, "an answer that had begun is never asked for again");
    }
}

#[tokio::test]
async fn when_to_ask_again() {
    let overloaded = Answer::json(529, r#"{"error":{"message":"overloaded"}}"#);
    let late = |seconds: &str| Answer::json(429, "{}").header("retry-after", seconds);
    let ok = |api| streamed(api, &Reply::text(&["a"]));
    for api in APIS {
        // Answers, whether it succeeds, how many requests it takes.
        let table: Vec<(Vec<Answer>, bool, usize)> = vec![
            (vec![ok(api)], true, 1),
            (vec![Answer::json(500, "{}"), ok(api)], true, 2),
            (vec![overloaded.clone(), Answer::json(503, "x"), late("0"), ok(api)], true, 4),
            (vec![Answer::json(408, ""), Answer::json(409, ""), ok(api)], true, 3),
            (vec![overloaded.clone(); 4], false, 4),
            (vec![late("61")], false, 1),
            (vec![Answer::json(400, "{}")], false, 1),
            (vec![Answer::json(401, "{}")], false, 1),
            (vec![Answer::json(404, "{}")], false, 1),
            (vec![Answer::json(302, "").header("location", "/elsewhere")], false, 1),
            (
                vec![Answer::sse(
                    "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"b\"}}\n\n",
                )],
                false,
                1,
            ),
            (vec![ok(api).cut(0, End::Fin)], false, 1),
            (vec![ok(api).cut(0, End::Reset)], false, 1),
            (vec![Answer::json(200, "{}")], false, 1),
            (vec![ok(api).header("content-encoding", "gzip")], false, 1),
        ];
        for (row, (answers, succeeds, count)) in table.into_iter().enumerate() {
            let server = Server::start().await;
            for answer in answers {
                server.then(answer);
            }
            let (outcome, _) = call(&*model(&server, api)).await;
            assert_eq!((outcome.is_ok(), server.count()), (succeeds, count), "{api:?} row {row}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn the_providers_wait_takes_the_place_of_ours() {
    let server = Server::start().await;
    server.then(Answer::json(429, "{}").header("retry-after", "0")).then(Reply::text(&["a"]).openai_sse());
    let mut provider = provider(&server, Api::OpenAi);
    let hour = Duration::from_secs(3600);
    provider.retry = Retry { base: hour, max: hour, ..Retry::default() };
    call(&*build(provider).expect("good")).await.0.expect("at once, not in an hour");
}

#[tokio::test]
async fn errors_say_what_happened_and_what_to_do() {
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(5000));
    let table = [
        (
            Answer::json(401, r#"{"error":{"message":"bad key"}}"#),
            false,
            "answered 401 Unauthorized: bad key; check the key",
        ),
        (
            Answer::json(404, r#"{"error":"no model"}"#),
            false,
            "answered 404 Not Found: no model; check the base URL, the path and the model id",
        ),
        (Answer::json(400, "{}"), false, "sent again it will fail again"),
        (Answer::json(413, "{}"), false, "the request is too large"),
        (Answer::json(429, "{}").header("retry-after", "300"), true, "it asks to wait 300 s; try again later"),
        (Answer::json(307, ""), false, "redirects are not followed"),
        (Answer::json(400, long), false, "xxx…"),
        (
            Answer::json(200, r#"{"error":{"message":"no","type":"invalid_request_error"}}"#),
            false,
            "reported an error in its answer: no",
        ),
    ];
    for (answer, retryable, expected) in table {
        let server = Server::start().await;
        server.then(answer);
        let error = call(&*model(&server, Api::OpenAi)).await.0.expect_err("an error");
        assert!(error.message.contains(expected) && error.message.len() < 800, "{error}");
        assert_eq!(error.retryable, retryable, "{error}");
    }
}

#[tokio::test]
async fn nobody_listens() {
    let server = Server::start().await;
    let model = model(&server, Api::OpenAi);
    let url = server.url();
    drop(server);
    // The listener closes when its task has ended, which dropping only asks for.
    tokio::task::yield_now().await;
    let error = call(&*model).await.0.expect_err("nobody listens");
    assert!(
        error.retryable && error.message.contains(&format!("cannot connect to {url}/v1/chat/completions")),
        "{error}"
    );
}

#[tokio::test]
async fn dropping_the_call_reaches_the_provider() {
    for api in APIS {
        let reply = Reply::text(&["a", "b"]);
        let body = events(api, &reply);
        let middle = body.len() / 2;
        let answers = |gate: &Gate| {
            [
                streamed(api, &reply).held(gate),
                streamed(api, &reply).gate(0, gate),
                streamed(api, &reply).gate(middle, gate),
            ]
        };
        for n in 0..3 {
            let (server, gate) = (Server::start().await, Gate::default());
            let [held, head, half] = answers(&gate);
            server.then([held, head, half].into_iter().nth(n).expect("three answers"));
            let model = model(&server, api);
            let running = tokio::spawn(async move { model.call(&hello(), &|_| {}).await });
            server.called(1).await;
            gate.reached().await;
            running.abort();
            server.disconnected(1).await;
            assert_eq!(server.count(), 1);
        }
    }
}

#[tokio::test]
async fn the_key_is_shown_nowhere() {
    let server = Server::start().await;
    let echo = format!(r#"{{"error":{{"message":"incorrect key {KEY}, Bearer {KEY}"}}}}"#);
    server.then(Answer::json(401, echo.clone())).then(Answer::json(200, echo));
    let described = provider(&server, Api::OpenAi);
    assert!(!format!("{described:?}").contains(KEY));
    for _ in 0..2 {
        let error = call(&*model(&server, Api::OpenAi)).await.0.expect_err("an error");
        assert!(!error.message.contains(KEY) && error.message.contains("incorrect key [key]"), "{error}");
    }
    let mut unfit = provider(&server, Api::OpenAi);
    unfit.key = Key::new("sk-\u{7f}-secret");
    let error = build(unfit).err().expect("no header can carry it").to_string();
    assert!(!error.contains("secret"), "{error}");
}

#[tokio::test]
async fn silence_has_a_bound() {
    for answer in [Reply::text(&["a"]).openai_sse(), Reply::text(&["a"]).openai_plain()] {
        let (server, gate) = (Server::start().await, Gate::default());
        server.then(answer.clone().gate(10, &gate)).then(answer.held(&gate));
        let mut provider = provider(&server, Api::OpenAi);
        let short = Duration::from_millis(50);
        provider.timeouts = Timeouts { first_byte: short, idle: short, connect: Duration::from_secs(1) };
        let model = build(provider).expect("good");
        for expected in ["was silent for 0.05 s", "gave no answer within 1.05 s"] {
            let error = call(&*model).await.0.expect_err("silence");
            assert!(error.retryable && error.message.contains(expected), "{error}");
        }
        server.disconnected(2).await;
    }
}

#[tokio::test]
async fn an_answer_in_the_other_form_is_read_as_it_came() {
    let reply = Reply::text(&["a", "b"]).usage(1, 1);
    for api in APIS {
        let server = Server::start().await;
        server.then(plain(api, &reply)).then(streamed(api, &reply));
        let (whole, chunks) = call(&*model(&server, api)).await;
        assert_eq!(chunks, ["ab"], "a model that streams delivers its text");
        let mut quiet = provider(&server, api);
        quiet.stream = false;
        let (events, chunks) = call(&*build(quiet).expect("good")).await;
        assert!(chunks.is_empty());
        assert_eq!(whole.expect("a completion"), events.expect("a completion"));
    }
}

#[tokio::test]
async fn a_plain_answer_has_a_bound() {
    let server = Server::start().await;
    server.then(Answer::json(200, " ".repeat((32 << 20) + 1)));
    let error = call(&*model(&server, Api::OpenAi)).await.0.expect_err("too long");
    assert!(error.message.contains("longer than 33554432 bytes") && !error.retryable, "{error}");
}

#[tokio::test]
async fn what_cannot_be_sent_is_not_sent() {
    let server = Server::start().await;
    for api in APIS {
        let request = v1::ModelCall { messages: vec![v1::Message::text("narrator", "x")], ..Default::default() };
        let error = model(&server, api).call(&request, &|_| {}).await.expect_err("no such role");
        assert!(!error.retryable && error.message.contains("narrator"), "{error}");
    }
    assert_eq!(server.count(), 0);
}

#[test]
fn a_provider_is_checked_before_it_is_used() {
    let refused = |change: fn(&mut Provider)| {
        let mut provider = Provider::new(Api::OpenAi, "m");
        provider.base_url = "http://127.0.0.1:9".parse().expect("good");
        change(&mut provider);
        build(provider).err().expect("refused").to_string()
    };
    assert_eq!(refused(|p| p.model = String::new()), "no model id is configured");
    assert!(refused(|p| p.path = "a b".to_owned()).contains("does not make a URL"));
    assert!(
        refused(|p| (p.auth_header, p.key) = (AuthHeader::Raw("a b".to_owned()), Key::new("k")))
            .contains("not the name")
    );
}
