//! Clauses to propose in place of an atom or of types that do not go together.

use crate::atoms::{Multiply, Unit, WGMMA_COLUMNS};
use crate::clause::{Atom, Clause, TileClause};
use crate::terms::Extent2;
use crate::types::DType;

/// Arrangements of 32 lanes, squarest first.
const LANES: [(u32, u32); 6] = [(4, 8), (8, 4), (2, 16), (16, 2), (1, 32), (32, 1)];

/// Columns of 16-bit elements in the narrowest swizzle.
const SWIZZLED: u32 = 16;

/// Alternatives with `atom(fma)`, best first: the schedule's own thread tile; thread tiles that fit its warp tile;
/// other thread tiles; and another load, which can reorder an operand.
pub(crate) fn by_threads(warp: Option<TileClause>) -> Vec<String> {
    let of_warp = warp.into_iter().flat_map(|warp| {
        let whole = move |(m, n): &(u32, u32)| warp.m.is_multiple_of(*m) && warp.n.is_multiple_of(*n);
        LANES.into_iter().filter(whole).map(move |(m, n)| Extent2 { m: warp.m / m, n: warp.n / n }).take(2)
    });
    let others = [8, 4].map(|size| Extent2 { m: size, n: size });
    let threads: Vec<String> =
        of_warp.chain(others).map(|thread| format!("atom(fma); {}", Clause::Thread(thread))).collect();
    let with_load = ["load(cp_async)", "load(registers)"].map(|load| format!("{}; {load}", threads[0]));
    std::iter::once("atom(fma)".to_string()).chain(threads).chain(with_load).collect()
}

/// Changes to another operand type: the type alone; with an instruction shape for it; with a tile that the shape
/// divides; and with swizzled rows.
pub(crate) fn with_type(dtype: DType, atom: Atom, tile: Option<TileClause>) -> Vec<String> {
    let types = format!("types({dtype})");
    let with = |atom: Atom, depth: u32, columns: u32| {
        let atom = format!("{types}; {}", Clause::Atom(atom));
        let tile = tile.and_then(|tile| {
            let k = tile.k?.checked_next_multiple_of(depth)?;
            Some(TileClause { n: tile.n.checked_next_multiple_of(columns)?, k: Some(k), ..tile })
        });
        let both = tile.map(|tile| format!("{atom}; {}", Clause::Tile(tile)));
        std::iter::once(atom).chain(both)
    };
    let mut all = vec![types.clone()];
    match atom.tensor() {
        None => {}
        Some((Unit::Warp, _)) => {
            if let Some(row) = Multiply::of(Unit::Warp, dtype).next() {
                all.extend(with(row.atom(), row.depth, 1));
            }
        }
        Some((unit @ Unit::WarpGroup, (m, n, _))) => {
            if let Some(depth) = Multiply::of(Unit::WarpGroup, dtype).next().map(|row| row.depth) {
                let swizzled = n.clamp(SWIZZLED, *WGMMA_COLUMNS.end()).next_multiple_of(SWIZZLED);
                all.extend(with(unit.atom((m, n, depth)), depth, 1));
                all.extend(with(unit.atom((m, swizzled, depth)), depth, swizzled));
            }
        }
    }
    all
}
