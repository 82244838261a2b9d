//! Idempotency keys that come again in their session, within a turn or turns later: what stands under the key is served,
//! another call is refused, and one whose outcome is unknown goes by its tool's rule (R-TOOL-16).

use std::sync::Arc;

use inspan_harness::SinkError;
use inspan_journal::keys::{ASKS_AGAIN, Behind, behind};
use inspan_journal::{KeyChange, KeyUse};
use inspan_wire::event::tool_difference;
use inspan_wire::v1::{self, EventKind, event::Body};

use super::tools::{failed, own_result};
use super::{State, TurnSink};
use crate::Error;

/// What the session knows of a call's key.
#[derive(Debug)]
pub(super) enum Known {
    /// Nothing was done under it for another call. The call that holds it all the same, if one does, never ran.
    Free(Option<i64>),
    /// Another call of the same request, at this seq, was sent under it, and how it ended is not known.
    Sent(i64),
    /// This is the result of another call of the same request.
    Answered(v1::ToolResult),
    /// It was used for another request, at this seq.
    Taken(i64),
}

impl Known {
    /// What closes a call without running it; `None` when it is to run.
    pub(super) fn settled(&self, call: &v1::ToolCall) -> Option<v1::ToolResult> {
        let id = call.id.clone();
        match self {
            Known::Free(_) | Known::Sent(_) => None,
            Known::Answered(result) => Some(v1::ToolResult { id, ..result.clone() }),
            Known::Taken(seq) => {
                let text = format!(
                    "the idempotency key was used for another call of this session, at seq {seq}: \
                     this one did not run, give it a key of its own"
                );
                Some(v1::ToolResult { id, ..failed(&text) })
            }
        }
    }

    /// The other call that may have reached the tool under this key.
    pub(super) fn over(&self) -> Option<i64> {
        match self {
            Known::Sent(seq) => Some(*seq),
            _ => None,
        }
    }

    /// What the record of a call at `call_seq` makes of its key.
    pub(super) fn claim(&self, call: &v1::ToolCall, call_seq: i64) -> Vec<KeyChange> {
        let key = || call.idempotency_key.clone();
        let stale = match self {
            Known::Free(stale) => *stale,
            _ => None,
        };
        let freed = stale.map(|call_seq| KeyChange::Freed { key: key(), call_seq });
        freed.into_iter().chain([KeyChange::Sent { key: key(), call_seq }]).collect()
    }
}

impl TurnSink {
    /// What the session knows of the key of `call`, which is on record at `own` or not yet.
    pub(super) async fn known(
        &self,
        state: &mut State,
        call: &v1::ToolCall,
        own: Option<i64>,
    ) -> Result<Known, SinkError> {
        let key = &call.idempotency_key;
        let used = match self.past.key_use(key).await {
            Ok(used) => used,
            Err(e) => return Err(state.latch(e)),
        };
        let writer = &state.live()?.writer;
        match used.filter(|used| Some(used.call_seq) != own && !writer.frees(key, used.call_seq)) {
            Some(used) => self.look_up(call, used).await.map_err(|e| state.latch(e)),
            None => Ok(Known::Free(None)),
        }
    }

    async fn look_up(&self, call: &v1::ToolCall, used: KeyUse) -> Result<Known, Error> {
        if self.never_ran(used.call_seq).await? {
            return Ok(Known::Free(Some(used.call_seq)));
        }
        let broken = |what: &str| Error::InvalidExecutionLog { seq: used.call_seq, what: what.to_owned() };
        let event = self.past.event(used.call_seq).await?.ok_or_else(|| broken("the call of a key is missing"))?;
        let Some(Body::Tool(first)) = &event.body else {
            return Err(broken("a key was used there and no tool call is"));
        };
        // Only the request counts: the same may be asked for under another id, and with or without a gate.
        let alike = v1::ToolCall { id: call.id.clone(), mediation: call.mediation, ..first.clone() };
        if tool_difference(&alike, call).is_some() {
            return Ok(Known::Taken(used.call_seq));
        }
        let Some(result) = self.result_behind(used.call_seq, &event.execution_id, &first.id).await? else {
            return Ok(Known::Sent(used.call_seq));
        };
        match &self.past.whole(&result).await?.body {
            // A receipt's place at its gate is not this call's.
            Some(Body::Result(result)) => {
                own_result(result.clone()).map(Known::Answered).map_err(|e| broken(&e.to_string()))
            }
            _ => Err(broken("the result of this call is no tool result")),
        }
    }

    /// The result of the call at `seq`; `None` while how it ended is not known.
    async fn result_behind(&self, seq: i64, execution_id: &str, id: &str) -> Result<Option<Arc<v1::Event>>, Error> {
        let mut at = seq + 1;
        while let Some(event) = self.past.event(at).await? {
            match behind(&event, execution_id, id) {
                Behind::Result => return Ok(Some(event)),
                Behind::Open => at += 1,
                Behind::Nothing => break,
            }
        }
        Ok(None)
    }

    /// Whether the call at `seq` waited for a decision that never came, or was denied.
    async fn never_ran(&self, seq: i64) -> Result<bool, Error> {
        let Some(event) = self.past.event(seq + 1).await? else { return Ok(false) };
        let Some(Body::Approval(request)) = &event.body else { return Ok(false) };
        if request.reason == ASKS_AGAIN {
            return Ok(false);
        }
        let mut at = seq + 2;
        while let Some(event) = self.past.event(at).await? {
            match (event.kind(), &event.body) {
                (EventKind::EventError | EventKind::EventLifecycle, _) => at += 1,
                (_, Some(Body::ApprovalResult(decision))) => return Ok(!decision.approved),
                _ => break,
            }
        }
        Ok(true)
    }

    /// Records a call that may run, and its key with it, without asking first: the store says in the same commit whether
    /// the key is free. Gives the call's seq; `Err` is what the session knows of the key, and nothing is recorded then.
    pub(super) async fn record_first(
        &self,
        state: &mut State,
        event: &v1::Event,
        call: &v1::ToolCall,
    ) -> Result<Result<i64, Known>, SinkError> {
        let writer = &mut state.live()?.writer;
        match writer.append_first(event.clone(), call.idempotency_key.clone()).await {
            Ok(Ok(())) => {
                let seq = writer.head_seq();
                state.tape.recorded(event.kind());
                Ok(Ok(seq))
            }
            Ok(Err(used)) => self.look_up(call, used).await.map(Err).map_err(|e| state.latch(e)),
            Err(e) => Err(state.latch(e)),
        }
    }

    /// A call and what closes it without a run, in one commit.
    pub(super) async fn record_settled(
        &self,
        state: &mut State,
        call: v1::Event,
        result: v1::ToolResult,
    ) -> Result<v1::ToolResult, SinkError> {
        let closed = v1::Event::new(&self.execution_id, EventKind::EventToolResult, Body::Result(result.clone()));
        self.append_all(state, vec![call, closed], Vec::new()).await?;
        Ok(result)
    }
}
