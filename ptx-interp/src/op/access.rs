//! Decoded loads, stores, atomics and asynchronous copies.

use ptx_gemm_ptx::instruction::{self, Atomic, Order};
use ptx_gemm_ptx::types::Type;

use super::Slot;
use crate::address::Place;
use crate::flags::Scope;

/// A load, store or atomic.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Generic addresses are told apart lane by lane.
    pub(crate) place: Option<Place>,
    pub(crate) base: Slot,
    pub(crate) offset: i64,
    /// Bytes of one element: 1, 2, 4 or 8.
    pub(crate) bytes: u8,
    /// Sign-extends into a wider register.
    pub(crate) signed: bool,
    /// Absent for a weak access. A strong one may be polled.
    pub(crate) strong: Option<Strong>,
    /// What is loaded or stored, one per element; for atomics the destination.
    pub(crate) values: [Slot; 4],
    /// Elements.
    pub(crate) count: u8,
    pub(crate) shape: Shape,
    pub(crate) atomic: Option<AtomicOp>,
    pub(crate) copy: Option<AsyncCopy>,
}

impl Access {
    /// Whether blocks may tell each other something by it.
    pub(crate) fn may_communicate(&self) -> bool {
        self.strong.is_some() && matches!(self.place, None | Some(Place::Global))
    }

    /// Bytes that a lane touches.
    pub(crate) fn span(&self) -> u64 {
        match &self.copy {
            Some(copy) => u64::from(copy.bytes),
            None => u64::from(self.bytes) * u64::from(self.count),
        }
    }
}

/// What a strong access orders, and whom it includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strong {
    pub(crate) scope: Scope,
    pub(crate) acquires: bool,
    pub(crate) releases: bool,
    pub(crate) volatile: bool,
    pub(crate) atomic: bool,
}

impl Strong {
    const RELAXED: Strong =
        Strong { scope: Scope::Gpu, acquires: false, releases: false, volatile: false, atomic: false };

    /// The ordering of a load or store.
    pub(crate) fn of(order: Order) -> Option<Strong> {
        let strong = |of: instruction::Scope| Strong { scope: scope(of), ..Strong::RELAXED };
        Some(match order {
            Order::Weak => return None,
            // Relaxed, for the whole system.
            Order::Volatile => Strong { volatile: true, ..Strong::RELAXED },
            Order::Relaxed(of) => strong(of),
            Order::Acquire(of) => Strong { acquires: true, ..strong(of) },
            Order::Release(of) => Strong { releases: true, ..strong(of) },
            Order::AcqRel(of) => Strong { acquires: true, releases: true, ..strong(of) },
        })
    }

    /// The ordering of an atomic, which is relaxed for the whole device if it does not say.
    pub(crate) fn of_atomic(order: Order) -> Strong {
        Strong { atomic: true, ..Strong::of(order).unwrap_or(Strong::RELAXED) }
    }
}

/// Every block is a cluster of its own.
pub(crate) fn scope(of: instruction::Scope) -> Scope {
    match of {
        instruction::Scope::Cta | instruction::Scope::Cluster => Scope::Cta,
        instruction::Scope::Gpu | instruction::Scope::Sys => Scope::Gpu,
    }
}

/// Whether the elements are what the fast paths are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 4-byte elements in 32-bit registers.
    Words,
    /// 8-byte elements in 64-bit registers.
    Doubles,
    Odd,
}

/// `atom` or `red`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomicOp {
    pub(crate) op: Atomic,
    pub(crate) ty: Type,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
}

/// `cp.async`: the access is its destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsyncCopy {
    pub(crate) source: Slot,
    pub(crate) source_offset: i64,
    /// A generic source is told apart like any other address.
    pub(crate) source_place: Option<Place>,
    pub(crate) bytes: u8,
    /// Bytes that are really read; the rest is zero. A predicate says whether nothing is.
    pub(crate) source_bytes: Option<Slot>,
}
