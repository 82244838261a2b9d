//! `inspan cancel`.

use inspan_wire::{json, v1};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::lines;
use crate::output::Dress;

/// End a turn that runs or was interrupted; its records stay and say CANCELED
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The session
    #[arg(long, value_name = "UID")]
    session: String,
    /// The turn; empty means the last
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    execution: String,
    /// Why, for the record
    #[arg(long, value_name = "WORD", default_value = "USER")]
    reason: String,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, session: uid, execution, reason } = args;
    let session = Client::with(&target, async |client| {
        let request = v1::CancelRequest { session: uid.clone(), execution_id: execution, reason };
        let answer = client.sessions.cancel(request).await;
        answer.map_err(|s| target.rpc_error("cancel", &uid, &s))
    });
    let session = session.await?.into_inner();
    let mut out = target.out();
    match out.dress() {
        Dress::Json => out.json(json::to_value(&session)),
        Dress::Plain | Dress::Terminal { .. } => out.line(lines::moved("cancel", &session)),
    }
}
