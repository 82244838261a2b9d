//! A whole world in memory: store, clock, randomness, model, observer, and a text view of journals.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use inspan_engine::observe::{Observer, Seen};
use inspan_engine::{
    Agent, Catalog, Completion, Decided, Engine, Error, Executor, Limits, Model, ModelError, Policy, ReplayRule, Rim,
    ToolError, ToolRun, Unserved,
};
use inspan_harness::{Harness, ModelRequest};
use inspan_journal::{Blobs, Clock, Journal, Record};
use inspan_testkit::harness::Moves;
use inspan_wire::v1::{self, event::Body};
use inspan_wire::{SessionUid, parse};

/// A clock that a test moves, and randomness that repeats.
pub(crate) struct Hand {
    now_ns: AtomicI64,
    seed: AtomicU64,
    wake: tokio::sync::watch::Sender<()>,
}

impl Hand {
    pub(crate) fn new(seed: u64) -> Arc<Hand> {
        let (wake, _) = tokio::sync::watch::channel(());
        Arc::new(Hand { now_ns: AtomicI64::new(1_700_000_000_000_000_000), seed: AtomicU64::new(seed), wake })
    }

    pub(crate) fn advance_s(&self, seconds: i64) {
        self.now_ns.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
        self.wake.send_replace(());
    }
}

impl Clock for Hand {
    fn now_ns(&self) -> i64 {
        self.now_ns.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Rim for Hand {
    fn now_ns(&self) -> i64 {
        Clock::now_ns(self)
    }

    async fn sleep_until(&self, deadline_ns: i64) {
        let mut moved = self.wake.subscribe();
        while Clock::now_ns(self) < deadline_ns {
            moved.changed().await.expect("the clock outlives its sleepers");
        }
    }

    fn fill(&self, bytes: &mut [u8]) {
        for b in bytes {
            // An odd multiplier and increment: a full-period generator is random enough for ids.
            let next = |s: u64| Some(s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
            let s = self.seed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).expect("it always updates");
            *b = (s >> 56) as u8;
        }
    }
}

/// What the model does with its next call.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// `re:` and the last message's text, in chunks when it streams.
    Reply,
    /// This very message.
    Say(v1::Message),
    /// Fails.
    Fail(String),
    /// Never answers.
    Hang,
    /// Replies once the test says so.
    Gate(Arc<tokio::sync::Notify>),
}

/// A model that counts.
pub(crate) struct Fake {
    pub(crate) streams: bool,
    pub(crate) script: Mutex<VecDeque<Answer>>,
    pub(crate) calls: Mutex<Vec<String>>,
    pub(crate) dropped: AtomicU64,
}

impl Fake {
    pub(crate) fn new(streams: bool) -> Arc<Fake> {
        Arc::new(Fake { streams, script: Mutex::default(), calls: Mutex::default(), dropped: AtomicU64::new(0) })
    }

    pub(crate) fn then(&self, answers: impl IntoIterator<Item = Answer>) {
        self.script.lock().unwrap().extend(answers);
    }

    pub(crate) fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

struct Unfinished<'a>(&'a AtomicU64, bool);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl Model for Fake {
    async fn call(
        &self,
        request: &ModelRequest,
        on_text: &(dyn for<'t> Fn(&'t str) + Send + Sync),
    ) -> Result<Completion, ModelError> {
        let text = request.messages.last().map(v1::Message::concat_text).unwrap_or_default();
        self.calls.lock().unwrap().push(text.clone());
        let answer = self.script.lock().unwrap().pop_front().unwrap_or(Answer::Reply);
        let mut guard = Unfinished(&self.dropped, false);
        let message = match answer {
            Answer::Reply => v1::Message::text("assistant", format!("re:{text}")),
            Answer::Say(message) => message,
            Answer::Gate(gate) => {
                gate.notified().await;
                v1::Message::text("assistant", format!("re:{text}"))
            }
            Answer::Fail(message) => {
                guard.1 = true;
                return Err(ModelError { message, retryable: false });
            }
            Answer::Hang => {
                std::future::pending::<()>().await;
                unreachable!("pending never resolves")
            }
        };
        if self.streams {
            for word in message.concat_text().split_inclusive(':') {
                on_text(word);
            }
        }
        guard.1 = true;
        Ok(Completion { message, usage: None })
    }

