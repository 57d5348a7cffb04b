//! Sizes at which kernels go wrong: around tiles, fragments, vectors and the depth of the pipeline.

use std::collections::BTreeSet;

use ptx_gemm_dsl::types::Batch;
use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::interface::Entry;

use crate::landmarks::{Landmarks, Packed, of_kernel};
use crate::size::Size;
use crate::suite::BATCH;
use ptx_gemm_dsl::terms::{Along, Fast, Operand, Side, Wave};

/// The sizes that cover every edge of every entry: each interesting extent of one dimension combined with awkward ones
/// of the other two, the whole tile and its multiples, and empty products. For an entry without guards these are
/// multiples of the tile; where no entry accepts every size, multiples of what the entry requires.
pub fn edge_sizes(kernel: &Kernel) -> Vec<Size> {
    let mut sizes = BTreeSet::new();
    for landmarks in of_kernel(kernel) {
        sizes.extend(edges(&landmarks).into_iter().map(|size| landmarks.suited(size)));
    }
    sizes.extend(halved(kernel));
    sizes.into_iter().collect()
}

/// Sizes at which the quadrants of `strassen` end inside and beyond a tile of the kernels that add them, with a
/// remainder in m, n and k.
pub(crate) fn halved(kernel: &Kernel) -> Vec<Size> {
    let Some((granule, levels)) = kernel.granule().zip(kernel.levels()) else { return Vec::new() };
    let added = kernel.launched().into_iter().filter(|kernel| !kernel.multiplies());
    let blocks = added.filter_map(|kernel| kernel.programs().entries.first()).map(|program| program.block);
    // The quadrants of A, of B and of D have different extents; the tiles of their sums are long in one direction.
    let tile = blocks.map(|block| block.m.max(block.n) as usize).max().unwrap_or(1);
    // Granules of the largest quadrants that make a tile.
    let least = granule.map(|granule| granule << (levels - 1));
    let whole = least.map(|least| tile.div_ceil(least));
    let quadrants = |[m, n, k]: [usize; 3]| Size::new(2 * m * least[0], 2 * n * least[1], 2 * k * least[2]);
    let [m, n, k] = whole;
    let short = [m, n, k].map(|whole| whole.div_ceil(4) + 1);
    let ends = [
        ([1, 1, 1], [1, 3, 2]),
        (whole, [0, 0, 0]),
        ([m + 1, n - n / 4, k + 1], [1, 0, 0]),
        ([short[0], n + 1, k - k / 2], [0, least[1] / 2, 1]),
        ([m - m / 2, short[1], k - k / 4], [2 * least[0] - 1, 1, least[2]]),
    ];
    let sized = |(of, [m, n, k]): ([usize; 3], [usize; 3])| {
        let size = quadrants(of);
        Size::new(size.m + m, size.n + n, size.k + k)
    };
    ends.map(sized).to_vec()
}

/// Steps of k that take the interpreter as long as a block's prologue and epilogue.
const BLOCK: usize = 16;

/// How long the interpreter takes for a product, in multiply-adds. A block computes its whole tile, even if only a part of
/// it lies inside.
pub fn work(kernel: &Kernel, size: &Size) -> usize {
    let Some(program) = kernel.programs().entries.first() else { return 0 };
    let tile = kernel.interface().entries[0].tile;
    let steps = products(kernel) * size.k + program.scheduler.parts() as usize * BLOCK;
    size.m.next_multiple_of(tile.m.max(1) as usize) * size.n.next_multiple_of(tile.n.max(1) as usize) * steps
}

/// Plane products for each product; 1 if operands are not split.
pub(crate) fn products(kernel: &Kernel) -> usize {
    let walk = kernel.programs().entries.first().and_then(|program| program.walk.as_ref());
    walk.map_or(1, |walk| walk.pairs.len())
}

/// Sizes that [`edge_sizes`] may miss: m, n and k end at every position in a tile of every entry with guards, in the
/// first K-tile and in those that fill the slots of a pipeline, and for each part where K is split.
pub(crate) fn every_end(kernel: &Kernel) -> Vec<Size> {
    let mut sizes = BTreeSet::new();
    for landmarks in of_kernel(kernel).iter().filter(|landmarks| landmarks.guarded) {
        let [m, n, k] = landmarks.tile;
        let tiles = landmarks.slots.last().copied().unwrap_or(1) + 1;
        for end in 0..m.max(n).max(k) {
            let (slot, rest) = (end % tiles, 1 + end / tiles % k);
            // Choose different ends for m and n.
            let whole = landmarks.parts.max(1) * (slot + 1) - 1;
            let size = Size::new(1 + end % m, 1 + (end + n / 2 + 1) % n, whole * k + rest);
            sizes.insert(landmarks.suited(size));
        }
    }
    sizes.into_iter().collect()
}

