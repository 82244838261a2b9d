//! What a harness does in one turn: moves, separated by `;`, in the text of its input.
//!
//! | move | does |
//! |---|---|
//! | `model TEXT` | asks the model; a failure ends the turn |
//! | `again` | asks the model with the last completion's text |
//! | `try TEXT` | asks the model; a failure that may be handled is |
//! | `orelse TEXT` | asks the model; outputs an apology when it fails |
//! | `retry N TEXT` | asks the model until it answers, at most N times |
//! | `out TEXT` | outputs text |
//! | `report ID BYTES` | reports the result of a tool it ran, with an output of that size |
//! | `usage N` | records N input tokens |
//! | `tool NAME` | asks for a tool; a failure ends the turn |
//! | `trytool NAME` | asks for a tool; a failure that may be handled is |
//! | `gate NAME` | asks for a tool and for a person's approval |
//! | `reuse NAME N` | asks for a tool under a key that other turns use too, with one of two arguments |
//! | `past` | outputs a digest of the history |
//! | `last` | outputs a digest of the last completion, opaque parts included |
//! | `flaky N` | fails the turn the first N times that this execution comes here |
//! | `fail` | fails the turn, every time |

use crate::Rng;
use crate::tools::{POLICIES, TOOLS};

/// More than a record takes inline.
pub(crate) const LARGE_BYTES: usize = 66_000;

/// A script of a few moves, all of them of the kind that a turn can get through in the end.
pub(crate) fn random(rng: &mut Rng, large: u64) -> String {
    let count = 1 + rng.below(6);
    let moves: Vec<String> = (0..count).map(|_| random_move(rng, large)).collect();
    moves.join(";")
}

fn random_move(rng: &mut Rng, large: u64) -> String {
    let word = rng.below(1000);
    match rng.below(100) {
        0..=17 => format!("model w{word}"),
        18..=23 => format!("tool {}", tool(rng)),
        24..=28 => format!("trytool {}", tool(rng)),
        29..=33 => format!("gate {}", tool(rng)),
        34..=35 => "again".to_owned(),
        36..=43 => format!("try w{word}"),
        44..=49 => format!("orelse w{word}"),
        50..=57 => format!("retry {} w{word}", 1 + rng.below(3)),
        58..=67 => format!("out w{word}"),
        68..=73 => format!("report r{word} {}", if rng.chance(large) { LARGE_BYTES } else { 10 }),
        74..=79 => format!("usage {word}"),
        80..=82 => "past".to_owned(),
        83..=84 => "last".to_owned(),
        85..=86 => format!("tool who-{}", rng.pick(&TOOLS)),
        87..=91 => format!("reuse {} {}", tool(rng), rng.below(6)),
        _ => format!("flaky {}", 1 + rng.below(2)),
    }
}

/// A tool, at times one that the policy speaks of.
fn tool(rng: &mut Rng) -> String {
    let name = *rng.pick(&TOOLS);
    if rng.chance(700) { name.to_owned() } else { format!("{}-{name}", rng.pick(&POLICIES)) }
}
