//! The journal that this process opens itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use inspan_host::journal::blob::Folder;
use inspan_host::journal::sqlite::{Options, Store};
use inspan_host::system::System;

use crate::error::Error;

/// The folder of payloads that belongs to a journal file when none is named: `<file>-blobs`.
pub(crate) fn blobs_beside(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push("-blobs");
    name.into()
}

/// The folder that a journal file is in: large imports wait there, on the disk that they end up on.
pub(crate) fn folder_of(journal: &Path) -> PathBuf {
    match journal.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Opens a journal, and creates it when it is not there.
///
/// # Errors
/// It is damaged, of another program, or open in another process; the folder of payloads cannot be made.
pub(crate) fn open(journal: &Path, blobs: &Path) -> Result<Arc<Store>, Error> {
    let options = options(journal, blobs)?;
    Store::open(options).map(Arc::new).map_err(|e| refused(journal, &e))
}

/// Opens a journal that [`open`] refuses because its log is damaged, to read what is left.
pub(crate) fn open_damaged(journal: &Path, blobs: &Path) -> Result<Arc<Store>, Error> {
    let options = options(journal, blobs)?;
    Store::open_damaged(options).map(Arc::new).map_err(|e| refused(journal, &e))
}

fn options(journal: &Path, blobs: &Path) -> Result<Options, Error> {
    let folder = Folder::open(blobs);
    let folder = folder.map_err(|e| Error::new(e.to_string(), format!("ls -ld {}", blobs.display())))?;
    Ok(Options::new(journal, Arc::new(folder), Arc::new(System)))
}

fn refused(journal: &Path, e: &inspan_host::journal::Error) -> Error {
    let text = e.to_string();
    let next = if text.contains("another process") {
        "inspan list --server 127.0.0.1:8080".to_owned()
    } else {
        format!("inspan verify --journal {}", journal.display())
    };
    Error::new(text, next)
}
