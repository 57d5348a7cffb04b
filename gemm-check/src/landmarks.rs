//! The extents at which a kernel's behaviour changes, read from its tile programs; tests have to cover them.

use std::collections::BTreeSet;

use ptx_gemm_dsl::Layout;
use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::terms::{Along, Fast, Operand, Side, Tail, Wave};
use ptx_gemm_dsl::types::{Orientation, Problem};
use ptx_gemm_runtime::interface::{Entry, Grid};
use ptx_gemm_runtime::tile::{Accumulator, Map, Op, Program, ReadC, Stager, Writer};
use ptx_gemm_runtime::{INTERPRETER_WAVE, Kernel};

use crate::size::Size;

/// The landmarks of one entry.
pub(crate) struct Landmarks {
    /// Extents of a tile of D, and of k in one K-tile, at least 1.
    pub(crate) tile: [usize; 3],
    /// Whether there are guards at the edges.
    pub(crate) guarded: bool,
    /// Rows of the block, of a warp, of a thread, and of the contiguous piece of a thread.
    pub(crate) m: BTreeSet<usize>,
    /// Columns of the same.
    pub(crate) n: BTreeSet<usize>,
    /// K-tiles that fill the slots of each ring, and the K-tiles of one promotion; 1 without a ring.
    pub(crate) slots: BTreeSet<usize>,
    /// Tiles in a band of the rasterisation, and whether bands are rows of tiles; parts that k is split into.
    pub(crate) band: (usize, Along),
    pub(crate) parts: usize,
    /// Blocks of a persistent grid in the interpreter, at most a few.
    pub(crate) wave: Option<usize>,
    /// Groups of threads that each compute a whole tile (ping-pong); 1: all compute each tile together.
    pub(crate) groups: usize,
    /// With stream-K, the blocks of a wave in the interpreter, and the k of a tile for which one more block is possible.
    pub(crate) streamed: Option<(usize, usize)>,
    /// Steps of the unrolled bodies.
    pub(crate) unroll: BTreeSet<usize>,
    /// Operands that are packed.
    pub(crate) packs: Vec<Packed>,
    /// Elements of the accesses to global memory.
    pub(crate) widths: BTreeSet<usize>,
    /// The numbers that m, n and k must be multiples of for this entry to accept a product of packed matrices; 1 where
    /// another entry accepts what this one does not.
    granules: [usize; 3],
}

/// An operand that is packed.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub(crate) side: Side,
    /// Extents of the tile that a block copies, along m or n and along k.
    pub(crate) tile: [usize; 2],
    /// Rows that it copies at a time.
    pub(crate) rows: usize,
    /// The contiguous dimension, if the surrounding vectors are read (`Pack::around`).
    pub(crate) around: Option<Fast>,
}

/// The landmarks of every entry of a kernel, in order.
pub(crate) fn of_kernel(kernel: &Kernel) -> Vec<Landmarks> {
    let interface = kernel.interface();
    let any = interface.entries.iter().any(Entry::suits_all);
    let entries = interface.entries.iter().zip(&kernel.programs().entries);
    entries
        .map(|(entry, program)| {
            let granules = if any { [1; 3] } else { granules(entry, &interface.problem) };
            Landmarks { granules, ..Landmarks::of(program) }
        })
        .collect()
}

