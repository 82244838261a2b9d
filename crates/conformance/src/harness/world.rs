//! What the host would have: a model, tools, people who decide, and the record of what they said.
//!
//! The model is a function of its request, so that the same question has the same answer in every run. Asked with tools on
//! offer, it calls each of them once, with the arguments that their schema requires; asked again with their results, it
//! answers with text. So a harness that runs its model's tool calls shows how it does that, without being told to.

use std::collections::BTreeMap;

use inspan_wire::event::tool_difference;
use inspan_wire::v1::{
    self, EventKind, Mediation, controller_frame::Frame, event::Body, part, tool_choice, tool_result::Code,
};
use inspan_wire::{input, normal};
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::link::Reply;

/// What an event asked for and was answered.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    event: v1::Event,
    frames: Vec<Frame>,
}

/// The record of a turn so far.
pub(super) type Tape = Vec<Exchange>;

/// A turn that did not repeat what is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    /// The check that it fails.
    pub(super) check: &'static str,
    pub(super) text: String,
}

pub(super) const GATE: &str = "gate-goes-on";
pub(super) const ORDER: &str = "replay-order";
pub(super) const MODEL: &str = "replay-model";
pub(super) const TOOL: &str = "replay-tool";
pub(super) const OUTPUT: &str = "replay-output";
pub(super) const USAGE: &str = "replay-usage";

/// The host's outside, for one drive of a turn.
#[derive(Debug, Clone, Default)]
pub(super) struct World {
    /// What the model says.
    pub(super) answer: String,
    /// Whether tools fail.
    pub(super) tools_fail: bool,
    /// The decisions that are there, by call id. A call without one parks.
    pub(super) decisions: BTreeMap<String, bool>,
    /// What is decided about every other call.
    pub(super) decide: Option<bool>,
    /// What is on record: served as long as the turn repeats it.
    pub(super) tape: Tape,
    /// The gated call that the record ends with, when it ends with one.
    pub(super) waiting: Option<v1::ToolCall>,
    /// What this drive asked for, served or live. The call that parked it is not in it.
    pub(super) log: Tape,
    pub(super) difference: Option<Difference>,
    /// The call that this drive was parked at, and what it was told.
    pub(super) parked_at: Option<(v1::ToolCall, v1::ApprovalRef)>,
}

/// Whether an event is on the record of its turn.
fn is_effect(event: &v1::Event) -> bool {
    use EventKind::*;
    matches!(event.kind(), EventModelCall | EventToolCall | EventOutput | EventToolResult | EventUsage)
        && event.body.is_some()
}

impl World {
    /// What a host does about `event`.
    pub(super) fn react(&mut self, event: &v1::Event) -> Reply {
        if !is_effect(event) {
            return Reply::Frames(Vec::new());
        }
        let at = self.log.len();
        if let Some(recorded) = self.tape.get(at) {
            if let Some(difference) = difference(at, &recorded.event, event) {
                self.difference = Some(difference);
                return Reply::Leave;
            }
            self.log.push(recorded.clone());
            return Reply::Frames(self.log[at].frames.clone());
        }
        if at == self.tape.len()
            && let Some(waiting) = &self.waiting
        {
            let recorded = v1::Event::new("", EventKind::EventToolCall, Body::Tool(waiting.clone()));
            if let Some(difference) = difference(at, &recorded, event) {
                self.difference = Some(Difference { check: GATE, ..difference });
                return Reply::Leave;
            }
        }
        let frames = self.answer(event);
        match (&event.body, &frames[..]) {
            (Some(Body::Tool(call)), [Frame::Park(at)]) => self.parked_at = Some((call.clone(), at.clone())),
            _ => self.log.push(Exchange { event: event.clone(), frames: frames.clone() }),
        }
        Reply::Frames(frames)
    }

    /// What was recorded and not asked for again, when the turn ended well.
    pub(super) fn rest(&self) -> Option<Difference> {
        let missing = self.tape.get(self.log.len())?;
        let text = format!("effect {}, {}, was not asked for again", self.log.len() + 1, name(&missing.event));
        Some(Difference { check: ORDER, text })
    }

