//! H: a harness whose turn is a script in its input.
//!
//! The first input's text holds moves, one after another, separated by `;`. A test says in one line
//! what the harness does, and the turn stays a pure function of its inputs:
//!
//! | move | does |
//! |---|---|
//! | `model TEXT` | asks the model with one user message; a failure ends the turn |
//! | `again` | asks the model with the last completion's text |
//! | `try TEXT` | asks the model; a failure that may be handled is |
//! | `retry N TEXT` | asks the model until it answers, at most N times |
//! | `swallow TEXT` | asks the model and ignores every error, then ends with success |
//! | `out TEXT` | outputs text |
//! | `report ID` | reports the result of a tool it ran |
//! | `usage N` | records N input tokens |
//! | `tool ID KEY`, `trytool ID KEY` | a mediated tool call; the second handles a failure. A third word is its argument |
//! | `gate ID KEY`, `trygate ID KEY` | a call that asks for approval; the second handles a failure |
//! | `swallowgate ID KEY` | the same, ignoring every error: the turn goes on whatever comes |
//! | `brokengate ID KEY` | the same, failing with a text of its own |
//! | `… ID KEY ARGS` | each of these calls, with a JSON object for its arguments |
//! | `result` | outputs the last tool result: id, `ok` or its error |
//! | `unmediated ID` | a tool call that the host must refuse, handled |
//! | `past` | outputs how many events the history has, and the last one's kind |
//! | `fail TEXT` | fails |
//! | `hang` | never returns |

use async_trait::async_trait;
use inspan_harness::{Failure, Harness, ModelRequest, Sink, SinkError, Start};
use inspan_wire::{json, v1};

/// The scripted harness.
#[derive(Debug, Clone)]
pub struct Moves {
    /// What it says of itself.
    pub descriptor: v1::HarnessDescriptor,
    /// Replaces text of the script before it is played: another version of the same agent.
    pub twist: Option<(String, String)>,
}

impl Default for Moves {
    fn default() -> Moves {
        Moves::version("1")
    }
}

impl Moves {
    /// Replays statelessly and says it is of `version`.
    pub fn version(version: &str) -> Moves {
        Moves {
            descriptor: v1::HarnessDescriptor {
                id: "moves".to_owned(),
                version: version.to_owned(),
                capabilities: Some(v1::Capabilities {
                    resumability: v1::Resumability::StatelessReplay.into(),
                    fork_safe: true,
                    ..Default::default()
                }),
                ..Default::default()
            },
            twist: None,
        }
    }

    /// Plays `to` wherever the script says `from`.
    #[must_use]
    pub fn twisted(mut self, from: &str, to: &str) -> Moves {
        self.twist = Some((from.to_owned(), to.to_owned()));
        self
    }
}

#[async_trait]
impl Harness for Moves {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        Ok(self.descriptor.clone())
    }

    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        let mut script = start.inputs.first().map(v1::Message::concat_text).unwrap_or_default();
        if let Some((from, to)) = &self.twist {
            script = script.replace(from, to);
        }
        let mut last = String::new();
        for play in script.split(';').map(str::trim).filter(|m| !m.is_empty()) {
            let (verb, rest) = play.split_once(' ').unwrap_or((play, ""));
            step(verb, rest, &start, sink, &mut last).await?;
        }
        Ok(())
    }
}

