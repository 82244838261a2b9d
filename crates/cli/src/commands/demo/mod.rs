//! `inspan demo`: a conversation that survives `kill -9`, told by the journal itself.
//!
//! The host is a child process, so the kill is real. The model is scripted, notes every call that
//! reaches it, and answers slowly enough to be killed in the middle. Everything the demo says at the
//! end is read back from the journal and from that log, nothing is assumed.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::output::{Dress, Out};
use crate::temp;

mod child;
mod picture;
mod story;

/// Show what durable means: a host is killed in the middle of a model call, and nothing is lost
///
/// Takes a few seconds and needs no key and no network. The journal stays for you to explore.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder for the journal; it must not exist yet. Without it a fresh folder in the system's temporary one
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Answer in JSON: what was counted
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let dir = fresh_dir(args.dir)?;
    let mut out = Out::stdout(args.json);
    // Leaving in the middle drops the child, which kills it.
    let facts = tokio::select! {
        told = story::tell(&dir, &mut out) => told?,
        _ = tokio::signal::ctrl_c() => {
            let list = format!("inspan list --journal {}", journal(&dir).display());
            return Err(Error::new("the demo was interrupted; its host has been stopped", list));
        }
    };
    match out.dress() {
        Dress::Json => out.line(facts.json())?,
        dress => out.line(picture::draw(&facts, dress))?,
    }
    if facts.hold() {
        return Ok(());
    }
    let verify = format!("inspan verify --journal {}", journal(&dir).display());
    Err(Error::new("the demo did not come out as promised: see what was counted", verify))
}

/// The journal of the demo in `dir`.
fn journal(dir: &Path) -> PathBuf {
    dir.join("agentsessions.db")
}

/// The script of the demo's model in `dir`.
fn script(dir: &Path) -> PathBuf {
    dir.join("script.yaml")
}

fn fresh_dir(wanted: Option<PathBuf>) -> Result<PathBuf, Error> {
    if let Some(dir) = wanted {
        return match std::fs::create_dir(&dir) {
            Ok(()) => Ok(dir),
            Err(e) => {
                let text = format!("making the folder {} failed: {e}", dir.display());
                Err(Error::new(text, "inspan demo --dir ./inspan-demo-2"))
            }
        };
    }
    temp::fresh("inspan-demo")
}
