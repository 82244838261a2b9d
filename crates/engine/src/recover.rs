//! Resume: an interrupted turn is driven to its end from what it has recorded.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use inspan_harness::Start;
use inspan_journal::{self as journal, FenceRule, Session};
use inspan_wire::v1::{self, EventKind, event::Body, lifecycle::Kind};
use inspan_wire::{SessionUid, canon};

use crate::drive::Drive;
use crate::engine::Engine;
use crate::exec::tape_for;
use crate::gate::{Gate, Stage};
use crate::guard::Guard;
use crate::history::{Past, decode};
use crate::scan::{Pending, Scan, TurnScan};
use crate::sink::Feed;
use crate::tape::{Mode, Tape};
use crate::{Agent, Error, Unserved};

/// Records behind a decision that are looked at: what they do not explain counts as acted upon.
const BEHIND_MAX: usize = 64;

impl Engine {
    /// Drives an interrupted turn to its end, or wakes a sleeping session (R-RESUME). On a live session
    /// with nothing to drive it appends nothing.
    ///
    /// # Errors
    /// As the table of Resume's status codes says.
    pub async fn resume(&self, uid: &SessionUid) -> Result<v1::Session, Error> {
        self.load(uid).await?;
        let guard = self.inner.guards.acquire(uid)?;
        let result = self.resume_guarded(&guard, uid, None).await;
        drop(guard);
        let view = self.settled(uid).await;
        result.and(view)
    }

    /// Goes on with what is unfinished, under the guard.
    pub(crate) async fn resume_guarded(
        &self,
        guard: &Guard,
        uid: &SessionUid,
        deadline_ns: Option<i64>,
    ) -> Result<(), Error> {
        let mut session = self.load(uid).await?;
        if self.expire_guarded(&session).await?.is_some() {
            session = self.load(uid).await?;
        }
        let scan = Scan::load(&session.state)?;
        if let Some(fault) = &scan.fault {
            return Err(fault.error());
        }
        if let Some((turn, gate)) = scan.gate() {
            // R-APPR-34: the parent's to finish.
            if !scan.owns(gate.call_seq) {
                return Err(Error::InheritedToolIntent);
            }
            self.check_pin(&session, &turn.harness)?;
            match gate.stage() {
                Stage::Call => return self.repair_request(&session, turn, gate).await,
                // R-APPR-22: nothing has changed.
                Stage::Requested => return Ok(()),
                Stage::Decided | Stage::Receipted => {}
            }
        }
        match scan.pending() {
            Pending::Nothing => self.wake(&session, &scan).await,
            Pending::Turn(turn) => self.recover_turn(guard, &session, &scan, turn, deadline_ns).await,
            Pending::Legacy { input_seq } => self.recover_legacy(guard, &session, &scan, input_seq).await,
        }
    }

    /// R-RESUME-5.
    async fn wake(&self, session: &Session, scan: &Scan) -> Result<(), Error> {
        self.admit(&*self.stored_agent(session)?).await?;
        if scan.compute == i32::from(v1::ComputeState::ComputeLive) {
            return Ok(());
        }
        let mut writer = self.writer(session, FenceRule::Next)?;
        writer.append(vec![resume_event()]).await.map(drop)
    }

    /// R-APPR-23: a crash came between a gated call and its request.
    async fn repair_request(&self, session: &Session, turn: &TurnScan, gate: &Gate) -> Result<(), Error> {
        let request = v1::ApprovalRequest { tool_call_id: gate.call_id.clone(), reason: String::new() };
        let request = v1::Event::new(&turn.execution_id, EventKind::EventApprovalRequest, Body::Approval(request));
        let mut writer = self.writer(session, FenceRule::Next)?;
        writer.append(vec![request]).await.map(drop)
    }

    /// Whether an earlier drive of the turn may have acted upon its open gate's decision: between the decision's fence
    /// and `held`, which this drive has just taken, there is one that somebody took for more than to put the session
    /// to sleep.
    async fn may_have_acted(&self, session: &Session, scan: &Scan, held: i64) -> Result<bool, Error> {
        let Some((_, gate)) = scan.gate().filter(|(_, gate)| gate.stage() == Stage::Decided) else { return Ok(false) };
        let records = self.inner.journal.records(&session.uid, gate.decision_seq, scan.head, BEHIND_MAX).await?;
        let Some((decision, behind)) = records.split_first() else { return Ok(true) };
        let mut slept = HashSet::new();
        for record in behind.iter().filter(|record| record.fence > decision.fence) {
            let event = decode(record)?;
            if is_suspend(&event) {
                slept.insert(record.fence);
            }
        }
        let slept = i64::try_from(slept.len()).expect("a page is countable");
        Ok(held - decision.fence - 1 > slept)
    }

