//! `agentsessions.v1.Harness` over any harness.

use std::pin::Pin;
use std::sync::Arc;

use inspan_wire::v1;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::MESSAGE_BYTES_MAX;
use super::proto::harness_server::{self, HarnessServer};
use super::turn::Turn;
use crate::{Failure, Harness, contained};

/// A harness as a tonic service, for whoever serves it beside others: `Service::new(harness).into_server()`.
pub struct Service {
    harness: Arc<dyn Harness>,
}

impl Service {
    /// Serves `harness`.
    pub fn new(harness: impl Harness) -> Service {
        Service { harness: Arc::new(harness) }
    }

    /// The service with messages as large as the protocol needs them.
    pub fn into_server(self) -> HarnessServer<Service> {
        HarnessServer::new(self)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }
}

#[tonic::async_trait]
impl harness_server::Harness for Service {
    async fn describe(&self, _: Request<v1::DescribeRequest>) -> Result<Response<v1::HarnessDescriptor>, Status> {
        match contained(self.harness.describe()).await {
            Ok(descriptor) => Ok(Response::new(descriptor)),
            Err(Failure::Unavailable(text)) => Err(Status::unavailable(text)),
            Err(failure) => Err(Status::internal(failure.to_string())),
        }
    }

    type ConnectStream = Pin<Box<dyn Stream<Item = Result<v1::Event, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::ControllerFrame>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        Ok(Response::new(Box::pin(Turn::new(Arc::clone(&self.harness), request.into_inner()))))
    }
}
