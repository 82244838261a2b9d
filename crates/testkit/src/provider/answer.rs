//! What the provider sends, byte by byte.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

/// How a body says where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `transfer-encoding: chunked`, one chunk per [`Step::Bytes`].
    Chunked,
    /// `content-length`, of the body before any cut.
    Length,
    /// By closing the connection: a body that is cut looks whole.
    Close,
}

/// How the answer ends after its last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As the framing says.
    Whole,
    /// The connection is closed without the last chunk, or before the promised length.
    Fin,
    /// The connection is reset.
    Reset,
    /// Nothing more comes; the connection stays open until the client leaves.
    Hang,
}

/// One thing that the provider does.
#[derive(Debug, Clone)]
pub enum Step {
    /// Writes bytes.
    Bytes(Bytes),
    /// Waits until the test opens the gate.
    Gate(Gate),
}

/// A point at which an answer waits for the test.
#[derive(Debug, Clone)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
    reached: Arc<watch::Sender<bool>>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { open: Arc::new(watch::Sender::new(false)), reached: Arc::new(watch::Sender::new(false)) }
    }
}

impl Gate {
    /// Lets the answer go on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Returns once the answer has come to the gate: everything before it is written.
    pub async fn reached(&self) {
        wait(&self.reached).await;
    }

    pub(crate) async fn pass(&self) {
        self.reached.send_replace(true);
        wait(&self.open).await;
    }
}

async fn wait(flag: &watch::Sender<bool>) {
    flag.subscribe().wait_for(|set| *set).await.expect("the gate itself holds the sender");
}

/// An answer: head, steps, end.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) steps: Vec<Step>,
    pub(super) framing: Framing,
    pub(super) end: End,
    /// What the head waits for.
    pub(super) held: Option<Gate>,
    /// What `content-length` says.
    pub(super) length: usize,
}

impl Answer {
    /// An answer of one media type in one piece.
    pub fn new(status: u16, media_type: &str, body: impl Into<Bytes>, framing: Framing) -> Answer {
        let body = body.into();
        let headers = vec![("content-type".to_owned(), media_type.to_owned())];
        let length = body.len();
        Answer { status, headers, steps: vec![Step::Bytes(body)], framing, end: End::Whole, held: None, length }
    }

    /// JSON with a length.
    pub fn json(status: u16, body: impl Into<String>) -> Answer {
        Answer::new(status, "application/json", body.into(), Framing::Length)
    }

    /// An event stream under status 200, chunked.
    pub fn sse(body: impl Into<Bytes>) -> Answer {
        Answer::new(200, "text/event-stream", body, Framing::Chunked)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Answer {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Changes the framing.
    #[must_use]
    pub fn framed(mut self, framing: Framing) -> Answer {
        self.framing = framing;
        self
    }

    /// Changes the end.
    #[must_use]
    pub fn ending(mut self, end: End) -> Answer {
        self.end = end;
        self
    }

    /// Sends only the first `n` bytes of the body, then `end`.
    #[must_use]
    pub fn cut(mut self, n: usize, end: End) -> Answer {
        let mut left = n;
        for step in &mut self.steps {
            if let Step::Bytes(bytes) = step {
                bytes.truncate(left);
                left -= bytes.len();
            }
        }
        self.end = end;
        self
    }

    /// Holds back the whole answer, head included.
    #[must_use]
    pub fn held(mut self, gate: &Gate) -> Answer {
        self.held = Some(gate.clone());
        self
    }

    /// Puts a gate behind the first `n` bytes of the body.
    #[must_use]
    pub fn gate(mut self, n: usize, gate: &Gate) -> Answer {
        let (mut steps, mut before) = (Vec::new(), Some(n));
        for step in self.steps {
            match (step, before) {
                (Step::Bytes(mut bytes), Some(left)) if bytes.len() >= left => {
                    steps.push(Step::Bytes(bytes.split_to(left)));
                    steps.push(Step::Gate(gate.clone()));
                    steps.push(Step::Bytes(bytes));
                    before = None;
                }
                (step, left) => {
                    let length = if let Step::Bytes(bytes) = &step { bytes.len() } else { 0 };
                    before = left.map(|n| n - length);
                    steps.push(step);
                }
            }
        }
        assert!(before.is_none(), "the gate is at byte {n}, behind the body");
        self.steps = steps;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, End, Gate, Step};

    /// Bytes as text, gates as `|`.
    fn show(answer: &Answer) -> String {
        let step = |step: &Step| match step {
            Step::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Step::Gate(_) => "|".to_owned(),
        };
        answer.steps.iter().map(step).collect()
    }

    #[test]
    fn cuts_and_gates_are_at_their_byte() {
        let (answer, gate) = (Answer::json(200, "abcdef"), Gate::default());
        assert_eq!(show(&answer.clone().gate(0, &gate)), "|abcdef");
        assert_eq!(show(&answer.clone().gate(2, &gate).gate(4, &gate)), "ab|cd|ef");
        assert_eq!(show(&answer.clone().gate(6, &gate)), "abcdef|");
        assert_eq!(show(&answer.clone().gate(2, &gate).cut(3, End::Fin)), "ab|c");
        let cut = answer.cut(1, End::Reset);
        assert_eq!((show(&cut).as_str(), cut.end, cut.length), ("a", End::Reset, 6));
    }
}
