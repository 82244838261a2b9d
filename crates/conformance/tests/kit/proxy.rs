//! Our host behind a proxy that breaks one rule.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use inspan_conformance::Address;
use inspan_host::proto::SessionsClient;
use inspan_host::proto::agentsessions_v1::sessions_server::{Sessions, SessionsServer};
use inspan_wire::v1::{self, EventKind, event::Body, exec_update::Update};
use inspan_wire::{Digest, canon};
use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::support::{Served, serve};

/// The one rule that a host breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    ForgetsAnnotations,
    NewIsCompleted,
    UnknownHarnessIsNotFound,
    UnknownSessionIsInternal,
    EmptySessionIsNotFound,
    NoFirstFrame,
    FirstFrameAfter,
    OddEnd,
    ExecSkips,
    NoInputCount,
    NoHarnessName,
    OtherExecution,
    ShownTooEarly,
    MoreOfTheCall,
    Actor,
    BadHash,
    BadLink,
    ReplaySkips,
    ReplayIgnoresRange,
    UnknownReplayFails,
    AnyHead,
    HeadIsPrecondition,
    EveryRacer,
    NoDeadline,
    ResumeRuns,
    NoSuspend,
    StaysCold,
    GetIsWarm,
    OddMarker,
    ForkRunsParent,
    ForkForgetsName,
    ForkTakesIdentity,
    ForkTakesNames,
    RefusedForkLeavesChild,
    ForkBeyondIsInternal,
    AsksTwice,
    BeginsAgain,
    OldestFirst,
    PagesRepeat,
    AnyToken,
    HidesFresh,
    IncompleteIsNotFound,
    NothingIsApproved,
    ParkGoesOn,
    NoLastFrame,
    HidesGate,
    TakesInputs,
    ResumeMoves,
    NoDecisionTime,
    AgainIsRefused,
    NoDenial,
}

/// A host with one fault.
#[derive(Clone)]
struct Proxy {
    fault: Fault,
    host: SessionsClient<Channel>,
    /// Whether a fault that shows once has shown.
    done: Arc<AtomicBool>,
    /// The hashes that changed records have, by the ones that they had.
    changed: Arc<Mutex<BTreeMap<String, String>>>,
    latest: Arc<Mutex<String>>,
}

/// Serves `host` with a fault.
pub(crate) async fn proxy(fault: Fault, host: &Address) -> Served {
    let channel = inspan_attach::grpc::channel(host, &inspan_attach::grpc::Settings::default());
    let proxy = Proxy {
        fault,
        host: SessionsClient::new(channel),
        done: Arc::default(),
        changed: Arc::default(),
        latest: Arc::default(),
    };
    serve(tonic::transport::Server::builder().add_service(SessionsServer::new(proxy))).await
}

fn uid(session: &v1::Session) -> String {
    session.metadata.as_ref().map(|m| m.uid.clone()).unwrap_or_default()
}

fn kind(record: &v1::LogRecord) -> EventKind {
    record.event.as_ref().map_or(EventKind::Unspecified, v1::Event::kind)
}

/// What a fault does to the body of an event.
fn bend(fault: Fault, event: &mut v1::Event) {
    let kind = event.kind();
    match (fault, &mut event.body) {
        (Fault::NoInputCount, Some(Body::ExecutionStart(start))) => start.input_count = None,
        (Fault::NoHarnessName, Some(Body::ExecutionStart(start))) => start.harness.clear(),
        (Fault::OddEnd, Some(Body::End(end))) => end.state = "DONE".to_owned(),
        (Fault::OtherExecution, _) if kind == EventKind::EventInput => event.execution_id.push('0'),
        (Fault::MoreOfTheCall, Some(Body::Model(call))) => call.params = [("a".to_owned(), "b".to_owned())].into(),
        (Fault::Actor, _) if kind == EventKind::EventInput => {
            event.actor = Some(v1::IdentityRef { principal: "someone".to_owned(), ..Default::default() });
        }
        (Fault::OddMarker, Some(Body::Lifecycle(life))) if life.detail.starts_with("parent@") => {
            life.detail = life.detail.replace("parent", "sess-x");
        }
        (Fault::NoDecisionTime, Some(Body::ApprovalResult(_))) => event.ts = None,
        (Fault::NoDenial, Some(Body::Result(result))) => result.approval_decision_seq += 1,
        _ => {}
    }
}

