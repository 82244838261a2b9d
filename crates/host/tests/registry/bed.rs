//! A host with a registry, and harnesses to register.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use inspan_engine::Model;
use inspan_harness::{Failure, Harness, Sink, Start, async_trait, serve};
use inspan_host::catalog::{Static, in_process};
use inspan_host::proto::HarnessRegistryClient;
use inspan_host::registry::Directory;
use inspan_host::server::Registry;
use inspan_host::system::System;
use inspan_journal::{Blobs, NewRegistration, Registrations as _, blob, memory};
use inspan_testkit::harness::Moves;
use inspan_wire::v1::{self, harness_spec::Placement};
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::support::model::Echoing;
use crate::support::{Running, start_on};

/// What a host brings itself.
pub(crate) struct Own {
    /// Names of harnesses beside `echo`, linked in.
    pub(crate) names: &'static [&'static str],
    /// Whether it has a model for those that are registered.
    pub(crate) model: bool,
    pub(crate) describe_within: Duration,
}

impl Default for Own {
    fn default() -> Own {
        Own { names: &["moves"], model: true, describe_within: Duration::from_secs(10) }
    }
}

/// A host, its registry and its store.
pub(crate) struct Bed {
    pub(crate) running: Running,
    pub(crate) registry: HarnessRegistryClient<Channel>,
    pub(crate) store: Arc<memory::Store>,
}

pub(crate) fn store() -> Arc<memory::Store> {
    let blobs: Arc<dyn Blobs> = Arc::new(blob::Memory::new());
    Arc::new(memory::Store::new(blobs, Arc::new(System)))
}

pub(crate) async fn directory(store: &Arc<memory::Store>, own: &Own) -> Result<Directory, String> {
    let model: Arc<dyn Model> = Arc::new(Echoing);
    let mut catalog = Static::new(Arc::clone(&model));
    for name in own.names {
        catalog = catalog.with(in_process(name, Moves::default(), Arc::clone(&model)));
    }
    Directory::load(catalog, Arc::clone(store) as _, own.model.then_some(model)).await.map_err(|e| e.to_string())
}

impl Bed {
    pub(crate) async fn new() -> Bed {
        Bed::on(&store(), Own::default()).await
    }

    /// A host on a store that others may use too.
    pub(crate) async fn on(store: &Arc<memory::Store>, own: Own) -> Bed {
        let directory = Arc::new(directory(store, &own).await.expect("nothing reserved is registered"));
        let running = start_on(Arc::clone(store) as _, |config| {
            config.catalog = Arc::clone(&directory) as _;
            config.registry = Some(Registry { address: "127.0.0.1:0".parse().expect("an address"), directory });
            config.limits.describe_ns_max = i64::try_from(own.describe_within.as_nanos()).expect("it is short");
        })
        .await;
        let address = running.registry.as_ref().expect("it was asked for").endpoint();
        let channel = Endpoint::from_shared(address).expect("an address").connect().await.expect("it accepts");
        Bed { running, registry: HarnessRegistryClient::new(channel), store: Arc::clone(store) }
    }

    pub(crate) async fn register(
        &self,
        name: &str,
        spec: v1::HarnessSpec,
    ) -> Result<(v1::HarnessRegistration, v1::RegisterOutcome), Status> {
        let request = v1::RegisterHarnessRequest { name: name.to_owned(), spec: Some(spec) };
        let answer = self.registry.clone().register_harness(request).await?.into_inner();
        let outcome = answer.outcome();
        Ok((answer.harness.expect("an answer has the harness"), outcome))
    }

    pub(crate) async fn get(&self, name: &str, observe: bool) -> Result<v1::HarnessRegistration, Status> {
        let request = v1::GetHarnessRequest { name: name.to_owned(), observe };
        Ok(self.registry.clone().get_harness(request).await?.into_inner())
    }

    pub(crate) async fn retire(&self, name: &str, reason: &str) -> Result<v1::HarnessRegistration, Status> {
        let request = v1::RetireHarnessRequest { name: name.to_owned(), reason: reason.to_owned() };
        Ok(self.registry.clone().retire_harness(request).await?.into_inner())
    }

    pub(crate) async fn list(&self, request: v1::ListHarnessesRequest) -> Result<v1::ListHarnessesResponse, Status> {
        Ok(self.registry.clone().list_harnesses(request).await?.into_inner())
    }

    /// The names of a listing that includes what is retired.
    pub(crate) async fn names(&self) -> Vec<String> {
        let request = v1::ListHarnessesRequest { include_retired: true, ..Default::default() };
        self.list(request).await.expect("it is listed").harnesses.iter().map(|h| name_of(h).to_owned()).collect()
    }

