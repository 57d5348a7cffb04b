//! Chooses schedules for a product from all families, by their estimates.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;

use ptx_gemm_dsl::atoms::Unit;
use ptx_gemm_dsl::clause::{BatchKind, Clause, TypesClause};
use ptx_gemm_dsl::table::Key;
use ptx_gemm_dsl::types::{Batch, Problem, Types};
use ptx_gemm_dsl::{DType, Plan, Schedule};

use crate::estimate::{Estimate, least_of_threads};
use crate::family::Family;
use crate::gpu::Gpu;
use crate::search::{Search, target};
use crate::size::Size;

/// The clauses that make a candidate different from those before it. An estimate says little about the others: whoever times the
/// first few wants to see several of these.
const KIND: [Key; 6] = [Key::Transposed, Key::Tile, Key::Cluster, Key::SplitK, Key::StreamK, Key::Warp];
/// The most candidates of a family with the same clauses of [`KIND`] among those that come first.
const ALIKE: usize = 2;

/// A family without tensor cores is passed over if its multiply-adds alone take this many times as long as the best schedule so far:
/// most combinations are those of threads, and for 16-bit types they rarely win.
const HOPELESS: f64 = 1.5;

/// How many candidates are worth timing first.
pub const FIRST: usize = 8;
/// The most of them that divide the work among blocks in one way: if the estimate is wrong about that way, the others are there. Only
/// ways that are estimated to be slower than the best one by less than a factor count.
const SAME_WAY: usize = 5;
const SLOWER: f64 = 1.2;

/// The eight schedules with the best estimates for a product of this size on a GPU; none where no family computes it.
///
/// ```
/// use ptx_gemm_choose::{Gpu, Size, pick};
/// use ptx_gemm_dsl::Schedule;
///
/// let problem = "types(bf16); layout(b = col); tile(64, 64); shared(none)".parse::<Schedule>()?.problem()?;
/// let ranked = pick(&problem, Size::of([384, 5120, 13824]), Gpu::h200());
/// let best = &ranked.candidates[0];
/// println!("{} ms, bound by {}:\n{}", best.estimate.ms, best.estimate.bound, best.schedule);
/// # assert_eq!(best.schedule.problem()?.asked(), problem);
/// # Ok::<(), ptx_gemm_dsl::Diagnostics>(())
/// ```
pub fn pick(problem: &Problem, size: Size, gpu: &Gpu) -> Ranked {
    Pick { given: &clauses(&problem.asked()), size, gpu }.run(FIRST)
}

/// The clauses that state a problem.
fn clauses(problem: &Problem) -> Schedule {
    let Types { a, b, acc, c, d } = problem.types;
    let [a, b, acc, c, d] = [a, b, acc, c, d].map(Some);
    let types = TypesClause { all: None, a, b, acc, c, d };
    let schedule = Schedule::new().types_of(types).layout(problem.layouts).epilogue(&problem.epilogue.to_string());
    match problem.batch {
        Batch::One => schedule,
        Batch::Strided => schedule.batch(BatchKind::Strided),
        Batch::Grouped => schedule.batch(BatchKind::Grouped),
    }
}

/// What a schedule is wanted for.
#[derive(Clone, Copy, Debug)]
pub struct Pick<'a> {
    /// Clauses that the schedule has: what is computed, and anything else that is not to be chosen.
    pub given: &'a Schedule,
    /// The product.
    pub size: Size,
    /// The GPU.
    pub gpu: &'a Gpu,
}

/// How the work is divided among blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    /// A tile for each.
    Tiles,
    /// Parts of k, with sums in a cluster.
    Cluster,
    /// Parts of k, with sums through the workspace.
    Workspace,
    /// Equal shares of k.
    Stream,
}

impl Way {
    fn of(plan: &Plan) -> Way {
        match (plan.scheduler.stream_k, plan.scheduler.split_k, plan.sums.exchange) {
            (true, ..) => Way::Stream,
            (_, None, _) => Way::Tiles,
            (_, Some(_), Some(_)) => Way::Cluster,
            (_, Some(_), None) => Way::Workspace,
        }
    }
}

