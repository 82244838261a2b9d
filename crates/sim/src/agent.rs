//! The harness: plays its script, and knows what it may be shown.

use std::sync::Arc;

use async_trait::async_trait;
use inspan_engine::{Action, Executor as _, Model as _, ToolRun};
use inspan_harness::{Failure, Harness, ModelRequest, ModelResponse, Sink, SinkError, Start, ToolReply};
use inspan_wire::{Digest, SessionUid, canon, v1};
use prost_types::value::Kind as ValueKind;
use v1::{EventKind, Mediation, event::Body};

use crate::Promise;
use crate::oracle::short;
use crate::plant::{Guessing, Plant};
use crate::provider::{Provider, input_hash};
use crate::tools::{ToolServer, action_of};
use crate::world::{Kind, World, lock};

/// What a version mismatch is told by.
pub(crate) const VERSION: &str = "1";

/// A harness that plays the scripts of `script`.
pub(crate) struct Player {
    pub(crate) world: Arc<World>,
    pub(crate) provider: Arc<Provider>,
    pub(crate) tools: Arc<ToolServer>,
}

/// One turn of it.
struct Turn<'t> {
    player: &'t Player,
    start: &'t Start,
    sink: &'t dyn Sink,
    session: SessionUid,
    /// Effects that are on record for what was asked so far.
    effects: usize,
    /// The last completion.
    last: v1::Message,
}

/// How a turn departs from its recording, and behind how many effects.
struct Deviation {
    behind: usize,
    recorded: usize,
    how: u64,
}

#[async_trait]
impl Harness for Player {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        self.world.pause().await;
        let mut version = VERSION.to_owned();
        if self.world.fault(self.world.weather.describe) {
            let how = self.world.rng().below(3);
            match how {
                0 => return Err(Failure::Failed("it cannot say".to_owned())),
                // Only where a recorded version guards: a turn that began on it could never be resumed.
                1 if self.world.with_op(|op| op.kind != Kind::Exec).unwrap_or(false) => {
                    "other".clone_into(&mut version)
                }
                _ => std::future::pending().await,
            }
        }
        let capabilities = v1::Capabilities {
            resumability: v1::Resumability::StatelessReplay.into(),
            fork_safe: true,
            ..Default::default()
        };
        Ok(v1::HarnessDescriptor {
            id: "player".to_owned(),
            version,
            capabilities: Some(capabilities),
            ..Default::default()
        })
    }

    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        let session = SessionUid::from(start.session.as_str());
        self.world.with_op(|op| {
            op.session = Some(session.clone());
            op.execution_id.clone_from(&start.execution_id);
        });
        let guessing = Guessing(sink);
        let sink = if self.world.plant == Some(Plant::GuessesOnDivergence) { &guessing } else { sink };
        let mut turn = Turn { player: self, start: &start, sink, session, effects: 0, last: v1::Message::default() };
        turn.play().await
    }
}

