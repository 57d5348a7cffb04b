//! How well estimates rank timed schedules, and the figures of a GPU with which they do it best.
//!
//! An estimate is a maximum of bounds, each a sum of terms, so it is not linear in the figures, and least squares would fit whichever
//! bound is the greatest at first. The fit is a pattern search: one figure after the other is made larger and smaller, and the change
//! is kept if the estimates get better.

use std::collections::BTreeMap;

use ptx_gemm_dsl::Plan;

use crate::estimate::estimate;
use crate::gpu::Gpu;
use crate::size::Size;

/// A timed schedule.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The schedule.
    pub plan: Plan,
    /// The product's extents.
    pub size: Size,
    /// What is computed: schedules of one size are compared if they compute the same.
    pub problem: String,
    /// Milliseconds.
    pub ms: f64,
    /// Its clauses.
    pub clauses: String,
}

/// How well estimates rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Products with several schedules.
    pub products: usize,
    /// Schedules of these products.
    pub rows: usize,
    /// How much slower the schedule with the best estimate is than the fastest one: the mean over all products.
    pub regret: f64,
    /// The same with no product above 100%.
    pub capped: f64,
    /// The same of the best of the first eight, or of the first half of fewer than sixteen.
    pub regret_of_first: f64,
    /// The greatest regret of a product.
    pub worst: f64,
    /// The mean of the logarithm of estimate over time.
    pub bias: f64,
    /// The mean of its absolute value.
    pub error: f64,
}

/// The steps of the search, as factors.
const STEPS: [f64; 5] = [1.5, 1.25, 1.12, 1.05, 1.02];
/// How much an error of an estimate counts, next to a regret.
const ERROR: f64 = 1.0;
/// How much a figure counts that differs from the one before by a factor of e: figures that hardly matter stay as they are.
const STAY: f64 = 0.004;
/// The greatest regret that counts: a schedule that fails in a way of its own says nothing about the others.
const MOST: f64 = 1.0;
/// The fewest schedules of a product that is judged by its regret.
const FEWEST: usize = 4;

/// The rows of each product that has at least `fewest`.
fn products(rows: &[Timed], fewest: usize) -> Vec<Vec<usize>> {
    let mut products: BTreeMap<([usize; 4], &str), Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let Size { m, n, k, batch } = row.size;
        products.entry(([m, n, k, batch], &row.problem)).or_default().push(index);
    }
    products.into_values().filter(|rows| rows.len() >= fewest).collect()
}

fn estimates(gpu: &Gpu, rows: &[Timed]) -> Vec<f64> {
    rows.iter().map(|row| estimate(&row.plan, row.size, gpu).map_or(f64::INFINITY, |estimate| estimate.ms)).collect()
}

/// How well the estimates for a GPU rank these rows.
pub fn quality(gpu: &Gpu, rows: &[Timed]) -> Quality {
    judged(&estimates(gpu, rows), rows, &products(rows, FEWEST))
}

/// A product whose pick is slow.
#[derive(Clone, Debug, PartialEq)]
pub struct Miss {
    /// Index of the row with the best estimate, and that estimate in milliseconds.
    pub picked: (usize, f64),
    /// The same of the fastest row.
    pub fastest: (usize, f64),
    /// How much slower the pick is.
    pub regret: f64,
}

/// The products whose picks are slowest, the worst first.
pub fn misses(gpu: &Gpu, rows: &[Timed], count: usize) -> Vec<Miss> {
    let estimates = estimates(gpu, rows);
    let least = |product: &[usize], of: &dyn Fn(usize) -> f64| {
        product.iter().copied().min_by(|x, y| of(*x).total_cmp(&of(*y))).unwrap_or_default()
    };
    let miss = |product: Vec<usize>| {
        let (picked, fastest) = (least(&product, &|row| estimates[row]), least(&product, &|row| rows[row].ms));
        let regret = rows[picked].ms / rows[fastest].ms - 1.0;
        Miss { picked: (picked, estimates[picked]), fastest: (fastest, estimates[fastest]), regret }
    };
    let mut all: Vec<Miss> = products(rows, FEWEST).into_iter().map(miss).collect();
    all.sort_by(|x, y| y.regret.total_cmp(&x.regret));
    all.truncate(count);
    all
}

fn judged(estimates: &[f64], rows: &[Timed], products: &[Vec<usize>]) -> Quality {
    let mut quality = Quality { products: products.len(), ..Quality::default() };
    let each = |sum: f64| sum / products.len().max(1) as f64;
    for product in products {
        let mut order = product.clone();
        order.sort_by(|x, y| estimates[*x].total_cmp(&estimates[*y]));
        let fastest = product.iter().map(|index| rows[*index].ms).fold(f64::INFINITY, f64::min);
        let of_first =
            |count: usize| order.iter().take(count).map(|index| rows[*index].ms).fold(f64::INFINITY, f64::min);
        let regret = of_first(1) / fastest - 1.0;
        quality.regret += each(regret);
        quality.capped += each(regret.min(MOST));
        quality.regret_of_first += each((of_first(8.min(product.len() / 2)) / fastest - 1.0).min(MOST));
        quality.worst = quality.worst.max(regret);
        // The faster a schedule is, the more its estimate matters.
        let (mut error, mut bias, mut weights) = (0.0, 0.0, 0.0);
        for index in product {
            let off = (estimates[*index] / rows[*index].ms).ln().clamp(-2.0, 2.0);
            let weight = (fastest / rows[*index].ms).powi(2);
            error += weight * off.abs();
            bias += weight * off;
            weights += weight;
        }
        quality.error += each(error / weights);
        quality.bias += each(bias / weights);
        quality.rows += product.len();
    }
    quality
}

/// The GPU with the named figures changed so that its estimates rank the rows best.
pub fn fit(gpu: &Gpu, rows: &[Timed], figures: &[&str]) -> Gpu {
    // An instruction that one schedule uses is not ranked, but its time is known.
    let (products, every) = (products(rows, FEWEST), products(rows, 1));
    let start = gpu.clone();
    let cost = |gpu: &Gpu| {
        let estimates = estimates(gpu, rows);
        let Quality { capped, regret_of_first, .. } = judged(&estimates, rows, &products);
        let Quality { error, .. } = judged(&estimates, rows, &every);
        let (mut now, mut before) = (gpu.clone(), start.clone());
        let moved = figures.iter().filter_map(|name| Some((*now.figure(name)? / *before.figure(name)?).ln().powi(2)));
        capped + regret_of_first + ERROR * error + STAY * moved.sum::<f64>()
    };
    let mut best = Gpu { calibrated: true, ..gpu.clone() };
    let mut least = cost(&best);
    for step in STEPS {
        // Twice, because figures depend on each other.
        for name in figures.iter().chain(figures) {
            for factor in [step, step.recip()] {
                loop {
                    let mut changed = best.clone();
                    let Some(figure) = changed.figure(name) else { break };
                    *figure *= factor;
                    let found = cost(&changed);
                    if found >= least {
                        break;
                    }
                    (best, least) = (changed, found);
                }
            }
        }
    }
    best
}
