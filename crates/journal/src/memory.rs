//! The store that tests and the simulator run on: one lock, nothing on disk.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use inspan_wire::{Digest, SessionUid};

use crate::blob::Pinned;
use crate::contract::{
    Append, Appended, Ask, AskPage, AskQuery, Asks, Fork, Import, Journal, KeptRequest, ListQuery, Page, TurnMark,
};
use crate::keys::Fold;
use crate::lineage::Lineage;
use crate::registration::Registration;
use crate::{Blobs, Clock, Error, Head, KeyChange, KeyUse, NewRecord, NewSession, Record, Session, State, admit};

mod registrations;

/// The most bytes of events in one answer of [`Journal::records`], give or take one record.
pub(crate) const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A journal in memory. Every operation is one critical section, so what it does depends on nothing
/// but the order of the calls and the clock.
pub struct Store {
    inner: Mutex<Inner>,
    clock: Arc<dyn Clock>,
    pins: Arc<Pinned>,
    blobs: Arc<dyn Blobs>,
}

#[derive(Default)]
struct Inner {
    slots: BTreeMap<SessionUid, Slot>,
    /// Live sessions in the order of a listing (R-LIST-1).
    order: BTreeSet<(String, Reverse<i64>, SessionUid)>,
    /// Live sessions that wait for a person.
    waits: BTreeMap<SessionUid, Wait>,
    requests: HashMap<Digest, (Arc<str>, usize)>,
    blobs: HashMap<Digest, usize>,
    /// Blobs that nothing names any more and that are not removed yet.
    orphans: BTreeSet<Digest>,
    registrations: BTreeMap<String, Registration>,
    last_ns: i64,
}

struct Slot {
    session: Session,
    life: Life,
    /// Its own records, the first one right behind the shared ones.
    records: Vec<Record>,
    turns: BTreeMap<i64, TurnMark>,
    requests: Places,
    blobs: Places,
    keys: BTreeMap<String, KeyUse>,
    children: BTreeSet<SessionUid>,
}

/// A wait of a session.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since_ns: i64,
    /// Whether somebody was told of it.
    announced: bool,
}

/// Which records, by seq, carry which digests.
type Places = Vec<(i64, Digest)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Live,
    /// Deleted; kept up to this seq for its children.
    Hidden(i64),
    /// Deleted and dropped; only the uid stays taken.
    Gone,
}

