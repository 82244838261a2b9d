//! How bad things are in one run: drawn once, so that some runs are all crashes and others all full disks.

use crate::Rng;

/// Rates of faults, each per mille of its occasions.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    /// Hosts over the one store.
    pub(crate) hosts: usize,
    /// Operations that may run at once.
    pub(crate) operations_max: usize,
    /// A write fails for want of room, rolled back.
    pub(crate) full: u64,
    /// A write fails and nobody knows whether it is on disk: the host refuses writes until it restarts.
    pub(crate) failed: u64,
    /// A read fails.
    pub(crate) read: u64,
    /// The most scheduling points before and behind an operation of the store.
    pub(crate) pauses_max: u64,
    /// The provider says no, or cuts its stream.
    pub(crate) model_fails: u64,
    /// The provider never answers.
    pub(crate) model_hangs: u64,
    /// The provider's latency, at most.
    pub(crate) latency_ns_max: u64,
    /// A tool is not reached, or its answer is lost, or it says no.
    pub(crate) tool_fails: u64,
    /// A tool never answers, before its effect or after.
    pub(crate) tool_hangs: u64,
    /// A client goes where all others are: to one session.
    pub(crate) crowd: u64,
    /// The harness cannot say what it is, or says another version.
    pub(crate) describe: u64,
    /// Per step: a host stops moving for a while, its clients and timers unaware.
    pub(crate) stop: u64,
    /// Per 10 steps: a host dies.
    pub(crate) crash: u64,
    /// Per 10 steps: a host is drained and restarted.
    pub(crate) drain: u64,
    /// Per step: a client asks for something.
    pub(crate) launch: u64,
    /// A resumed or re-run harness asks for something else than what is recorded.
    pub(crate) twist: u64,
    /// A payload is too large for its record.
    pub(crate) large: u64,
}

impl Weather {
    /// Draws the weather of a run.
    pub(crate) fn draw(rng: &mut Rng) -> Weather {
        let mut rate = |rates: &[u64]| *rng.pick(rates);
        Weather {
            full: rate(&[0, 0, 5, 40]),
            failed: rate(&[0, 0, 3, 15]),
            read: rate(&[0, 0, 3, 30]),
            pauses_max: rate(&[1, 3, 8]),
            model_fails: rate(&[0, 60, 250]),
            model_hangs: rate(&[0, 10, 60]),
            latency_ns_max: rate(&[1_000_000, 200_000_000, 3_000_000_000]),
            describe: rate(&[0, 10, 60]),
            stop: rate(&[0, 5, 20]),
            crash: rate(&[0, 10, 60]),
            drain: rate(&[0, 3, 15]),
            launch: rate(&[20, 60, 150]),
            twist: rate(&[0, 100, 300]),
            large: rate(&[0, 10, 30]),
            tool_fails: rate(&[0, 40, 200]),
            tool_hangs: rate(&[0, 10, 60]),
            crowd: rate(&[0, 0, 300, 950]),
            hosts: 1 + rng.index(3),
            operations_max: 2 + rng.index(7),
        }
    }

    /// Makes sure that there is what a bug on purpose needs to show: takeovers, crashes, deviations.
    pub(crate) fn bring_out(&mut self) {
        self.hosts = self.hosts.max(2);
        self.operations_max = self.operations_max.max(6);
        self.stop = self.stop.max(10);
        self.crash = self.crash.max(20);
        self.twist = self.twist.max(200);
    }
}
