//! Decides whether a mutant is found, and by which check.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use ptx_gemm_runtime::interface::Entry;
use ptx_gemm_runtime::interp::{Checks, Options, ViolationKind};
use ptx_gemm_runtime::ptx::module::Module;
use ptx_gemm_runtime::{CompiledGemm, Device, Error, INTERPRETER_WAVE, InterpreterOptions, Kernel};
use rayon::prelude::*;

use super::equivalent::{certainly_equivalent, equivalent};
use super::{Mutant, MutantKind};
use crate::bits::Rule;
use crate::data::Results;
use crate::error::CheckError;
use crate::exec::Order;
use crate::given::Given;
use crate::request::Request;
use crate::size::Size;
use crate::sizes::{begun_by_one, every_end, filled_once, halved, products, rare, refilled, tiles_inside};
use crate::suite::{
    end_requests, exact_requests, nan_requests, packed_alone_requests, peak_requests, plane_requests, rounding_requests,
};
use crate::{check, compare, edge_requests, edge_sizes};

/// How a mutant was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing ran: the text does not load, or the launch is rejected.
    Refused(String),
    /// A rule was broken in the plain forward order: each warp runs as far as it can, first warp first.
    Violation(ViolationKind),
    /// A rule was broken in another order only.
    ViolationElsewhere(ViolationKind),
    /// An element differs from the reference by more than its bound, or something else was written.
    Wrong,
    /// Within the bound, but different from the kernel's own result.
    OtherBits,
    /// The mutant behaves exactly like the kernel.
    Survived,
}

impl Verdict {
    /// Its name for tools.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Refused(_) => "refused",
            Verdict::Violation(_) => "violation",
            Verdict::ViolationElsewhere(_) => "violation in another order",
            Verdict::Wrong => "wrong result",
            Verdict::OtherBits => "other bits",
            Verdict::Survived => "survived",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Violation(kind) => write!(f, "{} in the forward order", kind.title()),
            Verdict::ViolationElsewhere(kind) => write!(f, "{} in another order", kind.title()),
            Verdict::Refused(why) => write!(f, "refused: {why}"),
            other => f.write_str(other.name()),
        }
    }
}

/// A kernel, the products of its suite, and the kernel's own results.
pub struct Judge {
    kernel: std::sync::Arc<Kernel>,
    suite: Vec<Trial>,
    /// Products that are tried, in the forward order, on mutants that survive the suite.
    thorough: Vec<Trial>,
    /// Products whose slots are each filled once. Faults of synchronisation, and loops of a wait that end at once or never, are
    /// tried on them when they survive everything else, with one warp held up for as long as the others can go on: that shows
    /// what they should have waited for.
    held: Vec<Trial>,
    /// Products that are tried in the forward order on mutants that survive the thorough ones: tiles as wide as narrow tiles may be, and
    /// several tiles inside, for each entry.
    inside: Vec<Trial>,
    /// Instructions after which a warp counts as not terminating.
    limit: u64,
    /// Blocks of a wave in [`Place::Wide`].
    wide: u32,
    /// Judges of the kernels of a plan of launches that multiply, by their index among all. In the plan they run few products, and
    /// none at the edges of their tiles.
    alone: Vec<Option<Judge>>,
}

/// How much of a judge's products a mutant is tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// The suite in the forward order.
    Suite,
    All,
}

