//! One stream, driven from the host's end, with every event that came noted.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use inspan_attach::grpc::HarnessClient;
use inspan_wire::v1::{self, EventKind, controller_frame::Frame, event::Body};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Streaming};

use crate::MESSAGE_BYTES_MAX;

/// Frames that wait to be sent.
const FRAMES_WAITING: usize = 16;
/// Events of one turn: a harness that never stops is not listened to for ever.
const EVENTS_MAX: usize = 2_000;
/// How long a stream is listened to after END. A host would not listen at all.
const AFTER_END: Duration = Duration::from_millis(300);

/// The way to the harness, and what makes the ids of its turns.
pub(super) struct Link {
    client: HarnessClient<Channel>,
    patience: Duration,
    run: u64,
    turns: AtomicU64,
}

/// A turn before it is driven. The same turn can be driven again, as a host does that resumes it.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) session: String,
    pub(super) execution: String,
    pub(super) start: v1::Start,
    /// How long an answer is held back: something that comes meanwhile was not waiting for it.
    pub(super) hold: Duration,
    /// The deadline that the call carries. The kit holds to it as any gRPC client does: it breaks the stream off then.
    pub(super) deadline: Option<Duration>,
}

/// What the kit does about an event.
pub(super) enum Reply {
    /// Answers with these, each in the turn's own envelope. None at all for what is not answered.
    Frames(Vec<Frame>),
    /// Answers with these as they are.
    Raw(Vec<v1::ControllerFrame>),
    /// Answers with these, then closes its sending side.
    Close(Vec<Frame>),
    /// Breaks the stream off, as a host does that has nothing good to say (W-4).
    Leave,
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// The harness closed it with OK.
    Closed,
    /// The harness, or the transport, ended it with a status.
    Status(Code, String),
    /// Nothing came for as long as the kit waits.
    Silent,
    /// The kit broke it off.
    Left,
    /// Events kept coming.
    Flood,
}

/// What came over one stream.
#[derive(Debug, Clone)]
pub(super) struct Transcript {
    pub(super) execution: String,
    pub(super) events: Vec<v1::Event>,
    /// What came while an earlier request was still unanswered.
    pub(super) early: Option<EventKind>,
    pub(super) ending: Ending,
}

impl Link {
    pub(super) fn new(channel: Channel, patience: Duration) -> Link {
        let client = HarnessClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Link { client, patience, run: RandomState::new().hash_one("run"), turns: AtomicU64::new(0) }
    }

    pub(super) async fn describe(&self) -> Result<v1::HarnessDescriptor, Ending> {
        let mut client = self.client.clone();
        match timeout(self.patience, client.describe(v1::DescribeRequest {})).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(Ending::of(&status)),
            Err(_) => Err(Ending::Silent),
        }
    }

    /// A new turn with these inputs.
    pub(super) fn turn(&self, start: v1::Start) -> Turn {
        let number = self.turns.fetch_add(1, Ordering::Relaxed);
        Turn {
            session: format!("sess-{:016x}{number:08x}", self.run),
            execution: format!("{:016x}", self.run.wrapping_add(number)),
            start,
            hold: Duration::ZERO,
            deadline: None,
        }
    }

    /// Drives a turn to its end; `host` says what to do about each event.
    pub(super) async fn drive(&self, turn: &Turn, host: &mut (dyn FnMut(&v1::Event) -> Reply + Send)) -> Transcript {
        self.open(turn, turn.frame(Frame::Start(turn.start.clone())), host).await
    }

    /// The same with another first frame.
    pub(super) async fn open(
        &self,
        turn: &Turn,
        first: v1::ControllerFrame,
        host: &mut (dyn FnMut(&v1::Event) -> Reply + Send),
    ) -> Transcript {
        let mut transcript =
            Transcript { execution: turn.execution.clone(), events: Vec::new(), early: None, ending: Ending::Closed };
        let (frames, waiting) = mpsc::channel(FRAMES_WAITING);
        frames.try_send(first).expect("a new channel has room for its first frame");
        let mut request = Request::new(ReceiverStream::new(waiting));
        if let Some(deadline) = turn.deadline {
            request.set_timeout(deadline);
        }
        let mut client = self.client.clone();
        // A server may keep its headers back until its first event.
        transcript.ending = match timeout(self.patience, client.connect(request)).await {
            Err(_) => Ending::Silent,
            Ok(Err(status)) => Ending::of(&status),
            Ok(Ok(answer)) => {
                let events = answer.into_inner();
                let patience = turn.deadline.unwrap_or(self.patience);
                let mut stream = Stream { turn, frames: Some(frames), events, patience };
                stream.exchange(&mut transcript, host).await
            }
        };
        transcript
    }
}

struct Stream<'a> {
    turn: &'a Turn,
    frames: Option<mpsc::Sender<v1::ControllerFrame>>,
    events: Streaming<v1::Event>,
    patience: Duration,
}