impl Turn<'_> {
    async fn play(&mut self) -> Result<(), Failure> {
        let script = self.start.inputs.first().map(v1::Message::concat_text).unwrap_or_default();
        let deviation = self.deviation();
        for (at, play) in script.split(';').enumerate() {
            if let Some(d) = &deviation
                && self.effects >= d.behind
                && self.effects < d.recorded
            {
                return self.deviate(d).await;
            }
            let (verb, rest) = play.split_once(' ').unwrap_or((play, ""));
            self.step(at, verb, rest).await?;
            self.nothing_shown_early();
        }
        Ok(())
    }

    async fn step(&mut self, at: usize, verb: &str, rest: &str) -> Result<(), Failure> {
        match verb {
            "model" => self.ask(rest).await.map(drop)?,
            "again" => self.ask(&self.last.concat_text()).await.map(drop)?,
            "try" => drop(handled(self.ask(rest).await)?),
            "orelse" => {
                if handled(self.ask(rest).await)?.is_none() {
                    self.out("sorry").await?;
                }
            }
            "retry" => self.retry(rest).await?,
            "out" => self.out(rest).await?,
            "report" => self.report(rest).await?,
            "usage" => {
                let input_tokens = rest.parse().unwrap_or_default();
                self.sink.usage(v1::Usage { model: "m".to_owned(), input_tokens, ..Default::default() }).await?;
                self.effects += 1;
            }
            "tool" => drop(self.tool(self.call(at, rest, Mediation::ControllerMediated)).await?),
            "trytool" => drop(handled(self.tool(self.call(at, rest, Mediation::ControllerMediated)).await)?),
            "gate" => drop(self.tool(self.call(at, rest, Mediation::RequiresApproval)).await?),
            "reuse" => drop(handled(self.tool(self.shared(at, rest)).await)?),
            "" => {}
            "past" => {
                let past = self.past().await?;
                self.out(&past).await?;
            }
            "last" => {
                let last = v1::Event::new("", EventKind::EventOutput, Body::Message(self.last.clone()));
                self.out(&digest(&last)).await?;
            }
            "flaky" => self.flaky(at, rest.parse().unwrap_or_default())?,
            _ => return Err(Failure::Failed(format!("move {verb} fails"))),
        }
        Ok(())
    }

    async fn ask(&mut self, text: &str) -> Result<ModelResponse, SinkError> {
        let messages = vec![v1::Message::text("user", text)];
        let request = ModelRequest { model: "m".to_owned(), messages, ..Default::default() };
        if self.calls_by_itself(Plant::CallsBeforeRecord) {
            drop(self.player.provider.call(&request, &|_| {}).await);
        }
        let answer = self.sink.model(request.clone()).await;
        match &answer {
            Ok(response) => {
                self.effects += 2;
                self.check_answer(&request, response);
                if self.calls_by_itself(Plant::CallsTwice) || self.calls_by_itself(Plant::CallsOnReplay) {
                    drop(self.player.provider.call(&request, &|_| {}).await);
                }
                self.last = response.message.clone();
            }
            Err(SinkError::Handleable(_)) => self.effects += 1,
            Err(SinkError::Fatal(_) | SinkError::Parked(_)) => {}
        }
        answer
    }

    /// Whether this run has that bug, and it shows in this operation.
    fn calls_by_itself(&self, plant: Plant) -> bool {
        let world = &self.player.world;
        let reruns = world.with_op(|op| op.kind == Kind::Rerun).unwrap_or(false);
        world.plant == Some(plant) && reruns == (plant == Plant::CallsOnReplay)
    }

    /// What is served was given by the provider, for this very request.
    fn check_answer(&self, request: &ModelRequest, response: &ModelResponse) {
        let world = &self.player.world;
        let text = response.message.concat_text();
        let hash = input_hash(request);
        if lock(&world.answers).get(&text) != Some(&hash) {
            let what = format!("{}: {text:?} was served as the completion of {hash}", short(&self.session));
            world.broke(Promise::DivergenceIsAnError, what);
        }
        let oracle = lock(&world.oracle);
        let shown = oracle.mirror(&self.session).is_some_and(|m| {
            let outputs = m.effects(&self.start.execution_id);
            outputs.iter().any(|(_, e)| matches!(&e.body, Some(Body::Message(m)) if m.concat_text() == text))
        });
        if !shown {
            world.broke(Promise::RecordBeforeEffect, format!("{}: {text:?} was shown early", short(&self.session)));
        }
    }

    /// Every effect that the harness was told of is in the journal (promise 1).
    fn nothing_shown_early(&self) {
        let world = &self.player.world;
        let have = lock(&world.oracle).mirror(&self.session).map_or(0, |m| m.effects(&self.start.execution_id).len());
        if have < self.effects {
            let what =
                format!("{}: the harness was told of {} effects, {have} are there", short(&self.session), self.effects);
            world.broke(Promise::RecordBeforeEffect, what);
        }
    }

    async fn retry(&mut self, rest: &str) -> Result<(), Failure> {
        let (count, text) = rest.split_once(' ').unwrap_or(("1", rest));
        let mut result = Err(Failure::Failed("it never answered".to_owned()));
        for _ in 0..count.parse().unwrap_or(1) {
            match handled(self.ask(text).await) {
                Ok(None) => {}
                Ok(Some(_)) => return Ok(()),
                Err(e) => result = Err(e),
            }
        }
        result
    }

    async fn out(&mut self, text: &str) -> Result<(), SinkError> {
        self.sink.output(text).await?;
        self.effects += 1;
        Ok(())
    }

    async fn report(&mut self, rest: &str) -> Result<(), SinkError> {
        let (id, bytes) = rest.split_once(' ').unwrap_or((rest, "10"));
        let text = "x".repeat(bytes.parse().unwrap_or_default());
        let value = prost_types::Value { kind: Some(ValueKind::StringValue(text)) };
        let output = prost_types::Struct { fields: [("out".to_owned(), value)].into() };
        self.sink.report(v1::ToolResult { id: id.to_owned(), output: Some(output), ..Default::default() }).await?;
        self.effects += 1;
        Ok(())
    }

    /// The call that the script's move `at` makes: its key is good for this turn only.
    fn call(&self, at: usize, tool: &str, mediation: Mediation) -> v1::ToolCall {
        let number = prost_types::Value { kind: Some(ValueKind::NumberValue(at as f64)) };
        v1::ToolCall {
            id: format!("c{at}"),
            tool: tool.to_owned(),
            args: Some(prost_types::Struct { fields: [("at".to_owned(), number)].into() }),
            mediation: mediation.into(),
            idempotency_key: format!("key-{}-{at}", self.start.execution_id),
        }
    }

    /// A call under one of three keys of its tool, with one of two arguments.
    fn shared(&self, at: usize, rest: &str) -> v1::ToolCall {
        let (tool, number) = rest.split_once(' ').unwrap_or((rest, "0"));
        let number: usize = number.parse().unwrap_or_default();
        let id = format!("c{at}");
        let idempotency_key = format!("shared-{tool}-{}", number / 2);
        v1::ToolCall { id, idempotency_key, ..self.call(number % 2, tool, Mediation::ControllerMediated) }
    }

    async fn tool(&mut self, call: v1::ToolCall) -> Result<ToolReply, SinkError> {
        let answer = self.sink.tool(call.clone()).await;
        match &answer {
            Ok(reply) => {
                self.effects += if reply.decision.is_some() { 4 } else { 2 };
                self.check_reply(&call, reply);
                if !reply.result.is_error && self.calls_by_itself(Plant::RunsTwice) {
                    self.run_by_itself(call).await;
                }
            }
            Err(SinkError::Handleable(_)) => self.effects += 1,
            Err(SinkError::Fatal(_)) => {}
            Err(SinkError::Parked(asked)) => {
                self.check_park(asked).await;
                if self.calls_by_itself(Plant::RunsUnapproved) {
                    self.run_by_itself(call).await;
                }
            }
        }
        answer
    }

    async fn run_by_itself(&self, call: v1::ToolCall) {
        drop(self.player.tools.run(ToolRun { session: self.session.clone(), call, seq: 0, again: false }).await);
    }

    /// What is served was given by the tool for this very call, or says why there is nothing to serve (R-APPR-25,
    /// R-APPR-26).
    fn check_reply(&self, call: &v1::ToolCall, reply: &ToolReply) {
        let world = &self.player.world;
        let broke = |promise, what: &str| {
            let (uid, id) = (short(&self.session), &call.id);
            world.broke(promise, format!("{uid}: call {id} to {} {what}: {reply:?}", call.tool));
        };
        let result = &reply.result;
        if result.id != call.id {
            broke(Promise::DivergenceIsAnError, "was answered with the result of another");
        }
        let refused = result.is_error && result.output.is_none();
        if !refused && !lock(&world.ledger).gave(call, result) {
            broke(Promise::DivergenceIsAnError, "was answered with an invention");
        }
        let approved = reply.decision.as_ref().map(|decision| decision.approved);
        let denied = result.code() == v1::tool_result::Code::ApprovalDenied;
        if approved == Some(false) && !denied || approved.unwrap_or(true) && denied {
            broke(Promise::OneDecision, "has a receipt that its decision does not allow");
        }
        let must_ask = call.mediation() == Mediation::RequiresApproval || action_of(&call.tool) == Some(Action::Ask);
        if must_ask && approved.is_none() {
            broke(Promise::NothingUnapproved, "was answered without a decision");
        }
    }

    /// The request is on record, and nothing happens behind it (R-APPR-2, R-APPR-3).
    async fn check_park(&self, asked: &v1::ApprovalRef) {
        let world = &self.player.world;
        let on_record = lock(&world.oracle).mirror(&self.session).is_some_and(|m| {
            let seq = asked.request_seq;
            m.effects(&self.start.execution_id)
                .iter()
                .any(|(at, e)| *at == seq && e.kind() == EventKind::EventApprovalRequest)
        });
        if !on_record {
            world.broke(Promise::RecordBeforeEffect, format!("{}: it parks on {asked:?}", short(&self.session)));
        }
        if !world.chance(500) {
            return;
        }
        let behind = self.sink.output("behind a park").await;
        if !matches!(behind, Err(SinkError::Parked(_))) {
            let what = format!("{}: behind a park the harness got {behind:?}", short(&self.session));
            world.broke(Promise::NothingUnapproved, what);
        }
    }

    /// A digest of the history, which must be exactly what was committed before this turn (R-START-4).
    async fn past(&self) -> Result<String, Failure> {
        let mut reader = self.start.history.reader();
        let mut seen = Vec::new();
        loop {
            let page = reader.next_page().await?;
            if page.is_empty() {
                break;
            }
            seen.extend(page.iter().map(|e| digest(e)));
        }
        let world = &self.player.world;
        let first = lock(&world.oracle).mirror(&self.session).and_then(|m| m.first_of(&self.start.execution_id));
        let want = first.and_then(|seq| usize::try_from(seq - 1).ok());
        if want != Some(seen.len()) {
            let what = format!("{}: a history of {} events before seq {first:?}", short(&self.session), seen.len());
            world.broke(Promise::ReplayCostsNothing, what);
        }
        Ok(Digest::of(seen.concat().as_bytes()).to_string())
    }

    fn flaky(&self, at: usize, times: u32) -> Result<(), Failure> {
        let mut flaked = lock(&self.player.world.flaked);
        let count = flaked.entry((self.start.execution_id.clone(), at)).or_default();
        if *count < times {
            *count += 1;
            return Err(Failure::Failed(format!("flaky for the {count}. time")));
        }
        Ok(())
    }

    /// Draws how this turn departs from what is recorded of it. Without a recording there is nothing to
    /// depart from.
    fn deviation(&self) -> Option<Deviation> {
        let world = &self.player.world;
        if !world.with_op(|op| op.twisted).unwrap_or(false) {
            return None;
        }
        let recorded =
            lock(&world.oracle).mirror(&self.session).map_or(0, |m| m.effects(&self.start.execution_id).len());
        if recorded == 0 {
            return None;
        }
        let mut rng = world.rng();
        Some(Deviation { behind: rng.index(recorded), recorded, how: rng.below(5) })
    }

    /// Asks for something else than what is recorded, then tries to go on as if nothing were wrong
    /// (promise 3: the error is sticky).
    async fn deviate(&mut self, deviation: &Deviation) -> Result<(), Failure> {
        let world = self.player.world.clone();
        world.with_op(|op| op.deviated = true);
        world.note(format!("{} deviates behind effect {}", short(&self.session), self.effects));
        let refused = match deviation.how {
            0 => return Ok(()),
            1 => self.sink.output("twisted").await,
            2 => {
                let call = self.call(99, "keyed", Mediation::ControllerMediated);
                self.sink.tool(call).await.map(drop)
            }
            3 => self.sink.usage(v1::Usage { model: "twisted".to_owned(), ..Default::default() }).await,
            _ => {
                let messages = vec![v1::Message::text("user", "twisted")];
                let request = ModelRequest { model: "m".to_owned(), messages, ..Default::default() };
                self.sink.model(request).await.map(drop)
            }
        };
        let after = self.sink.output("as if nothing were wrong").await;
        for answer in [refused, after] {
            if !matches!(answer, Err(SinkError::Fatal(_))) {
                let what = format!("{}: the harness asked for something else and got {answer:?}", short(&self.session));
                world.broke(Promise::DivergenceIsAnError, what);
            }
        }
        Ok(())
    }
}

fn digest(event: &v1::Event) -> String {
    Digest::of(&canon::event(event).unwrap_or_default()).to_string()
}

fn handled<T>(result: Result<T, SinkError>) -> Result<Option<T>, Failure> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(SinkError::Handleable(_)) => Ok(None),
        Err(e) => Err(e.into()),
    }
}
