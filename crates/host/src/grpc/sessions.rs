//! `agentsessions.v1.Sessions`.

use std::sync::Arc;

use inspan_wire::v1;
use tonic::{Request, Response, Status, async_trait};

use super::{Frames, call_timeout, frames, log_record};
use crate::Host;
use crate::exec::together;
use crate::fault::Fault;
use crate::proto::agentsessions_v1::sessions_server::Sessions;
use crate::update::Update;

pub(super) struct Service(pub(super) Arc<Host>);

#[async_trait]
impl Sessions for Service {
    async fn create_session(&self, request: Request<v1::CreateSessionRequest>) -> Answer<v1::Session> {
        Ok(Response::new(self.0.create(request.into_inner()).await?))
    }

    async fn get_session(&self, request: Request<v1::GetSessionRequest>) -> Answer<v1::Session> {
        Ok(Response::new(self.0.get(&request.into_inner().uid).await?))
    }

    async fn list_sessions(&self, request: Request<v1::ListSessionsRequest>) -> Answer<v1::ListSessionsResponse> {
        Ok(Response::new(self.0.list(request.into_inner()).await?))
    }

    async fn delete_session(&self, request: Request<v1::DeleteSessionRequest>) -> Answer<v1::Session> {
        Ok(Response::new(self.0.delete(&request.into_inner().uid).await?))
    }

    type ExecStream = Frames<v1::ExecUpdate>;

    async fn exec(&self, request: Request<v1::ExecRequest>) -> Answer<Self::ExecStream> {
        // The caller's deadline bounds the admission; the turn itself outlives its caller and is
        // bounded by `deadline_unix`.
        let timeout = call_timeout(request.metadata());
        let accepted = self.0.exec(request.into_inner());
        let updates = match timeout {
            None => accepted.await?,
            Some(timeout) => tokio::time::timeout(timeout, accepted)
                .await
                .map_err(|_| Status::deadline_exceeded("the call's deadline passed before the turn was accepted"))??,
        };
        Ok(Response::new(frames(together(updates).await, exec_update)))
    }

    type ReplayStream = Frames<v1::LogRecord>;

    async fn replay(&self, request: Request<v1::ReplayRequest>) -> Answer<Self::ReplayStream> {
        let records = self.0.replay(request.get_ref()).await?;
        Ok(Response::new(frames(records, log_record)))
    }

    async fn approve(&self, request: Request<v1::ApproveRequest>) -> Answer<v1::ApproveResponse> {
        Ok(Response::new(self.0.approve(request.into_inner()).await?))
    }

    async fn cancel(&self, request: Request<v1::CancelRequest>) -> Answer<v1::Session> {
        Ok(Response::new(self.0.cancel(request.into_inner()).await?))
    }

    async fn suspend(&self, request: Request<v1::SuspendRequest>) -> Answer<v1::Session> {
        Ok(Response::new(self.0.suspend(&request.into_inner().session).await?))
    }

    async fn resume(&self, request: Request<v1::ResumeRequest>) -> Answer<v1::Session> {
        Ok(Response::new(self.0.resume(&request.into_inner().session).await?))
    }

    async fn fork(&self, request: Request<v1::ForkRequest>) -> Answer<v1::ForkResponse> {
        Ok(Response::new(self.0.fork(request.into_inner()).await?))
    }
}

type Answer<T> = Result<Response<T>, Status>;

/// `agentsessions.v1` has no heartbeat: HTTP/2 pings keep an Exec stream alive.
fn exec_update(update: Update) -> Result<Option<v1::ExecUpdate>, Fault> {
    use v1::exec_update::Update as Frame;
    let frame = match update {
        Update::Session(session) => Frame::Session(*session),
        Update::Delta(delta) => Frame::Delta(Arc::unwrap_or_clone(delta)),
        Update::Record(..) => match log_record(update)? {
            Some(record) => Frame::Record(record),
            None => return Ok(None),
        },
        Update::Heartbeat { .. } => return Ok(None),
    };
    Ok(Some(v1::ExecUpdate { update: Some(frame) }))
}
