//! The crash matrix of tool calls inside their run, and of the harness that asked for them: killed, hung, of another
//! version, replaced by another. The tool counts; whatever comes back, it must have done its work once at most.

mod support;

use std::sync::Arc;

use inspan_engine::{Code, Error, ReplayRule};
use inspan_harness::Harness;
use inspan_testkit::harness::Moves;
use inspan_wire::SessionUid;

use support::{Act, Tool, World};

const RULES: [ReplayRule; 4] = [ReplayRule::Safe, ReplayRule::Keyed, ReplayRule::Ask, ReplayRule::Never];

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Ordinary,
    Gated,
}

const WAYS: [Way; 2] = [Way::Ordinary, Way::Gated];

fn tool(world: &World) -> &Tool {
    world.tool.as_ref().expect("these worlds have a tool")
}

/// Drives `turn` until the tool has taken its next act, and drops it there: the host is killed while the tool runs.
async fn killed_in_the_tool<T>(world: &World, turn: impl Future<Output = T>) {
    let taken = async {
        while !tool(world).script.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = async { taken.await; tokio::task::yield_now().await } => {}
        _ = turn => panic!("the tool never answers"),
    }
}

/// A session whose host was killed in the run of a call that `act` is what became of.
async fn cut(world: &World, way: Way, act: Act) -> SessionUid {
    let session = world.create().await;
    match way {
        Way::Ordinary => {
            tool(world).then([act]);
            killed_in_the_tool(world, world.exec(&session, "tool c k; result")).await;
        }
        Way::Gated => {
            world.exec(&session, "gate c k; result").await.unwrap();
            world.decide(&session, true).await.unwrap();
            tool(world).then([act]);
            killed_in_the_tool(world, world.engine.resume(&session)).await;
        }
    }
    session
}

/// Promise 4, R-TOOL-11, R-APPR-29: sent and not done, done and its receipt lost, by each rule, gated and not: no more than
/// one effect, and exactly one where the tool keeps its keys.
#[tokio::test]
async fn a_host_killed_while_a_tool_runs() {
    for rule in RULES {
        for way in WAYS {
            for (act, done) in [(Act::Stall, 0), (Act::Hang, 1)] {
                let w = World::with_tool(Tool::new(rule));
                let s = cut(&w, way, act).await;
                assert_eq!(tool(&w).count(), done);
                w.restart().engine.resume(&s).await.unwrap();
                let asked = w.waits(&s).await.is_some();
                assert_eq!(asked, (rule, way) == (ReplayRule::Ask, Way::Ordinary), "{rule:?} {way:?}");
                if asked {
                    assert_eq!(tool(&w).count(), done, "nothing runs before the answer");
                    w.decide(&s, true).await.unwrap();
                    w.restart().engine.resume(&s).await.unwrap();
                }
                let case = format!("{rule:?}, {way:?}, {done} done:\n{}", w.journal_text(&s).await);
                let told = w.restart().engine.rerun(&s).await.unwrap().outputs.pop().unwrap();
                let again = asked || matches!(rule, ReplayRule::Safe | ReplayRule::Keyed);
                assert_eq!(told == "c ok", again, "{told}: {case}");
                assert_eq!(tool(&w).count(), if again { done + 1 } else { done }, "{case}");
                assert!(tool(&w).effects() <= 1, "one effect key: {case}");
                assert_eq!(case.matches("TOOL_CALL").count(), 1, "{case}");
                assert_eq!(case.matches("TOOL_RESULT").count(), 1, "{case}");
            }
        }
    }
}

/// Where a turn stands when its harness goes away.
const PLACES: [&str; 4] = ["a call that was sent", "a request", "a decision", "a receipt"];

/// A keyed tool, and a session whose turn stands at `place`.
async fn standing_at(place: &str) -> (World, SessionUid) {
    let w = World::with_tool(Tool::new(ReplayRule::Keyed));
    let session = w.create().await;
    match place {
        "a call that was sent" => return (w.clone(), cut(&w, Way::Ordinary, Act::Hang).await),
        "a receipt" => w.exec(&session, "tool c k; fail boom").await.map(drop).unwrap_err(),
        _ => {
            w.exec(&session, "gate c k; result").await.unwrap();
            if place == "a decision" {
                w.decide(&session, true).await.unwrap();
            }
            return (w, session);
        }
    };
    (w, session)
}

