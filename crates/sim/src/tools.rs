//! Tools that every host reaches: slow and lossy. They count what they do, and know what had to be on record, and
//! approved, before they ran.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use inspan_engine::{Action, Executor, Policy, ReplayRule, ToolError, ToolRun, Verdict};
use inspan_wire::{SessionUid, v1};
use prost_types::value::Kind as ValueKind;

use crate::Promise;
use crate::oracle::short;
use crate::world::{World, lock};

/// The tools, by what may be done with a call whose outcome is unknown.
pub(crate) const TOOLS: [&str; 4] = ["safe", "keyed", "ask", "never"];

/// What may stand before a tool's name, for the policy to speak of.
pub(crate) const POLICIES: [&str; 3] = ["yes", "no", "who"];

/// The rule of a tool of this name, whatever the policy says of it.
pub(crate) fn rule_of(tool: &str) -> ReplayRule {
    match tool.rsplit('-').next() {
        Some("safe") => ReplayRule::Safe,
        Some("keyed") => ReplayRule::Keyed,
        Some("ask") => ReplayRule::Ask,
        _ => ReplayRule::Never,
    }
}

/// What the policy says of a tool of this name.
pub(crate) fn action_of(tool: &str) -> Option<Action> {
    match tool.split_once('-')?.0 {
        "yes" => Some(Action::Allow),
        "no" => Some(Action::Deny),
        _ => Some(Action::Ask),
    }
}

/// What the tools have done, over all sessions.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    done: BTreeMap<String, Done>,
    runs: BTreeMap<(SessionUid, i64), usize>,
}

/// What was done under one effect key.
#[derive(Debug, Clone)]
struct Done {
    call: v1::ToolCall,
    times: u64,
    answers: Vec<v1::ToolResult>,
}

impl Ledger {
    /// Effects over all keys.
    pub(crate) fn effects(&self) -> u64 {
        self.done.values().map(|done| done.times).sum()
    }

    /// Whether `result` was given for `call`: no two effects are alike, and a fork shows what its parent's were.
    pub(crate) fn gave(&self, call: &v1::ToolCall, result: &v1::ToolResult) -> bool {
        let of_it = |answer: &v1::ToolResult| answer.output == result.output && answer.error == result.error;
        let mut of_call = self.done.values().filter(|done| done.call.idempotency_key == call.idempotency_key);
        of_call.any(|done| done.call.tool == call.tool && done.answers.iter().any(of_it))
    }

    /// How often the effect of `call` was brought about.
    pub(crate) fn times(&self, session: &SessionUid, call: &v1::ToolCall) -> u64 {
        self.done.get(&key(session, call)).map_or(0, |done| done.times)
    }

    /// Does what is asked, once for a key where the tool keeps keys. `None` for other arguments under a used key.
    fn perform(&mut self, run: &ToolRun, says_failed: bool) -> Option<v1::ToolResult> {
        let number = self.effects();
        let done = self.done.entry(run.effect_key()).or_insert_with(|| Done {
            call: run.call.clone(),
            times: 0,
            answers: Vec::new(),
        });
        if (&done.call.tool, &done.call.args) != (&run.call.tool, &run.call.args) {
            return None;
        }
        if rule_of(&run.call.tool) == ReplayRule::Keyed && done.times > 0 {
            return done.answers.first().cloned();
        }
        done.times += 1;
        let value = prost_types::Value { kind: Some(ValueKind::StringValue(format!("effect {number}"))) };
        let result = v1::ToolResult {
            output: Some(prost_types::Struct { fields: [("did".to_owned(), value)].into() }),
            is_error: says_failed,
            error: if says_failed { format!("no {number}") } else { String::new() },
            ..Default::default()
        };
        done.answers.push(result.clone());
        Some(result)
    }
}

fn key(session: &SessionUid, call: &v1::ToolCall) -> String {
    ToolRun { session: session.clone(), call: call.clone(), seq: 0, again: false }.effect_key()
}

/// One host's way to the tools.
pub(crate) struct ToolServer(pub(crate) Arc<World>);

impl ToolServer {
    /// Checks that this run may be, and counts it.
    fn judge(&self, call: &v1::ToolCall) {
        let world = &self.0;
        let Some(op) = world.op() else {
            return world.broke(Promise::ReplayCostsNothing, "a tool was run outside of any operation");
        };
        let (session, seq, runs_max) = match lock(&world.oracle).ran(&op, call) {
            Ok(place) => place,
            Err(violation) => return world.judge(Err(violation)),
        };
        let runs = {
            let mut ledger = lock(&world.ledger);
            let runs = ledger.runs.entry((session.clone(), seq)).or_default();
            *runs += 1;
            *runs
        };
        let at = format!("{}: the {}. run of TOOL_CALL {seq} to {}", short(&session), runs, call.tool);
        world.note(format!("op {} host {} {at}", op.id, op.host));
        if runs > runs_max {
            world.broke(Promise::AtMostOnce, format!("{at}, {runs_max} allowed"));
        }
        world.with_op(|op| op.driven.insert((session, seq)));
    }
}

#[async_trait]
impl Executor for ToolServer {
    fn replay_rule(&self, tool: &str) -> ReplayRule {
        rule_of(tool)
    }

    async fn run(&self, run: ToolRun) -> Result<v1::ToolResult, ToolError> {
        let world = &self.0;
        self.judge(&run.call);
        world.delay(world.weather.latency_ns_max).await;
        if world.fault(world.weather.tool_fails) {
            return Err(ToolError::NotSent("it was not reached".to_owned()));
        }
        if world.fault(world.weather.tool_hangs) {
            std::future::pending::<()>().await;
        }
        let says_failed = world.chance(world.weather.tool_fails / 2);
        let answer = lock(&world.ledger).perform(&run, says_failed);
        let Some(answer) = answer else {
            let what = format!("{}: other arguments under a used key reached the tool", short(&run.session));
            world.broke(Promise::AtMostOnce, what);
            return Err(ToolError::NotSent("the key is taken".to_owned()));
        };
        world.delay(world.weather.latency_ns_max).await;
        if world.fault(world.weather.tool_fails) {
            return Err(ToolError::Unknown("its answer was lost".to_owned()));
        }
        if world.fault(world.weather.tool_hangs) {
            std::future::pending::<()>().await;
        }
        Ok(answer)
    }
}

/// Speaks of tools by what stands before their name.
pub(crate) struct ByName;

impl Policy for ByName {
    fn decide(&self, _: &v1::Session, _: &str, call: &v1::ToolCall) -> Option<Verdict> {
        action_of(&call.tool).map(|action| Verdict { action, rule: "by-name".to_owned(), expires: None })
    }
}
