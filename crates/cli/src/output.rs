//! Where a command's data goes: stdout, in one of three dresses.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};

use inspan_wire::{json, v1};

use crate::error::Error;

/// How data is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dress {
    /// The stable lines that scripts read.
    Plain,
    /// For eyes: tables, more detail, colour when it is wanted.
    Terminal {
        /// Whether escape sequences may be used.
        colour: bool,
    },
    /// One JSON object, or one to a line for a stream.
    Json,
}

/// Stdout of one command.
pub(crate) struct Out {
    dress: Dress,
    sink: Box<dyn Write + Send>,
    /// Whether a piece of a completion was the last thing written: a line must not go on behind it.
    mid_line: bool,
}

impl Out {
    /// Stdout, dressed for whatever it is connected to.
    pub(crate) fn stdout(json: bool) -> Out {
        let stdout = io::stdout();
        let dress = if json {
            Dress::Json
        } else if stdout.is_terminal() {
            Dress::Terminal { colour: colour_wanted() }
        } else {
            Dress::Plain
        };
        Out { dress, sink: Box::new(io::BufWriter::new(stdout)), mid_line: false }
    }

    /// How data is to be shown.
    pub(crate) fn dress(&self) -> Dress {
        self.dress
    }

    /// Writes one line and hands it over at once: whoever reads may be waiting for it.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<(), Error> {
        let break_off = if std::mem::take(&mut self.mid_line) { "\n" } else { "" };
        writeln!(self.sink, "{break_off}{line}").and_then(|()| self.sink.flush()).map_err(|e| Error::output(&e))
    }

    /// Writes a JSON object on one line.
    pub(crate) fn json(&mut self, value: Result<serde_json::Value, json::Error>) -> Result<(), Error> {
        self.line(value.map_err(Error::json)?)
    }

    /// Writes a piece of a completion that is not finished; its end ends the line.
    pub(crate) fn delta(&mut self, delta: &v1::Delta) -> Result<(), Error> {
        let text = self.dress.foreign(&delta.chunk);
        self.mid_line = !delta.done;
        if delta.done { self.raw(&format!("{text}\n")) } else { self.raw(&text) }
    }

    /// Writes text as it is, without an end of line.
    pub(crate) fn raw(&mut self, text: &str) -> Result<(), Error> {
        write!(self.sink, "{text}").and_then(|()| self.sink.flush()).map_err(|e| Error::output(&e))
    }

    /// Writes bytes without flushing: for files that go to stdout.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.sink.write_all(bytes).map_err(|e| Error::output(&e))
    }

    /// Hands everything over.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.sink.flush().map_err(|e| Error::output(&e))
    }
}

impl Drop for Out {
    /// Whatever comes next on a terminal, an error or a prompt, starts on a line of its own.
    fn drop(&mut self) {
        if self.mid_line {
            // A reader that has gone needs no line end.
            drop(writeln!(self.sink).and_then(|()| self.sink.flush()));
        }
    }
}

/// Whether escape sequences are welcome: <https://no-color.org> and a terminal that knows them.
pub(crate) fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// The colours in use, by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Present but not the point.
    Dim,
    /// The point.
    Bold,
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
    /// Waits or warns.
    Mind,
}

impl Dress {
    /// `text` in a colour, or as it is.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        if self != (Dress::Terminal { colour: true }) || text.is_empty() {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Dim => "2",
            Paint::Bold => "1",
            Paint::Good => "32",
            Paint::Bad => "31",
            Paint::Mind => "33",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Text from a model or a client. On a terminal its control characters are shown, not obeyed:
    /// a journal must not be able to move the reader's cursor.
    pub(crate) fn foreign(self, text: &str) -> String {
        match self {
            Dress::Terminal { .. } => text
                .chars()
                .map(|c| match c {
                    '\n' | '\t' => c.to_string(),
                    c if c.is_control() => c.escape_default().to_string(),
                    c => c.to_string(),
                })
                .collect(),
            Dress::Plain | Dress::Json => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_only_where_it_is_wanted() {
        assert_eq!(Dress::Plain.paint(Paint::Bad, "x"), "x");
        assert_eq!(Dress::Terminal { colour: false }.paint(Paint::Bad, "x"), "x");
        assert_eq!(Dress::Terminal { colour: true }.paint(Paint::Bad, "x"), "\x1b[31mx\x1b[0m");
    }

    #[test]
    fn a_terminal_never_sees_foreign_escapes() {
        let evil = "a\x1b[2Jb\n\u{9b}c";
        assert_eq!(Dress::Plain.foreign(evil), evil);
        assert_eq!(Dress::Terminal { colour: true }.foreign(evil), "a\\u{1b}[2Jb\n\\u{9b}c");
    }
}
