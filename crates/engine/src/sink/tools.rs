//! Tool calls in the sink: ordinary ones, gated ones, and what a policy makes of them.

use std::sync::Arc;

use inspan_harness::{SinkError, ToolReply};
use inspan_journal::KeyChange;
use inspan_journal::keys::{ASKS_AGAIN, BY_RULE};
use inspan_wire::event::principal;
use inspan_wire::v1::{self, EventKind, Mediation, event::Body, tool_result::Code};

use super::{Live, State, TurnSink};
use crate::ask;
use crate::gate::Gate;
use crate::tape::{Asked, Entry, Step};
use crate::tool::{Action, Executor, Policy, ReplayRule, ToolError, ToolRun, Verdict};
use crate::writer::Beside;
use crate::{Error, payload};

/// What a live turn runs tools with.
pub(crate) struct Tools {
    /// Runs them; `None` refuses (R-TOOL-4, R-APPR-28).
    pub(crate) executor: Option<Arc<dyn Executor>>,
    /// Who may have what run.
    pub(crate) policy: Option<Arc<dyn Policy>>,
    /// The session as a policy sees it.
    pub(crate) session: v1::Session,
    /// The harness's registry name.
    pub(crate) harness: String,
    /// An earlier drive of this turn may have acted upon the decision that is on record.
    pub(crate) acted: bool,
}

/// The principal of a decision and of a call that a policy's rule has spoken of; the subject is the rule's name.
pub const POLICY: &str = principal::POLICY;

/// The principal of a decision that the host took because nobody did in time; the subject is the name of the rule that
/// asked.
pub const EXPIRY: &str = "expiry";

/// The receipt of a call that was not approved (R-APPR-26): the same words, whoever denied it.
const DENIED: &str = "the call was not approved and did not run";

const NO_EXECUTOR: &str = "this host has no tool executor";

impl TurnSink {
    pub(super) async fn tool_call(&self, state: &mut State, call: v1::ToolCall) -> Result<ToolReply, SinkError> {
        match self.step(state, Asked::Tool(&call)).await? {
            Step::Serve(entry) => Ok(self.served_result(state, &entry).await?.into()),
            Step::ServeGated { decision, receipt } => {
                let result = self.served_result(state, &receipt).await?;
                Ok(ToolReply { result, decision: decision_of(&decision) })
            }
            Step::Park(asked) => Err(state.park(asked)),
            Step::Ask => self.ask(state, &call.id, String::new()).await,
            Step::Decided(gate, decision) => self.act(state, call, gate, &decision).await,
            Step::Redrive(seq) => self.redrive(state, call, seq).await,
            _ => self.perform(state, call).await,
        }
    }

    async fn served_result(&self, state: &mut State, entry: &Entry) -> Result<v1::ToolResult, SinkError> {
        match &self.served(state, entry).await?.body {
            Some(Body::Result(result)) => Ok(result.clone()),
            _ => Err(SinkError::Fatal("a recorded tool result has no payload".to_owned())),
        }
    }

    /// A call that is not on record (R-TOOL-3, R-APPR-2).
    async fn perform(&self, state: &mut State, call: v1::ToolCall) -> Result<ToolReply, SinkError> {
        state.may_perform()?;
        let tools = &state.live()?.tools;
        let verdict = tools.policy.as_ref().and_then(|p| p.decide(&tools.session, &tools.harness, &call));
        let gated = call.mediation() == Mediation::RequiresApproval;
        let asks = gated || verdict.as_ref().is_some_and(|v| v.action == Action::Ask);
        if asks && !gated && (call.id.is_empty() || !state.tape.may_gate()) {
            let what = "the host's policy asks a person about this call, and it has no id of its own or its harness \
                        cannot wait";
            return Err(SinkError::Handleable(what.to_owned()));
        }
        let mut event = v1::Event::new(&self.execution_id, EventKind::EventToolCall, Body::Tool(call.clone()));
        event.actor = verdict.as_ref().map(by_policy);
        state.tape.called(&call.id);
        if let Some(Verdict { action: Action::Deny, rule, .. }) = &verdict {
            return self.deny(state, event, &call, rule).await;
        }
        let known = if asks {
            self.known(state, &call, None).await?
        } else {
            match self.record_first(state, &event, &call).await? {
                Ok(seq) => return self.run(state, call, seq, None).await,
                Err(known) => known,
            }
        };
        let now_ns = state.live()?.rim.now_ns();
        let mut asks_because =
            asks.then(|| verdict.map(|v| ask::reason(&v.rule, v.expires, now_ns)).unwrap_or_default());
        let mut settled = known.settled(&call);
        if known.over().is_some() {
            let may_ask = !call.id.is_empty() && state.tape.may_gate();
            match state.live()?.tools.executor.as_ref().map(|executor| executor.replay_rule(&call.tool)) {
                Some(ReplayRule::Ask) if may_ask => asks_because = Some(ASKS_AGAIN.to_owned()),
                Some(ReplayRule::Ask | ReplayRule::Never) => settled = Some(unknown(&call)),
                Some(ReplayRule::Safe | ReplayRule::Keyed) | None => {}
            }
        }
        let seq = self.next_seq(state).await?;
        let keys = known.claim(&call, seq);
        match (asks_because, settled) {
            (Some(reason), _) => self.record_asked(state, Some((event, keys)), &call.id, reason).await,
            (None, Some(result)) => Ok(self.record_settled(state, event, result).await?.into()),
            (None, None) => {
                self.append_all(state, vec![event], keys).await?;
                self.run(state, call, seq, known.over()).await
            }
        }
    }

