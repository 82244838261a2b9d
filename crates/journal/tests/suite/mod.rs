//! What every store promises: one suite, run on each of them.
//!
//! A store comes in as a [`Kind`]; nothing here knows which one it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use inspan_journal::{
    Append, Appended, Blobs, Clock, Error, FenceRule, Fork, ForkChild, Head, Journal, KeptRequest, NewRecord,
    NewSession, Record, Registrations, Session, State, blob,
};
use inspan_wire::{Digest, SessionUid, v1};

pub(crate) mod append;
pub(crate) mod asks;
pub(crate) mod delete;
pub(crate) mod fork;
pub(crate) mod import;
pub(crate) mod keys;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod registration;
pub(crate) mod request;

/// Everything that a store keeps.
pub(crate) trait Store: Journal + Registrations {}

impl<T: Journal + Registrations> Store for T {}

/// A kind of store: how to open it, and how to open it again on what it has kept.
pub(crate) trait Kind: Send + Sync + 'static {
    fn open(&mut self, blobs: Arc<dyn Blobs>, clock: Arc<dyn Clock>) -> Arc<dyn Store>;
    /// Bytes on disk, where that can be asked.
    fn bytes(&self) -> Option<u64>;
}

/// A clock that stands until it is moved.
pub(crate) struct HandClock(AtomicI64);

impl HandClock {
    pub(crate) fn at(ns: i64) -> HandClock {
        HandClock(AtomicI64::new(ns))
    }

