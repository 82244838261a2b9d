//! Deleting: a session is hidden at once; what it holds is dropped in bounded steps.

use inspan_wire::{Digest, SessionUid};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::asks;
use super::fault::Stop;
use super::landmarks;
use super::requests;
use super::tool_keys;
use super::write::life;
use super::writer::Tx;

/// Rows that one step removes: a few milliseconds of the writer's time.
const STEP_ROWS_MAX: u32 = 2000;

/// Hides a session for ever.
pub(super) fn hide(tx: &mut Tx<'_>, uid: &SessionUid) -> Result<(), Stop> {
    let slot = tx.slot(uid)?;
    tx.conn.execute("UPDATE sessions SET life = ?2 WHERE key = ?1", params![slot.key, life::HIDDEN])?;
    asks::forget(tx.conn, slot.key)?;
    discard(tx.conn, slot.key)?;
    tx.forget(uid);
    tx.note_trash();
    Ok(())
}

/// Lets go of an import that will not be finished: its uid is free again.
pub(super) fn abandon(conn: &Connection, key: i64) -> rusqlite::Result<()> {
    conn.execute("UPDATE sessions SET life = ?2, uid = NULL WHERE key = ?1", params![key, life::HIDDEN])?;
    conn.execute("DELETE FROM imports WHERE session = ?1", [key])?;
    discard(conn, key)
}

/// Lets go of every import that a crash has cut.
pub(super) fn abandon_all(conn: &Connection) -> rusqlite::Result<()> {
    let cut: Vec<i64> =
        conn.prepare("SELECT session FROM imports")?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    cut.into_iter().try_for_each(|key| abandon(conn, key))
}

fn discard(conn: &Connection, key: i64) -> rusqlite::Result<()> {
    conn.execute("INSERT OR IGNORE INTO trash (session) VALUES (?1)", [key]).map(drop)
}

/// Whether a step would find something.
pub(super) fn pending(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare("SELECT 1 FROM trash LIMIT 1")?.exists([])
}

/// Removes some of what one deleted session holds and nobody reads. Says whether there is more.
pub(super) fn step(conn: &Connection) -> rusqlite::Result<bool> {
    let Some(key) = conn.query_row("SELECT session FROM trash LIMIT 1", [], |row| row.get(0)).optional()? else {
        return Ok(false);
    };
    let (parent, fork_seq): (Option<i64>, i64) =
        conn.query_row("SELECT parent, fork_seq FROM sessions WHERE key = ?1", [key], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let needed: Option<i64> =
        conn.query_row("SELECT max(reads_to) FROM sessions WHERE parent = ?1", [key], |row| row.get(0))?;
    let floor = needed.unwrap_or(0);
    let full = drop_records(conn, key, floor)?
        || drop_requests(conn, key, floor)?
        || drop_blobs(conn, key, floor)?
        || is_full(tool_keys::drop_some(conn, key, STEP_ROWS_MAX)?);
    if full {
        return Ok(true);
    }
    conn.execute("DELETE FROM trash WHERE session = ?1", [key])?;
    let reads_less = match needed {
        Some(needed) => conn.execute(
            "UPDATE sessions SET reads_to = ?2 WHERE key = ?1 AND reads_to > ?2",
            params![key, needed.min(fork_seq)],
        )?,
        None => bury(conn, key)?,
    };
    if let (Some(parent), 1) = (parent, reads_less) {
        conn.execute(
            "INSERT OR IGNORE INTO trash (session) SELECT key FROM sessions WHERE key = ?1 AND life = ?2",
            params![parent, life::HIDDEN],
        )?;
    }
    pending(conn)
}

/// Only the uid stays, so that it stays taken.
fn bury(conn: &Connection, key: i64) -> rusqlite::Result<usize> {
    conn.execute("DELETE FROM heads WHERE session = ?1", [key])?;
    conn.execute("UPDATE sessions SET life = ?2, parent = NULL, info = x'' WHERE key = ?1", params![key, life::GONE])
}

fn drop_records(conn: &Connection, key: i64, floor: i64) -> rusqlite::Result<bool> {
    Ok(landmarks::drop_last(conn, key, floor, STEP_ROWS_MAX)? == STEP_ROWS_MAX)
}

fn drop_requests(conn: &Connection, key: i64, floor: i64) -> rusqlite::Result<bool> {
    // The newest first: a difference goes before the text that it needs.
    let found = some(
        conn,
        "SELECT seq, request FROM request_refs WHERE session = ?1 AND seq > ?2 ORDER BY seq DESC, request DESC LIMIT ?3",
        params![key, floor, STEP_ROWS_MAX],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
    )?;
    for &(seq, request) in &found {
        conn.prepare_cached("DELETE FROM request_refs WHERE session = ?1 AND seq = ?2 AND request = ?3")?
            .execute(params![key, seq, request])?;
        requests::prune(conn, request)?;
    }
    Ok(is_full(found.len()))
}

fn drop_blobs(conn: &Connection, key: i64, floor: i64) -> rusqlite::Result<bool> {
    let found = some(
        conn,
        "SELECT digest, seq FROM blob_refs WHERE session = ?1 AND seq > ?2 LIMIT ?3",
        params![key, floor, STEP_ROWS_MAX],
        |row| Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, i64>(1)?)),
    )?;
    for &(digest, seq) in &found {
        conn.prepare_cached("DELETE FROM blob_refs WHERE session = ?1 AND digest = ?2 AND seq = ?3")?
            .execute(params![key, digest, seq])?;
        conn.prepare_cached(
            "INSERT OR IGNORE INTO orphans (digest) SELECT ?1 \
             WHERE NOT EXISTS (SELECT 1 FROM blob_refs WHERE digest = ?1)",
        )?
        .execute([digest])?;
    }
    Ok(is_full(found.len()))
}

fn is_full(rows: usize) -> bool {
    rows == STEP_ROWS_MAX as usize
}

fn some<T>(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    conn.prepare_cached(sql)?.query_map(params, read)?.collect()
}

/// Payloads that no record names any more, as far as the last steps know.
pub(super) fn orphans(conn: &Connection) -> rusqlite::Result<Vec<Digest>> {
    some(conn, "SELECT digest FROM orphans LIMIT 10000", [], |row| row.get(0).map(Digest))
}

/// Whether any record names a payload.
pub(super) fn is_named(conn: &Connection, digest: Digest) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT 1 FROM blob_refs WHERE digest = ?1 LIMIT 1")?.exists([digest.0])
}

/// The matter of these payloads is settled.
pub(super) fn settled(conn: &Connection, digests: &[Digest]) -> Result<(), Stop> {
    for digest in digests {
        conn.prepare_cached("DELETE FROM orphans WHERE digest = ?1")?.execute([digest.0])?;
    }
    Ok(())
}