impl Proxy {
    fn breaks(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// Whether a fault that shows once shows now.
    fn once(&self, fault: Fault) -> bool {
        self.fault == fault && !self.done.swap(true, Ordering::SeqCst)
    }

    /// Bends a record and hashes the chain anew, so that nothing but the fault is wrong with it.
    fn record(&self, mut record: v1::LogRecord) -> v1::LogRecord {
        let mut event = record.event.take().expect("a record has an event");
        let before = event.clone();
        bend(self.fault, &mut event);
        let mut changed = self.changed.lock().expect("never poisoned");
        let link = changed.get(&record.prev_hash).cloned();
        let bad_link = self.breaks(Fault::BadLink) && record.seq == 3;
        if event != before || link.is_some() || bad_link {
            record.prev_hash = link.unwrap_or(record.prev_hash);
            if bad_link {
                record.prev_hash = Digest::of(b"something else").to_string();
            }
            let canonical = canon::event(&event).expect("it has a canonical form");
            let hash = canon::content_hash(record.prev_hash.parse().ok(), record.seq, &canonical).to_string();
            changed.insert(std::mem::replace(&mut record.content_hash, hash.clone()), hash);
        }
        if self.breaks(Fault::BadHash)
            && kind(&v1::LogRecord { event: Some(event.clone()), ..Default::default() }) == EventKind::EventOutput
        {
            record.content_hash = Digest::of(b"something else").to_string();
        }
        record.event = Some(event);
        record
    }

    async fn head(&self, session: &str) -> i64 {
        let request = v1::GetSessionRequest { uid: session.to_owned() };
        self.host.clone().get_session(request).await.map_or(0, |s| s.into_inner().last_seq)
    }

    /// Has another turn run on a session.
    async fn turn(&self, session: &str) {
        let inputs = vec![v1::Message::text("user", "model x")];
        let request = v1::ExecRequest { session: session.to_owned(), inputs, ..Default::default() };
        let mut stream = self.host.clone().exec(request).await.expect("it runs").into_inner();
        while let Ok(Some(_)) = stream.message().await {}
    }

    fn status(&self, status: Status) -> Status {
        match (self.fault, status.code()) {
            (Fault::HeadIsPrecondition, Code::Aborted) => Status::failed_precondition("another head"),
            (Fault::UnknownSessionIsInternal, Code::NotFound) => Status::internal("no such session"),
            (Fault::ForkBeyondIsInternal, Code::OutOfRange) => Status::internal("beyond the head"),
            _ => status,
        }
    }

    /// What a fault does to the frames of an Exec.
    fn frames(&self, mut frames: Vec<Update>) -> Vec<Update> {
        match self.fault {
            Fault::NoFirstFrame => drop(frames.remove(0)),
            Fault::FirstFrameAfter => {
                if let Some(Update::Session(session)) = frames.first_mut() {
                    session.last_seq += 5;
                }
            }
            Fault::ExecSkips => frames.retain(|f| !matches!(f, Update::Record(r) if kind(r) == EventKind::EventOutput)),
            Fault::ParkGoesOn => {
                let parked = frames
                    .iter()
                    .position(|f| matches!(f, Update::Record(r) if kind(r) == EventKind::EventApprovalRequest));
                if let Some(at) = parked {
                    let mut more = frames[at - 1].clone();
                    if let Update::Record(record) = &mut more {
                        record.seq += 2;
                    }
                    frames.insert(at + 1, more);
                }
            }
            Fault::NoLastFrame if frames.len() > 1 && matches!(frames.last(), Some(Update::Session(_))) => {
                drop(frames.pop())
            }
            _ => {}
        }
        frames
    }
}

type Frames<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn stream<T: Send + 'static>(items: Vec<Result<T, Status>>) -> Response<Frames<T>> {
    Response::new(Box::pin(futures_util::stream::iter(items)))
}

#[tonic::async_trait]
impl Sessions for Proxy {
    async fn create_session(
        &self,
        request: Request<v1::CreateSessionRequest>,
    ) -> Result<Response<v1::Session>, Status> {
        let made = self.host.clone().create_session(request).await.map_err(|status| {
            let is_unknown = self.breaks(Fault::UnknownHarnessIsNotFound);
            if is_unknown { Status::not_found("no such harness") } else { status }
        });
        let mut session = made?.into_inner();
        match self.fault {
            Fault::ForgetsAnnotations => session.annotations.clear(),
            Fault::NewIsCompleted => session.exec_state = v1::ExecState::ExecCompleted.into(),
            _ => {}
        }
        *self.latest.lock().expect("never poisoned") = uid(&session);
        Ok(Response::new(session))
    }

