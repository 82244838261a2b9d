//! A sink whose other end is the host's.
//!
//! An operation sends its event and, when it needs an answer, waits for exactly that answer: one request is open at a
//! time. What the host answers is checked before the harness sees it; an answer that does not fit ends the turn for good, since
//! neither side knows any more what the other holds to be recorded.

use async_trait::async_trait;
use inspan_wire::v1::{self, EventKind, controller_frame::Frame, event::Body};
use tokio::sync::{Mutex, mpsc};
use tonic::{Status, Streaming};

use crate::{Failure, ModelRequest, ModelResponse, Sink, SinkError, Start, ToolReply, gate};

pub(super) struct RemoteSink {
    session: String,
    execution_id: String,
    link: Mutex<Link>,
}

struct Link {
    frames: Streaming<v1::ControllerFrame>,
    events: mpsc::Sender<Result<v1::Event, Status>>,
    model_calls: u64,
    state: State,
}

/// What the link allows next.
enum State {
    /// An operation.
    Open,
    /// The answer to a request. An operation that finds this follows one that was dropped before its answer came.
    Asked,
    /// Nothing: the turn parked, or its two ends no longer agree.
    Over(SinkError),
}

fn fatal(text: impl Into<String>) -> SinkError {
    SinkError::Fatal(text.into())
}

impl RemoteSink {
    /// The sink of the turn that `start` opens.
    pub(super) fn new(
        start: &Start,
        frames: Streaming<v1::ControllerFrame>,
        events: mpsc::Sender<Result<v1::Event, Status>>,
    ) -> RemoteSink {
        RemoteSink {
            session: start.session.clone(),
            execution_id: start.execution_id.clone(),
            link: Mutex::new(Link { frames, events, model_calls: 0, state: State::Open }),
        }
    }

    /// Ends the turn: gives the one event that says how (W-5), or that it parked. The sink is gone then, so that nothing
    /// else can be sent (W-10).
    pub(super) fn close(self, outcome: Result<(), Failure>) -> v1::Event {
        let failed = |text: String| {
            let error = Some(v1::Error { description: text, ..Default::default() });
            v1::HarnessEnd { state: "FAILED".to_owned(), error }
        };
        let end = match (self.link.into_inner().state, outcome) {
            // A harness that swallowed the park has still stopped at it; one that failed on its way out has not.
            (State::Over(SinkError::Parked(at)), Ok(()) | Err(Failure::Parked)) => {
                return v1::Event::new(&self.execution_id, EventKind::EventParked, Body::Parked(at));
            }
            (State::Over(SinkError::Parked(_)), Err(failure)) => failed(failure.to_string()),
            (State::Over(broken), _) => failed(broken.to_string()),
            (_, Ok(())) => v1::HarnessEnd { state: "COMPLETED".to_owned(), error: None },
            (_, Err(Failure::Parked)) => {
                failed("the harness stopped as if at a gate, and none of its calls waits for a decision".to_owned())
            }
            (_, Err(failure)) => failed(failure.to_string()),
        };
        v1::Event::new(&self.execution_id, EventKind::EventEnd, Body::End(end))
    }

    /// Sends an event that the host does not answer.
    async fn say(&self, kind: EventKind, body: Body) -> Result<(), SinkError> {
        let mut link = self.link.lock().await;
        link.admit()?;
        link.send(v1::Event::new(&self.execution_id, kind, body)).await
    }

    /// The next frame, which must be of this turn (W-1).
    async fn frame(&self, link: &mut Link) -> Result<Frame, SinkError> {
        let frame = match link.frames.message().await {
            Ok(Some(frame)) => frame,
            Ok(None) => return Err(fatal("the host closed the stream before it answered")),
            Err(status) => {
                return Err(fatal(format!("the stream broke before the host answered: {}", status.message())));
            }
        };
        if frame.session != self.session || frame.execution_id != self.execution_id {
            return Err(fatal("the host answered for another turn"));
        }
        frame.frame.ok_or_else(|| fatal("the host sent a frame without a body"))
    }

    async fn model_answer(&self, link: &mut Link, id: &str) -> Result<ModelResponse, SinkError> {
        match self.frame(link).await? {
            Frame::Model(answer) if answer.model_call_id != id => {
                Err(fatal("the host answered another model call than the one that waits"))
            }
            Frame::Model(v1::ModelResult { message: Some(message), .. }) => Ok(ModelResponse { message }),
            Frame::Model(_) => Err(fatal("the host answered a model call without a message")),
            other => Err(unexpected("a model call", &other)),
        }
    }

    async fn tool_answer(&self, link: &mut Link, call: &Asked) -> Result<ToolReply, SinkError> {
        match (self.frame(link).await?, call.gated) {
            (Frame::Tool(result), false) => {
                if result.id != call.id {
                    return Err(fatal("the host answered another tool call than the one that waits"));
                }
                if gate::is_host_owned(&result) {
                    return Err(fatal("the host answered an ordinary tool call with a receipt's host-owned fields"));
                }
                Ok(result.into())
            }
            (Frame::Park(at), true) => Err(self.parked(at, call)),
            (Frame::Approval(decision), true) => self.decided(link, decision, call).await,
            (other, _) => Err(unexpected("a tool call", &other)),
        }
    }

