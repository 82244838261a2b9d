//! The effects that a turn has recorded already, in order.
//!
//! Live, resumed and replayed turns all come through [`Tape::next`]: it is asked for the recorded
//! effect of a request and answers what is to be done. It decides and performs nothing.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use inspan_wire::event::{principal, tool_difference};
use inspan_wire::v1::{self, EventKind, Mediation, event::Body};

use crate::Error;
use crate::gate::{Gate, Gates, Stage};

/// How a turn is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// For the first time, or on from where it was cut.
    Live,
    /// Again, on its recorded effects only (R-REPLAY).
    Replay,
}

/// A recorded effect.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its place.
    pub seq: i64,
    /// The event.
    pub event: Arc<v1::Event>,
}

/// What the harness asks for.
#[derive(Debug, Clone, Copy)]
pub enum Asked<'a> {
    /// A model call with this input hash.
    Model {
        /// 64 hex digits.
        input_hash: &'a str,
    },
    /// Text output.
    Output(&'a str),
    /// A result that the harness reports.
    Report,
    /// Token counts.
    Usage(&'a v1::Usage),
    /// A tool run by the host.
    Tool(&'a v1::ToolCall),
}

/// What is to be done.
#[derive(Debug)]
pub enum Step {
    /// Hand this record back; nothing happens outside.
    Serve(Entry),
    /// The call is recorded and is the last effect, its outcome is not: perform it once, record the
    /// outcome only (R-MODEL-6, R-TOOL-11). Gives the call's seq.
    Redrive(i64),
    /// Nothing is recorded any more: record, perform, record.
    Perform,
    /// The recording has the call without outcome, or the call is refused; the harness is told and may go on.
    Missing(&'static str),
    /// A gated call with its decision and its receipt: hand both back.
    ServeGated {
        /// The APPROVAL_RESULT.
        decision: Entry,
        /// The TOOL_RESULT.
        receipt: Entry,
    },
    /// The call is decided and was not acted upon, or its receipt was lost: act, record the receipt (R-APPR-25,
    /// R-APPR-26).
    Decided(Gate, Entry),
    /// The call waits for a decision: the turn parks, nothing is recorded.
    Park(v1::ApprovalRef),
    /// The gated call is on record and its request is not: record that, then park (R-APPR-23).
    Ask,
    /// Refused before anything is recorded, with the status that the turn has if the harness gives up on it.
    Refused(Error),
    /// Neither recorded nor performed (R-LEGACY-9).
    Ignore,
    /// The harness asked for something else: the turn is over.
    Diverged(Error),
}

/// The recorded effects of one execution that were not consumed yet.
#[derive(Debug)]
pub struct Tape {
    mode: Mode,
    legacy: bool,
    entries: VecDeque<Entry>,
    /// The journal may hold further entries of this execution.
    open: bool,
    consumed: i64,
    last_seq: i64,
    /// The kind of the last effect that is on record up to here.
    last: Option<EventKind>,
    /// Ids of the tool calls up to here.
    ids: HashSet<String>,
    /// Those of them that waited for a decision.
    gated: HashSet<String>,
    /// Whether calls may be gated: not for a harness whose memory would have to be kept meanwhile (R-APPR-1).
    gates: bool,
}

/// The actor of an OUTPUT or TOOL_RESULT that the harness made itself directly behind a call without outcome.
/// Outcomes are paired with their calls by position (R-MODEL-2, R-TOOL-10): without this word what
/// a harness says after a failed call would be replayed as the outcome of that call.
pub const APART: &str = principal::HARNESS;

/// Whether a record says that it is not the outcome of the call before it.
fn is_apart(event: &v1::Event) -> bool {
    event.actor.as_ref().is_some_and(|actor| actor.principal == APART)
}

/// Why a call without a key is refused (R-TOOL-2).
const NO_KEY: &str = "a tool call needs an idempotency key";

/// Effects that one step may look at: the call and what follows it.
pub const LOOKAHEAD: usize = 4;

impl Tape {
    /// A tape that entries are still pushed to. `legacy` follows R-MODEL-9 and R-LEGACY-9.
    pub fn new(mode: Mode, legacy: bool) -> Tape {
        let entries = VecDeque::new();
        let (ids, gated) = (HashSet::new(), HashSet::new());
        Tape { mode, legacy, entries, open: true, consumed: 0, last_seq: 0, last: None, ids, gated, gates: true }
    }

    /// The same for a harness whose calls cannot be gated.
    #[must_use]
    pub fn without_gates(self) -> Tape {
        Tape { gates: false, ..self }
    }

    /// The tape of a turn that has just started.
    pub fn blank() -> Tape {
        Tape { open: false, ..Tape::new(Mode::Live, false) }
    }

    /// How the turn is driven.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the turn belongs to a journal without execution ids.
    pub fn legacy(&self) -> bool {
        self.legacy
    }

    /// Whether more entries must be pushed (or [`Tape::close`] called) before the next step.
    pub fn hungry(&self) -> bool {
        self.open && self.entries.len() < LOOKAHEAD
    }

    /// Adds a record of the execution; what is no effect is left out (R-MODEL-13).
    pub fn push(&mut self, seq: i64, event: Arc<v1::Event>) {
        if is_effect(event.kind()) && !(self.legacy && event.kind() == EventKind::EventUsage) {
            self.entries.push_back(Entry { seq, event });
        }
    }

    /// There are no further records.
    pub fn close(&mut self) {
        self.open = false;
    }

    /// An effect is recorded behind the tape.
    pub fn recorded(&mut self, kind: EventKind) {
        if is_effect(kind) {
            self.last = Some(kind);
        }
    }

    /// Whether calls of this turn may wait for a person.
    pub fn may_gate(&self) -> bool {
        self.gates && !self.legacy
    }

    /// A tool call of this id is recorded behind the tape.
    pub fn called(&mut self, id: &str) {
        self.ids.insert(id.to_owned());
    }

    /// The tool call of this id waits for a decision: the id may not come again in this turn (R-APPR-10).
    pub fn asked(&mut self, id: &str) {
        self.gated.insert(id.to_owned());
    }

    /// Whether an effect of this kind, recorded now, would be taken for the outcome of the call before it.
    pub fn mistakable(&self, kind: EventKind) -> bool {
        matches!(
            (self.last, kind),
            (Some(EventKind::EventModelCall), EventKind::EventOutput)
                | (Some(EventKind::EventToolCall), EventKind::EventToolResult)
        )
    }

    /// Recorded effects that were consumed.
    pub fn consumed(&self) -> i64 {
        self.consumed
    }

    /// The first recorded effect that the harness never asked for (R-LIVE-3).
    pub fn unconsumed(&self) -> Option<Error> {
        debug_assert!(!self.hungry(), "the tape is filled before it is judged");
        let entry = self.entries.front()?;
        let what = format!("the harness ended, the recording goes on with {}", entry.event.kind().as_str_name());
        Some(Error::ReplayDiverged { seq: entry.seq, what })
    }

    /// What is to be done for `asked`. The caller has fed the tape until it is not hungry.
    pub fn next(&mut self, asked: Asked<'_>) -> Step {
        debug_assert!(!self.hungry(), "the tape is filled before it is asked");
        if let Asked::Tool(call) = asked
            && let Some(step) = self.rejected_before_intent(call)
        {
            return step;
        }
        if self.entries.is_empty() {
            return self.past_the_end(asked);
        }
        match asked {
            Asked::Model { input_hash } => self.next_model(input_hash),
            Asked::Output(text) => self.next_output(text),
            Asked::Report => self.next_report(),
            Asked::Usage(usage) => self.next_usage(usage),
            Asked::Tool(call) => self.next_tool(call),
        }
    }

    fn past_the_end(&self, asked: Asked<'_>) -> Step {
        match (self.mode, asked) {
            (Mode::Live, _) => Step::Perform,
            // R-LEGACY-9: usage is ignored on legacy replay.
            (Mode::Replay, Asked::Usage(_)) if self.legacy => Step::Ignore,
            (Mode::Replay, Asked::Model { .. }) => Step::Diverged(Error::ReplayInvokedModel),
            (Mode::Replay, asked) => {
                let what = format!("the recording ended, the harness asked for {}", asked.name());
                Step::Diverged(Error::ReplayDiverged { seq: self.last_seq, what })
            }
        }
    }

    /// R-MODEL-4 to R-MODEL-9.
    fn next_model(&mut self, input_hash: &str) -> Step {
        let front = self.front();
        let Some(Body::Model(recorded)) = &front.event.body else {
            return self.wrong_kind("a model call");
        };
        if recorded.input_hash != input_hash {
            return diverged(
                front.seq,
                format!("recorded model request {}, the harness asks {input_hash}", recorded.input_hash),
            );
        }
        let seq = self.consume().seq;
        match self.entries.front() {
            Some(next) if next.event.kind() == EventKind::EventOutput && !is_apart(&next.event) => {
                Step::Serve(self.consume())
            }
            Some(_) => Step::Missing("recorded completion missing"),
            None if self.mode == Mode::Replay => Step::Missing("expected a recorded completion"),
            None if self.legacy => Step::Missing("recorded completion missing"),
            None => Step::Redrive(seq),
        }
    }

    /// R-OUT-1.
    fn next_output(&mut self, text: &str) -> Step {
        let front = self.front();
        match (&front.event.body, front.event.kind()) {
            (Some(Body::Message(m)), EventKind::EventOutput) => {
                if m.concat_text() != text {
                    return diverged(front.seq, "the recorded output has another text".to_owned());
                }
                Step::Serve(self.consume())
            }
            _ => self.wrong_kind("an output"),
        }
    }

    /// R-OUT-2: the content is not compared.
    fn next_report(&mut self) -> Step {
        let front = self.front();
        match &front.event.body {
            Some(Body::Result(r)) if r.approval_request_seq != 0 || r.approval_decision_seq != 0 => {
                diverged(front.seq, "the recorded result is an approval's receipt, not a reported one".to_owned())
            }
            Some(Body::Result(_)) => Step::Serve(self.consume()),
            _ => self.wrong_kind("a reported result"),
        }
    }

    /// R-OUT-4; a legacy tape holds no usage and serves none (R-LEGACY-9).
    fn next_usage(&mut self, usage: &v1::Usage) -> Step {
        if self.legacy {
            return Step::Ignore;
        }
        let front = self.front();
        match &front.event.body {
            Some(Body::Usage(recorded)) if recorded == usage => Step::Serve(self.consume()),
            Some(Body::Usage(_)) => diverged(front.seq, "the recorded usage has other numbers".to_owned()),
            _ => self.wrong_kind("usage"),
        }
    }

    /// R-TOOL-7, R-TOOL-10, R-TOOL-11, R-APPR-30, R-APPR-31.
    fn next_tool(&mut self, call: &v1::ToolCall) -> Step {
        let front = self.front();
        let seq = front.seq;
        let Some(Body::Tool(recorded)) = &front.event.body else {
            return self.wrong_kind("a tool call");
        };
        let gated = recorded.mediation() == Mediation::RequiresApproval;
        if !gated && recorded.mediation() != Mediation::ControllerMediated {
            return diverged(seq, "the recorded tool call has an invalid mediation".to_owned());
        }
        if gated && recorded.id.is_empty() {
            return diverged(seq, "the recorded gated call has no id".to_owned());
        }
        if recorded.idempotency_key.is_empty() {
            return diverged(seq, "the recorded tool call has no idempotency key".to_owned());
        }
        if let Some(field) = tool_difference(recorded, call) {
            return diverged(seq, format!("the recorded tool call has another {field}"));
        }
        self.consume();
        self.ids.insert(call.id.clone());
        if gated || self.entries.front().is_some_and(|e| e.event.kind() == EventKind::EventApprovalRequest) {
            return self.next_gate(seq, call);
        }
        const NO_RESULT: &str = "recorded tool call has no result";
        match self.entries.front().map(|e| (e.seq, &e.event.body)) {
            Some(_) if is_apart(&self.entries[0].event) => Step::Missing(NO_RESULT),
            Some((seq, Some(Body::Result(r)))) => {
                if r.id == call.id {
                    Step::Serve(self.consume())
                } else {
                    diverged(seq, "the recorded tool result belongs to another call".to_owned())
                }
            }
            Some((seq, _)) if self.entries[0].event.kind() == EventKind::EventToolResult => {
                diverged(seq, "the recorded tool result has no payload".to_owned())
            }
            Some(_) => Step::Missing(NO_RESULT),
            None if self.mode == Mode::Replay => Step::Missing("expected a recorded tool result"),
            None => Step::Redrive(seq),
        }
    }

    /// What follows a gated call: folded as the scan of the journal folds it.
    fn next_gate(&mut self, call_seq: i64, call: &v1::ToolCall) -> Step {
        self.asked(&call.id);
        let mut gates = Gates::default();
        let opened = v1::Event::new("", EventKind::EventToolCall, Body::Tool(call.clone()));
        let mut folded = gates.step(call_seq, &opened).map_err(|wrong| (call_seq, wrong));
        let mut execution_id = String::new();
        let mut decision = None;
        while folded.is_ok() && gates.last.as_ref().is_none_or(|gate| gate.stage() != Stage::Receipted) {
            if self.entries.is_empty() {
                break;
            }
            let entry = self.consume();
            folded = gates.step(entry.seq, &entry.event).map_err(|wrong| (entry.seq, wrong));
            execution_id.clone_from(&entry.event.execution_id);
            match entry.event.kind() {
                EventKind::EventApprovalResult => decision = Some(entry),
                EventKind::EventToolResult if folded.is_ok() => {
                    let decision = decision.expect("a receipt is folded behind its decision only");
                    return Step::ServeGated { decision, receipt: entry };
                }
                _ => {}
            }
        }
        let gate = match (folded, gates.last) {
            (Err((seq, wrong)), _) => return diverged(seq, wrong.what.to_owned()),
            (Ok(()), Some(gate)) => gate,
            (Ok(()), None) => Gate { call_id: call.id.clone(), call_seq, ..Gate::default() },
        };
        match (self.mode, gate.stage(), decision) {
            (Mode::Replay, ..) => Step::Missing("the recorded call was never closed"),
            (Mode::Live, Stage::Decided, Some(decision)) => Step::Decided(gate, decision),
            (Mode::Live, Stage::Requested, _) => {
                Step::Park(v1::ApprovalRef { execution_id, tool_call_id: gate.call_id, request_seq: gate.request_seq })
            }
            (Mode::Live, ..) => Step::Ask,
        }
    }

    /// R-APPR-1, in its order; what a gate needs that an ordinary call does not.
    fn ungated(&self, call: &v1::ToolCall) -> Option<Step> {
        if !self.gates {
            let what = "this harness needs its memory kept while a call waits, and no call of it can be gated";
            return Some(Step::Refused(Error::ApprovalUnavailable(what.to_owned())));
        }
        if self.legacy || call.id.is_empty() {
            let what = "a call that asks for approval needs an id, in a turn with an execution id";
            return Some(Step::Refused(Error::InvalidApprovalCall(what.to_owned())));
        }
        if call.idempotency_key.is_empty() {
            return Some(Step::Missing(NO_KEY));
        }
        self.ids.contains(&call.id).then(|| used_before(&call.id))
    }

    /// R-TOOL-1, R-TOOL-2, R-TOOL-14: what was rejected before it was recorded is rejected again, without
    /// consuming the recording.
    fn rejected_before_intent(&self, call: &v1::ToolCall) -> Option<Step> {
        let next = self.entries.front().and_then(|e| match &e.event.body {
            Some(Body::Tool(t)) => Some(t),
            _ => None,
        });
        match call.mediation() {
            Mediation::ControllerMediated if call.idempotency_key.is_empty() => Some(Step::Missing(NO_KEY)),
            Mediation::ControllerMediated if self.gated.contains(&call.id) => Some(used_before(&call.id)),
            Mediation::ControllerMediated => None,
            // R-APPR-30: a recorded call of this id is compared with it, whatever else is wrong.
            Mediation::RequiresApproval if next.is_some_and(|t| t.id == call.id) => None,
            Mediation::RequiresApproval => self.ungated(call),
            _ if next.is_none_or(|t| t.id != call.id && t.mediation() != Mediation::RequiresApproval) => {
                Some(Step::Missing("the host runs mediated tools only: report the result of a tool that you ran"))
            }
            _ => None,
        }
    }

    fn front(&self) -> &Entry {
        self.entries.front().expect("next() has checked that there is an entry")
    }

    fn consume(&mut self) -> Entry {
        self.consumed += 1;
        let entry = self.entries.pop_front().expect("the caller has looked at it");
        self.last_seq = entry.seq;
        self.last = Some(entry.event.kind());
        entry
    }

    fn wrong_kind(&self, asked: &str) -> Step {
        let front = self.front();
        diverged(front.seq, format!("recorded {}, the harness asks for {asked}", front.event.kind().as_str_name()))
    }
}

impl Asked<'_> {
    fn name(&self) -> &'static str {
        match self {
            Asked::Model { .. } => "a model call",
            Asked::Output(_) => "an output",
            Asked::Report => "a reported result",
            Asked::Usage(_) => "usage",
            Asked::Tool(_) => "a tool call",
        }
    }
}

fn used_before(id: &str) -> Step {
    let what = format!("call id {id} was used before in this turn: a call that waits for a decision needs its own");
    Step::Refused(Error::InvalidApprovalCall(what))
}

fn diverged(seq: i64, what: String) -> Step {
    Step::Diverged(Error::ReplayDiverged { seq, what })
}

/// The kinds that are effects of a harness (R-MODEL-13: ERROR is none).
pub fn is_effect(kind: EventKind) -> bool {
    use EventKind as K;
    matches!(
        kind,
        K::EventModelCall
            | K::EventOutput
            | K::EventToolCall
            | K::EventToolResult
            | K::EventUsage
            | K::EventApprovalRequest
            | K::EventApprovalResult
    )
}
