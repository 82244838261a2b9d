//! Sessions to export, with everything that an export can hold.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use inspan_journal::export::{Fold, Imported, export, import};
use inspan_journal::{
    Append, Blobs, Clock, FenceRule, Fork, ForkChild, Journal, KeptRequest, NewRecord, NewSession, State, TurnMark,
    blob, memory,
};
use inspan_wire::v1::{self, EventKind, event::Body, file_part::Source, part};
use inspan_wire::{Digest, SessionUid, canon};

/// A clock that moves by a millisecond and a bit whenever somebody looks.
struct Ticks(AtomicI64);

impl Clock for Ticks {
    fn now_ns(&self) -> i64 {
        self.0.fetch_add(1_234_567, Ordering::Relaxed)
    }
}

pub(crate) struct Stage {
    pub(crate) journal: memory::Store,
    pub(crate) blobs: Arc<blob::Memory>,
    files: [usize; 2],
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::with_files([50, 30])
    }

    /// A stage whose conversations have files of these sizes.
    pub(crate) fn with_files(files: [usize; 2]) -> Stage {
        let blobs = Arc::new(blob::Memory::new());
        let clock = Arc::new(Ticks(AtomicI64::new(1_700_000_000_000_000_000)));
        Stage { journal: memory::Store::new(Arc::clone(&blobs) as Arc<dyn Blobs>, clock), blobs, files }
    }

    pub(crate) async fn create(&self, uid: &str) -> SessionUid {
        let uid = SessionUid::from(uid);
        let metadata = v1::ResourceMetadata { project: "p".into(), name: "n".into(), ..Default::default() };
        let labels = [("k".to_owned(), "v é".to_owned())].into();
        let info = v1::Session { metadata: Some(metadata), harness: "echo".into(), labels, ..Default::default() };
        let session = NewSession { uid: uid.clone(), info, state: Counter::default().state() };
        self.journal.create(session).await.expect("a new session");
        uid
    }

    /// Appends one event as its writer would.
    pub(crate) async fn append(&self, uid: &SessionUid, event: &v1::Event, request: Option<&str>, blobs: Vec<Digest>) {
        let session = self.journal.session(uid).await.expect("readable").expect("there");
        let event = Bytes::from(canon::event(event).expect("canonical"));
        let record = NewRecord::seal(session.head.seq + 1, session.head.hash, event);
        let kept = |text: &str| KeptRequest { digest: Digest::of(text.as_bytes()), text: text.into(), base: None };
        let append = Append {
            session: uid.clone(),
            expect_head: session.head.seq,
            fence: FenceRule::Next,
            records: vec![record],
            turn: None,
            state: session.state,
            requests: request.map(kept).into_iter().collect(),
            blobs,
            keys: Vec::new(),
        };
        self.journal.append(append).await.expect("appended");
    }

    /// Turns of start, input, model call with its kept request, output, end; the first output has two
    /// large files, one of them again in the second.
    pub(crate) async fn conversation(&self, uid: &SessionUid, turns: usize) {
        self.turns(uid, 0..turns).await;
    }

    /// Those turns of a conversation; from the third on they have no files.
    pub(crate) async fn turns(&self, uid: &SessionUid, turns: std::ops::Range<usize>) {
        let mut request = r#"{"Model":"m","Messages":["#.to_owned();
        for turn in turns {
            let id = format!("{turn:016x}");
            let start = v1::ExecutionStart { input_count: Some(1), harness: "echo".into(), ..Default::default() };
            let event = v1::Event::new(&id, EventKind::EventExecutionStart, Body::ExecutionStart(start));
            self.append(uid, &event, None, vec![]).await;
            let input = v1::Message::text("user", format!("frage {turn} — \"naïve\" 😀\n"));
            self.append(uid, &v1::Event::new(&id, EventKind::EventInput, Body::Message(input)), None, vec![]).await;
            request.push_str(&format!(r#"{{"Role":"user","Turn":{turn},"é":"😀"}}"#));
            let text = format!(r#"{request}],"Params":null}}"#);
            request.push(',');
            let input_hash = Digest::of(text.as_bytes()).to_string();
            let call = v1::ModelCall { model: "m".into(), input_hash, id: id.clone(), ..Default::default() };
            let event = v1::Event::new(&id, EventKind::EventModelCall, Body::Model(call));
            self.append(uid, &event, Some(&text), vec![]).await;
            let (output, blobs) = self.output(turn).await;
            self.append(uid, &v1::Event::new(&id, EventKind::EventOutput, Body::Message(output)), None, blobs).await;
            let end = v1::HarnessEnd { state: "COMPLETED".into(), error: None };
            self.append(uid, &v1::Event::new(&id, EventKind::EventEnd, Body::End(end)), None, vec![]).await;
        }
    }

    async fn output(&self, turn: usize) -> (v1::Message, Vec<Digest>) {
        let mut message = v1::Message::text("assistant", format!("antwort {turn}"));
        let sizes = match turn {
            0 => &self.files[..],
            1 => &self.files[1..],
            _ => &[],
        };
        let mut blobs = Vec::new();
        for size in sizes {
            let bytes: Vec<u8> = (0..*size).map(|i| u8::try_from(i * i % 251).expect("below 251")).collect();
            let digest = self.journal.blobs().put(bytes.into()).await.expect("kept");
            blobs.push(digest);
            message.parts.push(file(digest));
        }
        (message, blobs)
    }

    pub(crate) async fn fork(&self, parent: &SessionUid, at_seq: i64, child: &str) -> SessionUid {
        let shared = self.journal.records(parent, at_seq, at_seq, 1).await.expect("readable");
        let lifecycle = v1::Lifecycle {
            kind: v1::lifecycle::Kind::LifecycleFork.into(),
            detail: format!("parent@{at_seq}"),
            ..Default::default()
        };
        let event = Bytes::from(canon::event(&v1::Event::lifecycle(lifecycle)).expect("canonical"));
        let marker = NewRecord::seal(at_seq + 1, Some(shared[0].content_hash), event);
        let uid = SessionUid::from(child);
        let session = NewSession { uid: uid.clone(), info: v1::Session::default(), state: State::default() };
        let fork = Fork { parent: parent.clone(), at_seq, children: vec![ForkChild { session, marker }] };
        self.journal.fork(fork).await.expect("forked");
        uid
    }

    pub(crate) async fn export(&self, uid: &SessionUid) -> Vec<u8> {
        let mut file = Vec::new();
        export(&self.journal, uid, &mut file).await.expect("exported");
        file
    }

    pub(crate) async fn import(&self, file: &[u8]) -> Imported {
        import(&self.journal, Cursor::new(file.to_vec()), None, Counter::default()).await.expect("imported")
    }
}

pub(crate) fn file(digest: Digest) -> v1::Part {
    let source = Some(Source::Uri(inspan_wire::blob::uri(digest)));
    let digest = format!("sha256:{digest}");
    v1::Part { part: Some(part::Part::File(v1::FilePart { mime: "x/y".into(), digest, source, ..Default::default() })) }
}

/// Counts records, and marks a turn at every start.
#[derive(Default)]
pub(crate) struct Counter(pub(crate) i64);

impl Fold for Counter {
    fn step(&mut self, seq: i64, event: &v1::Event) -> Option<TurnMark> {
        let before = self.state();
        self.0 += 1;
        assert_eq!(self.0, seq, "records come in order");
        let execution_id = event.execution_id.clone();
        let starts = event.kind() == EventKind::EventExecutionStart;
        starts.then_some(TurnMark { execution_id, first_seq: seq, before })
    }

    fn state(&self) -> State {
        State { scan: Bytes::from(self.0.to_string()), ..State::default() }
    }
}
