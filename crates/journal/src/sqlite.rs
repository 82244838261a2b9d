//! The default store: one SQLite file in WAL mode, one writer thread, a few readers.
//!
//! `writer` owns the only connection that writes and commits what waits together with one fsync;
//! `checkpoint` moves the log beside it; `landmarks` is how a record is found; `live` holds what was just written;
//! `write`, `asks`, `import`, `registrations` and `sweep` are what happens inside its transactions; `read` runs on connections of
//! its own and sees committed states only; `wal` looks at the log before SQLite does, because
//! SQLite silently drops everything behind the first frame that does not hold.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use inspan_wire::{Digest, SessionUid};
use rusqlite::config::DbConfig;

use crate::blob::Pinned;
use crate::contract::{Append, Appended, AskPage, AskQuery, Fork, Import, Journal, ListQuery, Page, TurnMark};
use crate::pool::Pool;
use crate::{Blobs, Clock, Error, KeyUse, NewSession, Record, Session};

use fault::Stop;
use file::{Database, Lock};
use import::Running;
use live::Live;
use read::{Reader, View};
use schema::Role;
use write::Prepared;
use writer::{Start, Writer};

mod asks;
mod checkpoint;
mod fault;
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "what lies beside the database is files")]
mod file;
mod import;
mod landmarks;
mod live;
mod read;
mod registrations;
mod requests;
mod schema;
mod sweep;
mod tool_keys;
#[expect(clippy::disallowed_types, reason = "it reads the log before SQLite does")]
mod wal;
mod write;
mod writer;

pub use wal::TornTail;

/// How to open a store.
pub struct Options {
    /// The database file; `-wal`, `-shm` and `.lock` lie beside it.
    pub path: PathBuf,
    /// Where payloads are kept.
    pub blobs: Arc<dyn Blobs>,
    /// The time of commits.
    pub clock: Arc<dyn Clock>,
    /// Threads that read; at least one.
    pub read_threads: usize,
    /// The log is moved into the database in steps, and starts anew once it is this long. The file stays as long as it was.
    pub checkpoint_bytes: u64,
    /// The SQLite VFS, when it is not the default one.
    pub vfs: Option<String>,
}

impl Options {
    /// A store at `path` with the settings that were measured to be good.
    pub fn new(path: impl Into<PathBuf>, blobs: Arc<dyn Blobs>, clock: Arc<dyn Clock>) -> Options {
        Options { path: path.into(), blobs, clock, read_threads: 2, checkpoint_bytes: 16 * 1024 * 1024, vfs: None }
    }
}

/// A journal in one SQLite file. See the module's text.
pub struct Store {
    // Fields are dropped in this order: the writer closes last, empties the log and then lets the
    // lock go.
    readers: Pool<Reader>,
    writer: Arc<Writer>,
    live: Live,
    recovered: Option<TornTail>,
    pins: Arc<Pinned>,
    blobs: Arc<dyn Blobs>,
    _lock: Lock,
}

impl Store {
    /// Opens the file and creates it when it is not there.
    ///
    /// A torn end of the log, as a crash in the middle of a commit leaves it, is cut and noted: see
    /// [`Store::recovered`].
    ///
    /// # Errors
    /// [`Error::Io`] when another process has it open, when it is of another program or of a newer
    /// version, or when the log is damaged in the middle: opening would drop what was acknowledged.
    pub fn open(options: Options) -> Result<Store, Error> {
        let lock = Lock::take(&options.path)?;
        let recovered = wal::inspect(&options.path)?;
        if let Some(torn) = &recovered {
            tracing::warn!(
                file = %options.path.display(),
                frames = torn.frames,
                bytes = torn.bytes,
                "the log ends in a commit that was never finished: it is cut"
            );
        }
        Store::open_with(options, lock, recovered, None)
    }

    /// Opens a store that [`Store::open`] refuses because its log is damaged, to read what is left.
    /// Every write is refused and the files are left as they are.
    ///
    /// # Errors
    /// [`Error::Io`] as for [`Store::open`], the damage aside.
    pub fn open_damaged(options: Options) -> Result<Store, Error> {
        let lock = Lock::take(&options.path)?;
        let why = format!("{} was opened as damaged, for reading only", options.path.display());
        Store::open_with(options, lock, None, Some(why))
    }

