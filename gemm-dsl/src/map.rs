//! Which elements of a tile the registers of each thread hold.
//!
//! The index of a thread, and the index of a register within a thread, are read as mixed-radix numbers, fastest digit
//! first. Each digit moves by a number of rows or columns. `16:n8 16:m8` means that 16 threads are next to each other,
//! 8 columns apart, and 16 such rows of threads are 8 rows apart.

use crate::atoms::{MATRIX, Multiply, Unit, WGMMA_ROWS};
use crate::elements::DType;
use crate::plan::{Geometry, Plan};
use crate::target::{WARP, WARP_GROUP};
use crate::terms::{Along, Extent2, Side};

/// One digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digit {
    /// Number of values.
    pub extent: u32,
    /// Rows between consecutive values.
    pub m: u32,
    /// Columns between consecutive values.
    pub n: u32,
}

impl Digit {
    /// A digit that moves along m.
    pub fn m(extent: u32, m: u32) -> Digit {
        Digit { extent, m, n: 0 }
    }

    /// A digit that moves along n.
    pub fn n(extent: u32, n: u32) -> Digit {
        Digit { extent, m: 0, n }
    }
}

/// The map of a tile over threads and their registers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Map {
    /// Digits of a thread's index in its role or, if there are warp digits, of a lane's index in its warp.
    pub thread: Vec<Digit>,
    /// Digits of a warp's index in its role; empty if the map does not depend on warps.
    pub warp: Vec<Digit>,
    /// Digits of a register's index.
    pub element: Vec<Digit>,
}

impl Map {
    /// A map; digits with a single value are dropped.
    pub fn new(thread: Vec<Digit>, warp: Vec<Digit>, element: Vec<Digit>) -> Map {
        let more = |digits: Vec<Digit>| digits.into_iter().filter(|digit| digit.extent != 1).collect();
        Map { thread: more(thread), warp: more(warp), element: more(element) }
    }

    /// The accumulators of `mma` with m16n8 in one warp (PTX ISA, "Matrix fragments for mma.m16n8k16": c0 and c1 are
    /// adjacent, c2 and c3 eight rows below).
    pub fn m16n8() -> Map {
        Map::new(vec![Digit::n(4, 2), Digit::m(8, 1)], vec![], vec![Digit::n(2, 1), Digit::m(2, 8)])
    }

    /// The accumulators of `mma` with 16 or 8 rows in one warp; the latter have c0 and c1 alone.
    pub fn of_warp(rows: u32) -> Map {
        let mut map = Map::m16n8();
        if rows == MATRIX {
            map.element.truncate(1);
        }
        map
    }

    /// The elements of A over rows and k, or of B over k and columns, of an instruction of a warp: a register of 32 bits holds
    /// neighbours along k (PTX ISA, "Matrix fragments for mma.m16n8k16" and of the other shapes).
    pub fn of_factor(row: &Multiply, side: Side, element: DType) -> Map {
        let each = (32 / element.element().bits).max(1);
        let (lanes, more) = (Digit::n(4, each), [Digit::n(each, 1), Digit::n(row.depth / (4 * each), 4 * each)]);
        let of_a = Map::new(vec![lanes, Digit::m(8, 1)], vec![], vec![more[0], Digit::m(row.rows / 8, 8), more[1]]);
        let turned =
            |digits: Vec<Digit>| digits.into_iter().map(|digit| Digit { m: digit.n, n: digit.m, ..digit }).collect();
        match side {
            Side::A => of_a,
            // Eight columns, once.
            Side::B => Map::new(turned(of_a.thread), vec![], turned(Map::new(vec![], vec![], more.to_vec()).element)),
        }
    }

    /// The accumulators of `wgmma` with m64nN in one warp group (PTX ISA, "wgmma.mma_async, accumulator D"): each warp
    /// holds 16 rows in the layout of m16n8, repeated every 8 columns.
    pub fn m64(n: u32) -> Map {
        Map::new(
            vec![Digit::n(4, 2), Digit::m(8, 1)],
            vec![Digit::m(4, 16)],
            vec![Digit::n(2, 1), Digit::m(2, 8), Digit::n(n / 8, 8)],
        )
    }

