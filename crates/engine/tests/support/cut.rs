//! A journal that a crash can fall into, before or after any commit, and that counts.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use inspan_journal::{
    Append, Appended, AskPage, AskQuery, Blobs, Error, FenceRule, Fork, Import, Journal, KeyUse, ListQuery, NewRecord,
    NewSession, Page, Record, Session, TurnMark,
};
use inspan_wire::{Digest, SessionUid};
use tokio::sync::Notify;

/// Where the crash falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Nothing is written.
    Before,
    /// It is durable, nobody was told.
    After,
    /// Another host has taken a fence just before; writes go on.
    Overtaken,
}

/// Passes everything on until write `at`; that one and all later ones never return.
pub(crate) struct Cut {
    inner: Arc<dyn Journal>,
    at: usize,
    side: Side,
    writes: AtomicUsize,
    reads: AtomicUsize,
    pub(crate) hit: Notify,
}

impl Cut {
    pub(crate) fn new(inner: Arc<dyn Journal>, at: usize, side: Side) -> Arc<Cut> {
        Arc::new(Cut { inner, at, side, writes: AtomicUsize::new(0), reads: AtomicUsize::new(0), hit: Notify::new() })
    }

    /// Writes that were asked for.
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Records that were read since the last question.
    pub(crate) fn take_reads(&self) -> usize {
        self.reads.swap(0, Ordering::SeqCst)
    }

    async fn write<T>(&self, write: impl Future<Output = Result<T, Error>> + Send) -> Result<T, Error> {
        let n = self.writes.fetch_add(1, Ordering::SeqCst);
        if n < self.at || self.side == Side::Overtaken {
            return write.await;
        }
        if n == self.at && self.side == Side::After {
            let _ = write.await;
        }
        self.hit.notify_one();
        std::future::pending().await
    }
}

impl Cut {
    /// What another host appends just before: a record without meaning.
    async fn overtaking(&self, append: &Append) -> Append {
        let now = self.inner.session(&append.session).await.expect("it reads").expect("it is there");
        let text = Bytes::from_static(b"{\"kind\":\"EVENT_LIFECYCLE\"}");
        Append {
            session: append.session.clone(),
            expect_head: now.head.seq,
            fence: FenceRule::Next,
            records: vec![NewRecord::seal(now.head.seq + 1, now.head.hash, text)],
            turn: None,
            state: now.state,
            requests: Vec::new(),
            blobs: Vec::new(),
            keys: Vec::new(),
        }
    }
}

#[async_trait]
impl Journal for Cut {
    async fn create(&self, session: NewSession) -> Result<Session, Error> {
        self.write(self.inner.create(session)).await
    }

    async fn session(&self, uid: &SessionUid) -> Result<Option<Session>, Error> {
        self.inner.session(uid).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page, Error> {
        self.inner.list(query).await
    }

    async fn asks(&self, query: AskQuery) -> Result<AskPage, Error> {
        self.inner.asks(query).await
    }

    async fn announced(&self, uid: &SessionUid, request_seq: i64) -> Result<(), Error> {
        self.write(self.inner.announced(uid, request_seq)).await
    }

    async fn append(&self, append: Append) -> Result<Appended, Error> {
        if self.side == Side::Overtaken && self.writes() == self.at {
            self.inner.append(self.overtaking(&append).await).await?;
        }
        self.write(self.inner.append(append)).await
    }

    async fn new_fence(&self, uid: &SessionUid) -> Result<i64, Error> {
        self.write(self.inner.new_fence(uid)).await
    }

    async fn records(&self, uid: &SessionUid, from: i64, to: i64, limit: usize) -> Result<Vec<Record>, Error> {
        let records = self.inner.records(uid, from, to, limit).await?;
        self.reads.fetch_add(records.len(), Ordering::SeqCst);
        Ok(records)
    }

    async fn turn_at(&self, uid: &SessionUid, at: i64) -> Result<Option<TurnMark>, Error> {
        self.inner.turn_at(uid, at).await
    }

    async fn fork(&self, fork: Fork) -> Result<Vec<Session>, Error> {
        self.write(self.inner.fork(fork)).await
    }

    async fn delete(&self, uid: &SessionUid) -> Result<(), Error> {
        self.write(self.inner.delete(uid)).await
    }

    async fn request(&self, digest: Digest) -> Result<Option<Arc<str>>, Error> {
        self.inner.request(digest).await
    }

    async fn names_blob(&self, uid: &SessionUid, digest: Digest) -> Result<bool, Error> {
        self.inner.names_blob(uid, digest).await
    }

    async fn key_use(&self, uid: &SessionUid, key: &str) -> Result<Option<KeyUse>, Error> {
        self.inner.key_use(uid, key).await
    }

    async fn import(&self, import: Import) -> Result<Session, Error> {
        self.write(self.inner.import(import)).await
    }

    async fn uids(&self, after: Option<SessionUid>, limit: usize) -> Result<Vec<SessionUid>, Error> {
        self.inner.uids(after, limit).await
    }

    fn blobs(&self) -> &Arc<dyn Blobs> {
        self.inner.blobs()
    }
}
