//! One register of a whole warp: 32 contiguous lanes, so that an instruction is one short loop that vectorises.

/// Threads in a warp.
pub(crate) const LANES: usize = 32;

/// A register of up to 32 bits (zero-extended) in every lane. The alignment keeps vector loads inside one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Row32(pub(crate) [u32; LANES]);

/// A 64-bit register of every lane.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Row64(pub(crate) [u64; LANES]);

impl Row32 {
    pub(crate) const ZERO: Row32 = Row32([0; LANES]);
}

impl Row64 {
    pub(crate) const ZERO: Row64 = Row64([0; LANES]);
}

/// The lanes in a mask, in ascending order.
pub(crate) fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let lane = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(lane)
    })
}
