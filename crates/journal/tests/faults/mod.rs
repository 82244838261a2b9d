//! What SQLite's store does when the disk, the power or the process goes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use inspan_journal::{Append, Error, Head, Journal, blob, sqlite};

use crate::suite::{HandClock, START_NS, append_to, check_chain, child, head_after, kept, new_session};

mod commit;
mod disk;
mod earlier;
mod kill;
mod log;
mod open;

/// A folder in memory where there is one: these tests sync thousands of times.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

pub(crate) fn options(folder: &Path) -> sqlite::Options {
    let clock = Arc::new(HandClock::at(START_NS));
    sqlite::Options { read_threads: 1, ..sqlite::Options::new(file(folder), Arc::new(blob::Memory::new()), clock) }
}

pub(crate) fn open(folder: &Path) -> sqlite::Store {
    sqlite::Store::open(options(folder)).unwrap()
}

pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("journal.db")
}

pub(crate) fn wal(folder: &Path) -> PathBuf {
    folder.join("journal.db-wal")
}

/// What a client was told.
#[derive(Default, Debug, Clone)]
pub(crate) struct Told {
    /// Per session: the texts of the records that were acknowledged.
    pub(crate) acked: Vec<(&'static str, Vec<String>)>,
    /// Sessions whose creation was acknowledged or may have happened, and whose records may go on
    /// behind the acknowledged ones.
    pub(crate) unknown: Vec<(&'static str, Vec<String>)>,
}

impl Told {
    fn acked(&mut self, uid: &'static str, texts: Vec<String>) {
        match self.acked.iter_mut().find(|(known, _)| *known == uid) {
            Some((_, all)) => all.extend(texts),
            None => self.acked.push((uid, texts)),
        }
    }

    /// Notes an outcome: acknowledged, rolled back, or unknown.
    fn note<T>(&mut self, uid: &'static str, texts: Vec<String>, outcome: &Result<T, Error>) -> bool {
        match outcome {
            Ok(_) => self.acked(uid, texts),
            Err(Error::Full) => {}
            Err(Error::Failed(_)) => self.unknown.push((uid, texts)),
            Err(other) => panic!("{other}"),
        }
        outcome.is_ok()
    }

    /// Everything that was acknowledged is there, nothing that was refused is, and what nobody
    /// knows is there whole or not at all.
    pub(crate) async fn check(&self, store: &sqlite::Store) {
        for (uid, texts) in &self.acked {
            let session = store.session(&(*uid).into()).await.unwrap().expect("an acknowledged session is there");
            let records = store.records(&(*uid).into(), 1, i64::MAX, 1000).await.unwrap();
            check_chain(&records, session.head);
            let there: Vec<String> = records.iter().map(|r| String::from_utf8(r.event.to_vec()).unwrap()).collect();
            let (acked, rest) = there.split_at(texts.len().min(there.len()));
            assert_eq!(acked, texts, "what was acknowledged to {uid}");
            let unknown = self.unknown.iter().filter(|(of, _)| of == uid).map(|(_, texts)| texts);
            let mut possible = unknown.filter(|texts| !texts.is_empty());
            assert!(rest.is_empty() || possible.any(|texts| texts == rest), "{uid} goes on with {rest:?}");
        }
        for uid in ["a", "b", "c"] {
            let told = self.acked.iter().chain(&self.unknown).any(|(known, _)| *known == uid);
            let there = store.session(&uid.into()).await.unwrap().is_some();
            assert!(told || !there, "{uid} was refused and is there");
        }
    }
}

/// The same calls every time, one after the other. Goes on after a refusal; what depends on a call
/// that was refused is left out.
pub(crate) async fn script(store: &sqlite::Store) -> Told {
    let mut told = Told::default();
    let mut failed = false;
    for uid in ["a", "b"] {
        let made = store.create(new_session(uid, "p")).await;
        told.note(uid, Vec::new(), &made);
        failed |= check_failed(failed, &made);
    }
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(9000));
    let request = "[\"a request\"]";
    for n in 0..8 {
        for uid in ["a", "b"] {
            let text = if n % 3 == 2 { long.clone() } else { format!("{{\"n\":{n}}}") };
            let Some(head) = head(&told, uid) else { continue };
            let mut append = append_to(uid, head, &[&text, "{}"]);
            if n == 4 {
                append.requests.push(kept(request, None));
            }
            let texts = vec![text, "{}".to_owned()];
            let outcome = send(store, append).await;
            told.note(uid, texts, &outcome);
            failed |= check_failed(failed, &outcome);
        }
    }
    let Some(at) = head(&told, "a").filter(|head| head.seq > 2) else { return told };
    let marker = child("c", at.seq, at.hash);
    let text = String::from_utf8(marker.marker.event.to_vec()).unwrap();
    let fork = inspan_journal::Fork { parent: "a".into(), at_seq: at.seq, children: vec![marker] };
    let forked = store.fork(fork).await;
    let shared = told.acked.iter().find(|(uid, _)| *uid == "a").map(|(_, texts)| texts.clone()).unwrap_or_default();
    told.note("c", [shared, vec![text]].concat(), &forked);
    check_failed(failed, &forked);
    told
}

async fn send(store: &sqlite::Store, append: Append) -> Result<(), Error> {
    store.append(append).await.map(drop)
}

/// After one write whose outcome is unknown, every further one is refused.
fn check_failed<T: std::fmt::Debug>(before: bool, outcome: &Result<T, Error>) -> bool {
    let now = matches!(outcome, Err(Error::Failed(_)));
    assert!(!before || now, "a write was tried after a failed one: {outcome:?}");
    now
}

/// The head that the acknowledged records of `uid` end in; `None` when it was not created.
fn head(told: &Told, uid: &str) -> Option<Head> {
    let (_, texts) = told.acked.iter().find(|(known, _)| *known == uid)?;
    if texts.is_empty() {
        return Some(Head::default());
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Some(head_after(&append_to("x", Head::default(), &texts)))
}