    async fn recover_turn(
        &self,
        guard: &Guard,
        session: &Session,
        scan: &Scan,
        turn: &TurnScan,
        deadline_ns: Option<i64>,
    ) -> Result<(), Error> {
        self.check_pin(session, &turn.harness)?;
        let agent = self.recorded_agent(session, &turn.harness)?;
        if turn.marker && turn.have < turn.want {
            return Err(Error::IncompleteInvocation { have: turn.have, want: turn.want });
        }
        let admitted = self.admit(&agent).await?;
        check_version(&agent.name, &turn.version, &admitted.version)?;
        let past = self.past(&session.uid);
        refuse_inherited_intent(&past, scan, &turn.execution_id, turn.first_seq).await?;
        let recorded = Invocation::read(&past, &turn.execution_id, turn.first_seq, scan.head).await?;

        let fence = self.take_over(session).await?;
        let acted = self.may_have_acted(session, scan, fence).await?;
        let tools = self.tools(session, &agent, acted);
        let start = Start {
            session: session.uid.to_string(),
            execution_id: turn.execution_id.clone(),
            config: recorded.config,
            history: past.before(turn.first_seq),
            inputs: recorded.inputs,
            identity: None,
            resume_from_seq: recorded.resume_from_seq,
        };
        let drive = Drive {
            agent,
            start,
            record_id: turn.execution_id.clone(),
            tape: tape_for(Tape::new(Mode::Live, false), &admitted),
            admitted,
            feed: Some(Feed { past: past.clone(), next: turn.first_seq, last: scan.head }),
            past,
            writer: self.writer(session, FenceRule::Held(fence))?,
            deadline_ns,
            after_end: vec![resume_event()],
            tools,
        };
        self.drive(guard, drive).await
    }

    /// R-LEGACY-5 to R-LEGACY-7: only the last INPUT is the turn; its records keep an empty id.
    async fn recover_legacy(&self, guard: &Guard, session: &Session, scan: &Scan, seq: i64) -> Result<(), Error> {
        let agent = self.stored_agent(session)?;
        let admitted = self.admit(&agent).await?;
        let past = self.past(&session.uid);
        refuse_inherited_intent(&past, scan, "", seq).await?;
        let recorded = Invocation::read(&past, "", seq, seq).await?;
        let execution_id = self.legacy_id(&session.uid, seq).await?;

        let tools = self.tools(session, &agent, false);
        let fence = self.take_over(session).await?;
        let start = Start {
            session: session.uid.to_string(),
            execution_id,
            config: Bytes::new(),
            history: past.before(seq),
            inputs: recorded.inputs,
            identity: None,
            resume_from_seq: 0,
        };
        let drive = Drive {
            agent,
            start,
            admitted,
            record_id: String::new(),
            tape: Tape::new(Mode::Live, true),
            feed: Some(Feed { past: past.clone(), next: seq + 1, last: scan.head }),
            past,
            writer: self.writer(session, FenceRule::Held(fence))?,
            deadline_ns: None,
            after_end: vec![resume_event()],
            tools,
        };
        self.drive(guard, drive).await
    }

    /// Takes the session over from whoever wrote it last: from here on an older writer is refused. What it
    /// committed since `seen` was read may be the outcome of the very call that would be driven again, so
    /// a journal that has moved is not taken up from here.
    async fn take_over(&self, seen: &Session) -> Result<i64, Error> {
        let fence = self.inner.journal.new_fence(&seen.uid).await?;
        let now = self.load(&seen.uid).await?;
        let session = seen.uid.clone();
        if now.head.seq != seen.head.seq {
            return Err(journal::Error::Conflict { session, expected: seen.head.seq, actual: now.head.seq }.into());
        }
        if now.fence > fence {
            return Err(journal::Error::Fenced { session, held: fence, current: now.fence }.into());
        }
        Ok(fence)
    }

