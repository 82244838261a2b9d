//! Serving, and reading a report.

use std::collections::BTreeSet;
use std::sync::Arc;

use inspan_conformance::{Address, Report, Verdict};
use inspan_host::catalog::{Static, in_process};
use inspan_host::engine::Model;
use inspan_host::journal::{Blobs, Journal, blob, memory};
use inspan_host::models;
use inspan_host::server::{self, Config, Server};
use inspan_host::system::System;
use inspan_testkit::harness::Moves;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::server::TcpIncoming;

/// A task that ends with its test.
pub(crate) struct Served {
    pub(crate) address: Address,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves what `router` is made of on a free port.
pub(crate) async fn serve(router: tonic::transport::server::Router) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address").to_string().parse().expect("an address");
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let task = tokio::spawn(async move { router.serve_with_incoming(incoming).await.expect("it serves to its end") });
    Served { address, task }
}

/// Our host, with `echo` and `moves`.
pub(crate) async fn our_host() -> Served {
    let blobs: Arc<dyn Blobs> = Arc::new(blob::Memory::new());
    let journal: Arc<dyn Journal> = Arc::new(memory::Store::new(blobs, Arc::new(System)));
    let model: Arc<dyn Model> = Arc::new(models::Echo);
    let catalog = Static::new(Arc::clone(&model)).with(in_process("moves", Moves::default(), model));
    let anywhere = server::Address::Tcp(([127, 0, 0, 1], 0).into());
    let bound = Server::bind(Config::new(anywhere, journal, Arc::new(catalog))).await.expect("a port");
    let address = bound.address().to_string().parse().expect("an address");
    let task = tokio::spawn(async move {
        bound.serve(std::future::pending()).await;
    });
    Served { address, task }
}

/// The checks that failed, each with its rule.
pub(crate) fn failed(report: &Report) -> BTreeSet<String> {
    let failed = report.findings.iter().filter(|f| matches!(f.verdict, Verdict::Failed(_)));
    failed.map(|f| format!("{} {}", f.check.rule, f.check.name)).collect()
}

/// The checks that were skipped.
pub(crate) fn skipped(report: &Report) -> Vec<&'static str> {
    let skipped = report.findings.iter().filter(|f| matches!(f.verdict, Verdict::Skipped(_)));
    skipped.map(|f| f.check.name).collect()
}

/// A report for the message of a failed test.
pub(crate) fn told(report: &Report) -> String {
    let line =
        |f: &inspan_conformance::Finding| format!("{:8} {}: {}", f.verdict.word(), f.check.name, f.verdict.text());
    report.findings.iter().map(line).collect::<Vec<_>>().join("\n")
}
