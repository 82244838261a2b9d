//! Answers that no host should give. Each must fail the turn, for good.

use inspan_wire::v1::{self, EventKind, controller_frame::Frame, event::Body};

use super::link::{Ending, Link, Reply, Transcript, Turn};
use super::manners::{never, ordinary};
use super::turns::Played;
use super::world::World;
use super::{Bench, Found};
use crate::Verdict;

/// Whether an event is the one to answer wrongly.
pub(super) type At = fn(&v1::Event) -> bool;
/// The wrong answer to an event of a turn.
pub(super) type Wrong = Box<dyn Fn(&Turn, &v1::Event) -> Reply + Send + Sync>;

pub(super) fn wrong(answer: impl Fn(&Turn, &v1::Event) -> Reply + Send + Sync + 'static) -> Wrong {
    Box::new(answer)
}

/// W-2.
pub(super) async fn first_frame(link: &Link) -> Verdict {
    let turn = link.turn(v1::Start::default());
    let nameless =
        v1::ControllerFrame { execution_id: String::new(), ..turn.frame(Frame::Start(v1::Start::default())) };
    let cases = [
        ("a start without an execution id", nameless),
        ("cancel", turn.frame(Frame::Cancel(v1::Cancel { reason: "USER".to_owned() }))),
        ("a completion", turn.frame(Frame::Model(v1::ModelResult::default()))),
        (
            "a frame without a body",
            v1::ControllerFrame { frame: None, ..turn.frame(Frame::Cancel(v1::Cancel::default())) },
        ),
    ];
    for (what, first) in cases {
        let transcript = link.open(&turn, first, &mut |_| Reply::Leave).await;
        match (&transcript.ending, transcript.events.first()) {
            (Ending::Status(..), None) => {}
            (_, Some(event)) => {
                return Verdict::failed(format!("{what} came first, and it sent {}", event.kind().as_str_name()));
            }
            (ending, None) => {
                return Verdict::failed(format!("{what} came first, and the call did not fail: {ending}"));
            }
        }
    }
    Verdict::passed("four streams that begin with something else were failed")
}

/// A world in which every gate is open.
pub(super) fn world_of(bench: &Bench<'_>) -> World {
    World { answer: bench.options.answer.clone(), decide: Some(true), ..World::default() }
}

/// Drives a turn anew and answers the first event that is `at` wrongly, and nothing after it. `None` when there is no such event.
pub(super) async fn answered(
    bench: &Bench<'_>,
    played: &Played,
    at: At,
    answer: &Wrong,
) -> Option<(Transcript, usize)> {
    let turn = bench.link.turn(played.turn.start.clone());
    let mut world = world_of(bench);
    let (mut seen, mut answered) = (0, None);
    let transcript = bench
        .link
        .drive(&turn, &mut |event| {
            seen += 1;
            match answered {
                None if at(event) => {
                    answered = Some(seen);
                    answer(&turn, event)
                }
                None => world.react(event),
                // It went on: the kit has seen enough.
                Some(_) if matches!(event.kind(), EventKind::EventModelCall | EventKind::EventToolCall) => Reply::Leave,
                Some(_) => Reply::Frames(Vec::new()),
            }
        })
        .await;
    Some((transcript, answered?))
}

/// Whether a turn whose event number `at` was answered wrongly is over for good.
///
/// # Errors
/// What it did instead.
pub(super) fn stopped(transcript: &Transcript, at: usize) -> Result<String, String> {
    if let Some(event) = transcript.before_last().get(at) {
        return Err(format!("it went on with {}", event.kind().as_str_name()));
    }
    match (transcript.end(), transcript.parked(), &transcript.ending) {
        (Some(end), _, _) if end.state == "COMPLETED" => Err("it ended COMPLETED".to_owned()),
        (None, Some(_), _) => Err("it said that it parked".to_owned()),
        (Some(_), _, _) | (None, None, Ending::Status(..)) => Ok(transcript.told()),
        (None, None, ending) => Err(ending.to_string()),
    }
}

/// Tries each wrong answer on each sound turn.
pub(super) async fn tried(bench: &Bench<'_>, at: At, missing: Verdict, cases: Vec<(&'static str, Wrong)>) -> Verdict {
    if bench.sound().next().is_none() {
        return bench.nothing_sound();
    }
    let mut refused = Vec::new();
    for played in bench.sound() {
        for (what, answer) in &cases {
            let Some((transcript, number)) = answered(bench, played, at, answer).await else { break };
            match stopped(&transcript, number) {
                Ok(told) => refused.push(format!("{what}: {told}")),
                Err(instead) => {
                    return Verdict::failed(format!("in the turn of {:?}, {what}: {instead}", played.input));
                }
            }
        }
    }
    match &refused[..] {
        [] => missing,
        [only] => Verdict::passed(only),
        [first, more @ ..] => Verdict::passed(format!("{first}, and {} more", more.len())),
    }
}

pub(super) fn is_model(event: &v1::Event) -> bool {
    event.kind() == EventKind::EventModelCall
}

pub(super) fn is_ordinary(event: &v1::Event) -> bool {
    ordinary(event).is_some()
}

pub(super) fn is_request(event: &v1::Event) -> bool {
    matches!(event.kind(), EventKind::EventModelCall | EventKind::EventToolCall) && event.body.is_some()
}

