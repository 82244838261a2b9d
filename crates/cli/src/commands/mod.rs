//! One file for each verb: its flags, its call, its lines.

use crate::cli::Command;
use crate::error::Error;

pub(crate) mod asks;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod conformance;
pub(crate) mod create;
pub(crate) mod decide;
pub(crate) mod delete;
pub(crate) mod demo;
pub(crate) mod exec;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod get;
pub(crate) mod harness;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod reference;
pub(crate) mod replay;
pub(crate) mod rerun;
pub(crate) mod resume;
pub(crate) mod serve;
pub(crate) mod suspend;
pub(crate) mod tools;
pub(crate) mod verify;
pub(crate) mod version;
pub(crate) mod watch;

/// Runs a verb to its end.
pub(crate) async fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Serve(args) => serve::run(args).await,
        Command::Create(args) => create::run(args).await,
        Command::List(args) => list::run(args).await,
        Command::Get(args) => get::run(args).await,
        Command::Exec(args) => exec::run(args).await,
        Command::Replay(args) => replay::run(args).await,
        Command::Watch(args) => watch::run(args).await,
        Command::Fork(args) => fork::run(args).await,
        Command::Suspend(args) => suspend::run(args).await,
        Command::Resume(args) => resume::run(args).await,
        Command::Asks(args) => asks::run(args).await,
        Command::Approve(args) => decide::run(args, true).await,
        Command::Deny(args) => decide::run(args, false).await,
        Command::Cancel(args) => cancel::run(args).await,
        Command::Delete(args) => delete::run(args).await,
        Command::Harness(args) => harness::run(args).await,
        Command::Rerun(args) => rerun::run(args).await,
        Command::Export(args) => export::run(args).await,
        Command::Import(args) => import::run(args).await,
        Command::Verify(args) => verify::run(args).await,
        Command::Conformance(args) => conformance::run(args).await,
        Command::Tools(args) => tools::run(args).await,
        Command::Demo(args) => demo::run(args).await,
        Command::Completions(args) => completions::run(args),
        Command::Version(args) => version::run(args),
        Command::Reference(args) => reference::run(args),
    }
}
