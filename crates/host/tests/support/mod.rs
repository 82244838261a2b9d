//! A host on a real socket, a model that the test holds in its hand, and clients of both spellings.

#![allow(dead_code, reason = "each test binary uses its part of this")]
#![allow(unreachable_pub, reason = "a module of a test binary")]

pub mod http;
pub mod model;

use std::sync::Arc;
use std::time::Duration;

use inspan_engine::Model;
use inspan_harness::reference::Counter;
use inspan_host::catalog::{Static, in_process};
use inspan_host::proto::{JournalClient, SessionsClient};
use inspan_host::server::{Address, Config, Server, Stopped};
use inspan_host::system::System;
use inspan_journal::{Blobs, Journal, blob, memory};
use inspan_testkit::harness::Moves;
use inspan_wire::v1::{self, EventKind};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

use model::{Echoing, Gated, Gates};

/// A host that serves on a free port of loopback.
pub struct Running {
    pub address: Address,
    /// Where the registry is, when the settings ask for one.
    pub registry: Option<Address>,
    pub journal: Arc<dyn Journal>,
    pub host: Arc<inspan_host::Host>,
    /// Holds the model calls of the harness `gated`.
    pub gates: Gates,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Stopped>,
}

/// Starts a host with the usual settings.
pub async fn start() -> Running {
    start_with(|_| {}).await
}

/// Starts a host whose settings `change` has been at. It serves `echo`, `moves`, `counter`, and `gated`:
/// the moves harness on a model that answers when the test says so.
pub async fn start_with(change: impl FnOnce(&mut Config)) -> Running {
    let blobs: Arc<dyn Blobs> = Arc::new(blob::Memory::new());
    let journal: Arc<dyn Journal> = Arc::new(memory::Store::new(blobs, Arc::new(System)));
    start_on(journal, change).await
}

/// Starts a host over a journal that is there already.
pub async fn start_on(journal: Arc<dyn Journal>, change: impl FnOnce(&mut Config)) -> Running {
    let (gated, gates) = Gated::new();
    let echoing: Arc<dyn Model> = Arc::new(Echoing);
    let catalog = Static::new(Arc::clone(&echoing))
        .with(in_process("moves", Moves::default(), Arc::clone(&echoing)))
        .with(in_process("gated", Moves::default(), Arc::new(gated)))
        .with(in_process("counter", Counter::default(), echoing));
    let address = Address::Tcp(([127, 0, 0, 1], 0).into());
    let mut config = Config::new(address, Arc::clone(&journal), Arc::new(catalog));
    config.stop_within = Duration::from_secs(20);
    change(&mut config);
    let bound = Server::bind(config).await.expect("a free port");
    let (stop, stopped) = oneshot::channel();
    let (address, registry) = (bound.address().clone(), bound.registry_address().cloned());
    let host = Arc::clone(bound.host());
    let served = tokio::spawn(bound.serve(async { drop(stopped.await) }));
    Running { address, registry, journal, host, gates, stop: Some(stop), served }
}

impl Running {
    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.address.endpoint()).expect("an address");
        endpoint.connect().await.expect("the host accepts")
    }

    pub async fn sessions(&self) -> SessionsClient<Channel> {
        SessionsClient::new(self.channel().await)
    }

    pub async fn watching(&self) -> JournalClient<Channel> {
        JournalClient::new(self.channel().await)
    }

    /// The authority of the host's own URLs.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// Tells the host to stop; it goes on until its turns are durable.
    pub fn stop(&mut self) {
        let _ = self.stop.take().expect("the host is stopped once").send(());
    }

    /// Waits for the host to have stopped.
    pub async fn stopped(self) -> Stopped {
        self.served.await.expect("the server does not panic")
    }

    /// Creates a session on `harness`.
    pub async fn session(&self, harness: &str) -> String {
        let session = v1::Session { harness: harness.to_owned(), ..Default::default() };
        let request = v1::CreateSessionRequest { session: Some(session) };
        let created = self.sessions().await.create_session(request).await.expect("it is created");
        created.into_inner().metadata.expect("a session has metadata").uid
    }

    /// Runs a turn on a session and waits for its end.
    pub async fn turn(&self, uid: &str, text: &str) -> Vec<v1::ExecUpdate> {
        let mut stream = self.sessions().await.exec(exec(uid, text)).await.expect("it is accepted").into_inner();
        let mut frames = Vec::new();
        while let Some(frame) = stream.message().await.expect("the turn ends well") {
            frames.push(frame);
        }
        frames
    }
}

/// A request for a turn with one input.
pub fn exec(uid: &str, text: &str) -> v1::ExecRequest {
    v1::ExecRequest { session: uid.to_owned(), inputs: vec![v1::Message::text("user", text)], ..Default::default() }
}

/// A frame of an Exec stream in one word.
pub fn word(frame: &v1::ExecUpdate) -> String {
    use v1::exec_update::Update;
    match frame.update.as_ref().expect("a frame has a body") {
        Update::Session(session) => format!("session@{}", session.last_seq),
        Update::Delta(delta) if delta.done => "done".to_owned(),
        Update::Delta(delta) => format!("delta {:?}", delta.chunk),
        Update::Record(record) => format!("{} {}", record.seq, kind(record.event.as_ref().expect("an event"))),
    }
}

/// The kind of an event without its prefix.
pub fn kind(event: &v1::Event) -> &'static str {
    event.kind().as_str_name().trim_start_matches("EVENT_")
}

/// The records of a journal, in one word each.
pub async fn journal_words(running: &Running, uid: &str) -> Vec<String> {
    let request = v1::ReplayRequest { session: uid.to_owned(), ..Default::default() };
    let mut stream = running.sessions().await.replay(request).await.expect("it is there").into_inner();
    let mut words = Vec::new();
    while let Some(record) = stream.message().await.expect("the journal is well") {
        words.push(format!("{} {}", record.seq, kind(&record.event.expect("an event"))));
    }
    words
}

/// Whether an event begins a turn.
pub fn begins(event: &v1::Event) -> bool {
    event.kind() == EventKind::EventExecutionStart
}
