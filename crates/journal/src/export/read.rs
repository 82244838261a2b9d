//! Reading a file, line by line: strict in form. What the lines mean is checked by [`crate::verify`].

use std::io::{BufRead, Read as _};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use inspan_wire::{Digest, SessionUid, json, time};
use sha2::{Digest as _, Sha256};

use super::lines::{self, FORMAT, Line};
use super::{CHUNK_BYTES_MAX, Error, Exported, LINE_BYTES_MAX, Totals, VERSION, patched};
use crate::{Head, Record};

/// One thing in a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A piece of a blob; the pieces of one blob follow each other without a gap.
    Blob(BlobChunk),
    /// The text of a model request and the digest that it is said to have.
    Request(Digest, Arc<str>),
    /// A record.
    Record(Record),
    /// The last line; what it says of the lines before it is true.
    End(Totals),
}

/// A piece of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobChunk {
    /// The digest that the whole is said to have.
    pub digest: Digest,
    /// Where the piece begins.
    pub at: u64,
    /// The size of the whole.
    pub size: u64,
    /// The piece.
    pub bytes: Bytes,
}

impl BlobChunk {
    /// Whether this is the last piece.
    pub fn is_last(&self) -> bool {
        self.at + self.bytes.len() as u64 == self.size
    }
}

/// Reads one file.
pub struct Reader<R> {
    input: R,
    session: Exported,
    /// The line at hand, from 1, and its text.
    number: u64,
    line: Vec<u8>,
    /// Of all lines before the one at hand.
    hash: Sha256,
    totals: Totals,
    last_seq: i64,
    last_request: Arc<str>,
    /// Digest, next offset and size of a blob that goes on.
    open_blob: Option<(Digest, u64, u64)>,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the lines of format and session.
    ///
    /// # Errors
    /// [`Error::Line`] for a file that is no export or of another version, [`Error::Truncated`],
    /// [`Error::Io`].
    pub fn open(input: R) -> Result<Reader<R>, Error> {
        let session = Exported {
            uid: SessionUid::from(""),
            info: inspan_wire::v1::Session::default(),
            fence: 0,
            times_ns: (0, 0),
            head: Head::default(),
            lineage: Vec::new(),
        };
        let mut reader = Reader {
            input,
            session,
            number: 0,
            line: Vec::new(),
            hash: Sha256::new(),
            totals: Totals::default(),
            last_seq: 0,
            last_request: "".into(),
            open_blob: None,
            ended: false,
        };
        reader.header()?;
        reader.session = reader.session_line()?;
        Ok(reader)
    }

    /// What the file says of its session.
    pub fn session(&self) -> &Exported {
        &self.session
    }

    /// The next item, `None` behind the last line.
    ///
    /// # Errors
    /// [`Error::Line`], [`Error::Truncated`], [`Error::Io`].
    #[expect(clippy::should_implement_trait, reason = "an iterator of results would invite reading on behind an error")]
    pub fn next(&mut self) -> Result<Option<Item>, Error> {
        if self.ended {
            return Ok(None);
        }
        self.advance()?;
        let line = std::mem::take(&mut self.line);
        let item = parse(&line).and_then(|line| self.item(line)).map_err(|what| self.wrong(what));
        self.line = line;
        item.map(Some)
    }

