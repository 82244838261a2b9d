//! The Python that the strangers run on: `.venv` in the root, packages pinned in `tests/strangers/requirements.txt`.

use std::path::PathBuf;

use crate::needs;
use crate::shell::{self, Failure};

/// The interpreter of `.venv`, with exactly the pinned packages in it. Costs nothing when that was
/// done before with the same pins.
///
/// # Errors
/// When the environment or the packages cannot be installed.
pub(crate) fn ready() -> Result<PathBuf, Failure> {
    let failed = |e: std::io::Error| Failure(format!("the strangers' packages could not be prepared: {e}"));
    let venv = shell::root().join(".venv");
    let python = venv.join("bin/python");
    let pins = std::fs::read(shell::root().join("tests/strangers/requirements.txt")).map_err(failed)?;
    let stamp = venv.join("installed-requirements.txt");
    if std::fs::read(&stamp).is_ok_and(|installed| installed == pins) {
        return Ok(python);
    }
    println!("installing the strangers' packages into .venv: grpcio, schemathesis and pytest are no code of ours");
    create(&venv)?;
    let mut pip = shell::command(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    shell::run(pip.args(["--requirement", "tests/strangers/requirements.txt"]))?;
    std::fs::write(&stamp, pins).map_err(failed)?;
    Ok(python)
}

/// Debian ships Python without what makes environments: a first failure is worth one installation.
fn create(venv: &std::path::Path) -> Result<(), Failure> {
    let attempt = || shell::run(shell::command("python3").args(["-m", "venv", "--clear"]).arg(venv));
    attempt().or_else(|_| needs::install(&needs::VENV).and_then(|()| attempt()))
}
