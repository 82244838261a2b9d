//! Child processes: started from the workspace's root, their output on our terminal.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a command of the project failed, as a fragment for people.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// The cargo that runs us, so that no second toolchain sneaks in.
pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A command that runs in the workspace's root without standard input.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs `command` to its end; its output goes straight to our own.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|e| Failure(format!("{} could not be started: {e}", line(command))))?;
    if status.success() { Ok(()) } else { Err(Failure(format!("{} ended with {status}", line(command)))) }
}

/// Like [`run`], and hands each line of standard output to `see` after it was passed on.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_seen(command: &mut Command, mut see: impl FnMut(&str)) -> Result<(), Failure> {
    let text = line(command);
    let failed = |e: std::io::Error| Failure(format!("{text} could not be run: {e}"));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let out = BufReader::new(child.stdout.take().expect("standard output is piped"));
    for bytes in out.split(b'\n') {
        let bytes = bytes.map_err(failed)?;
        let seen = String::from_utf8_lossy(&bytes);
        writeln!(std::io::stdout(), "{seen}").map_err(failed)?;
        see(&seen);
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(Failure(format!("{text} ended with {status}"))) }
}

/// Whether `program` can be found and started.
pub(crate) fn exists(program: &str, version_flag: &str) -> bool {
    Command::new(program)
        .arg(version_flag)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as one would type it.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    std::iter::once(program).chain(command.get_args()).map(|a| a.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
