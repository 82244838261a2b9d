//! A store of a million sessions: opening it, and an idle host on it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use inspan_journal::Journal;

use crate::frame::{Bar, Bench, Context, Failure, Row};
use crate::host::Host;
use crate::rows::appends::{new_session, open, uid};
use crate::stats::{Turns, median, ms};

pub(crate) const BENCH: Bench = Bench {
    name: "open",
    what: "opening a store of 1,000,000 sessions beside an empty one; an idle host's memory",
    run,
};

const HOST_MB_MAX: f64 = 60.0;
/// Long enough for whatever a host does after its start.
const IDLE: Duration = Duration::from_secs(2);

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let (full, empty) = (context.fresh("open-full")?, context.fresh("open-empty")?);
    fill(context, &full, context.size(1_000_000, 20_000))?;
    open(&empty)?;
    let open_ms = |folder: &Path| ms(|| open(folder).map(drop));
    let turns = Turns::take(context.size(15, 3), || open_ms(&full), || open_ms(&empty))?;
    let resident = context.block_on(async {
        let host = Host::start(context, &full, &[]).await?;
        tokio::time::sleep(IDLE).await;
        host.memory_mb("VmRSS")
    })?;
    let (figure, beside) = (median(&turns.figure), median(&turns.beside));
    let name = "opening a store of 1,000,000 sessions / an empty one";
    Ok(vec![
        Row::paired(name, "ms", figure, beside, turns.ratio(), Bar::AtMost(3.0)),
        Row::limit("idle host on 1,000,000 sessions / 60 MB", "MB", resident, HOST_MB_MAX, Bar::AtMost(1.0)),
    ])
}

/// Creates `count` sessions, many at a time so that they share commits.
fn fill(context: &Context, folder: &Path, count: usize) -> Result<(), Failure> {
    const AT_ONCE: usize = 4096;
    let store = open(folder)?;
    let lane = |lane: usize| {
        let store = Arc::clone(&store);
        async move {
            for n in (lane..count).step_by(AT_ONCE) {
                store.create(new_session(uid(n))).await?;
            }
            Ok(())
        }
    };
    context.all((0..AT_ONCE).map(lane).collect()).map(drop)
}
