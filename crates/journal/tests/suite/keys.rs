//! What idempotency keys were used for (R-TOOL-16).

use inspan_journal::{Append, Error, Import, ImportBatch, KeyChange, KeyUse};
use inspan_wire::event::principal;
use inspan_wire::v1::{self, EventKind, event::Body, tool_result::Code};
use inspan_wire::{SessionUid, canon};

use super::{Bed, append_to, new_session};

fn sent(key: &str, call_seq: i64) -> KeyChange {
    KeyChange::Sent { key: key.to_owned(), call_seq }
}

fn first(key: &str, call_seq: i64) -> KeyChange {
    KeyChange::First { key: key.to_owned(), call_seq }
}

fn freed(key: &str, call_seq: i64) -> KeyChange {
    KeyChange::Freed { key: key.to_owned(), call_seq }
}

/// Appends one record with these changes.
async fn change(bed: &Bed, uid: &str, keys: Vec<KeyChange>) {
    let append = Append { keys, ..append_to(uid, bed.head(uid).await, &["{}"]) };
    bed.append(append).await.unwrap();
}

async fn used(bed: &Bed, uid: &str, key: &str) -> Option<i64> {
    bed.journal.key_use(&uid.into(), key).await.unwrap().map(|used| used.call_seq)
}

pub(crate) async fn a_key_stands_for_its_first_call(bed: Bed) {
    bed.session_of("a", 3).await;
    bed.create("b").await;
    assert_eq!(used(&bed, "a", "k").await, None);
    change(&bed, "a", vec![sent("k", 4)]).await;
    assert_eq!((used(&bed, "a", "k").await, used(&bed, "b", "k").await), (Some(4), None));
    change(&bed, "a", vec![sent("k", 5)]).await;
    assert_eq!(used(&bed, "a", "k").await, Some(4), "another call does not take it");
    change(&bed, "a", vec![sent("\0", 6)]).await;
    let bed = bed.reopen();
    assert_eq!((used(&bed, "a", "k").await, used(&bed, "a", "\0").await), (Some(4), Some(6)));
    bed.journal.delete(&"a".into()).await.unwrap();
    assert!(bed.journal.key_use(&"a".into(), "k").await.is_err(), "a deleted session answers nothing");
}

pub(crate) async fn a_refused_append_changes_no_key(bed: Bed) {
    bed.session_of("a", 3).await;
    let stale = Append { keys: vec![sent("k", 1)], ..append_to("a", Default::default(), &["{}"]) };
    bed.append(stale).await.unwrap_err();
    assert_eq!(used(&bed, "a", "k").await, None);
}

pub(crate) async fn a_first_use_is_refused_when_the_key_is_in_use(bed: Bed) {
    bed.session_of("a", 3).await;
    change(&bed, "a", vec![first("k", 4)]).await;
    change(&bed, "a", vec![first("other", 5)]).await;
    let head = bed.head("a").await;
    let again = Append { keys: vec![freed("other", 5), first("k", 6)], ..append_to("a", head, &["{}"]) };
    let used_before = KeyUse { call_seq: 4 };
    assert_eq!(bed.append(again).await, Err(Error::KeyUsed { session: "a".into(), used: used_before }));
    assert_eq!(bed.head("a").await, head, "nothing was appended");
    assert_eq!(used(&bed, "a", "other").await, Some(5), "and no other key changed");
    let stale = Append { keys: vec![first("k", 3)], ..append_to("a", Default::default(), &["{}"]) };
    assert!(matches!(bed.append(stale).await, Err(Error::Conflict { .. })), "the head comes first");
    change(&bed, "a", vec![freed("k", 4), first("k", 6)]).await;
    assert_eq!(used(&bed, "a", "k").await, Some(6), "an append may free a key and use it");
    let head = bed.head("a").await;
    let other = Append { keys: vec![freed("k", 5), first("k", 7)], ..append_to("a", head, &["{}"]) };
    assert!(bed.append(other).await.is_err(), "what another call frees is not free");
}

pub(crate) async fn a_call_that_never_ran_frees_its_key(bed: Bed) {
    bed.create("a").await;
    change(&bed, "a", vec![sent("k", 1)]).await;
    change(&bed, "a", vec![freed("k", 2)]).await;
    assert_eq!(used(&bed, "a", "k").await, Some(1), "another call frees nothing");
    change(&bed, "a", vec![freed("k", 1), sent("k", 3)]).await;
    assert_eq!(used(&bed, "a", "k").await, Some(3), "changes are carried out in order");
}

pub(crate) async fn keys_of_a_fork_are_its_own(bed: Bed) {
    bed.create("a").await;
    change(&bed, "a", vec![sent("k", 1)]).await;
    bed.fork("a", 1, &["b"]).await.unwrap();
    assert_eq!(used(&bed, "b", "k").await, None);
    change(&bed, "b", vec![sent("k", 3)]).await;
    assert_eq!((used(&bed, "a", "k").await, used(&bed, "b", "k").await), (Some(1), Some(3)));
}

