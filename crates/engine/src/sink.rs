//! The one path of every effect, for live, resumed and replayed turns.
//!
//! Ask the tape for the recorded effect; if there is one, check that it is the same and serve it; if
//! there is none, record, perform, record, serve. A replay has no writer and no model to go wrong
//! with: past its recording it stops.

mod keys;
mod tools;

use std::sync::Arc;

use async_trait::async_trait;
use inspan_harness::{ModelRequest, ModelResponse, Sink, SinkError, ToolReply, gate};
use inspan_wire::v1::{self, EventKind, event::Body};
use inspan_wire::{Digest, SessionUid, hex, input};
use tokio::sync::Mutex;

pub(crate) use tools::Tools;
pub use tools::{EXPIRY, POLICY};

use crate::guard::Guards;
use crate::history::Past;
use crate::tape::{APART, Asked, Entry, Step, Tape};
use crate::writer::{Beside, Writer};
use crate::{Error, Model, Observer, Rim, payload};

/// Everything that a live effect needs and a replay does not have.
pub(crate) struct Live {
    /// Appends.
    pub(crate) writer: Writer,
    /// Makes the model calls.
    pub(crate) model: Arc<dyn Model>,
    /// Gives call ids.
    pub(crate) rim: Arc<dyn Rim>,
    /// Sees deltas.
    pub(crate) observer: Arc<dyn Observer>,
    /// Tells when the host stops.
    pub(crate) guards: Arc<Guards>,
    /// Runs tools.
    pub(crate) tools: Tools,
}

/// What feeds the tape: the records of the execution that are still in the journal.
pub(crate) struct Feed {
    /// The session's records.
    pub(crate) past: Past,
    /// The next seq to read.
    pub(crate) next: i64,
    /// The last seq of the recording.
    pub(crate) last: i64,
}

/// The sink of one turn.
pub(crate) struct TurnSink {
    session: SessionUid,
    /// The id that the turn's records carry: empty in a legacy journal.
    execution_id: String,
    past: Past,
    state: Mutex<State>,
}

struct State {
    tape: Tape,
    feed: Option<Feed>,
    live: Option<Live>,
    latch: Option<Error>,
    /// The decision that the turn waits for: nothing more happens in it (R-APPR-3).
    parked: Option<v1::ApprovalRef>,
    /// What the harness was told last and may give up on: it keeps its status then.
    refused: Option<Error>,
    closed: bool,
    outputs: Vec<String>,
}

/// What a turn leaves behind when its harness has ended.
pub(crate) struct Closed {
    /// Set when the turn has failed whatever the harness said.
    pub(crate) latch: Option<Error>,
    /// Set when the turn waits for a decision.
    pub(crate) parked: Option<v1::ApprovalRef>,
    /// The last refusal that the harness was told.
    pub(crate) refused: Option<Error>,
    /// Of a live turn.
    pub(crate) live: Option<Live>,
    /// Recorded effects that were served.
    pub(crate) consumed: i64,
    /// Texts of served OUTPUT records (R-OUT-5).
    pub(crate) outputs: Vec<String>,
}

impl TurnSink {
    /// A sink over `tape`, fed from the journal by `feed`. Without `live` nothing is ever performed.
    pub(crate) fn new(
        session: SessionUid,
        execution_id: String,
        past: Past,
        tape: Tape,
        feed: Option<Feed>,
        live: Option<Live>,
    ) -> TurnSink {
        let state =
            State { tape, feed, live, latch: None, parked: None, refused: None, closed: false, outputs: Vec::new() };
        TurnSink { session, execution_id, past, state: Mutex::new(state) }
    }

    /// Ends the sink: later and concurrent calls fail and write nothing (R-LIVE-5). An append in flight
    /// is waited for. With `complete`, effects that the harness never asked for are a divergence
    /// (R-LIVE-3).
    pub(crate) async fn close(&self, complete: bool) -> Closed {
        let mut state = self.state.lock().await;
        state.closed = true;
        let mut latch = state.latch.take();
        if let Some(live) = &mut state.live
            && let Err(e) = live.writer.settle().await
        {
            latch.get_or_insert(e);
        }
        let parked = state.parked.take();
        if complete && latch.is_none() && parked.is_none() {
            latch = match state.fill(&self.execution_id).await {
                Ok(()) => state.tape.unconsumed(),
                Err(e) => Some(e),
            };
        }
        let consumed = state.tape.consumed();
        let refused = state.refused.take();
        Closed {
            latch,
            parked,
            refused,
            live: state.live.take(),
            consumed,
            outputs: std::mem::take(&mut state.outputs),
        }
    }

