//! `cargo xtask bench`: builds the release binary and the benches, and hands over.

use crate::shell::{self, Failure};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure only these rows (a part of the name is enough).
    #[arg(long = "row", value_name = "NAME")]
    rows: Vec<String>,
    /// Smaller sizes: to see that every row runs, not to judge by.
    #[arg(long)]
    quick: bool,
    /// Print the rows and stop.
    #[arg(long)]
    list: bool,
}

/// Runs the benches in the release profile, beside the release binary that some rows start.
///
/// # Errors
/// When something does not build, a row cannot be measured, or a bar does not hold.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    shell::run(shell::cargo().args(["build", "--locked", "--release"]))?;
    shell::run(shell::cargo().args(["build", "--locked", "--release", "--package", "inspan-bench"]))?;
    let mut bench = shell::command(shell::root().join("target/release/inspan-bench"));
    for row in &args.rows {
        bench.args(["--row", row]);
    }
    if args.quick {
        bench.arg("--quick");
    }
    if args.list {
        bench.arg("--list");
    }
    shell::run(&mut bench)
}
