//! `inspan harness register`.

use std::path::{Path, PathBuf};

use inspan_wire::{json, v1};

use super::registry::{Registry, Verb};
use crate::error::Error;
use crate::output::Dress;

/// Register a harness under a name, for ever
///
/// The file holds what the host needs to know, for example
/// {"remote": {"address": "127.0.0.1:8090"}, "capabilities": {"resumability": "RESUMABILITY_STATELESS_REPLAY"}}. With
/// "descriptor_id" only a harness that describes itself with that id is driven. The same file again changes nothing, or brings
/// a retired harness back; another one is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    registry: Registry,
    /// Name that sessions use: a-z, 0-9 and -, at most 63
    #[arg(long, value_name = "NAME")]
    name: String,
    /// File with the spec, a HarnessSpec in JSON
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { registry, name, spec } = args;
    let spec = read(&spec)?;
    let verb = Verb { name: "register", harness: &name };
    let request = v1::RegisterHarnessRequest { name: name.clone(), spec: Some(spec) };
    let answer = registry.call(verb, async |client| client.register_harness(request).await).await?;
    let mut out = registry.out();
    match out.dress() {
        Dress::Json | Dress::Plain => out.json(json::to_value(&answer)),
        Dress::Terminal { .. } => {
            let outcome = answer.outcome().as_str_name().trim_start_matches("REGISTER_OUTCOME_").to_lowercase();
            out.line(format!("harness {name} {outcome}"))
        }
    }
}

fn read(file: &Path) -> Result<v1::HarnessSpec, Error> {
    let text = std::fs::read(file).map_err(|e| {
        let text = format!("cannot read the spec {}: {e}", file.display());
        Error::new(text, format!("ls -l {}", file.display()))
    })?;
    json::from_slice(&text).map_err(|e| {
        let text = format!("{} is no harness spec: {e}", file.display());
        Error::new(text, "inspan harness register --help")
    })
}
