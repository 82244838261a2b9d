//! Why a command failed, on the way to stderr and the exit code.

use std::io;
use std::process::ExitCode;

/// A failure as a person at a terminal needs it: what went wrong and which command helps.
#[derive(Debug)]
pub(crate) struct Error {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A failure to report.
    Failed { text: String, next: String, exit: u8 },
    /// Whoever read our output has gone: nothing failed.
    OutputClosed,
}

impl Error {
    /// Exit code 1. `text` may end with more lines when they are part of the answer; `next` is a
    /// command line.
    pub(crate) fn new(text: impl Into<String>, next: impl Into<String>) -> Error {
        Error { kind: Kind::Failed { text: text.into(), next: next.into(), exit: 1 } }
    }

    /// Exit code 2: what was asked makes no sense.
    pub(crate) fn usage(text: impl Into<String>, next: impl Into<String>) -> Error {
        Error { kind: Kind::Failed { text: text.into(), next: next.into(), exit: 2 } }
    }

    /// An answer that has no JSON form.
    #[expect(clippy::needless_pass_by_value, reason = "it is the end of a map_err")]
    pub(crate) fn json(e: inspan_wire::json::Error) -> Error {
        Error::new(format!("the answer has no JSON form: {e}"), "the command again, without --json")
    }

    /// Writing our own output failed.
    pub(crate) fn output(e: &io::Error) -> Error {
        if e.kind() == io::ErrorKind::BrokenPipe {
            return Error { kind: Kind::OutputClosed };
        }
        Error::new(format!("writing the output failed: {e}"), "df -h, then the command again")
    }

    /// What went wrong; empty when nothing did.
    pub(crate) fn text(&self) -> &str {
        match &self.kind {
            Kind::Failed { text, .. } => text,
            Kind::OutputClosed => "",
        }
    }

    /// Prints what there is to say and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self.kind {
            Kind::OutputClosed => ExitCode::SUCCESS,
            Kind::Failed { text, next, exit } => {
                print(&text, &next);
                ExitCode::from(exit)
            }
        }
    }
}

/// The one shape of an error: `inspan: <text>`, then the next command.
pub(crate) fn print(text: &str, next: &str) {
    say(&format!("inspan: {text}\ntry: {next}"));
}

/// Writes lines to stderr. A closed stderr leaves nobody to tell.
pub(crate) fn say(lines: &str) {
    use io::Write as _;
    let _ = writeln!(io::stderr().lock(), "{lines}");
}