    /// The accumulators of `wgmma` with m64nN in `groups` warp groups that each compute `part`: several instructions,
    /// first along n, then along m. Neighbouring warp groups are neighbours along n.
    pub fn m64s(n: u32, part: Extent2, groups: Extent2) -> Map {
        let mut map = Map::m64(n);
        map.warp.extend([Digit::n(groups.n, part.n), Digit::m(groups.m, part.m)]);
        map.element.extend([Digit::n(part.n / n, n), Digit::m(part.m / WGMMA_ROWS, WGMMA_ROWS)]);
        Map::new(map.thread, map.warp, map.element)
    }

    /// The part of the tile that each warp group computes, and the number of warp groups along m and n, if these are
    /// the accumulators of `wgmma` with m64nN.
    pub fn warp_groups(&self, n: u32) -> Option<(Extent2, Extent2)> {
        let atom = Map::m64(n);
        let of_warps = self.warp.strip_prefix(atom.warp.as_slice())?;
        let of_registers = self.element.strip_prefix(atom.element.as_slice())?;
        let (mut part, mut groups) = (Extent2 { m: WGMMA_ROWS, n }, Extent2 { m: 1, n: 1 });
        for digit in of_registers {
            let extent = if digit.m > 0 { &mut part.m } else { &mut part.n };
            *extent = extent.checked_mul(digit.extent)?;
        }
        for digit in of_warps {
            *(if digit.m > 0 { &mut groups.m } else { &mut groups.n }) = digit.extent;
        }
        (*self == Map::m64s(n, part, groups)).then_some((part, groups))
    }

    /// Number of threads that share the tile; saturates.
    pub fn threads(&self) -> u32 {
        product(&self.thread).saturating_mul(product(&self.warp))
    }

    /// Number of registers per thread; saturates.
    pub fn elements(&self) -> u32 {
        product(&self.element)
    }

    /// Row and column of register `element`, relative to the thread's first one.
    pub fn position(&self, element: u32) -> (u32, u32) {
        offset(&self.element, element)
    }

    /// Row and column of the first element of thread `thread`.
    pub fn first(&self, thread: u32) -> (u32, u32) {
        let (lane, warp) = if self.warp.is_empty() { (thread, 0) } else { (thread % WARP, thread / WARP) };
        let ((m, n), (warp_m, warp_n)) = (offset(&self.thread, lane), offset(&self.warp, warp));
        (m + warp_m, n + warp_n)
    }

    /// The first row (of A) or column (of B) that a thread computes.
    pub fn first_of(&self, side: Side, thread: u32) -> u32 {
        let (row, column) = self.first(thread);
        if side == Side::A { row } else { column }
    }

    /// The rows (of A) or columns (of B) of a thread, relative to the first one.
    pub fn all_of(&self, side: Side) -> Vec<u32> {
        if side == Side::A { self.rows() } else { self.cols() }
    }

    /// The distinct rows of a thread's registers, ascending, relative to the first one.
    pub fn rows(&self) -> Vec<u32> {
        distinct(self.element.iter().map(|digit| (digit.extent, digit.m)))
    }

    /// The distinct columns of a thread's registers, ascending, relative to the first one.
    pub fn cols(&self) -> Vec<u32> {
        distinct(self.element.iter().map(|digit| (digit.extent, digit.n)))
    }

    /// Number of adjacent elements that a thread holds along m or n, which limits the width of a vector access.
    pub fn run(&self, along_n: bool) -> u32 {
        let step = |digit: &Digit| if along_n { digit.n } else { digit.m };
        let mut digits: Vec<(u32, u32)> =
            self.element.iter().map(|digit| (step(digit), digit.extent)).filter(|(step, _)| *step > 0).collect();
        digits.sort_unstable();
        digits.into_iter().fold(1, |run, (step, extent)| if step == run { run * extent } else { run })
    }

