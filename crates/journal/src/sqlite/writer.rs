//! The writer thread and its group commit.
//!
//! Calls that wait together share one transaction and one fsync. Each is answered only after the
//! commit, and each succeeds or is refused by itself: a call checks everything before it writes
//! anything, so a refusal leaves the transaction as it was.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::JoinHandle;

use inspan_wire::SessionUid;
use lru::LruCache;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::checkpoint::{self, Checkpointer};
use super::fault::{self, Kind, Stop};
use super::file::Database;
use super::landmarks::{self, Last};
use super::live::{self, Live};
use super::read;
use super::sweep;
use crate::{Clock, Error, Session};

/// Calls that share a transaction at most: more would make the first of them wait too long.
const BATCH_CALLS_MAX: usize = 512;

/// Bytes that share a transaction, give or take one call: more would not fit the page cache.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Calls that may wait; behind that, callers wait before they queue.
const WAITING_CALLS_MAX: usize = 4096;

/// Steps in which a long log is moved into the database.
const STEPS: i32 = 16;

/// Batches between two steps of the removal of deleted sessions while calls keep coming.
const BATCHES_PER_STEP: u32 = 8;

/// One call inside a batch.
pub(super) struct Tx<'a> {
    pub(super) conn: &'a Connection,
    /// The batch's time, nanoseconds; never before the batch before it.
    pub(super) now_ns: i64,
    slots: &'a mut LruCache<SessionUid, Slot>,
    trash: &'a mut bool,
    /// Sessions that the transaction changes.
    changed: Vec<SessionUid>,
}

/// What the writer needs of a live session.
#[derive(Clone)]
pub(super) struct Slot {
    pub(super) key: i64,
    pub(super) session: Arc<Session>,
    /// The last record that it holds itself.
    pub(super) last: Last,
}

/// Whether a session waits for a person: it may for days, so nothing of it stays in memory.
fn sleeps(slot: &Slot) -> bool {
    slot.session.state.pending.is_some()
}

impl Tx<'_> {
    /// Finds a live session.
    pub(super) fn slot(&mut self, uid: &SessionUid) -> Result<Slot, Stop> {
        if let Some(slot) = self.slots.get(uid) {
            return Ok(slot.clone());
        }
        let session = read::session_of(self.conn, uid)?.ok_or_else(|| Error::NotFound(uid.clone()))?;
        let sql = "SELECT key FROM sessions WHERE uid = ?1";
        let key = self.conn.prepare_cached(sql)?.query_row([uid.as_str()], |row| row.get(0))?;
        let slot = Slot { key, session: Arc::new(session), last: landmarks::last(self.conn, key)? };
        if !sleeps(&slot) {
            self.slots.put(uid.clone(), slot.clone());
        }
        Ok(slot)
    }

    /// Remembers what a session has become.
    pub(super) fn remember(&mut self, slot: Slot) {
        let uid = slot.session.uid.clone();
        self.changed.push(uid.clone());
        if sleeps(&slot) {
            self.slots.pop(&uid);
        } else {
            self.slots.put(uid, slot);
        }
    }

    /// The session is not live any more.
    pub(super) fn forget(&mut self, uid: &SessionUid) {
        self.slots.pop(uid);
        self.changed.push(uid.clone());
    }

    /// There is something to sweep.
    pub(super) fn note_trash(&mut self) {
        *self.trash = true;
    }
}

