//! The number of blocks of a launch.

pub use ptx_gemm_dsl::plan::STREAM_DEPTH;
use ptx_gemm_dsl::terms::{Operand, Wave};
use ptx_gemm_dsl::types::{Batch, Orientation, Problem};

use super::{Division, Program};

/// The extents of a product, and the products of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Rows of D.
    pub m: u64,
    /// Columns of D.
    pub n: u64,
    /// Depth of the sum.
    pub k: u64,
    /// Products; 1 without a batch.
    pub batch: u64,
}

/// The blocks of a launch: one for each unit of work, or one wave of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The matrix that is divided into tiles: D, or an operand that is packed.
    pub of: Operand,
    /// Rows and columns of a tile of D, or extents of a tile of an operand along its own dimension and along k.
    /// [`WHOLE`]: all of k.
    pub tile: (u32, u32),
    /// Blocks that share a tile, each computing its part of k.
    pub parts: u32,
    /// With stream-K, the k of a tile per additional block.
    pub stream: Option<u32>,
    /// Rows and columns of tiles that the blocks of a cluster compute. Some of them may be outside the matrix.
    pub cluster: (u32, u32),
    /// Whether the blocks that share a tile are a cluster.
    pub parts_in_cluster: bool,
    /// Whether the tiles are those of one product, of every product of a batch (equally many each), or of every product
    /// in a list.
    pub batch: Batch,
    /// One wave of persistent blocks that compute all units; `None`: one block per unit.
    pub wave: Option<Wave>,
}

/// Tiles of equal width that are no wider than a product needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Narrow {
    /// Most columns of a tile, in the kernel's terms.
    columns: u32,
    /// A tile's columns are a multiple of this.
    grain: u32,
    orientation: Orientation,
}

impl Narrow {
    /// The narrow tiles of a program; `None`: all tiles but the last ones are whole.
    pub(super) fn of(program: &Program) -> Option<Narrow> {
        let (columns, orientation) = (program.block.n, program.problem.orientation);
        program.grain().map(|grain| Narrow { columns, grain, orientation })
    }

    /// Rows and columns of products of one tile each, with 1 column, and with 1 more than each multiple below a whole
    /// tile.
    pub fn edges(&self) -> impl Iterator<Item = (u64, u64)> {
        let Narrow { columns, grain, orientation } = *self;
        (0..columns).step_by(grain as usize).map(move |before| {
            let n = u64::from(before) + 1;
            if orientation == Orientation::Transposed { (n, 3) } else { (3, n) }
        })
    }

    /// The relative cost of a product's tile: the number of elements of B that it multiplies.
    pub fn cost(&self, extents: Extents) -> u64 {
        extents.k.saturating_mul(self.width(extents).into())
    }

    /// Columns of the tiles of a product.
    pub fn width(&self, extents: Extents) -> u32 {
        let n = if self.orientation == Orientation::Transposed { extents.m } else { extents.n };
        let tiles = n.div_ceil(self.columns.into()).max(1);
        // At most `columns`.
        n.div_ceil(tiles).next_multiple_of(self.grain.into()) as u32
    }

    /// Rows of a box for the tiles of a product, if a whole tile has `rows`.
    pub fn box_rows(&self, rows: u32, extents: Extents) -> u32 {
        self.width(extents) / (self.columns / rows.max(1)).max(1)
    }

    /// The same as a formula, for `m` rows and `n` columns of D.
    pub fn box_formula(&self, rows: u32, (m, n): (&str, &str)) -> String {
        let Narrow { columns, grain, orientation } = *self;
        let n = if orientation == Orientation::Transposed { m } else { n };
        let width = format!("(ceil({n} / ceil({n} / {columns})) rounded up to {grain})");
        if rows == columns { width } else { format!("{width} / {}", columns / rows.max(1)) }
    }
}

/// The extent of a tile that has all of k.
pub const WHOLE: u32 = u32::MAX;

pub(super) fn tiles(tile: (u32, u32), m: u64, n: u64) -> u64 {
    m.div_ceil(u64::from(tile.0)).saturating_mul(n.div_ceil(u64::from(tile.1)))
}

