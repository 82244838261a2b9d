//! A new turn: accepted, then run.

use std::sync::Arc;

use inspan_harness::Start;
use inspan_journal::{FenceRule, Session, State};
use inspan_wire::v1::{self, EventKind, event::Body};
use inspan_wire::{SessionUid, hex};

use crate::drive::Drive;
use crate::engine::{Engine, needs_memory};
use crate::guard::Guard;
use crate::scan::Scan;
use crate::sink::Tools;
use crate::tape::Tape;
use crate::{Agent, Error, payload};

/// An accepted turn that has not started: the first frame of an Exec stream can be sent.
#[must_use = "an accepted turn does nothing until it is run"]
pub struct Turn {
    engine: Engine,
    view: v1::Session,
    uid: SessionUid,
    /// What a new turn runs on; `None` for one that goes on, which runs on what its record names (R-APPR-24).
    agent: Option<Arc<Agent>>,
    request: v1::ExecRequest,
    execution_id: String,
    /// The session's fold when the turn was accepted, and what it was read from.
    fold: (State, Scan),
}

impl Engine {
    /// Accepts a turn: resolves the session (an empty one is created) and the harness name. Any
    /// error here comes before the first frame.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION as the table of Exec's status codes says.
    pub async fn accept(&self, request: v1::ExecRequest, default_project: &str) -> Result<Turn, Error> {
        for message in &request.inputs {
            payload::refuse_named(message)?;
        }
        if self.inner.guards.draining() {
            return Err(Error::Stopping);
        }
        let (view, uid, agent, fold) = if request.session.is_empty() {
            let info = v1::Session {
                metadata: Some(v1::ResourceMetadata { project: default_project.to_owned(), ..Default::default() }),
                harness: request.harness.clone(),
                ..Default::default()
            };
            let view = self.create(info).await?;
            let uid = SessionUid::from(view.metadata.as_ref().map_or("", |m| m.uid.as_str()));
            let stored = self.load(&uid).await?;
            let scan = Scan::load(&stored.state)?;
            (view, uid, self.stored_agent(&stored)?, (stored.state, scan))
        } else {
            let session = self.load(&request.session.as_str().into()).await?;
            let scan = Scan::load(&session.state)?;
            if let Some(execution_id) = recovers(&request, &scan) {
                let (view, uid, fold) = (self.view(&session), session.uid, (session.state, scan));
                return Ok(Turn { engine: self.clone(), view, uid, agent: None, request, execution_id, fold });
            }
            // An unknown stored name is refused also when this turn overrides it (R-VER-5).
            let stored = self.stored_agent(&session)?;
            let agent = if request.harness.is_empty() { stored } else { self.agent(&request.harness)? };
            self.check_pin(&session, &agent.name)?;
            refuse_gated(&session.uid, &scan)?;
            (self.view(&session), session.uid, agent, (session.state, scan))
        };
        let mut id = [0; 8];
        self.inner.rim.fill(&mut id);
        let execution_id = hex(&id);
        Ok(Turn { engine: self.clone(), view, uid, agent: Some(agent), request, execution_id, fold })
    }

    /// What a turn runs its tools with. `acted`: see [`Tools::acted`].
    pub(crate) fn tools(&self, session: &Session, agent: &Agent, acted: bool) -> Tools {
        Tools {
            executor: agent.executor.clone(),
            policy: self.inner.policy.clone(),
            session: self.view(session),
            harness: agent.name.clone(),
            acted,
        }
    }
}

/// R-APPR-24: without inputs, an Exec on a turn that has a gate goes on with that turn, whose id this is.
fn recovers(request: &v1::ExecRequest, scan: &Scan) -> Option<String> {
    let turn = scan.turn.as_ref().filter(|turn| turn.gated && turn.ended.is_none())?;
    request.inputs.is_empty().then(|| turn.execution_id.clone())
}

/// R-APPR-32: the receipt, and not the decision, makes way for a new turn. A gate that a fork inherited is not the
/// child's to wait for (R-APPR-34).
fn refuse_gated(session: &SessionUid, scan: &Scan) -> Result<(), Error> {
    match scan.gate() {
        Some((_, gate)) if scan.owns(gate.call_seq) => {
            Err(Error::ApprovalBlocked { session: session.clone(), call: gate.call_id.clone() })
        }
        _ => Ok(()),
    }
}

impl Turn {
    /// The session before the turn.
    pub fn session(&self) -> &v1::Session {
        &self.view
    }

    /// Its uid.
    pub fn uid(&self) -> &SessionUid {
        &self.uid
    }

    /// The id that its records will carry: how its viewer tells them from another turn's.
    pub fn execution_id(&self) -> &str {
        &self.execution_id
    }

