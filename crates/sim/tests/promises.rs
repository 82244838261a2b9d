//! Seeds that run with every test run, and the proof that a broken promise would be found.

use inspan_sim::{Config, Failure, Plant, Promise, Summary, run};

/// As many as take about half a minute unoptimised.
const SEEDS: u64 = 32;

/// The seven promises, R-CAS-1, R-CAS-2, R-LIVE-2, R-HASH-8, R-MODEL-6, R-MODEL-11, R-REPLAY-4, R-REPLAY-5, R-FORK-1,
/// R-TOOL-3, R-TOOL-11, R-APPR-3, R-APPR-17, R-APPR-18, R-APPR-25, R-APPR-26:
/// over many hosts, faults, crashes and takeovers. Runs that see nothing prove nothing, so what they saw counts too.
#[test]
fn worlds_of_many_kinds_keep_every_promise() {
    let mut seen = Vec::new();
    for seed in 1..=SEEDS {
        match run(&Config::new(seed)) {
            Ok(summary) => seen.push(summary),
            Err(failure) => panic!("{failure}"),
        }
    }
    let per_seed = |count: fn(&Summary) -> u64| seen.iter().map(count).sum::<u64>() / SEEDS;
    assert!(per_seed(|s| s.operations) > 200, "operations");
    assert!(per_seed(|s| s.records) > 200, "records");
    assert!(per_seed(|s| s.calls) > 50, "provider calls");
    assert!(per_seed(|s| s.effects) > 10, "effects of tools");
    assert!(per_seed(|s| s.decisions) > 3, "decisions");
    assert!(per_seed(|s| s.restarts) > 10, "restarts");
    assert!(per_seed(|s| s.overtaken) > 3, "writers that were overtaken");
    assert!(per_seed(|s| s.deviations) > 1, "harnesses that departed from their recording");
}

/// The same seed is the same run, to the last line.
#[test]
fn a_seed_repeats_its_run() {
    let trace = |seed| run(&Config::new(seed)).map(|summary| summary.trace);
    for seed in [3, 4] {
        let first = trace(seed).expect("the run keeps its promises");
        assert_eq!(trace(seed), Ok(first));
        assert_ne!(trace(seed + 100), Ok(first));
    }
}

/// The failure of the first seed that finds `plant`.
fn found(plant: Plant) -> Failure {
    let failure = (1..40).find_map(|seed| run(&Config { plant: Some(plant), ..Config::new(seed) }).err());
    *failure.unwrap_or_else(|| panic!("{plant:?} was never found"))
}

/// Every bug on purpose is reported as the promise that it breaks, with what is needed to see it again.
#[test]
fn a_planted_bug_is_reported_as_the_promise_it_breaks() {
    for plant in Plant::ALL {
        let failure = found(plant);
        let expected = match plant {
            Plant::LosesAppends | Plant::CallsBeforeRecord => Promise::RecordBeforeEffect,
            Plant::CallsOnReplay => Promise::ReplayCostsNothing,
            Plant::GuessesOnDivergence => Promise::DivergenceIsAnError,
            Plant::CallsTwice | Plant::RunsTwice => Promise::AtMostOnce,
            Plant::RunsUnapproved => Promise::NothingUnapproved,
            Plant::AgreesWithEveryone => Promise::OneDecision,
            Plant::AcceptsStaleFences => Promise::OneWriter,
            Plant::RepeatsRecords => Promise::CheckedByStrangers,
            Plant::WritesAndRefuses => Promise::HonestRefusal,
        };
        assert_eq!(failure.violation.promise, expected, "{plant:?} was reported as\n{failure}");
        let report = failure.to_string();
        assert!(report.contains(&format!("--seed {}", failure.seed)), "{report}");
        assert!(!failure.tail.is_empty(), "{report}");
    }
}
