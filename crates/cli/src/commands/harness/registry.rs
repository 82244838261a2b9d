//! The way to a host's registry, and how what it holds is shown.

use std::time::Duration;

use inspan_host::proto::HarnessRegistryClient;
use inspan_wire::{json, v1};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use crate::client;
use crate::error::Error;
use crate::output::{Dress, Out, Paint};

/// How long one call may take.
const CALL_WITHIN: Duration = Duration::from_secs(30);

/// Which registry, and how to answer.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Registry {
    /// The host's registry: what its `--registry-addr` says, not the address of its sessions
    #[arg(long, value_name = "IP:PORT")]
    server: String,
    /// Answer in JSON on a terminal too
    #[arg(long)]
    json: bool,
}

/// Which verb asks, and about which harness: for its errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verb<'a> {
    pub(super) name: &'static str,
    /// Empty for all of them.
    pub(super) harness: &'a str,
}

impl Registry {
    /// Makes one call.
    ///
    /// # Errors
    /// Nobody answers there in time, or the host refuses.
    pub(super) async fn call<T>(
        &self,
        verb: Verb<'_>,
        ask: impl AsyncFnOnce(&mut HarnessRegistryClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, Error> {
        let asked = async {
            let next = || format!("inspan serve --registry-addr {}", client::shell(&self.server));
            let mut client = HarnessRegistryClient::new(client::connect(&self.server, next).await?);
            ask(&mut client).await.map_err(|status| self.refused(verb, &status))
        };
        match tokio::time::timeout(CALL_WITHIN, asked).await {
            Ok(answer) => Ok(answer?.into_inner()),
            Err(_) => {
                let text = format!("no answer from {} in {} s", self.server, CALL_WITHIN.as_secs());
                Err(self.refused(verb, &Status::deadline_exceeded(text)))
            }
        }
    }

    /// Stdout, dressed as the caller asked.
    pub(super) fn out(&self) -> Out {
        Out::stdout(self.json)
    }

    /// Prints one harness.
    pub(super) fn show(&self, harness: &v1::HarnessRegistration) -> Result<(), Error> {
        let mut out = self.out();
        match out.dress() {
            Dress::Json | Dress::Plain => out.json(json::to_value(harness)),
            dress @ Dress::Terminal { .. } => out.line(table(std::slice::from_ref(harness), dress)),
        }
    }

    /// An error of a call, with the command that helps.
    fn refused(&self, verb: Verb<'_>, status: &Status) -> Error {
        let here = |verb: &str| format!("inspan harness {verb} --server {}", client::shell(&self.server));
        let next = match status.code() {
            // The port of the sessions, or no host of ours.
            Code::Unimplemented => "inspan serve --registry-addr 127.0.0.1:8081".to_owned(),
            Code::NotFound => format!("{} --include-retired", here("list")),
            Code::AlreadyExists => format!("{} --name {}", here("get"), client::shell(verb.harness)),
            Code::FailedPrecondition => "inspan serve --help".to_owned(),
            Code::InvalidArgument => format!("inspan harness {} --help", verb.name),
            _ => here("list"),
        };
        Error::new(client::rpc_text(status), next)
    }
}

/// Harnesses for eyes.
pub(super) fn table(harnesses: &[v1::HarnessRegistration], dress: Dress) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(["HARNESS", "STATE", "FROM", "AT", "SINCE", "NOTE"]);
    for harness in harnesses {
        let metadata = harness.metadata.clone().unwrap_or_default();
        let (note, paint) = note(harness);
        table.add_row([
            dress.foreign(&metadata.name),
            short(harness.state().as_str_name(), "HARNESS_STATE_"),
            short(harness.source().as_str_name(), "HARNESS_SOURCE_"),
            dress.foreign(&place(harness)),
            metadata.create_time.map(|time| time.to_string()).unwrap_or_default(),
            dress.paint(paint, &dress.foreign(&note)),
        ]);
    }
    table.to_string()
}

fn short(name: &str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_owned()
}

fn place(harness: &v1::HarnessRegistration) -> String {
    use v1::harness_spec::Placement;
    match harness.spec.as_ref().and_then(|spec| spec.placement.as_ref()) {
        Some(Placement::Remote(remote)) => remote.address.clone(),
        Some(Placement::Substrate(at)) => format!("{}/{}", at.atespace, at.template),
        None => String::new(),
    }
}

/// What a person should know of it first.
fn note(harness: &v1::HarnessRegistration) -> (String, Paint) {
    if !harness.unservable_reason.is_empty() {
        return (harness.unservable_reason.clone(), Paint::Bad);
    }
    if !harness.observe_error.is_empty() {
        return (harness.observe_error.clone(), Paint::Bad);
    }
    if let Some(observed) = &harness.observed {
        return (format!("answers as {} {:?}", observed.id, observed.version), Paint::Good);
    }
    (harness.retire_reason.clone(), Paint::Dim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others wrote cannot command the terminal.
    #[test]
    fn a_table_obeys_nobody() {
        let harness = v1::HarnessRegistration { retire_reason: "old\u{1b}[2J".to_owned(), ..Default::default() };
        let shown = table(&[harness], Dress::Terminal { colour: false });
        assert!(shown.contains("old\\u{1b}[2J") && !shown.contains('\u{1b}'), "{shown}");
    }
}