/// Sizes at which the K-tiles of a tile are divided among blocks, for every entry that does so, also with enough K-tiles for
/// each block to fill each slot three times; sizes at which packed operands end in every part of the tile that a warp copies;
/// and sizes at which narrow tiles have one column more.
pub(crate) fn rare(kernel: &Kernel) -> Vec<Size> {
    let mut sizes = BTreeSet::new();
    // Whether the alignment of D alone decides which entry runs.
    let of_d = |entry: &Entry| entry.requires.iter().all(|requires| requires.operand == Operand::D);
    let of_d_alone = kernel.interface().entries.len() > 1 && kernel.interface().entries.iter().all(of_d);
    for landmarks in of_kernel(kernel) {
        streamed(&landmarks, &mut sizes);
        let slots = landmarks.slots.last().copied().unwrap_or(1);
        let parts = landmarks.streamed.map_or(landmarks.parts.max(1), |(wave, _)| wave);
        if parts > 1 {
            let k = parts * (2 * slots + 1) * landmarks.tile[2];
            sizes.insert(landmarks.suited(Size::new(1, 3, k)));
            // A single row is aligned whatever its leading dimension is.
            if of_d_alone {
                sizes.insert(landmarks.suited(Size::new(2, 3, k)));
            }
        }
        packed(&landmarks, 1, &mut sizes);
    }
    // One column more than each multiple that a narrow tile can have.
    for (entry, landmarks) in kernel.interface().entries.iter().zip(of_kernel(kernel)) {
        let edges = entry.narrow.iter().flat_map(|narrow| narrow.edges());
        let k = past_a_tile(&landmarks, entry);
        sizes.extend(edges.map(|(m, n)| Size::new(m as usize, n as usize, k)));
    }
    sizes.into_iter().collect()
}

/// The k of a K-tile and the first element of the next one, in the last part if there are several.
fn past_a_tile(landmarks: &Landmarks, entry: &Entry) -> usize {
    (2 * landmarks.parts.max(1) - 1) * entry.tile.k as usize + 1
}

/// Sizes at which a persistent block computes two tiles, each with a K-tile more than the ring has slots, and at which another
/// one fills each slot three times: with each width of narrow tiles, since each has its own loop over k. In a group the ring
/// and the list of products carry over from one product to the next.
pub(crate) fn refilled(kernel: &Kernel) -> Vec<Size> {
    let size = |landmarks: &Landmarks| {
        let ([m, _, k], slots) = (landmarks.tile, landmarks.slots.last()?);
        Some(landmarks.suited(Size::new((landmarks.groups * landmarks.wave? + 1) * m, 3, slots * k + 1)))
    };
    let all = of_kernel(kernel);
    let narrow = all.iter().zip(&kernel.interface().entries).flat_map(|(landmarks, entry)| {
        let slots = landmarks.slots.last().copied().unwrap_or(1);
        let [rows, columns, depth] = landmarks.tile;
        let (tiles, k) = match landmarks.wave {
            Some(wave) => (landmarks.groups * wave + 1, slots * depth + 1),
            None => (1, landmarks.parts.max(1) * (2 * slots + 1) * depth),
        };
        let edges = entry.narrow.iter().filter(|_| kernel.problem().batch != Batch::Grouped);
        // At an edge the other extent is 3: one tile.
        let across =
            move |extent: u64, tile: usize| if extent == 3 && tiles > 1 { tiles * tile } else { extent as usize };
        edges.flat_map(|narrow| narrow.edges()).map(move |(m, n)| Size::new(across(m, rows), across(n, columns), k))
    });
    all.iter().filter_map(size).chain(narrow).collect()
}

/// Sizes of one tile with K-tiles that fill each slot once.
pub(crate) fn filled_once(kernel: &Kernel) -> Vec<Size> {
    let size = |landmarks: &Landmarks| {
        let ([m, n, k], slots) = (landmarks.tile, landmarks.slots.last().copied().unwrap_or(1));
        landmarks.suited(Size::new(m, n, slots * k))
    };
    of_kernel(kernel).iter().map(size).collect()
}

