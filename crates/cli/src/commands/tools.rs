//! `inspan tools`.

use std::path::PathBuf;

use inspan_host::engine::ReplayRule;
use inspan_host::tools::{Listed, Listing};
use serde_json::json;

use crate::error::Error;
use crate::output::{Dress, Out, Paint};
use crate::settings::Settings;

/// List the tools that the configuration gives to sessions
///
/// Starts or connects to every MCP server that it names and asks for its tools. Ends with exit code 1 when one of them
/// could not be asked; the others are listed all the same.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Configuration file; inspan.toml in this folder when left out
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Answer in JSON, with the schema of each tool's arguments
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let settings = Settings::find(args.config.as_deref())?;
    if settings.path.is_none() {
        return Err(Error::new("there is no inspan.toml in this folder", "inspan tools --config FILE"));
    }
    let tools = settings.tools()?;
    let listings = tools.list().await;
    tools.close().await;
    let mut out = Out::stdout(args.json);
    show(&mut out, &listings)?;
    let failed: Vec<&str> = listings.iter().filter_map(|l| l.tools.as_ref().err()).map(String::as_str).collect();
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(Error::new(failed.join("\n"), "the command of that server by itself, to see what it says")),
    }
}

fn show(out: &mut Out, listings: &[Listing]) -> Result<(), Error> {
    match out.dress() {
        Dress::Json => out.line(as_json(listings)),
        Dress::Plain => {
            for (server, tool) in rows(listings) {
                out.line(row(server, tool))?;
            }
            Ok(())
        }
        dress @ Dress::Terminal { .. } => out.line(table(listings, dress)),
    }
}

/// Every tool that could be had, with its server.
fn rows(listings: &[Listing]) -> impl Iterator<Item = (&str, &Listed)> {
    listings.iter().flat_map(|l| l.tools.iter().flatten().map(move |tool| (l.server.as_str(), tool)))
}

fn row(server: &str, tool: &Listed) -> String {
    let description = one_line(&tool.description);
    format!("{}\tserver={server}\treplay={}\tdescription={description}", tool.name, rule(tool.replay))
}

fn table(listings: &[Listing], dress: Dress) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(["TOOL", "SERVER", "REPLAY", "DESCRIPTION"]);
    for (server, tool) in rows(listings) {
        let description = dress.foreign(&one_line(&tool.description));
        table.add_row([dress.foreign(&tool.name), server.to_owned(), rule(tool.replay).to_owned(), description]);
    }
    for listing in listings {
        if let Ok(tools) = &listing.tools
            && tools.is_empty()
        {
            let nothing = dress.paint(Paint::Dim, "it has no tools");
            table.add_row(["-".to_owned(), listing.server.clone(), String::new(), nothing]);
        }
    }
    table.to_string()
}

fn as_json(listings: &[Listing]) -> serde_json::Value {
    let tools = rows(listings).map(|(server, tool)| {
        let mut value = json!({
            "name": tool.name,
            "server": server,
            "replay": rule(tool.replay),
            "description": tool.description,
        });
        if let Some(schema) = &tool.input_schema {
            value["input_schema"] = schema.clone();
        }
        value
    });
    let errors = listings.iter().filter_map(|l| Some(json!({"server": l.server, "error": l.tools.as_ref().err()?})));
    json!({"tools": tools.collect::<Vec<_>>(), "errors": errors.collect::<Vec<_>>()})
}

/// As it is written in the configuration.
fn rule(rule: ReplayRule) -> &'static str {
    match rule {
        ReplayRule::Safe => "safe",
        ReplayRule::Keyed => "keyed",
        ReplayRule::Ask => "ask",
        ReplayRule::Never => "never",
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_and_a_table_obeys_nobody() {
        let tool = Listed {
            name: "fs/read".to_owned(),
            replay: ReplayRule::Safe,
            description: "Reads\n\ta file.\u{1b}[2J".to_owned(),
            input_schema: None,
        };
        assert_eq!(row("fs", &tool), "fs/read\tserver=fs\treplay=safe\tdescription=Reads a file.\u{1b}[2J");
        let listings = [Listing { server: "fs".to_owned(), tools: Ok(vec![tool]) }];
        assert!(!table(&listings, Dress::Terminal { colour: false }).contains('\u{1b}'));
        assert_eq!(as_json(&listings)["tools"][0]["replay"], "safe");
    }
}
