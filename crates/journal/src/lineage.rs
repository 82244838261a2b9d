//! Whose records a session reads: its own, and those of its parents up to where it left them.

/// Some records of one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment<K> {
    /// The session that holds them.
    pub(crate) owner: K,
    /// The first seq.
    pub(crate) first: i64,
    /// The last seq; [`i64::MAX`] for the session's own, which grow.
    pub(crate) last: i64,
}

/// The segments of a session, oldest first, without gaps.
///
/// Built from the nearest ancestor outwards, in a loop: a fork of a fork may be thousands deep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lineage<K>(Vec<Segment<K>>);

impl<K: Clone> Lineage<K> {
    /// Walks from `owner` to its root. `parent_of` gives a session's parent and the last seq that
    /// they share.
    pub(crate) fn walk<E>(
        owner: K,
        mut parent_of: impl FnMut(&K) -> Result<Option<(K, i64)>, E>,
    ) -> Result<Lineage<K>, E> {
        let mut newest_first = Vec::new();
        let mut at = owner;
        let mut last = i64::MAX;
        loop {
            let parent = parent_of(&at)?;
            let first = parent.as_ref().map_or(1, |(_, shared)| shared + 1);
            // A fork below its parent's own fork point reads nothing of that parent.
            if first <= last {
                newest_first.push(Segment { owner: at, first, last });
            }
            let Some((next, shared)) = parent else { break };
            at = next;
            last = last.min(shared);
        }
        newest_first.reverse();
        Ok(Lineage(newest_first))
    }

    /// The segments of `from..=to`, cut to it, oldest first.
    pub(crate) fn cut(&self, from: i64, to: i64) -> impl DoubleEndedIterator<Item = Segment<K>> + '_ {
        let start = self.0.partition_point(|s| s.last < from);
        let end = if from > to { start } else { self.0.partition_point(|s| s.first <= to) };
        self.0[start..end].iter().map(move |s| Segment {
            owner: s.owner.clone(),
            first: s.first.max(from),
            last: s.last.min(to),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage(parents: &[(&'static str, &'static str, i64)], of: &'static str) -> Lineage<&'static str> {
        Lineage::walk::<()>(of, |at| {
            Ok(parents.iter().find(|(child, ..)| child == at).map(|&(_, parent, shared)| (parent, shared)))
        })
        .unwrap()
    }

    fn cut(l: &Lineage<&'static str>, from: i64, to: i64) -> Vec<(&'static str, i64, i64)> {
        l.cut(from, to).map(|s| (s.owner, s.first, s.last)).collect()
    }

    #[test]
    fn a_root_reads_its_own_records() {
        let l = lineage(&[], "a");
        assert_eq!(cut(&l, 1, 5), [("a", 1, 5)]);
        assert_eq!(cut(&l, 5, 4), []);
    }

    #[test]
    fn a_fork_reads_its_parents_up_to_the_shared_record() {
        let l = lineage(&[("c", "b", 9), ("b", "a", 4)], "c");
        assert_eq!(cut(&l, 1, 20), [("a", 1, 4), ("b", 5, 9), ("c", 10, 20)]);
        assert_eq!(cut(&l, 4, 5), [("a", 4, 4), ("b", 5, 5)]);
        assert_eq!(cut(&l, 10, 10), [("c", 10, 10)]);
    }

    #[test]
    fn a_fork_below_its_parents_fork_point_skips_the_parent() {
        let l = lineage(&[("c", "b", 3), ("b", "a", 4)], "c");
        assert_eq!(cut(&l, 1, 9), [("a", 1, 3), ("c", 4, 9)]);
    }

    #[test]
    fn an_empty_parent_adds_no_segment() {
        let l = lineage(&[("b", "a", 0)], "b");
        assert_eq!(cut(&l, 1, 2), [("b", 1, 2)]);
    }
}
