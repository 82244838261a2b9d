//! What an error of SQLite means for the store.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::Error;

/// Why a call was not carried out.
#[derive(Debug)]
pub(super) enum Stop {
    /// The contract refuses it; nothing was written for it.
    Refused(Error),
    /// SQLite failed: whatever the batch wrote has to be rolled back.
    Sql(rusqlite::Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Refused(e)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(e: rusqlite::Error) -> Stop {
        Stop::Sql(e)
    }
}

/// The kinds of failure that the writer tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No room: rolled back, and the store goes on.
    Full,
    /// What is on disk is unknown, or is not a journal any more: no further write.
    Fatal,
    /// This statement alone.
    Other,
}

pub(super) fn kind(e: &rusqlite::Error) -> Kind {
    match e.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Kind::Full,
        Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Kind::Fatal,
        _ => Kind::Other,
    }
}

/// The error that a reader or the opening of the store reports.
pub(super) fn report(path: &Path, e: &rusqlite::Error) -> Error {
    let file = path.display();
    match e.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::Full,
        Some(ErrorCode::DatabaseCorrupt) => Error::Io(format!(
            "{file} is damaged ({e}): keep a copy of it and of its -wal file, run `inspan verify` to see what holds, \
             and restore a backup"
        )),
        Some(ErrorCode::NotADatabase) => Error::Io(format!("{file} is no journal ({e}): name another file")),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Io(format!("{file} is locked by another program ({e}): close it and try again"))
        }
        _ => Error::Io(format!("{file}: {e}")),
    }
}
