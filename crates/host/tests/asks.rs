//! The inbox over gRPC and over HTTP, and what nobody decides in time.

mod support;

use std::sync::Arc;

use inspan_host::config::File;
use inspan_host::proto::AsksClient;
use inspan_host::server::Config;
use inspan_host::tools::Rules;
use inspan_journal::{Journal, sqlite};
use inspan_wire::{Digest, inspan_v1 as pb, v1};
use serde_json::{Value, json};
use support::Running;
use support::http::{get, post};
use tonic::Code;

/// Rules as they stand in `inspan.toml`.
fn under(policy: &str) -> impl FnOnce(&mut Config) + use<> {
    let rules = File::parse("inspan.toml", policy).expect("the rules are right").policy;
    move |config| config.policy = Some(Arc::new(Rules::new(rules)))
}

const ASK: &str = "[[policy]]\nname = \"money\"\naction = \"ask\"\ntool = \"t\"\n";

async fn list(host: &Running, request: pb::ListAsksRequest) -> pb::ListAsksResponse {
    AsksClient::new(host.channel().await).list_asks(request).await.expect("it is listed").into_inner()
}

async fn asks(host: &Running) -> Vec<pb::Ask> {
    list(host, pb::ListAsksRequest::default()).await.asks
}

/// A session of the scripted harness that waits.
async fn parked(host: &Running, script: &str) -> String {
    let uid = host.session("moves").await;
    host.turn(&uid, script).await;
    uid
}

fn decision(ask: &pb::Ask, digest: &str) -> pb::DecideRequest {
    let call = ask.call.clone().expect("it names its call");
    pb::DecideRequest {
        session: ask.session.clone(),
        execution_id: call.execution_id,
        tool_call_id: call.tool_call_id,
        request_seq: call.request_seq,
        approved: Some(false),
        args_digest: digest.to_owned(),
        ..Default::default()
    }
}

async fn decide(host: &Running, request: pb::DecideRequest) -> Result<pb::DecideResponse, tonic::Status> {
    AsksClient::new(host.channel().await).decide(request).await.map(tonic::Response::into_inner)
}

