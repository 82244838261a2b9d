//! Streams: server-sent events, or one JSON object in a line.
//!
//! | frame | SSE | JSON line |
//! |---|---|---|
//! | a record | `id: SEQ`, `event: record`, `data: {…}` | `{"record":{…}}` |
//! | anything else | `event: NAME`, `data: {…}` | `{"NAME":{…}}` |
//!
//! A stream that is over says so (`end`); one that fails says why (`error`) and ends.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use inspan_journal::Record;
use inspan_wire::{json, v1};
use serde_json::{Value, json};
use tonic::Code;

use super::Refusal;
use super::routes::Event;
use crate::fault::Fault;
use crate::update::{Update, Updates, timestamp};

/// How the frames of a stream are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Sse,
    Lines,
}

impl Form {
    /// What the caller accepts: SSE, unless it asks for JSON lines.
    pub(super) fn of(headers: &HeaderMap) -> Form {
        let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let lines = accepted.any(|value| {
            value.split(',').any(|item| {
                item.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/x-ndjson")
            })
        });
        if lines { Form::Lines } else { Form::Sse }
    }

    fn content_type(self) -> &'static str {
        match self {
            Form::Sse => "text/event-stream",
            Form::Lines => "application/x-ndjson",
        }
    }

    fn write(self, event: Event, id: Option<i64>, data: &str) -> Bytes {
        let name = event.name();
        let text = match (self, id) {
            (Form::Sse, Some(id)) => format!("id: {id}\nevent: {name}\ndata: {data}\n\n"),
            (Form::Sse, None) => format!("event: {name}\ndata: {data}\n\n"),
            (Form::Lines, _) => format!("{{\"{name}\":{data}}}\n"),
        };
        text.into()
    }
}

impl Event {
    /// Its name in both forms.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Event::Session => "session",
            Event::Record => "record",
            Event::Delta => "delta",
            Event::Heartbeat => "heartbeat",
            Event::Error => "error",
            Event::End => "end",
        }
    }
}

/// The record behind which an `EventSource` that reconnects goes on.
///
/// # Errors
/// 400 for an id that no stream of this host has given.
pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, Refusal> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let id = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|id| (0..i64::MAX).contains(id));
    id.map(Some).ok_or_else(|| Refusal::invalid("last-event-id is not the seq of a record"))
}

/// Answers with the frames of `updates`; silence of `heartbeat` is broken by a heartbeat, unless the
/// updates see to that themselves.
pub(super) fn respond(updates: Updates, form: Form, heartbeat: Option<Duration>) -> Response {
    let writer = Writer { updates, form, heartbeat, last_seq: 0 };
    let frames = stream::unfold(Some(writer), |writer| async move {
        let mut writer = writer?;
        let (frame, goes_on) = writer.next().await;
        Some((Ok::<_, Infallible>(frame), goes_on.then_some(writer)))
    });
    let headers = [
        (header::CONTENT_TYPE, form.content_type()),
        (header::CACHE_CONTROL, "no-store"),
        // What a proxy of the usual kind needs to hear so that it does not hold frames back.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

struct Writer {
    updates: Updates,
    form: Form,
    heartbeat: Option<Duration>,
    last_seq: i64,
}

impl Writer {
    /// The next frame, and whether another one follows.
    async fn next(&mut self) -> (Bytes, bool) {
        let next = self.updates.next();
        let update = match self.heartbeat {
            None => next.await,
            // A frame that is being made when the silence is over is made all the same.
            Some(heartbeat) => match tokio::time::timeout(heartbeat, next).await {
                Ok(update) => update,
                Err(_) => Some(Ok(Update::Heartbeat { last_seq: self.last_seq })),
            },
        };
        let update = match update {
            Some(update) => update,
            None => return (self.form.write(Event::End, None, &last_seq(self.last_seq)), false),
        };
        match update.and_then(|update| self.write(update)) {
            Ok(frame) => (frame, true),
            Err(fault) => (self.form.write(Event::Error, None, &fault.to_json().to_string()), false),
        }
    }

    fn write(&mut self, update: Update) -> Result<Bytes, Fault> {
        Ok(match update {
            Update::Record(record, _) => {
                self.last_seq = record.seq;
                self.form.write(Event::Record, Some(record.seq), &record_json(&record)?)
            }
            Update::Session(session) => self.form.write(Event::Session, None, &text(json::to_value(&*session))?),
            Update::Delta(delta) => self.form.write(Event::Delta, None, &delta_json(&delta)),
            Update::Heartbeat { last_seq: seq } => self.form.write(Event::Heartbeat, None, &last_seq(seq)),
        })
    }
}

fn last_seq(seq: i64) -> String {
    json!({ "last_seq": seq.to_string() }).to_string()
}

/// A delta as the generic path writes it. A turn that streams has hundreds, and each is waited for.
fn delta_json(delta: &v1::Delta) -> String {
    #[derive(serde::Serialize)]
    struct Fields<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        chunk: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        done: bool,
        #[serde(skip_serializing_if = "str::is_empty")]
        execution_id: &'a str,
        #[serde(skip_serializing_if = "is_zero")]
        part_index: i32,
    }
    fn is_zero(number: &i32) -> bool {
        *number == 0
    }
    let v1::Delta { execution_id, part_index, chunk, done } = delta;
    let fields = Fields { chunk, done: *done, execution_id, part_index: *part_index };
    serde_json::to_string(&fields).expect("text and numbers have a JSON form")
}

fn text(value: Result<Value, json::Error>) -> Result<String, Fault> {
    value
        .map(|value| value.to_string())
        .map_err(|e| Fault::new(Code::Internal, format!("a frame has no JSON form: {e}")))
}

/// A record with its event's canonical text, byte for byte: what a newer host wrote and this one does
/// not understand is served all the same.
fn record_json(record: &Record) -> Result<String, Fault> {
    let event = std::str::from_utf8(&record.event).ok().filter(|text| !text.contains(|c: char| c.is_ascii_control()));
    let Some(event) = event else {
        // Canonical JSON is one line; anything else would break out of its frame.
        return Err(Fault::new(Code::DataLoss, format!("record {} is not canonical JSON", record.seq)));
    };
    let prev_hash = record.prev_hash.map(|hash| hash.to_string()).unwrap_or_default();
    let ts = text(json::to_value(&timestamp(record.ts_ms)))?;
    Ok(format!(
        r#"{{"seq":"{}","prev_hash":"{prev_hash}","content_hash":"{}","fence":"{}","ts":{ts},"event":{event}}}"#,
        record.seq, record.content_hash, record.fence
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The short way writes what the generic one does.
    #[test]
    fn a_delta_is_written_as_by_the_generic_path() {
        let whole = v1::Delta {
            execution_id: "0123456789abcdef".to_owned(),
            part_index: -3,
            chunk: "a \"quote\"\n\u{7} \u{2028} \u{1f600} <b>".to_owned(),
            done: true,
        };
        for delta in [
            v1::Delta::default(),
            whole.clone(),
            v1::Delta { done: false, ..whole.clone() },
            v1::Delta { part_index: 0, ..whole.clone() },
            v1::Delta { chunk: String::new(), ..whole },
        ] {
            assert_eq!(delta_json(&delta), json::to_value(&delta).unwrap().to_string());
        }
    }
}
