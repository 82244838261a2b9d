//! Folders for this process alone, in the system's temporary one.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A folder that only this user can enter. It goes when it is dropped.
pub(crate) struct PrivateDir(PathBuf);

impl PrivateDir {
    /// Makes one.
    ///
    /// # Errors
    /// The temporary folder takes none.
    pub(crate) fn new() -> Result<PrivateDir, Error> {
        fresh("inspan").map(PrivateDir)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // What cannot be removed stays in a place that the system cleans.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Makes a new folder whose name starts with `name`; nobody removes it.
///
/// # Errors
/// The temporary folder takes none.
pub(crate) fn fresh(name: &str) -> Result<PathBuf, Error> {
    let base = std::env::temp_dir();
    let look = format!("ls -ld {}", base.display());
    for n in 0..1000 {
        let dir = base.join(format!("{name}-{}-{n}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Error::new(format!("making a folder in {} failed: {e}", base.display()), look)),
        }
    }
    Err(Error::new(format!("{} is full of folders of earlier runs", base.display()), look))
}
