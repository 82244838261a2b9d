//! Creating, appending and forking, inside the writer's transaction.
//!
//! Each function checks everything before its first write: a refusal must leave the batch that it
//! shares with other calls untouched.

use std::collections::HashSet;
use std::sync::Arc;

use inspan_wire::{Digest, SessionUid};
use prost::Message as _;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::asks;
use super::fault::Stop;
use super::landmarks::{self, Last};
use super::requests::{self, Carried, Kept};
use super::tool_keys;
use super::writer::{Slot, Tx};
use crate::{Append, Appended, Error, Fork, ForkChild, Head, NewRecord, NewSession, Session, TurnMark, admit, memory};

/// Life of a session: numbers are stored and never change their meaning.
pub(super) mod life {
    pub(in crate::sqlite) const LIVE: i64 = 0;
    pub(in crate::sqlite) const IMPORTING: i64 = 1;
    pub(in crate::sqlite) const HIDDEN: i64 = 2;
    pub(in crate::sqlite) const GONE: i64 = 3;
}

/// An append and what could be computed of it outside the writer thread.
pub(super) struct Prepared {
    pub(super) append: Append,
    pub(super) requests: Vec<Kept>,
    /// Which record names which blob.
    pub(super) blobs: Vec<(i64, Digest)>,
}

impl Prepared {
    pub(super) fn new(append: Append) -> Result<Prepared, Error> {
        admit::shape(&append)?;
        admit::requests(&append.requests)?;
        let texts = append.records.iter().map(|r| (r.seq, &r.event[..]));
        let requests = append.requests.iter().filter_map(|r| Kept::new(r, texts.clone())).collect();
        let blobs = places(&append.blobs, texts);
        Ok(Prepared { append, requests, blobs })
    }

    /// About how much it writes.
    pub(super) fn bytes(&self) -> usize {
        self.append.records.iter().map(|record| record.event.len()).sum()
    }
}

/// Which record carries which blob.
pub(super) fn places<'a>(blobs: &[Digest], texts: impl Iterator<Item = (i64, &'a [u8])> + Clone) -> Vec<(i64, Digest)> {
    blobs.iter().filter_map(|&digest| Some((admit::carrier(digest, texts.clone())?, digest))).collect()
}

pub(super) fn append(tx: &mut Tx<'_>, prepared: &Prepared) -> Result<Appended, Stop> {
    let append = &prepared.append;
    let slot = tx.slot(&append.session)?;
    let fence = admit::fence(append, slot.session.head, slot.session.fence)?;
    admit::keys(append, |key| tool_keys::find(tx.conn, slot.key, key).map_err(Stop::from))?;
    let ts_ms = tx.now_ns / 1_000_000;
    let mut rows = Rows::of(tx.conn, slot.key, slot.last, append.turn.as_slice(), &prepared.requests)?;
    for record in &append.records {
        rows.insert(tx.conn, (fence, ts_ms), record)?;
    }
    let last = append.records.last().map(|record| Head { seq: record.seq, hash: Some(record.content_hash) });
    let head = last.unwrap_or(slot.session.head);
    insert_blobs(tx.conn, slot.key, &prepared.blobs)?;
    append.keys.iter().try_for_each(|change| tool_keys::apply(tx.conn, slot.key, change))?;
    let mut session = (*slot.session).clone();
    (session.head, session.fence, session.update_ns) = (head, fence, tx.now_ns);
    let before = std::mem::replace(&mut session.state, append.state.clone());
    let slot = Slot { key: slot.key, session: Arc::new(session), last: rows.last };
    update_head(tx, &slot)?;
    asks::moved(tx.conn, slot.key, Some(&before), &slot.session, tx.now_ns)?;
    tx.remember(slot);
    Ok(Appended { fence, ts_ms })
}

pub(super) fn new_fence(tx: &mut Tx<'_>, uid: &SessionUid) -> Result<i64, Stop> {
    let slot = tx.slot(uid)?;
    let fence = slot.session.fence + 1;
    tx.conn.prepare_cached("UPDATE heads SET fence = ?2 WHERE session = ?1")?.execute(params![slot.key, fence])?;
    let session = Session { fence, ..(*slot.session).clone() };
    tx.remember(Slot { session: Arc::new(session), ..slot });
    Ok(fence)
}