    /// Runs a call whose TOOL_CALL is durable, at `seq`, and records the result. Without one the harness is told and
    /// nothing is recorded (R-TOOL-5). `sent`: the call, itself or another, that an earlier run may have been for.
    async fn run(
        &self,
        state: &mut State,
        call: v1::ToolCall,
        seq: i64,
        sent: Option<i64>,
    ) -> Result<ToolReply, SinkError> {
        let Some(executor) = state.live()?.tools.executor.clone() else {
            self.not_sent(state, &call, seq, sent)?;
            return Err(SinkError::Handleable(NO_EXECUTOR.to_owned()));
        };
        match self.execute(state, &*executor, &call, seq, sent).await? {
            Ok(result) => self.record_result(state, &call, (seq, sent), result, None).await,
            Err(e) => Err(SinkError::Handleable(e.to_string())),
        }
    }

    /// Runs a call that may run.
    async fn execute(
        &self,
        state: &mut State,
        executor: &dyn Executor,
        call: &v1::ToolCall,
        seq: i64,
        sent: Option<i64>,
    ) -> Result<Result<v1::ToolResult, ToolError>, SinkError> {
        let run = ToolRun { session: self.session.clone(), call: call.clone(), seq, again: sent.is_some() };
        let result = executor.run(run).await.and_then(own_result);
        if matches!(result, Err(ToolError::NotSent(_))) {
            self.not_sent(state, call, seq, sent)?;
        }
        Ok(result)
    }

    /// Nothing has left the host for the call at `seq`: its key is free, unless an earlier run may have used it.
    fn not_sent(&self, state: &mut State, call: &v1::ToolCall, seq: i64, sent: Option<i64>) -> Result<(), SinkError> {
        if sent.is_none() {
            state.live()?.writer.free_key(call.idempotency_key.clone(), seq);
        }
        Ok(())
    }

    /// The intent is on record and how it ended is not (R-TOOL-11): the tool's rule says what may be done.
    async fn redrive(&self, state: &mut State, call: v1::ToolCall, seq: i64) -> Result<ToolReply, SinkError> {
        state.may_perform()?;
        let Some(executor) = state.live()?.tools.executor.clone() else {
            return Err(SinkError::Handleable(NO_EXECUTOR.to_owned()));
        };
        let known = self.known(state, &call, Some(seq)).await?;
        if let Some(result) = known.settled(&call) {
            return self.record_result(state, &call, (seq, None), result, None).await;
        }
        match executor.replay_rule(&call.tool) {
            ReplayRule::Safe | ReplayRule::Keyed => self.run(state, call, seq, known.over().or(Some(seq))).await,
            ReplayRule::Ask if !call.id.is_empty() && state.tape.may_gate() => {
                self.ask(state, &call.id, ASKS_AGAIN.to_owned()).await
            }
            ReplayRule::Ask | ReplayRule::Never => {
                let result = unknown(&call);
                self.record_result(state, &call, (seq, None), result, None).await
            }
        }
    }

    /// Records the request of a call that is on record, and parks.
    async fn ask(&self, state: &mut State, call_id: &str, reason: String) -> Result<ToolReply, SinkError> {
        state.may_perform()?;
        self.record_asked(state, None, call_id, reason).await
    }

