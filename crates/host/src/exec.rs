//! The stream of one turn: the session before it, its own records and deltas, its outcome.
//!
//! The turn runs on a task of its own and never waits for its viewer; when the viewer leaves, the turn
//! goes on, and whoever comes back reads the journal.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use inspan_engine::{Engine, Turn};
use inspan_journal::Record;
use inspan_models::request_id;
use inspan_wire::v1::{self, EventKind};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Code;

use crate::fault::Fault;
use crate::hub::{Follow, Hub, Item};
use crate::update::{Update, Updates, decoded};
use crate::watch::closed;

/// Starts an accepted turn and answers with its stream, which also ends when `closing` becomes true.
pub(crate) fn start(engine: &Engine, hub: &Arc<Hub>, turn: Turn, closing: watch::Receiver<bool>) -> Updates {
    let session = turn.session().clone();
    let execution_id = turn.execution_id().to_owned();
    // The viewer is there before the turn runs, so that the ring holds its first record.
    let follow = hub.follow_live(engine.journal(), turn.uid(), session.last_seq + 1);
    let uid = turn.uid().clone();
    // A turn that goes on has begun before.
    let seen = if turn.recovers() { Seen::Own } else { Seen::Nothing };
    let viewer = Viewer {
        engine: engine.clone(),
        uid,
        follow,
        recovers: turn.recovers(),
        sight: Sight { execution_id, seen },
        // A turn's state is kilobytes: it is put on the heap before it is wrapped, not copied each time.
        stage: Stage::Running(tokio::spawn(request_id::carried(turn.run().boxed()))),
        closing,
    };
    let first = stream::once(async move { Ok(Update::Session(Box::new(session))) });
    let rest = stream::unfold(viewer, |mut viewer| async move {
        let update = viewer.next().await?;
        Some((update, viewer))
    });
    first.chain(rest).boxed()
}

/// How long the head of a stream waits for the turn's first record.
const TOGETHER_WITHIN: Duration = Duration::from_millis(50);

/// The same stream, once its first frames are there or have taken their time: so they leave with the head of the answer, in one
/// packet in place of two.
pub(crate) async fn together(updates: Updates) -> Updates {
    let mut updates = updates.fuse();
    let mut first: Vec<_> = updates.next().await.into_iter().collect();
    if let Ok(Some(second)) = tokio::time::timeout(TOGETHER_WITHIN, updates.next()).await {
        first.push(second);
    }
    stream::iter(first).chain(updates).boxed()
}

struct Viewer {
    engine: Engine,
    uid: inspan_wire::SessionUid,
    follow: Follow,
    recovers: bool,
    sight: Sight,
    stage: Stage,
    closing: watch::Receiver<bool>,
}

enum Stage {
    Running(JoinHandle<Result<v1::Session, inspan_engine::Error>>),
    /// The turn is over; records up to `head` are durable and may not have been given yet.
    Over {
        head: i64,
        /// The last frame: the session, when the turn waits for a decision or was gone on with.
        outcome: Result<Option<Box<v1::Session>>, Fault>,
    },
    Done,
}

impl Viewer {
    async fn next(&mut self) -> Option<Result<Update, Fault>> {
        loop {
            let item = match &mut self.stage {
                Stage::Done => return None,
                Stage::Over { head, outcome } => match self.follow.next_until(*head).await {
                    Ok(Some(item)) => Ok(item),
                    Ok(None) => {
                        let outcome = std::mem::replace(outcome, Ok(None));
                        self.stage = Stage::Done;
                        return outcome.map(|last| last.map(Update::Session)).transpose();
                    }
                    Err(fault) => Err(fault),
                },
                // What is there already goes first; the outcome is the end.
                Stage::Running(turn) => tokio::select! {
                    biased;
                    item = self.follow.next() => item,
                    outcome = turn => {
                        self.stage = over(&self.engine, &self.uid, self.recovers, outcome).await;
                        continue;
                    }
                    () = closed(&mut self.closing) => Err(inspan_engine::Error::Stopping.into()),
                },
            };
            match item.and_then(|item| self.sight.look(item)) {
                Ok(View::Show(update)) => return Some(Ok(update)),
                Ok(View::Skip) => {}
                Ok(View::Past) => self.end_here(),
                Err(fault) => {
                    self.stage = Stage::Done;
                    return Some(Err(fault));
                }
            }
        }
    }

