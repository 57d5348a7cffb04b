//! Limits of one access, one thread and one unrolled body.

use ptx_gemm_dsl::target::MAX_ACCESS_BYTES;
use ptx_gemm_dsl::terms::Swizzle;

/// Most blocks of a cluster on every device with clusters (CUDA, "portable cluster size").
pub(super) const MAX_CLUSTER: u32 = 8;

/// Largest extent of a tile along one dimension.
pub(super) const MAX_EXTENT: u32 = 32_768;

/// Most fused multiply-adds of a thread in one unrolled body: far more than fit an instruction cache, but few enough to
/// compile.
pub(super) const MAX_PRODUCTS: u32 = 32_768;

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
