//! `cp.async`: copies that are under way, and the groups they were committed to.
//!
//! With the checks on a copy lands when its thread waits for it, the latest moment that the ISA allows, so that a kernel
//! that waits too little reads what was there before. With the checks off it lands at once.

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
}

/// A warp's copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    pending: Vec<Pending>,
    /// Groups that each lane has committed.
    committed: [u32; LANES],
}

impl Copies {
    pub(crate) fn reset(&mut self) {
        self.pending.clear();
        self.committed = [0; LANES];
    }

    pub(crate) fn start(
        &mut self,
        mask: u32,
        offset: [u32; LANES],
        data: [[u8; 16]; LANES],
        written: [u16; LANES],
        bytes: u8,
    ) {
        self.pending.push(Pending { mask, group: self.committed, offset, data, written, bytes });
    }

    pub(crate) fn commit(&mut self, active: u32) {
        for (lane, committed) in self.committed.iter_mut().enumerate() {
            *committed += active >> lane & 1;
        }
    }

    /// Takes what the active lanes wait for: groups older than the newest `pending`, or everything.
    pub(crate) fn wait(&mut self, active: u32, pending: Option<u32>) -> Vec<Pending> {
        let committed = self.committed;
        let mut landed = Vec::new();
        self.pending.retain_mut(|copy| {
            let old = |lane: usize| pending.is_none_or(|pending| copy.group[lane] + pending < committed[lane]);
            let lands = (0..LANES).filter(|lane| copy.mask & active & 1 << lane != 0 && old(*lane));
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
