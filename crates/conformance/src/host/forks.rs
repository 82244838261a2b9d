//! Forks.

use inspan_wire::v1::{self, EventKind, event::Body, lifecycle};
use tonic::{Code, Status};

use super::client::{all, ensure, event, kind, kinds, refused, said, uid, wrong};
use super::records::{hashes, links};
use super::sessions::NOBODY;
use super::turns::dense;
use super::{Bench, Found, Main};
use crate::Verdict;

/// Where the child of the plain fork begins: behind its parent's start and input.
const AT: i64 = 2;
const NAME: &str = "child-of-the-kit";

pub(super) async fn judge(bench: &Bench<'_>, main: &Main, found: &mut Found) {
    let before = bench.client.replay(&main.uid, 0, 0).await;
    let forked = fork(bench, main, AT).await;
    match &forked {
        Ok(child) => {
            found.push(("fork-prefix", Verdict::of(prefix(bench, main, uid(child), AT).await)));
            found.push(("fork-fields", Verdict::of(fields(bench, main, child).await)));
        }
        Err(why) => {
            for name in ["fork-prefix", "fork-fields"] {
                found.push((name, Verdict::failed(why.clone())));
            }
        }
    }
    let child = forked.ok().map(|child| uid(&child).to_owned());
    found.push((
        "fork-parent",
        match (before, child) {
            (Ok(before), Some(child)) => Verdict::of(parent(bench, main, &before, &child).await),
            _ => Verdict::skipped("there is no child"),
        },
    ));
    found.push(("fork-identity", Verdict::of(identity(bench, main).await)));
    let count = listed(bench).await;
    let bounds = bounds(bench, main).await;
    found.push((
        "fork-nothing",
        match &bounds {
            Ok(_) => Verdict::of(nothing(bench, count).await),
            Err(_) => Verdict::skipped("a fork that should have been refused was not"),
        },
    ));
    found.push(("fork-bounds", Verdict::of(bounds)));
    found.push(("fork-beyond", Verdict::of(beyond(bench, main).await)));
    redrive(bench, main, found).await;
}

fn request(bench: &Bench<'_>, main: &Main, at_seq: i64) -> v1::ForkRequest {
    v1::ForkRequest { session: main.uid.clone(), at_seq, count: 1, labels: bench.labels(), ..Default::default() }
}

/// A fork whose children are remembered, also those that should not have been made.
async fn forked(bench: &Bench<'_>, request: v1::ForkRequest) -> Result<Vec<v1::Session>, Status> {
    let children = bench.client.fork(request).await?;
    children.iter().for_each(|child| bench.made(child));
    Ok(children)
}

/// One child at `at_seq`.
async fn fork(bench: &Bench<'_>, main: &Main, at_seq: i64) -> Result<v1::Session, String> {
    let request = v1::ForkRequest { child_names: vec![NAME.to_owned()], ..request(bench, main, at_seq) };
    let children = wrong("Fork", forked(bench, request).await)?;
    match &children[..] {
        [child] => Ok(child.clone()),
        more => Err(format!("{} children came where one was asked for", more.len())),
    }
}

async fn prefix(bench: &Bench<'_>, main: &Main, child: &str, at: i64) -> Result<String, String> {
    let parent = wrong("Replay", bench.client.replay(&main.uid, 1, at).await)?;
    let read = wrong("Replay", bench.client.replay(child, 0, 0).await)?;
    let refs: Vec<_> = read.iter().collect();
    dense(&refs, 1)?;
    for (own, theirs) in read.iter().zip(&parent) {
        let is_same = (&own.event, &own.content_hash) == (&theirs.event, &theirs.content_hash);
        ensure(is_same, || format!("record {} is not the parent's", own.seq))?;
    }
    let marker = read.get(parent.len()).ok_or_else(|| format!("only {} records are there", read.len()))?;
    match event(marker).body {
        Some(Body::Lifecycle(life)) if life.kind() == lifecycle::Kind::LifecycleFork => {
            let due = format!("parent@{at}");
            ensure(life.detail == due, || format!("the marker says {:?} and not {due:?}", life.detail))?;
        }
        _ => return Err(format!("record {} is no fork marker: {}", marker.seq, kinds(&read))),
    }
    ensure(event(marker).execution_id.is_empty(), || "the marker has an execution id".to_owned())?;
    Ok(format!("{} records and the marker", parent.len()))
}

async fn fields(bench: &Bench<'_>, main: &Main, child: &v1::Session) -> Result<String, String> {
    let parent = wrong("GetSession", bench.client.get(&main.uid).await)?;
    let read = wrong("GetSession", bench.client.get(uid(child)).await)?;
    for (what, child) in [("Fork", child), ("GetSession", &read)] {
        let meta = child.metadata.clone().unwrap_or_default();
        let same = [
            ("parent_uid", child.parent_uid == main.uid),
            ("fork_seq", child.fork_seq == AT),
            ("project", meta.project == bench.project),
            ("name", meta.name == NAME),
            ("harness", child.harness == parent.harness),
            ("model", child.model == parent.model),
            ("labels", child.labels == bench.labels()),
            ("annotations", child.annotations == parent.annotations),
            ("origin", child.origin == parent.origin),
            ("identity", child.identity.is_none()),
        ];
        if let Some((field, _)) = same.iter().find(|(_, same)| !same) {
            return Err(format!("{what} shows a child with another {field}"));
        }
    }
    Ok(format!("a child at {AT}"))
}

