//! Whoever watches a session, from any record to live, without a gap and without a repetition.
//!
//! A viewer reads the journal until it has caught up, then the session's *ring*: the last few things
//! that happened, bounded in number and in bytes. A viewer that is slower than the ring is long
//! goes back to the journal. So nobody waits for a viewer, and a viewer costs a bounded amount of
//! memory however far behind it is. A session that nobody watches has no ring at all.
//!
//! Deltas live in the ring only: a viewer that misses some gets the record that holds the whole text.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use inspan_engine::Observer;
use inspan_engine::observe::Seen;
use inspan_journal::{Journal, Record};
use inspan_wire::SessionUid;
use inspan_wire::v1::{self, EventKind};
use tokio::sync::{Notify, watch};

use crate::fault::Fault;

/// Bounds of one session's ring.
#[derive(Debug, Clone, Copy)]
pub struct RingLimits {
    /// Records and deltas kept.
    pub items_max: usize,
    /// Bytes kept, as far as they count: texts of events and deltas.
    pub bytes_max: usize,
}

impl Default for RingLimits {
    fn default() -> RingLimits {
        RingLimits { items_max: 1024, bytes_max: 1 << 20 }
    }
}

/// Records that a viewer who catches up reads at once.
const PAGE_RECORDS: usize = 256;
/// Things that a viewer takes out of the ring at once.
const TAKE_ITEMS: usize = 64;

/// Hands what sessions do to those who follow them.
#[derive(Default)]
pub struct Hub {
    rings: RwLock<HashMap<SessionUid, Watched>>,
    limits: RingLimits,
    /// Rings when a session has come to wait for a person.
    asked: watch::Sender<()>,
}

/// A session that someone follows.
struct Watched {
    ring: Arc<Shared>,
    /// How many follow it; the ring goes with the last one.
    viewers: usize,
}

/// A ring, and the bell that its viewers sleep on.
struct Shared {
    ring: Mutex<Ring>,
    bell: Notify,
}

/// ```text
/// positions:  … gone … | first … first + items.len() - 1 | end, not there yet
/// ```
struct Ring {
    items: VecDeque<Live>,
    /// The position of the oldest item that is still there.
    first: u64,
    bytes: usize,
}

/// Something that happened in a session.
#[derive(Debug, Clone)]
enum Live {
    Record(Seen),
    Delta(Arc<v1::Delta>),
    TurnChanged,
}

impl Live {
    /// What it counts in the ring's bytes. A decoded event takes about what its text takes.
    fn size(&self) -> usize {
        128 + match self {
            Live::Record(seen) => 2 * seen.record.event.len(),
            Live::Delta(delta) => delta.chunk.len(),
            Live::TurnChanged => 0,
        }
    }
}

