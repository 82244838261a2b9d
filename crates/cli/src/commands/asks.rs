//! `inspan asks`.

use inspan_wire::{inspan_v1 as pb, json};

use crate::client::{Client, Target};
use crate::error::{self, Error};
use crate::lines;
use crate::output::{Dress, Out};

/// List what waits for a person, in every project, the longest wait first
///
/// With --project only that project's. Decide with `inspan approve` or `inspan deny`, and name the digest that is shown
/// here, so that what was shown is what runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Asks to ask for at once, 1 to 500; the list is whole in any case
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true)]
    page_size: i32,
    /// Whether a project was named: without one, every project is meant.
    #[arg(skip)]
    pub(crate) one_project: bool,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { target, page_size, one_project } = args;
    let project = if one_project { target.project.clone() } else { String::new() };
    let mut out = target.out();
    let found = Client::with(&target, async |client| {
        let mut first = true;
        let mut page_token = String::new();
        loop {
            let request = pb::ListAsksRequest { project: project.clone(), page_size, page_token };
            let answer = client.asks.list_asks(request).await;
            let page = answer.map_err(|s| target.rpc_error("asks", "", &s))?.into_inner();
            page_token = page.next_page_token;
            show(&mut out, &page.asks, first, page_token.is_empty())?;
            if page_token.is_empty() {
                return Ok(!first || !page.asks.is_empty());
            }
            first = false;
        }
    });
    if !found.await? && out.dress() != Dress::Json {
        error::say(&format!("nothing waits for a person\ntry: {}", target.command("list", "")));
    }
    Ok(())
}

/// One page. The JSON form is one `ListAsksResponse` over all pages, written as they come.
fn show(out: &mut Out, asks: &[pb::Ask], first: bool, last: bool) -> Result<(), Error> {
    match out.dress() {
        Dress::Plain => {
            for ask in asks {
                out.bytes(lines::ask_row(ask).as_bytes())?;
                out.bytes(b"\n")?;
            }
            out.flush()
        }
        Dress::Terminal { .. } if asks.is_empty() => Ok(()),
        dress @ Dress::Terminal { .. } => out.line(lines::ask_table(asks, dress)),
        Dress::Json => {
            if first {
                out.bytes(if asks.is_empty() { b"{" } else { b"{\"asks\":[" })?;
            }
            for (i, ask) in asks.iter().enumerate() {
                if !(first && i == 0) {
                    out.bytes(b",")?;
                }
                out.bytes(json::to_value(ask).map_err(Error::json)?.to_string().as_bytes())?;
            }
            if last {
                let empty = first && asks.is_empty();
                out.bytes(if empty { b"}\n" } else { b"]}\n" })?;
            }
            out.flush()
        }
    }
}
