//! Where an answer ends, at every byte.

#[path = "../../../../fuzz/checks/mutate.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz workspace")]
mod mutate;

use inspan_testkit::provider::Reply;
use mutate::Random;

use crate::config::Api;
use crate::http::RESPONSE_BYTES_MAX;
use crate::testing::{Chunk, chunks, read, reset};

const APIS: [Api; 2] = [Api::OpenAi, Api::Anthropic];

fn reply() -> Reply {
    Reply::text(&["你好", " 👩‍🚀 é\r\n"]).signed("思考", "c2ln").call("c", "f", r#"{"名":"値 🎉"}"#).usage(11, 7)
}

fn events(api: Api) -> String {
    match api {
        Api::OpenAi => reply().openai_events(),
        Api::Anthropic => reply().anthropic_events(),
    }
}

/// The end of the JSON text that says why the answer stopped.
fn stop(api: Api, body: &str) -> usize {
    let marker = match api {
        Api::OpenAi => r#""finish_reason":"tool_calls""#,
        Api::Anthropic => r#"data: {"type":"message_stop""#,
    };
    let at = body.find(marker).expect("the body stops");
    at + body[at..].find('\n').expect("a line has an end")
}

#[tokio::test]
async fn every_split_gives_the_same_completion() {
    for api in APIS {
        for line_end in ["\n", "\r\n"] {
            let body = events(api).replace('\n', line_end);
            let uncut = read(api, chunks(&[body.as_bytes()]), false).await.expect("a whole answer");
            assert!(uncut.contains(r"你好 👩\u{200d}🚀 é\r\n") && uncut.contains("値 🎉"), "{uncut}");
            for at in 0..=body.len() {
                let (head, tail) = body.as_bytes().split_at(at);
                assert_eq!(read(api, chunks(&[head, tail]), false).await.as_ref(), Ok(&uncut), "{api:?} split at {at}");
            }
            let single: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
            assert_eq!(read(api, chunks(&single), false).await, Ok(uncut), "{api:?} byte by byte");
        }
    }
}

#[tokio::test]
async fn a_body_that_ends_is_complete_only_after_its_stop_reason() {
    for api in APIS {
        let body = events(api);
        let stop = stop(api, &body);
        let without_usage = |text: &str| text.split(" | usage").next().map(str::to_owned);
        let uncut = read(api, chunks(&[body.as_bytes()]), false).await.expect("a whole answer");
        for at in 0..body.len() {
            let head = &body.as_bytes()[..at];
            let ended = read(api, chunks(&[head]), false).await;
            assert_eq!(ended.is_ok(), at >= stop, "{api:?} ends after byte {at}");
            let mut broken = chunks(&[head]);
            broken.push(reset());
            let broken = read(api, broken, false).await;
            // The blank line makes the event: what a reset cut off before it is not looked at.
            assert_eq!(broken.is_ok(), at >= stop + 2, "{api:?} breaks off after byte {at}");
            for outcome in [ended, broken] {
                match outcome {
                    Ok(text) => assert_eq!(without_usage(&text), without_usage(&uncut), "{api:?} at {at}"),
                    Err(e) => assert!(e.retryable, "{api:?} at {at}: {e}"),
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_an_error_before_the_stop_and_the_end_after_it() {
    for api in APIS {
        let body = events(api);
        let stop = stop(api, &body) + 2;
        let before = read(api, chunks(&[&body.as_bytes()[..stop - 20]]), true).await.expect_err("not stopped");
        assert!(before.retryable && before.message.contains("was silent for 120 s"), "{before}");
        let after = read(api, chunks(&[&body.as_bytes()[..stop]]), true).await;
        assert!(after.is_ok(), "{api:?}: {after:?}");
    }
}

#[tokio::test]
async fn an_error_event_is_an_error_at_any_place() {
    let cases = [
        (Api::OpenAi, "data: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\"}}\n\n", true),
        (Api::OpenAi, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"error\":{\"message\":\"boom\"}}]}\n\n", true),
        (Api::OpenAi, "data: {\"error\":{\"message\":\"boom\",\"type\":\"invalid_request_error\"}}\n\n", false),
        (
            Api::Anthropic,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"boom\"}}\n\n",
            true,
        ),
    ];
    for (api, error, retryable) in cases {
        let body = events(api);
        let borders: Vec<usize> = body.match_indices("\n\n").map(|(at, _)| at + 2).collect();
        let last = borders.iter().position(|b| *b >= stop(api, &body)).expect("the body stops");
        for border in std::iter::once(&0).chain(&borders[..last]) {
            let (head, tail) = body.split_at(*border);
            let all = chunks(&[head.as_bytes(), error.as_bytes(), tail.as_bytes()]);
            let error = read(api, all, false).await.expect_err("an error event");
            assert!(error.message.contains("boom") && error.retryable == retryable, "{api:?} {border}: {error}");
        }
    }
}

#[tokio::test]
async fn a_body_has_a_bound() {
    for api in APIS {
        let line = format!(": {}\n", "x".repeat(1 << 20));
        let body: Vec<Chunk> = (0..40).map(|_| Ok(line.clone().into())).collect();
        let error = read(api, body, false).await.expect_err("too long");
        assert!(error.message.contains(&RESPONSE_BYTES_MAX.to_string()) && !error.retryable, "{error}");
    }
}

/// Damaged bodies never panic, and mean the same however they are chunked.
#[tokio::test]
async fn damaged_bodies_are_read_the_same_in_any_chunks() {
    for api in APIS {
        let good = events(api).into_bytes();
        let mut completions = 0;
        for seed in 0..800 {
            let mut random = Random::new(seed);
            let body = mutate::mutate(&good, &good, &mut random);
            let whole = read(api, chunks(&[&body]), false).await;
            let (mut pieces, mut rest): (Vec<&[u8]>, &[u8]) = (Vec::new(), &body);
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(1 + random.below(rest.len().min(90)));
                pieces.push(piece);
                rest = after;
            }
            completions += usize::from(whole.is_ok());
            assert_eq!(read(api, chunks(&pieces), false).await, whole, "{api:?} seed {seed}");
        }
        // Damage that always breaks the stream would test its first event only.
        assert!((20..780).contains(&completions), "{api:?}: {completions} completions");
    }
}
