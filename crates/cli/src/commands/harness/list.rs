//! `inspan harness list`.

use inspan_wire::{json, v1};

use super::registry::{self, Registry, Verb};
use crate::error::Error;
use crate::output::Dress;

/// List the harnesses that a host knows, by name
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    registry: Registry,
    /// List the retired ones too
    #[arg(long)]
    include_retired: bool,
    /// Harnesses to ask for at once, 1 to 500; the list is whole in any case
    #[arg(long, value_name = "N", default_value_t = 500, allow_negative_numbers = true)]
    page_size: i32,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { registry, include_retired, page_size } = args;
    let mut all = v1::ListHarnessesResponse::default();
    let mut page_token = String::new();
    loop {
        let request = v1::ListHarnessesRequest { page_size, page_token, include_retired };
        let verb = Verb { name: "list", harness: "" };
        let page = registry.call(verb, async |client| client.list_harnesses(request).await).await?;
        all.harnesses.extend(page.harnesses);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let mut out = registry.out();
    match out.dress() {
        Dress::Json | Dress::Plain => out.json(json::to_value(&all)),
        dress @ Dress::Terminal { .. } => out.line(registry::table(&all.harnesses, dress)),
    }
}
