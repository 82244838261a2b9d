//! Deleting: hidden for ever, and what nobody needs is dropped.

use bytes::Bytes;
use inspan_journal::{Append, Error};
use inspan_wire::Digest;

use super::{Bed, append_to, kept, new_session};

/// Appends a record that names a payload; gives its digest.
async fn append_blob(bed: &Bed, uid: &str, payload: &'static str) -> Digest {
    let digest = bed.journal.blobs().put(Bytes::from_static(payload.as_bytes())).await.unwrap();
    let text = format!("{{\"uri\":\"sha256:{digest}\"}}");
    let append = Append { blobs: vec![digest], ..append_to(uid, bed.head(uid).await, &[&text]) };
    bed.append(append).await.unwrap();
    digest
}

/// Appends a record that carries a request's hash.
async fn append_request(bed: &Bed, uid: &str, text: &str, base: Option<&str>) -> Digest {
    let request = kept(text, base);
    let digest = request.digest;
    let record = format!("{{\"input_hash\":\"{digest}\"}}");
    let append = Append { requests: vec![request], ..append_to(uid, bed.head(uid).await, &[&record]) };
    bed.append(append).await.unwrap();
    digest
}

async fn delete(bed: &Bed, uid: &str) {
    bed.journal.delete(&uid.into()).await.unwrap();
}

async fn uids(bed: &Bed) -> Vec<String> {
    bed.journal.uids(None, 100).await.unwrap().iter().map(ToString::to_string).collect()
}

pub(crate) async fn a_deleted_session_is_gone_and_its_uid_taken(bed: Bed) {
    bed.session_of("a", 3).await;
    bed.session_of("b", 1).await;
    let head = bed.head("a").await;
    delete(&bed, "a").await;
    let bed = bed.reopen();
    let gone = || Error::NotFound("a".into());
    assert_eq!(bed.journal.session(&"a".into()).await, Ok(None));
    assert_eq!(bed.journal.records(&"a".into(), 1, 3, 9).await, Err(gone()));
    assert_eq!(bed.append(append_to("a", head, &["{}"])).await, Err(gone()));
    assert_eq!(bed.journal.new_fence(&"a".into()).await, Err(gone()));
    assert_eq!(bed.journal.delete(&"a".into()).await, Err(gone()));
    assert_eq!(bed.journal.create(new_session("a", "p")).await, Err(Error::Exists("a".into())));
    assert_eq!(uids(&bed).await, ["b"]);
    assert_eq!(bed.records("b").await.len(), 1);
}

pub(crate) async fn what_a_fork_reads_stays(bed: Bed) {
    bed.session_of("a", 9).await;
    bed.fork("a", 4, &["b"]).await.unwrap();
    bed.fork("a", 6, &["c"]).await.unwrap();
    let (b, c) = (bed.records("b").await, bed.records("c").await);
    delete(&bed, "a").await;
    assert_eq!(uids(&bed).await, ["a", "b", "c"], "a deleted session with children is walked through");
    let bed = bed.reopen();
    assert_eq!((bed.records("b").await, bed.records("c").await), (b, c));
    assert_eq!(bed.get("b").await.parent, Some(("a".into(), 4)));
    bed.grow("c", 2).await;
    assert_eq!(bed.fork("c", 2, &["d"]).await.unwrap()[0].head.seq, 3);
}

pub(crate) async fn a_fork_keeps_its_part_of_a_long_session(bed: Bed) {
    bed.session_of("a", 100).await;
    for (child, at) in [("b", 31), ("c", 32), ("d", 70)] {
        bed.fork("a", at, &[child]).await.unwrap();
    }
    let before = [bed.records("b").await, bed.records("c").await, bed.records("d").await];
    delete(&bed, "a").await;
    let bed = bed.reopen();
    assert_eq!([bed.records("b").await, bed.records("c").await, bed.records("d").await], before);
    delete(&bed, "d").await;
    bed.grow("c", 40).await;
    assert_eq!(bed.records("b").await, before[0]);
    assert_eq!(bed.records("c").await[..33], before[1]);
}

pub(crate) async fn the_last_fork_takes_its_parents_along(bed: Bed) {
    bed.session_of("a", 3).await;
    let digest = append_blob(&bed, "a", "kept for the forks").await;
    bed.fork("a", 4, &["b"]).await.unwrap();
    bed.fork("b", 5, &["c", "d"]).await.unwrap();
    delete(&bed, "a").await;
    delete(&bed, "b").await;
    delete(&bed, "c").await;
    assert_eq!(uids(&bed).await, ["a", "b", "d"]);
    assert_eq!(bed.blobs.digests(), [digest]);
    delete(&bed, "d").await;
    assert_eq!(uids(&bed).await, [""; 0]);
    assert_eq!(bed.blobs.digests(), []);
    for uid in ["a", "b", "c", "d"] {
        assert_eq!(bed.journal.create(new_session(uid, "p")).await, Err(Error::Exists(uid.into())));
    }
}

/// A deleted child that only a lower fork reads through needs less of its own parent.
pub(crate) async fn a_fork_below_keeps_less(bed: Bed) {
    bed.session_of("a", 2).await;
    let low = append_blob(&bed, "a", "low").await;
    let high = append_blob(&bed, "a", "high").await;
    bed.fork("a", 4, &["b"]).await.unwrap();
    bed.fork("b", 3, &["c"]).await.unwrap();
    delete(&bed, "a").await;
    assert_eq!(bed.blobs.digests().len(), 2, "b reads both");
    delete(&bed, "b").await;
    assert_eq!(bed.blobs.digests(), [low], "c reads up to 3 only");
    assert!(bed.journal.names_blob(&"c".into(), low).await.unwrap());
    assert!(!bed.journal.names_blob(&"c".into(), high).await.unwrap());
    assert_eq!(bed.records("c").await.len(), 4);
}

