//! Chooses the division of a product. Every possibility is estimated, and the fastest that fits the budget is taken; of
//! equally fast ones, the first, which has the deeper slabs.

use std::ops::Range;

use ptx_gemm_codegen::kernel::MAX_EXTENT;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::DType;

use super::geometry::{Geometry, Homes, tiles};
use super::{Division, Links, PlanError, Request, Tuning, Workspace};
use crate::pinned::ADDRESSES;

/// Depths of a slab to choose from. With shallower slabs, the sums are read and written more often.
const DEPTHS: [usize; 7] = [4096, 2048, 1024, 512, 256, 128, 64];
/// Slabs of a ring to choose from: one is multiplied while others arrive.
const RINGS: [usize; 2] = [3, 2];
/// The most launches of a plan, which takes about 100 bytes for each.
const MOST_LAUNCHES: u64 = 1 << 19;
/// The share of their time that copies are expected to cost even if they overlap with products. With this, the choice
/// between two geometries that are bound by products is the one with less traffic.
const CROWDING: f64 = 0.1;

/// The fastest division that fits the budget.
pub(super) fn choose(request: &Request, workspace: Workspace<'_>) -> Result<Geometry, PlanError> {
    let Request { m, n, k, devices, tuning, .. } = *request;
    if devices == 0 {
        return Err(PlanError::NoDevice);
    }
    for (name, got) in [("M", m), ("N", n), ("K", k)] {
        let limit = MAX_EXTENT as usize;
        if got > limit {
            return Err(PlanError::Extent { name, got, limit });
        }
    }
    let matrices = [(Operand::A, m, k), (Operand::B, k, n), (Operand::D, m, n)];
    for (operand, rows, cols) in matrices {
        let dtype = request.types.of(operand);
        let bytes = rows as u128 * cols as u128 * u128::from(dtype.bytes());
        if bytes > ADDRESSES.into() {
            return Err(PlanError::Matrix { operand, rows, cols, dtype, bytes, limit: ADDRESSES });
        }
    }
    for (name, value) in [("the depth of slabs", tuning.depth), ("the ring", tuning.ring), ("strips", tuning.strips)] {
        if value == Some(0) {
            return Err(PlanError::Zero { name });
        }
    }
    let geometry = fastest(request, workspace)?;
    let count = launches(request, &geometry);
    if count > MOST_LAUNCHES {
        let advice = advice(request, &geometry, workspace);
        return Err(PlanError::TooLong { count, limit: MOST_LAUNCHES, advice });
    }
    Ok(geometry)
}

/// The same, with any number of launches.
fn fastest(request: &Request, workspace: Workspace<'_>) -> Result<Geometry, PlanError> {
    let Request { m, n, devices, tuning, .. } = *request;
    let mut best: Option<(f64, Geometry)> = None;
    let mut smallest: Option<(u64, Geometry)> = None;
    for grid in grids(devices) {
        for (depth, ring) in request.depths_and_rings() {
            let of = |rounds| Geometry::with(request, grid, rounds, depth, ring);
            for rounds_m in candidates(tiles(m, request.tile[0]).div_ceil(grid[0])) {
                let most = tiles(n, request.tile[1]).div_ceil(grid[1]).max(1);
                let bytes = |rounds_n| of([rounds_m, rounds_n]).bytes(request, workspace);
                let fits = |rounds_n: &usize| bytes(*rounds_n) <= request.budget;
                let least = of([rounds_m, most]);
                let needed = least.bytes(request, workspace);
                if smallest.is_none_or(|(bytes, _)| needed < bytes) {
                    smallest = Some((needed, least));
                }
                if needed > request.budget {
                    continue;
                }
                // More rounds need less memory.
                let rounds_n = partition(1..most, |rounds| !fits(rounds));
                let geometry = of([rounds_m, rounds_n]);
                let seconds = seconds(request, &geometry);
                if best.is_none_or(|(fastest, _)| seconds < fastest) {
                    best = Some((seconds, geometry));
                }
            }
        }
    }
    let Some((_, geometry)) = best else {
        let (needed, least) = smallest.unwrap_or_default();
        let mut why = match (request.division, tuning.depth) {
            (Division::Whole, _) => {
                ", which the epilogue needs whole: it combines the sum with C other than by adding".to_string()
            }
            (_, Some(_)) => ", as requested".to_string(),
            _ => String::new(),
        };
        if tuning.ring.is_some() && least.ring > RINGS[1] {
            why.push_str(&format!(", {} of them at once, as requested", least.ring));
        }
        let Geometry { block: [rows, cols], depth, .. } = least;
        return Err(PlanError::Budget { budget: request.budget, needed, rows, cols, depth, why });
    };
    Ok(geometry)
}

/// Upper bound of the launches of a plan.
fn launches(request: &Request, geometry: &Geometry) -> u64 {
    let rounds = geometry.rounds.map(|rounds| rounds as u64).iter().product::<u64>();
    let each = (geometry.slabs as u64).saturating_add((geometry.strips as u64).saturating_mul(2));
    rounds.saturating_mul(request.devices as u64).saturating_mul(each)
}

