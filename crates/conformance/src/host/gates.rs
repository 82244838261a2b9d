//! Decisions: what is refused, and one gate from its call to its receipt.

use inspan_wire::v1::{
    self, ComputeState, EventKind, ExecState, event::Body, exec_update::Update, lifecycle, tool_result,
};
use tonic::Code;

use super::client::{Executed, all, ensure, event, kind, kinds, refused, said, uid, wrong};
use super::sessions::result;
use super::{Bench, Found, Main};
use crate::Verdict;

/// The checks that need a gate.
const GATED: [&str; 8] = [
    "gate-parks",
    "gate-handoff",
    "gate-shown",
    "gate-blocks",
    "gate-waits",
    "gate-decides",
    "gate-again",
    "gate-denied",
];

pub(super) async fn judge(bench: &Bench<'_>, main: &Main, found: &mut Found) {
    found.push(("approve-fields", Verdict::of(fields(bench, main).await)));
    found.push(("approve-nothing", Verdict::of(nothing(bench, main).await)));
    let Some((harness, input)) = &bench.options.gate else {
        let why = "no turn that asks for an approval was given";
        found.extend(GATED.map(|name| (name, Verdict::skipped(why))));
        return;
    };
    if let Err(why) = gated(bench, harness, input, found).await {
        let missing: Vec<_> = GATED.iter().filter(|name| found.iter().all(|(seen, _)| seen != *name)).collect();
        let is_told =
            found.iter().any(|(name, verdict)| *name == "gate-parks" && matches!(verdict, Verdict::Failed(_)));
        for (n, name) in missing.into_iter().enumerate() {
            let is_cause = n == 0 && !is_told;
            found.push((name, if is_cause { Verdict::failed(&why) } else { Verdict::skipped(&why) }));
        }
    }
}

fn request(session: &str, at: &v1::ApprovalRef, approved: Option<bool>) -> v1::ApproveRequest {
    v1::ApproveRequest {
        session: session.to_owned(),
        execution_id: at.execution_id.clone(),
        tool_call_id: at.tool_call_id.clone(),
        request_seq: at.request_seq,
        approved,
        ..Default::default()
    }
}

fn somewhere() -> v1::ApprovalRef {
    v1::ApprovalRef { execution_id: "e".to_owned(), tool_call_id: "c".to_owned(), request_seq: 3 }
}

async fn fields(bench: &Bench<'_>, main: &Main) -> Result<String, String> {
    let whole = request(&main.uid, &somewhere(), Some(true));
    let cases = [
        ("no session", v1::ApproveRequest { session: String::new(), ..whole.clone() }),
        ("no execution", v1::ApproveRequest { execution_id: String::new(), ..whole.clone() }),
        ("no call", v1::ApproveRequest { tool_call_id: String::new(), ..whole.clone() }),
        ("request 0", v1::ApproveRequest { request_seq: 0, ..whole.clone() }),
        ("request -1", v1::ApproveRequest { request_seq: -1, ..whole.clone() }),
        ("no decision", v1::ApproveRequest { approved: None, ..whole }),
    ];
    let mut told = Vec::new();
    for (what, request) in cases {
        told.push(refused(what, bench.client.approve(request).await, &[Code::InvalidArgument]));
    }
    all(told).map(|_| "six incomplete decisions are refused".to_owned())
}

async fn nothing(bench: &Bench<'_>, main: &Main) -> Result<String, String> {
    let before = wrong("GetSession", bench.client.get(&main.uid).await)?.last_seq;
    let answer = bench.client.approve(request(&main.uid, &somewhere(), Some(true))).await;
    let told = refused("a decision on nothing", answer, &[Code::FailedPrecondition])?;
    let after = wrong("GetSession", bench.client.get(&main.uid).await)?.last_seq;
    ensure(before == after, || format!("it moved the head from {before} to {after}"))?;
    Ok(told)
}

