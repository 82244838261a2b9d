//! The release binary as users run it: a host in a process of its own, and clients of it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use inspan_host::proto::{JournalClient, SessionsClient};
use inspan_wire::v1;
use inspan_wire::v1::exec_update::Update;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};

use crate::frame::{Context, Failure};

/// How long a host may take to serve: a store of a million sessions opens well within it.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// A running host; killed when it is dropped.
pub(crate) struct Host {
    child: Child,
    address: SocketAddr,
}

impl Host {
    /// Starts `inspan serve` on the journal in `folder` and waits until it answers.
    pub(crate) async fn start(context: &Context, folder: &Path, extra: &[&str]) -> Result<Host, Failure> {
        let address = free_address()?;
        let log = std::fs::File::create(folder.join("host.log"))?;
        let child = Command::new(context.inspan())
            .arg("serve")
            .args(["--addr", &address.to_string()])
            .arg("--journal")
            .arg(journal_file(folder))
            .args(extra)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let mut host = Host { child, address };
        host.wait_until_serving(folder).await?;
        Ok(host)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    async fn wait_until_serving(&mut self, folder: &Path) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            if let Ok(channel) = self.channel().await
                && health(&mut HealthClient::new(channel)).await.is_ok()
            {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(folder.join("host.log"))?;
                return Err(Failure::new(format!("the host ended with {status}: {}", log.trim())));
            }
            if began.elapsed() > START_TIME_MAX {
                return Err(Failure::new("the host does not answer"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A connection of its own.
    pub(crate) async fn channel(&self) -> Result<Channel, Failure> {
        Ok(Endpoint::from_shared(format!("http://{}", self.address))?.tcp_nodelay(true).connect().await?)
    }

    pub(crate) async fn health(&self) -> Result<HealthClient<Channel>, Failure> {
        Ok(HealthClient::new(self.channel().await?))
    }

    pub(crate) async fn sessions(&self) -> Result<SessionsClient<Channel>, Failure> {
        Ok(SessionsClient::new(self.channel().await?).max_decoding_message_size(64 << 20))
    }

    pub(crate) async fn journal(&self) -> Result<JournalClient<Channel>, Failure> {
        Ok(JournalClient::new(self.channel().await?))
    }

    /// A line of the kernel's about this process's memory, in MB (10^6 bytes): `VmRSS` is now, `VmHWM` the most so far.
    pub(crate) fn memory_mb(&self, line: &str) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib = status.lines().find_map(|text| {
            text.strip_prefix(line)?.trim_start_matches(':').split_whitespace().next()?.parse::<f64>().ok()
        });
        kib.map(|kib| kib * 1024.0 / 1e6).ok_or_else(|| Failure::new(format!("no {line} in the process's status")))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A host that has ended by itself needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The journal that a host in `folder` serves.
pub(crate) fn journal_file(folder: &Path) -> PathBuf {
    folder.join("journal.db")
}

/// An address on loopback that nobody listens on.
pub(crate) fn free_address() -> Result<SocketAddr, Failure> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// The smallest call there is: a bare gRPC round trip.
pub(crate) async fn health(client: &mut HealthClient<Channel>) -> Result<(), Failure> {
    let answer = client.check(HealthCheckRequest { service: String::new() }).await?.into_inner();
    if answer.status() == ServingStatus::Serving { Ok(()) } else { Err(Failure::new("the host is not serving")) }
}

/// Creates a session on `harness`; empty is the host's default.
pub(crate) async fn create(client: &mut SessionsClient<Channel>, harness: &str) -> Result<String, Failure> {
    let session = v1::Session { harness: harness.to_owned(), ..Default::default() };
    let request = v1::CreateSessionRequest { session: Some(session) };
    let created = client.create_session(request).await?.into_inner();
    created.metadata.map(|metadata| metadata.uid).ok_or_else(|| Failure::new("a session without a uid"))
}

/// Takes a turn with `inputs` messages to its end; gives the number of records that it made.
pub(crate) async fn turn(client: &mut SessionsClient<Channel>, session: &str, inputs: usize) -> Result<usize, Failure> {
    let inputs = vec![v1::Message::text("user", "what is the weather in Zurich tomorrow?"); inputs];
    let request = v1::ExecRequest { session: session.to_owned(), inputs, ..Default::default() };
    let mut stream = client.exec(request).await?.into_inner();
    let (mut records, mut ended) = (0, false);
    while let Some(update) = stream.message().await? {
        if let Some(Update::Record(record)) = update.update {
            records += 1;
            ended = record.event.is_some_and(|event| event.kind() == v1::EventKind::EventEnd);
        }
    }
    if ended { Ok(records) } else { Err(Failure::new("a turn without an end")) }
}

/// Grows a session to at least `records` records, by turns of a thousand inputs.
pub(crate) async fn grow(client: &mut SessionsClient<Channel>, session: &str, records: usize) -> Result<(), Failure> {
    let mut made = 0;
    while made < records {
        made += turn(client, session, 996.min(records - made)).await?;
    }
    Ok(())
}

/// What `inspan` prints with `args` as JSON.
pub(crate) fn json_of(context: &Context, args: &[&str]) -> Result<serde_json::Value, Failure> {
    let output = Command::new(context.inspan()).args(args).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("inspan {}: {}", args.join(" "), text.trim())));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
