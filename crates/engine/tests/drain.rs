//! A stopping host waits for its turns in one order, so that a simulated run repeats.

mod support;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use support::{Answer, World, request};

/// Counts how often a future asked to be looked at again.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A drain waits for sessions in the order of their uids, whatever the order in which they were taken or
/// are freed: only the release of the first one wakes it. In an order of chance one of eight would do.
#[tokio::test]
async fn a_drain_waits_in_the_order_of_the_sessions() {
    for seed in 0..3 {
        let world = World::new();
        // Each round has other uids.
        for _ in 0..seed {
            world.create().await;
        }
        let mut turns = Vec::new();
        for n in 1..=8 {
            let session = world.create().await;
            world.model.then([Answer::Hang]);
            let turn = world.engine.accept(request(&session, "model a"), "default").await.unwrap();
            turns.push((session, tokio::spawn(turn.run())));
            while world.model.count() < n {
                tokio::task::yield_now().await;
            }
        }
        assert!(!turns.is_sorted_by_key(|(session, _)| session.clone()), "the order of creation would hide the other");
        turns.sort_by_key(|(session, _)| session.clone());

        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut context = Context::from_waker(&waker);
        let mut drain = pin!(world.engine.drain());
        assert_eq!(drain.as_mut().poll(&mut context), Poll::Pending);
        while let Some((session, turn)) = turns.pop() {
            turn.abort();
            assert!(turn.await.unwrap_err().is_cancelled());
            let expected = usize::from(turns.is_empty());
            assert_eq!(wakes.0.load(Ordering::SeqCst), expected, "the release of {session}, {} held", turns.len());
        }
        assert_eq!(drain.as_mut().poll(&mut context), Poll::Ready(()));
    }
}
