//! One stream: one turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use inspan_wire::v1::{self, controller_frame::Frame};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::sink::RemoteSink;
use crate::{Harness, History, Start, contained};

/// Events that wait to be sent: a harness that reports faster than the host records is slowed down here.
const EVENTS_WAITING: usize = 16;

/// The events of a turn. The harness runs inside of it: whoever drops it, as the transport does when the host cancels
/// the stream (W-9), drops the run.
pub(super) struct Turn {
    drive: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    events: mpsc::Receiver<Result<v1::Event, Status>>,
}

impl Turn {
    /// A turn of `harness` over what the host sends.
    pub(super) fn new(harness: Arc<dyn Harness>, frames: Streaming<v1::ControllerFrame>) -> Turn {
        let (sender, events) = mpsc::channel(EVENTS_WAITING);
        Turn { drive: Some(Box::pin(drive(harness, frames, sender))), events }
    }
}

impl Stream for Turn {
    type Item = Result<v1::Event, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(drive) = &mut self.drive
            && drive.as_mut().poll(cx).is_ready()
        {
            // Its sender is gone with it: what waits is sent, then the stream ends.
            self.drive = None;
        }
        self.events.poll_recv(cx)
    }
}

async fn drive(
    harness: Arc<dyn Harness>,
    mut frames: Streaming<v1::ControllerFrame>,
    events: mpsc::Sender<Result<v1::Event, Status>>,
) {
    let last = match opening(&mut frames).await {
        Ok(start) => {
            let sink = RemoteSink::new(&start, frames, events.clone());
            let outcome = contained(harness.run(start, &sink)).await;
            Ok(sink.close(outcome))
        }
        Err(status) => Err(status),
    };
    // The host may have gone: then there is nobody to tell.
    let _ = events.send(last).await;
}

/// The first frame (W-2, W-3).
async fn opening(frames: &mut Streaming<v1::ControllerFrame>) -> Result<Start, Status> {
    let first = frames.message().await?;
    let Some(v1::ControllerFrame { session, execution_id, frame: Some(Frame::Start(start)) }) = first else {
        return Err(Status::invalid_argument("the first frame of a turn must be start"));
    };
    if execution_id.is_empty() {
        return Err(Status::invalid_argument("the start frame has no execution_id"));
    }
    Ok(Start {
        session,
        execution_id,
        config: start.config,
        history: History::from_events(start.history),
        inputs: start.inputs,
        identity: start.identity,
        resume_from_seq: start.resume_from_seq,
    })
}
