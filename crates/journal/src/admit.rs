//! What every store checks of an append, a fork and an import before it writes anything.

use inspan_wire::{Digest, SessionUid};

use crate::record::NewRecord;
use crate::{Append, Error, FenceRule, Fork, ForkChild, Head, KeptRequest, KeyChange, KeyUse, Record, TurnMark};

/// Checks what needs no store: records dense from the expected head, linked to each other, and
/// the turn among them (R-HASH-8). Hashes are not recomputed: reads check them.
pub(crate) fn shape(append: &Append) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::Invalid(format!("append to {}: {what}", append.session)));
    if append.records.is_empty() {
        return wrong("there are no records in it".to_owned());
    }
    let mut seq = append.expect_head;
    let mut prev = append.records[0].prev_hash;
    for record in &append.records {
        seq += 1;
        if record.seq != seq {
            return wrong(format!("record {} stands where {seq} belongs", record.seq));
        }
        if record.prev_hash != prev {
            return wrong(format!("record {seq} does not link to the record before it"));
        }
        prev = Some(record.content_hash);
    }
    match &append.turn {
        Some(turn) if turn.first_seq <= append.expect_head || turn.first_seq > seq => {
            wrong(format!("its turn starts at {}, outside of it", turn.first_seq))
        }
        _ => Ok(()),
    }
}

/// Head first, then fence (R-CAS-1); gives the fence that the append runs under (R-CAS-2).
pub(crate) fn fence(append: &Append, head: Head, current: i64) -> Result<i64, Error> {
    if append.expect_head != head.seq {
        return Err(Error::Conflict {
            session: append.session.clone(),
            expected: append.expect_head,
            actual: head.seq,
        });
    }
    let fence = match append.fence {
        FenceRule::Held(held) if held < current => {
            return Err(Error::Fenced { session: append.session.clone(), held, current });
        }
        FenceRule::Held(held) => held,
        FenceRule::Next => current + 1,
    };
    if append.records[0].prev_hash != head.hash {
        return Err(Error::Invalid(format!(
            "append to {}: record {} does not link to the head",
            append.session, append.records[0].seq
        )));
    }
    Ok(fence)
}

/// Keys that the append uses for the first time are free, or it frees them itself. `used` says what a key was used for.
pub(crate) fn keys<E: From<Error>>(
    append: &Append,
    mut used: impl FnMut(&str) -> Result<Option<KeyUse>, E>,
) -> Result<(), E> {
    for (at, change) in append.keys.iter().enumerate() {
        let KeyChange::First { key, .. } = change else { continue };
        let Some(used) = used(key)? else { continue };
        let freed = KeyChange::Freed { key: key.clone(), call_seq: used.call_seq };
        if !append.keys[..at].contains(&freed) {
            return Err(Error::KeyUsed { session: append.session.clone(), used }.into());
        }
    }
    Ok(())
}

/// Where a fork cuts its parent: R-FORK-2 for an `at_seq` of 0.
pub(crate) fn fork_point(fork: &Fork, head: Head) -> Result<i64, Error> {
    let at = if fork.at_seq <= 0 { head.seq } else { fork.at_seq };
    if at > head.seq {
        return Err(Error::Invalid(format!("cannot fork {} at {at}: its journal ends at {}", fork.parent, head.seq)));
    }
    if fork.children.is_empty() {
        return Err(Error::Invalid(format!("a fork of {} needs at least one child", fork.parent)));
    }
    if fork.at_seq <= 0
        && let Some(child) = fork.children.iter().find(|c| c.marker.seq != at + 1)
    {
        return Err(Error::Conflict { session: fork.parent.clone(), expected: child.marker.seq - 1, actual: at });
    }
    Ok(at)
}

