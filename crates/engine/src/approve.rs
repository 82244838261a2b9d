//! A person's decision on a tool call that waits.

use inspan_journal::{FenceRule, Record, Session};
use inspan_wire::SessionUid;
use inspan_wire::v1::{self, EventKind, event::Body};

use crate::Error;
use crate::engine::{Engine, timestamp};
use crate::gate::Stage;
use crate::history::decode;
use crate::scan::Scan;

/// A decision that is on record.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The session behind it.
    pub session: v1::Session,
    /// The APPROVAL_RESULT.
    pub record: Record,
}

impl Engine {
    /// Decides on a call that waits, or finds the same decision on record (R-APPR-16 to R-APPR-21). Nothing runs: Resume
    /// goes on with the turn.
    ///
    /// # Errors
    /// As the table of Approve's status codes says.
    pub async fn approve(&self, request: &v1::ApproveRequest) -> Result<Decided, Error> {
        let approved = check_tuple(request)?;
        let uid = SessionUid::from(request.session.as_str());
        self.load(&uid).await?;
        let guard = self.inner.guards.acquire(&uid)?;
        let session = self.load(&uid).await?;
        let record = match self.standing(&session, request).await? {
            Some(record) => {
                same_decision(request, approved, &record)?;
                record
            }
            None => self.decide(&session, request, approved).await?,
        };
        drop(guard);
        Ok(Decided { session: self.settled(&uid).await?, record })
    }

    /// The decision that a request of this session has already.
    async fn standing(&self, session: &Session, request: &v1::ApproveRequest) -> Result<Option<Record>, Error> {
        let scan = Scan::load(&session.state)?;
        if let Some((turn, gate)) = scan.gate()
            && turn.execution_id == request.execution_id
            && gate.call_id == request.tool_call_id
            && gate.request_seq == request.request_seq
            && gate.stage() == Stage::Requested
            && scan.owns(gate.call_seq)
        {
            return Ok(None);
        }
        self.past_decision(session, &scan, request).await?.map(Some).ok_or_else(|| {
            Error::InvalidApprovalDecision(format!(
                "session {} does not wait on tool call {} of turn {} at seq {}: ask the session what it waits for, or Resume it",
                session.uid, request.tool_call_id, request.execution_id, request.request_seq
            ))
        })
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
        let mut event =
            v1::Event::new(&request.execution_id, EventKind::EventApprovalResult, Body::ApprovalResult(decision));
        event.ts = Some(timestamp(self.inner.rim.now_ns()));
        event.actor = identity(request);
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
    request.approved.ok_or_else(|| Error::InvalidArgument("a decision needs approved: true or false".to_owned()))
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
