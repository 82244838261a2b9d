//! The texts of model requests.

use inspan_journal::{Append, Error, Head, KeptRequest};
use inspan_wire::Digest;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::{Bed, append_to, head_after, kept};

/// Appends one record for each text, each kept as a difference to the one before it.
async fn keep_all(bed: &Bed, uid: &str, texts: &[String]) {
    let mut head = bed.head(uid).await;
    let mut base: Option<&str> = None;
    for text in texts {
        let append = Append { requests: vec![kept(text, base)], ..append_to(uid, head, &["{}"]) };
        head = head_after(&append);
        bed.append(append).await.unwrap();
        base = Some(text);
    }
}

async fn check_all(bed: &Bed, texts: &[String]) {
    for text in texts {
        let read = bed.journal.request(Digest::of(text.as_bytes())).await.unwrap();
        assert_eq!(read.as_deref(), Some(text.as_str()));
    }
}

pub(crate) async fn a_request_is_kept_byte_for_byte(bed: Bed) {
    bed.create("a").await;
    let texts: Vec<String> =
        ["{\"ä\":\"漢字\"}", "{\"ö\":\"漢語\"}", "", "{\"x\":[1,2,3]}", "\u{1F600}"].map(str::to_owned).into();
    keep_all(&bed, "a", &texts).await;
    check_all(&bed, &texts).await;
    assert_eq!(bed.journal.request(Digest::of(b"never asked")).await.unwrap(), None);
    let bed = bed.reopen();
    check_all(&bed, &texts).await;
}

pub(crate) async fn a_request_that_lies_is_refused(bed: Bed) {
    bed.create("a").await;
    let lie = KeptRequest { digest: Digest::of(b"[1]"), text: "[2]".into(), base: None };
    let refused = bed.append(Append { requests: vec![lie], ..append_to("a", Head::default(), &["{}"]) }).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    assert_eq!(bed.head("a").await.seq, 0);
}

/// Random edits: at the start, in the middle, at the end, back to an earlier text.
pub(crate) async fn random_edits_come_back(bed: Bed) {
    let edit = (0.0..1.0_f64, 0.0..0.3_f64, "[a-c]{0,40}");
    let script = prop::collection::vec(edit, 1..40);
    let mut runner = TestRunner::deterministic();
    for case in 0..12 {
        let uid = format!("s{case}");
        bed.create(&uid).await;
        let mut text = "abcabcabc".repeat(20);
        let mut texts = vec![text.clone()];
        for (at, removed, inserted) in script.new_tree(&mut runner).unwrap().current() {
            let from = (text.len() as f64 * at) as usize;
            let to = (from + (text.len() as f64 * removed) as usize).min(text.len());
            text.replace_range(from..to, &inserted);
            texts.push(text.clone());
        }
        texts.push(texts[0].clone());
        keep_all(&bed, &uid, &texts).await;
        check_all(&bed, &texts).await;
    }
}

/// A conversation of a thousand requests, each a little longer than the one before: about 150 MB of
/// text, stored in a small multiple of the last one.
pub(crate) async fn a_growing_conversation_is_stored_in_linear_space(bed: Bed) {
    bed.create("a").await;
    let mut text = "[".to_owned();
    let texts: Vec<String> = (0..1000)
        .map(|n| {
            text.push_str(&format!("{{\"role\":\"user\",\"text\":\"{n}{}\"}},", "word ".repeat(50)));
            format!("{text}]")
        })
        .collect();
    let size = texts.last().unwrap().len() as u64;
    let bed = bed.reopen();
    let before = bed.bytes();
    keep_all(&bed, "a", &texts).await;
    let bed = bed.reopen();
    if let (Some(before), Some(after)) = (before, bed.bytes()) {
        // Records and rows of a thousand appends take some 400 KB of it.
        assert!(after - before < 4 * size, "{} bytes for {size}", after - before);
    }
    for text in texts.iter().step_by(97).chain(texts.last()) {
        check_all(&bed, std::slice::from_ref(text)).await;
    }
}

pub(crate) async fn the_same_request_twice_is_kept_once(bed: Bed) {
    bed.create("a").await;
    let text = format!("[\"{}\"]", "x".repeat(2_000_000));
    keep_all(&bed, "a", std::slice::from_ref(&text)).await;
    let bed = bed.reopen();
    let before = bed.bytes();
    keep_all(&bed, "a", &[text.clone(), text.clone()]).await;
    bed.create("b").await;
    keep_all(&bed, "b", std::slice::from_ref(&text)).await;
    let bed = bed.reopen();
    if let (Some(before), Some(after)) = (before, bed.bytes()) {
        assert!(after - before < 100_000, "{} bytes more", after - before);
    }
    check_all(&bed, &[text]).await;
}
