//! Sessions in and out of the store: the pipes between streams and the journal's export files.
//!
//! Reading and writing such a file blocks, so each transfer has a thread of its own; what it holds in
//! memory is bounded by the pipe, not by the session.

use std::future::Future;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use inspan_engine::scan::Folder;
use inspan_engine::{Engine, Rim as _};
use inspan_journal::foreign::{self, Foreign};
use inspan_journal::{Journal, Session, State, TurnMark, export};
use inspan_wire::{SessionUid, inspan_v1 as pb, v1};
use tempfile::NamedTempFile;
use tokio::sync::mpsc;
use tonic::Code;

use crate::fault::Fault;
use crate::grpc::MESSAGE_IN_BYTES_MAX;
use crate::system::System;

/// Pieces of a file, in order.
pub(crate) type Pieces = BoxStream<'static, Result<Bytes, Fault>>;

/// Bytes of an export that are sent at once.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that wait for a slow reader; the export waits behind them.
const PIECES_WAITING: usize = 4;
/// Bytes of a file that is imported, at most.
const IMPORT_BYTES_MAX: u64 = 64 << 30;
/// How a SQLite file begins: the journal of an earlier host, not an export.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// The engine's projections, folded for the import of a journal: what gives its records their
/// meaning.
#[derive(Default)]
pub struct Projections(Folder);

impl export::Fold for Projections {
    fn step(&mut self, seq: i64, event: &v1::Event) -> Option<TurnMark> {
        self.0.step(seq, event)
    }

    fn state(&self) -> State {
        self.0.state()
    }
}

/// Writes a session as an export file. A stream that ends with a fault is a file that reads as
/// truncated.
pub(crate) fn write(journal: Arc<dyn Journal>, uid: SessionUid) -> Pieces {
    let (pieces, waiting) = mpsc::channel(PIECES_WAITING);
    tokio::task::spawn_blocking(move || {
        let mut pipe = Pipe { pieces: pieces.clone(), piece: Vec::with_capacity(PIECE_BYTES) };
        if let Err(error) = block_on(export::export(&*journal, &uid, &mut pipe)) {
            // A reader that has gone needs no reason.
            let _ = pieces.blocking_send(Err(file_fault(error)));
        }
    });
    futures_util::stream::unfold(waiting, |mut waiting| async move {
        let piece = waiting.recv().await?;
        Some((piece, waiting))
    })
    .boxed()
}

/// The export's end of its pipe.
struct Pipe {
    pieces: mpsc::Sender<Result<Bytes, Fault>>,
    piece: Vec<u8>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        self.pieces.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Takes a file in and imports the sessions that it holds.
pub(crate) async fn read(
    engine: &Engine,
    scratch: Option<PathBuf>,
    pieces: impl Stream<Item = Result<Bytes, Fault>> + Send,
) -> Result<pb::ImportResponse, Fault> {
    let upload = Upload::take(scratch, pieces).await?;
    let engine = engine.clone();
    let import = move || block_on(import(&engine, upload));
    let done = tokio::task::spawn_blocking(import).await;
    done.unwrap_or_else(|_| Err(Fault::new(Code::Internal, "the import broke off inside the host")))
}

/// A file that has been taken in, to be read several times.
enum Upload {
    Memory(Vec<u8>),
    File(NamedTempFile),
}

impl Upload {
    async fn take(
        scratch: Option<PathBuf>,
        pieces: impl Stream<Item = Result<Bytes, Fault>> + Send,
    ) -> Result<Upload, Fault> {
        let (mut upload, bytes_max) = match scratch {
            Some(folder) => {
                let file = NamedTempFile::new_in(&folder).map_err(|e| scratch_fault(&e))?;
                (Upload::File(file), IMPORT_BYTES_MAX)
            }
            None => (Upload::Memory(Vec::new()), MESSAGE_IN_BYTES_MAX as u64),
        };
        let mut pieces = std::pin::pin!(pieces);
        let mut bytes = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            bytes += piece.len() as u64;
            if bytes > bytes_max {
                let text = format!("the file is larger than the {bytes_max} bytes that this host takes in");
                return Err(Fault::new(Code::ResourceExhausted, text));
            }
            match &mut upload {
                Upload::Memory(all) => all.extend_from_slice(&piece),
                Upload::File(file) => file.write_all(&piece).map_err(|e| scratch_fault(&e))?,
            }
        }
        Ok(upload)
    }

