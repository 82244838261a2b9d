//! What can be broken, and how a broken promise is told.

use std::fmt;

/// The seven promises of inspan, what approvals promise, and the two things that they all stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// 1: a call is durable before it leaves the host, its result before anyone sees it.
    RecordBeforeEffect,
    /// 2: replay serves recorded results and asks nobody.
    ReplayCostsNothing,
    /// 3: divergence is an error, never a guess.
    DivergenceIsAnError,
    /// 4: an effect is driven again at most once per recovery, never when its receipt exists.
    AtMostOnce,
    /// 5: one writer.
    OneWriter,
    /// 6: the record can be checked by a stranger.
    CheckedByStrangers,
    /// 7: a refusal leaves nothing behind.
    HonestRefusal,
    /// What waits for a person runs after its approval only, and what is forbidden never.
    NothingUnapproved,
    /// Of all decisions on one request one is recorded, and nobody is told another.
    OneDecision,
    /// An accepted turn comes to an end or can be resumed to one.
    NothingVanishes,
    /// No code panics.
    NoPanic,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::RecordBeforeEffect => "promise 1, record before effect",
            Promise::ReplayCostsNothing => "promise 2, replay costs nothing",
            Promise::DivergenceIsAnError => "promise 3, divergence is an error",
            Promise::AtMostOnce => "promise 4, at most once",
            Promise::OneWriter => "promise 5, one writer",
            Promise::CheckedByStrangers => "promise 6, checked by a stranger",
            Promise::HonestRefusal => "promise 7, honest refusal",
            Promise::NothingUnapproved => "nothing runs that was not approved",
            Promise::OneDecision => "one decision wins",
            Promise::NothingVanishes => "an accepted turn never vanishes",
            Promise::NoPanic => "no code panics",
        })
    }
}

/// A promise that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// What was seen, with sessions and places.
    pub what: String,
}

impl Violation {
    /// A broken `promise`.
    pub(crate) fn of(promise: Promise, what: impl Into<String>) -> Violation {
        Violation { promise, what: what.into() }
    }
}

/// Checks that hold or name what is broken.
pub(crate) type Verdict = Result<(), Violation>;

/// Breaks `promise` unless `holds`.
pub(crate) fn ensure(holds: bool, promise: Promise, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Violation::of(promise, what())) }
}

/// A run that broke a promise: everything needed to see it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The run.
    pub seed: u64,
    /// The step after which it was seen.
    pub step: u64,
    /// What.
    pub violation: Violation,
    /// The last lines of the trace.
    pub tail: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} broke {} at step {}", self.seed, self.violation.promise, self.step)?;
        writeln!(f, "  {}", self.violation.what)?;
        writeln!(f, "the last {} lines of its trace:", self.tail.len())?;
        for line in &self.tail {
            writeln!(f, "  {line}")?;
        }
        write!(f, "to see it again: cargo xtask sim --seed {}", self.seed)
    }
}

impl std::error::Error for Failure {}
