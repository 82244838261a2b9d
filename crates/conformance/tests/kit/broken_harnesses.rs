//! Each harness breaks one rule, and fails that rule and no other.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use inspan_conformance::{Report, harness::Options, harness::run};

use crate::harness::{Fault, PATIENCE, SMALL, harness};
use crate::support::{failed, skipped, told};

fn options() -> Options {
    Options {
        inputs: ["model", "tools", "quiet", "tools gate model"].map(str::to_owned).into(),
        expect_id: Some("raw".to_owned()),
        expect_tool: true,
        expect_gate: true,
        patience: Duration::from_secs(20),
        hold: Duration::from_millis(10),
        slow: Duration::from_millis(50),
        large: 2 * SMALL,
        ..Options::default()
    }
}

async fn judged(fault: Fault, options: &Options) -> Report {
    let served = harness(fault).await;
    run(&served.address, options).await.expect("it answers")
}

/// The options for a fault that shows only when somebody has waited.
fn options_for(fault: Fault) -> Options {
    match fault {
        Fault::Silent => Options { inputs: vec!["model".to_owned()], patience: Duration::from_secs(2), ..options() },
        Fault::ParkOpen => Options { patience: Duration::from_secs(2), ..options() },
        Fault::AsksTwice => Options { hold: Duration::from_millis(100), ..options() },
        Fault::Impatient => Options { slow: PATIENCE * 2, ..options() },
        _ => options(),
    }
}

/// A harness that keeps every rule fails nothing and leaves no check without something to judge.
#[tokio::test(flavor = "multi_thread")]
async fn a_sound_harness_passes_every_check() {
    let report = judged(Fault::None, &options()).await;
    assert!(report.is_pass() && skipped(&report).is_empty(), "{}", told(&report));
}

/// What is not there is skipped with the reason, and failed when it was expected: never passed.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_seen_is_not_passed() {
    let plain = Options { inputs: vec!["model".to_owned()], expect_tool: false, expect_gate: false, ..options() };
    let report = judged(Fault::None, &plain).await;
    let skips = ["tool-key", "gate-id", "replay-tool", "foreign-tool", "park", "gate-goes-on", "gate-cut"];
    assert!(report.is_pass() && skips.iter().all(|name| skipped(&report).contains(name)), "{}", told(&report));

    let expecting = Options { expect_tool: true, expect_gate: true, expect_id: Some("other".to_owned()), ..plain };
    let failures = failed(&judged(Fault::None, &expecting).await);
    for check in ["R-TOOL-2 tool-key", "W-PARK park", "W-GATE gate-cut", "R-CAP-3 describe-id"] {
        assert!(failures.contains(check), "{check} in {failures:?}");
    }
}

