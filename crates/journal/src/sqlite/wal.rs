//! The write-ahead log, as it lies on disk before SQLite opens it.
//!
//! SQLite reads frames up to the first one that does not hold and silently drops the rest. That is right
//! for the end that a crash leaves, and wrong for a frame that went bad in the middle: everything that was
//! acknowledged behind it would be gone without a word. So the log is looked at first.
//!
//! A commit begins only after the fsync of the one before it. So a bad frame may belong to an unfinished
//! commit only when no commit follows its own. Frames of earlier turns of the log lie behind the end and
//! carry other salts.

use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::Path;

use super::file::beside;
use crate::Error;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The end of a log that a crash has cut in the middle of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornTail {
    /// Frames behind the last whole commit, broken ones included.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Looks at the log beside `path`. `Some` when its end is torn.
///
/// # Errors
/// [`Error::Io`] when it is damaged in the middle, naming the frame, or cannot be read.
pub(super) fn inspect(path: &Path) -> Result<Option<TornTail>, Error> {
    let wal = beside(path, "-wal");
    let io = |e: std::io::Error| Error::Io(format!("reading {}: {e}", wal.display()));
    let file = match File::open(&wal) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(io)?,
    };
    let verdict = scan(&mut BufReader::with_capacity(1 << 20, file)).map_err(io)?;
    let damage = match verdict {
        Verdict::Whole => return Ok(None),
        Verdict::Torn(tail) => return Ok(Some(tail)),
        Verdict::BadHeader => "its header does not hold although frames follow".to_owned(),
        Verdict::BadFrame { frame, follow } => {
            format!("frame {frame} does not hold, and {follow} more that were committed later follow")
        }
    };
    Err(Error::Io(format!(
        "{} is damaged: {damage}; opening {} would drop what was acknowledged. Keep a copy of both files, then \
         restore a backup, or run `inspan verify` to see what is left without them",
        wal.display(),
        path.display()
    )))
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing but whole commits, and perhaps frames of an earlier turn of the log.
    Whole,
    Torn(TornTail),
    /// The header is bad although it belongs to the frames.
    BadHeader,
    BadFrame {
        /// From 1.
        frame: u64,
        /// Frames of this turn of the log behind the commit that the bad one belongs to.
        follow: u64,
    },
}

fn scan(wal: &mut impl std::io::Read) -> std::io::Result<Verdict> {
    let mut header = [0; HEADER_BYTES];
    if fill(wal, &mut header)? < HEADER_BYTES {
        return Ok(Verdict::Whole);
    }
    let Some(log) = Log::new(&header) else {
        return foreign_or_bad(wal, &header);
    };
    let mut frame = vec![0; log.frame_bytes()];
    let mut sum = log.sum;
    let (mut whole, mut good) = (0, 0);
    loop {
        let filled = fill(wal, &mut frame)?;
        if filled < frame.len() {
            return Ok(tail(good - whole, &log, log.partial(&frame[..filled])));
        }
        let next = log.sum_of(sum, &frame);
        let in_chain = next == stored_sum(&frame);
        if log.salted(&frame) && in_chain {
            sum = next;
            good += 1;
            if is_commit(&frame) {
                whole = good;
            }
            continue;
        }
        let tail = behind(wal, &log, frame, good, in_chain)?;
        return Ok(tail.verdict(good, whole, &log));
    }
}

/// What lies behind the last frame that holds. Frames are numbered from 1.
struct Behind {
    /// The frame that ends the commit of the bad one.
    end_of_commit: Option<u64>,
    /// The last whole frame of this turn of the log.
    last: u64,
    /// Bytes of a frame that the file ends in.
    partial: u64,
}

/// Looks at the bad frame, which is in `frame`, and at everything behind it.
fn behind(
    wal: &mut impl std::io::Read,
    log: &Log,
    mut frame: Vec<u8>,
    good: u64,
    in_chain: bool,
) -> std::io::Result<Behind> {
    let mut found = Behind { end_of_commit: None, last: good, partial: 0 };
    let mut at = good + 1;
    // A frame whose checksum continues the chain is of this turn, whatever has become of its salts.
    let mut ours = in_chain || log.salted(&frame);
    loop {
        if ours {
            found.last = at;
            if found.end_of_commit.is_none() && is_commit(&frame) {
                found.end_of_commit = Some(at);
            }
        }
        let filled = fill(wal, &mut frame)?;
        if filled < frame.len() {
            found.partial = log.partial(&frame[..filled]);
            return Ok(found);
        }
        at += 1;
        ours = log.salted(&frame);
    }
}

impl Behind {
    fn verdict(&self, good: u64, whole: u64, log: &Log) -> Verdict {
        match self.end_of_commit {
            Some(end) if self.last > end => Verdict::BadFrame { frame: good + 1, follow: self.last - end },
            _ => tail(self.last - whole, log, self.partial),
        }
    }
}

