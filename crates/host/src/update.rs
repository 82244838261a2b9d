//! What the streams carry, before it is spelled as protobuf or as JSON.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use inspan_engine::observe::Seen;
use inspan_journal::Record;
use inspan_wire::v1;

use crate::fault::Fault;

/// One frame of a stream.
#[derive(Debug, Clone)]
pub(crate) enum Update {
    /// The session's state.
    Session(Box<v1::Session>),
    /// A durable record, in commit order. The event is there when someone has decoded it already.
    Record(Record, Option<Arc<v1::Event>>),
    /// Ephemeral text.
    Delta(Arc<v1::Delta>),
    /// Nothing happened for a while.
    Heartbeat {
        /// The last record given.
        last_seq: i64,
    },
}

/// Frames until the stream ends: cleanly, or with its fault last.
pub(crate) type Updates = BoxStream<'static, Result<Update, Fault>>;

/// The decoded event of a record.
///
/// # Errors
/// DATA_LOSS when the stored event cannot be decoded.
pub(crate) fn decoded(record: &Record, event: Option<Arc<v1::Event>>) -> Result<Arc<v1::Event>, Fault> {
    if let Some(event) = event {
        return Ok(event);
    }
    let event = inspan_wire::parse::event(&record.event).map_err(|e| {
        Fault::new(tonic::Code::DataLoss, format!("the event of record {} cannot be decoded: {e}", record.seq))
    })?;
    Ok(Arc::new(event))
}

/// A record with its decoded event.
pub(crate) fn seen(record: Record, event: Option<Arc<v1::Event>>) -> Result<Seen, Fault> {
    let event = decoded(&record, event)?;
    Ok(Seen { record, event })
}

/// A record as `agentsessions.v1` spells it.
pub(crate) fn log_of(record: Record, event: Option<Arc<v1::Event>>) -> Result<v1::LogRecord, Fault> {
    let seen = seen(record, event)?;
    Ok(v1::LogRecord {
        seq: seen.record.seq,
        prev_hash: seen.record.prev_hash.map(|hash| hash.to_string()).unwrap_or_default(),
        content_hash: seen.record.content_hash.to_string(),
        fence: seen.record.fence,
        event: Some(Arc::unwrap_or_clone(seen.event)),
    })
}

/// Milliseconds since the Unix epoch as protobuf spells a time.
pub(crate) fn timestamp(ms: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: ms.div_euclid(1000),
        nanos: i32::try_from(ms.rem_euclid(1000) * 1_000_000).expect("a remainder below 10^9"),
    }
}

/// Nanoseconds since the Unix epoch as protobuf spells a time.
pub(crate) fn timestamp_ns(ns: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: ns.div_euclid(1_000_000_000),
        nanos: i32::try_from(ns.rem_euclid(1_000_000_000)).expect("a remainder below 10^9"),
    }
}
