//! Payloads as files: `sha256/ab/abcd…`, one per digest.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use inspan_wire::Digest;

use super::Blobs;
use crate::Error;
use crate::pool::Pool;

/// Threads that read and write payloads.
const THREADS: usize = 2;

/// A blob store in a folder.
///
/// A payload is written under a temporary name, made durable, and only then given its own name;
/// a crash leaves at worst a temporary file, which the next [`Folder::open`] removes.
pub struct Folder {
    files: Arc<Files>,
    pool: Pool<()>,
}

/// The blocking half.
struct Files {
    root: PathBuf,
    temporary: PathBuf,
    next_name: AtomicU64,
}

impl Folder {
    /// Opens the folder and creates it when it is not there. At most one store may use it at a
    /// time.
    ///
    /// # Errors
    /// [`Error::Io`] when the folder cannot be made or read.
    pub fn open(root: impl Into<PathBuf>) -> Result<Folder, Error> {
        let root = root.into();
        let temporary = root.join("tmp");
        let failed = |e| Error::Io(format!("opening the blob folder {}: {e}", root.display()));
        match fs::remove_dir_all(&temporary) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        fs::create_dir_all(root.join("sha256")).map_err(failed)?;
        fs::create_dir_all(&temporary).map_err(failed)?;
        sync_folder(&root).map_err(failed)?;
        let files = Files { root, temporary, next_name: AtomicU64::new(0) };
        let pool = Pool::start("inspan-blobs", vec![(); THREADS])?;
        Ok(Folder { files: Arc::new(files), pool })
    }
}

#[async_trait]
impl Blobs for Folder {
    async fn put(&self, bytes: Bytes) -> Result<Digest, Error> {
        let files = Arc::clone(&self.files);
        self.pool.run(move |()| files.put(&bytes)).await
    }

    async fn get(&self, digest: Digest) -> Result<Option<Bytes>, Error> {
        let files = Arc::clone(&self.files);
        self.pool.run(move |()| files.get(digest)).await
    }

    async fn remove(&self, digest: Digest) -> Result<(), Error> {
        let files = Arc::clone(&self.files);
        self.pool.run(move |()| files.remove(digest)).await
    }
}

impl Files {
    fn put(&self, bytes: &[u8]) -> Result<Digest, Error> {
        let digest = Digest::of(bytes);
        let path = self.path(digest);
        if path.exists() {
            // A file has its own name only when it was durable before; the name may be younger
            // than the last sync of its folder when the process that gave it was killed.
            self.sync_names(&path).map_err(|e| failed("syncing", &path, &e))?;
            return Ok(digest);
        }
        let temporary = self.temporary.join(self.next_name.fetch_add(1, Ordering::Relaxed).to_string());
        let written = self.write(bytes, &temporary, &path);
        if let Err(e) = written {
            // What cannot be removed now goes when the folder is opened again.
            let _ = fs::remove_file(&temporary);
            return Err(failed("writing", &path, &e));
        }
        Ok(digest)
    }

    fn write(&self, bytes: &[u8], temporary: &Path, path: &Path) -> std::io::Result<()> {
        let mut file = File::create_new(temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        let folder = path.parent().expect("a payload lies in a folder");
        fs::create_dir_all(folder)?;
        fs::rename(temporary, path)?;
        self.sync_names(path)
    }

    /// Makes the file's name durable, and its folder's name too.
    fn sync_names(&self, path: &Path) -> std::io::Result<()> {
        sync_folder(path.parent().expect("a payload lies in a folder"))?;
        sync_folder(&self.root.join("sha256"))
    }

    fn get(&self, digest: Digest) -> Result<Option<Bytes>, Error> {
        let path = self.path(digest);
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::Io(format!("reading {}: {e}", path.display()))),
            Ok(_) => {}
        }
        if Digest::of(&bytes) != digest {
            return Err(Error::Io(format!(
                "the payload {} does not have the digest in its name: restore it from a backup",
                path.display()
            )));
        }
        Ok(Some(bytes.into()))
    }

    fn remove(&self, digest: Digest) -> Result<(), Error> {
        let path = self.path(digest);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::Io(format!("removing {}: {e}", path.display()))),
            _ => Ok(()),
        }
    }

    fn path(&self, digest: Digest) -> PathBuf {
        let hex = digest.hex();
        self.root.join("sha256").join(&hex.as_str()[..2]).join(hex.as_str())
    }
}

fn failed(doing: &str, path: &Path, e: &std::io::Error) -> Error {
    match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full,
        _ => Error::Io(format!("{doing} {}: {e}", path.display())),
    }
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

/// Elsewhere a folder cannot be opened, and a rename is durable with the file.
#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> std::io::Result<()> {
    Ok(())
}
