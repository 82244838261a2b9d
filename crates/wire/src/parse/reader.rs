//! A pull parser over JSON text: callers ask for the type that they expect.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::Error;
use crate::canon::DEPTH_MAX;
use crate::emit::plain_prefix;
use crate::time;

type Result<T = ()> = std::result::Result<T, Error>;

/// A message that is decoded member by member.
pub(super) trait Decode: Default {
    /// Reads the value of member `key`; a name that it does not know, it skips.
    fn member(&mut self, key: &str, r: &mut Reader<'_>) -> Result;
}

pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: u32,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Reader<'t> {
        Reader { text, at: 0, depth: 0 }
    }

    #[cold]
    pub(super) fn wrong(&self, what: &str) -> Error {
        Error(format!("{what} at byte {}", self.at))
    }

    /// The next byte that is not white space, not consumed; 0 at the end.
    pub(super) fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or(0)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result {
        if self.eat(byte) { Ok(()) } else { Err(self.wrong(what)) }
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    pub(super) fn end(&mut self) -> Result {
        if self.peek() == 0 && self.at == self.text.len() { Ok(()) } else { Err(self.wrong("text after the event")) }
    }

    /// Consumes a `null` if there is one: an unset member (proto3-JSON).
    pub(super) fn null(&mut self) -> bool {
        self.peek() == b'n' && self.word("null")
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_MAX {
            return Err(self.wrong("values nested too deep"));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// An object; `member` consumes the value of each name. A name given twice is refused, because
    /// two readers could see two different events in it.
    pub(super) fn object(&mut self, mut member: impl FnMut(&mut Self, &str) -> Result) -> Result {
        self.expect(b'{', "an object was expected")?;
        self.deeper(|r| {
            if r.eat(b'}') {
                return Ok(());
            }
            let start = r.at;
            let mut last: Option<Cow<'t, str>> = None;
            // Names in rising order, as canonical form has them, need no memory; others need a set.
            let mut seen: Option<BTreeSet<Cow<'t, str>>> = None;
            loop {
                let key_at = r.at;
                let key = r.string()?;
                if seen.is_none() && last.as_ref().is_some_and(|last| *last >= key) {
                    seen = Some(r.keys_between(start, key_at)?);
                }
                if seen.as_mut().is_some_and(|seen| !seen.insert(key.clone())) {
                    return Err(r.wrong(&format!("the name {key:?} stands twice in one object")));
                }
                r.expect(b':', "a colon was expected")?;
                member(r, &key).map_err(|e| Error(format!("{key}: {e}")))?;
                last = Some(key);
                if !r.eat(b',') {
                    return r.expect(b'}', "a comma or the end of an object was expected");
                }
            }
        })
    }

    /// The names of an object whose members stand from `start` up to the name at `end`.
    fn keys_between(&mut self, start: usize, end: usize) -> Result<BTreeSet<Cow<'t, str>>> {
        let back = std::mem::replace(&mut self.at, start);
        let mut keys = BTreeSet::new();
        while self.at < end {
            keys.insert(self.string()?);
            self.expect(b':', "a colon was expected")?;
            self.skip()?;
            self.expect(b',', "a comma was expected")?;
        }
        self.at = back;
        Ok(keys)
    }

    /// A list of anything.
    pub(super) fn elements<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(b'[', "a list was expected")?;
        self.deeper(|r| {
            let mut values = Vec::new();
            if r.eat(b']') {
                return Ok(values);
            }
            loop {
                values.push(element(r)?);
                if !r.eat(b',') {
                    r.expect(b']', "a comma or the end of a list was expected")?;
                    return Ok(values);
                }
            }
        })
    }

    pub(super) fn message<M: Decode>(&mut self) -> Result<M> {
        let mut message = M::default();
        self.object(|r, key| message.member(key, r))?;
        Ok(message)
    }

    pub(super) fn optional<M: Decode>(&mut self) -> Result<Option<M>> {
        if self.null() { Ok(None) } else { self.message().map(Some) }
    }

    pub(super) fn messages<M: Decode>(&mut self) -> Result<Vec<M>> {
        if self.null() { Ok(Vec::new()) } else { self.elements(Self::message) }
    }

    /// A string; borrowed when it holds no escape.
    pub(super) fn string(&mut self) -> Result<Cow<'t, str>> {
        self.expect(b'"', "a string was expected")?;
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at += plain_prefix(&bytes[start..]);
        if bytes.get(self.at) == Some(&b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        let mut owned = String::from(&self.text[start..self.at]);
        loop {
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(owned));
                }
                Some(b'\\') => owned.push(self.escape()?),
                Some(_) => return Err(self.wrong("a control character stands in a string")),
                None => return Err(self.wrong("the text ends inside a string")),
            }
            let run = plain_prefix(&bytes[self.at..]);
            owned.push_str(&self.text[self.at..self.at + run]);
            self.at += run;
        }
    }

    /// One escape, from its backslash on.
    fn escape(&mut self) -> Result<char> {
        let short = match self.text.as_bytes().get(self.at + 1) {
            Some(b'u') => return self.unicode_escape(),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
            _ => return Err(self.wrong("an unknown escape")),
        };
        self.at += 2;
        Ok(short)
    }

    /// `\uXXXX`, or a surrogate pair of two of them; half a pair is no text.
    fn unicode_escape(&mut self) -> Result<char> {
        let unit = |at: usize| {
            let digits = self.text.as_bytes().get(at..at + 6).and_then(|six| six.strip_prefix(b"\\u"))?;
            digits.iter().try_fold(0_u32, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
        };
        let found = match unit(self.at) {
            Some(high @ 0xd800..0xdc00) => match unit(self.at + 6) {
                Some(low @ 0xdc00..0xe000) => Some((0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), 12)),
                _ => None,
            },
            Some(unit) => Some((unit, 6)),
            None => None,
        };
        let (code, length) = found.ok_or_else(|| self.wrong("an escape that is not a character"))?;
        let character = char::from_u32(code).ok_or_else(|| self.wrong("half a surrogate pair"))?;
        self.at += length;
        Ok(character)
    }

    /// A string member; `null` is the empty one.
    pub(super) fn text(&mut self) -> Result<String> {
        if self.null() { Ok(String::new()) } else { self.string().map(Cow::into_owned) }
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes> {
        if self.null() {
            return Ok(Bytes::new());
        }
        let at = self.at;
        let text = self.string()?;
        STANDARD.decode(text.as_bytes()).map(Bytes::from).map_err(|e| Error(format!("bad base64 at byte {at}: {e}")))
    }

    pub(super) fn flag(&mut self) -> Result<bool> {
        match self.peek() {
            b't' if self.word("true") => Ok(true),
            b'f' if self.word("false") => Ok(false),
            b'n' if self.word("null") => Ok(false),
            _ => Err(self.wrong("true or false was expected")),
        }
    }

    /// An integer, bare or in quotes; `null` is zero.
    pub(super) fn integer<T: FromStr + Default>(&mut self) -> Result<T> {
        if self.null() {
            return Ok(T::default());
        }
        let quoted = self.string_ahead();
        let digits = if quoted { self.string()? } else { Cow::Borrowed(self.number_text()?) };
        digits.parse().map_err(|_| self.wrong("an integer was expected"))
    }

    pub(super) fn string_ahead(&mut self) -> bool {
        self.peek() == b'"'
    }

    /// An enum value: a name, unknown ones as zero, or any number.
    pub(super) fn enumeration<E: Into<i32>>(&mut self, from_name: fn(&str) -> Option<E>) -> Result<i32> {
        if self.string_ahead() { Ok(from_name(&self.string()?).map_or(0, Into::into)) } else { self.integer() }
    }

    /// A finite double.
    pub(super) fn number(&mut self) -> Result<f64> {
        let text = self.number_text()?;
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(self.wrong("a number that no double can hold")),
        }
    }

    /// The text of a number, by the grammar of JSON.
    fn number_text(&mut self) -> Result<&'t str> {
        self.peek();
        let bytes = self.text.as_bytes();
        let start = self.at;
        let digits = |at: usize| bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
        let whole = digits(at);
        let mut good = whole == 1 || (whole > 1 && bytes[at] != b'0');
        at += whole;
        if bytes.get(at) == Some(&b'.') {
            let fraction = digits(at + 1);
            good &= fraction > 0;
            at += 1 + fraction;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(at);
            good &= exponent > 0;
            at += exponent;
        }
        if !good {
            return Err(self.wrong("a number was expected"));
        }
        self.at = at;
        Ok(&self.text[start..at])
    }

    /// RFC 3339 in UTC, as [`time::write`] writes it; `None` for `null`.
    pub(super) fn timestamp(&mut self) -> Result<Option<prost_types::Timestamp>> {
        if self.null() {
            return Ok(None);
        }
        let text = self.string()?;
        time::parse(&text).map(Some).ok_or_else(|| self.wrong("a time like 2023-11-14T22:13:20Z was expected"))
    }

    /// Any value, thrown away.
    pub(super) fn skip(&mut self) -> Result {
        match self.peek() {
            b'{' => self.object(|r, _| r.skip()),
            b'[' => self.elements(Self::skip).map(drop),
            b'"' => self.string().map(drop),
            b't' | b'f' => self.flag().map(drop),
            b'n' if self.word("null") => Ok(()),
            _ => self.number_text().map(drop),
        }
    }
}
