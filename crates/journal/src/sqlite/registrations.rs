//! Registered harnesses, in the database.

use async_trait::async_trait;
use bytes::Bytes;
use inspan_wire::Digest;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::Store;
use super::fault::Stop;
use super::writer::Tx;
use crate::Error;
use crate::registration::{NewRegistration, Registered, Registration, RegistrationQuery, Registrations, Retired};

const COLUMNS: &str = "name, uid, spec, digest, create_ns, update_ns, retire_ns, retire_reason";

#[async_trait]
impl Registrations for Store {
    async fn register(&self, new: NewRegistration) -> Result<(Registration, Registered), Error> {
        self.writer.call(move |tx| register(tx, &new)).await
    }

    async fn registration(&self, name: &str) -> Result<Option<Registration>, Error> {
        let name = name.to_owned();
        self.read(move |view| Ok(find(&view.tx, &name)?)).await
    }

    async fn registrations(&self, query: RegistrationQuery) -> Result<Vec<Registration>, Error> {
        self.read(move |view| Ok(page(&view.tx, &query)?)).await
    }

    async fn retire(&self, name: &str, reason: &str) -> Result<Option<Registration>, Error> {
        let (name, reason) = (name.to_owned(), reason.to_owned());
        self.writer.call(move |tx| retire(tx, &name, &reason)).await
    }
}

fn register(tx: &Tx<'_>, new: &NewRegistration) -> Result<(Registration, Registered), Stop> {
    let Some(mut there) = find(tx.conn, &new.name)? else {
        let made = new.clone().at(tx.now_ns);
        tx.conn
            .prepare_cached(
                "INSERT INTO registrations (name, uid, spec, digest, create_ns, update_ns, retire_reason) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, '')",
            )?
            .execute(params![made.name, made.uid, &made.spec[..], made.digest.0, made.create_ns, made.update_ns])?;
        return Ok((made, Registered::Created));
    };
    let outcome = there.register_again(&new.spec, tx.now_ns);
    if outcome == Registered::Reactivated {
        mark(tx.conn, &there)?;
    }
    Ok((there, outcome))
}

fn retire(tx: &Tx<'_>, name: &str, reason: &str) -> Result<Option<Registration>, Stop> {
    let Some(mut there) = find(tx.conn, name)? else { return Ok(None) };
    if there.retire(reason, tx.now_ns) {
        mark(tx.conn, &there)?;
    }
    Ok(Some(there))
}

/// Writes what may change of a registration.
fn mark(conn: &Connection, now: &Registration) -> rusqlite::Result<()> {
    let sql = "UPDATE registrations SET update_ns = ?2, retire_ns = ?3, retire_reason = ?4 WHERE name = ?1";
    let retire_ns = now.retired.as_ref().map(|retired| retired.at_ns);
    let reason = now.retired.as_ref().map_or("", |retired| retired.reason.as_str());
    conn.prepare_cached(sql)?.execute(params![now.name, now.update_ns, retire_ns, reason]).map(drop)
}

fn find(conn: &Connection, name: &str) -> rusqlite::Result<Option<Registration>> {
    let sql = format!("SELECT {COLUMNS} FROM registrations WHERE name = ?1");
    conn.prepare_cached(&sql)?.query_row([name], registration).optional()
}

fn page(conn: &Connection, query: &RegistrationQuery) -> rusqlite::Result<Vec<Registration>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM registrations WHERE name > ?1 AND (?2 OR retire_ns IS NULL) ORDER BY name LIMIT ?3"
    );
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(&sql)?;
    let found = statement.query_map(params![query.after, query.include_retired, limit], registration)?;
    found.collect()
}

fn registration(row: &Row<'_>) -> rusqlite::Result<Registration> {
    let retire_ns: Option<i64> = row.get(6)?;
    let reason = row.get(7)?;
    Ok(Registration {
        name: row.get(0)?,
        uid: row.get(1)?,
        spec: Bytes::from(row.get::<_, Vec<u8>>(2)?),
        digest: row.get(3).map(Digest)?,
        create_ns: row.get(4)?,
        update_ns: row.get(5)?,
        retired: retire_ns.map(|at_ns| Retired { at_ns, reason }),
    })
}
