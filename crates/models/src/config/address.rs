//! Where a provider is.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// The base URL of a provider: `http` or `https`, a host, maybe a port and a path. No user info, no
/// query: credentials in a URL end up in logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(String);

/// Why a base URL is refused. Does not repeat it, since it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// Not a URL with a host.
    #[error("the base URL is not of the form http(s)://host[:port][/path]")]
    Form,
    /// Neither http nor https.
    #[error("the base URL is neither http nor https")]
    Scheme,
    /// A user or a password before the host.
    #[error("the base URL has user info; give the key in the environment or in a file")]
    UserInfo,
    /// A query or a fragment.
    #[error("the base URL has a query or a fragment; a query belongs to the path")]
    Query,
}

impl FromStr for BaseUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<BaseUrl, BadUrl> {
        let text = text.trim();
        if text.contains('#') {
            return Err(BadUrl::Query);
        }
        let uri: Uri = text.parse().map_err(|_| if text.contains('@') { BadUrl::UserInfo } else { BadUrl::Form })?;
        let authority = uri.authority().ok_or(BadUrl::Form)?;
        if authority.as_str().contains('@') {
            return Err(BadUrl::UserInfo);
        }
        match uri.scheme_str() {
            Some("http" | "https") => {}
            Some(_) => return Err(BadUrl::Scheme),
            None => return Err(BadUrl::Form),
        }
        if uri.query().is_some() {
            return Err(BadUrl::Query);
        }
        if authority.host().is_empty() {
            return Err(BadUrl::Form);
        }
        Ok(BaseUrl(text.trim_end_matches('/').to_owned()))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl BaseUrl {
    /// Whether connections need TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.0.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
    }

    /// The URL to post to; `None` when `path` does not fit.
    pub(crate) fn join(&self, path: &str) -> Option<Uri> {
        let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
        if path.contains('#') {
            return None;
        }
        format!("{}{slash}{path}", self.0).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{BadUrl, BaseUrl};

    #[test]
    fn base_urls() {
        let ok = ["http://127.0.0.1:8080", "https://api.example.com/v1/", " http://[::1]:9/v1", "HTTPS://host"];
        for text in ok {
            assert!(text.parse::<BaseUrl>().is_ok(), "{text}");
        }
        let bad = [
            ("https://user:pass@host/v1", BadUrl::UserInfo),
            ("https://key@host", BadUrl::UserInfo),
            ("ftp://host", BadUrl::Scheme),
            ("host:80", BadUrl::Form),
            ("/v1", BadUrl::Form),
            ("", BadUrl::Form),
            ("https://host/v1?key=x", BadUrl::Query),
            ("https://host/#x", BadUrl::Query),
        ];
        for (text, expected) in bad {
            assert_eq!(text.parse::<BaseUrl>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_path_continues_the_base() {
        let join = |base: &str, path: &str| base.parse::<BaseUrl>().expect("good").join(path).map(|u| u.to_string());
        assert_eq!(join("http://h/v1/", "/chat/completions").as_deref(), Some("http://h/v1/chat/completions"));
        assert_eq!(join("http://h/v1", "messages?beta=true").as_deref(), Some("http://h/v1/messages?beta=true"));
        assert_eq!(join("http://h", "a b"), None);
        assert_eq!(join("http://h", "/x#y"), None);
    }
}
