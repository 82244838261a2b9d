//! Idempotency keys that come again, in their turn and turns later (R-TOOL-16).

mod support;

use inspan_engine::ReplayRule;
use inspan_wire::SessionUid;

use support::{Act, Tool, World};

fn world(rule: ReplayRule) -> World {
    World::with_tool(Tool::new(rule))
}

fn tool(world: &World) -> &Tool {
    world.tool.as_ref().expect("these worlds have a tool")
}

/// What the harness is told last of all in its turn, by a fresh host.
async fn told(world: &World, session: &SessionUid, script: &str) -> String {
    let world = world.restart();
    world.exec(session, script).await.unwrap();
    world.engine.rerun(session).await.unwrap().outputs.pop().expect("it says what it was told")
}

/// The same request under the same key is answered with what is on record, and the tool is not asked.
#[tokio::test]
async fn a_request_that_comes_again_is_answered_from_the_record() {
    for rule in [ReplayRule::Safe, ReplayRule::Keyed, ReplayRule::Ask, ReplayRule::Never] {
        let w = world(rule);
        let s = w.create().await;
        tool(&w).then([Act::SayFailed]);
        w.exec(&s, "tool c k x; result; tool d k x; result").await.unwrap();
        assert_eq!(told(&w, &s, "tool e k x; result").await, "e it says no");
        assert_eq!(tool(&w).count(), 1, "{rule:?}");
        let text = w.journal_text(&s).await;
        assert!(text.contains("TOOL_CALL e k\n13 TOOL_RESULT e\n"), "it has records of its own: {text}");
    }
}

/// Another request under a used key does not run; its harness is told so, and goes on.
#[tokio::test]
async fn another_request_under_a_used_key_is_refused() {
    let w = world(ReplayRule::Keyed);
    let s = w.create().await;
    w.exec(&s, "tool c k x").await.unwrap();
    for script in ["tool d k y; result", "tool d k; result"] {
        let told = told(&w, &s, script).await;
        assert!(
            told.starts_with("d the idempotency key was used for another call of this session, at seq 3"),
            "{told}"
        );
    }
    w.exec(&s, "gate e k y; result").await.unwrap();
    w.decide(&s, true).await.unwrap();
    w.engine.resume(&s).await.unwrap();
    let told = w.engine.rerun(&s).await.unwrap().outputs.pop().unwrap();
    assert!(told.starts_with("e the idempotency key was used"), "also behind an approval: {told}");
    assert_eq!(tool(&w).count(), 1);
}

/// What was sent and never answered goes by the tool's rule, turns later too; and what it comes to then stands.
#[tokio::test]
async fn an_unknown_outcome_goes_by_the_rule_in_later_turns() {
    for rule in [ReplayRule::Safe, ReplayRule::Keyed] {
        let w = world(rule);
        let s = w.create().await;
        tool(&w).then([Act::Lose]);
        w.exec(&s, "trytool c k").await.unwrap();
        for _ in 0..2 {
            assert_eq!(told(&w, &s, "tool d k; result").await, "d ok");
        }
        let runs: Vec<bool> = tool(&w).runs.lock().unwrap().iter().map(|(_, again)| *again).collect();
        assert_eq!(runs, [false, true], "{rule:?}: run again, then answered from the record");
    }
    let w = world(ReplayRule::Never);
    let s = w.create().await;
    tool(&w).then([Act::Lose]);
    w.exec(&s, "trytool c k").await.unwrap();
    for _ in 0..2 {
        let told = told(&w, &s, "tool d k; result").await;
        assert!(told.starts_with("d the call was sent and how it ended is not known"), "{told}");
    }
    assert_eq!(tool(&w).count(), 1);
}

/// A tool that a person has to be asked about is asked about in later turns too.
#[tokio::test]
async fn an_unknown_outcome_is_asked_about_in_later_turns() {
    let w = world(ReplayRule::Ask);
    let s = w.create().await;
    tool(&w).then([Act::Lose]);
    w.exec(&s, "trytool c k").await.unwrap();
    for (approved, runs) in [(false, 1), (true, 2), (true, 2)] {
        w.exec(&s, "tool d k; result").await.unwrap();
        if w.waits(&s).await.is_some() {
            let text = w.journal_text(&s).await;
            assert!(text.contains("APPROVAL_REQUEST d (this call was sent"), "{text}");
            w.decide(&s, approved).await.unwrap();
            w.restart().engine.resume(&s).await.unwrap();
        }
        assert_eq!(tool(&w).count(), runs, "a no leaves it as it was, a yes runs it, and its answer stands");
    }
    assert!(tool(&w).runs.lock().unwrap()[1].1, "it is told as a repetition");
    assert_eq!(w.engine.rerun(&s).await.unwrap().outputs.last().unwrap(), "d ok");
}

/// A key whose call never reached its tool is free: not sent, denied, or given up while it waited.
#[tokio::test]
async fn a_call_that_never_ran_uses_no_key() {
    let w = world(ReplayRule::Never);
    let s = w.create().await;
    tool(&w).then([Act::Miss]);
    w.exec(&s, "trytool c k x; tool d k y; result").await.unwrap();
    assert_eq!(tool(&w).count(), 1);

    let s = w.create().await;
    w.exec(&s, "gate c k x").await.unwrap();
    w.decide(&s, false).await.unwrap();
    w.engine.resume(&s).await.unwrap();
    w.exec(&s, "gate d k y").await.unwrap();
    w.engine.cancel(&s, "", "USER").await.unwrap();
    assert_eq!(tool(&w).count(), 1);
    assert_eq!(told(&w, &s, "tool e k z; result").await, "e ok");
    assert_eq!(tool(&w).count(), 2);
    // From here on it is used.
    assert_eq!(told(&w, &s, "tool f k z; result").await, "f ok");
    assert_eq!(tool(&w).count(), 2);
}

/// R-APPR-27: an answer from the record has a gate of its own, and its receipt names that one.
#[tokio::test]
async fn an_approved_call_may_be_answered_from_the_record() {
    let w = world(ReplayRule::Keyed);
    let s = w.create().await;
    for id in ["c", "d"] {
        w.exec(&s, &format!("gate {id} k x; result")).await.unwrap();
        w.decide(&s, true).await.unwrap();
        w.restart().engine.resume(&s).await.unwrap();
    }
    assert_eq!(tool(&w).count(), 1);
    let text = w.journal_text(&s).await;
    assert!(text.contains("7 TOOL_RESULT c ok by 6") && text.contains("17 TOOL_RESULT d ok by 16"), "{text}");
    // An ordinary call gets the bare result.
    assert_eq!(told(&w, &s, "tool e k x; result").await, "e ok");
}

/// What was not sent frees its key, also when the very next call is refused for a key of its own.
#[tokio::test]
async fn a_key_is_freed_by_a_later_append_when_the_next_is_refused() {
    let w = world(ReplayRule::Never);
    let s = w.create().await;
    tool(&w).then([Act::Work, Act::Miss]);
    let script = "tool a used x; trytool b free x; tool c used y; tool d free y; result";
    assert_eq!(told(&w, &s, script).await, "d ok");
    assert_eq!(tool(&w).count(), 2);
}
