//! `inspan fork`.

use inspan_wire::{json, v1};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::output::Dress;
use crate::{lines, values};

/// Branch a session: each child shares its records up to a seq and goes its own way from there
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The session
    #[arg(long, value_name = "UID")]
    session: String,
    /// Last record that the children share; 0 means the head
    #[arg(long, value_name = "SEQ", default_value_t = 0, allow_negative_numbers = true)]
    at: i64,
    /// How many children, 1 to 128
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    count: i32,
    /// Names of the children, separated by commas: none, or one for each
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    names: Vec<String>,
    /// Label of the children as KEY=VALUE, instead of the parent's; repeat for more
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = values::label)]
    labels: Vec<(String, String)>,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, session, at, count, mut names, labels } = args;
    if names.iter().all(String::is_empty) {
        names.clear();
    }
    let request = v1::ForkRequest {
        session: session.clone(),
        at_seq: at,
        count,
        labels: labels.into_iter().collect(),
        child_names: names,
        ..v1::ForkRequest::default()
    };
    let forked = Client::with(&target, async |client| {
        let answer = client.sessions.fork(request).await;
        answer.map_err(|s| target.rpc_error("fork", &session, &s))
    });
    let forked = forked.await?.into_inner();
    let mut out = target.out();
    if out.dress() == Dress::Json {
        return out.json(json::to_value(&forked));
    }
    for child in &forked.children {
        out.line(lines::child(child))?;
    }
    Ok(())
}
