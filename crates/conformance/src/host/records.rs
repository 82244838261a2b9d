//! The records of a turn, and whoever reads them again.

use inspan_wire::v1::{self, EventKind, event::Body, exec_update::Update};
use inspan_wire::{Digest, canon, inspan_v1};
use tonic::{Code, Status};

use super::client::{ensure, event, kind, said, wrong};
use super::sessions::NOBODY;
use super::turns::dense;
use super::{Bench, Found, Main};
use crate::Verdict;

pub(super) async fn judge(bench: &Bench<'_>, main: &Main, found: &mut Found) {
    let records = main.turn.records();
    if records.is_empty() {
        return;
    }
    found.push(("model-record", model_records(&records)));
    found.push(("plain-records", Verdict::of(plain(&records))));
    found.push(("hashes", Verdict::of(hashes(&records))));
    found.push(("links", Verdict::of(links(&records))));
    found.push(("replay-same", Verdict::of(same(bench, main).await)));
    found.push(("replay-range", Verdict::of(range(bench, main).await)));
    found.push(("replay-unknown", Verdict::of(unknown(bench).await)));
    found.push(("durable-first", Verdict::of(durable_first(bench).await)));
    found.push(("watch", watch(bench, main).await));
}

fn model_records(records: &[&v1::LogRecord]) -> Verdict {
    let mut seen = 0;
    for record in records {
        let Some(Body::Model(call)) = event(record).body else { continue };
        seen += 1;
        let bare = v1::ModelCall {
            model: call.model.clone(),
            input_hash: call.input_hash.clone(),
            id: call.id.clone(),
            ..Default::default()
        };
        let is_hash = call.input_hash.len() == 64
            && call.input_hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if call != bare {
            return Verdict::failed(format!("record {} holds more of the request", record.seq));
        }
        if !is_hash {
            return Verdict::failed(format!("record {} has the input hash {:?}", record.seq, call.input_hash));
        }
        if call.id.is_empty() {
            return Verdict::failed(format!("record {} has no id", record.seq));
        }
    }
    match seen {
        0 => Verdict::skipped("the turn asked no model"),
        n => Verdict::passed(format!("{n} model calls")),
    }
}

fn plain(records: &[&v1::LogRecord]) -> Result<String, String> {
    for record in records.iter().filter(|record| kind(record) != EventKind::EventApprovalResult) {
        let event = event(record);
        ensure(event.ts.is_none() && event.schema_version == 0 && event.actor.is_none(), || {
            format!("record {} carries a time, a version or an actor", record.seq)
        })?;
    }
    Ok(format!("{} records", records.len()))
}

/// The hash that a record should have over its own link; what is wrong when it has none.
fn hash_of(record: &v1::LogRecord) -> Result<String, String> {
    let bad = |what: &str| format!("record {} has {what}", record.seq);
    let prev = match record.prev_hash.as_str() {
        "" => None,
        hex => Some(hex.parse::<Digest>().map_err(|_| bad("a link that is no hash"))?),
    };
    let canonical = canon::event(&event(record)).map_err(|e| bad(&format!("no canonical form: {e}")))?;
    Ok(canon::content_hash(prev, record.seq, &canonical).to_string())
}

/// R-HASH-1: each record by itself.
pub(super) fn hashes(records: &[&v1::LogRecord]) -> Result<String, String> {
    for record in records {
        let due = hash_of(record)?;
        ensure(record.content_hash == due, || {
            format!(
                "record {} says {:.12}… and {due:.12}… is the hash of what it says",
                record.seq, record.content_hash
            )
        })?;
    }
    Ok(format!("{} hashes made again", records.len()))
}

/// R-HASH-8: each record to the one before it. The link may be to the hash that the other one should have: a wrong hash is not a
/// wrong link.
pub(super) fn links(records: &[&v1::LogRecord]) -> Result<String, String> {
    if let Some(first) = records.first().filter(|record| record.seq == 1) {
        ensure(first.prev_hash.is_empty(), || "record 1 is linked to something".to_owned())?;
    }
    for pair in records.windows(2) {
        let [before, record] = pair else { continue };
        if before.seq + 1 != record.seq {
            continue;
        }
        let fits = record.prev_hash == before.content_hash || hash_of(before).is_ok_and(|due| record.prev_hash == due);
        ensure(fits, || format!("record {} is not linked to the hash of record {}", record.seq, before.seq))?;
    }
    Ok(format!("{} links", records.len().saturating_sub(1)))
}

