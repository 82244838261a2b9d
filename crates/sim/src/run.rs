//! One run: the world, step by step, until its promises are broken or its steps are over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt as _;
use inspan_journal::{Journal, blob, memory};
use inspan_wire::SessionUid;

use crate::client::{self, Asked, Outcome};
use crate::host::Host;
use crate::oracle::{Stored, short};
use crate::plant::Planted;
use crate::tasks::{TaskId, Tasks};
use crate::trace::Echo;
use crate::weather::Weather;
use crate::world::{Kind, Op, World, lock};
use crate::{Failure, Plant, Promise, Rng, judge, store};

/// What to run.
#[derive(Debug, Clone)]
pub struct Config {
    /// Everything else comes from it.
    pub seed: u64,
    /// Steps before the dust settles.
    pub steps: u64,
    /// A bug on purpose.
    pub plant: Option<Plant>,
}

impl Config {
    /// Steps that a run takes when nobody says otherwise: some hundred operations.
    pub const STEPS: u64 = 6000;

    /// The run of `seed`.
    pub fn new(seed: u64) -> Config {
        Config { seed, steps: Config::STEPS, plant: None }
    }
}

/// A run that kept its promises.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Operations that ended.
    pub operations: u64,
    /// Records that were committed.
    pub records: u64,
    /// Provider calls.
    pub calls: u64,
    /// Effects of tools.
    pub effects: u64,
    /// Decisions that were recorded.
    pub decisions: u64,
    /// Hosts that died or restarted.
    pub restarts: u64,
    /// Appends that were refused to a writer that was overtaken, and operations that ended so.
    pub overtaken: u64,
    /// Harnesses that departed from their recording, and were stopped.
    pub deviations: u64,
    /// A hash over the whole trace: the same for the same seed.
    pub trace: u64,
}

/// Runs one seed.
///
/// # Errors
/// The first promise that was broken.
pub fn run(config: &Config) -> Result<Summary, Box<Failure>> {
    run_with(config, None)
}

/// Runs one seed and gives `echo` every line of its trace.
///
/// # Errors
/// The first promise that was broken.
pub fn run_with(config: &Config, echo: Option<Echo>) -> Result<Summary, Box<Failure>> {
    let mut sim = Sim::new(config, echo);
    let _ = sim.go(config.steps);
    match sim.world.broken() {
        Some(violation) => {
            let tail = sim.world.trace().tail();
            Err(Box::new(Failure { seed: config.seed, step: sim.step, violation, tail }))
        }
        None => Ok(sim.summary()),
    }
}

/// A promise is broken: the run is over. What is broken is noted in the world.
#[derive(Debug)]
pub(crate) struct Over;

/// A run.
pub(crate) struct Sim {
    pub(crate) world: Arc<World>,
    /// The one store, with its bug if there is one.
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) hosts: Vec<Host>,
    planted: Option<Arc<Planted>>,
    calls: Arc<AtomicU64>,
    tasks: Tasks<Outcome>,
    next: TaskId,
    step: u64,
    seen: Summary,
}

impl Sim {
    fn new(config: &Config, echo: Option<Echo>) -> Sim {
        let mut rng = Rng::new(config.seed);
        let mut weather = Weather::draw(&mut rng);
        if config.plant.is_some() {
            weather.bring_out();
        }
        let world = World::new(rng, weather, config.plant, echo);
        let memory = memory::Store::new(Arc::new(blob::Memory::new()), world.clone());
        let memory: Arc<dyn Journal> = Arc::new(memory);
        let planted = config.plant.map(|plant| Arc::new(Planted::new(memory.clone(), plant)));
        let journal = planted.clone().map_or(memory, |planted| planted);
        let calls = Arc::default();
        let hosts = (0..world.weather.hosts).map(|_| Host::start(&world, &journal, &calls)).collect();
        world.note(format!("{:?}", world.weather));
        let seen = Summary::default();
        Sim { world, journal, hosts, planted, calls, tasks: Tasks::new(), next: 1, step: 0, seen }
    }

