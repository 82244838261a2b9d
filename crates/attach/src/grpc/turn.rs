//! One turn over one stream.
//!
//! The harness sends events, one at a time; each becomes one call of the sink, and its answer is the next frame. The
//! protocol has no way to say no (W-4): whatever cannot be answered ends the stream and fails the turn.

use std::time::Duration;

use inspan_harness::{Failure, Sink, SinkError, Start, ToolReply, gate};
use inspan_wire::v1::{self, EventKind, Mediation, controller_frame::Frame, event::Body, tool_result::Code};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use super::proto::harness_client::HarnessClient;
use super::{MESSAGE_BYTES_MAX, Settings, remote};

/// Frames that wait to be sent: a decided gate is answered with two, nothing with more.
const FRAMES_WAITING: usize = 2;

fn failed(text: impl Into<String>) -> Failure {
    Failure::Failed(text.into())
}

/// The first frame of a turn (W-2, W-3).
pub(super) struct Opening(v1::ControllerFrame);

impl Opening {
    /// Reads the whole history: the protocol sends it with every turn.
    pub(super) async fn of(start: Start) -> Result<Opening, Failure> {
        let mut history = Vec::with_capacity(start.history.len());
        let mut bytes = 0;
        let mut reader = start.history.reader();
        loop {
            let page = reader.next_page().await?;
            if page.is_empty() {
                break;
            }
            for event in page {
                bytes += event.encoded_len();
                history.push((*event).clone());
            }
            if bytes > MESSAGE_BYTES_MAX {
                return Err(failed(format!(
                    "the session's history is more than the {} MiB that a harness in another process can be sent",
                    MESSAGE_BYTES_MAX >> 20
                )));
            }
        }
        let frame = Frame::Start(v1::Start {
            config: start.config,
            history,
            inputs: start.inputs,
            identity: start.identity,
            resume_from_seq: start.resume_from_seq,
        });
        Ok(Opening(v1::ControllerFrame {
            session: start.session,
            execution_id: start.execution_id,
            frame: Some(frame),
        }))
    }
}

/// Drives a turn to its end.
pub(super) async fn drive(
    mut client: HarnessClient<Channel>,
    opening: Opening,
    sink: &dyn Sink,
    settings: &Settings,
) -> Result<(), Failure> {
    let v1::ControllerFrame { session, execution_id, .. } = &opening.0;
    let (session, execution_id) = (session.clone(), execution_id.clone());
    let (frames, waiting) = mpsc::channel(FRAMES_WAITING);
    frames.try_send(opening.0).expect("a new channel has room for its first frame");
    let events = client.connect(ReceiverStream::new(waiting)).await.map_err(|status| failed(remote::said(&status)))?;
    let mut turn =
        Turn { session, execution_id, frames, events: events.into_inner(), sink, park_within: settings.park_within };
    loop {
        if let Some(end) = turn.step().await? {
            return ended(&end);
        }
    }
}

/// W-5, W-6: one state is success.
fn ended(end: &v1::HarnessEnd) -> Result<(), Failure> {
    if end.state == "COMPLETED" {
        return Ok(());
    }
    let description = end.error.as_ref().map(|e| e.description.as_str()).unwrap_or_default();
    let state = if end.state.is_empty() { "no state" } else { &end.state };
    Err(failed(format!("the harness ended with {state}: {description}").trim_end_matches(": ")))
}

struct Turn<'a> {
    session: String,
    execution_id: String,
    frames: mpsc::Sender<v1::ControllerFrame>,
    events: Streaming<v1::Event>,
    sink: &'a dyn Sink,
    park_within: Duration,
}

