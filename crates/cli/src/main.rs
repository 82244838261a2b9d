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

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(early) => return early.print(),
    };
    // A host serves on lanes of its own; what is left needs no more than one worker, and a second one that is woken to
    // find nothing costs the client that waits.
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
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