impl Store {
    /// An empty store over `blobs`.
    pub fn new(blobs: Arc<dyn Blobs>, clock: Arc<dyn Clock>) -> Store {
        let pins = Arc::new(Pinned::new(blobs, Arc::clone(&clock)));
        Store { inner: Mutex::default(), clock, blobs: Arc::clone(&pins) as Arc<dyn Blobs>, pins }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Operations check everything before they change anything, so a panic leaves no half.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the payloads that a delete left without a record.
    async fn sweep(&self) -> Result<(), Error> {
        let orphans: Vec<Digest> = self.lock().orphans.iter().copied().collect();
        for digest in orphans {
            let is_named = || async { Ok(self.lock().blobs.contains_key(&digest)) };
            if self.pins.sweep(digest, is_named).await? {
                self.lock().orphans.remove(&digest);
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Journal for Store {
    async fn create(&self, session: NewSession) -> Result<Session, Error> {
        let mut inner = self.lock();
        inner.check_free(&session.uid)?;
        let now = inner.now(&*self.clock);
        let session = empty(session, None, (now, now));
        inner.insert(Slot::new(session.clone()), now);
        Ok(session)
    }

    async fn session(&self, uid: &SessionUid) -> Result<Option<Session>, Error> {
        let inner = self.lock();
        Ok(inner.live(uid).ok().map(|slot| slot.session.clone()))
    }

    async fn list(&self, query: ListQuery) -> Result<Page, Error> {
        let inner = self.lock();
        let after = query.after.map(|(create_ns, uid)| (query.project.clone(), Reverse(create_ns), uid));
        let start = after.clone().unwrap_or_else(|| (query.project.clone(), Reverse(i64::MAX), SessionUid::from("")));
        let mut found = inner
            .order
            .range(start..)
            .take_while(|(project, ..)| *project == query.project)
            .filter(|key| after.as_ref() != Some(key));
        let sessions = found.by_ref().take(query.limit).map(|(.., uid)| inner.slots[uid].session.clone()).collect();
        let more = found.next().is_some();
        Ok(Page { sessions, more })
    }

    async fn asks(&self, query: AskQuery) -> Result<AskPage, Error> {
        let inner = self.lock();
        let places =
            inner.waits.iter().filter_map(|(uid, wait)| Some((inner.place(&query.of, uid, *wait)?, uid.clone())));
        let mut found: Vec<_> = places.filter(|place| query.after.as_ref().is_none_or(|after| place > after)).collect();
        found.sort_unstable();
        let more = found.len() > query.limit;
        found.truncate(query.limit);
        let ask = |(_, uid): &(i64, SessionUid)| Ask {
            session: inner.slots[uid].session.clone(),
            since_ns: inner.waits[uid].since_ns,
        };
        let asks = found.iter().map(ask).collect();
        Ok(AskPage { asks, next: found.pop().filter(|_| more) })
    }

    async fn announced(&self, uid: &SessionUid, request_seq: i64) -> Result<(), Error> {
        let mut inner = self.lock();
        let pending = &inner.live(uid)?.session.state.pending;
        if pending.as_ref().is_some_and(|asked| asked.request_seq == request_seq)
            && let Some(wait) = inner.waits.get_mut(uid)
        {
            wait.announced = true;
        }
        Ok(())
    }

    async fn append(&self, append: Append) -> Result<Appended, Error> {
        admit::shape(&append)?;
        admit::requests(&append.requests)?;
        let mut inner = self.lock();
        let slot = inner.live(&append.session)?;
        let fence = admit::fence(&append, slot.session.head, slot.session.fence)?;
        admit::keys::<Error>(&append, |key| Ok(slot.keys.get(key).copied()))?;
        let now = inner.now(&*self.clock);
        let ts_ms = now / 1_000_000;
        inner.write(&append, fence, now);
        self.pins.unpin(&append.blobs);
        Ok(Appended { fence, ts_ms })
    }

    async fn new_fence(&self, uid: &SessionUid) -> Result<i64, Error> {
        let mut inner = self.lock();
        inner.live(uid)?;
        let session = &mut inner.slot(uid).session;
        session.fence += 1;
        Ok(session.fence)
    }

    async fn records(&self, uid: &SessionUid, from: i64, to: i64, limit: usize) -> Result<Vec<Record>, Error> {
        let inner = self.lock();
        let head = inner.live(uid)?.session.head.seq;
        let mut out = Vec::new();
        let mut bytes = 0;
        for segment in inner.lineage(uid).cut(from.max(1), to.min(head)) {
            let slot = &inner.slots[&segment.owner];
            for seq in segment.first..=segment.last {
                if out.len() >= limit || bytes >= ANSWER_BYTES_MAX {
                    return Ok(out);
                }
                let record = slot.record(seq);
                check(uid, record, out.last())?;
                bytes += record.event.len();
                out.push(record.clone());
            }
        }
        Ok(out)
    }

    async fn turn_at(&self, uid: &SessionUid, at: i64) -> Result<Option<TurnMark>, Error> {
        let inner = self.lock();
        inner.live(uid)?;
        let lineage = inner.lineage(uid);
        let found = lineage.cut(1, at).rev().find_map(|segment| {
            let turns = &inner.slots[&segment.owner].turns;
            turns.range(segment.first..=segment.last).next_back().map(|(_, turn)| turn.clone())
        });
        Ok(found)
    }

    async fn fork(&self, fork: Fork) -> Result<Vec<Session>, Error> {
        let mut inner = self.lock();
        let parent = inner.live(&fork.parent)?;
        let at_seq = admit::fork_point(&fork, parent.session.head)?;
        let at_hash = inner.hash_at(&fork.parent, at_seq);
        let mut uids = BTreeSet::new();
        for child in &fork.children {
            admit::marker(child, at_seq, at_hash)?;
            inner.check_free(&child.session.uid)?;
            if !uids.insert(&child.session.uid) {
                return Err(Error::Exists(child.session.uid.clone()));
            }
        }
        let now = inner.now(&*self.clock);
        let mut made = Vec::with_capacity(fork.children.len());
        for child in fork.children {
            let marker = child.marker;
            let mut session = empty(child.session, Some((fork.parent.clone(), at_seq)), (now, now));
            session.head = Head { seq: marker.seq, hash: Some(marker.content_hash) };
            session.fence = 1;
            let mut slot = Slot::new(session.clone());
            slot.records.push(stamped(marker, 1, now / 1_000_000));
            inner.insert(slot, now);
            made.push(session);
        }
        Ok(made)
    }

    async fn delete(&self, uid: &SessionUid) -> Result<(), Error> {
        {
            let mut inner = self.lock();
            let session = &inner.live(uid)?.session;
            let key = order_key(session);
            inner.order.remove(&key);
            inner.waits.remove(uid);
            inner.collect(uid.clone());
        }
        self.sweep().await
    }

    async fn request(&self, digest: Digest) -> Result<Option<Arc<str>>, Error> {
        Ok(self.lock().requests.get(&digest).map(|(text, _)| Arc::clone(text)))
    }

    async fn names_blob(&self, uid: &SessionUid, digest: Digest) -> Result<bool, Error> {
        let inner = self.lock();
        inner.live(uid)?;
        let lineage = inner.lineage(uid);
        let named = lineage.cut(1, i64::MAX).any(|segment| {
            let blobs = &inner.slots[&segment.owner].blobs;
            blobs.iter().any(|&(seq, named)| named == digest && seq <= segment.last)
        });
        Ok(named)
    }

    async fn key_use(&self, uid: &SessionUid, key: &str) -> Result<Option<KeyUse>, Error> {
        Ok(self.lock().live(uid)?.keys.get(key).copied())
    }

    async fn import(&self, mut import: Import) -> Result<Session, Error> {
        let uid = import.session.uid.clone();
        let parent_hash = {
            let inner = self.lock();
            inner.check_free(&uid)?;
            inner.import_point(&import)?
        };
        let shared = import.parent.as_ref().map_or(0, |(_, seq)| *seq);
        let mut session = empty(import.session, import.parent, import.times_ns);
        session.fence = import.fence;
        session.head = Head { seq: shared, hash: parent_hash };
        let mut slot = Slot::new(session);
        let mut fold = Fold::default();
        let mut texts = Vec::new();
        let mut named = Vec::new();
        loop {
            let batch = (import.next)()?;
            if batch.records.is_empty() {
                break;
            }
            slot.session.head = admit::follows(&uid, slot.session.head, &batch.records)?;
            admit::turns(&uid, &batch.turns, &batch.records)?;
            slot.turns.extend(batch.turns.into_iter().map(|turn| (turn.first_seq, turn)));
            admit::requests(&batch.requests)?;
            slot.place(&batch.requests, &batch.blobs, &batch.records);
            texts.extend(batch.requests);
            named.extend(batch.blobs);
            batch.records.iter().filter_map(|record| fold.step(record)).for_each(|change| slot.change(change));
            slot.records.extend(batch.records);
            if let Some(state) = batch.state {
                slot.session.state = state;
            }
        }
        let mut inner = self.lock();
        inner.check_free(&uid)?;
        if let Some((parent, _)) = &slot.session.parent {
            inner.live(parent)?;
        }
        let session = slot.session.clone();
        let since_ns = slot.asked_ns().unwrap_or(session.update_ns);
        inner.keep(&texts, &slot.requests, &slot.blobs);
        inner.insert(slot, since_ns);
        self.pins.unpin(&named);
        Ok(session)
    }

    async fn uids(&self, after: Option<SessionUid>, limit: usize) -> Result<Vec<SessionUid>, Error> {
        let inner = self.lock();
        let kept = inner
            .slots
            .iter()
            .filter(|(uid, slot)| slot.life != Life::Gone && after.as_ref().is_none_or(|after| *uid > after));
        Ok(kept.take(limit).map(|(uid, _)| uid.clone()).collect())
    }

    fn blobs(&self) -> &Arc<dyn Blobs> {
        &self.blobs
    }
}

impl Inner {
    /// The store's time never goes backwards.
    fn now(&mut self, clock: &dyn Clock) -> i64 {
        self.last_ns = self.last_ns.max(clock.now_ns());
        self.last_ns
    }

    fn live(&self, uid: &SessionUid) -> Result<&Slot, Error> {
        match self.slots.get(uid) {
            Some(slot) if slot.life == Life::Live => Ok(slot),
            _ => Err(Error::NotFound(uid.clone())),
        }
    }

    fn slot(&mut self, uid: &SessionUid) -> &mut Slot {
        self.slots.get_mut(uid).expect("a session that was just found stays under the lock")
    }

    fn check_free(&self, uid: &SessionUid) -> Result<(), Error> {
        if self.slots.contains_key(uid) { Err(Error::Exists(uid.clone())) } else { Ok(()) }
    }

    fn lineage(&self, uid: &SessionUid) -> Lineage<SessionUid> {
        let Ok(lineage) =
            Lineage::walk::<std::convert::Infallible>(uid.clone(), |at| Ok(self.slots[at].session.parent.clone()));
        lineage
    }

    fn hash_at(&self, uid: &SessionUid, seq: i64) -> Option<Digest> {
        let segment = self.lineage(uid).cut(seq, seq).next_back()?;
        (seq > 0).then(|| self.slots[&segment.owner].record(seq).content_hash)
    }

    /// Where an import joins its parent: the hash that its first record links to.
    fn import_point(&self, import: &Import) -> Result<Option<Digest>, Error> {
        let Some((parent, at)) = &import.parent else { return Ok(None) };
        let head = self.live(parent)?.session.head.seq;
        if !(0..=head).contains(at) {
            return Err(Error::Invalid(format!(
                "cannot import {} as a fork of {parent} at {at}: its journal ends at {head}",
                import.session.uid
            )));
        }
        Ok(self.hash_at(parent, *at))
    }

    /// Takes in a new session; what it waits for, it has waited for since `since_ns`.
    fn insert(&mut self, slot: Slot, since_ns: i64) {
        self.order.insert(order_key(&slot.session));
        let uid = slot.session.uid.clone();
        self.moved(&State::default(), &slot.session, since_ns);
        if let Some((parent, _)) = &slot.session.parent {
            self.slot(parent).children.insert(uid.clone());
        }
        self.slots.insert(uid, slot);
    }

    fn write(&mut self, append: &Append, fence: i64, now: i64) {
        let slot = self.slot(&append.session);
        let from = slot.records.len();
        slot.records.extend(append.records.iter().map(|r| stamped(r.clone(), fence, now / 1_000_000)));
        let fresh = slot.records[from..].to_vec();
        let (requests, blobs) = slot.place(&append.requests, &append.blobs, &fresh);
        let last = fresh.last().expect("an append has records");
        slot.session.head = Head { seq: last.seq, hash: Some(last.content_hash) };
        slot.session.fence = fence;
        slot.session.update_ns = now;
        let before = std::mem::replace(&mut slot.session.state, append.state.clone());
        append.keys.iter().for_each(|change| slot.change(change.clone()));
        if let Some(turn) = &append.turn {
            slot.turns.insert(turn.first_seq, turn.clone());
        }
        let session = slot.session.clone();
        self.moved(&before, &session, now);
        self.keep(&append.requests, &requests, &blobs);
    }

    /// Takes over what a session has come to wait for.
    fn moved(&mut self, before: &State, session: &Session, since_ns: i64) {
        let after = &session.state;
        if (&before.pending, before.deadline_ns) == (&after.pending, after.deadline_ns) {
            return;
        }
        match after.pending {
            Some(_) => drop(self.waits.insert(session.uid.clone(), Wait { since_ns, announced: false })),
            None => drop(self.waits.remove(&session.uid)),
        }
    }

    /// Where a wait stands in a listing; `None` for one that is not in it.
    fn place(&self, of: &Asks, uid: &SessionUid, wait: Wait) -> Option<i64> {
        let session = &self.slots[uid].session;
        match of {
            Asks::All => Some(wait.since_ns),
            Asks::Project(wanted) => (project(&session.info) == wanted).then_some(wait.since_ns),
            Asks::Due => session.state.deadline_ns,
            Asks::Unannounced => (!wait.announced).then_some(wait.since_ns),
        }
    }

    /// Counts the references of new records and keeps the texts.
    fn keep(&mut self, texts: &[KeptRequest], requests: &[(i64, Digest)], blobs: &[(i64, Digest)]) {
        for request in texts {
            self.requests.entry(request.digest).or_insert_with(|| (Arc::clone(&request.text), 0));
        }
        for (_, digest) in requests {
            self.requests.get_mut(digest).expect("its text was kept above").1 += 1;
        }
        for (_, digest) in blobs {
            *self.blobs.entry(*digest).or_default() += 1;
        }
    }

    /// Drops what no child needs of a deleted session, then of its deleted ancestors.
    fn collect(&mut self, uid: SessionUid) {
        let mut next = Some(uid);
        while let Some(uid) = next.take() {
            let needed = self.slots[&uid].children.iter().map(|c| self.slots[c].reads_to()).max();
            let slot = self.slot(&uid);
            slot.life = needed.map_or(Life::Gone, Life::Hidden);
            let (requests, blobs) = slot.trim(needed.unwrap_or(0));
            let parent = slot.session.parent.clone();
            self.forget(&requests, &blobs);
            if let Some((parent, _)) = parent {
                if needed.is_none() {
                    self.slot(&parent).children.remove(&uid);
                }
                if self.slots[&parent].life != Life::Live {
                    next = Some(parent);
                }
            }
        }
    }

    fn forget(&mut self, requests: &[(i64, Digest)], blobs: &[(i64, Digest)]) {
        for (_, digest) in requests {
            let (_, count) = self.requests.get_mut(digest).expect("a reference has a text");
            *count -= 1;
            if *count == 0 {
                self.requests.remove(digest);
            }
        }
        for (_, digest) in blobs {
            let count = self.blobs.get_mut(digest).expect("a reference was counted");
            *count -= 1;
            if *count == 0 {
                self.blobs.remove(digest);
                self.orphans.insert(*digest);
            }
        }
    }
}

impl Slot {
    fn new(session: Session) -> Slot {
        Slot {
            session,
            life: Life::Live,
            records: Vec::new(),
            turns: BTreeMap::new(),
            requests: Vec::new(),
            blobs: Vec::new(),
            keys: BTreeMap::new(),
            children: BTreeSet::new(),
        }
    }

    fn shared(&self) -> i64 {
        self.session.parent.as_ref().map_or(0, |(_, seq)| *seq)
    }

    fn record(&self, seq: i64) -> &Record {
        let at = usize::try_from(seq - self.shared() - 1).expect("a seq of this session is behind the shared ones");
        &self.records[at]
    }

    /// When the record was committed that the session waits on.
    fn asked_ns(&self) -> Option<i64> {
        let seq = self.session.state.pending.as_ref()?.request_seq;
        let at = usize::try_from(seq - self.shared() - 1).ok()?;
        Some(self.records.get(at)?.ts_ms.saturating_mul(1_000_000))
    }

    /// The last seq of its parent that this session or a child of it reads.
    fn reads_to(&self) -> i64 {
        match self.life {
            Life::Hidden(needed) => needed.min(self.shared()),
            Life::Live | Life::Gone => self.shared(),
        }
    }

    /// Notes which records carry requests and blobs; gives what is new.
    fn place(&mut self, requests: &[KeptRequest], blobs: &[Digest], records: &[Record]) -> (Places, Places) {
        let texts = records.iter().map(|r| (r.seq, &r.event[..]));
        let at = |digest| admit::carrier(digest, texts.clone()).map(|seq| (seq, digest));
        let mut requests: Vec<_> = requests.iter().filter_map(|r| at(r.digest)).collect();
        requests.dedup();
        let mut blobs: Vec<_> = blobs.iter().filter_map(|&b| at(b)).collect();
        blobs.dedup();
        self.requests.extend_from_slice(&requests);
        self.blobs.extend_from_slice(&blobs);
        (requests, blobs)
    }

    /// Takes note of what becomes of a key.
    fn change(&mut self, change: KeyChange) {
        match change {
            KeyChange::Sent { key, call_seq } | KeyChange::First { key, call_seq } => {
                self.keys.entry(key).or_insert(KeyUse { call_seq });
            }
            KeyChange::Freed { key, call_seq } => {
                if self.keys.get(&key).is_some_and(|used| used.call_seq == call_seq) {
                    self.keys.remove(&key);
                }
            }
            KeyChange::Inherited => self.keys.clear(),
        }
    }

    /// Drops everything above `needed`; gives the references that went with it.
    fn trim(&mut self, needed: i64) -> (Places, Places) {
        let keep = usize::try_from(needed - self.shared()).unwrap_or(0);
        self.records.truncate(keep);
        self.turns.retain(|seq, _| *seq <= needed);
        self.keys.clear();
        let requests = self.requests.extract_if(.., |(seq, _)| *seq > needed).collect();
        let blobs = self.blobs.extract_if(.., |(seq, _)| *seq > needed).collect();
        (requests, blobs)
    }
}

fn empty(new: NewSession, parent: Option<(SessionUid, i64)>, (create_ns, update_ns): (i64, i64)) -> Session {
    Session {
        uid: new.uid,
        info: new.info,
        parent,
        create_ns,
        update_ns,
        head: Head::default(),
        fence: 0,
        state: new.state,
    }
}

fn stamped(record: NewRecord, fence: i64, ts_ms: i64) -> Record {
    let NewRecord { seq, prev_hash, content_hash, event } = record;
    Record { seq, prev_hash, content_hash, fence, ts_ms, event }
}

/// Every record that is read is checked, here as in the stores on disk.
fn check(uid: &SessionUid, record: &Record, before: Option<&Record>) -> Result<(), Error> {
    let linked = before.is_none_or(|before| record.prev_hash == Some(before.content_hash));
    if record.holds() && linked {
        return Ok(());
    }
    Err(Error::Damaged {
        session: uid.clone(),
        seq: record.seq,
        what: "its hash is not the hash of what is stored".into(),
    })
}

fn order_key(session: &Session) -> (String, Reverse<i64>, SessionUid) {
    (project(&session.info).to_owned(), Reverse(session.create_ns), session.uid.clone())
}

/// The project that a session is listed under.
pub(crate) fn project(info: &inspan_wire::v1::Session) -> &str {
    info.metadata.as_ref().map_or("", |m| m.project.as_str())
}
