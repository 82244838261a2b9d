//! What a harness does on its own, judged over every turn in which the host did nothing wrong.

use std::collections::BTreeSet;

use inspan_harness::gate;
use inspan_wire::v1::{self, EventKind, Mediation, event::Body};

use super::link::{Ending, Transcript};
use super::turns::Played;
use super::{Found, Options};
use crate::Verdict;

/// A judge of one drive: what is wrong, or `None`.
type Judge = fn(&Transcript) -> Option<String>;

pub(super) fn judge(played: &[Played], options: &Options, found: &mut Found) {
    let judges: [(&str, Judge); 7] = [
        ("envelope", foreign_event),
        ("end-once", not_one_end),
        ("end-state", bad_state),
        ("last-word", behind_the_end),
        ("own-kinds", hosts_to_say),
        ("no-receipts", forged),
        ("one-at-a-time", came_early),
    ];
    for (name, judge) in judges {
        found.push((name, over_drives(played, judge)));
    }
    let tools: [(&str, ToolJudge); 2] = [("tool-mediation", no_mediation), ("tool-key", no_key)];
    for (name, judge) in tools {
        found.push((name, over_calls(played, options, judge)));
    }
    found.push(("gate-id", gate_ids(played, options)));
    found.push(("completes", completes(played)));
}

/// A harness whose every turn fails keeps many rules and shows nothing: that must not read as a pass.
fn completes(played: &[Played]) -> Verdict {
    let sound: Vec<&str> = played.iter().filter(|p| p.is_sound()).map(|p| p.input.as_str()).collect();
    match &sound[..] {
        [] if played.iter().all(|p| p.drives.last().is_some_and(|drive| drive.end().is_some())) => {
            let told: Vec<String> = played.iter().map(|p| format!("the turn of {:?}: {}", p.input, p.told())).collect();
            Verdict::failed(format!("none did, an input that ends well is needed: {}", told.join("; ")))
        }
        [] => Verdict::skipped("no turn came to a proper end"),
        sound => Verdict::passed(format!("{} of {} did", sound.len(), played.len())),
    }
}

fn over_drives(played: &[Played], judge: Judge) -> Verdict {
    let mut events = 0;
    for turn in played {
        for drive in turn.all() {
            events += drive.events.len();
            if let Some(wrong) = judge(drive) {
                return Verdict::failed(format!("in the turn of {:?}, {wrong}", turn.input));
            }
        }
    }
    match events {
        0 => Verdict::skipped("no event came"),
        n => Verdict::passed(format!("{n} events in {} drives", played.iter().map(|p| p.all().count()).sum::<usize>())),
    }
}

fn foreign_event(drive: &Transcript) -> Option<String> {
    let event = drive.events.iter().find(|event| event.execution_id != drive.execution)?;
    Some(format!(
        "{} carries execution id {:?} and not {:?}",
        event.kind().as_str_name(),
        event.execution_id,
        drive.execution
    ))
}

fn not_one_end(drive: &Transcript) -> Option<String> {
    // A drive that the kit broke off had no chance to end.
    if drive.ending == Ending::Left {
        return None;
    }
    if drive.last().is_none() {
        return Some(format!("no END came: {}", drive.ending));
    }
    let more = drive.after_last().iter().filter(|e| e.kind() == EventKind::EventEnd).count();
    (more > 0).then(|| format!("{more} more END came behind the first {}", kind_of_last(drive)))
}

fn kind_of_last(drive: &Transcript) -> &'static str {
    drive.last().map_or("event", |event| event.kind().as_str_name())
}

fn bad_state(drive: &Transcript) -> Option<String> {
    let end = drive.end()?;
    if !matches!(end.state.as_str(), "COMPLETED" | "FAILED" | "CANCELED") {
        return Some(format!("END says state {:?}", end.state));
    }
    match &drive.ending {
        Ending::Status(code, text) if end.state == "COMPLETED" => {
            Some(format!("END says COMPLETED and the stream ends with {code:?}: {text}"))
        }
        _ => None,
    }
}

fn behind_the_end(drive: &Transcript) -> Option<String> {
    // A second END is a matter of its own.
    let late = drive.after_last().iter().find(|event| event.kind() != EventKind::EventEnd)?;
    Some(format!("{} came behind {}", late.kind().as_str_name(), kind_of_last(drive)))
}

