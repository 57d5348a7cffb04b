//! Timed schedules for the fit of estimates: from the file of all rows, from a file that `gemmc pick --keep` wrote, and from a GPU.

use std::collections::HashMap;

use ptx_gemm::random::SplitMix64;
use ptx_gemm::{DType, Schedule};
use ptx_gemm_choose::{Gpu, Quality, Timed, misses, quality, target, with_article};
use ptx_gemm_draw::Scheme;
use ptx_gemm_draw::scatter::{Scatter, scatter};
use ptx_gemm_dsl::Plan;
use serde_json::Value;

use crate::rows::Rows;
use crate::suites::{LayoutPair, Size};

/// Schedules, planned once each.
#[derive(Default)]
struct Plans(HashMap<String, Option<(Plan, String)>>);

impl Plans {
    /// The plan of some clauses, and what it computes; `None` if they are not legal.
    fn of(&mut self, clauses: &str, gpu: &Gpu) -> Option<&(Plan, String)> {
        let plan = |clauses: &str| {
            let schedule: Schedule = clauses.parse().ok()?;
            let plan = schedule.plan(target(&schedule, gpu)).ok()?;
            let asked = plan.problem.asked();
            let planes = plan.sums.emulate.as_ref().map_or(String::new(), |planes| format!("{:?}", planes.by));
            let problem = format!("{:?} {:?} {:?} {planes}", asked.types, asked.layouts, asked.batch);
            Some((plan, problem))
        };
        self.0.entry(clauses.into()).or_insert_with(|| plan(clauses)).as_ref()
    }
}

/// The last time of each schedule for each product.
struct Last<'g> {
    gpu: &'g Gpu,
    plans: Plans,
    times: HashMap<(String, [usize; 4]), f64>,
}

impl Last<'_> {
    fn note(&mut self, clauses: &str, size: Size, ms: f64) {
        let Size { m, n, k, batch } = size;
        self.times.insert((clauses.into(), [m, n, k, batch]), ms);
    }

    fn timed(mut self) -> Vec<Timed> {
        let mut times: Vec<_> = self.times.into_iter().collect();
        times.sort_by(|x, y| x.0.cmp(&y.0));
        let mut timed = Vec::new();
        for ((clauses, [m, n, k, batch]), ms) in times {
            if let Some((plan, problem)) = self.plans.of(&clauses, self.gpu) {
                let (plan, problem) = (plan.clone(), problem.clone());
                timed.push(Timed { plan, size: Size { m, n, k, batch }, problem, ms, clauses });
            }
        }
        timed
    }
}

/// The rows of a GPU in a file of all rows, or the lines of a file of kept times. Schedules that are not legal any more are left out.
///
/// # Errors
///
/// Returns why the text is neither.
pub fn read(text: &str, gpu: &Gpu) -> Result<Vec<Timed>, String> {
    let mut last = Last { gpu, plans: Plans::default(), times: HashMap::new() };
    if text.trim_start().starts_with("{\"runs\"") {
        let rows = Rows::read(text)?;
        // The large suite times products of matrices on the host, with their copies.
        let of_gpu =
            rows.iter().filter(|row| row.run.device.ends_with(&gpu.name) && !row.run.command.contains("large"));
        of_gpu.for_each(|row| last.note(row.clauses, row.size, row.ms));
    } else {
        for (number, line) in text.lines().enumerate() {
            let value: Value = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))?;
            let (Some(clauses), Some(size)) = (value["schedule"].as_str(), value["size"].as_str()) else {
                return Err(format!("line {}: no schedule, or no size", number + 1));
            };
            if let Some(ms) = value["measured"]["ms"].as_f64() {
                last.note(clauses, Size::parse(&size.replace(" x", "x").replace("x ", "x"))?, ms);
            }
        }
    }
    Ok(last.timed())
}

/// Schedules that were timed on a GPU: clauses, product, milliseconds. Those that are not legal are left out.
pub fn of_times(times: impl IntoIterator<Item = (String, Size, f64)>, gpu: &Gpu) -> Vec<Timed> {
    let mut last = Last { gpu, plans: Plans::default(), times: HashMap::new() };
    times.into_iter().for_each(|(clauses, size, ms)| last.note(&clauses, size, ms));
    last.timed()
}

/// What is drawn: the types and layouts of products, in turn.
const DRAWN: [(DType, LayoutPair); 4] = [
    (DType::Bf16, LayoutPair::Nt),
    (DType::Bf16, LayoutPair::Nn),
    (DType::F16, LayoutPair::Nt),
    (DType::F32, LayoutPair::Nn),
];
/// The ranges of rows, columns and k, whose logarithms are drawn evenly. Columns and k are multiples of 8.
const RANGES: [[f64; 2]; 3] = [[1.0, 8192.0], [512.0, 20_000.0], [512.0, 16_384.0]];

/// Products drawn at random, without end; the same for the same seed.
pub fn drawn(seed: u64) -> impl Iterator<Item = (Size, DType, LayoutPair)> {
    let mut random = SplitMix64::new(seed);
    let mut extent = move |[from, to]: [f64; 2]| {
        let share = random.next_u64() as f64 / u64::MAX as f64;
        from * (to / from).powf(share)
    };
    DRAWN.into_iter().cycle().map(move |(dtype, layouts)| {
        let [m, n, k] = RANGES.map(&mut extent);
        let size = Size::of([m.round() as usize, 8 * (n / 8.0).round() as usize, 8 * (k / 8.0).round() as usize]);
        (size, dtype, layouts)
    })
}

/// A picture of estimates next to times: for each product the schedule with the best estimate, and the fastest one.
pub fn plot(gpu: &Gpu, rows: &[Timed]) -> String {
    let (mut picked, mut fastest) = (Vec::new(), Vec::new());
    for miss in misses(gpu, rows, usize::MAX) {
        let of = |(row, estimate): (usize, f64)| (rows[row].ms, estimate);
        if miss.picked.0 == miss.fastest.0 {
            picked.push(of(miss.picked));
        } else {
            fastest.extend([of(miss.picked), of(miss.fastest)]);
        }
    }
    let Quality { products, rows, regret, .. } = quality(gpu, rows);
    scatter(
        &Scatter {
            title: format!("Estimates for {} next to times", with_article(&gpu.name)),
            text: format!(
                "{products} products that no figure was fitted to, with {rows} timed schedules. For each product, the schedule with \
                 the best estimate and the fastest one, which are often the same. The pick is {:.1}% slower than the fastest \
                 schedule in the mean.",
                100.0 * regret
            ),
            x: "milliseconds, measured".into(),
            y: "milliseconds, estimated".into(),
            groups: vec![("the pick is the fastest".into(), picked), ("pick and fastest differ".into(), fastest)],
            ratios: vec![("25% too slow".into(), 1.25), ("25% too fast".into(), 0.8)],
        },
        Scheme::Auto,
    )
}

/// Halves of rows by product: for a fit, and to judge it.
pub fn halves(rows: Vec<Timed>) -> (Vec<Timed>, Vec<Timed>) {
    rows.into_iter().partition(|row| {
        let Size { m, n, k, batch } = row.size;
        let hash = blake3::hash(format!("{m} {n} {k} {batch}").as_bytes());
        hash.as_bytes()[0].is_multiple_of(2)
    })
}
