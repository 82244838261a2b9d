//! The log, cut at every byte of its last commit and damaged everywhere else.

use std::fs;
use std::path::Path;

use inspan_journal::{Error, Head, Journal, sqlite};

use super::{file, folder, open, options, wal};
use crate::suite::{append_to, head_after, new_session};

const FRAME: usize = 24 + 8192;

/// The bytes of a database and of its log, taken while the store that wrote them was open.
struct Taken {
    db: Vec<u8>,
    log: Vec<u8>,
    /// How long the log was before the last append.
    before_last: usize,
}

/// Five records, the last one alone in its commit.
async fn taken() -> Taken {
    let folder = folder();
    let store = open(folder.path());
    store.create(new_session("a", "p")).await.unwrap();
    let mut head = Head::default();
    let mut before_last = 0;
    for n in 1..=5 {
        before_last = fs::metadata(wal(folder.path())).unwrap().len() as usize;
        let append = append_to("a", head, &[&format!("{{\"record\":{n}}}")]);
        head = head_after(&append);
        store.append(append).await.unwrap();
    }
    let read = |path| fs::read(path).unwrap();
    Taken { db: read(file(folder.path())), log: read(wal(folder.path())), before_last }
}

fn put(folder: &Path, db: &[u8], log: &[u8]) {
    fs::write(file(folder), db).unwrap();
    fs::write(wal(folder), log).unwrap();
}

async fn head_of(store: &sqlite::Store) -> i64 {
    let records = store.records(&"a".into(), 1, 99, 99).await.unwrap();
    crate::suite::check_chain(&records, store.session(&"a".into()).await.unwrap().unwrap().head);
    records.len() as i64
}

/// From one cut to the next, in bytes, when not the usual number: 1 is every byte.
const CUT_STEP: &str = "INSPAN_TEST_CUT_STEP";

/// Torn tail: what was acknowledged before the cut is there, the rest is cut and noted. Opening a store takes
/// too long to do it at every byte each time; what is said of the log is tested there, beside the code.
#[tokio::test]
async fn a_torn_end_is_cut_and_noted() {
    let Taken { db, log, before_last } = taken().await;
    let frames = (log.len() - before_last) / FRAME;
    assert!(frames >= 2, "the last commit is {frames} frames long");
    let boundaries = (0..=frames).map(|n| before_last + n * FRAME);
    let near = boundaries.flat_map(|at| [at.saturating_sub(1), at, at + 1, at + 24]);
    let step = std::env::var(CUT_STEP).map_or(61, |text| text.parse().expect("a number of bytes"));
    let mut cuts: Vec<usize> = (before_last..log.len()).step_by(step).chain(near).collect();
    cuts.retain(|cut| (before_last..=log.len()).contains(cut));
    for cut in cuts {
        let folder = folder();
        put(folder.path(), &db, &log[..cut]);
        let store = open(folder.path());
        let (expect, torn) = match cut {
            _ if cut == log.len() => (5, false),
            _ => (4, cut > before_last),
        };
        assert_eq!(head_of(&store).await, expect, "cut at {cut}");
        assert_eq!(store.recovered().is_some(), torn, "cut at {cut} of {before_last}..{}", log.len());
        // It goes on from there.
        let head = store.session(&"a".into()).await.unwrap().unwrap().head;
        store.append(append_to("a", head, &["{}"])).await.unwrap();
    }
}

/// A bad byte in the last commit looks like a torn end; the commits before it are there.
#[tokio::test]
async fn a_bad_last_commit_is_cut_and_noted() {
    let Taken { db, mut log, before_last } = taken().await;
    log[before_last + 100] ^= 1;
    let folder = folder();
    put(folder.path(), &db, &log);
    let store = open(folder.path());
    assert_eq!(head_of(&store).await, 4);
    let torn = store.recovered().unwrap();
    assert_eq!(torn.bytes as usize, log.len() - before_last);
}

/// Damage with acknowledged commits behind it: the store does not open, names the frame, and leaves the
/// files as they are.
#[tokio::test]
async fn damage_in_the_middle_is_refused_and_named() {
    let Taken { db, log, before_last } = taken().await;
    let frames = (before_last - 32) / FRAME;
    // Page number, salt, checksum, the page's first and last byte.
    for frame in 0..frames {
        for offset in [3, 9, 13, 17, 22, 24, FRAME - 1] {
            let at = 32 + frame * FRAME + offset;
            let mut bad = log.clone();
            bad[at] ^= 0x10;
            let folder = folder();
            put(folder.path(), &db, &bad);
            let refused = sqlite::Store::open(options(folder.path())).map(drop).unwrap_err();
            let Error::Io(text) = &refused else { panic!("{refused}") };
            assert!(text.contains(&format!("frame {} does not hold", frame + 1)), "byte {at}: {text}");
            assert!(text.contains("journal.db-wal") && text.contains("inspan verify"), "{text}");
            assert_eq!(fs::read(wal(folder.path())).unwrap(), bad);
        }
    }
}

#[tokio::test]
async fn a_damaged_header_over_good_frames_is_refused() {
    let Taken { db, log, .. } = taken().await;
    for at in 0..32 {
        let mut bad = log.clone();
        bad[at] ^= 0x10;
        let folder = folder();
        put(folder.path(), &db, &bad);
        let refused = sqlite::Store::open(options(folder.path())).map(drop).unwrap_err().to_string();
        assert!(refused.contains("header"), "byte {at}: {refused}");
    }
}

/// What is left can be read on request; nothing is written, also not by closing.
#[tokio::test]
async fn a_damaged_store_opens_for_reading() {
    let Taken { db, log, before_last } = taken().await;
    let mut bad = log.clone();
    let second_to_last = before_last - 100;
    bad[second_to_last] ^= 1;
    let folder = folder();
    put(folder.path(), &db, &bad);
    sqlite::Store::open(options(folder.path())).map(drop).unwrap_err();
    let store = sqlite::Store::open_damaged(options(folder.path())).unwrap();
    assert_eq!(head_of(&store).await, 3);
    let head = store.session(&"a".into()).await.unwrap().unwrap().head;
    let refused = store.append(append_to("a", head, &["{}"])).await;
    assert!(matches!(&refused, Err(Error::Failed(why)) if why.contains("for reading only")), "{refused:?}");
    drop(store);
    assert_eq!((fs::read(file(folder.path())).unwrap(), fs::read(wal(folder.path())).unwrap()), (db, bad));
}

/// Frames of an earlier turn of the log lie behind its end: no damage.
#[tokio::test]
async fn an_older_log_behind_the_end_is_no_damage() {
    let folder = folder();
    let store = sqlite::Store::open(sqlite::Options { checkpoint_bytes: 64 * 1024, ..options(folder.path()) }).unwrap();
    store.create(new_session("a", "p")).await.unwrap();
    let mut head = Head::default();
    for n in 0..60 {
        let append = append_to("a", head, &[&format!("{{\"record\":{n}}}")]);
        head = head_after(&append);
        store.append(append).await.unwrap();
        let after = super::folder();
        put(after.path(), &fs::read(file(folder.path())).unwrap(), &fs::read(wal(folder.path())).unwrap());
        let copy = open(after.path());
        assert_eq!(copy.recovered(), None, "after record {n}");
        assert_eq!(head_of(&copy).await, n + 1);
    }
    let log = fs::metadata(wal(folder.path())).unwrap().len();
    assert!(log < 60 * 2 * FRAME as u64, "the log was started anew: {log} bytes");
}