fn serving(world: &World, name: &str, harness: impl Harness) -> World {
    world.restart_with(vec![(name.to_owned(), Arc::new(harness) as Arc<dyn Harness>)])
}

/// What must not move while a wrong harness is there.
async fn state(world: &World, session: &SessionUid) -> (i64, usize, usize) {
    let stored = world.journal.session(session).await.unwrap().unwrap();
    (stored.fence, world.records(session).await.len(), tool(world).count())
}

/// R-VER-2, R-VER-3, R-VER-4, R-APPR-22, R-APPR-30: a harness of another version, or another harness in its place, runs
/// nothing and changes nothing, wherever the turn stands; the right one goes on from there.
#[tokio::test]
async fn a_harness_of_another_version_or_another_name_changes_nothing() {
    for place in PLACES {
        let (w, s) = standing_at(place).await;
        let before = state(&w, &s).await;
        let newer = serving(&w, "moves", Moves::version("2"));
        let other = serving(&w, "other", Moves::default());
        for (wrong, name) in [(&newer, "newer"), (&other, "other")] {
            let refused = wrong.engine.resume(&s).await;
            match refused {
                Ok(view) => assert!(place == "a request" && view.pending_approval.is_some(), "{place}, {name}"),
                Err(Error::HarnessVersionMismatch { .. }) => assert_eq!(name, "newer", "{place}"),
                Err(Error::RecordedHarnessNotServed(_)) => assert_eq!(name, "other", "{place}"),
                Err(e) => panic!("{place}, {name}: {e}"),
            }
            assert_eq!(state(&w, &s).await, before, "{place}, {name}");
        }
        if place == "a request" {
            w.decide(&s, true).await.unwrap();
        }
        let right =
            w.restart_with(vec![("moves".to_owned(), Arc::new(Moves::default().twisted("fail boom", "out x")))]);
        right.engine.resume(&s).await.unwrap_or_else(|e| panic!("{place}: {e}"));
        assert_eq!(tool(&w).effects(), 1, "{place}");
        assert_eq!(right.engine.rerun(&s).await.unwrap().executions, 1, "{place}");
    }
}

/// R-APPR-30, R-TOOL-7, R-TOOL-12: an agent that says it is the same and asks for something else is stopped, its tool does
/// not run, and the right one still goes on.
#[tokio::test]
async fn a_harness_that_asks_for_something_else_is_stopped() {
    for place in ["a call that was sent", "a decision", "a receipt"] {
        let (w, s) = standing_at(place).await;
        let runs = tool(&w).count();
        let twisted = serving(&w, "moves", Moves::default().twisted("c k", "c k other"));
        let refused = twisted.engine.resume(&s).await.unwrap_err();
        assert!(matches!(refused, Error::ReplayDiverged { .. }), "{place}: {refused}");
        assert_eq!((refused.code(), tool(&w).count()), (Code::Internal, runs), "{place}");
        let right = serving(&w, "moves", Moves::default().twisted("fail boom", "out x"));
        right.engine.resume(&s).await.unwrap_or_else(|e| panic!("{place}: {e}"));
        assert_eq!(tool(&w).effects(), 1, "{place}");
    }
}

/// A harness that hangs behind its call, and is killed with its host, is driven again from what it has recorded.
#[tokio::test]
async fn a_harness_that_hangs_is_driven_again() {
    for way in WAYS {
        let w = World::with_tool(Tool::new(ReplayRule::Never));
        let hangs = serving(&w, "moves", Moves::default().twisted("out x", "hang"));
        let s = w.create().await;
        let script = if way == Way::Gated { "gate c k; out x" } else { "tool c k; out x" };
        let receipted = async {
            while !w.journal_text(&s).await.contains("TOOL_RESULT") {
                tokio::task::yield_now().await;
            }
        };
        if way == Way::Gated {
            hangs.exec(&s, script).await.unwrap();
            w.decide(&s, true).await.unwrap();
            tokio::select! { biased; r = hangs.engine.resume(&s) => panic!("{r:?}"), () = receipted => {} }
        } else {
            tokio::select! { biased; r = hangs.exec(&s, script) => panic!("{r:?}"), () = receipted => {} }
        }
        w.restart().engine.resume(&s).await.unwrap();
        assert_eq!(tool(&w).count(), 1, "{way:?}");
        assert_eq!(w.engine.rerun(&s).await.unwrap().outputs, ["x"], "{way:?}");
    }
}
