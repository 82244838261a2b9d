//! The schema's versions and how a connection is set up.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};

use super::{fault, tool_keys};
use crate::Error;

/// Every version of the schema, oldest first. Forward only: one that was released never changes.
const MIGRATIONS: &[Migration] = &[
    sql(include_str!("../../migrations/0001_journal.sql")),
    sql(include_str!("../../migrations/0002_landmarks.sql")),
    sql(include_str!("../../migrations/0003_registrations.sql")),
    sql(include_str!("../../migrations/0004_asks.sql")),
    Migration { sql: include_str!("../../migrations/0005_tool_keys.sql"), fill: Some(tool_keys::fill) },
    sql(include_str!("../../migrations/0006_on_the_record.sql")),
];

/// One step of the schema, in one transaction.
#[derive(Clone, Copy)]
struct Migration {
    sql: &'static str,
    /// What SQL alone cannot work out of the rows that are there.
    fill: Option<fn(&Connection) -> rusqlite::Result<()>>,
}

const fn sql(sql: &'static str) -> Migration {
    Migration { sql, fill: None }
}

/// Marks a file as ours: `insp` in ASCII.
const APPLICATION_ID: i32 = 0x696e_7370;

/// Prepared statements that a connection keeps.
const STATEMENTS_MAX: usize = 64;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
}

