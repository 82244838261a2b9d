//! The one writer of a session: seals records, appends them, tells who watches.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use inspan_journal::{
    Append, Appended, FenceRule, Head, Journal, KeptRequest, KeyChange, KeyUse, NewRecord, Record, Session, TurnMark,
};
use inspan_wire::{Digest, SessionUid, canon, normal, v1};

use crate::observe::Seen;
use crate::scan::Scan;
use crate::warm::Warm;
use crate::{Error, Observer, payload};

/// Appends to one session under one fence, as long as nobody passes it.
pub(crate) struct Writer {
    journal: Arc<dyn Journal>,
    warm: Arc<Warm>,
    observer: Arc<dyn Observer>,
    session: SessionUid,
    head: Head,
    fence: FenceRule,
    scan: Scan,
    in_flight: Option<InFlight>,
    /// Keys that turned out to be free: told with the next append.
    freed: Vec<KeyChange>,
    /// Why the last append was refused, when it was for its key and for nothing else.
    key_used: Option<KeyUse>,
    broken: Option<Error>,
}

/// What a commit keeps beside its records.
#[derive(Default)]
pub(crate) struct Beside {
    /// The text of a model request.
    pub(crate) request: Option<(Digest, Arc<str>)>,
    /// Blobs that the records name beside their own payloads; already durable.
    pub(crate) blobs: Vec<Digest>,
    /// What becomes of idempotency keys.
    pub(crate) keys: Vec<KeyChange>,
}

/// An append that was handed to the store. It is kept apart from the future that asked for it: a
/// turn that is cancelled in this instant still learns whether its records are in the journal.
struct InFlight {
    commit: BoxFuture<'static, Result<Appended, inspan_journal::Error>>,
    sealed: Vec<Sealed>,
    scan: Scan,
    request: Option<KeptRequest>,
    freed: Vec<KeyChange>,
}

struct Sealed {
    record: NewRecord,
    event: Arc<v1::Event>,
}

