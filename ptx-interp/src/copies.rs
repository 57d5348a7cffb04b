//! `cp.async`: copies in flight, and the groups to which they were committed.
//!
//! With the checks on, a copy completes when its thread waits for it, or when any thread waits for the mbarrier at
//! which it arrives. This is the latest time that the ISA allows, so a kernel with a missing wait reads old values.
//! With the checks off, it completes at once.

use crate::row::LANES;

/// The copies of one instruction.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Lanes that still have a copy in flight.
    pub(crate) mask: u32,
    /// Group of each lane, counted from the start of the kernel.
    group: [u32; LANES],
    /// Offset in shared memory.
    pub(crate) offset: [u32; LANES],
    pub(crate) data: [[u8; 16]; LANES],
    /// One bit per byte of the data that holds a value.
    pub(crate) written: [u16; LANES],
    pub(crate) bytes: u8,
    /// Index of the instruction among the warp's copies.
    number: u32,
}

/// A warp's copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    pending: Vec<Pending>,
    /// Number of groups that each lane has committed.
    committed: [u32; LANES],
    started: u32,
    /// By lane, the number of instructions that an mbarrier waits for.
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

    /// Makes an mbarrier wait for what a lane has started; returns the number of instructions.
    pub(crate) fn track(&mut self, lane: usize) -> u32 {
        self.tracked[lane] = self.started;
        self.started
    }

    /// Whether an mbarrier waits for a lane's part of a copy.
    pub(crate) fn is_tracked(&self, copy: &Pending, lane: usize) -> bool {
        copy.number < self.tracked[lane]
    }

    /// Removes what the active lanes wait for: groups older than the newest `pending`, or everything.
    pub(crate) fn wait(&mut self, active: u32, pending: Option<u32>) -> Vec<Pending> {
        let committed = self.committed;
        let old =
            |copy: &Pending, lane: usize| pending.is_none_or(|pending| copy.group[lane] + pending < committed[lane]);
        self.take(active, old)
    }

    /// Removes those copies of the lanes that belong to the first `started` instructions.
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
