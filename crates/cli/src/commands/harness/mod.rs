//! `inspan harness …`: verbs about harnesses.

use crate::error::Error;

mod get;
mod list;
mod register;
mod registry;
mod retire;
mod serve;

/// Harnesses in processes of their own, and the names that a host knows them by
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// One verb each.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    Serve(serve::Args),
    Register(register::Args),
    Get(get::Args),
    List(list::Args),
    Retire(retire::Args),
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    match args.verb {
        Verb::Serve(args) => serve::run(args).await,
        Verb::Register(args) => register::run(args).await,
        Verb::Get(args) => get::run(args).await,
        Verb::List(args) => list::run(args).await,
        Verb::Retire(args) => retire::run(args).await,
    }
}
