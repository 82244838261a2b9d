//! Work that must not grow with the session: counted in records read, never in time.

#[path = "support/cut.rs"]
mod cut;
mod support;

use std::sync::Arc;

use cut::{Cut, Side};
use inspan_engine::ForkArgs;
use inspan_testkit::harness::Moves;
use inspan_wire::v1;
use support::{World, end, input, output, start, uid};

const RECORDS: i64 = 100_000;

/// A turn, a resume, a fork and a cancel on a session of 100,000 records read what they need of its end, and
/// nothing of its past.
#[tokio::test]
async fn nothing_reads_the_past_of_a_long_session() {
    let base = World::new();
    let s = base.create().await;
    let turns = RECORDS / 4;
    let mut events = Vec::new();
    for i in 0..turns {
        let id = format!("{i:016x}");
        events.extend([start(&id, Some(1), "moves", "1"), input(&id, "out x"), output(&id, "x"), end(&id)]);
    }
    base.plant(&s, events).await;
    let counting = Cut::new(base.journal.clone(), usize::MAX, Side::Before);
    let moves: Arc<dyn inspan_harness::Harness> = Arc::new(Moves::default());
    let w = World::over(counting.clone(), base.hand.clone(), vec![("moves".to_owned(), moves)], base.model.clone());

    w.exec(&s, "model a").await.unwrap();
    assert_eq!(counting.take_reads(), 0, "a turn");

    base.model.then([support::Answer::Fail("x".to_owned())]);
    w.exec(&s, "model b; out y").await.unwrap_err();
    w.restart().engine.resume(&s).await.unwrap();
    assert!(counting.take_reads() <= 256, "a resume reads its own turn");

    let at = |at_seq| ForkArgs { at_seq, count: 128, ..Default::default() };
    w.engine.fork(&s, at(0)).await.unwrap();
    assert_eq!(counting.take_reads(), 0, "a fork at the head");
    let child = w.engine.fork(&s, at(RECORDS / 2)).await.unwrap().remove(0);
    assert!(counting.take_reads() <= 8, "a fork in the middle folds one turn");
    let child = uid(&child);
    w.engine.resume(&child).await.unwrap();
    w.exec(&child, "model c").await.unwrap();
    assert!(counting.take_reads() <= 256, "a child's first turns");

    // A harness that reads its history gets all of it, page by page.
    let view = w.exec(&s, "past").await.unwrap();
    let text = w.records(&s).await[view.last_seq as usize - 2].clone();
    let event = inspan_wire::parse::event(&text.event).unwrap();
    let Some(v1::event::Body::Message(m)) = event.body else { panic!("no output") };
    assert_eq!(m.concat_text(), format!("{} EVENT_LIFECYCLE", view.last_seq - 4));
}

/// One turn of 20,000 effects: resumed page by page, and a fork in its middle folds from the last mark.
#[tokio::test]
async fn a_long_turn_is_resumed_and_forked_in_bounded_steps() {
    let base = World::new();
    let s = base.create().await;
    let effects = 20_000;
    let play = "out x;".repeat(effects) + "model a";
    let mut events = vec![start("e1", Some(1), "moves", "1"), input("e1", &play)];
    events.extend((0..effects).map(|_| output("e1", "x")));
    base.plant(&s, events).await;
    let counting = Cut::new(base.journal.clone(), usize::MAX, Side::Before);
    let moves: Arc<dyn inspan_harness::Harness> = Arc::new(Moves::default());
    let w = World::over(counting.clone(), base.hand.clone(), vec![("moves".to_owned(), moves)], base.model.clone());
    w.engine.fork(&s, ForkArgs { at_seq: 15_000, ..Default::default() }).await.unwrap();
    assert!(counting.take_reads() <= 4096, "a mark is never further than that");
    w.engine.resume(&s).await.unwrap();
    assert!(counting.take_reads() <= effects + 512, "the turn is read once");
    assert_eq!(w.model.take_calls(), ["a"]);
}
