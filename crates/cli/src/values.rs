//! Values of flags that need more than a string.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use inspan_wire::Digest;

/// `key=value` of a label.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is written key=value".to_owned()),
    }
}

/// When a turn must be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// From now.
    In(Duration),
    /// Seconds since the Unix epoch.
    At(i64),
}

impl Deadline {
    /// Whole seconds since the Unix epoch, as the protocol has it; a fraction rounds up.
    pub(crate) fn unix_seconds(self) -> i64 {
        match self {
            Deadline::At(seconds) => seconds,
            Deadline::In(span) => {
                let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + span;
                let seconds = at.as_secs() + u64::from(at.subsec_nanos() > 0);
                i64::try_from(seconds).unwrap_or(i64::MAX)
            }
        }
    }
}

/// A duration (`30s`, `1h30m`, `250ms`) or an RFC 3339 time.
pub(crate) fn deadline(text: &str) -> Result<Deadline, String> {
    if let Some(span) = duration(text) {
        return if span.is_zero() {
            Err("a deadline of zero has passed already".to_owned())
        } else {
            Ok(Deadline::In(span))
        };
    }
    match text.parse::<prost_types::Timestamp>() {
        // A date alone also parses, and would mean its first moment: hardly what was meant.
        Ok(at) if at.seconds > 0 && text.contains(['T', 't']) => Ok(Deadline::At(at.seconds + i64::from(at.nanos > 0))),
        _ => Err("write a duration such as 30s or 1h30m, or a time such as 2030-01-31T12:00:00Z".to_owned()),
    }
}

/// One or more numbers with a unit each: `h`, `m`, `s`, `ms`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest[..number].parse().ok()?;
        rest = &rest[number..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(value * seconds).ok()?)?;
        rest = &rest[unit..];
    }
    (!text.is_empty()).then_some(total)
}

/// A head that someone wrote down: `SEQ:HASH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The seq.
    pub(crate) seq: i64,
    /// The content hash of the record at `seq`.
    pub(crate) hash: Digest,
}

/// Parses `SEQ:HASH`.
pub(crate) fn anchor(text: &str) -> Result<Anchor, String> {
    let parsed = text
        .split_once(':')
        .and_then(|(seq, hash)| Some(Anchor { seq: seq.parse().ok().filter(|s| *s > 0)?, hash: hash.parse().ok()? }));
    parsed.ok_or_else(|| "a head is written SEQ:HASH, the hash as 64 lowercase hex digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            ("30s", Some(30_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("250ms", Some(250)),
            ("", None),
            ("30", None),
            ("s", None),
            ("5d", None),
            ("1.2.3s", None),
            ("99999999999999999999999h", None),
        ];
        for (text, millis) in cases {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn deadlines() {
        assert_eq!(deadline("30s"), Ok(Deadline::In(Duration::from_secs(30))));
        assert_eq!(deadline("2030-01-31T12:00:00Z"), Ok(Deadline::At(1_896_091_200)));
        assert_eq!(deadline("2030-01-31T12:00:00.5Z"), Ok(Deadline::At(1_896_091_201)));
        for bad in ["", "0s", "soon", "2030-01-31", "1900-01-01T00:00:00Z"] {
            assert!(deadline(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn anchors() {
        let hash = "a".repeat(64);
        assert_eq!(anchor(&format!("7:{hash}")).map(|a| a.seq), Ok(7));
        for bad in [format!("0:{hash}"), format!("-1:{hash}"), hash.clone(), format!("7:{}", "A".repeat(64))] {
            assert!(anchor(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn labels() {
        assert_eq!(label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(label("a="), Ok(("a".to_owned(), String::new())));
        assert!(label("=b").is_err());
        assert!(label("ab").is_err());
    }
}
