//! What a session asks a person: the call, its arguments with their digest, who asks, until when.
//!
//! An ask is read from its records; nothing is kept of it elsewhere. What the host has to say of it stands in the
//! `reason` of its APPROVAL_REQUEST.

use std::time::Duration;

use inspan_journal::Session;
use inspan_journal::keys::{ASKS_AGAIN, BY_RULE};
use inspan_wire::v1::{self, EventKind, Mediation, event::Body};
use inspan_wire::{Digest, SessionUid, time};

use crate::engine::Engine;
use crate::history::decode;
use crate::{Error, payload};

const EXPIRES: &str = "; expires ";

/// Something that a session asks a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The call that waits, as a decision names it.
    pub call: v1::ApprovalRef,
    /// Seq of its TOOL_CALL: the record that runs when it is approved.
    pub call_seq: i64,
    /// The tool's name.
    pub tool: String,
    /// The arguments as they are recorded: canonical JSON (RFC 8785), empty for a call without any.
    pub args: String,
    /// SHA-256 of `args`: what a decision names, so that what was shown is what runs.
    pub args_digest: Digest,
    /// Who asks.
    pub by: AskedBy,
    /// The policy rule that spoke of the call; empty without one.
    pub rule: String,
    /// The request's own words.
    pub reason: String,
    /// The registry name of the harness that the turn runs on; empty when it is not recorded.
    pub harness: String,
    /// Commit time of the request, milliseconds since the Unix epoch.
    pub since_ms: i64,
    /// When the ask expires, nanoseconds since the Unix epoch; `None` for never.
    pub deadline_ns: Option<i64>,
}

/// Who wants a person to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedBy {
    /// The harness: its call is gated by itself.
    Harness,
    /// A rule of the host's policy.
    Policy,
    /// Recovery: the call was sent, and how it ended is not known.
    Recovery,
}

/// The digest that stands for the arguments of a recorded call: SHA-256 of their canonical JSON, of nothing for a call
/// without any.
///
/// # Errors
/// [`Error::InvalidArgument`] for arguments that have no JSON form, which no recorded call has.
pub fn args_digest(call: &v1::ToolCall) -> Result<Digest, Error> {
    Ok(Digest::of(args_text(call)?.as_bytes()))
}

fn args_text(call: &v1::ToolCall) -> Result<String, Error> {
    let Some(args) = &call.args else { return Ok(String::new()) };
    let text = payload::object_text(args).and_then(|text| String::from_utf8(text).ok());
    text.ok_or_else(|| Error::InvalidArgument("the arguments have no JSON form".to_owned()))
}

/// The reason of a request that a policy's rule speaks of; with `expires`, nobody has longer than that from `now_ns` on.
pub(crate) fn reason(rule: &str, expires: Option<Duration>, now_ns: i64) -> String {
    let Some(expires) = expires else { return format!("{BY_RULE}{rule}") };
    let expires_ms = i64::try_from(expires.as_millis()).unwrap_or(i64::MAX);
    let deadline_ms = now_ns.div_euclid(1_000_000).saturating_add(expires_ms);
    format!("{BY_RULE}{rule}{EXPIRES}{}", time::text(&time::from_ms(deadline_ms)))
}

/// The rule in a request's reason, and when the ask expires. Another host's words say neither.
fn of_reason(reason: &str) -> (&str, Option<i64>) {
    let Some(rest) = reason.strip_prefix(BY_RULE) else { return ("", None) };
    match rest.rsplit_once(EXPIRES) {
        Some((rule, at)) => (rule, time::parse(at).map(|time| time::to_ns(&time))),
        None => (rest, None),
    }
}

/// When an ask with this reason expires, nanoseconds since the Unix epoch.
pub(crate) fn deadline_ns(reason: &str) -> Option<i64> {
    of_reason(reason).1
}

/// The rule in a request's reason; empty without one.
pub(crate) fn rule(reason: &str) -> &str {
    of_reason(reason).0
}

