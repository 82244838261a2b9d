//! The park exchange and the decided gate, right and wrong.

use inspan_wire::v1::{self, EventKind, controller_frame::Frame, event::Body, tool_result::Code};

use super::answers::{Wrong, enveloped, is_ordinary, tried, world_of, wrong};
use super::link::{Ending, Reply, Transcript, Turn};
use super::manners::{gated, never};
use super::turns::Played;
use super::world::{self, Difference, World, decision};
use super::{Bench, Found};
use crate::Verdict;

/// The request that the kit's decisions are on.
const REQUEST: i64 = 4;

pub(super) async fn judge(bench: &Bench<'_>, found: &mut Found) {
    let no_gate = || never("no gated call was made", bench.options.expect_gate);
    let no_tool = || never("no ordinary tool call was made", bench.options.expect_tool);
    let parks = bench.played.iter().flat_map(|p| p.parks.iter().map(|(drive, at)| parked(p, &p.drives[*drive], at)));
    let parks: Vec<_> = parks.collect();
    found.push(("park", if parks.is_empty() { no_gate() } else { Verdict::over(parks) }));
    found.push(("park-wrong", tried(bench, is_gated, no_gate(), wrong_parks()).await));
    let park = wrong(|turn, event| Reply::Frames(vec![Frame::Park(park_at(turn, event))]));
    found.push(("park-ordinary", tried(bench, is_ordinary, no_tool(), vec![("a park", park)]).await));
    let gone_on: Vec<_> = bench.played.iter().filter_map(|p| Some((p, p.gone_on.as_ref()?))).map(goes_on).collect();
    found.push(("gate-goes-on", if gone_on.is_empty() { no_gate() } else { Verdict::over(gone_on) }));
    found.push(("gate-denied", denied(bench).await));
    found.push(("gate-receipt", tried(bench, is_gated, no_gate(), wrong_receipts()).await));
    let cut = wrong(|_, event| Reply::Close(vec![Frame::Approval(decided(event, true))]));
    found.push(("gate-cut", tried(bench, is_gated, no_gate(), vec![("a decision and no receipt", cut)]).await));
}

fn is_gated(event: &v1::Event) -> bool {
    gated(event).is_some()
}

/// The park exchange, steps 3 to 5.
fn parked(played: &Played, drive: &Transcript, at: &v1::ApprovalRef) -> Verdict {
    let failed = |what: String| Verdict::failed(format!("in the turn of {:?}, {what}", played.input));
    let behind = drive.events.iter().position(is_parked_call(at)).map(|gate| &drive.events[gate + 1..]);
    match (behind.unwrap_or_default(), &drive.ending) {
        ([only], Ending::Closed) if matches!(&only.body, Some(Body::Parked(said)) if said == at) => {
            Verdict::passed(format!("parked at {} and closed", at.tool_call_id))
        }
        ([], ending) => failed(format!("the park was not acknowledged: {ending}")),
        ([first, ..], _) if first.kind() != EventKind::EventParked => {
            failed(format!("{} came where only the acknowledgement of the park may", first.kind().as_str_name()))
        }
        ([_], Ending::Closed) => failed("the acknowledgement names another park".to_owned()),
        ([_], ending) => failed(format!("the acknowledgement was not followed by a clean close: {ending}")),
        // What comes behind the last word has a check of its own, but for an END in place of the close.
        ([_, more, ..], _) => failed(format!("{} came behind the acknowledgement", more.kind().as_str_name())),
    }
}

fn is_parked_call(at: &v1::ApprovalRef) -> impl Fn(&v1::Event) -> bool {
    |event| gated(event).is_some_and(|call| call.id == at.tool_call_id)
}

/// Whether it ended well then is judged with every other turn.
fn goes_on((played, gone_on): (&Played, &Result<(), Difference>)) -> Verdict {
    match gone_on {
        Err(difference) if difference.check == world::GATE => {
            Verdict::failed(format!("in the turn of {:?}, {}", played.input, difference.text))
        }
        Err(_) => Verdict::skipped("the turn was stopped where it did not repeat its record"),
        Ok(()) => Verdict::passed(format!("after {} decisions, {}", played.drives.len() - 1, played.told())),
    }
}

