//! Connections: TCP, TLS where the scheme asks for it, and one bound on both together.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

type Inner = HttpsConnector<HttpConnector>;
type BoxError = Box<dyn Error + Send + Sync>;

/// Connects within a time that covers name lookup, TCP and TLS.
#[derive(Clone)]
pub struct Connector {
    inner: Inner,
    limit: Duration,
}

impl Connector {
    /// A connector for `http` and, with what `tls` trusts, for `https`; `limit` bounds name lookup, TCP and TLS together.
    pub fn new(tls: ClientConfig, limit: Duration) -> Connector {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let inner =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
        Connector { inner, limit }
    }
}

/// TLS that trusts what this system trusts, or nothing when it is not needed: loading the roots takes
/// time and fails on systems without any.
///
/// # Errors
/// This system has no roots, and they are needed.
pub fn tls(needed: bool) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| e.to_string())?;
    let builder = match needed {
        true => builder.with_native_roots().map_err(|e| e.to_string())?,
        false => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}

impl Service<Uri> for Connector {
    type Response = <Inner as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let (connecting, limit) = (self.inner.call(target), self.limit);
        Box::pin(async move {
            match tokio::time::timeout(limit, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(format!("no connection within {} s", limit.as_secs_f64()).into()),
            }
        })
    }
}
