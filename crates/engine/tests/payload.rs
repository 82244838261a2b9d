//! Large payloads: out of the record, whole for the harness.

mod support;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use inspan_engine::Code;
use inspan_harness::{Failure, Harness, ModelRequest, Sink, Start};
use inspan_testkit::harness::Moves;
use inspan_wire::v1::{self, event::Body, file_part::Source, part::Part as P, reasoning_part::Opaque};
use inspan_wire::{Digest, parse};
use support::{Answer, World, request};

/// Sends its inputs and its whole history to the model, and fails the first time it has an answer.
#[derive(Default)]
struct Courier {
    got: Mutex<Vec<Vec<v1::Message>>>,
    fails: Mutex<u32>,
}

#[inspan_harness::async_trait]
impl Harness for Courier {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        Moves::default().describe().await
    }

    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        let mut messages = Vec::new();
        let mut reader = start.history.reader();
        loop {
            let page = reader.next_page().await?;
            if page.is_empty() {
                break;
            }
            messages.extend(page.iter().filter_map(|e| match &e.body {
                Some(Body::Message(m)) => Some(m.clone()),
                _ => None,
            }));
        }
        messages.extend(start.inputs);
        let answer = sink
            .model(ModelRequest { model: "m".to_owned(), messages: messages.clone(), ..Default::default() })
            .await?;
        messages.push(answer.message);
        self.got.lock().unwrap().push(messages);
        let mut fails = self.fails.lock().unwrap();
        if *fails > 0 {
            *fails -= 1;
            return Err(Failure::Failed("once".to_owned()));
        }
        Ok(())
    }
}

fn file(bytes: Vec<u8>, digest: &str) -> v1::Message {
    let file = v1::FilePart {
        mime: "image/png".to_owned(),
        source: Some(Source::Bytes(Bytes::from(bytes))),
        digest: digest.to_owned(),
        ..Default::default()
    };
    v1::Message { role: "user".to_owned(), parts: vec![v1::Part { part: Some(P::File(file)) }] }
}

fn thought(len: usize) -> v1::Message {
    let reasoning = v1::ReasoningPart {
        provider: "p".to_owned(),
        opaque: Some(Opaque::OpaqueBytes(Bytes::from(vec![9; len]))),
        ..Default::default()
    };
    v1::Message {
        role: "assistant".to_owned(),
        parts: vec![v1::Part { part: Some(P::Reasoning(reasoning)) }, v1::Part::text("done")],
    }
}

/// The harness sees the same value live, on resume and on replay; the record names the blob by uri and digest.
#[tokio::test]
async fn the_harness_sees_the_payload_itself() {
    let courier = Arc::new(Courier { fails: Mutex::new(1), ..Default::default() });
    let w = World::with(courier.clone(), false);
    let s = w.create().await;
    let picture = vec![7_u8; 100_000];
    let own = format!("sha256:{}", Digest::of(&picture));
    w.model.then([Answer::Say(thought(80_000)), Answer::Say(thought(10))]);
    let turn = v1::ExecRequest { inputs: vec![file(picture.clone(), &own)], ..request(&s, "") };
    w.exec_request(turn).await.unwrap_err();
    w.restart().engine.resume(&s).await.unwrap();
    w.restart().exec(&s, "and now?").await.unwrap();
    w.restart().engine.rerun(&s).await.unwrap();

    let got = courier.got.lock().unwrap().clone();
    assert_eq!(got.len(), 5);
    assert_eq!(got[0], [file(picture.clone(), ""), thought(80_000)]);
    assert_eq!(got[1], got[0], "resumed");
    assert_eq!(got[3], got[0], "replayed");
    assert_eq!(got[2][..2], got[0][..], "in history");
    assert_eq!(got[4], got[2]);
    assert_eq!(w.model.count(), 2);

    let records = w.records(&s).await;
    let Some(Body::Message(m)) = parse::event(&records[1].event).unwrap().body else { panic!("no input") };
    let Some(P::File(f)) = &m.parts[0].part else { panic!("no file") };
    assert_eq!((&f.source, &f.digest), (&Some(Source::Uri(format!("inspan-blob:{own}"))), &own));
    assert!(records.iter().all(|r| r.event.len() < 2000));
    assert!(w.journal.names_blob(&s, Digest::of(&picture)).await.unwrap());
}

/// The payload of a missing blob is an error that names it, never an empty value.
#[tokio::test]
async fn a_missing_payload_is_named() {
    let courier = Arc::new(Courier { fails: Mutex::new(1), ..Default::default() });
    let w = World::with(courier, false);
    let s = w.create().await;
    let turn = v1::ExecRequest { inputs: vec![file(vec![7; 100_000], "")], ..request(&s, "") };
    w.exec_request(turn).await.unwrap_err();
    let digest = Digest::of(&vec![7; 100_000]);
    w.journal.blobs().remove(digest).await.unwrap();
    let e = w.restart().engine.resume(&s).await.unwrap_err();
    assert_eq!(e.code(), Code::FailedPrecondition);
    assert!(e.to_string().contains(&digest.to_string()), "{e}");
}

/// A caller cannot name a blob of another session.
#[tokio::test]
async fn a_blob_uri_from_outside_is_refused() {
    let w = World::new();
    let s = w.create().await;
    let mut message = file(Vec::new(), "");
    if let Some(P::File(f)) = &mut message.parts[0].part {
        f.source = Some(Source::Uri(format!("inspan-blob:sha256:{}", Digest::of(b"x"))));
    }
    let turn = v1::ExecRequest { inputs: vec![message], ..request(&s, "") };
    assert_eq!(w.exec_request(turn).await.unwrap_err().code(), Code::InvalidArgument);
    assert!(w.records(&s).await.is_empty());
}
