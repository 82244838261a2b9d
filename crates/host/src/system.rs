//! The real clock and the system's randomness: the only place where the host touches them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use inspan_engine::Rim;
use inspan_journal::Clock;

/// How long one sleep lasts at most before the wall clock is looked at again: a clock that was set
/// forward, or a machine that slept, delays a deadline by no more than this.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// The outside that a running host gives to the engine and to the stores.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl System {
    fn now(self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }
}

#[async_trait]
impl Rim for System {
    fn now_ns(&self) -> i64 {
        self.now()
    }

    async fn sleep_until(&self, deadline_ns: i64) {
        loop {
            let left = deadline_ns.saturating_sub(self.now());
            let Ok(left @ 1..) = u64::try_from(left) else { return };
            tokio::time::sleep(Duration::from_nanos(left).min(SLEEP_MAX)).await;
        }
    }

    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system gives randomness");
    }
}

impl Clock for System {
    fn now_ns(&self) -> i64 {
        self.now()
    }
}

/// Measures how long something took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Milliseconds since the start.
    pub(crate) fn elapsed_ms(self) -> f64 {
        self.0.elapsed().as_secs_f64() * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_ends_at_or_after_its_deadline() {
        let deadline = Rim::now_ns(&System) + 2_000_000;
        System.sleep_until(deadline).await;
        assert!(Rim::now_ns(&System) >= deadline);
        // A deadline that has passed is no sleep at all, however long ago.
        System.sleep_until(i64::MIN).await;
    }
}
