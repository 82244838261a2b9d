//! One record of a journal, as it was hashed.

use bytes::Bytes;
use inspan_wire::{Digest, canon};

/// A record: the canonical bytes of an event, bound to its place by the hash chain.
///
/// `event` is never a re-encoding: it is the text that `content_hash` covers, byte for byte, also
/// when it holds fields that this build does not know (R-HASH-9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Dense from 1 (R-HASH-8).
    pub seq: i64,
    /// The previous record's content hash; `None` at seq 1.
    pub prev_hash: Option<Digest>,
    /// See [`canon::content_hash`].
    pub content_hash: Digest,
    /// The fence it was written under. Not hashed (R-HASH-7).
    pub fence: i64,
    /// Commit time, milliseconds since the Unix epoch, UTC. Not hashed.
    pub ts_ms: i64,
    /// The canonical JSON of the event.
    pub event: Bytes,
}

impl Record {
    /// Whether the stored hash is the hash of what is stored.
    pub fn holds(&self) -> bool {
        canon::content_hash(self.prev_hash, self.seq, &self.event) == self.content_hash
    }
}

/// A record that its writer has hashed and the store has not yet seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The place that it takes.
    pub seq: i64,
    /// The hash of the record before it.
    pub prev_hash: Option<Digest>,
    /// Its own hash, computed outside the store's lock.
    pub content_hash: Digest,
    /// The canonical JSON of the event.
    pub event: Bytes,
}

impl NewRecord {
    /// Hashes `event` into place `seq` after `prev_hash`.
    pub fn seal(seq: i64, prev_hash: Option<Digest>, event: Bytes) -> NewRecord {
        let content_hash = canon::content_hash(prev_hash, seq, &event);
        NewRecord { seq, prev_hash, content_hash, event }
    }
}