    /// The frames that answer an event.
    pub(super) fn answer(&self, event: &v1::Event) -> Vec<Frame> {
        match &event.body {
            Some(Body::Model(call)) => vec![Frame::Model(v1::ModelResult {
                message: Some(completion(call, &self.answer)),
                usage: None,
                model_call_id: call.id.clone(),
            })],
            Some(Body::Tool(call)) if call.mediation() == Mediation::RequiresApproval => {
                let seq = request_seq(self.log.len());
                match self.decisions.get(&call.id).copied().or(self.decide) {
                    None => vec![Frame::Park(v1::ApprovalRef {
                        execution_id: event.execution_id.clone(),
                        tool_call_id: call.id.clone(),
                        request_seq: seq,
                    })],
                    Some(approved) => {
                        vec![
                            Frame::Approval(decision(call, approved, seq)),
                            Frame::Tool(self.receipt(call, approved, seq)),
                        ]
                    }
                }
            }
            Some(Body::Tool(call)) => vec![Frame::Tool(self.result(call))],
            _ => Vec::new(),
        }
    }

    fn result(&self, call: &v1::ToolCall) -> v1::ToolResult {
        if self.tools_fail {
            return failure(call, Code::ExecutorError, "the tool has failed");
        }
        let said = text_value("done");
        v1::ToolResult {
            id: call.id.clone(),
            output: Some(Struct { fields: [("result".to_owned(), said)].into() }),
            content: vec![v1::Part::text("done")],
            ..Default::default()
        }
    }

    pub(super) fn receipt(&self, call: &v1::ToolCall, approved: bool, seq: i64) -> v1::ToolResult {
        let result = if approved {
            self.result(call)
        } else {
            failure(call, Code::ApprovalDenied, "the call was denied by a person")
        };
        v1::ToolResult { approval_request_seq: seq, approval_decision_seq: seq + 2, ..result }
    }
}

/// Where the request of the call that is effect `at` stands in a journal: behind the start, the input and its own call.
pub(super) fn request_seq(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(0) + 4
}

pub(super) fn decision(call: &v1::ToolCall, approved: bool, seq: i64) -> v1::ApprovalResult {
    v1::ApprovalResult { tool_call_id: call.id.clone(), approved, request_seq: seq, reason: String::new() }
}

fn failure(call: &v1::ToolCall, code: Code, text: &str) -> v1::ToolResult {
    v1::ToolResult {
        id: call.id.clone(),
        is_error: true,
        error: text.to_owned(),
        code: code.into(),
        content: vec![v1::Part::text(text)],
        ..Default::default()
    }
}

/// The model's message.
fn completion(call: &v1::ModelCall, answer: &str) -> v1::Message {
    let has_results = call.messages.last().is_some_and(|m| m.role == "tool");
    let may_call = call.tool_choice.as_ref().is_none_or(|choice| choice.mode() != tool_choice::Mode::None);
    if has_results || !may_call || call.tools.is_empty() {
        return v1::Message::text("assistant", answer);
    }
    let round = call.messages.len();
    let called = |(n, tool): (usize, &v1::ToolDefinition)| v1::Part {
        part: Some(part::Part::ToolCall(v1::ToolCall {
            id: format!("call-{round}-{n}"),
            tool: tool.name.clone(),
            args: Some(arguments(tool.input_schema.as_ref())),
            ..Default::default()
        })),
    };
    v1::Message { role: "assistant".to_owned(), parts: call.tools.iter().enumerate().map(called).collect() }
}

