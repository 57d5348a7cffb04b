//! Which tiles of D a block computes, and over which part of k.

use ptx_gemm_dsl::terms::{Extent2, Raster, Side, Wave};

use super::Note;

/// Which tiles of D a block computes, and over which part of k.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduler {
    /// Order of the tiles.
    pub raster: Raster,
    /// Note of the order.
    pub raster_note: Note,
    /// A wave of persistent blocks, each of which computes every n-th tile; `None`: one tile per block.
    pub persistent: Option<Wave>,
    /// Note of the wave.
    pub persistent_note: Note,
    /// The rows and columns of tiles that the blocks of a cluster compute; 1 x 1 without clusters.
    pub cluster: Extent2,
    /// Note of the clusters.
    pub cluster_note: Note,
    /// How blocks divide the sum over k.
    pub division: Division,
    /// Note of the division.
    pub division_note: Note,
}

/// How blocks divide the sum over k of a tile. If they divide it, `reduce` adds up their partial sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// One block computes the whole sum.
    Whole,
    /// Each tile's k has this many parts, each computed by its own block.
    Parts(u32),
    /// The same, by the blocks of a cluster: an [`Exchange`](super::Exchange) adds up their partial sums.
    Cluster(u32),
    /// Stream-K: each block of a wave computes an equal number of K-tiles of the last tiles, see [`crate::lower`]; the
    /// other tiles are computed whole.
    Stream,
}

impl Scheduler {
    /// Number of blocks of a cluster.
    pub fn cluster_blocks(&self) -> u32 {
        self.cluster.m.saturating_mul(self.cluster.n)
    }

    /// Number of blocks that are launched as a cluster: those that compute neighbouring tiles, or the parts of one.
    pub fn cluster_size(&self) -> u32 {
        match self.division {
            Division::Cluster(parts) => self.cluster_blocks().saturating_mul(parts),
            Division::Whole | Division::Parts(_) | Division::Stream => self.cluster_blocks(),
        }
    }

    /// Number of blocks of a cluster that need the same tile of an operand: those along n for A, those along m for B.
    pub fn alike(&self, side: Side) -> u32 {
        match side {
            Side::A => self.cluster.n,
            Side::B => self.cluster.m,
        }
    }

    /// Number of parts of k, if every tile has the same parts; otherwise 1.
    pub fn parts(&self) -> u32 {
        match self.division {
            Division::Parts(parts) | Division::Cluster(parts) => parts,
            Division::Whole | Division::Stream => 1,
        }
    }

    /// Whether blocks exchange partial sums through global memory.
    pub fn needs_workspace(&self) -> bool {
        matches!(self.division, Division::Parts(_) | Division::Stream)
    }

    /// Whether several blocks may contribute to a tile.
    pub fn divides_k(&self) -> bool {
        self.division != Division::Whole
    }
}