    /// Whether it goes on with the turn that the session already has (R-APPR-24).
    pub fn recovers(&self) -> bool {
        self.agent.is_none()
    }

    /// Runs the turn to its end. What it records goes to the observer; dropping the future is like
    /// a crash of the host at that point: everything recorded stays, and Resume picks it up.
    ///
    /// # Errors
    /// As the table of Exec's status codes says.
    pub async fn run(self) -> Result<v1::Session, Error> {
        let guard = self.engine.inner.guards.acquire(&self.uid)?;
        let result = self.run_guarded(&guard).await;
        drop(guard);
        let view = self.engine.settled(&self.uid).await;
        result.and(view)
    }

    async fn run_guarded(&self, guard: &Guard) -> Result<(), Error> {
        let engine = &self.engine;
        let deadline_ns = self.deadline_ns()?;
        let session = engine.load(&self.uid).await?;
        let (read, scan) = &self.fold;
        let scan = if *read == session.state { scan.clone() } else { Scan::load(&session.state)? };
        let Some(agent) = &self.agent else {
            self.check_expected(&session)?;
            return engine.resume_guarded(guard, &self.uid, deadline_ns).await;
        };
        refuse_gated(&self.uid, &scan)?;
        if let Some(fault) = &scan.boundary_fault {
            return Err(fault.error());
        }
        self.check_expected(&session)?;
        let admitted = engine.admit(agent).await?;
        if deadline_ns.is_some_and(|ns| engine.inner.rim.now_ns() >= ns) {
            return Err(Error::DeadlineExceeded);
        }

        let execution_id = self.execution_id.clone();
        let first_seq = session.head.seq + 1;
        let mut writer = engine.writer_at(&session, scan, FenceRule::Next);
        let whole = writer.append(self.first_events(agent, &execution_id, admitted.version.clone())).await?;
        let inputs = whole.iter().filter_map(|event| input_message(event)).collect();
        let past = engine.past(&self.uid);
        let start = Start {
            session: self.uid.to_string(),
            execution_id: execution_id.clone(),
            config: self.request.config.clone(),
            history: past.before(first_seq),
            inputs,
            identity: None,
            resume_from_seq: self.request.resume_from_seq,
        };
        let drive = Drive {
            agent: agent.clone(),
            start,
            record_id: execution_id,
            past,
            tape: tape_for(Tape::blank(), &admitted),
            admitted,
            feed: None,
            writer,
            deadline_ns,
            after_end: Vec::new(),
            tools: engine.tools(&session, agent, false),
        };
        engine.drive(guard, drive).await
    }

    /// The deadline of the turn; one that has passed is refused before anything is recorded.
    fn deadline_ns(&self) -> Result<Option<i64>, Error> {
        if self.request.deadline_unix <= 0 {
            return Ok(None);
        }
        let ns = self.request.deadline_unix.saturating_mul(1_000_000_000);
        if self.engine.inner.rim.now_ns() >= ns {
            return Err(Error::DeadlineExceeded);
        }
        Ok(Some(ns))
    }

    /// R-CAS-4: said early, so that no harness is asked for a turn that cannot start.
    fn check_expected(&self, session: &Session) -> Result<(), Error> {
        match self.request.expected_last_seq {
            Some(expected) if expected != session.head.seq => {
                Err(inspan_journal::Error::Conflict { session: self.uid.clone(), expected, actual: session.head.seq }
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// EXECUTION_START and the INPUTs, one commit (R-START-1, R-START-2).
    fn first_events(&self, agent: &Agent, execution_id: &str, harness_version: String) -> Vec<v1::Event> {
        let start = v1::ExecutionStart {
            config: self.request.config.clone(),
            resume_from_seq: self.request.resume_from_seq,
            input_count: Some(i64::try_from(self.request.inputs.len()).expect("a message count fits")),
            harness: agent.name.clone(),
            harness_version,
        };
        let start = v1::Event::new(execution_id, EventKind::EventExecutionStart, Body::ExecutionStart(start));
        let inputs = self.request.inputs.iter().cloned();
        let inputs = inputs.map(|m| v1::Event::new(execution_id, EventKind::EventInput, Body::Message(m)));
        std::iter::once(start).chain(inputs).collect()
    }
}

/// A harness whose memory has to be kept cannot wait at a gate (R-APPR-1).
pub(crate) fn tape_for(tape: Tape, descriptor: &v1::HarnessDescriptor) -> Tape {
    if needs_memory(descriptor) { tape.without_gates() } else { tape }
}

fn input_message(event: &v1::Event) -> Option<v1::Message> {
    match (event.kind(), &event.body) {
        (EventKind::EventInput, Some(Body::Message(m))) => Some(m.clone()),
        _ => None,
    }
}
