//! Decoded instructions of the tensor cores.

use std::ops::Range;

use arrayvec::ArrayVec;
use ptx_gemm_ptx::instruction::Rounding;
use ptx_gemm_ptx::matrix::{Layout, Part, Shape};

use super::{P, Pointer, R32, R64, Slot};

/// The types of the elements of A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factors {
    Half(Factor),
    Other(Other),
}

/// Types other than 16-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    Tf32,
    /// 8-bit floats of A and of B.
    Narrow([Narrow; 2]),
    Bytes {
        signed: [bool; 2],
        saturates: bool,
    },
}

/// An 8-bit float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Narrow {
    E4m3,
    E5m2,
}

impl Factors {
    /// Number of elements in 32 bytes.
    pub(crate) fn per_row(self) -> u64 {
        match self {
            Factors::Half(_) => 16,
            Factors::Other(Other::Tf32) => 8,
            Factors::Other(Other::Narrow(_) | Other::Bytes { .. }) => 32,
        }
    }
}

/// A 16-bit float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    F16,
    Bf16,
}

/// The type of the elements of C and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    F32,
    F16,
    S32,
}

/// The direction between registers and shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Load,
    Store,
}

/// `ldmatrix` or `stmatrix`: `count` matrices of 8 x 8 elements of 16 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrices {
    pub(crate) way: Way,
    /// 1, 2 or 4.
    pub(crate) count: u8,
    pub(crate) transposed: bool,
    pub(crate) address: Pointer,
    /// One per matrix.
    pub(crate) values: [R32; 4],
}

/// `mma.sync`, of m8n8 or m16n8. Registers that the shape or the types do not use repeat others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Multiply {
    pub(crate) factors: Factors,
    pub(crate) sum: Sum,
    /// 8 or 16.
    pub(crate) rows: u8,
    /// The extent along k in units of 16 bits: 8 or 16.
    pub(crate) depth: u8,
    pub(crate) d: [R32; 4],
    pub(crate) a: [R32; 4],
    pub(crate) b: [R32; 2],
    pub(crate) c: [R32; 4],
}

impl Multiply {
    /// The registers of A.
    pub(crate) fn left(&self) -> &[R32] {
        &self.a[..usize::from(self.rows / 8 * (self.depth / 8))]
    }

    /// The registers of B.
    pub(crate) fn right(&self) -> &[R32] {
        &self.b[..usize::from(self.depth / 8)]
    }
}

/// `mma.sync` of double precision. Registers that the shape does not use repeat others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoubleMultiply {
    /// 8 or 16.
    pub(crate) rows: u8,
    /// 4, 8 or 16.
    pub(crate) k: u8,
    pub(crate) d: [R64; 4],
    pub(crate) a: [R64; 8],
    pub(crate) b: [R64; 4],
    pub(crate) c: [R64; 4],
}

/// `wmma.load` or `wmma.store`.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) way: Way,
    pub(crate) part: Part,
    pub(crate) layout: Layout,
    pub(crate) shape: Shape,
    /// Bits of an element.
    pub(crate) bits: u8,
    pub(crate) address: Pointer,
    /// Elements from one row, or column, to the next; the length of a row or column if absent.
    pub(crate) stride: Option<R32>,
    pub(crate) values: ArrayVec<Slot, 8>,
}

/// What `wmma.mma` multiplies, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FragmentProduct {
    /// 16-bit floats, with D and C in these types.
    Half(Factor, [Sum; 2]),
    Tf32,
    Double(Rounding),
    /// Integers, each of this many bits.
    Integers {
        bits: u8,
        signed: bool,
        saturates: bool,
    },
    /// Counts the bits that both have, or one of the two.
    Bits {
        xor: bool,
    },
}

impl FragmentProduct {
    /// Bits of an element of A and B, of D, and of C.
    pub(crate) fn bits(self) -> [usize; 3] {
        let of = |sum: Sum| if sum == Sum::F16 { 16 } else { 32 };
        match self {
            FragmentProduct::Half(_, [d, c]) => [16, of(d), of(c)],
            FragmentProduct::Tf32 => [32; 3],
            FragmentProduct::Double(_) => [64; 3],
            FragmentProduct::Integers { bits, .. } => [bits.into(), 32, 32],
            FragmentProduct::Bits { .. } => [1, 32, 32],
        }
    }
}

/// `wmma.mma`.
#[derive(Clone, Debug)]
pub(crate) struct FragmentMultiply {
    pub(crate) layouts: [Layout; 2],
    pub(crate) shape: Shape,
    pub(crate) product: FragmentProduct,
    pub(crate) d: ArrayVec<Slot, 8>,
    pub(crate) a: ArrayVec<Slot, 8>,
    pub(crate) b: ArrayVec<Slot, 8>,
    pub(crate) c: ArrayVec<Slot, 8>,
}

/// Where a matrix is contiguous in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Major {
    /// Along k.
    K,
    /// Along m or n.
    Mn,
}

/// A of a `wgmma`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    Registers([R32; 4]),
    Descriptor { descriptor: R64, major: Major },
}

/// `wgmma.mma_async`, m64nN. An instruction multiplies 32 bytes along k.
#[derive(Clone, Debug)]
pub(crate) struct GroupMultiply {
    pub(crate) factors: Factors,
    pub(crate) sum: Sum,
    /// 8 to 256.
    pub(crate) n: u16,
    /// n / 2 registers, or n / 4 for f16 accumulators.
    pub(crate) d: Vec<R32>,
    pub(crate) a: Left,
    pub(crate) b: R64,
    pub(crate) b_major: Major,
    /// D is added to if this is true.
    pub(crate) scale_d: P,
    /// Whether A and B are negated.
    pub(crate) negate: [bool; 2],
}

/// The registers that an entry's multiplications by warp groups read and write, numbered in order of appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupRegisters {
    pub(crate) slots: Vec<R32>,
    /// By slot.
    pub(crate) numbers: Vec<Option<u32>>,
    /// Numbers of the registers that other instructions use, one instruction after the other.
    pub(crate) used: Vec<u32>,
    /// The range of `used` that belongs to each instruction.
    pub(crate) by_instruction: Vec<Range<u32>>,
}

impl GroupRegisters {
    /// Numbers of the registers that some consecutive instructions use.
    #[inline(always)]
    pub(crate) fn used_by(&self, pc: u32, len: u32) -> &[u32] {
        match (self.by_instruction.get(pc as usize), self.by_instruction.get((pc + len - 1) as usize)) {
            (Some(first), Some(last)) => &self.used[first.start as usize..last.end as usize],
            _ => &[],
        }
    }

    pub(crate) fn number(&self, slot: R32) -> usize {
        self.numbers[slot.0 as usize].unwrap_or(0) as usize
    }
}
