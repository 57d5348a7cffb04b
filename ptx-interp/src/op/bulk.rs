//! Decoded bulk copies, the fences between proxies, and addresses within a cluster.

use ptx_gemm_ptx::asynchronous::MapField;
use ptx_gemm_ptx::instruction::Atomic;
use ptx_gemm_ptx::types::Type;

use super::{R32, Slot};
use crate::address::StateSpace;
use crate::flags::Scope;

/// An address operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer {
    /// `None` for a generic address.
    pub(crate) space: Option<StateSpace>,
    pub(crate) base: Slot,
    pub(crate) offset: i64,
}

/// Coordinates of a box.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coordinates {
    pub(crate) count: u8,
    pub(crate) at: [R32; 5],
}

/// The operation of a reduction, and its element type.
pub(crate) type Reduce = (Atomic, Type);

/// A bulk copy or related instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bulk {
    /// Into shared memory, from global or shared memory.
    Load {
        to: Pointer,
        from: Pointer,
        bytes: R32,
        barrier: Pointer,
        multicast: Option<R32>,
        reduce: Option<Reduce>,
    },
    /// From shared to global memory.
    Store {
        to: Pointer,
        from: Pointer,
        bytes: R32,
        reduce: Option<Reduce>,
    },
    /// `st.async` and `red.async`: registers to shared memory.
    Values {
        to: Pointer,
        barrier: Pointer,
        values: [Slot; 4],
        count: u8,
        /// Bytes of each value.
        bytes: u8,
        reduce: Option<Reduce>,
    },
    TensorLoad {
        to: Pointer,
        map: Pointer,
        coordinates: Coordinates,
        barrier: Pointer,
        multicast: Option<R32>,
    },
    TensorStore {
        map: Pointer,
        coordinates: Coordinates,
        from: Pointer,
        reduce: Option<Atomic>,
    },
    Prefetch {
        from: Pointer,
        bytes: R32,
    },
    TensorPrefetch {
        map: Pointer,
        coordinates: Coordinates,
    },
    PrefetchMap {
        map: Pointer,
    },
    Commit,
    /// `read` waits only until the sources have been read.
    Wait {
        pending: u32,
        read: bool,
    },
    FenceProxy {
        shared: bool,
        global: bool,
    },
    FenceInit,
    /// `tensormap.replace`; the value has 64 bits for some fields.
    ReplaceField {
        map: Pointer,
        field: MapField,
        ordinal: u8,
        value: Slot,
    },
    /// `tensormap.cp_fenceproxy`.
    CopyMap {
        to: Pointer,
        from: Pointer,
        scope: Scope,
    },
    /// `fence.proxy.tensormap::generic`; an acquire names the map.
    FenceMap {
        scope: Scope,
        acquired: Option<Pointer>,
    },
    /// `mapa`: the address of the same byte in another block of the cluster.
    Map {
        d: Slot,
        a: Slot,
        rank: R32,
        space: Option<StateSpace>,
    },
    /// `getctarank`.
    Rank {
        d: Slot,
        a: Slot,
        space: Option<StateSpace>,
    },
}

impl Bulk {
    /// Whether it copies from global memory.
    pub(crate) fn reads_global(&self) -> bool {
        match self {
            Bulk::Load { from, .. } => from.space == Some(StateSpace::Global),
            Bulk::TensorLoad { .. } => true,
            _ => false,
        }
    }

    /// Whether it moves bytes.
    pub(crate) fn copies(&self) -> bool {
        matches!(
            self,
            Bulk::Load { .. }
                | Bulk::Values { .. }
                | Bulk::TensorLoad { .. }
                | Bulk::Store { .. }
                | Bulk::TensorStore { .. }
        )
    }

    /// Whether the threads of a warp execute it together.
    pub(crate) fn is_aligned(&self) -> bool {
        matches!(self, Bulk::CopyMap { .. })
    }

    /// Whether blocks may communicate through it: reductions are atomics.
    pub(crate) fn may_communicate(&self) -> bool {
        matches!(self, Bulk::Store { reduce: Some(_), .. } | Bulk::TensorStore { reduce: Some(_), .. })
    }
}
