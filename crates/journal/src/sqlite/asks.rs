//! The sessions that wait for a person: kept beside the heads, in the transaction that changes them.

use inspan_wire::{SessionUid, v1};
use prost::Message as _;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::fault::Stop;
use super::read::{self, View};
use super::write::life;
use crate::{Ask, AskPage, AskQuery, Asks, Error, Session, State, memory};

/// What `pending` holds: an `agentsessions.v1.ApprovalRef`, and in a field that such a reference does not have, when the
/// wait expires.
#[derive(Clone, PartialEq, prost::Message)]
struct Pending {
    #[prost(string, tag = "1")]
    execution_id: String,
    #[prost(string, tag = "2")]
    tool_call_id: String,
    #[prost(int64, tag = "3")]
    request_seq: i64,
    #[prost(int64, optional, tag = "1000")]
    deadline_ns: Option<i64>,
}

/// What a state waits for, as it is stored.
pub(super) fn encode(state: &State) -> Option<Vec<u8>> {
    let v1::ApprovalRef { execution_id, tool_call_id, request_seq } = state.pending.clone()?;
    Some(Pending { execution_id, tool_call_id, request_seq, deadline_ns: state.deadline_ns }.encode_to_vec())
}

/// What was stored, and when that wait expires.
pub(super) fn decode(stored: &[u8]) -> Result<(v1::ApprovalRef, Option<i64>), prost::DecodeError> {
    let Pending { execution_id, tool_call_id, request_seq, deadline_ns } = Pending::decode(stored)?;
    Ok((v1::ApprovalRef { execution_id, tool_call_id, request_seq }, deadline_ns))
}

/// Takes over what a session has come to wait for, when that is not what it waited for `before`.
pub(super) fn moved(
    conn: &Connection,
    key: i64,
    before: Option<&State>,
    session: &Session,
    since_ns: i64,
) -> rusqlite::Result<()> {
    let state = &session.state;
    let unchanged = |before: &State| (&before.pending, before.deadline_ns) == (&state.pending, state.deadline_ns);
    match (&state.pending, before) {
        (_, Some(before)) if unchanged(before) => Ok(()),
        (None, None) => Ok(()),
        (None, Some(_)) => forget(conn, key),
        (Some(asked), _) => {
            let sql = "INSERT OR REPLACE INTO asks \
                       (session, uid, project, request_seq, since_ns, deadline_ns, announced) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)";
            let (uid, project) = (session.uid.as_str(), memory::project(&session.info));
            conn.prepare_cached(sql)?
                .execute(params![key, uid, project, asked.request_seq, since_ns, state.deadline_ns])
                .map(drop)
        }
    }
}

/// The session waits no longer, or is no longer there.
pub(super) fn forget(conn: &Connection, key: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM asks WHERE session = ?1")?.execute([key]).map(drop)
}

/// Notes that somebody was told of a wait, if it is still the one.
pub(super) fn announced(conn: &Connection, uid: &SessionUid, request_seq: i64) -> Result<(), Stop> {
    let found = conn
        .prepare_cached("SELECT key FROM sessions WHERE uid = ?1 AND life = ?2")?
        .query_row(params![uid.as_str(), life::LIVE], |row| row.get::<_, i64>(0))
        .optional()?;
    let key = found.ok_or_else(|| Error::NotFound(uid.clone()))?;
    conn.prepare_cached("UPDATE asks SET announced = 1 WHERE session = ?1 AND request_seq = ?2")?
        .execute([key, request_seq])?;
    Ok(())
}

impl View<'_> {
    pub(super) fn asks(&self, query: &AskQuery) -> Result<AskPage, Stop> {
        // Conditions are written out for the partial indexes.
        let (key, condition) = match &query.of {
            Asks::All => ("since_ns", "?1 = ''"),
            Asks::Project(_) => ("since_ns", "project = ?1"),
            Asks::Due => ("deadline_ns", "?1 = '' AND deadline_ns IS NOT NULL"),
            Asks::Unannounced => ("since_ns", "?1 = '' AND announced = 0"),
        };
        let sql = format!(
            "SELECT session, since_ns, {key} FROM asks WHERE {condition} AND ({key}, uid) > (?2, ?3) \
             ORDER BY {key}, uid LIMIT ?4"
        );
        let project = if let Asks::Project(project) = &query.of { project.as_str() } else { "" };
        let (after, uid) = query.after.as_ref().map_or((i64::MIN, ""), |(after, uid)| (*after, uid.as_str()));
        let wanted = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(params![project, after, uid, wanted])?;
        let mut page = AskPage { asks: Vec::new(), next: None };
        let mut last = None;
        while let Some(row) = rows.next()? {
            if page.asks.len() == query.limit {
                page.next = last;
                break;
            }
            let session = read::session_at(&self.tx, row.get(0)?)?;
            last = Some((row.get(2)?, session.uid.clone()));
            page.asks.push(Ask { session, since_ns: row.get(1)? });
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An older host reads what a newer one has stored, and the other way round.
    #[test]
    fn a_stored_wait_is_a_reference_with_one_field_more() {
        let asked = v1::ApprovalRef { execution_id: "e".into(), tool_call_id: "c".into(), request_seq: 4 };
        let state = State { pending: Some(asked.clone()), deadline_ns: Some(7), ..State::default() };
        let stored = encode(&state).unwrap();
        assert_eq!(v1::ApprovalRef::decode(&stored[..]), Ok(asked.clone()));
        assert_eq!(decode(&stored), Ok((asked.clone(), Some(7))));
        assert_eq!(decode(&asked.encode_to_vec()), Ok((asked, None)));
        assert_eq!(encode(&State { deadline_ns: Some(7), ..State::default() }), None);
    }
}
