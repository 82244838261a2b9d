//! What all parts of a run share: time, randomness, the trace, the operations, and the judge.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use inspan_engine::Rim;
use inspan_journal::Clock;
use inspan_wire::{SessionUid, v1};

use crate::oracle::Oracle;
use crate::plant::Plant;
use crate::tasks::TaskId;
use crate::tools::Ledger;
use crate::trace::{Echo, Trace};
use crate::weather::Weather;
use crate::{Promise, Rng, Violation};

/// Takes a lock that a panic elsewhere may have poisoned: the run is over then, and its report needs it.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    Exec,
    Resume,
    Suspend,
    Fork,
    Cancel,
    Approve,
    Delete,
    List,
    Rerun,
    Drain,
}

impl Kind {
    /// Whether it drives a turn.
    pub(crate) fn drives(self) -> bool {
        matches!(self, Kind::Exec | Kind::Resume)
    }
}

/// An operation of a client, and what was seen of it so far.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    /// Its task.
    pub(crate) id: TaskId,
    /// Where it runs.
    pub(crate) host: usize,
    /// What it is.
    pub(crate) kind: Kind,
    /// The session, once it is known.
    pub(crate) session: Option<SessionUid>,
    /// Whether its harness is to ask for something else than what is recorded.
    pub(crate) twisted: bool,
    /// Whether the harness has done so.
    pub(crate) deviated: bool,
    /// The head that the client demanded.
    pub(crate) expected_last_seq: Option<i64>,
    /// Children that a fork was asked for.
    pub(crate) children_wanted: usize,
    /// Completed executions when it began.
    pub(crate) completed_before: i64,
    /// Records that it committed.
    pub(crate) appended: Vec<i64>,
    /// Records that its host's watcher was shown.
    pub(crate) shown: Vec<i64>,
    /// The fence that it writes under.
    pub(crate) fence: Option<i64>,
    /// Children that it made.
    pub(crate) children: Vec<SessionUid>,
    /// The turn that its harness runs.
    pub(crate) execution_id: String,
    /// Faults that were injected into it.
    pub(crate) faults: u32,
    /// Whether it is a turn without inputs of its own: it goes on with one that waits, if there is one.
    pub(crate) bare: bool,
    /// The decision that it asks for.
    pub(crate) decision: Option<v1::ApproveRequest>,
    /// Calls that it has asked the provider or run the tool for.
    pub(crate) driven: BTreeSet<(SessionUid, i64)>,
}

impl Op {
    /// An operation that has just begun.
    pub(crate) fn new(id: TaskId, host: usize, kind: Kind, session: Option<SessionUid>) -> Op {
        Op {
            id,
            host,
            kind,
            session,
            twisted: false,
            deviated: false,
            expected_last_seq: None,
            children_wanted: 0,
            completed_before: 0,
            appended: Vec::new(),
            shown: Vec::new(),
            fence: None,
            children: Vec::new(),
            execution_id: String::new(),
            faults: 0,
            bare: false,
            decision: None,
            driven: BTreeSet::new(),
        }
    }
}

/// The shared part of a run.
pub(crate) struct World {
    /// How bad things are.
    pub(crate) weather: Weather,
    /// The bug that this run has on purpose.
    pub(crate) plant: Option<Plant>,
    /// What is right.
    pub(crate) oracle: Mutex<Oracle>,
    /// Texts that the provider gave, each with the input hash that it answered.
    pub(crate) answers: Mutex<BTreeMap<String, String>>,
    /// What the tools have done.
    pub(crate) ledger: Mutex<Ledger>,
    /// How often each flaky move has failed.
    pub(crate) flaked: Mutex<BTreeMap<(String, usize), u32>>,
    /// Hosts on which nothing may run any more.
    pub(crate) drained: Mutex<BTreeSet<usize>>,
    rng: Mutex<Rng>,
    clock: Mutex<Hand>,
    trace: Mutex<Trace>,
    ops: Mutex<BTreeMap<TaskId, Op>>,
    current: Mutex<Option<TaskId>>,
    broken: Mutex<Option<Violation>>,
    calm: AtomicBool,
}

struct Hand {
    now_ns: i64,
    next: u64,
    sleepers: BTreeMap<(i64, u64), Waker>,
}

impl World {
    /// A world at its start.
    pub(crate) fn new(rng: Rng, weather: Weather, plant: Option<Plant>, echo: Option<Echo>) -> Arc<World> {
        Arc::new(World {
            weather,
            plant,
            oracle: Mutex::default(),
            answers: Mutex::default(),
            ledger: Mutex::default(),
            flaked: Mutex::default(),
            drained: Mutex::default(),
            rng: Mutex::new(rng),
            clock: Mutex::new(Hand { now_ns: 1_700_000_000_000_000_000, next: 0, sleepers: BTreeMap::new() }),
            trace: Mutex::new(Trace::new(echo)),
            ops: Mutex::default(),
            current: Mutex::default(),
            broken: Mutex::default(),
            calm: AtomicBool::new(false),
        })
    }

