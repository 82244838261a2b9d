//! The lines of a file as serde sees them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub(super) const FORMAT: &str = "inspan-export";

/// One line. Fields that this version does not have are refused: what is not understood is not checked.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line<'l> {
    Export(Header<'l>),
    #[serde(borrow)]
    Session(Box<Session<'l>>),
    Blob(Blob<'l>),
    Request(Request<'l>),
    Record(Record<'l>),
    End(End<'l>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header<'l> {
    #[serde(borrow)]
    pub(super) format: Cow<'l, str>,
    pub(super) version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Session<'l> {
    #[serde(borrow)]
    pub(super) uid: Cow<'l, str>,
    pub(super) info: serde_json::Value,
    pub(super) fence: i64,
    #[serde(borrow)]
    pub(super) create_time: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) update_time: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) head: Head<'l>,
    #[serde(borrow)]
    pub(super) lineage: Vec<Parent<'l>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head<'l> {
    pub(super) seq: i64,
    #[serde(borrow)]
    pub(super) hash: Cow<'l, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parent<'l> {
    #[serde(borrow)]
    pub(super) uid: Cow<'l, str>,
    pub(super) fork_seq: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Blob<'l> {
    #[serde(borrow)]
    pub(super) digest: Cow<'l, str>,
    pub(super) at: u64,
    pub(super) size: u64,
    #[serde(borrow)]
    pub(super) base64: Cow<'l, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request<'l> {
    #[serde(borrow)]
    pub(super) digest: Cow<'l, str>,
    pub(super) prefix: usize,
    pub(super) suffix: usize,
    #[serde(borrow)]
    pub(super) middle: Cow<'l, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record<'l> {
    pub(super) seq: i64,
    #[serde(borrow)]
    pub(super) prev_hash: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) content_hash: Cow<'l, str>,
    pub(super) fence: i64,
    #[serde(borrow)]
    pub(super) ts: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) event: Cow<'l, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End<'l> {
    pub(super) lines: u64,
    pub(super) records: u64,
    pub(super) blobs: u64,
    pub(super) requests: u64,
    #[serde(borrow)]
    pub(super) sha256: Cow<'l, str>,
}