impl Writer {
    /// A writer at the head of `session`, whose fold is `scan`. With [`FenceRule::Next`] the first append takes the fence.
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        warm: Arc<Warm>,
        observer: Arc<dyn Observer>,
        session: &Session,
        scan: Scan,
        fence: FenceRule,
    ) -> Writer {
        Writer {
            journal,
            warm,
            observer,
            session: session.uid.clone(),
            head: session.head,
            fence,
            scan,
            in_flight: None,
            freed: Vec::new(),
            key_used: None,
            broken: None,
        }
    }

    /// Whether an append failed: then nothing more is written by this writer.
    pub(crate) fn broken(&self) -> Option<&Error> {
        self.broken.as_ref()
    }

    /// A call never reached its tool: the next append says so of its key. Until then, and after a crash, it counts as
    /// sent.
    pub(crate) fn free_key(&mut self, key: String, call_seq: i64) {
        self.freed.push(KeyChange::Freed { key, call_seq });
    }

    /// Whether the next append will say so of this key and call.
    pub(crate) fn frees(&self, key: &str, call_seq: i64) -> bool {
        self.freed
            .iter()
            .any(|freed| matches!(freed, KeyChange::Freed { key: k, call_seq: c } if k == key && *c == call_seq))
    }

    /// The seq of the next record, once nothing is in flight.
    ///
    /// # Errors
    /// As [`Writer::settle`].
    pub(crate) async fn next_seq(&mut self) -> Result<i64, Error> {
        self.settle().await?;
        Ok(self.head.seq + 1)
    }

    /// The last durable seq.
    pub(crate) fn head_seq(&self) -> i64 {
        self.head.seq
    }

    /// Lets go of what is kept in memory of the session: it goes to sleep.
    pub(crate) fn cool(&self) {
        self.warm.forget(&self.session, self.head.seq);
    }

    /// Appends `events` in one commit; when it returns they are durable and were shown to the
    /// observer. Answers with the events as a harness sees them, payloads in place.
    ///
    /// # Errors
    /// The store's refusal; the writer is then broken.
    pub(crate) async fn append(&mut self, events: Vec<v1::Event>) -> Result<Vec<Arc<v1::Event>>, Error> {
        self.append_with(events, Beside::default()).await
    }

    /// As [`Writer::append`], and keeps what belongs to the records in the same commit.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub(crate) async fn append_with(
        &mut self,
        events: Vec<v1::Event>,
        beside: Beside,
    ) -> Result<Vec<Arc<v1::Event>>, Error> {
        self.settle().await?;
        let mut whole = Vec::with_capacity(events.len());
        let mut blobs = beside.blobs;
        let mut recorded = Vec::with_capacity(events.len());
        for mut event in events {
            normal::event(&mut event);
            if !payload::may_be_taken_out(&event) {
                let event = Arc::new(event);
                whole.push(event.clone());
                recorded.push(event);
                continue;
            }
            let mut served = event.clone();
            for (digest, bytes) in payload::take_out(&mut event) {
                payload::clear_own_digests(&mut served, digest);
                self.journal.blobs().put(bytes).await?;
                blobs.push(digest);
            }
            whole.push(Arc::new(served));
            recorded.push(Arc::new(event));
        }
        let request = match beside.request {
            Some((digest, text)) => Some(self.kept_request(digest, text).await),
            None => None,
        };
        self.submit(recorded, request, blobs, beside.keys)?;
        self.settle().await?;
        Ok(whole)
    }

    /// Appends a tool call whose key was not asked about. `Err` says what the key was used for before: then nothing was
    /// appended, and the writer goes on.
    ///
    /// # Errors
    /// As [`Writer::append`].
    pub(crate) async fn append_first(&mut self, call: v1::Event, key: String) -> Result<Result<(), KeyUse>, Error> {
        let call_seq = self.next_seq().await?;
        self.key_used = None;
        let keys = vec![KeyChange::First { key, call_seq }];
        self.append_with(vec![call], Beside { keys, ..Beside::default() }).await?;
        Ok(self.key_used.take().map_or(Ok(()), Err))
    }

    /// Waits for an append in flight, if there is one, and takes note of its outcome.
    ///
    /// # Errors
    /// The store's refusal, now and for ever after.
    pub(crate) async fn settle(&mut self) -> Result<(), Error> {
        if let Some(in_flight) = &mut self.in_flight {
            let outcome = (&mut in_flight.commit).await;
            let InFlight { sealed, scan, request, freed, .. } = self.in_flight.take().expect("it was just awaited");
            match outcome {
                Ok(appended) => self.committed(appended, sealed, scan, request),
                Err(inspan_journal::Error::KeyUsed { used, .. }) => (self.freed, self.key_used) = (freed, Some(used)),
                Err(e) => self.broken = Some(e.into()),
            }
        }
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn submit(
        &mut self,
        events: Vec<Arc<v1::Event>>,
        request: Option<KeptRequest>,
        blobs: Vec<Digest>,
        keys: Vec<KeyChange>,
    ) -> Result<(), Error> {
        let mut scan = self.scan.clone();
        let mut head = self.head;
        let mut sealed = Vec::with_capacity(events.len());
        let mut turn: Option<TurnMark> = None;
        for event in events {
            let text = canon::event(&event).map_err(|e| Error::InvalidArgument(e.to_string()))?;
            let record = NewRecord::seal(head.seq + 1, head.hash, Bytes::from(text));
            let before = scan.may_mark(&event).then(|| scan.clone());
            // An id of this writer is fresh: an earlier execution never comes back.
            let starts = scan.step(record.seq, &event, |_| false);
            turn = turn.or(before.and_then(|before| scan.mark(&before, starts)));
            head = Head { seq: record.seq, hash: Some(record.content_hash) };
            sealed.push(Sealed { record, event });
        }
        let freed = std::mem::take(&mut self.freed);
        let append = Append {
            session: self.session.clone(),
            expect_head: self.head.seq,
            fence: self.fence,
            records: sealed.iter().map(|s| s.record.clone()).collect(),
            turn,
            state: scan.state(),
            requests: request.iter().cloned().collect(),
            blobs,
            keys: freed.iter().cloned().chain(keys).collect(),
        };
        let journal = self.journal.clone();
        let commit = async move { journal.append(append).await }.boxed();
        self.in_flight = Some(InFlight { commit, sealed, scan, request, freed });
        Ok(())
    }

    fn committed(&mut self, appended: Appended, sealed: Vec<Sealed>, scan: Scan, request: Option<KeptRequest>) {
        self.fence = FenceRule::Held(appended.fence);
        self.scan = scan;
        let seen: Vec<Seen> = sealed
            .into_iter()
            .map(|Sealed { record, event }| {
                self.head = Head { seq: record.seq, hash: Some(record.content_hash) };
                self.warm.keep(&self.session, record.seq, &event, record.event.len());
                let record = Record {
                    seq: record.seq,
                    prev_hash: record.prev_hash,
                    content_hash: record.content_hash,
                    fence: appended.fence,
                    ts_ms: appended.ts_ms,
                    event: record.event,
                };
                Seen { record, event }
            })
            .collect();
        if let Some(request) = request {
            self.warm.keep_request(&self.session, request.digest, request.text);
        }
        self.observer.committed(&self.session, &seen);
    }

    /// The request with the session's previous one beside it, from memory or from the store.
    async fn kept_request(&mut self, digest: Digest, text: Arc<str>) -> KeptRequest {
        let previous = self.scan.last_request.as_deref().and_then(|hex| hex.parse::<Digest>().ok());
        let base = match (self.warm.request(&self.session), previous) {
            (Some(warm), Some(previous)) if warm.0 == previous => Some(warm),
            // Without its base a request is stored whole: reading it is worth no failed turn.
            (_, Some(previous)) => self.journal.request(previous).await.ok().flatten().map(|text| (previous, text)),
            (_, None) => None,
        };
        KeptRequest { digest, text, base }
    }
}
