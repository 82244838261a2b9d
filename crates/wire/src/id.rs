//! Identifiers that must not be mixed up: digests and session uids.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// A SHA-256. Shown and parsed as 64 lowercase hex digits (R-HASH-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

/// Text that is not 64 lowercase hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lowercase hex digits")]
pub struct BadDigest;

impl Digest {
    /// The SHA-256 of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// The lowercase hex form without allocating.
    pub fn hex(&self) -> Hex {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut out = [0_u8; 64];
        for (i, b) in self.0.iter().enumerate() {
            out[2 * i] = DIGITS[usize::from(b >> 4)];
            out[2 * i + 1] = DIGITS[usize::from(b & 15)];
        }
        Hex(out)
    }
}

/// A digest's hex form.
#[derive(Clone, Copy)]
pub struct Hex([u8; 64]);

impl Hex {
    /// The 64 digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hex digits are ASCII")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hex().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(s: &str) -> Result<Digest, BadDigest> {
        let s = s.as_bytes();
        if s.len() != 64 {
            return Err(BadDigest);
        }
        let nibble = |b: u8| match b {
            b'0'..=b'9' => Ok(b - b'0'),
            b'a'..=b'f' => Ok(b - b'a' + 10),
            _ => Err(BadDigest),
        };
        let mut out = [0; 32];
        for (i, pair) in s.chunks_exact(2).enumerate() {
            out[i] = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Digest(out))
    }
}

/// A session's uid: `sess-` and 24 lowercase hex digits when this host made it; any non-empty text
/// when it was imported. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionUid(Arc<str>);

impl SessionUid {
    /// Takes the text as it is.
    pub fn new(uid: impl Into<Arc<str>>) -> SessionUid {
        SessionUid(uid.into())
    }

    /// A uid made of 12 random bytes.
    pub fn from_random(bytes: [u8; 12]) -> SessionUid {
        SessionUid(format!("sess-{}", hex(&bytes)).into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for SessionUid {
    fn from(s: &str) -> SessionUid {
        SessionUid(s.into())
    }
}

/// Lowercase hex of `bytes`: execution ids and call ids are 8 random bytes in this form.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut s, b| {
        write!(s, "{b:02x}").expect("writing to a string cannot fail");
        s
    })
}
