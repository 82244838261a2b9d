//! The demo's host: this program again, as a child that can be killed.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::client::Client;
use crate::error::Error;

/// A running host. Dropping it kills it.
pub(super) struct Host {
    child: Child,
    address: String,
}

impl Host {
    /// Starts a host on the demo's folder and waits until it listens.
    pub(super) async fn start(dir: &Path) -> Result<Host, Error> {
        let serve = format!("inspan serve --journal {}", super::journal(dir).display());
        let failed = |what: String| Error::new(format!("starting the demo's host failed: {what}"), serve.clone());
        let program = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
        let mut child = Command::new(program)
            .args(["serve", "--addr", "127.0.0.1:0", "--journal"])
            .arg(super::journal(dir))
            .arg("--model-script")
            .arg(super::script(dir))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| failed(e.to_string()))?;
        let stderr = child.stderr.take().expect("stderr was asked for as a pipe");
        let path = dir.join("host.log");
        let log = tokio::fs::OpenOptions::new().create(true).append(true).open(path).await;
        let mut log = log.map_err(|e| failed(e.to_string()))?;
        let mut lines = BufReader::new(stderr).lines();
        let mut last = String::new();
        let address = loop {
            let Some(line) = lines.next_line().await.map_err(|e| failed(e.to_string()))? else {
                return Err(failed(last));
            };
            // The log is for whoever reads it later: the demo does not depend on it.
            let _ = log.write_all(format!("{line}\n").as_bytes()).await;
            if let Some(address) = crate::commands::serve::address_of(&line) {
                break address.to_owned();
            }
            last = line;
        };
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = log.write_all(format!("{line}\n").as_bytes()).await;
            }
        });
        Ok(Host { child, address })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// A client of it.
    pub(super) async fn client(&self) -> Result<Client, Error> {
        Client::connect(&self.address).await
    }

    /// SIGKILL: no goodbye, no flush. Returns once the process is gone.
    pub(super) async fn kill(mut self) -> Result<(), Error> {
        let killed = self.child.kill().await;
        killed.map_err(|e| Error::new(format!("killing the demo's host failed: {e}"), "ps aux | grep inspan"))
    }
}