    fn is_sqlite(&mut self) -> io::Result<bool> {
        let mut start = Vec::new();
        match self {
            Upload::Memory(bytes) => start.extend(bytes.iter().take(SQLITE_MAGIC.len())),
            Upload::File(file) => {
                file.seek(SeekFrom::Start(0))?;
                file.take(SQLITE_MAGIC.len() as u64).read_to_end(&mut start)?;
                file.seek(SeekFrom::Start(0))?;
            }
        }
        Ok(start == SQLITE_MAGIC)
    }
}

async fn import(engine: &Engine, mut upload: Upload) -> Result<pb::ImportResponse, Fault> {
    let journal = &**engine.journal();
    let sqlite = upload.is_sqlite().map_err(|e| scratch_fault(&e))?;
    match (upload, sqlite) {
        (Upload::File(file), true) => import_foreign(engine, &file).await,
        (Upload::Memory(_), true) => Err(Fault::new(
            Code::FailedPrecondition,
            "this host has no scratch folder to read a SQLite journal from: import it offline",
        )),
        (Upload::File(file), false) => {
            let file = BufReader::new(file.reopen().map_err(|e| scratch_fault(&e))?);
            let imported = export::import(journal, file, None, Projections::default()).await;
            imported.map(|done| one(engine, &done.session, done.report.records)).map_err(import_fault)
        }
        (Upload::Memory(bytes), false) => {
            let imported = export::import(journal, Cursor::new(bytes), None, Projections::default()).await;
            imported.map(|done| one(engine, &done.session, done.report.records)).map_err(import_fault)
        }
    }
}

fn one(engine: &Engine, session: &Session, records: i64) -> pb::ImportResponse {
    pb::ImportResponse { sessions: vec![engine.view(session)], records }
}

/// Every session of the file, one after the other; those before a fault stay.
async fn import_foreign(engine: &Engine, file: &NamedTempFile) -> Result<pb::ImportResponse, Fault> {
    let mut response = pb::ImportResponse::default();
    // What SQLite cannot read is the caller's file, not this host's store.
    let open = || Foreign::open(file.path()).map_err(|error| Fault::invalid(error.to_string()));
    let uids = open()?.sessions().map_err(|error| Fault::invalid(error.to_string()))?;
    for uid in uids {
        let foreign = open()?;
        let imported = foreign.import(&**engine.journal(), &uid, System.now_ns(), Projections::default()).await;
        let imported = imported.map_err(foreign_fault)?;
        response.sessions.push(engine.view(&imported.session));
        response.records += imported.report.records;
    }
    Ok(response)
}

fn scratch_fault(error: &io::Error) -> Fault {
    let code = match error.kind() {
        io::ErrorKind::StorageFull => Code::ResourceExhausted,
        _ => Code::Internal,
    };
    Fault::new(code, format!("the scratch folder failed: {error}"))
}

fn file_fault(error: export::Error) -> Fault {
    match error {
        export::Error::Journal(error) => error.into(),
        export::Error::Io(_) => Fault::new(Code::Internal, error.to_string()),
        export::Error::Line { .. } | export::Error::Truncated { .. } => Fault::invalid(error.to_string()),
    }
}

fn import_fault(error: export::ImportError) -> Fault {
    match error {
        export::ImportError::File(error) => file_fault(error),
        export::ImportError::Journal(error) => error.into(),
        export::ImportError::Fault(_) => Fault::invalid(error.to_string()),
    }
}

fn foreign_fault(error: foreign::ImportError) -> Fault {
    match error {
        foreign::ImportError::Journal(error) => error.into(),
        foreign::ImportError::Fault(..) => Fault::invalid(error.to_string()),
    }
}

/// Runs a future on this thread, which may block. Outside the runtime's own scheduling, so that what
/// the future calls may wait for a pipe.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut work = std::pin::pin!(work);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match work.as_mut().poll(&mut cx) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}
