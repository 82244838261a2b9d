//! Tells somebody outside that a session has come to wait for a person.
//!
//! The journal is the queue: an ask is announced until a receiver has taken it, and that is noted beside it. So nothing
//! is kept here, a turn waits for nobody, and a host that starts again goes on with what is left. A receiver may hear of
//! an ask twice, and tells that by its id; it does not hear of one that was decided before its turn came.
//!
//! The request follows the Standard Webhooks convention: `webhook-id`, `webhook-timestamp`, and in `webhook-signature`
//! the base64 of HMAC-SHA256 over `id.timestamp.body`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use inspan_engine::Rim as _;
use inspan_journal::{Ask, AskQuery, Asks};
use inspan_models::http::{Connector, chain, tls};
use inspan_wire::{inspan_v1 as pb, json, time};
use ring::hmac;
use serde_json::json;
use tokio::sync::watch;

use crate::Host;
use crate::config;
use crate::system::System;

/// Asks that are read at once.
const PAGE: usize = 50;
/// The first wait after a failure; each further one doubles it.
const AGAIN_MIN: Duration = Duration::from_millis(500);
/// The longest wait after a failure.
const AGAIN_MAX: Duration = Duration::from_secs(300);
/// For name lookup, connection and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept: shorter than servers keep theirs.
const POOL_IDLE: Duration = Duration::from_secs(4);
/// How a key that is written in base64 begins.
const KEY_PREFIX: &str = "whsec_";
/// Bytes that a key must have at least.
const KEY_BYTES_MIN: usize = 16;

/// A receiver, with the key that its requests are signed with.
pub struct Webhook {
    client: Client<Connector, Full<Bytes>>,
    uri: Uri,
    /// Its host, for logs: a path may hold a secret.
    shown: String,
    key: hmac::Key,
    timeout: Duration,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("at", &self.shown).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Reads the key where `config` says that it is. Connects to nothing yet.
    ///
    /// # Errors
    /// The key is not there or too short, or there is nothing that TLS could trust; the text never shows the key.
    pub fn new(config: &config::Webhook, env: &dyn Fn(&str) -> Option<String>) -> Result<Webhook, String> {
        let (text, from) = match &config.secret {
            config::Secret::Env(name) => {
                let name = name.as_str();
                let from = format!("the environment variable {name}");
                (env(name).ok_or_else(|| format!("webhook: {from} is not set: set it and start again"))?, from)
            }
            config::Secret::File(path) => {
                let from = format!("the secret file {}", path.display());
                let text = std::fs::read_to_string(path);
                (text.map_err(|e| format!("webhook: {from} cannot be read: {e}"))?, from)
            }
        };
        let key = key(text.trim()).map_err(|what| format!("webhook: {from} {what}"))?;
        let tls = tls(config.url.is_https()).map_err(|e| {
            format!("webhook: no root certificates for https: {e}; install the system's ca-certificates")
        })?;
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(POOL_IDLE);
        let uri = config.url.uri().clone();
        Ok(Webhook {
            client: client.build(Connector::new(tls, CONNECT_TIMEOUT)),
            shown: uri.authority().map(ToString::to_string).unwrap_or_default(),
            uri,
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            timeout: config.timeout,
        })
    }

    /// One attempt, bounded in time as a whole.
    async fn tell(&self, id: &str, body: String) -> Result<(), Failed> {
        let request = self.request(id, System.now_ns().div_euclid(1_000_000_000), body);
        match tokio::time::timeout(self.timeout, self.client.request(request)).await {
            Ok(Ok(response)) => judged(response.status()),
            Ok(Err(e)) => Err(Failed::Away(chain(&e))),
            Err(_) => Err(Failed::Away(format!("no answer within {} s", self.timeout.as_secs_f64()))),
        }
    }

    fn request(&self, id: &str, timestamp: i64, body: String) -> Request<Full<Bytes>> {
        let signature = signature(&self.key, id, timestamp, &body);
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("inspan/", env!("CARGO_PKG_VERSION"))));
        let timestamp = timestamp.to_string();
        for (name, value) in
            [("webhook-id", id), ("webhook-timestamp", &timestamp), ("webhook-signature", signature.as_str())]
        {
            let value = HeaderValue::try_from(value).expect("uids, digits and base64 are a header's value");
            headers.insert(HeaderName::from_static(name), value);
        }
        request
    }
}

/// The key itself: base64 behind its usual prefix, else the bytes of the text.
fn key(text: &str) -> Result<Vec<u8>, &'static str> {
    let key = match text.strip_prefix(KEY_PREFIX) {
        Some(encoded) => STANDARD.decode(encoded).map_err(|_| "is not base64 behind whsec_")?,
        None => text.as_bytes().to_vec(),
    };
    if key.len() < KEY_BYTES_MIN { Err("is shorter than 16 bytes: use 32 random ones") } else { Ok(key) }
}

/// What stands in `webhook-signature`.
fn signature(key: &hmac::Key, id: &str, timestamp: i64, body: &str) -> String {
    let tag = hmac::sign(key, format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag.as_ref()))
}

