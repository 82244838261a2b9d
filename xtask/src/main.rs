//! The project's own commands.
//!
//! `cargo xtask test` is the whole of CI, on a machine that has nothing but Rust. `cargo xtask bench` measures
//! every promise about speed beside its limit. The rest are small: `deny` runs the full licence and
//! source check, `sim` repeats a run of the simulator.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod ci;
mod deny;
mod needs;
mod python;
mod shell;
mod sim;
mod step;
mod tool_servers;

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Everything that CI checks, in CI's order; stops at the first step that fails.
    Test(ci::Args),
    /// Measures each bar beside its limit or peer; prints a table and writes target/bench.json.
    Bench(bench::Args),
    /// The full check of bans, licences and sources with cargo-deny, which is installed when it is missing.
    Deny,
    /// Repeats one run of the simulator.
    Sim(sim::Args),
}

fn main() -> ExitCode {
    let done = match Args::parse().verb {
        Verb::Test(args) => ci::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Deny => deny::run(),
        Verb::Sim(args) => sim::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}