impl Turn<'_> {
    /// Takes one event and does what it asks for; gives the turn's end when it was that.
    async fn step(&mut self) -> Result<Option<v1::HarnessEnd>, Failure> {
        let Some(event) = self.next().await.map_err(|status| failed(remote::said(&status)))? else {
            return Err(failed("the harness closed its stream without EVENT_END"));
        };
        if event.execution_id != self.execution_id {
            return Err(failed(format!(
                "the harness sent an event of execution {:?} in a turn of {:?}",
                event.execution_id, self.execution_id
            )));
        }
        let kind = event.kind();
        match (kind, event.body) {
            (EventKind::EventModelCall, Some(Body::Model(call))) => self.model(call).await?,
            (EventKind::EventToolCall, Some(Body::Tool(call))) => self.tool(call).await?,
            (EventKind::EventModelCall | EventKind::EventToolCall, _) => {
                return Err(failed(format!("the harness sent {} without its call", kind.as_str_name())));
            }
            (EventKind::EventOutput, Some(Body::Message(message))) => {
                self.sink.output(&message.concat_text()).await?;
            }
            (EventKind::EventToolResult, Some(Body::Result(result))) => self.report(result).await?,
            (EventKind::EventUsage, Some(Body::Usage(usage))) => self.sink.usage(usage).await?,
            (EventKind::EventEnd, Some(Body::End(end))) => return Ok(Some(end)),
            (EventKind::EventEnd, _) => return Ok(Some(v1::HarnessEnd::default())),
            // W-7: the host's own records.
            (
                EventKind::EventApprovalRequest
                | EventKind::EventApprovalResult
                | EventKind::EventExecutionStart
                | EventKind::EventParked,
                _,
            ) => {
                return Err(failed(format!("the harness sent {}, which is the host's to say", kind.as_str_name())));
            }
            // W-7: said for others, or by a later version of the protocol.
            _ => {}
        }
        Ok(None)
    }

    async fn next(&mut self) -> Result<Option<v1::Event>, tonic::Status> {
        self.events.message().await
    }

    async fn answer(&self, frame: Frame) {
        let frame = v1::ControllerFrame {
            session: self.session.clone(),
            execution_id: self.execution_id.clone(),
            frame: Some(frame),
        };
        // A harness that takes no answers any more has said why, or has not: its next event tells.
        let _ = self.frames.send(frame).await;
    }

    async fn model(&self, call: v1::ModelCall) -> Result<(), Failure> {
        if call.tool_choice.as_ref().is_some_and(|choice| v1::tool_choice::Mode::try_from(choice.mode).is_err()) {
            return Err(failed("the harness asked a model with a tool choice of an unknown mode"));
        }
        let id = call.id.clone();
        let response = self.sink.model(call).await?;
        self.answer(Frame::Model(v1::ModelResult { message: Some(response.message), usage: None, model_call_id: id }))
            .await;
        Ok(())
    }

    async fn tool(&mut self, call: v1::ToolCall) -> Result<(), Failure> {
        let id = call.id.clone();
        if call.mediation() != Mediation::RequiresApproval {
            // A park here is the host's policy that asks: the protocol has no frame for that on an ordinary call, so the
            // stream ends, and the call is answered when the turn is driven again.
            let reply = self.sink.tool(call).await?;
            self.answer(Frame::Tool(ordinary(id, reply.result))).await;
            return Ok(());
        }
        match self.sink.tool(call).await {
            Ok(reply) => self.decided(&id, reply).await,
            Err(SinkError::Parked(at)) => self.park(at).await,
            Err(e) => Err(e.into()),
        }
    }

    /// The decided gate: the decision, then the receipt. Neither is sent when they do not fit.
    async fn decided(&self, id: &str, reply: ToolReply) -> Result<(), Failure> {
        let ToolReply { result, decision } = reply;
        let decision = decision.ok_or_else(|| failed("the host has no decision for a gated tool call"))?;
        gate::check_decided(id, &decision, &result)
            .map_err(|what| failed(format!("the host's answer to a gated tool call does not fit: {what}")))?;
        self.answer(Frame::Approval(decision)).await;
        self.answer(Frame::Tool(result)).await;
        Ok(())
    }

    /// W-8: the sink refuses it in its own words; whatever it says, the turn is over.
    async fn report(&self, result: v1::ToolResult) -> Result<(), Failure> {
        let forged = gate::is_host_owned(&result);
        self.sink.report(result).await?;
        if forged { Err(failed("the harness reported a result with host-owned approval fields")) } else { Ok(()) }
    }

    /// The park exchange: tells the harness, and waits until it has let go. Only then has the turn parked.
    async fn park(&mut self, at: v1::ApprovalRef) -> Result<(), Failure> {
        self.answer(Frame::Park(at.clone())).await;
        match tokio::time::timeout(self.park_within, self.acknowledged(&at)).await {
            Ok(Ok(())) => Err(Failure::Parked),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(failed(format!(
                "no acknowledgement of the park and closure of the stream came within {} s",
                self.park_within.as_secs_f32()
            ))),
        }
    }

    async fn acknowledged(&mut self, at: &v1::ApprovalRef) -> Result<(), Failure> {
        let broken = |status: tonic::Status| failed(format!("the park failed: {}", remote::said(&status)));
        let Some(event) = self.next().await.map_err(broken)? else {
            return Err(failed("the harness closed its stream without an acknowledgement of the park"));
        };
        if let (EventKind::EventEnd, Some(Body::End(end))) = (event.kind(), &event.body) {
            let why = ended(end).err().map(|e| format!(": {e}")).unwrap_or_default();
            return Err(failed(format!("an end came in place of the acknowledgement of the park{why}")));
        }
        let fits = event.kind() == EventKind::EventParked
            && event.execution_id == self.execution_id
            && matches!(&event.body, Some(Body::Parked(said)) if said == at);
        if !fits {
            return Err(failed(format!(
                "the acknowledgement of the park does not fit: {} came",
                event.kind().as_str_name()
            )));
        }
        match self.next().await.map_err(broken)? {
            None => Ok(()),
            Some(event) => Err(failed(format!(
                "{} came after the park, where only the closure of the stream may",
                event.kind().as_str_name()
            ))),
        }
    }
}

/// The result of an ordinary call: no place in the journal and no denial, which are receipts of a gate (W-8).
fn ordinary(id: String, mut result: v1::ToolResult) -> v1::ToolResult {
    result.id = id;
    result.approval_request_seq = 0;
    result.approval_decision_seq = 0;
    if result.code() == Code::ApprovalDenied {
        result.code = Code::ExecutorError.into();
    }
    result
}
