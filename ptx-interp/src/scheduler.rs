//! The order in which the warps of a cluster run, and the length of each turn.

use crate::options::WarpOrder;

/// Logarithm of the longest random turn, which has one instruction less than two to the power of this.
const LONGEST: u64 = 12;

/// A warp is held up for at most this many rounds, in case the others wait for it by writing.
const LONGEST_HOLD: u32 = 256;
/// Most instructions per turn of another warp meanwhile, in case it waits with a plain load.
const TURN_WHILE_HELD: u64 = 1 << LONGEST;

/// Schedules the warps of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    order: WarpOrder,
    /// Warps in the order of this round.
    warps: Vec<usize>,
    random: u64,
    /// The warp that is held up, and the number of rounds since.
    held: Option<usize>,
    rounds: u32,
    /// Length of the longest turn.
    longest: u64,
}

impl Scheduler {
    /// Restarts for cluster `block` with `warps` warps.
    pub(crate) fn reset(&mut self, order: WarpOrder, warps: usize, block: u64, longest: u64) {
        (self.order, self.longest) = (order, longest);
        self.warps.clear();
        match order {
            WarpOrder::Backward => self.warps.extend((0..warps).rev()),
            _ => self.warps.extend(0..warps),
        }
        (self.held, self.rounds) = (None, 0);
        if let WarpOrder::Seeded(seed) | WarpOrder::Late(seed) = order {
            // Consecutive seeds, and the clusters of one launch, have unrelated orders.
            self.random =
                seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ block.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
    }

    /// Starts a round, in which every warp gets a turn, except one that is held up. A random order is drawn again each
    /// time. `quiet`: no warp synchronised with others, or wrote something, in the last round.
    pub(crate) fn begin_round(&mut self, quiet: bool) {
        match self.order {
            WarpOrder::Seeded(_) => {
                for last in (1..self.warps.len()).rev() {
                    let pick = self.next_random() as usize % (last + 1);
                    self.warps.swap(last, pick);
                }
            }
            WarpOrder::Late(_) if self.held.is_none() => {
                let pick = self.next_random() as usize % self.warps.len();
                (self.held, self.rounds) = (Some(pick), 0);
            }
            WarpOrder::Late(_) if quiet || self.rounds == LONGEST_HOLD => self.held = None,
            WarpOrder::Late(_) => self.rounds += 1,
            WarpOrder::RunToBarrier | WarpOrder::Forward | WarpOrder::Backward => {}
        }
    }

    /// Whether a warp has no turn in this round.
    pub(crate) fn holds(&self, warp: usize) -> bool {
        self.held == Some(warp)
    }

    /// The warp with turn number `turn` of this round.
    pub(crate) fn warp(&self, turn: usize) -> usize {
        self.warps[turn]
    }

    /// Most instructions of the next turn. Random turns have lengths of every order of magnitude, so that warps
    /// alternate within a few instructions and also get far ahead of each other.
    pub(crate) fn length(&mut self) -> u64 {
        match self.order {
            WarpOrder::RunToBarrier => self.longest,
            WarpOrder::Late(_) => self.longest.min(TURN_WHILE_HELD),
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
