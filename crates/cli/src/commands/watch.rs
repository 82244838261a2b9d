//! `inspan watch`.

use inspan_v1::watch_update::Update;
use inspan_wire::{inspan_v1, json};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::lines;
use crate::output::{Dress, Out, Paint};

/// Follow a session live: the records so far, then each new one as it becomes durable
///
/// Text of a completion that is still being written appears as it comes; the record that follows holds all of it.
/// End with Ctrl-C: the session does not notice.
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
    /// Leave out the text of completions that are not finished
    #[arg(long)]
    records_only: bool,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, session, from, records_only } = args;
    let mut out = target.out();
    Client::with(&target, async |client| {
        let request = inspan_v1::WatchRequest { session: session.clone(), from_seq: from, records_only };
        let stream = client.journal.watch(request).await;
        let mut stream = stream.map_err(|s| target.rpc_error("watch", &session, &s))?.into_inner();
        while let Some(update) = stream.message().await.map_err(|s| target.rpc_error("watch", &session, &s))? {
            show(&mut out, update)?;
        }
        Ok(())
    })
    .await
}

fn show(out: &mut Out, update: inspan_v1::WatchUpdate) -> Result<(), Error> {
    let dress = out.dress();
    if dress == Dress::Json {
        return out.json(json::to_value(&update));
    }
    match update.update {
        Some(Update::Record(record)) => out.line(lines::record(record.seq, record.event.as_ref(), dress)),
        Some(Update::Delta(delta)) => out.delta(&delta),
        Some(Update::Session(session)) => {
            let line = format!(
                "session {} state={} last_seq={}",
                lines::uid(&session),
                lines::exec(&session),
                session.last_seq
            );
            out.line(dress.paint(Paint::Mind, &line))
        }
        Some(Update::Heartbeat(_)) | None => Ok(()),
    }
}
