//! A streamed chunk: how much later it arrives through the host than straight from the provider, beside how much
//! later it arrives through a process that only forwards bytes. All three are read by the same plain reader, the
//! host's as server-sent events, so that no client's cost is put on any of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::frame::{Bar, Bench, Context, Failure, Row};
use crate::host::{Host, create};
use crate::stats::median;

pub(crate) const BENCH: Bench =
    Bench { name: "stream", what: "a streamed chunk through the host beside a bare loopback hop", run };

/// Far enough apart that no chunk waits for the one before it.
const CHUNK_EVERY: Duration = Duration::from_millis(2);

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let folder = context.fresh("stream")?;
    let chunks = context.size(300, 50);
    let epoch = Instant::now();
    let provider = provide(chunks, epoch)?;
    let hop = Hop::start(provider)?;
    let base_url = format!("http://{provider}/v1");
    let (mut bare, mut hopped, mut hosted) = (Vec::new(), Vec::new(), Vec::new());
    context.block_on(async {
        let host = Host::start(context, &folder, &["--model", "m", "--model-base-url", &base_url]).await?;
        let mut client = host.sessions().await?;
        for round in 0..context.size(10, 2) {
            let (straight, through) = (read_provider(provider, epoch)?, read_provider(hop.address, epoch)?);
            let session = create(&mut client, "chat").await?;
            let delays = read_turn(host.address(), &session, epoch)?;
            if delays.len() != chunks {
                return Err(Failure::new(format!("{} chunks instead of {chunks}", delays.len())));
            }
            if round > 0 || context.quick {
                bare.extend(straight);
                hopped.extend(through);
                hosted.extend(delays);
            }
        }
        Ok::<(), Failure>(())
    })?;
    let (bare, hopped, hosted) = (median(&bare), median(&hopped), median(&hosted));
    let name = "a streamed chunk through the host, added p50 / added by a bare loopback hop";
    Ok(vec![Row::limit(name, "us", hosted - bare, hopped - bare, Bar::AtMost(2.0))])
}

/// A provider that streams: each chunk's text is the time at which it was sent, in nanoseconds since `epoch`.
fn provide(chunks: usize, epoch: Instant) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            std::thread::spawn(move || connection.and_then(|connection| answer(connection, chunks, epoch)));
        }
    });
    Ok(address)
}

/// Answers one request with a stream in the format of OpenAI's chat completions.
fn answer(mut connection: TcpStream, chunks: usize, epoch: Instant) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    skip_request(&mut BufReader::new(connection.try_clone()?))?;
    write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
    let mut send = |data: &str| {
        let body = format!("data: {data}\n\n");
        connection.write_all(format!("{:x}\r\n{body}\r\n", body.len()).as_bytes())
    };
    for _ in 0..chunks {
        std::thread::sleep(CHUNK_EVERY);
        let sent = epoch.elapsed().as_nanos();
        send(&format!(
            r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{"content":"{sent} "}},"finish_reason":null}}]}}"#
        ))?;
    }
    send(
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    )?;
    send("[DONE]")?;
    connection.write_all(b"0\r\n\r\n")
}

fn skip_request(request: &mut impl BufRead) -> std::io::Result<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        request.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    std::io::copy(&mut request.take(length), &mut std::io::sink()).map(drop)
}

/// Reads a whole answer straight from a provider, or through the hop.
fn read_provider(address: SocketAddr, epoch: Instant) -> Result<Vec<f64>, Failure> {
    read(address, "/v1/chat/completions", "{}", Marks { text: r#""content":""#, end: "data: [DONE]" }, epoch)
}

/// Takes a turn and reads its stream.
fn read_turn(address: SocketAddr, session: &str, epoch: Instant) -> Result<Vec<f64>, Failure> {
    let path = format!("/v1/sessions/{session}/turns");
    let body = r#"{"inputs":[{"role":"user","parts":[{"text":{"text":"go"}}]}]}"#;
    read(address, &path, body, Marks { text: r#""chunk":""#, end: "event: end" }, epoch)
}

/// What to look for in a stream.
struct Marks {
    /// Stands before the time in the line of a chunk.
    text: &'static str,
    /// The line that ends the stream.
    end: &'static str,
}

/// Reads a whole stream as plainly as can be; how late each chunk was, in microseconds.
fn read(address: SocketAddr, path: &str, body: &str, marks: Marks, epoch: Instant) -> Result<Vec<f64>, Failure> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_nodelay(true)?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(request.as_bytes())?;
    let mut delays = Vec::new();
    for line in BufReader::new(connection).lines() {
        let line = line?;
        if let Some((_, text)) = line.split_once(marks.text) {
            delays.push(delay_us(text, epoch)?);
        }
        if line == marks.end {
            return Ok(delays);
        }
    }
    Err(Failure::new("the stream ended early"))
}

/// How long ago the time at the start of `text` was.
fn delay_us(text: &str, epoch: Instant) -> Result<f64, Failure> {
    let now = epoch.elapsed();
    let sent: u64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok((now.saturating_sub(Duration::from_nanos(sent))).as_secs_f64() * 1e6)
}

/// The forwarding process; killed when it is dropped.
struct Hop {
    child: Child,
    address: SocketAddr,
}

impl Hop {
    fn start(target: SocketAddr) -> Result<Hop, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--tcp-hop", &target.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("standard output is piped")).read_line(&mut port)?;
        let address = SocketAddr::from(([127, 0, 0, 1], port.trim().parse()?));
        Ok(Hop { child, address })
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        // A process that has ended by itself needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
