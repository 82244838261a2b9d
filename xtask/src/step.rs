//! Steps that run one after another, and the table at the end.

use std::time::{Duration, Instant};

use crate::shell::Failure;

/// How many tests a step ran, as their runner said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// One step. `run` adds the tests that it ran to the counts, also when it fails.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: fn(&mut Counts) -> Result<(), Failure>,
}

/// Runs the steps up to the first that fails, then prints what each took and the tests' sum: that line
/// is the last on standard output, whatever happened.
///
/// # Errors
/// The first failure, with the name of its step.
pub(crate) fn run_all(steps: &[&Step]) -> Result<(), Failure> {
    let begin = Instant::now();
    let mut rows = Vec::new();
    let mut counts = Counts::default();
    let mut failure = None;
    for step in steps {
        if failure.is_some() {
            rows.push((step, "not run", Duration::ZERO, Counts::default()));
            continue;
        }
        println!("\n==> {}: {}", step.name, step.what);
        let began = Instant::now();
        let mut own = Counts::default();
        let done = (step.run)(&mut own);
        let took = began.elapsed();
        counts.add(own);
        let verdict = if done.is_ok() { "ok" } else { "FAILED" };
        println!("<== {}: {verdict} in {}", step.name, seconds(took));
        rows.push((step, verdict, took, own));
        failure = done.err().map(|e| Failure(format!("step {}: {e}", step.name)));
    }
    println!("\n{:<13} {:<8} {:>8} {:>7}", "step", "verdict", "time", "tests");
    for (step, verdict, took, own) in &rows {
        let tests = if own.passed > 0 { own.passed.to_string() } else { String::new() };
        println!("{:<13} {verdict:<8} {:>8} {tests:>7}", step.name, seconds(*took));
    }
    println!("{:<13} {:<8} {:>8} {:>7}", "all", "", seconds(begin.elapsed()), counts.passed);
    println!("\n{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
    failure.map_or(Ok(()), Err)
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}
