//! `inspan.v1.Asks`.

use std::sync::Arc;

use inspan_wire::inspan_v1 as pb;
use tonic::{Request, Response, Status, async_trait};

use crate::Host;
use crate::proto::inspan_v1::asks_server::Asks;

pub(super) struct Service(pub(super) Arc<Host>);

#[async_trait]
impl Asks for Service {
    async fn list_asks(&self, request: Request<pb::ListAsksRequest>) -> Result<Response<pb::ListAsksResponse>, Status> {
        Ok(Response::new(self.0.asks(request.into_inner()).await?))
    }

    async fn decide(&self, request: Request<pb::DecideRequest>) -> Result<Response<pb::DecideResponse>, Status> {
        Ok(Response::new(self.0.decide(request.into_inner()).await?))
    }
}
