//! Operands that are copied before the product, unchanged or as planes of a narrower type, and the order in which
//! planes are multiplied.

use ptx_gemm_dsl::terms::{Fast, Param, Side};
use ptx_gemm_dsl::types::{Batch, DType, Problem};

use super::{Note, Program};

/// An operand that a separate kernel copies into the workspace before the product, unless TMA can copy it directly.
#[derive(Clone, Debug, PartialEq)]
pub struct Pack {
    /// Operand.
    pub side: Side,
    /// Extents of the tile that a block copies, along the operand's own dimension and along k.
    pub extent: u32,
    /// The same along k.
    pub depth: u32,
    /// Contiguous dimension of the copy.
    pub fast: Fast,
    /// Threads of a block.
    pub threads: u32,
    /// The planes of the copy, if the operand is split; `None`: the copy has the operand's own elements.
    pub planes: Option<Planes>,
    /// Its note.
    pub note: Note,
}

/// An operand as a sum of matrices of a narrower type: each plane is the rounded remainder after the previous planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planes {
    /// Type of their elements.
    pub dtype: DType,
    /// Their number. The fourth plane is the third again, without infinities.
    pub count: u32,
}

impl Planes {
    /// Whether the planes are those of the operand with its rows (of A) or columns (of B) scaled by powers of two. The
    /// scale puts the largest element between 2^14 and 2^15, where f16 has the most exponents below; storing D undoes
    /// it.
    pub fn scaled(self) -> bool {
        self.dtype.is_scaled()
    }
}

/// The order in which planes are multiplied. K is divided into chunks. For each chunk, the loop runs over the K-tiles
/// of every pair of planes in turn, so each pair multiplies the number of K-tiles. Alternatively a chunk is one K-tile
/// and its slot has all planes: the steps of every pair are consecutive, and each plane is copied once.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    /// Elements of k in a chunk; the last chunk may have fewer.
    pub chunk: u32,
    /// Planes of A and B, in the order in which their products are added up.
    pub pairs: Vec<(u32, u32)>,
    /// Its note.
    pub note: Note,
}

/// Rows of A, or columns of B, for which a block determines scales, its threads, an equal number for each row, and its
/// shared memory, for the largest element that each thread has found.
pub const SCALE_LINES: u32 = 32;
/// See [`SCALE_LINES`].
pub const SCALE_THREADS: u32 = 1024;
/// See [`SCALE_LINES`].
pub const SCALE_SHARED_BYTES: u32 = SCALE_LINES * (SCALE_THREADS / SCALE_LINES + 1) * 4;

/// Bytes of an operand that a thread packs at once: the widest access.
pub const VECTOR_BYTES: u32 = 16;

/// Alignment of the rows of a packed operand, in bytes: a line of the L2 cache.
pub const PACKED_ROW_BYTES: u32 = 128;

impl Pack {
    /// Name of its kernel in the module of a problem. Entries that pack an operand share it.
    pub fn kernel(&self, problem: &Problem) -> String {
        let verb = if self.planes.is_some() { "split" } else { "pack" };
        format!("{verb}_{}", problem.asked_operand(self.side.operand()).name())
    }

    /// Whether a kernel first determines powers of two that scale rows or columns.
    pub fn scales(&self) -> bool {
        self.planes.is_some_and(Planes::scaled)
    }

    /// Name of the kernel that determines scales.
    pub fn scale_kernel(&self, problem: &Problem) -> String {
        format!("scale_{}", problem.asked_operand(self.side.operand()).name())
    }

    /// Parameters of the kernel that determines scales, in order.
    pub fn scale_params(&self, batch: Batch) -> Vec<Param> {
        let packed = Param::Packed(self.side.operand());
        self.params(batch).into_iter().filter(|param| *param != packed).collect()
    }

    /// Whether both are equal except for their notes.
    pub fn is_like(&self, other: &Pack) -> bool {
        *self == Pack { note: self.note.clone(), ..other.clone() }
    }

    /// Alignment of the rows of the copy, in elements.
    pub fn align(&self, program: &Program) -> u32 {
        PACKED_ROW_BYTES / program.element(self.side).bytes()
    }

    /// Elements of the operand that a thread packs at once.
    pub fn vector(&self, program: &Program) -> u32 {
        VECTOR_BYTES / program.problem.types.of(self.side.operand()).bytes()
    }

    /// Distance between rows of the tile in shared memory, in elements.
    pub fn pitch(&self) -> u32 {
        self.depth | 1
    }

    /// Whether the copy has another order than the matrix.
    pub fn transposes(&self, program: &Program) -> bool {
        program.problem.layouts.fast(self.side) != self.fast
    }

    /// Whether elements of 8 or 16 bits are copied unchanged, only for their alignment. They are then read through the
    /// aligned vectors around them, since element-by-element reads would be slower than the memory.
    pub fn around(&self, program: &Program) -> bool {
        let bytes = program.problem.types.of(self.side.operand()).bytes();
        self.planes.is_none() && !self.transposes(program) && bytes <= 2
    }

    /// Shared memory of a block, in bytes: for a tile that is transposed.
    pub fn shared_bytes(&self, program: &Program) -> u32 {
        if !self.transposes(program) {
            return 0;
        }
        let element = program.problem.types.of(self.side.operand());
        self.extent.saturating_mul(self.pitch()).saturating_mul(element.bytes())
    }

    /// The parameter with the operand's own extent.
    pub fn own_param(&self) -> Param {
        match self.side {
            Side::A => Param::M,
            Side::B => Param::N,
        }
    }

    /// Parameters of its kernel, in order.
    pub fn params(&self, batch: Batch) -> Vec<Param> {
        let operand = self.side.operand();
        let mut params =
            vec![Param::Matrix(operand), Param::Packed(operand), self.own_param(), Param::K, Param::Ld(operand)];
        if batch == Batch::Strided {
            params.push(Param::BatchStride(operand));
        }
        if self.scales() {
            params.push(Param::Scales(operand));
        }
        params
    }
}
