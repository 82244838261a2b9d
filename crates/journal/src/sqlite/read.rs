//! Reads, on connections of their own: each sees one committed state of the store.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use inspan_wire::{Digest, SessionUid, v1};
use lru::LruCache;
use prost::Message as _;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::asks;
use super::fault::{self, Stop};
use super::landmarks;
use super::tool_keys;
use super::write::life;
use crate::lineage::Lineage;
use crate::memory::ANSWER_BYTES_MAX;
use crate::{Error, Head, KeyUse, ListQuery, Page, Record, Session, State, TurnMark};

/// Lineages that are remembered; a lineage never changes while its session lives.
const LINEAGES_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// The lineages that every reader has resolved so far.
pub(super) type Lineages = Arc<Mutex<LruCache<i64, Arc<Lineage<i64>>>>>;

pub(super) fn lineages() -> Lineages {
    Arc::new(Mutex::new(LruCache::new(LINEAGES_MAX)))
}

/// One read connection.
pub(super) struct Reader {
    pub(super) conn: Connection,
    pub(super) path: Arc<PathBuf>,
    pub(super) lineages: Lineages,
}

impl Reader {
    /// Runs `read` on one committed state.
    pub(super) fn read<T>(&mut self, read: impl FnOnce(&View<'_>) -> Result<T, Stop>) -> Result<T, Error> {
        let outcome = self.conn.transaction().map_err(Stop::Sql).and_then(|tx| {
            let view = View { tx, lineages: &self.lineages };
            read(&view)
        });
        outcome.map_err(|stop| match stop {
            Stop::Refused(e) => e,
            Stop::Sql(e) => fault::report(&self.path, &e),
        })
    }
}

/// One committed state of the store.
pub(super) struct View<'a> {
    pub(super) tx: Transaction<'a>,
    lineages: &'a Lineages,
}

/// A live session, as far as reading its records needs it.
struct Live {
    key: i64,
    head: Head,
}

const SESSION: &str = "SELECT s.uid, s.info, p.uid, s.fork_seq, s.create_ns, h.update_ns, h.seq, h.hash, h.fence, \
                       h.compute, h.exec, h.pending, h.scan \
                       FROM sessions s JOIN heads h ON h.session = s.key LEFT JOIN sessions p ON p.key = s.parent";

