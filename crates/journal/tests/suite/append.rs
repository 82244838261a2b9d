//! Appending: compare-and-swap, fences, projections, time.

use std::sync::Arc;

use inspan_journal::{Append, Error, FenceRule, Head};
use inspan_wire::{Digest, SessionUid};

use super::{Bed, START_NS, append_to, head_after, new_session, seal, state, text, together};

pub(crate) async fn an_append_is_there_when_it_is_acknowledged(bed: Bed) {
    bed.create("a").await;
    bed.clock.set(START_NS + 1_999_999);
    let append = append_to("a", Head::default(), &["{}", "{\"n\":1}"]);
    let appended = bed.append(append.clone()).await.unwrap();
    assert_eq!((appended.fence, appended.ts_ms), (1, START_NS / 1_000_000 + 1));

    let records = bed.records("a").await;
    assert_eq!(records.len(), 2);
    for (record, new) in records.iter().zip(&append.records) {
        assert_eq!((record.seq, record.content_hash, &record.event), (new.seq, new.content_hash, &new.event));
        assert_eq!((record.fence, record.ts_ms), (1, appended.ts_ms));
    }
    let session = bed.get("a").await;
    assert_eq!(session.head, head_after(&append));
    assert_eq!((session.fence, session.create_ns, session.update_ns), (1, START_NS, START_NS + 1_999_999));
}

/// R-CAS-1: the head is compared first.
pub(crate) async fn head_is_checked_before_the_fence(bed: Bed) {
    bed.session_of("a", 3).await;
    bed.journal.new_fence(&"a".into()).await.unwrap();
    let head = bed.head("a").await;
    let behind = Head { seq: 2, hash: bed.hash_at("a", 2).await };
    let session = SessionUid::from("a");
    assert_eq!(
        bed.append(append_to("a", behind, &["{}"])).await,
        Err(Error::Conflict { session: session.clone(), expected: 2, actual: 3 })
    );
    assert_eq!(bed.append(append_to("a", head, &["{}"])).await, Err(Error::Fenced { session, held: 1, current: 2 }));
    assert_eq!(bed.head("a").await, head);
}

/// R-CAS-1: a fence above the current one is accepted and becomes the current one.
pub(crate) async fn a_passed_fence_is_refused_and_a_higher_one_taken(bed: Bed) {
    bed.session_of("a", 1).await;
    let held = |fence, head| Append { fence: FenceRule::Held(fence), ..append_to("a", head, &["{}"]) };
    let appended = bed.append(held(7, bed.head("a").await)).await.unwrap();
    assert_eq!(appended.fence, 7);
    let refused = bed.append(held(6, bed.head("a").await)).await;
    assert_eq!(refused, Err(Error::Fenced { session: "a".into(), held: 6, current: 7 }));
    bed.append(held(7, bed.head("a").await)).await.unwrap();
    let fences: Vec<i64> = bed.records("a").await.iter().map(|r| r.fence).collect();
    assert_eq!(fences, [1, 7, 7]);
}

/// R-CAS-2, in the append's own commit.
pub(crate) async fn the_next_fence_is_taken_with_the_append(bed: Bed) {
    bed.create("a").await;
    for fence in 1..4 {
        let append = Append { fence: FenceRule::Next, ..append_to("a", bed.head("a").await, &["{}"]) };
        assert_eq!(bed.append(append).await.unwrap().fence, fence);
        assert_eq!(bed.get("a").await.fence, fence);
    }
    // A refused append takes none.
    let stale = Append { fence: FenceRule::Next, ..append_to("a", Head::default(), &["{}"]) };
    bed.append(stale).await.unwrap_err();
    assert_eq!(bed.get("a").await.fence, 3);
}