    pub(crate) async fn create(&self, harness: &str) -> Result<String, Status> {
        let session = v1::Session { harness: harness.to_owned(), ..Default::default() };
        let request = v1::CreateSessionRequest { session: Some(session) };
        let made = self.running.sessions().await.create_session(request).await?.into_inner();
        Ok(made.metadata.expect("a session has metadata").uid)
    }

    /// A turn, to its end: the texts of its outputs.
    pub(crate) async fn exec(&self, request: v1::ExecRequest) -> Result<Vec<String>, Status> {
        let mut frames = self.running.sessions().await.exec(request).await?.into_inner();
        let mut outputs = Vec::new();
        while let Some(frame) = frames.message().await? {
            if let Some(v1::exec_update::Update::Record(record)) = frame.update
                && let Some(event) = record.event
                && event.kind() == v1::EventKind::EventOutput
                && let Some(v1::event::Body::Message(message)) = event.body
            {
                outputs.push(message.concat_text());
            }
        }
        Ok(outputs)
    }

    pub(crate) async fn turn(&self, uid: &str, text: &str) -> Result<Vec<String>, Status> {
        self.exec(crate::support::exec(uid, text)).await
    }

    pub(crate) async fn resume(&self, uid: &str) -> Result<(), Status> {
        let request = v1::ResumeRequest { session: uid.to_owned(), ..Default::default() };
        self.running.sessions().await.resume(request).await.map(drop)
    }

    pub(crate) async fn suspend(&self, uid: &str) -> Result<(), Status> {
        self.running.sessions().await.suspend(v1::SuspendRequest { session: uid.to_owned() }).await.map(drop)
    }

    /// The uid of one child.
    pub(crate) async fn fork(&self, uid: &str) -> Result<String, Status> {
        let request = v1::ForkRequest { session: uid.to_owned(), ..Default::default() };
        let made = self.running.sessions().await.fork(request).await?.into_inner().children.remove(0);
        Ok(made.metadata.expect("a session has metadata").uid)
    }

    /// Puts bytes under a name, as another version of this program might.
    pub(crate) async fn row(&self, name: &str, spec: &str) {
        put(&self.store, name, spec).await;
    }
}

pub(crate) async fn put(store: &memory::Store, name: &str, spec: &str) {
    let (name, uid) = (name.to_owned(), format!("harness-of-{name}"));
    store.register(NewRegistration { name, uid, spec: Bytes::from(spec.to_owned()) }).await.expect("it is kept");
}

pub(crate) fn name_of(harness: &v1::HarnessRegistration) -> &str {
    harness.metadata.as_ref().map_or("", |metadata| metadata.name.as_str())
}

/// A stateless harness at `address`.
pub(crate) fn at(address: &str) -> v1::HarnessSpec {
    let capabilities =
        v1::Capabilities { resumability: v1::Resumability::StatelessReplay.into(), ..Default::default() };
    let remote = v1::RemotePlacement { address: address.to_owned() };
    v1::HarnessSpec {
        placement: Some(Placement::Remote(remote)),
        capabilities: Some(capabilities),
        descriptor_id: String::new(),
    }
}

/// The same, and only one that describes itself with `id`.
pub(crate) fn at_only(address: &str, id: &str) -> v1::HarnessSpec {
    v1::HarnessSpec { descriptor_id: id.to_owned(), ..at(address) }
}

/// The code of a refusal, whose text must have `word` in it.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, word: &str) {
    let status = answer.expect_err(word);
    assert!(status.code() == code && status.message().contains(word), "{status:?} is no {code:?} with {word:?}");
}

/// A harness behind an address of its own. Gone when it is dropped.
pub(crate) struct Node {
    pub(crate) address: String,
    stop: Option<oneshot::Sender<()>>,
    ended: tokio::task::JoinHandle<()>,
}

impl Node {
    pub(crate) async fn start(harness: impl Harness) -> Node {
        Node::start_at("127.0.0.1:0", harness).await
    }

    pub(crate) async fn start_at(address: &str, harness: impl Harness) -> Node {
        let listener = serve::Listener::bind(&address.parse().expect("an address")).await.expect("it is free");
        let address = listener.address().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(async move {
            serve::serve(harness, listener, async { drop(stopped.await) }).await.expect("it serves to its end");
        });
        Node { address, stop: Some(stop), ended }
    }

    /// Stops it and waits until nobody answers at its address.
    pub(crate) async fn gone(mut self) -> String {
        self.stop = None;
        self.ended.await.expect("it does not panic");
        self.address
    }
}

/// The scripted harness under another id.
pub(crate) fn moves_as(id: &str) -> Moves {
    let mut moves = Moves::default();
    moves.descriptor.id = id.to_owned();
    moves
}

/// Never says what it is.
pub(crate) struct Silent;

#[async_trait]
impl Harness for Silent {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        std::future::pending().await
    }

    async fn run(&self, _: Start, _: &dyn Sink) -> Result<(), Failure> {
        Ok(())
    }
}