pub(super) fn create(tx: &mut Tx<'_>, new: &NewSession) -> Result<Session, Stop> {
    check_free(tx.conn, &new.uid)?;
    let session = session(new, None, tx.now_ns, tx.now_ns);
    let key = insert_session(tx.conn, life::LIVE, &session, None)?;
    asks::moved(tx.conn, key, None, &session, tx.now_ns)?;
    tx.remember(Slot { key, session: Arc::new(session.clone()), last: Last::default() });
    Ok(session)
}

pub(super) fn fork(tx: &mut Tx<'_>, fork: &Fork) -> Result<Vec<Session>, Stop> {
    let parent = tx.slot(&fork.parent)?;
    let at_seq = admit::fork_point(fork, parent.session.head)?;
    let at_hash = hash_at(tx.conn, parent.key, parent.session.head, at_seq)?;
    let mut uids = HashSet::new();
    for child in &fork.children {
        admit::marker(child, at_seq, at_hash)?;
        check_free(tx.conn, &child.session.uid)?;
        if !uids.insert(&child.session.uid) {
            return Err(Error::Exists(child.session.uid.clone()).into());
        }
    }
    fork.children.iter().map(|child| insert_child(tx, &fork.parent, parent.key, at_seq, child)).collect()
}

fn insert_child(
    tx: &mut Tx<'_>,
    parent: &SessionUid,
    parent_key: i64,
    at_seq: i64,
    child: &ForkChild,
) -> Result<Session, Stop> {
    let mut session = session(&child.session, Some((parent.clone(), at_seq)), tx.now_ns, tx.now_ns);
    session.head = Head { seq: child.marker.seq, hash: Some(child.marker.content_hash) };
    session.fence = 1;
    let key = insert_session(tx.conn, life::LIVE, &session, Some(parent_key))?;
    let mut rows = Rows::of(tx.conn, key, Last::default(), &[], &[])?;
    rows.insert(tx.conn, (session.fence, tx.now_ns / 1_000_000), &child.marker)?;
    landmarks::set_last(tx.conn, key, rows.last.id)?;
    asks::moved(tx.conn, key, None, &session, tx.now_ns)?;
    tx.remember(Slot { key, session: Arc::new(session.clone()), last: rows.last });
    Ok(session)
}

/// A session as it starts.
pub(super) fn session(new: &NewSession, parent: Option<(SessionUid, i64)>, create_ns: i64, update_ns: i64) -> Session {
    let NewSession { uid, info, state } = new.clone();
    Session { uid, info, parent, create_ns, update_ns, head: Head::default(), fence: 0, state }
}

pub(super) fn check_free(conn: &Connection, uid: &SessionUid) -> Result<(), Stop> {
    let taken = conn.prepare_cached("SELECT 1 FROM sessions WHERE uid = ?1")?.exists([uid.as_str()])?;
    if taken { Err(Error::Exists(uid.clone()).into()) } else { Ok(()) }
}

pub(super) fn insert_session(
    conn: &Connection,
    life: i64,
    session: &Session,
    parent_key: Option<i64>,
) -> Result<i64, Stop> {
    let fork_seq = session.parent.as_ref().map_or(0, |(_, seq)| *seq);
    conn.prepare_cached(
        "INSERT INTO sessions (uid, life, project, create_ns, parent, fork_seq, reads_to, info) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)",
    )?
    .execute(params![
        session.uid.as_str(),
        life,
        memory::project(&session.info),
        session.create_ns,
        parent_key,
        fork_seq,
        session.info.encode_to_vec(),
    ])?;
    let key = conn.last_insert_rowid();
    conn.prepare_cached(
        "INSERT INTO heads (session, seq, hash, fence, update_ns, compute, exec, pending, scan) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        key,
        session.head.seq,
        session.head.hash.map(|h| h.0),
        session.fence,
        session.update_ns,
        session.state.compute,
        session.state.exec,
        asks::encode(&session.state),
        &session.state.scan[..],
    ])?;
    Ok(key)
}

