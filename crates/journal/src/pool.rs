//! A few threads for work that blocks: disk reads must not hold up the threads that drive turns.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::Error;

/// Jobs that may wait for a thread; behind that, callers wait before they queue.
const WAITING_JOBS_MAX: usize = 1024;

type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Threads that each own an `S`, such as a connection, and run jobs on it.
///
/// Dropping the pool waits for the jobs that it has accepted.
pub(crate) struct Pool<S> {
    jobs: Option<mpsc::Sender<Job<S>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<S: Send + 'static> Pool<S> {
    /// Starts one thread for each state.
    pub(crate) fn start(name: &str, states: Vec<S>) -> Result<Pool<S>, Error> {
        let (jobs, queue) = mpsc::channel(WAITING_JOBS_MAX);
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::with_capacity(states.len());
        for state in states {
            let queue = Arc::clone(&queue);
            let thread = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || work(&queue, state))
                .map_err(|e| Error::Io(format!("starting a {name} thread: {e}")))?;
            threads.push(thread);
        }
        Ok(Pool { jobs: Some(jobs), threads })
    }

    /// Runs `job` on one of the threads.
    ///
    /// A caller that goes away does not stop a job that has been queued.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, wait) = oneshot::channel();
        let job: Job<S> = Box::new(move |state| {
            // The caller may be gone; then nobody wants the answer.
            let _ = answer.send(job(state));
        });
        let jobs = self.jobs.as_ref().expect("the queue is open until the pool is dropped");
        jobs.send(job).await.map_err(|_| stopped())?;
        wait.await.map_err(|_| stopped())?
    }
}

fn stopped() -> Error {
    Error::Io("a worker thread stopped: restart the host".to_owned())
}

fn work<S>(queue: &Mutex<mpsc::Receiver<Job<S>>>, mut state: S) {
    loop {
        // One idle thread waits inside the lock and hands it on before it works.
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match job {
            Some(job) => job(&mut state),
            None => return,
        }
    }
}

impl<S> Drop for Pool<S> {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic of the thread has been reported by its own unwinding.
            let _ = thread.join();
        }
    }
}
