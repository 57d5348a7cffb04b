//! Finds the legal schedules of a space and estimates each, on all cores.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{self, AtomicBool, AtomicU64};
use std::thread;

use ptx_gemm_dsl::atoms::{Multiply, Unit};
use ptx_gemm_dsl::clause::{Atom, Clause, TileClause};
use ptx_gemm_dsl::table::Key;
use ptx_gemm_dsl::{Combination, Conflict, DType, Diagnostics, KeySet, Schedule, Space, Target};

use crate::estimate::{Estimate, estimate};
use crate::gpu::Gpu;
use crate::size::Size;

/// Parts of a space for each core: enough that no core waits long for another one.
const PARTS: u128 = 4;

/// Combinations of a sample, and how many of the best of them are improved.
const SAMPLE: usize = 256;
const STARTS: usize = 6;
/// Bits of an estimate that are not compared: about the tenth digit and what follows.
const ROUNDED: u32 = 20;

/// The width of the elements that families have depths of.
const HALF_BITS: u32 = 16;

/// What is searched, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The schedules.
    pub space: &'a Space,
    /// Clauses that every schedule has; they replace those of the space.
    pub given: Option<&'a Schedule>,
    /// The product.
    pub size: Size,
    /// The GPU.
    pub gpu: &'a Gpu,
    /// The target, in place of [`target`].
    pub target: Option<Target>,
    /// The type of A where the space has depths for tensor cores in 16-bit elements, as families have, whatever the types.
    pub in_halves: Option<DType>,
}

/// A legal schedule: its number in the space, and its estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Legal {
    /// The number of its combination.
    pub index: u128,
    /// Its estimate.
    pub estimate: Estimate,
}

/// Illegal combinations that break one rule, and the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuledOut {
    /// Their number.
    pub count: u128,
    /// The first one.
    pub first: u128,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// In ascending order of their numbers.
    pub legal: Vec<Legal>,
    /// By rule.
    pub illegal: BTreeMap<&'static str, RuledOut>,
}

impl Search<'_> {
    /// The schedule of a combination.
    ///
    /// # Errors
    ///
    /// The grammar's errors, such as a clause given twice.
    pub fn schedule(&self, combination: &Combination) -> Result<Schedule, Diagnostics> {
        let schedule = combination.schedule()?;
        let Some(given) = self.given else { return Ok(schedule) };
        let rest = given.clauses().fold(schedule, |rest, clause| rest.without(clause.key()));
        let whole = given.clone().with(rest);
        Ok(match self.in_halves {
            Some(factor) => of_width(whole, factor, self.gpu),
            None => whole,
        })
    }

    /// Judges one combination.
    ///
    /// # Errors
    ///
    /// The rules that it breaks.
    pub fn judge(&self, combination: &Combination) -> Result<Estimate, Vec<Conflict>> {
        let schedule = self.schedule(combination).map_err(|errors| {
            errors.errors().map(|error| Conflict { rule: error.rule, keys: KeySet::all() }).collect::<Vec<_>>()
        })?;
        let plan = schedule.plan_or_conflicts(self.target.or_else(|| target(&schedule, self.gpu)))?;
        let unsuited = |rule| vec![Conflict { rule, keys: KeySet::all() }];
        estimate(&plan, self.size, self.gpu).map_err(|error| unsuited(error.rule))
    }

    /// What is found by judging one combination.
    pub fn one(&self, combination: &Combination) -> Found {
        let mut found = Found::default();
        match self.judge(combination) {
            Ok(estimate) => found.legal.push(Legal { index: combination.index(), estimate }),
            Err(conflicts) => {
                let rule = conflicts.first().map_or("", |first| first.rule);
                found.illegal.insert(rule, RuledOut { count: 1, first: combination.index() });
            }
        }
        found
    }

    /// Judges every combination that is not ruled out by others, until `interrupt` is set. `progress` is called from any thread, with
    /// the number of combinations that are settled.
    pub fn run(&self, interrupt: &AtomicBool, progress: &(dyn Fn(u128) + Sync)) -> Found {
        let all = self.space.len();
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get()) as u128;
        let parts = (PARTS * cores).min(all);
        let next = AtomicU64::new(0);
        let part = |number: u128| all * number / parts..all * (number + 1) / parts;
        let work = || {
            let mut found = Found::default();
            loop {
                let number = u128::from(next.fetch_add(1, atomic::Ordering::Relaxed));
                if number >= parts || interrupt.load(atomic::Ordering::Relaxed) {
                    return found;
                }
                self.part(part(number), interrupt, progress, &mut found);
            }
        };
        let mut found = thread::scope(|scope| {
            let workers: Vec<_> = (1..cores.min(parts)).map(|_| scope.spawn(work)).collect();
            let own = work();
            workers.into_iter().filter_map(|worker| worker.join().ok()).fold(own, Found::and)
        });
        found.legal.sort_by_key(|one| one.index);
        found
    }

    /// The legal combination with the lowest estimate, found by judging few of them: a sample that is spread over the space, and the
    /// neighbours of its best, which differ in one choice, as long as they are better. The same on every machine. `None` if it
    /// finds nothing legal.
    pub fn best(&self) -> Option<Legal> {
        let all = self.space.len();
        let sample: Vec<u128> = if all <= SAMPLE as u128 {
            (0..all).collect()
        } else {
            (0..SAMPLE).map(|number| spread(number, all)).collect()
        };
        let mut legal: Vec<Legal> =
            in_parallel(&sample, |index| self.estimated(*index)).into_iter().flatten().collect();
        legal.sort_by(Legal::compare);
        legal.dedup_by_key(|one| one.index);
        legal.truncate(STARTS);
        if all > SAMPLE as u128 {
            let choices = self.space.choices();
            let found = in_parallel(&legal, |start| self.descend(start.clone(), &choices));
            legal = found;
        }
        legal.into_iter().min_by(Legal::compare)
    }

    fn estimated(&self, index: u128) -> Option<Legal> {
        let estimate = self.judge(&self.space.combination(index)?).ok()?;
        Some(Legal { index, estimate })
    }

    /// Takes the best alternative of each choice in turn, until none is better.
    fn descend(&self, start: Legal, choices: &[(u128, u128)]) -> Legal {
        let mut best = start;
        loop {
            let before = best.index;
            for &(weight, count) in choices {
                let own = best.index / weight % count;
                let others = (0..count).filter(|other| *other != own);
                let around = others.filter_map(|other| self.estimated(best.index - own * weight + other * weight));
                best = around.chain([best.clone()]).min_by(Legal::compare).unwrap_or(best);
            }
            if best.index == before {
                return best;
            }
        }
    }

    fn part(&self, range: Range<u128>, interrupt: &AtomicBool, progress: &(dyn Fn(u128) + Sync), found: &mut Found) {
        let Found { legal, illegal } = found;
        let judge = |combination: &Combination| {
            if interrupt.load(atomic::Ordering::Relaxed) {
                return None;
            }
            Some(self.judge(combination).map(|estimate| {
                legal.push(Legal { index: combination.index(), estimate });
                progress(1);
            }))
        };
        self.space.search(range, judge, |rule, skipped| {
            progress(skipped.end - skipped.start);
            let group = illegal.entry(rule).or_insert(RuledOut { count: 0, first: skipped.start });
            group.count += skipped.end - skipped.start;
            group.first = group.first.min(skipped.start);
        });
    }
}