/// The marker stands behind the last shared record and links to it (R-FORK-1).
pub(crate) fn marker(child: &ForkChild, at_seq: i64, at_hash: Option<Digest>) -> Result<(), Error> {
    let NewRecord { seq, prev_hash, .. } = child.marker;
    if seq == at_seq + 1 && prev_hash == at_hash {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "the fork marker of {} does not link to record {at_seq} of its parent",
        child.session.uid
    )))
}

/// The records of an import follow `head` (R-HASH-8). Gives the new head.
pub(crate) fn follows(uid: &SessionUid, mut head: Head, records: &[Record]) -> Result<Head, Error> {
    for record in records {
        if record.seq != head.seq + 1 || record.prev_hash != head.hash {
            return Err(Error::Invalid(format!(
                "import of {uid}: record {} does not follow record {}",
                record.seq, head.seq
            )));
        }
        head = Head { seq: record.seq, hash: Some(record.content_hash) };
    }
    Ok(head)
}

/// The turns of an import's batch start among its records, one after the other.
pub(crate) fn turns(uid: &SessionUid, turns: &[TurnMark], records: &[Record]) -> Result<(), Error> {
    let mut after = records.first().map_or(0, |record| record.seq - 1);
    let last = records.last().map_or(0, |record| record.seq);
    for turn in turns {
        if turn.first_seq <= after || turn.first_seq > last {
            return Err(Error::Invalid(format!(
                "import of {uid}: a turn starts at {}, outside of {} to {last}",
                turn.first_seq,
                after + 1
            )));
        }
        after = turn.first_seq;
    }
    Ok(())
}

/// A text that is kept under a digest has that digest: a wrong one would be found only by the
/// auditor who needs it.
pub(crate) fn requests(requests: &[KeptRequest]) -> Result<(), Error> {
    match requests.iter().find(|r| Digest::of(r.text.as_bytes()) != r.digest) {
        None => Ok(()),
        Some(r) => Err(Error::Invalid(format!("the text kept as request {} does not have that digest", r.digest))),
    }
}

/// The first record that carries `digest` in its text; when none does, the first one, so that
/// every fork that shares any of them may see it.
pub(crate) fn carrier<'a>(digest: Digest, mut records: impl Iterator<Item = (i64, &'a [u8])> + Clone) -> Option<i64> {
    let hex = digest.hex();
    let first = records.clone().next()?.0;
    Some(records.find(|(_, event)| contains(event, hex.as_str().as_bytes())).map_or(first, |(seq, _)| seq))
}

/// Whether `needle`, 64 hex digits, is in `text`.
fn contains(text: &[u8], needle: &[u8]) -> bool {
    // A byte that is no hex digit rules out every match that covers it.
    let mut at = 0;
    while at + needle.len() <= text.len() {
        let window = &text[at..at + needle.len()];
        if window == needle {
            return true;
        }
        match window.iter().rposition(|b| !b.is_ascii_hexdigit()) {
            Some(p) => at += p + 1,
            None => at += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carrier_is_the_first_record_with_the_digest_in_it() {
        let digest = Digest::of(b"x");
        let with = format!(r#"{{"uri":"sha256:{digest}"}}"#);
        let events = [&b"{}"[..], with.as_bytes(), with.as_bytes()];
        let numbered = || events.iter().enumerate().map(|(i, e)| (i as i64 + 7, *e));
        assert_eq!(carrier(digest, numbered()), Some(8));
        assert_eq!(carrier(Digest::of(b"y"), numbered()), Some(7));
        assert_eq!(carrier(digest, [].into_iter()), None);
    }

    #[test]
    fn a_digest_is_found_behind_other_hex_digits() {
        let digest = Digest::of(b"x");
        for before in 0..70 {
            let text = format!("{}{digest}\"", "a".repeat(before));
            assert!(contains(text.as_bytes(), digest.hex().as_str().as_bytes()), "behind {before} digits");
        }
        assert!(!contains(&digest.hex().as_str().as_bytes()[1..], digest.hex().as_str().as_bytes()));
    }
}