    /// The park exchange, step 3: a park that does not fit is a broken link, not a park.
    fn parked(&self, at: v1::ApprovalRef, call: &Asked) -> SinkError {
        let fits = !self.session.is_empty()
            && !call.id.is_empty()
            && at.execution_id == self.execution_id
            && at.tool_call_id == call.id
            && at.request_seq > 0;
        if fits {
            SinkError::Parked(at)
        } else {
            fatal("the host parked the turn at another call than the one that waits")
        }
    }

    /// The decided gate: the decision is there, the receipt follows.
    async fn decided(
        &self,
        link: &mut Link,
        decision: v1::ApprovalResult,
        call: &Asked,
    ) -> Result<ToolReply, SinkError> {
        let wrong = |what: &str| fatal(format!("the host's answer to a gated tool call does not fit: {what}"));
        gate::check_decision(&call.id, &decision).map_err(wrong)?;
        let Frame::Tool(result) = self.frame(link).await? else {
            return Err(wrong("no receipt follows the decision"));
        };
        gate::check_decided(&call.id, &decision, &result).map_err(wrong)?;
        Ok(ToolReply { result, decision: Some(decision) })
    }
}

/// What a tool call's answer is checked against.
struct Asked {
    id: String,
    gated: bool,
}

fn unexpected(asked: &str, got: &Frame) -> SinkError {
    let got = match got {
        Frame::Start(_) => "start",
        Frame::Cancel(_) => "cancel",
        Frame::Approval(_) => "approval",
        Frame::Tool(_) => "tool",
        Frame::Model(_) => "model",
        Frame::Park(_) => "park",
    };
    fatal(format!("the host answered {asked} with a frame of the wrong type: {got}"))
}

impl Link {
    /// Refuses once the turn is over, and after an operation whose answer nobody took: that answer would be read as
    /// the next one's.
    fn admit(&mut self) -> Result<(), SinkError> {
        if let State::Asked = self.state {
            self.state = State::Over(fatal(
                "an operation was given up before its answer came, so the next answer is not known to be its own: wait for each operation",
            ));
        }
        match &self.state {
            State::Over(e) => Err(e.clone()),
            _ => Ok(()),
        }
    }

    async fn send(&mut self, event: v1::Event) -> Result<(), SinkError> {
        self.events.send(Ok(event)).await.map_err(|_| fatal("the host is gone"))
    }

    /// Sends a request; its answer is the next thing to come.
    async fn ask(&mut self, event: v1::Event) -> Result<(), SinkError> {
        self.send(event).await?;
        self.state = State::Asked;
        Ok(())
    }

    /// Takes an answer: a failure ends the turn for good.
    fn settle<T>(&mut self, answer: Result<T, SinkError>) -> Result<T, SinkError> {
        self.state = match &answer {
            Ok(_) => State::Open,
            Err(e) => State::Over(e.clone()),
        };
        answer
    }
}

#[async_trait]
impl Sink for RemoteSink {
    async fn model(&self, request: ModelRequest) -> Result<ModelResponse, SinkError> {
        if request.tool_choice.as_ref().is_some_and(|choice| v1::tool_choice::Mode::try_from(choice.mode).is_err()) {
            return Err(SinkError::Handleable("the request has a tool choice of an unknown mode".to_owned()));
        }
        let mut link = self.link.lock().await;
        link.admit()?;
        link.model_calls += 1;
        let id = format!("{:016x}", link.model_calls);
        let call = v1::ModelCall { id: id.clone(), input_hash: String::new(), ..request };
        link.ask(v1::Event::new(&self.execution_id, EventKind::EventModelCall, Body::Model(call))).await?;
        let answer = self.model_answer(&mut link, &id).await;
        link.settle(answer)
    }

    async fn output(&self, text: &str) -> Result<(), SinkError> {
        self.say(EventKind::EventOutput, Body::Message(v1::Message::text("assistant", text))).await
    }

    async fn tool(&self, call: v1::ToolCall) -> Result<ToolReply, SinkError> {
        let mut link = self.link.lock().await;
        link.admit()?;
        let asked = Asked { id: call.id.clone(), gated: call.mediation() == v1::Mediation::RequiresApproval };
        link.ask(v1::Event::new(&self.execution_id, EventKind::EventToolCall, Body::Tool(call))).await?;
        let answer = self.tool_answer(&mut link, &asked).await;
        link.settle(answer)
    }

    async fn report(&self, result: v1::ToolResult) -> Result<(), SinkError> {
        // W-8: refused for good, and the host would refuse it too.
        if gate::is_host_owned(&result) {
            let mut link = self.link.lock().await;
            link.admit()?;
            return link.settle(Err(fatal("a reported result carries host-owned approval fields")));
        }
        self.say(EventKind::EventToolResult, Body::Result(result)).await
    }

    async fn usage(&self, usage: v1::Usage) -> Result<(), SinkError> {
        self.say(EventKind::EventUsage, Body::Usage(usage)).await
    }
}