/// Reads a live session.
pub(super) fn session_of(conn: &Connection, uid: &SessionUid) -> Result<Option<Session>, Stop> {
    let sql = format!("{SESSION} WHERE s.uid = ?1 AND s.life = ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![uid.as_str(), life::LIVE])?;
    rows.next()?.map(session).transpose()
}

/// Reads a session whose key is known, in whatever life it is.
pub(super) fn session_at(conn: &Connection, key: i64) -> Result<Session, Stop> {
    let sql = format!("{SESSION} WHERE s.key = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([key])?;
    session(rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?)
}

impl View<'_> {
    pub(super) fn session(&self, uid: &SessionUid) -> Result<Option<Session>, Stop> {
        session_of(&self.tx, uid)
    }

    pub(super) fn list(&self, query: &ListQuery) -> Result<Page, Stop> {
        // The life is written out for the partial index.
        let sql = format!(
            "{SESSION} WHERE s.life = 0 AND s.project = ?1 AND s.create_ns <= ?2 \
             AND (s.create_ns < ?2 OR s.uid > ?3) ORDER BY s.create_ns DESC, s.uid LIMIT ?4"
        );
        let (create_ns, uid) = match &query.after {
            Some((create_ns, uid)) => (*create_ns, uid.as_str()),
            None => (i64::MAX, ""),
        };
        let wanted = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(params![query.project, create_ns, uid, wanted])?;
        let mut sessions = Vec::new();
        while let Some(row) = rows.next()? {
            if sessions.len() == query.limit {
                return Ok(Page { sessions, more: true });
            }
            sessions.push(session(row)?);
        }
        Ok(Page { sessions, more: false })
    }

    pub(super) fn records(&self, uid: &SessionUid, from: i64, to: i64, limit: usize) -> Result<Vec<Record>, Stop> {
        let live = self.live(uid)?;
        let (from, to) = (from.max(1), to.min(live.head.seq));
        let mut chain = Chain { uid, head: live.head, next: from, prev: None, bytes: 0, records: Vec::new(), limit };
        if from > to || limit == 0 {
            return Ok(chain.records);
        }
        let lineage = self.lineage(live.key)?;
        if from > 1 {
            chain.prev = self.hash(&lineage, uid, from - 1)?;
        }
        let sql = "SELECT seq, prev_hash, content_hash, fence, ts_ms, event FROM records WHERE id = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        for segment in lineage.cut(from, to) {
            while chain.next <= segment.last {
                let begin = chain.next;
                for row in landmarks::rows(&self.tx, segment.owner, begin, segment.last)? {
                    if chain.is_full() {
                        return Ok(chain.records);
                    }
                    chain.push(statement.query_row([row], record)?)?;
                }
                if chain.next == begin {
                    return Err(missing(uid, begin).into());
                }
            }
        }
        Ok(chain.records)
    }

    pub(super) fn turn_at(&self, uid: &SessionUid, at: i64) -> Result<Option<TurnMark>, Stop> {
        let live = self.live(uid)?;
        let sql = "SELECT execution_id, first_seq, compute, exec, pending, scan FROM turns WHERE id = ?1";
        for segment in self.lineage(live.key)?.cut(1, at.min(live.head.seq)).rev() {
            let turn = landmarks::turn(&self.tx, segment.owner, segment.last)?;
            let mut statement = self.tx.prepare_cached(sql)?;
            let mut rows = statement.query([turn])?;
            if let Some(row) = rows.next()? {
                let before = state(uid.as_str(), row, 2)?;
                return Ok(Some(TurnMark { execution_id: row.get(0)?, first_seq: row.get(1)?, before }));
            }
        }
        Ok(None)
    }

    pub(super) fn names_blob(&self, uid: &SessionUid, digest: Digest) -> Result<bool, Stop> {
        let live = self.live(uid)?;
        let sql = "SELECT 1 FROM blob_refs WHERE session = ?1 AND digest = ?2 AND seq <= ?3 LIMIT 1";
        let mut statement = self.tx.prepare_cached(sql)?;
        for segment in self.lineage(live.key)?.cut(1, i64::MAX).rev() {
            if statement.exists(params![segment.owner, digest.0, segment.last])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn key_use(&self, uid: &SessionUid, key: &str) -> Result<Option<KeyUse>, Stop> {
        Ok(tool_keys::find(&self.tx, self.live(uid)?.key, key)?)
    }

    pub(super) fn uids(&self, after: Option<&SessionUid>, limit: usize) -> Result<Vec<SessionUid>, Stop> {
        let sql = "SELECT uid FROM sessions WHERE uid > ?1 AND life IN (?2, ?3) ORDER BY uid LIMIT ?4";
        let after = after.map_or("", |uid| uid.as_str());
        let mut statement = self.tx.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let uids = statement.query_map(params![after, life::LIVE, life::HIDDEN, limit], |row| {
            row.get::<_, String>(0).map(|uid| SessionUid::from(uid.as_str()))
        })?;
        Ok(uids.collect::<Result<_, _>>()?)
    }

    fn live(&self, uid: &SessionUid) -> Result<Live, Stop> {
        let sql = "SELECT s.key, h.seq, h.hash FROM sessions s JOIN heads h ON h.session = s.key \
                   WHERE s.uid = ?1 AND s.life = ?2";
        let found = self.tx.prepare_cached(sql)?.query_row(params![uid.as_str(), life::LIVE], |row| {
            Ok(Live { key: row.get(0)?, head: Head { seq: row.get(1)?, hash: digest(row, 2)? } })
        });
        found.optional()?.ok_or_else(|| Error::NotFound(uid.clone()).into())
    }

    fn lineage(&self, key: i64) -> Result<Arc<Lineage<i64>>, Stop> {
        // The cache is whole between any two operations on it.
        let lock = || self.lineages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let mut statement = self.tx.prepare_cached("SELECT parent, fork_seq FROM sessions WHERE key = ?1")?;
        let lineage = Lineage::walk(key, |key| {
            statement.query_row([*key], |row| Ok(row.get::<_, Option<i64>>(0)?.zip(row.get(1)?)))
        })?;
        let lineage = Arc::new(lineage);
        lock().put(key, Arc::clone(&lineage));
        Ok(lineage)
    }

    fn hash(&self, lineage: &Lineage<i64>, uid: &SessionUid, seq: i64) -> Result<Option<Digest>, Stop> {
        let owner = lineage.cut(seq, seq).next_back().map(|segment| segment.owner);
        let hash = owner.map(|owner| landmarks::hash(&self.tx, owner, seq)).transpose()?.flatten();
        hash.map(Some).ok_or_else(|| missing(uid, seq).into())
    }
}

/// Records on their way out: each is checked against its own hash, its neighbour and the head.
struct Chain<'a> {
    uid: &'a SessionUid,
    head: Head,
    next: i64,
    prev: Option<Digest>,
    bytes: usize,
    records: Vec<Record>,
    limit: usize,
}

impl Chain<'_> {
    fn is_full(&self) -> bool {
        self.records.len() >= self.limit || self.bytes >= ANSWER_BYTES_MAX
    }

    fn push(&mut self, record: Record) -> Result<(), Error> {
        if record.seq != self.next {
            return Err(missing(self.uid, self.next));
        }
        let wrong = if record.prev_hash != self.prev {
            Some("it does not link to the record before it")
        } else if !record.holds() {
            Some("its hash is not the hash of what is stored")
        } else if record.seq == self.head.seq && Some(record.content_hash) != self.head.hash {
            Some("it is not the record that the head names")
        } else {
            None
        };
        if let Some(what) = wrong {
            return Err(Error::Damaged { session: self.uid.clone(), seq: record.seq, what: what.to_owned() });
        }
        self.next += 1;
        self.prev = Some(record.content_hash);
        self.bytes += record.event.len();
        self.records.push(record);
        Ok(())
    }
}

