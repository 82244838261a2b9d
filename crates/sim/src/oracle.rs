//! A model of the store: what was committed, and what each promise allows there.
//!
//! It is told of every commit in the same step, so at any point it is what a stranger would find if
//! every host died now.

use std::collections::BTreeMap;

use inspan_engine::scan::Folder;
use inspan_engine::tape::is_effect;
use inspan_engine::{Action, POLICY, ReplayRule};
use inspan_journal::{Append, Appended, Error, FenceRule, KeyChange, Record, Session};
use inspan_wire::event::tool_difference;
use inspan_wire::v1::{self, EventKind, event::Body, lifecycle};
use inspan_wire::{SessionUid, canon, parse};

use crate::promise::{Promise, Verdict, Violation, ensure};
use crate::tasks::TaskId;
use crate::tools::{action_of, rule_of};
use crate::world::{Kind, Op};

/// A session as it must be.
#[derive(Debug, Clone)]
pub(crate) struct Mirror {
    /// Every record that it reads, its parents' included.
    pub(crate) records: Vec<Record>,
    /// Their events.
    pub(crate) events: Vec<v1::Event>,
    /// The first seq of its own.
    pub(crate) own_from: i64,
    /// The current fence.
    pub(crate) fence: i64,
    /// Whether it was deleted.
    pub(crate) deleted: bool,
    folder: Folder,
    writers: BTreeMap<i64, TaskId>,
}

/// What a read-back of a session gave, in the same step.
pub(crate) struct Stored {
    /// The session.
    pub(crate) session: Option<Session>,
    /// The records that were asked for.
    pub(crate) records: Result<Vec<Record>, Error>,
}

/// Every session that was ever committed.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    sessions: BTreeMap<SessionUid, Mirror>,
    /// Records committed over all sessions.
    pub(crate) commits: u64,
}

/// A uid, short enough for a line of trace.
pub(crate) fn short(uid: &SessionUid) -> &str {
    let hex = uid.as_str().strip_prefix("sess-").unwrap_or(uid.as_str());
    hex.get(..6).unwrap_or(hex)
}

/// A record's kind, for a line of trace.
pub(crate) fn kind_name(event: &v1::Event) -> &'static str {
    event.kind().as_str_name().trim_start_matches("EVENT_")
}

impl Mirror {
    fn empty() -> Mirror {
        Mirror {
            records: Vec::new(),
            events: Vec::new(),
            own_from: 1,
            fence: 0,
            deleted: false,
            folder: Folder::default(),
            writers: BTreeMap::new(),
        }
    }

    /// The last seq.
    pub(crate) fn head(&self) -> i64 {
        i64::try_from(self.records.len()).expect("a journal is countable")
    }

    /// The last execution, when it has not ended.
    pub(crate) fn pending(&self) -> Option<&str> {
        let turn = self.folder.scan().turn.as_ref()?;
        turn.ended.is_none().then_some(turn.execution_id.as_str())
    }

    /// The decision that the session waits for.
    pub(crate) fn awaited(&self) -> Option<v1::ApprovalRef> {
        self.folder.scan().awaited()
    }

    /// The last decision of its own.
    pub(crate) fn last_decision(&self) -> Option<(&v1::Event, &v1::ApprovalResult)> {
        let own = self.events.get(usize::try_from(self.own_from - 1).unwrap_or_default()..)?;
        own.iter().rev().find_map(|e| Some((e, decision_of(e)?)))
    }

    /// The last execution.
    pub(crate) fn last_execution(&self) -> Option<&str> {
        self.folder.scan().turn.as_ref().map(|t| t.execution_id.as_str())
    }

    /// The effects of an execution in order.
    pub(crate) fn effects(&self, execution_id: &str) -> Vec<(i64, &v1::Event)> {
        let of_it = |e: &&v1::Event| e.execution_id == execution_id && is_effect(e.kind());
        (1..).zip(&self.events).filter(|(_, e)| of_it(e)).collect()
    }

    /// Seq of the first record of an execution.
    pub(crate) fn first_of(&self, execution_id: &str) -> Option<i64> {
        (1..).zip(&self.events).find(|(_, e)| e.execution_id == execution_id).map(|(seq, _)| seq)
    }

