//! Durable appends per second beside what the disk alone can flush.
//!
//! `append_bench [folder] [seconds]` appends records of 1 KB from 1, 16, 64 and 256 writers, each to
//! its own session, and prints records/s and the latency of an append; the first line is a loop of
//! 4 KiB appends with fdatasync, the limit of one writer.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench measures time and a disk")]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use inspan_journal::{Append, Clock, FenceRule, Head, Journal, NewRecord, NewSession, State, blob, sqlite};
use inspan_wire::{SessionUid, v1};

struct WallClock;

impl Clock for WallClock {
    fn now_ns(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
    }
}

struct Figures {
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().unwrap_or_else(|| "target".to_owned());
    let seconds = args.next().and_then(|s| s.parse().ok()).unwrap_or(5);
    let time = Duration::from_secs(seconds);
    let folder = tempfile::tempdir_in(folder).expect("the folder can be written");
    let disk = flushes(folder.path(), time);
    row("4 KiB append + fdatasync", &disk, &disk);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    for writers in [1, 16, 64, 256] {
        let figures = runtime.block_on(appends(folder.path(), writers, time));
        row(&format!("appends, {writers} writers"), &figures, &disk);
    }
}

fn row(name: &str, figures: &Figures, disk: &Figures) {
    println!(
        "{name:26} {:9.0}/s  p50 {:9.3} ms  p99 {:9.3} ms  {:6.2} of the flush rate, {:6.1} of its p99",
        figures.per_second,
        figures.p50.as_secs_f64() * 1e3,
        figures.p99.as_secs_f64() * 1e3,
        figures.per_second / disk.per_second,
        figures.p99.as_secs_f64() / disk.p99.as_secs_f64(),
    );
}

fn flushes(folder: &Path, time: Duration) -> Figures {
    let mut file = File::create(folder.join("flushes")).expect("a file");
    let start = Instant::now();
    let mut taken = Vec::new();
    while start.elapsed() < time {
        let one = Instant::now();
        file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).expect("a flush");
        taken.push(one.elapsed());
    }
    figures(taken, start.elapsed())
}

async fn appends(folder: &Path, writers: usize, time: Duration) -> Figures {
    let path = folder.join(format!("journal-{writers}.db"));
    let options = sqlite::Options::new(path, Arc::new(blob::Memory::new()), Arc::new(WallClock));
    let store = Arc::new(sqlite::Store::open(options).expect("a store"));
    let start = Instant::now();
    let writers = (0..writers).map(|n| tokio::spawn(write(Arc::clone(&store), n, start, time)));
    let mut taken = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        taken.extend(writer.await.expect("a writer"));
    }
    figures(taken, start.elapsed())
}

async fn write(store: Arc<sqlite::Store>, n: usize, start: Instant, time: Duration) -> Vec<Duration> {
    let uid = SessionUid::from(format!("sess-{n:024x}").as_str());
    let state = State { scan: Bytes::from_static(&[7; 64]), ..State::default() };
    let new = NewSession { uid: uid.clone(), info: v1::Session::default(), state: state.clone() };
    store.create(new).await.expect("a session");
    let event = Bytes::from(format!("{{\"text\":\"{}\"}}", "x".repeat(1024 - 11)));
    let mut head = Head::default();
    let mut taken = Vec::new();
    while start.elapsed() < time {
        let one = Instant::now();
        let record = NewRecord::seal(head.seq + 1, head.hash, event.clone());
        let next = Head { seq: record.seq, hash: Some(record.content_hash) };
        let append = Append {
            session: uid.clone(),
            expect_head: head.seq,
            fence: FenceRule::Held(1),
            records: vec![record],
            turn: None,
            state: state.clone(),
            requests: Vec::new(),
            blobs: Vec::new(),
        };
        store.append(append).await.expect("an append");
        head = next;
        taken.push(one.elapsed());
    }
    taken
}

fn figures(mut taken: Vec<Duration>, elapsed: Duration) -> Figures {
    taken.sort_unstable();
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize];
    Figures { per_second: taken.len() as f64 / elapsed.as_secs_f64(), p50: at(0.5), p99: at(0.99) }
}
