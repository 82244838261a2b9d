//! `inspan suspend`.

use inspan_wire::{json, v1};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::lines;
use crate::output::Dress;

/// Put a session to sleep: its compute may go, its journal stays
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The session
    #[arg(long, value_name = "UID")]
    session: String,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, session: uid } = args;
    let session = Client::with(&target, async |client| {
        let request = v1::SuspendRequest { session: uid.clone() };
        let answer = client.sessions.suspend(request).await;
        answer.map_err(|s| target.rpc_error("suspend", &uid, &s))
    });
    let session = session.await?.into_inner();
    let mut out = target.out();
    match out.dress() {
        Dress::Json => out.json(json::to_value(&session)),
        Dress::Plain | Dress::Terminal { .. } => out.line(lines::moved("suspend", &session)),
    }
}
