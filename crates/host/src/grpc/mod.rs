//! The gRPC spelling.

mod asks;
mod journal;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use inspan_wire::{DESCRIPTORS, inspan_v1, v1};
use tonic::Status;
use tonic::service::Routes;
use tonic_health::server::HealthReporter;

use crate::Host;
use crate::fault::Fault;
use crate::proto::{AsksServer, JournalServer, SessionsServer};
use crate::update::{Update, Updates, log_of, seen};

/// A message that comes in is at most this long; so is the body of an HTTP request.
pub(crate) const MESSAGE_IN_BYTES_MAX: usize = 64 << 20;
/// A message that goes out is at most this long. Nothing that was let in gets there: a record
/// carries its event twice, and the JSON of a text is at most six times as long as the text.
pub(crate) const MESSAGE_OUT_BYTES_MAX: usize = 8 * MESSAGE_IN_BYTES_MAX;

/// The frames of a gRPC stream.
type Frames<T> = BoxStream<'static, Result<T, Status>>;

/// Every service of the port, and the reporter that tells of their health.
pub(crate) async fn routes(host: &Arc<Host>) -> (Routes, HealthReporter) {
    let sessions = SessionsServer::new(sessions::Service(Arc::clone(host)))
        .max_decoding_message_size(MESSAGE_IN_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_OUT_BYTES_MAX);
    let journal = JournalServer::new(journal::Service(Arc::clone(host)))
        .max_decoding_message_size(MESSAGE_IN_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_OUT_BYTES_MAX);
    let asks = AsksServer::new(asks::Service(Arc::clone(host)))
        .max_decoding_message_size(MESSAGE_IN_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_OUT_BYTES_MAX);
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<SessionsServer<sessions::Service>>().await;
    health.set_serving::<JournalServer<journal::Service>>().await;
    health.set_serving::<AsksServer<asks::Service>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let decodes = "the committed descriptors decode";
    let routes = Routes::new(sessions)
        .add_service(journal)
        .add_service(asks)
        .add_service(health_service)
        .add_service(reflection().build_v1().expect(decodes))
        .add_service(reflection().build_v1alpha().expect(decodes));
    (routes, health)
}

/// Says on the health service that this host takes no more work.
pub(crate) async fn stop_serving(health: &HealthReporter) {
    health.set_not_serving::<SessionsServer<sessions::Service>>().await;
    health.set_not_serving::<JournalServer<journal::Service>>().await;
    health.set_not_serving::<AsksServer<asks::Service>>().await;
    health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
}

/// Spells each update, leaving out those that the stream's message has no place for.
fn frames<T: Send + 'static>(
    updates: Updates,
    spell: impl Fn(Update) -> Result<Option<T>, Fault> + Send + 'static,
) -> Frames<T> {
    updates
        .filter_map(move |update| {
            let frame = update.and_then(&spell).transpose().map(|frame| frame.map_err(Status::from));
            std::future::ready(frame)
        })
        .boxed()
}

/// A record as `agentsessions.v1` spells it.
fn log_record(update: Update) -> Result<Option<v1::LogRecord>, Fault> {
    let Update::Record(record, event) = update else { return Ok(None) };
    log_of(record, event).map(Some)
}

/// A record as `inspan.v1` spells it.
fn full_record(record: inspan_journal::Record, event: Option<Arc<v1::Event>>) -> Result<inspan_v1::Record, Fault> {
    let seen = seen(record, event)?;
    let canonical_event = String::from_utf8(seen.record.event.to_vec())
        .map_err(|_| Fault::new(tonic::Code::DataLoss, format!("record {} is not UTF-8", seen.record.seq)))?;
    Ok(inspan_v1::Record {
        seq: seen.record.seq,
        prev_hash: seen.record.prev_hash.map(|hash| hash.to_string()).unwrap_or_default(),
        content_hash: seen.record.content_hash.to_string(),
        fence: seen.record.fence,
        ts: Some(crate::update::timestamp(seen.record.ts_ms)),
        canonical_event,
        event: Some(Arc::unwrap_or_clone(seen.event)),
    })
}

/// The deadline that a caller set for its call, as gRPC puts it in the metadata.
fn call_timeout(metadata: &tonic::metadata::MetadataMap) -> Option<Duration> {
    let value = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.len() > 8 {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}
