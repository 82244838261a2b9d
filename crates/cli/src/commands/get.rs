//! `inspan get`.

use inspan_wire::{json, v1};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::lines;
use crate::output::Dress;

/// Show a session
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
        let answer = client.sessions.get_session(v1::GetSessionRequest { uid: uid.clone() }).await;
        answer.map_err(|s| target.rpc_error("get", &uid, &s))
    });
    let session = session.await?.into_inner();
    let mut out = target.out();
    match out.dress() {
        Dress::Json => out.json(json::to_value(&session)),
        Dress::Plain => out.line(lines::session(&session)),
        dress @ Dress::Terminal { .. } => out.line(lines::session_card(&session, dress)),
    }
}
