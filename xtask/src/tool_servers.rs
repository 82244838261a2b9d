//! The MCP servers that the tests of the tool executors talk to: by others, from npm and PyPI, pinned whole in
//! `tests/tools`.

use std::path::Path;

use crate::shell::{self, Failure};
use crate::step::Counts;
use crate::{needs, python};

/// Where the pins are, and where the servers go.
const FOLDER: &str = "tests/tools";

/// Sees to it that the servers are there as pinned. Costs nothing when that was done before with the same pins.
///
/// # Errors
/// When npm or pip cannot be had, or cannot install them.
pub(crate) fn ready(_: &mut Counts) -> Result<(), Failure> {
    node_servers(&shell::root().join(FOLDER))?;
    python::environment(
        &shell::root().join(FOLDER).join(".venv"),
        "tests/tools/requirements.txt",
        "mcp-server-time and the Python SDK of MCP, which the tool executors are tested with",
    )?;
    Ok(())
}

fn node_servers(folder: &Path) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure(format!("the tool servers could not be prepared: {e}"));
    let pins = std::fs::read(folder.join("package-lock.json")).map_err(failed)?;
    let stamp = folder.join("node_modules/installed-package-lock.json");
    if std::fs::read(&stamp).is_ok_and(|installed| installed == pins) {
        println!("the servers from npm are here");
        return Ok(());
    }
    for need in &needs::NODE {
        needs::met(need)?;
    }
    println!("installing MCP servers from npm into {FOLDER}: the tool executors are tested with servers by others");
    let mut npm = shell::command("npm");
    shell::run(npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(folder))?;
    std::fs::write(&stamp, pins).map_err(failed)
}