/// Each fault, and the checks that it fails.
const FAULTS: &[(Fault, &[&str])] = &[
    (Fault::NoDescription, &["R-REMOTE-1 describe"]),
    (Fault::DescribesAnew, &["R-REMOTE-3 describe-same"]),
    (Fault::OddResumability, &["R-CAP-1 resumability"]),
    (Fault::AnyFirstFrame, &["W-2 first-frame"]),
    (Fault::ForeignEvent, &["W-1 envelope"]),
    (Fault::NoEnd, &["W-5 end-once"]),
    (Fault::Silent, &["W-5 end-once"]),
    (Fault::DoubleEnd, &["W-5 end-once"]),
    (Fault::OddState, &["W-6 end-state", "W-6 completes"]),
    (Fault::AlwaysFails, &["W-6 completes"]),
    (Fault::BadStatus, &["W-6 end-state"]),
    (Fault::TalksOn, &["W-10 last-word"]),
    (Fault::HostsKind, &["W-7 own-kinds"]),
    (Fault::Unasked, &["W-7 own-kinds"]),
    (Fault::Receipt, &["W-8 no-receipts"]),
    (Fault::AsksTwice, &["R-LIVE-5 one-at-a-time"]),
    (Fault::NoMediation, &["R-TOOL-1 tool-mediation"]),
    (Fault::NoKey, &["R-TOOL-2 tool-key"]),
    (Fault::UsedGateId, &["R-APPR-1 gate-id"]),
    (Fault::OtherModel, &["R-MODEL-4 replay-model"]),
    (Fault::OtherArguments, &["R-TOOL-7 replay-tool"]),
    (Fault::CallsSwapped, &["R-TOOL-7 replay-tool"]),
    (Fault::OtherOutput, &["R-OUT-1 replay-output"]),
    (Fault::OtherUsage, &["R-OUT-4 replay-usage"]),
    (Fault::Less, &["R-REPLAY-5 replay-order"]),
    (Fault::More, &["R-REPLAY-5 replay-order"]),
    (Fault::AnyModelId, &["W-1 foreign-model"]),
    (Fault::AnyResultId, &["W-1 foreign-tool"]),
    (Fault::AnyEnvelope, &["W-1 foreign-tool"]),
    (Fault::AnyOwner, &["W-8 owned-result"]),
    (Fault::AnyFrame, &["W-9 cancel-frame"]),
    (Fault::CloseIsAnswer, &["W-4 host-closes"]),
    (Fault::ToolErrorKills, &["R-TOOL-15 tool-fails"]),
    (Fault::ParkIgnored, &["W-PARK park"]),
    (Fault::ParkIsEnd, &["W-PARK park"]),
    (Fault::ParkOther, &["W-PARK park"]),
    (Fault::ParkEnds, &["W-PARK park", "W-5 end-once"]),
    (Fault::ParkOpen, &["W-PARK park"]),
    (Fault::AnyPark, &["W-PARK park-wrong"]),
    (Fault::OrdinaryPark, &["W-PARK park-ordinary"]),
    (Fault::OtherGate, &["R-APPR-30 gate-goes-on"]),
    (Fault::DenialKills, &["R-APPR-26 gate-denied"]),
    (Fault::AnyReceipt, &["W-GATE gate-receipt"]),
    (Fault::CutIsReceipt, &["W-GATE gate-cut"]),
    (Fault::ShortHistory, &["W-3 large-history"]),
    (Fault::ShortAnswer, &["R-MODEL-1 large-answer"]),
    (Fault::Impatient, &["W-4 slow-host"]),
    (Fault::OneTurn, &["W-3 side-by-side"]),
    (Fault::LeaksLost, &["W-9 cancelled"]),
    (Fault::DiesOfDeadline, &["W-9 deadline", "W-9 cancelled"]),
];

/// W-1 to W-10, the park exchange and the decided gate, R-TOOL-1, R-TOOL-2, R-TOOL-7, R-APPR-1, R-APPR-30, R-MODEL-4, R-OUT-1, R-OUT-4,
/// R-REPLAY-5: each is failed by a harness that breaks it, and by no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_harness_fails_the_rule_that_it_breaks() {
    let wrong: Vec<String> = stream::iter(FAULTS)
        .map(|(fault, due)| async move {
            // What a fault makes impossible is skipped, not expected.
            let options = Options { expect_tool: false, expect_gate: false, ..options_for(*fault) };
            let report = judged(*fault, &options).await;
            let due: BTreeSet<String> = due.iter().map(|check| (*check).to_owned()).collect();
            (failed(&report) != due).then(|| format!("{fault:?} fails {:?}:\n{}", failed(&report), told(&report)))
        })
        .buffer_unordered(4)
        .filter_map(|wrong| async { wrong })
        .collect()
        .await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Every check of the table is failed by some harness: a check that nothing fails proves nothing.
#[test]
fn every_check_can_fail() {
    let failing: BTreeSet<&str> = FAULTS.iter().flat_map(|(_, due)| due.iter().copied()).collect();
    let never: Vec<&str> = inspan_conformance::harness::CHECKS
        .iter()
        .filter(|check| !failing.contains(format!("{} {}", check.rule, check.name).as_str()))
        .map(|check| check.name)
        .collect();
    assert_eq!(never, ["describe-id"], "the id is tried with another expectation");
}