    async fn get_session(&self, request: Request<v1::GetSessionRequest>) -> Result<Response<v1::Session>, Status> {
        if self.breaks(Fault::EmptySessionIsNotFound) && request.get_ref().uid.is_empty() {
            return Err(Status::not_found("no such session"));
        }
        let mut session = self.host.clone().get_session(request).await.map_err(|s| self.status(s))?.into_inner();
        match self.fault {
            Fault::GetIsWarm if session.pending_approval.is_none() => {
                session.compute_state = v1::ComputeState::ComputeWarm.into();
            }
            Fault::HidesGate => session.pending_approval = None,
            _ => {}
        }
        Ok(Response::new(session))
    }

    async fn list_sessions(
        &self,
        mut request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        if self.breaks(Fault::AnyToken) && request.get_ref().page_token.starts_with('%') {
            request.get_mut().page_token.clear();
        }
        let mut page = self.host.clone().list_sessions(request).await?.into_inner();
        match self.fault {
            Fault::OldestFirst => page.sessions.reverse(),
            Fault::HidesFresh => {
                let fresh = |s: &v1::Session| s.metadata.as_ref().is_some_and(|m| m.name == "fresh");
                page.sessions.retain(|session| !fresh(session));
            }
            Fault::PagesRepeat if page.sessions.len() == 3 => page.sessions[2] = page.sessions[1].clone(),
            _ => {}
        }
        Ok(Response::new(page))
    }

    async fn delete_session(&self, _: Request<v1::DeleteSessionRequest>) -> Result<Response<v1::Session>, Status> {
        Err(Status::unimplemented("not here"))
    }

    type ExecStream = Frames<v1::ExecUpdate>;

    async fn exec(&self, mut request: Request<v1::ExecRequest>) -> Result<Response<Self::ExecStream>, Status> {
        let asked = request.get_mut();
        match (self.fault, asked.expected_last_seq) {
            (Fault::AnyHead, Some(1..)) => asked.expected_last_seq = None,
            (Fault::NoDeadline, _) => asked.deadline_unix = 0,
            _ => {}
        }
        let is_gated = asked.inputs.iter().any(|input| input.concat_text().starts_with("gate"));
        let head = self.head(&asked.session).await;
        if self.breaks(Fault::EveryRacer) && asked.expected_last_seq == Some(0) && head == 0 {
            return Ok(stream(vec![]));
        }
        let answer = self.host.clone().exec(request).await;
        if self.breaks(Fault::TakesInputs) && is_gated && answer.is_err() {
            return Ok(stream(vec![]));
        }
        let mut answer = answer.map_err(|s| self.status(s))?.into_inner();
        let (mut frames, mut last) = (Vec::new(), None);
        while let Some(next) = answer.next().await {
            match next {
                Ok(v1::ExecUpdate { update: Some(Update::Record(record)) }) => {
                    frames.push(Update::Record(self.record(record)));
                }
                Ok(update) => frames.extend(update.update),
                Err(status) => last = Some(Err(self.status(status))),
            }
        }
        let frames = self.frames(frames).into_iter().map(|update| Ok(v1::ExecUpdate { update: Some(update) }));
        Ok(stream(frames.chain(last).collect()))
    }

    type ReplayStream = Frames<v1::LogRecord>;

