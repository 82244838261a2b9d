//! `inspan approve` and `inspan deny`: decide on the call that a session waits with, then wake it.

use inspan_wire::{inspan_v1 as pb, json, v1};
use tonic::Status;

use crate::client::{Client, Target};
use crate::error::Error;
use crate::lines;
use crate::output::Dress;

/// What both verbs take. Without the three that name a call, the session says which one it waits with.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The session
    #[arg(value_name = "UID", conflicts_with = "session", required_unless_present = "session")]
    uid: Option<String>,
    /// The session
    #[arg(long, value_name = "UID")]
    session: Option<String>,
    /// The turn that waits
    #[arg(long, value_name = "ID", requires_all = ["tool_call", "request_seq"])]
    execution: Option<String>,
    /// The call that it waits with
    #[arg(long, value_name = "ID", requires_all = ["execution", "request_seq"])]
    tool_call: Option<String>,
    /// The record that asks
    #[arg(long, value_name = "SEQ", requires_all = ["execution", "tool_call"])]
    request_seq: Option<i64>,
    /// Digest of the arguments that were looked at, as `inspan asks` shows it: a call with others is not decided on
    #[arg(long, value_name = "DIGEST", default_value = "", hide_default_value = true)]
    digest: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// Who decides, for the record
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    actor: String,
    /// Who vouches for that name
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    identity_issuer: String,
    /// The name's subject at its issuer
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    identity_subject: String,
}

pub(crate) async fn run(args: Args, approved: bool) -> Result<(), Error> {
    let verb = if approved { "approve" } else { "deny" };
    let uid = args.uid.clone().or_else(|| args.session.clone()).unwrap_or_default();
    let target = args.target.clone();
    let answer = Client::with(&target, async |client| {
        let waits = waiting(&args, client, &uid, verb).await?;
        let request = pb::DecideRequest {
            session: uid.clone(),
            execution_id: waits.execution_id,
            tool_call_id: waits.tool_call_id,
            request_seq: waits.request_seq,
            approved: Some(approved),
            reason: args.reason.clone(),
            identity: identity(&args),
            args_digest: args.digest.clone(),
        };
        let mut answer = decide(client, request).await.map_err(|s| args.target.rpc_error(verb, &uid, &s))?;
        let seq = answer.decision.as_ref().map_or(0, |record| record.seq);
        let resumed = client.sessions.resume(v1::ResumeRequest { session: uid.clone(), ..Default::default() }).await;
        let session = resumed.map_err(|s| {
            let failed = args.target.rpc_error("resume", &uid, &s);
            let text = format!("decision committed at seq {seq} for session {uid}; Resume failed: {}", failed.text());
            Error::new(text, args.target.command("resume", &uid))
        })?;
        answer.session = Some(session.into_inner());
        Ok(answer)
    });
    let answer = answer.await?;
    let mut out = target.out();
    match out.dress() {
        Dress::Json => out.json(json::to_camel_value(&answer)),
        Dress::Plain | Dress::Terminal { .. } => out.line(lines::decided(&uid, approved, &answer)),
    }
}

/// Records the decision. Without a digest any host of `agentsessions.v1` can.
async fn decide(client: &mut Client, request: pb::DecideRequest) -> Result<pb::DecideResponse, Status> {
    if !request.args_digest.is_empty() {
        return Ok(client.asks.decide(request).await?.into_inner());
    }
    let request = v1::ApproveRequest::from(request);
    let v1::ApproveResponse { session, decision } = client.sessions.approve(request).await?.into_inner();
    Ok(pb::DecideResponse { session, decision, args_digest: String::new() })
}

/// The call that is decided on: the one that was named, or the one that the session waits with.
async fn waiting(args: &Args, client: &mut Client, uid: &str, verb: &str) -> Result<v1::ApprovalRef, Error> {
    if let (Some(execution), Some(call), Some(seq)) = (&args.execution, &args.tool_call, args.request_seq) {
        let (execution_id, tool_call_id) = (execution.clone(), call.clone());
        return Ok(v1::ApprovalRef { execution_id, tool_call_id, request_seq: seq });
    }
    let session = client.sessions.get_session(v1::GetSessionRequest { uid: uid.to_owned() }).await;
    let session = session.map_err(|s| args.target.rpc_error(verb, uid, &s))?.into_inner();
    session.pending_approval.ok_or_else(|| {
        let text = format!("session {uid} waits for no decision: a turn that was decided already goes on with Resume");
        Error::new(text, args.target.command("resume", uid))
    })
}

fn identity(args: &Args) -> Option<v1::IdentityRef> {
    let identity = v1::IdentityRef {
        principal: args.actor.clone(),
        issuer: args.identity_issuer.clone(),
        subject: args.identity_subject.clone(),
    };
    (identity != v1::IdentityRef::default()).then_some(identity)
}