impl Stream<'_> {
    async fn exchange(
        &mut self,
        transcript: &mut Transcript,
        host: &mut (dyn FnMut(&v1::Event) -> Reply + Send),
    ) -> Ending {
        let mut ahead = None;
        while transcript.events.len() < EVENTS_MAX {
            let event = match ahead.take() {
                Some(event) => event,
                None => match self.next(self.patience).await {
                    Ok(event) => event,
                    Err(ending) => return ending,
                },
            };
            let (kind, has_body) = (event.kind(), event.body.is_some());
            transcript.events.push(event);
            if matches!(kind, EventKind::EventEnd | EventKind::EventParked) {
                return self.linger(transcript, kind).await;
            }
            let is_call = matches!(kind, EventKind::EventModelCall | EventKind::EventToolCall);
            if is_call && has_body && !self.turn.hold.is_zero() {
                ahead = match self.next(self.turn.hold).await {
                    Ok(event) => {
                        if event.kind() != EventKind::EventEnd {
                            transcript.early.get_or_insert(event.kind());
                        }
                        Some(event)
                    }
                    Err(Ending::Silent) => None,
                    Err(ending) => return ending,
                };
            }
            let event = transcript.events.last().expect("one was just pushed");
            match host(event) {
                Reply::Frames(frames) => self.answer(frames.into_iter().map(|frame| self.turn.frame(frame))).await,
                Reply::Raw(frames) => self.answer(frames.into_iter()).await,
                Reply::Close(frames) => {
                    self.answer(frames.into_iter().map(|frame| self.turn.frame(frame))).await;
                    self.frames = None;
                }
                Reply::Leave => return Ending::Left,
            }
        }
        Ending::Flood
    }

    async fn answer(&self, frames: impl Iterator<Item = v1::ControllerFrame>) {
        if let Some(sender) = &self.frames {
            for frame in frames {
                // A harness that takes no frame any more says why with its next event.
                let _ = sender.send(frame).await;
            }
        }
    }

    /// Notes what comes after the last event. After PARKED the stream must close; after END a host does not look.
    async fn linger(&mut self, transcript: &mut Transcript, last: EventKind) -> Ending {
        let within = if last == EventKind::EventParked { self.patience } else { AFTER_END };
        while transcript.events.len() < EVENTS_MAX {
            match self.next(within).await {
                Ok(event) => transcript.events.push(event),
                Err(ending) => return ending,
            }
        }
        Ending::Flood
    }

    async fn next(&mut self, within: Duration) -> Result<v1::Event, Ending> {
        match timeout(within, self.events.message()).await {
            Ok(Ok(Some(event))) => Ok(event),
            Ok(Ok(None)) => Err(Ending::Closed),
            Ok(Err(status)) => Err(Ending::of(&status)),
            Err(_) => Err(Ending::Silent),
        }
    }
}

impl Turn {
    /// A frame of this turn (W-1).
    pub(super) fn frame(&self, frame: Frame) -> v1::ControllerFrame {
        v1::ControllerFrame { session: self.session.clone(), execution_id: self.execution.clone(), frame: Some(frame) }
    }
}

impl Ending {
    fn of(status: &tonic::Status) -> Ending {
        let mut text = status.message().to_owned();
        let mut cause = std::error::Error::source(status);
        while let Some(inner) = cause {
            text = inner.to_string();
            cause = inner.source();
        }
        Ending::Status(status.code(), text)
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Closed => f.write_str("it closed the stream"),
            Ending::Status(code, text) => write!(f, "the stream ended with {code:?}: {text}"),
            Ending::Silent => f.write_str("it said nothing for as long as the kit waits"),
            Ending::Left => f.write_str("the kit broke the stream off"),
            Ending::Flood => write!(f, "it sent more than {EVENTS_MAX} events"),
        }
    }
}

impl Transcript {
    /// Where the first END or PARKED is.
    fn last_at(&self) -> Option<usize> {
        self.events.iter().position(|e| matches!(e.kind(), EventKind::EventEnd | EventKind::EventParked))
    }

    /// The first END or PARKED.
    pub(super) fn last(&self) -> Option<&v1::Event> {
        self.last_at().map(|at| &self.events[at])
    }

    /// What came before it.
    pub(super) fn before_last(&self) -> &[v1::Event] {
        &self.events[..self.last_at().unwrap_or(self.events.len())]
    }

    /// What came after it.
    pub(super) fn after_last(&self) -> &[v1::Event] {
        self.last_at().map_or(&[], |at| &self.events[at + 1..])
    }

    /// The first END, when the turn ended with one.
    pub(super) fn end(&self) -> Option<v1::HarnessEnd> {
        match self.last() {
            Some(event) if event.kind() == EventKind::EventEnd => match &event.body {
                Some(Body::End(end)) => Some(end.clone()),
                _ => Some(v1::HarnessEnd::default()),
            },
            _ => None,
        }
    }

    pub(super) fn is_completed(&self) -> bool {
        self.end().is_some_and(|end| end.state == "COMPLETED")
    }

    /// The request at which the turn parked.
    pub(super) fn parked(&self) -> Option<&v1::ApprovalRef> {
        match self.last().map(|event| &event.body) {
            Some(Some(Body::Parked(at))) => Some(at),
            _ => None,
        }
    }

    /// How it ended, in words.
    pub(super) fn told(&self) -> String {
        match (self.end(), self.parked()) {
            (Some(end), _) => {
                let why = end.error.map(|e| format!(": {}", e.description)).unwrap_or_default();
                format!("it ended {}{why}", if end.state.is_empty() { "without a state" } else { &end.state })
            }
            (None, Some(at)) => format!("it parked at {}", at.tool_call_id),
            (None, None) => self.ending.to_string(),
        }
    }
}
