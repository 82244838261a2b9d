//! TLS, with a root that only this test trusts.
//!
//! `testdata` holds a root, a certificate of it for `localhost`, and that one's key. They are of no use elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::Post;
use crate::config::{Api, Provider};

/// A day on which the certificates hold, so that the test does not depend on this one.
#[derive(Debug)]
struct Fixed;

impl TimeProvider for Fixed {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000)))
    }
}

fn ring() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn client(trusting: bool) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    if trusting {
        let root = CertificateDer::from(include_bytes!("testdata/root.der").as_slice());
        roots.add(root).expect("the root is a certificate");
    }
    let builder = ClientConfig::builder_with_details(ring(), Arc::new(Fixed));
    let builder = builder.with_safe_default_protocol_versions().expect("ring speaks the default versions");
    builder.with_root_certificates(roots).with_no_client_auth()
}

/// A server that answers every request with `ok`; gives its port and the number of connections.
async fn serve() -> (u16, Arc<AtomicUsize>) {
    let certificate = CertificateDer::from(include_bytes!("testdata/server.der").as_slice());
    let key = PrivatePkcs8KeyDer::from(include_bytes!("testdata/server.key.der").as_slice());
    let builder = ServerConfig::builder_with_provider(ring()).with_safe_default_protocol_versions();
    let builder = builder.expect("ring speaks the default versions").with_no_client_auth();
    let config = builder.with_single_cert(vec![certificate], key.into()).expect("the key fits the certificate");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let port = listener.local_addr().expect("a bound socket has an address").port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            // A client that does not trust us is the point of one of the tests.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        }
    });
    (port, connections)
}

fn provider(port: u16) -> Provider {
    let mut provider = Provider::new(Api::OpenAi, "m");
    provider.base_url = format!("https://localhost:{port}").parse().expect("a good address");
    provider.retry.base = Duration::ZERO;
    provider
}

#[tokio::test]
async fn https_reaches_a_server_that_is_trusted() {
    let (port, _) = serve().await;
    let post = Post::with_tls(&provider(port), client(true)).expect("a good provider");
    let answer = post.send("{}".into()).await.expect("an answer");
    assert_eq!(answer.headers()["content-length"], "2");
}

/// Nothing was sent, so it is safe to try again: four times by default.
#[tokio::test]
async fn a_failed_connect_is_tried_again_as_often_as_the_policy_says() {
    let (port, connections) = serve().await;
    let post = Post::with_tls(&provider(port), client(false)).expect("a good provider");
    let error = post.send("{}".into()).await.expect_err("not trusted");
    assert!(error.retryable && error.message.contains("UnknownIssuer"), "{error}");
    assert_eq!(connections.load(Ordering::SeqCst), 4);
}
