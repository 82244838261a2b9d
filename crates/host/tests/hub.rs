//! The hub, fed by hand: what a viewer is given when it is late, and what it may cost.

use std::sync::Arc;

use inspan_engine::Observer as _;
use inspan_engine::observe::Seen;
use inspan_host::hub::{Follow, Hub, Item, RingLimits};
use inspan_host::system::System;
use inspan_journal::{Append, FenceRule, Journal, NewRecord, NewSession, State, blob, memory};
use inspan_wire::v1::{self, EventKind, event::Body};
use inspan_wire::{SessionUid, canon};

/// A session whose records the test writes itself.
struct Hand {
    hub: Arc<Hub>,
    journal: Arc<dyn Journal>,
    uid: SessionUid,
    head: inspan_journal::Head,
}

impl Hand {
    async fn new(limits: RingLimits) -> Hand {
        let blobs = Arc::new(blob::Memory::new());
        let journal: Arc<dyn Journal> = Arc::new(memory::Store::new(blobs, Arc::new(System)));
        let uid = SessionUid::from("sess-1");
        let session = NewSession { uid: uid.clone(), info: v1::Session::default(), state: State::default() };
        journal.create(session).await.expect("a new session");
        Hand { hub: Arc::new(Hub::new(limits)), journal, uid, head: Default::default() }
    }

    fn follow(&self, from: i64) -> Follow {
        self.hub.follow(&self.journal, &self.uid, from)
    }

    /// Makes a record durable, and tells the hub of it unless it is `quiet`.
    async fn record(&mut self, text: &str, quiet: bool) {
        let body = Body::Message(v1::Message::text("assistant", text));
        let event = v1::Event::new("e", EventKind::EventOutput, body);
        let canonical = canon::event(&event).expect("it has a canonical form");
        let new = NewRecord::seal(self.head.seq + 1, self.head.hash, canonical.into());
        let append = Append {
            session: self.uid.clone(),
            expect_head: self.head.seq,
            fence: FenceRule::Held(1),
            records: vec![new.clone()],
            turn: None,
            state: State::default(),
            requests: Vec::new(),
            blobs: Vec::new(),
            keys: Vec::new(),
        };
        self.journal.append(append).await.expect("the only writer");
        self.head = inspan_journal::Head { seq: new.seq, hash: Some(new.content_hash) };
        if !quiet {
            let record = self.journal.records(&self.uid, new.seq, new.seq, 1).await.expect("it is there").remove(0);
            self.hub.committed(&self.uid, &[Seen { record, event: Arc::new(event) }]);
        }
    }

    fn delta(&self, chunk: &str) {
        self.hub.delta(&self.uid, &v1::Delta { chunk: chunk.to_owned(), ..Default::default() });
    }
}

async fn word(follow: &mut Follow) -> String {
    match follow.next().await.expect("the journal is well") {
        Item::Record(record, _) => record.seq.to_string(),
        Item::Delta(delta) => delta.chunk.clone(),
        Item::TurnChanged => "changed".to_owned(),
    }
}

async fn words(follow: &mut Follow, count: usize) -> Vec<String> {
    let mut words = Vec::new();
    for _ in 0..count {
        words.push(word(follow).await);
    }
    words
}

/// Lets a viewer that has read all there is find that out, and wait at the end of the ring.
async fn wait_live(follow: &mut Follow) {
    assert_eq!(futures_util::future::poll_immediate(Box::pin(word(follow))).await, None);
}

#[tokio::test]
async fn a_session_that_nobody_follows_costs_nothing() {
    let mut hand = Hand::new(RingLimits::default()).await;
    hand.record("a", false).await;
    hand.delta("x");
    assert_eq!(hand.hub.watched(), 0);
    let (one, two) = (hand.follow(1), hand.follow(1));
    assert_eq!(hand.hub.watched(), 1);
    drop(one);
    assert_eq!(hand.hub.watched(), 1);
    drop(two);
    assert_eq!(hand.hub.watched(), 0);
}

#[tokio::test]
async fn what_is_in_the_journal_and_in_the_ring_comes_once() {
    let mut hand = Hand::new(RingLimits::default()).await;
    hand.record("a", false).await;
    let mut follow = hand.follow(1);
    // In the ring, and in the journal when it is read for the first time.
    hand.record("b", false).await;
    assert_eq!(words(&mut follow, 2).await, ["1", "2"]);
    wait_live(&mut follow).await;
    hand.delta("x");
    hand.record("c", false).await;
    hand.hub.turn_changed(&hand.uid);
    assert_eq!(words(&mut follow, 3).await, ["x", "3", "changed"]);
}

#[tokio::test]
async fn a_late_viewer_gets_every_record_and_is_told_that_it_missed_something() {
    let limits = RingLimits { items_max: 4, bytes_max: 1 << 20 };
    let mut hand = Hand::new(limits).await;
    hand.record("a", false).await;
    let mut follow = hand.follow(1);
    assert_eq!(word(&mut follow).await, "1");
    wait_live(&mut follow).await;
    hand.delta("x");
    assert_eq!(word(&mut follow).await, "x");
    for _ in 0..100 {
        hand.delta("lost");
        hand.record("b", false).await;
    }
    let records: Vec<_> = (2..=101).map(|seq| seq.to_string()).collect();
    assert_eq!(words(&mut follow, 100).await, records);
    assert_eq!(word(&mut follow).await, "changed");
    wait_live(&mut follow).await;
    hand.delta("z");
    assert_eq!(word(&mut follow).await, "z");
}

#[tokio::test]
async fn a_ring_is_bounded_in_number_and_in_bytes() {
    let limits = RingLimits { items_max: 8, bytes_max: 4096 };
    let mut hand = Hand::new(limits).await;
    let mut follow = hand.follow(1);
    wait_live(&mut follow).await;
    for n in 0..10_000 {
        hand.delta(&n.to_string());
    }
    hand.record(&"long ".repeat(10_000), false).await;
    // The record alone is above the bound: it comes from the journal, and nothing is left of the deltas.
    assert_eq!(words(&mut follow, 2).await, ["1", "changed"]);
    for n in 0..10_000 {
        hand.delta(&n.to_string());
    }
    hand.hub.turn_changed(&hand.uid);
    assert_eq!(word(&mut follow).await, "changed", "it lagged again and starts anew");
    hand.delta("last");
    assert_eq!(word(&mut follow).await, "last");
}

#[tokio::test]
async fn a_record_that_nobody_told_of_is_not_skipped() {
    let mut hand = Hand::new(RingLimits::default()).await;
    hand.record("a", false).await;
    let mut follow = hand.follow(1);
    assert_eq!(word(&mut follow).await, "1");
    wait_live(&mut follow).await;
    hand.record("from elsewhere", true).await;
    hand.record("b", false).await;
    assert_eq!(words(&mut follow, 2).await, ["2", "3"]);
}

#[tokio::test]
async fn dropping_a_wait_loses_nothing() {
    let mut hand = Hand::new(RingLimits::default()).await;
    let mut follow = hand.follow(1);
    for seq in 1..=50 {
        // Polled once and dropped, wherever it is.
        wait_live(&mut follow).await;
        hand.record("a", false).await;
        assert_eq!(word(&mut follow).await, seq.to_string());
    }
}
