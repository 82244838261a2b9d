//! One host: an engine over the one store, with its own guards, its own caches and its own watcher.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use inspan_engine::observe::{Observer, Seen};
use inspan_engine::{Agent, Catalog, Engine, Limits, Unserved};
use inspan_journal::Journal;
use inspan_wire::{SessionUid, parse, v1};
use v1::event::Body;

use crate::Promise;
use crate::agent::Player;
use crate::oracle::short;
use crate::provider::Provider;
use crate::store::SimStore;
use crate::tools::{ByName, ToolServer};
use crate::world::{SimRim, World, lock};

/// Harnesses that every host serves: one with a streaming provider, one with a plain one.
pub(crate) const HARNESSES: [&str; 2] = ["plain", "streaming"];

/// A host. A restart gives a new one in its place.
pub(crate) struct Host {
    /// The process.
    pub(crate) engine: Engine,
    /// Steps that it does not move for.
    pub(crate) stopped: u64,
    /// Steps until it restarts, once it was drained.
    pub(crate) restarts_in: Option<u64>,
}

impl Host {
    /// A fresh process over `journal`.
    pub(crate) fn start(world: &Arc<World>, journal: &Arc<dyn Journal>, calls: &Arc<AtomicU64>) -> Host {
        let store = Arc::new(SimStore::new(world.clone(), journal.clone()));
        let agents = HARNESSES.iter().map(|name| {
            let streams = *name == "streaming";
            let provider = Arc::new(Provider { world: world.clone(), streams, calls: calls.clone() });
            let tools = Arc::new(ToolServer(world.clone()));
            let harness = Arc::new(Player { world: world.clone(), provider: provider.clone(), tools: tools.clone() });
            let agent = Agent {
                name: (*name).to_owned(),
                harness,
                model: provider,
                executor: Some(tools),
                memory_snapshot: false,
                registered: None,
            };
            (*name, Arc::new(agent))
        });
        let catalog = Arc::new(Names(agents.collect()));
        let watcher = Arc::new(Watcher { world: world.clone(), seen: Mutex::default() });
        // Little enough that some runs read their past from the store again.
        let limits = Limits { warm_bytes_max: 1 << world.rng().below(20), ..Limits::default() };
        let engine = Engine::new(store, Arc::new(SimRim(world.clone())), catalog, watcher, limits);
        let engine = engine.with_policy(Arc::new(ByName));
        Host { engine, stopped: 0, restarts_in: None }
    }

    /// Whether its tasks move.
    pub(crate) fn moves(&self) -> bool {
        self.stopped == 0
    }
}

struct Names(BTreeMap<&'static str, Arc<Agent>>);

impl Catalog for Names {
    fn agent(&self, name: &str) -> Result<Arc<Agent>, Unserved> {
        self.0.get(name).cloned().ok_or(Unserved::Unknown)
    }

    fn default_name(&self) -> &str {
        HARNESSES[0]
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().map(|name| (*name).to_owned()).collect()
    }
}

/// Whoever watches this host: is shown nothing that is not committed, and nothing out of order.
struct Watcher {
    world: Arc<World>,
    seen: Mutex<BTreeMap<SessionUid, i64>>,
}

impl Observer for Watcher {
    fn committed(&self, session: &SessionUid, records: &[Seen]) {
        let oracle = lock(&self.world.oracle);
        let mut last = lock(&self.seen);
        let last = last.entry(session.clone()).or_default();
        for Seen { record, event } in records {
            let at = usize::try_from(record.seq - 1).unwrap_or(usize::MAX);
            if oracle.mirror(session).and_then(|m| m.records.get(at)) != Some(record) {
                let what = format!("{} at {}: shown and not in the journal", short(session), record.seq);
                self.world.broke(Promise::RecordBeforeEffect, what);
            }
            if parse::event(&record.event).ok().as_ref() != Some(&**event) {
                let what = format!("{} at {}: shown is not what is stored", short(session), record.seq);
                self.world.broke(Promise::CheckedByStrangers, what);
            }
            if record.seq <= *last {
                let what = format!("{} at {}: shown behind {last}", short(session), record.seq);
                self.world.broke(Promise::OneWriter, what);
            }
            *last = record.seq;
            self.world.with_op(|op| op.shown.push(record.seq));
        }
    }

    fn delta(&self, session: &SessionUid, delta: &v1::Delta) {
        let oracle = lock(&self.world.oracle);
        let effects = oracle.mirror(session).map(|m| m.effects(&delta.execution_id)).unwrap_or_default();
        let of_a_call = effects.iter().any(|(_, e)| matches!(e.body, Some(Body::Model(_))));
        if !of_a_call || delta.chunk.is_empty() != delta.done {
            self.world.broke(Promise::RecordBeforeEffect, format!("{}: a delta of no call", short(session)));
        }
    }

    fn turn_changed(&self, _: &SessionUid) {}
}