/// Why an ask was not taken.
#[derive(Debug, PartialEq, Eq)]
enum Failed {
    /// The receiver cannot be reached, or says that it cannot now: neither will the next ask be taken.
    Away(String),
    /// It does not want this one.
    Refused(String),
}

fn judged(status: StatusCode) -> Result<(), Failed> {
    let passing = status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
    match status {
        status if status.is_success() => Ok(()),
        status if passing => Err(Failed::Away(format!("it answered {status}"))),
        status if status.is_redirection() => {
            Err(Failed::Refused(format!("it answered {status}, and redirects are not followed")))
        }
        status => Err(Failed::Refused(format!("it answered {status}"))),
    }
}

/// Announces asks for as long as it is polled. `asked` changes with each new ask.
pub(crate) async fn run(host: Arc<Host>, webhook: Arc<Webhook>, mut asked: watch::Receiver<()>) {
    let mut again = AGAIN_MIN;
    loop {
        // What comes while the round goes on rings again.
        asked.borrow_and_update();
        if round(&host, &webhook).await {
            again = AGAIN_MIN;
            if asked.changed().await.is_err() {
                return;
            }
        } else {
            // A bell does not shorten the wait: a receiver that is down is not asked more often for having more to hear.
            tokio::time::sleep(again).await;
            again = (again * 2).min(AGAIN_MAX);
        }
    }
}

/// Announces what nobody was told of yet. Says whether all of it was taken.
async fn round(host: &Host, webhook: &Webhook) -> bool {
    let mut whole = true;
    let mut after = None;
    loop {
        let query = AskQuery { of: Asks::Unannounced, limit: PAGE, after };
        let page = match host.engine().journal().asks(query).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "what is to be announced could not be read");
                return false;
            }
        };
        for ask in page.asks {
            match announce(host, webhook, &ask).await {
                Ok(()) => {}
                Err(Failed::Refused(why)) => {
                    tracing::warn!(session = %ask.session.uid, at = webhook.shown, why, "the webhook refused an ask");
                    whole = false;
                }
                Err(Failed::Away(why)) => {
                    tracing::warn!(at = webhook.shown, why, "the webhook does not answer: it is tried again");
                    return false;
                }
            }
        }
        after = page.next;
        if after.is_none() {
            return whole;
        }
    }
}

async fn announce(host: &Host, webhook: &Webhook, ask: &Ask) -> Result<(), Failed> {
    let unread = |e: &dyn fmt::Display| Failed::Refused(format!("it could not be read: {e}"));
    let shown = host.ask(ask).await.map_err(|e| unread(&e))?;
    let body = body(&shown).map_err(|e| unread(&e))?;
    let request_seq = shown.call.as_ref().map_or(0, |call| call.request_seq);
    webhook.tell(&id(&shown), body).await?;
    // Should this fail, it is told once more.
    let noted = host.engine().journal().announced(&ask.session.uid, request_seq).await;
    noted.map_err(|e| Failed::Away(format!("it was told, and that could not be noted: {e}")))
}

/// One ask, whenever it is told.
fn id(ask: &pb::Ask) -> String {
    format!("{}.{}", ask.session, ask.call.as_ref().map_or(0, |call| call.request_seq))
}

fn body(ask: &pb::Ask) -> Result<String, json::Error> {
    let since = ask.since.as_ref().map(time::text);
    Ok(json!({ "type": "ask.waiting", "timestamp": since, "data": json::to_value(ask)? }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::File;

    /// The example that the convention's own text gives.
    #[test]
    fn the_signature_is_the_conventions() {
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn keys_come_from_where_the_file_says_and_are_shown_nowhere() {
        let built = |toml: &str, secret: Option<&str>| {
            let file = File::parse("t", &format!("[webhook]\nurl = \"http://h.test/x/s3cret-path\"\n{toml}"));
            let config = file.expect("sound").webhook.expect("there is one");
            Webhook::new(&config, &|_| secret.map(str::to_owned))
        };
        let webhook = built("secret_env = \"KEY\"", Some("0123456789abcdef-s3cret")).expect("a key");
        let shown = format!("{webhook:?}");
        assert!(shown.contains("h.test") && !shown.contains("s3cret"), "{shown}");
        for secret in [None, Some("s3cret"), Some("whsec_s3cret*"), Some(" ")] {
            let error = built("secret_env = \"KEY\"", secret).expect_err("no key");
            assert!(error.contains("variable KEY") && !error.contains("s3cret"), "{error}");
        }
        let error = built("secret_file = \"/nowhere/key\"", None).expect_err("no file");
        assert!(error.contains("/nowhere/key cannot be read"), "{error}");
    }

    #[test]
    fn an_answer_says_whether_another_try_can_help() {
        let kind = |status: u16| judged(StatusCode::from_u16(status).expect("a status"));
        assert_eq!([200, 202, 204].map(kind), [Ok(()), Ok(()), Ok(())]);
        for passing in [408, 425, 429, 500, 502, 503] {
            assert!(matches!(kind(passing), Err(Failed::Away(_))), "{passing}");
        }
        for refused in [301, 400, 401, 404, 410] {
            assert!(matches!(kind(refused), Err(Failed::Refused(_))), "{refused}");
        }
    }
}
