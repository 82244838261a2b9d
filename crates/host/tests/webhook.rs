//! Who is told that a session waits: once at least, signed, and without anybody waiting for it.

mod support;

use std::sync::Arc;

use base64::Engine as _;
use inspan_host::config::File;
use inspan_host::proto::AsksClient;
use inspan_host::server::Config;
use inspan_host::webhook::Webhook;
use inspan_journal::{Blobs, Journal, blob, memory};
use inspan_testkit::provider::{Answer, Call, Provider};
use inspan_wire::{inspan_v1 as pb, v1};
use ring::hmac;
use serde_json::Value;
use support::{Running, exec};

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// A host whose webhook is at `url`.
fn telling(url: &str) -> impl FnOnce(&mut Config) + use<> {
    let text = format!("[webhook]\nurl = \"{url}/hook\"\nsecret_env = \"KEY\"\n");
    let config = File::parse("inspan.toml", &text).expect("it is right").webhook.expect("it is there");
    let webhook = Webhook::new(&config, &|_| Some(KEY.to_owned())).expect("it has its key");
    move |config| config.webhook = Some(Arc::new(webhook))
}

fn store() -> Arc<dyn Journal> {
    let blobs: Arc<dyn Blobs> = Arc::new(blob::Memory::new());
    Arc::new(memory::Store::new(blobs, Arc::new(inspan_host::system::System)))
}

async fn parked(host: &Running, script: &str) -> String {
    let uid = host.session("moves").await;
    host.turn(&uid, script).await;
    uid
}

/// Checks what a receiver has to check, and gives the id and the ask.
fn checked(call: &Call) -> (String, Value) {
    let header = |name: &str| call.header(name).unwrap_or_else(|| panic!("no {name}")).to_owned();
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let tag = header("webhook-signature");
    let tag = base64::engine::general_purpose::STANDARD.decode(tag.strip_prefix("v1,").expect("v1")).expect("base64");
    let key = hmac::Key::new(hmac::HMAC_SHA256, KEY.as_bytes());
    hmac::verify(&key, format!("{id}.{timestamp}.{}", call.text()).as_bytes(), &tag).expect("it is signed");
    assert_eq!((call.method.as_str(), call.target.as_str()), ("POST", "/hook"));
    assert_eq!(call.header("content-type"), Some("application/json"));
    let body: Value = serde_json::from_slice(&call.body).expect("JSON");
    assert_eq!(body["type"], "ask.waiting");
    assert_eq!(body["timestamp"], body["data"]["since"]);
    (id, body["data"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_is_told_what_waits() {
    let receiver = Provider::start().await;
    receiver.always(Answer::json(200, "{}"));
    let host = support::start_with(telling(&receiver.url())).await;
    let uid = parked(&host, r#"gate c k {"to": "ann"}; result"#).await;
    receiver.called(1).await;
    let (id, ask) = checked(&receiver.calls()[0]);
    assert_eq!(id, format!("{uid}.4"));
    let listed = AsksClient::new(host.channel().await).list_asks(pb::ListAsksRequest::default()).await.expect("listed");
    let listed = inspan_wire::json::to_value(&listed.into_inner().asks[0]).expect("JSON");
    assert_eq!(ask, listed, "what is told is what is listed");
    assert_eq!(ask["args_preview"], r#"{"to":"ann"}"#);
}

/// A receiver that fails is told again, in the order in which was asked; one that refuses a thing is told the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_taken_is_told_again() {
    let receiver = Provider::start().await;
    receiver.then(Answer::json(503, "{}")).always(Answer::json(204, ""));
    let host = support::start_with(telling(&receiver.url())).await;
    let first = parked(&host, "gate c k").await;
    let second = parked(&host, "gate c k").await;
    receiver.called(3).await;
    let ids: Vec<String> = receiver.calls().iter().map(|call| checked(call).0).collect();
    assert_eq!(ids, [format!("{first}.4"), format!("{first}.4"), format!("{second}.4")]);

    receiver.then(Answer::json(400, "{}"));
    let third = parked(&host, "gate c k").await;
    receiver.called(5).await;
    assert!(receiver.calls()[3..].iter().all(|call| checked(call).0 == format!("{third}.4")));
}

/// Nobody waits for a receiver: with one that never answers, turns park and decisions are taken as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_receiver_holds_nobody_up() {
    let receiver = Provider::start().await;
    let gate = inspan_testkit::provider::Gate::default();
    receiver.always(Answer::json(200, "{}").held(&gate));
    let host = support::start_with(telling(&receiver.url())).await;
    let uid = parked(&host, "gate c k; result").await;
    receiver.called(1).await;
    let mut sessions = host.sessions().await;
    let get = v1::GetSessionRequest { uid: uid.clone() };
    let asked = sessions.get_session(get).await.expect("there").into_inner().pending_approval.expect("it waits");
    let decision = v1::ApproveRequest {
        session: uid.clone(),
        execution_id: asked.execution_id,
        tool_call_id: asked.tool_call_id,
        request_seq: asked.request_seq,
        approved: Some(false),
        ..Default::default()
    };
    sessions.approve(decision).await.expect("decided");
    sessions.resume(v1::ResumeRequest { session: uid.clone(), ..Default::default() }).await.expect("it goes on");
    sessions.exec(exec(&uid, "model again")).await.expect("the next turn");
    assert_eq!(receiver.count(), 1);
}

/// What one host could not tell, the next one does; what was taken is not told again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_loses_no_announcement() {
    let journal = store();
    let gone = Provider::start().await.url();
    let mut host = support::start_on(Arc::clone(&journal), telling(&gone)).await;
    let first = parked(&host, "gate c k").await;
    host.stop();
    host.stopped().await;
    let receiver = Provider::start().await;
    receiver.always(Answer::json(200, "{}"));
    let mut host = support::start_on(Arc::clone(&journal), telling(&receiver.url())).await;
    receiver.called(1).await;
    assert_eq!(checked(&receiver.calls()[0]).0, format!("{first}.4"));
    let second = parked(&host, "gate c k").await;
    receiver.called(2).await;
    host.stop();
    host.stopped().await;
    // The note of the last one may have been cut off: then it is told once more, before anything newer.
    let host = support::start_on(journal, telling(&receiver.url())).await;
    let third = parked(&host, "gate c k").await;
    let told = async |n: usize| {
        receiver.called(n).await;
        checked(&receiver.calls()[n - 1]).0
    };
    let mut next = told(3).await;
    if next == format!("{second}.4") {
        next = told(4).await;
    }
    assert_eq!(next, format!("{third}.4"));
}
