//! What happened, line by line: the tail for a failure's report, the hash to compare two runs.

use std::collections::VecDeque;

/// Lines that a failure shows.
pub(crate) const TAIL_LINES: usize = 40;

/// Where lines go while a run goes on.
pub type Echo = Box<dyn FnMut(&str) + Send>;

/// The trace of one run.
pub(crate) struct Trace {
    tail: VecDeque<String>,
    hash: u64,
    echo: Option<Echo>,
}

impl Trace {
    /// An empty trace.
    pub(crate) fn new(echo: Option<Echo>) -> Trace {
        // The start value and the prime are those of FNV-1a, 64 bits.
        Trace { tail: VecDeque::with_capacity(TAIL_LINES), hash: 0xcbf2_9ce4_8422_2325, echo }
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, line: String) {
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if let Some(echo) = &mut self.echo {
            echo(&line);
        }
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// A hash over every line so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> Vec<String> {
        self.tail.iter().cloned().collect()
    }
}
