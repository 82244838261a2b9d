//! `cargo xtask test`: the steps of CI.
//!
//! The dependency tree is compiled twice: once for the tests, once for the binary that the demo and the strangers
//! drive (profile `ci`: a release build that is optimised less). Clippy and rustdoc share a third, cheaper pass that makes no code.

use std::path::PathBuf;

use crate::shell::{self, Failure};
use crate::step::{Counts, Step, run_all};
use crate::{needs, python, tool_servers};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only these steps, in CI's order. What they need from earlier steps must be there.
    #[arg(long = "only", value_name = "STEP")]
    only: Vec<String>,
    /// Print the steps and stop.
    #[arg(long)]
    list: bool,
}

const STEPS: &[Step] = &[
    Step { name: "needs", what: "the tools that the steps call are there", run: needs::all },
    Step { name: "fmt", what: "every file is formatted", run: fmt },
    Step { name: "generated", what: "generated code is what the .proto files say", run: generated },
    Step { name: "clippy", what: "no warning in any target", run: clippy },
    Step { name: "rustdoc", what: "documentation builds without a warning", run: rustdoc },
    Step { name: "tool-servers", what: "MCP servers by others, for the tests", run: tool_servers::ready },
    Step { name: "tests", what: "every test of the workspace", run: tests },
    Step { name: "binary", what: "the binary, as a release build that is optimised less", run: binary },
    Step { name: "demo", what: "the demo in an empty folder", run: demo },
    Step {
        name: "strangers",
        what: "grpcio, curl, schemathesis and a verifier that share no code of ours",
        run: strangers,
    },
    Step { name: "sdk", what: "the Python package: format, lint, types, tests with the binary", run: sdk },
];

/// Runs the steps.
///
/// # Errors
/// An unknown step, or the first failure.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.list {
        for step in STEPS {
            println!("{:<13} {}", step.name, step.what);
        }
        return Ok(());
    }
    if let Some(unknown) = args.only.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        return Err(Failure(format!("no step {unknown}: see cargo xtask test --list")));
    }
    let chosen: Vec<&Step> =
        STEPS.iter().filter(|step| args.only.is_empty() || args.only.iter().any(|name| name == step.name)).collect();
    run_all(&chosen)
}

fn fmt(_: &mut Counts) -> Result<(), Failure> {
    shell::run(shell::cargo().args(["fmt", "--all", "--check"]))
}

fn generated(_: &mut Counts) -> Result<(), Failure> {
    shell::run(shell::cargo().args(["run", "--locked", "--package", "inspan-gen", "--", "--check"]))
}

fn clippy(_: &mut Counts) -> Result<(), Failure> {
    shell::run(shell::cargo().args(["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// The flag reaches rustdoc through the environment: cargo has no option for it.
fn rustdoc(_: &mut Counts) -> Result<(), Failure> {
    let mut doc = shell::cargo();
    doc.args(["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"]);
    shell::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn tests(counts: &mut Counts) -> Result<(), Failure> {
    shell::run_seen(shell::cargo().args(["test", "--locked", "--workspace"]), |line| {
        if let Some(found) = cargo_test_line(line) {
            counts.passed += found.passed;
            counts.failed += found.failed;
            counts.skipped += found.skipped;
        }
    })
}

fn binary(_: &mut Counts) -> Result<(), Failure> {
    shell::run(shell::cargo().args(["build", "--locked", "--profile", "ci"]))
}

/// What [`binary`] has built.
fn inspan() -> PathBuf {
    shell::root().join("target/ci/inspan")
}

fn demo(_: &mut Counts) -> Result<(), Failure> {
    let folder = shell::root().join("target/demo-smoke");
    let failed = |e: std::io::Error| Failure(format!("the demo's folder could not be prepared: {e}"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(failed)?;
    }
    std::fs::create_dir_all(&folder).map_err(failed)?;
    shell::run(shell::command(inspan()).arg("demo").current_dir(folder))
}

fn strangers(counts: &mut Counts) -> Result<(), Failure> {
    let python = python::ready()?;
    let mut pytest = shell::command(python);
    pytest
        .args(["-m", "pytest", "-p", "no:cacheprovider", "--durations=5", "tests/strangers", "--inspan"])
        .arg(inspan());
    shell::run_seen(&mut pytest, |line| {
        if let Some(found) = pytest_line(line) {
            *counts = found;
        }
    })
}

/// The package has an environment of its own: what its examples need is nothing that the strangers may know.
fn sdk(counts: &mut Counts) -> Result<(), Failure> {
    let venv = shell::root().join("target/sdk-venv");
    let pins = "sdk/python/requirements-test.txt";
    let python = python::environment(&venv, pins, "LangGraph, mypy, ruff and pytest, for the Python package")?;
    let mut check = shell::command(python);
    check.arg("sdk/python/tools/check.py").env("INSPAN_BIN", inspan());
    shell::run_seen(&mut check, |line| {
        if let Some(found) = pytest_line(line).or_else(|| pytest_line(&format!("= {line} ="))) {
            *counts = found;
        }
    })
}

/// Reads `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; …`.
fn cargo_test_line(line: &str) -> Option<Counts> {
    let (_, rest) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = Counts::default();
    for part in rest.split("; ") {
        match part.split_once(' ') {
            Some((n, "passed")) => counts.passed = n.parse().ok()?,
            Some((n, "failed")) => counts.failed = n.parse().ok()?,
            Some((n, "ignored")) => counts.skipped = n.parse().ok()?,
            _ => {}
        }
    }
    Some(counts)
}

/// Reads `==== 1 failed, 12 passed, 1 skipped in 3.21s ====`.
fn pytest_line(line: &str) -> Option<Counts> {
    let (summary, _) = line.strip_prefix('=')?.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    let mut counts = Counts::default();
    for part in summary.split(", ") {
        let (n, word) = part.split_once(' ')?;
        let n = n.parse().ok()?;
        match word {
            "passed" => counts.passed = n,
            "failed" | "error" | "errors" => counts.failed += n,
            "skipped" => counts.skipped = n,
            _ => {}
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::{cargo_test_line, pytest_line};
    use crate::step::Counts;

    #[test]
    fn the_runners_own_lines_are_counted() {
        let line = "test result: ok. 31 passed; 1 failed; 2 ignored; 0 measured; 9 filtered out; finished in 0.01s";
        assert_eq!(cargo_test_line(line), Some(Counts { passed: 31, failed: 1, skipped: 2 }));
        assert_eq!(cargo_test_line("test canon::tests::result: ok"), None);
        let line = "=========== 1 failed, 12 passed, 2 skipped, 1 error in 3.21s ===========";
        assert_eq!(pytest_line(line), Some(Counts { passed: 12, failed: 2, skipped: 2 }));
        assert_eq!(pytest_line("=========== slowest 5 durations ==========="), None);
        assert_eq!(pytest_line("collected 12 items"), None);
    }
}
