//! A gRPC client with nothing in it but the protocol: bare HTTP/2 frames, messages decoded, the status checked. Where many
//! clients share the machine with the host, what a client spends is taken from what is measured.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use inspan_wire::v1;
use inspan_wire::v1::exec_update::Update;
use prost::Message;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use crate::frame::Failure;

const EXEC: &str = "/agentsessions.v1.Sessions/Exec";
/// Of a gRPC message: whether it is compressed, and its length.
const PREFIX_LEN: usize = 5;

/// A connection of its own.
#[derive(Clone)]
pub(crate) struct Client {
    requests: SendRequest<Bytes>,
    host: SocketAddr,
}

impl Client {
    pub(crate) async fn connect(host: SocketAddr) -> Result<Client, Failure> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = h2::client::handshake(stream).await?;
        // What breaks the connection shows in the call that needs it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Client { requests, host })
    }

    /// Takes a turn with one message to its end; gives the number of records that it made.
    pub(crate) async fn turn(&self, session: &str) -> Result<usize, Failure> {
        let inputs = vec![v1::Message::text("user", "what is the weather in Zurich tomorrow?")];
        let request = v1::ExecRequest { session: session.to_owned(), inputs, ..Default::default() };
        let head = http::Request::post(format!("http://{}{EXEC}", self.host))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let mut requests = self.requests.clone().ready().await?;
        let (response, mut body) = requests.send_request(head, false)?;
        body.send_data(framed(&request)?, true)?;
        let mut answer = response.await?.into_body();
        let mut count = Count::default();
        let mut unread = BytesMut::new();
        while let Some(data) = answer.data().await {
            let data = data?;
            answer.flow_control().release_capacity(data.len())?;
            unread.extend_from_slice(&data);
            while let Some(message) = next(&mut unread) {
                count.take(v1::ExecUpdate::decode(message)?);
            }
        }
        let trailers = answer.trailers().await?.unwrap_or_default();
        match trailers.get("grpc-status") {
            Some(status) if status == "0" && count.ended => Ok(count.records),
            status => Err(Failure::new(format!("a turn without an end, or with status {status:?}"))),
        }
    }
}

/// Clients with a connection each, all on one thread: each thread more that wakes up for them is taken from the host.
pub(crate) struct Crowd {
    runtime: Runtime,
    clients: Vec<Client>,
}

impl Crowd {
    pub(crate) fn connect(host: SocketAddr, count: usize) -> Result<Crowd, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connects = (0..count).map(|_| Client::connect(host));
        let clients = runtime.block_on(futures_util::future::try_join_all(connects))?;
        Ok(Crowd { runtime, clients })
    }

    /// Takes turns for `time` with every client at once, each on its session; the records that they made in a second.
    pub(crate) fn turns_for(&self, sessions: &[String], time: Duration) -> Result<f64, Failure> {
        let began = Instant::now();
        let turns = |(client, session): (&Client, &String)| {
            let (client, session) = (client.clone(), session.clone());
            self.runtime.spawn(async move {
                let mut records = 0;
                while began.elapsed() < time {
                    records += client.turn(&session).await?;
                }
                Ok::<usize, Failure>(records)
            })
        };
        let tasks: Vec<_> = self.clients.iter().zip(sessions).map(turns).collect();
        let mut records = 0;
        for task in tasks {
            records += self.runtime.block_on(task)??;
        }
        Ok(records as f64 / began.elapsed().as_secs_f64())
    }
}

#[derive(Default)]
struct Count {
    records: usize,
    ended: bool,
}

impl Count {
    fn take(&mut self, update: v1::ExecUpdate) {
        if let Some(Update::Record(record)) = update.update {
            self.records += 1;
            self.ended = record.event.is_some_and(|event| event.kind() == v1::EventKind::EventEnd);
        }
    }
}

fn framed(message: &impl Message) -> Result<Bytes, Failure> {
    let mut bytes = BytesMut::with_capacity(PREFIX_LEN + message.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len())?);
    message.encode(&mut bytes)?;
    Ok(bytes.freeze())
}

/// The next whole message.
fn next(unread: &mut BytesMut) -> Option<Bytes> {
    let mut prefix = unread.get(1..PREFIX_LEN)?;
    let length = usize::try_from(prefix.get_u32()).ok()?;
    if unread.len() < PREFIX_LEN + length {
        return None;
    }
    unread.advance(PREFIX_LEN);
    Some(unread.split_to(length).freeze())
}
