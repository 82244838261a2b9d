//! Forks: children that share the parent's records and go their own way from there.

use std::collections::BTreeMap;

use bytes::Bytes;
use inspan_journal::{Fork, ForkChild, Head, NewRecord, NewSession, Session};
use inspan_wire::v1::{self, lifecycle::Kind};
use inspan_wire::{SessionUid, canon};

use crate::Error;
use crate::engine::Engine;
use crate::scan::{Folder, Scan};

/// Children that one call may ask for.
pub(crate) const CHILDREN_MAX: i32 = 128;

/// What a fork asks for.
#[derive(Debug, Clone, Default)]
pub struct ForkArgs {
    /// Zero or less means the head (R-FORK-2).
    pub at_seq: i64,
    /// 1 to 128; zero means 1.
    pub count: i32,
    /// Replace the parent's.
    pub labels: BTreeMap<String, String>,
    /// Empty, or one for each child.
    pub names: Vec<String>,
}

impl Engine {
    /// Forks a session (R-FORK). The parent's journal does not change.
    ///
    /// # Errors
    /// As the table of Fork's status codes says; OUT_OF_RANGE beyond the head; ABORTED while another
    /// operation holds the session.
    pub async fn fork(&self, uid: &SessionUid, args: ForkArgs) -> Result<Vec<v1::Session>, Error> {
        let count = match args.count {
            0 => 1,
            n if (1..=CHILDREN_MAX).contains(&n) => usize::try_from(n).expect("it is positive"),
            n => {
                return Err(Error::InvalidArgument(format!("count is {n}: a fork makes 1 to {CHILDREN_MAX} children")));
            }
        };
        if !args.names.is_empty() && args.names.len() != count {
            let have = args.names.len();
            return Err(Error::InvalidArgument(format!("child_names has {have} names for {count} children")));
        }
        self.load(uid).await?;
        let guard = self.inner.guards.acquire(uid)?;
        let parent = self.load(uid).await?;
        let at_seq = if args.at_seq <= 0 { parent.head.seq } else { args.at_seq };
        if at_seq > parent.head.seq {
            let head = parent.head.seq;
            return Err(Error::OutOfRange(format!("at_seq is {at_seq}, the journal of {uid} ends at {head}")));
        }
        self.admit(&*self.stored_agent(&parent)?).await?;

        let (scan, head) = self.past_at(&parent, at_seq).await?;
        let (marker, state) = marker(uid, scan, head)?;
        let children = (0..count).map(|i| ForkChild {
            session: NewSession { uid: self.new_uid(), info: child_info(&parent, &args, i), state: state.clone() },
            marker: marker.clone(),
        });
        let fork = Fork { parent: uid.clone(), at_seq, children: children.collect() };
        let made = self.inner.journal.fork(fork).await?;
        drop(guard);
        Ok(made.iter().map(|s| self.view(s)).collect())
    }

    /// The fold and the hash at `at_seq`.
    async fn past_at(&self, parent: &Session, at_seq: i64) -> Result<(Scan, Head), Error> {
        if at_seq == parent.head.seq {
            return Ok((Scan::load(&parent.state)?, parent.head));
        }
        let journal = &self.inner.journal;
        let (mut folder, mut seq) = match journal.turn_at(&parent.uid, at_seq).await? {
            Some(mark) => (Folder::new(Scan::load(&mark.before)?), mark.first_seq),
            None => (Folder::default(), 1),
        };
        let mut head = Head::default();
        while seq <= at_seq {
            let records = journal.records(&parent.uid, seq, at_seq, 256).await?;
            if records.is_empty() {
                let what = "the journal ends before its head".to_owned();
                return Err(inspan_journal::Error::Damaged { session: parent.uid.clone(), seq, what }.into());
            }
            for record in records {
                folder.step(record.seq, &*crate::history::decode(&record)?);
                head = Head { seq: record.seq, hash: Some(record.content_hash) };
                seq = record.seq + 1;
            }
        }
        Ok((folder.scan().clone(), head))
    }
}

/// R-FORK-1: the detail is the word `parent` and the seq. The parent's uid is in `snapshot_local`,
/// which the hash covers: for compute that keeps only files, a session's uid is its snapshot's handle.
fn marker(parent: &SessionUid, mut scan: Scan, head: Head) -> Result<(NewRecord, inspan_journal::State), Error> {
    let event = v1::Event::lifecycle(v1::Lifecycle {
        kind: Kind::LifecycleFork.into(),
        detail: format!("parent@{}", head.seq),
        snapshot_local: parent.to_string(),
        ..Default::default()
    });
    let text = canon::event(&event).map_err(|e| Error::InvalidArgument(e.to_string()))?;
    scan.step(head.seq + 1, &event, |_| false);
    Ok((NewRecord::seal(head.seq + 1, head.hash, Bytes::from(text)), scan.state()))
}

/// R-FORK-3.
fn child_info(parent: &Session, args: &ForkArgs, i: usize) -> v1::Session {
    let project = parent.info.metadata.as_ref().map(|m| m.project.clone()).unwrap_or_default();
    v1::Session {
        metadata: Some(v1::ResourceMetadata {
            project,
            name: args.names.get(i).cloned().unwrap_or_default(),
            ..Default::default()
        }),
        harness: parent.info.harness.clone(),
        model: parent.info.model.clone(),
        origin: parent.info.origin.clone(),
        annotations: parent.info.annotations.clone(),
        labels: args.labels.clone(),
        ..Default::default()
    }
}
