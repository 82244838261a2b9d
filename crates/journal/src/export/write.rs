//! Writing a file, line by line.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use inspan_wire::{Digest, json, time};
use sha2::{Digest as _, Sha256};

use super::lines::{self, FORMAT, Line};
use super::{CHUNK_BYTES_MAX, Error, Exported, Totals, VERSION, difference};
use crate::Record;

/// Writes one session. The caller keeps the order that the format asks for: blobs and request texts
/// before the records that name them.
#[must_use = "a file without its last line reads as truncated: call finish"]
pub struct Writer<W: Write> {
    out: W,
    hash: Sha256,
    line: Vec<u8>,
    totals: Totals,
    last_request: String,
}

impl<W: Write> Writer<W> {
    /// Starts a file with the lines of its format and of its session.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(out: W, session: &Exported) -> Result<Writer<W>, Error> {
        let (hash, totals) = (Sha256::new(), Totals::default());
        let mut writer = Writer { out, hash, line: Vec::new(), totals, last_request: String::new() };
        writer.line(&Line::Export(lines::Header { format: FORMAT.into(), version: VERSION }))?;
        let time = |ns| time::text(&time::from_ns(ns)).into();
        let (create_time, update_time) = (time(session.times_ns.0), time(session.times_ns.1));
        let info = json::to_value(&session.info).map_err(|e| Error::Io(e.to_string()))?;
        let parent = |(uid, fork_seq): &'_ (inspan_wire::SessionUid, i64)| lines::Parent {
            uid: uid.as_str().to_owned().into(),
            fork_seq: *fork_seq,
        };
        writer.line(&Line::Session(Box::new(lines::Session {
            uid: session.uid.as_str().into(),
            info,
            fence: session.fence,
            create_time,
            update_time,
            head: lines::Head { seq: session.head.seq, hash: hex(session.head.hash).into() },
            lineage: session.lineage.iter().map(parent).collect(),
        })))?;
        Ok(writer)
    }

    fn line(&mut self, line: &Line<'_>) -> Result<(), Error> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line).map_err(|e| Error::Io(e.to_string()))?;
        self.line.push(b'\n');
        self.hash.update(&self.line);
        self.totals.lines += 1;
        self.out.write_all(&self.line)?;
        Ok(())
    }

    /// A blob, in as many lines as it takes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn blob(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), Error> {
        let size = bytes.len() as u64;
        let mut at = 0;
        loop {
            let chunk = &bytes[at..bytes.len().min(at + CHUNK_BYTES_MAX)];
            self.line(&Line::Blob(lines::Blob {
                digest: digest.to_string().into(),
                at: at as u64,
                size,
                base64: STANDARD.encode(chunk).into(),
            }))?;
            at += chunk.len();
            if at == bytes.len() {
                self.totals.blobs += 1;
                return Ok(());
            }
        }
    }

    /// The text of a model request.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn request(&mut self, digest: Digest, text: &str) -> Result<(), Error> {
        let base = std::mem::take(&mut self.last_request);
        let (prefix, suffix, middle) = difference(&base, text);
        let digest = digest.to_string().into();
        self.line(&Line::Request(lines::Request { digest, prefix, suffix, middle: middle.into() }))?;
        text.clone_into(&mut self.last_request);
        self.totals.requests += 1;
        Ok(())
    }

    /// A record.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Journal`] when its event is no text.
    pub fn record(&mut self, record: &Record) -> Result<(), Error> {
        let event = std::str::from_utf8(&record.event)
            .map_err(|_| crate::Error::Invalid(format!("the event of record {} is not UTF-8", record.seq)))?;
        self.line(&Line::Record(lines::Record {
            seq: record.seq,
            prev_hash: hex(record.prev_hash).into(),
            content_hash: hex(Some(record.content_hash)).into(),
            fence: record.fence,
            ts: time::text(&time::from_ms(record.ts_ms)).into(),
            event: event.into(),
        }))?;
        self.totals.records += 1;
        Ok(())
    }

    /// Writes the last line and flushes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<(W, Totals), Error> {
        let totals = self.totals;
        let Totals { lines, records, blobs, requests } = totals;
        let sha256 = Digest(self.hash.clone().finalize().into()).to_string().into();
        self.line(&Line::End(lines::End { lines, records, blobs, requests, sha256 }))?;
        self.out.flush()?;
        Ok((self.out, totals))
    }
}

/// A digest as its hex form, none as the empty text.
fn hex(digest: Option<Digest>) -> String {
    digest.map(|digest| digest.to_string()).unwrap_or_default()
}
