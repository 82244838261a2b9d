//! `cargo xtask sim --seed N`: one run of the simulator again.

use crate::shell::{self, Failure};

/// Which run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The seed that a failing run printed.
    #[arg(long)]
    seed: u64,
}

/// Runs the simulator's test with that seed alone, its trace on the terminal.
///
/// # Errors
/// When the run fails, as the first one did.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut test = shell::cargo();
    test.args(["test", "--locked", "--package", "inspan-engine", "--test", "sim", "--", "--nocapture"]);
    shell::run(test.env("INSPAN_SIM_SEED", args.seed.to_string()))
}
