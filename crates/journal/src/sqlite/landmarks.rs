//! Finding the records of a session: each names the row of the one before it, and every 32nd is found
//! by its number.
//!
//! The way to a record leads from the landmark at or behind it, or from the session's last record, back
//! along the links: at most 31 of them, whatever the session's length.

use inspan_wire::Digest;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::requests;

/// From one landmark to the next. The schema knows this number too.
const STRIDE: i64 = 32;

/// Notes where record `seq` of `session` lies, when it is a landmark.
pub(super) fn note(conn: &Connection, session: i64, seq: i64, id: i64) -> rusqlite::Result<()> {
    if seq % STRIDE != 0 {
        return Ok(());
    }
    conn.prepare_cached("INSERT INTO landmarks (session, seq, id) VALUES (?1, ?2, ?3)")?
        .execute(params![session, seq, id])
        .map(drop)
}

/// The rows of records `first..=last` of `session`, in order and at most up to the next landmark. Fewer than that
/// when some are missing.
pub(super) fn rows(conn: &Connection, session: i64, first: i64, last: i64) -> rusqlite::Result<Vec<i64>> {
    let landmark = first + (STRIDE - first % STRIDE) % STRIDE;
    let last = last.min(landmark);
    let mut rows = Vec::new();
    let mut next = start(conn, session, landmark)?;
    let mut link = conn.prepare_cached("SELECT seq, prev_id FROM records WHERE id = ?1")?;
    while next != 0 {
        let found = link.query_row([next], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))).optional()?;
        let Some((seq, prev)) = found.filter(|(seq, _)| *seq >= first) else { break };
        if seq <= last {
            rows.push(next);
        }
        next = prev;
    }
    rows.reverse();
    let whole = usize::try_from(last - first + 1).is_ok_and(|count| count == rows.len());
    if whole { Ok(rows) } else { scan(conn, session, first, last) }
}

/// The last record that a session itself holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Last {
    /// Its row; 0 for none.
    pub(super) id: i64,
    /// The row of the turn that it is in; 0 for none.
    pub(super) turn: i64,
}

/// The last record that `session` itself holds.
pub(super) fn last(conn: &Connection, session: i64) -> rusqlite::Result<Last> {
    let sql = "SELECT h.last_id, coalesce(r.turn, 0) FROM heads h LEFT JOIN records r ON r.id = h.last_id WHERE h.session = ?1";
    conn.prepare_cached(sql)?.query_row([session], |row| Ok(Last { id: row.get(0)?, turn: row.get(1)? }))
}

/// Notes the row of the last record that `session` itself holds.
pub(super) fn set_last(conn: &Connection, session: i64, row: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("UPDATE heads SET last_id = ?2 WHERE session = ?1")?.execute([session, row]).map(drop)
}

/// Where the way to the records in front of `landmark` begins; 0 for nowhere.
fn start(conn: &Connection, session: i64, landmark: i64) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce((SELECT id FROM landmarks WHERE session = ?1 AND seq = ?2), \
               (SELECT last_id FROM heads WHERE session = ?1), 0)";
    conn.prepare_cached(sql)?.query_row(params![session, landmark], |row| row.get(0))
}

/// The same from the table itself, when a link is broken: slow, but it shows what is left.
fn scan(conn: &Connection, session: i64, first: i64, last: i64) -> rusqlite::Result<Vec<i64>> {
    conn.prepare_cached("SELECT id FROM records WHERE session = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq")?
        .query_map(params![session, first, last], |row| row.get(0))?
        .collect()
}

/// The hash of record `seq` that `session` itself holds; `None` when there is no such record.
pub(super) fn hash(conn: &Connection, session: i64, seq: i64) -> rusqlite::Result<Option<Digest>> {
    let Some(&row) = rows(conn, session, seq, seq)?.first() else { return Ok(None) };
    let sql = "SELECT content_hash FROM records WHERE id = ?1";
    conn.prepare_cached(sql)?.query_row([row], |row| row.get(0).map(Digest)).optional()
}

/// The commit time of record `seq` that `session` itself holds, in milliseconds; `None` when there is no such record.
pub(super) fn time(conn: &Connection, session: i64, seq: i64) -> rusqlite::Result<Option<i64>> {
    let Some(&row) = rows(conn, session, seq, seq)?.first() else { return Ok(None) };
    conn.prepare_cached("SELECT ts_ms FROM records WHERE id = ?1")?.query_row([row], |row| row.get(0)).optional()
}

/// The row of the last turn that starts at or before record `seq` of `session`, among those that the session itself
/// holds; 0 for none.
pub(super) fn turn(conn: &Connection, session: i64, seq: i64) -> rusqlite::Result<i64> {
    let Some(&row) = rows(conn, session, seq, seq)?.first() else { return Ok(0) };
    conn.prepare_cached("SELECT turn FROM records WHERE id = ?1")?.query_row([row], |row| row.get(0))
}

/// Removes the last records of `session` behind `floor`, `limit` at most, with the turns that start there and the requests
/// that they carry, and says how many.
pub(super) fn drop_last(conn: &Connection, session: i64, floor: i64, limit: u32) -> rusqlite::Result<u32> {
    let mut next = last(conn, session)?.id;
    let (mut dropped, mut lowest) = (0, i64::MAX);
    while next != 0 && dropped < limit {
        let found = conn
            .prepare_cached("DELETE FROM records WHERE id = ?1 AND seq > ?2 RETURNING seq, prev_id, turn, request")?
            .query_row([next, floor], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?, row.get::<_, Option<i64>>(3)?))
            })
            .optional()?;
        let Some((seq, prev, turn, request)) = found else { break };
        conn.prepare_cached("DELETE FROM turns WHERE id = ?1 AND first_seq = ?2")?.execute([turn, seq])?;
        // The newest first: a difference goes before the text that it needs.
        request.map_or(Ok(()), |request| requests::disown(conn, request))?;
        (lowest, next) = (seq, prev);
        dropped += 1;
    }
    conn.execute("DELETE FROM landmarks WHERE session = ?1 AND seq >= ?2", [session, lowest])?;
    set_last(conn, session, next)?;
    Ok(dropped)
}
