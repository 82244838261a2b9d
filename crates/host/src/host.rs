//! Every operation, once: both spellings call these.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use inspan_engine::{Engine, ForkArgs};
use inspan_journal::{ListQuery, Session, verify};
use inspan_models::request_id;
use inspan_wire::v1::{self, EventKind, event::Body};
use inspan_wire::{Digest, SessionUid, inspan_v1};
use tokio::sync::watch;
use tonic::Code;

use crate::fault::Fault;
use crate::hub::Hub;
use crate::transfer::{self, Pieces};
use crate::update::{Updates, decoded, log_of};
use crate::watch::{Want, Watcher};
use crate::{exec, page, watch as streams};

/// What a host is told about itself.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The project of sessions that name none.
    pub default_project: String,
    /// Silence on a stream after which a heartbeat is sent.
    pub heartbeat: Duration,
    /// Where a file that is imported stands while it is read. Without such a folder it stands in memory
    /// and is bounded like a message.
    pub scratch: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { default_project: "default".to_owned(), heartbeat: Duration::from_secs(15), scratch: None }
    }
}

/// The services of one host.
pub struct Host {
    engine: Engine,
    hub: Arc<Hub>,
    settings: Settings,
    /// Whether new work is refused.
    stopping: AtomicBool,
    /// Whether streams that have no end of their own must end.
    closing: watch::Sender<bool>,
}

/// Where a watcher starts and what it wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchFrom {
    /// The first record wanted; zero or less means 1.
    pub(crate) seq: i64,
    pub(crate) want: Want,
}

