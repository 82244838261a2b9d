//! What the idempotency keys of a session were used for.
//!
//! A key stands for the first call of its session that may have reached a tool, and for that call's result, which the records
//! behind the call hold. It moves in the commit of the records that it is about, so a key that is used again is known, turns
//! and restarts later. Keys of a fork are its own: what it inherited was done for its parent, under other effect keys
//! (R-TOOL-16).

use inspan_wire::event::principal;
use inspan_wire::parse;
use inspan_wire::v1::{self, EventKind, event::Body, lifecycle, tool_result::Code};

use crate::Record;

/// What a key was used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyUse {
    /// Seq of the TOOL_CALL that it let run first.
    pub call_seq: i64,
}

/// How the uses of keys change with an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyChange {
    /// A call with this key may reach its tool from here on. Nothing changes when the key is in use.
    Sent {
        /// The idempotency key.
        key: String,
        /// Seq of the TOOL_CALL.
        call_seq: i64,
    },
    /// As [`KeyChange::Sent`], by a writer that has not asked first: when the key is in use, the whole append is refused with
    /// [`Error::KeyUsed`](crate::Error::KeyUsed).
    First {
        /// The idempotency key.
        key: String,
        /// Seq of the TOOL_CALL.
        call_seq: i64,
    },
    /// That call never reached its tool: the key is free again. Nothing changes when it is another call's.
    Freed {
        /// The idempotency key.
        key: String,
        /// Seq of the TOOL_CALL.
        call_seq: i64,
    },
    /// All calls so far were another session's: this one is a fork of it.
    Inherited,
}

/// What an approval request says when the call was sent before and how it ended is not known.
pub const ASKS_AGAIN: &str = "this call was sent and how it ended is not known: run it again?";

/// How the host begins what it says in the name of a policy's rule, which follows: in the result of an ordinary call that is
/// denied, in the request and in the decision of a gated one.
pub const BY_RULE: &str = "policy rule ";

/// Works the changes out of records that are there already: of an import, of a store of an earlier version.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    /// The call with a key whose result may follow.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    execution_id: String,
    call: v1::ToolCall,
    seq: i64,
    by_policy: bool,
    /// A person was asked whether it is run again: whatever was answered, it was sent.
    sent: bool,
}

impl Fold {
    /// Whether it holds nothing: then a new one goes on as well.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_none()
    }

    /// Folds the next record of a session.
    pub(crate) fn step(&mut self, record: &Record) -> Option<KeyChange> {
        self.step_text(record.seq, &record.event)
    }

    /// Folds the record at `seq` by the text of its event. What is no event changes nothing.
    pub(crate) fn step_text(&mut self, seq: i64, text: &[u8]) -> Option<KeyChange> {
        // Few records speak of tools; the others are not worth reading.
        if self.open.is_none() && !names(text, b"EVENT_TOOL_CALL") && !names(text, b"LIFECYCLE_FORK") {
            return None;
        }
        self.step_event(seq, &parse::event(text).ok()?)
    }

    fn step_event(&mut self, seq: i64, event: &v1::Event) -> Option<KeyChange> {
        match &event.body {
            Some(Body::Tool(call)) if event.kind() == EventKind::EventToolCall => {
                self.open = Open::of(event, call, seq);
                self.open.as_ref().map(|open| KeyChange::Sent { key: open.call.idempotency_key.clone(), call_seq: seq })
            }
            Some(Body::Lifecycle(l)) if l.kind() == lifecycle::Kind::LifecycleFork => {
                self.open = None;
                Some(KeyChange::Inherited)
            }
            body => {
                let open = self.open.as_mut()?;
                match (behind(event, &open.execution_id, &open.call.id), body) {
                    (Behind::Open, Some(Body::Approval(request))) => open.sent |= request.reason == ASKS_AGAIN,
                    (Behind::Open, _) => {}
                    (Behind::Result, Some(Body::Result(result))) => return self.open.take()?.closed_by(result),
                    (Behind::Result | Behind::Nothing, _) => self.open = None,
                }
                None
            }
        }
    }
}

impl Open {
    /// `None` for a call without a key: nothing will be said of it.
    fn of(event: &v1::Event, call: &v1::ToolCall, seq: i64) -> Option<Open> {
        let (execution_id, by_policy) = (event.execution_id.clone(), is_by(event, principal::POLICY));
        let open = Open { execution_id, call: call.clone(), seq, by_policy, sent: false };
        (!call.idempotency_key.is_empty()).then_some(open)
    }

    /// A result says that the call never ran when it is a denial.
    fn closed_by(self, result: &v1::ToolResult) -> Option<KeyChange> {
        let denied = self.by_policy && result.is_error && result.error.starts_with(BY_RULE);
        let never_ran = denied || result.code() == Code::ApprovalDenied && !self.sent;
        never_ran.then_some(KeyChange::Freed { key: self.call.idempotency_key, call_seq: self.seq })
    }
}

/// What a record behind a call says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// It is the call's result.
    Result,
    /// Nothing yet: a result may follow.
    Open,
    /// That no result follows.
    Nothing,
}

/// What `event` says of the call `call_id` of an execution, when nothing but [`Behind::Open`] lies between the two.
pub fn behind(event: &v1::Event, execution_id: &str, call_id: &str) -> Behind {
    let own = event.execution_id == execution_id && !is_by(event, principal::HARNESS);
    match (event.kind(), &event.body) {
        (EventKind::EventToolResult, Some(Body::Result(result))) if own && result.id == call_id => Behind::Result,
        (
            EventKind::EventLifecycle
            | EventKind::EventError
            | EventKind::EventApprovalRequest
            | EventKind::EventApprovalResult,
            _,
        ) => Behind::Open,
        _ => Behind::Nothing,
    }
}

fn is_by(event: &v1::Event, principal: &str) -> bool {
    event.actor.as_ref().is_some_and(|actor| actor.principal == principal)
}

fn names(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_found_behind_what_waits_for_it() {
        let result = |execution: &str, id: &str| {
            let result = v1::ToolResult { id: id.to_owned(), ..Default::default() };
            v1::Event::new(execution, EventKind::EventToolResult, Body::Result(result))
        };
        let of = |event: &v1::Event| behind(event, "e", "c");
        assert_eq!(of(&result("e", "c")), Behind::Result);
        let mut reported = result("e", "c");
        reported.actor = Some(v1::IdentityRef { principal: principal::HARNESS.to_owned(), ..Default::default() });
        for event in [result("e", "d"), result("f", "c"), reported] {
            assert_eq!(of(&event), Behind::Nothing, "{event:?}");
        }
        let decided = v1::ApprovalResult::default();
        let error = v1::Error { code: 13, description: "cut".to_owned() };
        for event in [
            v1::Event::new("e", EventKind::EventApprovalResult, Body::ApprovalResult(decided)),
            v1::Event::new("e", EventKind::EventError, Body::Error(error)),
            v1::Event::lifecycle(v1::Lifecycle::default()),
        ] {
            assert_eq!(of(&event), Behind::Open, "{event:?}");
        }
        let said = v1::Event::new("e", EventKind::EventOutput, Body::Message(v1::Message::text("assistant", "x")));
        assert_eq!(of(&said), Behind::Nothing);
    }
}
