//! A harness that does what a test lists, a sink that answers what a test lists, and a link between them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use inspan_attach::grpc::{Address, Remote};
use inspan_harness::{
    Failure, Harness, History, ModelRequest, ModelResponse, Sink, SinkError, Start, ToolReply, async_trait, gate, serve,
};
use inspan_wire::v1::{self, Mediation};
use tokio::sync::{Notify, oneshot};

pub(crate) const SESSION: &str = "sess-1";
pub(crate) const EXECUTION: &str = "00000000000000e1";

/// What a harness does, in order. A failure of the sink ends its turn, but for `Swallow`.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Model(String),
    Mode(i32),
    Output(&'static str),
    Tool(v1::ToolCall),
    Report(v1::ToolResult),
    Usage(i64),
    /// Notes how long the history is, in events and in bytes of text.
    Past,
    /// The next step's failure is noted and ignored.
    Swallow,
    /// Starts a model call and gives it up at once.
    GiveUp,
    Fail(&'static str),
    Panic(&'static str),
    /// Says that the turn parked, whether it did or not.
    SayParked,
    Hang,
}

/// The harness, and what it saw.
#[derive(Clone, Default)]
pub(crate) struct Script {
    steps: Vec<Step>,
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
    pub(crate) started: Arc<Notify>,
    pub(crate) dropped: Arc<Notify>,
    /// Taken one after another; the last one stays.
    pub(crate) descriptors: Arc<Mutex<VecDeque<Result<v1::HarnessDescriptor, Failure>>>>,
}

pub(crate) fn script(steps: impl IntoIterator<Item = Step>) -> Script {
    Script { steps: steps.into_iter().collect(), ..Script::default() }
}

impl Script {
    /// Says these things of itself, one after another.
    pub(crate) fn saying(self, all: impl IntoIterator<Item = Result<v1::HarnessDescriptor, Failure>>) -> Script {
        *self.descriptors.lock().expect("never poisoned") = all.into_iter().collect();
        self
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("never poisoned").clone()
    }

    fn note(&self, text: impl Into<String>) {
        self.seen.lock().expect("never poisoned").push(text.into());
    }

    async fn step(&self, step: &Step, start: &Start, sink: &dyn Sink) -> Result<(), Failure> {
        match step {
            Step::Model(text) => self.note(sink.model(request(text)).await?.message.concat_text()),
            Step::Mode(mode) => {
                let tool_choice = Some(v1::ToolChoice { mode: *mode, ..Default::default() });
                sink.model(ModelRequest { tool_choice, ..request("x") }).await?;
            }
            Step::Output(text) => sink.output(text).await?,
            Step::Tool(call) => {
                let reply = sink.tool(call.clone()).await?;
                let decided = reply.decision.map(|d| format!(" approved={} {}", d.approved, d.reason));
                self.note(format!("{}{}", shown(&reply.result), decided.unwrap_or_default()));
            }
            Step::Report(result) => sink.report(result.clone()).await?,
            Step::Usage(tokens) => sink.usage(v1::Usage { input_tokens: *tokens, ..Default::default() }).await?,
            Step::Past => self.past(start).await?,
            Step::GiveUp => tokio::select! {
                biased;
                answer = sink.model(request("given up")) => drop(answer),
                () = std::future::ready(()) => {}
            },
            Step::Fail(text) => return Err(Failure::Failed((*text).to_owned())),
            Step::Panic(text) => panic!("{text}"),
            Step::SayParked => return Err(Failure::Parked),
            Step::Hang => std::future::pending().await,
            Step::Swallow => {}
        }
        Ok(())
    }

    async fn past(&self, start: &Start) -> Result<(), Failure> {
        let (mut events, mut bytes) = (0, 0);
        let mut reader = start.history.reader();
        loop {
            let page = reader.next_page().await?;
            if page.is_empty() {
                break;
            }
            events += page.len();
            bytes += page.iter().filter_map(|e| message(e)).map(|m| m.concat_text().len()).sum::<usize>();
        }
        self.note(format!("history of {events} events, {bytes} bytes"));
        Ok(())
    }
}

fn message(event: &v1::Event) -> Option<&v1::Message> {
    match &event.body {
        Some(v1::event::Body::Message(message)) => Some(message),
        _ => None,
    }
}

/// Tells a test that the run is over, however it ended.
struct Over(Arc<Notify>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[async_trait]
impl Harness for Script {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        let mut all = self.descriptors.lock().expect("never poisoned");
        let next = if all.len() > 1 { all.pop_front() } else { all.front().cloned() };
        next.unwrap_or_else(|| Ok(described("1")))
    }

    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        let _over = Over(self.dropped.clone());
        self.started.notify_one();
        let mut swallow = false;
        for step in &self.steps {
            match self.step(step, &start, sink).await {
                Err(failure) if swallow => self.note(format!("swallowed: {failure}")),
                outcome => outcome?,
            }
            swallow = matches!(step, Step::Swallow);
        }
        Ok(())
    }
}

pub(crate) fn described(version: &str) -> v1::HarnessDescriptor {
    v1::HarnessDescriptor { id: "script".to_owned(), version: version.to_owned(), ..Default::default() }
}

pub(crate) fn needs_memory() -> v1::HarnessDescriptor {
    let capabilities =
        v1::Capabilities { resumability: v1::Resumability::RequiresMemorySnapshot.into(), ..Default::default() };
    v1::HarnessDescriptor { capabilities: Some(capabilities), ..described("1") }
}

pub(crate) fn request(text: &str) -> ModelRequest {
    ModelRequest { model: "m".to_owned(), messages: vec![v1::Message::text("user", text)], ..Default::default() }
}

pub(crate) fn call(id: &str, mediation: Mediation) -> v1::ToolCall {
    v1::ToolCall {
        id: id.to_owned(),
        tool: "send".to_owned(),
        mediation: mediation.into(),
        idempotency_key: format!("key-{id}"),
        ..Default::default()
    }
}

pub(crate) fn mediated(id: &str) -> Step {
    Step::Tool(call(id, Mediation::ControllerMediated))
}

pub(crate) fn gated(id: &str) -> Step {
    Step::Tool(call(id, Mediation::RequiresApproval))
}

pub(crate) fn at(id: &str) -> v1::ApprovalRef {
    v1::ApprovalRef { execution_id: EXECUTION.to_owned(), tool_call_id: id.to_owned(), request_seq: 4 }
}

/// A receipt of the call `c` that was asked for at 4 and decided at 5.
pub(crate) fn receipt(code: i32, is_error: bool) -> v1::ToolResult {
    v1::ToolResult {
        id: "c".to_owned(),
        code,
        is_error,
        approval_request_seq: 4,
        approval_decision_seq: 5,
        ..Default::default()
    }
}

pub(crate) fn decision(approved: bool) -> v1::ApprovalResult {
    v1::ApprovalResult { tool_call_id: "c".to_owned(), approved, reason: "because".to_owned(), request_seq: 4 }
}

pub(crate) fn shown(result: &v1::ToolResult) -> String {
    format!(
        "{} code={} is_error={} seqs={}/{}",
        result.id, result.code, result.is_error, result.approval_request_seq, result.approval_decision_seq
    )
}

/// Answers models with `echo:` and the last text, tools with what a test put there, and notes everything.
#[derive(Default)]
pub(crate) struct TestSink {
    pub(crate) asked: Mutex<Vec<String>>,
    tools: Mutex<VecDeque<Result<ToolReply, SinkError>>>,
    no_model: bool,
}

impl TestSink {
    pub(crate) fn with_tools(all: impl IntoIterator<Item = Result<ToolReply, SinkError>>) -> TestSink {
        TestSink { tools: Mutex::new(all.into_iter().collect()), ..TestSink::default() }
    }

    pub(crate) fn without_model() -> TestSink {
        TestSink { no_model: true, ..TestSink::default() }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("never poisoned").clone()
    }

    fn note(&self, text: String) {
        self.asked.lock().expect("never poisoned").push(text);
    }
}

#[async_trait]
impl Sink for TestSink {
    async fn model(&self, request: ModelRequest) -> Result<ModelResponse, SinkError> {
        let text = request.messages.last().map(v1::Message::concat_text).unwrap_or_default();
        let short: String = text.chars().take(20).collect();
        self.note(format!("model {short}"));
        if self.no_model {
            return Err(SinkError::Handleable("the model call failed: no credit".to_owned()));
        }
        Ok(ModelResponse { message: v1::Message::text("assistant", format!("echo:{text}")) })
    }

    async fn output(&self, text: &str) -> Result<(), SinkError> {
        self.note(format!("output {text}"));
        Ok(())
    }

    async fn tool(&self, call: v1::ToolCall) -> Result<ToolReply, SinkError> {
        self.note(format!("tool {} {}", call.id, call.idempotency_key));
        self.tools.lock().expect("never poisoned").pop_front().expect("the test lists an answer for each call")
    }

    async fn report(&self, result: v1::ToolResult) -> Result<(), SinkError> {
        self.note(format!("report {}", result.id));
        if gate::is_host_owned(&result) {
            return Err(SinkError::Fatal("host-owned, says the sink".to_owned()));
        }
        Ok(())
    }

    async fn usage(&self, usage: v1::Usage) -> Result<(), SinkError> {
        self.note(format!("usage {}", usage.input_tokens));
        Ok(())
    }
}

pub(crate) fn start() -> Start {
    Start {
        session: SESSION.to_owned(),
        execution_id: EXECUTION.to_owned(),
        config: Default::default(),
        history: History::empty(),
        inputs: Vec::new(),
        identity: None,
        resume_from_seq: 0,
    }
}

/// How the two ends are linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Socket {
    Tcp,
    Unix,
}

