//! Operands that are copied before the product: as they are, or as planes of a narrower type, and the order in which these are
//! multiplied.

use ptx_gemm_dsl::terms::{Fast, Param, Side};
use ptx_gemm_dsl::types::{Batch, DType, Problem};

use super::{Note, Program};

/// An operand that a kernel of its own copies into the workspace before the product, unless TMA can copy it as it is.
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
    /// The planes that the copy consists of, where the operand is split; `None`: it has the operand's own elements.
    pub planes: Option<Planes>,
    /// Its note.
    pub note: Note,
}

/// An operand as a sum of matrices of a narrower type: each plane is what the ones before it leave of the operand, rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planes {
    /// Type of their elements.
    pub dtype: DType,
    /// Their number. The fourth is the third again, without infinities.
    pub count: u32,
}

impl Planes {
    /// Whether they are of the operand with its rows (of A) or columns (of B) scaled by powers of two, so that their largest
    /// elements are from 2^14 to 2^15, where f16 has most exponents below; storing D undoes it.
    pub fn scaled(self) -> bool {
        self.dtype == DType::F16
    }
}

/// The order in which planes are multiplied. K is divided into chunks; for each chunk, the K-tiles of every pair of planes
/// follow each other. So the loop over K-tiles has as many times more of them as there are pairs. Or a chunk is a K-tile, and
/// its slot has all planes: then the steps of every pair follow each other, and each plane is copied once.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    /// Elements of k of a chunk, except for the last one, which may have fewer.
    pub chunk: u32,
    /// Planes of A and B, in the order in which their products are added up.
    pub pairs: Vec<(u32, u32)>,
    /// Its note.
    pub note: Note,
}

/// Rows of A, or columns of B, whose scales a block determines; the threads that it does so with, as many for each; and
/// its shared memory, for the largest element that each thread has come across.
pub const SCALE_LINES: u32 = 32;
/// See [`SCALE_LINES`].
pub const SCALE_THREADS: u32 = 1024;
/// See [`SCALE_LINES`].
pub const SCALE_SHARED_BYTES: u32 = SCALE_LINES * (SCALE_THREADS / SCALE_LINES + 1) * 4;

/// Bytes of an operand that a thread packs at once: the widest access that there is.
pub const VECTOR_BYTES: u32 = 16;

/// Bytes that the rows of a packed operand begin at multiples of: a line of the L2 cache.
pub const PACKED_ROW_BYTES: u32 = 128;

impl Pack {
    /// Name of its kernel in the module of a problem. Entries that pack an operand share it.
    pub fn kernel(&self, problem: &Problem) -> String {
        let verb = if self.planes.is_some() { "split" } else { "pack" };
        format!("{verb}_{}", problem.asked_operand(self.side.operand()).name())
    }

    /// Whether a kernel determines powers of two first, by which rows or columns are scaled.
    pub fn scales(&self) -> bool {
        self.planes.is_some_and(Planes::scaled)
    }

    /// Name of that kernel.
    pub fn scale_kernel(&self, problem: &Problem) -> String {
        format!("scale_{}", problem.asked_operand(self.side.operand()).name())
    }

    /// Parameters of that kernel, in order.
    pub fn scale_params(&self, batch: Batch) -> Vec<Param> {
        let packed = Param::Packed(self.side.operand());
        self.params(batch).into_iter().filter(|param| *param != packed).collect()
    }

    /// Whether both are the same but for their notes.
    pub fn is_like(&self, other: &Pack) -> bool {
        *self == Pack { note: self.note.clone(), ..other.clone() }
    }

    /// Elements that the rows of the copy begin at multiples of.
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

    /// Whether rows are copied as they are, for their alignment alone, and in elements of 16 bits: they are then read by the
    /// aligned vectors around, since reading such elements one by one takes longer than the memory does.
    pub fn around(&self, program: &Program) -> bool {
        let bytes = program.problem.types.of(self.side.operand()).bytes();
        self.planes.is_none() && !self.transposes(program) && bytes == 2
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
