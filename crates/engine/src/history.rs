//! The history of a turn: the journal before it, read as far as the harness reads.

use std::sync::Arc;

use async_trait::async_trait;
use inspan_harness::{Failure, History, HistorySource};
use inspan_journal::{Journal, KeyUse, Record};
use inspan_wire::{SessionUid, parse, v1};

use crate::warm::{PAGE, Warm};
use crate::{Error, payload};

/// The records of one session, decoded.
#[derive(Clone)]
pub(crate) struct Past {
    journal: Arc<dyn Journal>,
    warm: Arc<Warm>,
    session: SessionUid,
}

/// Decodes a record's event.
///
/// # Errors
/// [`Error::InvalidExecutionLog`] for an event that this host cannot read.
pub(crate) fn decode(record: &Record) -> Result<Arc<v1::Event>, Error> {
    parse::event(&record.event)
        .map(Arc::new)
        .map_err(|e| Error::InvalidExecutionLog { seq: record.seq, what: format!("not an event: {e}") })
}

impl Past {
    /// The past of `session`.
    pub(crate) fn new(journal: Arc<dyn Journal>, warm: Arc<Warm>, session: SessionUid) -> Past {
        Past { journal, warm, session }
    }

    /// The history that a turn starting at `first_seq` sees (R-START-4).
    pub(crate) fn before(&self, first_seq: i64) -> History {
        let len = usize::try_from(first_seq - 1).expect("records start at 1");
        History::new(Arc::new(self.clone()), len)
    }

    /// Events from `seq` to the end of its page, at least one unless the journal ends before it. Payloads
    /// are as recorded.
    ///
    /// # Errors
    /// The store's, or an event that this host cannot read.
    pub(crate) async fn events(&self, seq: i64) -> Result<Vec<Arc<v1::Event>>, Error> {
        let warm = self.warm.events(&self.session, seq);
        if !warm.is_empty() {
            return Ok(warm);
        }
        let page_end = ((seq - 1) / PAGE + 1) * PAGE;
        let mut from = self.warm.cold_from(&self.session, seq);
        let mut events = Vec::new();
        while from <= page_end {
            let limit = usize::try_from(page_end - from + 1).expect("a page is small");
            let records = self.journal.records(&self.session, from, page_end, limit).await?;
            if records.is_empty() {
                break;
            }
            for record in &records {
                let event = decode(record)?;
                self.warm.keep(&self.session, record.seq, &event, record.event.len());
                if record.seq >= seq {
                    events.push(event);
                }
                from = record.seq + 1;
            }
        }
        Ok(events)
    }

    /// The event at `seq` as recorded; `None` behind the end.
    ///
    /// # Errors
    /// As [`Past::events`].
    pub(crate) async fn event(&self, seq: i64) -> Result<Option<Arc<v1::Event>>, Error> {
        Ok(self.events(seq).await?.into_iter().next())
    }

    /// What an idempotency key of the session was used for.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn key_use(&self, key: &str) -> Result<Option<KeyUse>, Error> {
        Ok(self.journal.key_use(&self.session, key).await?)
    }

    /// The event at `seq` with its payloads in place: what a harness sees.
    ///
    /// # Errors
    /// As [`Past::events`]; a missing payload.
    pub(crate) async fn whole(&self, event: &Arc<v1::Event>) -> Result<Arc<v1::Event>, Error> {
        let mut whole = event.clone();
        payload::put_back(Arc::make_mut(&mut whole), self.journal.blobs().as_ref()).await?;
        Ok(whole)
    }
}

#[async_trait]
impl HistorySource for Past {
    async fn page(&self, from: usize) -> Result<Vec<Arc<v1::Event>>, Failure> {
        let seq = i64::try_from(from).expect("a history is no longer than its journal") + 1;
        let mut page = self.events(seq).await.map_err(|e| Failure::Failed(e.to_string()))?;
        for event in &mut page {
            if payload::is_named(event) {
                *event = self.whole(event).await.map_err(|e| Failure::Failed(e.to_string()))?;
            }
        }
        Ok(page)
    }
}
