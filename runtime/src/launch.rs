//! A launch as the checks pass it to a device: plain numbers, and why the entry before it was skipped.
//!
//! Until its workspace has an address, a launch has [`Argument`]s, some of which are still unknown. Only one with [`Value`]s runs.

use std::fmt;

use ptx_gemm_codegen::tile::interface::{Entry, Launched};
use ptx_gemm_dsl::terms::{Operand, Param};
use ptx_gemm_interp::TensorMapArgs;

use crate::checks::Extents;
use crate::error::{Error, OperandName};

/// One kernel argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    U32(u32),
    U64(u64),
    I32(i32),
    F32(f32),
    F64(f64),
    /// Boxed, so that the arguments of launches without one take little memory.
    Map(Box<MapBytes>),
}

/// An argument of a launch that has passed every check. Its workspace has no address yet, and no tensor map is encoded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    Known(Value),
    /// The map of an operand as it is. Boxed for the same reason.
    Map(Box<TensorMapArgs>),
    /// What this parameter takes depends on where the workspace is.
    InWorkspace(Param),
}

impl Value {
    pub(crate) fn map(bytes: [u8; 128]) -> Value {
        Value::Map(Box::new(MapBytes(bytes)))
    }
}

/// A tensor map, encoded for the device. The driver expects it at a multiple of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct MapBytes(pub(crate) [u8; 128]);

/// A launch that has passed every check: the kernels of one entry, in order, with arguments of type `A`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Launch<A = Value> {
    /// Index into the interface's entries.
    pub(crate) entry: usize,
    /// The operands that are copied into the workspace first.
    pub(crate) packed: Packed,
    /// The grid and arguments of each of the entry's kernels, in order.
    pub(crate) kernels: Vec<Start<A>>,
    /// The list of products that the workspace has to hold; otherwise empty.
    pub(crate) list: Vec<u8>,
    /// Byte offset of the list in the workspace, after the memory of a reduction.
    pub(crate) list_at: u64,
    /// Operands of these products that are copied into the workspace first.
    pub(crate) copies: Vec<Copied<A>>,
    /// Address and length of the bytes that must be set to zero right before, if other launches use the same memory.
    pub(crate) zero: Option<(u64, u64)>,
    /// Why the entry before this one was unsuitable; formatted on demand.
    pub(crate) unsuited: Unsuited,
    /// The product of the list that the entry was unsuitable for.
    pub(crate) unsuited_product: Option<usize>,
}

/// Whether A, and whether B, is copied into the workspace first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) a: bool,
    pub(crate) b: bool,
}

impl Packed {
    pub(crate) fn holds(self, operand: Operand) -> bool {
        match operand {
            Operand::A => self.a,
            Operand::B => self.b,
            Operand::C | Operand::D => false,
        }
    }
}

/// An operand of one product of a group that is copied into the workspace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Copied<A = Value> {
    /// Index of the product in the list, and its extents.
    pub(crate) record: usize,
    pub(crate) extents: Extents,
    /// A or B.
    pub(crate) operand: Operand,
    /// Byte offset of the copy, from the end of the list.
    pub(crate) offset: u64,
    /// Index of the kernel in the entry, its grid and its arguments.
    pub(crate) kernel: usize,
    pub(crate) start: Start<A>,
    /// Its bytes.
    pub(crate) bytes: u64,
}

/// The grid and arguments of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Start<A = Value> {
    /// Blocks, along x; 0 for a kernel that this launch does not need.
    pub(crate) grid: u32,
    /// Arguments in the order of its parameters.
    pub(crate) args: Vec<A>,
}

/// A launch before its workspace has an address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Checked {
    pub(crate) launch: Launch<Argument>,
    /// Tensor maps in the list of products, of operands as they are: byte offset, and what is encoded there.
    pub(crate) list_maps: Vec<(usize, TensorMapArgs)>,
}

