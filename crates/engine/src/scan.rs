//! The fold over a journal: what has to be known of the past to take the next step.
//!
//! A [`Scan`] is small, whatever the session's length. It moves in the same commit as the records
//! (it is the `scan` of [`State`]), so a turn never re-reads the past; an import or a fork in the
//! middle folds records into one again with [`Folder`].

use std::collections::HashSet;

use bytes::Bytes;
use inspan_journal::{State, TurnMark};
use inspan_wire::v1::{self, EventKind, event::Body};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::gate::{Gate, Gates, Stage};

/// A long turn gets a mark every so many records, so that a fork in its middle folds a bounded part.
const MARK_EVERY: i64 = 4096;

/// What is as it starts is left out of what is stored: a scan is written with every append.
fn is_default<T: Default + PartialEq>(field: &T) -> bool {
    *field == T::default()
}

/// The folded view of records `1..=head`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scan {
    /// The last folded seq.
    #[serde(skip_serializing_if = "is_default")]
    pub head: i64,
    /// A `v1::ComputeState` number (R-LIFE-2).
    #[serde(skip_serializing_if = "is_default")]
    pub compute: i32,
    /// Seq of the latest fork marker; records below it are inherited. 0 without one.
    #[serde(skip_serializing_if = "is_default")]
    pub fork_seq: i64,
    /// Seq of the first record with an execution id; 0 while the journal is legacy or empty.
    #[serde(skip_serializing_if = "is_default")]
    pub modern_seq: i64,
    /// The last execution by first appearance: the only one that Resume may pick (R-RESUME-1).
    #[serde(skip_serializing_if = "is_default")]
    pub turn: Option<TurnScan>,
    /// The part without execution ids.
    #[serde(skip_serializing_if = "is_default")]
    pub legacy: LegacyScan,
    /// The first record that does not fit into an execution (R-EXEC).
    #[serde(skip_serializing_if = "is_default")]
    pub fault: Option<Fault>,
    /// The first record that breaks the legacy boundary (R-LEGACY-2): it stops new turns too.
    #[serde(skip_serializing_if = "is_default")]
    pub boundary_fault: Option<Fault>,
    /// `input_hash` of the last MODEL_CALL: what the next request is stored as a difference to.
    #[serde(skip_serializing_if = "is_default")]
    pub last_request: Option<String>,
    /// Seq of the last mark.
    #[serde(skip_serializing_if = "is_default")]
    pub mark_seq: i64,
}

/// What is known of the last execution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnScan {
    /// Its id.
    #[serde(skip_serializing_if = "is_default")]
    pub execution_id: String,
    /// Seq of its first record.
    #[serde(skip_serializing_if = "is_default")]
    pub first_seq: i64,
    /// Whether it has an EXECUTION_START.
    #[serde(skip_serializing_if = "is_default")]
    pub marker: bool,
    /// Inputs that the marker counts.
    #[serde(skip_serializing_if = "is_default")]
    pub want: i64,
    /// Inputs found.
    #[serde(skip_serializing_if = "is_default")]
    pub have: i64,
    /// Recorded harness name, empty when unknown.
    #[serde(skip_serializing_if = "is_default")]
    pub harness: String,
    /// Recorded harness version, empty when unguarded.
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    /// The state of its END; `None` while it is unfinished.
    #[serde(skip_serializing_if = "is_default")]
    pub ended: Option<String>,
    /// Whether there is approval evidence in it (R-APPR-8).
    #[serde(skip_serializing_if = "is_default")]
    pub gated: bool,
    /// Its gated calls.
    #[serde(skip_serializing_if = "is_default")]
    pub gates: Gates,
}

/// What is known of records without execution ids.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LegacyScan {
    /// Whether there is any.
    #[serde(skip_serializing_if = "is_default")]
    pub any: bool,
    /// Seq of the last INPUT; 0 without one.
    #[serde(skip_serializing_if = "is_default")]
    pub last_input: i64,
    /// The last one is END or ERROR.
    #[serde(skip_serializing_if = "is_default")]
    pub finished: bool,
    /// The last finish was an ERROR.
    #[serde(skip_serializing_if = "is_default")]
    pub failed: bool,
}

/// A record that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The record.
    pub seq: i64,
    /// What is wrong with it.
    pub what: String,
    /// It contradicts the record that it answers (R-APPR-11).
    #[serde(default)]
    pub contradicts: bool,
}

