//! Server-sent events, from bytes to events.
//!
//! Bytes are framed first and decoded after: a chunk border may fall inside a character, a line
//! ending or the byte-order mark, and nothing changes. Line endings are LF, CRLF and CR; comments,
//! ids and retry times are skipped.

/// Bytes that one event may have, its lines together: 16 MiB.
pub const EVENT_BYTES_MAX: usize = 16 << 20;

/// One event: its `data` lines joined by LF. Not checked to be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The `event` field, empty when there was none.
    pub name: String,
    /// The data.
    pub data: Vec<u8>,
}

/// An event is longer than [`EVENT_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a streamed event is longer than {EVENT_BYTES_MAX} bytes")]
pub struct TooLong;

/// The decoder. Feed it chunks in order; it gives events as they become complete.
#[derive(Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    name: String,
    data: Option<Vec<u8>>,
    first_line_seen: bool,
    after_cr: bool,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Takes a chunk of any size and appends the events that it completes to `events`.
    ///
    /// # Errors
    /// [`TooLong`]; the decoder is of no use afterwards.
    pub fn push(&mut self, chunk: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        let mut rest = chunk;
        while !rest.is_empty() {
            if self.after_cr {
                self.after_cr = false;
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
                continue;
            }
            let Some(end) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                return self.extend_line(rest);
            };
            self.extend_line(&rest[..end])?;
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.end_line(events);
        }
        Ok(())
    }

    /// The stream ended: the last line counts without its line ending, and the last event without
    /// its blank line. Providers leave them out, and JSON that was cut does not parse.
    pub fn finish(mut self) -> Option<Event> {
        let mut events = Vec::new();
        self.end_line(&mut events);
        // Either that line was the blank one, or this is.
        self.end_line(&mut events);
        events.pop()
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let held = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if held + bytes.len() > EVENT_BYTES_MAX {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if !self.first_line_seen {
            self.first_line_seen = true;
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        if text.is_empty() {
            let name = std::mem::take(&mut self.name);
            events.extend(self.data.take().map(|data| Event { name, data }));
            return;
        }
        let (field, value) = match text.iter().position(|b| *b == b':') {
            Some(colon) => (&text[..colon], &text[colon + 1..]),
            None => (text, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoder, EVENT_BYTES_MAX, Event, TooLong};

    fn decode(chunks: &[&[u8]]) -> Result<Vec<Event>, TooLong> {
        let (mut decoder, mut events) = (Decoder::new(), Vec::new());
        for chunk in chunks {
            decoder.push(chunk, &mut events)?;
        }
        events.extend(decoder.finish());
        Ok(events)
    }

    #[track_caller]
    fn check(input: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(n, d)| Event { name: (*n).to_owned(), data: d.as_bytes().to_vec() }).collect();
        let bytes = input.as_bytes();
        assert_eq!(decode(&[bytes]).expect("short"), expected, "in one piece");
        for cut in 0..=bytes.len() {
            assert_eq!(decode(&[&bytes[..cut], &bytes[cut..]]).expect("short"), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&single).expect("short"), expected, "byte by byte");
    }

    #[test]
    fn frames_are_the_same_at_every_chunk_border() {
        check("data: a\n\ndata:b\n\n", &[("", "a"), ("", "b")]);
        check("data: 你好 👩‍🚀 é\r\n\r\ndata: x\r\rdata: y\n\n", &[("", "你好 👩‍🚀 é"), ("", "x"), ("", "y")]);
        check("\u{feff}event: e\ndata: 1\n\n", &[("e", "1")]);
        check(": comment\n\nid: 4\nretry: 5\nunknown: z\ndata: one\ndata: two\ndata\n\n", &[("", "one\ntwo\n")]);
        check("event: lost\n\ndata: kept\n\n", &[("", "kept")]);
        check("data: no blank line\n", &[("", "no blank line")]);
        check("data: no newline", &[("", "no newline")]);
        check("data: \u{feff}inside\n\n\n\n", &[("", "\u{feff}inside")]);
        check("data:  two spaces\n\n", &[("", " two spaces")]);
        check("", &[]);
        check("\r\n\r\n:\n", &[]);
    }

    #[test]
    fn an_event_has_a_bound() {
        let line = [b"data: ".as_slice(), &vec![b'x'; EVENT_BYTES_MAX / 2]].concat();
        assert!(decode(&[&line]).is_ok());
        assert_eq!(decode(&[&line, b"\n", &line]), Err(TooLong));
        assert_eq!(decode(&[&line, &line]), Err(TooLong));
    }
}
