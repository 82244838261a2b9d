//! A tool that is one HTTP endpoint: the arguments are the body, the effect key is the `Idempotency-Key`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use inspan_engine::{ReplayRule, ToolError, ToolRun};
use inspan_models::http::{chain, media_type, one_line};
use inspan_wire::v1;
use inspan_wire::v1::file_part::Source;
use serde_json::Value;
use tokio::runtime::Handle;

use super::late::{LATE_MAX, Late};
use super::outside::{self, ANSWER_BYTES_MAX, BodyError, Outside};
use super::secrets::Secrets;
use super::{Listed, json};
use crate::config::{self, HttpTool};

/// One endpoint.
pub(super) struct Endpoint {
    tool: HttpTool,
    headers: HeaderMap,
    secrets: Secrets,
    client: Arc<Outside>,
}

impl Endpoint {
    /// Reads the secrets that `tool` names. Connects to nothing yet.
    pub(super) fn new(
        tool: HttpTool,
        env: &dyn Fn(&str) -> Option<String>,
        client: Arc<Outside>,
    ) -> Result<Endpoint, String> {
        let (mut headers, secrets) =
            outside::headers(&tool.headers, env).map_err(|e| format!("tool {}: {e}", tool.name))?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/*;q=0.9, */*;q=0.5"));
        Ok(Endpoint { tool, headers, secrets, client })
    }

    pub(super) fn rule(&self) -> ReplayRule {
        self.tool.replay
    }

    pub(super) fn listed(&self) -> Listed {
        Listed {
            name: self.tool.name.clone(),
            replay: self.tool.replay,
            description: self.tool.description.clone(),
            input_schema: self.tool.input_schema.clone(),
        }
    }

    /// One request. It is bounded in time as a whole: its answer must be there within it. One that comes later, or when
    /// the turn was cancelled meanwhile, goes to `late`.
    pub(super) async fn run(self: &Arc<Self>, run: ToolRun, late: &Late) -> Result<v1::ToolResult, ToolError> {
        let request = self.request(&run).map_err(ToolError::NotSent)?;
        let endpoint = Arc::clone(self);
        let exchange = async move { endpoint.exchange(request).await }.boxed();
        let mut awaited = Awaited { left: Some((exchange, run)), late: late.clone() };
        tokio::time::timeout(self.tool.timeout, awaited.outcome()).await.unwrap_or_else(|_| {
            let seconds = self.tool.timeout.as_secs_f64();
            Err(ToolError::Unknown(self.say(&format!("gave no answer within {seconds} s"))))
        })
    }

