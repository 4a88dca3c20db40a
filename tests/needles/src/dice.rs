//! Random choices that a seed decides.

const SYLLABLES: [&str; 32] = [
    "ka", "ri", "vo", "lu", "ten", "mar", "sil", "dor", "fen", "qua", "zel", "bri", "hol", "nim",
    "pas", "tor", "wen", "gal", "osk", "ulm", "ira", "bex", "cor", "dax", "eth", "fyr", "gon",
    "hes", "jun", "kel", "lor", "myr",
];

/// A sequence of choices. The same seed and name give the same sequence on every machine.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let mut dice = Self(seed);
        for byte in name.bytes() {
            dice.0 = dice.draw() ^ u64::from(byte);
        }
        dice
    }

    /// The next number of the sequence (splitmix64).
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end`, which is excluded; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.draw() % end).unwrap_or_default()
    }

    /// A number of this range, both ends included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// One of these, each as likely as the others.
    pub(crate) fn pick<'s, S: AsRef<str>>(&mut self, from: &'s [S]) -> &'s str {
        let place = self.below(from.len());
        from.get(place).map_or("", AsRef::as_ref)
    }

    /// One of these, the first far more often than the last.
    pub(crate) fn skewed<'s, S: AsRef<str>>(&mut self, from: &'s [S]) -> &'s str {
        let place = self.below(from.len());
        let place = self.below(place + 1);
        from.get(place).map_or("", AsRef::as_ref)
    }

    /// This many different ones, in random order.
    pub(crate) fn some(&mut self, from: &[&str], count: usize) -> Vec<String> {
        let mut left: Vec<&str> = from.to_vec();
        let mut chosen = Vec::new();
        while chosen.len() < count && !left.is_empty() {
            let place = self.below(left.len());
            chosen.push(left.swap_remove(place).to_owned());
        }
        chosen
    }

    /// A word that no dictionary has.
    pub(crate) fn name(&mut self) -> String {
        let syllables = self.between(2, 3);
        (0..syllables).map(|_| self.pick(&SYLLABLES)).collect()
    }

    /// Hexadecimal digits.
    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let blocks = (0..digits.div_ceil(16)).map(|_| format!("{:016x}", self.draw()));
        let mut text: String = blocks.collect();
        text.truncate(digits);
        text
    }

    /// Letters and digits as base64 has them.
    pub(crate) fn base64(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let letter = |place: usize| LETTERS.get(place).copied().map_or('A', char::from);
        (0..length)
            .map(|_| letter(self.below(LETTERS.len())))
            .collect()
    }
}