/// A schedule that was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The family that it is from.
    pub family: &'static str,
    /// The schedule.
    pub schedule: Schedule,
    /// Its estimate.
    pub estimate: Estimate,
}

/// Schedules in the order of their estimates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranked {
    /// The best first. Variants of one of them come after different ones.
    pub candidates: Vec<Candidate>,
    /// Combinations of all families.
    pub combinations: u128,
    /// The number of legal ones.
    pub legal: usize,
}

impl Pick<'_> {
    /// The best `count` schedules of all families; fewer where there are not as many, none where no family computes this product.
    pub fn run(&self, count: usize) -> Ranked {
        self.until(count, &AtomicBool::new(false))
    }

    /// The same, of those that were judged when `interrupt` is set.
    pub fn until(&self, count: usize, interrupt: &AtomicBool) -> Ranked {
        let mut ranked = Ranked::default();
        let mut legal = Vec::new();
        let mut fastest = f64::INFINITY;
        let mut of_groups = false;
        for (number, family) in Family::all().iter().enumerate() {
            ranked.combinations += family.space.len();
            let unit = self.unit(family);
            if self.passes_over(family, unit, of_groups, fastest) {
                continue;
            }
            let found = self.search(family).run(interrupt, &|_| ());
            of_groups |= unit == Some(Unit::WarpGroup) && !found.legal.is_empty();
            fastest = found.legal.iter().map(|one| one.estimate.ms).fold(fastest, f64::min);
            legal.extend(found.legal.into_iter().map(|one| (number, one)));
        }
        ranked.legal = legal.len();
        legal.sort_by(|(x_family, x), (y_family, y)| {
            x.estimate.ms.total_cmp(&y.estimate.ms).then((x_family, x.index).cmp(&(y_family, y.index)))
        });
        let (mut kinds, mut ways, mut seen, mut later) = (HashMap::new(), HashMap::new(), HashSet::new(), Vec::new());
        for (number, one) in legal {
            if ranked.candidates.len() >= count {
                break;
            }
            let family = &Family::all()[number];
            let Some(Ok(schedule)) =
                family.space.combination(one.index).map(|found| self.search(family).schedule(&found))
            else {
                continue;
            };
            if !seen.insert(schedule.to_string()) {
                continue;
            }
            let text = |key: &Key| schedule.get(*key).map_or(String::new(), ToString::to_string);
            let kind: Vec<String> = KIND.iter().map(text).collect();
            let alike = kinds.entry((number, kind)).or_insert(0);
            *alike += 1;
            let way = schedule.plan_or_conflicts(target(&schedule, self.gpu)).ok().map(|plan| Way::of(&plan));
            let same_way = ways.entry(way).or_insert(0);
            let crowded =
                ranked.candidates.len() < FIRST && *same_way >= SAME_WAY && one.estimate.ms < SLOWER * fastest;
            let candidate = Candidate { family: family.name, schedule, estimate: one.estimate };
            if *alike <= ALIKE && !crowded {
                *same_way += 1;
                ranked.candidates.push(candidate);
            } else if later.len() < count {
                later.push(candidate);
            }
        }
        let missing = count - ranked.candidates.len();
        ranked.candidates.extend(later.into_iter().take(missing));
        let first = FIRST.min(ranked.candidates.len());
        ranked.candidates[..first].sort_by(|x, y| x.estimate.ms.total_cmp(&y.estimate.ms));
        ranked
    }

    /// The schedule with the lowest estimate, found by [`Search::best`] in each family; `None` where no family computes this product.
    pub fn best(&self) -> Option<Candidate> {
        let (mut best, mut of_groups): (Option<Candidate>, bool) = (None, false);
        for family in Family::all() {
            let fastest = best.as_ref().map_or(f64::INFINITY, |best| best.estimate.ms);
            let unit = self.unit(family);
            if self.passes_over(family, unit, of_groups, fastest) {
                continue;
            }
            let search = self.search(family);
            let Some(found) = search.best() else { continue };
            of_groups |= unit == Some(Unit::WarpGroup);
            if found.estimate.ms >= fastest {
                continue;
            }
            let combination = family.space.combination(found.index);
            let schedule = combination.and_then(|combination| search.schedule(&combination).ok());
            best =
                schedule.map(|schedule| Candidate { family: family.name, schedule, estimate: found.estimate }).or(best);
        }
        best
    }

    /// Whether a family is not worth a search, after what others have found. With few rows, 16-bit products by single warps took twice
    /// their estimate. (Only warps multiply f64.)
    fn passes_over(&self, family: &Family, unit: Option<Unit>, of_groups: bool, fastest: f64) -> bool {
        unit == Some(Unit::Warp) && of_groups || unit.is_none() && self.threads_need(family) > HOPELESS * fastest
    }

    /// Who executes the instructions of a family; `None` for threads.
    fn unit(&self, family: &Family) -> Option<Unit> {
        let schedule = self.search(family).schedule(&family.space.combination(0)?).ok()?;
        match schedule.get(Key::Atom) {
            Some(Clause::Atom(atom)) => atom.tensor().map(|(unit, _)| unit),
            _ => None,
        }
    }

    /// The fewest milliseconds of the multiply-adds of a family without tensor cores.
    fn threads_need(&self, family: &Family) -> f64 {
        let schedule = family.space.combination(0).and_then(|first| self.search(family).schedule(&first).ok());
        let types = schedule.and_then(|schedule| schedule.problem().ok()).map(|problem| problem.types);
        types.map_or(0.0, |types| least_of_threads(types, self.size, self.gpu))
    }

    fn search<'s>(&'s self, family: &'s Family) -> Search<'s> {
        let (space, given) = (&family.space, Some(self.given));
        let search = Search { space, given, size: self.size, gpu: self.gpu, target: None, in_halves: None };
        // Every combination computes the same.
        let first = space.combination(0).and_then(|first| search.schedule(&first).ok());
        let factor = first.and_then(|first| first.problem().ok()).map_or(DType::F16, |problem| problem.types.a);
        Search { in_halves: Some(factor), ..search }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ptx_gemm_check::part::Part;
    use ptx_gemm_dsl::{DType, Schedule};

    use super::{Pick, Ranked, Way};
    use crate::family::Family;
    use crate::gpu::Gpu;
    use crate::search::target;
    use crate::size::Size;

    fn pick(given: &str, extents: [usize; 3]) -> Ranked {
        Pick { given: &given.parse().unwrap(), size: Size::of(extents), gpu: Gpu::h200() }.run(8)
    }

    #[test]
    fn every_family_says_what_it_is_for() {
        for family in Family::all() {
            assert!(family.purpose().ends_with('.'), "{}: {}", family.name, family.purpose());
        }
    }

    /// GPUs that nobody has timed anything on: schedules of instructions that they have, and speeds that they can have.
    #[test]
    fn gpus_without_calibration_get_schedules() {
        let part = Part::of_this_run();
        let types =
            ["types(f32)", "types(bf16); layout(b = col)", "types(f64)", "types(f16)", "types(i8); layout(b = col)"];
        let all = Gpu::all().iter().filter(|gpu| !gpu.calibrated).flat_map(|gpu| types.map(|types| (gpu, types)));
        let always = |gpu: &Gpu, types: &str| matches!(gpu.name.as_str(), "A100" | "RTX4090") && types.contains("bf16");
        let now = all.enumerate().filter(|(index, (gpu, types))| always(gpu, types) || part.has(*index));
        for (_, (gpu, given)) in now {
            let size = Size::of([4096; 3]);
            let given: Schedule = given.parse().unwrap();
            let types = given.problem().unwrap().types;
            let ranked = Pick { given: &given, size, gpu }.run(8);
            assert_eq!(ranked.candidates.len(), 8, "{} {given}", gpu.name);
            for one in &ranked.candidates {
                let plan = one.schedule.plan(target(&one.schedule, gpu)).unwrap();
                assert!(plan.target.runs_on(gpu.capability), "{}: {}", gpu.name, one.schedule);
                let peak = match plan.atom.tensor() {
                    Some(_) => gpu.tensor_peak(types.a),
                    None => gpu.peak(types.acc),
                };
                let speed = size.operations() / one.estimate.ms / 1e9;
                assert!(speed <= peak, "{}: {speed} of {peak} TFLOP/s: {}", gpu.name, one.schedule);
            }
            // Most GPUs multiply f64 as fast without tensor cores.
            if types.a != DType::F64 || gpu.name == "A100" {
                let multiplied = ranked.candidates[0].schedule.to_string().contains("atom(");
                let has = gpu.capability >= 80 && types.a != DType::F32;
                assert_eq!(multiplied, has, "{}: {}", gpu.name, ranked.candidates[0].schedule);
            }
        }
    }

    #[test]
    fn products_of_every_type_get_schedules() {
        let sizes = [[384, 5120, 13824], [1, 1, 33]];
        let all = [
            "types(bf16)",
            "types(f16); layout(b = col)",
            "types(f32)",
            "types(f64)",
            "types(i32)",
            "types(bf16); layout(a = col, b = col); epilogue(|acc, c| relu(acc + c))",
            "emulate(bf16x6)",
            "types(f16, acc = f16)",
            "batch(strided)",
            "types(bf16); batch(grouped)",
            "types(i8); layout(b = col)",
            "types(f64, d = f32)",
            "types(tf32); layout(b = col)",
            "types(f32, d = f64)",
            "types(a = e4m3, b = e5m2, d = bf16)",
        ];
        // A search takes seconds where nothing is optimised: the first product at both sizes, those of this run's part at
        // one of them.
        let part = Part::of_this_run();
        for (index, given) in all.into_iter().enumerate().filter(|(index, _)| *index == 0 || part.has(*index)) {
            for extents in sizes.into_iter().skip(index % 2).take(if index == 0 { 2 } else { 1 }) {
                let ranked = pick(given, extents);
                assert!(!ranked.candidates.is_empty(), "{given} {extents:?}");
                // Families have depths of 16-bit elements; those of other types follow.
                let narrow = ["i8", "tf32", "e4m3"].iter().any(|name| given.contains(name));
                let by_groups = ranked.candidates[0].schedule.to_string().contains("wgmma");
                assert!(by_groups || !narrow, "{given}: {}", ranked.candidates[0].schedule);
                for candidate in &ranked.candidates {
                    candidate.schedule.check().unwrap_or_else(|errors| panic!("{given}: {errors}"));
                }
                assert!(ranked.candidates.is_sorted_by(|x, y| x.estimate.ms <= y.estimate.ms), "{given} {extents:?}");
            }
        }
    }

    /// The estimate may be wrong about one way to divide a long sum.
    #[test]
    fn the_first_candidates_divide_the_work_in_several_ways() {
        let ranked = pick("types(f16); layout(b = col)", [63, 1216, 11480]);
        let ways: BTreeSet<String> = ranked
            .candidates
            .iter()
            .map(|one| {
                format!("{:?}", Way::of(&one.schedule.plan_or_conflicts(target(&one.schedule, Gpu::h200())).unwrap()))
            })
            .collect();
        assert!(ranked.candidates.len() == 8 && ways.len() >= 2, "{ways:?}");
    }

    /// Judging few combinations finds what judging all of them finds, or what is estimated to be as fast.
    #[test]
    fn the_best_is_found_without_judging_everything() {
        let (mut miss, mut worst, mut count) = (0.0, 0.0f64, 0);
        let all = [
            "types(bf16); layout(b = col)",
            "types(f16)",
            "types(f32)",
            "emulate(f16x3)",
            "types(i8); layout(b = col)",
        ];
        let sizes = [[4096; 3], [64, 4096, 8192], [300, 11480, 3000], [1, 4096, 4096], [900, 700, 500]];
        let part = Part::of_this_run();
        let own = all.iter().flat_map(|given| sizes.map(|size| (given, size))).enumerate();
        for (_, (given, extents)) in own.filter(|(index, _)| *index == 0 || part.has(*index)) {
            let given = given.parse().unwrap();
            let wanted = Pick { given: &given, size: Size::of(extents), gpu: Gpu::h200() };
            let (best, all) = (wanted.best().unwrap(), wanted.run(1).candidates.remove(0));
            let slower = best.estimate.ms / all.estimate.ms - 1.0;
            (miss, worst, count) = (miss + slower, worst.max(slower), count + 1);
        }
        assert!(worst < 0.03 && miss / f64::from(count) < 0.01, "{worst} {}", miss / f64::from(count));
    }
}