    /// Registers in the order of their elements: by rows, and by columns within a row.
    pub fn row_major(&self) -> Vec<u32> {
        let mut registers: Vec<u32> = (0..self.elements()).collect();
        registers.sort_by_key(|register| self.position(*register));
        registers
    }

    /// The first rows and the first columns of a thread's parts of results of `mma` with some rows, ascending, relative to
    /// the first one. The map is that of [`Map::of_warp`] with more register digits.
    pub fn pieces(&self, rows: u32) -> (Vec<u32>, Vec<u32>) {
        let more = self.element.get(Map::of_warp(rows).element.len()..).unwrap_or_default();
        (
            distinct(more.iter().map(|digit| (digit.extent, digit.m))),
            distinct(more.iter().map(|digit| (digit.extent, digit.n))),
        )
    }

    /// The reason why the map does not hold every element of an `m` x `n` tile exactly once, if it does not.
    pub fn fault(&self, m: u32, n: u32) -> Option<String> {
        let digits = || self.thread.iter().chain(&self.warp).chain(&self.element);
        if let Some(digit) = digits().find(|d| d.extent < 2 || (d.m == 0) == (d.n == 0)) {
            return Some(format!(
                "a digit with {} values moves {} rows and {} columns",
                digit.extent, digit.m, digit.n
            ));
        }
        if !self.warp.is_empty() && product(&self.thread) != WARP {
            return Some(format!("the digits of a lane have {} values instead of {WARP}", product(&self.thread)));
        }
        let along_m = covers(digits().filter(|d| d.m > 0).map(|d| (d.extent, d.m)).collect(), m);
        let along_n = covers(digits().filter(|d| d.n > 0).map(|d| (d.extent, d.n)).collect(), n);
        match (along_m, along_n) {
            (false, _) => Some(format!("not every one of the tile's {m} rows is held exactly once")),
            (_, false) => Some(format!("not every one of the tile's {n} columns is held exactly once")),
            _ => None,
        }
    }
}

impl Plan {
    /// The map of a plan's accumulators: row by row of the thread tile, or in the order of the matrix instruction.
    pub fn map(&self) -> Map {
        match self.atom.tensor() {
            None => thread_map(&self.geometry),
            Some((Unit::Warp, (rows, columns, _))) => {
                let (mut map, Geometry { regions, region, .. }) = (Map::of_warp(rows), self.geometry);
                map.warp = vec![Digit::n(regions.n, region.n), Digit::m(regions.m, region.m)];
                map.element.extend([Digit::n(region.n / columns, columns), Digit::m(region.m / rows, rows)]);
                Map::new(map.thread, map.warp, map.element)
            }
            Some((Unit::WarpGroup, (_, columns, _))) => {
                let Geometry { regions, region, .. } = self.geometry;
                // A region is what one of the four warps of a group computes.
                let warps = WARP_GROUP / WARP;
                let part = Extent2 { m: region.m * warps, n: region.n };
                Map::m64s(columns, part, Extent2 { m: regions.m / warps, n: regions.n })
            }
        }
    }
}

/// The map of a geometry's accumulators, row by row of the thread tile.
fn thread_map(geometry: &Geometry) -> Map {
    let (grid, fragment, stride, repeat) = (geometry.grid, geometry.fragment, geometry.stride, geometry.repeat);
    let thread = match geometry.along {
        Along::N => vec![Digit::n(grid.n, fragment.n), Digit::m(grid.m, fragment.m)],
        Along::M => vec![Digit::m(grid.m, fragment.m), Digit::n(grid.n, fragment.n)],
        Along::Z if grid.n == 8 => {
            vec![Digit::n(2, fragment.n), Digit::m(4, fragment.m), Digit::n(4, 2 * fragment.n)]
        }
        Along::Z => vec![Digit::m(2, fragment.m), Digit::n(4, fragment.n), Digit::m(4, 2 * fragment.m)],
    };
    let (regions, region) = (geometry.regions, geometry.region);
    let warp = vec![Digit::n(regions.n, region.n), Digit::m(regions.m, region.m)];
    let element = vec![
        Digit::n(fragment.n, 1),
        Digit::n(repeat.n, stride.n),
        Digit::m(fragment.m, 1),
        Digit::m(repeat.m, stride.m),
    ];
    Map::new(thread, warp, element)
}