fn park_at(turn: &Turn, event: &v1::Event) -> v1::ApprovalRef {
    let tool_call_id = match &event.body {
        Some(Body::Tool(call)) => call.id.clone(),
        _ => String::new(),
    };
    v1::ApprovalRef { execution_id: turn.execution.clone(), tool_call_id, request_seq: REQUEST }
}

fn wrong_parks() -> Vec<(&'static str, Wrong)> {
    let park = |change: fn(&mut v1::ApprovalRef)| {
        wrong(move |turn, event| {
            let mut at = park_at(turn, event);
            change(&mut at);
            Reply::Frames(vec![Frame::Park(at)])
        })
    };
    let good = |turn: &Turn, event: &v1::Event| vec![Frame::Park(park_at(turn, event))];
    vec![
        ("a park at another call", park(|at| at.tool_call_id.push_str("-other"))),
        ("a park of another execution", park(|at| at.execution_id = "of-another-turn".to_owned())),
        ("a park without a request", park(|at| at.request_seq = 0)),
        ("a park in another session's envelope", enveloped(good, |frame| frame.session = "sess-of-another".to_owned())),
        ("a park in another execution's envelope", enveloped(good, |frame| frame.execution_id = "other".to_owned())),
    ]
}

fn decided(event: &v1::Event, approved: bool) -> v1::ApprovalResult {
    gated(event).map(|call| decision(call, approved, REQUEST)).unwrap_or_default()
}

/// The receipt of a good host, after `change` has been at it.
fn receipt(event: &v1::Event, approved: bool, change: impl Fn(&mut v1::ToolResult)) -> Frame {
    let mut receipt = gated(event).map(|call| World::default().receipt(call, approved, REQUEST)).unwrap_or_default();
    change(&mut receipt);
    Frame::Tool(receipt)
}

fn wrong_receipts() -> Vec<(&'static str, Wrong)> {
    let pair = |approved: bool, change: fn(&mut v1::ToolResult)| {
        wrong(move |_, event| {
            Reply::Frames(vec![Frame::Approval(decided(event, approved)), receipt(event, approved, change)])
        })
    };
    let denial = |result: &mut v1::ToolResult| {
        result.is_error = true;
        result.code = Code::ApprovalDenied.into();
    };
    let success = |result: &mut v1::ToolResult| {
        result.is_error = false;
        result.code = Code::Unspecified.into();
    };
    let twice = wrong(|_, event| {
        Reply::Frames(vec![Frame::Approval(decided(event, true)), Frame::Approval(decided(event, true))])
    });
    let parks = wrong(|turn, event| {
        Reply::Frames(vec![Frame::Approval(decided(event, true)), Frame::Park(park_at(turn, event))])
    });
    vec![
        ("an approval with a denial's receipt", pair(true, denial)),
        ("a denial with a success's receipt", pair(false, success)),
        ("a receipt of another request", pair(true, |result| result.approval_request_seq += 1)),
        ("a receipt that names no decision", pair(true, |result| result.approval_decision_seq = 0)),
        ("a receipt of another call", pair(true, |result| result.id.push_str("-other"))),
        ("a receipt with an unknown code", pair(true, |result| result.code = 77)),
        ("a second decision", twice),
        ("a park behind a decision", parks),
        ("a receipt without a decision", wrong(|_, event| Reply::Frames(vec![receipt(event, true, |_| {})]))),
    ]
}

/// A denial reaches the harness as a result; what it makes of it is its own, as long as the turn ends.
async fn denied(bench: &Bench<'_>) -> Verdict {
    let mut verdicts = Vec::new();
    for played in bench.sound().filter(|p| !p.parks.is_empty()) {
        let turn = bench.link.turn(played.turn.start.clone());
        let mut world = World { decide: Some(false), ..world_of(bench) };
        let transcript = bench.link.drive(&turn, &mut |event| world.react(event)).await;
        verdicts.push(match transcript.end() {
            Some(_) => Verdict::passed(transcript.told()),
            None => Verdict::failed(format!("in the turn of {:?}, {}", played.input, transcript.told())),
        });
    }
    match verdicts.is_empty() {
        true => never("no gated call was made", bench.options.expect_gate),
        false => Verdict::over(verdicts),
    }
}
