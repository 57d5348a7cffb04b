//! The field's terms as types: extents, dimensions, orders, swizzles. Clauses, problems, plans and programs use them.

use serde::Serialize;

/// Extents of a tile: rows of D, columns of D, depth of K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Extent3 {
    /// Rows.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Depth; for `shared(none)` the number of K-steps unrolled.
    pub k: u32,
}

/// Extents of a two-dimensional piece of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Extent2 {
    /// Rows.
    pub m: u32,
    /// Columns.
    pub n: u32,
}

/// The order of threads within a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Along {
    /// n fastest.
    N,
    /// m fastest.
    M,
    /// The lane order of maxas: x = 2 (lane / 8) + lane % 2, y = (lane / 2) % 4; with `warp` only.
    Z,
}

/// One of the two input operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// A, M x K: its outer dimension (the one that is not k) is m.
    A,
    /// B, K x N: its outer dimension is n.
    B,
}

impl Side {
    /// The operand as a matrix of the problem.
    pub fn operand(self) -> Operand {
        match self {
            Side::A => Operand::A,
            Side::B => Operand::B,
        }
    }
}

/// The dimension that runs fastest: the operand's own (m or n), or k.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fast {
    /// k is contiguous.
    K,
    /// m (for A) or n (for B) is contiguous.
    Mn,
}

/// An XOR on shared addresses, by the span of its permutation (TMA's function: bits [6:4] ^= [9:7] for 128, [5:4] ^=
/// [8:7] for 64, [4] ^= [7] for 32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Swizzle {
    /// Unchanged addresses.
    None,
    /// A span of 32, 64 or 128 bytes.
    Bytes(u32),
}

impl Swizzle {
    /// The address bits that it changes. Each is XORed with the bit three positions above (PTX ISA, "Swizzling Modes").
    pub fn bits(self) -> u32 {
        match self {
            Swizzle::None => 0,
            Swizzle::Bytes(span) => span - 16,
        }
    }

    /// The address in place of one without a swizzle.
    pub fn of(self, address: u32) -> u32 {
        address ^ (address >> 3 & self.bits())
    }
}

/// How tiles are copied from global to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Through registers.
    Registers,
    /// `cp.async`.
    CpAsync,
    /// The tensor memory accelerator.
    Tma,
}

/// Order of the FMAs of one K-step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FmaOrder {
    /// Rows of the thread tile, each from left to right.
    Row,
    /// Rows, every other one from right to left.
    Snake,
    /// Columns, each from top to bottom.
    Column,
    /// Columns, every other one from bottom to top.
    ColumnSnake,
    /// Diagonals, each from top to bottom and around the right edge.
    Diagonal,
    /// Blocks of 4 x 4, row by row of blocks; within a block as a snake.
    Blocks,
}

/// Whether registers hold a step's operand fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operands {
    /// Read once per step and held.
    Registers,
    /// Read again for every product.
    Shared,
}

/// The rasterisation of the tiles on the flat grid.
///
/// Along n with group g: bands of g tile rows; within a band m runs fastest, then n. Along m: the same with m and n
/// exchanged. Group 1 along n is plain row-major order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Raster {
    /// Tile rows (columns) in a band.
    pub group: u32,
    /// The dimension along which a band runs: [`Along::N`] or [`Along::M`].
    pub along: Along,
}

/// The treatment of edges, from `tail(...)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edges {
    /// Every size is legal; the last tile of a row has the remaining columns, and multiplies zeros beyond them.
    Predicate,
    /// Every size is legal; the tiles of a row share the columns evenly, and copy and multiply no others.
    Even,
    /// Sizes must be multiples of the tile; the launch refuses others.
    None,
}

impl Edges {
    /// Whether a kernel has code for edges.
    pub fn tail(self) -> Tail {
        match self {
            Edges::Predicate | Edges::Even => Tail::Predicate,
            Edges::None => Tail::None,
        }
    }
}

/// Whether a kernel has code for the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tail {
    /// Every size is legal.
    Predicate,
    /// Sizes must be multiples of the tile; the launch refuses others.
    None,
}

/// The size of the one wave of blocks of a persistent kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wave {
    /// As many blocks as the device holds at once.
    Device,
    /// A fixed number of blocks.
    Blocks(u32),
}

/// How D is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Store {
    /// From registers.
    Direct,
    /// Through shared memory.
    Staged,
    /// Through shared memory and the tensor memory accelerator.
    Tma,
}

/// How the threads that compute D get C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadC {
    /// Each thread reads its own elements into registers.
    Registers,
    /// TMA copies the tile to shared memory during the mainloop.
    Tma,
}

/// The memory of the staged tile of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StageMemory {
    /// Its own memory: copies to all slots continue meanwhile.
    Own,
    /// Reused slots of the ring: copies to the other slots continue meanwhile.
    Ring,
}

/// Split-K: K divided among blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct SplitK {
    /// Parts of K.
    pub parts: u32,
    /// How they are summed.
    pub reduce: Reduce,
}

