//! The harness side: the kit is the host, and drives turns of whatever answers at an address.
//!
//! In reading order: `link` drives one stream and notes what comes, `world` is the model, the tools and the record behind
//! it, `turns` does each input's turn the way a host would and again from its record, `manners` judges what was seen there,
//! `answers` and `gates` give answers that no host should give, `load` is about size, number, silence and loss.

use std::time::Duration;

use inspan_wire::v1;

use crate::report::Check;
use crate::{Address, Report, Unreachable, Verdict};

mod answers;
mod gates;
mod link;
mod load;
mod manners;
mod turns;
mod world;

use link::{Ending, Link};
use turns::Played;

/// What a harness is run with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The text of each turn's input.
    pub inputs: Vec<String>,
    /// The configuration of every turn.
    pub config: Vec<u8>,
    /// What the kit's model answers.
    pub answer: String,
    /// The id that the harness must say it has.
    pub expect_id: Option<String>,
    /// A harness that has no tool run is failed.
    pub expect_tool: bool,
    /// A harness that never asks for an approval is failed.
    pub expect_gate: bool,
    /// How long the kit waits for anything.
    pub patience: Duration,
    /// How long an answer is held back where nothing may come in its stead.
    pub hold: Duration,
    /// How long the slow host takes.
    pub slow: Duration,
    /// Bytes of text in the long history and in the long completion.
    pub large: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            inputs: vec!["hello".to_owned()],
            config: Vec::new(),
            answer: "An answer of the conformance kit.".to_owned(),
            expect_id: None,
            expect_tool: false,
            expect_gate: false,
            patience: Duration::from_secs(10),
            hold: Duration::from_millis(50),
            slow: Duration::from_secs(1),
            // Above what gRPC takes when nobody says otherwise.
            large: 5 << 20,
        }
    }
}

/// Every check of a harness, in the order of the report.
pub const CHECKS: &[Check] = &[
    Check { name: "describe", rule: "R-REMOTE-1", proves: "it describes itself within ten seconds" },
    Check { name: "describe-same", rule: "R-REMOTE-3", proves: "it says the same of itself each time it is asked" },
    Check { name: "describe-id", rule: "R-CAP-3", proves: "it has the id that was expected" },
    Check { name: "resumability", rule: "R-CAP-1", proves: "it says how it is resumed" },
    Check {
        name: "first-frame",
        rule: "W-2",
        proves: "a stream that does not begin with start and an execution id is failed",
    },
    Check { name: "envelope", rule: "W-1", proves: "every event carries the execution id of its stream" },
    Check { name: "end-once", rule: "W-5", proves: "a turn that did not park ends with exactly one END" },
    Check {
        name: "end-state",
        rule: "W-6",
        proves: "END has one of its three states, and COMPLETED is followed by OK",
    },
    Check { name: "completes", rule: "W-6", proves: "the turn of at least one input ends COMPLETED" },
    Check { name: "last-word", rule: "W-10", proves: "nothing is sent behind END or PARKED" },
    Check {
        name: "own-kinds",
        rule: "W-7",
        proves: "it sends nothing that is the host's to say, and no call without its body",
    },
    Check { name: "no-receipts", rule: "W-8", proves: "it reports no result with host-owned fields" },
    Check { name: "one-at-a-time", rule: "R-LIVE-5", proves: "nothing is sent while a call waits for its answer" },
    Check { name: "tool-mediation", rule: "R-TOOL-1", proves: "its tool calls say who decides about them" },
    Check { name: "tool-key", rule: "R-TOOL-2", proves: "its tool calls have an idempotency key" },
    Check { name: "gate-id", rule: "R-APPR-1", proves: "its gated calls have an id that its turn has not used" },
    Check {
        name: world::MODEL,
        rule: "R-MODEL-4",
        proves: "from its record a turn asks the model the same, byte for byte, with the same input hash",
    },
    Check {
        name: world::TOOL,
        rule: "R-TOOL-7",
        proves: "from its record a turn makes the same tool calls: id, tool, mediation, key, arguments",
    },
    Check { name: world::OUTPUT, rule: "R-OUT-1", proves: "from its record a turn says the same output" },
    Check { name: world::USAGE, rule: "R-OUT-4", proves: "from its record a turn says the same usage" },
    Check {
        name: world::ORDER,
        rule: "R-REPLAY-5",
        proves: "from its record a turn does the same things in the same order, none more and none less",
    },
    Check { name: "foreign-model", rule: "W-1", proves: "the answer to another model call fails the turn" },
    Check { name: "foreign-tool", rule: "W-1", proves: "the result of another call or another turn fails the turn" },
    Check {
        name: "owned-result",
        rule: "W-8",
        proves: "an ordinary call that is answered with a receipt's fields fails the turn",
    },
    Check { name: "cancel-frame", rule: "W-9", proves: "a frame of the wrong type, cancel too, fails the turn" },
    Check {
        name: "host-closes",
        rule: "W-4",
        proves: "a host that closes its side in place of an answer fails the turn",
    },
    Check {
        name: "tool-fails",
        rule: "R-TOOL-15",
        proves: "a result that says the tool failed leads to a proper end, and again from the record",
    },
    Check {
        name: "park",
        rule: "W-PARK",
        proves: "a park is acknowledged with the same tuple, once, and the stream closes with OK",
    },
    Check {
        name: "park-wrong",
        rule: "W-PARK",
        proves: "a park that names another call, execution or session, or no request, is a failure",
    },
    Check { name: "park-ordinary", rule: "W-PARK", proves: "a park on an ordinary call is a failure" },
    Check {
        name: world::GATE,
        rule: "R-APPR-30",
        proves: "a parked turn, driven again, makes the same gated call and goes on with its decision",
    },
    Check { name: "gate-denied", rule: "R-APPR-26", proves: "a denial is a result that the turn ends properly with" },
    Check {
        name: "gate-receipt",
        rule: "W-GATE",
        proves: "a receipt that contradicts its decision, or a second decision, is a failure",
    },
    Check { name: "gate-cut", rule: "W-GATE", proves: "a stream that ends between decision and receipt is a failure" },
    Check { name: "large-history", rule: "W-3", proves: "it takes a start with a history of more than 4 MiB" },
    Check { name: "large-answer", rule: "R-MODEL-1", proves: "it takes a completion of more than 4 MiB" },
    Check { name: "slow-host", rule: "W-4", proves: "it waits for a host that takes its time" },
    Check { name: "side-by-side", rule: "W-3", proves: "turns on streams of one connection do not disturb each other" },
    Check {
        name: "deadline",
        rule: "W-9",
        proves: "a call whose deadline passes leaves a harness that does its next turn",
    },
    Check {
        name: "cancelled",
        rule: "W-9",
        proves: "streams that a host cancels leave a harness that does its next turn",
    },
];

