//! When the dust has settled: no faults, one fresh host, and everything that was accepted comes to its end.

use futures_util::FutureExt as _;
use inspan_engine::{Error, ReplayRule};
use inspan_journal::Error as Store;
use inspan_wire::SessionUid;
use inspan_wire::v1::{self, event::Body};

use crate::client::{self, Asked, Done, Outcome};
use crate::oracle::short;
use crate::run::{Over, Sim};
use crate::tools::rule_of;
use crate::world::{Kind, Op, lock};
use crate::{Promise, Violation};

/// Resumes that a turn may need: each flaky move fails some of them.
const RESUMES_MAX: usize = 60;

/// Moves that the world gets to come to rest by itself.
const MOVES_MAX: usize = 20_000;

impl Sim {
    /// Ends all faults and checks that nothing that was accepted has vanished.
    pub(crate) fn settle(&mut self) -> Result<(), Over> {
        self.world.note("the faults are over".to_owned());
        self.world.calm_down();
        for host in &mut self.hosts {
            host.stopped = 0;
        }
        for _ in 0..MOVES_MAX {
            if !self.move_one()? {
                break;
            }
        }
        // What still hangs in a provider is lost with its host, as every operation is in the end.
        for at in 0..self.hosts.len() {
            self.restart(at, "is replaced");
        }
        self.check()?;
        let live = lock(&self.world.oracle).live();
        for uid in &live {
            self.bring_home(uid)?;
        }
        self.check_list(live)?;
        self.audit_all(true);
        self.check()
    }

    fn alone(&mut self, kind: Kind, uid: &SessionUid) -> Result<Outcome, Over> {
        let engine = self.hosts[0].engine.clone();
        let session = Some(uid.clone()).filter(|_| kind != Kind::List);
        self.run_alone(|id| Asked {
            op: Op::new(id, 0, kind, session),
            work: client::simple(engine, kind, uid.clone()),
        })
    }

    /// Resumes an interrupted turn to its end, runs the whole session again, and takes one more turn.
    fn bring_home(&mut self, uid: &SessionUid) -> Result<(), Over> {
        self.finish(uid)?;
        self.must(Kind::Rerun, uid)?;
        let engine = self.hosts[0].engine.clone();
        let outcome = self.run_alone(|id| Asked {
            op: Op::new(id, 0, Kind::Exec, Some(uid.clone())),
            work: client::turn(engine, uid, "past;model goodbye;tool keyed"),
        })?;
        self.succeeded(uid, "a last turn", &outcome)?;
        if let Ok(Done::Session(view)) = &outcome {
            self.is_at_rest(uid, view)?;
        }
        self.must(Kind::Rerun, uid)?;
        self.effects(uid)?;
        self.payloads(uid)
    }

    /// What callers are told agrees with the journal (R-LIFE-5).
    fn is_at_rest(&self, uid: &SessionUid, view: &v1::Session) -> Result<(), Over> {
        let head = lock(&self.world.oracle).mirror(uid).map_or(0, |m| m.head());
        let told = (view.last_seq, view.exec_state(), view.compute_state());
        if told != (head, v1::ExecState::ExecCompleted, v1::ComputeState::ComputeLive) {
            let what = format!("{}: a complete turn ends at {head}, callers are told {told:?}", short(uid));
            self.world.broke(Promise::NothingVanishes, what);
        }
        self.check()
    }

    fn finish(&mut self, uid: &SessionUid) -> Result<(), Over> {
        for _ in 0..RESUMES_MAX {
            match self.alone(Kind::Resume, uid)? {
                Ok(_) if self.approves(uid)? => {}
                Ok(_) => {
                    let pending = lock(&self.world.oracle).mirror(uid).and_then(|m| m.pending().map(str::to_owned));
                    if let Some(id) = pending {
                        self.world.broke(Promise::NothingVanishes, format!("{}: turn {id} is left", short(uid)));
                    }
                    return self.check();
                }
                // A fork may cut a turn where it cannot be taken up; it says so, and a new turn can begin.
                Err(Error::IncompleteInvocation { .. } | Error::InheritedToolIntent) => return Ok(()),
                Err(Error::HarnessFailed(_)) => {}
                Err(error) => return self.succeeded(uid, "a resume", &Err(error)),
            }
        }
        self.world.broke(Promise::NothingVanishes, format!("{}: {RESUMES_MAX} resumes did not end it", short(uid)));
        self.check()
    }