async fn step(verb: &str, rest: &str, start: &Start, sink: &dyn Sink, last: &mut String) -> Result<(), Failure> {
    match verb {
        "model" => *last = ask(sink, rest).await?,
        "again" => *last = ask(sink, &last.clone()).await?,
        "try" => handled(ask(sink, rest).await)?,
        "swallow" => drop(ask(sink, rest).await),
        "retry" => retry(rest, sink, last).await?,
        "out" => sink.output(rest).await?,
        "report" => sink.report(v1::ToolResult { id: rest.to_owned(), ..Default::default() }).await?,
        "usage" => {
            let input_tokens = rest.parse().map_err(|_| Failure::Failed(format!("usage {rest}: not a number")))?;
            sink.usage(v1::Usage { model: "m".to_owned(), input_tokens, ..Default::default() }).await?;
        }
        "tool" => *last = told(&sink.tool(call(rest, v1::Mediation::ControllerMediated)).await?.result),
        "gate" => *last = told(&sink.tool(call(rest, v1::Mediation::RequiresApproval)).await?.result),
        "trygate" => handled(sink.tool(call(rest, v1::Mediation::RequiresApproval)).await)?,
        "swallowgate" => drop(sink.tool(call(rest, v1::Mediation::RequiresApproval)).await),
        "brokengate" => {
            let gated = sink.tool(call(rest, v1::Mediation::RequiresApproval)).await;
            gated.map_err(|_| Failure::Failed("broken on its way out".to_owned()))?;
        }
        "result" => sink.output(last).await?,
        "trytool" => handled(sink.tool(call(rest, v1::Mediation::ControllerMediated)).await)?,
        "unmediated" => handled(sink.tool(call(rest, v1::Mediation::InHarnessReported)).await)?,
        "past" => past(start, sink).await?,
        "fail" => return Err(Failure::Failed(rest.to_owned())),
        "hang" => std::future::pending().await,
        other => return Err(Failure::Failed(format!("no move {other}"))),
    }
    Ok(())
}

/// The text of a model's answer to `text`.
async fn ask(sink: &dyn Sink, text: &str) -> Result<String, SinkError> {
    let request =
        ModelRequest { model: "m".to_owned(), messages: vec![v1::Message::text("user", text)], ..Default::default() };
    Ok(sink.model(request).await?.message.concat_text())
}

fn handled<T>(result: Result<T, SinkError>) -> Result<(), Failure> {
    match result {
        Ok(_) | Err(SinkError::Handleable(_)) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

async fn retry(rest: &str, sink: &dyn Sink, last: &mut String) -> Result<(), Failure> {
    let (count, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let count: u32 = count.parse().map_err(|_| Failure::Failed(format!("retry {rest}: not a number")))?;
    let mut result = Err(Failure::Failed("retried zero times".to_owned()));
    for _ in 0..count {
        match ask(sink, text).await {
            Err(SinkError::Handleable(e)) => result = Err(Failure::Failed(e)),
            answer => {
                *last = answer?;
                return Ok(());
            }
        }
    }
    result
}

fn told(result: &v1::ToolResult) -> String {
    format!("{} {}", result.id, if result.is_error { &result.error } else { "ok" })
}

fn call(rest: &str, mediation: v1::Mediation) -> v1::ToolCall {
    let mut words = rest.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (id, key, text) = (word(), word(), word());
    v1::ToolCall {
        args: (!text.is_empty()).then(|| args(text)),
        id: id.to_owned(),
        tool: "t".to_owned(),
        mediation: mediation.into(),
        idempotency_key: key.to_owned(),
    }
}

/// The arguments that `text` is as JSON, else one argument that is the text.
fn args(text: &str) -> prost_types::Struct {
    let given = json::from_slice::<v1::ToolCall>(format!("{{\"args\":{text}}}").as_bytes());
    given.ok().and_then(|call| call.args).unwrap_or_else(|| {
        let value = prost_types::Value { kind: Some(prost_types::value::Kind::StringValue(text.to_owned())) };
        prost_types::Struct { fields: [("argument".to_owned(), value)].into() }
    })
}

async fn past(start: &Start, sink: &dyn Sink) -> Result<(), Failure> {
    let mut reader = start.history.reader();
    let (mut count, mut kind) = (0, "none");
    loop {
        let page = reader.next_page().await?;
        let Some(event) = page.last() else { break };
        count += page.len();
        kind = event.kind().as_str_name();
    }
    sink.output(&format!("{count} {kind}")).await?;
    Ok(())
}
