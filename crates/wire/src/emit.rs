//! Pieces of JSON text, straight into a byte buffer: what the canonical writer and the input writer share.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// How many of these eight bytes, from the first on, stand for themselves in a JSON string: no
/// quote, no backslash, no control character.
fn plain_in_word(chunk: [u8; 8]) -> usize {
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let word = u64::from_le_bytes(chunk);
    let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    let stop = control | has_zero(word ^ (ONES * u64::from(b'"'))) | has_zero(word ^ (ONES * u64::from(b'\\')));
    // A false hit can only stand above a true one, so the lowest is exact; with none it is 64 zeros.
    stop.trailing_zeros() as usize / 8
}

fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// How many bytes at the start of `bytes` stand for themselves in a JSON string.
pub(crate) fn plain_prefix(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk() {
        let plain = plain_in_word(*chunk);
        at += plain;
        if plain < 8 {
            return at;
        }
    }
    let rest = &bytes[at..];
    at + rest.iter().position(|b| !is_plain(*b)).unwrap_or(rest.len())
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
///
/// Text is copied in words of eight bytes, which needs no call; behind a byte that must be escaped the
/// rest of its word is taken back.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(chunk) = rest.first_chunk::<8>() {
        let plain = plain_in_word(*chunk);
        out.extend_from_slice(chunk);
        if plain < 8 {
            out.truncate(out.len() - (8 - plain));
            escape(chunk[plain], out);
            rest = &rest[plain + 1..];
        } else {
            rest = &rest[8..];
        }
    }
    for byte in rest {
        if is_plain(*byte) { out.push(*byte) } else { escape(*byte, out) }
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
    fn escapes_come_out_in_place_whatever_the_alignment() {
        for at in 0..24 {
            let text = format!("{}\"\n\u{1}{}", "a".repeat(at), "é".repeat(at));
            let mut out = Vec::new();
            string(&text, &mut out);
            let expected = format!("\"{}\\\"\\n\\u0001{}\"", "a".repeat(at), "é".repeat(at));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
