//! Uses of idempotency keys on disk.

use std::collections::HashMap;

use inspan_wire::Digest;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::keys::{Fold, KeyChange, KeyUse};

/// Carries out `change`.
pub(super) fn apply(conn: &Connection, session: i64, change: &KeyChange) -> rusqlite::Result<()> {
    let (sql, key, call_seq) = match change {
        KeyChange::Sent { key, call_seq } | KeyChange::First { key, call_seq } => {
            ("INSERT OR IGNORE INTO tool_keys (session, key, call_seq) VALUES (?1, ?2, ?3)", key, call_seq)
        }
        KeyChange::Freed { key, call_seq } => {
            ("DELETE FROM tool_keys WHERE session = ?1 AND key = ?2 AND call_seq = ?3", key, call_seq)
        }
        KeyChange::Inherited => return conn.execute("DELETE FROM tool_keys WHERE session = ?1", [session]).map(drop),
    };
    conn.prepare_cached(sql)?.execute(params![session, digest(key), call_seq]).map(drop)
}

/// What `key` was used for.
pub(super) fn find(conn: &Connection, session: i64, key: &str) -> rusqlite::Result<Option<KeyUse>> {
    conn.prepare_cached("SELECT call_seq FROM tool_keys WHERE session = ?1 AND key = ?2")?
        .query_row(params![session, digest(key)], |row| Ok(KeyUse { call_seq: row.get(0)? }))
        .optional()
}

/// Removes at most `rows_max` uses; gives how many it found.
pub(super) fn drop_some(conn: &Connection, session: i64, rows_max: u32) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM tool_keys WHERE session = ?1 AND key IN \
               (SELECT key FROM tool_keys WHERE session = ?1 LIMIT ?2)";
    conn.prepare_cached(sql)?.execute(params![session, rows_max])
}

/// Works out of all records what their keys were used for: of a store that knew none so far.
pub(super) fn fill(conn: &Connection) -> rusqlite::Result<()> {
    let mut folds: HashMap<i64, Fold> = HashMap::new();
    // Records of a session are in their order; those of a deleted one are nobody's to run again.
    let mut statement = conn.prepare(
        "SELECT r.session, r.seq, r.event FROM records r JOIN sessions s ON s.key = r.session \
         WHERE s.life < 2 ORDER BY r.id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let session = row.get(0)?;
        let mut fold = folds.remove(&session).unwrap_or_default();
        let change = fold.step_text(row.get(1)?, row.get_ref(2)?.as_blob()?);
        // Of a million sessions few are in a call.
        if !fold.is_idle() {
            folds.insert(session, fold);
        }
        if let Some(change) = change {
            apply(conn, session, &change)?;
        }
    }
    Ok(())
}

fn digest(key: &str) -> [u8; 32] {
    Digest::of(key.as_bytes()).0
}
