//! `inspan completions`.

use crate::error::Error;
use crate::output::Out;

/// Print a completion script for a shell
///
/// For bash: inspan completions bash > ~/.local/share/bash-completion/completions/inspan
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: Args) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::definition(), "inspan", &mut script);
    let mut out = Out::stdout(false);
    out.bytes(&script)?;
    out.flush()
}