    fn go(&mut self, steps: u64) -> Result<(), Over> {
        for _ in 0..steps {
            self.weather();
            self.live()?;
        }
        self.settle()
    }

    fn summary(&self) -> Summary {
        let records = lock(&self.world.oracle).commits;
        let calls = self.calls.load(Ordering::SeqCst);
        let effects = lock(&self.world.ledger).effects();
        Summary { records, calls, effects, trace: self.world.trace().hash(), ..self.seen.clone() }
    }

    /// Ends the run when a promise is broken.
    pub(crate) fn check(&self) -> Result<(), Over> {
        if self.world.broken().is_some() { Err(Over) } else { Ok(()) }
    }

    /// Hosts stop, move on, die and restart.
    fn weather(&mut self) {
        let world = self.world.clone();
        for at in 0..self.hosts.len() {
            let host = &mut self.hosts[at];
            host.stopped = host.stopped.saturating_sub(1);
            if host.stopped == 0 && world.chance(world.weather.stop) {
                host.stopped = 1 + world.rng().below(60);
                world.note(format!("host {at} stops moving"));
            }
            let restarts = host.restarts_in.as_mut().is_some_and(|left| {
                *left = left.saturating_sub(1);
                *left == 0
            });
            let crashes = world.chance(world.weather.crash) && world.rng().below(10) == 0;
            if restarts || crashes {
                self.restart(at, if restarts { "restarts" } else { "dies" });
            } else if world.chance(world.weather.drain) && world.rng().below(10) == 0 {
                let engine = self.hosts[at].engine.clone();
                self.launch(|id| Asked {
                    op: Op::new(id, at, Kind::Drain, None),
                    work: client::simple(engine, Kind::Drain, "".into()),
                });
            }
        }
    }

    /// A host's process ends, and a new one takes its place.
    pub(crate) fn restart(&mut self, at: usize, how: &str) {
        let lost = self.tasks.on(at);
        self.world.note(format!("host {at} {how} with operations {lost:?}"));
        for id in lost {
            self.tasks.kill(id);
            self.world.end(id);
        }
        if let Some(planted) = &self.planted {
            planted.crash();
        }
        lock(&self.world.drained).remove(&at);
        self.hosts[at] = Host::start(&self.world, &self.journal, &self.calls);
        self.seen.restarts += 1;
        self.audit_all(false);
    }

    /// One step: something is asked, or something moves, or time does.
    fn live(&mut self) -> Result<(), Over> {
        let room = self.tasks.len() < self.world.weather.operations_max;
        if room && self.world.chance(self.world.weather.launch) {
            self.ask();
        }
        if !self.move_one()? && room {
            self.ask();
        } else if self.tasks.len() > 0 && !self.can_move() {
            // Everything hangs: only a crash brings this world on.
            let at = self.world.rng().index(self.hosts.len());
            self.restart(at, "hangs and dies");
        }
        self.check()
    }

    fn can_move(&self) -> bool {
        self.hosts.iter().any(|h| !h.moves()) || !self.tasks.ready(|_| true).is_empty() || self.world.has_sleepers()
    }

    /// Moves one task, or time. `false` when nothing could move.
    pub(crate) fn move_one(&mut self) -> Result<bool, Over> {
        self.step += 1;
        let ns = self.world.rng().below(2_000_000);
        self.world.advance(i64::try_from(ns).expect("two milliseconds fit"));
        let hosts = &self.hosts;
        let ready = self.tasks.ready(|host| hosts[host].moves());
        if ready.is_empty() {
            return Ok(self.world.jump());
        }
        let id = *self.world.rng().pick(&ready);
        self.poll(id)?;
        Ok(true)
    }

