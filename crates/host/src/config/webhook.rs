//! `[webhook]`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::Wrong;
use super::value::{EnvName, Span, Url};

/// How long an answer may take when nothing is said: 10 s.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Who is told when a session has come to wait for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Where it is told.
    pub url: Url,
    /// Where the key of the signature is.
    pub secret: Secret,
    /// How long one attempt may take as a whole.
    pub timeout: Duration,
}

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// In this environment variable.
    Env(EnvName),
    /// In this file.
    File(PathBuf),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    url: Spanned<Url>,
    secret_env: Option<EnvName>,
    secret_file: Option<PathBuf>,
    timeout: Option<Span>,
}

impl Written {
    pub(super) fn check(self) -> Result<Webhook, Wrong> {
        let at = self.url.span();
        let secret = match (self.secret_env, self.secret_file) {
            (Some(name), None) => Secret::Env(name),
            (None, Some(file)) => Secret::File(file),
            _ => return Err(Wrong::new(at, "a webhook is signed: give either secret_env or secret_file")),
        };
        Ok(Webhook { url: self.url.into_inner(), secret, timeout: self.timeout.map_or(TIMEOUT, |span| span.0) })
    }
}