impl Landmarks {
    fn of(program: &Program) -> Landmarks {
        let block = program.block;
        let maps = || program.accumulators.iter().map(|Accumulator { map, .. }| map);
        let along = |extent: u32, of_map: fn(&Map) -> [u32; 3]| {
            maps().flat_map(of_map).filter(|&extent| extent > 0).chain([extent]).map(|e| e as usize).collect()
        };
        // With planes, a K-tile of every pair takes a slot, unless the planes share one; the K-tiles of one promotion are a
        // round of their own.
        let pairs = program.planes_apart().map_or(1, |walk| walk.pairs.len().max(1));
        let chunk = program.walk.as_ref().map(|walk| (walk.chunk / block.k.max(1)) as usize);
        let rings = program.rings.iter().map(|ring| (ring.depth.max(1) as usize).div_ceil(pairs));
        let mut slots: BTreeSet<usize> = rings.chain(chunk.filter(|k_tiles| *k_tiles > 0)).collect();
        if slots.is_empty() {
            slots.insert(1);
        }
        let (mut unroll, mut widths) = (BTreeSet::new(), BTreeSet::new());
        for statement in program.statements() {
            match &statement.op {
                Op::Copy { buffer, by, .. } => {
                    let global = by.global_width(program.element(program.buffers[*buffer].side));
                    widths.extend([by.chunk().map_or(1, |(width, _)| width), global].map(|width| width as usize));
                }
                Op::Write { by: Writer::Registers { width } } => {
                    widths.insert(*width as usize);
                }
                Op::Store { width, c_width, .. } => widths.extend([*width as usize, *c_width as usize]),
                Op::Stage { by, c, .. } => {
                    let by = if let Stager::Registers { width } = by { Some(*width) } else { None };
                    let c = if let ReadC::Global { width } = c { Some(*width) } else { None };
                    widths.extend(by.into_iter().chain(c).map(|width| width as usize));
                }
                Op::Steps { unroll: steps, fetches, .. } => {
                    unroll.insert(*steps as usize);
                    widths.extend(fetches.iter().map(|(fetch, _)| fetch.width as usize));
                }
                _ => {}
            }
        }
        widths.extend(
            program.exchange.iter().flat_map(|exchange| [exchange.width, exchange.c_width].map(|width| width as usize)),
        );
        // A raster counts the tiles of a cluster as one.
        let (raster, cluster) = (program.scheduler.raster, program.scheduler.cluster);
        let across = if raster.along == Along::M { cluster.n } else { cluster.m };
        let landmarks = Landmarks {
            tile: [block.m, block.n, block.k].map(|extent| extent.max(1) as usize),
            guarded: program.tail == Tail::Predicate,
            m: along(block.m, rows),
            n: along(block.n, cols),
            slots,
            band: ((raster.group.max(1) * across.max(1)) as usize, raster.along),
            parts: program.scheduler.parts() as usize,
            wave: program.scheduler.persistent.map(|wave| blocks(wave, INTERPRETER_WAVE) as usize),
            groups: program.groups() as usize,
            streamed: streamed(program, INTERPRETER_WAVE),
            unroll,
            packs: program
                .packs
                .iter()
                .map(|pack| Packed {
                    side: pack.side,
                    tile: [pack.extent, pack.depth].map(|extent| extent as usize),
                    rows: (pack.threads / WARP) as usize,
                    around: pack.around(program).then(|| program.problem.layouts.fast(pack.side)),
                })
                .collect(),
            widths,
            granules: [1; 3],
        };
        match program.problem.orientation {
            Orientation::AsAsked => landmarks,
            Orientation::Transposed => landmarks.transposed(),
        }
    }

    /// The landmarks of the transpose: a program's own are in terms of the product that it computes.
    fn transposed(self) -> Landmarks {
        let ([m, n, k], (group, along)) = (self.tile, self.band);
        let other = |side| if side == Side::A { Side::B } else { Side::A };
        let along = match along {
            Along::M => Along::N,
            Along::N => Along::M,
            Along::Z => Along::Z,
        };
        Landmarks {
            tile: [n, m, k],
            m: self.n,
            n: self.m,
            band: (group, along),
            packs: self.packs.into_iter().map(|packed| Packed { side: other(packed.side), ..packed }).collect(),
            ..self
        }
    }

    /// The next larger size that the kernel accepts.
    pub(crate) fn suited(&self, Size { m, n, k }: Size) -> Size {
        let [by_m, by_n, by_k] = self.granules;
        Size::new(m.next_multiple_of(by_m), n.next_multiple_of(by_n), k.next_multiple_of(by_k))
    }
}

/// The blocks of a wave of stream-K, at most a few, and the k of a tile for which one more block is possible. `wave` is
/// the interpreter's own wave.
pub(crate) fn streamed(program: &Program, wave: u32) -> Option<(usize, usize)> {
    let depth = Grid::of(program).stream?;
    Some((program.scheduler.persistent.map_or(wave, |of| blocks(of, wave)) as usize, depth as usize))
}

/// Blocks of a wave, at most a few. `wave` is the interpreter's own wave.
fn blocks(of: Wave, wave: u32) -> u32 {
    match of {
        Wave::Blocks(blocks) => blocks.min(INTERPRETER_WAVE),
        Wave::Device => wave,
    }
}

/// Rows of a warp, of a thread, and of the piece that begins with a thread's first row; 0 if none.
fn rows(map: &Map) -> [u32; 3] {
    let warp = map.warp.iter().map(|digit| digit.m).filter(|&step| step > 0).min();
    let piece = map.element.iter().find(|digit| digit.m == 1).map(|digit| digit.extent);
    [warp.unwrap_or(0), map.rows().len() as u32, piece.unwrap_or(0)]
}

fn cols(map: &Map) -> [u32; 3] {
    let warp = map.warp.iter().map(|digit| digit.n).filter(|&step| step > 0).min();
    let piece = map.element.iter().find(|digit| digit.n == 1).map(|digit| digit.extent);
    [warp.unwrap_or(0), map.cols().len() as u32, piece.unwrap_or(0)]
}

