//! Modifiers of mbarriers, bulk copies, tensor copies and cache policies.

use crate::names::words;

/// What an arrival on an mbarrier does in addition to arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// Nothing else.
    Plain,
    /// `.expect_tx`: it also announces bytes that are still to come.
    ExpectTx,
    /// `.noComplete`: the program promises that it does not complete the phase.
    NoComplete,
}

words!(Arrival { Plain "", ExpectTx "expect_tx", NoComplete "noComplete" });

/// How `mbarrier.expect_tx` and `mbarrier.complete_tx` change the number of bytes that a phase waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// More bytes are expected.
    Expect,
    /// That many bytes have arrived.
    Complete,
}

/// Whether a wait on an mbarrier may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// `test_wait` returns at once.
    Test,
    /// `try_wait` may suspend the thread for a limited time.
    Try,
}

/// How a wait names its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// By the state that the arrival returned.
    State,
    /// By the phase's parity.
    Parity,
}

words!(Phase { State "", Parity "parity" });

/// Whether `cp.async.mbarrier.arrive` counts among the arrivals that the barrier was initialised with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pending {
    /// It first adds one more arrival to the count.
    Added,
    /// `.noinc`: it is one of those expected.
    Noinc,
}

words!(Pending { Added "", Noinc "noinc" });

/// What `cp.async.bulk.wait_group` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkDone {
    /// The whole copy.
    Written,
    /// `.read`: only the reads, after which the source may be overwritten.
    Read,
}

words!(BulkDone { Written "", Read "read" });

/// Whether one load fills the shared memory of several blocks of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Multicast {
    None,
    Cluster,
}

words!(Multicast { None "", Cluster "multicast::cluster" });

/// Whether the last operand is a cache policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum CacheHint {
    None,
    L2,
}

words!(CacheHint { None "", L2 "L2::cache_hint" });

/// Size of the aligned piece of memory that a load or copy also brings into the L2 cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum PrefetchSize {
    None,
    B64,
    B128,
    B256,
}

words!(PrefetchSize { None "", B64 "L2::64B", B128 "L2::128B", B256 "L2::256B" });

/// How a tensor copy traverses its tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum TensorMode {
    Tile,
    Im2col,
    Im2colNoOffs,
}

words!(TensorMode { Tile "tile", Im2col "im2col", Im2colNoOffs "im2col_no_offs" });

/// What `prefetch` fetches, and into which cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Prefetched {
    L1,
    L2,
    Tensormap,
}

words!(Prefetched { L1 "L1", L2 "L2", Tensormap "tensormap" });

/// Eviction priority in a cache policy. With `Unstated` as the second one, the policy does not name a priority for the
/// remaining accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Eviction {
    Unstated,
    First,
    Last,
    Normal,
    Unchanged,
}

words!(Eviction {
    Unstated "", First "L2::evict_first", Last "L2::evict_last", Normal "L2::evict_normal",
    Unchanged "L2::evict_unchanged",
});

/// A field of a tensor map that `tensormap.replace` replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum MapField {
    GlobalAddress,
    Rank,
    BoxDim,
    GlobalDim,
    GlobalStride,
    ElementStride,
    ElementType,
    Interleave,
    Swizzle,
    Fill,
}

words!(MapField {
    GlobalAddress "global_address", Rank "rank", BoxDim "box_dim", GlobalDim "global_dim",
    GlobalStride "global_stride", ElementStride "element_stride", ElementType "elemtype",
    Interleave "interleave_layout", Swizzle "swizzle_mode", Fill "fill_mode",
});

impl MapField {
    /// Whether it has a value for each dimension; the instruction then names one.
    pub fn has_ordinal(self) -> bool {
        matches!(self, MapField::BoxDim | MapField::GlobalDim | MapField::GlobalStride | MapField::ElementStride)
    }

    /// Whether its value has 64 bits.
    pub fn is_wide(self) -> bool {
        matches!(self, MapField::GlobalAddress | MapField::GlobalStride)
    }
}
