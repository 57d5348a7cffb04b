//! Decoded instructions of other compilers that have several destinations, or wait for other warps.

use ptx_gemm_ptx::extended::BarReduction;
use ptx_gemm_ptx::types::Type;

use super::{BinPred, Cmp, P, R32, R64, Slot};

/// An instruction with several destinations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rare {
    /// A comparison combined with a predicate: `d` is the result, and `q` that of the opposite comparison.
    SetWith { cmp: Cmp, ty: Type, with: BinPred, d: P, q: P, sources: [Slot; 2], c: Condition },
    /// A table of three bits: `d` is the table's result for each bit, and `p` says whether any bit is set, combined
    /// with a predicate.
    Lookup { d: R32, p: P, sources: [R32; 3], table: u8, with: BinPred, c: Condition },
    /// Four halves of 16 bits, the lowest first.
    Unpack4 { parts: [R32; 4], a: R64 },
    /// 128 bits, the lower half first.
    Move128 { d: [R64; 2], a: [R64; 2] },
}

/// A predicate, possibly negated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub(crate) p: P,
    pub(crate) negated: bool,
}

/// A barrier at which the block counts predicates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierReduce {
    pub(crate) id: R32,
    pub(crate) count: Option<R32>,
    pub(crate) op: BarReduction,
    pub(crate) d: Slot,
    pub(crate) condition: Condition,
}
