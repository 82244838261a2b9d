//! Seeded damage to a text, for the tests that stand in for a fuzzer.

/// A small generator (xorshift64*), so that a seed gives the same damage everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).expect("31 bits") % bound.max(1)
    }
}

/// Pieces that parsers stumble over.
const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b",",
    b":",
    b"null",
    b"true",
    b"-0",
    b"1e999",
    b"0.1e-7",
    b"9223372036854775808",
    b"\\ud83d",
    b"\\ude00",
    b"\\u0000",
    b"\xff",
    b"\0",
    b"\n",
    b" ",
    b"{}",
    b"[]",
    b"\"\"",
    b"\xf0\x9f\x98\x80",
];

/// One to four changes: a byte, a piece put in, a part left out, a part twice, a part of another seed.
pub fn mutate(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut text = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        let end = (at + random.below(24)).min(text.len());
        match random.below(5) {
            0 if at < text.len() => text[at] = u8::try_from(random.below(256)).expect("a byte"),
            1 => {
                let piece = PIECES[random.below(PIECES.len())];
                text.splice(at..at, piece.iter().copied());
            }
            2 => drop(text.drain(at..end)),
            3 => {
                let part = text[at..end].to_vec();
                text.splice(end..end, part);
            }
            _ => {
                let from = random.below(other.len() + 1);
                let to = (from + random.below(64)).min(other.len());
                text.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
    text
}
