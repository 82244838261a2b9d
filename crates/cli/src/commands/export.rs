//! `inspan export`.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use inspan_wire::inspan_v1;
use tonic::Streaming;

use crate::client::{Client, Target};
use crate::error::Error;
use crate::output::Dress;
use crate::progress::Progress;

/// Write a session to one self-contained file: records, lineage, payloads, model requests
///
/// A fork is written whole, with the records that it shares with its parent. `inspan verify FILE` checks the file offline, `inspan
/// import FILE` reads it into another journal.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The session
    #[arg(long, value_name = "UID")]
    session: String,
    /// File to write; `-` is stdout. The uid with `.inspan` behind it when left out
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, session, out } = args;
    let file = out.unwrap_or_else(|| format!("{session}.inspan").into());
    let to_stdout = file.as_os_str() == "-";
    if to_stdout && std::io::stdout().is_terminal() {
        let text = "an export is long and not for eyes: give --out a file, or send stdout to one";
        return Err(Error::usage(text, format!("{} --out {session}.inspan", target.command("export", &session))));
    }
    let bytes = Client::with(&target, async |client| {
        let stream = client.journal.export(inspan_v1::ExportRequest { session: session.clone() }).await;
        let mut source = Source { stream: stream.map_err(|s| target.rpc_error("export", &session, &s))?.into_inner() };
        let failed = |s: &tonic::Status| target.rpc_error("export", &session, s);
        if to_stdout { to_pipe(&mut source, &target, failed).await } else { to_file(&mut source, &file, failed).await }
    })
    .await?;
    if to_stdout {
        return Ok(());
    }
    let mut out = target.out();
    let file = file.display().to_string();
    match out.dress() {
        Dress::Json => out.line(serde_json::json!({ "session": session, "file": file, "bytes": bytes })),
        Dress::Plain | Dress::Terminal { .. } => {
            out.line(format!("session {session} exported to {file} bytes={bytes}"))
        }
    }
}

/// The chunks of an export.
struct Source {
    stream: Streaming<inspan_v1::Chunk>,
}

impl Source {
    /// Hands every chunk to `sink` and gives the bytes in all.
    async fn drain(
        &mut self,
        mut sink: impl FnMut(&[u8]) -> Result<(), Error>,
        failed: impl Fn(&tonic::Status) -> Error,
    ) -> Result<u64, Error> {
        let progress = Progress::start("bytes exported");
        let mut bytes = 0;
        while let Some(chunk) = self.stream.message().await.map_err(|s| failed(&s))? {
            sink(&chunk.data)?;
            bytes += chunk.data.len() as u64;
            progress.add(chunk.data.len() as u64);
        }
        Ok(bytes)
    }
}

async fn to_pipe(source: &mut Source, target: &Target, failed: impl Fn(&tonic::Status) -> Error) -> Result<u64, Error> {
    let mut out = target.out();
    let bytes = source.drain(|chunk| out.bytes(chunk), failed).await?;
    out.flush()?;
    Ok(bytes)
}

/// Writes beside the file and renames at the end: a file of that name is always a whole export.
async fn to_file(source: &mut Source, file: &Path, failed: impl Fn(&tonic::Status) -> Error) -> Result<u64, Error> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let io = |e: std::io::Error| {
        let text = format!("writing {} failed: {e}", file.display());
        Error::new(
            text,
            format!(
                "df -h {}",
                file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).display()
            ),
        )
    };
    let mut writer = std::io::BufWriter::new(std::fs::File::create(&partial).map_err(io)?);
    let written = match source.drain(|chunk| writer.write_all(chunk).map_err(io), failed).await {
        Ok(bytes) => writer
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .and_then(|file| file.sync_all())
            .and_then(|()| std::fs::rename(&partial, file))
            .map(|()| bytes)
            .map_err(io),
        Err(e) => Err(e),
    };
    if written.is_err() {
        // Half an export is of no use; the error that is reported is the one that made it so.
        drop(std::fs::remove_file(&partial));
    }
    written
}