/// A mutant by its index, after its first trial.
enum Judged {
    Decided(usize, Verdict),
    /// It survived the suite, for a reason in a kernel, after this time.
    Explained((usize, &'static str), usize, Duration),
}

/// Where a product runs in the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Plain,
    /// With misaligned pointers.
    Misaligned,
    /// Where a wave of a persistent grid has more blocks.
    Wide,
}

/// A kernel that is loaded for each [`Place`] once it is needed there.
#[derive(Default)]
struct Loaded([OnceCell<CompiledGemm>; 3]);

/// A product, and the kernel's own result for it.
struct Trial {
    request: Request,
    place: Place,
    /// The PTX entries of the kernel that it runs; faults in others do not affect it. `None`: of several kernels.
    runs: Option<Vec<usize>>,
    result: Results,
    /// Instructions after which a warp of a mutant counts as not terminating.
    limit: u64,
}

/// Two requests, the second of which may have misaligned pointers.
fn with_alignment([one, other]: [Request; 2], misaligned: bool) -> [(Request, Place); 2] {
    [(one, Place::Plain), (other, if misaligned { Place::Misaligned } else { Place::Plain })]
}

fn plainly(request: Request) -> (Request, Place) {
    (request, Place::Plain)
}

/// The maximum number of multiply-adds in the suite of one kernel, counted in whole tiles; the largest sizes are
/// reserved for surviving mutants.
const BUDGET: usize = 300_000_000;

/// Warps that are held up, and where, for a fault of synchronisation that survives everything else.
const HELD: u64 = 24;

/// The instruction limit of a mutant's warp: a multiple of the kernel's average per warp, plus a constant.
const RUN_AWAY: (u64, u64) = (20, 20_000);

/// The products that the mutants of a kernel are tried on: all that their verdicts depend on besides the kernel, the edits and the
/// interpreter.
pub struct Products {
    suite: Vec<(Request, Place)>,
    /// As in [`Judge`].
    thorough: Vec<(Request, Place)>,
    /// As in [`Judge`]. Not in the digest: they only find more, so that kept figures stay true.
    held: Vec<(Request, Place)>,
    /// As in [`Judge`]. Not in the digest either.
    inside: Vec<(Request, Place)>,
    wide: u32,
    /// As in [`Judge`].
    alone: Vec<Option<Products>>,
}

impl Products {
    /// Those of a kernel.
    pub fn of(kernel: &Kernel) -> Products {
        let entries = &kernel.interface().entries;
        let tile = entries[0].tile;
        let cost = |size: &Size| {
            size.m.next_multiple_of(tile.m.max(1) as usize)
                * size.n.next_multiple_of(tile.n.max(1) as usize)
                * size.k.max(1)
                * products(kernel)
        };
        let mut sizes = edge_sizes(kernel);
        // Among those of equal cost the larger ones show more.
        sizes.sort_by_key(|size| (cost(size), std::cmp::Reverse(size.m * size.n)));
        let mut spent = 0;
        let within = sizes.iter().take_while(|size| {
            spent += 2 * cost(size);
            spent <= BUDGET
        });
        let mut costly = sizes.split_off(within.count());
        // Cheap ones that show much come first, then the large ones, and degenerate ones last.
        let median = sizes.len() / 2;
        sizes.rotate_left(median);
        let begun_by_one = begun_by_one(kernel);
        let wide = begun_by_one.map_or(INTERPRETER_WAVE, |(wave, _)| wave);
        // Nearly a whole tile at the edge, where every element of a thread is rounded.
        let inside = sizes.iter().filter(|size| size.m < tile.m as usize && size.n < tile.n as usize);
        let nearly = inside.max_by_key(|size| (size.m * size.n, size.k)).copied();
        let turns = |sizes: Vec<Size>| sizes.into_iter().enumerate();
        let of_edge = |(turn, size)| with_alignment(edge_requests(kernel, size, turn), turn % 3 == 1);
        let of_end = |(turn, size)| end_requests(kernel, size, turn).into_iter().map(plainly);
        // And a whole one, which takes the path without guards.
        let whole = sizes.iter().filter(|size| size.m == tile.m as usize && size.n == tile.n as usize && size.k > 0);
        let whole = whole.min_by_key(|size| size.k).copied();
        let halved = halved(kernel);
        let rounding =
            nearly.into_iter().chain(whole).chain(halved.clone()).flat_map(|size| rounding_requests(kernel, size));
        let (m, n) = (tile.m.max(2) as usize, tile.n.max(2) as usize);
        let nans = [Size::new(m - 1, n - 1, 1), Size::new(m, n, 1)].map(|size| nan_requests(kernel, size));
        let rounding = rounding.chain(nans.into_iter().flatten());
        let rounding = rounding.map(plainly);
        let suite = rounding.chain(turns(sizes).flat_map(of_edge));
        // Which entry runs at an edge size depends on its turn; tiles are divided among blocks at few of these sizes.
        let mut ends: Vec<Size> = every_end(kernel).into_iter().chain(rare(kernel)).collect();
        if kernel.levels().is_some() {
            // Where a plan's products end is for the kernels that multiply, which are judged alone. Those that are left add
            // quadrants, which end elsewhere.
            costly.retain(|size| halved.contains(size));
            ends.clear();
        }
        // What only these show would otherwise wait for all that is costly.
        let of_planes = plane_requests(kernel).into_iter().chain(peak_requests(kernel));
        let peaks = of_planes.map(plainly);
        let thorough = peaks.chain(turns(costly).flat_map(of_edge)).chain(turns(ends).flat_map(of_end));
        let of_wide = begun_by_one.into_iter().flat_map(|(_, size)| end_requests(kernel, size, 0));
        let thorough = thorough.chain(of_wide.map(|request| (request, Place::Wide)));
        let thorough = thorough.chain(packed_alone_requests(kernel).into_iter().map(plainly));
        let of_refilled = refilled(kernel).into_iter().map(|size| exact_requests(kernel, size));
        let thorough = thorough.chain(of_refilled.flatten().map(plainly));
        let of_held = filled_once(kernel).into_iter().flat_map(|size| exact_requests(kernel, size));
        let held = of_held.map(plainly).collect();
        let of_inside = tiles_inside(kernel).into_iter().flat_map(|size| exact_requests(kernel, size));
        let at_both = |request: Request| [(request.clone(), Place::Plain), (request, Place::Misaligned)];
        let inside = of_inside.flat_map(at_both).collect();
        let launched = if kernel.levels().is_some() { kernel.launched() } else { Vec::new() };
        let multiplying =
            |(index, launched): (usize, &Kernel)| launched.multiplies().then(|| kernel.alone(index)).flatten();
        let alone = launched.into_iter().enumerate().map(multiplying);
        let alone = alone.map(|alone| alone.map(|kernel| Products::of(&kernel))).collect();
        Products { suite: suite.collect(), thorough: thorough.collect(), held, inside, wide, alone }
    }

