//! Reading records and turns back.

use bytes::Bytes;
use inspan_journal::{Append, Error, NewRecord, TurnMark};
use inspan_wire::Digest;

use super::{Bed, append_to, state};

pub(crate) async fn records_keep_to_limit_and_range(bed: Bed) {
    bed.session_of("a", 20).await;
    let uid = "a".into();
    for (from, to, limit, expect) in [
        (1, 20, 100, 1..=20),
        (1, i64::MAX, 100, 1..=20),
        (5, 9, 100, 5..=9),
        (5, 9, 2, 5..=6),
        (20, 20, 1, 20..=20),
        (-5, 2, 9, 1..=2),
    ] {
        let seqs: Vec<i64> = bed.journal.records(&uid, from, to, limit).await.unwrap().iter().map(|r| r.seq).collect();
        assert_eq!(seqs, expect.collect::<Vec<_>>(), "{from} to {to}, limit {limit}");
    }
    for (from, to, limit) in [(21, 30, 9), (5, 4, 9), (1, 20, 0)] {
        assert_eq!(bed.journal.records(&uid, from, to, limit).await.unwrap(), []);
    }
}

/// Sessions that grow side by side, so that neither lies in one piece.
pub(crate) async fn any_part_of_a_long_session_reads(bed: Bed) {
    bed.session_of("a", 1).await;
    bed.session_of("b", 1).await;
    for count in 1..=13 {
        bed.grow("a", count).await;
        bed.grow("b", 3).await;
    }
    let bed = bed.reopen();
    bed.grow("a", 5).await;
    let whole = bed.records("a").await;
    assert_eq!(whole.len(), 97);
    for from in 1..=97 {
        for to in from..=97 {
            let part = bed.journal.records(&"a".into(), from, to, 50).await.unwrap();
            let end = to.min(from + 49) as usize;
            assert_eq!(part, whole[from as usize - 1..end], "{from} to {to}");
        }
    }
}

pub(crate) async fn an_answer_keeps_to_its_bytes(bed: Bed) {
    bed.create("a").await;
    let mebibyte = format!("{{\"text\":\"{}\"}}", "x".repeat(1024 * 1024));
    for _ in 0..6 {
        let append = append_to("a", bed.head("a").await, &[&mebibyte]);
        bed.append(append).await.unwrap();
    }
    let huge = format!("{{\"text\":\"{}\"}}", "y".repeat(5 * 1024 * 1024));
    bed.append(append_to("a", bed.head("a").await, &[&huge])).await.unwrap();
    let uid = "a".into();
    assert_eq!(bed.journal.records(&uid, 1, 7, 100).await.unwrap().len(), 4, "four are just over 4 MiB");
    assert_eq!(bed.journal.records(&uid, 7, 7, 100).await.unwrap().len(), 1, "one is always given");
    assert_eq!(bed.records("a").await.len(), 7);
}

/// The store does not hash what it is given; a reader never gets a record that does not hold.
pub(crate) async fn a_lying_hash_is_found_when_it_is_read(bed: Bed) {
    bed.session_of("a", 2).await;
    let head = bed.head("a").await;
    let mut append = append_to("a", head, &["{}"]);
    append.records = vec![NewRecord {
        seq: 3,
        prev_hash: head.hash,
        content_hash: Digest::of(b"a lie"),
        event: Bytes::from_static(b"{}"),
    }];
    bed.append(append).await.unwrap();
    let damaged = bed.journal.records(&"a".into(), 1, 3, 10).await;
    assert!(matches!(&damaged, Err(Error::Damaged { session, seq: 3, .. }) if session.as_str() == "a"), "{damaged:?}");
    assert_eq!(bed.journal.records(&"a".into(), 1, 2, 10).await.unwrap().len(), 2);
}

pub(crate) async fn the_turn_of_a_seq_is_the_last_that_starts_before(bed: Bed) {
    bed.session_of("a", 1).await;
    for first_seq in [2, 5] {
        let turn = TurnMark { execution_id: format!("exec-{first_seq}"), first_seq, before: state(first_seq) };
        let append = Append { turn: Some(turn), ..append_to("a", bed.head("a").await, &["{}", "{}", "{}"]) };
        bed.append(append).await.unwrap();
    }
    let uid = "a".into();
    for (at, expect) in [(0, None), (1, None), (2, Some(2)), (4, Some(2)), (5, Some(5)), (7, Some(5)), (99, Some(5))] {
        let turn = bed.journal.turn_at(&uid, at).await.unwrap();
        let expect = expect.map(|first_seq| TurnMark {
            execution_id: format!("exec-{first_seq}"),
            first_seq,
            before: state(first_seq),
        });
        assert_eq!(turn, expect, "at {at}");
    }
}

/// R-LIST-3: everything survives a restart.
pub(crate) async fn reopening_gives_the_same(bed: Bed) {
    bed.session_of("a", 10).await;
    let turn = TurnMark { execution_id: "e".into(), first_seq: 11, before: state(3) };
    let text = "{\"messages\":[]}";
    let mut append = Append { turn: Some(turn.clone()), ..append_to("a", bed.head("a").await, &[text, "{}"]) };
    append.requests.push(super::kept(text, None));
    bed.append(append).await.unwrap();
    bed.fork("a", 7, &["b"]).await.unwrap();
    bed.create("empty").await;
    let before = (bed.get("a").await, bed.get("b").await, bed.records("a").await, bed.records("b").await);
    let bed = bed.reopen();
    assert_eq!((bed.get("a").await, bed.get("b").await, bed.records("a").await, bed.records("b").await), before);
    assert_eq!(bed.get("empty").await.head.seq, 0);
    assert_eq!(bed.journal.turn_at(&"a".into(), 12).await.unwrap(), Some(turn));
    let kept = bed.journal.request(Digest::of(text.as_bytes())).await.unwrap();
    assert_eq!(kept.as_deref(), Some(text));
    bed.grow("a", 1).await;
}
