//! The crash matrix: every write of a turn is cut, before and after its commit; then the session is
//! resumed, and the journal must be the one of the uncut run.
//!
//! Rows: one and several calls, streamed and not, failing, retried, with outputs and usage, forked,
//! resumed twice, cancelled while it runs and after it failed. An effect that is added to the engine adds its rows to [`ROWS`].

#[path = "support/cut.rs"]
mod cut;
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use cut::{Cut, Side};
use inspan_engine::{Code, Error, ForkArgs, ReplayRule};
use inspan_testkit::harness::Moves;
use inspan_wire::{SessionUid, v1};
use support::{Answer, Fake, Tool, World, request, uid};

/// What happens to a session, one operation after another.
#[derive(Debug, Clone, Copy)]
enum Op {
    Exec(&'static str),
    Resume,
    Suspend,
    Fork(i64),
    /// Decides on what the session waits for.
    Decide(bool),
    /// A turn that is cancelled in its first model call that has no outcome yet.
    Canceled(&'static str),
    /// Ends a turn that failed before.
    Cancel,
}

impl Op {
    fn starts_a_turn(self) -> bool {
        matches!(self, Op::Exec(_) | Op::Canceled(_))
    }

    fn cancels(self) -> bool {
        matches!(self, Op::Canceled(_) | Op::Cancel)
    }
}

struct Row {
    name: &'static str,
    streams: bool,
    /// Failures of the model's first calls.
    fails: usize,
    ops: &'static [Op],
}

const ROWS: &[Row] = &[
    Row { name: "one call", streams: false, fails: 0, ops: &[Op::Exec("model a")] },
    Row { name: "one call, streamed", streams: true, fails: 0, ops: &[Op::Exec("model a")] },
    Row { name: "no effect", streams: false, fails: 0, ops: &[Op::Exec("")] },
    Row {
        name: "several calls that build on each other",
        streams: true,
        fails: 0,
        ops: &[Op::Exec("model a; again; again; model b")],
    },
    Row {
        name: "calls, outputs, reports, usage",
        streams: false,
        fails: 0,
        ops: &[Op::Exec("out x; model a; report r; usage 3; out y; again; out z")],
    },
    Row { name: "failing, then resumed", streams: false, fails: 1, ops: &[Op::Exec("model a; out x"), Op::Resume] },
    Row {
        name: "failing twice, resumed twice",
        streams: true,
        fails: 2,
        ops: &[Op::Exec("model a; model b"), Op::Resume, Op::Resume],
    },
    Row { name: "retried inside the turn", streams: false, fails: 1, ops: &[Op::Exec("retry 5 a; out x")] },
    Row {
        name: "second turn on a first",
        streams: true,
        fails: 0,
        ops: &[Op::Exec("model a"), Op::Suspend, Op::Resume, Op::Exec("out z; model b")],
    },
    Row {
        name: "forked at a call",
        streams: false,
        fails: 0,
        ops: &[Op::Exec("model a; model b"), Op::Fork(5), Op::Resume],
    },
    Row { name: "tools", streams: false, fails: 0, ops: &[Op::Exec("tool c k; model a; tool d l; result; tool e m")] },
    Row {
        name: "a call that waits, approved",
        streams: false,
        fails: 0,
        ops: &[Op::Exec("model a; gate c k; result; again"), Op::Decide(true), Op::Resume],
    },
    Row {
        name: "a call that waits, denied",
        streams: true,
        fails: 0,
        ops: &[Op::Exec("gate c k; result; model a"), Op::Decide(false), Op::Resume],
    },
    Row {
        name: "two calls that wait, with a suspend and a tool between them",
        streams: false,
        fails: 0,
        ops: &[
            Op::Exec("gate c k; tool d l; gate e m; result"),
            Op::Decide(true),
            Op::Resume,
            Op::Suspend,
            Op::Decide(true),
            Op::Resume,
        ],
    },
    Row {
        name: "a turn behind one that waited",
        streams: false,
        fails: 0,
        ops: &[Op::Exec("gate c k"), Op::Decide(true), Op::Resume, Op::Exec("model a; tool c k2")],
    },
    Row {
        name: "a key that comes again, in its turn and in the next one",
        streams: false,
        fails: 0,
        ops: &[
            Op::Exec("tool c k x; result; tool d k x; tool e k y; result"),
            Op::Exec("tool f k x; result; gate g k x; result"),
            Op::Decide(true),
            Op::Resume,
        ],
    },
    Row {
        name: "a tool whose failure would be handled",
        streams: false,
        fails: 0,
        ops: &[Op::Exec("trytool c k; model a")],
    },
    Row { name: "cancelled in its call", streams: false, fails: 0, ops: &[Op::Canceled("out x; model a")] },
    Row {
        name: "cancelled, then a next turn",
        streams: true,
        fails: 0,
        ops: &[Op::Canceled("model a"), Op::Resume, Op::Exec("model b")],
    },
    Row {
        name: "failed, then cancelled",
        streams: false,
        fails: 0,
        ops: &[Op::Exec("model a; fail boom"), Op::Cancel, Op::Exec("out x; model b")],
    },
    Row {
        name: "cancelled in a fork",
        streams: false,
        fails: 0,
        ops: &[Op::Exec("model a; model b"), Op::Fork(5), Op::Cancel],
    },
];

/// A run up to its crash, or to its end.
struct Run {
    world: World,
    session: SessionUid,
    /// The next operation, when it crashed.
    next: usize,
    calls: BTreeMap<String, usize>,
}

async fn run(row: &Row, at: usize, side: Side) -> (Run, usize) {
    let base = World::with(Arc::new(Moves::default()), row.streams);
    let base = base.restart_tool(Some(Arc::new(Tool::new(ReplayRule::Keyed))));
    base.model.then((0..row.fails).map(|i| Answer::Fail(format!("f{i}"))));
    let mut session = base.create().await;
    let cut = Cut::new(base.journal.clone(), at, side);
    let world = over(&base, cut.clone());
    let mut next = 0;
    for op in row.ops {
        let done = tokio::select! {
            biased;
            () = cut.hit.notified() => None,
            done = perform(&world, &session, *op) => Some(done),
        };
        let Some(done) = done else { break };
        session = done;
        next += 1;
    }
    let mut calls = BTreeMap::new();
    for text in base.model.take_calls() {
        *calls.entry(text).or_insert(0) += 1;
    }
    (Run { world: base, session, next, calls }, cut.writes())
}

fn over(base: &World, journal: Arc<dyn inspan_journal::Journal>) -> World {
    let moves: Arc<dyn inspan_harness::Harness> = Arc::new(Moves::default());
    let harnesses = vec![("moves".to_owned(), moves)];
    World::over_with(journal, base.hand.clone(), harnesses, base.model.clone(), base.tool.clone())
}

/// Performs one operation; a turn that fails stays for the next one.
async fn perform(world: &World, session: &SessionUid, op: Op) -> SessionUid {
    match op {
        Op::Exec(play) => drop(world.exec_request(request(session, play)).await),
        Op::Resume => drop(world.engine.resume(session).await),
        Op::Suspend => drop(world.engine.suspend(session).await.unwrap()),
        Op::Decide(_) if world.waits(session).await.is_none() => {}
        Op::Decide(approved) => drop(world.decide(session, approved).await),
        Op::Fork(at_seq) => {
            let args = ForkArgs { at_seq, ..Default::default() };
            return uid(&world.engine.fork(session, args).await.unwrap()[0]);
        }
        Op::Canceled(play) => {
            let turn = world.engine.accept(request(session, play), "default").await.unwrap();
            cancel_in_call(world, session, turn.run()).await;
        }
        Op::Cancel => drop(world.engine.cancel(session, "", "USER").await),
    }
    session.clone()
}

/// Drives a turn into a model call that never answers, and cancels it there.
async fn cancel_in_call(world: &World, session: &SessionUid, turn: impl Future<Output = Result<v1::Session, Error>>) {
    let before = world.model.count();
    // A cut before the call leaves the answer of the first try behind.
    *world.model.script.lock().unwrap() = [Answer::Hang].into();
    let canceled = async {
        while world.model.count() == before {
            tokio::task::yield_now().await;
        }
        world.engine.cancel(session, "", "USER").await.unwrap();
    };
    let (ended, ()) = tokio::join!(turn, canceled);
    assert_eq!(ended.unwrap_err().code(), Code::Cancelled);
}

/// A host that starts after the crash brings everything to its end.
async fn recover(row: &Row, mut run: Run) -> Run {
    let world = run.world.restart();
    // A turn is done again only if nothing of it was accepted; anything else is resumed.
    while run.next < row.ops.len() {
        let op = row.ops[run.next];
        let before = run.session.clone();
        let wanted = row.ops[..=run.next].iter().filter(|o| o.starts_a_turn()).count();
        let text = world.journal_text(&before).await;
        let have = text.matches("EXECUTION_START").count();
        match op {
            Op::Exec(_) if have >= wanted => drop(world.engine.resume(&before).await),
            Op::Canceled(_) if text.contains("END CANCELED") => {}
            Op::Canceled(_) if have >= wanted => cancel_in_call(&world, &before, world.engine.resume(&before)).await,
            Op::Fork(_) => {
                let query = inspan_journal::ListQuery { project: String::new(), limit: 10, after: None };
                let children = world.journal.list(query).await.unwrap().sessions;
                match children.into_iter().find(|c| c.parent.is_some()) {
                    Some(child) => run.session = child.uid,
                    None => run.session = perform(&world, &before, op).await,
                }
            }
            op => run.session = perform(&world, &before, op).await,
        }
        run.next += 1;
    }
    for _ in 0..row.fails + 1 {
        let _ = world.engine.resume(&run.session).await;
    }
    for text in world.model.take_calls() {
        *run.calls.entry(text).or_insert(0) += 1;
    }
    run
}

/// The journal without what tells how often a host was there: RESUME, SUSPEND and ERROR records, and seqs.
/// A call that the harness repeats at once counts once: its failure is not on record, so a cut there
/// drives the first call again instead of recording a second.
fn essence(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text
        .lines()
        .map(|l| l.split_once(' ').map_or(l, |(_, rest)| rest).to_owned())
        // The seqs that a decision and a receipt name move with what is left out.
        .map(|l| match (l.starts_with("APPROVAL_RESULT"), l.starts_with("TOOL_RESULT")) {
            (true, _) => l.rsplit_once(" of ").map_or(l.clone(), |(l, _)| l.to_owned()),
            (_, true) => l.rsplit_once(" by ").map_or(l.clone(), |(l, _)| l.to_owned()),
            _ => l,
        })
        .filter(|l| !["LIFECYCLE RESUME", "LIFECYCLE SUSPEND", "ERROR"].iter().any(|skip| l.starts_with(skip)))
        .collect();
    lines.dedup_by(|b, a| a == b && a.starts_with("MODEL_CALL"));
    lines
}

/// Promises 1, 2, 4, 5, 6: R-CAS-1, R-RESUME-2, R-RESUME-3, R-MODEL-6, R-MODEL-12.
#[tokio::test]
async fn every_cut_of_every_row_recovers() {
    let mut cuts = 0;
    for row in ROWS {
        let (whole, writes) = run(row, usize::MAX, Side::Before).await;
        let whole = recover(row, whole).await;
        let expected = essence(&whole.world.journal_text(&whole.session).await);
        let end = if row.ops.iter().any(|o| o.cancels()) { "END CANCELED" } else { "END COMPLETED" };
        assert!(expected.iter().any(|l| l == end), "{}: {expected:?}", row.name);
        assert!(writes >= 2, "{}", row.name);
        for at in 0..writes {
            for side in [Side::Before, Side::After] {
                let (crashed, _) = run(row, at, side).await;
                let run = recover(row, crashed).await;
                let text = run.world.journal_text(&run.session).await;
                let name = format!("{}, write {at}, {side:?}:\n{text}", row.name);
                assert_eq!(essence(&text), expected, "{name}");
                for (call, count) in &run.calls {
                    let uncut = whole.calls.get(call).copied().unwrap_or(0);
                    assert!(*count <= uncut + 1, "{call} was called {count} times, {uncut} in the uncut run: {name}");
                }
                let effects = |world: &World| world.tool.as_ref().map(|tool| tool.effects());
                assert_eq!(effects(&run.world), effects(&whole.world), "promise 4: {name}");
                let again = run.world.restart();
                again.engine.rerun(&run.session).await.unwrap_or_else(|e| panic!("{e}: {name}"));
                assert_eq!(again.model.count(), 0, "promise 2: {name}");
                cuts += 1;
            }
        }
    }
    assert!(cuts > 200, "{cuts} cuts");
}

/// A turn that is dropped in the middle of its model call, again and again, is driven once per recovery.
#[tokio::test]
async fn a_call_is_driven_at_most_once_per_recovery() {
    let world = World::new();
    let session = world.create().await;
    world.model.then((0..5).map(|_| Answer::Hang));
    let turn = world.engine.accept(request(&session, "model a"), "default").await.unwrap();
    drop_in_call(&world.model, turn.run(), 1).await;
    for n in 2..=5 {
        let world = world.restart();
        drop_in_call(&world.model, world.engine.resume(&session), n).await;
        assert_eq!(world.journal_text(&session).await.matches("MODEL_CALL").count(), 1);
    }
    world.restart().engine.resume(&session).await.unwrap();
    assert_eq!(world.model.count(), 6);
    world
        .check(
            &session,
            "1 EXECUTION_START moves@1 inputs=1
             2 INPUT user model a
             3 MODEL_CALL m hashed
             4 OUTPUT assistant re:a
             5 END COMPLETED
             6 LIFECYCLE RESUME",
        )
        .await;
}

async fn drop_in_call(model: &Fake, turn: impl Future<Output = Result<v1::Session, Error>>, calls: usize) {
    let reached = async {
        while model.count() < calls {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        r = turn => panic!("the turn ended: {r:?}"),
        () = reached => {}
    }
}