/// The frames that a good host answers with.
fn good(event: &v1::Event) -> Vec<Frame> {
    World { answer: "An answer.".to_owned(), ..World::default() }.answer(event)
}

pub(super) async fn judge(bench: &Bench<'_>, found: &mut Found) {
    let no_model = || Verdict::skipped("no turn asked the model");
    let no_tool = || never("no ordinary tool call was made", bench.options.expect_tool);
    let foreign_model = wrong(|_, _| {
        Reply::Frames(vec![Frame::Model(v1::ModelResult {
            message: Some(v1::Message::text("assistant", "An answer.")),
            usage: None,
            model_call_id: "of-another-call".to_owned(),
        })])
    });
    let cases = vec![("an answer to another model call", foreign_model)];
    found.push(("foreign-model", tried(bench, is_model, no_model(), cases).await));
    found.push(("foreign-tool", tried(bench, is_ordinary, no_tool(), foreign_results()).await));
    found.push(("owned-result", tried(bench, is_ordinary, no_tool(), owned_results()).await));
    let cancel = wrong(|_, _| Reply::Frames(vec![Frame::Cancel(v1::Cancel { reason: "USER".to_owned() })]));
    let start = wrong(|turn, _| Reply::Frames(vec![Frame::Start(turn.start.clone())]));
    let no_request = || Verdict::skipped("no turn asked for anything");
    let cases = vec![("a cancel frame in place of an answer", cancel), ("a second start in place of an answer", start)];
    found.push(("cancel-frame", tried(bench, is_request, no_request(), cases).await));
    let cases = vec![("a closed stream in place of an answer", wrong(|_, _| Reply::Close(Vec::new())))];
    found.push(("host-closes", tried(bench, is_request, no_request(), cases).await));
    found.push(("tool-fails", tool_fails(bench).await));
}

/// The good result with something about it changed.
fn changed(change: impl Fn(&mut v1::ToolResult) + Send + Sync + 'static) -> Wrong {
    wrong(move |_, event| {
        let mut frames = good(event);
        for frame in &mut frames {
            if let Frame::Tool(result) = frame {
                change(result);
            }
        }
        Reply::Frames(frames)
    })
}

/// The good answer in an envelope with something about it changed.
pub(super) fn enveloped(
    frames: impl Fn(&Turn, &v1::Event) -> Vec<Frame> + Send + Sync + 'static,
    change: impl Fn(&mut v1::ControllerFrame) + Send + Sync + 'static,
) -> Wrong {
    wrong(move |turn, event| {
        let mut frames: Vec<_> = frames(turn, event).into_iter().map(|frame| turn.frame(frame)).collect();
        frames.iter_mut().for_each(&change);
        Reply::Raw(frames)
    })
}

fn foreign_results() -> Vec<(&'static str, Wrong)> {
    let elsewhere = |f: &mut v1::ControllerFrame| f.session = "sess-of-another".to_owned();
    let other_turn = |f: &mut v1::ControllerFrame| f.execution_id = "of-another-turn".to_owned();
    vec![
        ("the result of another call", changed(|result| result.id.push_str("-other"))),
        ("a result in another session's envelope", enveloped(|_, event| good(event), elsewhere)),
        ("a result in another execution's envelope", enveloped(|_, event| good(event), other_turn)),
    ]
}

fn owned_results() -> Vec<(&'static str, Wrong)> {
    let denied = |result: &mut v1::ToolResult| {
        result.is_error = true;
        result.code = v1::tool_result::Code::ApprovalDenied.into();
    };
    vec![
        ("a result that names a request", changed(|result| result.approval_request_seq = 4)),
        ("a result that names a decision", changed(|result| result.approval_decision_seq = 5)),
        ("a denial of a call that was not gated", changed(denied)),
    ]
}

/// An outcome that is an error must reach the harness as one and leave a turn that repeats.
async fn tool_fails(bench: &Bench<'_>) -> Verdict {
    let has_tool = |event: &v1::Event| matches!(&event.body, Some(Body::Tool(_)));
    let mut verdicts = Vec::new();
    for played in bench.sound().filter(|p| p.repeats() && p.all().flat_map(|drive| &drive.events).any(has_tool)) {
        let turn = bench.link.turn(played.turn.start.clone());
        let mut world = World { tools_fail: true, ..world_of(bench) };
        let transcript = bench.link.drive(&turn, &mut |event| world.react(event)).await;
        if transcript.end().is_none() {
            verdicts.push(Verdict::failed(format!("in the turn of {:?}, {}", played.input, transcript.told())));
            continue;
        }
        let told = transcript.told();
        let tape = std::mem::take(&mut world.log);
        let mut again = World { tape, ..world };
        let repeated = bench.link.drive(&turn, &mut |event| again.react(event)).await;
        verdicts.push(match again.difference.clone().or_else(|| again.rest()) {
            Some(difference) => Verdict::failed(format!("from its record, {}", difference.text)),
            None if repeated.is_completed() != transcript.is_completed() => {
                Verdict::failed(format!("{told}, and from its record {}", repeated.told()))
            }
            None => Verdict::passed(told),
        });
    }
    match verdicts.is_empty() {
        true if bench.sound().next().is_none() => bench.nothing_sound(),
        true => never("no tool call was made", bench.options.expect_tool),
        false => Verdict::over(verdicts),
    }
}