fn call(id: &str, key: &str) -> v1::Event {
    let call = v1::ToolCall {
        id: id.to_owned(),
        tool: "t".to_owned(),
        mediation: v1::Mediation::ControllerMediated.into(),
        idempotency_key: key.to_owned(),
        ..Default::default()
    };
    v1::Event::new("e", EventKind::EventToolCall, Body::Tool(call))
}

fn result(id: &str) -> v1::Event {
    let result = v1::ToolResult { id: id.to_owned(), ..Default::default() };
    v1::Event::new("e", EventKind::EventToolResult, Body::Result(result))
}

fn result_like(id: &str, change: impl FnOnce(&mut v1::ToolResult)) -> v1::Event {
    let mut result = v1::ToolResult { id: id.to_owned(), is_error: true, ..Default::default() };
    change(&mut result);
    v1::Event::new("e", EventKind::EventToolResult, Body::Result(result))
}

fn by(principal: &str, event: v1::Event) -> v1::Event {
    let actor = v1::IdentityRef { principal: principal.to_owned(), ..Default::default() };
    v1::Event { actor: Some(actor), ..event }
}

/// Records of every way in which a call can go on; `keys_of` says what is known of them.
pub(crate) fn history() -> Vec<v1::Event> {
    let said = v1::Event::new("e", EventKind::EventOutput, Body::Message(v1::Message::text("assistant", "x")));
    let asks = v1::ApprovalRequest { tool_call_id: "g".to_owned(), reason: String::new() };
    let decides = v1::ApprovalResult { tool_call_id: "g".to_owned(), request_seq: 13, ..Default::default() };
    let error = v1::Error { code: 13, description: "cut".to_owned() };
    vec![
        call("1", "answered"),
        result("1"),
        call("2", "open"),
        said,
        result("2"),
        call("3", "apart"),
        by(principal::HARNESS, result("3")),
        by(principal::POLICY, call("4", "forbidden")),
        result_like("4", |r| "policy rule x denies".clone_into(&mut r.error)),
        call("5", "late"),
        v1::Event::new("e", EventKind::EventError, Body::Error(error)),
        result("5"),
        call("g", "denied"),
        v1::Event::new("e", EventKind::EventApprovalRequest, Body::Approval(asks)),
        v1::Event::new("e", EventKind::EventApprovalResult, Body::ApprovalResult(decides)),
        result_like("g", |r| r.code = Code::ApprovalDenied.into()),
        call("6", "answered"),
        result("6"),
        call("7", ""),
        result("7"),
    ]
}

pub(crate) async fn check_history(journal: &dyn inspan_journal::Journal, uid: &SessionUid) {
    for (key, expected) in [
        ("answered", Some(1)),
        ("open", Some(3)),
        ("apart", Some(6)),
        ("forbidden", None),
        ("late", Some(10)),
        ("denied", None),
        ("", None),
    ] {
        let found = journal.key_use(uid, key).await.unwrap();
        assert_eq!(found.map(|used| used.call_seq), expected, "{key}");
    }
}

/// Texts of events, canonical.
pub(crate) fn texts(events: &[v1::Event]) -> Vec<String> {
    let text = |event| String::from_utf8(canon::event(event).unwrap()).unwrap();
    events.iter().map(text).collect()
}

/// Records whose append knew nothing of keys: what a store of an earlier version holds.
pub(crate) async fn write_history(journal: &dyn inspan_journal::Journal, uid: &SessionUid) {
    let texts = texts(&history());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let head = journal.session(uid).await.unwrap().unwrap().head;
    let append = append_to(uid.as_str(), head, &texts);
    journal.append(append).await.unwrap();
}

pub(crate) async fn an_import_knows_its_keys(bed: Bed) {
    bed.create("a").await;
    write_history(&*bed.journal, &"a".into()).await;
    for (uid, size) in [("whole", 100), ("piecemeal", 1)] {
        let mut batches: Vec<ImportBatch> = bed
            .records("a")
            .await
            .chunks(size)
            .map(|records| ImportBatch { records: records.to_vec(), ..Default::default() })
            .collect();
        batches.reverse();
        let import = Import {
            session: new_session(uid, "p"),
            parent: None,
            times_ns: (1, 2),
            fence: 1,
            next: Box::new(move || Ok(batches.pop().unwrap_or_default())),
        };
        bed.journal.import(import).await.unwrap();
        check_history(&*bed.journal, &uid.into()).await;
    }
    // A fork that is imported with all that it inherited has used none of its keys.
    let marker = v1::Lifecycle { kind: v1::lifecycle::Kind::LifecycleFork.into(), ..Default::default() };
    let text = texts(&[v1::Event::lifecycle(marker)]);
    bed.append(append_to("a", bed.head("a").await, &[&text[0]])).await.unwrap();
    let mut records = Some(bed.records("a").await);
    let import = Import {
        session: new_session("fork", "p"),
        parent: None,
        times_ns: (1, 2),
        fence: 1,
        next: Box::new(move || Ok(ImportBatch { records: records.take().unwrap_or_default(), ..Default::default() })),
    };
    bed.journal.import(import).await.unwrap();
    assert_eq!(used(&bed, "fork", "answered").await, None);
}
