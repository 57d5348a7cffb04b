//! `cp.async`: copies that are under way, and the groups they were committed to.
//!
//! With the checks on a copy lands when its thread waits for it, or anybody for the mbarrier that it arrives at: the latest
//! moment that the ISA allows, so that a kernel that waits too little reads what was there before. With the checks off it
//! lands at once.

use crate::row::LANES;

/// One instruction's copies.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Lanes whose copy has not landed.
    pub(crate) mask: u32,
    /// Group of each lane, counted from the start of the kernel.
    group: [u32; LANES],
    /// Offset in shared memory.
    pub(crate) offset: [u32; LANES],
    pub(crate) data: [[u8; 16]; LANES],
    /// A bit per byte of the data that holds a value.
    pub(crate) written: [u16; LANES],
    pub(crate) bytes: u8,
    /// Number of the instruction among the warp's copies.
    number: u32,
}

/// A warp's copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    pending: Vec<Pending>,
    /// Groups that each lane has committed.
    committed: [u32; LANES],
    started: u32,
    /// How many of them an mbarrier waits for, by lane.
    tracked: [u32; LANES],
}

impl Copies {
    pub(crate) fn reset(&mut self) {
        self.pending.clear();
        self.committed = [0; LANES];
        (self.started, self.tracked) = (0, [0; LANES]);
    }

    pub(crate) fn start(
        &mut self,
        mask: u32,
        offset: [u32; LANES],
        data: [[u8; 16]; LANES],
        written: [u16; LANES],
        bytes: u8,
    ) {
        let number = self.started;
        self.pending.push(Pending { mask, group: self.committed, offset, data, written, bytes, number });
        self.started += 1;
    }

    /// The copies that were started last.
    pub(crate) fn newest(&self) -> Option<&Pending> {
        self.pending.last()
    }

    pub(crate) fn commit(&mut self, active: u32) {
        for (lane, committed) in self.committed.iter_mut().enumerate() {
            *committed += active >> lane & 1;
        }
    }

    /// An mbarrier waits for what a lane has started; how many instructions that is.
    pub(crate) fn track(&mut self, lane: usize) -> u32 {
        self.tracked[lane] = self.started;
        self.started
    }

    /// Whether an mbarrier waits for a lane's part of a copy.
    pub(crate) fn is_tracked(&self, copy: &Pending, lane: usize) -> bool {
        copy.number < self.tracked[lane]
    }

    /// Takes what the active lanes wait for: groups older than the newest `pending`, or everything.
    pub(crate) fn wait(&mut self, active: u32, pending: Option<u32>) -> Vec<Pending> {
        let committed = self.committed;
        let old =
            |copy: &Pending, lane: usize| pending.is_none_or(|pending| copy.group[lane] + pending < committed[lane]);
        self.take(active, old)
    }

    /// Takes those of the lanes' copies that were among the first `started` instructions.
    pub(crate) fn land_first(&mut self, lanes: u32, started: u32) -> Vec<Pending> {
        self.take(lanes, |copy, _| copy.number < started)
    }

    fn take(&mut self, active: u32, due: impl Fn(&Pending, usize) -> bool) -> Vec<Pending> {
        let mut landed = Vec::new();
        self.pending.retain_mut(|copy| {
            let lands = (0..LANES).filter(|lane| copy.mask & active & 1 << lane != 0 && due(copy, *lane));
            let lands = lands.fold(0u32, |mask, lane| mask | 1 << lane);
            if lands != 0 {
                landed.push(Pending { mask: lands, ..copy.clone() });
                copy.mask &= !lands;
            }
            copy.mask != 0
        });
        landed
    }
}