fn hosts_to_say(drive: &Transcript) -> Option<String> {
    use EventKind::*;
    for event in &drive.events {
        let kind = event.kind();
        match (kind, &event.body) {
            (EventApprovalRequest | EventApprovalResult | EventExecutionStart, _) => {
                return Some(format!("{} came, which is the host's to say", kind.as_str_name()));
            }
            (EventModelCall, Some(Body::Model(_))) | (EventToolCall, Some(Body::Tool(_))) => {}
            (EventModelCall | EventToolCall, _) => {
                return Some(format!("{} came without its call", kind.as_str_name()));
            }
            _ => {}
        }
    }
    let asked_to = drive.before_last().last().is_some_and(|event| gated(event).is_some());
    (drive.last().is_some_and(|event| event.kind() == EventParked) && !asked_to)
        .then(|| "EVENT_PARKED came where no call was parked".to_owned())
}

fn forged(drive: &Transcript) -> Option<String> {
    drive.events.iter().find_map(|event| match &event.body {
        Some(Body::Result(result)) if gate::is_host_owned(result) => {
            Some(format!("the reported result {:?} has host-owned approval fields", result.id))
        }
        _ => None,
    })
}

fn came_early(drive: &Transcript) -> Option<String> {
    let kind = drive.early?;
    Some(format!("{} came while an earlier call was unanswered", kind.as_str_name()))
}

/// The call, when an event is a gated one.
pub(super) fn gated(event: &v1::Event) -> Option<&v1::ToolCall> {
    call(event).filter(|call| call.mediation() == Mediation::RequiresApproval)
}

/// The call, when an event is an ordinary one.
pub(super) fn ordinary(event: &v1::Event) -> Option<&v1::ToolCall> {
    call(event).filter(|call| call.mediation() == Mediation::ControllerMediated)
}

fn call(event: &v1::Event) -> Option<&v1::ToolCall> {
    match &event.body {
        Some(Body::Tool(call)) if event.kind() == EventKind::EventToolCall => Some(call),
        _ => None,
    }
}

/// A judge of one tool call: what is wrong, or `None`.
type ToolJudge = fn(&v1::ToolCall) -> Option<String>;

fn over_calls(played: &[Played], options: &Options, judge: ToolJudge) -> Verdict {
    let calls: Vec<_> = played.iter().flat_map(Played::all).flat_map(|drive| &drive.events).filter_map(call).collect();
    match calls.iter().find_map(|call| judge(call)) {
        Some(wrong) => Verdict::failed(wrong),
        None if calls.is_empty() => never("no tool call was made", options.expect_tool),
        None => Verdict::passed(format!("{} tool calls", calls.len())),
    }
}

/// Whether nothing to judge is a reason to skip or a failure.
pub(super) fn never(what: &str, expected: bool) -> Verdict {
    if expected { Verdict::failed(format!("{what}, and it was expected")) } else { Verdict::skipped(what) }
}

fn no_mediation(call: &v1::ToolCall) -> Option<String> {
    let mediated = matches!(call.mediation(), Mediation::ControllerMediated | Mediation::RequiresApproval);
    (!mediated).then(|| format!("the call {:?} of {:?} has mediation {}", call.id, call.tool, call.mediation))
}

fn no_key(call: &v1::ToolCall) -> Option<String> {
    call.idempotency_key.is_empty().then(|| format!("the call {:?} of {:?} has none", call.id, call.tool))
}

fn gate_ids(played: &[Played], options: &Options) -> Verdict {
    let mut gates = 0;
    for drive in played.iter().flat_map(Played::all) {
        let mut used = BTreeSet::new();
        for call in drive.events.iter().filter_map(call) {
            let is_gated = call.mediation() == Mediation::RequiresApproval;
            let is_new = used.insert(call.id.as_str());
            if is_gated && call.id.is_empty() {
                return Verdict::failed(format!("a gated call of {:?} has no id", call.tool));
            }
            if is_gated && !is_new {
                return Verdict::failed(format!("the gated call {:?} has an id that its turn has used", call.id));
            }
            gates += usize::from(is_gated);
        }
    }
    match gates {
        0 => never("no gated call was made", options.expect_gate),
        n => Verdict::passed(format!("{n} gated calls")),
    }
}