    fn streams(&self) -> bool {
        self.streams
    }
}

/// T: a tool that counts what it did, by effect key.
pub(crate) struct Tool {
    pub(crate) rule: ReplayRule,
    pub(crate) policy: Option<Arc<dyn Policy>>,
    pub(crate) script: Mutex<VecDeque<Act>>,
    /// Effect keys in the order of the runs, and whether each was a repetition.
    pub(crate) runs: Mutex<Vec<(String, bool)>>,
}

/// What the tool does with its next run.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// It works.
    Work,
    /// It works and says that it failed.
    SayFailed,
    /// It works and nobody hears of it.
    Lose,
    /// It is not reached.
    Miss,
    /// It works and never answers.
    Hang,
    /// It is on its way to the tool, and never gets there.
    Stall,
}

impl Tool {
    pub(crate) fn new(rule: ReplayRule) -> Tool {
        Tool { rule, policy: None, script: Mutex::default(), runs: Mutex::default() }
    }

    pub(crate) fn then(&self, acts: impl IntoIterator<Item = Act>) {
        self.script.lock().unwrap().extend(acts);
    }

    pub(crate) fn count(&self) -> usize {
        self.runs.lock().unwrap().len()
    }

    /// Different effects: what a tool that tells repetitions apart did.
    pub(crate) fn effects(&self) -> usize {
        let runs = self.runs.lock().unwrap();
        runs.iter().map(|(key, _)| key).collect::<std::collections::BTreeSet<_>>().len()
    }
}

#[async_trait]
impl Executor for Tool {
    fn replay_rule(&self, _: &str) -> ReplayRule {
        self.rule
    }

    async fn run(&self, run: ToolRun) -> Result<v1::ToolResult, ToolError> {
        let act = self.script.lock().unwrap().pop_front().unwrap_or(Act::Work);
        if !matches!(act, Act::Miss | Act::Stall) {
            self.runs.lock().unwrap().push((run.effect_key(), run.again));
        }
        let result = v1::ToolResult { id: "the tool's own".to_owned(), ..Default::default() };
        match act {
            Act::Work => Ok(result),
            Act::SayFailed => Ok(v1::ToolResult { is_error: true, error: "it says no".to_owned(), ..result }),
            Act::Lose => Err(ToolError::Unknown("no answer".to_owned())),
            Act::Miss => Err(ToolError::NotSent("not reached".to_owned())),
            Act::Hang | Act::Stall => std::future::pending().await,
        }
    }
}

/// Remembers all it sees.
#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) seen: Mutex<Vec<(SessionUid, Record)>>,
    pub(crate) log: Mutex<Vec<String>>,
}

impl Observer for Watcher {
    fn committed(&self, session: &SessionUid, records: &[Seen]) {
        let mut seen = self.seen.lock().unwrap();
        let mut log = self.log.lock().unwrap();
        for s in records {
            assert_eq!(parse::event(&s.record.event).unwrap(), *s.event, "what is shown is what is stored");
            seen.push((session.clone(), s.record.clone()));
            log.push(line(s.record.seq, &s.event));
        }
    }

    fn delta(&self, _: &SessionUid, d: &v1::Delta) {
        let done = if d.done { " done" } else { "" };
        self.log.lock().unwrap().push(format!("~ {:?}{done}", d.chunk));
    }

    fn turn_changed(&self, _: &SessionUid) {}
}

/// Named harnesses.
pub(crate) struct Names(BTreeMap<String, Arc<Agent>>, String);

impl Catalog for Names {
    fn agent(&self, name: &str) -> Result<Arc<Agent>, Unserved> {
        self.0.get(name).cloned().ok_or(Unserved::Unknown)
    }