    /// How an execution ended.
    pub(crate) fn ended(&self, execution_id: &str) -> Option<&str> {
        self.events.iter().find_map(|e| match &e.body {
            Some(Body::End(end)) if e.execution_id == execution_id => Some(end.state.as_str()),
            _ => None,
        })
    }

    /// The completed executions by first appearance.
    pub(crate) fn completed(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = Vec::new();
        for event in &self.events {
            if !event.execution_id.is_empty() && !ids.contains(&event.execution_id.as_str()) {
                ids.push(&event.execution_id);
            }
        }
        ids.retain(|id| self.ended(id) == Some("COMPLETED"));
        ids
    }

    /// Adds a record that is chained, canonical, and folds as `session` says (promise 6).
    fn take(&mut self, uid: &SessionUid, record: &Record) -> Result<Option<inspan_journal::TurnMark>, Violation> {
        let seq = self.head() + 1;
        let broken =
            |what: &str| Violation::of(Promise::CheckedByStrangers, format!("{} at {seq}: {what}", short(uid)));
        if record.seq != seq {
            return Err(broken(&format!("record {} stands there", record.seq)));
        }
        if record.prev_hash != self.records.last().map(|r| r.content_hash) {
            return Err(broken("the record does not link to the one before it"));
        }
        if !record.holds() {
            return Err(broken("the record's hash is not the hash of its content"));
        }
        let event = parse::event(&record.event).map_err(|e| broken(&e.to_string()))?;
        if canon::event(&event).ok().as_deref() != Some(&record.event[..]) {
            return Err(broken("the event is not in its canonical form"));
        }
        let mark = self.folder.step(seq, &event);
        self.records.push(record.clone());
        self.events.push(event);
        Ok(mark)
    }

    /// The stored projections are those of a fresh fold (promise 6).
    fn folds_to(&self, uid: &SessionUid, session: &Session) -> Verdict {
        ensure(session.state == self.folder.state(), Promise::CheckedByStrangers, || {
            let (have, want) = (&session.state, self.folder.state());
            format!("{} at {}: stored projections {have:?}, a fresh fold gives {want:?}", short(uid), self.head())
        })
    }
}

/// Whether the append uses a key for the first time that the call at `call_seq` used before.
fn uses_again(append: &Append, mirror: &Mirror, call_seq: i64) -> bool {
    let first = append.keys.iter().find_map(|change| match change {
        KeyChange::First { key, .. } => Some(key),
        _ => None,
    });
    let before = usize::try_from(call_seq - 1).ok().and_then(|at| mirror.events.get(at)?.body.as_ref());
    matches!((first, before), (Some(key), Some(Body::Tool(call))) if call.idempotency_key == *key)
}

impl Oracle {
    /// A session, deleted or not.
    pub(crate) fn mirror(&self, uid: &SessionUid) -> Option<&Mirror> {
        self.sessions.get(uid)
    }

    /// Sessions that were not deleted, by uid.
    pub(crate) fn live(&self) -> Vec<SessionUid> {
        self.sessions.iter().filter(|(_, m)| !m.deleted).map(|(uid, _)| uid.clone()).collect()
    }

