//! In which order the warps of a block take turns, and how long each turn is.

use crate::options::WarpOrder;

/// The longest random turn is one instruction less than two to the power of this.
const LONGEST: u64 = 12;

/// The turns of one block.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    order: WarpOrder,
    /// Warps in the order of this round.
    warps: Vec<usize>,
    random: u64,
    /// The longest turn there is.
    longest: u64,
}

impl Turns {
    /// Begins anew, for block number `block` with so many warps.
    pub(crate) fn reset(&mut self, order: WarpOrder, warps: usize, block: u64, longest: u64) {
        (self.order, self.longest) = (order, longest);
        self.warps.clear();
        match order {
            WarpOrder::Backward => self.warps.extend((0..warps).rev()),
            _ => self.warps.extend(0..warps),
        }
        if let WarpOrder::Seeded(seed) = order {
            // Consecutive seeds, and the blocks of one launch, have nothing in common.
            self.random =
                seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ block.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
    }

    /// Every warp is about to get a turn. A random order is another one each time.
    pub(crate) fn begin_round(&mut self) {
        if let WarpOrder::Seeded(_) = self.order {
            for last in (1..self.warps.len()).rev() {
                let pick = self.next_random() as usize % (last + 1);
                self.warps.swap(last, pick);
            }
        }
    }

    /// The warp whose turn is number `turn` of this round.
    pub(crate) fn warp(&self, turn: usize) -> usize {
        self.warps[turn]
    }

    /// How many instructions the next turn has at most. Random turns are of every order of magnitude, so that warps
    /// change places within a few instructions, and also get far ahead of each other.
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

    /// xorshift64*: good enough to pick an order, and the same everywhere.
    fn next_random(&mut self) -> u64 {
        let mut x = self.random | 1;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }
}