/// A call that waits for a batch. It may be applied twice: after a rollback, alone.
trait Call: Send {
    fn apply(&mut self, tx: &mut Tx<'_>) -> Result<(), rusqlite::Error>;
    /// About how many bytes it writes.
    fn bytes(&self) -> usize;
    /// Answers: what was applied, or the failure of the whole batch.
    fn finish(self: Box<Self>, batch: Result<(), Error>);
}

struct Pending<T, F> {
    run: F,
    bytes: usize,
    outcome: Option<Result<T, Error>>,
    answer: oneshot::Sender<Result<T, Error>>,
}

impl<T: Send, F: FnMut(&mut Tx<'_>) -> Result<T, Stop> + Send> Call for Pending<T, F> {
    fn apply(&mut self, tx: &mut Tx<'_>) -> Result<(), rusqlite::Error> {
        self.outcome = Some(match (self.run)(tx) {
            Ok(done) => Ok(done),
            Err(Stop::Refused(e)) => Err(e),
            Err(Stop::Sql(e)) => return Err(e),
        });
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn finish(self: Box<Self>, batch: Result<(), Error>) {
        let Pending { outcome, answer, .. } = *self;
        let outcome = batch.and_then(|()| outcome.expect("a batch that was committed applied each call"));
        // The caller may be gone; what was committed stays.
        let _ = answer.send(outcome);
    }
}

enum Message {
    Call(Box<dyn Call>),
    /// Answered once nothing deleted holds records any more.
    Swept(oneshot::Sender<Result<(), Error>>),
}

/// The handle of the writer thread. Dropping it lets accepted calls finish.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread starts with.
pub(super) struct Start {
    pub(super) conn: Connection,
    /// For checkpoints.
    pub(super) beside: Connection,
    pub(super) database: Arc<Database>,
    pub(super) path: PathBuf,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) checkpoint_bytes: u64,
    /// Refuse every write, with this reason.
    pub(super) refuse: Option<String>,
    pub(super) live: Live,
}

impl Writer {
    pub(super) fn start(start: Start) -> Result<Writer, Error> {
        let mut thread = Thread::new(start)?;
        let (queue, calls) = mpsc::channel(WAITING_CALLS_MAX);
        let thread = std::thread::Builder::new()
            .name("inspan-writer".to_owned())
            .spawn(move || thread.run(calls))
            .map_err(|e| Error::Io(format!("starting the writer thread: {e}")))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread) })
    }

    /// Runs `run`, which writes little, in the next batch and returns once it is durable.
    ///
    /// A caller that goes away does not stop a call that has been queued.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        run: impl FnMut(&mut Tx<'_>) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Error> {
        self.call_of(0, run).await
    }

    /// As [`Writer::call`], for a `run` that writes about `bytes`.
    pub(super) async fn call_of<T: Send + 'static>(
        &self,
        bytes: usize,
        run: impl FnMut(&mut Tx<'_>) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, wait) = oneshot::channel();
        let call = Pending { run, bytes, outcome: None, answer };
        self.queue().send(Message::Call(Box::new(call))).await.map_err(|_| stopped())?;
        wait.await.map_err(|_| stopped())?
    }

    /// Queues `run` without waiting for it; for destructors. Nothing happens when the queue is
    /// full.
    pub(super) fn call_detached(&self, run: impl FnMut(&mut Tx<'_>) -> Result<(), Stop> + Send + 'static) {
        let call = Pending { run, bytes: 0, outcome: None, answer: oneshot::channel().0 };
        // What is left behind then is removed when the store is opened again.
        let _ = self.queue().try_send(Message::Call(Box::new(call)));
    }

    /// Waits until nothing deleted holds records any more.
    pub(super) async fn swept(&self) -> Result<(), Error> {
        let (answer, wait) = oneshot::channel();
        self.queue().send(Message::Swept(answer)).await.map_err(|_| stopped())?;
        wait.await.map_err(|_| stopped())?
    }

    fn queue(&self) -> &mpsc::Sender<Message> {
        self.queue.as_ref().expect("the queue is open until the writer is dropped")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by its own unwinding.
            let _ = thread.join();
        }
    }
}

fn stopped() -> Error {
    Error::Failed("the writer thread stopped".to_owned())
}

/// What the thread does next.
enum Next {
    Message(Message),
    /// A step of the sweep.
    Step,
    Closed,
}

struct Thread {
    // Dropped before `conn`: the last connection to close empties the log.
    checkpointer: Checkpointer,
    conn: Connection,
    // Behind every connection: see `Database::open`.
    _database: Arc<Database>,
    path: PathBuf,
    clock: Arc<dyn Clock>,
    slots: LruCache<SessionUid, Slot>,
    live: Live,
    last_ns: i64,
    /// Pages in the log after the last commit.
    log_pages: Arc<AtomicI32>,
    log: Moves,
    /// Set for ever by the first write whose outcome is unknown.
    refuse: Option<String>,
    /// Whether a deleted session may still hold records.
    trash: bool,
    waiting_for_sweep: Vec<oneshot::Sender<Result<(), Error>>>,
    batches_since_step: u32,
}

/// When the log is moved into the database. All lengths are pages of the log.
struct Moves {
    /// What is moved beside the writer at once.
    step_pages: i32,
    /// A log of this length is to start anew.
    long_pages: i32,
    /// The length at which the next step is taken.
    next_step: i32,
    /// The length at which the rest is moved next.
    next_rest: i32,
    /// A step was begun and nothing else since.
    moved_beside: bool,
}

impl Moves {
    fn new(long_pages: u64) -> Moves {
        let long_pages = i32::try_from(long_pages).unwrap_or(i32::MAX).max(1);
        let step_pages = (long_pages / STEPS).max(1);
        Moves { step_pages, long_pages, next_step: step_pages, next_rest: long_pages, moved_beside: false }
    }