/// The child takes a turn of its own; the parent must not hear of it.
async fn parent(bench: &Bench<'_>, main: &Main, before: &[v1::LogRecord], child: &str) -> Result<String, String> {
    let turn = bench.client.exec(bench.turn(child, &bench.options.input)).await;
    ensure(turn.refused.is_none(), || format!("the child's turn ended with {}", turn.told()))?;
    let after = wrong("Replay", bench.client.replay(&main.uid, 0, 0).await)?;
    ensure(after == before, || format!("the parent's {} records are not what they were", before.len()))?;
    Ok(format!("the parent's {} records are what they were", after.len()))
}

async fn identity(bench: &Bench<'_>, main: &Main) -> Result<String, String> {
    let mut told = Vec::new();
    for (what, session) in [("a fork with an identity", main.uid.as_str()), ("the same of nobody", NOBODY)] {
        let identity = Some(v1::IdentityRef::default());
        let request = v1::ForkRequest { session: session.to_owned(), identity, ..request(bench, main, AT) };
        told.push(refused(what, forked(bench, request).await, &[Code::InvalidArgument]));
    }
    all(told)
}

async fn bounds(bench: &Bench<'_>, main: &Main) -> Result<String, String> {
    let many = v1::ForkRequest { count: 129, ..request(bench, main, AT) };
    let names = v1::ForkRequest { child_names: vec!["a".into(), "b".into()], ..request(bench, main, AT) };
    all(vec![
        refused("129 children", forked(bench, many).await, &[Code::InvalidArgument]),
        refused("two names for one child", forked(bench, names).await, &[Code::InvalidArgument]),
    ])
}

async fn listed(bench: &Bench<'_>) -> Result<usize, String> {
    let request = v1::ListSessionsRequest { project: bench.project.clone(), page_size: 500, ..Default::default() };
    Ok(wrong("ListSessions", bench.client.list(request).await)?.sessions.len())
}

async fn nothing(bench: &Bench<'_>, before: Result<usize, String>) -> Result<String, String> {
    let (before, after) = (before?, listed(bench).await?);
    ensure(before == after, || format!("{before} sessions were there before, {after} after"))?;
    Ok(format!("{after} sessions before and after"))
}

/// Hosts differ here: refused, or all of the parent with a marker that says the number that was asked for.
async fn beyond(bench: &Bench<'_>, main: &Main) -> Result<String, String> {
    let head = wrong("GetSession", bench.client.get(&main.uid).await)?.last_seq;
    match forked(bench, request(bench, main, head + 100)).await {
        Err(status) if matches!(status.code(), Code::OutOfRange | Code::InvalidArgument | Code::FailedPrecondition) => {
            Ok(format!("refused with {:?}", status.code()))
        }
        Err(status) => Err(said(&status)),
        Ok(children) => {
            for child in &children {
                let read = wrong("Replay", bench.client.replay(uid(child), 0, 0).await)?;
                let refs: Vec<_> = read.iter().collect();
                all(vec![dense(&refs, 1), hashes(&refs), links(&refs)])?;
            }
            Ok("accepted, with all of the parent".to_owned())
        }
    }
}

/// Cuts a child at its parent's first model call and resumes it: a crash at that very place, made without one.
async fn redrive(bench: &Bench<'_>, main: &Main, found: &mut Found) {
    let call = main.turn.records().into_iter().find(|record| kind(record) == EventKind::EventModelCall).cloned();
    let Some(call) = call else {
        for name in ["fork-redrive", "fork-resumes"] {
            found.push((name, Verdict::skipped("the turn asked no model")));
        }
        return;
    };
    match cut(bench, main, call.seq).await {
        Ok(records) => {
            found.push(("fork-redrive", Verdict::of(redriven(&records))));
            found.push(("fork-resumes", Verdict::of(resumed(&records, &event(&call).execution_id))));
        }
        Err(why) => {
            found.push(("fork-redrive", Verdict::failed(why)));
            found.push(("fork-resumes", Verdict::skipped("the cut turn could not be resumed")));
        }
    }
}

/// What a child cut at `at` appends when it is resumed.
async fn cut(bench: &Bench<'_>, main: &Main, at: i64) -> Result<Vec<v1::LogRecord>, String> {
    let child = fork(bench, main, at).await?;
    wrong("Resume", bench.client.resume(uid(&child)).await)?;
    wrong("Replay", bench.client.replay(uid(&child), at + 2, 0).await)
}

fn redriven(records: &[v1::LogRecord]) -> Result<String, String> {
    let told = kinds(records);
    ensure(records.first().is_some_and(|r| kind(r) == EventKind::EventOutput), || {
        format!("the answer does not come first: {told}")
    })?;
    Ok(told)
}

fn resumed(records: &[v1::LogRecord], execution: &str) -> Result<String, String> {
    let told = kinds(records);
    let again = records.iter().find(|r| matches!(kind(r), EventKind::EventExecutionStart | EventKind::EventInput));
    ensure(again.is_none(), || format!("it was begun again: {told}"))?;
    let other = records.iter().find(|r| kind(r) != EventKind::EventLifecycle && event(r).execution_id != execution);
    ensure(other.is_none(), || format!("it goes on under another id than {execution:?}"))?;
    ensure(records.iter().any(|r| kind(r) == EventKind::EventEnd), || format!("it did not end: {told}"))?;
    Ok(told)
}