fn tail(frames: u64, log: &Log, partial: u64) -> Verdict {
    if frames == 0 && partial == 0 {
        return Verdict::Whole;
    }
    let bytes = frames * log.frame_bytes() as u64 + partial;
    Verdict::Torn(TornTail { frames: frames + u64::from(partial > 0), bytes })
}

/// A header that does not hold: torn while the log was started anew, when everything behind it
/// was in the database already; or gone bad under frames that it belongs to.
fn foreign_or_bad(wal: &mut impl std::io::Read, header: &[u8; HEADER_BYTES]) -> std::io::Result<Verdict> {
    let mut first = [0; FRAME_HEADER_BYTES];
    if fill(wal, &mut first)? < FRAME_HEADER_BYTES {
        return Ok(Verdict::Whole);
    }
    let salts = &first[8..16];
    let mut mended = *header;
    mended[16..24].copy_from_slice(salts);
    let belongs = header[16..24] == *salts || Log::new(&mended).is_some();
    Ok(if belongs { Verdict::BadHeader } else { Verdict::Whole })
}

/// What the header says.
struct Log {
    page_bytes: usize,
    salts: [u8; 8],
    sum: [u32; 2],
    big_endian: bool,
}

impl Log {
    fn new(header: &[u8; HEADER_BYTES]) -> Option<Log> {
        let magic = word(header, 0);
        if magic & !1 != 0x377f_0682 {
            return None;
        }
        let big_endian = magic & 1 == 1;
        let sum = add([0, 0], &header[..24], big_endian);
        if sum != [word(header, 24), word(header, 28)] {
            return None;
        }
        let page_bytes = usize::try_from(word(header, 8)).ok().filter(|n| n.is_power_of_two() && *n >= 512)?;
        let salts = header[16..24].try_into().expect("eight bytes");
        Some(Log { page_bytes, salts, sum, big_endian })
    }

    fn frame_bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.page_bytes
    }

    /// Whether the frame was written since the log was last started anew.
    fn salted(&self, frame: &[u8]) -> bool {
        frame[8..16] == self.salts
    }

    /// The bytes of a frame that the file ends in, when it is of this turn or too short to tell.
    fn partial(&self, frame: &[u8]) -> u64 {
        let ours = frame.len() < 16 || self.salted(frame);
        if ours { frame.len() as u64 } else { 0 }
    }

    fn sum_of(&self, before: [u32; 2], frame: &[u8]) -> [u32; 2] {
        let sum = add(before, &frame[..8], self.big_endian);
        add(sum, &frame[FRAME_HEADER_BYTES..], self.big_endian)
    }
}

fn stored_sum(frame: &[u8]) -> [u32; 2] {
    [word(frame, 16), word(frame, 20)]
}

/// The last frame of a commit carries the size of the database after it.
fn is_commit(frame: &[u8]) -> bool {
    word(frame, 4) != 0
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The running checksum of the file format, over pairs of words.
fn add([mut s0, mut s1]: [u32; 2], bytes: &[u8], big_endian: bool) -> [u32; 2] {
    let read = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
    for pair in bytes.chunks_exact(8) {
        let (a, b) = pair.split_at(4);
        s0 = s0.wrapping_add(read(a.try_into().expect("four bytes"))).wrapping_add(s1);
        s1 = s1.wrapping_add(read(b.try_into().expect("four bytes"))).wrapping_add(s0);
    }
    [s0, s1]
}

/// Fills `buffer` as far as the file goes; says how far.
fn fill(from: &mut impl std::io::Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of two commits as SQLite writes them, on the pages of a journal, and where the second begins.
    #[expect(clippy::disallowed_methods, reason = "the log is a file")]
    fn log() -> (Vec<u8>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch(
            "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; CREATE TABLE t (x); CREATE TABLE u (x);
             PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO t VALUES ('first');",
        )
        .unwrap();
        let log = || std::fs::read(beside(&path, "-wal")).unwrap();
        let before_last = log().len();
        conn.execute_batch("BEGIN; INSERT INTO t VALUES ('last'); INSERT INTO u VALUES ('last'); COMMIT;").unwrap();
        (log(), before_last)
    }

    /// Torn tail: every byte of the last page, frame and header, as the end of the file.
    #[test]
    fn a_cut_at_any_byte_of_the_last_page_is_told() {
        let (log, before_last) = log();
        let frame = FRAME_HEADER_BYTES + 8192;
        assert_eq!(log.len(), before_last + 2 * frame, "the commit that is cut");
        for cut in log.len() - frame..log.len() {
            let bytes = (cut - before_last) as u64;
            let frames = bytes.div_ceil(frame as u64);
            let told = scan(&mut &log[..cut]).unwrap();
            assert_eq!(told, Verdict::Torn(TornTail { frames, bytes }), "cut at {cut} of {before_last}..{}", log.len());
        }
        assert_eq!(scan(&mut &log[..before_last]).unwrap(), Verdict::Whole);
        assert_eq!(scan(&mut &log[..]).unwrap(), Verdict::Whole);
    }
}