/// Sizes of two by two whole tiles, for every entry, and of one tile in each narrow width.
pub(crate) fn tiles_inside(kernel: &Kernel) -> Vec<Size> {
    let whole = |landmarks: &Landmarks| {
        let [m, n, k] = landmarks.tile;
        landmarks.suited(Size::new(2 * m, 2 * n, k + 1))
    };
    // A multiple of the granularity, not one column more; at an edge the other extent is 3.
    let less = |extent: u64| if extent == 3 { 3 } else { extent as usize - 1 };
    let all = of_kernel(kernel);
    let narrow = all.iter().zip(&kernel.interface().entries).flat_map(|(landmarks, entry)| {
        let edges = entry.narrow.iter().flat_map(|narrow| narrow.edges());
        let k = past_a_tile(landmarks, entry);
        edges.map(move |(m, n)| Size::new(less(m), less(n), k))
    });
    let narrow = narrow.filter(|size| size.m > 0 && size.n > 0 && kernel.problem().batch != Batch::Grouped);
    all.iter().map(whole).chain(narrow).collect()
}

fn edges(landmarks: &Landmarks) -> BTreeSet<Size> {
    let [m, n, k] = landmarks.tile;
    let mut sizes = BTreeSet::new();
    for (i, j, l) in [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1), (2, 2, 3)] {
        sizes.insert(Size::new(i * m, j * n, l * k));
    }
    if !landmarks.guarded {
        return sizes;
    }
    // Whole tiles in one direction: only there can the count of tiles be off by one.
    let whole = [(2 * m, n, 3), (m, 2 * n, 3)];
    let corners = [(1, 1, 0), (1, 1, 1), (0, 3, 3), (3, 0, 3), (2 * m + 1, 2 * n + 1, 2 * k + 1)];
    for (i, j, l) in whole.into_iter().chain(corners) {
        sizes.insert(Size::new(i, j, l));
    }
    for m in around(&landmarks.m, &landmarks.widths) {
        sizes.insert(Size::new(m, n + 1, k + 1));
    }
    for n in around(&landmarks.n, &landmarks.widths) {
        sizes.insert(Size::new(m + 1, n, k + 1));
    }
    // Every slot is filled once, and every slot is filled twice more: a barrier that lets one round pass fails in the
    // next.
    let slots = landmarks.slots.iter().flat_map(|slots| [k * slots, k * (slots + 1), k * (2 * slots + 1)]);
    let around_k = around(&slots.chain(landmarks.unroll.iter().copied()).chain([k]).collect(), &landmarks.widths);
    // All but the last row and column of a tile; its middle, which distinguishes guards of lanes and of vectors; and
    // one element more than a tile.
    let corners = [(m.max(2) - 1, n.max(2) - 1), (residue(m), residue(n)), (m + 1, n + 1)];
    for (index, k) in around_k.into_iter().enumerate() {
        let (m, n) = corners[index % corners.len()];
        sizes.insert(Size::new(m, n, k));
        sizes.insert(Size::new(1, 1, k));
    }
    beyond(landmarks, &mut sizes);
    packed(landmarks, 0, &mut sizes);
    streamed(landmarks, &mut sizes);
    // A block's second tile, also with k = 0: then no barrier of the main loop is between two tiles.
    let second = |wave: usize| {
        [
            Size::new((wave + 1) * m, 3, 0),
            Size::new((wave + 1) * m - 1, 3, 0),
            Size::new((2 * wave - 1) * m + 1, n, k + 1),
        ]
    };
    sizes.extend(landmarks.wave.iter().copied().flat_map(second));
    // One tile for each ping-pong group and one more, with more K-tiles than the ring has slots: a group that skips its
    // ordered barrier finds slots that are being filled for another group.
    let in_turn = |(wave, slots): (usize, usize)| Size::new((landmarks.groups * wave + 1) * m, 3, slots * k + k + 1);
    if landmarks.groups > 1 {
        sizes.extend(landmarks.wave.into_iter().zip(landmarks.slots.last().copied()).map(in_turn));
    }
    sizes
}

/// Tiles with K-tiles divided among the blocks of a wave: one tile for all blocks, two tiles for each three, less than
/// a wave, a wave and one tile, and several whole waves and some tiles.
fn streamed(landmarks: &Landmarks, sizes: &mut BTreeSet<Size>) {
    let Some((wave, depth)) = landmarks.streamed else { return };
    let [m, n, k] = landmarks.tile;
    sizes.extend([
        Size::new(m - 1, n, wave * depth + 3),
        Size::new(1, n, 2 * depth + 1),
        Size::new(m + 1, n + 1, depth + k + 1),
        Size::new((wave + 1) * m - 1, n, 2 * k + 1),
        Size::new(1, (2 * wave + 1) * n, 3 * k),
        Size::new(2 * m + 1, wave * n + 1, k),
        Size::new(2 * m, wave * n, k + 1),
    ]);
}

