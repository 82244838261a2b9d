//! What waits for a person.

use inspan_journal::{Append, AskQuery, Asks, Error, Import, ImportBatch, NewSession, State};
use inspan_wire::{SessionUid, v1};

use super::{Bed, START_NS, append_to, new_session, seal};

/// Waits on request `seq`, until `deadline_ns` if there is one.
fn waiting(seq: i64, deadline_ns: Option<i64>) -> State {
    let pending = v1::ApprovalRef { execution_id: "e".into(), tool_call_id: "c".into(), request_seq: seq };
    State { pending: Some(pending), deadline_ns, ..State::default() }
}

impl Bed {
    /// Appends one record behind which the session's state is `state`, `at` nanoseconds behind the start.
    async fn record(&self, uid: &str, at: i64, state: State) {
        self.clock.set(START_NS + at);
        let append = Append { state, ..append_to(uid, self.head(uid).await, &["{}"]) };
        self.append(append).await.unwrap();
    }

    /// A session of project `p` that asks at `at`.
    async fn asks(&self, uid: &str, at: i64) {
        self.journal.create(NewSession { state: State::default(), ..new_session(uid, "p") }).await.unwrap();
        self.record(uid, at, waiting(1, None)).await;
    }

    async fn listed(&self, of: Asks) -> Vec<String> {
        self.listed_by(&of, 100).await
    }

    async fn listed_by(&self, of: &Asks, limit: usize) -> Vec<String> {
        let mut uids = Vec::new();
        let mut after = None;
        loop {
            let page = self.journal.asks(AskQuery { of: of.clone(), limit, after }).await.unwrap();
            assert!(page.asks.len() == limit || page.next.is_none(), "only the last page is short");
            for ask in page.asks {
                assert!(ask.session.state.pending.is_some(), "who is listed waits");
                assert_eq!(ask.session, self.get(ask.session.uid.as_str()).await, "a listing and a read agree");
                uids.push(ask.session.uid.to_string());
            }
            after = page.next;
            if after.is_none() {
                return uids;
            }
        }
    }
}

pub(crate) async fn what_waits_is_listed_oldest_first(bed: Bed) {
    assert!(bed.listed(Asks::All).await.is_empty());
    for (uid, at) in [("b", 1), ("a", 1), ("d", 2), ("c", 3)] {
        bed.asks(uid, at).await;
    }
    bed.create("nobody").await;
    assert_eq!(bed.listed(Asks::All).await, ["a", "b", "d", "c"]);
    let page = bed.journal.asks(AskQuery { of: Asks::All, limit: 1, after: None }).await.unwrap();
    assert_eq!(page.asks[0].since_ns, START_NS + 1, "when it was asked");
}

pub(crate) async fn a_wait_keeps_its_place_until_it_is_over(bed: Bed) {
    for (uid, at) in [("a", 1), ("b", 2), ("c", 3)] {
        bed.asks(uid, at).await;
    }
    // Put to sleep: still the same wait.
    bed.record("a", 9, waiting(1, None)).await;
    assert_eq!(bed.listed(Asks::All).await, ["a", "b", "c"]);
    // Decided, then another call of the same turn.
    bed.record("a", 10, State::default()).await;
    assert_eq!(bed.listed(Asks::All).await, ["b", "c"]);
    bed.record("a", 11, waiting(4, None)).await;
    assert_eq!(bed.listed(Asks::All).await, ["b", "c", "a"]);
    // One wait right behind another, without a record between them.
    bed.record("b", 12, waiting(2, None)).await;
    assert_eq!(bed.listed(Asks::All).await, ["c", "a", "b"]);
    bed.journal.delete(&"c".into()).await.unwrap();
    assert_eq!(bed.listed(Asks::All).await, ["a", "b"]);
    // What a refused append would have changed is as it was.
    let stale = Append { state: State::default(), ..append_to("a", inspan_journal::Head::default(), &["{}"]) };
    assert!(matches!(bed.append(stale).await, Err(Error::Conflict { .. })));
    assert_eq!(bed.listed(Asks::All).await, ["a", "b"]);
}

pub(crate) async fn a_listing_of_asks_keeps_to_its_project(bed: Bed) {
    for (uid, project) in [("a", "p"), ("b", "pp"), ("c", ""), ("d", "P"), ("e", "p")] {
        bed.journal.create(NewSession { state: State::default(), ..new_session(uid, project) }).await.unwrap();
        bed.record(uid, 1, waiting(1, None)).await;
    }
    for (project, expect) in [("p", vec!["a", "e"]), ("", vec!["c"]), ("P", vec!["d"]), ("x", vec![])] {
        assert_eq!(bed.listed(Asks::Project(project.to_owned())).await, expect, "project {project:?}");
    }
    assert_eq!(bed.listed(Asks::All).await.len(), 5);
}

/// Keyset pages of every size give each wait once, also those behind one that was decided between two pages.
pub(crate) async fn pages_of_asks_hold_while_some_are_decided(bed: Bed) {
    for n in 0..23 {
        bed.asks(&format!("s{n:02}"), n / 4).await;
    }
    let whole = bed.listed(Asks::All).await;
    assert_eq!(whole.len(), 23);
    for limit in 1..=24 {
        assert_eq!(bed.listed_by(&Asks::All, limit).await, whole, "pages of {limit}");
        assert_eq!(bed.listed_by(&Asks::Project("p".into()), limit).await, whole, "pages of {limit}");
        assert_eq!(bed.listed_by(&Asks::Unannounced, limit).await, whole, "pages of {limit}");
    }
    let first = bed.journal.asks(AskQuery { of: Asks::All, limit: 5, after: None }).await.unwrap();
    let last = first.asks[4].session.uid.to_string();
    bed.record(&last, 50, State::default()).await;
    let second = bed.journal.asks(AskQuery { of: Asks::All, limit: 50, after: first.next }).await.unwrap();
    let uids: Vec<_> = second.asks.iter().map(|ask| ask.session.uid.to_string()).collect();
    assert_eq!(uids, whole[5..]);
}

