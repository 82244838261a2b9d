//! `inspan resume`.

use inspan_wire::{json, v1};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::lines;
use crate::output::Dress;

/// Wake a session, and drive an interrupted turn to its end without repeating recorded calls
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
        let request = v1::ResumeRequest { session: uid.clone(), ..Default::default() };
        let answer = client.sessions.resume(request).await;
        answer.map_err(|s| target.rpc_error("resume", &uid, &s))
    });
    let session = session.await?.into_inner();
    let mut out = target.out();
    match out.dress() {
        Dress::Json => out.json(json::to_value(&session)),
        Dress::Plain | Dress::Terminal { .. } => out.line(lines::moved("resume", &session)),
    }
}
