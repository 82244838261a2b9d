//! Patterns over names.

use serde::Deserialize;

/// Text in which `*` stands for any run of characters, also of none, and `?` for exactly one. Everything else stands
/// for itself; upper and lower case differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct Glob(String);

impl Glob {
    /// A pattern.
    pub fn new(pattern: impl Into<String>) -> Glob {
        Glob(pattern.into())
    }

    /// The pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `text` fits. Takes at most as many steps as the two lengths multiplied.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text): (Vec<char>, Vec<char>) = (self.0.chars().collect(), text.chars().collect());
        let (mut p, mut t) = (0, 0);
        // Where the last star is, and how far it reaches: a mismatch lets it take one character more.
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some('*') => {
                    star = Some((p, t));
                    p += 1;
                }
                Some(c) if *c == '?' || *c == text[t] => {
                    p += 1;
                    t += 1;
                }
                _ => {
                    let Some((at, taken)) = star else { return false };
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
            }
        }
        pattern[p..].iter().all(|c| *c == '*')
    }

    /// The same pattern behind a fixed text.
    pub(crate) fn behind(&self, text: &str) -> Glob {
        Glob(format!("{text}{}", self.0))
    }

    /// Whether there may be a text that fits both. Never wrong when it says no.
    pub(crate) fn may_meet(&self, other: &Glob) -> bool {
        match (self.literal(), other.literal()) {
            (Some(text), _) => other.matches(text),
            (None, Some(text)) => self.matches(text),
            (None, None) => self.head().starts_with(other.head()) || other.head().starts_with(self.head()),
        }
    }

    /// The one text that fits, when the pattern has no wildcard.
    fn literal(&self) -> Option<&str> {
        (self.head().len() == self.0.len()).then_some(&self.0)
    }

    /// What stands before the first wildcard.
    fn head(&self) -> &str {
        self.0.split(['*', '?']).next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Glob;

    #[test]
    fn stars_and_question_marks() {
        let table = [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a", "a", true),
            ("a", "A", false),
            ("a*", "a/b", true),
            ("*b", "aab", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("?", "é", true),
            ("[a]", "a", false),
            ("fs/delete*", "fs/delete_file", true),
        ];
        for (pattern, text, fits) in table {
            assert_eq!(Glob::new(pattern).matches(text), fits, "{pattern} {text}");
        }
    }

    /// Ten stars over a long text that does not fit: this returns at once or not at all.
    #[test]
    fn many_stars_stay_cheap() {
        assert!(!Glob::new("*a".repeat(10) + "b").matches(&"a".repeat(10_000)));
    }

    #[test]
    fn patterns_that_cannot_meet() {
        let meets = |a: &str, b: &str| Glob::new(a).may_meet(&Glob::new(b));
        assert!(meets("*", "x*") && meets("a*", "ab*") && meets("a*", "ab") && meets("ab", "a?") && meets("a", "a"));
        assert!(!meets("a/*", "b/*") && !meets("a*", "b") && !meets("b", "a*") && !meets("a", "b"));
    }

    /// The plain definition, exponential and obviously right.
    fn simple(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|n| simple(rest, &text[n..])),
            Some((c, rest)) => {
                text.split_first().is_some_and(|(t, after)| (*c == '?' || c == t) && simple(rest, after))
            }
        }
    }

    proptest! {
        #[test]
        fn equals_the_simple_definition(pattern in "[ab*?]{0,7}", text in "[ab]{0,9}") {
            let chars = |t: &str| t.chars().collect::<Vec<_>>();
            prop_assert_eq!(Glob::new(pattern.as_str()).matches(&text), simple(&chars(&pattern), &chars(&text)));
        }

        #[test]
        fn what_fits_both_means_that_they_may_meet(a in "[ab*?]{0,5}", b in "[ab*?]{0,5}", text in "[ab]{0,6}") {
            let (a, b) = (Glob::new(a), Glob::new(b));
            prop_assert!(!(a.matches(&text) && b.matches(&text)) || a.may_meet(&b));
        }
    }
}