pub(crate) async fn blobs_nobody_names_go(bed: Bed) {
    bed.create("a").await;
    bed.create("b").await;
    let shared = append_blob(&bed, "a", "shared").await;
    let own = append_blob(&bed, "a", "own").await;
    append_blob(&bed, "b", "shared").await;
    assert_eq!(bed.journal.blobs().get(own).await.unwrap().as_deref(), Some(&b"own"[..]));
    delete(&bed, "a").await;
    assert_eq!(bed.blobs.digests(), [shared]);
    delete(&bed, "b").await;
    assert_eq!(bed.blobs.digests(), []);
}

pub(crate) async fn blobs_are_seen_through_the_lineage_only(bed: Bed) {
    bed.session_of("a", 1).await;
    let early = append_blob(&bed, "a", "early").await;
    let late = append_blob(&bed, "a", "late").await;
    bed.fork("a", 2, &["b"]).await.unwrap();
    let own = append_blob(&bed, "b", "own").await;
    bed.create("stranger").await;
    for (uid, expect) in [("a", [true, true, false]), ("b", [true, false, true]), ("stranger", [false; 3])] {
        for (digest, expect) in [early, late, own].into_iter().zip(expect) {
            assert_eq!(bed.journal.names_blob(&uid.into(), digest).await.unwrap(), expect, "{uid} and {digest}");
        }
    }
    // In one append of several records, a blob belongs to the record that names it.
    let inner = bed.journal.blobs().put(Bytes::from_static(b"inner")).await.unwrap();
    let text = format!("{{\"uri\":\"sha256:{inner}\"}}");
    let append = append_to("a", bed.head("a").await, &["{}", &text, "{}"]);
    bed.append(Append { blobs: vec![inner], ..append }).await.unwrap();
    bed.fork("a", 4, &["before"]).await.unwrap();
    bed.fork("a", 5, &["after"]).await.unwrap();
    assert!(!bed.journal.names_blob(&"before".into(), inner).await.unwrap());
    assert!(bed.journal.names_blob(&"after".into(), inner).await.unwrap());
}

/// A payload is durable once it is put: a delete of the only session that named it must not take it
/// from a writer that is about to name it.
pub(crate) async fn a_payload_between_put_and_append_stays(bed: Bed) {
    bed.create("a").await;
    bed.create("b").await;
    let digest = append_blob(&bed, "a", "shared").await;
    let again = bed.journal.blobs().put(Bytes::from_static(b"shared")).await.unwrap();
    assert_eq!(again, digest);
    delete(&bed, "a").await;
    assert_eq!(bed.blobs.digests(), [digest]);
    let text = format!("{{\"uri\":\"sha256:{digest}\"}}");
    let append = append_to("b", bed.head("b").await, &[&text]);
    bed.append(Append { blobs: vec![digest], ..append }).await.unwrap();
    bed.create("c").await;
    delete(&bed, "c").await;
    assert_eq!(bed.blobs.digests(), [digest], "named again");
    delete(&bed, "b").await;
    assert_eq!(bed.blobs.digests(), []);
}

pub(crate) async fn requests_nobody_carries_go(bed: Bed) {
    bed.create("a").await;
    bed.create("b").await;
    let own = append_request(&bed, "a", "[1]", None).await;
    let shared = append_request(&bed, "a", "[2]", None).await;
    append_request(&bed, "b", "[2]", None).await;
    delete(&bed, "a").await;
    assert_eq!(bed.journal.request(own).await.unwrap(), None);
    assert_eq!(bed.journal.request(shared).await.unwrap().as_deref(), Some("[2]"));
    delete(&bed, "b").await;
    assert_eq!(bed.journal.request(shared).await.unwrap(), None);
}

/// A request of another session may be the difference to one of a deleted session.
pub(crate) async fn a_base_stays_for_its_differences(bed: Bed) {
    bed.session_of("a", 1).await;
    let long = format!("[\"{}\"", "x".repeat(5000));
    let texts: Vec<String> = (0..6).map(|n| format!("{long},{n},{n}]")).collect();
    for n in 0..4 {
        append_request(&bed, "a", &texts[n], n.checked_sub(1).map(|base| texts[base].as_str())).await;
    }
    bed.fork("a", 3, &["b"]).await.unwrap();
    let last = append_request(&bed, "b", &texts[5], Some(&texts[3])).await;
    delete(&bed, "a").await;
    assert_eq!(bed.journal.request(last).await.unwrap().as_deref(), Some(texts[5].as_str()));
    let second = Digest::of(texts[1].as_bytes());
    assert_eq!(bed.journal.request(second).await.unwrap().as_deref(), Some(texts[1].as_str()));
    delete(&bed, "b").await;
    for text in &texts {
        assert_eq!(bed.journal.request(Digest::of(text.as_bytes())).await.unwrap(), None);
    }
}

/// More records than one step of the removal takes.
pub(crate) async fn a_long_session_is_dropped(bed: Bed) {
    bed.create("a").await;
    for _ in 0..5 {
        let texts = vec!["{}"; 1500];
        bed.append(append_to("a", bed.head("a").await, &texts)).await.unwrap();
    }
    bed.fork("a", 10, &["b"]).await.unwrap();
    delete(&bed, "a").await;
    assert_eq!(bed.records("b").await.len(), 11);
    delete(&bed, "b").await;
    assert_eq!(uids(&bed).await, [""; 0]);
}