fn missing(uid: &SessionUid, seq: i64) -> Error {
    Error::Damaged { session: uid.clone(), seq, what: "the record is missing".to_owned() }
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        seq: row.get(0)?,
        prev_hash: digest(row, 1)?,
        content_hash: row.get(2).map(Digest)?,
        fence: row.get(3)?,
        ts_ms: row.get(4)?,
        event: Bytes::from(row.get::<_, Vec<u8>>(5)?),
    })
}

fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Digest>> {
    Ok(row.get::<_, Option<[u8; 32]>>(column)?.map(Digest))
}

fn session(row: &Row<'_>) -> Result<Session, Stop> {
    let uid: String = row.get(0)?;
    let info = v1::Session::decode(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)
        .map_err(|e| undecodable(&uid, &e))?;
    let parent = row.get::<_, Option<String>>(2)?;
    let fork_seq = row.get(3)?;
    Ok(Session {
        uid: SessionUid::from(uid.as_str()),
        info,
        parent: parent.map(|parent| (SessionUid::from(parent.as_str()), fork_seq)),
        create_ns: row.get(4)?,
        update_ns: row.get(5)?,
        head: Head { seq: row.get(6)?, hash: digest(row, 7)? },
        fence: row.get(8)?,
        state: state(&uid, row, 9)?,
    })
}

/// Reads compute, exec, pending and scan, the first of them at `column`.
fn state(uid: &str, row: &Row<'_>, column: usize) -> Result<State, Stop> {
    let pending = row.get::<_, Option<Vec<u8>>>(column + 2)?.map(|stored| asks::decode(&stored)).transpose();
    let (pending, deadline_ns) = pending.map_err(|e| undecodable(uid, &e))?.unzip();
    Ok(State {
        compute: row.get(column)?,
        exec: row.get(column + 1)?,
        pending,
        deadline_ns: deadline_ns.flatten(),
        scan: Bytes::from(row.get::<_, Vec<u8>>(column + 3)?),
    })
}

fn undecodable(uid: &str, e: &prost::DecodeError) -> Stop {
    Error::Io(format!("what is stored beside the records of {uid} cannot be decoded: {e}")).into()
}
