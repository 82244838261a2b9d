//! One function for each kind of operation: from a request to the host's answer.

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use inspan_wire::v1;
use serde_json::json;
use tonic::Code;

use super::params::{Params, Path};
use super::routes::{EXPORT_TYPE, Op, Route};
use super::stream::{self, Form};
use super::{Refusal, body};
use crate::fault::Fault;
use crate::host::{Host, WatchFrom};
use crate::openapi;
use crate::update::Updates;
use crate::watch::Want;

/// Answers a request to `route`.
pub(super) async fn handle(host: &Host, route: &Route, path: Path, request: Request) -> Result<Response, Refusal> {
    let query = Params::read(request.uri(), route.query)?;
    let uid = path.text("uid");
    match route.op {
        Op::CreateSession => body::answer(&host.create(body::required(request).await?).await?),
        Op::ListSessions => list(host, &query).await,
        Op::GetSession => body::answer(&host.get(uid).await?),
        Op::DeleteSession => body::answer(&host.delete(uid).await?),
        Op::Exec => {
            let form = Form::of(request.headers());
            let mut exec: v1::ExecRequest = body::required(request).await?;
            name(&mut exec.session, uid)?;
            Ok(respond(host, host.exec(exec).await?, form))
        }
        Op::ExecNew => {
            let form = Form::of(request.headers());
            Ok(respond(host, host.exec(body::required(request).await?).await?, form))
        }
        Op::Records => records(host, uid, &query, request.headers()).await,
        Op::Watch => watch(host, uid, query.int64("from")?, Want::Everything, request.headers()).await,
        Op::ModelRequest => model_request(host, uid, path.seq()?).await,
        Op::Blob => blob(host, uid, path.text("digest")).await,
        Op::Suspend => {
            let mut suspend: v1::SuspendRequest = body::optional(request).await?;
            name(&mut suspend.session, uid)?;
            body::answer(&host.suspend(uid).await?)
        }
        Op::Resume => {
            let mut resume: v1::ResumeRequest = body::optional(request).await?;
            name(&mut resume.session, uid)?;
            body::answer(&host.resume(uid).await?)
        }
        Op::Fork => {
            let mut fork: v1::ForkRequest = body::optional(request).await?;
            name(&mut fork.session, uid)?;
            body::answer(&host.fork(fork).await?)
        }
        Op::Cancel => {
            let mut cancel: v1::CancelRequest = body::optional(request).await?;
            name(&mut cancel.session, uid)?;
            body::answer(&host.cancel(cancel).await?)
        }
        Op::Approve => {
            let mut decide: inspan_wire::inspan_v1::DecideRequest = body::required(request).await?;
            name(&mut decide.session, uid)?;
            body::answer(&host.decide(decide).await?)
        }
        Op::ListAsks => asks(host, &query).await,
        Op::Rerun => {
            let mut rerun: inspan_wire::inspan_v1::RerunRequest = body::optional(request).await?;
            name(&mut rerun.session, uid)?;
            body::answer(&host.rerun(uid).await?)
        }
        Op::Verify => {
            let mut verify: inspan_wire::inspan_v1::VerifyRequest = body::optional(request).await?;
            name(&mut verify.session, uid)?;
            body::answer(&host.verify(uid).await?)
        }
        Op::Export => {
            let headers = [(header::CONTENT_TYPE, EXPORT_TYPE), (header::CONTENT_DISPOSITION, "attachment")];
            Ok((headers, Body::from_stream(host.export(uid).await?)).into_response())
        }
        Op::Import => body::answer(&host.import(body::file(request)?).await?),
        Op::Harnesses => Ok(harnesses(host)),
        Op::Health => health(host),
        Op::OpenApi => Ok(Json(openapi::document()).into_response()),
    }
}

/// The session of a request is the one in its path; a body may repeat it but not contradict it.
fn name(in_body: &mut String, uid: &str) -> Result<(), Refusal> {
    if !in_body.is_empty() && in_body != uid {
        return Err(Refusal::invalid(format!("the body names session {in_body:?} and the path {uid:?}")));
    }
    uid.clone_into(in_body);
    Ok(())
}

fn respond(host: &Host, updates: Updates, form: Form) -> Response {
    stream::respond(updates, form, Some(host.settings().heartbeat))
}

async fn list(host: &Host, query: &Params) -> Result<Response, Refusal> {
    let request = v1::ListSessionsRequest {
        project: query.text("project").unwrap_or_default().to_owned(),
        page_size: query.int32("page_size")?,
        page_token: query.text("page_token").unwrap_or_default().to_owned(),
    };
    body::answer(&host.list(request).await?)
}

async fn asks(host: &Host, query: &Params) -> Result<Response, Refusal> {
    let request = inspan_wire::inspan_v1::ListAsksRequest {
        project: query.text("project").unwrap_or_default().to_owned(),
        page_size: query.int32("page_size")?,
        page_token: query.text("page_token").unwrap_or_default().to_owned(),
    };
    body::answer(&host.asks(request).await?)
}

async fn records(host: &Host, uid: &str, query: &Params, headers: &HeaderMap) -> Result<Response, Refusal> {
    let from_seq = query.int64("from")?;
    if query.bool("follow")? {
        if query.text("to").is_some() {
            return Err(Refusal::invalid("to and follow=true contradict each other"));
        }
        return watch(host, uid, from_seq, Want::Records, headers).await;
    }
    let from_seq = match stream::last_event_id(headers)? {
        Some(last) => last + 1,
        None => from_seq,
    };
    let replay = v1::ReplayRequest { session: uid.to_owned(), from_seq, to_seq: query.int64("to")? };
    Ok(respond(host, host.replay(&replay).await?, Form::of(headers)))
}

async fn watch(host: &Host, uid: &str, from: i64, want: Want, headers: &HeaderMap) -> Result<Response, Refusal> {
    let seq = match stream::last_event_id(headers)? {
        Some(last) => last + 1,
        None => from,
    };
    let updates = host.watch(uid, WatchFrom { seq, want }).await?;
    Ok(stream::respond(updates, Form::of(headers), None))
}

async fn model_request(host: &Host, uid: &str, seq: i64) -> Result<Response, Refusal> {
    let kept = host.model_request(uid, seq).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], kept.text).into_response())
}

async fn blob(host: &Host, uid: &str, digest: &str) -> Result<Response, Refusal> {
    let bytes = host.blob(uid, digest).await?;
    // Whatever an agent wrote must not run as a page of this host.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::CONTENT_SECURITY_POLICY, "sandbox"),
    ];
    Ok((headers, bytes).into_response())
}

fn health(host: &Host) -> Result<Response, Refusal> {
    if host.is_stopping() {
        return Err(Fault::new(Code::Unavailable, "the host is stopping and takes no new work").into());
    }
    Ok(Json(json!({ "status": "SERVING" })).into_response())
}

fn harnesses(host: &Host) -> Response {
    let catalog = host.engine().catalog();
    Json(json!({ "harnesses": catalog.names(), "default": catalog.default_name() })).into_response()
}