/// Blocks of a wave of stream-K, and a product, for which a block begins with the second K-tile of a tile, or with its second
/// piece, and the next block ends it: two blocks have begun it, and one of them by a single K-tile or piece. `None` without stream-K.
pub(crate) fn begun_by_one(kernel: &Kernel) -> Option<(u32, Size)> {
    let of_entries = of_kernel(kernel);
    let landmarks = of_entries.first()?;
    let (wave, depth) = landmarks.streamed?;
    let [m, n, k] = landmarks.tile;
    let waves = match kernel.programs().entries.first()?.scheduler.persistent {
        Some(Wave::Blocks(_)) => wave..=wave,
        Some(Wave::Device) | None => wave..=WIDEST,
    };
    let batch = kernel.problem().batch;
    let products = if batch == Batch::Strided { BATCH } else { 1 };
    // A group's tiles are divided in pieces of several K-tiles, and never those of a whole wave.
    let (piece, wave_too) = if batch == Batch::Grouped { (depth / k, false) } else { (1, true) };
    let candidates =
        waves.flat_map(|wave| (1..wave).flat_map(move |columns| (0..4).map(move |more| (wave, columns, more))));
    candidates.into_iter().find_map(|(wave, columns, more)| {
        let (tiles, k_extent) = (columns * products, more * depth + 1);
        // Divided like `Grid::blocks` and the lowering of stream-K.
        let (blocks, pieces) = (wave.min(tiles * (more + 1)), k_extent.div_ceil(k).div_ceil(piece));
        let (shared, each) = (tiles % blocks, usize::from(wave_too && tiles >= blocks && tiles % blocks > 0));
        let begins = |block: usize| {
            let share = block * shared;
            (block * each + share / blocks, share % blocks * pieces / blocks)
        };
        let found = (0..blocks).any(|block| {
            let ((tile, first), (next, _)) = (begins(block), begins(block + 1));
            first == 1 && tile == next && begins(block + 1).1 > 1
        });
        let size = landmarks.suited(Size::new(m.min(3), columns * n, k_extent));
        found.then_some((wave as u32, size))
    })
}

/// The largest wave that is worth a run in the interpreter.
const WIDEST: usize = 64;

/// Elements of 16 bits that a thread packs at once.
const VECTOR: usize = 8;

/// Operands that are packed: their last row is in each of the rows that a warp copies, and their last column in each of
/// the columns, and there is a second tile. A warp copies 32 columns at a time: the last column is among the first ones of
/// those in rows copied by a pass of the same parity as `turn`, and otherwise among the others.
fn packed(landmarks: &Landmarks, turn: usize, sizes: &mut BTreeSet<Size>) {
    for &Packed { side, tile: [extent, depth], rows, around } in &landmarks.packs {
        let mut insert = |own: usize, k: usize| {
            sizes.insert(match side {
                Side::A => Size::new(own, 3, k),
                Side::B => Size::new(3, own, k),
            });
        };
        for pass in 0..(extent.max(depth) / rows.max(1)) {
            let half = (pass + turn) % 2;
            let (row, column) = (pass * rows + 1 + 3 * pass % rows, 32 * half + 1 + 5 * pass % 31);
            insert(row.min(extent), column);
            insert(32 * (1 - half) + 2 + 7 * pass % 29, row.min(depth));
        }
        // A row that ends where the next one begins, in the packed copy too.
        insert(32, depth);
        insert(extent, 32);
        insert(2 * extent - 1, 2 * depth - 1);
        insert(2 * extent + 1, depth + 1);
        // The second tile of each row is inside with a vector on each side, or one element short of that.
        for (fast, past) in around.into_iter().flat_map(|fast| [(fast, VECTOR), (fast, VECTOR - 1)]) {
            match fast {
                Fast::K => insert(extent, 2 * depth + past),
                Fast::Mn => insert(2 * extent + past, depth),
            }
        }
    }
}

