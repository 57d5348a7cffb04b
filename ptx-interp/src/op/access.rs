//! Decoded loads, stores, atomics and asynchronous copies.

use arrayvec::ArrayVec;
use ptx_gemm_ptx::instruction::{self, Atomic, Order};
use ptx_gemm_ptx::types::Type;

use super::Slot;
use crate::address::StateSpace;
use crate::flags::Scope;

/// A load, store or atomic.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// `None` for a generic address, which is resolved lane by lane.
    pub(crate) space: Option<StateSpace>,
    pub(crate) base: Slot,
    pub(crate) offset: i64,
    /// Bytes per element: 1, 2, 4 or 8.
    pub(crate) bytes: u8,
    /// Sign-extends into a wider register.
    pub(crate) signed: bool,
    /// `.nc`: a read of memory that nothing writes during the launch.
    pub(crate) read_only: bool,
    /// `None` for a weak access. A strong one may be polled.
    pub(crate) strong: Option<Strong>,
    /// The registers that are loaded or stored, one per element; atomics have their own.
    pub(crate) values: [Slot; 8],
    /// Number of elements.
    pub(crate) count: u8,
    pub(crate) shape: Shape,
    pub(crate) atomic: Option<Box<AtomicOp>>,
    pub(crate) copy: Option<AsyncCopy>,
}

impl Access {
    /// Whether blocks may communicate through it.
    pub(crate) fn may_communicate(&self) -> bool {
        self.strong.is_some() && matches!(self.space, None | Some(StateSpace::Global))
    }

    /// Number of bytes that a lane accesses.
    pub(crate) fn span(&self) -> u64 {
        match &self.copy {
            Some(copy) => u64::from(copy.bytes),
            None => u64::from(self.bytes) * u64::from(self.count),
        }
    }
}

/// The order that a strong access establishes, and the threads that it includes.
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
            // Relaxed, at system scope.
            Order::Volatile => Strong { volatile: true, ..Strong::RELAXED },
            Order::Relaxed(of) => strong(of),
            Order::Acquire(of) => Strong { acquires: true, ..strong(of) },
            Order::Release(of) => Strong { releases: true, ..strong(of) },
            Order::AcqRel(of) => Strong { acquires: true, releases: true, ..strong(of) },
        })
    }

    /// The ordering of an atomic, which is relaxed at device scope if unstated.
    pub(crate) fn of_atomic(order: Order) -> Strong {
        Strong { atomic: true, ..Strong::of(order).unwrap_or(Strong::RELAXED) }
    }
}

/// The scope as the interpreter distinguishes it.
pub(crate) fn scope(of: instruction::Scope) -> Scope {
    match of {
        instruction::Scope::Cta => Scope::Cta,
        instruction::Scope::Cluster => Scope::Cluster,
        instruction::Scope::Gpu | instruction::Scope::Sys => Scope::Gpu,
    }
}

/// Whether the elements have a form that the fast paths handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 4-byte elements in 32-bit registers.
    Words,
    /// 8-byte elements in 64-bit registers.
    Doubles,
    Odd,
}

/// `atom` or `red`.
#[derive(Clone, Debug)]
pub(crate) struct AtomicOp {
    pub(crate) op: Atomic,
    pub(crate) ty: Type,
    /// For each element of the vector, or each half of a number of 128 bits.
    pub(crate) elements: ArrayVec<AtomicElement, 8>,
}

/// The registers of one element of an atomic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomicElement {
    pub(crate) d: Slot,
    pub(crate) b: Slot,
    /// The new value of an element that equals the operand; the operand if there is none.
    pub(crate) c: Slot,
}

/// `cp.async`; the access describes its destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsyncCopy {
    pub(crate) source: Slot,
    pub(crate) source_offset: i64,
    /// `None` for a generic source address, which is resolved like any other.
    pub(crate) source_space: Option<StateSpace>,
    pub(crate) bytes: u8,
    /// Number of bytes that are read; the rest are zero. A predicate instead says whether none are read.
    pub(crate) source_bytes: Option<Slot>,
}
