//! Who may write.

use futures_util::future::join_all;
use inspan_wire::v1::{self, EventKind};
use tonic::Code;

use super::client::{Executed, ensure, kind, kinds, refused, uid, wrong};
use super::sessions::result;
use super::turns::dense;
use super::{Bench, Found, Main};
use crate::Verdict;

/// Execs at once.
const RACERS: usize = 8;

pub(super) async fn judge(bench: &Bench<'_>, main: &Main, found: &mut Found) {
    found.push(("head-wrong", Verdict::of(wrong_head(bench, main).await)));
    found.push(("head-right", Verdict::of(right_head(bench).await)));
    found.push(("one-writer", Verdict::of(one_writer(bench).await)));
    found.push(("deadline", Verdict::of(deadline(bench).await)));
}

async fn expecting(bench: &Bench<'_>, session: &str, head: i64) -> Executed {
    let turn = bench.turn(session, &bench.options.input);
    let request = v1::ExecRequest { expected_last_seq: Some(head), ..turn };
    bench.client.exec(request).await
}

async fn wrong_head(bench: &Bench<'_>, main: &Main) -> Result<String, String> {
    let head = wrong("GetSession", bench.client.get(&main.uid).await)?.last_seq;
    for expected in [0, head - 1, head + 1] {
        let done = expecting(bench, &main.uid, expected).await;
        let records = done.records().len();
        ensure(records == 0, || format!("an Exec that expects {expected} at {head} wrote {records} records"))?;
        refused(&format!("an Exec that expects {expected} at {head}"), result(done), &[Code::Aborted])?;
    }
    let after = wrong("GetSession", bench.client.get(&main.uid).await)?.last_seq;
    ensure(after == head, || format!("the refused calls moved the head from {head} to {after}"))?;
    Ok(format!("0, {} and {} are refused at {head}", head - 1, head + 1))
}

async fn right_head(bench: &Bench<'_>) -> Result<String, String> {
    let session = wrong("CreateSession", bench.create("expected").await)?;
    let mut head = 0;
    for _ in 0..2 {
        let done = expecting(bench, uid(&session), head).await;
        ensure(done.refused.is_none(), || format!("an Exec that expects {head} ended with {}", done.told()))?;
        dense(&done.records(), head + 1)?;
        head = done.records().last().map_or(head, |record| record.seq);
    }
    Ok(format!("at 0, and again; the head is {head}"))
}

async fn one_writer(bench: &Bench<'_>) -> Result<String, String> {
    let session = wrong("CreateSession", bench.create("raced").await)?;
    let all = join_all((0..RACERS).map(|_| expecting(bench, uid(&session), 0))).await;
    let (ran, refused): (Vec<_>, Vec<_>) = all.iter().partition(|done| done.refused.is_none());
    ensure(ran.len() == 1, || format!("{} of {RACERS} ran", ran.len()))?;
    let other = refused.iter().find(|done| done.code() != Code::Aborted);
    ensure(other.is_none(), || format!("one was refused with {}", other.map(|o| o.told()).unwrap_or_default()))?;
    let read = wrong("Replay", bench.client.replay(uid(&session), 0, 0).await)?;
    let starts = read.iter().filter(|record| kind(record) == EventKind::EventExecutionStart).count();
    ensure(starts == 1, || format!("the journal holds {}", kinds(&read)))?;
    Ok(format!("one of {RACERS} ran"))
}

async fn deadline(bench: &Bench<'_>) -> Result<String, String> {
    let session = wrong("CreateSession", bench.create("late").await)?;
    let turn = bench.turn(uid(&session), &bench.options.input);
    let request = v1::ExecRequest { deadline_unix: 1, ..turn };
    refused("an Exec with a deadline in 1970", result(bench.client.exec(request).await), &[Code::DeadlineExceeded])
}
