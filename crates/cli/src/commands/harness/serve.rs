//! `inspan harness serve`: a reference harness behind an address.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use inspan_harness::reference::{Chat, Counter, Echo};
use inspan_harness::serve::{Address, Listener, serve};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::commands::serve::shutdown;
use crate::error::Error;
use crate::logfmt;

/// Serve a reference harness until SIGINT or SIGTERM
///
/// Three harnesses to try a host with, and to read before writing one: `echo` asks the model `echo`, `chat` keeps a
/// conversation, `counter` needs its memory kept. Every flag can come from the environment instead.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which one: echo, chat or counter; anything else is echo (HARNESS_KIND)
    #[arg(long, value_name = "KIND", env = "HARNESS_KIND", hide_env = true, default_value = "echo")]
    kind: String,
    /// Model that chat asks its host for (HARNESS_MODEL)
    #[arg(
        long,
        value_name = "NAME",
        env = "HARNESS_MODEL",
        hide_env = true,
        default_value = "",
        hide_default_value = true
    )]
    model: String,
    /// Where to listen: HOST:PORT, :PORT for every interface, or unix:/path; whoever reaches it can drive the harness
    /// (HARNESS_ADDR)
    #[arg(long, value_name = "ADDRESS", env = "HARNESS_ADDR", hide_env = true, default_value = DEFAULT_ADDR)]
    addr: String,
    /// Where to answer `ok` over HTTP once the harness is served (HARNESS_READYZ)
    #[arg(long, value_name = "ADDRESS", env = "HARNESS_READYZ", hide_env = true, default_value = DEFAULT_READYZ)]
    readyz: String,
}

const DEFAULT_ADDR: &str = ":80";
const DEFAULT_READYZ: &str = ":8081";
const HELP: &str = "inspan harness serve --help";
/// Probes that are answered at once; more are hung up on.
const PROBES_MAX: usize = 64;
/// How long a probe may take to ask.
const PROBE_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of a probe's head that are read.
const PROBE_HEAD_MAX: u64 = 16 << 10;

fn failed(text: impl std::fmt::Display) -> Error {
    Error::new(format!("harness serve: {text}"), HELP)
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let kind = if matches!(args.kind.as_str(), "chat" | "counter") { args.kind.as_str() } else { "echo" };
    if kind == "chat" && args.model.is_empty() {
        return Err(failed("chat needs the model that it asks for: set HARNESS_MODEL"));
    }
    logfmt::init("info").map_err(failed)?;
    let listener = bind(&args.addr, DEFAULT_ADDR).await?;
    let ready = bind(&args.readyz, DEFAULT_READYZ).await?;
    let (addr, readyz) = (listener.address().to_string(), ready.address().to_string());
    let ready = ready.into_tcp().ok_or_else(|| failed(format!("{readyz}: readiness is asked for over TCP")))?;
    let stop = shutdown().map_err(|e| failed(format!("listening for signals failed: {e}")))?;
    tracing::info!("inspan harness serve: \"{kind}\" harness serving harnesswire on {addr}, readyz on {readyz}");
    let serving = match kind {
        "chat" => serve(Chat::new(args.model), listener, stop).boxed(),
        "counter" => serve(Counter::default(), listener, stop).boxed(),
        _ => serve(Echo, listener, stop).boxed(),
    };
    tokio::select! {
        served = serving => served.map_err(failed),
        never = answer_probes(ready) => match never {},
    }
}

async fn bind(address: &str, default: &str) -> Result<Listener, Error> {
    // A variable that is set to nothing counts as unset.
    let address = if address.is_empty() { default } else { address };
    let address: Address = address.parse().map_err(failed)?;
    Listener::bind(&address).await.map_err(failed)
}

/// Answers `ok` to whatever is asked.
async fn answer_probes(listener: TcpListener) -> std::convert::Infallible {
    let slots = Arc::new(Semaphore::new(PROBES_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The system is out of something that a connection needs.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            tokio::spawn(async move {
                // A probe that hangs up or dawdles has its answer.
                let _ = tokio::time::timeout(PROBE_WITHIN, answer_probe(stream)).await;
                drop(slot);
            });
        }
    }
}

async fn answer_probe(mut stream: TcpStream) -> std::io::Result<()> {
    let (read, mut write) = stream.split();
    let mut head = BufReader::new(read.take(PROBE_HEAD_MAX)).lines();
    while let Some(line) = head.next_line().await? {
        if line.is_empty() {
            break;
        }
    }
    write
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        .await?;
    write.shutdown().await
}