    /// Records a call, if it is not on record yet, and its request in one commit, and parks.
    async fn record_asked(
        &self,
        state: &mut State,
        call: Option<(v1::Event, Vec<KeyChange>)>,
        call_id: &str,
        reason: String,
    ) -> Result<ToolReply, SinkError> {
        state.tape.asked(call_id);
        let request = v1::ApprovalRequest { tool_call_id: call_id.to_owned(), reason };
        let request = v1::Event::new(&self.execution_id, EventKind::EventApprovalRequest, Body::Approval(request));
        let (call, keys) = call.map_or((None, Vec::new()), |(call, keys)| (Some(call), keys));
        self.append_all(state, call.into_iter().chain([request]).collect(), keys).await?;
        let request_seq = state.live()?.writer.head_seq();
        let execution_id = self.execution_id.clone();
        Err(state.park(v1::ApprovalRef { execution_id, tool_call_id: call_id.to_owned(), request_seq }))
    }

    /// Acts upon a decision (R-APPR-25 to R-APPR-29): the receipt is durable before the harness sees it, and the
    /// harness sees a result, never an error.
    async fn act(
        &self,
        state: &mut State,
        call: v1::ToolCall,
        gate: Gate,
        decision: &Entry,
    ) -> Result<ToolReply, SinkError> {
        state.may_perform()?;
        let decided = decision_of(decision);
        let sent = self.asks_again(state, gate.request_seq).await?.then_some(gate.call_seq);
        let (receipt, sent) = if gate.approved {
            self.run_approved(state, &call, gate.call_seq, sent).await?
        } else {
            self.not_sent(state, &call, gate.call_seq, sent)?;
            let expired = decision.event.actor.as_ref().is_some_and(|actor| actor.principal == EXPIRY);
            (denied(expired.then_some("nobody decided in time")), None)
        };
        let receipt = v1::ToolResult {
            approval_request_seq: gate.request_seq,
            approval_decision_seq: gate.decision_seq,
            ..receipt
        };
        self.record_result(state, &call, (gate.call_seq, sent), receipt, decided).await
    }

    /// What an approved call comes to, and the call that an earlier run may have been for.
    async fn run_approved(
        &self,
        state: &mut State,
        call: &v1::ToolCall,
        seq: i64,
        sent: Option<i64>,
    ) -> Result<(v1::ToolResult, Option<i64>), SinkError> {
        let tools = &state.live()?.tools;
        let acted = tools.acted;
        let Some(executor) = tools.executor.clone() else {
            return Err(state.latch(Error::MissingToolExecutor(call.id.clone())));
        };
        let known = self.known(state, call, Some(seq)).await?;
        let rule = executor.replay_rule(&call.tool);
        // A decision is on one run; and a tool that is never run again is not run again by a decision either.
        let once = acted && matches!(rule, ReplayRule::Ask | ReplayRule::Never);
        if once || known.over().is_some() && rule == ReplayRule::Never {
            return Ok((unknown(call), None));
        }
        let sent = known.over().or(sent).or(acted.then_some(seq));
        let result = match known.settled(call) {
            Some(result) => Ok(result),
            None => self.execute(state, &*executor, call, seq, sent).await?,
        };
        let receipt = match result {
            Ok(result) if result.is_error => v1::ToolResult { code: Code::ExecutorError.into(), ..result },
            Ok(result) => v1::ToolResult { code: Code::Unspecified.into(), ..result },
            Err(e) => failed(&e.to_string()),
        };
        Ok((receipt, sent))
    }

    /// Whether the request at `seq` is for another run of a call that was sent.
    async fn asks_again(&self, state: &mut State, seq: i64) -> Result<bool, SinkError> {
        let request = self.past.event(seq).await.map_err(|e| state.latch(e))?;
        let body = request.as_ref().and_then(|event| event.body.as_ref());
        Ok(matches!(body, Some(Body::Approval(request)) if request.reason == ASKS_AGAIN))
    }

    /// A rule of the policy says no: call, answer and the rule's name are recorded, nothing runs.
    async fn deny(
        &self,
        state: &mut State,
        event: v1::Event,
        call: &v1::ToolCall,
        rule: &str,
    ) -> Result<ToolReply, SinkError> {
        if call.mediation() != Mediation::RequiresApproval {
            let result = failed(&format!("{BY_RULE}{rule} denies this call: it did not run"));
            let result = v1::ToolResult { id: call.id.clone(), ..result };
            return Ok(self.record_settled(state, event, result).await?.into());
        }
        // A gated call gets its gate, and the policy decides at it.
        state.tape.asked(&call.id);
        let request_seq = self.next_seq(state).await? + 1;
        let decision = v1::ApprovalResult {
            tool_call_id: call.id.clone(),
            approved: false,
            reason: format!("{BY_RULE}{rule}"),
            request_seq,
        };
        let now = crate::engine::timestamp(state.live()?.rim.now_ns());
        let request = v1::ApprovalRequest { tool_call_id: call.id.clone(), reason: String::new() };
        let receipt = v1::ToolResult {
            id: call.id.clone(),
            approval_request_seq: request_seq,
            approval_decision_seq: request_seq + 1,
            ..denied(Some(&format!("{BY_RULE}{rule}")))
        };
        let of = |kind, body| v1::Event::new(&self.execution_id, kind, body);
        let mut decided = of(EventKind::EventApprovalResult, Body::ApprovalResult(decision.clone()));
        decided.ts = Some(now);
        decided.actor.clone_from(&event.actor);
        let request = of(EventKind::EventApprovalRequest, Body::Approval(request));
        let closed = of(EventKind::EventToolResult, Body::Result(receipt.clone()));
        self.append_all(state, vec![event, request, decided, closed], Vec::new()).await?;
        Ok(ToolReply { result: receipt, decision: Some(decision) })
    }

