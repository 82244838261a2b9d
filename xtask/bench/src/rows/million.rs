//! A session of a million records: everything but reading all of it takes its time and its memory from what is
//! asked, not from what there is.

use std::time::Instant;

use inspan_wire::{inspan_v1, v1};

use crate::frame::{Bar, Bench, Context, Failure, Row};
use crate::host::{Host, create, grow, journal_file, json_of};
use crate::stats::as_ms;

pub(crate) const BENCH: Bench = Bench {
    name: "million",
    what: "a session of 1,000,000 records after a restart: resume, fork, list, tail, turn, memory; verify",
    run,
};

const ANSWER_MS_MAX: f64 = 1_000.0;
const MEMORY_MB_MAX: f64 = 100.0;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let folder = context.fresh("million")?;
    let size = context.size(1_000_000, 20_000);
    let mut rows = Vec::new();
    let session = context.block_on(async {
        let host = Host::start(context, &folder, &[]).await?;
        let mut client = host.sessions().await?;
        let session = create(&mut client, "").await?;
        grow(&mut client, &session, size).await?;
        drop(host);
        // A host that knows nothing yet: whatever it needs of the million it must read now.
        let host = Host::start(context, &folder, &[]).await?;
        measure(&host, &session, &mut rows).await?;
        Ok::<_, Failure>(session)
    })?;
    rows.push(verify(context, &folder, &session)?);
    Ok(rows)
}

async fn measure(host: &Host, session: &str, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let mut client = host.sessions().await?;
    let mut push = |what: &str, began: Instant| {
        let name = format!("session of 1,000,000 records: {what} / 1 s");
        rows.push(Row::limit(&name, "ms", as_ms(began.elapsed()), ANSWER_MS_MAX, Bar::AtMost(1.0)));
    };
    let began = Instant::now();
    client.list_sessions(v1::ListSessionsRequest::default()).await?;
    push("list", began);

    let began = Instant::now();
    let state =
        client.resume(v1::ResumeRequest { session: session.to_owned(), ..Default::default() }).await?.into_inner();
    push("resume", began);

    let began = Instant::now();
    tail(host, session, state.last_seq).await?;
    push("tail", began);

    let began = Instant::now();
    client.fork(v1::ForkRequest { session: session.to_owned(), ..Default::default() }).await?;
    push("fork at the head", began);

    let began = Instant::now();
    let request = v1::ForkRequest { session: session.to_owned(), at_seq: state.last_seq / 2, ..Default::default() };
    client.fork(request).await?;
    push("fork in the middle", began);

    let began = Instant::now();
    crate::host::turn(&mut client, session, 1).await?;
    push("first turn", began);

    let name = "session of 1,000,000 records: peak memory of the host / 100 MB";
    rows.push(Row::limit(name, "MB", host.memory_mb("VmHWM")?, MEMORY_MB_MAX, Bar::AtMost(1.0)));
    Ok(())
}

/// Follows the session from ten records before its end up to its last one.
async fn tail(host: &Host, session: &str, last_seq: i64) -> Result<(), Failure> {
    let request = inspan_v1::WatchRequest { session: session.to_owned(), from_seq: last_seq - 9, ..Default::default() };
    let mut updates = host.journal().await?.watch(request).await?.into_inner();
    while let Some(update) = updates.message().await? {
        if let Some(inspan_v1::watch_update::Update::Record(record)) = update.update
            && record.seq >= last_seq
        {
            return Ok(());
        }
    }
    Err(Failure::new("the tail ended before the last record"))
}

/// The offline check of the whole session, by the command that users run.
fn verify(context: &Context, folder: &std::path::Path, session: &str) -> Result<Row, Failure> {
    const RECORDS_PER_SECOND_MIN: f64 = 250_000.0;
    let journal = journal_file(folder);
    let began = Instant::now();
    let said = json_of(context, &["verify", "--journal", &journal.to_string_lossy(), "--session", session, "--json"])?;
    let took = began.elapsed().as_secs_f64();
    let records = find_records(&said).ok_or_else(|| Failure::new(format!("verify does not count records: {said}")))?;
    let name = "verify / 250,000 records/s";
    Ok(Row::limit(name, "records/s", records / took, RECORDS_PER_SECOND_MIN, Bar::AtLeast(1.0)))
}

/// The member `records`: a number, or a 64-bit one as proto3-JSON writes it.
fn find_records(said: &serde_json::Value) -> Option<f64> {
    let records = said.get("records")?;
    records.as_f64().or_else(|| records.as_str()?.parse().ok())
}