    /// Each product, and where it runs.
    fn texts(&self) -> Vec<String> {
        let place = |place: &Place| match place {
            Place::Plain => "false".to_string(),
            Place::Misaligned => "true".to_string(),
            Place::Wide => format!("in waves of {}", self.wide),
        };
        let products = self.suite.iter().chain(&self.thorough);
        let own = products.map(|(request, at)| format!("{request:?} {}", place(at)));
        own.chain(self.alone.iter().flatten().flat_map(Products::texts)).collect()
    }

    /// A digest of everything that the verdicts depend on apart from the interpreter: the kernel, the edits, and these
    /// products. Nothing runs.
    pub fn digest(&self, kernel: &Kernel, mutants: &[Mutant]) -> String {
        let texts = mutants.iter().map(|mutant| format!("{} {mutant}", mutant.at));
        let kernels = kernel.launched().into_iter().map(|kernel| kernel.ptx().to_string());
        // FNV-1a; the standard library's hashes may change with its version.
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let all = kernels.chain(self.texts()).chain(texts);
        let hash = all.fold(0xcbf2_9ce4_8422_2325, |hash, text| text.bytes().fold(hash, fold));
        format!("{hash:016x}")
    }
}

impl Judge {
    /// The judge of a kernel's mutants, by all its products.
    ///
    /// # Errors
    /// Returns what is wrong with the kernel itself, which has to pass its own suite.
    pub fn new(kernel: std::sync::Arc<Kernel>) -> Result<Judge, CheckError> {
        let products = Products::of(&kernel);
        Judge::by(kernel, products)
    }

