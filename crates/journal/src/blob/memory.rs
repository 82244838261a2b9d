//! Payloads in memory, for tests and the simulator.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use inspan_wire::Digest;

use super::Blobs;
use crate::Error;

/// A blob store that forgets everything with the process.
#[derive(Debug, Default)]
pub struct Memory {
    kept: Mutex<BTreeMap<Digest, Bytes>>,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// The digests of everything that is kept, sorted.
    pub fn digests(&self) -> Vec<Digest> {
        self.lock().keys().copied().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Digest, Bytes>> {
        // Each critical section is a single map operation, so a panic cannot leave it half done.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Blobs for Memory {
    async fn put(&self, bytes: Bytes) -> Result<Digest, Error> {
        let digest = Digest::of(&bytes);
        self.lock().entry(digest).or_insert(bytes);
        Ok(digest)
    }

    async fn get(&self, digest: Digest) -> Result<Option<Bytes>, Error> {
        Ok(self.lock().get(&digest).cloned())
    }

    async fn remove(&self, digest: Digest) -> Result<(), Error> {
        self.lock().remove(&digest);
        Ok(())
    }
}