impl Start<Argument> {
    /// The same with the values of its arguments.
    pub(crate) fn placed(
        &self,
        encode: &impl Fn(&TensorMapArgs) -> Result<[u8; 128], Error>,
        in_workspace: impl Fn(&Param) -> Result<Value, Error>,
    ) -> Result<Start, Error> {
        let value = |argument: &Argument| match argument {
            Argument::Known(value) => Ok(value.clone()),
            Argument::Map(args) => Ok(Value::map(encode(args)?)),
            Argument::InWorkspace(param) => in_workspace(param),
        };
        Ok(Start { grid: self.grid, args: self.args.iter().map(value).collect::<Result<_, Error>>()? })
    }
}

impl<A> Launch<A> {
    /// Address of the copies of a group's operands, which follow the list in a workspace at this address.
    pub(crate) fn first_copy(&self, workspace: u64) -> u64 {
        workspace + self.list_at + self.list.len() as u64
    }

    /// Size of the workspace that it needs, in bytes.
    pub(crate) fn workspace_bytes(&self, entry: &Entry, extents: Extents) -> u64 {
        let copies = self.copies.iter().fold(0u64, |bytes, copy| bytes.saturating_add(copy.bytes));
        self.workspace(extents, |launched| entry.workspace_bytes(launched)).saturating_add(copies)
    }

    /// Its kernels in order, each with its index in the entry; kernels that it does not need are left out.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (usize, &Start<A>)> {
        let copies = self.copies.iter().map(|copy| (copy.kernel, &copy.start));
        copies.chain(self.kernels.iter().enumerate()).filter(|(_, start)| start.grid > 0)
    }

    /// Size of the flags at the start of the workspace, in bytes.
    pub(crate) fn flag_bytes(&self, entry: &Entry, extents: Extents) -> u64 {
        self.workspace(extents, |launched| entry.flag_bytes(launched))
    }

    /// Byte offset of the list of products in the workspace.
    pub(crate) fn list_offset(&self, entry: &Entry, extents: Extents) -> u64 {
        self.workspace(extents, |launched| entry.list_offset(launched))
    }

    /// Byte offset of an operand's copy in the workspace.
    pub(crate) fn packed_offset(&self, entry: &Entry, extents: Extents, of: Operand) -> u64 {
        self.workspace(extents, |launched| entry.packed_offset(of, launched))
    }

    fn workspace(&self, extents: Extents, size: impl Fn(Launched<'_>) -> u64) -> u64 {
        let packed = |operand| self.packed.holds(operand);
        size(Launched { extents: extents.into(), blocks: self.blocks().into(), packed: &packed })
    }

    /// Blocks of the kernel that writes D: the last one.
    pub(crate) fn blocks(&self) -> u32 {
        self.kernels.last().map_or(0, |start| start.grid)
    }
}

/// Why an entry is unsuitable for some operands: for each of the four operands the requirement that it fails, then the
/// extent that does not divide, and the extent that is too large.
///
/// These are plain values: a prepared launch does not allocate for an entry that it skipped.
pub(crate) type Unsuited = [Option<Fault>; 6];

/// A requirement of an entry that is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Ld { operand: OperandName, ld: usize, width: u32 },
    Stride { operand: OperandName, stride: usize, width: u32 },
    Address { operand: OperandName, address: u64, bytes: u32 },
    Row { operand: OperandName, run: usize, width: u32 },
    Extent { name: &'static str, got: u64, tile: u32 },
    Far { operand: OperandName, bytes: u64 },
    Large { name: &'static str, got: u64 },
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
            Fault::Row { operand, run, width } => {
                let operand = operand.upper();
                write!(
                    f,
                    "{operand} has {run} contiguous elements, not a multiple of {width}, and TMA would write past them"
                )
            }
            Fault::Extent { name, got, tile } => write!(f, "{name} = {got} is not a multiple of {tile}"),
            Fault::Far { operand, bytes } => {
                write!(f, "{} has rows or matrices {bytes} bytes apart, 2^40 or more", operand.upper())
            }
            Fault::Large { name, got } => write!(f, "{name} = {got} exceeds the coordinates of a tensor map"),
        }
    }
}