/// A harness that is served in this process.
pub(crate) struct Served {
    pub(crate) address: Address,
    listen: serve::Address,
    stop: Option<oneshot::Sender<()>>,
    ended: tokio::task::JoinHandle<()>,
    _dir: Option<tempfile::TempDir>,
}

impl Served {
    pub(crate) async fn new(socket: Socket, harness: impl Harness) -> Served {
        match socket {
            Socket::Tcp => Served::at("127.0.0.1:0".parse().expect("an address"), harness, None).await,
            Socket::Unix => {
                let dir = tempfile::tempdir().expect("a folder");
                let path: PathBuf = dir.path().join("h.sock");
                Served::at(serve::Address::Unix(path), harness, Some(dir)).await
            }
        }
    }

    async fn at(address: serve::Address, harness: impl Harness, dir: Option<tempfile::TempDir>) -> Served {
        let listener = serve::Listener::bind(&address).await.expect("the address is free");
        let listen = listener.address().clone();
        let address = listen.to_string().parse().expect("what was bound can be dialled");
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(async move {
            serve::serve(harness, listener, async { drop(stopped.await) }).await.expect("it serves to its end");
        });
        Served { address, listen, stop: Some(stop), ended, _dir: dir }
    }

    /// Stops it and serves another one at the same address.
    pub(crate) async fn replaced(mut self, harness: impl Harness) -> Served {
        self.stop().await;
        Served::at(self.listen.clone(), harness, self._dir.take()).await
    }

    /// Stops it; nobody answers at its address afterwards.
    pub(crate) async fn stop(&mut self) {
        if self.stop.take().is_some() {
            (&mut self.ended).await.expect("it does not panic");
        }
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote::new(self.address.clone())
    }
}

/// Runs one turn over a link of either kind: what the harness saw, what the sink was asked, how it ended.
pub(crate) async fn turn(script: &Script, sink: &TestSink) -> Result<(), Failure> {
    let served = Served::new(Socket::Unix, script.clone()).await;
    served.remote().run(start(), sink).await
}

/// The text of a turn that failed.
#[track_caller]
pub(crate) fn text(outcome: Result<(), Failure>) -> String {
    match outcome {
        Err(Failure::Failed(text)) => text,
        other => panic!("{other:?} is not a failed turn"),
    }
}
