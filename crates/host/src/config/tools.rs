//! `[[tools.mcp]]` and `[[tools.http]]`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderName};
use inspan_engine::ReplayRule;
use serde::Deserialize;
use toml::Spanned;

use super::value::{EnvName, Header, Name, Replay, Span, Url};
use super::{Glob, Wrong};

/// How long one call may take when the file does not say.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may take to start or to answer the first time.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Servers and tools that one file may name: each may be a process.
const ENTRIES_MAX: usize = 256;

/// The executors of a host.
#[derive(Debug, Clone, Default)]
pub struct ToolsConfig {
    /// MCP servers; no name can be one of two of them.
    pub mcp: Vec<McpServer>,
    /// HTTP endpoints by name; such a name wins over a server's.
    pub http: Vec<HttpTool>,
}

/// An MCP server.
#[derive(Debug, Clone)]
pub struct McpServer {
    /// Its name in errors and lists.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// How long one call may take.
    pub timeout: Duration,
    /// How long it may take to start and to say what it has.
    pub start_timeout: Duration,
    /// The rule of tools without one of their own.
    pub replay: ReplayRule,
    /// Rules by the server's own name of a tool.
    pub rules: BTreeMap<String, ReplayRule>,
    /// The server's own names that sessions may use; all of them without a list.
    pub expose: Option<Vec<Glob>>,
    /// What stands before the server's own names.
    pub prefix: String,
}

/// Where an MCP server is.
#[derive(Debug, Clone)]
pub enum Place {
    /// A process of this host, spoken to over its standard input and output.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// Variables with their values.
        env: BTreeMap<EnvName, String>,
        /// Variables that are handed on.
        env_from: Vec<EnvName>,
    },
    /// A streamable HTTP endpoint.
    Http {
        /// The endpoint.
        url: Url,
        /// What requests carry.
        headers: Headers,
    },
}

/// Headers whose values are secrets: only where they are to be found is known.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    /// Header and the variable that holds its value.
    pub env: Vec<(HeaderName, EnvName)>,
    /// File with the token of `Authorization: Bearer`.
    pub key_file: Option<PathBuf>,
}

/// A tool that is one HTTP endpoint.
#[derive(Debug, Clone)]
pub struct HttpTool {
    /// The tool's name.
    pub name: String,
    /// The endpoint.
    pub url: Url,
    /// How it is called.
    pub method: Method,
    /// What requests carry.
    pub headers: Headers,
    /// How long one call may take.
    pub timeout: Duration,
    /// What may be done with a call whose outcome is unknown.
    pub replay: ReplayRule,
    /// What the tool does.
    pub description: String,
    /// JSON schema of its arguments.
    pub input_schema: Option<serde_json::Value>,
}