/// Faults that only a second tile shows.
fn beyond(landmarks: &Landmarks, sizes: &mut BTreeSet<Size>) {
    let [m, n, k] = landmarks.tile;
    // Ends of k in the middle of the second K-tile and of the third, however deep the pipeline.
    for k in [2 * k - 1, 2 * k, 2 * k + 1, k + residue(k), 2 * k + residue(k)] {
        sizes.insert(Size::new(residue(m), n + residue(n), k));
    }
    for (m, n) in [(m + residue(m), residue(n)), (2 * m - 1, 1), (1, 2 * n - 1)] {
        sizes.insert(Size::new(m, n, k + 2));
    }
    // An end in each pass of a copy, after each row of a thread tile and after each element of a vector: in the first
    // K-tile, which a pipeline copies in separate code, and in the second, for one part if there are parts.
    let second = if landmarks.parts > 1 { landmarks.parts + 1 } else { 1 };
    for index in 0..ENDS {
        let rest = 1 + index % k;
        let k = if index / 4 % 2 == 0 { k + 1 - rest } else { second * k + rest };
        sizes.insert(Size::new(end(m, index), end(n, 5 * index + 7), k));
    }
    // An end in each quarter of each K-tile that a slot is filled with before it is filled again.
    for (slot, quarter) in
        (1..=landmarks.slots.last().copied().unwrap_or(1).min(8)).flat_map(|s| (0..4).map(move |q| (s, q)))
    {
        sizes.insert(Size::new(residue(m), residue(n), slot * k + (2 * quarter + 1) * k / 8));
    }
    // The second band of tiles, narrower than the first: with one tile, and, where that is not too much to run, with
    // several.
    let (band, along) = landmarks.band;
    let k_short = k.min(3);
    // Tiles along the bands, and the remainder along and across them: an element, or a whole tile.
    let along_m = along != Along::M;
    let whole = if along_m { n } else { m };
    let mut bands = vec![(band, 1, 1), (band, 1, whole)];
    if m * n <= MOST_IN_BANDS {
        let (over, across) = if along_m { (residue(m), residue(n)) } else { (residue(n), residue(m)) };
        bands.push((band + band / 2, over, across));
    }
    for (tiles, over, across) in bands {
        sizes.insert(match along_m {
            true => Size::new(tiles * m + over, n + across, k_short),
            false => Size::new(m + across, tiles * n + over, k_short),
        });
    }
    // One more element than there are whole K-tiles, one for each part, and parts without any.
    if landmarks.parts > 1 {
        for k in [landmarks.parts * k + 1, landmarks.parts * k - 1, (landmarks.parts - 1) * k + 1] {
            sizes.insert(Size::new(m + 1, n + 1, k));
        }
        // Each part of a whole tile fills every slot, and twice more.
        let slots = landmarks.slots.last().copied().unwrap_or(1);
        sizes.insert(Size::new(m + 1, n, landmarks.parts * (2 * slots + 1) * k + 1));
    }
}

/// An extent in the middle of a tile that no vector, fragment or thread tile divides, unless the tile has only one
/// element.
fn residue(tile: usize) -> usize {
    (tile / 2 + 1) | 1
}

/// The largest tile, in elements, for which a band of several tiles is still small.
const MOST_IN_BANDS: usize = 128 * 128;

/// The number of ends within a tile that are tried.
const ENDS: usize = 16;

/// One of [`ENDS`] positions spread over a tile, and over the remainders modulo any small power of 2.
fn end(tile: usize, index: usize) -> usize {
    let (index, part) = (index % ENDS, (tile / ENDS).max(1));
    let step = if part <= ENDS { index * part / ENDS } else { index * (part / ENDS + 1) % part };
    match index * part + step {
        0 => tile,
        end => end.min(tile),
    }
}