impl Fault {
    /// As the error of an operation.
    pub fn error(&self) -> Error {
        if self.contradicts {
            return Error::ReplayDiverged { seq: self.seq, what: self.what.clone() };
        }
        Error::InvalidExecutionLog { seq: self.seq, what: self.what.clone() }
    }
}

/// What is left to drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pending<'a> {
    /// Nothing: complete, or no execution at all.
    Nothing,
    /// The last execution, unfinished.
    Turn(&'a TurnScan),
    /// The last INPUT of a legacy journal, unanswered (R-LEGACY-5).
    Legacy {
        /// Its seq.
        input_seq: i64,
    },
}

impl Scan {
    /// The scan of an empty journal.
    pub fn empty() -> Scan {
        Scan { compute: v1::ComputeState::ComputeNone.into(), ..Default::default() }
    }

    /// Reads the scan that a store kept.
    ///
    /// # Errors
    /// When a newer host wrote it in a form this one does not know.
    pub fn load(state: &State) -> Result<Scan, Error> {
        if state.scan.is_empty() {
            return Ok(Scan::empty());
        }
        serde_json::from_slice(&state.scan).map_err(|e| {
            Error::FailedPrecondition(format!("the session's folded state is of another host version ({e}): upgrade"))
        })
    }

    /// The projections to be stored with the record that this scan ends at.
    pub fn state(&self) -> State {
        State {
            compute: self.compute,
            exec: self.exec_state().into(),
            pending: self.awaited(),
            deadline_ns: self.awaited_gate().and_then(|(_, gate)| gate.deadline_ns),
            scan: Bytes::from(serde_json::to_vec(self).expect("a scan is plain data")),
        }
    }

    /// R-LIFE-4, told apart further: CANCELED by END, FAILED for a turn that ended with ERROR or was
    /// cut and waits for Resume. RUNNING is not the journal's to know.
    pub fn exec_state(&self) -> v1::ExecState {
        use v1::ExecState::{ExecCanceled, ExecCompleted, ExecFailed, ExecPending};
        if self.head == 0 {
            return ExecPending;
        }
        if self.awaited().is_some() {
            return v1::ExecState::ExecAwaiting;
        }
        match (&self.turn, self.pending()) {
            (Some(turn), _) => match turn.ended.as_deref() {
                Some("CANCELED") => ExecCanceled,
                Some("COMPLETED") => ExecCompleted,
                _ => ExecFailed,
            },
            (None, Pending::Legacy { .. }) => ExecFailed,
            (None, _) if self.legacy.failed => ExecFailed,
            (None, _) => ExecCompleted,
        }
    }

    /// The open gate of an unfinished last turn, the session's own or an inherited one (R-APPR-12).
    pub fn gate(&self) -> Option<(&TurnScan, &Gate)> {
        let turn = self.turn.as_ref().filter(|turn| turn.ended.is_none())?;
        Some((turn, turn.gates.open()?))
    }

    /// Whether record `seq` was written by this session itself and not by one that it was forked from.
    pub fn owns(&self, seq: i64) -> bool {
        seq > self.fork_seq
    }

    /// The decision that the session waits for (R-APPR-15).
    pub fn awaited(&self) -> Option<v1::ApprovalRef> {
        self.awaited_gate().map(|(turn, gate)| v1::ApprovalRef {
            execution_id: turn.execution_id.clone(),
            tool_call_id: gate.call_id.clone(),
            request_seq: gate.request_seq,
        })
    }

    /// The gate that waits for a decision, with its turn (R-APPR-15).
    pub fn awaited_gate(&self) -> Option<(&TurnScan, &Gate)> {
        self.gate().filter(|(_, gate)| gate.stage() == Stage::Requested && self.owns(gate.call_seq))
    }

