//! The gates of a turn: tool calls that wait for a decision, folded from their records (R-APPR-8 to R-APPR-15).
//!
//! A gated call has up to four records: TOOL_CALL, APPROVAL_REQUEST, APPROVAL_RESULT, TOOL_RESULT. Nothing of its turn
//! may stand between them but ERROR and LIFECYCLE.

use inspan_wire::v1::{self, EventKind, Mediation, event::Body};
use serde::{Deserialize, Serialize};

/// One gated call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// The call's id.
    pub call_id: String,
    /// Seq of its TOOL_CALL.
    pub call_seq: i64,
    /// Seq of its APPROVAL_REQUEST; 0 without one.
    pub request_seq: i64,
    /// When the ask expires, nanoseconds since the Unix epoch, as its request says; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<i64>,
    /// Seq of its APPROVAL_RESULT; 0 without one.
    pub decision_seq: i64,
    /// What was decided.
    pub approved: bool,
    /// Seq of its receipt, the TOOL_RESULT; 0 without one.
    pub receipt_seq: i64,
}

/// How far a gated call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The call is on record and its request is not: a crash came between.
    Call,
    /// Somebody has to decide.
    Requested,
    /// Decided, and not yet acted upon.
    Decided,
    /// Closed.
    Receipted,
}

impl Gate {
    /// How far the call has come.
    pub fn stage(&self) -> Stage {
        match self {
            Gate { receipt_seq: 1.., .. } => Stage::Receipted,
            Gate { decision_seq: 1.., .. } => Stage::Decided,
            Gate { request_seq: 1.., .. } => Stage::Requested,
            _ => Stage::Call,
        }
    }
}

/// The gates of one turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gates {
    /// The last gated call.
    pub last: Option<Gate>,
    /// Seq and id of an ordinary call that nothing has followed yet: a policy can make it a gated one.
    call: Option<(i64, String)>,
    /// Ids of gated calls: none may come again.
    ids: Vec<String>,
}

/// What does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub what: &'static str,
    /// The records contradict each other (R-APPR-11); otherwise one is missing, doubled or out of place.
    pub contradicts: bool,
}

const fn wrong(what: &'static str) -> Result<(), Wrong> {
    Err(Wrong { what, contradicts: false })
}

const fn contradiction(what: &'static str) -> Result<(), Wrong> {
    Err(Wrong { what, contradicts: true })
}

impl Gates {
    /// The gate that is not closed.
    pub fn open(&self) -> Option<&Gate> {
        self.last.as_ref().filter(|gate| gate.stage() != Stage::Receipted)
    }

    /// Folds one record of the turn.
    ///
    /// # Errors
    /// [`Wrong`]: the turn cannot go on from records that contradict each other (R-APPR-9 to R-APPR-11).
    pub fn step(&mut self, seq: i64, event: &v1::Event) -> Result<(), Wrong> {
        match (event.kind(), &event.body) {
            (EventKind::EventToolCall, Some(Body::Tool(call))) => self.step_call(seq, call),
            (EventKind::EventApprovalRequest, Some(Body::Approval(request))) => self.step_request(seq, request),
            (EventKind::EventApprovalResult, Some(Body::ApprovalResult(decision))) => self.step_decision(seq, decision),
            (EventKind::EventApprovalRequest | EventKind::EventApprovalResult, _) => {
                wrong("an approval record without a body")
            }
            (EventKind::EventToolResult, Some(Body::Result(result))) => self.step_result(seq, result),
            (EventKind::EventEnd, Some(Body::End(end))) if end.state == "CANCELED" => Ok(()),
            (EventKind::EventError | EventKind::EventLifecycle, _) => Ok(()),
            _ if self.open().is_some() => wrong("a record of the turn behind a call that waits for a decision"),
            _ => {
                self.call = None;
                Ok(())
            }
        }
    }

    fn step_call(&mut self, seq: i64, call: &v1::ToolCall) -> Result<(), Wrong> {
        if self.open().is_some() {
            return wrong("a tool call behind one that waits for a decision");
        }
        if self.ids.contains(&call.id) {
            return wrong("the id of a gated call is used twice");
        }
        if call.mediation() != Mediation::RequiresApproval {
            self.call = Some((seq, call.id.clone()));
            return Ok(());
        }
        if call.id.is_empty() || call.idempotency_key.is_empty() {
            return wrong("a gated call without an id or a key");
        }
        self.begin(Gate { call_id: call.id.clone(), call_seq: seq, ..Gate::default() });
        Ok(())
    }

    fn begin(&mut self, gate: Gate) {
        self.call = None;
        self.ids.push(gate.call_id.clone());
        self.last = Some(gate);
    }

    fn step_request(&mut self, seq: i64, request: &v1::ApprovalRequest) -> Result<(), Wrong> {
        let id = &request.tool_call_id;
        let deadline_ns = crate::ask::deadline_ns(&request.reason);
        match self.last.as_mut().filter(|gate| gate.receipt_seq == 0) {
            Some(gate) if gate.stage() != Stage::Call => wrong("a second approval request of one call"),
            Some(gate) if gate.call_id != *id => contradiction("an approval request of another call"),
            Some(gate) => {
                (gate.request_seq, gate.deadline_ns) = (seq, deadline_ns);
                Ok(())
            }
            None => match self.call.take() {
                Some((call_seq, call_id)) if call_id == *id && !id.is_empty() => {
                    self.begin(Gate { call_id, call_seq, request_seq: seq, deadline_ns, ..Gate::default() });
                    Ok(())
                }
                _ => wrong("an approval request without its call"),
            },
        }
    }

    fn step_decision(&mut self, seq: i64, decision: &v1::ApprovalResult) -> Result<(), Wrong> {
        match &mut self.last {
            Some(gate) if gate.stage() == Stage::Requested => {
                if gate.call_id != decision.tool_call_id || gate.request_seq != decision.request_seq {
                    return contradiction("a decision on another request");
                }
                (gate.decision_seq, gate.approved) = (seq, decision.approved);
                Ok(())
            }
            _ => wrong("a decision that nobody asked for"),
        }
    }

    fn step_result(&mut self, seq: i64, result: &v1::ToolResult) -> Result<(), Wrong> {
        self.call = None;
        match &mut self.last {
            Some(gate) if gate.stage() == Stage::Decided => {
                if let Err(what) = check_receipt(gate, result) {
                    return contradiction(what);
                }
                gate.receipt_seq = seq;
                Ok(())
            }
            Some(gate) if gate.stage() != Stage::Receipted => wrong("a tool result before the decision"),
            _ if result.approval_request_seq != 0 || result.approval_decision_seq != 0 => {
                wrong("an approval's receipt without its gate")
            }
            _ => Ok(()),
        }
    }
}

/// Whether a receipt is the one that a decided gate allows (R-APPR-11, R-APPR-25, R-APPR-26).
///
/// # Errors
/// What contradicts.
fn check_receipt(gate: &Gate, receipt: &v1::ToolResult) -> Result<(), &'static str> {
    let decision = v1::ApprovalResult {
        tool_call_id: gate.call_id.clone(),
        approved: gate.approved,
        request_seq: gate.request_seq,
        ..Default::default()
    };
    inspan_harness::gate::check_decided(&gate.call_id, &decision, receipt)?;
    if receipt.approval_decision_seq == gate.decision_seq { Ok(()) } else { Err("the receipt names another decision") }
}
