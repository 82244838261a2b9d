//! `inspan import`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use inspan_wire::{inspan_v1, json};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::foreign;
use crate::lines;
use crate::output::{Dress, Out};
use crate::progress::Progress;

/// Bytes that travel at once.
const CHUNK_BYTES: usize = 256 << 10;
/// How many chunks wait for the host at most.
const CHUNKS_MAX: usize = 8;

/// Read sessions from a file: an export, or the SQLite journal of an earlier agentsessions host
///
/// What comes in is verified first: nothing of a session whose chain does not hold is kept. A session keeps its uid; one that
/// exists already is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The file; `-` is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, file } = args;
    let mut out = target.out();
    if file.as_os_str() == "-" {
        let answer = Client::with(&target, async |client| send(client, &target, std::io::stdin()).await);
        return show(&mut out, &answer.await?);
    }
    if !foreign::is_sqlite(&file)? {
        let source = File::open(&file).map_err(|e| unreadable(&file, &e))?;
        let answer = Client::with(&target, async |client| send(client, &target, source).await);
        return show(&mut out, &answer.await?);
    }
    // Such a file becomes exports first: from there on there is one way in.
    let exports = foreign::exports(&file).await?;
    let answer = Client::with(&target, async |client| {
        let mut all = inspan_v1::ImportResponse::default();
        for export in exports.files() {
            let source = File::open(export).map_err(|e| unreadable(export, &e))?;
            let answer = send(client, &target, source).await?;
            all.sessions.extend(answer.sessions);
            all.records += answer.records;
        }
        Ok(all)
    });
    show(&mut out, &answer.await?)
}

fn show(out: &mut Out, answer: &inspan_v1::ImportResponse) -> Result<(), Error> {
    if out.dress() == Dress::Json {
        return out.json(json::to_value(answer));
    }
    for session in &answer.sessions {
        out.line(format!("session {} imported last_seq={}", lines::uid(session), session.last_seq))?;
    }
    Ok(())
}

/// What to say of a file that cannot be read.
pub(crate) fn unreadable(file: &Path, e: &std::io::Error) -> Error {
    Error::new(format!("reading {} failed: {e}", file.display()), format!("ls -l {}", file.display()))
}

/// Sends a file as it is read; a host that is slow slows the reading.
async fn send(
    client: &mut Client,
    target: &Target,
    source: impl Read + Send + 'static,
) -> Result<inspan_v1::ImportResponse, Error> {
    let (chunks, sent) = tokio::sync::mpsc::channel(CHUNKS_MAX);
    let reading = tokio::task::spawn_blocking(move || read(source, &chunks));
    let stream = futures_util::stream::unfold(sent, |mut sent| async move { Some((sent.recv().await?, sent)) });
    let answer = client.journal.import(stream).await;
    let read = reading.await.unwrap_or_else(|_| Err(std::io::Error::other("the reading task ended early")));
    read.map_err(|e| Error::new(format!("reading the file failed: {e}"), "inspan import --help"))?;
    Ok(answer.map_err(|s| target.rpc_error("import", "", &s))?.into_inner())
}

/// Reads until the end, or until nobody wants more.
fn read(mut source: impl Read, chunks: &tokio::sync::mpsc::Sender<inspan_v1::Chunk>) -> std::io::Result<()> {
    let progress = Progress::start("bytes sent");
    loop {
        let mut data = Vec::with_capacity(CHUNK_BYTES);
        source.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut data)?;
        let read = data.len();
        if read == 0 || chunks.blocking_send(inspan_v1::Chunk { data: data.into() }).is_err() {
            return Ok(());
        }
        progress.add(read as u64);
    }
}
