//! Size, number, silence and loss.

use std::time::Duration;

use futures_util::future::join_all;
use inspan_wire::v1::{self, EventKind, event::Body};

use super::answers::{is_request, world_of};
use super::link::{Reply, Transcript, Turn};
use super::turns::Played;
use super::world::World;
use super::{Bench, Found};
use crate::Verdict;

/// Turns in the long history.
const TURNS: usize = 5;
/// Streams that run beside each other, and streams that are given up one after another.
const STREAMS: usize = 8;
/// The deadline of a call that is never answered.
const DEADLINE: Duration = Duration::from_millis(200);

pub(super) async fn judge(bench: &Bench<'_>, found: &mut Found) {
    let Some(played) = bench.sound().next() else {
        for name in ["large-history", "large-answer", "slow-host", "side-by-side", "deadline", "cancelled"] {
            found.push((name, bench.nothing_sound()));
        }
        return;
    };
    found.push(("large-history", large_history(bench, played).await));
    found.push(("large-answer", large_answer(bench, played).await));
    found.push(("slow-host", slow_host(bench, played).await));
    found.push(("side-by-side", side_by_side(bench, played).await));
    found.push(("deadline", given_up(bench, 1, Some(DEADLINE)).await));
    found.push(("cancelled", given_up(bench, STREAMS, None).await));
}

fn asks(played: &Played, kind: EventKind) -> bool {
    played.live().events.iter().any(|event| event.kind() == kind)
}

async fn drive(bench: &Bench<'_>, turn: &Turn, world: &mut World) -> Transcript {
    bench.link.drive(turn, &mut |event| world.react(event)).await
}

/// Whether a turn with every gate open came to its end; `what` was special about it.
fn completed(transcript: &Transcript, what: &str) -> Verdict {
    if transcript.is_completed() {
        Verdict::passed(format!("with {what}, {}", transcript.told()))
    } else {
        Verdict::failed(format!("with {what}, {}", transcript.told()))
    }
}

async fn large_history(bench: &Bench<'_>, played: &Played) -> Verdict {
    let mut turn = bench.link.turn(played.turn.start.clone());
    turn.start.history = history(bench.options.large);
    let transcript = drive(bench, &turn, &mut world_of(bench)).await;
    completed(&transcript, &format!("a history of {} KiB", bench.options.large >> 10))
}

/// Earlier turns of the session, each with a long answer.
fn history(bytes: usize) -> Vec<v1::Event> {
    let long = "An earlier answer. ".repeat(bytes / TURNS / 19 + 1);
    let turn = |n: usize| {
        let execution = format!("{n:016x}");
        let event = |kind, body| v1::Event::new(&execution, kind, body);
        let start = v1::ExecutionStart { input_count: Some(1), ..Default::default() };
        let call = v1::ModelCall { model: "m".to_owned(), id: format!("{n:016x}"), ..Default::default() };
        let end = v1::HarnessEnd { state: "COMPLETED".to_owned(), error: None };
        [
            event(EventKind::EventExecutionStart, Body::ExecutionStart(start)),
            event(EventKind::EventInput, Body::Message(v1::Message::text("user", "go on"))),
            event(EventKind::EventModelCall, Body::Model(call)),
            event(EventKind::EventOutput, Body::Message(v1::Message::text("assistant", long.clone()))),
            event(EventKind::EventEnd, Body::End(end)),
        ]
    };
    (0..TURNS).flat_map(turn).collect()
}

async fn large_answer(bench: &Bench<'_>, played: &Played) -> Verdict {
    if !asks(played, EventKind::EventModelCall) {
        return Verdict::skipped("no turn asked the model");
    }
    let turn = bench.link.turn(played.turn.start.clone());
    let mut world = World { answer: "x".repeat(bench.options.large), ..world_of(bench) };
    completed(&drive(bench, &turn, &mut world).await, &format!("a completion of {} KiB", bench.options.large >> 10))
}

async fn slow_host(bench: &Bench<'_>, played: &Played) -> Verdict {
    if !played.live().events.iter().any(is_request) {
        return Verdict::skipped("no turn asked for anything");
    }
    let slow = bench.options.slow;
    let turn = Turn { hold: slow, ..bench.link.turn(played.turn.start.clone()) };
    completed(&drive(bench, &turn, &mut world_of(bench)).await, &format!("answers that take {} ms", slow.as_millis()))
}

async fn side_by_side(bench: &Bench<'_>, played: &Played) -> Verdict {
    let drives = (0..STREAMS).map(|_| async {
        let turn = bench.link.turn(played.turn.start.clone());
        let mut world = world_of(bench);
        // Every answer waits a little, so that the turns lie inside each other.
        drive(bench, &Turn { hold: bench.options.hold, ..turn }, &mut world).await
    });
    for transcript in join_all(drives).await {
        if let Some(event) = transcript.events.iter().find(|event| event.execution_id != transcript.execution) {
            return Verdict::failed(format!(
                "of {STREAMS} turns at once, one sent {} of execution {:?}",
                event.kind().as_str_name(),
                event.execution_id
            ));
        }
        if !transcript.is_completed() {
            return Verdict::failed(format!("of {STREAMS} turns at once, in one {}", transcript.told()));
        }
    }
    Verdict::passed(format!("{STREAMS} turns at once"))
}

/// Leaves streams in the middle of a call, then asks for a turn.
async fn given_up(bench: &Bench<'_>, streams: usize, deadline: Option<Duration>) -> Verdict {
    let Some(played) = bench.sound().find(|p| p.live().events.iter().any(is_request)) else {
        return Verdict::skipped("no turn asked for anything");
    };
    for _ in 0..streams {
        let turn = Turn { deadline, ..bench.link.turn(played.turn.start.clone()) };
        let mut leave = |event: &v1::Event| match (is_request(event), deadline) {
            (true, None) => Reply::Leave,
            _ => Reply::Frames(Vec::new()),
        };
        bench.link.drive(&turn, &mut leave).await;
    }
    let next = bench.link.turn(played.turn.start.clone());
    let transcript = drive(bench, &next, &mut world_of(bench)).await;
    let what = match deadline {
        Some(_) => "a deadline that passed before".to_owned(),
        None => format!("{streams} streams given up before"),
    };
    completed(&transcript, &what)
}
