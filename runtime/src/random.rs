//! Reproducible random numbers: the same seed gives the same data on every machine and in every version.

/// SplitMix64 (Steele, Lea and Flood, 2014): a counter with a fixed increment and a mixing function. It is small,
/// equally good from every seed, and needs no warm-up.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The sequence for `seed`.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64 { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A multiple of 2^-52 in [-1, 1). Rounded to a narrower type, it uses the full width of that type at every
    /// magnitude, which exposes a kernel that computes in a narrower one.
    pub fn next_signed(&mut self) -> f64 {
        let bits = (self.next_u64() >> 11) as i64;
        (bits - (1 << 52)) as f64 / (1u64 << 52) as f64
    }

    /// A number in `low..=high`; `low` if the range is empty.
    pub fn next_in(&mut self, low: i64, high: i64) -> i64 {
        let span = high.saturating_sub(low).saturating_add(1).max(1) as u64;
        low + (self.next_u64() % span) as i64
    }
}
