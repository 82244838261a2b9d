//! HTTP endpoints, counted from the outside (R-TOOL-16).

use inspan_host::engine::{Executor as _, ReplayRule, ToolError};
use inspan_testkit::provider::{Answer, Framing, Gate, Provider};
use inspan_testkit::tool::{Act, ToolServer};
use inspan_wire::SessionUid;
use serde_json::json;

use crate::support::{SECRET, output, run, run_of, tools};

fn endpoint(url: &str, more: &str) -> inspan_host::tools::Tools {
    tools(&format!("[[tools.http]]\nname = \"work\"\nurl = \"{url}\"\nreplay = \"keyed\"\n{more}"))
}

fn unknown(error: &ToolError) -> bool {
    matches!(error, ToolError::Unknown(_))
}

/// R-TOOL-16: the key that the outside sees is made of session and idempotency key, and of nothing else.
#[tokio::test]
async fn the_effect_key_and_the_arguments_arrive() {
    let server = ToolServer::start().await;
    let tools = endpoint(&server.keyed(), "method = \"PUT\"");
    assert_eq!(tools.replay_rule("work"), ReplayRule::Keyed);
    let asked = run_of("work", &json!({"n": 1, "x": [1.5, null]}), "k");
    let result = tools.run(asked.clone()).await.expect("an answer");
    assert_eq!(output(&result), json!({"effect": 1.0, "args": {"n": 1.0, "x": [1.5, null]}}));

    let mut again = asked.clone();
    again.again = true;
    again.call.id = "other".to_owned();
    assert_eq!(tools.run(again).await.expect("the same answer"), result);
    let mut elsewhere = asked.clone();
    elsewhere.session = SessionUid::from("t");
    tools.run(elsewhere).await.expect("an answer");

    let requests = server.requests();
    let first = &requests[0];
    assert_eq!((first.method.as_str(), first.text()), ("PUT", r#"{"n":1,"x":[1.5,null]}"#));
    assert_eq!(first.header("content-type"), Some("application/json"));
    assert_eq!(first.header("idempotency-key"), Some(asked.effect_key().as_str()));
    assert_eq!(server.effects().values().copied().collect::<Vec<_>>(), [1, 1], "one effect for each session");
}

#[tokio::test]
async fn what_cannot_be_reached_was_not_sent() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/x", gone.local_addr().expect("an address"));
    drop(gone);
    let error = run(&endpoint(&url, ""), "work", &json!({})).await.expect_err("nobody listens");
    assert!(matches!(&error, ToolError::NotSent(text) if text.contains("check its url")), "{error:?}");
}

/// Effect done and answer lost: the outcome is unknown, and with the same key there is still one effect.
#[tokio::test]
async fn a_lost_answer_is_unknown_and_a_keyed_repetition_is_one_effect() {
    for (act, before) in [(Act::DropBefore, 0), (Act::DropAfter, 1), (Act::DropWithin, 1)] {
        let server = ToolServer::start().await;
        server.then(act.clone());
        let tools = endpoint(&server.keyed(), "");
        let error = run(&tools, "work", &json!({"n": 1})).await.expect_err("no answer");
        assert!(unknown(&error), "{act:?}: {error:?}");
        assert_eq!(server.effects().values().sum::<usize>(), before, "{act:?}");
        run(&tools, "work", &json!({"n": 1})).await.expect("an answer");
        assert_eq!(server.effects().values().sum::<usize>(), 1, "{act:?}");
    }
}

#[tokio::test]
async fn a_late_answer_is_unknown_and_is_not_taken_for_the_next_ones() {
    let server = ToolServer::start().await;
    let gate = Gate::default();
    server.then(Act::HoldAfter(gate.clone()));
    let tools = endpoint(&server.plain(), "timeout = \"100ms\"");
    let error = run(&tools, "work", &json!({"n": 1})).await.expect_err("too late");
    assert!(unknown(&error) && error.to_string().contains("within 0.1 s"), "{error:?}");
    gate.open();
    let patient = endpoint(&server.plain(), "");
    let next = run(&patient, "work", &json!({"n": 2})).await.expect("an answer");
    assert_eq!(output(&next)["args"], json!({"n": 2.0}));
}

#[tokio::test]
async fn the_tool_may_say_no() {
    let server = ToolServer::start().await;
    server.then(Act::Refuse(422, r#"{"error": "no such account"}"#.to_owned()));
    server.then(Act::Refuse(302, String::new()));
    let tools = endpoint(&server.keyed(), "");
    let refused = run(&tools, "work", &json!({})).await.expect("an answer");
    assert!(refused.is_error && refused.error.contains("422") && refused.error.contains("no such account"));
    assert_eq!(output(&refused), json!({"error": "no such account"}));
    let moved = run(&tools, "work", &json!({})).await.expect("an answer");
    assert!(moved.is_error && moved.error.contains("redirects are not followed"), "{}", moved.error);
    assert!(server.effects().is_empty());
}

/// A proxy that lost its server knows as little as we do.
#[tokio::test]
async fn a_proxys_failure_is_an_unknown_outcome() {
    let server = ToolServer::start().await;
    let tools = endpoint(&server.keyed(), "");
    for status in [502, 504] {
        server.then(Act::Refuse(status, String::new()));
        let error = run(&tools, "work", &json!({})).await.expect_err("not an answer");
        assert!(unknown(&error), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn an_answer_over_the_maximum_is_one_final_error() {
    let server = Provider::start().await;
    server.then(Answer::new(200, "text/plain", vec![b'x'; (64 << 20) + 1], Framing::Length));
    let result = run(&endpoint(&server.url(), ""), "work", &json!({})).await.expect("an answer");
    assert!(result.is_error && result.error.contains("have it answer less"), "{}", result.error);
}

#[tokio::test]
async fn our_credentials_reach_the_tool_and_not_the_result() {
    let server = Provider::start().await;
    server.then(Answer::json(200, json!({"you sent": format!("Bearer {SECRET}")}).to_string()));
    server.then(Answer::json(401, json!({"bad key": SECRET}).to_string()));
    let tools = endpoint(&server.url(), "headers_env = { x-key = \"TOKEN\" }");
    let result = run(&tools, "work", &json!({})).await.expect("an answer");
    assert_eq!(output(&result), json!({"you sent": "Bearer [secret]"}));
    let refused = run(&tools, "work", &json!({})).await.expect("an answer");
    assert!(!format!("{refused:?}").contains(SECRET), "{refused:?}");
    assert_eq!(server.calls()[0].header("x-key"), Some(SECRET));
}

#[tokio::test]
async fn an_unknown_tool_is_not_sent_and_the_known_ones_are_named() {
    let tools = endpoint("http://127.0.0.1:9", "");
    let error = run(&tools, "wrok", &json!({})).await.expect_err("no such tool");
    assert!(matches!(&error, ToolError::NotSent(text) if text.contains("\"wrok\"") && text.contains("are: work")));
    assert_eq!(tools.replay_rule("wrok"), ReplayRule::Ask);
}