impl Engine {
    /// What a session waits for, read from its records; `None` when it waits for nobody.
    ///
    /// # Errors
    /// The store's; [`Error::InvalidExecutionLog`] when the records do not hold the call.
    pub async fn asked(&self, session: &Session) -> Result<Option<Asked>, Error> {
        let Some(reference) = &session.state.pending else { return Ok(None) };
        let (request, since_ms) = self.request_of(&session.uid, reference).await?;
        let (call_seq, call) = self.call_of(&session.uid, reference).await?;
        let scan = crate::scan::Scan::load(&session.state)?;
        let args = args_text(&call)?;
        let by = match call.mediation() {
            Mediation::RequiresApproval => AskedBy::Harness,
            _ if request.reason == ASKS_AGAIN => AskedBy::Recovery,
            _ => AskedBy::Policy,
        };
        Ok(Some(Asked {
            call: reference.clone(),
            call_seq,
            args_digest: Digest::of(args.as_bytes()),
            args,
            by,
            rule: rule(&request.reason).to_owned(),
            deadline_ns: deadline_ns(&request.reason),
            reason: request.reason,
            harness: scan.turn.map(|turn| turn.harness).unwrap_or_default(),
            since_ms,
            tool: call.tool,
        }))
    }

    /// The request itself and its commit time.
    pub(crate) async fn request_of(
        &self,
        uid: &SessionUid,
        asked: &v1::ApprovalRef,
    ) -> Result<(v1::ApprovalRequest, i64), Error> {
        let seq = asked.request_seq;
        let record = self.inner.journal.records(uid, seq, seq, 1).await?.pop();
        let request = record.map(|record| Ok::<_, Error>((decode(&record)?, record.ts_ms))).transpose()?;
        match request.as_ref().map(|(event, ts_ms)| (&event.body, ts_ms)) {
            Some((Some(Body::Approval(request)), ts_ms)) => Ok((request.clone(), *ts_ms)),
            _ => {
                Err(Error::InvalidExecutionLog { seq, what: "the session waits on it and it asks nothing".to_owned() })
            }
        }
    }

    /// The call that a request asks about, with its seq: in front of the request, with nothing of its turn between them
    /// but ERROR and LIFECYCLE.
    pub(crate) async fn call_of(
        &self,
        uid: &SessionUid,
        asked: &v1::ApprovalRef,
    ) -> Result<(i64, v1::ToolCall), Error> {
        for seq in (1..asked.request_seq).rev() {
            let Some(record) = self.inner.journal.records(uid, seq, seq, 1).await?.pop() else { break };
            let event = decode(&record)?;
            match (event.kind(), &event.body) {
                (_, Some(Body::Tool(call)))
                    if event.execution_id == asked.execution_id && call.id == asked.tool_call_id =>
                {
                    return Ok((seq, call.clone()));
                }
                (EventKind::EventError | EventKind::EventLifecycle, _) => {}
                _ => break,
            }
        }
        let what = "the call that it asks about is not in front of it".to_owned();
        Err(Error::InvalidExecutionLog { seq: asked.request_seq, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: i64 = 1_800_000_000_123_456_789;

    #[test]
    fn a_reason_names_its_rule_and_its_end() {
        let day = Some(Duration::from_secs(86_400));
        let with = reason("pay/large", day, NOW_NS);
        assert_eq!(with, "policy rule pay/large; expires 2027-01-16T08:00:00.123Z");
        assert_eq!(of_reason(&with), ("pay/large", Some(1_800_086_400_123_000_000)));
        let without = reason("pay/large", None, NOW_NS);
        assert_eq!(of_reason(&without), ("pay/large", None));
        for foreign in ["", "because; expires 2027-01-16T08:00:00Z", ASKS_AGAIN, "policy"] {
            assert_eq!(of_reason(foreign), ("", None), "{foreign}");
        }
        assert_eq!(of_reason("policy rule x; expires soon"), ("x", None));
        // Beyond the calendar it never expires in anybody's lifetime, and says so.
        let far = reason("x", Some(Duration::MAX), NOW_NS);
        assert!(of_reason(&far).1.is_some_and(|at| at > NOW_NS), "{far}");
    }

    #[test]
    fn a_digest_covers_what_is_recorded() {
        let args = |json: &str| {
            let call = format!(r#"{{"id":"c","args":{json}}}"#);
            inspan_wire::json::from_slice::<v1::ToolCall>(call.as_bytes()).unwrap()
        };
        let text = |call: &v1::ToolCall| args_text(call).unwrap();
        assert_eq!(text(&args(r#"{"b": 1.0, "a": ["<é>", null]}"#)), r#"{"a":["<é>",null],"b":1}"#);
        assert_eq!(text(&args("{}")), "{}");
        let without = v1::ToolCall::default();
        assert_eq!(args_digest(&without).unwrap(), Digest::of(b""), "no arguments are not empty ones");
        assert_eq!(args_digest(&args("{}")).unwrap(), Digest::of(b"{}"));
    }
}
