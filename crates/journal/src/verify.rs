//! Does a journal hold? Checked from its bytes alone, and never claimed beyond what was checked.
//!
//! A chain shows that nothing in it was changed, moved or left out. It cannot show that its tail was
//! not cut off: for that, a head that was noted elsewhere is needed, the anchor. A report
//! therefore says "valid up to", and whether an anchor confirms it.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::future::poll_fn;
use std::io::BufRead;
use std::pin::Pin;
use std::task::Poll;

use inspan_wire::{Digest, SessionUid, blob, parse, v1};
use sha2::{Digest as _, Sha256};

use crate::export::{self, BlobChunk, Item, Reader, request_of};
use crate::{Error, Head, Journal, Record};

/// Records that are read from a store at once.
const PAGE: usize = 4096;

/// What was checked and where it stops.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Records that hold.
    pub records: i64,
    /// The last of them; 0 when there is none.
    pub last_seq: i64,
    /// Its content hash.
    pub head_hash: Option<Digest>,
    /// Blobs that the records name, each read and found right.
    pub blobs: u64,
    /// Texts of model requests, each found to be what the record has the hash of.
    pub requests: u64,
    /// Model calls whose request was not kept: nothing was checked there.
    pub requests_not_kept: u64,
    /// The seq up to which an anchor confirms that nothing is missing.
    pub anchored: Option<i64>,
    /// The first thing that does not hold.
    pub fault: Option<Fault>,
}

/// The first thing that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The record that it belongs to, or stands before.
    pub seq: i64,
    /// What sort of thing.
    pub kind: FaultKind,
    /// What exactly.
    pub text: String,
}

/// What sort of thing does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Another seq than the next one (R-HASH-8).
    Gap,
    /// `prev_hash` is not the hash of the record before (R-HASH-8): tampered.
    Link,
    /// `content_hash` is not the hash of the record (R-HASH-9): tampered.
    Hash,
    /// The hash holds and the event cannot be read (R-HASH-9).
    Undecodable,
    /// A blob that a record names is missing, wrong, or misnamed.
    Blob,
    /// A kept request is not what the record has the hash of.
    Request,
    /// The journal does not end where its session, or the anchor, says.
    Head,
    /// A file that is not what the export format allows.
    File,
    /// A file that ends too early.
    Truncated,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::Gap => "gap",
            FaultKind::Link => "link",
            FaultKind::Hash => "hash",
            FaultKind::Undecodable => "undecodable",
            FaultKind::Blob => "blob",
            FaultKind::Request => "request",
            FaultKind::Head => "head",
            FaultKind::File => "file",
            FaultKind::Truncated => "truncated",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault at {}: {}: {}", self.seq, self.kind, self.text)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "valid up to {}", self.last_seq)?;
        if let Some(hash) = self.head_hash {
            write!(f, ", head {hash}")?;
        }
        write!(f, ": {} records, {} blobs, {} requests", self.records, self.blobs, self.requests)?;
        if self.requests_not_kept > 0 {
            write!(f, " ({} not kept)", self.requests_not_kept)?;
        }
        match self.anchored {
            Some(seq) => write!(f, ", anchored at {seq}")?,
            None => f.write_str(", no anchor: a cut tail would not show")?,
        }
        match &self.fault {
            Some(fault) => write!(f, "; {fault}"),
            None => Ok(()),
        }
    }
}

impl Fault {
    pub(crate) fn new(seq: i64, kind: FaultKind, text: impl Into<String>) -> Fault {
        Fault { seq, kind, text: text.into() }
    }
}

/// A chain that is checked record by record (R-HASH-8, R-HASH-9).
#[derive(Debug, Clone, Default)]
pub struct Chain {
    head: Head,
}

impl Chain {
    /// The last record that held.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Checks the next record and decodes its event.
    ///
    /// # Errors
    /// The fault; the chain then stays where it was.
    pub fn step(&mut self, record: &Record) -> Result<v1::Event, Fault> {
        let fault = |kind, text| Err(Fault::new(record.seq, kind, text));
        let next = self.head.seq + 1;
        if record.seq != next {
            let text = format!("record {} stands where {next} belongs", record.seq);
            return Err(Fault::new(next, FaultKind::Gap, text));
        }
        if record.prev_hash != self.head.hash {
            return fault(FaultKind::Link, "tampered: it does not link to the record before it".to_owned());
        }
        if !record.holds() {
            return fault(FaultKind::Hash, "tampered: its hash is not the hash of its content".to_owned());
        }
        match parse::event(&record.event) {
            Err(e) => fault(FaultKind::Undecodable, format!("its event cannot be decoded: {e}")),
            Ok(event) => {
                self.head = Head { seq: record.seq, hash: Some(record.content_hash) };
                Ok(event)
            }
        }
    }
}

