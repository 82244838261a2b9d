//! Moving the log into the database, mostly beside the writer.
//!
//! A checkpoint of a long log takes as long as many commits. So a thread with a connection of its own
//! moves it while commits go on; what was committed meanwhile is little, and the writer moves that itself
//! between two batches, after which the log starts anew.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::file::Database;
use crate::Error;

/// The thread beside the writer.
pub(super) struct Checkpointer {
    start: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    running: AtomicBool,
    failure: Mutex<Option<rusqlite::Error>>,
}

impl Checkpointer {
    pub(super) fn start(conn: Connection, database: Arc<Database>) -> Result<Checkpointer, Error> {
        let shared = Arc::new(Shared::default());
        let (start, starts) = sync_channel(1);
        let thread = std::thread::Builder::new().name("inspan-checkpoint".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                while let Ok(()) = starts.recv() {
                    if let Err(e) = passive(&conn).and_then(|()| database.flush()) {
                        shared.note(e);
                    }
                    shared.running.store(false, Ordering::Release);
                }
            }
        });
        let thread = thread.map_err(|e| Error::Io(format!("starting the checkpoint thread: {e}")))?;
        Ok(Checkpointer { start: Some(start), thread: Some(thread), shared })
    }

    /// Begins a checkpoint. Only when none is running.
    pub(super) fn begin(&self) {
        self.shared.running.store(true, Ordering::Release);
        let start = self.start.as_ref().expect("the channel is open until this is dropped");
        if start.try_send(()).is_err() {
            // The thread is gone; the writer checkpoints by itself from now on.
            self.shared.running.store(false, Ordering::Release);
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.shared.running.load(Ordering::Acquire)
    }

    /// What the last checkpoint failed with, once.
    pub(super) fn take_failure(&self) -> Option<rusqlite::Error> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Shared {
    fn note(&self, e: rusqlite::Error) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.start = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by its own unwinding.
            let _ = thread.join();
        }
    }
}

/// Moves as much of the log as no reader needs, without waiting for anybody.
pub(super) fn passive(conn: &Connection) -> rusqlite::Result<()> {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}
