//! Lanes: threads that each serve their connections from beginning to end.
//!
//! Everything that one call needs (its frames, its turn, its viewer) happens on the thread of its connection. So a record on its
//! way to a client wakes one thread and not a second one that finds nothing, and cores share no queue. A connection stays on the
//! lane that it was given; a new one goes to the lane with the fewest.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Where connections are served.
pub(super) struct Lanes(Vec<Lane>);

struct Lane {
    handle: Handle,
    connections: Arc<AtomicUsize>,
    /// The thread, and what ends it when it is dropped, with whatever still runs there; `None` for the lane that is the
    /// caller's own runtime.
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// One connection's place on a lane; given back when it is dropped.
pub(super) struct Place {
    pub(super) handle: Handle,
    connections: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lanes {
    /// Starts `count` lanes. With 0, everything is served on the runtime that this is called on.
    ///
    /// # Errors
    /// When the system gives no thread or no event queue.
    pub(super) fn start(count: usize) -> io::Result<Lanes> {
        if count == 0 {
            return Ok(Lanes(vec![Lane { handle: Handle::current(), connections: Arc::default(), thread: None }]));
        }
        (0..count).map(|_| Lane::start()).collect::<io::Result<Vec<Lane>>>().map(Lanes)
    }

    /// A place on the lane that has the fewest connections.
    pub(super) fn place(&self) -> Place {
        let lane = self.0.iter().min_by_key(|lane| lane.connections.load(Ordering::Relaxed));
        let lane = lane.expect("there is a lane");
        lane.connections.fetch_add(1, Ordering::Relaxed);
        Place { handle: lane.handle.clone(), connections: Arc::clone(&lane.connections) }
    }

    /// Ends the lanes; what still runs on them is dropped at its next await.
    pub(super) async fn stop(self) {
        let threads: Vec<_> = self.0.into_iter().filter_map(|lane| Some(lane.thread?.1)).collect();
        let joined = tokio::task::spawn_blocking(move || {
            // A panic has been reported where it happened.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        drop(joined.await);
    }
}

impl Lane {
    fn start() -> io::Result<Lane> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("inspan-lane".to_owned()).spawn(move || {
            // The sender says nothing: it goes away.
            drop(runtime.block_on(stopped));
        })?;
        Ok(Lane { handle, connections: Arc::default(), thread: Some((stop, thread)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_goes_to_the_lane_with_the_fewest_and_all_end() {
        let lanes = Lanes::start(2).expect("two threads");
        let (first, second) = (lanes.place(), lanes.place());
        assert_ne!(first.handle.id(), second.handle.id(), "the second goes to the other lane");
        let left = second.handle.id();
        drop(second);
        assert_eq!(lanes.place().handle.id(), left, "to the one that is free again");
        let name = first.handle.spawn(async { std::thread::current().name().map(str::to_owned) });
        assert_eq!(name.await.expect("the lane runs"), Some("inspan-lane".to_owned()));
        lanes.stop().await;
        let late = first.handle.spawn(async {}).await;
        assert!(late.is_err_and(|e| e.is_cancelled()), "a lane that has ended runs nothing");
    }

    #[tokio::test]
    async fn without_lanes_the_callers_runtime_serves() {
        let lanes = Lanes::start(0).expect("no thread is needed");
        assert_eq!(lanes.place().handle.id(), Handle::current().id());
        lanes.stop().await;
    }
}
