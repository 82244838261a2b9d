//! `inspan.v1.Journal`.

use std::sync::Arc;

use futures_util::StreamExt as _;
use inspan_wire::inspan_v1 as pb;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{Frames, frames, full_record};
use crate::Host;
use crate::fault::Fault;
use crate::host::WatchFrom;
use crate::proto::inspan_v1::journal_server::Journal;
use crate::update::Update;
use crate::watch::Want;

pub(super) struct Service(pub(super) Arc<Host>);

#[async_trait]
impl Journal for Service {
    type WatchStream = Frames<pb::WatchUpdate>;

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Answer<Self::WatchStream> {
        let request = request.into_inner();
        let want = if request.records_only { Want::RecordsAndState } else { Want::Everything };
        let updates = self.0.watch(&request.session, WatchFrom { seq: request.from_seq, want }).await?;
        Ok(Response::new(frames(updates, watch_update)))
    }

    async fn rerun(&self, request: Request<pb::RerunRequest>) -> Answer<pb::RerunResponse> {
        Ok(Response::new(self.0.rerun(&request.into_inner().session).await?))
    }

    async fn verify(&self, request: Request<pb::VerifyRequest>) -> Answer<pb::VerifyResponse> {
        Ok(Response::new(self.0.verify(&request.into_inner().session).await?))
    }

    async fn get_model_request(
        &self,
        request: Request<pb::GetModelRequestRequest>,
    ) -> Answer<pb::GetModelRequestResponse> {
        let request = request.into_inner();
        Ok(Response::new(self.0.model_request(&request.session, request.seq).await?))
    }

    type ExportStream = Frames<pb::Chunk>;

    async fn export(&self, request: Request<pb::ExportRequest>) -> Answer<Self::ExportStream> {
        let pieces = self.0.export(&request.into_inner().session).await?;
        Ok(Response::new(pieces.map(|piece| Ok(pb::Chunk { data: piece? })).boxed()))
    }

    async fn import(&self, request: Request<Streaming<pb::Chunk>>) -> Answer<pb::ImportResponse> {
        let pieces = request.into_inner().map(|chunk| match chunk {
            Ok(chunk) => Ok(chunk.data),
            Err(status) => Err(Fault::new(status.code(), status.message())),
        });
        Ok(Response::new(self.0.import(pieces).await?))
    }
}

type Answer<T> = Result<Response<T>, Status>;

fn watch_update(update: Update) -> Result<Option<pb::WatchUpdate>, Fault> {
    use pb::watch_update::Update as Frame;
    let frame = match update {
        Update::Session(session) => Frame::Session(*session),
        Update::Delta(delta) => Frame::Delta(Arc::unwrap_or_clone(delta)),
        Update::Heartbeat { last_seq } => Frame::Heartbeat(pb::Heartbeat { last_seq }),
        Update::Record(record, event) => Frame::Record(full_record(record, event)?),
    };
    Ok(Some(pb::WatchUpdate { update: Some(frame) }))
}
