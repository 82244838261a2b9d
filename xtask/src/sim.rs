//! `cargo xtask sim --seed N`: one run of the simulator again.

use crate::shell::{self, Failure};

/// Which run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the simulator takes: --seed N that a failing run printed, --trace, --steps N, --minutes N.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// Runs the simulator.
///
/// # Errors
/// When the run fails, as the first one did.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut sim = shell::cargo();
    sim.args(["run", "--locked", "--quiet", "--package", "inspan-sim", "--"]);
    shell::run(sim.args(&args.arguments))
}