    pub(crate) fn set(&self, ns: i64) {
        self.0.store(ns, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A store under test.
pub(crate) struct Bed {
    pub(crate) journal: Arc<dyn Store>,
    pub(crate) clock: Arc<HandClock>,
    pub(crate) blobs: Arc<blob::Memory>,
    kind: Box<dyn Kind>,
}

/// 2027-01-15T08:00:00Z.
pub(crate) const START_NS: i64 = 1_800_000_000_000_000_000;

impl Bed {
    pub(crate) fn new(kind: impl Kind) -> Bed {
        let mut kind: Box<dyn Kind> = Box::new(kind);
        let clock = Arc::new(HandClock::at(START_NS));
        let blobs = Arc::new(blob::Memory::new());
        let journal = kind.open(Arc::clone(&blobs) as _, Arc::clone(&clock) as _);
        Bed { journal, clock, blobs, kind }
    }

    /// Closes the store and opens it again.
    pub(crate) fn reopen(self) -> Bed {
        let Bed { journal, clock, blobs, mut kind } = self;
        drop(journal);
        let journal = kind.open(Arc::clone(&blobs) as _, Arc::clone(&clock) as _);
        Bed { journal, clock, blobs, kind }
    }

    pub(crate) fn bytes(&self) -> Option<u64> {
        self.kind.bytes()
    }

    pub(crate) async fn create(&self, uid: &str) -> Session {
        self.journal.create(new_session(uid, "p")).await.unwrap()
    }

    /// A session with `n` records.
    pub(crate) async fn session_of(&self, uid: &str, n: usize) -> SessionUid {
        self.create(uid).await;
        self.grow(uid, n).await;
        uid.into()
    }

    /// Appends `n` records, one at a time.
    pub(crate) async fn grow(&self, uid: &str, n: usize) {
        let mut head = self.head(uid).await;
        for _ in 0..n {
            let append = append_to(uid, head, &[&text(head.seq + 1)]);
            head = head_after(&append);
            self.journal.append(append).await.unwrap();
        }
    }

    pub(crate) async fn head(&self, uid: &str) -> Head {
        self.get(uid).await.head
    }

    pub(crate) async fn get(&self, uid: &str) -> Session {
        self.journal.session(&uid.into()).await.unwrap().expect("the session is there")
    }

    pub(crate) async fn append(&self, append: Append) -> Result<Appended, Error> {
        self.journal.append(append).await
    }

    /// Everything that a session reads, in pages of 7, checked to be one chain from 1 to the head.
    pub(crate) async fn records(&self, uid: &str) -> Vec<Record> {
        let session = self.get(uid).await;
        let mut records: Vec<Record> = Vec::new();
        loop {
            let from = records.len() as i64 + 1;
            let page = self.journal.records(&uid.into(), from, i64::MAX, 7).await.unwrap();
            if page.is_empty() {
                break;
            }
            records.extend(page);
        }
        check_chain(&records, session.head);
        records
    }

    /// Forks `parent` at `at` into children of these names.
    pub(crate) async fn fork(&self, parent: &str, at: i64, children: &[&str]) -> Result<Vec<Session>, Error> {
        let hash = self.hash_at(parent, at).await;
        let children = children.iter().map(|uid| child(uid, at, hash)).collect();
        self.journal.fork(Fork { parent: parent.into(), at_seq: at, children }).await
    }

    pub(crate) async fn hash_at(&self, uid: &str, seq: i64) -> Option<Digest> {
        if seq == 0 {
            return None;
        }
        let found = self.journal.records(&uid.into(), seq, seq, 1).await.unwrap();
        found.first().map(|record| record.content_hash)
    }
}

/// Records 1 to the head, dense, linked and hashed (R-HASH-8).
pub(crate) fn check_chain(records: &[Record], head: Head) {
    let mut prev = None;
    for (seq, record) in (1..).zip(records) {
        assert_eq!(record.seq, seq);
        assert_eq!(record.prev_hash, prev, "the link of record {seq}");
        assert!(record.holds(), "the hash of record {seq}");
        prev = Some(record.content_hash);
    }
    assert_eq!(head, Head { seq: records.len() as i64, hash: prev });
}

pub(crate) fn new_session(uid: &str, project: &str) -> NewSession {
    let metadata =
        v1::ResourceMetadata { project: project.to_owned(), name: format!("name of {uid}"), ..Default::default() };
    let info = v1::Session {
        metadata: Some(metadata),
        harness: "echo".to_owned(),
        labels: [("k".to_owned(), uid.to_owned())].into(),
        ..Default::default()
    };
    NewSession { uid: uid.into(), info, state: state(0) }
}

/// A state that says where it belongs.
pub(crate) fn state(n: i64) -> State {
    let pending = (n % 2 == 1).then(|| v1::ApprovalRef { tool_call_id: format!("call-{n}"), ..Default::default() });
    let deadline_ns = pending.is_some().then_some(n).filter(|n| n % 3 == 0);
    State {
        compute: (n % 3) as i32,
        exec: (n % 5) as i32,
        pending,
        deadline_ns,
        scan: Bytes::from(format!("scan {n}")),
    }
}

pub(crate) fn text(seq: i64) -> String {
    format!("{{\"text\":\"record {seq}\"}}")
}

/// Seals texts behind `head`.
pub(crate) fn seal(head: Head, texts: &[&str]) -> Vec<NewRecord> {
    let mut at = head;
    texts
        .iter()
        .map(|text| {
            let record = NewRecord::seal(at.seq + 1, at.hash, Bytes::copy_from_slice(text.as_bytes()));
            at = Head { seq: record.seq, hash: Some(record.content_hash) };
            record
        })
        .collect()
}

pub(crate) fn append_to(uid: &str, head: Head, texts: &[&str]) -> Append {
    Append {
        session: uid.into(),
        expect_head: head.seq,
        fence: FenceRule::Held(1),
        records: seal(head, texts),
        turn: None,
        state: state(head.seq + texts.len() as i64),
        requests: Vec::new(),
        blobs: Vec::new(),
        keys: Vec::new(),
    }
}

pub(crate) fn head_after(append: &Append) -> Head {
    let last = append.records.last().expect("an append has records");
    Head { seq: last.seq, hash: Some(last.content_hash) }
}

pub(crate) fn child(uid: &str, at: i64, hash: Option<Digest>) -> ForkChild {
    let marker = NewRecord::seal(at + 1, hash, Bytes::from(format!("{{\"detail\":\"parent@{at}\"}}")));
    let session = NewSession { state: state(at + 1), ..new_session(uid, "p") };
    ForkChild { session, marker }
}

pub(crate) fn kept(text: &str, base: Option<&str>) -> KeptRequest {
    let base = base.map(|base| (Digest::of(base.as_bytes()), Arc::from(base)));
    KeptRequest { digest: Digest::of(text.as_bytes()), text: text.into(), base }
}

/// Polls all of them together, in order, until each is done.
pub(crate) async fn together<T>(calls: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut calls: Vec<_> = calls.map(|call| (Box::pin(call), None)).collect();
    std::future::poll_fn(|cx| {
        for (call, done) in &mut calls {
            if done.is_none()
                && let std::task::Poll::Ready(outcome) = call.as_mut().poll(cx)
            {
                *done = Some(outcome);
            }
        }
        if calls.iter().all(|(_, done)| done.is_some()) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    calls.into_iter().filter_map(|(_, done)| done).collect()
}

/// Names every test once; each store runs all of them.
macro_rules! suite {
    ($store:ident, $kind:expr) => {
        $crate::suite::suite!(@all $store, $kind,
            append: [
                an_append_is_there_when_it_is_acknowledged, head_is_checked_before_the_fence,
                a_passed_fence_is_refused_and_a_higher_one_taken, the_next_fence_is_taken_with_the_append,
                a_new_fence_stops_a_zombie, malformed_appends_are_refused, one_of_a_hundred_racers_wins_each_seq,
                a_refused_append_does_not_stop_the_others, appends_of_one_session_queue_up_in_order,
                projections_move_with_the_records, time_never_goes_backwards, unknown_sessions_are_not_found,
                the_hash_covers_neither_fence_nor_time_nor_session,
            ],
            read: [
                records_keep_to_limit_and_range, any_part_of_a_long_session_reads, an_answer_keeps_to_its_bytes, a_lying_hash_is_found_when_it_is_read,
                the_turn_of_a_seq_is_the_last_that_starts_before, reopening_gives_the_same,
            ],
            list: [
                sessions_are_listed_newest_first, a_listing_keeps_to_its_project, pages_have_no_gaps_or_duplicates,
                pages_hold_while_others_create, a_uid_is_taken_once, sessions_without_records_are_listed,
            ],
            asks: [
                what_waits_is_listed_oldest_first, a_wait_keeps_its_place_until_it_is_over, a_listing_of_asks_keeps_to_its_project,
                pages_of_asks_hold_while_some_are_decided, what_is_due_comes_by_its_deadline,
                an_announced_wait_is_not_announced_again, a_fork_waits_for_itself_only, an_import_has_waited_since_it_asked,
                asks_are_there_after_a_restart,
            ],
            fork: [
                a_fork_reads_its_parents_records, a_fork_reads_across_every_boundary, a_fork_and_its_parent_part_ways,
                a_fork_at_nothing_starts_with_the_marker, a_fork_at_zero_is_at_the_head,
                all_children_or_none, a_fork_beyond_the_head_is_refused, a_marker_that_does_not_link_is_refused,
                a_fork_below_the_fork_point_reads_the_grandparent, a_thousand_generations_read_in_order,
                turns_are_found_through_the_lineage, many_children_of_a_long_session_cost_little,
            ],
            delete: [
                a_deleted_session_is_gone_and_its_uid_taken, what_a_fork_reads_stays, the_last_fork_takes_its_parents_along,
                a_fork_below_keeps_less, blobs_nobody_names_go, blobs_are_seen_through_the_lineage_only,
                a_payload_between_put_and_append_stays, requests_nobody_carries_go, a_base_stays_for_its_differences,
                a_long_session_is_dropped, a_fork_keeps_its_part_of_a_long_session,
            ],
            request: [
                a_request_is_kept_byte_for_byte, a_request_that_lies_is_refused, random_edits_come_back,
                a_growing_conversation_is_stored_in_linear_space, the_same_request_twice_is_kept_once,
            ],
            registration: [
                a_name_holds_one_spec_for_ever, a_retired_registration_keeps_its_first_reason, registrations_are_paged_by_name,
                a_registration_outlives_its_store, one_of_many_specs_wins_a_name,
            ],
            import: [
                an_import_appears_as_it_was, an_import_joins_its_parent, an_import_is_hidden_until_its_last_batch,
                a_failed_import_leaves_its_uid_free, an_import_that_does_not_link_is_refused,
            ],
            keys: [
                a_key_stands_for_its_first_call, a_refused_append_changes_no_key,
                a_first_use_is_refused_when_the_key_is_in_use, a_call_that_never_ran_frees_its_key,
                keys_of_a_fork_are_its_own, an_import_knows_its_keys,
            ],
        );
    };
    (@all $store:ident, $kind:expr, $($module:ident: [$($test:ident),+ $(,)?],)+) => {
        mod $store {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    crate::suite::$module::$test(crate::suite::Bed::new($kind)).await;
                })+
            })+
        }
    };
}
pub(crate) use suite;
