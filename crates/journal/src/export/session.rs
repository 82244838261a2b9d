//! From a store into a file.

use std::collections::HashSet;
use std::io::Write;

use inspan_wire::{Digest, SessionUid, blob, parse, v1};

use super::{Error, Exported, Totals, Writer, request_of};
use crate::{Journal, Record, Session};

/// Records that are read at once.
const PAGE: usize = 1024;

/// Writes the session `uid` as it is now; what is appended meanwhile is left out. A fork is written
/// with the records that it inherits.
///
/// # Errors
/// [`Error::Journal`] when there is no such session, when a record is damaged, or when a blob that a
/// record names is missing: the file would not stand alone. [`Error::Io`] from `out`.
pub async fn export(journal: &dyn Journal, uid: &SessionUid, out: &mut (dyn Write + Send)) -> Result<Totals, Error> {
    let session = journal.session(uid).await?.ok_or_else(|| crate::Error::NotFound(uid.clone()))?;
    let head = session.head.seq;
    let mut export =
        Export { journal, writer: Writer::new(out, &exported(journal, session).await?)?, written: HashSet::new() };
    let mut next = 1;
    while next <= head {
        let page = journal.records(uid, next, head, PAGE).await?;
        if page.is_empty() {
            let what = format!("its records end at {}, its head is {head}", next - 1);
            return Err(crate::Error::Damaged { session: uid.clone(), seq: next, what }.into());
        }
        for record in page {
            next = record.seq + 1;
            export.record(&record).await?;
        }
    }
    Ok(export.writer.finish()?.1)
}

async fn exported(journal: &dyn Journal, session: Session) -> Result<Exported, Error> {
    let mut lineage = Vec::new();
    let mut parent = session.parent;
    while let Some((uid, fork_seq)) = parent {
        // What a deleted parent came from is not told any more.
        parent = journal.session(&uid).await?.and_then(|session| session.parent);
        lineage.push((uid, fork_seq));
    }
    Ok(Exported {
        uid: session.uid,
        info: session.info,
        fence: session.fence,
        times_ns: (session.create_ns, session.update_ns),
        head: session.head,
        lineage,
    })
}

struct Export<'j, W: Write> {
    journal: &'j dyn Journal,
    writer: Writer<W>,
    /// Blobs and request texts that stand in the file already.
    written: HashSet<Digest>,
}

impl<W: Write> Export<'_, W> {
    /// A record behind what it names. An event that cannot be decoded is written as it is.
    async fn record(&mut self, record: &Record) -> Result<(), Error> {
        if let Ok(event) = parse::event(&record.event) {
            for digest in blobs_of(&event) {
                self.blob(record.seq, digest).await?;
            }
            if let Some(digest) = request_of(&event) {
                self.request(digest).await?;
            }
        }
        self.writer.record(record)
    }

    async fn blob(&mut self, seq: i64, digest: Digest) -> Result<(), Error> {
        if !self.written.insert(digest) {
            return Ok(());
        }
        match self.journal.blobs().get(digest).await? {
            Some(bytes) => self.writer.blob(digest, &bytes),
            None => {
                let what = format!("record {seq} names blob {digest}, which is missing: restore it, then export");
                Err(crate::Error::Io(what).into())
            }
        }
    }

    async fn request(&mut self, digest: Digest) -> Result<(), Error> {
        if self.written.insert(digest)
            && let Some(text) = self.journal.request(digest).await?
        {
            self.writer.request(digest, &text)?;
        }
        Ok(())
    }
}

/// The blobs that an event names; malformed uris are left to the verification.
pub(super) fn blobs_of(event: &v1::Event) -> Vec<Digest> {
    let mut digests = Vec::new();
    blob::named(event, &mut |place| digests.extend(blob::parse_uri(place.uri)));
    digests
}
