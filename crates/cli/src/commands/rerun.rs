//! `inspan rerun`.

use inspan_wire::{inspan_v1, json};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::output::Dress;

/// Run every completed turn again on its recorded effects: no model is called, nothing is written
///
/// Fails where the harness asks for something else than what is recorded.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The session
    #[arg(long, value_name = "UID")]
    session: String,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, session } = args;
    let rerun = Client::with(&target, async |client| {
        let answer = client.journal.rerun(inspan_v1::RerunRequest { session: session.clone() }).await;
        answer.map_err(|s| target.rpc_error("rerun", &session, &s))
    });
    let rerun = rerun.await?.into_inner();
    let mut out = target.out();
    let dress = out.dress();
    if dress == Dress::Json {
        return out.json(json::to_value(&rerun));
    }
    for output in &rerun.outputs {
        out.line(format!("output {}", dress.foreign(output)))?;
    }
    out.line(format!(
        "session {session} rerun executions={} effects={} outputs={}",
        rerun.executions,
        rerun.effects,
        rerun.outputs.len()
    ))
}