    fn default_name(&self) -> &str {
        &self.1
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

/// A host's parts. `restart` gives a new host on the same store.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) hand: Arc<Hand>,
    pub(crate) model: Arc<Fake>,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) engine: Engine,
    pub(crate) tool: Option<Arc<Tool>>,
    harnesses: Vec<(String, Arc<dyn Harness>)>,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(Arc::new(Moves::default()), true)
    }

    pub(crate) fn with(moves: Arc<dyn Harness>, streams: bool) -> World {
        let hand = Hand::new(7);
        let blobs: Arc<dyn Blobs> = Arc::new(inspan_journal::blob::Memory::default());
        let journal: Arc<dyn Journal> = Arc::new(inspan_journal::memory::Store::new(blobs, hand.clone()));
        World::over(journal, hand, vec![("moves".to_owned(), moves)], Fake::new(streams))
    }

    pub(crate) fn over(
        journal: Arc<dyn Journal>,
        hand: Arc<Hand>,
        harnesses: Vec<(String, Arc<dyn Harness>)>,
        model: Arc<Fake>,
    ) -> World {
        World::over_with(journal, hand, harnesses, model, None)
    }

    /// The same with a tool, or with none.
    pub(crate) fn over_with(
        journal: Arc<dyn Journal>,
        hand: Arc<Hand>,
        harnesses: Vec<(String, Arc<dyn Harness>)>,
        model: Arc<Fake>,
        tool: Option<Arc<Tool>>,
    ) -> World {
        let agents = harnesses.iter().map(|(name, harness)| {
            let agent = Agent {
                name: name.clone(),
                harness: harness.clone(),
                model: model.clone(),
                executor: tool.clone().map(|tool| tool as Arc<dyn Executor>),
                memory_snapshot: false,
                registered: None,
            };
            (name.clone(), Arc::new(agent))
        });
        let default = harnesses.first().map(|(n, _)| n.clone()).unwrap_or_default();
        let catalog = Arc::new(Names(agents.collect(), default));
        let watcher = Arc::new(Watcher::default());
        let engine = Engine::new(journal.clone(), hand.clone(), catalog, watcher.clone(), Limits::default());
        let engine = match tool.as_ref().and_then(|tool| tool.policy.clone()) {
            Some(policy) => engine.with_policy(policy),
            None => engine,
        };
        World { journal, hand, model, watcher, engine, tool, harnesses }
    }

    /// A new process on the same store.
    pub(crate) fn restart(&self) -> World {
        self.restart_tool(self.tool.clone())
    }

    /// A new process on the same store, with another tool or with none.
    pub(crate) fn restart_tool(&self, tool: Option<Arc<Tool>>) -> World {
        World::over_with(self.journal.clone(), self.hand.clone(), self.harnesses.clone(), self.model.clone(), tool)
    }

    /// A new store, with this tool.
    pub(crate) fn with_tool(tool: Tool) -> World {
        World::new().restart_tool(Some(Arc::new(tool)))
    }

    /// A new process that serves other harnesses.
    pub(crate) fn restart_with(&self, harnesses: Vec<(String, Arc<dyn Harness>)>) -> World {
        World::over_with(self.journal.clone(), self.hand.clone(), harnesses, self.model.clone(), self.tool.clone())
    }

    /// The same host, on runtimes that keep the memory of a process.
    pub(crate) fn keeping_memory(&self) -> World {
        let catalog = self.engine.catalog();
        let agents = catalog.names().into_iter().map(|name| {
            let agent = Agent { memory_snapshot: true, ..(*catalog.agent(&name).expect("it is named")).clone() };
            (name, Arc::new(agent))
        });
        let names = Arc::new(Names(agents.collect(), catalog.default_name().to_owned()));
        let engine =
            Engine::new(self.journal.clone(), self.hand.clone(), names, self.watcher.clone(), Limits::default());
        World { engine, ..self.clone() }
    }

    pub(crate) async fn create(&self) -> SessionUid {
        uid(&self.engine.create(v1::Session::default()).await.unwrap())
    }

    /// One turn with one input.
    pub(crate) async fn exec(&self, session: &SessionUid, text: &str) -> Result<v1::Session, Error> {
        self.exec_request(request(session, text)).await
    }

    pub(crate) async fn exec_request(&self, request: v1::ExecRequest) -> Result<v1::Session, Error> {
        self.engine.accept(request, "default").await?.run().await
    }

    /// What the session waits for.
    pub(crate) async fn waits(&self, session: &SessionUid) -> Option<v1::ApprovalRef> {
        self.engine.session(session).await.unwrap().pending_approval
    }

    /// Decides on what the session waits for, which it does.
    pub(crate) async fn decide(&self, session: &SessionUid, approved: bool) -> Result<Decided, Error> {
        let asked = self.waits(session).await.expect("it waits for a decision");
        self.engine.approve(&decision(session, &asked, approved)).await
    }

    pub(crate) async fn records(&self, session: &SessionUid) -> Vec<Record> {
        let mut all = Vec::new();
        loop {
            let from = all.len() as i64 + 1;
            let page = self.journal.records(session, from, i64::MAX, 1000).await.unwrap();
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    /// The journal as text; its chain is checked on the way.
    pub(crate) async fn journal_text(&self, session: &SessionUid) -> String {
        let mut prev = None;
        let mut lines = Vec::new();
        for (i, r) in self.records(session).await.iter().enumerate() {
            assert_eq!(r.seq, i as i64 + 1, "dense (R-HASH-8)");
            assert_eq!(r.prev_hash, prev, "linked (R-HASH-8)");
            assert!(r.holds(), "hash of seq {}", r.seq);
            prev = Some(r.content_hash);
            lines.push(line(r.seq, &parse::event(&r.event).unwrap()));
        }
        lines.join("\n")
    }

    /// Asserts the journal's kinds and texts.
    pub(crate) async fn check(&self, session: &SessionUid, expected: &str) {
        let expected: Vec<_> = expected.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        assert_eq!(self.journal_text(session).await, expected.join("\n"));
    }
}

pub(crate) fn uid(session: &v1::Session) -> SessionUid {
    session.metadata.as_ref().unwrap().uid.as_str().into()
}

pub(crate) fn request(session: &SessionUid, text: &str) -> v1::ExecRequest {
    v1::ExecRequest {
        session: session.to_string(),
        inputs: vec![v1::Message::text("user", text)],
        ..Default::default()
    }
}

/// The decision of nobody in particular on what waits.
pub(crate) fn decision(session: &SessionUid, asked: &v1::ApprovalRef, approved: bool) -> v1::ApproveRequest {
    v1::ApproveRequest {
        session: session.to_string(),
        execution_id: asked.execution_id.clone(),
        tool_call_id: asked.tool_call_id.clone(),
        request_seq: asked.request_seq,
        approved: Some(approved),
        ..Default::default()
    }
}

/// One record as a line: seq, kind, what matters of the body.
pub(crate) fn line(seq: i64, event: &v1::Event) -> String {
    let kind = event.kind().as_str_name().trim_start_matches("EVENT_");
    let body = match &event.body {
        Some(Body::Message(m)) => format!("{} {}", m.role, m.concat_text()),
        Some(Body::ExecutionStart(s)) => {
            format!("{}@{} inputs={}", s.harness, s.harness_version, s.input_count.unwrap_or(-1))
        }
        Some(Body::Model(c)) => format!("{} {}", c.model, if c.input_hash.len() == 64 { "hashed" } else { "?" }),
        Some(Body::End(e)) => e.state.clone(),
        Some(Body::Error(e)) => format!("{} {}", e.code, e.description),
        Some(Body::Lifecycle(l)) => format!("{} {}", l.kind().as_str_name().trim_start_matches("LIFECYCLE_"), l.detail),
        Some(Body::Usage(u)) => u.input_tokens.to_string(),
        Some(Body::Result(r)) if r.approval_request_seq > 0 => {
            format!("{} {} by {}", r.id, if r.is_error { "error" } else { "ok" }, r.approval_decision_seq)
        }
        Some(Body::Result(r)) => r.id.clone(),
        Some(Body::Approval(a)) if a.reason.is_empty() => a.tool_call_id.clone(),
        Some(Body::Approval(a)) => format!("{} ({})", a.tool_call_id, a.reason),
        Some(Body::ApprovalResult(a)) => {
            format!("{} {} of {}", a.tool_call_id, if a.approved { "yes" } else { "no" }, a.request_seq)
        }
        Some(Body::Tool(t)) => format!("{} {}", t.id, t.idempotency_key),
        _ => String::new(),
    };
    format!("{seq} {kind} {body}").trim_end().to_owned()
}

impl World {
    /// Writes events into a session as another host would have.
    pub(crate) async fn plant(&self, session: &SessionUid, events: Vec<v1::Event>) {
        use inspan_engine::scan::{Folder, Scan};
        let stored = self.journal.session(session).await.unwrap().unwrap();
        let mut folder = Folder::new(Scan::load(&stored.state).unwrap());
        let (mut head, mut records) = (stored.head, Vec::new());
        let mut pending: Option<inspan_journal::TurnMark> = None;
        let mut events = events.into_iter().peekable();
        while let Some(event) = events.next() {
            let text = inspan_wire::canon::event(&event).unwrap();
            let record = inspan_journal::NewRecord::seal(head.seq + 1, head.hash, text.into());
            pending = folder.step(record.seq, &event).or(pending);
            head = inspan_journal::Head { seq: record.seq, hash: Some(record.content_hash) };
            records.push(record);
            // A commit holds at most one mark: end it with its turn.
            let same = events.peek().is_some_and(|next| next.execution_id == event.execution_id);
            if same && records.len() < 1000 {
                continue;
            }
            let append = inspan_journal::Append {
                session: session.clone(),
                expect_head: records[0].seq - 1,
                fence: inspan_journal::FenceRule::Held(1),
                records: std::mem::take(&mut records),
                turn: pending.take(),
                state: folder.state(),
                requests: Vec::new(),
                blobs: Vec::new(),
                keys: Vec::new(),
            };
            self.journal.append(append).await.unwrap();
        }
    }
}

/// A start marker.
pub(crate) fn start(id: &str, inputs: Option<i64>, harness: &str, version: &str) -> v1::Event {
    let body = v1::ExecutionStart {
        input_count: inputs,
        harness: harness.to_owned(),
        harness_version: version.to_owned(),
        ..Default::default()
    };
    v1::Event::new(id, v1::EventKind::EventExecutionStart, Body::ExecutionStart(body))
}

/// An input with text.
pub(crate) fn input(id: &str, text: &str) -> v1::Event {
    v1::Event::new(id, v1::EventKind::EventInput, Body::Message(v1::Message::text("user", text)))
}

/// A completion or output with text.
pub(crate) fn output(id: &str, text: &str) -> v1::Event {
    v1::Event::new(id, v1::EventKind::EventOutput, Body::Message(v1::Message::text("assistant", text)))
}

/// The model call that [`Moves`] makes for `text`.
pub(crate) fn model_call(id: &str, text: &str) -> v1::Event {
    let request =
        v1::ModelCall { model: "m".to_owned(), messages: vec![v1::Message::text("user", text)], ..Default::default() };
    let hash = inspan_wire::Digest::of(inspan_wire::input::text(&request).unwrap().as_bytes());
    let call = v1::ModelCall {
        model: "m".to_owned(),
        input_hash: hash.to_string(),
        id: "00112233aabbccdd".to_owned(),
        ..Default::default()
    };
    v1::Event::new(id, v1::EventKind::EventModelCall, Body::Model(call))
}

/// COMPLETED.
pub(crate) fn end(id: &str) -> v1::Event {
    let body = v1::HarnessEnd { state: "COMPLETED".to_owned(), error: None };
    v1::Event::new(id, v1::EventKind::EventEnd, Body::End(body))
}

/// An ERROR.
pub(crate) fn error(id: &str, text: &str) -> v1::Event {
    let body = v1::Error { code: 0, description: text.to_owned() };
    v1::Event::new(id, v1::EventKind::EventError, Body::Error(body))
}
