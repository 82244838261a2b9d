//! From a file into a store.

use std::io::{BufRead, Seek};
use std::sync::Arc;

use inspan_wire::{Digest, SessionUid, v1};

use super::session::blobs_of;
use super::{Exported, Item, Reader};
use crate::verify::{self, Chain, Report};
use crate::{Error, Import, ImportBatch, Journal, KeptRequest, NewSession, Session, State, TurnMark};

/// Records that are handed over at once, and the bytes of events at which a batch is full.
const BATCH_RECORDS: usize = 1024;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// What gives records their meaning: the projections that a store keeps beside them.
pub trait Fold {
    /// Takes the next record; a mark when a turn starts with it.
    fn step(&mut self, seq: i64, event: &v1::Event) -> Option<TurnMark>;

    /// The projections so far.
    fn state(&self) -> State;
}

/// A session that was imported.
#[derive(Debug)]
pub struct Imported {
    /// As it is stored now.
    pub session: Session,
    /// What was checked before.
    pub report: Report,
}

/// A file that was not imported; nothing of it appears in the store.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] super::Error),
    /// The file was read and does not hold.
    #[error("the export does not hold: {0}")]
    Fault(Box<Report>),
    /// The store refused.
    #[error(transparent)]
    Journal(#[from] Error),
}

/// Imports a file under `uid`, its own if `None`. The whole file is verified first; then its
/// blobs are kept, then its records. The session stands alone: parents that the file names are not
/// looked for.
///
/// # Errors
/// See [`ImportError`]; [`Error::Exists`] when the uid is taken.
pub async fn import<R, F>(
    journal: &dyn Journal,
    mut file: R,
    uid: Option<SessionUid>,
    fold: F,
) -> Result<Imported, ImportError>
where
    R: BufRead + Seek + Send + 'static,
    F: Fold + Send + 'static,
{
    let report = verify::export(&mut file, None)?;
    if report.fault.is_some() {
        return Err(ImportError::Fault(Box::new(report)));
    }
    if report.blobs > 0 {
        rewind(&mut file)?;
        keep_blobs(journal, Reader::open(&mut file)?).await?;
    }
    rewind(&mut file)?;
    let reader = Reader::open(file)?;
    let Exported { uid: own, info, fence, times_ns, .. } = reader.session().clone();
    let session = NewSession { uid: uid.unwrap_or(own), info, state: fold.state() };
    let mut batches = Batches { reader, chain: Chain::default(), fold, last_request: None };
    let next = Box::new(move || batches.next());
    let session = journal.import(Import { session, parent: None, times_ns, fence, next }).await?;
    Ok(Imported { session, report })
}

fn rewind(file: &mut impl Seek) -> Result<(), ImportError> {
    file.rewind().map_err(super::Error::from)?;
    Ok(())
}

/// Keeps the blobs of a file that holds; a blob is put together in memory, as the store takes it.
async fn keep_blobs<R: BufRead>(journal: &dyn Journal, mut reader: Reader<R>) -> Result<(), ImportError> {
    let mut whole = Vec::new();
    while let Some(item) = reader.next()? {
        if let Item::Blob(chunk) = item {
            whole.extend_from_slice(&chunk.bytes);
            if chunk.is_last() {
                journal.blobs().put(std::mem::take(&mut whole).into()).await?;
            }
        }
    }
    Ok(())
}

struct Batches<R, F> {
    reader: Reader<R>,
    chain: Chain,
    fold: F,
    last_request: Option<(Digest, Arc<str>)>,
}

impl<R: BufRead, F: Fold> Batches<R, F> {
    /// The next records, each behind the request text that it carries the digest of. The chain is
    /// checked again: between the two readings the file may have changed.
    fn next(&mut self) -> Result<ImportBatch, Error> {
        let mut batch = ImportBatch::default();
        let mut bytes = 0;
        while batch.records.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            match self.reader.next().map_err(|e| Error::Invalid(e.to_string()))? {
                Some(Item::Record(record)) => {
                    let event = self.chain.step(&record).map_err(|fault| Error::Invalid(fault.to_string()))?;
                    batch.blobs.extend(blobs_of(&event));
                    batch.turns.extend(self.fold.step(record.seq, &event));
                    bytes += record.event.len();
                    batch.records.push(record);
                }
                Some(Item::Request(digest, text)) => {
                    let base = self.last_request.replace((digest, Arc::clone(&text)));
                    batch.requests.push(KeptRequest { digest, text, base });
                }
                Some(Item::Blob(_)) => {}
                Some(Item::End(_)) | None => break,
            }
        }
        batch.state = Some(self.fold.state());
        Ok(batch)
    }
}
