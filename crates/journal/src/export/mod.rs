//! One session in one self-contained text file: what moves between stores and what a stranger checks.
//!
//! A file is UTF-8, one JSON object a line, each with one member that names its kind:
//!
//! ```text
//! {"export":{"format":"inspan-export","version":1}}
//! {"session":{"uid":…,"info":{…},"fence":…,"create_time":…,"update_time":…,"head":{"seq":…,"hash":…},"lineage":[…]}}
//! {"blob":{"digest":…,"at":0,"size":…,"base64":…}}
//! {"request":{"digest":…,"prefix":…,"suffix":…,"middle":…}}
//! {"record":{"seq":1,"prev_hash":"","content_hash":…,"fence":1,"ts":…,"event":"{…}"}}
//! …
//! {"end":{"lines":…,"records":…,"blobs":…,"requests":…,"sha256":…}}
//! ```
//!
//! * `event` is the canonical text of the event as a JSON string: the very bytes that `content_hash`
//!   covers, so that checking a chain needs no canonical form of one's own.
//! * A blob stands before the first record that names it, in chunks of at most 1 MiB, one after the
//!   other. A request text stands before the first record that carries its digest, as the part in which
//!   it differs from the request line before it: so many bytes from its start, so many from its
//!   end, and what is between them. A file therefore grows with the session, not with its square.
//! * A fork is written with the records that it inherits; `lineage` names its parents, nearest first.
//! * The last line counts the lines before it and has the SHA-256 of them, line ends included.
//!
//! Writing and reading hold one line at a time, and the request text before it.

mod import;
mod lines;
mod read;
mod session;
mod write;

pub use import::{Fold, ImportError, Imported, import};
pub use read::{BlobChunk, Item, Reader};
pub use session::export;
pub use write::Writer;

use inspan_wire::{Digest, SessionUid, v1};

use crate::Head;

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// The most bytes of a blob in one line.
pub const CHUNK_BYTES_MAX: usize = 1024 * 1024;

/// The longest line that is read: far above any record, and a bound for what is no export at all.
pub const LINE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What a file says of its session.
#[derive(Debug, Clone, PartialEq)]
pub struct Exported {
    /// Its uid.
    pub uid: SessionUid,
    /// Project, name, harness, model, identity, origin, labels, annotations.
    pub info: v1::Session,
    /// Its fence.
    pub fence: i64,
    /// Creation and update time, nanoseconds since the Unix epoch.
    pub times_ns: (i64, i64),
    /// Where its journal ended.
    pub head: Head,
    /// Its parents, nearest first, each with the last seq that it gave.
    pub lineage: Vec<(SessionUid, i64)>,
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Lines before the last.
    pub lines: u64,
    /// Records.
    pub records: u64,
    /// Blobs.
    pub blobs: u64,
    /// Request texts.
    pub requests: u64,
}

/// A file that cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file system failed.
    #[error("the export file failed: {0}")]
    Io(String),
    /// The store failed, or does not hold what a file needs.
    #[error(transparent)]
    Journal(#[from] crate::Error),
    /// A line is not what may stand there.
    #[error("line {line}: {what}")]
    Line {
        /// From 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The file ends before its last line.
    #[error("the file is truncated after line {line}, at record {last_seq}: get the whole file")]
    Truncated {
        /// The last whole line.
        line: u64,
        /// The last record in it, 0 when there is none.
        last_seq: i64,
    },
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        Error::Io(e.to_string())
    }
}

/// What `text` adds to `base`: bytes taken from its start, from its end, and what is between.
fn difference<'t>(base: &str, text: &'t str) -> (usize, usize, &'t str) {
    let (b, t) = (base.as_bytes(), text.as_bytes());
    let mut prefix = b.iter().zip(t).take_while(|(b, t)| b == t).count();
    while !text.is_char_boundary(prefix) {
        prefix -= 1;
    }
    let most = b.len().min(t.len()) - prefix;
    let mut suffix = b.iter().rev().zip(t.iter().rev()).take(most).take_while(|(b, t)| b == t).count();
    while !text.is_char_boundary(t.len() - suffix) {
        suffix -= 1;
    }
    (prefix, suffix, &text[prefix..t.len() - suffix])
}

/// The text that [`difference`] was made of; `None` when `base` is not the one it was made with.
fn patched(base: &str, prefix: usize, suffix: usize, middle: &str) -> Option<String> {
    let start = base.get(..prefix)?;
    let end = base.get(base.len().checked_sub(suffix)?..)?;
    Some([start, middle, end].concat())
}

/// The digest that `model` records carry, when the event is one and it has the form of a digest.
pub(crate) fn request_of(event: &v1::Event) -> Option<Digest> {
    match &event.body {
        Some(v1::event::Body::Model(call)) => call.input_hash.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn differences_are_undone(base in "[aé😀b]{0,12}", text in "[aé😀b]{0,12}") {
            let (prefix, suffix, middle) = difference(&base, &text);
            prop_assert_eq!(patched(&base, prefix, suffix, middle), Some(text.clone()));
            prop_assert!(prefix + suffix <= text.len());
        }
    }

    #[test]
    fn an_appended_turn_costs_what_it_adds() {
        let (base, text) = (r#"[{"a":1},{"b":2}],"x"#, r#"[{"a":1},{"b":2},{"c":3}],"x"#);
        assert_eq!(difference(base, text), (16, 4, r#",{"c":3}"#));
        assert_eq!(difference("é", "è"), (0, 0, "è"), "half a character is not shared");
        assert_eq!(difference("aa", "aaa"), (2, 0, "a"), "shared bytes are counted once");
    }

    #[test]
    fn a_difference_to_another_base_is_refused() {
        assert_eq!(patched("é", 1, 0, ""), None);
        assert_eq!(patched("abc", 0, 4, ""), None);
        assert_eq!(patched("abc", 9, 0, ""), None);
    }
}
