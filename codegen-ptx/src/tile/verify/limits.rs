//! Limits of one access, one thread and one unrolled body.

use ptx_gemm_dsl::terms::Swizzle;

use crate::tile::Map;

/// Most bytes of one access.
pub(super) const MAX_ACCESS_BYTES: u32 = 16;

/// Largest extent of a tile along one dimension.
pub(super) const MAX_EXTENT: u32 = 32_768;

/// Most fused multiply-adds of a thread in one unrolled body: far more than fit an instruction cache, but few enough to
/// compile.
pub(super) const MAX_PRODUCTS: u32 = 32_768;

/// Number of adjacent elements that a thread holds along m or n, which limits the width of a vector access.
pub(super) fn run(map: &Map, along_n: bool) -> u32 {
    let mut digits: Vec<(u32, u32)> =
        map.element.iter().map(|d| (if along_n { d.n } else { d.m }, d.extent)).filter(|(step, _)| *step > 0).collect();
    digits.sort_unstable();
    digits.into_iter().fold(1, |run, (step, extent)| if step == run { run * extent } else { run })
}

/// Whether vector accesses of this width exist.
pub(super) fn vector(width: u32, element_bytes: u32) -> bool {
    width.is_power_of_two() && width.saturating_mul(element_bytes) <= MAX_ACCESS_BYTES
}

/// The alignment of a slot: 16 bytes for the widest access, or the period of a swizzle, which is eight rows of its
/// span.
pub(super) fn alignment(swizzle: Swizzle) -> u32 {
    match swizzle {
        Swizzle::None => MAX_ACCESS_BYTES,
        Swizzle::Bytes(span) => 8 * span,
    }
}