/// Records on their way into a session, with the turns that start among them and the requests that they carry.
pub(super) struct Rows {
    session: i64,
    /// First seq and row of each turn to come, the last one first.
    turns: Vec<(i64, i64)>,
    requests: Carried,
    /// The last record so far.
    pub(super) last: Last,
}

impl Rows {
    /// Writes `turns`, in order, and `requests`; their records are to follow `last`.
    pub(super) fn of(
        conn: &Connection,
        session: i64,
        last: Last,
        turns: &[TurnMark],
        requests: &[Kept],
    ) -> Result<Rows, Stop> {
        let turns = turns.iter().rev().map(|turn| Ok((turn.first_seq, insert_turn(conn, turn)?)));
        let turns = turns.collect::<Result<_, Stop>>()?;
        Ok(Rows { session, turns, requests: requests::keep(conn, session, requests)?, last })
    }

    /// Writes the next record.
    pub(super) fn insert(
        &mut self,
        conn: &Connection,
        (fence, ts_ms): (i64, i64),
        record: &NewRecord,
    ) -> Result<(), Stop> {
        if let Some((_, turn)) = self.turns.pop_if(|(first_seq, _)| *first_seq <= record.seq) {
            self.last.turn = turn;
        }
        let mut insert = conn.prepare_cached(
            "INSERT INTO records (session, seq, prev_id, turn, request, fence, ts_ms, prev_hash, content_hash, event) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        self.last.id = insert.insert(params![
            self.session,
            record.seq,
            self.last.id,
            self.last.turn,
            self.requests.get(&record.seq),
            fence,
            ts_ms,
            record.prev_hash.map(|h| h.0),
            record.content_hash.0,
            &record.event[..],
        ])?;
        Ok(landmarks::note(conn, self.session, record.seq, self.last.id)?)
    }
}

fn insert_turn(conn: &Connection, turn: &TurnMark) -> Result<i64, Stop> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO turns (first_seq, execution_id, compute, exec, pending, scan) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    Ok(insert.insert(params![
        turn.first_seq,
        turn.execution_id,
        turn.before.compute,
        turn.before.exec,
        asks::encode(&turn.before),
        &turn.before.scan[..],
    ])?)
}

pub(super) fn insert_blobs(conn: &Connection, session: i64, blobs: &[(i64, Digest)]) -> Result<(), Stop> {
    for (seq, digest) in blobs {
        conn.prepare_cached("INSERT OR IGNORE INTO blob_refs (session, digest, seq) VALUES (?1, ?2, ?3)")?
            .execute(params![session, digest.0, seq])?;
    }
    Ok(())
}

fn update_head(tx: &Tx<'_>, slot: &Slot) -> Result<(), Stop> {
    let session = &*slot.session;
    let state = &session.state;
    tx.conn
        .prepare_cached(
            "UPDATE heads SET seq = ?2, hash = ?3, fence = ?4, update_ns = ?5, compute = ?6, exec = ?7, \
             pending = ?8, scan = ?9, last_id = ?10 WHERE session = ?1",
        )?
        .execute(params![
            slot.key,
            session.head.seq,
            session.head.hash.map(|h| h.0),
            session.fence,
            session.update_ns,
            state.compute,
            state.exec,
            asks::encode(state),
            &state.scan[..],
            slot.last.id,
        ])?;
    Ok(())
}

/// The hash of record `seq`, which a session of `key` and `head` holds or inherits.
pub(super) fn hash_at(conn: &Connection, key: i64, head: Head, seq: i64) -> Result<Option<Digest>, Stop> {
    if seq == head.seq {
        return Ok(head.hash);
    }
    if seq <= 0 {
        return Ok(None);
    }
    let mut owner = key;
    loop {
        let parent = conn
            .prepare_cached("SELECT parent FROM sessions WHERE key = ?1 AND parent IS NOT NULL AND fork_seq >= ?2")?
            .query_row(params![owner, seq], |row| row.get(0))
            .optional()?;
        let Some(parent) = parent else { break };
        owner = parent;
    }
    let hash = landmarks::hash(conn, owner, seq)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(Some(hash))
}