/// One gate, denied: a denial is the host's own to answer, whatever tools it has.
async fn gated(bench: &Bench<'_>, harness: &str, input: &str, found: &mut Found) -> Result<(), String> {
    let client = &bench.client;
    let session = v1::Session { harness: harness.to_owned(), ..bench.session("gated") };
    let session = uid(&wrong("CreateSession", bench.create_with(session).await)?).to_owned();
    let turn = client.exec(bench.turn(&session, input)).await;
    let parked = parks(&turn);
    found.push(("gate-parks", Verdict::of(parked.as_ref().map(|(told, _)| told.clone()).map_err(Clone::clone))));
    let Ok((_, at)) = parked else { return Err("the turn did not park".to_owned()) };
    found.push(("gate-handoff", Verdict::of(handoff(&turn))));
    found.push(("gate-shown", Verdict::of(shown(bench, &session, &at, &turn).await)));
    found.push(("gate-blocks", Verdict::of(blocks(bench, &session, input).await)));
    found.push(("gate-waits", Verdict::of(waits(bench, &session).await)));
    let decided = client.approve(request(&session, &at, Some(false))).await;
    let decision = wrong("Approve", decided)?.decision.unwrap_or_default();
    found.push(("gate-decides", Verdict::of(decides(bench, &session, &at, &decision).await)));
    found.push(("gate-again", Verdict::of(again(bench, &session, &at, &decision).await)));
    found.push(("gate-denied", Verdict::of(denied(bench, &session, &at, decision.seq).await)));
    Ok(())
}

/// The request that the turn stopped at.
fn parks(turn: &Executed) -> Result<(String, v1::ApprovalRef), String> {
    let records = turn.records();
    let told = kinds(records.iter().copied());
    let at = records.iter().position(|r| kind(r) == EventKind::EventApprovalRequest);
    let Some(at) = at.filter(|at| *at > 0) else { return Err(format!("no request was recorded: {told}")) };
    let (before, open) = (event(records[at - 1]), event(records[at]));
    let (Some(Body::Tool(call)), Some(Body::Approval(asked))) = (before.body, open.body) else {
        return Err(format!("the request does not follow its call: {told}"));
    };
    ensure(asked.tool_call_id == call.id, || {
        format!("the request is on {:?}, the call is {:?}", asked.tool_call_id, call.id)
    })?;
    let late = records[at + 1..].iter().find(|r| kind(r) != EventKind::EventLifecycle);
    ensure(late.is_none(), || format!("the turn went on: {told}"))?;
    let request_seq = records[at].seq;
    Ok((told, v1::ApprovalRef { execution_id: open.execution_id, tool_call_id: call.id, request_seq }))
}

fn handoff(turn: &Executed) -> Result<String, String> {
    ensure(turn.refused.is_none(), || format!("the stream ended with {}", turn.told()))?;
    let is_suspended = turn.records().last().is_some_and(|record| match event(record).body {
        Some(Body::Lifecycle(life)) => life.kind() == lifecycle::Kind::LifecycleSuspend,
        _ => false,
    });
    ensure(is_suspended, || "its last record is no SUSPEND".to_owned())?;
    ensure(matches!(turn.frames.last(), Some(Update::Session(_))), || "its last frame is no session".to_owned())?;
    Ok("SUSPEND, the session, OK".to_owned())
}

async fn shown(bench: &Bench<'_>, session: &str, at: &v1::ApprovalRef, turn: &Executed) -> Result<String, String> {
    let read = wrong("GetSession", bench.client.get(session).await)?;
    let last = match turn.frames.last() {
        Some(Update::Session(session)) => session,
        // That it is missing is said already.
        _ => &read,
    };
    for (what, session) in [("GetSession", &read), ("the last frame", last)] {
        let (exec, compute) = (session.exec_state(), session.compute_state());
        ensure(exec == ExecState::ExecAwaiting, || format!("{what} says {}", exec.as_str_name()))?;
        ensure(compute == ComputeState::ComputeCold, || format!("{what} says {}", compute.as_str_name()))?;
        ensure(session.pending_approval.as_ref() == Some(at), || {
            format!("{what} shows {:?} as what it waits for", session.pending_approval)
        })?;
    }
    Ok(format!("{} at {}", at.tool_call_id, at.request_seq))
}

