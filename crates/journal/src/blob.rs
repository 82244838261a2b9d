//! Payloads by content.

use async_trait::async_trait;
use bytes::Bytes;
use inspan_wire::Digest;

use crate::Error;

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a folder of payloads is files")]
mod folder;
mod memory;
mod pins;

pub use folder::Folder;
pub use memory::Memory;
pub(crate) use pins::Pinned;

/// Payloads above this many bytes are kept as blobs and named in the record by uri and digest.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// A store of payloads by their SHA-256. Payloads never change and are written at most once.
#[async_trait]
pub trait Blobs: Send + Sync + 'static {
    /// Keeps `bytes`. When it returns, they are durable: a record may name them.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Failed`] or [`Error::Io`]; nothing half-written is ever found under
    /// the digest.
    async fn put(&self, bytes: Bytes) -> Result<Digest, Error>;

    /// Reads a payload and checks it against its digest. `None` when it is not there.
    ///
    /// # Errors
    /// [`Error::Io`], also when the bytes do not have that digest.
    async fn get(&self, digest: Digest) -> Result<Option<Bytes>, Error>;

    /// Forgets a payload that no record names any more.
    ///
    /// # Errors
    /// [`Error::Io`]; a payload that is not there is no error.
    async fn remove(&self, digest: Digest) -> Result<(), Error>;
}
