//! Go-style flags: `-server x` and `--json=true` become what the parser knows.
//!
//! Scripts written for the Go tools of this protocol use one dash for long flags. Only the flag
//! itself is rewritten, never the value after it.

use std::ffi::OsString;

use clap::{ArgAction, Command};

/// Rewrites `argv` (program name first) for `command`.
pub(crate) fn normalise(command: &Command, argv: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut argv = argv.into_iter();
    let mut out: Vec<OsString> = argv.next().into_iter().collect();
    let mut scope = command;
    while let Some(arg) = argv.next() {
        let Some(text) = arg.to_str() else {
            out.push(arg);
            continue;
        };
        if text == "--" {
            out.push(arg);
            out.extend(argv);
            break;
        }
        let Some(flag) = Flag::of(text) else {
            if let Some(verb) = scope.find_subcommand(text) {
                scope = verb;
            }
            out.push(arg);
            continue;
        };
        let action = scope.get_arguments().find(|a| a.get_long() == Some(flag.name)).map(clap::Arg::get_action);
        match (action, flag.value) {
            (Some(ArgAction::SetTrue), Some("true" | "1")) => out.push(format!("--{}", flag.name).into()),
            (Some(ArgAction::SetTrue), Some("false" | "0")) => {}
            (Some(ArgAction::Set | ArgAction::Append), None) => {
                out.push(format!("--{}", flag.name).into());
                out.extend(argv.next());
            }
            (_, None) => out.push(format!("--{}", flag.name).into()),
            (_, Some(value)) => out.push(format!("--{}={value}", flag.name).into()),
        }
    }
    out
}

/// A long flag with one or two dashes.
struct Flag<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

impl Flag<'_> {
    fn of(text: &str) -> Option<Flag<'_>> {
        let body = match text.strip_prefix("--") {
            Some(body) => body,
            // One letter is a short flag, a digit starts a negative number.
            None => text.strip_prefix('-').filter(|b| b.len() > 1)?,
        };
        if !body.starts_with(|c: char| c.is_ascii_lowercase()) {
            return None;
        }
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        Some(Flag { name, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn command() -> Command {
        Command::new("t").subcommand(
            Command::new("get")
                .arg(Arg::new("session").long("session"))
                .arg(Arg::new("label").long("label").action(ArgAction::Append))
                .arg(Arg::new("json").long("json").action(ArgAction::SetTrue)),
        )
    }

    fn check(given: &str, want: &str) {
        let argv = given.split(' ').map(OsString::from);
        let got = normalise(&command(), argv).join(" ".as_ref());
        assert_eq!(got.to_str(), Some(want));
    }

    #[test]
    fn one_dash_becomes_two() {
        check("t get -session a -json", "t get --session a --json");
        check("t get -session=a --json=true", "t get --session=a --json");
        check("t get --json=false -label k=v", "t get --label k=v");
    }

    #[test]
    fn values_are_left_alone() {
        check("t get --session -json", "t get --session -json");
        check("t get -label -label x", "t get --label -label x");
        check("t get -1 -h - -- -session", "t get -1 -h - -- -session");
    }

    #[test]
    fn unknown_flags_stay_errors_for_the_parser() {
        check("t get -bogus x -bogus=true", "t get --bogus x --bogus=true");
    }
}
