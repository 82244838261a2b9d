//! Peers that send what a test lists, right or wrong.

use std::sync::{Arc, Mutex};

use inspan_attach::grpc::{Remote, Settings};
use inspan_wire::v1::{self, EventKind, controller_frame::Frame, event::Body};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::support::{EXECUTION, SESSION, Served};

#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated")]
mod client {
    include!("../../src/gen/agentsessions.v1.rs");
}
#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated")]
mod server {
    include!("../../../harness/src/gen/agentsessions.v1.rs");
}

/// What a harness does on its stream.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a test's list is short and is read more often than it is moved")]
pub(crate) enum Say {
    Event(v1::Event),
    /// Waits for a frame.
    Take,
    Status(Status),
    Hang,
}

/// A harness that keeps to no rule.
#[derive(Clone)]
struct Raw {
    says: Vec<Say>,
    frames: Arc<Mutex<Vec<v1::ControllerFrame>>>,
    describe: Result<v1::HarnessDescriptor, Status>,
}

#[tonic::async_trait]
impl server::harness_server::Harness for Raw {
    async fn describe(&self, _: Request<v1::DescribeRequest>) -> Result<Response<v1::HarnessDescriptor>, Status> {
        self.describe.clone().map(Response::new)
    }

    type ConnectStream = ReceiverStream<Result<v1::Event, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::ControllerFrame>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (events, stream) = mpsc::channel(16);
        let Raw { says, frames: taken, .. } = self.clone();
        tokio::spawn(async move {
            let mut frames = request.into_inner();
            for say in std::iter::once(Say::Take).chain(says) {
                let sent = match say {
                    Say::Event(event) => events.send(Ok(event)).await,
                    Say::Status(status) => events.send(Err(status)).await,
                    Say::Hang => std::future::pending().await,
                    Say::Take => {
                        let Ok(Some(frame)) = frames.message().await else { return };
                        taken.lock().expect("never poisoned").push(frame);
                        Ok(())
                    }
                };
                if sent.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// A raw harness that is served, and the host's end of it.
pub(crate) struct RawHarness {
    pub(crate) remote: Remote,
    frames: Arc<Mutex<Vec<v1::ControllerFrame>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for RawHarness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RawHarness {
    pub(crate) async fn new(says: impl IntoIterator<Item = Say>) -> RawHarness {
        RawHarness::describing(Ok(v1::HarnessDescriptor::default()), says).await
    }

    pub(crate) async fn describing(
        describe: Result<v1::HarnessDescriptor, Status>,
        says: impl IntoIterator<Item = Say>,
    ) -> RawHarness {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let frames = Arc::default();
        let raw = Raw { says: says.into_iter().collect(), frames: Arc::clone(&frames), describe };
        let service = server::harness_server::HarnessServer::new(raw);
        let task = tokio::spawn(async move {
            let served = tonic::transport::Server::builder().add_service(service);
            served.serve_with_incoming(TcpIncoming::from(listener)).await.expect("it serves to its end");
        });
        let settings = Settings { park_within: std::time::Duration::from_millis(100), ..Settings::default() };
        let remote = Remote::with(address.parse().expect("an address"), settings);
        RawHarness { remote, frames, task }
    }

    /// The frames that it took, Start first.
    pub(crate) fn frames(&self) -> Vec<v1::ControllerFrame> {
        self.frames.lock().expect("never poisoned").clone()
    }
}

pub(crate) fn event(kind: EventKind, body: Option<Body>) -> v1::Event {
    v1::Event { body, ..v1::Event { execution_id: EXECUTION.to_owned(), kind: kind.into(), ..Default::default() } }
}

pub(crate) fn end(state: &str, description: &str) -> v1::Event {
    let error =
        (!description.is_empty()).then(|| v1::Error { description: description.to_owned(), ..Default::default() });
    event(EventKind::EventEnd, Some(Body::End(v1::HarnessEnd { state: state.to_owned(), error })))
}

/// A frame of the usual turn.
pub(crate) fn frame(frame: Frame) -> v1::ControllerFrame {
    v1::ControllerFrame { session: SESSION.to_owned(), execution_id: EXECUTION.to_owned(), frame: Some(frame) }
}

/// Plays a host that keeps to no rule: sends the opening, then one list of frames for each event, and closes its side
/// when an event finds no list. Gives what the harness sent and how the stream ended.
pub(crate) async fn host(
    served: &Served,
    opening: v1::ControllerFrame,
    answers: impl IntoIterator<Item = Vec<v1::ControllerFrame>>,
) -> (Vec<v1::Event>, Result<(), Status>) {
    let channel = tonic::transport::Endpoint::from_shared(served.address.to_string()).expect("a unix address");
    let channel = channel.connect().await.expect("it answers");
    let (frames, waiting) = mpsc::channel(16);
    frames.send(opening).await.expect("room for a frame");
    let mut frames = Some(frames);
    let mut answers = answers.into_iter();
    let mut client = client::harness_client::HarnessClient::new(channel);
    let mut events = match client.connect(ReceiverStream::new(waiting)).await {
        Ok(events) => events.into_inner(),
        Err(status) => return (Vec::new(), Err(status)),
    };
    let mut seen = Vec::new();
    loop {
        match events.message().await {
            Ok(Some(event)) => seen.push(event),
            Ok(None) => return (seen, Ok(())),
            Err(status) => return (seen, Err(status)),
        }
        match (answers.next(), &frames) {
            (Some(list), Some(sender)) => {
                for frame in list {
                    sender.send(frame).await.expect("the harness still listens");
                }
            }
            _ => frames = None,
        }
    }
}
