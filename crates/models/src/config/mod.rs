//! What a provider is told to be: address, key, model, bounds. All of it is data; nothing here reads
//! the environment or a terminal.

mod address;
mod key;

use std::sync::Arc;
use std::time::Duration;

use inspan_engine::Model;

pub use address::{BadUrl, BaseUrl};
pub use key::{Key, KeyError};

use crate::remote::Remote;

/// The API that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's Chat Completions, and the many servers that are compatible with it.
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
}

/// How the key is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthHeader {
    /// Not at all.
    None,
    /// `Authorization: Bearer <key>`.
    Bearer,
    /// The key alone in a header of this name.
    Raw(String),
}

impl AuthHeader {
    /// Reads the name of a header: `Authorization` (in any case) is [`AuthHeader::Bearer`], empty is
    /// [`AuthHeader::None`], any other name carries the key alone.
    pub fn from_name(name: &str) -> AuthHeader {
        match name.trim() {
            "" => AuthHeader::None,
            name if name.eq_ignore_ascii_case("authorization") => AuthHeader::Bearer,
            name => AuthHeader::Raw(name.to_owned()),
        }
    }
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For name lookup, connection and TLS together.
    pub connect: Duration,
    /// From the request until the answer's head. A provider that does not stream thinks here.
    pub first_byte: Duration,
    /// Between two chunks of an answer.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let patience = Duration::from_secs(120);
        Timeouts { connect: Duration::from_secs(10), first_byte: patience, idle: patience }
    }
}

/// When to ask again by ourselves: after a failed connect and the statuses 408, 409, 429 and 5xx,
/// never once an answer has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How often to ask in all; 1 is no retry, 0 counts as 1.
    pub attempts: u32,
    /// The first wait; it doubles each time.
    pub base: Duration,
    /// The longest wait of our own.
    pub max: Duration,
    /// The longest `Retry-After` that is honoured. A provider that asks for more gets no retry, and
    /// the error says how long it asked for.
    pub after_max: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            attempts: 4,
            base: Duration::from_millis(500),
            max: Duration::from_secs(20),
            after_max: Duration::from_secs(60),
        }
    }
}

impl Retry {
    /// The wait after failed attempt `attempt` (1-based), without the provider's word.
    pub(crate) fn backoff(&self, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.max)
    }
}

/// A model provider, described.
#[derive(Debug, Clone)]
pub struct Provider {
    /// What it speaks.
    pub api: Api,
    /// Where it is.
    pub base_url: BaseUrl,
    /// What follows the base URL; may have a query. A missing leading `/` is added.
    pub path: String,
    /// How the key is sent.
    pub auth_header: AuthHeader,
    /// The key; without one no such header is sent.
    pub key: Option<Key>,
    /// The model that the empty id and `echo` stand for.
    pub model: String,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// When to ask again.
    pub retry: Retry,
    /// Whether to ask for streamed answers.
    pub stream: bool,
    /// The `max_tokens` of requests without that parameter. Anthropic only, which demands one.
    pub max_tokens: u32,
}

impl Provider {
    /// A provider at the API's own address, streaming, with no key.
    pub fn new(api: Api, model: impl Into<String>) -> Provider {
        let (base_url, path, auth_header) = match api {
            Api::OpenAi => ("https://api.openai.com/v1", "/chat/completions", AuthHeader::Bearer),
            Api::Anthropic => ("https://api.anthropic.com/v1", "/messages", AuthHeader::Raw("x-api-key".to_owned())),
        };
        Provider {
            api,
            base_url: base_url.parse().expect("the built-in addresses are well formed"),
            path: path.to_owned(),
            auth_header,
            key: None,
            model: model.into(),
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            stream: true,
            max_tokens: 8192,
        }
    }
}

/// Why a provider cannot be used as described. Holds no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There is no model to ask for.
    #[error("no model id is configured")]
    NoModel,
    /// The path does not continue the base URL.
    #[error("the path {0:?} does not make a URL with the base URL")]
    Path(String),
    /// The header's name is no header name.
    #[error("{0:?} is not the name of an HTTP header")]
    Header(String),
    /// The key cannot be put into a header.
    #[error("the key has a character that no HTTP header may carry; check where it is read from")]
    Key,
    /// TLS has nothing to trust.
    #[error("no root certificates for https: {0}; install the system's ca-certificates or set SSL_CERT_FILE")]
    Roots(String),
}

/// Makes the model that `provider` describes. Connects to nothing yet.
///
/// # Errors
/// See [`BuildError`].
pub fn build(provider: Provider) -> Result<Arc<dyn Model>, BuildError> {
    Ok(Arc::new(Remote::new(provider)?))
}
