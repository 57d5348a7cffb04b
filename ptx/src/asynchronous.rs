//! Modifiers of mbarriers, bulk copies, tensor copies and cache policies.

use crate::names::words;

/// What an arrival on an mbarrier brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// Nothing but itself.
    Plain,
    /// `.expect_tx`: bytes that are still to come.
    ExpectTx,
}

words!(Arrival { Plain "", ExpectTx "expect_tx" });

/// How `mbarrier.expect_tx` and `mbarrier.complete_tx` change the bytes that a phase waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// More are to come.
    Expect,
    /// So many came.
    Complete,
}

/// How long a wait on an mbarrier may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// `test_wait` answers at once.
    Test,
    /// `try_wait` may suspend the thread for a while.
    Try,
}

/// How the phase that is waited for is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// By the state that the arrival returned.
    State,
    /// By its parity.
    Parity,
}

words!(Phase { State "", Parity "parity" });

/// Whether `cp.async.mbarrier.arrive` counts among the arrivals that the barrier was initialised with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pending {
    /// It adds an arrival of its own to the count first.
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
    /// `.read`: that the source may be overwritten.
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

/// Whether a cache policy is the last operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum CacheHint {
    None,
    L2,
}

words!(CacheHint { None "", L2 "L2::cache_hint" });

/// How much a load or copy brings into L2 beside what it asks for: the whole piece of so many bytes that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum PrefetchSize {
    None,
    B64,
    B128,
    B256,
}

words!(PrefetchSize { None "", B64 "L2::64B", B128 "L2::128B", B256 "L2::256B" });

/// How a tensor map is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum TensorMode {
    Tile,
    Im2col,
    Im2colNoOffs,
}

words!(TensorMode { Tile "tile", Im2col "im2col", Im2colNoOffs "im2col_no_offs" });

/// What `prefetch` brings closer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Prefetched {
    L1,
    L2,
    Tensormap,
}

words!(Prefetched { L1 "L1", L2 "L2", Tensormap "tensormap" });

/// Priority of eviction in a cache policy; `Unstated` as the second leaves out the rest of the accesses.
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
