//! A server that is a process of this host.

use std::collections::BTreeMap;
use std::process::Stdio;

use process_wrap::tokio::{CommandWrap, ProcessGroup};
use rmcp::transport::TokioChildProcess;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{ChildStderr, Command};

use super::super::secrets::Secrets;
use crate::config::EnvName;

/// What every server gets of our own environment: where programs are, and where a package runner keeps its packages.
const ALWAYS: &[&str] = &["PATH", "HOME"];

/// Bytes of one line on standard error that are logged.
const LOG_LINE_BYTES_MAX: u64 = 4096;

/// How to start a server. Has no `Debug`: its environment may hold secrets.
pub(super) struct Process {
    server: String,
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Process {
    /// Collects the environment: what the configuration lists, and nothing else beside [`ALWAYS`]. What is handed on from
    /// our own counts as secret.
    pub(super) fn new(
        server: &str,
        command: &[String],
        set: &BTreeMap<EnvName, String>,
        from: &[EnvName],
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Process, Secrets), String> {
        let (program, arguments) = command.split_first().ok_or("the command is empty: name a program")?;
        let mut environment: Vec<(String, String)> =
            ALWAYS.iter().filter_map(|name| Some(((*name).to_owned(), env(name)?))).collect();
        let mut secrets = Vec::new();
        for name in from {
            let name = name.as_str();
            let value = env(name).ok_or_else(|| {
                format!("the environment variable {name} is not set: set it, or take it out of env_from")
            })?;
            secrets.push(value.clone());
            environment.push((name.to_owned(), value));
        }
        environment.extend(set.iter().map(|(name, value)| (name.as_str().to_owned(), value.clone())));
        let (server, program) = (server.to_owned(), program.clone());
        Ok((Process { server, program, arguments: arguments.to_vec(), environment }, Secrets::new(secrets)))
    }

    /// Starts it, in a process group of its own: a package runner and the server that it starts end together.
    pub(super) fn start(&self) -> Result<TokioChildProcess, String> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessGroup::leader());
        let started = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn();
        let (process, errors) = started.map_err(|e| format!("cannot be started: {}: {e}", self.program))?;
        if let Some(errors) = errors {
            tokio::spawn(log(self.server.clone(), errors));
        }
        Ok(process)
    }
}

/// Reads what a server says on standard error, which must not fill up. It is of use when something goes wrong and may
/// hold anything, so it is logged at the level that nobody has on by default.
async fn log(server: String, errors: ChildStderr) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut errors).take(LOG_LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => tracing::debug!(server, "{}", String::from_utf8_lossy(line.trim_ascii_end())),
        }
    }
}
