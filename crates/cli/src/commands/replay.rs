//! `inspan replay`.

use inspan_wire::{json, v1};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::lines;
use crate::output::Dress;

/// Print the recorded journal; nothing runs and nobody is asked again
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The session
    #[arg(long, value_name = "UID")]
    session: String,
    /// First record
    #[arg(long, value_name = "SEQ", default_value_t = 1, allow_negative_numbers = true)]
    from: i64,
    /// Last record; 0 means the head
    #[arg(long, value_name = "SEQ", default_value_t = 0, allow_negative_numbers = true)]
    to: i64,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, session, from, to } = args;
    let mut out = target.out();
    let dress = out.dress();
    Client::with(&target, async |client| {
        let request = v1::ReplayRequest { session: session.clone(), from_seq: from, to_seq: to };
        let stream = client.sessions.replay(request).await;
        let mut stream = stream.map_err(|s| target.rpc_error("replay", &session, &s))?.into_inner();
        while let Some(record) = stream.message().await.map_err(|s| target.rpc_error("replay", &session, &s))? {
            match dress {
                Dress::Json => out.json(json::to_value(&record))?,
                dress => out.line(lines::record(record.seq, record.event.as_ref(), dress))?,
            }
        }
        Ok(())
    })
    .await
}