/// A finding: the name of its check and what it came to.
type Found = Vec<(&'static str, Verdict)>;

/// Judges the harness at `address`. Must be called in a tokio runtime.
///
/// # Errors
/// [`Unreachable`] when nobody answers there.
pub async fn run(address: &Address, options: &Options) -> Result<Report, Unreachable> {
    let channel = inspan_attach::grpc::channel(address, &inspan_attach::grpc::Settings::default());
    let link = Link::new(channel, options.patience);
    let described = link.describe().await;
    if let Err(Ending::Status(tonic::Code::Unavailable, why)) = &described {
        return Err(Unreachable(format!("no harness answers at {address}: {why}")));
    }
    let mut found = Found::new();
    let descriptor = identity(&link, described, options, &mut found).await;
    let is_stateless = descriptor.capabilities.as_ref().map(v1::Capabilities::resumability)
        != Some(v1::Resumability::RequiresMemorySnapshot);
    found.push(("first-frame", answers::first_frame(&link).await));
    let mut played = Vec::new();
    for input in &options.inputs {
        played.push(turns::play(&link, input, options, is_stateless).await);
    }
    manners::judge(&played, options, &mut found);
    turns::judge(&played, is_stateless, &mut found);
    let bench = Bench { link: &link, options, played: &played };
    answers::judge(&bench, &mut found).await;
    gates::judge(&bench, &mut found).await;
    load::judge(&bench, &mut found).await;
    let subject = format!("harness {address} id={:?} version={:?}", descriptor.id, descriptor.version);
    Ok(Report::new(subject, CHECKS, found, Vec::new()))
}

/// What the later checks work with.
struct Bench<'a> {
    link: &'a Link,
    options: &'a Options,
    played: &'a [Played],
}

impl Bench<'_> {
    /// The turns that can be relied upon: what is tried on another one would tell nothing.
    fn sound(&self) -> impl Iterator<Item = &Played> {
        self.played.iter().filter(|played| played.is_sound())
    }

    /// Why there is no turn to try something on.
    fn nothing_sound(&self) -> Verdict {
        let why = self.played.iter().map(|p| format!("the turn of {:?}: {}", p.input, p.told()));
        Verdict::skipped(format!("no turn came to a good end: {}", why.collect::<Vec<_>>().join("; ")))
    }
}

async fn identity(
    link: &Link,
    described: Result<v1::HarnessDescriptor, Ending>,
    options: &Options,
    found: &mut Found,
) -> v1::HarnessDescriptor {
    let first = match described {
        Ok(first) => first,
        Err(ending) => {
            found.push(("describe", Verdict::failed(ending.to_string())));
            for name in ["describe-same", "describe-id", "resumability"] {
                found.push((name, Verdict::skipped("it did not describe itself")));
            }
            return v1::HarnessDescriptor::default();
        }
    };
    found.push(("describe", Verdict::passed(format!("id {:?}, version {:?}", first.id, first.version))));
    found.push((
        "describe-same",
        match link.describe().await {
            Ok(again) if again == first => Verdict::passed("twice the same"),
            Ok(again) => Verdict::failed(format!(
                "first it was {:?} version {:?}, then {:?} version {:?}: a host takes it for two harnesses",
                first.id, first.version, again.id, again.version
            )),
            Err(ending) => Verdict::failed(format!("it did not describe itself again: {ending}")),
        },
    ));
    found.push((
        "describe-id",
        match &options.expect_id {
            None => Verdict::skipped(format!("no id was expected; it says {:?}", first.id)),
            Some(id) if *id == first.id => Verdict::passed(format!("it is {id:?}")),
            Some(id) => Verdict::failed(format!("it says {:?} and {id:?} was expected", first.id)),
        },
    ));
    found.push(("resumability", resumability(&first)));
    first
}

fn resumability(descriptor: &v1::HarnessDescriptor) -> Verdict {
    let said = descriptor.capabilities.as_ref().map_or(0, |c| c.resumability);
    match v1::Resumability::try_from(said) {
        Ok(v1::Resumability::StatelessReplay) => Verdict::passed("by replay: any host can place it"),
        Ok(v1::Resumability::RequiresMemorySnapshot) => {
            Verdict::passed("by its memory: hosts refuse it at an address before anything is journaled")
        }
        Ok(v1::Resumability::Unspecified) => Verdict::skipped("it does not say; hosts read that as by replay"),
        Err(_) => Verdict::failed(format!("{said} is no resumability; hosts read it as by replay")),
    }
}