/// Opens a connection with the settings that its role needs.
pub(super) fn connect(path: &Path, vfs: Option<&str>, role: Role) -> rusqlite::Result<Connection> {
    let access = match role {
        Role::Writer => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Role::Reader => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Another program, such as the sqlite3 shell, may hold a lock for a moment.
    conn.busy_timeout(std::time::Duration::from_secs(5))?;
    conn.pragma_update(None, "temp_store", "memory")?;
    match role {
        Role::Writer => {
            // For a new file. Records of 1 KB fill such pages well, and a commit writes fewer of them.
            conn.pragma_update(None, "page_size", 8192)?;
            // A commit looks at each slot of the cache once a page was split: a larger one costs every commit.
            conn.pragma_update(None, "cache_size", -8 * 1024)?;
            conn.pragma_update(None, "journal_mode", "wal")?;
            conn.pragma_update(None, "synchronous", "full")?;
            // On macOS fsync alone does not reach the disk; elsewhere these do nothing.
            conn.pragma_update(None, "fullfsync", true)?;
            conn.pragma_update(None, "checkpoint_fullfsync", true)?;
            // The writer starts checkpoints itself, by the size of the log.
            conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        }
        Role::Reader => conn.pragma_update(None, "cache_size", -8 * 1024)?,
    }
    Ok(conn)
}

/// Brings the schema to this build's version.
///
/// # Errors
/// [`Error::Io`] for a file of another program or of a newer version, before anything is changed.
pub(super) fn migrate(conn: &mut Connection, path: &Path) -> Result<(), Error> {
    migrate_with(conn, path, MIGRATIONS)
}

fn migrate_with(conn: &mut Connection, path: &Path, migrations: &[Migration]) -> Result<(), Error> {
    let failed = |e: rusqlite::Error| fault::report(path, &e);
    let present = version(conn).map_err(failed)?;
    if present == Version::Foreign {
        return Err(Error::Io(format!(
            "{} is a database of another program: name another file, or use `inspan import`",
            path.display()
        )));
    }
    let done = present.number();
    let known = i64::try_from(migrations.len()).expect("a handful");
    if done > known {
        return Err(Error::Io(format!(
            "{} was written by a newer inspan (schema {done}, this one knows {known}): use that version or a newer one",
            path.display()
        )));
    }
    for (number, migration) in (1..).zip(migrations).skip_while(|(number, _)| *number <= done) {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        if number == 1 {
            tx.execute_batch("CREATE TABLE migrations (version INTEGER PRIMARY KEY) STRICT").map_err(failed)?;
            tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        }
        tx.execute_batch(migration.sql).map_err(failed)?;
        if let Some(fill) = migration.fill {
            fill(&tx).map_err(failed)?;
        }
        tx.execute("INSERT INTO migrations (version) VALUES (?1)", [number]).map_err(failed)?;
        tx.commit().map_err(failed)?;
    }
    Ok(())
}

/// Refuses a file of any other version: for a store that must not be changed.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn check_current(conn: &Connection, path: &Path) -> Result<(), Error> {
    let known = i64::try_from(MIGRATIONS.len()).expect("a handful");
    match version(conn).map_err(|e| fault::report(path, &e))? {
        Version::Schema(number) if number == known => Ok(()),
        Version::Schema(number) => Err(Error::Io(format!(
            "{} has schema {number} and this inspan reads {known}: use the version that wrote it",
            path.display()
        ))),
        Version::Empty | Version::Foreign => Err(Error::Io(format!("{} holds no journal", path.display()))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// A new file.
    Empty,
    /// One of ours.
    Schema(i64),
    /// Somebody else's tables.
    Foreign,
}

impl Version {
    fn number(self) -> i64 {
        match self {
            Version::Schema(n) => n,
            Version::Empty | Version::Foreign => 0,
        }
    }
}

fn version(conn: &Connection) -> rusqlite::Result<Version> {
    let id: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if id == APPLICATION_ID {
        let number = conn.query_row("SELECT max(version) FROM migrations", [], |row| row.get(0))?;
        return Ok(Version::Schema(number));
    }
    let table = conn.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(())).optional()?;
    Ok(if table.is_some() || id != 0 { Version::Foreign } else { Version::Empty })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    #[test]
    fn a_new_file_gets_every_migration_once() {
        let mut conn = open();
        migrate(&mut conn, Path::new("a.db")).unwrap();
        assert_eq!(version(&conn).unwrap(), Version::Schema(MIGRATIONS.len() as i64));
        migrate(&mut conn, Path::new("a.db")).unwrap();
    }

    #[test]
    fn a_later_migration_runs_on_an_earlier_file() {
        let mut conn = open();
        migrate_with(&mut conn, Path::new("a.db"), &[sql("CREATE TABLE a (x)")]).unwrap();
        let both = [sql("CREATE TABLE a (x)"), sql("ALTER TABLE a ADD COLUMN y")];
        migrate_with(&mut conn, Path::new("a.db"), &both).unwrap();
        assert_eq!(version(&conn).unwrap(), Version::Schema(2));
        conn.execute_batch("SELECT y FROM a").unwrap();
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing() {
        let mut conn = open();
        migrate_with(&mut conn, Path::new("a.db"), &[sql("CREATE TABLE a (x)")]).unwrap();
        let broken = [sql("CREATE TABLE a (x)"), sql("CREATE TABLE b (x); CREATE TABLE a (x)")];
        migrate_with(&mut conn, Path::new("a.db"), &broken).unwrap_err();
        assert_eq!(version(&conn).unwrap(), Version::Schema(1));
        conn.execute_batch("SELECT x FROM b").unwrap_err();
    }

    #[test]
    fn a_newer_file_is_refused_and_left_alone() {
        let mut conn = open();
        let newer = vec![sql("SELECT 1"); MIGRATIONS.len() + 1];
        migrate_with(&mut conn, Path::new("a.db"), &newer).unwrap();
        let refused = migrate(&mut conn, Path::new("a.db")).unwrap_err().to_string();
        let expected = format!("a.db was written by a newer inspan (schema {}", newer.len());
        assert!(refused.contains(&expected), "{refused}");
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let mut conn = open();
        conn.execute_batch("CREATE TABLE events (x)").unwrap();
        let refused = migrate(&mut conn, Path::new("a.db")).unwrap_err().to_string();
        assert!(refused.contains("another program"), "{refused}");
    }
}