/// How to make a plan short enough: names the first argument that makes it too long.
fn advice(request: &Request, geometry: &Geometry, workspace: Workspace<'_>) -> String {
    let Tuning { depth, ring, strips } = request.tuning;
    let is_enough = |request: Request| {
        fastest(&request, workspace).is_ok_and(|geometry| launches(&request, &geometry) <= MOST_LAUNCHES)
    };
    let with = |tuning: Tuning| is_enough(Request { tuning, ..request.clone() });
    if let Some(strips) = strips.filter(|_| with(Tuning { strips: None, ..request.tuning })) {
        let blocks = geometry.rounds.map(|rounds| rounds as u64).iter().product::<u64>() * request.devices as u64;
        return match (MOST_LAUNCHES / blocks).saturating_sub(geometry.slabs as u64) / 2 {
            0 => format!("{strips} strips of a block are too many, leave the number out"),
            most => format!("{strips} strips of a block are too many, {most} are allowed here"),
        };
    }
    if let Some(ring) = ring.filter(|_| with(Tuning { ring: None, ..request.tuning })) {
        return format!("{ring} slabs at once leave little memory for blocks, {} are enough", RINGS[0]);
    }
    if let Some(depth) = depth.filter(|_| with(Tuning { depth: None, ..request.tuning })) {
        return format!("slabs of {depth} of K are too shallow or too deep, leave the depth out");
    }
    if is_enough(Request { devices: 1, links: Links::Host, ..request.clone() }) {
        return format!("{} devices are too many for so short a product, one is enough", request.devices);
    }
    if is_enough(Request { budget: ADDRESSES, ..request.clone() }) {
        return format!("a budget above {} bytes per device gives larger blocks", request.budget);
    }
    "divide the product".into()
}

/// Seconds by a roofline, from the geometry alone. The ends are left out, since they depend little on it.
fn seconds(request: &Request, geometry: &Geometry) -> f64 {
    let Request { k, types, rates, devices, .. } = request;
    let size = |dtype: DType| f64::from(dtype.bytes());
    let [rows, cols] = geometry.block.map(|extent| extent as f64);
    let rounds = geometry.rounds.map(|rounds| rounds as f64).iter().product::<f64>();
    let (k, devices) = (*k as f64, *devices as f64);
    let sums = 2.0 * geometry.slabs as f64 * rows * cols * size(types.epilogue());
    let products = rounds * (2.0 * rows * cols * k / rates.flops + sums / rates.memory);
    // Devices of a row of the grid share its slab of A, if they are linked.
    let shared = |others: usize| if request.links.join(0, others) { others as f64 } else { 1.0 };
    let [shared_a, shared_b] = match geometry.grid {
        [_, 1] => [1.0, shared(geometry.grid[0])],
        [1, _] => [shared(geometry.grid[1]), 1.0],
        [i, j] => [shared(j), shared(i)],
    };
    let (all_a, all_b) = (rows * k * size(types.a), k * cols * size(types.b));
    let slabs = all_a / shared_a + all_b / shared_b;
    let peer = rounds * (all_a + all_b - slabs) / rates.peer;
    let addend = if Homes::of(request).addend.is_some() { rows * cols * size(types.c) } else { 0.0 };
    let (up, down) = (rounds * (slabs + addend), rounds * rows * cols * size(types.d));
    let host = (devices * up / rates.host[0]).max(devices * (up + down) / rates.host[2]);
    // Filling the ring for the first time.
    let fill = slabs / geometry.slabs as f64 / rates.up;
    let (up, down) = (up / rates.up, down / rates.down);
    products.max(up).max(down).max(host).max(peer) + fill + CROWDING * (up + down + host + peer)
}

impl Request {
    /// Depths of slabs, deepest first, with lengths of the ring.
    fn depths_and_rings(&self) -> Vec<(usize, usize)> {
        let k = self.k.max(1);
        let depths = match (self.tuning.depth, self.division) {
            (_, Division::Whole) => vec![k],
            // A slab ends at the end of a K-tile.
            (Some(depth), _) => vec![depth.next_multiple_of(self.tile[2])],
            (None, _) => {
                let even = |depth: usize| k.div_ceil(k.div_ceil(depth)).next_multiple_of(self.tile[2]);
                DEPTHS.map(even).to_vec()
            }
        };
        let rings = self.tuning.ring.map_or(RINGS.to_vec(), |ring| vec![ring]);
        let mut pairs: Vec<_> = depths.iter().flat_map(|&depth| rings.iter().map(move |&ring| (depth, ring))).collect();
        pairs.dedup();
        pairs
    }
}

/// Every grid of this many devices.
fn grids(devices: usize) -> impl Iterator<Item = [usize; 2]> {
    (1..=devices).filter(move |rows| devices.is_multiple_of(*rows)).map(move |rows| [rows, devices / rows])
}

/// Numbers of rounds to try: all small ones, and fewer and fewer of the larger ones.
fn candidates(most: usize) -> impl Iterator<Item = usize> {
    let most = most.max(1);
    let next = move |&rounds: &usize| Some(if rounds < 16 { rounds + 1 } else { rounds + rounds / 4 });
    std::iter::successors(Some(1), next).take_while(move |rounds| *rounds < most).chain([most])
}

/// The first value of a range for which `before` is false, if it is true up to some point; otherwise the end.
fn partition(range: Range<usize>, before: impl Fn(&usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(&middle) { low = middle + 1 } else { high = middle }
    }
    low
}
