//! The files beside the database: the lock of the process and the copy of a backup.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::fault;
use crate::Error;

/// The file belongs to this process until this is dropped: two hosts on one file would each believe
/// that they are the only writer.
pub(super) struct Lock {
    file: File,
}

impl Lock {
    pub(super) fn take(path: &Path) -> Result<Lock, Error> {
        let beside = beside(path, ".lock");
        let failed = |e: std::io::Error| Error::Io(format!("locking {}: {e}", beside.display()));
        let file = File::options().create(true).truncate(false).write(true).open(&beside).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { file }),
            Err(TryLockError::WouldBlock) => Err(Error::Io(format!(
                "{} is open in another process (its lock is {}): stop that host, or give this one another file",
                path.display(),
                beside.display()
            ))),
            Err(TryLockError::Error(e)) => Err(failed(e)),
        }
    }
}

impl Drop for Lock {
    /// Closing would do as well, but for a child of this process that has been forked and not yet become its own
    /// program: it holds a copy of the handle, and with it the lock.
    fn drop(&mut self) {
        // A lock that cannot be given up goes with the last handle.
        let _ = self.file.unlock();
    }
}

/// `path` with `suffix` at the end of its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Copies the committed state of `conn`, the database at `from`, to `to`: under another name first,
/// so that an unfinished copy is never taken for a backup.
pub(super) fn backup(conn: &Connection, from: &Path, to: &Path) -> Result<(), Error> {
    if to.exists() {
        return Err(Error::Invalid(format!("{} exists already: name a new file for the backup", to.display())));
    }
    let partial = beside(to, ".partial");
    let io = |e: std::io::Error| Error::Io(format!("writing the backup {}: {e}", to.display()));
    match fs::remove_file(&partial) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(io(e)),
        _ => {}
    }
    let name = partial.to_str().ok_or_else(|| Error::Invalid(format!("{} is not UTF-8", to.display())))?;
    conn.execute("VACUUM INTO ?1", [name]).map_err(|e| fault::report(from, &e))?;
    File::open(&partial).and_then(|file| file.sync_all()).map_err(io)?;
    fs::rename(&partial, to).map_err(io)
}

/// The database file beside SQLite's own handles on it.
pub(super) struct Database(File);

impl Database {
    /// Opens it. To be dropped behind every connection to it: closing any handle gives up the locks that
    /// this process has on the file.
    pub(super) fn open(path: &Path) -> Result<Database, Error> {
        // Writable, because some systems flush no other handle.
        let opened = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|e| Error::Io(format!("opening {}: {e}", path.display())))?;
        Ok(Database(opened))
    }

    /// Has the disk take what was moved here from the log so far. SQLite does so by itself only at the end of the log,
    /// and then the next commit would wait for all of it.
    pub(super) fn flush(&self) -> rusqlite::Result<()> {
        self.0.sync_data().map_err(|e| {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
            rusqlite::Error::SqliteFailure(code, Some(format!("flushing the database: {e}")))
        })
    }
}