pub(crate) async fn what_is_due_comes_by_its_deadline(bed: Bed) {
    for (uid, deadline) in [("a", Some(30)), ("b", None), ("c", Some(10)), ("d", Some(10)), ("e", Some(20))] {
        bed.asks(uid, 1).await;
        bed.record(uid, 2, waiting(2, deadline)).await;
    }
    assert_eq!(bed.listed_by(&Asks::Due, 2).await, ["c", "d", "e", "a"]);
    assert_eq!(bed.get("c").await.state.deadline_ns, Some(10));
    bed.record("c", 3, State::default()).await;
    assert_eq!(bed.listed(Asks::Due).await, ["d", "e", "a"]);
    assert_eq!(bed.get("c").await.state.deadline_ns, None);
    let bed = bed.reopen();
    assert_eq!(bed.listed(Asks::Due).await, ["d", "e", "a"]);
    assert_eq!(bed.get("a").await.state, waiting(2, Some(30)));
}

pub(crate) async fn an_announced_wait_is_not_announced_again(bed: Bed) {
    bed.asks("a", 1).await;
    bed.asks("b", 2).await;
    let told = async |uid: &str, seq| bed.journal.announced(&uid.into(), seq).await;
    told("a", 7).await.unwrap();
    assert_eq!(bed.listed(Asks::Unannounced).await, ["a", "b"], "it waits on another request");
    told("a", 1).await.unwrap();
    assert_eq!(bed.listed(Asks::Unannounced).await, ["b"]);
    assert_eq!(bed.listed(Asks::All).await, ["a", "b"]);
    bed.record("a", 3, waiting(1, None)).await;
    assert_eq!(bed.listed(Asks::Unannounced).await, ["b"], "the same wait goes on");
    bed.record("a", 4, waiting(3, None)).await;
    assert_eq!(bed.listed(Asks::Unannounced).await, ["b", "a"], "another wait is to be told again");
    bed.record("b", 5, State::default()).await;
    told("b", 1).await.unwrap();
    assert_eq!(told("x", 1).await, Err(Error::NotFound("x".into())));
    let bed = bed.reopen();
    assert_eq!(bed.listed(Asks::Unannounced).await, ["a"]);
}

/// R-APPR-34: a child does not wait for what its parent asked, and its own waits are its own.
pub(crate) async fn a_fork_waits_for_itself_only(bed: Bed) {
    bed.asks("a", 1).await;
    bed.clock.set(START_NS + 2);
    let hash = bed.hash_at("a", 1).await;
    let mut child = super::child("b", 1, hash);
    child.session.state = State::default();
    let fork = inspan_journal::Fork { parent: "a".into(), at_seq: 1, children: vec![child] };
    bed.journal.fork(fork).await.unwrap();
    assert_eq!(bed.listed(Asks::All).await, ["a"]);
    bed.record("b", 3, waiting(3, None)).await;
    assert_eq!(bed.listed(Asks::All).await, ["a", "b"]);
    bed.record("a", 4, State::default()).await;
    assert_eq!(bed.listed(Asks::All).await, ["b"]);
    bed.journal.delete(&"a".into()).await.unwrap();
    assert_eq!(bed.listed(Asks::All).await, ["b"]);
}

/// The time of the ask is its record's, wherever that was written.
pub(crate) async fn an_import_has_waited_since_it_asked(bed: Bed) {
    bed.asks("here", -1_000_000).await;
    let sealed = seal(inspan_journal::Head::default(), &["{}", "{}", "{}"]);
    let records = sealed.into_iter().map(|record| inspan_journal::Record {
        seq: record.seq,
        prev_hash: record.prev_hash,
        content_hash: record.content_hash,
        fence: 1,
        ts_ms: START_NS / 1_000_000 - 10 * record.seq,
        event: record.event,
    });
    let batch = ImportBatch { records: records.collect(), state: Some(waiting(2, Some(5))), ..Default::default() };
    let mut batches = vec![Ok(ImportBatch::default()), Ok(batch)];
    let import = Import {
        session: NewSession { state: State::default(), ..new_session("there", "p") },
        parent: None,
        times_ns: (START_NS, START_NS),
        fence: 1,
        next: Box::new(move || batches.pop().expect("two")),
    };
    bed.journal.import(import).await.unwrap();
    assert_eq!(bed.listed(Asks::All).await, ["there", "here"]);
    let page = bed.journal.asks(AskQuery { of: Asks::Due, limit: 9, after: None }).await.unwrap();
    assert_eq!(page.asks[0].since_ns, START_NS - 20_000_000);
}

pub(crate) async fn asks_are_there_after_a_restart(bed: Bed) {
    for n in 0..5 {
        bed.asks(&format!("s{n}"), n).await;
    }
    let bed = bed.reopen();
    assert_eq!(bed.listed(Asks::All).await, ["s0", "s1", "s2", "s3", "s4"]);
    bed.record("s2", 9, State::default()).await;
    let bed = bed.reopen();
    assert_eq!(bed.listed(Asks::All).await, ["s0", "s1", "s3", "s4"]);
    let uid: SessionUid = "s3".into();
    assert_eq!(bed.get("s3").await.uid, uid);
}