    fn restarted(&mut self) {
        self.next_step = self.step_pages;
        self.next_rest = self.long_pages;
    }
}

impl Thread {
    fn new(start: Start) -> Result<Thread, Error> {
        let Start { mut conn, beside, path, clock, checkpoint_bytes, refuse, database, live } = start;
        let log_pages = Arc::new(AtomicI32::new(0));
        let pages = Arc::clone(&log_pages);
        let sql = |e: rusqlite::Error| fault::report(&path, &e);
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, n| {
            pages.store(n, Ordering::Relaxed);
            Ok(())
        }))
        .map_err(sql)?;
        let page_bytes: u32 = conn.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(sql)?;
        let last_ns = last_time(&conn).map_err(sql)?;
        let trash = refuse.is_none() && sweep::pending(&conn).map_err(sql)?;
        Ok(Thread {
            log: Moves::new(checkpoint_bytes / u64::from(page_bytes)),
            checkpointer: Checkpointer::start(beside, Arc::clone(&database))?,
            _database: database,
            conn,
            path,
            clock,
            slots: LruCache::new(live::SESSIONS_MAX),
            live,
            last_ns,
            log_pages,
            refuse,
            trash,
            waiting_for_sweep: Vec::new(),
            batches_since_step: 0,
        })
    }

    fn run(&mut self, mut queue: mpsc::Receiver<Message>) {
        loop {
            match self.next(&mut queue) {
                Next::Message(first) => {
                    let calls = self.collect(first, &mut queue);
                    if !calls.is_empty() {
                        self.batches_since_step += 1;
                        self.batch(calls);
                        self.checkpoint();
                    }
                    self.answer_swept();
                }
                Next::Step => self.step(),
                Next::Closed => break,
            }
        }
        if self.refuse.is_some() {
            // Leave the files as they are: the next open recovers from what is really there. Failing to
            // say so changes nothing that was acknowledged.
            let _ = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }

    /// Waits for something to do. Sweeping fills the time in which no call waits, and takes a turn
    /// now and then when calls never stop.
    fn next(&self, queue: &mut mpsc::Receiver<Message>) -> Next {
        if !self.trash || self.refuse.is_some() {
            return queue.blocking_recv().map_or(Next::Closed, Next::Message);
        }
        if self.batches_since_step >= BATCHES_PER_STEP {
            return Next::Step;
        }
        match queue.try_recv() {
            Ok(message) => Next::Message(message),
            Err(mpsc::error::TryRecvError::Empty) => Next::Step,
            Err(mpsc::error::TryRecvError::Disconnected) => Next::Closed,
        }
    }

    /// The calls that wait now, in the order in which they came.
    fn collect(&mut self, first: Message, queue: &mut mpsc::Receiver<Message>) -> Vec<Box<dyn Call>> {
        let mut calls: Vec<Box<dyn Call>> = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Call(call) => {
                    bytes += call.bytes();
                    calls.push(call);
                }
                Message::Swept(answer) => self.waiting_for_sweep.push(answer),
            }
            let full = calls.len() >= BATCH_CALLS_MAX || bytes >= BATCH_BYTES_MAX;
            next = if full { None } else { queue.try_recv().ok() };
        }
        calls
    }

    /// Commits the calls together; when one of them breaks the transaction, each alone.
    fn batch(&mut self, mut calls: Vec<Box<dyn Call>>) {
        if let Some(e) = self.checkpointer.take_failure() {
            self.log_not_moved(&e);
        }
        if let Some(why) = &self.refuse {
            let failed = Error::Failed(why.clone());
            calls.into_iter().for_each(|call| call.finish(Err(failed.clone())));
            return;
        }
        let Err(e) = self.commit(&mut calls) else {
            calls.into_iter().for_each(|call| call.finish(Ok(())));
            return;
        };
        let failed = match self.rolled_back(&e) {
            Kind::Other if calls.len() > 1 => {
                calls.into_iter().for_each(|call| self.batch(vec![call]));
                return;
            }
            Kind::Other => fault::report(&self.path, &e),
            Kind::Full => Error::Full,
            Kind::Fatal => Error::Failed(self.refuse.clone().unwrap_or_default()),
        };
        calls.into_iter().for_each(|call| call.finish(Err(failed.clone())));
    }

    fn commit(&mut self, calls: &mut [Box<dyn Call>]) -> Result<(), rusqlite::Error> {
        self.transact(|tx| calls.iter_mut().try_for_each(|call| call.apply(tx)))
    }

    fn transact<T>(
        &mut self,
        run: impl FnOnce(&mut Tx<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, rusqlite::Error> {
        let now_ns = self.clock.now_ns().max(self.last_ns);
        let mut trash = self.trash;
        let sql = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut tx = Tx { conn: &sql, now_ns, slots: &mut self.slots, trash: &mut trash, changed: Vec::new() };
        let done = run(&mut tx)?;
        let changed = tx.changed;
        sql.commit()?;
        self.live.publish(changed.into_iter().map(|uid| {
            let session = self.slots.peek(&uid).map(|slot| Arc::clone(&slot.session));
            (uid, session)
        }));
        self.last_ns = now_ns;
        self.trash = trash;
        Ok(done)
    }

    /// After a failed transaction: forget what it told us, and refuse everything further when
    /// nobody can know what is on disk.
    fn rolled_back(&mut self, e: &rusqlite::Error) -> Kind {
        self.slots.clear();
        let mut kind = fault::kind(e);
        if kind != Kind::Fatal && !self.conn.is_autocommit() && self.conn.execute_batch("ROLLBACK").is_err() {
            kind = Kind::Fatal;
        }
        if kind == Kind::Fatal {
            tracing::error!(file = %self.path.display(), error = %e, "a write failed: no further write is accepted");
            self.refuse = Some(format!("{}: {e}", self.path.display()));
        }
        kind
    }

    /// Moves the log into the database: a step beside the next commits whenever it has grown by one, and
    /// the rest here once it is long. The commit after that starts the log anew, unless a reader still
    /// needs it. Small steps, because a commit waits for the disk to take what a step has written.
    fn checkpoint(&mut self) {
        if self.refuse.is_some() || self.checkpointer.is_running() {
            return;
        }
        if let Some(e) = self.checkpointer.take_failure() {
            self.log_not_moved(&e);
            return;
        }
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages < self.log.step_pages {
            self.log.restarted();
        }
        let moved_beside = std::mem::take(&mut self.log.moved_beside);
        if pages >= self.log.next_rest && moved_beside {
            // While a reader keeps the log from starting anew, trying after every commit is of no use.
            self.log.next_rest = pages.saturating_add(self.log.long_pages / 4);
            if let Err(e) = checkpoint::passive(&self.conn) {
                self.log_not_moved(&e);
            }
        } else if pages >= self.log.next_step.min(self.log.next_rest) {
            self.log.next_step = pages.saturating_add(self.log.step_pages);
            self.log.moved_beside = true;
            self.checkpointer.begin();
        }
    }

    fn log_not_moved(&mut self, e: &rusqlite::Error) {
        self.log.moved_beside = false;
        if fault::kind(e) == Kind::Fatal {
            self.rolled_back(e);
            return;
        }
        // Without room in the database the log grows instead: nothing is lost.
        tracing::warn!(file = %self.path.display(), error = %e, "the log could not be moved into the database");
        let pages = self.log_pages.load(Ordering::Relaxed);
        self.log.next_step = pages.saturating_add(self.log.long_pages);
        self.log.next_rest = self.log.next_step;
    }

    /// One bounded step of dropping what deleted sessions hold.
    fn step(&mut self) {
        self.batches_since_step = 0;
        match self.transact(|tx| sweep::step(tx.conn)) {
            Ok(more) => self.trash = more,
            Err(e) => {
                self.rolled_back(&e);
                let failed = fault::report(&self.path, &e);
                // Tried again when something else is deleted, or when the store is opened again.
                self.trash = false;
                self.waiting_for_sweep.drain(..).for_each(|answer| {
                    let _ = answer.send(Err(failed.clone()));
                });
            }
        }
        self.checkpoint();
        self.answer_swept();
    }

    fn answer_swept(&mut self) {
        let outcome = match &self.refuse {
            Some(why) => Err(Error::Failed(why.clone())),
            None if self.trash => return,
            None => Ok(()),
        };
        self.waiting_for_sweep.drain(..).for_each(|answer| {
            let _ = answer.send(outcome.clone());
        });
    }
}

/// The latest time that the store has given out, as far as it is cheap to know.
fn last_time(conn: &Connection) -> rusqlite::Result<i64> {
    let record = conn
        .query_row("SELECT ts_ms FROM records ORDER BY id DESC LIMIT 1", [], |row| row.get::<_, i64>(0))
        .optional()?;
    let session = conn
        .query_row("SELECT create_ns FROM sessions ORDER BY key DESC LIMIT 1", [], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(record.map_or(0, |ms| ms.saturating_mul(1_000_000)).max(session.unwrap_or(0)))
}
