//! Chooses schedules for a product from all families, by their estimates.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;

use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::clause::{BatchKind, TypesClause};
use ptx_gemm_dsl::table::Key;
use ptx_gemm_dsl::types::{Batch, Problem, Types};

use crate::estimate::Estimate;
use crate::family::Family;
use crate::gpu::Gpu;
use crate::search::Search;
use crate::size::Size;

/// The clauses that make a candidate different from those before it. An estimate says little about the others: whoever times the
/// first few wants to see several of these.
const KIND: [Key; 6] = [Key::Transposed, Key::Tile, Key::Cluster, Key::SplitK, Key::StreamK, Key::Warp];

/// The most candidates with the same clauses of [`KIND`] among those that come first.
const ALIKE: usize = 2;

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
    Pick { given: &clauses(&problem.asked()), size, gpu }.run(8)
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
        for (number, family) in Family::all().iter().enumerate() {
            let found = self.search(family).run(interrupt, &|_| ());
            ranked.combinations += family.space.len();
            legal.extend(found.legal.into_iter().map(|one| (number, one)));
        }
        ranked.legal = legal.len();
        legal.sort_by(|(x_family, x), (y_family, y)| {
            x.estimate.ms.total_cmp(&y.estimate.ms).then((x_family, x.index).cmp(&(y_family, y.index)))
        });
        let (mut kinds, mut seen, mut later) = (HashMap::new(), HashSet::new(), Vec::new());
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
            let kind: Vec<String> =
                KIND.iter().map(|key| schedule.get(*key).map_or(String::new(), ToString::to_string)).collect();
            let alike = kinds.entry((number, kind)).or_insert(0);
            *alike += 1;
            let candidate = Candidate { family: family.name, schedule, estimate: one.estimate };
            if *alike <= ALIKE {
                ranked.candidates.push(candidate);
            } else if later.len() < count {
                later.push(candidate);
            }
        }
        let missing = count - ranked.candidates.len();
        ranked.candidates.extend(later.into_iter().take(missing));
        ranked
    }

    fn search<'s>(&'s self, family: &'s Family) -> Search<'s> {
        Search { space: &family.space, given: Some(self.given), size: self.size, gpu: self.gpu, target: None }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pick, Ranked};
    use crate::family::Family;
    use crate::gpu::Gpu;
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

    #[test]
    fn products_of_every_type_get_schedules() {
        for given in [
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
        ] {
            for extents in [[384, 5120, 13824], [1, 1, 33]] {
                let ranked = pick(given, extents);
                assert!(!ranked.candidates.is_empty(), "{given} {extents:?}");
                for candidate in &ranked.candidates {
                    candidate.schedule.check().unwrap_or_else(|errors| panic!("{given}: {errors}"));
                }
                assert!(ranked.candidates[0].estimate.ms <= ranked.candidates[1].estimate.ms);
            }
        }
    }
}