    /// The same by these products.
    ///
    /// # Errors
    /// The same.
    pub fn by(kernel: std::sync::Arc<Kernel>, products: Products) -> Result<Judge, CheckError> {
        let Products { suite, thorough, held, inside, wide, alone } = products;
        let by_index = |(index, products): (usize, Option<Products>)| {
            let judged = products.zip(kernel.alone(index));
            judged.map(|(products, kernel)| Judge::by(kernel, products)).transpose()
        };
        let alone = alone.into_iter().enumerate().map(by_index).collect::<Result<_, _>>()?;
        let (none, limit) = (Vec::new, 0);
        let mut judge =
            Judge { kernel, suite: none(), thorough: none(), held: none(), inside: none(), limit, wide, alone };
        (judge.suite, judge.thorough) = (judge.trials(suite)?, judge.trials(thorough)?);
        judge.held = judge.trials(held)?;
        judge.inside = judge.trials(inside)?;
        let trials = judge.suite.iter().chain(&judge.thorough);
        judge.limit = trials.map(|trial| trial.limit).max().unwrap_or(0);
        Ok(judge)
    }

    /// The kernel's own result for each request, which comes with a flag for misaligned pointers.
    fn trials(&self, requests: Vec<(Request, Place)>) -> Result<Vec<Trial>, CheckError> {
        let load = |place| self.gemm(self.kernel.clone(), place, None, u64::MAX);
        let itself = [load(Place::Plain)?, load(Place::Misaligned)?, load(Place::Wide)?];
        let (entries, plain) = (&self.kernel.interface().entries, self.kernel.levels().is_none());
        let warps = entries.iter().flat_map(|entry| &entry.launches).map(|launch| launch.threads.div_ceil(32)).min();
        let warps = u64::from(warps.unwrap_or(1));
        let trial = |(request, place): (Request, Place)| {
            let gemm = &itself[place as usize];
            let (run, result) = Given::new(gemm, &request)?.multiply(gemm)?;
            let instructions = run.counts.map_or(0, |counts| counts.instructions);
            let (times, more) = RUN_AWAY;
            let limit = times * (instructions / (warps * u64::from(run.blocks).max(1))) + more;
            let launches = entries.iter().filter(|entry| run.entry.as_ref().is_some_and(|ran| *ran == entry.name));
            let ran: Vec<&str> =
                launches.flat_map(|entry| &entry.launches).map(|launch| launch.kernel.as_str()).collect();
            let of_module = self.kernel.module().entries.iter().enumerate();
            let runs = of_module.filter(|(_, entry)| ran.contains(&entry.name.as_str())).map(|(at, _)| at);
            Ok(Trial { request, place, runs: plain.then(|| runs.collect()), result, limit })
        };
        requests.into_par_iter().map(trial).collect()
    }

    /// The module that a mutant is of.
    pub fn module(&self, mutant: &Mutant) -> &Module {
        self.of(mutant).module()
    }

    /// The kernel that a mutant is of.
    fn of(&self, mutant: &Mutant) -> &Kernel {
        self.kernel.launched()[mutant.kernel]
    }

    fn gemm(
        &self,
        kernel: std::sync::Arc<Kernel>,
        place: Place,
        order: Option<Order>,
        limit: u64,
    ) -> Result<CompiledGemm, Error> {
        let plain = Options { checks: Checks::Full, ..Options::default() };
        let options = order.map_or(plain, |order| order.options(&plain));
        let options = Options { max_instructions: Some(limit), ..options };
        let options = InterpreterOptions { options, misalign: u32::from(place == Place::Misaligned) };
        let device = match place {
            Place::Plain | Place::Misaligned => Device::interpreter_with(options),
            Place::Wide => Device::interpreter_of_wave(options, self.wide),
        };
        CompiledGemm::from_kernel(kernel, &device)
    }

    /// Why a surviving mutant is not a fault, if the reason is known.
    pub fn equivalent(&self, mutant: &Mutant) -> Option<&'static str> {
        // Where every bit of a result counts, one more rounding is found if it happens.
        let entry = self.entry(mutant)?;
        let rounds = mutant.kind == MutantKind::RoundedTwice && !certainly_equivalent(mutant, entry);
        if rounds && Rule::of(self.module(mutant)).is_equality() {
            return None;
        }
        equivalent(mutant, entry)
    }

