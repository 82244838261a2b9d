//! A person's decision on a tool call that waits.

use inspan_journal::{FenceRule, Record, Session};
use inspan_wire::v1::{self, EventKind, event::Body};
use inspan_wire::{Digest, SessionUid, time};

use crate::Error;
use crate::ask::{self, args_digest};
use crate::engine::{Engine, timestamp};
use crate::gate::{Gate, Stage};
use crate::history::decode;
use crate::scan::Scan;
use crate::sink::{EXPIRY, POLICY};

/// A decision that is on record.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The session behind it.
    pub session: v1::Session,
    /// The APPROVAL_RESULT.
    pub record: Record,
    /// Of the arguments that were decided on (see [`args_digest`]); `None` when their record does not show them.
    pub args_digest: Option<Digest>,
}

impl Engine {
    /// Decides on a call that waits, or finds the same decision on record (R-APPR-16 to R-APPR-21). Nothing runs: Resume
    /// goes on with the turn.
    ///
    /// # Errors
    /// As the table of Approve's status codes says.
    pub async fn approve(&self, request: &v1::ApproveRequest) -> Result<Decided, Error> {
        self.approve_shown(request, None).await
    }

    /// As [`Engine::approve`], by somebody who was shown arguments with this digest (see [`args_digest`]): a decision on
    /// a call with any others is refused, and nothing is recorded.
    ///
    /// # Errors
    /// As [`Engine::approve`]; FAILED_PRECONDITION for another digest.
    pub async fn approve_shown(&self, request: &v1::ApproveRequest, shown: Option<Digest>) -> Result<Decided, Error> {
        let approved = check_tuple(request)?;
        let uid = SessionUid::from(request.session.as_str());
        self.load(&uid).await?;
        let guard = self.inner.guards.acquire(&uid)?;
        let session = self.load(&uid).await?;
        let standing = self.standing(&session, request).await?;
        let recorded = self.recorded_digest(&session, request).await;
        if let Some(shown) = shown {
            check_shown(request, shown, *recorded.as_ref().map_err(Error::clone)?)?;
        }
        let record = match standing {
            Some(record) => {
                same_decision(request, approved, &record)?;
                record
            }
            None => self.decide(&session, request, approved).await?,
        };
        drop(guard);
        Ok(Decided { session: self.settled(&uid).await?, record, args_digest: recorded.ok() })
    }

    /// The decision that a request of this session has already.
    async fn standing(&self, session: &Session, request: &v1::ApproveRequest) -> Result<Option<Record>, Error> {
        let scan = Scan::load(&session.state)?;
        if let Some((turn, gate)) = scan.awaited_gate()
            && turn.execution_id == request.execution_id
            && gate.call_id == request.tool_call_id
            && gate.request_seq == request.request_seq
        {
            return match self.passed(gate) {
                // Silence is no consent, and neither is an answer that comes after it.
                Some(deadline) => Err(Error::InvalidApprovalDecision(format!(
                    "tool call {} of session {} could be decided until {deadline} and is denied for that: Resume the session",
                    gate.call_id, session.uid
                ))),
                None => Ok(None),
            };
        }
        self.past_decision(session, &scan, request).await?.map(Some).ok_or_else(|| {
            Error::InvalidApprovalDecision(format!(
                "session {} does not wait on tool call {} of turn {} at seq {}: ask the session what it waits for, or Resume it",
                session.uid, request.tool_call_id, request.execution_id, request.request_seq
            ))
        })
    }

    /// The deadline of a gate that nobody has decided in time.
    fn passed(&self, gate: &Gate) -> Option<String> {
        let deadline_ns = gate.deadline_ns.filter(|ns| self.inner.rim.now_ns() >= *ns)?;
        (gate.stage() == Stage::Requested).then(|| time::text(&time::from_ns(deadline_ns)))
    }

    /// The digest of the arguments of the call that a decision is about.
    async fn recorded_digest(&self, session: &Session, request: &v1::ApproveRequest) -> Result<Digest, Error> {
        let asked = v1::ApprovalRef {
            execution_id: request.execution_id.clone(),
            tool_call_id: request.tool_call_id.clone(),
            request_seq: request.request_seq,
        };
        args_digest(&self.call_of(&session.uid, &asked).await?.1)
    }

    /// Denies the call that a session waits with when nobody has decided on it in time: in the host's name, and said
    /// as what it is. `None` when there is no such call. Nothing runs: Resume goes on with the turn.
    ///
    /// A decision that comes at the same time wins or loses: the journal takes one of them.
    ///
    /// # Errors
    /// ABORTED while another operation holds the session or when the journal has moved; FAILED_PRECONDITION when this
    /// host does not serve the turn's harness; the store's.
    pub async fn expire(&self, uid: &SessionUid) -> Result<Option<Record>, Error> {
        let guard = self.inner.guards.acquire(uid)?;
        let session = self.load(uid).await?;
        let record = self.expire_guarded(&session).await?;
        drop(guard);
        self.inner.observer.turn_changed(uid);
        Ok(record)
    }

    /// The same, under the guard.
    pub(crate) async fn expire_guarded(&self, session: &Session) -> Result<Option<Record>, Error> {
        let scan = Scan::load(&session.state)?;
        let Some((turn, gate)) = scan.awaited_gate().filter(|_| scan.fault.is_none()) else { return Ok(None) };
        let Some(deadline) = self.passed(gate) else { return Ok(None) };
        let asked = v1::ApprovalRef {
            execution_id: turn.execution_id.clone(),
            tool_call_id: gate.call_id.clone(),
            request_seq: gate.request_seq,
        };
        // Who cannot go on from the denial leaves it to a host that can.
        self.recorded_agent(session, &turn.harness)?;
        let (request, _) = self.request_of(&session.uid, &asked).await?;
        let actor = v1::IdentityRef {
            principal: EXPIRY.to_owned(),
            subject: ask::rule(&request.reason).to_owned(),
            ..Default::default()
        };
        let decision = v1::ApprovalResult {
            tool_call_id: asked.tool_call_id,
            approved: false,
            reason: format!("nobody decided until {deadline}"),
            request_seq: asked.request_seq,
        };
        self.record_decision(session, &asked.execution_id, decision, Some(actor)).await.map(Some)
    }