/// Numbers below `all` that are spread evenly, however many are taken: multiples of the golden ratio.
fn spread(number: usize, all: u128) -> u128 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let share = (number as u64).wrapping_mul(GOLDEN);
    // The upper half of the product, for spaces that are not larger than 2^64.
    (u128::from(share) * all.min(u128::from(u64::MAX))) >> 64
}

/// What a function makes of each item, in their order, on all cores.
fn in_parallel<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let own = items.len().div_ceil(cores).max(1);
    let each = &each;
    thread::scope(|scope| {
        let parts: Vec<_> =
            items.chunks(own).map(|part| scope.spawn(move || part.iter().map(each).collect::<Vec<R>>())).collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// A schedule with K-tiles and instructions of as many bytes along k as it has in 16-bit elements. Where a GPU's warps have no such
/// instruction, and for f64, it has the deepest one that divides its K-tiles.
fn of_width(schedule: Schedule, factor: DType, gpu: &Gpu) -> Schedule {
    let Some(Clause::Atom(atom)) = schedule.get(Key::Atom).cloned() else { return schedule };
    let Some((unit, (m, n, k))) = atom.tensor() else { return schedule };
    let bits = factor.element().bits;
    // Planes have 16 bits.
    if bits == HALF_BITS || schedule.get(Key::Emulate).is_some() {
        return schedule;
    }
    let scaled = |depth: u32| depth * HALF_BITS / bits;
    let tile = if let Some(Clause::Tile(tile)) = schedule.get(Key::Tile) { tile.k.map(scaled) } else { None };
    let fits =
        |row: &&Multiply| row.least.runs_on(gpu.capability) && tile.is_some_and(|tile| tile.is_multiple_of(row.depth));
    let alike = |row: &&Multiply| fits(row) && row.rows == m && (factor == DType::F64 || row.depth == scaled(k));
    let row = match unit {
        Unit::Warp => Multiply::of(unit, factor).find(alike).or_else(|| Multiply::of(unit, factor).find(fits)),
        Unit::WarpGroup => None,
    };
    let atom = row.map_or(unit.atom((m, n, scaled(k))), Multiply::atom);
    let of_its_types = |clause: &Clause| match clause {
        Clause::Tile(tile) => Clause::Tile(TileClause { k: tile.k.map(scaled), ..*tile }),
        Clause::Atom(_) => Clause::Atom(atom),
        other => other.clone(),
    };
    schedule.clauses().map(of_its_types).fold(Schedule::new(), Schedule::clause)
}

impl Legal {
    /// Lower estimates first, without their last bits, which rounding makes differ among machines; then lower numbers.
    pub fn compare(&self, other: &Legal) -> Ordering {
        let leading = |one: &Legal| one.estimate.ms.to_bits() >> ROUNDED;
        leading(self).cmp(&leading(other)).then(self.index.cmp(&other.index))
    }
}

impl Found {
    /// Both; the combinations of the two differ.
    pub fn and(mut self, mut other: Found) -> Found {
        self.legal.append(&mut other.legal);
        for (rule, RuledOut { count, first }) in other.illegal {
            let group = self.illegal.entry(rule).or_insert(RuledOut { count: 0, first });
            group.count += count;
            group.first = group.first.min(first);
        }
        self
    }
}

/// The target to compile a schedule for on a GPU: the one that it names; one of this generation alone (sm_90a) for `wgmma`; or the
/// newest that the GPU runs.
pub fn target(schedule: &Schedule, gpu: &Gpu) -> Option<Target> {
    let multiplies = schedule.clauses().any(|clause| matches!(clause, Clause::Atom(Atom::Wgmma(..))));
    let specific = multiplies.then_some(Target::SM_90A).filter(|target| target.runs_on(gpu.capability));
    schedule.target_on(None).or(specific).or_else(|| Target::newest(gpu.capability))
}