    /// Whether threads of a mutant's kernel exchange anything: those of a kernel that does not multiply and has no shared memory,
    /// such as one that writes an operand's planes, or adds two of a plan's matrices, do the same in every order.
    fn shares_memory(&self, mutant: &Mutant) -> bool {
        let kernel = self.module(mutant).entries.get(mutant.entry).map(|entry| &entry.name);
        let Some((entry, kernel)) = self.entry(mutant).zip(kernel) else { return true };
        if !self.of(mutant).multiplies() {
            return entry.launches.iter().any(|launch| launch.shared_bytes > 0);
        }
        // The product itself may exchange sums in global memory.
        let mut before = entry.launches.iter().rev().skip(1);
        before.find(|launch| launch.kernel == *kernel).is_none_or(|launch| launch.shared_bytes > 0)
    }

    /// The entry of the interface that a mutant's kernel belongs to.
    fn entry(&self, mutant: &Mutant) -> Option<&Entry> {
        let kernel = &self.module(mutant).entries.get(mutant.entry)?.name;
        let mut entries = self.of(mutant).interface().entries.iter();
        entries.find(|entry| entry.launches.iter().any(|launch| launch.kernel == *kernel))
    }

    /// Runs mutants until each is found, several at a time; `done` is called for each with the time that it took, in no
    /// particular order.
    pub fn judge_all(&self, mutants: &[Mutant], done: impl Fn(&Mutant, &Verdict, Duration) + Sync) -> Vec<Verdict> {
        self.judge_while(|| true, mutants, done).into_iter().flatten().collect()
    }

    /// The same, of those that are begun while a condition holds.
    ///
    /// Of the mutants that survive the suite for one known reason in one kernel, the first is tried at every size and in every order,
    /// which takes longest; if it survives, so do the others. If it is found, the next one is tried.
    pub fn judge_while(
        &self,
        going_on: impl Fn() -> bool + Sync,
        mutants: &[Mutant],
        done: impl Fn(&Mutant, &Verdict, Duration) + Sync,
    ) -> Vec<Option<Verdict>> {
        let reason = |mutant: &Mutant| self.equivalent(mutant).map(|reason| (mutant.kernel, reason));
        let judged = |(index, mutant): (usize, &Mutant)| {
            let begun = Instant::now();
            let reason = reason(mutant);
            let extent = if reason.is_some() { Extent::Suite } else { Extent::All };
            let verdict = going_on().then(|| self.judge_in(mutant, extent))?;
            match reason {
                Some(reason) if verdict == Verdict::Survived => Some(Judged::Explained(reason, index, begun.elapsed())),
                _ => {
                    done(mutant, &verdict, begun.elapsed());
                    Some(Judged::Decided(index, verdict))
                }
            }
        };
        let judged: Vec<Judged> = mutants.par_iter().enumerate().filter_map(judged).collect();
        let (mut verdicts, mut explained) = (vec![None; mutants.len()], BTreeMap::<_, Vec<_>>::new());
        for judged in judged {
            match judged {
                Judged::Decided(index, verdict) => verdicts[index] = Some(verdict),
                Judged::Explained(reason, index, elapsed) => {
                    explained.entry(reason).or_default().push((index, elapsed))
                }
            }
        }
        let of_reason = |group: Vec<(usize, Duration)>| {
            let mut survives = false;
            let decided = group.into_iter().map_while(|(index, elapsed)| {
                let begun = Instant::now();
                let tried = || if survives { Verdict::Survived } else { self.judge(&mutants[index]) };
                let verdict = going_on().then(tried)?;
                survives |= verdict == Verdict::Survived;
                done(&mutants[index], &verdict, elapsed + begun.elapsed());
                Some((index, verdict))
            });
            decided.collect::<Vec<_>>()
        };
        let decided: Vec<_> = explained.into_values().par_bridge().flat_map_iter(of_reason).collect();
        for (index, verdict) in decided {
            verdicts[index] = Some(verdict);
        }
        verdicts
    }

