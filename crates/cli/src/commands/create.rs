//! `inspan create`.

use inspan_wire::{json, v1};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::output::Dress;
use crate::{lines, values};

/// Create an empty session and print its uid
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    session: New,
}

/// What can be said of a new session.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct New {
    /// Display name
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) name: String,
    /// Harness that takes the session's turns; empty means the host's default
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) harness: String,
    /// Model to store with the session; it does not choose a model
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) model: String,
    /// Label as KEY=VALUE; repeat for more
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::label)]
    pub(crate) labels: Vec<(String, String)>,
}

impl New {
    /// The request that creates it.
    pub(crate) fn request(self, project: &str) -> v1::CreateSessionRequest {
        let metadata =
            v1::ResourceMetadata { project: project.to_owned(), name: self.name, ..v1::ResourceMetadata::default() };
        v1::CreateSessionRequest {
            session: Some(v1::Session {
                metadata: Some(metadata),
                harness: self.harness,
                model: self.model,
                labels: self.labels.into_iter().collect(),
                ..v1::Session::default()
            }),
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, session } = args;
    let request = session.request(&target.project);
    let created = Client::with(&target, async |client| {
        let answer = client.sessions.create_session(request).await;
        answer.map_err(|s| target.rpc_error("create", "", &s))
    });
    let created = created.await?.into_inner();
    let mut out = target.out();
    match out.dress() {
        Dress::Json => out.json(json::to_value(&created)),
        Dress::Plain | Dress::Terminal { .. } => out.line(lines::uid(&created)),
    }
}
