//! Seeds that run with every test run, and the proof that a broken promise would be found.

use inspan_sim::{Config, Failure, Plant, Promise, run};

/// Runs every seed of a range, and names the first that breaks a promise.
fn all_hold(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        if let Err(failure) = run(&Config::new(seed)) {
            panic!("{failure}");
        }
    }
}

/// The seven promises, R-CAS-1, R-CAS-2, R-LIVE-2, R-HASH-8, R-MODEL-6, R-MODEL-11, R-REPLAY-4, R-REPLAY-5, R-FORK-1:
/// over many hosts, faults, crashes and takeovers.
#[test]
fn worlds_of_many_kinds_keep_every_promise() {
    all_hold(1..25);
}

/// The same seed is the same run, to the last line.
#[test]
fn a_seed_repeats_its_run() {
    for seed in [3, 4] {
        let summary = run(&Config::new(seed)).expect("the run keeps its promises");
        assert_eq!(run(&Config::new(seed)).expect("so does its repetition"), summary);
        let other = run(&Config::new(seed + 100)).expect("so does another one");
        assert_ne!(other.trace, summary.trace);
    }
}

/// Runs that see nothing prove nothing.
#[test]
fn the_runs_see_what_they_are_for() {
    let seen: Vec<_> = (1..9).filter_map(|seed| run(&Config::new(seed)).ok()).collect();
    let sum = |f: fn(&inspan_sim::Summary) -> u64| seen.iter().map(f).sum::<u64>();
    assert!(sum(|s| s.operations) > 1000, "operations");
    assert!(sum(|s| s.calls) > 200, "provider calls");
    assert!(sum(|s| s.restarts) > 50, "restarts");
    assert!(sum(|s| s.overtaken) > 20, "writers that were overtaken");
    assert!(sum(|s| s.deviations) > 10, "harnesses that departed from their recording");
}

/// The failure of the first seed that finds `plant`.
fn found(plant: Plant) -> Failure {
    let seeds = 1..40;
    let failure = seeds.into_iter().find_map(|seed| run(&Config { plant: Some(plant), ..Config::new(seed) }).err());
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
            Plant::CallsTwice => Promise::AtMostOnce,
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
