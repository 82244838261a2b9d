//! A tool call that the host mediates, as its harness sees it, beside the flushes and the calls that it cannot do
//! without.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use inspan_harness::{Failure as HarnessFailure, Harness, Sink, Start};
use inspan_host::catalog::{Static, in_process};
use inspan_host::config;
use inspan_host::models::Echo;
use inspan_host::proto::SessionsClient;
use inspan_host::server::{Address, Config, Server};
use inspan_host::tools::Tools;
use inspan_wire::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::{Channel, Endpoint};

use crate::disk::Disk;
use crate::frame::{Bar, Bench, Context, Failure, Row};
use crate::host::create;
use crate::lean;
use crate::rows::appends::open;
use crate::stats::{as_ms, median};

pub(crate) const BENCH: Bench =
    Bench { name: "tool", what: "a mediated tool call over HTTP beside two flushes and two direct calls", run };

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let folder = context.fresh("tool")?;
    let mut disk = Disk::in_folder(&folder)?;
    let (mut direct, mut flushes) = (Vec::new(), Vec::new());
    let caller = Caller::default();
    context.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let tool = listener.local_addr()?;
        tokio::spawn(provide(listener));
        let (mut sessions, client) = serve(&folder, tool, caller.clone()).await?;
        let straight = Client::builder(TokioExecutor::new()).build(connector());
        let session = create(&mut sessions, CALLER).await?;
        for _ in 0..context.size(500, 40) {
            client.turn(&session).await?;
            let began = Instant::now();
            call(&straight, tool).await?;
            direct.push(as_ms(began.elapsed()));
            flushes.push(disk.flush_ms()?);
        }
        Ok::<(), Failure>(())
    })?;
    let calls = caller.took.lock().unwrap_or_else(PoisonError::into_inner).split_off(20);
    let beside = 2.0 * median(&flushes) + 2.0 * median(&direct);
    let name = "mediated no-op tool call over HTTP, p50 / 2 fdatasyncs + 2 direct calls";
    Ok(vec![Row::limit(name, "ms", median(&calls), beside, Bar::AtMost(1.0))])
}

/// Serves `caller` in this process, so that what it sees is the call alone, without the way to another process; gives a
/// client that creates sessions and one that costs little.
async fn serve(
    folder: &Path,
    tool: SocketAddr,
    caller: Caller,
) -> Result<(SessionsClient<Channel>, lean::Client), Failure> {
    let config = format!("[[tools.http]]\nname = \"noop\"\nurl = \"http://{tool}/noop\"\nreplay = \"keyed\"\n");
    let config = config::File::parse("inspan.toml", &config).map_err(|e| Failure::new(e.to_string()))?;
    let tools = Tools::new(&config.tools, &|_| None).map_err(Failure::new)?;
    let catalog =
        Static::new(Arc::new(Echo)).with(in_process(CALLER, caller, Arc::new(Echo))).with_executor(Arc::new(tools));
    let mut config = Config::new("127.0.0.1:0".parse()?, open(folder)?, Arc::new(catalog));
    config.lanes = std::thread::available_parallelism()?.get();
    let bound = Server::bind(config).await?;
    let Address::Tcp(address) = *bound.address() else { return Err(Failure::new("the host is not at a TCP address")) };
    tokio::spawn(bound.serve(std::future::pending()));
    let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
    Ok((SessionsClient::new(channel), lean::Client::connect(address).await?))
}

const CALLER: &str = "caller";

/// A harness that makes one tool call in a turn and notes how long it took, in milliseconds.
#[derive(Clone, Default)]
struct Caller {
    took: Arc<Mutex<Vec<f64>>>,
}

#[async_trait]
impl Harness for Caller {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, HarnessFailure> {
        Ok(v1::HarnessDescriptor {
            id: CALLER.to_owned(),
            version: "1".to_owned(),
            capabilities: Some(v1::Capabilities {
                resumability: v1::Resumability::StatelessReplay.into(),
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), HarnessFailure> {
        let call = v1::ToolCall {
            id: "call".to_owned(),
            tool: "noop".to_owned(),
            mediation: v1::Mediation::ControllerMediated.into(),
            idempotency_key: start.execution_id,
            ..Default::default()
        };
        let began = Instant::now();
        let reply = sink.tool(call).await?;
        self.took.lock().unwrap_or_else(PoisonError::into_inner).push(as_ms(began.elapsed()));
        if reply.result.is_error { Err(HarnessFailure::Failed("the tool call failed".to_owned())) } else { Ok(()) }
    }
}

/// An endpoint that answers every request with `{}` at once.
async fn provide(listener: TcpListener) {
    while let Ok((connection, _)) = listener.accept().await {
        tokio::spawn(answer(connection));
    }
}

async fn answer(mut connection: TcpStream) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut read = Vec::new();
    loop {
        if connection.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
        while let Some(length) = request_length(&read) {
            read.drain(..length);
            connection.write_all(ANSWER).await?;
        }
    }
}

/// The length of the whole request at the start of `read`; `None` until all of it is there.
fn request_length(read: &[u8]) -> Option<usize> {
    let head = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&read[..head]).ok()?.to_ascii_lowercase();
    let body = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
    (read.len() >= head + body).then_some(head + body)
}

/// The same call without a host, by the client that the host has.
async fn call(client: &Client<HttpConnector, Full<Bytes>>, tool: SocketAddr) -> Result<(), Failure> {
    let request = http::Request::post(format!("http://{tool}/noop"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from_static(b"{}")))?;
    let answer = client.request(request).await?.into_body().collect().await?.to_bytes();
    if answer == "{}" { Ok(()) } else { Err(Failure::new("another answer than the endpoint's")) }
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector
}
