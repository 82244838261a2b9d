//! Durable appends through the store itself, beside the disk's flushes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use inspan_host::system::System;
use inspan_journal::{Append, FenceRule, Head, Journal, NewRecord, NewSession, State, blob, sqlite};
use inspan_wire::{SessionUid, v1};

use crate::disk::Disk;
use crate::frame::{Bar, Bench, Context, Failure, Row};
use crate::stats::{Turns, as_ms, median, percentile};

pub(crate) const ONE: Bench = Bench { name: "append-1", what: "durable appends, 1 KB, one writer", run: one };
pub(crate) const MANY: Bench = Bench { name: "append-256", what: "durable appends, 1 KB, 256 writers", run: many };

const EVENT_BYTES: usize = 1024;

fn one(context: &Context) -> Result<Vec<Row>, Failure> {
    let folder = context.fresh("append-1")?;
    let mut disk = Disk::in_folder(&folder)?;
    let mut writers = Writers::open(context, &folder, 1)?;
    let time = Duration::from_millis(context.size(700, 200) as u64);
    let turns = Turns::take(context.size(15, 2), || Ok(writers.write(context, time)?.rate), || disk.rate(time))?;
    Ok(vec![Row::paired(
        "durable appends, 1 KB, 1 writer / fdatasync rate",
        "records/s",
        median(&turns.figure),
        median(&turns.beside),
        turns.ratio(),
        Bar::AtLeast(0.75),
    )])
}

fn many(context: &Context) -> Result<Vec<Row>, Failure> {
    let folder = context.fresh("append-256")?;
    let mut disk = Disk::in_folder(&folder)?;
    let mut writers = Writers::open(context, &folder, 256)?;
    let time = Duration::from_millis(context.size(1_000, 300) as u64);
    let (mut appends_ms, mut flushes_ms) = (Vec::new(), Vec::new());
    let turns = Turns::take(
        context.size(11, 2),
        || {
            let written = writers.write(context, time)?;
            appends_ms.push(percentile(&written.took_ms, 0.99));
            Ok(written.rate)
        },
        || {
            let took = disk.flushes_ms(time)?;
            flushes_ms.push(percentile(&took, 0.99));
            Ok(took.len() as f64 * 1e3 / took.iter().sum::<f64>())
        },
    )?;
    let (p99, flush_p99) = (median(&appends_ms[1..]), median(&flushes_ms[1..]));
    Ok(vec![
        Row::paired(
            "durable appends, 1 KB, 256 writers / fdatasync rate",
            "records/s",
            median(&turns.figure),
            median(&turns.beside),
            turns.ratio(),
            Bar::AtLeast(10.0),
        ),
        Row::limit("the same, p99 of an append / fdatasync p99", "ms", p99, flush_p99, Bar::AtMost(30.0)),
    ])
}

/// Sessions that are written to at the same time, each by its own writer.
pub(crate) struct Writers {
    store: Arc<sqlite::Store>,
    heads: Vec<(SessionUid, Head)>,
    event: Bytes,
}

/// What a round of writing gave.
pub(crate) struct Written {
    /// Records in a second.
    pub(crate) rate: f64,
    /// How long each append took.
    pub(crate) took_ms: Vec<f64>,
}

impl Writers {
    /// A new store in `folder` with one session for each writer.
    pub(crate) fn open(context: &Context, folder: &Path, count: usize) -> Result<Writers, Failure> {
        let store = open(folder)?;
        let create = |n: usize| {
            let (store, uid) = (Arc::clone(&store), uid(n));
            async move {
                store.create(new_session(uid.clone())).await?;
                Ok((uid, Head::default()))
            }
        };
        let heads = context.all((0..count).map(create).collect())?;
        let event = Bytes::from(format!("{{\"text\":\"{}\"}}", "x".repeat(EVENT_BYTES - 11)));
        Ok(Writers { store, heads, event })
    }

    /// Every writer appends one record after another for `time`.
    pub(crate) fn write(&mut self, context: &Context, time: Duration) -> Result<Written, Failure> {
        let began = Instant::now();
        let tasks = self.heads.iter().map(|(uid, head)| {
            let (store, uid, event, mut head) = (Arc::clone(&self.store), uid.clone(), self.event.clone(), *head);
            async move {
                let mut took = Vec::new();
                while began.elapsed() < time {
                    let one = Instant::now();
                    head = append(&store, &uid, head, event.clone()).await?;
                    took.push(as_ms(one.elapsed()));
                }
                Ok((head, took))
            }
        });
        let done = context.all(tasks.collect())?;
        let elapsed = began.elapsed().as_secs_f64();
        let mut took_ms = Vec::new();
        for ((_, head), (new_head, took)) in self.heads.iter_mut().zip(done) {
            *head = new_head;
            took_ms.extend(took);
        }
        Ok(Written { rate: took_ms.len() as f64 / elapsed, took_ms })
    }
}

async fn append(store: &sqlite::Store, uid: &SessionUid, head: Head, event: Bytes) -> Result<Head, Failure> {
    let record = NewRecord::seal(head.seq + 1, head.hash, event);
    let new_head = Head { seq: record.seq, hash: Some(record.content_hash) };
    let append = Append {
        session: uid.clone(),
        expect_head: head.seq,
        fence: FenceRule::Held(1),
        records: vec![record],
        turn: None,
        state: State::default(),
        requests: Vec::new(),
        blobs: Vec::new(),
        keys: Vec::new(),
    };
    store.append(append).await?;
    Ok(new_head)
}

/// A store in `folder` as the host opens it.
pub(crate) fn open(folder: &Path) -> Result<Arc<sqlite::Store>, Failure> {
    let blobs = Arc::new(blob::Memory::new());
    let options = sqlite::Options::new(crate::host::journal_file(folder), blobs, Arc::new(System));
    Ok(Arc::new(sqlite::Store::open(options)?))
}

pub(crate) fn uid(n: usize) -> SessionUid {
    SessionUid::new(format!("sess-{n:024x}"))
}

pub(crate) fn new_session(uid: SessionUid) -> NewSession {
    let metadata = v1::ResourceMetadata { project: "default".into(), ..Default::default() };
    let info = v1::Session { metadata: Some(metadata), harness: "echo".into(), ..Default::default() };
    NewSession { uid, info, state: State::default() }
}
