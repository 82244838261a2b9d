//! What is said of a session that has done nothing, and of sessions that are not there.

use inspan_wire::v1;
use tonic::{Code, Status};

use super::client::{Executed, all, ensure, refused, uid, wrong};
use super::{Bench, Found};
use crate::Verdict;

/// A uid of the right form that no host has given.
pub(super) const NOBODY: &str = "sess-000000000000000000000000";
const NO_HARNESS: &str = "no-harness-of-this-name";

pub(super) async fn judge(bench: &Bench<'_>, first: &Result<v1::Session, Status>, found: &mut Found) {
    found.push(("create", Verdict::of(create(bench).await)));
    found.push((
        "new-state",
        Verdict::of(match first {
            Ok(session) => new_state(session),
            Err(status) => wrong("CreateSession", Err(status.clone())),
        }),
    ));
    found.push(("unknown-harness", Verdict::of(unknown_harness(bench).await)));
    found.push(("unknown-session", Verdict::of(on_session(bench, NOBODY, Code::NotFound).await)));
    found.push(("empty-session", Verdict::of(on_session(bench, "", Code::InvalidArgument).await)));
}

async fn create(bench: &Bench<'_>) -> Result<String, String> {
    let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    let mut asked = bench.session("described");
    asked.labels.insert("second".to_owned(), "label".to_owned());
    asked.annotations = [pair("note", "of the conformance kit")].into();
    asked.identity = Some(v1::IdentityRef { principal: "kit".into(), issuer: "i".into(), subject: "s".into() });
    asked.origin = Some(v1::Origin {
        source: "kit".into(),
        uri: "urn:kit".into(),
        attributes: [pair("a", "b")].into(),
        ..Default::default()
    });
    let made = wrong("CreateSession", bench.create_with(asked.clone()).await)?;
    ensure(!uid(&made).is_empty(), || "the session has no uid".to_owned())?;
    let read = wrong("GetSession", bench.client.get(uid(&made)).await)?;
    for (what, session) in [("CreateSession", &made), ("GetSession", &read)] {
        let meta = session.metadata.clone().unwrap_or_default();
        let same = [
            ("project", meta.project == bench.project),
            ("name", meta.name == "described"),
            ("create_time", meta.create_time.is_some()),
            ("labels", session.labels == asked.labels),
            ("annotations", session.annotations == asked.annotations),
            ("identity", session.identity == asked.identity),
            ("origin", session.origin == asked.origin),
        ];
        if let Some((field, _)) = same.iter().find(|(_, same)| !same) {
            return Err(format!("{what} does not give the {field} that was set"));
        }
    }
    Ok("everything that was set is there".to_owned())
}

fn new_state(session: &v1::Session) -> Result<String, String> {
    let (exec, compute) = (session.exec_state(), session.compute_state());
    ensure(session.last_seq == 0, || format!("last_seq is {}", session.last_seq))?;
    ensure(exec == v1::ExecState::ExecPending, || format!("exec_state is {}", exec.as_str_name()))?;
    ensure(compute == v1::ComputeState::ComputeNone, || format!("compute_state is {}", compute.as_str_name()))?;
    Ok("pending, at 0, without compute".to_owned())
}

async fn unknown_harness(bench: &Bench<'_>) -> Result<String, String> {
    let session = v1::Session { harness: NO_HARNESS.to_owned(), ..bench.session("of-nobody") };
    let created = refused("CreateSession", bench.client.create(session).await, &[Code::InvalidArgument])?;
    let request = v1::ExecRequest { harness: NO_HARNESS.to_owned(), ..Default::default() };
    let executed = bench.client.exec(request).await;
    ensure(executed.frames.is_empty(), || format!("Exec sent {} frames before it refused", executed.frames.len()))?;
    Ok(format!("{created}; {}", refused("Exec", result(executed), &[Code::InvalidArgument])?))
}

/// How an Exec ended, as an answer.
pub(super) fn result(executed: Executed) -> Result<(), Status> {
    executed.refused.map_or(Ok(()), Err)
}

/// Every call that names a session, on one that is not there. What an empty uid means to Exec is another matter.
async fn on_session(bench: &Bench<'_>, uid: &str, code: Code) -> Result<String, String> {
    let client = &bench.client;
    let approve = v1::ApproveRequest {
        session: uid.to_owned(),
        execution_id: "e".to_owned(),
        tool_call_id: "c".to_owned(),
        request_seq: 1,
        approved: Some(true),
        ..Default::default()
    };
    let mut steps = vec![
        refused("GetSession", client.get(uid).await, &[code]),
        refused("Suspend", client.suspend(uid).await, &[code]),
        refused("Resume", client.resume(uid).await, &[code]),
        refused(
            "Fork",
            client.fork(v1::ForkRequest { session: uid.into(), count: 1, ..Default::default() }).await,
            &[code],
        ),
        refused("Approve", client.approve(approve).await, &[code]),
    ];
    if !uid.is_empty() {
        let executed = client.exec(bench.turn(uid, "hello")).await;
        ensure(executed.frames.is_empty(), || format!("Exec sent {} frames before it refused", executed.frames.len()))?;
        steps.push(refused("Exec", result(executed), &[code]));
    }
    all(steps).map(|_| format!("{code:?} from every call"))
}