    /// Sessions, deleted ones included.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&SessionUid, &Mirror)> {
        self.sessions.iter()
    }

    /// Whether another writer has passed the operation, or its session is gone.
    pub(crate) fn is_overtaken(&self, op: &Op) -> bool {
        let mirror = op.session.as_ref().and_then(|uid| self.mirror(uid));
        mirror.is_some_and(|m| m.deleted || op.fence.is_some_and(|held| held < m.fence))
    }

    /// A session was created.
    pub(crate) fn created(&mut self, uid: &SessionUid) {
        self.sessions.insert(uid.clone(), Mirror::empty());
    }

    /// A fence was taken by `op`: it rises by one (R-CAS-2).
    pub(crate) fn fenced(&mut self, uid: &SessionUid, fence: i64, op: TaskId) -> Verdict {
        let mirror = self.known(uid)?;
        let held = mirror.fence;
        mirror.fence = fence;
        mirror.writers.insert(fence, op);
        ensure(fence == held + 1, Promise::OneWriter, || format!("{}: fence {fence} follows {held}", short(uid)))
    }

    /// A session was deleted.
    pub(crate) fn deleted(&mut self, uid: &SessionUid) -> Verdict {
        self.known(uid)?.deleted = true;
        Ok(())
    }

    fn known(&mut self, uid: &SessionUid) -> Result<&mut Mirror, Violation> {
        let unknown = || Violation::of(Promise::OneWriter, format!("{} was written and never created", short(uid)));
        self.sessions.get_mut(uid).ok_or_else(unknown)
    }

    /// A refused append changed nothing, and was rightly refused (promises 5 and 7).
    pub(crate) fn refused(&self, append: &Append, error: &Error, stored: &Stored) -> Verdict {
        let uid = &append.session;
        let Some(mirror) = self.mirror(uid) else { return Ok(()) };
        let seen = stored.session.as_ref().map(|s| (s.head.seq, s.fence));
        let live = (!mirror.deleted).then_some((mirror.head(), mirror.fence));
        ensure(seen == live, Promise::HonestRefusal, || {
            format!("{}: a refused append ({error}) left {seen:?} where {live:?} was", short(uid))
        })?;
        let right = match error {
            Error::Conflict { .. } => append.expect_head != mirror.head(),
            Error::Fenced { .. } => matches!(append.fence, FenceRule::Held(held) if held < mirror.fence),
            Error::NotFound(_) => mirror.deleted,
            Error::KeyUsed { used, .. } => uses_again(append, mirror, used.call_seq),
            _ => false,
        };
        ensure(right, Promise::OneWriter, || format!("{}: an append was refused without reason: {error}", short(uid)))
    }

    /// An append was committed.
    pub(crate) fn committed(&mut self, op: &Op, append: &Append, appended: Appended, stored: &Stored) -> Verdict {
        let uid = &append.session;
        let mirror = self.known(uid)?;
        let at = format!("{} at {}", short(uid), append.expect_head + 1);
        admitted(mirror, append, appended, op.id, &at)?;
        let records = match &stored.records {
            Ok(records) => records,
            Err(e) => return Err(Violation::of(Promise::CheckedByStrangers, format!("{at}: unreadable: {e}"))),
        };
        let mut mark = None;
        for record in records {
            let at = mirror.take(uid, record)?;
            mark = mark.or(at);
            let fence = record.fence;
            ensure(fence == appended.fence && record.ts_ms == appended.ts_ms, Promise::CheckedByStrangers, || {
                format!("{} at {}: fence or time is not what was acknowledged", short(uid), record.seq)
            })?;
        }
        let kept = records.len() == append.records.len()
            && records.iter().zip(&append.records).all(|(r, new)| r.content_hash == new.content_hash);
        ensure(kept, Promise::RecordBeforeEffect, || {
            format!("{at}: {} records were acknowledged, {} are there", append.records.len(), records.len())
        })?;
        ensure(mark == append.turn, Promise::CheckedByStrangers, || {
            format!("{at}: the turn's mark is not the fold's")
        })?;
        match &stored.session {
            Some(session) => mirror.folds_to(uid, session)?,
            None => return Err(Violation::of(Promise::RecordBeforeEffect, format!("{at}: the session is gone"))),
        }
        let (before, fresh) = mirror.events.split_at(mirror.events.len() - records.len());
        allowed(op, fresh, append, &at)?;
        decided_once(op, before, fresh, mirror.own_from, &at)?;
        let scan = mirror.folder.scan();
        if let Some(fault) = scan.fault.as_ref().or(scan.boundary_fault.as_ref()) {
            return Err(Violation::of(Promise::CheckedByStrangers, format!("{at}: {}", fault.error())));
        }
        self.commits += u64::try_from(records.len()).expect("a count fits");
        Ok(())
    }

    /// A fork was committed.
    pub(crate) fn forked(&mut self, parent: &SessionUid, child: &Session, stored: &Stored) -> Verdict {
        let Some((of, at_seq)) = &child.parent else {
            return Err(Violation::of(Promise::CheckedByStrangers, format!("{}: no parent", short(&child.uid))));
        };
        let from = self.known(parent)?;
        let shared = usize::try_from(*at_seq).unwrap_or_default().min(from.records.len());
        let mut mirror = Mirror { own_from: at_seq + 1, fence: child.fence, ..Mirror::empty() };
        for record in &from.records[..shared] {
            mirror.take(&child.uid, record)?;
        }
        let marker = match &stored.records {
            Ok(records) if of == parent => records.last(),
            _ => None,
        };
        let Some(marker) = marker else {
            let what = format!("{}: the fork's marker is not there", short(&child.uid));
            return Err(Violation::of(Promise::RecordBeforeEffect, what));
        };
        mirror.take(&child.uid, marker)?;
        let is_marker = matches!(&mirror.events.last().and_then(|e| e.body.as_ref()),
            Some(Body::Lifecycle(l)) if l.kind() == lifecycle::Kind::LifecycleFork);
        ensure(is_marker, Promise::CheckedByStrangers, || format!("{}: no marker behind {at_seq}", short(&child.uid)))?;
        mirror.folds_to(&child.uid, child)?;
        self.sessions.insert(child.uid.clone(), mirror);
        Ok(())
    }

    /// The provider is asked by `op` for the request with this hash (promises 1, 2 and 4).
    pub(crate) fn called(&self, op: &Op, input_hash: &str) -> Result<(SessionUid, i64), Violation> {
        let broken = |promise, what: &str| {
            let whose = op.session.as_ref().map_or("?", short);
            Violation::of(promise, format!("{whose}: the provider was asked by a {:?} (op {}): {what}", op.kind, op.id))
        };
        if !op.kind.drives() {
            return Err(broken(Promise::ReplayCostsNothing, "it drives no turn"));
        }
        let uid = op.session.clone().ok_or_else(|| broken(Promise::RecordBeforeEffect, "no session is known"))?;
        let mirror = self.mirror(&uid).ok_or_else(|| broken(Promise::RecordBeforeEffect, "no such session"))?;
        let effects = mirror.effects(&op.execution_id);
        let is_it = |e: &v1::Event| matches!(&e.body, Some(Body::Model(call)) if call.input_hash == input_hash);
        let Some(at) = effects.iter().rposition(|(_, e)| is_it(e)) else {
            return Err(broken(Promise::RecordBeforeEffect, "its MODEL_CALL is not in the journal"));
        };
        let seq = effects[at].0;
        if op.driven.contains(&(uid.clone(), seq)) {
            return Err(broken(Promise::AtMostOnce, &format!("MODEL_CALL {seq} was driven by this operation before")));
        }
        // A host that was overtaken without knowing may still be in the call that it had recorded.
        if !self.is_overtaken(op) {
            if effects.get(at + 1).is_some_and(|(_, e)| e.kind() == EventKind::EventOutput) {
                return Err(broken(Promise::AtMostOnce, &format!("MODEL_CALL {seq} has its OUTPUT already")));
            }
            let last = at + 1 == effects.len() && mirror.last_execution() == Some(op.execution_id.as_str());
            if !last {
                return Err(broken(Promise::RecordBeforeEffect, &format!("MODEL_CALL {seq} is not the last effect")));
            }
        }
        Ok((uid, seq))
    }

    /// A tool is run by `op` for `call`: it is on record, approved where that is asked for, and not answered yet
    /// (promises 1, 2 and 4, R-APPR-25). Gives its place, and how often it may be run at all.
    pub(crate) fn ran(&self, op: &Op, call: &v1::ToolCall) -> Result<(SessionUid, i64, usize), Violation> {
        let broken = |promise, what: &str| {
            let whose = op.session.as_ref().map_or("?", short);
            let (kind, id) = (op.kind, op.id);
            Violation::of(promise, format!("{whose}: tool {} was run by a {kind:?} (op {id}): {what}", call.tool))
        };
        if !op.kind.drives() {
            return Err(broken(Promise::ReplayCostsNothing, "it drives no turn"));
        }
        let uid = op.session.clone().ok_or_else(|| broken(Promise::RecordBeforeEffect, "no session is known"))?;
        let mirror = self.mirror(&uid).ok_or_else(|| broken(Promise::RecordBeforeEffect, "no such session"))?;
        let effects = mirror.effects(&op.execution_id);
        let is_it = |e: &v1::Event| matches!(&e.body, Some(Body::Tool(t)) if tool_difference(t, call).is_none());
        let Some(at) = effects.iter().rposition(|(_, e)| is_it(e)) else {
            return Err(broken(Promise::RecordBeforeEffect, "its TOOL_CALL is not in the journal"));
        };
        let seq = effects[at].0;
        if op.driven.contains(&(uid.clone(), seq)) {
            return Err(broken(Promise::AtMostOnce, &format!("TOOL_CALL {seq} was run by this operation before")));
        }
        let behind = &effects[at + 1..];
        let asked = behind.first().is_some_and(|(_, e)| e.kind() == EventKind::EventApprovalRequest);
        let approved = behind.get(1).and_then(|(_, e)| decision_of(e)).is_some_and(|d| d.approved);
        let action = action_of(&call.tool);
        let must_ask = call.mediation() == v1::Mediation::RequiresApproval || action == Some(Action::Ask);
        if action == Some(Action::Deny) {
            return Err(broken(Promise::NothingUnapproved, "the policy forbids it"));
        }
        if must_ask && !approved {
            return Err(broken(Promise::NothingUnapproved, &format!("TOOL_CALL {seq} is not approved")));
        }
        // A host that was overtaken without knowing may still be in the call that it had recorded.
        if !self.is_overtaken(op) {
            let left = if asked { behind.get(2..) } else { Some(behind) };
            if asked && !approved {
                return Err(broken(Promise::NothingUnapproved, &format!("TOOL_CALL {seq} is not approved")));
            }
            if left.is_none_or(|left| !left.is_empty()) || mirror.last_execution() != Some(&*op.execution_id) {
                return Err(broken(Promise::AtMostOnce, &format!("TOOL_CALL {seq} is answered or left behind")));
            }
        }
        let runs_max = match rule_of(&call.tool) {
            ReplayRule::Safe | ReplayRule::Keyed => usize::MAX,
            ReplayRule::Ask if asked && approved && !must_ask => 2,
            ReplayRule::Ask | ReplayRule::Never => 1,
        };
        Ok((uid, seq, runs_max))
    }

    /// Everything that is stored is what was committed, and nothing else (promises 1, 5 and 6). `anew` also chains
    /// and folds it from its first record on: what every commit has done once already.
    pub(crate) fn audit(&self, uid: &SessionUid, stored: &Stored, anew: bool) -> Verdict {
        let Some(mirror) = self.mirror(uid) else { return Ok(()) };
        let Some(session) = &stored.session else {
            return ensure(mirror.deleted, Promise::RecordBeforeEffect, || format!("{} is gone", short(uid)));
        };
        ensure(!mirror.deleted, Promise::HonestRefusal, || format!("{} was deleted and is back", short(uid)))?;
        let records = match &stored.records {
            Ok(records) => records,
            Err(e) => return Err(Violation::of(Promise::CheckedByStrangers, format!("{}: {e}", short(uid)))),
        };
        let mut fresh = Mirror::empty();
        if anew || *records != mirror.records {
            for record in records {
                fresh.take(uid, record)?;
            }
        }
        ensure(records.len() >= mirror.records.len(), Promise::RecordBeforeEffect, || {
            format!("{}: {} records were acknowledged, {} are left", short(uid), mirror.records.len(), records.len())
        })?;
        ensure(*records == mirror.records, Promise::CheckedByStrangers, || {
            format!("{}: what is stored is not what was committed", short(uid))
        })?;
        let head = (session.head.seq, session.head.hash);
        let last = records.last().map(|r| r.content_hash);
        ensure(head == (mirror.head(), last), Promise::CheckedByStrangers, || format!("{}: another head", short(uid)))?;
        let own = &records[usize::try_from(mirror.own_from - 1).unwrap_or_default().min(records.len())..];
        let rising = own.is_sorted_by_key(|r| r.fence) && own.last().is_none_or(|r| r.fence <= session.fence);
        ensure(rising, Promise::OneWriter, || format!("{}: fences fall along the journal", short(uid)))?;
        ensure(session.fence == mirror.fence, Promise::OneWriter, || format!("{}: another fence", short(uid)))?;
        if anew { fresh.folds_to(uid, session) } else { mirror.folds_to(uid, session) }
    }
}

