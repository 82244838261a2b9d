//! `inspan harness retire`.

use inspan_wire::v1;

use super::registry::{Registry, Verb};
use crate::error::Error;

/// Have a registered harness take no new sessions; those that it has go on
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    registry: Registry,
    /// Its name
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Why, for whoever asks for a session on it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { registry, name, reason } = args;
    let verb = Verb { name: "retire", harness: &name };
    let request = v1::RetireHarnessRequest { name: name.clone(), reason };
    let retired = registry.call(verb, async |client| client.retire_harness(request).await).await?;
    registry.show(&retired)
}
