//! The disk under the VFS: counts, failures, and what is durable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The least that a disk writes at once.
const SECTOR: usize = 512;

/// How an operation fails. Nothing of it reaches the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// EIO: of a write, a truncation or an fsync.
    Io,
    /// ENOSPC of a write; other operations succeed.
    Full,
    /// As [`Failure::Full`], but half of the bytes are written first.
    FullHalfway,
}

/// What of the writes since the last sync a power loss leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// None of them.
    Nothing,
    /// All: the process died and the system did not.
    Everything,
    /// Every second one, from the first: a disk keeps no order within a sync.
    Even,
    /// Every second one, from the second.
    Odd,
    /// All, the last one up to a sector in its middle: disks write sectors whole.
    TornLast,
}

/// The operations that count, in the order in which they happen: writes, syncs, truncations.
#[derive(Default)]
pub struct Disk {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    operations: u64,
    plan: Option<(u64, Plan)>,
    files: BTreeMap<PathBuf, Image>,
    failed: u64,
    reads: u64,
    syncs: u64,
}

#[derive(Clone, Copy)]
enum Plan {
    /// This operation fails, the ones behind it succeed.
    Once(Failure),
    /// From this one on every operation that can fail so does.
    From(Failure),
}

/// A file: what the last sync made durable, and what has happened since.
#[derive(Default, Clone)]
struct Image {
    synced: Vec<u8>,
    since: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

/// What the shim is to do with an operation.
pub(super) enum Verdict {
    Pass,
    Fail,
    /// Write this many bytes and report a full disk.
    Full(usize),
}

impl Disk {
    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Operations that were made to fail.
    pub fn failed(&self) -> u64 {
        self.lock().failed
    }

    /// Reads so far. They never fail.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// Syncs that succeeded so far.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Lets operation `nth`, counted from 1 since the VFS was registered, fail.
    pub fn fail_at(&self, nth: u64, how: Failure) {
        self.lock().plan = Some((nth, Plan::Once(how)));
    }

    /// Lets every operation from `nth` on fail.
    pub fn fail_from(&self, nth: u64, how: Failure) {
        self.lock().plan = Some((nth, Plan::From(how)));
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.lock().plan = None;
    }

    /// Writes the files of `folder`, as a power loss at this moment would leave them, into `to`.
    ///
    /// # Panics
    /// When `to` cannot be written.
    pub fn reboot(&self, folder: &Path, to: &Path, survives: Survives) {
        let state = self.lock();
        for (path, image) in &state.files {
            if path.parent() == Some(folder) {
                let name = path.file_name().expect("a file has a name");
                std::fs::write(to.join(name), image.after_loss(survives)).expect("the folder can be written");
            }
        }
    }

    pub(super) fn opened(&self, path: &Path, read: impl FnOnce() -> Vec<u8>) {
        let mut state = self.lock();
        if !state.files.contains_key(path) {
            let synced = read();
            state.files.insert(path.to_owned(), Image { synced, since: Vec::new() });
        }
    }

    pub(super) fn read(&self) {
        self.lock().reads += 1;
    }

    pub(super) fn deleted(&self, path: &Path) {
        self.lock().files.remove(path);
    }

    pub(super) fn write(&self, path: &Path, at: usize, bytes: &[u8]) -> Verdict {
        let mut state = self.lock();
        let (verdict, kept) = match state.next() {
            None => (Verdict::Pass, bytes.len()),
            Some(Failure::Io) => (Verdict::Fail, 0),
            Some(Failure::Full) => (Verdict::Full(0), 0),
            Some(Failure::FullHalfway) => (Verdict::Full(bytes.len() / 2), bytes.len() / 2),
        };
        if kept > 0 {
            state.change(path, Change::Write(at, bytes[..kept].to_vec()));
        }
        state.count_failure(&verdict);
        verdict
    }

    pub(super) fn truncate(&self, path: &Path, len: usize) -> Verdict {
        let mut state = self.lock();
        let verdict = state.next_but_full();
        if matches!(verdict, Verdict::Pass) {
            state.change(path, Change::Truncate(len));
        }
        verdict
    }

    pub(super) fn sync(&self, path: &Path) -> Verdict {
        let mut state = self.lock();
        let verdict = state.next_but_full();
        if !matches!(verdict, Verdict::Pass) {
            return verdict;
        }
        state.syncs += 1;
        if let Some(image) = state.files.get_mut(path) {
            let since = std::mem::take(&mut image.since);
            since.iter().for_each(|change| change.apply(&mut image.synced));
        }
        verdict
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked has reported why; the counts are still of use to the others.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts an operation and says how it is to fail.
    fn next(&mut self) -> Option<Failure> {
        self.operations += 1;
        match self.plan {
            Some((nth, Plan::Once(how))) if nth == self.operations => Some(how),
            Some((nth, Plan::From(how))) if nth <= self.operations => Some(how),
            _ => None,
        }
    }

    fn next_but_full(&mut self) -> Verdict {
        let verdict = match self.next() {
            Some(Failure::Io) => Verdict::Fail,
            None | Some(Failure::Full | Failure::FullHalfway) => Verdict::Pass,
        };
        self.count_failure(&verdict);
        verdict
    }

    fn count_failure(&mut self, verdict: &Verdict) {
        self.failed += u64::from(!matches!(verdict, Verdict::Pass));
    }

    fn change(&mut self, path: &Path, change: Change) {
        self.files.entry(path.to_owned()).or_default().since.push(change);
    }
}

impl Image {
    fn after_loss(&self, survives: Survives) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        let last = self.since.len().saturating_sub(1);
        for (n, change) in self.since.iter().enumerate() {
            match survives {
                Survives::Nothing => {}
                Survives::Even if n % 2 == 1 => {}
                Survives::Odd if n % 2 == 0 => {}
                Survives::TornLast if n == last => change.half().apply(&mut bytes),
                Survives::Everything | Survives::Even | Survives::Odd | Survives::TornLast => change.apply(&mut bytes),
            }
        }
        bytes
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, new) => {
                let end = at + new.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*at..end].copy_from_slice(new);
            }
            Change::Truncate(len) => bytes.truncate(*len),
        }
    }

    fn half(&self) -> Change {
        match self {
            Change::Write(at, new) => {
                let end = (at + new.len() / 2) / SECTOR * SECTOR;
                Change::Write(*at, new[..end.saturating_sub(*at)].to_vec())
            }
            Change::Truncate(len) => Change::Truncate(*len),
        }
    }
}
