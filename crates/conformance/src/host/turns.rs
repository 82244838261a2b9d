//! One turn, as Exec tells it.

use inspan_wire::v1::{self, EventKind, event::Body, exec_update::Update};
use tonic::Code;

use super::client::{Executed, ensure, event, kind, kinds, uid, wrong};
use super::{Bench, Found, Main};
use crate::Verdict;

/// The cursor of the turn; the host passes it on and does nothing with it.
const CURSOR: i64 = -3;

/// Runs the first turn of a session and judges it.
pub(super) async fn judge(bench: &Bench<'_>, session: &v1::Session, found: &mut Found) -> Main {
    let turn = bench.turn(uid(session), &bench.options.input);
    let request = v1::ExecRequest { resume_from_seq: CURSOR, ..turn };
    let main = Main { uid: uid(session).to_owned(), turn: bench.client.exec(request).await };
    found.push(("exec-first", Verdict::of(first_frame(&main))));
    found.push(("exec-end", Verdict::of(end(&main.turn, &bench.options.input))));
    if !main.turn.records().is_empty() {
        found.push(("exec-dense", Verdict::of(dense(&main.turn.records(), 1))));
        found.push(("exec-start", Verdict::of(start(&main.turn, &bench.options.config))));
        found.push(("exec-name", Verdict::of(name(&main.turn, &bench.options.harness))));
        found.push(("exec-ids", Verdict::of(ids(&main.turn))));
    }
    found.push(("exec-creates", Verdict::of(creates(bench).await)));
    main
}

fn first_frame(main: &Main) -> Result<String, String> {
    match main.turn.frames.first() {
        Some(Update::Session(session)) => {
            ensure(uid(session) == main.uid, || format!("frame 1 names session {:?}", uid(session)))?;
            ensure(session.last_seq == 0, || format!("frame 1 says last_seq {} before the turn", session.last_seq))?;
            Ok(format!("the session, at {}", session.last_seq))
        }
        Some(_) => Err("frame 1 is no session".to_owned()),
        None => Err(format!("no frame came: {}", main.turn.told())),
    }
}

fn end(turn: &Executed, input: &str) -> Result<String, String> {
    ensure(turn.refused.is_none(), || format!("the turn ended with {}", turn.told()))?;
    let records = turn.records();
    let [first, second, .., last] = &records[..] else { return Err(format!("only {} records came", records.len())) };
    let told = kinds(records.iter().copied());
    ensure(kind(first) == EventKind::EventExecutionStart, || format!("it does not begin with its start: {told}"))?;
    ensure(kind(second) == EventKind::EventInput, || format!("its input does not follow its start: {told}"))?;
    let heard = match event(second).body {
        Some(Body::Message(message)) => message.concat_text(),
        _ => String::new(),
    };
    ensure(heard == input, || format!("its input is recorded as {heard:?}"))?;
    ensure(kind(last) == EventKind::EventEnd, || format!("it does not end with END: {told}"))?;
    let state = match event(last).body {
        Some(Body::End(end)) => end.state,
        _ => String::new(),
    };
    ensure(state == "COMPLETED", || format!("END says state {state:?}"))?;
    let is_last = matches!(turn.frames.last(), Some(Update::Record(record)) if kind(record) == EventKind::EventEnd);
    ensure(is_last, || "something came behind END".to_owned())?;
    Ok(told)
}

/// Whether records follow each other from `first` on.
pub(super) fn dense(records: &[&v1::LogRecord], first: i64) -> Result<String, String> {
    for (seq, record) in (first..).zip(records) {
        ensure(record.seq == seq, || format!("record {} comes where {seq} is due", record.seq))?;
    }
    Ok(format!("{} records from {first} on", records.len()))
}

fn started(turn: &Executed) -> Result<v1::ExecutionStart, String> {
    let starts = turn.records().into_iter().filter_map(|record| match event(record).body {
        Some(Body::ExecutionStart(start)) => Some(start),
        _ => None,
    });
    match starts.collect::<Vec<_>>().as_slice() {
        [start] => Ok(start.clone()),
        starts => Err(format!("{} EXECUTION_START with a body came", starts.len())),
    }
}

fn start(turn: &Executed, config: &[u8]) -> Result<String, String> {
    let start = started(turn)?;
    ensure(start.input_count == Some(1), || format!("input_count is {:?} for one input", start.input_count))?;
    ensure(start.config == config, || "the configuration is not the one that was given".to_owned())?;
    ensure(start.resume_from_seq == CURSOR, || {
        format!("the cursor {CURSOR} is recorded as {}", start.resume_from_seq)
    })?;
    Ok("as it was given".to_owned())
}

fn name(turn: &Executed, harness: &str) -> Result<String, String> {
    let start = started(turn)?;
    ensure(!start.harness.is_empty(), || "it names no harness".to_owned())?;
    let fits = harness.is_empty() || start.harness == harness;
    ensure(fits, || format!("it names {:?} and {harness:?} was asked for", start.harness))?;
    Ok(format!("{:?} version {:?}", start.harness, start.harness_version))
}

fn ids(turn: &Executed) -> Result<String, String> {
    let records = turn.records();
    let id = records.first().map(|record| event(record).execution_id).unwrap_or_default();
    ensure(!id.is_empty(), || "the turn has no execution id".to_owned())?;
    let other = records.iter().find(|r| kind(r) != EventKind::EventLifecycle && event(r).execution_id != id);
    match other {
        Some(record) => Err(format!("record {} has execution id {:?}", record.seq, event(record).execution_id)),
        None => Ok(id),
    }
}

async fn creates(bench: &Bench<'_>) -> Result<String, String> {
    let harness = bench.options.harness.clone();
    let request = v1::ExecRequest { harness, ..bench.turn("", &bench.options.input) };
    let done = bench.client.exec(request).await;
    let made = done.sessions().first().map(|session| uid(session).to_owned()).unwrap_or_default();
    ensure(!made.is_empty(), || format!("no session was named: {}", done.told()))?;
    bench.unlabelled.lock().expect("no code panics while it holds this lock").push(made.clone());
    ensure(matches!(done.frames.first(), Some(Update::Session(_))), || "frame 1 is no session".to_owned())?;
    let read = wrong("GetSession", bench.client.get(&made).await)?;
    let head = done.records().last().map_or(0, |record| record.seq);
    ensure(done.code() != Code::Ok || read.last_seq == head, || {
        format!("the session is at {} and its turn ended at {head}", read.last_seq)
    })?;
    Ok(made)
}
