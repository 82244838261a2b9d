//! `inspan-sim`: one seed again, many seeds in a row, or as many as fit into a while.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use inspan_sim::{Config, Failure, Rng, Summary, run, run_with};

/// Runs the seeded simulator.
#[derive(Parser)]
struct Args {
    /// Repeats this run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Steps of each run before the dust settles.
    #[arg(long, default_value_t = Config::STEPS)]
    steps: u64,
    /// Prints every line of the trace.
    #[arg(long, conflicts_with_all = ["minutes", "seeds"])]
    trace: bool,
    /// Runs seeds drawn from --seed for so many minutes.
    #[arg(long, conflicts_with = "seeds")]
    minutes: Option<u64>,
    /// Runs so many seeds, from --seed on.
    #[arg(long)]
    seeds: Option<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match (args.minutes, args.seeds) {
        (Some(minutes), _) => many(&args, minutes),
        (None, Some(seeds)) => in_a_row(&args, seeds),
        (None, None) => one(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(format_args!("{failure}"));
            ExitCode::FAILURE
        }
    }
}

fn one(args: &Args) -> Result<(), Box<Failure>> {
    let config = Config { steps: args.steps, ..Config::new(args.seed) };
    let summary =
        if args.trace { run_with(&config, Some(Box::new(|line| say(format_args!("{line}")))))? } else { run(&config)? };
    tell(args.seed, &summary);
    Ok(())
}

fn many(args: &Args, minutes: u64) -> Result<(), Box<Failure>> {
    #[expect(clippy::disallowed_methods, reason = "how long to go on is the caller's wish; no run sees this clock")]
    let elapsed = {
        let start = std::time::Instant::now();
        move || start.elapsed().as_secs() / 60
    };
    let mut seeds = Rng::new(args.seed);
    let mut runs = 0_u64;
    while elapsed() < minutes {
        let seed = seeds.draw();
        run(&Config { steps: args.steps, ..Config::new(seed) })?;
        runs += 1;
    }
    say(format_args!("{runs} runs kept every promise"));
    Ok(())
}

fn in_a_row(args: &Args, seeds: u64) -> Result<(), Box<Failure>> {
    for seed in args.seed..args.seed.saturating_add(seeds) {
        let summary = run(&Config { steps: args.steps, ..Config::new(seed) })?;
        tell(seed, &summary);
    }
    Ok(())
}

fn tell(seed: u64, summary: &Summary) {
    let Summary { operations, records, calls, effects, decisions, restarts, overtaken, deviations, trace } = summary;
    say(format_args!("seed {seed} kept every promise: trace {trace:016x}"));
    say(format_args!(
        "  {operations} operations, {records} records, {calls} provider calls, {effects} effects of tools, {decisions} decisions, {restarts} restarts, \
         {overtaken} overtaken, {deviations} deviations stopped"
    ));
}

/// Prints a line; a reader who has seen enough, `head` say, is no reason to fail.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