    /// The next step for `asked`, with the tape filled; a divergence is latched here.
    async fn step(&self, state: &mut State, asked: Asked<'_>) -> Result<Step, SinkError> {
        state.admit()?;
        if let Err(e) = state.fill(&self.execution_id).await {
            return Err(state.latch(e));
        }
        match state.tape.next(asked) {
            Step::Diverged(e) => Err(state.latch(e)),
            Step::Missing(what) => Err(SinkError::Handleable(what.to_owned())),
            Step::Refused(e) => {
                let told = SinkError::Handleable(e.to_string());
                state.refused = Some(e);
                Err(told)
            }
            step => Ok(step),
        }
    }

    /// The event of a served record as the harness sees it.
    async fn served(&self, state: &mut State, entry: &Entry) -> Result<Arc<v1::Event>, SinkError> {
        if let (EventKind::EventOutput, Some(Body::Message(m))) = (entry.event.kind(), &entry.event.body) {
            state.outputs.push(m.concat_text());
        }
        self.past.whole(&entry.event).await.map_err(|e| state.latch(e))
    }

    /// Appends one event of this turn.
    async fn record(&self, state: &mut State, kind: EventKind, body: Body) -> Result<Arc<v1::Event>, SinkError> {
        self.append(state, v1::Event::new(&self.execution_id, kind, body), Beside::default()).await
    }

    /// Appends one event that the harness made itself. Directly behind a call without outcome it says so.
    async fn record_own(&self, state: &mut State, kind: EventKind, body: Body) -> Result<Arc<v1::Event>, SinkError> {
        let mut event = v1::Event::new(&self.execution_id, kind, body);
        if state.tape.mistakable(kind) {
            event.actor = Some(v1::IdentityRef { principal: APART.to_owned(), ..Default::default() });
        }
        self.append(state, event, Beside::default()).await
    }

    async fn append(&self, state: &mut State, event: v1::Event, beside: Beside) -> Result<Arc<v1::Event>, SinkError> {
        state.tape.recorded(event.kind());
        let live = state.live()?;
        match live.writer.append_with(vec![event], beside).await {
            Ok(mut whole) => Ok(whole.pop().expect("one event was appended")),
            Err(e) => Err(state.latch(e)),
        }
    }

    /// Calls the provider for a request whose MODEL_CALL is durable, and records the completion
    /// (R-MODEL-1, R-MODEL-6).
    async fn perform_model(&self, state: &mut State, request: &ModelRequest) -> Result<ModelResponse, SinkError> {
        let live = state.live()?;
        let delta = |chunk: &str, done: bool| v1::Delta {
            execution_id: self.execution_id.clone(),
            chunk: chunk.to_owned(),
            done,
            ..Default::default()
        };
        let observer = live.observer.clone();
        let on_text = |chunk: &str| {
            if !chunk.is_empty() {
                observer.delta(&self.session, &delta(chunk, false));
            }
        };
        let completion = live
            .model
            .call(request, &on_text)
            .await
            .map_err(|e| SinkError::Handleable(format!("the model call failed: {e}")))?;
        if live.model.streams() {
            live.observer.delta(&self.session, &delta("", true));
        }
        let body = Body::Message(completion.message);
        let event = self.record(state, EventKind::EventOutput, body).await?;
        response(&event).ok_or_else(|| SinkError::Fatal("a recorded completion has no message".to_owned()))
    }
}

fn response(event: &v1::Event) -> Option<ModelResponse> {
    match &event.body {
        Some(Body::Message(message)) => Some(ModelResponse { message: message.clone() }),
        _ => None,
    }
}

impl State {
    /// Refuses once the turn is over.
    fn admit(&self) -> Result<(), SinkError> {
        if self.closed {
            return Err(SinkError::Fatal("the turn is over: its sink is closed".to_owned()));
        }
        match (&self.latch, &self.parked) {
            (Some(e), _) => Err(SinkError::Fatal(e.to_string())),
            (None, Some(asked)) => Err(SinkError::Parked(asked.clone())),
            (None, None) => Ok(()),
        }
    }

    /// The turn stops here until somebody decides.
    fn park(&mut self, asked: v1::ApprovalRef) -> SinkError {
        self.parked = Some(asked.clone());
        SinkError::Parked(asked)
    }

    fn latch(&mut self, error: Error) -> SinkError {
        let text = error.to_string();
        self.latch.get_or_insert(error);
        SinkError::Fatal(text)
    }

