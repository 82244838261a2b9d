//! One connection: read a request, play its answer, perhaps again.

use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Answer, Call, End, Framing, Gate, Script, Step};

/// What became of an answer.
enum Played {
    /// The connection takes the next request.
    KeptAlive,
    /// The connection is at its end.
    Closed,
    /// The client went away before the end.
    ClientLeft,
}

/// Serves requests until either side closes.
pub(super) async fn serve(mut stream: TcpStream, script: Arc<Script>) {
    // Chunk borders are the point: each write goes out at once.
    let _ = stream.set_nodelay(true);
    let mut buffer = BytesMut::new();
    while let Ok(Some(call)) = read(&mut stream, &mut buffer).await {
        let answer = script.answer(call);
        match play(&mut stream, &answer).await {
            Ok(Played::KeptAlive) => {}
            Ok(Played::Closed) => return,
            Ok(Played::ClientLeft) | Err(_) => return script.client_left(),
        }
    }
}

/// Reads one request with a `content-length`, as every client here sends; `None` when it closed instead.
pub(crate) async fn read(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Option<Call>> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    buffer.advance(head_end);
    let mut lines = head.lines();
    let mut request_line = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, target) = (request_line.next().unwrap_or_default(), request_line.next().unwrap_or_default());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, v)| v.parse().ok());
    let length: usize = length.unwrap_or(0);
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = buffer.split_to(length).freeze();
    Ok(Some(Call { method, target, headers, body }))
}

async fn play(stream: &mut TcpStream, answer: &Answer) -> io::Result<Played> {
    if let Some(gate) = &answer.held
        && !passed(gate, stream).await
    {
        return Ok(Played::ClientLeft);
    }
    stream.write_all(head(answer).as_bytes()).await?;
    for step in &answer.steps {
        match step {
            Step::Bytes(bytes) if bytes.is_empty() => {}
            Step::Bytes(bytes) => stream.write_all(&framed(answer.framing, bytes)).await?,
            Step::Gate(gate) if passed(gate, stream).await => {}
            Step::Gate(_) => return Ok(Played::ClientLeft),
        }
    }
    match answer.end {
        End::Whole if answer.framing == Framing::Close => stream.shutdown().await?,
        End::Whole => {
            if answer.framing == Framing::Chunked {
                stream.write_all(b"0\r\n\r\n").await?;
            }
            return Ok(Played::KeptAlive);
        }
        End::Fin => stream.shutdown().await?,
        End::Reset => stream.set_zero_linger()?,
        End::Hang => {
            client_gone(stream).await;
            return Ok(Played::ClientLeft);
        }
    }
    Ok(Played::Closed)
}

/// Waits at a gate; false when the client left first.
async fn passed(gate: &Gate, stream: &TcpStream) -> bool {
    tokio::select! {
        () = gate.pass() => true,
        () = client_gone(stream) => false,
    }
}

fn head(answer: &Answer) -> String {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match answer.framing {
        Framing::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
        Framing::Length => head.push_str(&format!("content-length: {}\r\n", answer.length)),
        Framing::Close => head.push_str("connection: close\r\n"),
    }
    head + "\r\n"
}

fn framed(framing: Framing, bytes: &Bytes) -> Bytes {
    match framing {
        Framing::Chunked => [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat().into(),
        Framing::Length | Framing::Close => bytes.clone(),
    }
}

/// Returns once the client has closed its side or reset the connection.
async fn client_gone(stream: &TcpStream) {
    let mut ignored = [0_u8; 256];
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut ignored) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
