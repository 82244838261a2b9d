//! Pieces of JSON text, straight into a byte buffer: what the canonical writer and the input writer share.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// How many bytes at the start of `bytes` stand for themselves in a JSON string: no quote, no
/// backslash, no control character. Eight bytes are looked at in one step.
pub(crate) fn plain_prefix(bytes: &[u8]) -> usize {
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let stop = control | has_zero(word ^ (ONES * u64::from(b'"'))) | has_zero(word ^ (ONES * u64::from(b'\\')));
        if stop != 0 {
            // A false hit can only stand above a true one, so the lowest is exact.
            return at + stop.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = &bytes[at..];
    at + rest.iter().position(|b| *b < 0x20 || *b == b'"' || *b == b'\\').unwrap_or(rest.len())
}

/// The two-character escape of `byte`, or `\u00xx`.
fn escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// A JSON string as RFC 8785 writes it (R-HASH-6).
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let plain = plain_prefix(rest);
        out.extend_from_slice(&rest[..plain]);
        let Some(byte) = rest.get(plain) else { break };
        escape(*byte, out);
        rest = &rest[plain + 1..];
    }
    out.push(b'"');
}

/// A JSON string that is safe inside HTML and JavaScript (R-IN-9).
pub(crate) fn html_safe_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|b| needs_html_escape(*b)) {
        out.extend_from_slice(&rest[..at]);
        // The line and paragraph separators share their first two bytes with other characters.
        let taken = match &rest[at..] {
            [0xe2, 0x80, 0xa8, ..] => {
                out.extend_from_slice(b"\\u2028");
                3
            }
            [0xe2, 0x80, 0xa9, ..] => {
                out.extend_from_slice(b"\\u2029");
                3
            }
            [0xe2, ..] => {
                out.push(0xe2);
                1
            }
            [byte, ..] => {
                escape(*byte, out);
                1
            }
            [] => break,
        };
        rest = &rest[at + taken..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn needs_html_escape(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2)
}

/// Any integer in decimal.
pub(crate) fn integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// A finite double in ECMAScript form; minus zero is `0` (R-HASH-5). `false`, and nothing
/// written, when it is not finite.
#[must_use]
pub(crate) fn number(value: f64, out: &mut Vec<u8>) -> bool {
    /// Below this every whole number is exact in a double and in an integer.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if value.abs() < WHOLE_MAX && value.trunc() == value {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        integer(value as i64, out);
    } else if value.is_finite() {
        out.extend_from_slice(ryu_js::Buffer::new().format_finite(value).as_bytes());
    } else {
        return false;
    }
    true
}

/// Padded standard base64 in quotes (R-HASH-3).
pub(crate) fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).expect("the room was measured");
    debug_assert_eq!(start + written, out.len());
    out.push(b'"');
}

/// RFC 3339 in UTC with 0, 3, 6 or 9 digits of fraction, in quotes (R-HASH-4). `false`, and
/// nothing written, outside years 1 to 9999.
#[must_use]
pub(crate) fn timestamp(time: &prost_types::Timestamp, out: &mut Vec<u8>) -> bool {
    const YEAR_1: i64 = -62_135_596_800;
    const YEAR_10000: i64 = 253_402_300_800;
    const DAY_S: i64 = 86_400;
    let Ok(nanos) = u32::try_from(time.nanos) else { return false };
    if nanos >= 1_000_000_000 || !(YEAR_1..YEAR_10000).contains(&time.seconds) {
        return false;
    }
    let (year, month, day) = date(time.seconds.div_euclid(DAY_S));
    let second = time.seconds.rem_euclid(DAY_S);
    out.push(b'"');
    digits(year, 4, out);
    for (mark, value) in
        [(b'-', month), (b'-', day), (b'T', second / 3600), (b':', second / 60 % 60), (b':', second % 60)]
    {
        out.push(mark);
        digits(value, 2, out);
    }
    if nanos != 0 {
        out.push(b'.');
        match (nanos % 1_000_000, nanos % 1_000) {
            (0, _) => digits(i64::from(nanos / 1_000_000), 3, out),
            (_, 0) => digits(i64::from(nanos / 1_000), 6, out),
            _ => digits(i64::from(nanos), 9, out),
        }
    }
    out.extend_from_slice(b"Z\"");
    true
}

/// `value` with leading zeros to `width`.
fn digits(value: i64, width: u32, out: &mut Vec<u8>) {
    for place in (0..width).rev() {
        let digit = value / 10_i64.pow(place) % 10;
        out.push(b'0' + u8::try_from(digit).expect("one decimal digit of a number that is not negative"));
    }
}

/// Year, month and day of a count of days since 1970-01-01. The year is taken to begin in March,
/// so that the leap day is its last; eras of 400 years are all alike.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (400 * era + year_of_era + i64::from(month <= 2), month, day)
}

/// Days since 1970-01-01 of a date; the inverse of [`date`].
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_prefix_stops_at_the_first_byte_to_escape() {
        for stop in [b'"', b'\\', 0, 0x1f, b'\n'] {
            for at in 0..40 {
                let mut bytes = vec![0xc3_u8; 40];
                bytes[at] = stop;
                assert_eq!(plain_prefix(&bytes), at);
            }
        }
        assert_eq!(plain_prefix("é \u{7f}\u{80}!#[]~ and more".as_bytes()), "é \u{7f}\u{80}!#[]~ and more".len());
    }

    #[test]
    fn dates_and_days_are_inverse_over_the_whole_range() {
        let mut last = (0, 12, 31);
        for day in days(1, 1, 1)..days(10_000, 1, 1) {
            let found = date(day);
            assert!(found > last, "dates rise");
            assert_eq!(days(found.0, found.1, found.2), day);
            last = found;
        }
        assert_eq!(last, (9999, 12, 31));
    }
}