/// A few sizes that run every entry, in the interior and at the edges: for tools that slow kernels down a hundred times.
pub fn quick_sizes(kernel: &Kernel) -> Vec<Size> {
    let mut sizes = Vec::new();
    for landmarks in of_kernel(kernel) {
        for size in quick(&landmarks).into_iter().map(|size| landmarks.suited(size)) {
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
    }
    sizes
}

fn quick(landmarks: &Landmarks) -> Vec<Size> {
    let [m, n, k] = landmarks.tile;
    let k = k.max(4);
    let whole = Size::new(m, n, 2 * k);
    if !landmarks.guarded {
        return vec![whole];
    }
    let deep = k * (landmarks.slots.last().copied().unwrap_or(1) + 1);
    // Rows of a multiple of 16 elements keep their alignment, and so the widest accesses, past the edge of a tile.
    vec![whole, Size::new(m + 16, n + 16, deep + 16), Size::new(m + 1, n + 3, deep + 1), Size::new(3, 5, 7)]
}

/// Each extent, and its neighbours on both sides.
fn around(extents: &BTreeSet<usize>, widths: &BTreeSet<usize>) -> BTreeSet<usize> {
    let all = extents.iter().chain(widths).copied().chain([1]);
    all.flat_map(|extent| [extent.saturating_sub(1), extent, extent + 1]).collect()
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::terms::Tail;
    use ptx_gemm_runtime::Kernel;

    use std::collections::BTreeSet;

    use super::{ENDS, Entry, Operand, end, quick_sizes, rare};
    use crate::cases;

    /// Where the alignment of D decides which entry runs, each entry fills every slot three times in each part of k.
    #[test]
    fn parts_fill_the_slots_of_every_entry() {
        let of_d = |entry: &Entry| entry.requires.iter().all(|requires| requires.operand == Operand::D);
        let texts = ["split_k(2)", "split_k(4, reduce = workspace)"].map(|split| {
            format!(
                "types(bf16); layout(b = col); tile(64, 64, 128); atom(wgmma(64, 64, 16)); load(tma); stages(6); \
                 specialize(producers = 1 warp); {split};"
            )
        });
        for text in texts {
            let kernel = Kernel::compile(&text.parse().unwrap(), None).unwrap();
            let programs = &kernel.programs().entries;
            let parts = programs[0].scheduler.parts() as usize;
            assert!(kernel.interface().entries.len() > 1 && kernel.interface().entries.iter().all(of_d), "{text}");
            let slots = programs[0].rings[0].depth as usize;
            let (rows, deep) = (2..8, parts * (2 * slots + 1) * programs[0].block.k as usize);
            let found = |size: &crate::Size| rows.contains(&size.m) && rows.contains(&size.n) && size.k >= deep;
            assert!(rare(&kernel).iter().any(found), "{text}");
        }
    }

    /// Each row of a thread tile of up to 16 rows is the first one outside the matrix at some size.
    #[test]
    fn ends_have_every_remainder() {
        for tile in [32, 64, 128, 256, 512] {
            let ends: Vec<usize> = (0..ENDS).map(|index| end(tile, index)).collect();
            for power in [2, 4, 8, (tile / ENDS).min(ENDS)] {
                let remainders: BTreeSet<usize> = ends.iter().map(|end| end % power).collect();
                assert_eq!(remainders.len(), power, "{tile} mod {power}: {ends:?}");
            }
            for part in 0..8 {
                let within = |end: &usize| (part * tile / 8..=(part + 1) * tile / 8).contains(end);
                assert!(ends.iter().any(within), "{tile}, eighth {part}: {ends:?}");
            }
        }
    }

    /// Sizes for the sanitizer: every schedule inside its tiles and at their edges, with every kind of access.
    #[test]
    fn quick_sizes_have_an_inside_and_an_edge() {
        for case in cases() {
            let kernel = Kernel::compile(&case.schedule().unwrap(), None).unwrap();
            let entries = &kernel.interface().entries;
            let tile = entries[0].tile;
            let block = [tile.m, tile.n, tile.k.max(1)].map(|extent| extent as usize);
            let divided = |size: &crate::Size| {
                let rests = [size.m, size.n, size.k].into_iter().zip(block).map(|(extent, tile)| extent % tile == 0);
                rests.filter(|&divides| divides).count()
            };
            let sizes = quick_sizes(&kernel);
            assert!(sizes.iter().any(|size| divided(size) == 3), "{}: nothing inside", case.name);
            if entries[0].tail == Tail::Predicate {
                let unit = block.iter().filter(|&&tile| tile == 1).count();
                assert!(sizes.iter().any(|size| divided(size) == unit), "{}: nothing at every edge", case.name);
                // Rows that are as aligned as the widest accesses require, and rows that are not aligned at all.
                let widest = entries[0].requires.iter().map(|requires| requires.elements as usize).max().unwrap_or(1);
                let wide =
                    |size: &crate::Size| [size.m, size.n, size.k].iter().all(|extent| extent.is_multiple_of(widest));
                let odd = |size: &crate::Size| size.m % 2 == 1 || size.n % 2 == 1;
                assert!(sizes.iter().any(wide) || entries.len() == 1, "{}: no wide access", case.name);
                assert!(sizes.iter().any(odd), "{}: no scalar access", case.name);
            }
        }
    }
}
