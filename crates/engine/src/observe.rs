//! Whoever watches sessions.

use std::sync::Arc;

use inspan_journal::Record;
use inspan_wire::{SessionUid, v1};

/// A record that is durable, with its decoded event.
#[derive(Debug, Clone)]
pub struct Seen {
    /// As it is stored.
    pub record: Record,
    /// Its event, decoded.
    pub event: Arc<v1::Event>,
}

/// Sees every record after it is durable and every delta, in order (R-LIVE-2). Calls must return at
/// once: a slow viewer is the observer's problem, never the turn's.
pub trait Observer: Send + Sync + 'static {
    /// Records were committed.
    fn committed(&self, session: &SessionUid, records: &[Seen]);

    /// Text of a completion that is not finished.
    fn delta(&self, session: &SessionUid, delta: &v1::Delta);

    /// A turn began or ended on this host: `exec_state` may have changed without a record.
    fn turn_changed(&self, session: &SessionUid);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Observer for Nobody {
    fn committed(&self, _: &SessionUid, _: &[Seen]) {}
    fn delta(&self, _: &SessionUid, _: &v1::Delta) {}
    fn turn_changed(&self, _: &SessionUid) {}
}
