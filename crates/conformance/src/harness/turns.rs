//! Each input's turn as a host would drive it: live until it parks, on with the decision until it ends, and once more
//! from its whole record.

use std::collections::BTreeMap;

use inspan_wire::v1::{self, EventKind};

use super::link::{Link, Transcript, Turn};
use super::world::{self, Difference, Tape, World, count};
use super::{Found, Options};
use crate::Verdict;

/// Gates of one turn that are decided: a turn that parks for ever is not driven for ever.
const GATES_MAX: usize = 16;

/// What was seen of one input's turn.
pub(super) struct Played {
    pub(super) input: String,
    /// The turn, for whoever drives it once more.
    pub(super) turn: Turn,
    /// The drives until it ended: more than one when it parked.
    pub(super) drives: Vec<Transcript>,
    /// Everything that it asked for.
    pub(super) tape: Tape,
    /// What each drive that was parked was told, by the number of the drive.
    pub(super) parks: BTreeMap<usize, v1::ApprovalRef>,
    /// Where a drive that went on from a decision did not repeat its record.
    pub(super) gone_on: Option<Result<(), Difference>>,
    /// The drive from the whole record, and where it did not repeat it.
    again: Option<(Transcript, Option<Difference>)>,
}

impl Played {
    /// The first drive.
    pub(super) fn live(&self) -> &Transcript {
        &self.drives[0]
    }

    /// Whether it came back as it was recorded, as far as it was driven from a record.
    pub(super) fn repeats(&self) -> bool {
        matches!(compared(self), Ok(None))
    }

    /// How its last drive ended.
    pub(super) fn told(&self) -> String {
        self.drives.last().map(Transcript::told).unwrap_or_default()
    }

    /// Every drive in which the host did nothing wrong.
    pub(super) fn all(&self) -> impl Iterator<Item = &Transcript> {
        self.drives.iter().chain(self.again.iter().map(|(transcript, _)| transcript))
    }

    /// Whether it came to COMPLETED by way of every gate, or as far as a harness that keeps its memory gets, and waited for its
    /// answers. What is tried on another turn would tell nothing.
    pub(super) fn is_sound(&self) -> bool {
        let parked = self.parks.iter().all(|(drive, at)| self.drives[*drive].parked() == Some(at));
        let ended = self.drives.len() - 1;
        let is_over = self.parks.contains_key(&ended) || self.drives[ended].is_completed();
        parked && is_over && self.drives.iter().all(|drive| drive.early.is_none())
    }
}

/// The first frame of an input's turn.
pub(super) fn start(input: &str, options: &Options) -> v1::Start {
    v1::Start {
        config: options.config.clone().into(),
        inputs: vec![v1::Message::text("user", input)],
        ..Default::default()
    }
}

pub(super) async fn play(link: &Link, input: &str, options: &Options, is_stateless: bool) -> Played {
    let mut turn = link.turn(start(input, options));
    turn.hold = options.hold;
    let mut world = World { answer: options.answer.clone(), ..World::default() };
    let mut played = Played {
        input: input.to_owned(),
        turn: turn.clone(),
        drives: Vec::new(),
        tape: Tape::new(),
        parks: BTreeMap::new(),
        gone_on: None,
        again: None,
    };
    played.turn.hold = std::time::Duration::ZERO;
    for _ in 0..GATES_MAX {
        let transcript = link.drive(&turn, &mut |event| world.react(event)).await;
        let parked = transcript.parked().is_some();
        if played.gone_on.as_ref().map_or(!played.drives.is_empty(), Result::is_ok) {
            played.gone_on = Some(world.difference.clone().or_else(|| world.rest()).map_or(Ok(()), Err));
        }
        played.drives.push(transcript);
        let Some((call, at)) = world.parked_at.take() else { break };
        played.parks.insert(played.drives.len() - 1, at);
        if !parked || !is_stateless || world.difference.is_some() {
            break;
        }
        world.decisions.insert(call.id.clone(), true);
        let tape = std::mem::take(&mut world.log);
        world = World { tape, waiting: Some(call), ..world };
    }
    played.tape = std::mem::take(&mut world.log);
    let ended = played.drives.len() - 1;
    if is_stateless && !played.parks.contains_key(&ended) && played.drives[ended].is_completed() {
        played.again = Some(again(link, &played, &world).await);
    }
    played
}

