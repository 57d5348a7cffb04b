//! The order in which the warps of a cluster run, and the length of each turn.

use crate::options::WarpOrder;

/// Logarithm of the longest random turn: it has one instruction less than two to the power of this.
const LONGEST: u64 = 12;

/// The turns of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    order: WarpOrder,
    /// Warps in the order of this round.
    warps: Vec<usize>,
    random: u64,
    /// Length of the longest turn.
    longest: u64,
}

impl Turns {
    /// Restarts for cluster `block` with `warps` warps.
    pub(crate) fn reset(&mut self, order: WarpOrder, warps: usize, block: u64, longest: u64) {
        (self.order, self.longest) = (order, longest);
        self.warps.clear();
        match order {
            WarpOrder::Backward => self.warps.extend((0..warps).rev()),
            _ => self.warps.extend(0..warps),
        }
        if let WarpOrder::Seeded(seed) = order {
            // Consecutive seeds, and the clusters of one launch, have unrelated orders.
            self.random =
                seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ block.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
    }

    /// Starts a round, in which every warp gets a turn. A random order is drawn again each time.
    pub(crate) fn begin_round(&mut self) {
        if let WarpOrder::Seeded(_) = self.order {
            for last in (1..self.warps.len()).rev() {
                let pick = self.next_random() as usize % (last + 1);
                self.warps.swap(last, pick);
            }
        }
    }

    /// The warp that has turn number `turn` of this round.
    pub(crate) fn warp(&self, turn: usize) -> usize {
        self.warps[turn]
    }

    /// Most instructions of the next turn. Random turns have lengths of every order of magnitude, so that warps
    /// alternate within a few instructions and also get far ahead of each other.
    pub(crate) fn length(&mut self) -> u64 {
        match self.order {
            WarpOrder::RunToBarrier => self.longest,
            WarpOrder::Forward | WarpOrder::Backward => 1,
            WarpOrder::Seeded(_) => {
                let most = 1 << (1 + self.next_random() % LONGEST);
                1 + self.next_random() % (most - 1)
            }
        }
    }

    /// xorshift64*: sufficient to choose an order, and identical on every host.
    fn next_random(&mut self) -> u64 {
        let mut x = self.random | 1;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }
}
