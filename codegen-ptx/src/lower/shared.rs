//! Addresses in shared memory, plain and swizzled.
//!
//! A plain address is one register plus a constant, so that accesses with the same thread pattern share the register. A
//! swizzle is an XOR of address bits; a constant may be split off only if it leaves those bits unchanged, that is, if
//! it is a multiple of its [`SWIZZLE_PERIOD`] in bytes. Every other distance has its own register.

use ptx_gemm_dsl::target::SWIZZLE_PERIOD;
use ptx_gemm_dsl::terms::Swizzle;

use super::{Lowered, broken};
use crate::kernel::Expr;
use crate::kernel::build::Builder;

/// An address in slot 0 that depends on the thread, and the constant distances from it at which accesses are made.
#[derive(Clone)]
pub(super) struct SharedAddress {
    swizzle: Swizzle,
    /// Constant part of the address in bytes, in addition to the distance.
    constant: u32,
    /// Per distance modulo the period (only 0 without a swizzle): the register part of the address.
    at: Vec<(u32, Expr)>,
}

impl SharedAddress {
    /// The address at byte `start + offset` of shared memory, prepared for the given distances.
    pub(super) fn new(
        b: &mut Builder,
        start: u32,
        offset: Expr,
        swizzle: Swizzle,
        distances: impl IntoIterator<Item = u32>,
    ) -> Self {
        if swizzle == Swizzle::None {
            return SharedAddress { swizzle, constant: start, at: vec![(0, b.set(Expr::SharedBase + offset))] };
        }
        let offset = b.set(offset + start);
        let mut residues: Vec<u32> = distances.into_iter().map(|d| d % SWIZZLE_PERIOD).collect();
        residues.sort_unstable();
        residues.dedup();
        let at = residues
            .into_iter()
            .map(|residue| {
                let permuted = (offset.clone() + residue).swizzle(swizzle);
                (residue, b.set(Expr::SharedBase + permuted))
            })
            .collect();
        SharedAddress { swizzle, constant: 0, at }
    }

    /// The same address in another slot; `slot` is a multiple of the period.
    pub(super) fn in_slot(&self, b: &mut Builder, slot: &Expr) -> Self {
        let at = self.at.iter().map(|(residue, base)| (*residue, b.set(base.clone() + slot.clone()))).collect();
        SharedAddress { at, ..*self }
    }

    /// Base register and constant offset of one of the prepared distances.
    pub(super) fn at(&self, distance: u32) -> Lowered<(Expr, u32)> {
        let residue = if self.swizzle == Swizzle::None { 0 } else { distance % SWIZZLE_PERIOD };
        let found = self.at.iter().find(|(r, _)| *r == residue);
        let (_, base) = found.ok_or_else(|| broken(format!("no shared address was prepared for byte {distance}")))?;
        Ok((base.clone(), self.constant + distance - residue))
    }
}
