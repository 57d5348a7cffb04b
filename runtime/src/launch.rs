//! A launch as the checks hand it to a device: plain numbers, and why the entry before it was passed over.

use std::fmt;

use crate::error::OperandName;

/// One kernel argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    U32(u32),
    U64(u64),
    I32(i32),
    F32(f32),
    F64(f64),
}

/// A launch that has passed every check: the kernels of one entry, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Launch {
    /// Index into the interface's entries.
    pub(crate) entry: usize,
    /// What each of the entry's kernels is started with, in its order.
    pub(crate) kernels: Vec<Start>,
    /// Why the entry before this one did not suit; in words when somebody asks.
    pub(crate) unsuited: Unsuited,
}

/// What one kernel is started with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Start {
    /// Blocks, along x.
    pub(crate) grid: u32,
    /// Arguments in the order of its parameters.
    pub(crate) args: Vec<Value>,
}

impl Launch {
    /// Blocks of the kernel that writes D: the last one.
    pub(crate) fn blocks(&self) -> u32 {
        self.kernels.last().map_or(0, |start| start.grid)
    }
}

/// Why an entry does not suit some operands: for each of the four what it fails, then the extent that does not divide.
///
/// Plain values: a launch that is ready allocates nothing for an entry that it passed over.
pub(crate) type Unsuited = [Option<Fault>; 5];

/// A requirement of an entry that is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Ld { operand: OperandName, ld: usize, width: u32 },
    Stride { operand: OperandName, stride: usize, width: u32 },
    Address { operand: OperandName, address: u64, bytes: u32 },
    Extent { name: &'static str, got: u64, tile: u32 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Ld { operand, ld, width } => {
                write!(f, "ld{} = {ld} is not a multiple of {width}", operand.lower())
            }
            Fault::Stride { operand, stride, width } => {
                write!(f, "the stride of {}'s matrices, {stride}, is not a multiple of {width}", operand.upper())
            }
            Fault::Address { operand, address, bytes } => {
                write!(f, "{} at {address:#x} is not aligned to {bytes} bytes", operand.upper())
            }
            Fault::Extent { name, got, tile } => write!(f, "{name} = {got} is not a multiple of {tile}"),
        }
    }
}