/// The numbers that m, n and k must be multiples of for an entry: the tile if there are no guards, and whatever gives
/// the leading dimensions of packed matrices the alignment that their accesses need.
fn granules(entry: &Entry, problem: &Problem) -> [usize; 3] {
    let tile = [entry.tile.m, entry.tile.n, entry.tile.k].map(|extent| extent.max(1) as usize);
    let mut granules = if entry.tail == Tail::None { tile } else { [1; 3] };
    for requires in &entry.requires {
        let contiguous = match (requires.operand, problem.layouts.of(requires.operand)) {
            (Operand::A, Layout::Row) | (Operand::B, Layout::Col) => 2,
            (Operand::A | Operand::C | Operand::D, Layout::Col) => 0,
            (Operand::B | Operand::C | Operand::D, Layout::Row) => 1,
        };
        granules[contiguous] = common_multiple(granules[contiguous], requires.elements.max(1) as usize);
    }
    granules
}

fn common_multiple(x: usize, y: usize) -> usize {
    (1..=y).map(|i| x * i).find(|multiple| multiple.is_multiple_of(y)).unwrap_or(x * y)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ptx_gemm_dsl::Schedule;
    use ptx_gemm_dsl::terms::Along;
    use ptx_gemm_runtime::Kernel;
    use ptx_gemm_runtime::interface::{Entry, Interface};

    use super::{Landmarks, granules};
    use crate::size::Size;

    fn kernel(clauses: &str) -> Arc<Kernel> {
        let schedule: Schedule = clauses.parse().unwrap();
        Kernel::compile(&schedule, None).unwrap()
    }

    #[test]
    fn landmarks_are_those_of_the_schedule() {
        let kernel = kernel(
            "tile(64, 128, 8); thread(8, 8); fragment(4, 4); warp(32, 64); vector(4); stages(3); unroll(4); \
             load(cp_async);",
        );
        let landmarks = Landmarks::of(&kernel.programs().entries[0]);
        assert_eq!(landmarks.tile, [64, 128, 8]);
        assert_eq!(landmarks.m.into_iter().collect::<Vec<_>>(), [4, 8, 32, 64]);
        assert_eq!(landmarks.n.into_iter().collect::<Vec<_>>(), [4, 8, 64, 128]);
        assert_eq!(landmarks.slots.into_iter().collect::<Vec<_>>(), [3]);
        assert_eq!(landmarks.unroll.into_iter().collect::<Vec<_>>(), [4]);
        assert!(landmarks.widths.contains(&4));
    }

    #[test]
    fn planes_together_take_one_slot() {
        let slots = |clauses: &str| {
            let clauses = format!("emulate(bf16x6); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); {clauses}");
            Landmarks::of(&kernel(&clauses).programs().entries[0]).slots.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(slots("promote(every = 32); stages(4);"), [1, 4]);
        assert_eq!(slots("promote(every = 64); stages(8);"), [2]);
    }

    #[test]
    fn landmarks_of_a_transposed_product_are_in_its_sizes() {
        let kernel = kernel("transposed; tile(64, 16, 8); thread(8, 2); raster(group = 3, along = m);");
        let Landmarks { tile, m, n, band, .. } = Landmarks::of(&kernel.programs().entries[0]);
        assert_eq!((tile, band), ([16, 64, 8], (3, Along::N)));
        assert_eq!((m.last(), n.last()), (Some(&16), Some(&64)));
    }

    #[test]
    fn a_band_has_as_many_tiles_as_its_clusters() {
        let band = |clauses: &str| {
            let clauses = format!("types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); {clauses}");
            Landmarks::of(&kernel(&clauses).programs().entries[0]).band
        };
        assert_eq!(band("raster(group = 3)"), (3, Along::N));
        assert_eq!(band("raster(group = 3); cluster(2, 1); multicast(b)"), (6, Along::N));
        assert_eq!(band("raster(group = 3, along = m); cluster(2, 1); multicast(b)"), (3, Along::M));
        assert_eq!(band("raster(group = 3, along = m); cluster(1, 2); multicast(a)"), (6, Along::M));
    }

    #[test]
    fn an_entry_that_is_alone_gets_sizes_that_it_takes() {
        let kernel = kernel("tile(24, 16, 12); thread(2, 2); vector(4); tail(none); layout(a = col);");
        let Interface { entries, problem, .. } = kernel.interface();
        let wide: &Entry = entries.iter().find(|entry| !entry.requires.is_empty()).unwrap();
        assert_eq!(granules(wide, problem), [24, 16, 12]);
        let landmarks = Landmarks { granules: granules(wide, problem), ..Landmarks::of(&kernel.programs().entries[0]) };
        assert_eq!(landmarks.suited(Size::new(25, 0, 1)), Size::new(48, 0, 12));
    }
}