    /// Records the result of the call at `seq`: its key stands for it from here on, also when it was sent for an earlier
    /// call first.
    async fn record_result(
        &self,
        state: &mut State,
        call: &v1::ToolCall,
        (seq, sent): (i64, Option<i64>),
        result: v1::ToolResult,
        decision: Option<v1::ApprovalResult>,
    ) -> Result<ToolReply, SinkError> {
        let result = v1::ToolResult { id: call.id.clone(), ..result };
        let key = || call.idempotency_key.clone();
        let keys = match sent.filter(|earlier| *earlier != seq) {
            Some(earlier) => {
                vec![KeyChange::Freed { key: key(), call_seq: earlier }, KeyChange::Sent { key: key(), call_seq: seq }]
            }
            None => Vec::new(),
        };
        let event = v1::Event::new(&self.execution_id, EventKind::EventToolResult, Body::Result(result));
        let recorded = self.append_all(state, vec![event], keys).await?.pop().map(Arc::unwrap_or_clone);
        match recorded.and_then(|event| event.body) {
            Some(Body::Result(result)) => Ok(ToolReply { result, decision }),
            _ => Err(SinkError::Fatal("a recorded tool result has no payload".to_owned())),
        }
    }

    async fn next_seq(&self, state: &mut State) -> Result<i64, SinkError> {
        let next = state.live()?.writer.next_seq().await;
        next.map_err(|e| state.latch(e))
    }

    /// Appends events of this turn in one commit, and what becomes of keys with them.
    pub(super) async fn append_all(
        &self,
        state: &mut State,
        events: Vec<v1::Event>,
        keys: Vec<KeyChange>,
    ) -> Result<Vec<Arc<v1::Event>>, SinkError> {
        events.iter().for_each(|event| state.tape.recorded(event.kind()));
        let Live { writer, .. } = state.live()?;
        let appended = writer.append_with(events, Beside { keys, ..Beside::default() }).await;
        appended.map_err(|e| state.latch(e))
    }
}

fn by_policy(verdict: &Verdict) -> v1::IdentityRef {
    v1::IdentityRef { principal: POLICY.to_owned(), subject: verdict.rule.clone(), ..Default::default() }
}

fn decision_of(entry: &Entry) -> Option<v1::ApprovalResult> {
    match &entry.event.body {
        Some(Body::ApprovalResult(decision)) => Some(decision.clone()),
        _ => None,
    }
}

/// A result as an executor may give it: the host's own fields are the host's.
pub(super) fn own_result(result: v1::ToolResult) -> Result<v1::ToolResult, ToolError> {
    if payload::is_named_result(&result) {
        return Err(ToolError::Unknown("the tool's result names a blob of the host".to_owned()));
    }
    let code = if result.code() == Code::ApprovalDenied { Code::ExecutorError.into() } else { result.code };
    Ok(v1::ToolResult { code, approval_request_seq: 0, approval_decision_seq: 0, ..result })
}

pub(super) fn failed(error: &str) -> v1::ToolResult {
    v1::ToolResult { is_error: true, error: error.to_owned(), code: Code::ExecutorError.into(), ..Default::default() }
}

/// What closes a call that was sent, whose outcome is unknown, and that is not run again.
fn unknown(call: &v1::ToolCall) -> v1::ToolResult {
    let text = "the call was sent and how it ended is not known; it is not run again";
    v1::ToolResult { id: call.id.clone(), ..failed(text) }
}

fn denied(why: Option<&str>) -> v1::ToolResult {
    let text = match why {
        Some(why) => format!("{DENIED}: {why}"),
        None => DENIED.to_owned(),
    };
    let content = vec![v1::Part { part: Some(v1::part::Part::Text(v1::TextPart { text: text.clone() })) }];
    v1::ToolResult { is_error: true, error: text, code: Code::ApprovalDenied.into(), content, ..Default::default() }
}