    /// Takes the line at hand into the totals and reads the next one.
    fn advance(&mut self) -> Result<(), Error> {
        if self.number > 0 {
            self.hash.update(&self.line);
            self.totals.lines += 1;
        }
        self.line.clear();
        let read = (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
        if self.line.last() != Some(&b'\n') {
            if read as u64 == LINE_BYTES_MAX {
                self.number += 1;
                return Err(self.wrong(format!("it is longer than {LINE_BYTES_MAX} bytes")));
            }
            return Err(Error::Truncated { line: self.number, last_seq: self.last_seq });
        }
        self.number += 1;
        Ok(())
    }

    fn wrong(&self, what: String) -> Error {
        Error::Line { line: self.number, what }
    }

    fn header(&mut self) -> Result<(), Error> {
        self.advance()?;
        match parse(&self.line) {
            Ok(Line::Export(header)) if header.format != FORMAT => {
                Err(self.wrong(format!("a file of format {:?}, not {FORMAT:?}", header.format)))
            }
            Ok(Line::Export(header)) if header.version != VERSION => Err(self
                .wrong(format!("version {} of the export format; this build reads version {VERSION}", header.version))),
            Ok(Line::Export(_)) => Ok(()),
            _ => Err(self.wrong("this is no inspan export".to_owned())),
        }
    }

    fn session_line(&mut self) -> Result<Exported, Error> {
        self.advance()?;
        let session = match parse(&self.line) {
            Ok(Line::Session(session)) => exported(&session),
            Ok(_) => Err("the session was expected".to_owned()),
            Err(what) => Err(what),
        };
        session.map_err(|what| self.wrong(what))
    }

    fn item(&mut self, line: Line<'_>) -> Result<Item, String> {
        if self.open_blob.is_some() && !matches!(line, Line::Blob(_)) {
            return Err("the blob before it is not finished".to_owned());
        }
        match line {
            Line::Blob(blob) => self.blob(&blob).map(Item::Blob),
            Line::Request(request) => self.request(&request),
            Line::Record(line) => {
                let record = record(line)?;
                self.totals.records += 1;
                self.last_seq = record.seq;
                Ok(Item::Record(record))
            }
            Line::End(end) => self.end(&end),
            Line::Export(_) | Line::Session(_) => Err("it may stand at the start of a file only".to_owned()),
        }
    }

    fn blob(&mut self, line: &lines::Blob<'_>) -> Result<BlobChunk, String> {
        let digest = digest(&line.digest)?;
        let bytes = STANDARD.decode(line.base64.as_bytes()).map_err(|e| format!("bad base64: {e}"))?;
        let chunk = BlobChunk { digest, at: line.at, size: line.size, bytes: bytes.into() };
        let (same, next, size) = self.open_blob.unwrap_or((digest, 0, line.size));
        if (same, next, size) != (digest, line.at, line.size) {
            return Err(format!("byte {next} of blob {same} of {size} bytes was expected"));
        }
        let length = chunk.bytes.len();
        let end = next + length as u64;
        if length > CHUNK_BYTES_MAX || end > size || (length == 0 && size > 0) {
            return Err(format!("a chunk of {length} bytes at {next} of {size}"));
        }
        self.open_blob = (!chunk.is_last()).then_some((digest, end, size));
        self.totals.blobs += u64::from(chunk.is_last());
        Ok(chunk)
    }

    fn request(&mut self, line: &lines::Request<'_>) -> Result<Item, String> {
        let digest = digest(&line.digest)?;
        let text = patched(&self.last_request, line.prefix, line.suffix, &line.middle)
            .ok_or("it takes more from the request before it than there is")?;
        self.last_request = text.into();
        self.totals.requests += 1;
        Ok(Item::Request(digest, Arc::clone(&self.last_request)))
    }

    /// Checks the last line against what was read, and that nothing follows.
    fn end(&mut self, line: &lines::End<'_>) -> Result<Item, String> {
        let (lines, records, blobs, requests) = (line.lines, line.records, line.blobs, line.requests);
        let said = Totals { lines, records, blobs, requests };
        if said != self.totals {
            return Err(format!("the file says that it has {said:?}, and it has {:?}", self.totals));
        }
        let found = Digest(self.hash.clone().finalize().into());
        if digest(&line.sha256)? != found {
            return Err("the SHA-256 of the lines before it is another".to_owned());
        }
        match self.input.fill_buf() {
            Ok([]) => {}
            Ok(_) => return Err("there is more behind the last line".to_owned()),
            Err(e) => return Err(e.to_string()),
        }
        self.ended = true;
        Ok(Item::End(said))
    }
}

fn parse(line: &[u8]) -> Result<Line<'_>, String> {
    serde_json::from_slice(line).map_err(|e| format!("not a line of an export: {e}"))
}

fn digest(hex: &str) -> Result<Digest, String> {
    hex.parse().map_err(|e| format!("{e}, not {hex:?}"))
}

/// A digest that may be missing.
fn prev_digest(hex: &str) -> Result<Option<Digest>, String> {
    if hex.is_empty() { Ok(None) } else { digest(hex).map(Some) }
}

fn instant(text: &str) -> Result<prost_types::Timestamp, String> {
    time::parse(text).ok_or_else(|| format!("{text:?} is not a time"))
}

fn record(line: lines::Record<'_>) -> Result<Record, String> {
    Ok(Record {
        seq: line.seq,
        prev_hash: prev_digest(&line.prev_hash)?,
        content_hash: digest(&line.content_hash)?,
        fence: line.fence,
        ts_ms: time::to_ns(&instant(&line.ts)?).div_euclid(1_000_000),
        event: Bytes::from(line.event.into_owned()),
    })
}

fn exported(line: &lines::Session<'_>) -> Result<Exported, String> {
    if line.uid.is_empty() {
        return Err("the session has no uid".to_owned());
    }
    let info = json::from_slice(line.info.to_string().as_bytes()).map_err(|e| format!("session info: {e}"))?;
    let ns = |text: &str| instant(text).map(|time| time::to_ns(&time));
    Ok(Exported {
        uid: SessionUid::from(&*line.uid),
        info,
        fence: line.fence,
        times_ns: (ns(&line.create_time)?, ns(&line.update_time)?),
        head: Head { seq: line.head.seq, hash: prev_digest(&line.head.hash)? },
        lineage: line.lineage.iter().map(|p| (SessionUid::from(&*p.uid), p.fork_seq)).collect(),
    })
}