/// The whole turn from its record: nothing is left to do live.
async fn again(link: &Link, played: &Played, world: &World) -> (Transcript, Option<Difference>) {
    let mut world = World { tape: played.tape.clone(), waiting: None, difference: None, ..world.clone() };
    world.log = Tape::new();
    let transcript = link.drive(&played.turn, &mut |event| world.react(event)).await;
    let more = (world.log.len() > world.tape.len()).then(|| Difference {
        check: world::ORDER,
        text: format!("it did {} things where {} are recorded", world.log.len(), world.tape.len()),
    });
    let ended = |transcript: &Transcript| {
        (!transcript.is_completed()).then(|| Difference {
            check: world::ORDER,
            text: format!("the turn is recorded as completed, and from its record {}", transcript.told()),
        })
    };
    let difference = world.difference.clone().or(more).or_else(|| world.rest()).or_else(|| ended(&transcript));
    (transcript, difference)
}

/// The kinds of effects whose sameness is judged one by one.
const KINDS: [(&str, EventKind, &str); 4] = [
    (world::MODEL, EventKind::EventModelCall, "model call"),
    (world::TOOL, EventKind::EventToolCall, "tool call"),
    (world::OUTPUT, EventKind::EventOutput, "output"),
    (world::USAGE, EventKind::EventUsage, "usage"),
];

pub(super) fn judge(played: &[Played], is_stateless: bool, found: &mut Found) {
    if !is_stateless {
        let why = "it keeps its memory, so that its turns do not repeat";
        found.extend(KINDS.map(|(check, ..)| (check, Verdict::skipped(why))));
        found.push((world::ORDER, Verdict::skipped(why)));
        return;
    }
    for (check, kind, noun) in KINDS {
        found.push((check, Verdict::over(played.iter().map(|p| same_kind(p, check, kind, noun)))));
    }
    found.push((world::ORDER, Verdict::over(played.iter().map(same_order))));
}

/// What did not repeat, in a drive that began from a record.
fn compared(played: &Played) -> Result<Option<&Difference>, Verdict> {
    match (&played.gone_on, &played.again) {
        (Some(Err(difference)), _) => Ok(Some(difference)),
        (_, Some((_, difference))) => Ok(difference.as_ref()),
        (_, None) => {
            Err(Verdict::skipped(format!("the turn of {:?} has no complete record: {}", played.input, played.told())))
        }
    }
}

fn same_kind(played: &Played, check: &'static str, kind: EventKind, noun: &str) -> Verdict {
    match compared(played) {
        Err(skipped) => skipped,
        Ok(Some(difference)) if difference.check == check => {
            Verdict::failed(format!("the turn of {:?}, {}", played.input, difference.text))
        }
        Ok(Some(_)) => Verdict::skipped("the turn was stopped where it did not repeat its record"),
        Ok(None) => match count(&played.tape, kind) {
            0 => Verdict::skipped(format!("no turn had any {noun}")),
            1 => Verdict::passed(format!("1 {noun} of {:?} came back as recorded", played.input)),
            n => Verdict::passed(format!("{n} {noun}s of {:?} came back as recorded", played.input)),
        },
    }
}

fn same_order(played: &Played) -> Verdict {
    match compared(played) {
        Err(skipped) => skipped,
        Ok(Some(difference)) if difference.check == world::ORDER => {
            Verdict::failed(format!("the turn of {:?}, {}", played.input, difference.text))
        }
        Ok(Some(_)) => Verdict::skipped("the turn was stopped where it did not repeat its record"),
        Ok(None) => Verdict::passed(format!("the {} effects of {:?} came back", played.tape.len(), played.input)),
    }
}