/// A method with a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// POST.
    #[default]
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Written {
    mcp: Vec<McpWritten>,
    http: Vec<HttpWritten>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct McpWritten {
    name: Spanned<Name>,
    command: Option<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<EnvName, String>,
    #[serde(default)]
    env_from: Vec<EnvName>,
    url: Option<Url>,
    #[serde(default)]
    headers_env: BTreeMap<Header, EnvName>,
    key_file: Option<PathBuf>,
    timeout: Option<Span>,
    start_timeout: Option<Span>,
    replay: Option<Replay>,
    #[serde(default)]
    rules: BTreeMap<String, Replay>,
    expose: Option<Vec<Glob>>,
    #[serde(default)]
    prefix: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpWritten {
    name: Spanned<Name>,
    url: Url,
    #[serde(default)]
    method: Method,
    #[serde(default)]
    headers_env: BTreeMap<Header, EnvName>,
    key_file: Option<PathBuf>,
    timeout: Option<Span>,
    replay: Option<Replay>,
    #[serde(default)]
    description: String,
    input_schema: Option<Spanned<toml::Table>>,
}

impl ToolsConfig {
    pub(super) fn check(written: Written) -> Result<ToolsConfig, Wrong> {
        let mut mcp: Vec<(Range<usize>, McpServer)> = Vec::new();
        for entry in written.mcp {
            let at = entry.name.span();
            let server = entry.check()?;
            if mcp.iter().any(|(_, other)| other.name == server.name) {
                return Err(Wrong::new(at, format!("there are two tool servers {}: rename one", server.name)));
            }
            if let Some((_, other)) = mcp.iter().find(|(_, other)| other.may_share_a_name(&server)) {
                let text = format!(
                    "a tool of {} could have the name of a tool of {}: give each a prefix of its own, such as prefix = \"{}/\"",
                    server.name, other.name, server.name
                );
                return Err(Wrong::new(at, text));
            }
            bounded(mcp.len(), &at)?;
            mcp.push((at, server));
        }
        let mut http: Vec<HttpTool> = Vec::new();
        for entry in written.http {
            let at = entry.name.span();
            let tool = entry.check()?;
            if http.iter().any(|other| other.name == tool.name) {
                return Err(Wrong::new(at, format!("there are two tools {}: rename one", tool.name)));
            }
            bounded(http.len(), &at)?;
            http.push(tool);
        }
        Ok(ToolsConfig { mcp: mcp.into_iter().map(|(_, server)| server).collect(), http })
    }
}

fn bounded(before: usize, at: &Range<usize>) -> Result<(), Wrong> {
    if before < ENTRIES_MAX {
        return Ok(());
    }
    Err(Wrong::new(at.clone(), format!("there are more than {ENTRIES_MAX} entries of this kind: take some out")))
}

impl McpWritten {
    fn check(self) -> Result<McpServer, Wrong> {
        let at = self.name.span();
        let name = self.name.into_inner().0;
        let because = |text: &str| Wrong::new(at.clone(), format!("tool server {name}: {text}"));
        let wrong = |text: &str| Err(because(text));
        let headers = Headers::check(self.headers_env, self.key_file);
        let place = match (self.command, self.url) {
            (Some(command), None) => {
                if command.first().is_none_or(String::is_empty) {
                    return wrong("the command is empty: name a program, such as command = [\"npx\", \"-y\", \"…\"]");
                }
                if headers.is_some() {
                    return wrong("headers_env and key_file belong to a url: a command gets its secrets by env_from");
                }
                if let Some(twice) = self.env_from.iter().find(|name| self.env.contains_key(name)) {
                    return wrong(&format!("{} is in env and in env_from: keep one", twice.as_str()));
                }
                Place::Command { command, env: self.env, env_from: self.env_from }
            }
            (None, Some(url)) => {
                if !self.env.is_empty() || !self.env_from.is_empty() {
                    return wrong(
                        "env and env_from belong to a command: a url gets its secrets by headers_env or key_file",
                    );
                }
                Place::Http { url, headers: headers.unwrap_or(Ok(Headers::default())).map_err(because)? }
            }
            (Some(_), Some(_)) => return wrong("it has a command and a url: keep one"),
            (None, None) => return wrong("it has neither a command nor a url: say how to reach it"),
        };
        Ok(McpServer {
            name,
            place,
            timeout: self.timeout.map_or(CALL_TIMEOUT, |span| span.0),
            start_timeout: self.start_timeout.map_or(START_TIMEOUT, |span| span.0),
            replay: rule(self.replay),
            rules: self.rules.into_iter().map(|(tool, replay)| (tool, replay.into())).collect(),
            expose: self.expose,
            prefix: self.prefix,
        })
    }
}

/// Without a word of the operator a person decides: a server's own hints are claims about itself.
fn rule(written: Option<Replay>) -> ReplayRule {
    written.map_or(ReplayRule::Ask, ReplayRule::from)
}

impl HttpWritten {
    fn check(self) -> Result<HttpTool, Wrong> {
        let at = self.name.span();
        let name = self.name.into_inner().0;
        let headers = Headers::check(self.headers_env, self.key_file).unwrap_or(Ok(Headers::default()));
        let headers = headers.map_err(|text| Wrong::new(at, format!("tool {name}: {text}")))?;
        let input_schema = self.input_schema.map(|table| {
            let at = table.span();
            json(&toml::Value::Table(table.into_inner())).map_err(|text| Wrong::new(at, text))
        });
        Ok(HttpTool {
            name,
            url: self.url,
            method: self.method,
            headers,
            timeout: self.timeout.map_or(CALL_TIMEOUT, |span| span.0),
            replay: rule(self.replay),
            description: self.description,
            input_schema: input_schema.transpose()?,
        })
    }
}

impl Headers {
    /// `None` when the file says nothing about headers.
    fn check(env: BTreeMap<Header, EnvName>, key_file: Option<PathBuf>) -> Option<Result<Headers, &'static str>> {
        if env.is_empty() && key_file.is_none() {
            return None;
        }
        let env: Vec<_> = env.into_iter().map(|(header, name)| (header.name(), name)).collect();
        if key_file.is_some() && env.iter().any(|(name, _)| *name == AUTHORIZATION) {
            return Some(Err("key_file and headers_env both set authorization: keep one"));
        }
        Some(Ok(Headers { env, key_file }))
    }
}

impl McpServer {
    /// The server's own name of a tool that sessions know as `tool`; `None` when it can be none of its.
    pub fn own_name<'t>(&self, tool: &'t str) -> Option<&'t str> {
        tool.strip_prefix(self.prefix.as_str()).filter(|own| !own.is_empty() && self.exposes(own))
    }

    /// Whether sessions may use the tool that the server calls `own`.
    pub fn exposes(&self, own: &str) -> bool {
        self.expose.as_ref().is_none_or(|list| list.iter().any(|glob| glob.matches(own)))
    }

    /// The replay rule of the tool that the server calls `own`.
    pub fn rule(&self, own: &str) -> ReplayRule {
        self.rules.get(own).copied().unwrap_or(self.replay)
    }

    /// Whether sessions could know a tool of each by the same name: which one runs must not hang on which one is up.
    fn may_share_a_name(&self, other: &McpServer) -> bool {
        let theirs = other.patterns();
        self.patterns().iter().any(|ours| theirs.iter().any(|their| ours.may_meet(their)))
    }

    fn patterns(&self) -> Vec<Glob> {
        match &self.expose {
            None => vec![Glob::new("*").behind(&self.prefix)],
            Some(list) => list.iter().map(|glob| glob.behind(&self.prefix)).collect(),
        }
    }
}

/// A TOML value as JSON.
pub(super) fn json(value: &toml::Value) -> Result<serde_json::Value, String> {
    use serde_json::Value;
    Ok(match value {
        toml::Value::String(text) => Value::String(text.clone()),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(*number)
            .map(Value::Number)
            .ok_or("NaN and infinity have no JSON form: use a number")?,
        toml::Value::Boolean(flag) => Value::Bool(*flag),
        toml::Value::Datetime(_) => return Err("a date has no JSON form: put it in quotes".to_owned()),
        toml::Value::Array(items) => Value::Array(items.iter().map(json).collect::<Result<_, _>>()?),
        toml::Value::Table(fields) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), json(value)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
    })
}