    fn request(&self, run: &ToolRun) -> Result<Request<Full<Bytes>>, String> {
        let args = json::arguments(run.call.args.as_ref()).map_err(|e| self.say(&e))?;
        let mut request = Request::new(Full::new(Bytes::from(Value::Object(args).to_string())));
        *request.method_mut() = match self.tool.method {
            config::Method::Post => Method::POST,
            config::Method::Put => Method::PUT,
            config::Method::Patch => Method::PATCH,
        };
        *request.uri_mut() = self.tool.url.uri().clone();
        *request.headers_mut() = self.headers.clone();
        let key = HeaderValue::try_from(run.effect_key()).expect("hex digits are a header's value");
        request.headers_mut().insert("idempotency-key", key);
        Ok(request)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<v1::ToolResult, ToolError> {
        let response = match self.client.request(request).await {
            Ok(response) => response,
            Err(e) if e.is_connect() => {
                let text = format!("cannot be reached: {}; check its url and the network", chain(&e));
                return Err(ToolError::NotSent(self.say(&text)));
            }
            Err(e) => return Err(ToolError::Unknown(self.say(&format!("gave no answer: {}", chain(&e))))),
        };
        let (head, body) = response.into_parts();
        // A proxy's word that it lost the server says nothing about what the server did.
        if matches!(head.status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT) {
            return Err(ToolError::Unknown(self.say(&format!("is behind a proxy that answered {}", head.status))));
        }
        match outside::body(body, ANSWER_BYTES_MAX).await {
            Ok(body) => {
                let mut result = self.result(head.status, &media_type(&head.headers), body);
                self.secrets.mask_result(&mut result);
                Ok(result)
            }
            Err(BodyError::TooLarge) => Ok(v1::ToolResult {
                is_error: true,
                error: self.say(&format!("answered with more than {ANSWER_BYTES_MAX} bytes: have it answer less")),
                ..Default::default()
            }),
            Err(BodyError::Lost(why)) => {
                Err(ToolError::Unknown(self.say(&format!("broke off in the middle of its answer: {why}"))))
            }
        }
    }

    /// A whole answer. A status of success is a result; any other is a result that is an error: the tool has spoken.
    fn result(&self, status: StatusCode, media_type: &str, body: Bytes) -> v1::ToolResult {
        let mut result = v1::ToolResult::default();
        if !status.is_success() {
            result.is_error = true;
            let mut text = format!("answered {status}");
            if status.is_redirection() {
                text.push_str("; redirects are not followed: use the final address as its url");
            }
            if let Ok(said) = std::str::from_utf8(&body)
                && !said.trim().is_empty()
            {
                text.push_str(&format!(": {}", one_line(said)));
            }
            result.error = self.say(&text);
        }
        fill(&mut result, media_type, body);
        result
    }

    /// A fragment that says which tool it is about.
    fn say(&self, what: &str) -> String {
        format!("tool {} {what}", self.tool.name)
    }
}

/// A request whose answer somebody waits for. When it is given up, it goes on by itself, and what comes of it goes to `late`.
struct Awaited {
    /// `None` once the answer is there.
    left: Option<(BoxFuture<'static, Outcome>, ToolRun)>,
    late: Late,
}

type Outcome = Result<v1::ToolResult, ToolError>;

impl Awaited {
    async fn outcome(&mut self) -> Outcome {
        let (exchange, _) = self.left.as_mut().expect("it is awaited once");
        let outcome = exchange.await;
        self.left = None;
        outcome
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let Some((exchange, run)) = self.left.take() else { return };
        // Without a runtime the host is gone, and its requests with it.
        let Ok(runtime) = Handle::try_current() else { return };
        let late = self.late.clone();
        runtime.spawn(async move {
            if let Ok(Ok(result)) = tokio::time::timeout(LATE_MAX, exchange).await {
                late.record(run, result).await;
            }
        });
    }
}

/// Puts a body where it belongs: a JSON object is the output, other text is text, the rest is a file.
fn fill(result: &mut v1::ToolResult, media_type: &str, body: Bytes) {
    if body.is_empty() {
        return;
    }
    let is_json = media_type == "application/json" || media_type.ends_with("+json");
    if is_json
        && let Ok(Value::Object(fields)) = serde_json::from_slice(&body)
        && let Some(output) = json::to_struct(fields)
    {
        result.output = Some(output);
        return;
    }
    let part = match String::from_utf8(body.into()) {
        Ok(text) => v1::Part::text(text),
        Err(e) => file(media_type, e.into_bytes().into()),
    };
    result.content.push(part);
}

/// A file of this media type.
pub(super) fn file(mime: &str, bytes: Bytes) -> v1::Part {
    let mime = if mime.is_empty() { "application/octet-stream" } else { mime };
    let file = v1::FilePart { mime: mime.to_owned(), source: Some(Source::Bytes(bytes)), ..Default::default() };
    v1::Part { part: Some(v1::part::Part::File(file)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_goes_where_it_belongs() {
        let filled = |media_type: &str, body: &[u8]| {
            let mut result = v1::ToolResult::default();
            fill(&mut result, media_type, Bytes::copy_from_slice(body));
            result
        };
        let object = filled("application/json", br#"{"n": 1}"#);
        assert!(object.output.is_some() && object.content.is_empty());
        assert!(filled("application/problem+json", b"{}").output.is_some());
        for text in ["[1]", "1", "not json", r#"{"n": 12345678901234567890}"#] {
            let result = filled("application/json", text.as_bytes());
            assert_eq!((result.output, result.content), (None, vec![v1::Part::text(text)]), "{text}");
        }
        assert_eq!(filled("text/plain", br#"{"n": 1}"#).content, [v1::Part::text(r#"{"n": 1}"#)]);
        assert_eq!(filled("image/png", &[0x89, 0xff]).content, [file("image/png", Bytes::from_static(&[0x89, 0xff]))]);
        assert_eq!(filled("", b""), v1::ToolResult::default());
    }
}
