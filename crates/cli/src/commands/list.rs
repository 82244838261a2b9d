//! `inspan list`.

use inspan_wire::{json, v1};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::lines;
use crate::output::{Dress, Out};

/// List the sessions of a project, newest first
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Sessions to ask for at once, 1 to 500; the list is whole in any case
    #[arg(long, value_name = "N", default_value_t = 500, allow_negative_numbers = true)]
    page_size: i32,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, page_size } = args;
    let mut out = target.out();
    Client::with(&target, async |client| {
        let mut first = true;
        let mut page_token = String::new();
        loop {
            let request = v1::ListSessionsRequest { project: target.project.clone(), page_size, page_token };
            let answer = client.sessions.list_sessions(request).await;
            let page = answer.map_err(|s| target.rpc_error("list", "", &s))?.into_inner();
            page_token = page.next_page_token;
            show(&mut out, &page.sessions, first, page_token.is_empty())?;
            first = false;
            if page_token.is_empty() {
                return Ok(());
            }
        }
    })
    .await
}

/// One page. The JSON form is one `ListSessionsResponse` over all pages, written as they come.
fn show(out: &mut Out, sessions: &[v1::Session], first: bool, last: bool) -> Result<(), Error> {
    match out.dress() {
        Dress::Plain => {
            for session in sessions {
                out.bytes(lines::list_row(session).as_bytes())?;
                out.bytes(b"\n")?;
            }
            out.flush()
        }
        dress @ Dress::Terminal { .. } => out.line(lines::list_table(sessions, dress)),
        Dress::Json => {
            if first {
                out.bytes(if sessions.is_empty() { b"{" } else { b"{\"sessions\":[" })?;
            }
            for (i, session) in sessions.iter().enumerate() {
                if !(first && i == 0) {
                    out.bytes(b",")?;
                }
                out.bytes(json::to_value(session).map_err(Error::json)?.to_string().as_bytes())?;
            }
            if last {
                let empty = first && sessions.is_empty();
                out.bytes(if empty { b"}\n" } else { b"]}\n" })?;
            }
            out.flush()
        }
    }
}