/// True if digits (values, step) reach each of `0 .. extent` exactly once: when sorted by step, each step is the
/// product of the extents before it.
fn covers(mut digits: Vec<(u32, u32)>, extent: u32) -> bool {
    digits.sort_by_key(|(_, step)| *step);
    let mut reached = 1u64;
    for (values, step) in digits {
        if u64::from(step) != reached {
            return false;
        }
        reached *= u64::from(values);
        if reached > u64::from(extent) {
            return false;
        }
    }
    reached == u64::from(extent)
}

fn product(digits: &[Digit]) -> u32 {
    digits.iter().fold(1, |product, digit| product.saturating_mul(digit.extent))
}

fn offset(digits: &[Digit], mut number: u32) -> (u32, u32) {
    let mut at = (0, 0);
    for digit in digits {
        let value = number % digit.extent;
        number /= digit.extent;
        at = (at.0 + value * digit.m, at.1 + value * digit.n);
    }
    at
}

fn distinct(digits: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    let mut all = vec![0];
    for (values, step) in digits.filter(|(_, step)| *step > 0) {
        all = (0..values).flat_map(|value| all.iter().map(move |at| at + value * step)).collect();
    }
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PTX ISA, accumulators of m16n8: element i of lane l is at row `l / 4 + 8 (i / 2)`, column `2 (l % 4) + i % 2`.
    #[test]
    fn m16n8_is_the_manuals() {
        let map = Map::m16n8();
        for lane in 0..32 {
            for i in 0..4 {
                let ((m, n), (row, col)) = (map.first(lane), map.position(i));
                assert_eq!((m + row, n + col), (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2));
            }
        }
        assert_eq!(map.fault(16, 8), None);
    }

    /// PTX ISA, accumulators of m64nN: d[i] of thread t is at row `16 (t / 32) + (t % 32) / 4 + 8 ((i / 2) % 2)`,
    /// column `2 (t % 4) + i % 2 + 8 (i / 4)`.
    #[test]
    fn m64_is_the_manuals() {
        for n in [8, 64, 256] {
            let map = Map::m64(n);
            for t in 0..128 {
                for i in 0..n / 2 {
                    let ((m, n), (row, col)) = (map.first(t), map.position(i));
                    let expected = (16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2), 2 * (t % 4) + i % 2 + 8 * (i / 4));
                    assert_eq!((m + row, n + col), expected);
                }
            }
            assert_eq!(map.fault(64, n), None);
            assert_eq!(map.elements(), n / 2);
        }
    }

    /// Register digits may be in any order, and adjacent elements may be in distant registers.
    #[test]
    fn registers_are_ordered_by_what_they_hold() {
        let map = Map::new(vec![], vec![], vec![Digit::m(2, 1), Digit::n(2, 4)]);
        assert_eq!(map.row_major(), [0, 2, 1, 3]);
        let atom = Map::m16n8();
        let more = [Digit::m(2, 32), Digit::n(3, 16)];
        let map = Map::new(atom.thread, vec![], [atom.element, more.to_vec()].concat());
        assert_eq!(map.pieces(16), (vec![0, 32], vec![0, 16, 32]));
    }

    #[test]
    fn what_is_held_twice_or_never_is_a_fault() {
        let map = |step| Map::new(vec![Digit::n(4, step), Digit::m(4, 1)], vec![], vec![Digit::n(2, 1)]);
        assert_eq!(map(2).fault(4, 8), None);
        assert!(map(1).fault(4, 8).is_some());
        assert!(map(3).fault(4, 8).is_some());
        assert!(map(2).fault(4, 9).is_some());
        assert!(map(2).fault(8, 8).is_some());
    }
}