/// One kernel parameter, in the order of the ABI.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Param {
    /// Pointer to a matrix: u64, global address of element (0, 0).
    Matrix(Operand),
    /// Tensor map of a matrix that TMA copies: 128 bytes at a multiple of 64.
    Map(Operand),
    /// Pointer to a vector of the epilogue, by index: u64.
    Vector(usize),
    /// Extent: u32.
    M,
    /// Extent: u32.
    N,
    /// Extent: u32.
    K,
    /// Leading dimension in elements: u64.
    Ld(Operand),
    /// Elements from one product of a batch to the next: u64.
    BatchStride(Operand),
    /// Run-time scalar of the epilogue, by index, in the accumulator's type.
    Scalar(usize),
    /// Products of the batch: u32.
    Batch,
    /// Pointer to the list of the products of a group: u64.
    Problems,
    /// Tiles of D of all products of a group; 0 if the number is unknown, and then `stream_k` divides none: u32.
    Tiles,
    /// Pointer to the workspace of split-K: u64.
    Workspace,
    /// Pointer to the copy of a packed operand: u64.
    Packed(Operand),
    /// Pointer to the powers of two that scale the rows of A or the columns of B, each followed by its inverse: u64.
    Scales(Operand),
}

impl Param {
    /// The corresponding parameter if the product is computed as its transpose.
    pub fn transposed(&self) -> Param {
        match self {
            Param::Matrix(operand) => Param::Matrix(operand.transposed()),
            Param::Map(operand) => Param::Map(operand.transposed()),
            Param::M => Param::N,
            Param::N => Param::M,
            Param::Ld(operand) => Param::Ld(operand.transposed()),
            Param::BatchStride(operand) => Param::BatchStride(operand.transposed()),
            Param::Packed(operand) => Param::Packed(operand.transposed()),
            Param::Scales(operand) => Param::Scales(operand.transposed()),
            // The transpose changes neither the order of the epilogue's lists nor the launch's parameters.
            Param::Vector(_)
            | Param::K
            | Param::Scalar(_)
            | Param::Batch
            | Param::Problems
            | Param::Tiles
            | Param::Workspace => self.clone(),
        }
    }
}

/// A matrix of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    /// M x K.
    A,
    /// K x N.
    B,
    /// M x N.
    C,
    /// M x N.
    D,
}

impl Operand {
    /// The corresponding matrix if the product is computed as its transpose: D^T = B^T A^T.
    pub fn transposed(self) -> Operand {
        match self {
            Operand::A => Operand::B,
            Operand::B => Operand::A,
            Operand::C | Operand::D => self,
        }
    }

    /// Its letter, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Operand::A => "a",
            Operand::B => "b",
            Operand::C => "c",
            Operand::D => "d",
        }
    }
}

/// Whether NVIDIA's assembler may move the fragment reads from shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// It may: it moves each read down to just before its first product.
    Movable,
    /// It may not: the reads are `ld.volatile`.
    Volatile,
}

/// The treatment of rounding errors when f32 sums are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// Each addition is rounded to nearest.
    Plain,
    /// A third set of accumulators collects the rounding errors, which are added to the sums at the end.
    Compensated,
}

/// The synchronisation of a block's warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// One barrier per staged tile, for the block or, with specialized warps, for the consumers.
    Tile,
    /// Only the signals of the ring.
    Free,
}

/// How the parts of K are summed, always in a fixed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduce {
    /// Each block adds its part to the sum of the blocks before it.
    Serial,
    /// Partial sums in separate memory, added at the end.
    Workspace,
    /// The blocks of a tile form a cluster. Each block adds all partial sums for its share of the tile.
    Cluster,
}

/// One block's share of a K-tile's TMA boxes, if several blocks start them: the same number of boxes in each of some
/// panels. If a panel's boxes do not divide evenly, the first blocks start one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxShare {
    /// Panels with boxes of this block.
    pub panels: u32,
    /// Its boxes per panel, without an additional one.
    pub per_panel: u32,
    /// The number of blocks that start one more box of each panel: one of its last boxes.
    pub extra: u32,
}

impl BoxShare {
    /// Divides `panels` panels of `per_panel` boxes among blocks: whole panels, part of one panel, or part of every panel.
    /// Shares are equal where possible. `None`: there are fewer boxes than blocks.
    pub fn of(panels: u32, per_panel: u32, sharers: u32) -> Option<BoxShare> {
        let sharers = sharers.max(1);
        let all = panels * per_panel;
        let (share, extra) = (all / sharers, 0);
        if all.is_multiple_of(sharers) && share > 0 {
            if share.is_multiple_of(per_panel) {
                return Some(BoxShare { panels: share / per_panel, per_panel, extra });
            }
            if per_panel.is_multiple_of(share) {
                return Some(BoxShare { panels: 1, per_panel: share, extra });
            }
        }
        let (part, extra) = (per_panel / sharers, per_panel % sharers);
        (part > 0).then_some(BoxShare { panels, per_panel: part, extra })
    }

    /// The number of boxes that every block starts.
    pub fn boxes(self) -> u32 {
        self.panels * self.per_panel
    }
}

#[cfg(test)]
mod tests {
    use super::BoxShare;

    #[test]
    fn boxes_are_shared_as_equally_as_possible() {
        let share = |panels, per_panel, sharers| {
            BoxShare::of(panels, per_panel, sharers).map(|share| (share.panels, share.per_panel))
        };
        assert_eq!(share(4, 1, 2), Some((2, 1)), "whole panels");
        assert_eq!(share(1, 2, 2), Some((1, 1)), "part of one panel");
        assert_eq!(share(2, 2, 4), Some((1, 1)), "part of one of two panels");
        assert_eq!(share(3, 2, 2), Some((3, 1)), "the same part of every panel");
        assert_eq!(share(3, 1, 2), None, "fewer boxes in a panel than blocks");
        assert_eq!(BoxShare::of(1, 5, 2), Some(BoxShare { panels: 1, per_panel: 2, extra: 1 }), "one block starts 3");
    }
}
