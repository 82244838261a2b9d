//! Model requests: whole texts and differences (see `delta.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use inspan_wire::Digest;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::fault::Stop;
use crate::delta::{self, Shared, Text};
use crate::{Error, KeptRequest, admit};

/// A request to keep, compared with its base already.
pub(super) struct Kept {
    digest: Digest,
    text: Arc<str>,
    base: Option<(Digest, Shared)>,
    /// The record that carries its hash.
    seq: i64,
}

impl Kept {
    /// `None` when there is no record that could carry it.
    pub(super) fn new<'a>(
        request: &KeptRequest,
        records: impl Iterator<Item = (i64, &'a [u8])> + Clone,
    ) -> Option<Kept> {
        let base = request.base.as_ref().map(|(digest, text)| {
            let shared = Shared::between(text.as_bytes(), request.text.as_bytes());
            (*digest, shared)
        });
        let seq = admit::carrier(request.digest, records)?;
        Some(Kept { digest: request.digest, text: Arc::clone(&request.text), base, seq })
    }
}

/// The text that was kept for each record which is about to be written, by the record's seq.
pub(super) type Carried = BTreeMap<i64, i64>;

/// Keeps texts, those aside whose digest is there already, and notes who carries them: the record itself, when the text is
/// new. Of a session that carries a text already nothing more is noted: its earlier record stays as long as any.
pub(super) fn keep(conn: &Connection, session: i64, requests: &[Kept]) -> Result<Carried, Stop> {
    let mut carried = Carried::default();
    for kept in requests {
        let key = match find(conn, kept.digest)? {
            Some(found) if found.owner == Some(session) => continue,
            Some(found) => found.key,
            None if !carried.contains_key(&kept.seq) => {
                carried.insert(kept.seq, insert(conn, kept, Some(session))?);
                continue;
            }
            None => insert(conn, kept, None)?,
        };
        conn.prepare_cached(
            "INSERT INTO request_refs (session, seq, request) SELECT ?1, ?2, ?3 \
             WHERE NOT EXISTS (SELECT 1 FROM request_refs WHERE request = ?3 AND session = ?1)",
        )?
        .execute(params![session, kept.seq, key])?;
    }
    Ok(carried)
}

fn insert(conn: &Connection, kept: &Kept, owner: Option<i64>) -> Result<i64, Stop> {
    let text = kept.text.as_bytes();
    let difference = match kept.base {
        Some((digest, shared)) => find(conn, digest)?.and_then(|base| {
            let cost = delta::cost(base.cost, shared.middle(text).len(), text.len())?;
            Some((base.key, shared, cost))
        }),
        None => None,
    };
    let (base, shared, cost) = match difference {
        Some((base, shared, cost)) => (Some(base), shared, cost),
        None => (None, Shared { prefix: 0, suffix: 0 }, text.len()),
    };
    conn.prepare_cached(
        "INSERT INTO requests (digest, size, cost, owner, base, prefix, suffix, middle) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        kept.digest.0,
        as_i64(text.len()),
        as_i64(cost),
        owner,
        base,
        as_i64(shared.prefix),
        as_i64(shared.suffix),
        shared.middle(text),
    ])?;
    Ok(conn.last_insert_rowid())
}

/// A text that is kept.
struct Found {
    key: i64,
    cost: usize,
    /// The session with the record that it was kept for.
    owner: Option<i64>,
}

fn find(conn: &Connection, digest: Digest) -> rusqlite::Result<Option<Found>> {
    conn.prepare_cached("SELECT key, cost, owner FROM requests WHERE digest = ?1")?
        .query_row([digest.0], |row| Ok(Found { key: row.get(0)?, cost: size(row, 1)?, owner: row.get(2)? }))
        .optional()
}

/// Reads a text back.
pub(super) fn read(conn: &Connection, digest: Digest) -> Result<Option<Arc<str>>, Stop> {
    let Some(Found { key: mut at, .. }) = find(conn, digest)? else { return Ok(None) };
    let mut differences = Vec::new();
    let mut text = loop {
        let (base, shared, middle) = row(conn, at)?;
        let Some(base) = base else { break Text::whole(middle) };
        // A base is always older; anything else would go round in circles.
        if base >= at {
            return Err(Error::Io(format!("the base of request {digest} is newer than the request itself")).into());
        }
        differences.push((shared, middle));
        at = base;
    };
    for (shared, middle) in differences.iter().rev() {
        text.apply(*shared, middle)?;
    }
    Ok(Some(text.finish(digest)?.into()))
}

fn row(conn: &Connection, key: i64) -> rusqlite::Result<(Option<i64>, Shared, Vec<u8>)> {
    conn.prepare_cached("SELECT base, prefix, suffix, middle FROM requests WHERE key = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, Shared { prefix: size(row, 1)?, suffix: size(row, 2)? }, row.get(3)?)))
}

/// The record that a text was kept for is gone.
pub(super) fn disown(conn: &Connection, key: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("UPDATE requests SET owner = NULL WHERE key = ?1")?.execute([key])?;
    prune(conn, key)
}

/// Removes a text that no record carries and no difference needs, then its base if that was the
/// last that needed it.
pub(super) fn prune(conn: &Connection, key: i64) -> rusqlite::Result<()> {
    let mut next = Some(key);
    while let Some(key) = next {
        next = conn
            .prepare_cached(
                "DELETE FROM requests WHERE key = ?1 AND owner IS NULL \
                 AND NOT EXISTS (SELECT 1 FROM request_refs WHERE request = ?1) \
                 AND NOT EXISTS (SELECT 1 FROM requests WHERE base = ?1) \
                 RETURNING base",
            )?
            .query_row([key], |row| row.get(0))
            .optional()?
            .flatten();
    }
    Ok(())
}

/// A length; a negative one is damage.
fn size(row: &Row<'_>, column: usize) -> rusqlite::Result<usize> {
    let n: i64 = row.get(column)?;
    usize::try_from(n).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, n))
}

fn as_i64(n: usize) -> i64 {
    i64::try_from(n).expect("a text is smaller than memory")
}