    fn open_with(
        options: Options,
        lock: Lock,
        recovered: Option<TornTail>,
        refuse: Option<String>,
    ) -> Result<Store, Error> {
        let Options { path, blobs, clock, read_threads, checkpoint_bytes, vfs } = options;
        let sql = |e: rusqlite::Error| fault::report(&path, &e);
        let mut conn = schema::connect(&path, vfs.as_deref(), Role::Writer).map_err(sql)?;
        if refuse.is_some() {
            schema::check_current(&conn, &path)?;
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(sql)?;
        } else {
            schema::migrate(&mut conn, &path)?;
            sweep::abandon_all(&conn).map_err(sql)?;
        }
        let lineages = read::lineages();
        let shared_path = Arc::new(path.clone());
        let readers = (0..read_threads.max(1))
            .map(|_| {
                let conn = schema::connect(&path, vfs.as_deref(), Role::Reader).map_err(sql)?;
                Ok(Reader { conn, path: Arc::clone(&shared_path), lineages: Arc::clone(&lineages) })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let beside = schema::connect(&path, vfs.as_deref(), Role::Writer).map_err(sql)?;
        let live = Live::new();
        let start = Start {
            conn,
            beside,
            database: Arc::new(Database::open(&path)?),
            path: path.clone(),
            clock: Arc::clone(&clock),
            checkpoint_bytes,
            refuse,
            live: live.clone(),
        };
        let writer = Arc::new(Writer::start(start)?);
        let pins = Arc::new(Pinned::new(blobs, clock));
        Ok(Store {
            readers: Pool::start("inspan-reader", readers)?,
            writer,
            live,
            recovered,
            blobs: Arc::clone(&pins) as Arc<dyn Blobs>,
            pins,
            _lock: lock,
        })
    }

    /// What was cut from the log when it was opened: a commit that was never acknowledged.
    pub fn recovered(&self) -> Option<TornTail> {
        self.recovered
    }

    /// Writes a consistent copy of the database to `to`, which must not exist. Payloads are not
    /// in it: copy the blob folder afterwards.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `to` exists, [`Error::Io`].
    pub async fn backup(&self, to: impl Into<PathBuf>) -> Result<(), Error> {
        let to = to.into();
        self.readers.run(move |reader| file::backup(&reader.conn, &reader.path, &to)).await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_>) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Error> {
        self.readers.run(move |reader| reader.read(read)).await
    }

    /// Removes the payloads that no record names any more: the rows went before, so a crash in
    /// between leaves a file and its entry in the list.
    async fn sweep_blobs(&self) -> Result<(), Error> {
        let orphans = self.read(|view| Ok(sweep::orphans(&view.tx)?)).await?;
        let mut settled = Vec::new();
        for digest in orphans {
            let is_named = || self.read(move |view| Ok(sweep::is_named(&view.tx, digest)?));
            if self.pins.sweep(digest, is_named).await? {
                settled.push(digest);
            }
        }
        if settled.is_empty() {
            return Ok(());
        }
        self.writer.call(move |tx| sweep::settled(tx.conn, &settled)).await
    }
}

#[async_trait]
impl Journal for Store {
    async fn create(&self, session: NewSession) -> Result<Session, Error> {
        self.writer.call(move |tx| write::create(tx, &session)).await
    }

    async fn session(&self, uid: &SessionUid) -> Result<Option<Session>, Error> {
        if let Some(session) = self.live.get(uid) {
            return Ok(Some((*session).clone()));
        }
        let uid = uid.clone();
        self.read(move |view| view.session(&uid)).await
    }

    async fn list(&self, query: ListQuery) -> Result<Page, Error> {
        self.read(move |view| view.list(&query)).await
    }

    async fn asks(&self, query: AskQuery) -> Result<AskPage, Error> {
        self.read(move |view| view.asks(&query)).await
    }

    async fn announced(&self, uid: &SessionUid, request_seq: i64) -> Result<(), Error> {
        let uid = uid.clone();
        self.writer.call(move |tx| asks::announced(tx.conn, &uid, request_seq)).await
    }

    async fn append(&self, append: Append) -> Result<Appended, Error> {
        let named = append.blobs.clone();
        let prepared = Prepared::new(append)?;
        let appended = self.writer.call_of(prepared.bytes(), move |tx| write::append(tx, &prepared)).await?;
        self.pins.unpin(&named);
        Ok(appended)
    }

    async fn new_fence(&self, uid: &SessionUid) -> Result<i64, Error> {
        let uid = uid.clone();
        self.writer.call(move |tx| write::new_fence(tx, &uid)).await
    }

    async fn records(&self, uid: &SessionUid, from: i64, to: i64, limit: usize) -> Result<Vec<Record>, Error> {
        let uid = uid.clone();
        self.read(move |view| view.records(&uid, from, to, limit)).await
    }

    async fn turn_at(&self, uid: &SessionUid, at: i64) -> Result<Option<TurnMark>, Error> {
        let uid = uid.clone();
        self.read(move |view| view.turn_at(&uid, at)).await
    }

    async fn fork(&self, fork: Fork) -> Result<Vec<Session>, Error> {
        self.writer.call(move |tx| write::fork(tx, &fork)).await
    }

    async fn delete(&self, uid: &SessionUid) -> Result<(), Error> {
        let uid = uid.clone();
        self.writer.call(move |tx| sweep::hide(tx, &uid)).await?;
        self.writer.swept().await?;
        self.sweep_blobs().await
    }

    async fn request(&self, digest: Digest) -> Result<Option<Arc<str>>, Error> {
        self.read(move |view| requests::read(&view.tx, digest)).await
    }

    async fn names_blob(&self, uid: &SessionUid, digest: Digest) -> Result<bool, Error> {
        let uid = uid.clone();
        self.read(move |view| view.names_blob(&uid, digest)).await
    }

    async fn key_use(&self, uid: &SessionUid, key: &str) -> Result<Option<KeyUse>, Error> {
        let (uid, key) = (uid.clone(), key.to_owned());
        self.read(move |view| view.key_use(&uid, &key)).await
    }

    async fn import(&self, import: Import) -> Result<Session, Error> {
        let Import { session, parent, times_ns: (create_ns, update_ns), fence, mut next } = import;
        let session = Session { fence, ..write::session(&session, parent, create_ns, update_ns) };
        let mut running = Running::begin(Arc::clone(&self.writer), session).await?;
        let mut named = Vec::new();
        loop {
            // The source may read files: not on the caller's thread.
            let (batch, back) = self.readers.run(move |_| Ok((next()?, next))).await?;
            next = back;
            if batch.records.is_empty() {
                break;
            }
            named.extend_from_slice(&batch.blobs);
            running.batch(batch).await?;
        }
        let session = running.finish().await?;
        self.pins.unpin(&named);
        Ok(session)
    }

    async fn uids(&self, after: Option<SessionUid>, limit: usize) -> Result<Vec<SessionUid>, Error> {
        self.read(move |view| view.uids(after.as_ref(), limit)).await
    }

    fn blobs(&self) -> &Arc<dyn Blobs> {
        &self.blobs
    }
}
