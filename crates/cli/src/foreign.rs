//! Journals of earlier agentsessions hosts, on their way into this one.
//!
//! Such a file is SQLite and lies on the caller's disk, while the host may be elsewhere. So it is read
//! here, session by session, and becomes exports: from there on there is one way in.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use inspan_host::journal::export::{self, Fold};
use inspan_host::journal::foreign::Foreign;
use inspan_host::journal::verify::Report;
use inspan_host::journal::{Clock as _, Head, State, TurnMark};
use inspan_host::system::System;
use inspan_wire::{SessionUid, v1};

use crate::commands::import::unreadable;
use crate::error::{self, Error};
use crate::store;
use crate::temp::PrivateDir;

/// Every SQLite file starts with this.
const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Whether a file is an SQLite database.
///
/// # Errors
/// It cannot be read.
pub(crate) fn is_sqlite(file: &Path) -> Result<bool, Error> {
    let mut start = Vec::new();
    let read = File::open(file).and_then(|f| f.take(SQLITE_MAGIC.len() as u64).read_to_end(&mut start));
    read.map_err(|e| unreadable(file, &e))?;
    Ok(start == SQLITE_MAGIC)
}

/// Checks every session of such a file.
///
/// # Errors
/// It is no such file, or cannot be read.
pub(crate) fn verify(file: &Path, anchor: Option<Head>) -> Result<Vec<(SessionUid, Report)>, Error> {
    let foreign = open(file)?;
    let uids = foreign.sessions().map_err(|e| failed(file, &e))?;
    let reports = uids.into_iter().map(|uid| {
        let report = foreign.verify(&uid, anchor).map_err(|e| failed(file, &e))?;
        Ok((uid, report))
    });
    reports.collect()
}

/// Exports that were made of such a file; they go when this is dropped.
pub(crate) struct Exports {
    files: Vec<PathBuf>,
    _dir: PrivateDir,
}

impl Exports {
    /// One for each session.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

/// Verifies every session of such a file and writes each as an export.
///
/// # Errors
/// It is no such file, cannot be read, or a chain in it does not hold.
pub(crate) async fn exports(file: &Path) -> Result<Exports, Error> {
    let dir = PrivateDir::new()?;
    let between = dir.path().join("journal.db");
    let journal = store::open(&between, &store::blobs_beside(&between))?;
    let uids = open(file)?.sessions().map_err(|e| failed(file, &e))?;
    let mut files = Vec::new();
    for (n, uid) in uids.iter().enumerate() {
        let imported = open(file)?.import(journal.as_ref(), uid, System.now_ns(), NoFold).await;
        let imported = imported.map_err(|e| Error::new(e.to_string(), format!("inspan verify {}", file.display())))?;
        if !imported.unknown.is_empty() {
            let unknown = imported.unknown.join(", ");
            error::say(&format!("note: {} tells nothing of {unknown} for session {uid}", file.display()));
        }
        let path = dir.path().join(n.to_string());
        let out = File::create(&path).map_err(|e| unreadable(&path, &e))?;
        let mut out = std::io::BufWriter::new(out);
        let written = export::export(journal.as_ref(), uid, &mut out).await;
        written.map_err(|e| Error::new(e.to_string(), format!("df -h {}", dir.path().display())))?;
        files.push(path);
    }
    Ok(Exports { files, _dir: dir })
}

fn open(file: &Path) -> Result<Foreign, Error> {
    Foreign::open(file).map_err(|e| failed(file, &e))
}

fn failed(file: &Path, e: &inspan_host::journal::Error) -> Error {
    Error::new(e.to_string(), format!("ls -l {}", file.display()))
}

/// Projections are not part of an export: whoever imports it folds its records anew.
struct NoFold;

impl Fold for NoFold {
    fn step(&mut self, _: i64, _: &v1::Event) -> Option<TurnMark> {
        None
    }

    fn state(&self) -> State {
        State::default()
    }
}