impl Host {
    /// A host around `engine`, which must have `hub` for its observer.
    pub fn new(engine: Engine, hub: Arc<Hub>, settings: Settings) -> Host {
        Host { engine, hub, settings, stopping: AtomicBool::new(false), closing: watch::Sender::new(false) }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether this host takes no new work.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Refuses new work, lets running turns reach a durable point, at most for `within`, and then
    /// ends the streams that have no end of their own. False when a turn was still running.
    pub(crate) async fn stop(&self, within: Duration) -> bool {
        self.stopping.store(true, Ordering::Relaxed);
        let drained = tokio::time::timeout(within, self.engine.drain()).await.is_ok();
        self.closing.send_replace(true);
        drained
    }

    pub(crate) async fn create(&self, request: v1::CreateSessionRequest) -> Result<v1::Session, Fault> {
        let mut info = request.session.unwrap_or_default();
        let metadata = info.metadata.get_or_insert_default();
        if metadata.project.is_empty() {
            metadata.project.clone_from(&self.settings.default_project);
        }
        let engine = self.engine.clone();
        outlive(async move { Ok(engine.create(info).await?) }).await
    }

    pub(crate) async fn get(&self, uid: &str) -> Result<v1::Session, Fault> {
        Ok(self.engine.session(&named(uid)?).await?)
    }

    /// R-LIST-1 and R-LIST-2.
    pub(crate) async fn list(&self, request: v1::ListSessionsRequest) -> Result<v1::ListSessionsResponse, Fault> {
        let project = match request.project.as_str() {
            "" => self.settings.default_project.clone(),
            project => project.to_owned(),
        };
        let after = page::after(&request.page_token)?;
        let query = ListQuery { project, limit: page::size(request.page_size), after };
        let found = self.engine.journal().list(query).await?;
        let next_page_token = match found.sessions.last() {
            Some(last) if found.more => page::token(last.create_ns, &last.uid),
            _ => String::new(),
        };
        let sessions = found.sessions.iter().map(|session| self.engine.view(session)).collect();
        Ok(v1::ListSessionsResponse { sessions, next_page_token })
    }

    pub(crate) async fn delete(&self, uid: &str) -> Result<v1::Session, Fault> {
        let (engine, uid) = (self.engine.clone(), named(uid)?);
        outlive(async move { Ok(engine.delete(&uid).await?) }).await
    }

    /// Accepts a turn and starts it. A fault here comes before the first frame.
    pub(crate) async fn exec(&self, request: v1::ExecRequest) -> Result<Updates, Fault> {
        let turn = self.engine.accept(request, &self.settings.default_project).await?;
        Ok(exec::start(&self.engine, &self.hub, turn, self.closing.subscribe()))
    }

    /// The records of a session as they are now.
    pub(crate) async fn replay(&self, request: &v1::ReplayRequest) -> Result<Updates, Fault> {
        let session = self.stored(&request.session).await?;
        let from = request.from_seq.max(1);
        let to = match request.to_seq {
            0 => session.head.seq,
            1.. => request.to_seq.min(session.head.seq),
            _ => return Err(Fault::invalid("to_seq is negative: leave it out, or 0, for the head")),
        };
        Ok(streams::records(Arc::clone(self.engine.journal()), session.uid, from, to))
    }

    pub(crate) async fn approve(&self, request: v1::ApproveRequest) -> Result<v1::ApproveResponse, Fault> {
        let engine = self.engine.clone();
        let decided = outlive(async move { Ok(engine.approve(&request).await?) });
        let decided = decided.await.map_err(|fault| fault.during("approve"))?;
        Ok(v1::ApproveResponse { session: Some(decided.session), decision: Some(log_of(decided.record, None)?) })
    }

    pub(crate) async fn cancel(&self, request: v1::CancelRequest) -> Result<v1::Session, Fault> {
        let (engine, uid) = (self.engine.clone(), named(&request.session)?);
        outlive(async move { Ok(engine.cancel(&uid, &request.execution_id, &request.reason).await?) })
            .await
            .map_err(|fault| fault.during("cancel"))
    }

    pub(crate) async fn suspend(&self, uid: &str) -> Result<v1::Session, Fault> {
        let (engine, uid) = (self.engine.clone(), named(uid)?);
        outlive(async move { Ok(engine.suspend(&uid).await?) }).await.map_err(|fault| fault.during("suspend"))
    }

    pub(crate) async fn resume(&self, uid: &str) -> Result<v1::Session, Fault> {
        let (engine, uid) = (self.engine.clone(), named(uid)?);
        outlive(async move { Ok(engine.resume(&uid).await?) }).await.map_err(|fault| fault.during("resume"))
    }

    pub(crate) async fn fork(&self, request: v1::ForkRequest) -> Result<v1::ForkResponse, Fault> {
        if request.identity.is_some() {
            return Err(Fault::invalid("ForkRequest.identity is unsupported: per-child principals are not enforced"));
        }
        let (engine, uid) = (self.engine.clone(), named(&request.session)?);
        let args = ForkArgs {
            at_seq: request.at_seq,
            count: request.count,
            labels: request.labels.into_iter().collect(),
            names: request.child_names,
        };
        let children =
            outlive(async move { Ok(engine.fork(&uid, args).await?) }).await.map_err(|fault| fault.during("fork"))?;
        Ok(v1::ForkResponse { children })
    }

    /// Follows a session from any record to live.
    pub(crate) async fn watch(&self, uid: &str, from: WatchFrom) -> Result<Updates, Fault> {
        let uid = named(uid)?;
        let seq = from.seq.max(1);
        // The viewer is there before the head is read: a record between the two is not missed.
        let follow = self.hub.follow(self.engine.journal(), &uid, seq);
        let head = self.stored(uid.as_str()).await?.head.seq;
        if seq > head + 1 {
            return Err(Fault::new(
                Code::OutOfRange,
                format!("session {uid} ends at seq {head}: watch from {} or before", head + 1),
            ));
        }
        let watcher = Watcher {
            engine: self.engine.clone(),
            uid,
            follow,
            want: from.want,
            heartbeat: self.settings.heartbeat,
            last_seq: seq - 1,
            closing: self.closing.subscribe(),
        };
        Ok(watcher.updates())
    }

    pub(crate) async fn rerun(&self, uid: &str) -> Result<inspan_v1::RerunResponse, Fault> {
        let rerun = self.engine.rerun(&named(uid)?).await?;
        Ok(inspan_v1::RerunResponse { executions: rerun.executions, effects: rerun.effects, outputs: rerun.outputs })
    }

    /// Checks a session against its hashes, its payloads and its kept requests.
    pub(crate) async fn verify(&self, uid: &str) -> Result<inspan_v1::VerifyResponse, Fault> {
        let report = verify::session(&**self.engine.journal(), &named(uid)?, None).await?;
        let (bad_seq, fault) = match &report.fault {
            Some(fault) => (fault.seq, fault.to_string()),
            None => (0, String::new()),
        };
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        Ok(inspan_v1::VerifyResponse {
            records: report.records,
            last_seq: report.last_seq,
            head_hash: report.head_hash.map(|hash| hash.to_string()).unwrap_or_default(),
            blobs: count(report.blobs),
            requests: count(report.requests),
            bad_seq,
            fault,
        })
    }

    /// A session as one self-contained file.
    pub(crate) async fn export(&self, uid: &str) -> Result<Pieces, Fault> {
        let session = self.stored(uid).await?;
        Ok(transfer::write(Arc::clone(self.engine.journal()), session.uid))
    }

    /// Imports what [`Host::export`] wrote, or the SQLite journal of an earlier host.
    pub(crate) async fn import(
        &self,
        pieces: impl Stream<Item = Result<Bytes, Fault>> + Send,
    ) -> Result<inspan_v1::ImportResponse, Fault> {
        let imported = transfer::read(&self.engine, self.settings.scratch.clone(), pieces).await;
        self.hub.ring_asked();
        imported
    }

    /// The exact text that the model call of record `seq` asked with.
    pub(crate) async fn model_request(&self, uid: &str, seq: i64) -> Result<inspan_v1::GetModelRequestResponse, Fault> {
        let uid = named(uid)?;
        let journal = self.engine.journal();
        let found = if seq < 1 { Vec::new() } else { journal.records(&uid, seq, seq, 1).await? };
        let Some(record) = found.first() else {
            // An unknown session says so itself.
            self.stored(uid.as_str()).await?;
            return Err(Fault::not_found(format!("session {uid} has no record {seq}")));
        };
        let event = decoded(record, None)?;
        let input_hash = match (event.kind(), &event.body) {
            (EventKind::EventModelCall, Some(Body::Model(call))) => call.input_hash.clone(),
            _ => return Err(Fault::invalid(format!("record {seq} of session {uid} is not an EVENT_MODEL_CALL"))),
        };
        let kept = match input_hash.parse() {
            Ok(digest) => journal.request(digest).await?,
            Err(_) => None,
        };
        let Some(text) = kept else {
            return Err(Fault::not_found(format!("the request of record {seq} of session {uid} was not kept")));
        };
        Ok(inspan_v1::GetModelRequestResponse { text: text.to_string(), input_hash })
    }

    /// A payload that a record of the session names.
    pub(crate) async fn blob(&self, uid: &str, digest: &str) -> Result<Bytes, Fault> {
        let uid = named(uid)?;
        let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
        let digest: Digest = hex.parse().map_err(|e| Fault::invalid(format!("{e}")))?;
        let journal = self.engine.journal();
        let absent = || Fault::not_found(format!("no record of session {uid} names the blob {digest}"));
        if !journal.names_blob(&uid, digest).await? {
            return Err(absent());
        }
        journal.blobs().get(digest).await?.ok_or_else(absent)
    }

    /// A stored session that must be there.
    pub(crate) async fn stored(&self, uid: &str) -> Result<Session, Fault> {
        let uid = named(uid)?;
        let found = self.engine.journal().session(&uid).await?;
        found.ok_or_else(|| inspan_journal::Error::NotFound(uid).into())
    }
}

/// A uid that was given.
fn named(uid: &str) -> Result<SessionUid, Fault> {
    if uid.is_empty() {
        return Err(Fault::invalid("the session's uid is empty: name a session"));
    }
    Ok(SessionUid::from(uid))
}

/// Runs what changes something on a task of its own: a caller that goes away in the middle must not
/// stop it half-way.
pub(crate) async fn outlive<T: Send + 'static>(
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    tokio::spawn(request_id::carried(work)).await.unwrap_or_else(|_| {
        Err(Fault::new(Code::Internal, "the operation broke off inside the host: look at what is there before a retry"))
    })
}
