//! One drive of a harness: from Start to END, ERROR or CANCELED.

use std::sync::Arc;

use futures_util::future::{Either, pending, select};
use futures_util::{FutureExt as _, pin_mut};
use inspan_harness::{Failure, Start};
use inspan_wire::SessionUid;
use inspan_wire::v1::{self, EventKind, event::Body};
use tokio::sync::watch;

use crate::engine::Engine;
use crate::guard::Guard;
use crate::history::Past;
use crate::sink::{Feed, Live, Tools, TurnSink};
use crate::tape::Tape;
use crate::writer::Writer;
use crate::{Agent, Error};

/// A turn that is ready to be driven: its start is durable.
pub(crate) struct Drive {
    /// Where it runs.
    pub(crate) agent: Arc<Agent>,
    /// What the harness said of itself when this turn was admitted.
    pub(crate) admitted: v1::HarnessDescriptor,
    /// What the harness gets.
    pub(crate) start: Start,
    /// The id that its records carry: empty in a legacy journal.
    pub(crate) record_id: String,
    /// The session's records.
    pub(crate) past: Past,
    /// What it has recorded already.
    pub(crate) tape: Tape,
    /// Where the tape is fed from.
    pub(crate) feed: Option<Feed>,
    /// Appends.
    pub(crate) writer: Writer,
    /// When the turn must be over, nanoseconds since the Unix epoch.
    pub(crate) deadline_ns: Option<i64>,
    /// Records that follow END in the same commit.
    pub(crate) after_end: Vec<v1::Event>,
    /// Runs its tools.
    pub(crate) tools: Tools,
}

enum Outcome {
    Ended(Result<(), Failure>),
    Canceled(String),
    Deadline,
}

impl Engine {
    /// Drives the turn to its end. Whatever happens is in the journal afterwards, except what a stopping
    /// host leaves for Resume.
    pub(crate) async fn drive(&self, guard: &Guard, drive: Drive) -> Result<(), Error> {
        let Drive { agent, admitted, start, record_id, past, tape, feed, writer, deadline_ns, after_end, tools } =
            drive;
        let inner = &self.inner;
        let cancel = guard.begin(&start.execution_id);
        inner.observer.turn_changed(&start.session.as_str().into());

        let live = Live {
            writer,
            model: agent.model.clone(),
            rim: inner.rim.clone(),
            observer: inner.observer.clone(),
            guards: inner.guards.clone(),
            tools,
        };
        let uid: SessionUid = start.session.as_str().into();
        let sink = TurnSink::new(uid.clone(), record_id.clone(), past, tape, feed, Some(live));
        let outcome = {
            let run = agent.harness.run_admitted(&admitted, start, &sink);
            let interrupt = self.interrupt(cancel, deadline_ns);
            pin_mut!(interrupt);
            match select(run, interrupt).await {
                Either::Left((result, _)) => Outcome::Ended(result),
                Either::Right((outcome, _)) => outcome,
            }
        };
        let closed = sink.close(matches!(outcome, Outcome::Ended(Ok(())))).await;
        let live = closed.live.expect("a live turn keeps its writer");
        let verdict = match (closed.latch, outcome) {
            (Some(latched), _) => Err(latched),
            (None, Outcome::Canceled(reason)) => Err(Error::Canceled(reason)),
            // A turn that waits is not late: it is over for now (R-APPR-3, R-APPR-4).
            (None, outcome) if closed.parked.is_some() => return hand_off(live.writer, &uid, outcome).await,
            (None, Outcome::Ended(Ok(()))) => Ok(()),
            (None, Outcome::Ended(Err(failure))) => Err(blame(&failure, closed.refused)),
            (None, Outcome::Deadline) => Err(Error::DeadlineExceeded),
        };
        close(live.writer, &record_id, verdict, after_end).await
    }

