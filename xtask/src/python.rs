//! Python environments with pinned packages. The strangers run on `.venv` in the root, as `tests/strangers/requirements.txt`
//! pins it.

use std::path::{Path, PathBuf};

use crate::needs;
use crate::shell::{self, Failure};

/// The interpreter of `.venv`, with exactly the pinned packages in it. Costs nothing when that was
/// done before with the same pins.
///
/// # Errors
/// When the environment or the packages cannot be installed.
pub(crate) fn ready() -> Result<PathBuf, Failure> {
    let venv = shell::root().join(".venv");
    environment(&venv, "tests/strangers/requirements.txt", "grpcio, schemathesis and pytest, which are no code of ours")
}

/// The interpreter of the environment `venv` with exactly the packages that `pins` lists; `what` says what they are.
///
/// # Errors
/// As [`ready`].
pub(crate) fn environment(venv: &Path, pins: &str, what: &str) -> Result<PathBuf, Failure> {
    let failed = |e: std::io::Error| Failure(format!("the packages of {pins} could not be prepared: {e}"));
    let python = venv.join("bin/python");
    let pinned = std::fs::read(shell::root().join(pins)).map_err(failed)?;
    let stamp = venv.join("installed-requirements.txt");
    if std::fs::read(&stamp).is_ok_and(|installed| installed == pinned) {
        return Ok(python);
    }
    println!("installing the packages of {pins}: {what}");
    create(venv)?;
    let mut pip = shell::command(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    shell::run(pip.args(["--requirement", pins]))?;
    std::fs::write(&stamp, pinned).map_err(failed)?;
    Ok(python)
}

/// Debian ships Python without what makes environments: a first failure is worth one installation.
fn create(venv: &Path) -> Result<(), Failure> {
    let attempt = || shell::run(shell::command("python3").args(["-m", "venv", "--clear"]).arg(venv));
    attempt().or_else(|_| needs::install(&needs::VENV).and_then(|()| attempt()))
}
