//! Sizes at which kernels go wrong: around tiles, fragments, vectors and the depth of the pipeline.

use std::collections::BTreeSet;

use ptx_gemm_dsl::Plan;
use ptx_gemm_dsl::terms::Tail;

/// Extents of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // M, N and K
pub struct Size {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl Size {
    /// M x N x K.
    pub fn new(m: usize, n: usize, k: usize) -> Size {
        Size { m, n, k }
    }
}

/// The sizes that cover every edge of a plan: each interesting extent of one dimension beside awkward ones of the other
/// two, the whole tile and its multiples, and empty products. With `tail(none)`, multiples of the tile only.
pub fn edge_sizes(plan: &Plan) -> Vec<Size> {
    let [m, n, k] = [plan.block.m, plan.block.n, plan.block.k.max(1)].map(|extent| extent as usize);
    let mut sizes = BTreeSet::new();
    for (i, j, l) in [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1), (2, 2, 3)] {
        sizes.insert(Size::new(i * m, j * n, l * k));
    }
    if plan.tail == Tail::None {
        return sizes.into_iter().collect();
    }
    for (i, j, l) in [(1, 1, 0), (1, 1, 1), (0, 3, 3), (3, 0, 3), (2 * m + 1, 2 * n + 1, 2 * k + 1)] {
        sizes.insert(Size::new(i, j, l));
    }
    let width = |copy: fn(&ptx_gemm_dsl::plan::Variant) -> u32| plan.variants.first().map_or(1, |v| copy(v) as usize);
    let widths = [width(|v| v.a.width), width(|v| v.b.width), width(|v| v.d_width)];
    let geometry = &plan.geometry;
    for m in around([m, geometry.region.m as usize, geometry.thread.m as usize, geometry.fragment.m as usize], widths) {
        sizes.insert(Size::new(m, n + 1, k + 1));
    }
    for n in around([n, geometry.region.n as usize, geometry.thread.n as usize, geometry.fragment.n as usize], widths) {
        sizes.insert(Size::new(m + 1, n, k + 1));
    }
    let stages = plan.stages.max(1) as usize;
    for k in around([k, k * stages, k * (stages + 1), plan.unroll as usize], widths) {
        sizes.insert(Size::new(m + 1, n + 1, k));
        sizes.insert(Size::new(1, 1, k));
    }
    sizes.into_iter().collect()
}

/// A few sizes that run every entry, inside and at the edges: for tools that make kernels a hundred times slower.
pub fn quick_sizes(plan: &Plan) -> Vec<Size> {
    let [m, n, k] = [plan.block.m, plan.block.n, plan.block.k.max(4)].map(|extent| extent as usize);
    let whole = Size::new(m, n, 2 * k);
    if plan.tail == Tail::None {
        return vec![whole];
    }
    let deep = k * (plan.stages.max(1) as usize + 1);
    // Rows of a multiple of 16 elements keep their alignment, and so the widest accesses, past the edge of a tile.
    vec![whole, Size::new(m + 16, n + 16, deep + 16), Size::new(m + 1, n + 3, deep + 1), Size::new(3, 5, 7)]
}

/// Each extent, and its neighbours on both sides.
fn around(extents: [usize; 4], widths: [usize; 3]) -> BTreeSet<usize> {
    let all = extents.into_iter().chain(widths).chain([1]);
    all.flat_map(|extent| [extent.saturating_sub(1), extent, extent + 1]).collect()
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::terms::Tail;

    use super::quick_sizes;
    use crate::{cases, tuned};

    /// What the sanitizer sees: every schedule inside its tiles and at their edges, with every kind of access.
    #[test]
    fn quick_sizes_have_an_inside_and_an_edge() {
        for case in cases().chain(tuned()) {
            let plan = case.schedule().unwrap().plan(None).unwrap();
            let block = [plan.block.m, plan.block.n, plan.block.k.max(1)].map(|extent| extent as usize);
            let divided = |size: &super::Size| {
                let rests = [size.m, size.n, size.k].into_iter().zip(block).map(|(extent, tile)| extent % tile == 0);
                rests.filter(|&divides| divides).count()
            };
            let sizes = quick_sizes(&plan);
            assert!(sizes.iter().any(|size| divided(size) == 3), "{}: nothing inside", case.name);
            if plan.tail == Tail::Predicate {
                let unit = block.iter().filter(|&&tile| tile == 1).count();
                assert!(sizes.iter().any(|size| divided(size) == unit), "{}: nothing at every edge", case.name);
                // Rows that keep every alignment, and rows that keep none.
                let wide = |size: &super::Size| [size.m, size.n, size.k].iter().all(|extent| extent.is_multiple_of(16));
                let odd = |size: &super::Size| size.m % 2 == 1 || size.n % 2 == 1;
                assert!(sizes.iter().any(wide) || plan.variants.len() == 1, "{}: no wide access", case.name);
                assert!(sizes.iter().any(odd), "{}: no scalar access", case.name);
            }
        }
    }
}