    /// Another turn has begun: there is nothing more to see of this one but its outcome.
    fn end_here(&mut self) {
        if let Stage::Over { head, .. } = &mut self.stage {
            *head = 0;
        }
    }
}

async fn over(
    engine: &Engine,
    uid: &inspan_wire::SessionUid,
    recovers: bool,
    outcome: Result<Result<v1::Session, inspan_engine::Error>, tokio::task::JoinError>,
) -> Stage {
    let fault = match outcome {
        Ok(Ok(session)) => {
            let head = session.last_seq;
            let last = (recovers || session.pending_approval.is_some()).then(|| Box::new(session));
            return Stage::Over { head, outcome: Ok(last) };
        }
        Ok(Err(error)) => Fault::from(error),
        Err(_) => Fault::new(Code::Internal, "the turn broke off inside the host: resume the session"),
    };
    // A failed turn has recorded what it could; a journal that cannot be read adds nothing to that.
    let head = engine.journal().session(uid).await.ok().flatten().map_or(0, |session| session.head.seq);
    Stage::Over { head, outcome: Err(fault) }
}

/// Tells the turn's own records from those of another turn on the session: one that was in progress
/// when this one was refused, or one that began right behind it.
struct Sight {
    execution_id: String,
    seen: Seen,
}

#[derive(PartialEq, Eq)]
enum Seen {
    Nothing,
    Own,
    Past,
}

enum View {
    Show(Update),
    Skip,
    /// Another turn's first record, after this one's.
    Past,
}

impl Sight {
    fn look(&mut self, item: Item) -> Result<View, Fault> {
        match item {
            Item::TurnChanged => Ok(View::Skip),
            Item::Delta(delta) if delta.execution_id == self.execution_id => Ok(View::Show(Update::Delta(delta))),
            Item::Delta(_) => Ok(View::Skip),
            Item::Record(record, event) => {
                let event = decoded(&record, event)?;
                Ok(self.look_at(record, event))
            }
        }
    }

    fn look_at(&mut self, record: Record, event: Arc<v1::Event>) -> View {
        let own = event.execution_id == self.execution_id;
        if event.kind() == EventKind::EventExecutionStart {
            self.seen = match (own, &self.seen) {
                (true, _) => Seen::Own,
                (false, Seen::Nothing) => Seen::Nothing,
                (false, _) => Seen::Past,
            };
        }
        match self.seen {
            // Records of no execution (a lifecycle marker) belong to the turn that they follow.
            Seen::Own if own || event.execution_id.is_empty() => View::Show(Update::Record(record, Some(event))),
            Seen::Nothing | Seen::Own => View::Skip,
            Seen::Past => View::Past,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a stream of these frames, and for ever pending when `open`, gives as far as it gives anything.
    async fn given(frames: i64, open: bool) -> Vec<i64> {
        let frame = |last_seq| Ok(Update::Heartbeat { last_seq });
        // Like the stream of a turn, it must not be asked again once it is over.
        let numbered = stream::unfold(0, move |n| async move { (n < frames).then(|| (frame(n), n + 1)) });
        let stream = if open { numbered.chain(stream::pending()).boxed() } else { numbered.boxed() };
        let mut updates = together(stream).await;
        let mut seen = Vec::new();
        while let Some(Some(update)) = updates.next().now_or_never() {
            match update {
                Ok(Update::Heartbeat { last_seq }) => seen.push(last_seq),
                other => panic!("{other:?}"),
            }
        }
        seen
    }

    #[tokio::test]
    async fn the_head_of_a_stream_changes_nothing_in_it() {
        assert!(given(0, false).await.is_empty());
        assert_eq!(given(1, false).await, [0]);
        assert_eq!(given(3, false).await, [0, 1, 2]);
        assert_eq!(given(1, true).await, [0], "a turn that is slow to begin does not hold back its session");
        assert_eq!(given(2, true).await, [0, 1]);
    }
}