    fn live(&mut self) -> Result<&mut Live, SinkError> {
        self.live.as_mut().ok_or_else(|| SinkError::Fatal("a replay performs nothing".to_owned()))
    }

    /// Refuses a new effect when the host stops: what is recorded so far is the durable point.
    fn may_perform(&mut self) -> Result<(), SinkError> {
        if self.live()?.guards.draining() {
            return Err(self.latch(Error::Stopping));
        }
        Ok(())
    }

    /// Reads ahead until the tape can answer.
    async fn fill(&mut self, execution_id: &str) -> Result<(), Error> {
        while self.tape.hungry() {
            match &mut self.feed {
                Some(feed) if feed.next <= feed.last => {
                    let events = feed.past.events(feed.next).await?;
                    if events.is_empty() {
                        feed.next = feed.last + 1;
                    }
                    for event in events {
                        let seq = feed.next;
                        if seq > feed.last {
                            break;
                        }
                        feed.next += 1;
                        if event.execution_id == execution_id {
                            self.tape.push(seq, event);
                        }
                    }
                }
                _ => self.tape.close(),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for TurnSink {
    async fn model(&self, request: ModelRequest) -> Result<ModelResponse, SinkError> {
        let mut state = self.state.lock().await;
        state.admit()?;
        let text = match input::text(&request) {
            Ok(text) => text,
            Err(e) => return Err(SinkError::Handleable(format!("the request has no JSON form: {e}"))),
        };
        let digest = Digest::of(text.as_bytes());
        let input_hash = digest.hex();
        match self.step(&mut state, Asked::Model { input_hash: input_hash.as_str() }).await? {
            Step::Serve(entry) => {
                let event = self.served(&mut state, &entry).await?;
                response(&event).ok_or_else(|| {
                    let what = "the recorded completion has no message".to_owned();
                    state.latch(Error::ReplayDiverged { seq: entry.seq, what })
                })
            }
            Step::Redrive(_) => {
                state.may_perform()?;
                self.perform_model(&mut state, &request).await
            }
            _ => {
                state.may_perform()?;
                let mut id = [0; 8];
                state.live()?.rim.fill(&mut id);
                let call = v1::ModelCall {
                    model: request.model.clone(),
                    input_hash: input_hash.as_str().to_owned(),
                    id: hex(&id),
                    ..Default::default()
                };
                let event = v1::Event::new(&self.execution_id, EventKind::EventModelCall, Body::Model(call));
                let beside = Beside { request: Some((digest, Arc::from(text))), ..Beside::default() };
                self.append(&mut state, event, beside).await?;
                self.perform_model(&mut state, &request).await
            }
        }
    }

    async fn output(&self, text: &str) -> Result<(), SinkError> {
        let mut state = self.state.lock().await;
        match self.step(&mut state, Asked::Output(text)).await? {
            Step::Serve(entry) => self.served(&mut state, &entry).await.map(drop),
            _ => {
                state.may_perform()?;
                let body = Body::Message(v1::Message::text("assistant", text));
                self.record_own(&mut state, EventKind::EventOutput, body).await.map(drop)
            }
        }
    }

    async fn tool(&self, call: v1::ToolCall) -> Result<ToolReply, SinkError> {
        let mut state = self.state.lock().await;
        self.tool_call(&mut state, call).await
    }

    async fn report(&self, result: v1::ToolResult) -> Result<(), SinkError> {
        let mut state = self.state.lock().await;
        state.admit()?;
        // R-OUT-3: a receipt of the host cannot be forged.
        if gate::is_host_owned(&result) {
            let what = "a reported result carries host-owned approval fields".to_owned();
            return Err(state.latch(Error::FailedPrecondition(what)));
        }
        // A uri of ours would be read back as the blob, whichever session it belongs to.
        if payload::is_named_result(&result) {
            let what = "a reported result names a blob of the host: report the output itself".to_owned();
            return Err(SinkError::Handleable(what));
        }
        match self.step(&mut state, Asked::Report).await? {
            Step::Serve(entry) => self.served(&mut state, &entry).await.map(drop),
            _ => {
                state.may_perform()?;
                self.record_own(&mut state, EventKind::EventToolResult, Body::Result(result)).await.map(drop)
            }
        }
    }

    async fn usage(&self, usage: v1::Usage) -> Result<(), SinkError> {
        let mut state = self.state.lock().await;
        match self.step(&mut state, Asked::Usage(&usage)).await? {
            Step::Serve(_) | Step::Ignore => Ok(()),
            _ => {
                state.may_perform()?;
                self.record(&mut state, EventKind::EventUsage, Body::Usage(usage)).await.map(drop)
            }
        }
    }
}