/// The least that a schema of an object asks for.
fn arguments(schema: Option<&Struct>) -> Struct {
    let Some(Kind::ListValue(required)) = schema.and_then(|s| kind(s, "required")) else { return Struct::default() };
    let properties = match schema.and_then(|s| kind(s, "properties")) {
        Some(Kind::StructValue(properties)) => properties.clone(),
        _ => Struct::default(),
    };
    let names = required.values.iter().filter_map(|v| match &v.kind {
        Some(Kind::StringValue(name)) => Some(name.clone()),
        _ => None,
    });
    let value = |name: String| {
        let of = match kind(&properties, &name) {
            Some(Kind::StructValue(of)) => example(of),
            _ => text_value("x"),
        };
        (name, of)
    };
    Struct { fields: names.map(value).collect() }
}

fn example(schema: &Struct) -> Value {
    if let Some(Kind::ListValue(choices)) = kind(schema, "enum")
        && let Some(first) = choices.values.first()
    {
        return first.clone();
    }
    let of = match kind(schema, "type") {
        Some(Kind::StringValue(of)) => of.as_str(),
        _ => "string",
    };
    let kind = match of {
        "integer" | "number" => Kind::NumberValue(1.0),
        "boolean" => Kind::BoolValue(true),
        "array" => Kind::ListValue(ListValue::default()),
        "object" => Kind::StructValue(arguments(Some(schema))),
        _ => return text_value("x"),
    };
    Value { kind: Some(kind) }
}

fn kind<'s>(of: &'s Struct, name: &str) -> Option<&'s Kind> {
    of.fields.get(name).and_then(|value| value.kind.as_ref())
}

fn text_value(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

/// What an event is called in a sentence.
pub(super) fn name(event: &v1::Event) -> String {
    match &event.body {
        Some(Body::Tool(call)) => format!("the call {} of tool {}", call.id, call.tool),
        Some(Body::Model(_)) => "a model call".to_owned(),
        _ => event.kind().as_str_name().to_owned(),
    }
}

/// In what `emitted` is not the effect that is recorded as number `at`, by the rule that it breaks.
fn difference(at: usize, recorded: &v1::Event, emitted: &v1::Event) -> Option<Difference> {
    let number = at + 1;
    let differs = |check, text: String| Some(Difference { check, text: format!("effect {number}: {text}") });
    match (&recorded.body, &emitted.body) {
        (Some(Body::Model(then)), Some(Body::Model(now))) => {
            asked_otherwise(then, now).and_then(|text| differs(MODEL, text))
        }
        (Some(Body::Tool(then)), Some(Body::Tool(now))) => tool_difference(then, now)
            .and_then(|field| differs(TOOL, format!("{} came back with another {field}", name(recorded)))),
        (Some(Body::Message(then)), Some(Body::Message(now))) if then.concat_text() != now.concat_text() => {
            differs(OUTPUT, "the output has another text".to_owned())
        }
        (Some(Body::Usage(then)), Some(Body::Usage(now))) if then != now => {
            differs(USAGE, "the usage has other numbers".to_owned())
        }
        _ if recorded.kind() != emitted.kind() => {
            differs(ORDER, format!("{} came where {} is recorded", name(emitted), name(recorded)))
        }
        _ => None,
    }
}

/// In what a model request is another one. The correlation id is the harness's own and does not count.
fn asked_otherwise(then: &v1::ModelCall, now: &v1::ModelCall) -> Option<String> {
    let text = |call: &v1::ModelCall| {
        let mut call = call.clone();
        normal::model_call(&mut call);
        input::text(&call)
    };
    match (text(then), text(now)) {
        (Ok(then), Ok(now)) if then == now => None,
        (Ok(then), Ok(now)) => {
            let byte = then.bytes().zip(now.bytes()).take_while(|(a, b)| a == b).count();
            let (a, b) = (input::hash(&then).to_string(), input::hash(&now).to_string());
            Some(format!("the model request differs from byte {byte} on: input hash {b:.12}… and not {a:.12}…"))
        }
        (_, Err(e)) | (Err(e), _) => Some(format!("the model request has no input hash: {e}")),
    }
}

/// How many effects of each kind a record has, for what a check can say that it saw.
pub(super) fn count(tape: &[Exchange], kind: EventKind) -> usize {
    tape.iter().filter(|exchange| exchange.event.kind() == kind).count()
}