    /// The randomness of the run.
    pub(crate) fn rng(&self) -> MutexGuard<'_, Rng> {
        lock(&self.rng)
    }

    /// Adds a line to the trace.
    pub(crate) fn note(&self, line: String) {
        lock(&self.trace).add(line);
    }

    /// The trace.
    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        lock(&self.trace)
    }

    /// No faults from now on.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    /// Whether the faults are over.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// Takes note of what a check found; the first finding counts.
    pub(crate) fn judge(&self, verdict: Result<(), Violation>) {
        if let Err(violation) = verdict {
            lock(&self.broken).get_or_insert(violation);
        }
    }

    /// Takes note of a broken promise.
    pub(crate) fn broke(&self, promise: Promise, what: impl Into<String>) {
        self.judge(Err(Violation::of(promise, what)));
    }

    /// What is broken, if anything is.
    pub(crate) fn broken(&self) -> Option<Violation> {
        lock(&self.broken).clone()
    }

    /// Registers an operation.
    pub(crate) fn begin(&self, op: Op) {
        lock(&self.ops).insert(op.id, op);
    }

    /// Forgets an operation.
    pub(crate) fn end(&self, id: TaskId) -> Option<Op> {
        lock(&self.ops).remove(&id)
    }

    /// The task that moves now.
    pub(crate) fn set_current(&self, id: Option<TaskId>) {
        *lock(&self.current) = id;
    }

    /// Looks at the operation that moves now, and may note something in it. `None` when what moves is not a
    /// client's.
    pub(crate) fn with_op<R>(&self, f: impl FnOnce(&mut Op) -> R) -> Option<R> {
        let id = (*lock(&self.current))?;
        lock(&self.ops).get_mut(&id).map(f)
    }

    /// The operation that moves now.
    pub(crate) fn op(&self) -> Option<Op> {
        self.with_op(|op| op.clone())
    }

    /// Whether a fault happens here; it is noted in the operation that moves.
    pub(crate) fn fault(&self, per_mille: u64) -> bool {
        let happens = !self.is_calm() && self.rng().chance(per_mille);
        if happens {
            self.with_op(|op| op.faults += 1);
        }
        happens
    }

    /// Whether something happens that is unusual and no fault.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        !self.is_calm() && self.rng().chance(per_mille)
    }

    /// Waits a random number of scheduling points.
    pub(crate) async fn pause(&self) {
        let mut left = self.rng().below(self.weather.pauses_max + 1);
        poll_fn(move |cx| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Waits at most `ns_max` of virtual time.
    pub(crate) async fn delay(self: &Arc<Self>, ns_max: u64) {
        let ns = i64::try_from(self.rng().below(ns_max + 1)).expect("delays are short");
        let until = Clock::now_ns(&**self) + ns;
        Sleep { world: self.clone(), until, key: None }.await;
    }

    /// Moves time on.
    pub(crate) fn advance(&self, ns: i64) {
        let now = lock(&self.clock).now_ns + ns;
        self.move_to(now);
    }

    /// Moves time to the next sleeper. `false` when nobody sleeps.
    pub(crate) fn jump(&self) -> bool {
        let next = lock(&self.clock).sleepers.keys().next().map(|(until, _)| *until);
        if let Some(until) = next {
            self.move_to(until);
        }
        next.is_some()
    }

    /// Whether time would wake somebody.
    pub(crate) fn has_sleepers(&self) -> bool {
        !lock(&self.clock).sleepers.is_empty()
    }

    fn move_to(&self, now_ns: i64) {
        let due = {
            let mut hand = lock(&self.clock);
            hand.now_ns = hand.now_ns.max(now_ns);
            let first_later = (hand.now_ns + 1, 0);
            let later = hand.sleepers.split_off(&first_later);
            std::mem::replace(&mut hand.sleepers, later)
        };
        due.into_values().for_each(Waker::wake);
    }
}

impl Clock for World {
    fn now_ns(&self) -> i64 {
        lock(&self.clock).now_ns
    }
}

/// The engine's outside: one for each host.
pub(crate) struct SimRim(pub(crate) Arc<World>);

#[async_trait]
impl Rim for SimRim {
    fn now_ns(&self) -> i64 {
        Clock::now_ns(&*self.0)
    }

    async fn sleep_until(&self, deadline_ns: i64) {
        Sleep { world: self.0.clone(), until: deadline_ns, key: None }.await;
    }

    fn fill(&self, bytes: &mut [u8]) {
        self.0.rng().fill(bytes);
    }
}

struct Sleep {
    world: Arc<World>,
    until: i64,
    key: Option<(i64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let world = self.world.clone();
        let mut hand = lock(&world.clock);
        if hand.now_ns >= self.until {
            return Poll::Ready(());
        }
        let key = self.key.unwrap_or_else(|| {
            hand.next += 1;
            (self.until, hand.next)
        });
        self.key = Some(key);
        hand.sleepers.insert(key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            lock(&self.world.clock).sleepers.remove(&key);
        }
    }
}