    /// A decision of the past, found behind its request (R-APPR-18). Decisions that a fork inherited are the parent's.
    async fn past_decision(
        &self,
        session: &Session,
        scan: &Scan,
        request: &v1::ApproveRequest,
    ) -> Result<Option<Record>, Error> {
        let asked = request.request_seq;
        if asked > scan.head || !scan.owns(asked) {
            return Ok(None);
        }
        let mut seq = asked;
        while seq <= scan.head {
            let page = self.inner.journal.records(&session.uid, seq, scan.head, 64).await?;
            if page.is_empty() {
                break;
            }
            for record in page {
                let event = decode(&record)?;
                if record.seq == asked && !is_request(&event, request) {
                    return Ok(None);
                }
                seq = record.seq + 1;
                match (event.kind(), &event.body) {
                    (EventKind::EventApprovalResult, Some(Body::ApprovalResult(decision)))
                        if decision.request_seq == asked && event.execution_id == request.execution_id =>
                    {
                        return Ok((decision.tool_call_id == request.tool_call_id).then_some(record));
                    }
                    // Nothing of the turn may stand between a request and its decision.
                    (EventKind::EventError | EventKind::EventLifecycle | EventKind::EventApprovalRequest, _) => {}
                    _ if event.execution_id == request.execution_id => return Ok(None),
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    async fn decide(&self, session: &Session, request: &v1::ApproveRequest, approved: bool) -> Result<Record, Error> {
        let decision = v1::ApprovalResult {
            tool_call_id: request.tool_call_id.clone(),
            approved,
            reason: request.reason.clone(),
            request_seq: request.request_seq,
        };
        self.record_decision(session, &request.execution_id, decision, identity(request)).await
    }

    /// R-APPR-17.
    async fn record_decision(
        &self,
        session: &Session,
        execution_id: &str,
        decision: v1::ApprovalResult,
        actor: Option<v1::IdentityRef>,
    ) -> Result<Record, Error> {
        let mut event = v1::Event::new(execution_id, EventKind::EventApprovalResult, Body::ApprovalResult(decision));
        event.ts = Some(timestamp(self.inner.rim.now_ns()));
        event.actor = actor;
        let mut writer = self.writer(session, FenceRule::Next)?;
        writer.append(vec![event]).await?;
        let seq = writer.head_seq();
        let record = self.inner.journal.records(&session.uid, seq, seq, 1).await?.pop();
        Ok(record.ok_or_else(|| inspan_journal::Error::NotFound(session.uid.clone()))?)
    }
}

/// R-APPR-16.
fn check_tuple(request: &v1::ApproveRequest) -> Result<bool, Error> {
    let missing = [
        (request.session.is_empty(), "session"),
        (request.execution_id.is_empty(), "execution_id"),
        (request.tool_call_id.is_empty(), "tool_call_id"),
        (request.request_seq <= 0, "request_seq"),
    ];
    if let Some((_, field)) = missing.iter().find(|(missing, _)| *missing) {
        return Err(Error::InvalidArgument(format!("a decision needs {field}: the session's pending_approval has it")));
    }
    if let Some(name) =
        identity(request).map(|who| who.principal).filter(|name| [POLICY, EXPIRY].contains(&name.as_str()))
    {
        let text = format!("a decision in the name of {name:?} is the host's own: name whoever decides");
        return Err(Error::InvalidArgument(text));
    }
    request.approved.ok_or_else(|| Error::InvalidArgument("a decision needs approved: true or false".to_owned()))
}

/// What was shown is what runs.
fn check_shown(request: &v1::ApproveRequest, shown: Digest, recorded: Digest) -> Result<(), Error> {
    if recorded == shown {
        return Ok(());
    }
    Err(Error::InvalidApprovalDecision(format!(
        "the decision names arguments sha256:{shown}, and those of tool call {} are sha256:{recorded}: look at what \
         session {} asks and decide again",
        request.tool_call_id, request.session
    )))
}

fn is_request(event: &v1::Event, request: &v1::ApproveRequest) -> bool {
    let Some(Body::Approval(asked)) = &event.body else { return false };
    event.execution_id == request.execution_id && asked.tool_call_id == request.tool_call_id
}

/// An empty identity is none (C-3).
fn identity(request: &v1::ApproveRequest) -> Option<v1::IdentityRef> {
    request.identity.clone().filter(|identity| *identity != v1::IdentityRef::default())
}

/// R-APPR-18: the same again, or a refusal.
fn same_decision(request: &v1::ApproveRequest, approved: bool, record: &Record) -> Result<(), Error> {
    let event = decode(record)?;
    let Some(Body::ApprovalResult(decision)) = &event.body else {
        return Err(Error::InvalidApprovalDecision("the recorded decision has no body".to_owned()));
    };
    if decision.approved == approved && decision.reason == request.reason && event.actor == identity(request) {
        return Ok(());
    }
    Err(Error::InvalidApprovalDecision(format!(
        "tool call {} is decided already, at seq {}, and not like this: the decision stands",
        request.tool_call_id, record.seq
    )))
}
