//! The store that one host has in hand: slow, full at times, and gone with its host.
//!
//! Every operation waits some scheduling points before and behind the store's own critical section. A
//! crash in between falls before the commit, or between the commit and its acknowledgement. The oracle
//! is told in the step of the commit itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use inspan_journal::{
    Append, Appended, AskPage, AskQuery, Blobs, Error, Fork, Import, Journal, KeyUse, ListQuery, NewSession, Page,
    Record, Session, TurnMark,
};
use inspan_wire::{Digest, SessionUid, parse};

use crate::Promise;
use crate::oracle::{Stored, kind_name, short};
use crate::world::{World, lock};

/// What the read of all records of a session asks for.
pub(crate) const ALL: usize = 1_000_000;

/// One host's handle on the one store.
pub(crate) struct SimStore {
    world: Arc<World>,
    inner: Arc<dyn Journal>,
    blobs: Arc<dyn Blobs>,
    hand: Arc<Hand>,
}

/// What the journal and the payloads of one handle share.
struct Hand {
    world: Arc<World>,
    /// A write failed and nobody knows what is on disk: nothing is written until the host restarts.
    failed: AtomicBool,
}

struct SimBlobs {
    inner: Arc<dyn Blobs>,
    hand: Arc<Hand>,
}

impl SimStore {
    /// A fresh handle, as after a restart.
    pub(crate) fn new(world: Arc<World>, inner: Arc<dyn Journal>) -> SimStore {
        let hand = Arc::new(Hand { world: world.clone(), failed: AtomicBool::new(false) });
        let blobs = Arc::new(SimBlobs { inner: inner.blobs().clone(), hand: hand.clone() });
        SimStore { world, inner, blobs, hand }
    }

    /// What is stored now of a session: the whole, or from `from` on.
    async fn stored(&self, uid: &SessionUid, from: i64) -> Stored {
        stored(&*self.inner, uid, from).await
    }

    async fn read<T>(&self, read: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.world.pause().await;
        self.hand.read_fault()?;
        let answer = read.await;
        self.world.pause().await;
        answer
    }

    /// Tells the oracle what an append has come to.
    async fn tell(&self, append: &Append, outcome: &Result<Appended, Error>) {
        let uid = &append.session;
        let from = append.expect_head + 1;
        match outcome {
            Ok(appended) => {
                let stored = self.stored(uid, from).await;
                self.world.with_op(|op| {
                    op.session.get_or_insert_with(|| uid.clone());
                    op.fence = Some(appended.fence);
                    op.appended.extend(append.records.iter().map(|r| r.seq));
                });
                let Some(op) = self.world.op() else { return };
                if lock(&self.world.drained).contains(&op.host) {
                    self.world.broke(Promise::HonestRefusal, format!("op {} goes on on a drained host", op.id));
                }
                let mut oracle = lock(&self.world.oracle);
                self.world.judge(oracle.committed(&op, append, *appended, &stored));
            }
            Err(error) => {
                let stored = self.stored(uid, from).await;
                self.world.judge(lock(&self.world.oracle).refused(append, error, &stored));
            }
        }
        self.note_append(append, outcome);
    }

    fn note_append(&self, append: &Append, outcome: &Result<Appended, Error>) {
        let kinds: Vec<&str> =
            append.records.iter().map(|r| parse::event(&r.event).map_or("?", |e| kind_name(&e))).collect();
        let outcome = match outcome {
            Ok(appended) => format!("under fence {}", appended.fence),
            Err(e) => format!("refused: {e}"),
        };
        let (id, host) = self.world.with_op(|op| (op.id, op.host)).unwrap_or_default();
        let first = append.expect_head + 1;
        self.world.note(format!(
            "op {id} host {host} {}: {first} {} {outcome}",
            short(&append.session),
            kinds.join(" ")
        ));
    }
}

/// What is stored now of a session.
pub(crate) async fn stored(journal: &dyn Journal, uid: &SessionUid, from: i64) -> Stored {
    let session = journal.session(uid).await.ok().flatten();
    let mut records: Vec<Record> = Vec::new();
    loop {
        let next = records.last().map_or(from, |r| r.seq + 1);
        match journal.records(uid, next, i64::MAX, ALL).await {
            Ok(page) if page.is_empty() => return Stored { session, records: Ok(records) },
            Ok(page) => records.extend(page),
            Err(e) => return Stored { session, records: Err(e) },
        }
    }
}

impl Hand {
    fn read_fault(&self) -> Result<(), Error> {
        if self.world.fault(self.world.weather.read) {
            return Err(Error::Io("the disk did not answer".to_owned()));
        }
        Ok(())
    }

    /// Faults that strike before anything is written.
    fn write_fault(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::SeqCst) {
            self.world.with_op(|op| op.faults += 1);
            return Err(refuses());
        }
        if self.world.fault(self.world.weather.full) {
            return Err(Error::Full);
        }
        if self.world.fault(self.world.weather.failed) {
            self.fail();
            return Err(refuses());
        }
        Ok(())
    }

    /// The fault that strikes when everything is written and only the host does not know.
    fn lost_answer(&self) -> Result<(), Error> {
        if self.world.fault(self.world.weather.failed) {
            self.fail();
            return Err(refuses());
        }
        Ok(())
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.world.note("the store of this host refuses writes from here on".to_owned());
    }
}