/// Head and fence were the current ones, and this writer alone holds the fence (promise 5).
fn admitted(mirror: &mut Mirror, append: &Append, appended: Appended, op: TaskId, at: &str) -> Verdict {
    let one =
        |holds: bool, what: &dyn Fn() -> String| ensure(holds, Promise::OneWriter, || format!("{at}: {}", what()));
    one(!mirror.deleted, &|| "a deleted session was appended to".to_owned())?;
    one(append.expect_head == mirror.head(), &|| {
        format!("an append at head {} was taken at head {}", append.expect_head, mirror.head())
    })?;
    one(appended.fence >= mirror.fence, &|| format!("fence {} went below {}", appended.fence, mirror.fence))?;
    match append.fence {
        FenceRule::Held(held) => {
            one(held >= mirror.fence, &|| format!("an append under fence {held} was taken at fence {}", mirror.fence))?;
        }
        FenceRule::Next => one(appended.fence == mirror.fence + 1, &|| "no fresh fence was taken".to_owned())?,
    }
    mirror.fence = appended.fence;
    let writer = *mirror.writers.entry(appended.fence).or_insert(op);
    one(writer == op, &|| format!("operations {writer} and {op} both wrote under fence {}", appended.fence))
}

pub(crate) fn decision_of(event: &v1::Event) -> Option<&v1::ApprovalResult> {
    match &event.body {
        Some(Body::ApprovalResult(decision)) => Some(decision),
        _ => None,
    }
}

