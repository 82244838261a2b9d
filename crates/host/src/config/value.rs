//! Values that are checked where they are read, so that an error knows its line.

use std::fmt;
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderName;
use inspan_engine::ReplayRule;
use serde::{Deserialize, Deserializer};

/// A name of a server, a tool or a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Name(pub(super) String);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Name, String> {
        let good = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        if text.is_empty() || text.len() > 64 || !text.chars().all(good) {
            return Err(format!("{text:?} is no name: use 1 to 64 of a-z, A-Z, 0-9, _ - . /"));
        }
        Ok(Name(text))
    }
}

/// The name of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct EnvName(String);

impl EnvName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for EnvName {
    type Error = String;

    fn try_from(text: String) -> Result<EnvName, String> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) || !text.chars().all(good) {
            // Whoever wrote the secret itself here must not find it in a log.
            return Err("this is not the name of an environment variable: write the name here, never the value".into());
        }
        Ok(EnvName(text))
    }
}

/// The address of a server: `http` or `https`, a host, a path. No user info and no query: credentials in a URL end up
/// in logs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Url(Uri);

impl Url {
    /// For requests.
    pub fn uri(&self) -> &Uri {
        &self.0
    }

    /// Whether connections need TLS.
    pub fn is_https(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for Url {
    type Error = String;

    fn try_from(text: String) -> Result<Url, String> {
        // The text is not repeated: it may hold a secret.
        if text.contains(['#', '?']) {
            return Err("the url has a query or a fragment: a key goes into headers_env or key_file".into());
        }
        if text.contains('@') {
            return Err("the url has user info: a key goes into headers_env or key_file".into());
        }
        let uri: Uri =
            text.parse().map_err(|_| "the url is not of the form http(s)://host[:port][/path]".to_owned())?;
        let host = uri.host().unwrap_or_default();
        match uri.scheme_str() {
            Some("http" | "https") if !host.is_empty() => Ok(Url(uri)),
            _ => Err("the url is not of the form http(s)://host[:port][/path]".into()),
        }
    }
}

/// A span of time such as `30s`, `1m30s` or `250ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Span(pub(super) Duration);

/// The longest span: a day. More is a mistake in the unit.
const SPAN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Span, String> {
        let total = span(&text).ok_or_else(|| format!("{text:?} is no span of time: write 30s, 1m30s or 250ms"))?;
        if total.is_zero() || total > SPAN_MAX {
            return Err(format!("{text:?} is out of range: more than nothing, at most 24h"));
        }
        Ok(Span(total))
    }
}

/// A span that may be days, such as `7d` or `36h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct LongSpan(pub(super) Duration);

/// The longest of them: ten years. More is a mistake in the unit.
const LONG_SPAN_MAX: Duration = Duration::from_secs(3_660 * 24 * 60 * 60);

impl TryFrom<String> for LongSpan {
    type Error = String;

    fn try_from(text: String) -> Result<LongSpan, String> {
        let total = match text.split_once('d') {
            Some((days, rest)) => whole(days).and_then(|days| {
                let rest = if rest.is_empty() { Duration::ZERO } else { span(rest)? };
                Some(rest + Duration::from_secs(u64::from(days) * 24 * 60 * 60))
            }),
            None => span(&text),
        };
        let total = total.ok_or_else(|| format!("{text:?} is no span of time: write 7d, 36h or 1d12h"))?;
        if total.is_zero() || total > LONG_SPAN_MAX {
            return Err(format!("{text:?} is out of range: more than nothing, at most 3660d"));
        }
        Ok(LongSpan(total))
    }
}

fn whole(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn span(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let value: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let millis: u64 = match &rest[..unit] {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1_000,
            "ms" => 1,
            _ => return None,
        };
        total = total.checked_add(Duration::from_millis(value.checked_mul(millis)?))?;
        rest = &rest[unit..];
    }
    (!text.is_empty()).then_some(total)
}

/// A replay rule by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Replay {
    Safe,
    Keyed,
    Ask,
    Never,
}

impl From<Replay> for ReplayRule {
    fn from(replay: Replay) -> ReplayRule {
        match replay {
            Replay::Safe => ReplayRule::Safe,
            Replay::Keyed => ReplayRule::Keyed,
            Replay::Ask => ReplayRule::Ask,
            Replay::Never => ReplayRule::Never,
        }
    }
}

/// The name of an HTTP header that an operator may set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Header(String);

impl Header {
    pub(super) fn name(&self) -> HeaderName {
        self.0.parse().expect("it was parsed when it was read")
    }
}

/// Headers that are the executor's own.
const RESERVED: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        let text = String::deserialize(deserializer)?.to_ascii_lowercase();
        if text.parse::<HeaderName>().is_err() {
            return Err(serde::de::Error::custom(format_args!("{text:?} is not the name of an HTTP header")));
        }
        if RESERVED.contains(&text.as_str()) {
            return Err(serde::de::Error::custom(format_args!("the header {text} is set by the host: take it out")));
        }
        Ok(Header(text))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{EnvName, LongSpan, Name, Span, Url};

    #[test]
    fn spans() {
        let of = |text: &str| Span::try_from(text.to_owned()).ok().map(|s| s.0);
        assert_eq!(of("30s"), Some(Duration::from_secs(30)));
        assert_eq!(of("1h2m3s4ms"), Some(Duration::from_millis(3_723_004)));
        for bad in ["", "30", "s", "1.5s", "1d", "0s", "25h", "99999999999999999999s", "-1s", "18446744073709551615h"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn long_spans() {
        let of = |text: &str| LongSpan::try_from(text.to_owned()).ok().map(|s| s.0);
        assert_eq!(of("24h"), Some(Duration::from_secs(86_400)));
        assert_eq!(of("7d"), Some(Duration::from_secs(7 * 86_400)));
        assert_eq!(of("1d12h30m"), Some(Duration::from_secs(36 * 3600 + 1800)));
        for bad in ["", "d", "7", "0d", "+1d", "-1d", "1.5d", "3661d", "1d1d", "1h1d", "99999999999d"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_and_addresses() {
        assert!(Name::try_from("fs/read_file".to_owned()).is_ok());
        for bad in ["", "a b", "é", "x".repeat(65).as_str()] {
            assert!(Name::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        for good in ["http://127.0.0.1:1/a/", "https://host.test", "http://[::1]:9/x"] {
            assert!(Url::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in
            ["", "host", "/x", "ftp://h/", "http://u:secret@h/", "http://h/?key=secret", "http://h/#secret", "http://"]
        {
            let error = Url::try_from(bad.to_owned()).expect_err(bad);
            assert!(!error.contains("secret"), "{error}");
        }
        let error = EnvName::try_from("sk-secret".to_owned()).expect_err("no name");
        assert!(!error.contains("secret"), "{error}");
    }
}