async fn same(bench: &Bench<'_>, main: &Main) -> Result<String, String> {
    let told = main.turn.records();
    let read = wrong("Replay", bench.client.replay(&main.uid, 0, 0).await)?;
    dense(&read.iter().collect::<Vec<_>>(), 1)?;
    for record in &told {
        match read.iter().find(|r| r.seq == record.seq) {
            None => return Err(format!("record {} of Exec is not there", record.seq)),
            Some(other) => {
                let is_same = (&other.event, &other.content_hash, &other.prev_hash)
                    == (&record.event, &record.content_hash, &record.prev_hash);
                ensure(is_same, || format!("record {} is not the one that Exec gave", record.seq))?;
            }
        }
    }
    let head = told.last().map_or(0, |record| record.seq);
    ensure(read.len() as i64 <= head, || format!("{} records are read and the turn ended at {head}", read.len()))?;
    Ok(format!("{} records", read.len()))
}

async fn range(bench: &Bench<'_>, main: &Main) -> Result<String, String> {
    let whole = wrong("Replay", bench.client.replay(&main.uid, 1, 0).await)?;
    let head = whole.last().map_or(0, |record| record.seq);
    for (from, to) in [(2, 3), (2, 0), (-5, 2), (1, 1), (head, head)] {
        let part = wrong("Replay", bench.client.replay(&main.uid, from, to).await)?;
        let last = if to == 0 { head } else { to };
        let due: Vec<_> = whole.iter().filter(|r| r.seq >= from && r.seq <= last).collect();
        let seqs: Vec<_> = part.iter().map(|r| r.seq).collect();
        ensure(part.iter().collect::<Vec<_>>() == due, || format!("{from} to {to} gives {seqs:?}"))?;
    }
    Ok("five ranges".to_owned())
}

async fn unknown(bench: &Bench<'_>) -> Result<String, String> {
    match bench.client.replay(NOBODY, 0, 0).await {
        Ok(records) if records.is_empty() => Ok("an empty stream".to_owned()),
        Ok(records) => Err(format!("{} records of nobody", records.len())),
        Err(status) if status.code() == Code::NotFound => Ok("NotFound".to_owned()),
        Err(status) => Err(said(&status)),
    }
}

/// R-LIVE-2: reads each record as soon as Exec shows it.
async fn durable_first(bench: &Bench<'_>) -> Result<String, String> {
    let main = wrong("CreateSession", bench.create("durable").await)?;
    let uid = super::client::uid(&main).to_owned();
    let request = bench.turn(&uid, &bench.options.input);
    let client = &bench.client;
    let mut stream = wrong("Exec", client.bounded(client.sessions.clone().exec(request)).await)?;
    let mut seen = 0;
    loop {
        let next = async { stream.message().await.map(tonic::Response::new) };
        let Some(update) = wrong("Exec", client.bounded(next).await)? else { break };
        let Some(Update::Record(record)) = update.update else { continue };
        let read = wrong("Replay", client.replay(&uid, record.seq, record.seq).await)?;
        ensure(read.iter().any(|r| r.event == record.event), || {
            format!("record {} was shown before it could be read", record.seq)
        })?;
        seen += 1;
    }
    Ok(format!("{seen} records read as they were shown"))
}

async fn watch(bench: &Bench<'_>, main: &Main) -> Verdict {
    let records = match bench.client.replay(&main.uid, 0, 0).await {
        Ok(records) => records,
        Err(status) => return Verdict::skipped(format!("there is nothing to compare with: {}", said(&status))),
    };
    match tokio::time::timeout(bench.options.patience, watched(bench, main, records.len())).await {
        Ok(Err(status)) if status.code() == Code::Unimplemented => {
            Verdict::skipped("the host does not serve inspan.v1.Journal")
        }
        Ok(Err(status)) => Verdict::failed(said(&status)),
        Err(_) => Verdict::failed(format!(
            "{} records did not come within {} s",
            records.len(),
            bench.options.patience.as_secs()
        )),
        Ok(Ok(seen)) => {
            let due: Vec<_> = records.iter().map(|r| (r.seq, r.content_hash.clone())).collect();
            if seen == due {
                Verdict::passed(format!("{} records", seen.len()))
            } else {
                Verdict::failed(format!("{} records of {} came as Replay has them", seen.len(), due.len()))
            }
        }
    }
}

async fn watched(bench: &Bench<'_>, main: &Main, count: usize) -> Result<Vec<(i64, String)>, Status> {
    let request = inspan_v1::WatchRequest { session: main.uid.clone(), from_seq: 1, records_only: true };
    let mut stream = bench.client.journal.clone().watch(request).await?.into_inner();
    let mut seen = Vec::new();
    while seen.len() < count {
        match stream.message().await?.and_then(|update| update.update) {
            Some(inspan_v1::watch_update::Update::Record(record)) => seen.push((record.seq, record.content_hash)),
            Some(_) => {}
            None => break,
        }
    }
    Ok(seen)
}
