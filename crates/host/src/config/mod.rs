//! `inspan.toml`: which tools this host runs, who may have them run, and who is told of what waits for a person.
//!
//! What is written there is checked here as far as it can be without touching anything: unknown keys, names, addresses,
//! patterns, things that contradict each other. Secrets are never in the file, only the names of the environment
//! variables and the paths of the files that hold them. Nothing here reads the environment.

mod glob;
mod policy;
mod tools;
mod value;
mod webhook;

use std::fmt;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;

pub use glob::Glob;
pub use policy::{Expected, Pointer, Rule};
pub use tools::{Headers, HttpTool, McpServer, Method, Place, ToolsConfig};
pub use value::{EnvName, Url};
pub use webhook::{Secret, Webhook};

/// Bytes that the file may have: 1 MiB.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The whole file, checked.
#[derive(Debug, Clone, Default)]
pub struct File {
    /// The executors.
    pub tools: ToolsConfig,
    /// The rules, in their order.
    pub policy: Vec<Rule>,
    /// Who is told of what waits for a person.
    pub webhook: Option<Webhook>,
}

/// As it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    tools: tools::Written,
    policy: Vec<policy::Written>,
    webhook: Option<webhook::Written>,
}

/// What is wrong with a file, where, and what would be right. Never shows a value that could be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    file: String,
    line: Option<usize>,
    text: String,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{} line {line}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// A mistake at a place in the text.
struct Wrong {
    at: Range<usize>,
    text: String,
}

impl Wrong {
    fn new(at: Range<usize>, text: impl Into<String>) -> Wrong {
        Wrong { at, text: text.into() }
    }
}

impl File {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// It cannot be read, is larger than [`FILE_BYTES_MAX`], or is not right.
    pub fn read(path: &Path) -> Result<File, Error> {
        let name = path.display().to_string();
        let unreadable = |text: String| Error { file: name.clone(), line: None, text };
        let size = std::fs::metadata(path).map_err(|e| unreadable(format!("cannot be read: {e}")))?.len();
        if size > FILE_BYTES_MAX {
            return Err(unreadable(format!(
                "has {size} bytes, and the most is {FILE_BYTES_MAX}: is it the right file?"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|e| unreadable(format!("cannot be read: {e}")))?;
        File::parse(&name, &text)
    }

    /// Checks the text of a file; `name` is for errors.
    ///
    /// # Errors
    /// It is not TOML, has an unknown key or a value that makes no sense, or two entries contradict each other.
    pub fn parse(name: &str, text: &str) -> Result<File, Error> {
        let error = |at: Option<Range<usize>>, text_of_error: String| Error {
            file: name.to_owned(),
            line: at.map(|at| line_of(text, at.start)),
            text: text_of_error,
        };
        let written: Written = toml::from_str(text).map_err(|e| error(e.span(), one_line(e.message())))?;
        let checked = || {
            let tools = ToolsConfig::check(written.tools)?;
            let policy = policy::check(written.policy)?;
            let webhook = written.webhook.map(webhook::Written::check).transpose()?;
            Ok(File { tools, policy, webhook })
        };
        checked().map_err(|wrong: Wrong| error(Some(wrong.at), wrong.text))
    }
}

/// The 1-based line of a byte offset.
fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