impl Grid {
    /// The grid of a program.
    pub fn of(program: &Program) -> Grid {
        Grid {
            of: Operand::D,
            tile: (program.block.m, program.block.n),
            parts: program.scheduler.parts(),
            cluster: (program.scheduler.cluster.m, program.scheduler.cluster.n),
            parts_in_cluster: matches!(program.scheduler.division, Division::Cluster(_)),
            stream: (program.scheduler.division == Division::Stream).then(|| program.block.k.max(STREAM_DEPTH)),
            batch: program.problem.batch,
            wave: program.scheduler.persistent,
        }
    }

    /// The grid of kernels for `problem`, in the terms of the problem that a caller asks for.
    pub(super) fn asked(self, problem: &Problem) -> Grid {
        let of = problem.asked_operand(self.of);
        let of_d = of == Operand::D && problem.orientation == Orientation::Transposed;
        let along = |(m, n): (u32, u32)| if of_d { (n, m) } else { (m, n) };
        Grid { of, tile: along(self.tile), cluster: along(self.cluster), ..self }
    }

    /// Number of units of work: tiles, times parts of k.
    pub fn units(&self, extents: Extents) -> u64 {
        self.tiles(extents).saturating_mul(u64::from(self.parts))
    }

    /// Number of tiles of all products of a batch, including tiles of clusters that are outside the matrix.
    pub fn tiles(&self, extents: Extents) -> u64 {
        let Extents { m, n, k, batch } = extents;
        let (rows, columns) = match self.of {
            Operand::A => (m, k),
            Operand::B => (n, k),
            Operand::C | Operand::D => (m, n),
        };
        let (m, n) = self.cluster;
        let clusters = tiles((self.tile.0 * m, self.tile.1 * n), rows, columns).saturating_mul(batch);
        clusters.saturating_mul(u64::from(m * n))
    }

    /// Number of blocks on a device that holds `resident` of them at once.
    pub fn blocks(&self, extents: Extents, resident: u32) -> u64 {
        self.shares(extents).min(self.most(resident))
    }

    /// The most blocks that have something to compute.
    pub fn shares(&self, extents: Extents) -> u64 {
        let shares = self.stream.map_or(1, |depth| extents.k.div_ceil(depth.into()).max(1));
        self.units(extents).saturating_mul(shares)
    }

    /// The most blocks of a launch on a device that holds `resident` of them at once.
    pub fn most(&self, resident: u32) -> u64 {
        match self.wave {
            None => u64::MAX,
            Some(Wave::Blocks(blocks)) => blocks.into(),
            // Whole clusters.
            Some(Wave::Device) => {
                (resident / self.cluster_blocks()).max(1).saturating_mul(self.cluster_blocks()).into()
            }
        }
    }

    /// Number of blocks of a cluster.
    pub fn cluster_blocks(&self) -> u32 {
        self.cluster.0 * self.cluster.1 * if self.parts_in_cluster { self.parts } else { 1 }
    }

    /// The number of tiles of one product as a formula of the extents.
    pub fn tiles_formula(&self) -> String {
        let (rows, columns) = match self.of {
            Operand::A => ("m", "k"),
            Operand::B => ("n", "k"),
            Operand::C | Operand::D => ("m", "n"),
        };
        let (m, n) = self.cluster;
        let mut formula = if self.tile.1 == WHOLE {
            format!("ceil({rows} / {})", self.tile.0)
        } else {
            format!("ceil({rows} / {}) * ceil({columns} / {})", self.tile.0 * m, self.tile.1 * n)
        };
        if m * n > 1 {
            formula.push_str(&format!(" * {}", m * n));
        }
        formula
    }

    /// The number of blocks as a formula of the extents and the batch.
    pub fn formula(&self) -> String {
        let mut formula = self.tiles_formula();
        match self.batch {
            Batch::One => {}
            Batch::Strided => formula.push_str(" * batch"),
            Batch::Grouped => formula = format!("sum over the products of {formula}"),
        }
        if self.parts > 1 {
            formula.push_str(&format!(" * {}", self.parts));
        }
        if let Some(depth) = self.stream {
            formula.push_str(&format!(" * max(1, ceil(k / {depth}))"));
        }
        match self.wave {
            None => formula,
            Some(Wave::Blocks(blocks)) => format!("min({formula}, {blocks})"),
            Some(Wave::Device) if self.cluster_blocks() > 1 => {
                format!("min({formula}, blocks of the clusters that the device holds at once)")
            }
            Some(Wave::Device) => format!("min({formula}, blocks that the device holds at once)"),
        }
    }
}
