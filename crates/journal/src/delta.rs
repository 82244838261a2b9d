//! Model requests as differences: a request repeats the one before it and adds a little.
//!
//! A text is stored whole or as the bytes between what it shares with the start and with the end
//! of its base. Its *cost* is what reading it back takes: the bytes of the whole text at the end of
//! the chain, of every difference on the way, and [`ROW_BYTES`] for each. A text is stored whole
//! as soon as its cost would be more than twice its size. So reading is bounded by the size of what is
//! read, and a conversation that only grows is stored in space linear in its length.

use inspan_wire::Digest;

use crate::Error;

/// What one difference costs beside its bytes.
pub(crate) const ROW_BYTES: usize = 64;

/// What a text has in common with its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Bytes at the start.
    pub(crate) prefix: usize,
    /// Bytes at the end, none of them counted in `prefix`.
    pub(crate) suffix: usize,
}

impl Shared {
    /// Compares `text` with `base`.
    pub(crate) fn between(base: &[u8], text: &[u8]) -> Shared {
        let prefix = common(base.iter().zip(text));
        let suffix = common(base[prefix..].iter().rev().zip(text[prefix..].iter().rev()));
        Shared { prefix, suffix }
    }

    /// The bytes of `text` that its base does not give.
    pub(crate) fn middle(self, text: &[u8]) -> &[u8] {
        &text[self.prefix..text.len() - self.suffix]
    }
}

fn common<'a>(pairs: impl Iterator<Item = (&'a u8, &'a u8)>) -> usize {
    pairs.take_while(|(a, b)| a == b).count()
}

/// The cost of a text of `size` bytes as a difference of `middle` bytes from a base that costs `base`;
/// `None` when it is to be stored whole.
pub(crate) fn cost(base: usize, middle: usize, size: usize) -> Option<usize> {
    let cost = base + middle + ROW_BYTES;
    (cost <= 2 * size).then_some(cost)
}

/// A text that differences are applied to, with a gap where the last one was: the next one is
/// mostly close to it.
pub(crate) struct Text {
    before: Vec<u8>,
    /// Reversed.
    behind: Vec<u8>,
}

impl Text {
    /// Starts from a whole text.
    pub(crate) fn whole(bytes: Vec<u8>) -> Text {
        Text { before: bytes, behind: Vec::new() }
    }

    /// Keeps `shared` and puts `middle` between.
    ///
    /// # Errors
    /// [`Error::Io`] when the difference does not fit: it belongs to another text.
    pub(crate) fn apply(&mut self, shared: Shared, middle: &[u8]) -> Result<(), Error> {
        let len = self.before.len() + self.behind.len();
        let Some(removed_to) = len.checked_sub(shared.suffix).filter(|to| *to >= shared.prefix) else {
            return Err(Error::Io("a stored request does not fit the one that it is the difference to".to_owned()));
        };
        let gap = self.before.len().clamp(shared.prefix, removed_to);
        self.move_gap(gap);
        self.before.truncate(shared.prefix);
        self.behind.truncate(shared.suffix);
        self.before.extend_from_slice(middle);
        Ok(())
    }

    fn move_gap(&mut self, to: usize) {
        if to < self.before.len() {
            self.behind.extend(self.before.drain(to..).rev());
        } else {
            let moved = to - self.before.len();
            let from = self.behind.len() - moved;
            self.before.extend(self.behind.drain(from..).rev());
        }
    }

    /// The text, when it has `digest`.
    ///
    /// # Errors
    /// [`Error::Io`] when it has not.
    pub(crate) fn finish(mut self, digest: Digest) -> Result<String, Error> {
        let len = self.before.len() + self.behind.len();
        self.move_gap(len);
        if Digest::of(&self.before) != digest {
            return Err(Error::Io(format!(
                "the stored text of request {digest} does not have that digest: restore it from a backup"
            )));
        }
        String::from_utf8(self.before).map_err(|_| Error::Io(format!("the text of request {digest} is not UTF-8")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_difference_gives_the_text_back(texts in prop::collection::vec("[ab]{0,12}", 1..20)) {
            let mut text = Text::whole(texts[0].clone().into_bytes());
            for pair in texts.windows(2) {
                let [base, next] = [pair[0].as_bytes(), pair[1].as_bytes()];
                let shared = Shared::between(base, next);
                text.apply(shared, shared.middle(next)).unwrap();
            }
            let last = texts.last().unwrap();
            prop_assert_eq!(&text.finish(Digest::of(last.as_bytes())).unwrap(), last);
        }
    }

    #[test]
    fn a_difference_to_another_text_is_refused() {
        let mut text = Text::whole(b"abc".to_vec());
        assert!(text.apply(Shared { prefix: 2, suffix: 2 }, b"x").is_err());
        assert!(text.apply(Shared { prefix: 4, suffix: 0 }, b"x").is_err());
        assert!(Text::whole(b"abc".to_vec()).finish(Digest::of(b"abd")).is_err());
    }

    #[test]
    fn a_difference_that_costs_more_than_twice_the_text_is_stored_whole() {
        assert_eq!(cost(1000, 100, 1000), Some(1164));
        assert_eq!(cost(1000, 1000, 1000), None);
    }
}
