//! Bugs on purpose: a judge that has never found anything guilty proves nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use async_trait::async_trait;
use inspan_harness::{ModelRequest, ModelResponse, Sink, SinkError, ToolReply};
use inspan_journal::{
    Append, Appended, AskPage, AskQuery, Blobs, Error, FenceRule, Fork, Import, Journal, KeyUse, ListQuery, NewSession,
    Page, Record, Session, TurnMark,
};
use inspan_wire::{Digest, SessionUid, v1};

use crate::world::lock;

/// A bug that a run can have on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// A crash takes the last acknowledged append with it.
    LosesAppends,
    /// One record of one append is stored twice.
    RepeatsRecords,
    /// A writer whose fence was passed is let through.
    AcceptsStaleFences,
    /// An append is written, and refused all the same.
    WritesAndRefuses,
    /// The provider is asked before the call is on record.
    CallsBeforeRecord,
    /// The provider is asked again for a call that has its completion.
    CallsTwice,
    /// The provider is asked on a re-run.
    CallsOnReplay,
    /// A tool is run again that has answered.
    RunsTwice,
    /// A tool is run while its call waits for a decision.
    RunsUnapproved,
    /// Whoever decides is told that it counts, whatever was decided before.
    AgreesWithEveryone,
    /// A harness that departs from its recording is served an invention.
    GuessesOnDivergence,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 11] = [
        Plant::LosesAppends,
        Plant::RepeatsRecords,
        Plant::AcceptsStaleFences,
        Plant::WritesAndRefuses,
        Plant::CallsBeforeRecord,
        Plant::CallsTwice,
        Plant::CallsOnReplay,
        Plant::RunsTwice,
        Plant::RunsUnapproved,
        Plant::AgreesWithEveryone,
        Plant::GuessesOnDivergence,
    ];
}

/// Appends before a bug of the store shows.
const APPENDS_BEFORE: u64 = 20;

/// A store with a bug.
pub(crate) struct Planted {
    inner: Arc<dyn Journal>,
    plant: Plant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    appends: u64,
    last: Option<(SessionUid, i64)>,
    /// Sessions that end before this seq.
    lost: BTreeMap<SessionUid, i64>,
    /// The record that is there twice.
    twice: Option<(SessionUid, i64)>,
}

impl Planted {
    /// `inner` with `plant` in it.
    pub(crate) fn new(inner: Arc<dyn Journal>, plant: Plant) -> Planted {
        Planted { inner, plant, state: Mutex::default() }
    }

    /// A host died.
    pub(crate) fn crash(&self) {
        let mut state = lock(&self.state);
        if self.plant == Plant::LosesAppends
            && state.appends > APPENDS_BEFORE
            && let Some((uid, seq)) = state.last.take()
        {
            state.lost.insert(uid, seq);
        }
    }

    async fn admit(&self, append: &mut Append) {
        if let (Plant::AcceptsStaleFences, FenceRule::Held(held)) = (self.plant, append.fence) {
            let current = self.inner.session(&append.session).await.ok().flatten().map_or(0, |s| s.fence);
            append.fence = FenceRule::Held(held.max(current));
        }
    }
}

#[async_trait]
impl Journal for Planted {
    async fn create(&self, session: NewSession) -> Result<Session, Error> {
        self.inner.create(session).await
    }

    async fn session(&self, uid: &SessionUid) -> Result<Option<Session>, Error> {
        let mut session = self.inner.session(uid).await?;
        if let (Some(session), Some(lost)) = (&mut session, lock(&self.state).lost.get(uid)) {
            session.head.seq = lost - 1;
        }
        Ok(session)
    }

    async fn list(&self, query: ListQuery) -> Result<Page, Error> {
        self.inner.list(query).await
    }

    async fn asks(&self, query: AskQuery) -> Result<AskPage, Error> {
        self.inner.asks(query).await
    }

    async fn announced(&self, uid: &SessionUid, request_seq: i64) -> Result<(), Error> {
        self.inner.announced(uid, request_seq).await
    }

    async fn append(&self, mut append: Append) -> Result<Appended, Error> {
        self.admit(&mut append).await;
        let session = append.session.clone();
        let first = append.expect_head + 1;
        let appended = self.inner.append(append).await?;
        let mut state = lock(&self.state);
        state.appends += 1;
        state.last = Some((session.clone(), first));
        match self.plant {
            Plant::RepeatsRecords if state.appends == APPENDS_BEFORE => state.twice = Some((session, first)),
            Plant::WritesAndRefuses if state.appends == APPENDS_BEFORE => {
                return Err(Error::Conflict { session, expected: first - 1, actual: first });
            }
            _ => {}
        }
        Ok(appended)
    }

    async fn new_fence(&self, uid: &SessionUid) -> Result<i64, Error> {
        self.inner.new_fence(uid).await
    }

    async fn records(&self, uid: &SessionUid, from: i64, to: i64, limit: usize) -> Result<Vec<Record>, Error> {
        let mut records = self.inner.records(uid, from, to, limit).await?;
        let state = lock(&self.state);
        if let Some(lost) = state.lost.get(uid) {
            records.retain(|r| r.seq < *lost);
        }
        if let Some((of, seq)) = &state.twice
            && of == uid
            && let Some(at) = records.iter().position(|r| r.seq == *seq)
        {
            records.insert(at, records[at].clone());
        }
        Ok(records)
    }

    async fn turn_at(&self, uid: &SessionUid, at: i64) -> Result<Option<TurnMark>, Error> {
        self.inner.turn_at(uid, at).await
    }

    async fn fork(&self, fork: Fork) -> Result<Vec<Session>, Error> {
        self.inner.fork(fork).await
    }

    async fn delete(&self, uid: &SessionUid) -> Result<(), Error> {
        self.inner.delete(uid).await
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
        self.inner.import(import).await
    }

    async fn uids(&self, after: Option<SessionUid>, limit: usize) -> Result<Vec<SessionUid>, Error> {
        self.inner.uids(after, limit).await
    }

    fn blobs(&self) -> &Arc<dyn Blobs> {
        self.inner.blobs()
    }
}

/// A sink that never admits a divergence.
pub(crate) struct Guessing<'s>(pub(crate) &'s dyn Sink);

#[async_trait]
impl Sink for Guessing<'_> {
    async fn model(&self, request: ModelRequest) -> Result<ModelResponse, SinkError> {
        match self.0.model(request).await {
            Err(SinkError::Fatal(_)) => Ok(ModelResponse { message: v1::Message::text("assistant", "invented") }),
            answer => answer,
        }
    }

    async fn output(&self, text: &str) -> Result<(), SinkError> {
        match self.0.output(text).await {
            Err(SinkError::Fatal(_)) => Ok(()),
            answer => answer,
        }
    }

    async fn tool(&self, call: v1::ToolCall) -> Result<ToolReply, SinkError> {
        self.0.tool(call).await
    }

    async fn report(&self, result: v1::ToolResult) -> Result<(), SinkError> {
        self.0.report(result).await
    }

    async fn usage(&self, usage: v1::Usage) -> Result<(), SinkError> {
        match self.0.usage(usage).await {
            Err(SinkError::Fatal(_)) => Ok(()),
            answer => answer,
        }
    }
}
