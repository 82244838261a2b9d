//! `inspan exec`.

use std::io::Read as _;

use inspan_wire::{json, v1};
use v1::exec_update::Update;

use super::create::New;
use crate::client::{Client, Target};
use crate::error::Error;
use crate::lines;
use crate::output::{Dress, Out, Paint};
use crate::values::{self, Deadline};

/// Take a turn: send one message and follow it to the end
///
/// The turn does not depend on this command: it goes on when the command is interrupted, and `inspan watch` shows the
/// rest. With a host in this process (no --server) it stops with the command, and `inspan resume` picks it up.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The session; without it the turn creates one and prints its uid
    #[arg(long, value_name = "UID", default_value = "", hide_default_value = true)]
    session: String,
    /// Text of the message; `-` reads it from stdin and drops one final end of line
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    input: String,
    /// Opaque configuration of the harness for this turn: the text itself, or @FILE
    #[arg(long, value_name = "TEXT|@FILE", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    config: String,
    /// Start only if the session's last seq is exactly this
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true)]
    expected_seq: Option<i64>,
    /// When the turn must be over: a duration (30s, 1h30m) or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = values::deadline)]
    deadline: Option<Deadline>,
    #[command(flatten)]
    new: New,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, session, input, config, expected_seq, deadline, new } = args;
    let only_new = !new.name.is_empty() || !new.model.is_empty() || !new.labels.is_empty();
    if only_new && !session.is_empty() {
        let text = "--name, --model and --label describe a new session: leave --session out, or leave them out";
        return Err(Error::usage(text, "inspan exec --help"));
    }
    let mut request = v1::ExecRequest {
        inputs: vec![v1::Message::text("user", read_input(input)?)],
        harness: new.harness.clone(),
        config: read_config(&config)?.into(),
        expected_last_seq: expected_seq,
        deadline_unix: deadline.map_or(0, Deadline::unix_seconds),
        session,
        ..v1::ExecRequest::default()
    };
    let show_session = request.session.is_empty();
    let mut out = target.out();
    Client::with(&target, async |client| {
        // The protocol's own way of creating a session on the fly can name nothing but a harness,
        // and puts it into the host's default project.
        if show_session && (only_new || target.project != crate::client::DEFAULT_PROJECT) {
            let created = client.sessions.create_session(new.request(&target.project)).await;
            let created = created.map_err(|s| target.rpc_error("create", "", &s))?.into_inner();
            lines::uid(&created).clone_into(&mut request.session);
            request.harness = String::new();
        }
        let mut uid = request.session.clone();
        let stream = client.sessions.exec(request).await;
        let mut stream = stream.map_err(|s| target.rpc_error("exec", &uid, &s))?.into_inner();
        loop {
            match stream.message().await.map_err(|s| target.rpc_error("exec", &uid, &s))? {
                None => return Ok(()),
                Some(update) => {
                    if let Some(Update::Session(session)) = &update.update {
                        lines::uid(session).clone_into(&mut uid);
                    }
                    show(&mut out, update, show_session)?;
                }
            }
        }
    })
    .await
}

fn show(out: &mut Out, update: v1::ExecUpdate, show_session: bool) -> Result<(), Error> {
    let dress = out.dress();
    if dress == Dress::Json {
        return out.json(json::to_value(&update));
    }
    match update.update {
        Some(Update::Session(session)) if show_session => {
            out.line(dress.paint(Paint::Mind, &format!("session {}", lines::uid(&session))))
        }
        Some(Update::Record(record)) => out.line(lines::record(record.seq, record.event.as_ref(), dress)),
        Some(Update::Delta(delta)) => out.delta(&delta),
        Some(Update::Session(_)) | None => Ok(()),
    }
}

fn read_input(input: String) -> Result<String, Error> {
    if input != "-" {
        return Ok(input);
    }
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    read.map_err(|e| Error::new(format!("reading the input from stdin failed: {e}"), "inspan exec --help"))?;
    let end = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).map_or(text.len(), str::len);
    text.truncate(end);
    Ok(text)
}

fn read_config(config: &str) -> Result<Vec<u8>, Error> {
    let Some(file) = config.strip_prefix('@') else { return Ok(config.as_bytes().to_vec()) };
    std::fs::read(file).map_err(|e| Error::new(format!("reading --config {file} failed: {e}"), format!("ls -l {file}")))
}