    /// What Resume would drive.
    pub fn pending(&self) -> Pending<'_> {
        match &self.turn {
            Some(turn) if turn.ended.is_none() => Pending::Turn(turn),
            Some(_) => Pending::Nothing,
            None if self.legacy.last_input > 0 && !self.legacy.finished => {
                Pending::Legacy { input_seq: self.legacy.last_input }
            }
            None => Pending::Nothing,
        }
    }

    /// Folds record `seq`. `known` tells whether an execution id was seen before the last one's. Answers
    /// whether the record starts an execution.
    pub fn step(&mut self, seq: i64, event: &v1::Event, known: impl FnOnce(&str) -> bool) -> bool {
        debug_assert_eq!(seq, self.head + 1, "records are folded in order");
        self.head = seq;
        let kind = event.kind();
        if kind == EventKind::EventLifecycle {
            self.step_lifecycle(seq, event);
            return false;
        }
        if !matches!(kind, EventKind::EventApprovalRequest | EventKind::EventApprovalResult) {
            self.compute = v1::ComputeState::ComputeLive.into();
        }
        if let Some(Body::Model(call)) = &event.body {
            self.last_request = Some(call.input_hash.clone()).filter(|h| !h.is_empty());
        }
        if event.execution_id.is_empty() {
            self.step_legacy(seq, kind);
            return false;
        }
        self.step_modern(seq, event, known)
    }

    fn step_lifecycle(&mut self, seq: i64, event: &v1::Event) {
        use v1::lifecycle::Kind;
        let Some(Body::Lifecycle(l)) = &event.body else { return };
        match l.kind() {
            Kind::LifecycleSuspend => self.compute = v1::ComputeState::ComputeCold.into(),
            Kind::LifecycleFork => {
                self.compute = v1::ComputeState::ComputeCold.into();
                self.fork_seq = seq;
            }
            Kind::LifecycleResume => self.compute = v1::ComputeState::ComputeLive.into(),
            _ => {}
        }
    }

    /// R-LEGACY-1, R-EXEC-2.
    fn step_legacy(&mut self, seq: i64, kind: EventKind) {
        if self.modern_seq > 0 {
            self.set_fault(seq, "a record without execution id after the first one with");
            return;
        }
        use EventKind as K;
        match kind {
            K::EventInput => {
                self.legacy.last_input = seq;
                self.legacy.finished = false;
                self.legacy.failed = false;
            }
            K::EventEnd | K::EventError => {
                self.legacy.finished = true;
                self.legacy.failed = kind == K::EventError;
            }
            K::EventModelCall | K::EventOutput | K::EventToolCall | K::EventToolResult | K::EventUsage => {
                self.legacy.finished = false;
            }
            _ => {
                let what = format!("a {} record without execution id", kind.as_str_name());
                self.set_fault(seq, &what);
                self.boundary_fault.get_or_insert(Fault { seq, what, contradicts: false });
            }
        }
        self.legacy.any = true;
    }

    fn step_modern(&mut self, seq: i64, event: &v1::Event, known: impl FnOnce(&str) -> bool) -> bool {
        let kind = event.kind();
        if self.modern_seq == 0 {
            self.modern_seq = seq;
            // R-LEGACY-2: a start marker supersedes any tail, a bare id does not.
            if kind != EventKind::EventExecutionStart && self.legacy.any && !self.legacy.finished {
                let what = "a record with execution id after an unfinished legacy turn".to_owned();
                self.set_fault(seq, &what);
                self.boundary_fault = Some(Fault { seq, what, contradicts: false });
            }
        }
        match &mut self.turn {
            Some(turn) if turn.execution_id == event.execution_id => {
                if kind == EventKind::EventExecutionStart {
                    self.set_fault(seq, "an EXECUTION_START that is not the first record of its execution");
                } else {
                    self.step_turn(seq, event);
                }
                false
            }
            _ if known(&event.execution_id) => {
                if kind == EventKind::EventExecutionStart {
                    self.set_fault(seq, "a second EXECUTION_START of an earlier execution");
                }
                false
            }
            _ => {
                self.turn =
                    Some(TurnScan { execution_id: event.execution_id.clone(), first_seq: seq, ..Default::default() });
                if kind == EventKind::EventExecutionStart {
                    self.step_marker(seq, event);
                } else {
                    self.step_turn(seq, event);
                }
                true
            }
        }
    }

    /// R-EXEC-3, R-EXEC-4.
    fn step_marker(&mut self, seq: i64, event: &v1::Event) {
        let Some(Body::ExecutionStart(start)) = &event.body else {
            self.set_fault(seq, "an EXECUTION_START without a body");
            return;
        };
        let turn = self.turn.as_mut().expect("the caller has just set it");
        turn.marker = true;
        turn.harness.clone_from(&start.harness);
        turn.version.clone_from(&start.harness_version);
        match start.input_count {
            Some(n) if n >= 0 => turn.want = n,
            _ => self.set_fault(seq, "an EXECUTION_START without a count of its inputs"),
        }
    }

    fn step_turn(&mut self, seq: i64, event: &v1::Event) {
        let turn = self.turn.as_mut().expect("the caller has matched it");
        let mut fault = None;
        match (event.kind(), &event.body) {
            (EventKind::EventInput, body) => {
                turn.have += 1;
                if turn.marker && !matches!(body, Some(Body::Message(_))) {
                    fault = Some("an INPUT without a message");
                } else if turn.marker && turn.have > turn.want {
                    fault = Some("more inputs than its EXECUTION_START counts");
                }
            }
            (EventKind::EventEnd, body) => {
                let state = match body {
                    Some(Body::End(end)) => end.state.clone(),
                    _ => String::new(),
                };
                let canceled = state == "CANCELED";
                turn.ended.get_or_insert(state);
                // A turn that a fork has cut before its inputs can be cancelled, and nothing else.
                if turn.marker && turn.have < turn.want && !canceled {
                    fault = Some("an execution that ended with fewer inputs than its EXECUTION_START counts");
                }
            }
            (EventKind::EventApprovalRequest | EventKind::EventApprovalResult, _) => turn.gated = true,
            (_, Some(Body::Tool(call))) if call.mediation() == v1::Mediation::RequiresApproval => turn.gated = true,
            (_, Some(Body::Result(r))) if r.approval_request_seq != 0 || r.approval_decision_seq != 0 => {
                turn.gated = true;
            }
            _ => {}
        }
        let gates = turn.gates.step(seq, event);
        if let Some(what) = fault {
            self.set_fault(seq, what);
        }
        if let Err(wrong) = gates {
            let fault = Fault { seq, what: wrong.what.to_owned(), contradicts: wrong.contradicts };
            self.fault.get_or_insert(fault);
        }
    }

    fn set_fault(&mut self, seq: i64, what: &str) {
        self.fault.get_or_insert_with(|| Fault { seq, what: what.to_owned(), contradicts: false });
    }
}

