//! What the end of an operation must look like.

use inspan_engine::{Code, Error};
use inspan_journal::Error as Store;
use inspan_wire::v1::{self, EventKind, event::Body, lifecycle};

use crate::client::{Done, Outcome, count};
use crate::oracle::{Mirror, Oracle, decision_of, kind_name, short};
use crate::promise::{Promise, Verdict, Violation, ensure};
use crate::world::{Kind, Op};

/// Judges what `op` ended with.
pub(crate) fn outcome(oracle: &Oracle, op: &Op, outcome: &Outcome) -> Verdict {
    let case = Case { oracle, op, mirror: op.session.as_ref().and_then(|uid| oracle.mirror(uid)) };
    match outcome {
        Ok(done) => {
            ensure(!op.deviated, Promise::DivergenceIsAnError, || case.say("a harness that deviated was let through"))?;
            case.succeeded(done)
        }
        Err(error) => case.failed(error),
    }
}

struct Case<'c> {
    oracle: &'c Oracle,
    op: &'c Op,
    mirror: Option<&'c Mirror>,
}

impl Case<'_> {
    fn say(&self, what: &str) -> String {
        let uid = self.op.session.as_ref().map_or("?", short);
        format!("{uid}: {:?} (op {}): {what}", self.op.kind, self.op.id)
    }

    fn broken(&self, promise: Promise, what: &str) -> Violation {
        Violation::of(promise, self.say(what))
    }

    /// The records that it committed.
    fn recorded(&self) -> Vec<&v1::Event> {
        let at = |seq: &i64| usize::try_from(seq - 1).ok();
        let events = self.mirror.map(|m| &m.events[..]).unwrap_or_default();
        self.op.appended.iter().filter_map(at).filter_map(|at| events.get(at)).collect()
    }

    fn recorded_end(&self, state: &str) -> bool {
        self.recorded().iter().any(|e| matches!(&e.body, Some(Body::End(end)) if end.state == state))
    }

    fn recorded_lifecycle(&self, kind: lifecycle::Kind) -> bool {
        self.recorded().iter().any(|e| matches!(&e.body, Some(Body::Lifecycle(l)) if l.kind() == kind))
    }

    /// What was answered is in the journal (promise 1).
    fn succeeded(&self, done: &Done) -> Verdict {
        let shown = |holds: bool, what: &str| ensure(holds, Promise::RecordBeforeEffect, || self.say(what));
        match (self.op.kind, done) {
            (Kind::Exec, _) if self.op.bare && self.op.appended.is_empty() => {}
            (Kind::Exec, _) => {
                let over = self.recorded_end("COMPLETED") || self.parked();
                shown(over, "a turn was said to be over, and has no END and waits for nobody")?;
                let first = self.op.appended.first().copied().unwrap_or_default();
                let met = self.op.expected_last_seq.is_none_or(|expected| expected == first - 1);
                ensure(met, Promise::OneWriter, || self.say("it began at another head than was demanded"))?;
            }
            (Kind::Resume, _) if self.op.appended.is_empty() => {}
            (Kind::Resume, _) => {
                let woken = self.recorded_lifecycle(lifecycle::Kind::LifecycleResume);
                shown(woken || self.parked(), "it succeeded, recorded no RESUME and waits for nobody")?;
            }
            (Kind::Suspend, _) => {
                let asleep = self.recorded_lifecycle(lifecycle::Kind::LifecycleSuspend) && self.op.appended.len() == 1;
                shown(asleep, "it succeeded and recorded no SUSPEND alone")?;
            }
            (Kind::Cancel, _) => {
                let closed = self.op.appended.is_empty() || self.recorded_end("CANCELED");
                shown(closed, "it recorded something else than a CANCELED")?;
            }
            (Kind::Approve, Done::Decided(decided)) => self.decided(decided)?,
            (Kind::Delete, _) => shown(self.mirror.is_some_and(|m| m.deleted), "the session is still there")?,
            (Kind::Fork, Done::Children(made)) => {
                let all = made.len() == self.op.children_wanted && made.len() == self.op.children.len();
                shown(all, "another number of children than was asked for")?;
            }
            (Kind::Rerun, Done::Rerun(rerun)) => self.reran(rerun)?,
            (Kind::List, Done::Listed(listed)) => {
                let unique: std::collections::BTreeSet<_> = listed.iter().collect();
                shown(unique.len() == listed.len(), "a session was listed twice")?;
                shown(
                    listed.iter().all(|uid| self.oracle.mirror(uid).is_some()),
                    "a session was listed that is not there",
                )?;
            }
            _ => {}
        }
        let (shown, appended) = (&self.op.shown, &self.op.appended);
        ensure(shown == appended, Promise::NothingVanishes, || {
            self.say(&format!("it recorded {appended:?} and its watcher was shown {shown:?}"))
        })?;
        match done {
            Done::Session(view) => self.view(view),
            Done::Decided(decided) => self.view(&decided.session),
            _ => Ok(()),
        }
    }

    /// It has put its session to sleep behind a call that waits (R-APPR-6).
    fn parked(&self) -> bool {
        let asked = self.mirror.and_then(|m| m.events.get(..)).unwrap_or_default();
        let last = self.op.appended.last().and_then(|seq| usize::try_from(*seq - 1).ok()).unwrap_or_default();
        let request = asked[..last.min(asked.len())]
            .iter()
            .rfind(|e| !e.execution_id.is_empty() && e.kind() != EventKind::EventError);
        let waits = request.is_some_and(|e| e.kind() == EventKind::EventApprovalRequest);
        waits && self.recorded_lifecycle(lifecycle::Kind::LifecycleSuspend)
    }

    /// What the client is told is on record, is what it asked for, and is all that happened (R-APPR-17, R-APPR-18).
    fn decided(&self, decided: &inspan_engine::Decided) -> Verdict {
        let one = |holds: bool, what: &str| ensure(holds, Promise::OneDecision, || self.say(what));
        let Some(mirror) = self.mirror else { return Ok(()) };
        let seq = decided.record.seq;
        let at = usize::try_from(seq - 1).unwrap_or(usize::MAX);
        one(mirror.records.get(at) == Some(&decided.record), "it was told of a decision that is not on record")?;
        let recorded = mirror.events.get(at).and_then(|event| Some((event, decision_of(event)?)));
        let asked = self.op.decision.as_ref();
        let same = recorded.zip(asked).is_some_and(|((event, decision), asked)| {
            Some(decision.approved) == asked.approved
                && (&decision.reason, decision.request_seq) == (&asked.reason, asked.request_seq)
                && (&event.execution_id, &decision.tool_call_id) == (&asked.execution_id, &asked.tool_call_id)
                && event.actor == asked.identity
        });
        one(same, "it was told that its decision counts, and another is on record")?;
        one(self.op.appended.is_empty() || self.op.appended == [seq], "it recorded more than a decision")
    }

    /// A re-run serves what was recorded of every completed execution, and nothing else (promise 2).
    fn reran(&self, rerun: &inspan_engine::Rerun) -> Verdict {
        let Some(mirror) = self.mirror else { return Ok(()) };
        let completed = mirror.completed();
        let of_it = (self.op.completed_before..=count(completed.len())).contains(&rerun.executions);
        ensure(of_it, Promise::ReplayCostsNothing, || {
            self.say(&format!("{} executions ran, {} are complete", rerun.executions, completed.len()))
        })?;
        let ran = &completed[..usize::try_from(rerun.executions).unwrap_or_default()];
        let texts: Vec<String> = ran
            .iter()
            .flat_map(|id| mirror.effects(id))
            .filter_map(|(_, e)| match &e.body {
                Some(Body::Message(m)) => Some(m.concat_text()),
                _ => None,
            })
            .collect();
        ensure(texts == rerun.outputs, Promise::ReplayCostsNothing, || {
            self.say("it gave other texts than are recorded")
        })
    }

    /// No answer is ahead of the journal.
    fn view(&self, view: &v1::Session) -> Verdict {
        let uid = view.metadata.as_ref().map(|m| m.uid.as_str().into());
        let head = uid.and_then(|uid| self.oracle.mirror(&uid)).map(Mirror::head);
        ensure(head.is_some_and(|head| view.last_seq <= head), Promise::RecordBeforeEffect, || {
            self.say(&format!("the answer is at seq {}, the journal at {head:?}", view.last_seq))
        })
    }

    fn failed(&self, error: &Error) -> Verdict {
        self.refused(error)?;
        match error {
            Error::Journal(Store::Damaged { .. }) | Error::InvalidExecutionLog { .. } => {
                return Err(self.broken(Promise::CheckedByStrangers, &error.to_string()));
            }
            Error::ReplayDiverged { .. } | Error::ReplayInvokedModel if !self.op.deviated => {
                return Err(self.broken(Promise::ReplayCostsNothing, &format!("nothing has changed, and yet: {error}")));
            }
            _ => {}
        }
        let diverged = matches!(error, Error::ReplayDiverged { .. } | Error::ReplayInvokedModel);
        if self.op.deviated && !diverged && !self.is_disturbed(error) {
            return Err(self.broken(Promise::DivergenceIsAnError, &format!("a deviation ended with: {error}")));
        }
        if self.op.kind == Kind::Rerun && !diverged && !self.is_disturbed(error) {
            return Err(self.broken(Promise::ReplayCostsNothing, &format!("it failed: {error}")));
        }
        Ok(())
    }

    /// Whether something from outside of the turn explains that it failed.
    fn is_disturbed(&self, error: &Error) -> bool {
        let outside = matches!(
            error,
            Error::Canceled(_)
                | Error::DeadlineExceeded
                | Error::Stopping
                | Error::Busy(_)
                | Error::HarnessNotDescribed { .. }
                | Error::HarnessDescribeFailed { .. }
        );
        let gone = self.mirror.is_none_or(|m| m.deleted);
        outside || gone || self.op.faults > 0 || self.oracle.is_overtaken(self.op)
    }

    /// A refusal with a code that says "not like this" leaves nothing behind (promise 7).
    fn refused(&self, error: &Error) -> Verdict {
        let code = error.code();
        let is_refusal = matches!(
            code,
            Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound | Code::OutOfRange | Code::Aborted
        );
        if !is_refusal || self.oracle.is_overtaken(self.op) {
            return Ok(());
        }
        let left: Vec<&str> = self.recorded().into_iter().map(kind_name).collect();
        ensure(left.is_empty() && self.op.children.is_empty(), Promise::HonestRefusal, || {
            self.say(&format!("it was refused ({error}) and has recorded {left:?}"))
        })?;
        // A fence that was taken only to find that another writer was faster is no refusal before the fact.
        let fenced = self.op.fence.is_some() && code != Code::Aborted;
        ensure(!fenced, Promise::HonestRefusal, || self.say(&format!("it was refused ({error}) and has taken a fence")))
    }
}