/// Follows a session until its turn has ended.
async fn until_ended(host: &Running, uid: &str) -> Vec<v1::Event> {
    let request = pb::WatchRequest { session: uid.to_owned(), records_only: true, ..Default::default() };
    let mut updates = host.watching().await.watch(request).await.expect("it is there").into_inner();
    let mut events = Vec::new();
    while let Some(update) = updates.message().await.expect("the host goes on") {
        if let Some(pb::watch_update::Update::Record(record)) = update.update {
            events.push(record.event.expect("a record has an event"));
            if events.last().is_some_and(|event| event.kind() == v1::EventKind::EventEnd) {
                break;
            }
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_listed_everywhere() {
    let host = support::start_with(under(ASK)).await;
    assert!(asks(&host).await.is_empty());
    let first = parked(&host, r#"tool c k {"to": "ann", "amount": 5}"#).await;
    let second = parked(&host, "gate d l").await;
    parked(&host, "model quiet").await;
    let found = asks(&host).await;
    assert_eq!(found.iter().map(|ask| &ask.session).collect::<Vec<_>>(), [&first, &second]);
    let args = r#"{"amount":5,"to":"ann"}"#;
    let ask = &found[0];
    assert_eq!((ask.tool.as_str(), ask.args_preview.as_str(), ask.args_bytes), ("t", args, args.len() as i64));
    assert_eq!(ask.args_digest, format!("sha256:{}", Digest::of(args.as_bytes())));
    assert_eq!((ask.asked_by(), ask.rule.as_str(), ask.harness.as_str()), (pb::AskedBy::Policy, "money", "moves"));
    assert_eq!(
        (ask.project.as_str(), ask.call_seq, ask.call.as_ref().map(|call| call.request_seq)),
        ("default", 3, Some(4))
    );
    assert!(ask.since.is_some() && ask.expires.is_none() && ask.fault.is_empty());
    assert_eq!((found[1].asked_by(), found[1].args_bytes), (pb::AskedBy::Harness, 0));
    // A page at a time, and one project's.
    let one = |page_token| pb::ListAsksRequest { page_size: 1, page_token, ..Default::default() };
    let page = list(&host, one(String::new())).await;
    assert_eq!((page.asks.len(), page.next_page_token.is_empty()), (1, false));
    let page = list(&host, one(page.next_page_token)).await;
    assert_eq!((page.asks[0].session.as_str(), page.next_page_token.as_str()), (second.as_str(), ""));
    let other = pb::ListAsksRequest { project: "other".to_owned(), ..Default::default() };
    assert!(list(&host, other).await.asks.is_empty());
    let bad = AsksClient::new(host.channel().await).list_asks(one("x".to_owned())).await.expect_err("no token");
    assert_eq!(bad.code(), Code::InvalidArgument);
}

/// Large arguments are shown by their start, whole characters only; the digest is of the whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_ask_is_shown_in_part() {
    let host = support::start_with(under(ASK)).await;
    parked(&host, &format!("tool c k {}", json!({"text": "é".repeat(100_000)}))).await;
    let ask = asks(&host).await.remove(0);
    let whole = json!({"text": "é".repeat(100_000)}).to_string();
    assert_eq!(ask.args_bytes, whole.len() as i64);
    assert!(ask.args_preview.len() <= 4096 && ask.args_preview.len() > 4090 && whole.starts_with(&ask.args_preview));
    assert_eq!(ask.args_digest, format!("sha256:{}", Digest::of(whole.as_bytes())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_names_what_was_shown() {
    let host = support::start_with(under(ASK)).await;
    let uid = parked(&host, r#"tool c k {"to": "ann"}"#).await;
    let ask = asks(&host).await.remove(0);
    let refused = decide(&host, decision(&ask, &format!("sha256:{}", Digest::of(b"{}")))).await.expect_err("another");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().starts_with("approve: the decision names arguments sha256:"), "{}", refused.message());
    let malformed = decide(&host, decision(&ask, "sha256:zz")).await.expect_err("no digest");
    assert_eq!(malformed.code(), Code::InvalidArgument);
    assert_eq!(asks(&host).await.len(), 1, "it still waits");
    let decided = decide(&host, decision(&ask, &ask.args_digest)).await.expect("what was shown");
    assert_eq!(
        (decided.args_digest.as_str(), decided.decision.map(|record| record.seq)),
        (ask.args_digest.as_str(), Some(6))
    );
    assert!(asks(&host).await.is_empty());
    host.sessions()
        .await
        .resume(v1::ResumeRequest { session: uid.clone(), ..Default::default() })
        .await
        .expect("it goes on");
    assert!(until_ended(&host, &uid).await.len() > 6);
}

/// Two people decide at the same moment, thirty-two times each and not of one mind: one decision is recorded, and whoever is not
/// refused is answered with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_clients_decisions_one_stands() {
    let host = support::start_with(|config| {
        under(ASK)(config);
        config.lanes = 2;
    })
    .await;
    let uid = parked(&host, r#"tool c k {"to": "ann"}"#).await;
    let ask = asks(&host).await.remove(0);
    let clients = [AsksClient::new(host.channel().await), AsksClient::new(host.channel().await)];
    let racers: Vec<_> = (0..64)
        .map(|n| {
            let mut client = clients[n % 2].clone();
            let request = pb::DecideRequest { approved: Some(n % 4 < 2), ..decision(&ask, &ask.args_digest) };
            tokio::spawn(async move { client.decide(request).await })
        })
        .collect();
    let mut stands = Vec::new();
    for racer in racers {
        match racer.await.expect("no racer panics") {
            Ok(decided) => stands.push(decided.into_inner().decision.expect("it is on record")),
            Err(e) => assert!(matches!(e.code(), Code::Aborted | Code::FailedPrecondition), "{e}"),
        }
    }
    assert!(!stands.is_empty() && stands.iter().all(|record| *record == stands[0]), "{stands:?}");
    let replay = v1::ReplayRequest { session: uid, ..Default::default() };
    let mut records = host.sessions().await.replay(replay).await.expect("it is there").into_inner();
    let mut decisions = Vec::new();
    while let Some(record) = records.message().await.expect("it is read") {
        let is_decision = record.event.as_ref().is_some_and(|e| e.kind() == v1::EventKind::EventApprovalResult);
        decisions.extend(is_decision.then_some(record));
    }
    assert_eq!(decisions, [stands.remove(0)]);
}

/// The same over HTTP: the listing, and a decision that names the digest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_inbox_speaks_http() {
    let host = support::start_with(under(ASK)).await;
    let uid = parked(&host, r#"tool c k {"to": "ann"}"#).await;
    let listed: Value = get(&host, "/v1/asks?page_size=10").await.json();
    let ask = &listed["asks"][0];
    assert_eq!(
        (&ask["session"], &ask["tool"], &ask["asked_by"]),
        (&json!(uid), &json!("t"), &json!("ASKED_BY_POLICY"))
    );
    let body = |digest: &Value| {
        json!({
            "execution_id": ask["call"]["execution_id"], "tool_call_id": "c", "request_seq": "4", "approved": false,
            "args_digest": digest
        })
        .to_string()
    };
    let path = format!("/v1/sessions/{uid}/approve");
    let refused = post(&host, &path, &body(&json!(format!("sha256:{}", Digest::of(b"x"))))).await;
    assert_eq!((refused.status.as_u16(), refused.json()["status"].clone()), (400, json!("FAILED_PRECONDITION")));
    let decided = post(&host, &path, &body(&ask["args_digest"])).await;
    assert_eq!((decided.status.as_u16(), &decided.json()["args_digest"]), (200, &ask["args_digest"]));
    assert_eq!(get(&host, "/v1/asks").await.json(), json!({}));
    assert_eq!(get(&host, "/v1/asks?from=1").await.status.as_u16(), 400, "an unknown parameter is refused by its name");
}

/// Nobody decides in time: the host denies the call and drives its turn on, by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_expires_by_itself() {
    let host = support::start_with(under(&format!("{ASK}expires = \"1ms\"\n"))).await;
    let uid = parked(&host, "tool c k; result").await;
    let events = until_ended(&host, &uid).await;
    let decided = events.iter().find(|event| event.kind() == v1::EventKind::EventApprovalResult).expect("decided");
    let actor = decided.actor.clone().expect("by the host");
    assert_eq!((actor.principal.as_str(), actor.subject.as_str()), ("expiry", "money"));
    assert!(asks(&host).await.is_empty());
}

/// A host that was down when the deadline passed denies the call once it is back, whatever its rules say by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_holds_across_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = || -> Arc<dyn Journal> {
        let blobs = Arc::new(inspan_journal::blob::Memory::new());
        let clock = Arc::new(inspan_host::system::System);
        let options = sqlite::Options::new(folder.path().join("journal.db"), blobs, clock);
        Arc::new(sqlite::Store::open(options).expect("the store opens"))
    };
    let mut host = support::start_on(store(), under(&format!("{ASK}expires = \"1s\"\n"))).await;
    let uid = parked(&host, "tool c k; result").await;
    assert!(asks(&host).await[0].expires.is_some());
    host.stop();
    host.stopped().await;
    let host = support::start_on(store(), |_| {}).await;
    let events = until_ended(&host, &uid).await;
    assert_eq!(events.iter().filter(|event| event.kind() == v1::EventKind::EventApprovalResult).count(), 1);
}
