//! The one binary of inspan: the host, its client, and the tools that work on its journals offline.
//!
//! `cli` says what can be asked, `commands` holds one file for each verb. Everything a verb prints goes
//! through `output`, every refusal through `error`: data on stdout, the rest on stderr, and no error
//! without the command to try next.

use std::process::ExitCode;

mod argv;
mod cli;
mod client;
mod commands;
mod embedded;
mod error;
mod foreign;

mod lines;
mod logfmt;
mod output;
mod progress;
mod settings;
mod store;
mod temp;
mod values;

/// Threads that drive turns. One core is left to the thread that writes the journal: a worker that is woken to find
/// nothing costs the chunk that it was woken beside.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1).max(1))
}

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(early) => return early.print(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(workers()).enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            return error::Error::new(format!("starting the runtime failed: {e}"), "ulimit -u, then the command again")
                .report();
        }
    };
    match runtime.block_on(commands::run(cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