    async fn replay(&self, mut request: Request<v1::ReplayRequest>) -> Result<Response<Self::ReplayStream>, Status> {
        let v1::ReplayRequest { from_seq, to_seq, .. } = *request.get_ref();
        if self.breaks(Fault::ReplayIgnoresRange) && (from_seq, to_seq) == (2, 3) {
            request.get_mut().to_seq = 0;
        }
        if self.breaks(Fault::ShownTooEarly) && from_seq == to_seq && from_seq == 2 {
            return Ok(stream(vec![]));
        }
        let answer = self.host.clone().replay(request).await.map_err(|status| {
            if self.breaks(Fault::UnknownReplayFails) { Status::internal("no such session") } else { status }
        });
        let records: Vec<_> = answer?.into_inner().collect().await;
        let mut records: Vec<v1::LogRecord> =
            records.into_iter().map(|record| record.map(|record| self.record(record))).collect::<Result<_, _>>()?;
        if from_seq == 0 && self.once(Fault::ReplaySkips) {
            records.remove(1);
        }
        let redriven = records.first().is_some_and(|r| kind(r) == EventKind::EventOutput && r.seq == 5);
        if redriven && self.breaks(Fault::AsksTwice) {
            let mut call = records[0].clone();
            call.event = call.event.map(|e| v1::Event { kind: EventKind::EventModelCall.into(), ..e });
            records.insert(0, call);
        }
        if redriven && self.breaks(Fault::BeginsAgain) {
            let mut input = records[0].clone();
            input.event = input.event.map(|e| v1::Event { kind: EventKind::EventInput.into(), ..e });
            records.insert(1, input);
        }
        Ok(stream(records.into_iter().map(Ok).collect()))
    }

    async fn approve(&self, request: Request<v1::ApproveRequest>) -> Result<Response<v1::ApproveResponse>, Status> {
        let asked = request.get_ref().clone();
        let answer = self.host.clone().approve(request).await;
        match (self.fault, &answer) {
            (Fault::IncompleteIsNotFound, Err(status))
                if status.code() == Code::InvalidArgument && !asked.session.is_empty() =>
            {
                Err(Status::not_found("no such request"))
            }
            (Fault::NothingIsApproved, Err(status))
                if status.code() == Code::FailedPrecondition && asked.execution_id == "e" =>
            {
                Ok(Response::new(v1::ApproveResponse::default()))
            }
            (Fault::AgainIsRefused, Ok(_)) if self.done.swap(true, Ordering::SeqCst) => {
                Err(Status::failed_precondition("it is decided"))
            }
            _ => {
                let mut answer = answer.map_err(|s| self.status(s))?.into_inner();
                answer.decision = answer.decision.map(|record| self.record(record));
                Ok(Response::new(answer))
            }
        }
    }

    async fn cancel(&self, _: Request<v1::CancelRequest>) -> Result<Response<v1::Session>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn suspend(&self, request: Request<v1::SuspendRequest>) -> Result<Response<v1::Session>, Status> {
        let session = request.get_ref().session.clone();
        if self.breaks(Fault::NoSuspend) && self.head(&session).await > 0 {
            return self.host.clone().get_session(v1::GetSessionRequest { uid: session }).await;
        }
        self.host.clone().suspend(request).await.map_err(|s| self.status(s))
    }

    async fn resume(&self, request: Request<v1::ResumeRequest>) -> Result<Response<v1::Session>, Status> {
        let uid = request.get_ref().session.clone();
        let before = self.host.clone().get_session(v1::GetSessionRequest { uid: uid.clone() }).await;
        let before = before.map(Response::into_inner).unwrap_or_default();
        let is_live = before.compute_state() == v1::ComputeState::ComputeLive;
        if self.breaks(Fault::ResumeRuns) && is_live {
            self.turn(&uid).await;
        }
        let mut answer = self.host.clone().resume(request).await.map_err(|s| self.status(s))?;
        let is_waiting = before.pending_approval.is_some();
        match self.fault {
            Fault::StaysCold if !is_live => {
                answer.get_mut().compute_state = v1::ComputeState::ComputeCold.into();
            }
            Fault::ResumeMoves if is_waiting => answer.get_mut().last_seq += 1,
            _ => {}
        }
        Ok(answer)
    }

    async fn fork(&self, mut request: Request<v1::ForkRequest>) -> Result<Response<v1::ForkResponse>, Status> {
        let parent = request.get_ref().session.clone();
        let asked = request.get_mut();
        match self.fault {
            Fault::ForkTakesIdentity => asked.identity = None,
            Fault::ForkTakesNames if asked.child_names.len() == 2 => asked.child_names.clear(),
            Fault::ForkForgetsName if asked.at_seq == 2 && asked.child_names.len() == 1 => asked.child_names.clear(),
            Fault::RefusedForkLeavesChild if asked.count > 128 => {
                let one = v1::ForkRequest { count: 1, ..asked.clone() };
                self.host.clone().fork(one).await?;
            }
            _ => {}
        }
        let answer = self.host.clone().fork(request).await.map_err(|s| self.status(s))?;
        if self.once(Fault::ForkRunsParent) {
            self.turn(&parent).await;
        }
        Ok(answer)
    }
}