    /// Runs a mutant until it is found, at every size and in every order.
    pub fn judge(&self, mutant: &Mutant) -> Verdict {
        self.judge_in(mutant, Extent::All)
    }

    fn judge_in(&self, mutant: &Mutant, extent: Extent) -> Verdict {
        if let Some(alone) = self.alone.get(mutant.kernel).and_then(Option::as_ref) {
            return alone.judge_in(&Mutant { kernel: 0, ..mutant.clone() }, extent);
        }
        let kernel = match self.kernel.edited_in(mutant.kernel, &mutant.text(self.module(mutant))) {
            Ok(kernel) => kernel,
            Err(error) => return Verdict::Refused(error.to_string()),
        };
        let orders = [None, Some(Order::Backward), Some(Order::Random(1))].map(|order| (order, &self.suite));
        let orders = orders.into_iter().take(if self.shares_memory(mutant) { usize::MAX } else { 1 });
        let certain = self.entry(mutant).is_some_and(|entry| certainly_equivalent(mutant, entry));
        let runs = if certain || extent == Extent::Suite { 1 } else { usize::MAX };
        let held = (0..HELD).map(|seed| (Some(Order::Late(seed)), &self.held));
        let waits = mutant.kind.is_synchronisation() || mutant.kind == MutantKind::OppositeGuard;
        let held = held.take(if waits { usize::MAX } else { 0 });
        let thorough = [&self.thorough, &self.inside].map(|trials| (None, trials));
        for (order, trials) in orders.chain(thorough).chain(held).take(runs) {
            match self.in_order(&kernel, order, trials, mutant) {
                Verdict::Survived => {}
                Verdict::Violation(kind) if order.is_some() => return Verdict::ViolationElsewhere(kind),
                verdict => return verdict,
            }
        }
        Verdict::Survived
    }

    /// A synchronisation fault should be found as one: after a wrong result other sizes are tried for a broken rule.
    fn in_order(
        &self,
        kernel: &std::sync::Arc<Kernel>,
        order: Option<Order>,
        trials: &[Trial],
        mutant: &Mutant,
    ) -> Verdict {
        let mut bits = Verdict::Survived;
        let loaded = Loaded::default();
        let runs = |trial: &&Trial| trial.runs.as_ref().is_none_or(|runs| runs.contains(&mutant.entry));
        let concerned = trials.iter().filter(runs);
        for Trial { request, place, result: right, .. } in concerned {
            let run = || -> Result<Verdict, CheckError> {
                let cell = &loaded.0[*place as usize];
                let gemm = match cell.get() {
                    Some(gemm) => gemm,
                    None => {
                        let gemm = self.gemm(kernel.clone(), *place, order, self.limit)?;
                        cell.get_or_init(|| gemm)
                    }
                };
                let given = Given::new(gemm, request)?;
                let (_, d) = given.multiply(gemm)?;
                if d == *right {
                    return Ok(Verdict::Survived);
                }
                Ok(match check(gemm, request)?.verdict() {
                    compare::Verdict::Wrong => Verdict::Wrong,
                    // The kernel's own result is another one, whether or not there is a reference.
                    compare::Verdict::Right | compare::Verdict::Empty | compare::Verdict::Uncompared => {
                        Verdict::OtherBits
                    }
                })
            };
            match run() {
                Ok(Verdict::Survived) => {}
                // A broken rule is more informative, if there is one.
                Ok(verdict @ (Verdict::OtherBits | Verdict::Wrong)) if bits == Verdict::Survived => bits = verdict,
                Ok(_) => {}
                Err(CheckError::Runtime(Error::Interpreter(violation))) => return Verdict::Violation(violation.kind),
                Err(error) => return Verdict::Refused(error.to_string()),
            }
            if bits == Verdict::Wrong && !mutant.kind.is_synchronisation() {
                return bits;
            }
        }
        bits
    }
}
