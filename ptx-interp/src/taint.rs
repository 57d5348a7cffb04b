//! Tracks which lanes of which registers hold a value that was never written, and its origin.
//!
//! Such a value may be copied and computed with, but no decision may depend on it. Each register has a word with one
//! bit per lane, so that propagating taint through an instruction takes one or two operations, not 32.

use crate::op::{P, R32, R64, Slot};

/// Taint of a warp's registers: 32-bit slots, then 64-bit ones, then predicates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taint {
    masks: Vec<u32>,
    /// The origin of a tainted value: 0 for a register that was never written, otherwise the index of the load plus
    /// one.
    origins: Vec<u32>,
    slots32: usize,
    slots64: usize,
}

impl Taint {
    /// Taints all lanes in `exists` of all registers, including the constants, which the caller clears.
    pub(crate) fn reset(&mut self, slots32: u32, slots64: u32, preds: u32, exists: u32) {
        (self.slots32, self.slots64) = (slots32 as usize, slots64 as usize);
        let slots = self.slots32 + self.slots64 + preds as usize;
        self.masks.clear();
        self.masks.resize(slots, exists);
        self.origins.clear();
        self.origins.resize(slots, 0);
    }

    #[inline(always)]
    pub(crate) fn at32(&self, slot: R32) -> usize {
        slot.0 as usize
    }

    #[inline(always)]
    pub(crate) fn at64(&self, slot: R64) -> usize {
        self.slots32 + slot.0 as usize
    }

    #[inline(always)]
    pub(crate) fn at_pred(&self, slot: P) -> usize {
        self.slots32 + self.slots64 + slot.0 as usize
    }

    pub(crate) fn at(&self, slot: Slot) -> usize {
        match slot {
            Slot::R32(slot) => self.at32(slot),
            Slot::R64(slot) => self.at64(slot),
            Slot::P(slot) => self.at_pred(slot),
        }
    }

    #[inline(always)]
    pub(crate) fn mask(&self, at: usize) -> u32 {
        self.masks[at]
    }

    pub(crate) fn origin(&self, at: usize) -> u32 {
        self.origins[at]
    }

    /// Gives the active lanes of `d` the combined taint of the sources.
    #[inline(always)]
    pub(crate) fn flow<const N: usize>(&mut self, d: usize, sources: [usize; N], active: u32) {
        let mut from = 0;
        for source in sources {
            from |= self.masks[source];
        }
        self.masks[d] = self.masks[d] & !active | from & active;
        if from & active != 0 {
            self.remember(d, &sources, active);
        }
    }

    #[cold]
    fn remember(&mut self, d: usize, sources: &[usize], active: u32) {
        if let Some(&source) = sources.iter().find(|source| self.masks[**source] & active != 0) {
            self.origins[d] = self.origins[source];
        }
    }

    /// Gives the active lanes of `d` exactly this taint, which comes from `source`.
    pub(crate) fn assign(&mut self, d: usize, tainted: u32, source: usize, active: u32) {
        let origin = self.origins[source];
        self.masks[d] = self.masks[d] & !active | tainted & active;
        if tainted & active != 0 {
            self.origins[d] = origin;
        }
    }

    /// Records a load into the active lanes of `d`. For the lanes in `tainted`, instruction `pc` read bytes that were
    /// never written.
    pub(crate) fn load(&mut self, d: usize, tainted: u32, active: u32, pc: u32) {
        self.masks[d] = self.masks[d] & !active | tainted & active;
        if tainted & active != 0 {
            self.origins[d] = pc + 1;
        }
    }

    /// Gives the active lanes of `d` exactly this taint, with an origin.
    pub(crate) fn set(&mut self, d: usize, tainted: u32, origin: u32, active: u32) {
        self.masks[d] = self.masks[d] & !active | tainted & active;
        if tainted & active != 0 {
            self.origins[d] = origin;
        }
    }

    /// Marks a slot that holds values from the start; does nothing if taint is not tracked.
    pub(crate) fn define(&mut self, slot: Slot) {
        let at = self.at(slot);
        if let Some(mask) = self.masks.get_mut(at) {
            *mask = 0;
        }
    }

    /// Clears the taint of the active lanes of `d`.
    #[inline(always)]
    pub(crate) fn clear(&mut self, d: usize, active: u32) {
        self.masks[d] &= !active;
    }
}
