//! A decision is acted upon once: whoever takes it up, whatever came between.

mod support;

use std::sync::Arc;

use inspan_engine::ReplayRule;
use inspan_harness::{Failure, Harness, Sink, Start};
use inspan_testkit::harness::Moves;
use inspan_wire::v1::{self, event::Body};
use inspan_wire::{SessionUid, parse};

use support::{Act, Tool, World};

async fn approved(world: &World) -> SessionUid {
    let session = world.create().await;
    world.exec(&session, "gate c k; result").await.unwrap();
    world.decide(&session, true).await.unwrap();
    session
}

fn runs(world: &World) -> usize {
    world.tool.as_ref().expect("these worlds have a tool").count()
}

async fn receipt(world: &World, session: &SessionUid) -> v1::ToolResult {
    let records = world.records(session).await;
    let receipt = records.iter().rev().find_map(|r| match parse::event(&r.event).unwrap().body {
        Some(Body::Result(result)) => Some(result),
        _ => None,
    });
    receipt.expect("there is a receipt")
}

/// A harness that says what it is when it may: its host has read the session by then.
struct Slow(tokio::sync::Semaphore);

#[inspan_harness::async_trait]
impl Harness for Slow {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        let _permit = self.0.acquire().await.expect("it is never closed");
        Moves::default().describe().await
    }

    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        Moves::default().run(start, sink).await
    }
}

/// Promise 4, R-APPR-29: of two hosts that take up one decision, the second knows of the first, however early it has
/// read the session.
#[tokio::test]
async fn two_hosts_act_on_a_decision_once() {
    let first = World::with_tool(Tool::new(ReplayRule::Never));
    let s = approved(&first).await;
    let slow = Arc::new(Slow(tokio::sync::Semaphore::new(0)));
    let second = first.restart_with(vec![("moves".to_owned(), slow.clone())]);
    let late = second.engine.resume(&s);
    let early = async {
        first.tool.as_ref().unwrap().then([Act::Hang]);
        let ran = async {
            while runs(&first) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            r = first.engine.resume(&s) => panic!("the tool hangs: {r:?}"),
            () = ran => slow.0.add_permits(1),
        }
    };
    let (resumed, ()) = tokio::join!(late, early);
    resumed.unwrap();
    assert_eq!(runs(&first), 1);
    assert!(receipt(&first, &s).await.error.contains("how it ended is not known"));
}

/// A session that was only put to sleep behind its decision has not acted upon it.
#[tokio::test]
async fn sleep_behind_a_decision_changes_nothing() {
    let w = World::with_tool(Tool::new(ReplayRule::Never));
    let s = approved(&w).await;
    w.engine.suspend(&s).await.unwrap();
    w.engine.suspend(&s).await.unwrap();
    w.restart().engine.resume(&s).await.unwrap();
    assert_eq!(runs(&w), 1);
    assert!(!receipt(&w, &s).await.is_error);
}
