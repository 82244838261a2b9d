//! What can be asked: the verbs and what to say when a command line makes no sense.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    asks, cancel, completions, conformance, create, decide, delete, demo, exec, export, fork, get, harness, import,
    list, reference, replay, rerun, resume, serve, suspend, tools, verify, version, watch,
};
use crate::{argv, error};

/// The host for durable agent sessions.
#[derive(Debug, Parser)]
#[command(name = "inspan", version, disable_help_subcommand = true, max_term_width = 100)]
#[command(after_help = "Start here: inspan demo\nThen: inspan serve, and in another terminal \
                        inspan exec --server 127.0.0.1:8080 --input \"hello\"")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One verb each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Args),
    Harness(harness::Args),
    Create(create::Args),
    List(list::Args),
    Get(get::Args),
    Exec(exec::Args),
    Replay(replay::Args),
    Watch(watch::Args),
    Fork(fork::Args),
    Suspend(suspend::Args),
    Resume(resume::Args),
    Asks(asks::Args),
    /// Let the tool call that a session waits with run, and go on with its turn
    Approve(decide::Args),
    /// Refuse the tool call that a session waits with, and go on with its turn
    Deny(decide::Args),
    Cancel(cancel::Args),
    Delete(delete::Args),
    Rerun(rerun::Args),
    Export(export::Args),
    Import(import::Args),
    Verify(verify::Args),
    Tools(tools::Args),
    Conformance(conformance::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Version(version::Args),
    #[command(hide = true)]
    Reference(reference::Args),
}

/// The parser's definitions, also for completions and the reference.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Where to read on when no verb was given.
const TOP: &str = "inspan --help";

/// Reads a command line.
///
/// # Errors
/// An [`Early`] end: help was asked for, or the command line makes no sense.
pub(crate) fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Cli, Early> {
    let definition = definition();
    let argv = argv::normalise(&definition, argv);
    let verb = argv.iter().skip(1).filter_map(|a| a.to_str()).find(|a| definition.find_subcommand(a).is_some());
    let help = verb.map_or_else(|| TOP.to_owned(), |verb| format!("inspan {verb} --help"));
    let parsed = definition.try_get_matches_from(&argv).and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        if let (Command::Asks(args), Some((_, given))) = (&mut cli.command, matches.subcommand()) {
            args.one_project = given.value_source("project") == Some(ValueSource::CommandLine);
        }
        Ok(cli)
    });
    let exit = if verb.is_some_and(|verb| FLAGS_FAIL.contains(&verb)) { 1 } else { 2 };
    parsed.map_err(|e| Early::of(&e, help, exit))
}

/// A command line that runs nothing.
#[derive(Debug)]
pub(crate) enum Early {
    /// Help or version, asked for.
    Asked(String),
    /// A missing or unknown verb.
    Verb {
        /// What is wrong, when it is more than that none was given.
        text: Option<String>,
    },
    /// Flags that make no sense.
    Flags {
        /// What is wrong.
        text: String,
        /// Where to read on.
        help: String,
        /// What to end with: 2, or 1 for the verbs of [`FLAGS_FAIL`].
        exit: u8,
    },
}

/// Verbs whose wrong flags are an ordinary failure, since scripts of this protocol's other tools take them for one.
const FLAGS_FAIL: [&str; 3] = ["approve", "deny", "harness"];

impl Early {
    fn of(e: &clap::Error, help: String, exit: u8) -> Early {
        match e.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Early::Asked(e.render().ansi().to_string()),
            // A verb that has verbs of its own.
            ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if help != TOP => {
                Early::Flags { text: "a verb is missing".to_owned(), help, exit: 2 }
            }
            ErrorKind::InvalidSubcommand if help != TOP => Early::Flags { text: one_line(e), help, exit: 2 },
            ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Early::Verb { text: None }
            }
            ErrorKind::InvalidSubcommand => Early::Verb { text: Some(one_line(e)) },
            _ => Early::Flags { text: one_line(e), help, exit },
        }
    }

    /// Prints it and gives the exit code: 0 for what was asked for, else 2, or 1 for the flags of a few verbs.
    pub(crate) fn print(self) -> ExitCode {
        match self {
            Early::Asked(text) => {
                use std::io::{IsTerminal as _, Write as _};
                let mut stdout = std::io::stdout();
                let colour = stdout.is_terminal() && crate::output::colour_wanted();
                // Whoever closed the pipe has read enough.
                let _ = write!(stdout, "{}", if colour { text } else { without_escapes(&text) });
                ExitCode::SUCCESS
            }
            Early::Verb { text } => {
                let verbs: Vec<_> = definition()
                    .get_subcommands()
                    .filter(|c| !c.is_hide_set())
                    .map(|c| c.get_name().to_owned())
                    .collect();
                let usage = format!("usage: inspan <{}> [flags]", verbs.join("|"));
                let lead = text.map(|t| format!("inspan: {t}\n")).unwrap_or_default();
                error::say(&format!("{lead}{usage}\ntry: inspan --help"));
                ExitCode::from(2)
            }
            Early::Flags { text, help, exit } => {
                error::print(&text, &help);
                ExitCode::from(exit)
            }
        }
    }
}

/// The parser's message without its own layout: what is before the usage, on one line.
fn one_line(e: &clap::Error) -> String {
    let text = e.render().to_string();
    let told = text.split("\n\n").take_while(|p| !p.starts_with("Usage:") && !p.starts_with("For more information"));
    let told: Vec<String> = told.map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    told.join("; ").trim_start_matches("error: ").replace("; tip: ", "; ")
}

/// Text without its `ESC [ … m` sequences.
fn without_escapes(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        definition().debug_assert();
    }

    #[test]
    fn escapes_go() {
        assert_eq!(without_escapes("\x1b[1m\x1b[4mUsage:\x1b[0m x"), "Usage: x");
    }

    /// The words of a command line in a document, up to what only a shell knows.
    fn words(line: &str) -> Vec<OsString> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                '|' | '&' | '>' | '#' | ')' if !quoted => break,
                c => words.last_mut().expect("never empty").push(c),
            }
        }
        words.into_iter().filter(|w| !w.is_empty()).map(OsString::from).collect()
    }

    #[test]
    fn every_command_line_of_the_documents_parses() {
        let pages = [
            include_str!("../../../README.md"),
            include_str!("../../../docs/quickstart.md"),
            include_str!("../../../docs/concepts.md"),
            include_str!("../../../docs/operating.md"),
            include_str!("../../../docs/models.md"),
            include_str!("../../../docs/tools.md"),
            include_str!("../../../docs/journal-format.md"),
            include_str!("../../../docs/harness.md"),
            include_str!("../../../docs/conformance.md"),
        ];
        let mut seen = 0;
        for line in pages.iter().flat_map(|page| page.lines()) {
            let line = line.trim().trim_start_matches("$ ");
            let line = line.split_once("$(").map_or(line, |(_, inner)| inner);
            let line = line.replacen("cargo run --release -- ", "inspan ", 1);
            if line.starts_with("inspan ") && (line.contains(" --") || line.split(' ').count() == 2) {
                seen += 1;
                if let Err(Early::Verb { text: Some(text) } | Early::Flags { text, .. }) = parse(words(&line)) {
                    panic!("{line}: {text}");
                }
            }
        }
        assert!(seen > 20, "only {seen} command lines were found");
    }
}
