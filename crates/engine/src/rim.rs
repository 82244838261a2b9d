//! What the engine may not own: time and randomness.

use async_trait::async_trait;

/// The outside that the engine is given.
#[async_trait]
pub trait Rim: Send + Sync + 'static {
    /// Nanoseconds since the Unix epoch, UTC.
    fn now_ns(&self) -> i64;

    /// Returns once `now_ns` is at or past `deadline_ns`.
    async fn sleep_until(&self, deadline_ns: i64);

    /// Fills `bytes` with randomness: uids, execution ids, call ids.
    fn fill(&self, bytes: &mut [u8]);
}
