//! The gRPC spelling of the registry.

use axum::Router;
use inspan_wire::{DESCRIPTORS, v1};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::{Registrar, strict};
use crate::proto::HarnessRegistryServer;
use crate::proto::agentsessions_v1::harness_registry_server::HarnessRegistry;

/// The service behind its listener, with health and reflection.
pub(crate) async fn router(registrar: Registrar) -> Router {
    let registry = HarnessRegistryServer::new(Service(registrar)).max_decoding_message_size(strict::MESSAGE_BYTES_MAX);
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<HarnessRegistryServer<Service>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the committed descriptors decode");
    let routes = Routes::new(registry).add_service(health_service).add_service(reflection);
    routes.into_axum_router().layer(axum::middleware::from_fn(strict::refuse_unknown_fields))
}

struct Service(Registrar);

#[tonic::async_trait]
impl HarnessRegistry for Service {
    async fn register_harness(
        &self,
        request: Request<v1::RegisterHarnessRequest>,
    ) -> Result<Response<v1::RegisterHarnessResponse>, Status> {
        Ok(Response::new(self.0.register(request.into_inner()).await?))
    }

    async fn get_harness(
        &self,
        request: Request<v1::GetHarnessRequest>,
    ) -> Result<Response<v1::HarnessRegistration>, Status> {
        Ok(Response::new(self.0.get(request.into_inner()).await?))
    }

    async fn list_harnesses(
        &self,
        request: Request<v1::ListHarnessesRequest>,
    ) -> Result<Response<v1::ListHarnessesResponse>, Status> {
        Ok(Response::new(self.0.list(request.into_inner()).await?))
    }

    async fn retire_harness(
        &self,
        request: Request<v1::RetireHarnessRequest>,
    ) -> Result<Response<v1::HarnessRegistration>, Status> {
        Ok(Response::new(self.0.retire(request.into_inner()).await?))
    }
}
