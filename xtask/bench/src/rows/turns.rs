//! Echo turns over gRPC: one client beside what its flushes and round trips cost, and many clients beside
//! the journal alone.

use std::time::{Duration, Instant};

use crate::disk::Disk;
use crate::frame::{Bar, Bench, Context, Failure, Row};
use crate::host::{Host, create, grow, health, turn};
use crate::lean::Crowd;
use crate::rows::appends::Writers;
use crate::stats::{Turns, as_ms, median};

pub(crate) const ONE: Bench = Bench { name: "turn-1", what: "an echo turn over gRPC, one client", run: one };
pub(crate) const MANY: Bench = Bench { name: "turn-64", what: "echo turns over gRPC, 64 clients", run: many };
pub(crate) const LONG: Bench =
    Bench { name: "turn-long", what: "a turn on a session of 100,000 records beside one of 10", run: long };

fn one(context: &Context) -> Result<Vec<Row>, Failure> {
    let folder = context.fresh("turn-1")?;
    let mut disk = Disk::in_folder(&folder)?;
    let (mut turns, mut calls, mut flushes) = (Vec::new(), Vec::new(), Vec::new());
    context.block_on(async {
        let host = Host::start(context, &folder, &[]).await?;
        let mut sessions = host.sessions().await?;
        let mut probe = host.health().await?;
        let session = create(&mut sessions, "").await?;
        for round in 0..context.size(1_000, 50) {
            let began = Instant::now();
            turn(&mut sessions, &session, 1).await?;
            let turned = Instant::now();
            health(&mut probe).await?;
            let called = Instant::now();
            let flush = disk.flush_ms()?;
            // The first rounds warm caches on both sides.
            if round >= 20 {
                turns.push(as_ms(turned - began));
                calls.push(as_ms(called - turned));
                flushes.push(flush);
            }
        }
        Ok::<(), Failure>(())
    })?;
    let beside = 4.0 * median(&flushes) + 4.0 * median(&calls);
    let name = "echo turn over gRPC, 1 client, p50 / 4 fdatasyncs + 4 bare round trips";
    Ok(vec![Row::limit(name, "ms", median(&turns), beside, Bar::AtMost(1.0))])
}

fn many(context: &Context) -> Result<Vec<Row>, Failure> {
    const CLIENTS: usize = 64;
    let (served, raw) = (context.fresh("turn-64")?, context.fresh("turn-64-raw")?);
    let time = Duration::from_millis(context.size(2_000, 300) as u64);
    let (host, sessions) = context.block_on(async {
        let host = Host::start(context, &served, &[]).await?;
        let mut creates = host.sessions().await?;
        let mut sessions = Vec::new();
        for _ in 0..CLIENTS {
            sessions.push(create(&mut creates, "").await?);
        }
        Ok::<_, Failure>((host, sessions))
    })?;
    let clients = Crowd::connect(host.address(), CLIENTS)?;
    let mut writers = Writers::open(context, &raw, CLIENTS)?;
    let turns = Turns::take(
        context.size(7, 2),
        || clients.turns_for(&sessions, time),
        || Ok(writers.write(context, time)?.rate),
    )?;
    drop(host);
    let name = "echo turns over gRPC, 64 clients / raw appends, 64 writers";
    let (figure, beside) = (median(&turns.figure), median(&turns.beside));
    Ok(vec![Row::paired(name, "records/s", figure, beside, turns.ratio(), Bar::AtLeast(0.4))])
}

fn long(context: &Context) -> Result<Vec<Row>, Failure> {
    let folder = context.fresh("turn-long")?;
    let (mut on_long, mut on_short) = (Vec::new(), Vec::new());
    context.block_on(async {
        let host = Host::start(context, &folder, &[]).await?;
        let mut client = host.sessions().await?;
        let session = create(&mut client, "").await?;
        grow(&mut client, &session, context.size(100_000, 5_000)).await?;
        for round in 0..context.size(300, 30) {
            let short = create(&mut client, "").await?;
            turn(&mut client, &short, 1).await?;
            turn(&mut client, &short, 1).await?;
            let began = Instant::now();
            turn(&mut client, &short, 1).await?;
            let between = Instant::now();
            turn(&mut client, &session, 1).await?;
            if round >= 10 {
                on_short.push(as_ms(between - began));
                on_long.push(as_ms(between.elapsed()));
            }
        }
        Ok::<(), Failure>(())
    })?;
    let name = "turn on a session of 100,000 records, p50 / on one of 10";
    Ok(vec![Row::limit(name, "ms", median(&on_long), median(&on_short), Bar::AtMost(1.2))])
}
