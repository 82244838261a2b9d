//! What a provider said when it said no.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};
use inspan_engine::ModelError;
use serde_json::Value;

/// Characters of a provider's message that are repeated.
const MESSAGE_CHARS_MAX: usize = 500;

/// An answer whose status is not 2xx.
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    /// How long the provider asks to wait.
    pub(crate) after: Option<Duration>,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
        let after = headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok()).and_then(|v| v.trim().parse().ok());
        Failure { status, after: after.map(Duration::from_secs), message: message_of(body) }
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.status.as_u16(), 408 | 409 | 429 | 500..)
    }

    /// The error of a request to `url` (without its query), made `attempts` times.
    pub(crate) fn into_error(self, url: &str, attempts: u32) -> ModelError {
        let mut message = format!("{url} answered {}", self.status);
        if attempts > 1 {
            message.push_str(&format!(" ({attempts} attempts)"));
        }
        if !self.message.is_empty() {
            message.push_str(&format!(": {}", self.message));
        }
        if let Some(after) = self.after {
            message.push_str(&format!("; it asks to wait {} s", after.as_secs()));
        }
        message.push_str("; ");
        message.push_str(self.advice());
        ModelError { message, retryable: self.is_passing() }
    }

    fn advice(&self) -> &'static str {
        match self.status.as_u16() {
            401 | 403 => "check the key and what it may do",
            404 => "check the base URL, the path and the model id",
            413 => "send less: the request is too large for this provider",
            429 => "try again later, or raise the limit at the provider",
            300..=399 => "redirects are not followed: use the final address as the base URL",
            408 | 409 | 500.. => "try again later",
            _ => "change the request: sent again it will fail again",
        }
    }
}

/// The message inside an error body, or the body's text; bounded, on one line.
pub(crate) fn message_of(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(value) => find_message(&value).map_or_else(|| value.to_string(), str::to_owned),
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    one_line(&text)
}

fn find_message(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(fields) => {
            ["message", "error", "detail"].iter().find_map(|name| find_message(fields.get(*name)?))
        }
        _ => None,
    }
}

/// Foreign text in an error: bounded, without line breaks and control characters.
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_CHARS_MAX, message_of};

    #[test]
    fn messages_are_found_and_bounded() {
        let table = [
            (r#"{"error":{"message":"no such model","type":"x"}}"#, "no such model"),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, "Overloaded"),
            (r#"{"error":"plain"}"#, "plain"),
            (r#"{"detail":"not found"}"#, "not found"),
            (r#"{"code":7}"#, r#"{"code":7}"#),
            ("<html>\n  <b>bad\tgateway</b>", "<html> <b>bad gateway</b>"),
            ("", ""),
        ];
        for (body, expected) in table {
            assert_eq!(message_of(body.as_bytes()), expected, "{body}");
        }
        let long = message_of("é".repeat(5000).as_bytes());
        assert_eq!(long.chars().count(), MESSAGE_CHARS_MAX + 1);
    }
}
