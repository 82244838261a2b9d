//! Each host breaks one rule, and fails that rule and no other.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use inspan_conformance::{Address, Report, host::Options, host::run};

use crate::proxy::{Fault, proxy};
use crate::support::{failed, our_host, skipped, told};

fn options() -> Options {
    Options {
        harness: "moves".to_owned(),
        input: "model x".to_owned(),
        gate: Some(("moves".to_owned(), "gate c k; result".to_owned())),
        patience: Duration::from_secs(20),
        ..Options::default()
    }
}

async fn judged(fault: Fault, host: &Address) -> Report {
    let served = proxy(fault, host).await;
    run(&served.address, &options()).await.expect("it answers")
}

/// Each fault, and the checks that it fails.
const FAULTS: &[(Fault, &[&str])] = &[
    (Fault::ForgetsAnnotations, &["R-LIST-4 create"]),
    (Fault::NewIsCompleted, &["R-LIFE-4 new-state"]),
    (Fault::UnknownHarnessIsNotFound, &["R-LIST-4 unknown-harness"]),
    (Fault::UnknownSessionIsInternal, &["W-CODE unknown-session"]),
    (Fault::EmptySessionIsNotFound, &["W-CODE empty-session"]),
    (Fault::NoFirstFrame, &["W-EXEC exec-first", "W-EXEC exec-creates"]),
    (Fault::FirstFrameAfter, &["W-EXEC exec-first"]),
    (Fault::OddEnd, &["R-LIVE-1 exec-end"]),
    (Fault::ExecSkips, &["R-CAS-4 exec-dense", "R-CAS-4 head-right"]),
    (Fault::NoInputCount, &["R-START-1 exec-start"]),
    (Fault::NoHarnessName, &["R-START-2 exec-name"]),
    (Fault::OtherExecution, &["R-EXEC-2 exec-ids"]),
    (Fault::ShownTooEarly, &["R-LIVE-2 durable-first"]),
    (Fault::MoreOfTheCall, &["R-HASH-11 model-record"]),
    (Fault::Actor, &["R-HASH-10 plain-records"]),
    (Fault::BadHash, &["R-HASH-1 hashes"]),
    (Fault::BadLink, &["R-HASH-8 links"]),
    (Fault::ReplaySkips, &["R-REPLAY-7 replay-same"]),
    (Fault::ReplayIgnoresRange, &["R-REPLAY-7 replay-range"]),
    (Fault::UnknownReplayFails, &["R-REPLAY-7 replay-unknown"]),
    (Fault::AnyHead, &["R-CAS-4 head-wrong"]),
    (Fault::HeadIsPrecondition, &["R-CAS-4 head-wrong", "R-CAS-5 one-writer"]),
    (Fault::EveryRacer, &["R-CAS-5 one-writer"]),
    (Fault::NoDeadline, &["W-CODE deadline"]),
    (Fault::ResumeRuns, &["R-RESUME-1 resume-nothing"]),
    (Fault::NoSuspend, &["R-LIFE-1 suspend"]),
    (Fault::StaysCold, &["R-LIFE-2 resume-live", "R-LIFE-5 agree"]),
    (Fault::GetIsWarm, &["R-LIFE-5 agree"]),
    (Fault::OddMarker, &["R-FORK-1 fork-prefix"]),
    (Fault::ForkRunsParent, &["R-FORK-2 fork-parent"]),
    (Fault::ForkForgetsName, &["R-FORK-3 fork-fields"]),
    (Fault::ForkTakesIdentity, &["R-FORK-4 fork-identity"]),
    (Fault::ForkTakesNames, &["R-FORK-5 fork-bounds"]),
    (Fault::RefusedForkLeavesChild, &["R-FORK-6 fork-nothing", "R-LIST-1 list-order"]),
    (Fault::ForkBeyondIsInternal, &["R-HASH-7 fork-beyond"]),
    (Fault::AsksTwice, &["R-MODEL-12 fork-redrive"]),
    (Fault::BeginsAgain, &["R-RESUME-3 fork-resumes"]),
    (Fault::OldestFirst, &["R-LIST-1 list-order", "R-LIST-1 list-pages"]),
    (Fault::PagesRepeat, &["R-LIST-1 list-pages"]),
    (Fault::AnyToken, &["R-LIST-2 list-token"]),
    (Fault::HidesFresh, &["R-LIST-3 list-fresh", "R-LIST-1 list-order"]),
    (Fault::IncompleteIsNotFound, &["R-APPR-16 approve-fields"]),
    (Fault::NothingIsApproved, &["R-APPR-19 approve-nothing"]),
    (Fault::ParkGoesOn, &["R-APPR-2 gate-parks"]),
    (Fault::NoLastFrame, &["R-APPR-6 gate-handoff"]),
    (Fault::HidesGate, &["R-APPR-15 gate-shown"]),
    (Fault::TakesInputs, &["R-APPR-24 gate-blocks"]),
    (Fault::ResumeMoves, &["R-APPR-22 gate-waits"]),
    (Fault::NoDecisionTime, &["R-APPR-17 gate-decides"]),
    (Fault::AgainIsRefused, &["R-APPR-18 gate-again"]),
    (Fault::NoDenial, &["R-APPR-26 gate-denied"]),
];

/// A proxy that changes nothing changes nothing: only Watch, which is no part of the Sessions service, is not there.
#[tokio::test(flavor = "multi_thread")]
async fn a_sound_host_passes_every_check() {
    let host = our_host().await;
    let report = judged(Fault::None, &host.address).await;
    assert!(report.is_pass() && skipped(&report) == ["watch"], "{}", told(&report));
}

/// R-HASH-1, R-HASH-8, R-CAS-4, R-REPLAY-7, R-FORK-1 to R-FORK-6, R-LIST-1 to R-LIST-4, R-APPR-16 to R-APPR-19 and the others of the
/// table: each is failed by a host that breaks it, and by no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_host_fails_the_rule_that_it_breaks() {
    let host = our_host().await;
    let address = &host.address;
    let wrong: Vec<String> = stream::iter(FAULTS)
        .map(|(fault, due)| async move {
            let report = judged(*fault, address).await;
            let due: BTreeSet<String> = due.iter().map(|check| (*check).to_owned()).collect();
            (failed(&report) != due).then(|| format!("{fault:?} fails {:?}:\n{}", failed(&report), told(&report)))
        })
        .buffer_unordered(4)
        .filter_map(|wrong| async { wrong })
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Every check of the table is failed by some host: a check that nothing fails proves nothing.
#[test]
fn every_check_can_fail() {
    let failing: BTreeSet<&str> = FAULTS.iter().flat_map(|(_, due)| due.iter().copied()).collect();
    let never: Vec<&str> = inspan_conformance::host::CHECKS
        .iter()
        .filter(|check| !failing.contains(format!("{} {}", check.rule, check.name).as_str()))
        .map(|check| check.name)
        .collect();
    assert_eq!(never, ["watch"], "it is no part of the service that the proxy speaks");
}
