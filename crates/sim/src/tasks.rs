//! The executor: tasks that move only when the scheduler picks them.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::world::lock;

/// A task; each carries out one operation of a client, in the order in which they began.
pub(crate) type TaskId = u64;

/// What a task runs.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Tasks by id, and those that something has woken. The set is ordered, so that the order of wakes within
/// a step, which may hang on the inside of some lock, has no say in what is picked.
pub(crate) struct Tasks<T> {
    tasks: BTreeMap<TaskId, (usize, Work<T>)>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(Mutex<BTreeSet<TaskId>>);

struct Wakeup {
    task: TaskId,
    woken: Arc<Woken>,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        lock(&self.woken.0).insert(self.task);
    }
}

impl<T> Tasks<T> {
    /// No tasks.
    pub(crate) fn new() -> Tasks<T> {
        Tasks { tasks: BTreeMap::new(), woken: Arc::default() }
    }

    /// How many tasks there are.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// The tasks that run on `host`.
    pub(crate) fn on(&self, host: usize) -> Vec<TaskId> {
        self.tasks.iter().filter(|(_, (on, _))| *on == host).map(|(id, _)| *id).collect()
    }

    /// Adds a task of `host`, ready to run.
    pub(crate) fn spawn(&mut self, id: TaskId, host: usize, work: Work<T>) {
        self.tasks.insert(id, (host, work));
        lock(&self.woken.0).insert(id);
    }

    /// The tasks that could move, on hosts that do, in order of their ids.
    pub(crate) fn ready(&self, moves: impl Fn(usize) -> bool) -> Vec<TaskId> {
        let woken = lock(&self.woken.0);
        woken.iter().filter(|id| self.tasks.get(id).is_some_and(|(host, _)| moves(*host))).copied().collect()
    }

    /// Moves a task to its next scheduling point; gives what it ended with.
    pub(crate) fn poll(&mut self, id: TaskId) -> Option<T> {
        lock(&self.woken.0).remove(&id);
        let (_, work) = self.tasks.get_mut(&id)?;
        let waker = Waker::from(Arc::new(Wakeup { task: id, woken: self.woken.clone() }));
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => None,
            Poll::Ready(outcome) => {
                self.tasks.remove(&id);
                Some(outcome)
            }
        }
    }

    /// Drops a task where it stands: what a crash does.
    pub(crate) fn kill(&mut self, id: TaskId) {
        self.tasks.remove(&id);
        lock(&self.woken.0).remove(&id);
    }
}
