//! Pseudorandom numbers from a seed (SplitMix64, Steele and others 2014).

/// A pseudorandom sequence.
#[derive(Clone, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 for a `limit` of 0.
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next_u64() % limit.max(1) as u64) as usize
    }

    /// One of these; `None` if there are none.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> Option<T> {
        among.get(self.below(among.len())).copied()
    }

    /// A number in this range, both ends included.
    pub fn within(&mut self, (from, to): (usize, usize)) -> usize {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// The size with this number in a series of sizes whose logarithms are evenly distributed over
    /// every part of the series.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a size between two others"
    )]
    pub fn spread(&mut self, number: usize, from: usize, to: usize) -> usize {
        let golden_ratio = 0.618_033_988_749_895_f64;
        let jitter = self.below(1_000) as f64 / 20_000.0;
        let at = (number as f64 * golden_ratio + jitter).fract();
        let ratio = to as f64 / from.max(1) as f64;
        (from as f64 * ratio.powf(at)) as usize
    }
}
