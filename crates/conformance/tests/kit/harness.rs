//! A harness of the protocol alone, which keeps every rule but the one that it is told to break.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inspan_harness::gate;
use inspan_wire::v1::{self, EventKind, Mediation, controller_frame::Frame, event::Body, tool_result::Code};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::support::{Served, serve};

#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated")]
mod server {
    include!("../../../harness/src/gen/agentsessions.v1.rs");
}

/// The one rule that a harness breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    NoDescription,
    DescribesAnew,
    OddResumability,
    AnyFirstFrame,
    ForeignEvent,
    NoEnd,
    Silent,
    DoubleEnd,
    OddState,
    AlwaysFails,
    BadStatus,
    TalksOn,
    HostsKind,
    Unasked,
    Receipt,
    AsksTwice,
    NoMediation,
    NoKey,
    UsedGateId,
    OtherModel,
    OtherArguments,
    CallsSwapped,
    OtherOutput,
    OtherUsage,
    Less,
    More,
    AnyModelId,
    AnyResultId,
    AnyEnvelope,
    AnyOwner,
    AnyFrame,
    CloseIsAnswer,
    ToolErrorKills,
    ParkIgnored,
    ParkIsEnd,
    ParkOther,
    ParkEnds,
    ParkOpen,
    AnyPark,
    OrdinaryPark,
    OtherGate,
    DenialKills,
    AnyReceipt,
    CutIsReceipt,
    ShortHistory,
    ShortAnswer,
    Impatient,
    OneTurn,
    LeaksLost,
    DiesOfDeadline,
}

/// How long an impatient harness waits.
pub(crate) const PATIENCE: Duration = Duration::from_millis(700);
/// Turns at once of a harness that never frees the place of a lost one: enough for what the kit has at once, and for less than
/// it gives up.
const PLACES: u64 = 12;
/// Bytes of text that a harness takes which is not made for long ones.
pub(crate) const SMALL: usize = 32 << 10;

/// What one process has in common between its turns; a harness that keeps the rules uses none of it.
#[derive(Default)]
struct Shared {
    described: u64,
    /// How often each execution was driven.
    driven: BTreeMap<String, u64>,
    latest: String,
    /// Turns that run, as far as the harness knows.
    running: u64,
    dead: bool,
}

#[derive(Clone)]
struct Raw {
    fault: Fault,
    shared: Arc<Mutex<Shared>>,
}

/// Serves a harness with this fault.
pub(crate) async fn harness(fault: Fault) -> Served {
    let raw = Raw { fault, shared: Arc::default() };
    let service = server::harness_server::HarnessServer::new(raw)
        .max_decoding_message_size(256 << 20)
        .max_encoding_message_size(256 << 20);
    serve(tonic::transport::Server::builder().add_service(service)).await
}

#[tonic::async_trait]
impl server::harness_server::Harness for Raw {
    async fn describe(&self, _: Request<v1::DescribeRequest>) -> Result<Response<v1::HarnessDescriptor>, Status> {
        let described = {
            let mut shared = self.shared.lock().expect("never poisoned");
            shared.described += 1;
            shared.described
        };
        if self.fault == Fault::NoDescription {
            return Err(Status::internal("it cannot say"));
        }
        let version = if self.fault == Fault::DescribesAnew { described.to_string() } else { "1".to_owned() };
        let resumability = if self.fault == Fault::OddResumability { 9 } else { 1 };
        let capabilities = Some(v1::Capabilities { resumability, ..Default::default() });
        Ok(Response::new(v1::HarnessDescriptor { id: "raw".to_owned(), version, capabilities, ..Default::default() }))
    }

