//! Suspend and resume.

use inspan_wire::v1::{self, ComputeState, event::Body, lifecycle};

use super::client::{ensure, event, kinds, uid, wrong};
use super::{Bench, Found, Main};
use crate::Verdict;

pub(super) async fn judge(bench: &Bench<'_>, main: &Main, found: &mut Found) {
    let mut answers = Vec::new();
    found.push(("resume-nothing", Verdict::of(nothing(bench, main).await)));
    found.push(("suspend", Verdict::of(suspend(bench, main, &mut answers).await)));
    let resumed = match answers.is_empty() {
        true => Verdict::skipped("it could not be suspended"),
        false => Verdict::of(resume(bench, main, &mut answers).await),
    };
    found.push(("resume-live", resumed));
    found.push(("agree", Verdict::of(agree(bench, main, &answers).await)));
}

/// The records behind `head`, and the lifecycle kinds among them.
async fn behind(bench: &Bench<'_>, uid: &str, head: i64) -> Result<(Vec<v1::LogRecord>, Vec<lifecycle::Kind>), String> {
    let records = wrong("Replay", bench.client.replay(uid, head + 1, 0).await)?;
    let lives = records.iter().filter_map(|record| match event(record).body {
        Some(Body::Lifecycle(life)) => Some(life.kind()),
        _ => None,
    });
    let lives = lives.collect();
    Ok((records, lives))
}

async fn head(bench: &Bench<'_>, uid: &str) -> Result<i64, String> {
    Ok(wrong("GetSession", bench.client.get(uid).await)?.last_seq)
}

/// R-RESUME-5: other hosts append RESUME here each time; nothing else may come.
async fn nothing(bench: &Bench<'_>, main: &Main) -> Result<String, String> {
    let before = head(bench, &main.uid).await?;
    wrong("Resume", bench.client.resume(&main.uid).await)?;
    let (records, lives) = behind(bench, &main.uid, before).await?;
    match (&records[..], &lives[..]) {
        ([], _) => Ok("nothing was appended".to_owned()),
        ([_], [lifecycle::Kind::LifecycleResume]) => Ok("only RESUME was appended".to_owned()),
        _ => Err(format!("{} was appended", kinds(&records))),
    }
}

async fn suspend(bench: &Bench<'_>, main: &Main, answers: &mut Vec<v1::Session>) -> Result<String, String> {
    let before = head(bench, &main.uid).await?;
    let session = wrong("Suspend", bench.client.suspend(&main.uid).await)?;
    let (records, lives) = behind(bench, &main.uid, before).await?;
    ensure(lives == [lifecycle::Kind::LifecycleSuspend] && records.len() == 1, || {
        format!("{} was appended", kinds(&records))
    })?;
    let compute = session.compute_state();
    ensure(compute == ComputeState::ComputeCold, || format!("compute_state is {}", compute.as_str_name()))?;
    answers.push(session);
    Ok("SUSPEND, and cold".to_owned())
}

async fn resume(bench: &Bench<'_>, main: &Main, answers: &mut Vec<v1::Session>) -> Result<String, String> {
    let before = head(bench, &main.uid).await?;
    let session = wrong("Resume", bench.client.resume(&main.uid).await)?;
    let (records, lives) = behind(bench, &main.uid, before).await?;
    ensure(lives == [lifecycle::Kind::LifecycleResume] && records.len() == 1, || {
        format!("{} was appended", kinds(&records))
    })?;
    let compute = session.compute_state();
    ensure(compute == ComputeState::ComputeLive, || format!("compute_state is {}", compute.as_str_name()))?;
    answers.push(session);
    Ok("RESUME, and live".to_owned())
}

/// What has to be the same wherever a session is shown.
fn shown(session: &v1::Session) -> (String, i64, i32, i32, String) {
    let (exec, compute) = (session.exec_state, session.compute_state);
    (uid(session).to_owned(), session.last_seq, exec, compute, session.harness.clone())
}

async fn agree(bench: &Bench<'_>, main: &Main, answers: &[v1::Session]) -> Result<String, String> {
    let got = wrong("GetSession", bench.client.get(&main.uid).await)?;
    let request = v1::ListSessionsRequest { project: bench.project.clone(), page_size: 500, ..Default::default() };
    let listed = wrong("ListSessions", bench.client.list(request).await)?;
    let listed = listed.sessions.iter().find(|s| uid(s) == main.uid).ok_or("it is not in the list")?;
    ensure(shown(&got) == shown(listed), || format!("Get says {:?} and List says {:?}", shown(&got), shown(listed)))?;
    let Some(last) = answers.last() else { return Ok("Get and List".to_owned()) };
    ensure(shown(&got) == shown(last), || {
        format!("Get says {:?} and the last answer says {:?}", shown(&got), shown(last))
    })?;
    Ok("Get, List and the last answer".to_owned())
}