/// A decision answers a request that is there and has none, and comes from who decides (R-APPR-17, R-APPR-18).
fn decided_once(op: &Op, before: &[v1::Event], fresh: &[v1::Event], own_from: i64, at: &str) -> Verdict {
    let one = |holds: bool, what: &str| {
        ensure(holds, Promise::OneDecision, || format!("{at}: a decision (op {}) {what}", op.id))
    };
    for event in fresh {
        let Some(decision) = decision_of(event) else { continue };
        let all = || before.iter().chain(fresh);
        let same = all().filter_map(decision_of).filter(|d| d.request_seq == decision.request_seq);
        one(same.count() == 1, "on a request that has one")?;
        let request = usize::try_from(decision.request_seq - 1).ok().and_then(|at| all().nth(at));
        let asked = matches!(request.and_then(|e| e.body.as_ref()),
            Some(Body::Approval(asked)) if asked.tool_call_id == decision.tool_call_id);
        one(asked && decision.request_seq >= own_from, "on no request of this session")?;
        let by_policy = event.actor.as_ref().is_some_and(|actor| actor.principal == POLICY);
        one(op.kind == Kind::Approve || by_policy && !decision.approved, "by nobody who decides")?;
    }
    Ok(())
}

/// What this operation may record at all (promises 1, 2 and 3).
fn allowed(op: &Op, fresh: &[v1::Event], append: &Append, at: &str) -> Verdict {
    ensure(op.kind != Kind::Rerun, Promise::ReplayCostsNothing, || format!("{at}: a re-run has appended"))?;
    for event in fresh {
        if op.deviated {
            let closes = match &event.body {
                Some(Body::Error(_)) => true,
                Some(Body::Lifecycle(l)) => l.kind() == lifecycle::Kind::LifecycleCancel,
                Some(Body::End(end)) => end.state == "CANCELED",
                _ => false,
            };
            ensure(closes, Promise::DivergenceIsAnError, || {
                format!("{at}: {} was recorded behind a divergence", kind_name(event))
            })?;
        }
        if let Some(Body::Model(call)) = &event.body {
            let kept = append.requests.iter().any(|r| r.digest.hex().as_str() == call.input_hash);
            ensure(kept, Promise::RecordBeforeEffect, || format!("{at}: a call without its request's text"))?;
        }
    }
    Ok(())
}