/// R-CAS-2: the zombie's head is right and its fence is passed.
pub(crate) async fn a_new_fence_stops_a_zombie(bed: Bed) {
    bed.create("a").await;
    let zombie = bed.journal.new_fence(&"a".into()).await.unwrap();
    assert_eq!(zombie, 1);
    bed.clock.set(START_NS + 5);
    let owner = bed.journal.new_fence(&"a".into()).await.unwrap();
    assert_eq!(owner, 2);
    assert_eq!(bed.get("a").await.update_ns, START_NS, "a fence alone is no append");
    let append = |fence| Append { fence: FenceRule::Held(fence), ..append_to("a", Head::default(), &["{}"]) };
    let refused = bed.append(append(zombie)).await;
    assert_eq!(refused, Err(Error::Fenced { session: "a".into(), held: 1, current: 2 }));
    bed.append(append(owner)).await.unwrap();
}

pub(crate) async fn malformed_appends_are_refused(bed: Bed) {
    bed.session_of("a", 2).await;
    let head = bed.head("a").await;
    let good = append_to("a", head, &["{}", "{}"]);
    let mut gap = good.clone();
    gap.records[1].seq += 1;
    let mut unlinked = good.clone();
    unlinked.records[1].prev_hash = Some(Digest::of(b"other"));
    let mut foreign = good.clone();
    foreign.records = seal(Head { hash: Some(Digest::of(b"other")), ..head }, &["{}"]);
    let empty = Append { records: Vec::new(), ..good.clone() };
    let turn = inspan_journal::TurnMark { execution_id: "e".into(), first_seq: head.seq, before: state(0) };
    let early_turn = Append { turn: Some(turn), ..good.clone() };
    for bad in [gap, unlinked, foreign, empty, early_turn] {
        let refused = bed.append(bad).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    assert_eq!(bed.head("a").await, head);
    bed.append(good).await.unwrap();
}

/// Two drivers of one session: for each seq exactly one of a hundred writers wins.
pub(crate) async fn one_of_a_hundred_racers_wins_each_seq(bed: Bed) {
    bed.create("a").await;
    let bed = Arc::new(bed);
    for seq in 1..=5 {
        let head = bed.head("a").await;
        let racers = (0..100).map(|racer| {
            let bed = Arc::clone(&bed);
            let text = format!("{{\"racer\":{racer}}}");
            tokio::spawn(async move { bed.append(append_to("a", head, &[&text])).await })
        });
        let mut won = 0;
        for racer in racers.collect::<Vec<_>>() {
            match racer.await.unwrap() {
                Ok(_) => won += 1,
                Err(Error::Conflict { expected, actual, .. }) => assert_eq!((expected, actual), (seq - 1, seq)),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(won, 1);
    }
    assert_eq!(bed.records("a").await.len(), 5);
}

/// Calls that share a commit succeed or fail each by itself.
pub(crate) async fn a_refused_append_does_not_stop_the_others(bed: Bed) {
    let bed = Arc::new(bed);
    for n in 0..50 {
        bed.session_of(&format!("s{n}"), 1).await;
    }
    let mut calls = Vec::new();
    for n in 0..50 {
        let uid = format!("s{n}");
        let head = bed.head(&uid).await;
        let mut append = append_to(&uid, head, &["{}"]);
        match n % 5 {
            1 => append = append_to(&uid, Head::default(), &["{}"]),
            2 => append.fence = FenceRule::Held(0),
            3 => append.session = "nobody".into(),
            _ => {}
        }
        let bed = Arc::clone(&bed);
        calls.push(tokio::spawn(async move { (n, bed.append(append).await) }));
    }
    for call in calls {
        let (n, outcome) = call.await.unwrap();
        match n % 5 {
            1 => assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}"),
            2 => assert!(matches!(outcome, Err(Error::Fenced { .. })), "{outcome:?}"),
            3 => assert_eq!(outcome, Err(Error::NotFound("nobody".into()))),
            _ => assert_eq!(outcome.unwrap().fence, 1),
        }
        let records = bed.records(&format!("s{n}")).await.len();
        assert_eq!(records, if matches!(n % 5, 0 | 4) { 2 } else { 1 });
    }
}

/// Appends of one session that wait together are carried out in the order in which they came.
pub(crate) async fn appends_of_one_session_queue_up_in_order(bed: Bed) {
    bed.create("a").await;
    let mut head = Head::default();
    let mut appends = Vec::new();
    for n in 1..=40 {
        let append = append_to("a", head, &[&text(n)]);
        head = head_after(&append);
        appends.push(append);
    }
    let calls = appends.into_iter().map(|append| bed.append(append));
    for outcome in together(calls).await {
        outcome.unwrap();
    }
    assert_eq!(bed.records("a").await.len(), 40);
    assert_eq!(bed.get("a").await.state, state(40));
}

/// R-LIFE-2 and R-LIFE-3: state, head and update time move in the records' commit, and only then.
pub(crate) async fn projections_move_with_the_records(bed: Bed) {
    bed.create("a").await;
    assert_eq!(bed.get("a").await.state, state(0));
    for n in 1..=6 {
        bed.clock.set(START_NS + n);
        bed.grow("a", 1).await;
        let session = bed.get("a").await;
        assert_eq!((session.state, session.head.seq, session.update_ns), (state(n), n, START_NS + n));
    }
    bed.append(append_to("a", Head::default(), &["{}"])).await.unwrap_err();
    let session = bed.get("a").await;
    assert_eq!((session.state, session.update_ns), (state(6), START_NS + 6));
}

pub(crate) async fn time_never_goes_backwards(bed: Bed) {
    bed.session_of("a", 1).await;
    bed.clock.set(START_NS - 3_600_000_000_000);
    bed.grow("a", 1).await;
    let bed = bed.reopen();
    bed.grow("a", 1).await;
    let session = bed.journal.create(new_session("b", "p")).await.unwrap();
    let times: Vec<i64> = bed.records("a").await.iter().map(|r| r.ts_ms).collect();
    assert_eq!(times, [START_NS / 1_000_000; 3]);
    assert_eq!(session.create_ns, START_NS);
}

pub(crate) async fn unknown_sessions_are_not_found(bed: Bed) {
    let uid = SessionUid::from("nobody");
    let missing = || Error::NotFound(uid.clone());
    assert_eq!(bed.journal.session(&uid).await, Ok(None));
    assert_eq!(bed.append(append_to("nobody", Head::default(), &["{}"])).await, Err(missing()));
    assert_eq!(bed.journal.new_fence(&uid).await, Err(missing()));
    assert_eq!(bed.journal.records(&uid, 1, 9, 9).await, Err(missing()));
    assert_eq!(bed.journal.turn_at(&uid, 1).await, Err(missing()));
    assert_eq!(bed.journal.names_blob(&uid, Digest::of(b"x")).await, Err(missing()));
    assert_eq!(bed.journal.delete(&uid).await, Err(missing()));
    assert_eq!(bed.fork_of_nothing("nobody").await, Err(missing()));
}

/// R-HASH-7.
pub(crate) async fn the_hash_covers_neither_fence_nor_time_nor_session(bed: Bed) {
    bed.session_of("a", 3).await;
    bed.journal.create(new_session("b", "q")).await.unwrap();
    bed.clock.set(START_NS + 9_000_000_000);
    bed.journal.new_fence(&"b".into()).await.unwrap();
    let mut head = Head::default();
    for n in 1..=3 {
        let append = Append { fence: FenceRule::Next, ..append_to("b", head, &[&text(n)]) };
        head = head_after(&append);
        bed.append(append).await.unwrap();
    }
    let (a, b) = (bed.records("a").await, bed.records("b").await);
    for (a, b) in a.iter().zip(&b) {
        assert_eq!((a.content_hash, a.prev_hash), (b.content_hash, b.prev_hash));
        assert_ne!((a.fence, a.ts_ms), (b.fence, b.ts_ms));
    }
}

impl Bed {
    async fn fork_of_nothing(&self, parent: &str) -> Result<(), Error> {
        let children = vec![super::child("child", 0, None)];
        self.journal.fork(inspan_journal::Fork { parent: parent.into(), at_seq: 0, children }).await.map(drop)
    }
}
