//! The suite on every store that needs nothing but this machine.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the tests look at files and kill processes")]

use std::path::PathBuf;
use std::sync::Arc;

use inspan_journal::{Blobs, Clock, memory, sqlite};

#[cfg(unix)]
mod faults;
mod suite;

/// Keeps its only store: in memory, opening again gives the same one.
#[derive(Default)]
pub(crate) struct Memory(Option<Arc<memory::Store>>);

impl suite::Kind for Memory {
    fn open(&mut self, blobs: Arc<dyn Blobs>, clock: Arc<dyn Clock>) -> Arc<dyn suite::Store> {
        Arc::clone(self.0.get_or_insert_with(|| Arc::new(memory::Store::new(blobs, clock)))) as _
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}

pub(crate) struct Sqlite(tempfile::TempDir);

impl Sqlite {
    pub(crate) fn new() -> Sqlite {
        Sqlite(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("journal.db")
    }
}

impl suite::Kind for Sqlite {
    fn open(&mut self, blobs: Arc<dyn Blobs>, clock: Arc<dyn Clock>) -> Arc<dyn suite::Store> {
        // A short log, so that checkpoints happen in every longer test.
        let options =
            sqlite::Options { checkpoint_bytes: 256 * 1024, ..sqlite::Options::new(self.path(), blobs, clock) };
        Arc::new(sqlite::Store::open(options).unwrap())
    }

    fn bytes(&self) -> Option<u64> {
        Some(std::fs::metadata(self.path()).unwrap().len())
    }
}

suite::suite!(in_memory, crate::Memory::default());
suite::suite!(on_sqlite, crate::Sqlite::new());
