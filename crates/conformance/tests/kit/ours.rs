//! The kit on our own harnesses and our own host.

use std::time::Duration;

use inspan_conformance::{Report, harness, host};
use inspan_harness::Harness;
use inspan_harness::reference::{Chat, Counter, Echo};
use inspan_harness::serve::Service;
use inspan_testkit::harness::Moves;

use crate::support::{our_host, serve, skipped, told};

async fn judged(ours: impl Harness, options: harness::Options) -> Report {
    let router = tonic::transport::Server::builder().add_service(Service::new(ours).into_server());
    let served = serve(router).await;
    let options = harness::Options { slow: Duration::from_millis(50), ..options };
    let report = harness::run(&served.address, &options).await.expect("it answers");
    assert!(report.is_pass(), "{}", told(&report));
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_harnesses_break_no_rule() {
    let expecting = |id: &str| harness::Options { expect_id: Some(id.to_owned()), ..harness::Options::default() };
    judged(Echo, expecting("echo")).await;
    let prompted = harness::Options { config: br#"{"system_prompt":"Be brief."}"#.into(), ..expecting("chat") };
    judged(Chat::new("m"), prompted).await;
    let counter = judged(Counter::default(), expecting("counter")).await;
    assert!(skipped(&counter).contains(&"replay-order"), "its turns do not repeat, which is said:\n{}", told(&counter));
}

/// Our own end of the protocol does everything that a harness can do.
#[tokio::test(flavor = "multi_thread")]
async fn what_serves_our_harnesses_passes_every_check() {
    let inputs = ["out a; usage 3; report r; model x; again", "tool c k; result", "gate c k; gate d l; model y"];
    let options = harness::Options {
        inputs: inputs.map(str::to_owned).into(),
        expect_id: Some("moves".to_owned()),
        expect_tool: true,
        expect_gate: true,
        ..harness::Options::default()
    };
    let report = judged(Moves::default(), options).await;
    assert!(skipped(&report).is_empty(), "{}", told(&report));
}

#[tokio::test(flavor = "multi_thread")]
async fn our_host_passes_every_check() {
    let served = our_host().await;
    let gate = Some(("moves".to_owned(), "gate c k; result".to_owned()));
    let options = host::Options { gate, ..host::Options::default() };
    let report = host::run(&served.address, &options).await.expect("it answers");
    assert!(report.is_pass() && skipped(&report).is_empty(), "{}", told(&report));
    assert!(report.notes[0].contains("conformance-") && report.notes[0].contains(host::LABEL), "{:?}", report.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_no_verdict() {
    let nobody = "127.0.0.1:1".parse().expect("an address");
    let no_harness = harness::run(&nobody, &harness::Options::default()).await.expect_err("nobody is there");
    let no_host = host::run(&nobody, &host::Options::default()).await.expect_err("nobody is there");
    assert!(no_harness.to_string().starts_with("no harness answers at 127.0.0.1:1"), "{no_harness}");
    assert!(no_host.to_string().starts_with("no host answers at 127.0.0.1:1"), "{no_host}");
}