async fn blocks(bench: &Bench<'_>, session: &str, input: &str) -> Result<String, String> {
    let turn = bench.client.exec(bench.turn(session, input)).await;
    ensure(turn.frames.is_empty(), || format!("{} frames came first", turn.frames.len()))?;
    refused("a turn with inputs", result(turn), &[Code::FailedPrecondition])
}

async fn waits(bench: &Bench<'_>, session: &str) -> Result<String, String> {
    let before = wrong("GetSession", bench.client.get(session).await)?.last_seq;
    let answer = wrong("Resume", bench.client.resume(session).await)?;
    let exec = answer.exec_state();
    ensure(exec == ExecState::ExecAwaiting, || format!("Resume says {}", exec.as_str_name()))?;
    ensure(answer.last_seq == before, || format!("Resume moved the head from {before} to {}", answer.last_seq))?;
    Ok(format!("still awaiting at {before}"))
}

async fn decides(
    bench: &Bench<'_>,
    session: &str,
    at: &v1::ApprovalRef,
    decision: &v1::LogRecord,
) -> Result<String, String> {
    let event = event(decision);
    let Some(Body::ApprovalResult(said)) = &event.body else { return Err("the answer has no decision".to_owned()) };
    let due = (at.tool_call_id.as_str(), at.request_seq, false);
    let is = (said.tool_call_id.as_str(), said.request_seq, said.approved);
    ensure(is == due, || format!("the decision is {is:?} and not {due:?}"))?;
    ensure(event.ts.is_some(), || "the decision has no time".to_owned())?;
    let read = wrong("Replay", bench.client.replay(session, decision.seq, 0).await)?;
    ensure(read.len() == 1 && read[0].event == decision.event, || format!("the journal holds {}", kinds(&read)))?;
    Ok(format!("record {}", decision.seq))
}

async fn again(
    bench: &Bench<'_>,
    session: &str,
    at: &v1::ApprovalRef,
    decision: &v1::LogRecord,
) -> Result<String, String> {
    let same = wrong("the same again", bench.client.approve(request(session, at, Some(false))).await)?;
    let same = same.decision.unwrap_or_default();
    ensure(same.seq == decision.seq && same.event == decision.event, || {
        format!("the same again is record {} and not {}", same.seq, decision.seq)
    })?;
    let other = bench.client.approve(request(session, at, Some(true))).await;
    refused("the opposite", other, &[Code::FailedPrecondition])
}

async fn denied(bench: &Bench<'_>, session: &str, at: &v1::ApprovalRef, decided: i64) -> Result<String, String> {
    let resumed = bench.client.resume(session).await;
    let read = wrong("Replay", bench.client.replay(session, decided + 1, 0).await)?;
    let receipt = read.iter().find_map(|record| match event(record).body {
        Some(Body::Result(result)) if result.id == at.tool_call_id => Some(result),
        _ => None,
    });
    let Some(receipt) = receipt else {
        let how = resumed.map_or_else(|status| said(&status), |_| "OK".to_owned());
        return Err(format!("there is no receipt; Resume said {how}"));
    };
    let seqs = (receipt.approval_request_seq, receipt.approval_decision_seq);
    ensure(seqs == (at.request_seq, decided), || format!("the receipt names {seqs:?}"))?;
    let is_denial = receipt.is_error && receipt.code() == tool_result::Code::ApprovalDenied;
    ensure(is_denial, || format!("the receipt has code {} and is_error {}", receipt.code, receipt.is_error))?;
    Ok(kinds(&read))
}