    type ConnectStream = Pin<Box<dyn Stream<Item = Result<v1::Event, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::ControllerFrame>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (events, stream) = mpsc::channel(64);
        let has_deadline = request.metadata().contains_key("grpc-timeout");
        let mut frames = request.into_inner();
        let first = frames.message().await?.unwrap_or_default();
        let opened = matches!(&first.frame, Some(Frame::Start(_))) && !first.execution_id.is_empty();
        if !opened && self.fault != Fault::AnyFirstFrame {
            return Err(Status::invalid_argument("the first frame is no start that names its execution"));
        }
        let start = match first.frame {
            Some(Frame::Start(start)) => start,
            _ => v1::Start::default(),
        };
        let driven = {
            let mut shared = self.shared.lock().expect("never poisoned");
            if shared.dead || (self.fault == Fault::LeaksLost && shared.running >= PLACES) {
                return Err(Status::internal("it takes no turn any more"));
            }
            shared.dead = has_deadline && self.fault == Fault::DiesOfDeadline;
            shared.running += 1;
            shared.latest.clone_from(&first.execution_id);
            let driven = shared.driven.entry(first.execution_id.clone()).or_default();
            *driven += 1;
            *driven
        };
        let turn = Turn {
            fault: self.fault,
            shared: Arc::clone(&self.shared),
            session: first.session,
            execution: first.execution_id,
            input: start.inputs.first().map(v1::Message::concat_text).unwrap_or_default(),
            is_again: driven > 1,
            frames,
            events,
        };
        tokio::spawn(turn.run(start));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

struct Turn {
    fault: Fault,
    shared: Arc<Mutex<Shared>>,
    session: String,
    execution: String,
    input: String,
    /// Whether this execution was driven before.
    is_again: bool,
    frames: Streaming<v1::ControllerFrame>,
    events: mpsc::Sender<Result<v1::Event, Status>>,
}

/// Why a turn stops before its end.
enum Stop {
    Failed(&'static str),
    Parked(v1::ApprovalRef),
    /// The stream is gone, or is left without a word.
    Gone,
}

const CLOSED: &str = "the host has closed its side";

type Step<T = ()> = Result<T, Stop>;

impl Turn {
    fn breaks(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// Whether it breaks a rule of repetition now. A turn that goes on from a gate was driven before too.
    fn strays(&self, fault: Fault) -> bool {
        self.is_again && self.fault == fault
    }

    async fn say(&self, kind: EventKind, body: Body) -> Step {
        let execution = match self.fault {
            Fault::OneTurn => self.shared.lock().expect("never poisoned").latest.clone(),
            _ => self.execution.clone(),
        };
        self.events.send(Ok(v1::Event::new(&execution, kind, body))).await.map_err(|_| Stop::Gone)
    }

    async fn end(&self, state: &str, error: Option<&str>) {
        let error = error.map(|text| v1::Error { description: text.to_owned(), ..Default::default() });
        let end = v1::HarnessEnd { state: state.to_owned(), error };
        drop(self.say(EventKind::EventEnd, Body::End(end)).await);
    }

    async fn run(mut self, start: v1::Start) {
        if self.breaks(Fault::Silent) {
            return std::future::pending().await;
        }
        let outcome = self.moves(&start).await;
        if !matches!(outcome, Err(Stop::Failed(CLOSED) | Stop::Gone)) {
            self.shared.lock().expect("never poisoned").running -= 1;
        }
        match outcome {
            Ok(()) if self.breaks(Fault::NoEnd) => {}
            Ok(()) => {
                self.end(if self.breaks(Fault::OddState) { "DONE" } else { "COMPLETED" }, None).await;
                match self.fault {
                    Fault::DoubleEnd => self.end("COMPLETED", None).await,
                    Fault::TalksOn => drop(self.output("one more thing").await),
                    Fault::BadStatus => drop(self.events.send(Err(Status::internal("after all"))).await),
                    _ => {}
                }
            }
            Err(Stop::Failed(text)) => self.end("FAILED", Some(text)).await,
            Err(Stop::Parked(at)) => self.acknowledge(at).await,
            Err(Stop::Gone) => {}
        }
    }

    async fn acknowledge(&self, mut at: v1::ApprovalRef) {
        match self.fault {
            Fault::ParkIsEnd => return self.end("COMPLETED", None).await,
            Fault::ParkOther => at.request_seq += 1,
            _ => {}
        }
        drop(self.say(EventKind::EventParked, Body::Parked(at)).await);
        match self.fault {
            Fault::ParkEnds => self.end("COMPLETED", None).await,
            Fault::ParkOpen => std::future::pending().await,
            _ => {}
        }
    }

    /// Each word of the input is a move.
    async fn moves(&mut self, start: &v1::Start) -> Step {
        let history: usize = start.history.iter().map(v1::Event::encoded_len).sum();
        if self.breaks(Fault::ShortHistory) && history > SMALL {
            return Err(Stop::Failed("the history is too long"));
        }
        if self.breaks(Fault::AlwaysFails) {
            return Err(Stop::Failed("it will not"));
        }
        let text = self.input.clone();
        for (n, word) in text.split(' ').enumerate() {
            match word {
                "model" => self.model().await?,
                "tools" => self.tools(n).await?,
                "gate" => self.gate(n).await?,
                "quiet" => self.quiet().await?,
                _ => return Err(Stop::Failed("no such move")),
            }
        }
        if self.strays(Fault::More) && text == "quiet" {
            self.output("one more thing").await?;
        }
        Ok(())
    }

    async fn output(&self, text: &str) -> Step {
        self.say(EventKind::EventOutput, Body::Message(v1::Message::text("assistant", text))).await
    }

    /// What is not answered.
    async fn quiet(&mut self) -> Step {
        if self.breaks(Fault::ForeignEvent) {
            let foreign = v1::Event::new("of-another", EventKind::EventOutput, Body::Message(v1::Message::default()));
            self.events.send(Ok(foreign)).await.map_err(|_| Stop::Gone)?;
        }
        if self.breaks(Fault::HostsKind) {
            self.say(EventKind::EventApprovalRequest, Body::Approval(v1::ApprovalRequest::default())).await?;
        }
        if self.breaks(Fault::Unasked) {
            let bodiless = v1::Event {
                body: None,
                ..v1::Event::new(&self.execution, EventKind::EventToolCall, Body::Tool(v1::ToolCall::default()))
            };
            self.events.send(Ok(bodiless)).await.map_err(|_| Stop::Gone)?;
        }
        self.output(if self.strays(Fault::OtherOutput) { "something else" } else { "something" }).await?;
        let seq = if self.breaks(Fault::Receipt) { 3 } else { 0 };
        let result = v1::ToolResult { id: "own".to_owned(), approval_request_seq: seq, ..Default::default() };
        self.say(EventKind::EventToolResult, Body::Result(result)).await?;
        if self.strays(Fault::Less) {
            return Ok(());
        }
        let input_tokens = if self.strays(Fault::OtherUsage) { 2 } else { 1 };
        self.say(EventKind::EventUsage, Body::Usage(v1::Usage { input_tokens, ..Default::default() })).await
    }

    /// The next frame; `None` when the host has closed its side.
    async fn frame(&mut self, any_envelope: bool) -> Step<Option<Frame>> {
        let next = match self.fault {
            Fault::Impatient => match tokio::time::timeout(PATIENCE, self.frames.message()).await {
                Ok(next) => next,
                Err(_) => return Err(Stop::Failed("the host takes too long")),
            },
            _ => self.frames.message().await,
        };
        let Some(frame) = next.map_err(|_| Stop::Gone)? else { return Ok(None) };
        let fits = frame.session == self.session && frame.execution_id == self.execution;
        if fits || any_envelope { Ok(frame.frame) } else { Err(Stop::Failed("a frame of another turn")) }
    }

    async fn answer(&mut self, any_envelope: bool) -> Step<Option<Frame>> {
        match self.frame(any_envelope).await? {
            None if self.breaks(Fault::CloseIsAnswer) => Ok(None),
            None => Err(Stop::Failed(CLOSED)),
            Some(Frame::Cancel(_) | Frame::Start(_)) if self.breaks(Fault::AnyFrame) => Ok(None),
            Some(frame) => Ok(Some(frame)),
        }
    }

    async fn model(&mut self) -> Step {
        let text =
            if self.strays(Fault::OtherModel) && self.input == "model" { "another question" } else { "a question" };
        let call = v1::ModelCall {
            id: "m".to_owned(),
            model: "m".to_owned(),
            messages: vec![v1::Message::text("user", text)],
            ..Default::default()
        };
        self.say(EventKind::EventModelCall, Body::Model(call)).await?;
        if self.breaks(Fault::AsksTwice) {
            self.output("while I wait").await?;
        }
        match self.answer(false).await? {
            None => Ok(()),
            Some(Frame::Model(answer)) if answer.model_call_id == "m" || self.breaks(Fault::AnyModelId) => {
                let length = answer.message.map_or(0, |m| m.encoded_len());
                let too_long = self.breaks(Fault::ShortAnswer) && length > SMALL;
                if too_long { Err(Stop::Failed("the completion is too long")) } else { Ok(()) }
            }
            Some(_) => Err(Stop::Failed("no answer to this model call")),
        }
    }

    /// Two ordinary calls.
    async fn tools(&mut self, n: usize) -> Step {
        let mut ids = [format!("t{n}-1"), format!("t{n}-2")];
        if self.strays(Fault::CallsSwapped) {
            ids.swap(0, 1);
        }
        for id in &ids {
            self.tool(id).await?;
        }
        Ok(())
    }

    fn call(&self, id: &str, mediation: Mediation, argument: &str) -> v1::ToolCall {
        let value = prost_types::Value { kind: Some(prost_types::value::Kind::StringValue(argument.to_owned())) };
        v1::ToolCall {
            id: id.to_owned(),
            tool: "t".to_owned(),
            mediation: mediation.into(),
            idempotency_key: if self.breaks(Fault::NoKey) { String::new() } else { format!("key-{id}") },
            args: Some(prost_types::Struct { fields: [("a".to_owned(), value)].into() }),
        }
    }

    async fn tool(&mut self, id: &str) -> Step {
        let mediation = match self.fault {
            Fault::NoMediation => Mediation::InHarnessReported,
            _ => Mediation::ControllerMediated,
        };
        let argument = if self.strays(Fault::OtherArguments) { "y" } else { "x" };
        self.say(EventKind::EventToolCall, Body::Tool(self.call(id, mediation, argument))).await?;
        match self.answer(self.breaks(Fault::AnyEnvelope)).await? {
            None => Ok(()),
            Some(Frame::Tool(result)) => {
                if result.code() == Code::ExecutorError && self.breaks(Fault::ToolErrorKills) {
                    return Err(Stop::Gone);
                }
                let fits = result.id == id || self.breaks(Fault::AnyResultId);
                let owned = gate::is_host_owned(&result) && !self.breaks(Fault::AnyOwner);
                if fits && !owned { Ok(()) } else { Err(Stop::Failed("no result of this call")) }
            }
            Some(Frame::Park(at)) if self.breaks(Fault::OrdinaryPark) => Err(Stop::Parked(at)),
            Some(_) => Err(Stop::Failed("no answer to this call")),
        }
    }

    async fn gate(&mut self, n: usize) -> Step {
        let id = if self.breaks(Fault::UsedGateId) { "t0-1".to_owned() } else { format!("g{n}") };
        let argument = if self.strays(Fault::OtherGate) { "y" } else { "x" };
        let call = self.call(&id, Mediation::RequiresApproval, argument);
        self.say(EventKind::EventToolCall, Body::Tool(call)).await?;
        match self.answer(false).await? {
            None => Ok(()),
            Some(Frame::Park(_)) if self.breaks(Fault::ParkIgnored) => Ok(()),
            Some(Frame::Park(at)) => {
                let fits = at.execution_id == self.execution && at.tool_call_id == id && at.request_seq > 0;
                let fits = fits || self.breaks(Fault::AnyPark);
                Err(if fits { Stop::Parked(at) } else { Stop::Failed("a park at another call") })
            }
            Some(Frame::Approval(decision)) => self.receipt(&id, &decision).await,
            Some(_) => Err(Stop::Failed("no answer to this gated call")),
        }
    }

    async fn receipt(&mut self, id: &str, decision: &v1::ApprovalResult) -> Step {
        match self.frame(false).await? {
            None if self.breaks(Fault::CutIsReceipt) => Ok(()),
            Some(Frame::Tool(receipt)) => {
                if self.breaks(Fault::AnyReceipt) {
                    return Ok(());
                }
                gate::check_decided(id, decision, &receipt).map_err(|_| Stop::Failed("the receipt does not fit"))?;
                if !decision.approved && self.breaks(Fault::DenialKills) { Err(Stop::Gone) } else { Ok(()) }
            }
            _ => Err(Stop::Failed("no receipt")),
        }
    }
}