fn refuses() -> Error {
    Error::Failed("the disk did not take it".to_owned())
}

#[async_trait]
impl Journal for SimStore {
    async fn create(&self, session: NewSession) -> Result<Session, Error> {
        self.world.pause().await;
        self.hand.write_fault()?;
        let made = self.inner.create(session).await?;
        lock(&self.world.oracle).created(&made.uid);
        self.world.note(format!("session {} was created", short(&made.uid)));
        self.hand.lost_answer()?;
        self.world.pause().await;
        Ok(made)
    }

    async fn session(&self, uid: &SessionUid) -> Result<Option<Session>, Error> {
        self.read(self.inner.session(uid)).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page, Error> {
        self.read(self.inner.list(query)).await
    }

    async fn asks(&self, query: AskQuery) -> Result<AskPage, Error> {
        self.read(self.inner.asks(query)).await
    }

    async fn announced(&self, uid: &SessionUid, request_seq: i64) -> Result<(), Error> {
        self.world.pause().await;
        self.hand.write_fault()?;
        self.inner.announced(uid, request_seq).await
    }

    async fn append(&self, append: Append) -> Result<Appended, Error> {
        self.world.pause().await;
        self.hand.write_fault()?;
        let outcome = self.inner.append(append.clone()).await;
        self.tell(&append, &outcome).await;
        if outcome.is_ok() {
            self.hand.lost_answer()?;
        }
        self.world.pause().await;
        outcome
    }

    async fn new_fence(&self, uid: &SessionUid) -> Result<i64, Error> {
        self.world.pause().await;
        self.hand.write_fault()?;
        let fence = self.inner.new_fence(uid).await?;
        let op = self.world.with_op(|op| {
            op.fence = Some(fence);
            op.clone()
        });
        if let Some(op) = op {
            self.world.judge(lock(&self.world.oracle).fenced(uid, fence, op.id));
            if !op.kind.drives() {
                self.world.broke(Promise::ReplayCostsNothing, format!("{}: a {:?} took a fence", short(uid), op.kind));
            }
            self.world.note(format!("op {} host {} {}: took fence {fence}", op.id, op.host, short(uid)));
        }
        self.hand.lost_answer()?;
        self.world.pause().await;
        Ok(fence)
    }

    async fn records(&self, uid: &SessionUid, from: i64, to: i64, limit: usize) -> Result<Vec<Record>, Error> {
        self.read(self.inner.records(uid, from, to, limit)).await
    }

    async fn turn_at(&self, uid: &SessionUid, at: i64) -> Result<Option<TurnMark>, Error> {
        self.read(self.inner.turn_at(uid, at)).await
    }

    async fn fork(&self, fork: Fork) -> Result<Vec<Session>, Error> {
        self.world.pause().await;
        self.hand.write_fault()?;
        let parent = fork.parent.clone();
        let made = self.inner.fork(fork).await?;
        for child in &made {
            let stored = self.stored(&child.uid, child.head.seq).await;
            self.world.judge(lock(&self.world.oracle).forked(&parent, child, &stored));
            self.world.with_op(|op| op.children.push(child.uid.clone()));
            self.world.note(format!("{} is a fork of {} at {}", short(&child.uid), short(&parent), child.head.seq - 1));
        }
        self.hand.lost_answer()?;
        self.world.pause().await;
        Ok(made)
    }

    async fn delete(&self, uid: &SessionUid) -> Result<(), Error> {
        self.world.pause().await;
        self.hand.write_fault()?;
        self.inner.delete(uid).await?;
        self.world.judge(lock(&self.world.oracle).deleted(uid));
        self.world.note(format!("session {} was deleted", short(uid)));
        self.hand.lost_answer()?;
        self.world.pause().await;
        Ok(())
    }

    async fn request(&self, digest: Digest) -> Result<Option<Arc<str>>, Error> {
        self.read(self.inner.request(digest)).await
    }

    async fn names_blob(&self, uid: &SessionUid, digest: Digest) -> Result<bool, Error> {
        self.read(self.inner.names_blob(uid, digest)).await
    }

    async fn key_use(&self, uid: &SessionUid, key: &str) -> Result<Option<KeyUse>, Error> {
        self.read(self.inner.key_use(uid, key)).await
    }

    async fn import(&self, import: Import) -> Result<Session, Error> {
        self.hand.write_fault()?;
        self.inner.import(import).await
    }

    async fn uids(&self, after: Option<SessionUid>, limit: usize) -> Result<Vec<SessionUid>, Error> {
        self.read(self.inner.uids(after, limit)).await
    }

    fn blobs(&self) -> &Arc<dyn Blobs> {
        &self.blobs
    }
}

#[async_trait]
impl Blobs for SimBlobs {
    async fn put(&self, bytes: Bytes) -> Result<Digest, Error> {
        self.hand.world.pause().await;
        self.hand.write_fault()?;
        let digest = self.inner.put(bytes).await?;
        self.hand.world.pause().await;
        Ok(digest)
    }

    async fn get(&self, digest: Digest) -> Result<Option<Bytes>, Error> {
        self.hand.world.pause().await;
        self.hand.read_fault()?;
        let found = self.inner.get(digest).await;
        self.hand.world.pause().await;
        found
    }

    async fn remove(&self, digest: Digest) -> Result<(), Error> {
        self.hand.world.pause().await;
        self.inner.remove(digest).await
    }
}
