//! Randomness that repeats: xoshiro256** behind a splitmix64 start, as their authors describe them.

/// A stream of numbers that hangs on nothing but its seed.
#[derive(Debug, Clone)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The stream of `seed`. Neighbouring seeds give unrelated streams.
    pub fn new(seed: u64) -> Rng {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Rng([next(), next(), next(), next()])
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`, which is above zero. The bias of the remainder is far below what a
    /// simulation could notice.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// True in `per_mille` of 1000 cases.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1000) < per_mille
    }

    /// One of `items`, which are not empty.
    pub fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        &items[self.index(items.len())]
    }

    /// An index below `len`, which is above zero.
    pub fn index(&mut self, len: usize) -> usize {
        let bound = u64::try_from(len).expect("a length fits");
        usize::try_from(self.below(bound)).expect("it is below a length")
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.draw().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of xoshiro256** from the state 1, 2, 3, 4, worked out by hand from its definition:
    /// rotl(2 * 5, 7) * 9 first, then s1 is 0 and 262149 follows from its third state.
    #[test]
    fn the_generator_is_xoshiro256_starstar() {
        let mut rng = Rng([1, 2, 3, 4]);
        assert_eq!([rng.draw(), rng.draw(), rng.draw()], [11520, 0, 1_509_978_240]);
    }

    #[test]
    fn the_same_seed_gives_the_same_stream() {
        let stream = |seed| {
            std::iter::repeat_with({
                let mut r = Rng::new(seed);
                move || r.draw()
            })
            .take(8)
            .collect::<Vec<_>>()
        };
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
    }
}