    /// Resolves when somebody cancels the turn or its deadline passes.
    async fn interrupt(&self, mut cancel: watch::Receiver<Option<String>>, deadline_ns: Option<i64>) -> Outcome {
        let deadline = match deadline_ns {
            Some(ns) => self.inner.rim.sleep_until(ns),
            None => pending().boxed(),
        };
        let canceled = async {
            let reason = cancel.wait_for(Option::is_some).await.map(|reason| reason.clone().unwrap_or_default());
            match reason {
                Ok(reason) => reason,
                Err(_) => pending().await,
            }
        };
        pin_mut!(canceled);
        match select(canceled, deadline).await {
            Either::Left((reason, _)) => Outcome::Canceled(reason),
            Either::Right(_) => Outcome::Deadline,
        }
    }
}

/// What made the turn fail: what the harness was told, when it gave up on that, else what it says itself.
fn blame(failure: &Failure, refused: Option<Error>) -> Error {
    let text = failure.to_string();
    match refused {
        Some(refused) if text == refused.to_string() => refused,
        _ => Error::HarnessFailed(text),
    }
}

/// Puts a session to sleep whose turn waits for a decision (R-APPR-6). A harness that failed on its way out
/// is reported and not recorded, and the request stays (R-APPR-4, R-APPR-7).
async fn hand_off(mut writer: Writer, uid: &SessionUid, outcome: Outcome) -> Result<(), Error> {
    if let Outcome::Ended(Err(failure)) = outcome
        && failure != Failure::Parked
    {
        return Err(Error::HarnessFailed(failure.to_string()));
    }
    writer.append(vec![suspend_event(uid)]).await?;
    // It may sleep for days, and ten thousand like it.
    writer.cool();
    Ok(())
}

/// LIFECYCLE_SUSPEND of a session whose compute keeps only files: its handle is the session itself (R-LIFE-1).
pub(crate) fn suspend_event(uid: &SessionUid) -> v1::Event {
    v1::Event::lifecycle(v1::Lifecycle {
        kind: v1::lifecycle::Kind::LifecycleSuspend.into(),
        snapshot_local: uid.to_string(),
        ..Default::default()
    })
}

/// Appends what ends the turn (R-LIVE-4) and passes the verdict on.
async fn close(
    mut writer: Writer,
    record_id: &str,
    verdict: Result<(), Error>,
    after_end: Vec<v1::Event>,
) -> Result<(), Error> {
    let events = match &verdict {
        Ok(()) => {
            let mut events = vec![end_event(record_id, "COMPLETED", None)];
            events.extend(after_end);
            events
        }
        Err(Error::Canceled(reason)) => cancel_events(record_id, reason),
        // A journal that cannot be written, or a host that stops, leaves the turn to Resume.
        Err(Error::Stopping) => Vec::new(),
        // R-APPR-28: the decision stands, and a host that can act upon it resumes the turn.
        Err(Error::MissingToolExecutor(_)) => Vec::new(),
        Err(_) if writer.broken().is_some() => Vec::new(),
        Err(e) => vec![v1::Event::new(record_id, EventKind::EventError, Body::Error(error_body(e)))],
    };
    if !events.is_empty() {
        let appended = writer.append(events).await;
        if verdict.is_ok() {
            appended?;
        }
    }
    verdict
}

fn error_body(error: &Error) -> v1::Error {
    v1::Error { code: error.code() as i32, description: error.to_string() }
}

fn end_event(record_id: &str, state: &str, error: Option<v1::Error>) -> v1::Event {
    v1::Event::new(record_id, EventKind::EventEnd, Body::End(v1::HarnessEnd { state: state.to_owned(), error }))
}

/// What ends a cancelled turn: why, then END. In one commit.
pub(crate) fn cancel_events(record_id: &str, reason: &str) -> Vec<v1::Event> {
    let lifecycle = v1::Lifecycle {
        kind: v1::lifecycle::Kind::LifecycleCancel.into(),
        detail: reason.to_owned(),
        ..Default::default()
    };
    let error = error_body(&Error::Canceled(reason.to_owned()));
    vec![v1::Event::lifecycle(lifecycle), end_event(record_id, "CANCELED", Some(error))]
}
