//! Journals of earlier agentsessions hosts: a SQLite file with a table `events` of session, seq,
//! prev_hash, hash and event.
//!
//! The file is opened read-only. An event is kept there as protobuf or as JSON; either way its
//! canonical text is what the hash covers, so each record is brought into that form and the chain is
//! checked before anything is imported. What such a file does not tell is said, not made up.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use inspan_wire::{Digest, SessionUid, canon, parse, v1};
use prost::Message as _;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row};

use crate::export::{Fold, request_of};
use crate::verify::{Chain, Check, Fault, FaultKind, Report, named_blobs};
use crate::{Error, Head, Import, ImportBatch, Journal, NewSession, Record, Session};

/// Records that are read at once.
const PAGE: usize = 1024;

/// A journal file of another host.
pub struct Foreign {
    path: PathBuf,
    db: Connection,
    has_fence: bool,
}

/// A session that was imported.
#[derive(Debug)]
pub struct Imported {
    /// As it is stored now.
    pub session: Session,
    /// What was checked before.
    pub report: Report,
    /// What the file did not tell of it, in the names of the session's fields.
    pub unknown: Vec<&'static str>,
}

/// A session that was not imported; nothing of it appears in the store.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Its chain does not hold.
    #[error("the journal of {0} does not hold: {1}")]
    Fault(SessionUid, Box<Report>),
    /// The file cannot be read, or the store refused.
    #[error(transparent)]
    Journal(#[from] Error),
}

fn failed(e: rusqlite::Error) -> Error {
    Error::Io(e.to_string())
}

impl Foreign {
    /// Opens the file, which is never written to.
    ///
    /// # Errors
    /// [`Error::Io`] for a file that SQLite cannot read; [`Error::Invalid`] for one without such a table.
    pub fn open(path: &Path) -> Result<Foreign, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)
            .map_err(|e| Error::Io(format!("cannot open {} read-only: {e}", path.display())))?;
        let columns = columns(&db, "events")?;
        if let Some(missing) =
            ["session", "seq", "prev_hash", "hash", "event"].iter().find(|name| !columns.iter().any(|c| c == *name))
        {
            return Err(Error::Invalid(format!(
                "{} is no journal of an agentsessions host: it has no column {missing} in a table events",
                path.display()
            )));
        }
        Ok(Foreign { path: path.to_owned(), db, has_fence: columns.iter().any(|c| c == "fence") })
    }

    /// The sessions that have records, in uid order.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sessions(&self) -> Result<Vec<SessionUid>, Error> {
        let mut query = self.db.prepare("SELECT DISTINCT session FROM events ORDER BY session").map_err(failed)?;
        let uids = query.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
        uids.map(|uid| uid.map(SessionUid::new).map_err(failed)).collect()
    }

    /// Checks the chain of a session. `anchor` is a head that was noted elsewhere. The requests of its model
    /// calls are not in such a file.
    ///
    /// # Errors
    /// [`Error::Io`]; what does not hold is in the report.
    pub fn verify(&self, uid: &SessionUid, anchor: Option<Head>) -> Result<Report, Error> {
        let mut check = Check::new(anchor);
        loop {
            let page = self.page(uid, check.chain.head().seq)?;
            if page.is_empty() {
                let head = check.chain.head();
                let outcome = check.end(head);
                return Ok(check.finish(outcome));
            }
            for record in page {
                if let Err(fault) = record.and_then(|record| verify_record(&mut check, &record)) {
                    return Ok(check.finish(Err(fault)));
                }
            }
        }
    }

    /// Records behind `after`, each readable or a fault.
    fn page(&self, uid: &SessionUid, after: i64) -> Result<Vec<Result<Record, Fault>>, Error> {
        let fence = if self.has_fence { "fence" } else { "0" };
        let sql = format!(
            "SELECT seq, prev_hash, hash, event, {fence} FROM events WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT {PAGE}"
        );
        let mut query = self.db.prepare(&sql).map_err(failed)?;
        let mut rows = query.query((uid.as_str(), after)).map_err(failed)?;
        let mut page = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            page.push(record(row).map_err(failed)?);
        }
        Ok(page)
    }

    /// Imports a session, verified first. `now_ns` stands for the times that the file does not tell.
    ///
    /// # Errors
    /// See [`ImportError`]; [`Error::NotFound`] for a session without records, [`Error::Exists`] when the
    /// uid is taken.
    pub async fn import<F>(
        self,
        journal: &dyn Journal,
        uid: &SessionUid,
        now_ns: i64,
        fold: F,
    ) -> Result<Imported, ImportError>
    where
        F: Fold + Send + 'static,
    {
        let report = self.verify(uid, None)?;
        if report.fault.is_some() {
            return Err(ImportError::Fault(uid.clone(), Box::new(report)));
        }
        if report.records == 0 {
            return Err(Error::NotFound(uid.clone()).into());
        }
        let (info, unknown) = self.info(uid)?;
        let fence = self.fence(uid)?;
        let session = NewSession { uid: uid.clone(), info, state: fold.state() };
        let mut batches = Batches { file: self, uid: uid.clone(), chain: Chain::default(), fold };
        let next = Box::new(move || batches.next());
        let session = journal.import(Import { session, parent: None, times_ns: (now_ns, now_ns), fence, next }).await?;
        Ok(Imported { session, report, unknown })
    }

    /// The highest fence that a record was written under; 0 when the file does not tell.
    fn fence(&self, uid: &SessionUid) -> Result<i64, Error> {
        if !self.has_fence {
            return Ok(0);
        }
        let sql = "SELECT coalesce(max(fence), 0) FROM events WHERE session = ?1";
        self.db.query_row(sql, [uid.as_str()], |row| row.get(0)).map_err(failed)
    }

    /// What a table `sessions` tells of a session, and the names of what it does not.
    fn info(&self, uid: &SessionUid) -> Result<(v1::Session, Vec<&'static str>), Error> {
        let columns = columns(&self.db, "sessions")?;
        let key = ["uid", "session", "id"].into_iter().find(|name| columns.iter().any(|c| c == name));
        let text = |name: &str| -> Result<Option<String>, Error> {
            let Some(key) = key.filter(|_| columns.iter().any(|c| c == name)) else { return Ok(None) };
            let sql = format!("SELECT {name} FROM sessions WHERE {key} = ?1 AND typeof({name}) = 'text'");
            self.db.query_row(&sql, [uid.as_str()], |row| row.get(0)).optional().map_err(failed)
        };
        let mut unknown = Vec::new();
        let mut known = |name: &'static str| -> Result<String, Error> {
            let found = text(name)?;
            if found.is_none() {
                unknown.push(name);
            }
            Ok(found.unwrap_or_default())
        };
        let (project, name) = (known("project")?, known("name")?);
        let (harness, model) = (known("harness")?, known("model")?);
        unknown.extend(["identity", "origin", "labels", "annotations", "create_time", "update_time"]);
        if !self.has_fence {
            unknown.push("fence");
        }
        let metadata = v1::ResourceMetadata { project, name, ..Default::default() };
        Ok((v1::Session { metadata: Some(metadata), harness, model, ..Default::default() }, unknown))
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The columns of a table, none when there is no such table.
fn columns(db: &Connection, table: &str) -> Result<Vec<String>, Error> {
    let mut query = db.prepare("SELECT name FROM pragma_table_info(?1)").map_err(failed)?;
    let names = query.query_map([table], |row| row.get(0)).map_err(failed)?;
    names.map(|name| name.map_err(failed)).collect()
}