    /// Moves one task to its next scheduling point; gives what it ended with.
    fn poll(&mut self, id: TaskId) -> Result<Option<Outcome>, Over> {
        self.world.set_current(Some(id));
        let moved = catch_unwind(AssertUnwindSafe(|| self.tasks.poll(id)));
        self.world.set_current(None);
        let ended = moved.unwrap_or_else(|_| {
            self.world.broke(Promise::NoPanic, format!("operation {id} panicked"));
            None
        });
        if let Some(outcome) = &ended {
            self.ended(id, outcome);
        }
        self.check()?;
        Ok(ended)
    }

    /// A client asks for something, on a host that moves.
    fn ask(&mut self) {
        let moving: Vec<usize> = (0..self.hosts.len()).filter(|at| self.hosts[*at].moves()).collect();
        if moving.is_empty() {
            return;
        }
        let host = *self.world.rng().pick(&moving);
        let (world, engine) = (self.world.clone(), self.hosts[host].engine.clone());
        self.launch(|id| client::draw(&world, &engine, id, host));
    }

    /// Begins an operation.
    pub(crate) fn launch(&mut self, asked: impl FnOnce(TaskId) -> Asked) -> TaskId {
        let id = self.next;
        self.next += 1;
        let Asked { op, work } = asked(id);
        let session = op.session.as_ref().map_or("", short);
        self.world.note(format!("op {id} host {} {session}: {:?} begins", op.host, op.kind));
        self.tasks.spawn(id, op.host, work);
        self.world.begin(op);
        id
    }

    /// Runs one operation to its end, with nothing beside it.
    pub(crate) fn run_alone(&mut self, asked: impl FnOnce(TaskId) -> Asked) -> Result<Outcome, Over> {
        let id = self.launch(asked);
        loop {
            self.step += 1;
            if let Some(outcome) = self.poll(id)? {
                return Ok(outcome);
            }
            let stuck = self.tasks.ready(|_| true).is_empty() && !self.world.jump();
            if stuck {
                self.world.broke(Promise::NothingVanishes, format!("operation {id} waits for nothing"));
            }
        }
    }

    /// An operation has ended: judges it, and its session.
    fn ended(&mut self, id: TaskId, outcome: &Outcome) {
        let Some(op) = self.world.end(id) else { return };
        let session = op.session.as_ref().map_or("", short);
        let told = match outcome {
            Ok(_) => "is done".to_owned(),
            Err(e) => format!("failed with {:?}: {e}", e.code()),
        };
        self.world.note(format!("op {id} host {} {session}: {:?} {told}", op.host, op.kind));
        self.seen.operations += 1;
        self.seen.deviations += u64::from(op.deviated);
        self.seen.decisions += u64::from(op.kind == Kind::Approve && outcome.is_ok() && !op.appended.is_empty());
        {
            let oracle = lock(&self.world.oracle);
            self.seen.overtaken += u64::from(outcome.is_err() && oracle.is_overtaken(&op));
            self.world.judge(judge::outcome(&oracle, &op, outcome));
        }
        if op.kind == Kind::Drain {
            self.drained(op.host);
        }
        if let Some(uid) = &op.session {
            self.audit(uid, false);
        }
    }

    /// Nothing runs on a drained host any more; it restarts in a while.
    fn drained(&mut self, at: usize) {
        lock(&self.world.drained).insert(at);
        self.hosts[at].restarts_in = Some(1 + self.world.rng().below(20));
    }

    /// Compares what is stored of a session with what was committed.
    fn audit(&self, uid: &SessionUid, anew: bool) {
        let stored = self.stored(uid);
        self.world.judge(lock(&self.world.oracle).audit(uid, &stored, anew));
    }

    /// Compares everything; `anew` also chains and folds everything from its first record on.
    pub(crate) fn audit_all(&self, anew: bool) {
        let uids: Vec<SessionUid> = lock(&self.world.oracle).all().map(|(uid, _)| uid.clone()).collect();
        uids.iter().for_each(|uid| self.audit(uid, anew));
    }

    /// What is stored now; the store itself never waits.
    fn stored(&self, uid: &SessionUid) -> Stored {
        store::stored(&*self.journal, uid, 1).now_or_never().expect("the store in memory never waits")
    }
}
