//! Decoded loads, stores, atomics and asynchronous copies.

use ptx_gemm_ptx::instruction::Atomic;
use ptx_gemm_ptx::types::Type;

use super::Slot;
use crate::address::Place;

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
    /// Volatile, relaxed, acquire or release: may be polled.
    pub(crate) strong: bool,
    /// What is loaded or stored, one per element; for atomics the destination.
    pub(crate) values: [Slot; 4],
    /// Elements.
    pub(crate) count: u8,
    pub(crate) shape: Shape,
    pub(crate) atomic: Option<AtomicOp>,
    pub(crate) copy: Option<AsyncCopy>,
}

impl Access {
    /// Bytes that a lane touches.
    pub(crate) fn span(&self) -> u64 {
        match &self.copy {
            Some(copy) => u64::from(copy.bytes),
            None => u64::from(self.bytes) * u64::from(self.count),
        }
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
    /// Bytes that are really read; the rest is zero.
    pub(crate) source_bytes: Option<Slot>,
}
