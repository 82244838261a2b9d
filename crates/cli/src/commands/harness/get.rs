//! `inspan harness get`.

use inspan_wire::v1;

use super::registry::{Registry, Verb};
use crate::error::Error;

/// Show a harness that a host knows
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    registry: Registry,
    /// Its name
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Ask the harness itself what it is, ten seconds at most
    #[arg(long)]
    observe: bool,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { registry, name, observe } = args;
    let verb = Verb { name: "get", harness: &name };
    let request = v1::GetHarnessRequest { name: name.clone(), observe };
    let found = registry.call(verb, async |client| client.get_harness(request).await).await?;
    registry.show(&found)
}
