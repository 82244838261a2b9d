//! A tool server that counts its effects: a real HTTP server on loopback, which can lose, delay and refuse.
//!
//! `/keyed` tells repetitions apart by their `Idempotency-Key`: one effect for a key, the same answer again, and a refusal of
//! other arguments under it. `/plain` does its work each time that it is asked. What is asserted is what the outside world
//! saw: the effects, not the answers. Waits are gates that the test opens; nothing here sleeps.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::provider::{Call, Gate, connection};

/// What the server does with one request.
#[derive(Debug, Clone)]
pub enum Act {
    /// The effect, and the answer.
    Answer,
    /// The connection is closed, and there was no effect.
    DropBefore,
    /// The effect, and the connection is closed without an answer.
    DropAfter,
    /// The connection is closed in the middle of the answer, after the effect.
    DropWithin,
    /// Nothing until the gate opens, then the effect and the answer.
    HoldBefore(Gate),
    /// The effect, and the answer once the gate opens: a late one, when the client has not waited.
    HoldAfter(Gate),
    /// No effect: this status and this body.
    Refuse(u16, String),
}

/// The server. Stops when it is dropped.
pub struct ToolServer {
    address: SocketAddr,
    world: Arc<World>,
    accepting: JoinHandle<()>,
}

/// What the server has done.
struct World {
    state: Mutex<State>,
    requests: watch::Sender<usize>,
    effects: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    next: VecDeque<Act>,
    requests: Vec<Call>,
    /// How often the work was done, by key.
    effects: BTreeMap<String, usize>,
    /// Arguments and answer of each key, of `/keyed` only.
    receipts: BTreeMap<String, (Value, Value)>,
}

impl ToolServer {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When the system gives no socket.
    pub async fn start() -> ToolServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let world = Arc::new(World {
            state: Mutex::default(),
            requests: watch::Sender::new(0),
            effects: watch::Sender::new(0),
        });
        let shared = Arc::clone(&world);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        ToolServer { address, world, accepting }
    }

    /// The endpoint that honours keys.
    pub fn keyed(&self) -> String {
        format!("http://{}/keyed", self.address)
    }

    /// The endpoint that does not.
    pub fn plain(&self) -> String {
        format!("http://{}/plain", self.address)
    }

    /// Adds an act to the row; each request takes the next one, and [`Act::Answer`] when the row is empty.
    pub fn then(&self, act: Act) -> &ToolServer {
        self.world.state().next.push_back(act);
        self
    }

    /// How often the work was done, by key.
    pub fn effects(&self) -> BTreeMap<String, usize> {
        self.world.state().effects.clone()
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Call> {
        self.world.state().requests.clone()
    }

    /// Returns once `n` requests have come in.
    ///
    /// # Panics
    /// Never: the server holds what it waits on.
    pub async fn requested(&self, n: usize) {
        at_least(&self.world.requests, n).await;
    }

    /// Returns once the work was done `n` times in all.
    ///
    /// # Panics
    /// Never: the server holds what it waits on.
    pub async fn worked(&self, n: usize) {
        at_least(&self.world.effects, n).await;
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn at_least(counter: &watch::Sender<usize>, n: usize) {
    counter.subscribe().wait_for(|seen| *seen >= n).await.expect("the server lives, so its counters do");
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, call: &Call) -> Act {
        let mut state = self.state();
        state.requests.push(call.clone());
        let act = state.next.pop_front().unwrap_or(Act::Answer);
        drop(state);
        self.requests.send_modify(|n| *n += 1);
        act
    }

    /// Does the work, or does not, and says with which status and body it is answered.
    fn work(&self, call: &Call) -> (u16, String) {
        let key = call.header("idempotency-key").unwrap_or_default().to_owned();
        let args: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let mut state = self.state();
        if call.target == "/keyed" {
            match state.receipts.get(&key) {
                Some((given, answer)) if *given == args => return (200, answer.to_string()),
                Some(_) => return (422, json!({"error": "other arguments under a used key"}).to_string()),
                None => {}
            }
        }
        let number = state.effects.values().sum::<usize>() + 1;
        *state.effects.entry(key.clone()).or_default() += 1;
        let answer = json!({"effect": number, "args": args});
        state.receipts.insert(key, (args, answer.clone()));
        drop(state);
        self.effects.send_modify(|n| *n += 1);
        (200, answer.to_string())
    }
}

/// Serves requests until either side closes.
async fn serve(mut stream: TcpStream, world: Arc<World>) {
    let mut buffer = BytesMut::new();
    while let Ok(Some(call)) = connection::read(&mut stream, &mut buffer).await {
        let act = world.take(&call);
        let (status, body) = match &act {
            Act::DropBefore => return,
            Act::DropAfter => {
                world.work(&call);
                return;
            }
            Act::HoldBefore(gate) => {
                gate.pass().await;
                world.work(&call)
            }
            Act::HoldAfter(gate) => {
                let answer = world.work(&call);
                gate.pass().await;
                answer
            }
            Act::Refuse(status, body) => (*status, body.clone()),
            Act::Answer | Act::DropWithin => world.work(&call),
        };
        let head = format!(
            "HTTP/1.1 {status} Counted\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let sent = if matches!(act, Act::DropWithin) { &body[..body.len() / 2] } else { &body };
        // A client that has gone does not wait for its answer.
        if stream.write_all(format!("{head}{sent}").as_bytes()).await.is_err() || sent.len() < body.len() {
            return;
        }
    }
}
