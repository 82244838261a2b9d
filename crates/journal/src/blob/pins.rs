//! Keeps a payload alive between its `put` and the append that names it.
//!
//! A payload is shared by content. Without this, a delete of the only session that names one could
//! remove it just after another writer was told that it is durable and just before that writer's
//! record names it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use inspan_wire::Digest;
use tokio::sync::RwLock;

use super::Blobs;
use crate::{Clock, Error};

/// How long a payload that nothing names yet is safe from a delete.
const PIN_NS: i64 = 3_600_000_000_000;

/// A journal's view of its payload store.
pub(crate) struct Pinned {
    inner: Arc<dyn Blobs>,
    clock: Arc<dyn Clock>,
    /// Held for reading by every `put`, for writing by a removal: so none sees the other half done.
    gate: RwLock<()>,
    pins: Mutex<HashMap<Digest, Pin>>,
}

#[derive(Clone, Copy)]
struct Pin {
    /// Puts that no append has followed yet.
    open: u32,
    since_ns: i64,
}

impl Pinned {
    pub(crate) fn new(inner: Arc<dyn Blobs>, clock: Arc<dyn Clock>) -> Pinned {
        Pinned { inner, clock, gate: RwLock::new(()), pins: Mutex::default() }
    }

    /// Records name these now; the store's own references keep them from here on.
    pub(crate) fn unpin(&self, named: &[Digest]) {
        if named.is_empty() {
            return;
        }
        let mut pins = self.pins();
        for digest in named {
            if let Some(pin) = pins.get_mut(digest) {
                pin.open = pin.open.saturating_sub(1);
                if pin.open == 0 {
                    pins.remove(digest);
                }
            }
        }
    }

    /// Removes a payload unless it is pinned or `is_named` finds a record that names it. Says
    /// whether the matter is settled: a pinned payload has to be looked at again later.
    pub(crate) async fn sweep<F>(&self, digest: Digest, is_named: impl FnOnce() -> F) -> Result<bool, Error>
    where
        F: Future<Output = Result<bool, Error>>,
    {
        let _alone = self.gate.write().await;
        if self.is_pinned(digest) {
            return Ok(false);
        }
        // An append unpins after its commit, so a payload that is not pinned any more is named.
        if !is_named().await? {
            self.inner.remove(digest).await?;
        }
        Ok(true)
    }

    fn is_pinned(&self, digest: Digest) -> bool {
        let now = self.clock.now_ns();
        let mut pins = self.pins();
        pins.retain(|_, pin| now.saturating_sub(pin.since_ns) < PIN_NS);
        pins.contains_key(&digest)
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<Digest, Pin>> {
        // Each critical section leaves the map whole at every step.
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Blobs for Pinned {
    async fn put(&self, bytes: Bytes) -> Result<Digest, Error> {
        let _shared = self.gate.read().await;
        let digest = self.inner.put(bytes).await?;
        let since_ns = self.clock.now_ns();
        let mut pins = self.pins();
        let pin = pins.entry(digest).or_insert(Pin { open: 0, since_ns });
        pin.open += 1;
        pin.since_ns = since_ns;
        Ok(digest)
    }

    async fn get(&self, digest: Digest) -> Result<Option<Bytes>, Error> {
        self.inner.get(digest).await
    }

    async fn remove(&self, digest: Digest) -> Result<(), Error> {
        self.inner.remove(digest).await
    }
}