/// Folds a whole journal, marks included: what an import and the verification of projections need.
#[derive(Debug, Clone)]
pub struct Folder {
    scan: Scan,
    seen: HashSet<String>,
}

impl Default for Folder {
    fn default() -> Folder {
        Folder::new(Scan::empty())
    }
}

impl Folder {
    /// Goes on from `scan`.
    pub fn new(scan: Scan) -> Folder {
        let seen = scan.turn.iter().map(|t| t.execution_id.clone()).collect();
        Folder { scan, seen }
    }

    /// Folds the next record; a mark is to be stored with it when there is one.
    pub fn step(&mut self, seq: i64, event: &v1::Event) -> Option<TurnMark> {
        let before = self.scan.clone();
        let seen = &self.seen;
        let starts = self.scan.step(seq, event, |id| seen.contains(id));
        if starts {
            self.seen.insert(event.execution_id.clone());
        }
        self.scan.mark(&before, starts)
    }

    /// The fold so far.
    pub fn scan(&self) -> &Scan {
        &self.scan
    }

    /// The projections so far.
    pub fn state(&self) -> State {
        self.scan.state()
    }
}

impl Scan {
    /// Whether the record that is folded next may get a mark: then the fold before it is needed.
    pub fn may_mark(&self, event: &v1::Event) -> bool {
        let goes_on = self.turn.as_ref().is_some_and(|turn| turn.execution_id == event.execution_id);
        !goes_on || self.head + 1 - self.mark_seq >= MARK_EVERY
    }

    /// The mark to store with the record just folded, if it starts a turn or the last mark is far.
    pub fn mark(&mut self, before: &Scan, starts: bool) -> Option<TurnMark> {
        // A fork's marker comes without a mark of its own; the record behind it gets the one that is due.
        let is_fork = self.fork_seq == self.head;
        if !starts && (is_fork || self.head - self.mark_seq < MARK_EVERY) {
            return None;
        }
        self.mark_seq = self.head;
        Some(TurnMark {
            execution_id: self.turn.as_ref().map(|t| t.execution_id.clone()).unwrap_or_default(),
            first_seq: self.head,
            before: before.state(),
        })
    }
}
