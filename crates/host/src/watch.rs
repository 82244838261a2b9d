//! Streams over a journal: a part of it, or all of it and then live.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use inspan_engine::Engine;
use inspan_journal::Journal;
use inspan_wire::SessionUid;
use tokio::sync::watch;
use tonic::Code;

use crate::fault::Fault;
use crate::hub::{Follow, Item};
use crate::update::{Update, Updates};

/// Records that are read at once.
const PAGE_RECORDS: usize = 256;

/// Records `from..=to`, which are all there.
pub(crate) fn records(journal: Arc<dyn Journal>, uid: SessionUid, from: i64, to: i64) -> Updates {
    let pages = stream::unfold(Some(from), move |from| {
        let (journal, uid) = (Arc::clone(&journal), uid.clone());
        async move {
            let from = from.filter(|from| *from <= to)?;
            match journal.records(&uid, from, to, PAGE_RECORDS).await {
                Ok(page) => {
                    let next = page.last().map(|last| last.seq + 1);
                    let updates: Vec<_> = page.into_iter().map(|record| Ok(Update::Record(record, None))).collect();
                    Some((updates, next))
                }
                Err(error) => Some((vec![Err(error.into())], None)),
            }
        }
    });
    pages.flat_map(stream::iter).boxed()
}

/// What a watcher wants beside records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Records only.
    Records,
    /// The session's state too.
    RecordsAndState,
    /// State and deltas too.
    Everything,
}

/// A watcher's state.
pub(crate) struct Watcher {
    pub(crate) engine: Engine,
    pub(crate) uid: SessionUid,
    pub(crate) follow: Follow,
    pub(crate) want: Want,
    /// Silence after which a heartbeat is sent.
    pub(crate) heartbeat: Duration,
    /// The last record given.
    pub(crate) last_seq: i64,
    /// Becomes true when the host has no more to say.
    pub(crate) closing: watch::Receiver<bool>,
}

impl Watcher {
    /// The watcher's frames. They end with a fault only: the session is gone, the host stops, or the
    /// journal cannot be read.
    pub(crate) fn updates(self) -> Updates {
        let first = self.want != Want::Records;
        stream::unfold(Some((self, first)), |state| async move {
            let (mut watcher, first) = state?;
            let update = if first { watcher.state().await } else { watcher.next().await };
            let after = update.is_ok().then_some((watcher, false));
            Some((update, after))
        })
        .boxed()
    }

    async fn state(&self) -> Result<Update, Fault> {
        Ok(Update::Session(Box::new(self.engine.session(&self.uid).await?)))
    }

    async fn next(&mut self) -> Result<Update, Fault> {
        loop {
            let item = tokio::select! {
                biased;
                item = self.follow.next() => item?,
                () = closed(&mut self.closing) => return Err(stopping(self.last_seq)),
                () = tokio::time::sleep(self.heartbeat) => {
                    // Also the moment to see what another process may have written.
                    self.follow.reread();
                    return Ok(Update::Heartbeat { last_seq: self.last_seq });
                }
            };
            match item {
                Item::Record(record, event) => {
                    self.last_seq = record.seq;
                    return Ok(Update::Record(record, event));
                }
                Item::Delta(delta) if self.want == Want::Everything => return Ok(Update::Delta(delta)),
                Item::TurnChanged if self.want != Want::Records => return self.state().await,
                // Without it, nobody would notice that the session was deleted.
                Item::TurnChanged => drop(self.engine.session(&self.uid).await?),
                Item::Delta(_) => {}
            }
        }
    }
}

/// Waits until the host has no more to say.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    // A host that is gone has closed too.
    drop(closing.wait_for(|closing| *closing).await);
}

fn stopping(last_seq: i64) -> Fault {
    Fault::new(Code::Unavailable, format!("the host is stopping: watch again from seq {}", last_seq + 1))
}