    /// Decides on what the session waits for. `false` when it waits for nobody.
    fn approves(&mut self, uid: &SessionUid) -> Result<bool, Over> {
        let Some(asked) = lock(&self.world.oracle).mirror(uid).and_then(|m| m.awaited()) else { return Ok(false) };
        let engine = self.hosts[0].engine.clone();
        let world = self.world.clone();
        let request = v1::ApproveRequest {
            session: uid.to_string(),
            execution_id: asked.execution_id,
            tool_call_id: asked.tool_call_id,
            request_seq: asked.request_seq,
            approved: Some(world.rng().chance(700)),
            ..Default::default()
        };
        let outcome = self.run_alone(|id| {
            let mut op = Op::new(id, 0, Kind::Approve, Some(uid.clone()));
            let work = client::decide(&world, engine, &mut op, request);
            Asked { op, work }
        })?;
        self.succeeded(uid, "a decision", &outcome)?;
        Ok(true)
    }

    /// Every call whose result is on record was run, and a keyed one had one effect (promise 4).
    fn effects(&self, uid: &SessionUid) -> Result<(), Over> {
        let oracle = lock(&self.world.oracle);
        let ledger = lock(&self.world.ledger);
        let Some(mirror) = oracle.mirror(uid) else { return Ok(()) };
        let own = (1..).zip(&mirror.events).filter(|(seq, _)| *seq >= mirror.own_from);
        for (seq, event) in own {
            let Some(Body::Tool(call)) = &event.body else { continue };
            let answered = mirror.events.iter().any(|e| {
                let result = |r: &v1::ToolResult| r.id == call.id && ledger.gave(call, r);
                e.execution_id == event.execution_id && matches!(&e.body, Some(Body::Result(r)) if result(r))
            });
            let (times, rule) = (ledger.times(uid, call), rule_of(&call.tool));
            if rule == ReplayRule::Keyed && times > 1 || answered && times == 0 {
                let what = format!("{}: TOOL_CALL {seq} to {} had {times} effects", short(uid), call.tool);
                self.world.broke(Promise::AtMostOnce, what);
            }
        }
        drop((oracle, ledger));
        self.check()
    }

    fn must(&mut self, kind: Kind, uid: &SessionUid) -> Result<(), Over> {
        let outcome = self.alone(kind, uid)?;
        self.succeeded(uid, &format!("a {kind:?}"), &outcome)
    }

    fn succeeded(&self, uid: &SessionUid, what: &str, outcome: &Outcome) -> Result<(), Over> {
        if let Err(error) = outcome {
            let what = format!("{}: with all faults over, {what} failed: {error}", short(uid));
            self.world.broke(Promise::NothingVanishes, what);
        }
        self.check()
    }

    /// Every live session is listed, and no other.
    fn check_list(&mut self, mut live: Vec<SessionUid>) -> Result<(), Over> {
        if let Ok(Done::Listed(mut listed)) = self.alone(Kind::List, &"".into())? {
            listed.sort();
            live.sort();
            if listed != live {
                self.world.broke(Promise::RecordBeforeEffect, format!("{listed:?} are listed, {live:?} are there"));
            }
        }
        self.check()
    }

    /// The text of every request is kept, with the digest that its record carries.
    fn payloads(&self, uid: &SessionUid) -> Result<(), Over> {
        let oracle = lock(&self.world.oracle);
        let events = oracle.mirror(uid).map(|m| &m.events[..]).unwrap_or_default();
        for event in events {
            let Some(Body::Model(call)) = &event.body else { continue };
            let kept: Result<_, Store> = match call.input_hash.parse() {
                Ok(digest) => self.journal.request(digest).now_or_never().expect("the store in memory never waits"),
                Err(_) => Ok(None),
            };
            if !matches!(kept, Ok(Some(_))) {
                let what = format!("{}: the text of request {} is gone", short(uid), call.input_hash);
                self.world.judge(Err(Violation::of(Promise::CheckedByStrangers, what)));
            }
        }
        drop(oracle);
        self.check()
    }
}