    /// The registry entry of a recorded name; without one the session's own (R-VER-4).
    pub(crate) fn recorded_agent(&self, session: &Session, recorded: &str) -> Result<Arc<Agent>, Error> {
        if recorded.is_empty() {
            return self.stored_agent(session);
        }
        let agent = self.inner.catalog.agent(recorded).map_err(|unserved| match unserved {
            Unserved::Unknown => Error::RecordedHarnessNotServed(recorded.to_owned()),
            Unserved::Unservable(why) => Error::HarnessUnservable(why),
        })?;
        if agent.name != recorded {
            return Err(Error::HarnessMismatch { recorded: recorded.to_owned(), served: agent.name.clone() });
        }
        Ok(agent)
    }

    /// R-LEGACY-6.
    pub(crate) async fn legacy_id(&self, uid: &SessionUid, seq: i64) -> Result<String, Error> {
        let records = self.inner.journal.records(uid, seq, seq, 1).await?;
        let record = records.first().ok_or_else(|| inspan_journal::Error::NotFound(uid.clone()))?;
        Ok(canon::legacy_execution_id(uid.as_str(), seq, &record.event))
    }
}

/// R-VER-2: exact bytes; an empty recorded version guards nothing.
pub(crate) fn check_version(harness: &str, recorded: &str, served: &str) -> Result<(), Error> {
    if recorded.is_empty() || recorded == served {
        return Ok(());
    }
    Err(Error::HarnessVersionMismatch {
        harness: harness.to_owned(),
        recorded: recorded.to_owned(),
        served: served.to_owned(),
    })
}

/// What an execution was started with, from its records (R-RESUME-2, R-REPLAY-2).
#[derive(Default)]
pub(crate) struct Invocation {
    pub(crate) config: Bytes,
    pub(crate) resume_from_seq: i64,
    pub(crate) inputs: Vec<v1::Message>,
}

impl Invocation {
    /// Reads the records `first..=last` of the execution, no further than its counted inputs.
    pub(crate) async fn read(past: &Past, execution_id: &str, first: i64, last: i64) -> Result<Invocation, Error> {
        let mut found = Invocation::default();
        let mut want = None;
        let mut seq = first;
        while seq <= last && want.is_none_or(|n: usize| found.inputs.len() < n) {
            let page = past.events(seq).await?;
            if page.is_empty() {
                break;
            }
            for event in page {
                if seq > last || want.is_some_and(|n| found.inputs.len() >= n) {
                    break;
                }
                seq += 1;
                if event.execution_id != execution_id {
                    continue;
                }
                match (event.kind(), &event.body) {
                    (EventKind::EventExecutionStart, Some(Body::ExecutionStart(start))) => {
                        found.config = start.config.clone();
                        found.resume_from_seq = start.resume_from_seq;
                        want = start.input_count.and_then(|n| usize::try_from(n).ok());
                    }
                    (EventKind::EventInput, Some(Body::Message(_))) => {
                        if let Some(Body::Message(m)) = &past.whole(&event).await?.body {
                            found.inputs.push(m.clone());
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(found)
    }
}

/// R-FORK-9: a tool call from before the fork whose result is not there is the parent's to finish.
async fn refuse_inherited_intent(past: &Past, scan: &Scan, execution_id: &str, first: i64) -> Result<(), Error> {
    if scan.fork_seq <= first {
        return Ok(());
    }
    let mut open: Option<String> = None;
    let mut seq = first;
    while seq <= scan.head {
        let page = past.events(seq).await?;
        if page.is_empty() {
            break;
        }
        for event in page {
            let inherited = seq < scan.fork_seq;
            seq += 1;
            if event.execution_id != execution_id {
                continue;
            }
            match (&event.body, event.kind()) {
                (Some(Body::Result(r)), _) if open.as_deref() == Some(r.id.as_str()) => open = None,
                (Some(Body::Tool(_) | Body::Result(_) | Body::Model(_) | Body::Usage(_)), _)
                | (_, EventKind::EventOutput)
                    if open.is_some() =>
                {
                    return Err(Error::InheritedToolIntent);
                }
                (Some(Body::Tool(call)), _) if inherited => open = Some(call.id.clone()),
                _ => {}
            }
        }
    }
    if open.is_some() { Err(Error::InheritedToolIntent) } else { Ok(()) }
}

fn is_suspend(event: &v1::Event) -> bool {
    matches!(&event.body, Some(Body::Lifecycle(l)) if l.kind() == Kind::LifecycleSuspend)
}

fn resume_event() -> v1::Event {
    v1::Event::lifecycle(v1::Lifecycle { kind: Kind::LifecycleResume.into(), ..Default::default() })
}