impl Ring {
    fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    fn push(&mut self, item: Live, limits: RingLimits) {
        self.bytes += item.size();
        self.items.push_back(item);
        // An item above the bound goes at once, and its viewers read it from the journal.
        while self.bytes > limits.bytes_max || self.items.len() > limits.items_max {
            let Some(gone) = self.items.pop_front() else { break };
            self.first += 1;
            self.bytes -= gone.size();
        }
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Ring> {
    // A ring is sound after every step of `push`, so a panic elsewhere does not spoil it.
    shared.ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// A hub whose rings keep `limits`.
    pub fn new(limits: RingLimits) -> Hub {
        Hub { rings: RwLock::default(), limits, asked: watch::Sender::new(()) }
    }

    /// Follows a session from record `from` on: the journal first, then live.
    pub fn follow(self: &Arc<Hub>, journal: &Arc<dyn Journal>, uid: &SessionUid, from: i64) -> Follow {
        let ring = self.enter(uid);
        Follow {
            hub: Arc::clone(self),
            journal: Arc::clone(journal),
            uid: uid.clone(),
            ring,
            wanted: from.max(1),
            place: Place::Behind,
            missed_some: false,
            ready: VecDeque::new(),
        }
    }

    /// Follows a session whose journal is known to end before `from`: no read of the journal unless
    /// something was missed.
    pub(crate) fn follow_live(self: &Arc<Hub>, journal: &Arc<dyn Journal>, uid: &SessionUid, from: i64) -> Follow {
        let mut follow = self.follow(journal, uid, from);
        follow.place = Place::Live { at: lock(&follow.ring).end() };
        follow
    }

    /// Changes whenever a session of this host has come to wait for a person.
    pub(crate) fn asked(&self) -> watch::Receiver<()> {
        self.asked.subscribe()
    }

    /// Says that sessions may have come to wait past this hub: by an import.
    pub(crate) fn ring_asked(&self) {
        self.asked.send_replace(());
    }

    /// How many sessions are followed.
    pub fn watched(&self) -> usize {
        self.rings.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn enter(&self, uid: &SessionUid) -> Arc<Shared> {
        let mut rings = self.rings.write().unwrap_or_else(PoisonError::into_inner);
        let watched = rings.entry(uid.clone()).or_insert_with(|| Watched {
            ring: Arc::new(Shared {
                ring: Mutex::new(Ring { items: VecDeque::new(), first: 0, bytes: 0 }),
                bell: Notify::new(),
            }),
            viewers: 0,
        });
        watched.viewers += 1;
        Arc::clone(&watched.ring)
    }

    fn leave(&self, uid: &SessionUid) {
        let mut rings = self.rings.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = rings.get_mut(uid) {
            watched.viewers -= 1;
            if watched.viewers == 0 {
                rings.remove(uid);
            }
        }
    }

    /// Puts `items` into the session's ring, when it has one; they are not even made otherwise.
    fn publish<I: IntoIterator<Item = Live>>(&self, uid: &SessionUid, items: impl FnOnce() -> I) {
        let rings = self.rings.read().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = rings.get(uid) else { return };
        let shared = Arc::clone(&watched.ring);
        drop(rings);
        {
            let mut ring = lock(&shared);
            for item in items() {
                ring.push(item, self.limits);
            }
        }
        shared.bell.notify_waiters();
    }
}

impl Observer for Hub {
    fn committed(&self, session: &SessionUid, records: &[Seen]) {
        self.publish(session, || records.iter().cloned().map(Live::Record));
        if records.iter().any(|seen| seen.event.kind() == EventKind::EventApprovalRequest) {
            self.ring_asked();
        }
    }

    fn delta(&self, session: &SessionUid, delta: &v1::Delta) {
        self.publish(session, || [Live::Delta(Arc::new(delta.clone()))]);
    }

    fn turn_changed(&self, session: &SessionUid) {
        self.publish(session, || [Live::TurnChanged]);
    }
}

/// What a viewer is given.
#[derive(Debug, Clone)]
pub enum Item {
    /// The next record. The event is there when someone has decoded it already.
    Record(Record, Option<Arc<v1::Event>>),
    /// Text of a completion that is not finished.
    Delta(Arc<v1::Delta>),
    /// A turn began or ended, or may have while this viewer was behind; or the session is gone.
    TurnChanged,
}

/// Where a viewer reads next.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the journal.
    Behind,
    /// In the ring, at this position. Every record before it has been given.
    Live { at: u64 },
}

/// One viewer of one session. Dropping it is leaving.
pub struct Follow {
    hub: Arc<Hub>,
    journal: Arc<dyn Journal>,
    uid: SessionUid,
    ring: Arc<Shared>,
    /// The first record that is not in `ready` yet and was not given.
    wanted: i64,
    place: Place,
    /// Whether the way back to live leads past things that are in no journal.
    missed_some: bool,
    /// Read, not given yet.
    ready: VecDeque<Item>,
}

impl Follow {
    /// The next thing, waiting for it if need be. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The journal's, when it had to be read.
    pub async fn next(&mut self) -> Result<Item, Fault> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(item);
            }
            match self.place {
                Place::Behind => self.catch_up().await?,
                Place::Live { at } => {
                    if !self.take(at) {
                        self.wait_past(at).await;
                    }
                }
            }
        }
    }

    /// The next thing up to record `head`, which is durable: `None` once it has been given.
    pub(crate) async fn next_until(&mut self, head: i64) -> Result<Option<Item>, Fault> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.wanted > head {
                return Ok(None);
            }
            match self.place {
                Place::Live { at } => {
                    if !self.take(at) {
                        self.place = Place::Behind;
                    }
                }
                Place::Behind => {
                    self.catch_up().await?;
                    if matches!(self.place, Place::Live { .. }) {
                        return Ok(self.ready.pop_front());
                    }
                }
            }
        }
    }

    /// Looks into the journal before waiting again: whatever was written past this host shows up.
    pub(crate) fn reread(&mut self) {
        self.place = Place::Behind;
    }

    async fn catch_up(&mut self) -> Result<(), Fault> {
        // The end of the ring is taken before the read. When the read finds nothing, no record
        // came before that end that was not given, and everything after it is in the ring.
        let at = lock(&self.ring).end();
        let page = self.journal.records(&self.uid, self.wanted, i64::MAX, PAGE_RECORDS).await?;
        if let Some(last) = page.last() {
            self.wanted = last.seq + 1;
            self.ready.extend(page.into_iter().map(|record| Item::Record(record, None)));
        } else {
            self.place = Place::Live { at };
            if std::mem::take(&mut self.missed_some) {
                self.ready.push_back(Item::TurnChanged);
            }
        }
        Ok(())
    }

    /// Waits until there may be something at `at`.
    async fn wait_past(&self, at: u64) {
        let mut rung = pin!(self.ring.bell.notified());
        // Listening begins before the look, so that what comes between the look and the wait is heard.
        rung.as_mut().enable();
        if lock(&self.ring).end() <= at {
            rung.await;
            // Whoever has recorded something is about to act on it: that goes before anybody's look at it. Text of a model
            // is for its viewers alone.
            if matches!(lock(&self.ring).items.back(), Some(Live::Record(_))) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes what is in the ring from `at` on; false when there is nothing and the viewer must wait.
    fn take(&mut self, at: u64) -> bool {
        let ring = lock(&self.ring);
        let Some(skip) = at.checked_sub(ring.first) else {
            drop(ring);
            self.fall_behind();
            return true;
        };
        let skip = usize::try_from(skip).expect("a position in the ring is in memory");
        let mut taken = 0;
        for item in ring.items.iter().skip(skip).take(TAKE_ITEMS) {
            taken += 1;
            match item {
                Live::Record(seen) if seen.record.seq < self.wanted => {}
                Live::Record(seen) if seen.record.seq > self.wanted => {
                    drop(ring);
                    self.fall_behind();
                    return true;
                }
                Live::Record(seen) => {
                    self.wanted += 1;
                    self.ready.push_back(Item::Record(seen.record.clone(), Some(Arc::clone(&seen.event))));
                }
                Live::Delta(delta) => self.ready.push_back(Item::Delta(Arc::clone(delta))),
                Live::TurnChanged => self.ready.push_back(Item::TurnChanged),
            }
        }
        self.place = Place::Live { at: at + taken };
        taken > 0
    }

    /// Back to the journal. What was missed may hold the beginning or the end of a turn.
    fn fall_behind(&mut self) {
        self.place = Place::Behind;
        self.missed_some = true;
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.hub.leave(&self.uid);
    }
}