fn verify_record(check: &mut Check, record: &Record) -> Result<(), Fault> {
    let event = check.chain.step(record)?;
    if let Some(blob) = named_blobs(record.seq, &event)?.first() {
        return Err(Fault::new(record.seq, FaultKind::Blob, format!("blob {blob} is not in such a file")));
    }
    check.report.requests_not_kept += u64::from(request_of(&event).is_some());
    check.passed()
}

/// A row as a record: hashes as hex or raw, the event in its canonical form.
fn record(row: &Row<'_>) -> Result<Result<Record, Fault>, rusqlite::Error> {
    let seq: i64 = row.get(0)?;
    let undecodable = |what: String| Ok(Err(Fault::new(seq, FaultKind::Undecodable, what)));
    let Ok(prev_hash) = digest(row.get_ref(1)?) else {
        return undecodable("its prev_hash is no digest".to_owned());
    };
    let Ok(Some(content_hash)) = digest(row.get_ref(2)?) else {
        return undecodable("its hash is no digest".to_owned());
    };
    let (ValueRef::Blob(stored) | ValueRef::Text(stored)) = row.get_ref(3)? else {
        return undecodable("its event is neither text nor bytes".to_owned());
    };
    let holds = |event: &[u8]| canon::content_hash(prev_hash, seq, event) == content_hash;
    let event = match canonical(stored, holds) {
        Ok(event) => event,
        Err(what) => return undecodable(what),
    };
    let fence = row.get(4)?;
    // Such a file has no commit times; zero is no time that a host ever wrote.
    Ok(Ok(Record { seq, prev_hash, content_hash, fence, ts_ms: 0, event }))
}

fn digest(value: ValueRef<'_>) -> Result<Option<Digest>, ()> {
    match value {
        ValueRef::Null | ValueRef::Text(b"") | ValueRef::Blob(b"") => Ok(None),
        ValueRef::Blob(bytes) if bytes.len() == 32 => Ok(Some(Digest(bytes.try_into().map_err(|_| ())?))),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            let hex = std::str::from_utf8(bytes).map_err(|_| ())?;
            hex.parse().map(Some).map_err(|_| ())
        }
        ValueRef::Integer(_) | ValueRef::Real(_) => Err(()),
    }
}

/// The canonical text of a stored event. JSON that is what was hashed is kept as it is, also
/// when it says more than this build knows; other JSON, and protobuf, are decoded and written anew.
fn canonical(stored: &[u8], holds: impl Fn(&[u8]) -> bool) -> Result<Bytes, String> {
    // No field of an event has the tag that a brace would be.
    let is_json = stored.trim_ascii_start().first() == Some(&b'{');
    if is_json && holds(stored) {
        return Ok(Bytes::copy_from_slice(stored));
    }
    let event = if is_json {
        parse::event(stored).map_err(|e| e.to_string())?
    } else {
        v1::Event::decode(stored).map_err(|e| e.to_string())?
    };
    canon::event(&event).map(Bytes::from).map_err(|e| e.to_string())
}

struct Batches<F> {
    file: Foreign,
    uid: SessionUid,
    chain: Chain,
    fold: F,
}

impl<F: Fold> Batches<F> {
    /// The next records. The chain is checked again: the file may have changed since.
    fn next(&mut self) -> Result<ImportBatch, Error> {
        let mut batch = ImportBatch::default();
        for record in self.file.page(&self.uid, self.chain.head().seq)? {
            let invalid = |fault: Fault| Error::Invalid(fault.to_string());
            let record = record.map_err(invalid)?;
            let event = self.chain.step(&record).map_err(invalid)?;
            batch.turns.extend(self.fold.step(record.seq, &event));
            batch.records.push(record);
        }
        batch.state = Some(self.fold.state());
        Ok(batch)
    }
}
