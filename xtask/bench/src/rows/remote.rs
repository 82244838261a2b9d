//! Turns on a harness in a process of its own, behind a Unix socket, beside turns on one in the host's process.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::frame::{Bar, Bench, Context, Failure, Row};
use crate::host::{Host, create, free_address, health, turn};
use crate::lean::Crowd;
use crate::stats::{Turns, as_ms, median};

pub(crate) const ONE: Bench =
    Bench { name: "remote-1", what: "an echo turn on a harness in another process, one client", run: one };
pub(crate) const MANY: Bench =
    Bench { name: "remote-64", what: "echo turns on a harness in another process, 64 sessions", run: many };

/// The name of the harness that is elsewhere.
const FAR: &str = "far";
const START_TIME_MAX: Duration = Duration::from_secs(20);

fn one(context: &Context) -> Result<Vec<Row>, Failure> {
    let folder = context.fresh("remote-1")?;
    let (mut far, mut near, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    context.block_on(async {
        let (_harness, host) = start(context, &folder).await?;
        let mut sessions = host.sessions().await?;
        let mut probe = host.health().await?;
        for round in 0..context.size(1_000, 50) {
            // Both are new: a start carries the whole history to a harness that is elsewhere.
            let (there, here) = (create(&mut sessions, FAR).await?, create(&mut sessions, "echo").await?);
            let began = Instant::now();
            turn(&mut sessions, &there, 1).await?;
            let between = Instant::now();
            turn(&mut sessions, &here, 1).await?;
            let turned = Instant::now();
            health(&mut probe).await?;
            // The first rounds warm caches on all sides.
            if round >= 20 {
                far.push(as_ms(between - began));
                near.push(as_ms(turned - between));
                calls.push(as_ms(turned.elapsed()));
            }
        }
        Ok::<(), Failure>(())
    })?;
    let name = "echo turn, harness behind a unix socket, p50 above in-process / 6 bare gRPC round trips";
    Ok(vec![Row::limit(name, "ms", median(&far) - median(&near), 6.0 * median(&calls), Bar::AtMost(1.0))])
}

fn many(context: &Context) -> Result<Vec<Row>, Failure> {
    const SESSIONS: usize = 64;
    let folder = context.fresh("remote-64")?;
    // Short, on new sessions each time: a start carries the whole history to a harness that is elsewhere.
    let time = Duration::from_millis(500);
    let (harness, host) = context.block_on(start(context, &folder))?;
    let clients = Crowd::connect(host.address(), SESSIONS)?;
    let round = |harness: &str| {
        let sessions = context.block_on(async {
            let mut creates = host.sessions().await?;
            let mut sessions = Vec::new();
            for _ in 0..SESSIONS {
                sessions.push(create(&mut creates, harness).await?);
            }
            Ok::<_, Failure>(sessions)
        })?;
        clients.turns_for(&sessions, time)
    };
    let turns = Turns::take(context.size(20, 2), || round(FAR), || round("echo"))?;
    drop((host, harness));
    let name = "echo turns, 64 sessions, harness behind a unix socket / in-process";
    let (figure, beside) = (median(&turns.figure), median(&turns.beside));
    Ok(vec![Row::paired(name, "records/s", figure, beside, turns.ratio(), Bar::AtLeast(0.5))])
}

/// A host, and the echo harness of the same binary in a process beside it.
async fn start(context: &Context, folder: &Path) -> Result<(Harness, Host), Failure> {
    // A socket's path is short: it does not go into the bench's own folder.
    let place = tempfile::Builder::new().prefix("inspan-bench-").tempdir()?;
    let address = format!("unix:{}", place.path().join("h.sock").display());
    let child = Command::new(context.inspan())
        .args(["harness", "serve", "--kind", "echo", "--addr", &address, "--readyz", &free_address()?.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let harness = Harness { child, place };
    let began = Instant::now();
    while !harness.place.path().join("h.sock").exists() {
        if began.elapsed() > START_TIME_MAX {
            return Err(Failure::new("the harness does not serve"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The echo of the host's own model, as a script: both harnesses get a short answer at once.
    let script = folder.join("echo.yaml");
    std::fs::write(&script, "turns: [{text: \"what is the weather in Zurich tomorrow?\"}]\nloop: true\n")?;
    let script = script.display().to_string();
    let far = format!("{FAR}={address}");
    let host = Host::start(context, folder, &["--harness", &far, "--model-script", &script]).await?;
    Ok((harness, host))
}

/// A running harness; killed when it is dropped.
struct Harness {
    child: Child,
    place: tempfile::TempDir,
}

impl Drop for Harness {
    fn drop(&mut self) {
        // A harness that has ended by itself needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
