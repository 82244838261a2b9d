//! A scripted model provider: a real HTTP server on loopback that plays exact bytes.
//!
//! It writes to the socket itself rather than through an HTTP library, since its purpose is to send
//! what a library would refuse to: bodies that end at any byte, without their last chunk, or
//! with a reset. Waits are gates that the test opens; nothing here sleeps.

mod answer;
pub(crate) mod connection;
mod reply;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use answer::{Answer, End, Framing, Gate, Step};
pub use reply::{Reply, Thinking};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Bytes,
}

impl Call {
    /// The value of the first header of this (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The body as text.
    ///
    /// # Panics
    /// When it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a provider is sent UTF-8")
    }
}

/// The server. Stops when it is dropped.
pub struct Provider {
    address: SocketAddr,
    script: Arc<Script>,
    accepting: JoinHandle<()>,
}

/// What the connections share.
struct Script {
    state: Mutex<State>,
    calls: watch::Sender<usize>,
    disconnects: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    next: VecDeque<Answer>,
    always: Option<Answer>,
    calls: Vec<Call>,
}

impl Provider {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When the system gives no socket.
    pub async fn start() -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let script = Arc::new(Script {
            state: Mutex::default(),
            calls: watch::Sender::new(0),
            disconnects: watch::Sender::new(0),
        });
        let shared = Arc::clone(&script);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection::serve(stream, Arc::clone(&shared)));
            }
        });
        Provider { address, script, accepting }
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds an answer to the row; each request takes the next one.
    pub fn then(&self, answer: Answer) -> &Provider {
        self.script.state().next.push_back(answer);
        self
    }

    /// The answer of every request that finds the row empty. Without it such a request is answered
    /// with status 500 and a text that says so.
    pub fn always(&self, answer: Answer) -> &Provider {
        self.script.state().always = Some(answer);
        self
    }

    /// The requests so far.
    pub fn calls(&self) -> Vec<Call> {
        self.script.state().calls.clone()
    }

    /// How many requests came.
    pub fn count(&self) -> usize {
        *self.script.calls.borrow()
    }

    /// Returns once `n` requests have come.
    pub async fn called(&self, n: usize) {
        wait_for(&self.script.calls, n).await;
    }

    /// Returns once `n` clients have gone before their answer was complete.
    pub async fn disconnected(&self, n: usize) {
        wait_for(&self.script.disconnects, n).await;
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn wait_for(counter: &watch::Sender<usize>, n: usize) {
    counter.subscribe().wait_for(|seen| *seen >= n).await.expect("the provider lives, so its counters do");
}

impl Script {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call and picks its answer.
    fn answer(&self, call: Call) -> Answer {
        let mut state = self.state();
        state.calls.push(call);
        let unasked = || Answer::json(500, r#"{"error":{"message":"the test scripted no answer for this request"}}"#);
        let answer = state.next.pop_front().or_else(|| state.always.clone()).unwrap_or_else(unasked);
        drop(state);
        self.calls.send_modify(|n| *n += 1);
        answer
    }

    fn client_left(&self) {
        self.disconnects.send_modify(|n| *n += 1);
    }
}
