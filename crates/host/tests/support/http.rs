//! A bare HTTP client: it sends what it is told and reads streams frame by frame.

use std::collections::VecDeque;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::Running;

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }
}

pub fn client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Sends a request with these headers and this body.
pub async fn send(
    running: &Running,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> hyper::Response<Incoming> {
    let mut request = Request::builder().method(method).uri(format!("http://{}{path}", running.authority()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).expect("the request is well formed");
    client().request(request).await.expect("the host answers")
}

/// Reads an answer to its end.
pub async fn read(response: hyper::Response<Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("the answer is whole").to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}

pub async fn get(running: &Running, path: &str) -> Answer {
    read(send(running, Method::GET, path, &[], "").await).await
}

pub async fn post(running: &Running, path: &str, body: &str) -> Answer {
    read(send(running, Method::POST, path, &[("content-type", "application/json")], body.to_owned()).await).await
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: Option<i64>,
    pub name: String,
    pub data: Value,
}

impl Event {
    /// In one word, as the support module words gRPC frames.
    pub fn word(&self) -> String {
        let text = |path: &str| self.data.pointer(path).and_then(Value::as_str).unwrap_or_default();
        match self.name.as_str() {
            "session" => format!("session@{}", if text("/last_seq").is_empty() { "0" } else { text("/last_seq") }),
            "record" => format!("{} {}", text("/seq"), text("/event/kind").trim_start_matches("EVENT_")),
            "delta" if self.data.get("done") == Some(&Value::Bool(true)) => "done".to_owned(),
            "delta" => format!("delta {:?}", text("/chunk")),
            other => other.to_owned(),
        }
    }
}

/// A stream of server-sent events, read as it comes.
pub struct Events {
    body: Incoming,
    text: String,
    ready: VecDeque<Event>,
}

impl Events {
    pub fn new(response: hyper::Response<Incoming>) -> Events {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { body: response.into_body(), text: String::new(), ready: VecDeque::new() }
    }

    /// The next event; `None` at a clean end.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let frame = self.body.frame().await?.expect("the stream is whole");
            let Ok(data) = frame.into_data() else { continue };
            self.text.push_str(std::str::from_utf8(&data).expect("frames are cut at characters"));
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                self.ready.push_back(parse(event));
                self.text = rest.to_owned();
            }
        }
    }

    /// The next event that is no heartbeat.
    pub async fn next_real(&mut self) -> Option<Event> {
        loop {
            match self.next().await {
                Some(event) if event.name == "heartbeat" => {}
                other => return other,
            }
        }
    }

    /// The words of everything to the end.
    pub async fn words(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(event) = self.next_real().await {
            words.push(event.word());
        }
        words
    }
}

fn parse(text: &str) -> Event {
    let mut event = Event { id: None, name: String::new(), data: Value::Null };
    for line in text.lines() {
        match line.split_once(": ").expect("a field and a value") {
            ("id", id) => event.id = Some(id.parse().expect("a seq")),
            ("event", name) => name.clone_into(&mut event.name),
            ("data", data) => event.data = serde_json::from_str(data).expect("JSON"),
            (other, _) => panic!("a field {other}"),
        }
    }
    event
}

/// Opens a stream.
pub async fn events(running: &Running, path: &str, headers: &[(&str, &str)]) -> Events {
    Events::new(send(running, Method::GET, path, headers, "").await)
}