/// The report in the making.
#[derive(Default)]
pub(crate) struct Check {
    pub(crate) chain: Chain,
    pub(crate) report: Report,
    anchor: Option<Head>,
}

impl Check {
    pub(crate) fn new(anchor: Option<Head>) -> Check {
        Check { anchor, ..Check::default() }
    }

    /// A record that holds with all that it names.
    pub(crate) fn passed(&mut self) -> Result<(), Fault> {
        let head = self.chain.head();
        self.report.records += 1;
        self.report.last_seq = head.seq;
        self.report.head_hash = head.hash;
        match self.anchor {
            Some(anchor) if anchor.seq == head.seq && anchor.hash != head.hash => {
                Err(Fault::new(head.seq, FaultKind::Head, "the anchor knows another record here: it was rewritten"))
            }
            Some(anchor) if anchor.seq == head.seq => {
                self.report.anchored = Some(head.seq);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The end of the records: what the session says, and what the anchor knows.
    pub(crate) fn end(&mut self, said: Head) -> Result<(), Fault> {
        let found = self.chain.head();
        if found.seq != said.seq {
            let text = format!("the records end at {}, the session says {}", found.seq, said.seq);
            return Err(Fault::new(found.seq, FaultKind::Head, text));
        }
        if found.hash != said.hash {
            let text = "the last record has another hash than the session says";
            return Err(Fault::new(found.seq, FaultKind::Head, text));
        }
        match self.anchor {
            Some(anchor) if anchor.seq > found.seq => {
                let text = format!("truncated after {}: the anchor knows record {}", found.seq, anchor.seq);
                Err(Fault::new(found.seq, FaultKind::Head, text))
            }
            Some(Head { seq: 0, .. }) => {
                self.report.anchored = Some(0);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn finish(mut self, outcome: Result<(), Fault>) -> Report {
        self.report.fault = outcome.err();
        self.report
    }
}

/// Checks a session in a store. `anchor` is a head that was noted elsewhere.
///
/// # Errors
/// [`Error::NotFound`], or [`Error::Io`] when the store cannot be read; what does not hold is in the
/// report.
pub async fn session(journal: &dyn Journal, uid: &SessionUid, anchor: Option<Head>) -> Result<Report, Error> {
    let head = journal.session(uid).await?.ok_or_else(|| Error::NotFound(uid.clone()))?.head;
    let mut check =
        StoreCheck { journal, check: Check::new(anchor), blobs_seen: HashSet::new(), requests_seen: HashSet::new() };
    let mut damage = None;
    let mut to = head.seq;
    let mut reading = Reading::start(journal.records(uid, 1, to, PAGE)).await;
    loop {
        let next = check.check.chain.head().seq + 1;
        let page = match reading.page().await {
            Ok(page) => page,
            // The store found it first; the records before it are still to be checked.
            Err(Error::Damaged { seq, what, .. }) if next <= to => {
                let seq = seq.clamp(next, to);
                damage = Some(Fault::new(seq, FaultKind::Hash, format!("tampered: {what}")));
                to = seq - 1;
                reading = Reading::start(journal.records(uid, next, to, PAGE)).await;
                continue;
            }
            Err(e) => return Err(e),
        };
        let Some(last) = page.last() else {
            let outcome = damage.map_or_else(|| check.check.end(head), Err);
            return Ok(check.check.finish(outcome));
        };
        reading = Reading::start(journal.records(uid, last.seq + 1, to, PAGE)).await;
        for record in page {
            if let Err(fault) = check.record(&record).await? {
                return Ok(check.check.finish(Err(fault)));
            }
        }
    }
}

/// A page that a store with reader threads reads while the page before it is checked.
enum Reading<'j> {
    Done(Result<Vec<Record>, Error>),
    Pending(Pin<Box<dyn Future<Output = Result<Vec<Record>, Error>> + Send + 'j>>),
}

impl<'j> Reading<'j> {
    /// Polls the read once: that hands it to the store.
    async fn start(mut read: Pin<Box<dyn Future<Output = Result<Vec<Record>, Error>> + Send + 'j>>) -> Reading<'j> {
        match poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
            Poll::Ready(page) => Reading::Done(page),
            Poll::Pending => Reading::Pending(read),
        }
    }

    async fn page(self) -> Result<Vec<Record>, Error> {
        match self {
            Reading::Done(page) => page,
            Reading::Pending(read) => read.await,
        }
    }
}

/// Checks every session of a store and hands each report to `found`. A deleted session whose records
/// are read by its forks is checked through them.
///
/// # Errors
/// [`Error::Io`] when the store cannot be read.
pub async fn store(journal: &dyn Journal, found: &mut (dyn FnMut(&SessionUid, &Report) + Send)) -> Result<(), Error> {
    const UIDS: usize = 1000;
    let mut after = None;
    loop {
        let uids = journal.uids(after, UIDS).await?;
        for uid in &uids {
            match session(journal, uid, None).await {
                Ok(report) => found(uid, &report),
                Err(Error::NotFound(_)) => {}
                Err(e) => return Err(e),
            }
        }
        match uids.last() {
            None => return Ok(()),
            Some(last) => after = Some(last.clone()),
        }
    }
}

struct StoreCheck<'j> {
    journal: &'j dyn Journal,
    check: Check,
    /// Blobs and requests that were read already.
    blobs_seen: HashSet<Digest>,
    requests_seen: HashSet<Digest>,
}

impl StoreCheck<'_> {
    async fn record(&mut self, record: &Record) -> Result<Result<(), Fault>, Error> {
        let event = match self.check.chain.step(record) {
            Ok(event) => event,
            Err(fault) => return Ok(Err(fault)),
        };
        for blob in match named_blobs(record.seq, &event) {
            Ok(blobs) => blobs,
            Err(fault) => return Ok(Err(fault)),
        } {
            if let Err(text) = self.blob(blob).await? {
                return Ok(Err(Fault::new(record.seq, FaultKind::Blob, text)));
            }
        }
        if let Some(digest) = request_of(&event)
            && let Err(text) = self.request(digest).await?
        {
            return Ok(Err(Fault::new(record.seq, FaultKind::Request, text)));
        }
        Ok(self.check.passed())
    }

    /// A store that says `Io` for a payload may mean that it is damaged; it cannot be told apart
    /// from a disk that fails, and neither holds.
    async fn blob(&mut self, digest: Digest) -> Result<Result<(), String>, Error> {
        if !self.blobs_seen.insert(digest) {
            return Ok(Ok(()));
        }
        match self.journal.blobs().get(digest).await {
            Ok(Some(bytes)) if Digest::of(&bytes) == digest => {
                self.check.report.blobs += 1;
                Ok(Ok(()))
            }
            Ok(Some(_)) => Ok(Err(format!("blob {digest} holds other bytes"))),
            Ok(None) => Ok(Err(format!("blob {digest} is missing"))),
            Err(Error::Io(what)) => Ok(Err(format!("blob {digest} cannot be read: {what}"))),
            Err(e) => Err(e),
        }
    }

    async fn request(&mut self, digest: Digest) -> Result<Result<(), String>, Error> {
        if !self.requests_seen.insert(digest) {
            return Ok(Ok(()));
        }
        match self.journal.request(digest).await {
            Ok(Some(text)) if Digest::of(text.as_bytes()) == digest => {
                self.check.report.requests += 1;
                Ok(Ok(()))
            }
            Ok(Some(_)) => Ok(Err(format!("request {digest} was kept as another text"))),
            Ok(None) => {
                self.check.report.requests_not_kept += 1;
                Ok(Ok(()))
            }
            Err(Error::Io(what)) => Ok(Err(format!("request {digest} cannot be read: {what}"))),
            Err(e) => Err(e),
        }
    }
}

/// The blobs that an event names, when every name is well formed.
pub(crate) fn named_blobs(seq: i64, event: &v1::Event) -> Result<Vec<Digest>, Fault> {
    let mut blobs = Vec::new();
    let mut bad = None;
    blob::named(event, &mut |place| match place.blob() {
        Some(blob) => blobs.push(blob),
        None => bad = bad.take().or_else(|| Some(format!("{:?} with digest {:?}", place.uri, place.digest))),
    });
    match bad {
        None => Ok(blobs),
        Some(place) => Err(Fault::new(seq, FaultKind::Blob, format!("it names no blob that can be: {place}"))),
    }
}

/// Checks an export file. `anchor` is a head that was noted elsewhere; the one in the file
/// itself shows only that the file is whole.
///
/// # Errors
/// [`export::Error::Io`] when the file cannot be read; what does not hold is in the report.
pub fn export(file: impl BufRead, anchor: Option<Head>) -> Result<Report, export::Error> {
    let mut check = FileCheck { check: Check::new(anchor), ..FileCheck::default() };
    let outcome = match Reader::open(file) {
        Ok(mut reader) => check.items(&mut reader),
        Err(e) => Err(e),
    };
    let fault = match outcome {
        Ok(outcome) => outcome,
        Err(export::Error::Line { line, what }) => Err(check.before(FaultKind::File, format!("line {line}: {what}"))),
        Err(e @ export::Error::Truncated { .. }) => Err(check.before(FaultKind::Truncated, e.to_string())),
        Err(e) => return Err(e),
    };
    Ok(check.check.finish(fault))
}

#[derive(Default)]
struct FileCheck {
    check: Check,
    /// Blobs and requests that the file holds.
    blobs_held: HashSet<Digest>,
    requests_held: HashSet<Digest>,
    /// Those of them that no record has named yet.
    blobs_unnamed: BTreeSet<Digest>,
    requests_unnamed: BTreeSet<Digest>,
    not_kept: HashSet<Digest>,
    blob_hash: Sha256,
}

impl FileCheck {
    /// A fault in front of the next record.
    fn before(&self, kind: FaultKind, text: impl Into<String>) -> Fault {
        Fault::new(self.check.chain.head().seq + 1, kind, text)
    }

    fn items<R: BufRead>(&mut self, reader: &mut Reader<R>) -> Result<Result<(), Fault>, export::Error> {
        while let Some(item) = reader.next()? {
            let outcome = match item {
                Item::Blob(chunk) => self.blob(&chunk),
                Item::Request(digest, text) => self.request(digest, &text),
                Item::Record(record) => self.record(&record),
                Item::End(_) => self.end(reader.session().head),
            };
            if outcome.is_err() {
                return Ok(outcome);
            }
        }
        Ok(Ok(()))
    }

    fn blob(&mut self, chunk: &BlobChunk) -> Result<(), Fault> {
        self.blob_hash.update(&chunk.bytes);
        if !chunk.is_last() {
            return Ok(());
        }
        let found = Digest(std::mem::take(&mut self.blob_hash).finalize().into());
        if found != chunk.digest {
            return Err(self.before(FaultKind::Blob, format!("blob {} holds other bytes", chunk.digest)));
        }
        if self.blobs_held.insert(found) {
            self.blobs_unnamed.insert(found);
        }
        Ok(())
    }

    fn request(&mut self, digest: Digest, text: &str) -> Result<(), Fault> {
        if Digest::of(text.as_bytes()) != digest {
            return Err(self.before(FaultKind::Request, format!("request {digest} was kept as another text")));
        }
        if self.requests_held.insert(digest) {
            self.requests_unnamed.insert(digest);
        }
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<(), Fault> {
        let event = self.check.chain.step(record)?;
        for blob in named_blobs(record.seq, &event)? {
            if !self.blobs_held.contains(&blob) {
                return Err(Fault::new(record.seq, FaultKind::Blob, format!("blob {blob} is missing")));
            }
            self.check.report.blobs += u64::from(self.blobs_unnamed.remove(&blob));
        }
        if let Some(digest) = request_of(&event) {
            if self.requests_unnamed.remove(&digest) {
                self.check.report.requests += 1;
            } else if !self.requests_held.contains(&digest) && self.not_kept.insert(digest) {
                self.check.report.requests_not_kept += 1;
            }
        }
        self.check.passed()
    }

    fn end(&mut self, said: Head) -> Result<(), Fault> {
        if let Some(blob) = self.blobs_unnamed.first() {
            return Err(self.before(FaultKind::Blob, format!("no record names blob {blob}")));
        }
        if let Some(request) = self.requests_unnamed.first() {
            return Err(self.before(FaultKind::Request, format!("no record has the hash of request {request}")));
        }
        self.check.end(said)
    }
}
