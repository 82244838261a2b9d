//! `inspan harness …`: verbs about harnesses.

use crate::error::Error;

mod serve;

/// Harnesses in processes of their own
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// One verb each.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    Serve(serve::Args),
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    match args.verb {
        Verb::Serve(args) => serve::run(args).await,
    }
}
