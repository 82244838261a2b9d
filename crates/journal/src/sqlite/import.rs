//! Importing a session: hidden until its last batch is in.

use std::sync::Arc;

use inspan_wire::{Digest, SessionUid};
use rusqlite::{Connection, params};

use super::asks;
use super::fault::Stop;
use super::landmarks;
use super::requests::Kept;
use super::sweep;
use super::tool_keys;
use super::write::{self, Rows, life};
use super::writer::{Slot, Tx, Writer};
use crate::keys::Fold;
use crate::{Error, Head, ImportBatch, NewRecord, Record, Session, State, admit};

/// An import that has begun. Dropped before it is finished, it lets its uid go.
pub(super) struct Running {
    writer: Arc<Writer>,
    session: Session,
    key: i64,
    fold: Fold,
    finished: bool,
}

impl Running {
    /// Takes the uid and the place behind the parent's record.
    pub(super) async fn begin(writer: Arc<Writer>, mut session: Session) -> Result<Running, Error> {
        let begun = session.clone();
        let (key, hash) = writer.call(move |tx| begin(tx, &begun)).await?;
        let shared = session.parent.as_ref().map_or(0, |(_, seq)| *seq);
        session.head = Head { seq: shared, hash };
        Ok(Running { writer, session, key, fold: Fold::default(), finished: false })
    }

    /// Writes one batch.
    pub(super) async fn batch(&mut self, batch: ImportBatch) -> Result<(), Error> {
        let uid = &self.session.uid;
        let head = admit::follows(uid, self.session.head, &batch.records)?;
        admit::turns(uid, &batch.turns, &batch.records)?;
        admit::requests(&batch.requests)?;
        let texts = batch.records.iter().map(|r| (r.seq, &r.event[..]));
        let requests: Vec<Kept> = batch.requests.iter().filter_map(|r| Kept::new(r, texts.clone())).collect();
        let blobs = write::places(&batch.blobs, texts);
        let ImportBatch { records, turns, state, .. } = batch;
        let changes: Vec<_> = records.iter().filter_map(|record| self.fold.step(record)).collect();
        let key = self.key;
        let bytes = records.iter().map(|record| record.event.len()).sum();
        self.writer
            .call_of(bytes, move |tx| {
                let mut rows = Rows::of(tx.conn, key, landmarks::last(tx.conn, key)?, &turns, &requests)?;
                insert(tx.conn, &mut rows, &records)?;
                landmarks::set_last(tx.conn, key, rows.last.id)?;
                changes.iter().try_for_each(|change| tool_keys::apply(tx.conn, key, change))?;
                write::insert_blobs(tx.conn, key, &blobs)
            })
            .await?;
        self.session.head = head;
        if let Some(state) = state {
            self.session.state = state;
        }
        Ok(())
    }

    /// Makes the session visible.
    pub(super) async fn finish(mut self) -> Result<Session, Error> {
        let (key, session) = (self.key, self.session.clone());
        self.writer.call(move |tx| finish(tx, key, &session)).await?;
        self.finished = true;
        Ok(self.session.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let key = self.key;
        self.writer.call_detached(move |tx| {
            sweep::abandon(tx.conn, key)?;
            tx.note_trash();
            Ok(())
        });
    }
}

fn begin(tx: &mut Tx<'_>, session: &Session) -> Result<(i64, Option<Digest>), Stop> {
    write::check_free(tx.conn, &session.uid)?;
    let (parent, hash) = match &session.parent {
        None => (None, None),
        Some((parent, at)) => {
            let slot = tx.slot(parent)?;
            in_journal(&session.uid, parent, *at, slot.session.head)?;
            (Some(slot.key), write::hash_at(tx.conn, slot.key, slot.session.head, *at)?)
        }
    };
    let key = write::insert_session(tx.conn, life::IMPORTING, session, parent)?;
    tx.conn.execute("INSERT INTO imports (session) VALUES (?1)", [key])?;
    Ok((key, hash))
}

fn in_journal(uid: &SessionUid, parent: &SessionUid, at: i64, head: Head) -> Result<(), Error> {
    if (0..=head.seq).contains(&at) {
        return Ok(());
    }
    Err(Error::Invalid(format!("cannot import {uid} as a fork of {parent} at {at}: its journal ends at {}", head.seq)))
}

fn insert(conn: &Connection, rows: &mut Rows, records: &[Record]) -> Result<(), Stop> {
    records.iter().try_for_each(|record| {
        let Record { seq, prev_hash, content_hash, fence, ts_ms, event } = record;
        let new = NewRecord { seq: *seq, prev_hash: *prev_hash, content_hash: *content_hash, event: event.clone() };
        rows.insert(conn, (*fence, *ts_ms), &new)
    })
}

fn finish(tx: &mut Tx<'_>, key: i64, session: &Session) -> Result<(), Stop> {
    let State { compute, exec, ref scan, .. } = session.state;
    tx.conn.execute(
        "UPDATE heads SET seq = ?2, hash = ?3, compute = ?4, exec = ?5, pending = ?6, scan = ?7 WHERE session = ?1",
        params![
            key,
            session.head.seq,
            session.head.hash.map(|h| h.0),
            compute,
            exec,
            asks::encode(&session.state),
            &scan[..]
        ],
    )?;
    tx.conn.execute("UPDATE sessions SET life = ?2 WHERE key = ?1", params![key, life::LIVE])?;
    tx.conn.execute("DELETE FROM imports WHERE session = ?1", [key])?;
    asks::moved(tx.conn, key, None, session, since_ns(tx.conn, key, session)?)?;
    let last = landmarks::last(tx.conn, key)?;
    tx.remember(Slot { key, session: Arc::new(session.clone()), last });
    Ok(())
}

/// When the record was committed that a session waits on: where it comes from.
fn since_ns(conn: &Connection, key: i64, session: &Session) -> Result<i64, Stop> {
    let shared = session.parent.as_ref().map_or(0, |(_, seq)| *seq);
    let asked = session.state.pending.as_ref().map(|asked| asked.request_seq).filter(|seq| *seq > shared);
    let ts_ms = asked.map(|seq| landmarks::time(conn, key, seq)).transpose()?.flatten();
    Ok(ts_ms.map_or(session.update_ns, |ts_ms| ts_ms.saturating_mul(1_000_000)))
}
