//! Random legal schedules at random sizes, executed and compared: for tests, and for `gemmc fuzz`.
//!
//! A draw is a schedule, how it is executed, and the products that it computes. It is determined by a seed, which is
//! enough to reproduce a failure. The report shows the smallest draw that was found to fail in the same way, with few
//! clauses, small tiles and small matrices.

mod agreement;
mod fixes;
mod schedules;
mod types;
mod wrong;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use ptx_gemm_dsl::terms::Tail;
use ptx_gemm_dsl::types::Batch;
use ptx_gemm_dsl::{Plan, Schedule};
use ptx_gemm_runtime::interp::{BlockOrder, Checks, Landing, Options, WarpOrder};
use ptx_gemm_runtime::{CompiledGemm, Device, DeviceError, DeviceKind, Error, InterpreterOptions};

use crate::check::check;
use crate::compare::Verdict;
use crate::data::Data;
use crate::error::CheckError;
use crate::exec::Orders;
use crate::request::{Output, Request};
use crate::size::Size;

use schedules::{maybe, of, schedule};

pub use fixes::{Fixes, Outcomes, Unasked, Useless};
pub use wrong::wrong_schedule;

/// One draw: a schedule, how it is executed, and its products.
#[derive(Clone, Debug)]
pub struct Draw {
    /// Clauses.
    pub schedule: String,
    /// The order of warps, in the interpreter.
    pub warps: WarpOrder,
    /// The order of blocks there.
    pub blocks: BlockOrder,
    /// When asynchronous copies and products complete there.
    pub landing: Landing,
    /// Elements by which every matrix is misaligned, in the interpreter.
    pub misalign: u32,
    requests: Vec<Wish>,
}

/// A request, before the schedule's tile and the names of its scalars are known.
#[derive(Clone, Debug)]
struct Wish {
    extents: [Extent; 3],
    data: Data,
    seed: u64,
    batch: usize,
    gap: usize,
    rows: Rows,
    in_place: bool,
    scalars: [Option<f64>; 2],
}

#[derive(Clone, Copy, Debug)]
enum Extent {
    Of(usize),
    /// A number of tiles, and one element less, none or one more.
    Tiles(usize, usize),
}

/// Leading dimensions.
#[derive(Clone, Copy, Debug)]
enum Rows {
    Packed,
    /// A number of elements above the smallest.
    Padded(usize),
    /// Multiples of the alignment that the widest access needs.
    Aligned,
}

/// Where and how a draw is executed.
#[derive(Clone, Copy, Debug)]
pub enum Runs<'a> {
    /// In the interpreter with all checks enabled, in the draw's own order.
    AsDrawn,
    /// In the interpreter with all checks enabled, in each of these orders instead.
    Each(Orders),
    /// On a GPU.
    On(&'a Device),
}

/// The result of a draw that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It ran, and none of its products was wrong: the verdict on each.
    Ran(Vec<Verdict>),
    /// The schedule was rejected by this rule, or because the device does not run its target.
    Refused(&'static str),
    /// Not executed to its end, because a kernel destroyed the GPU's context: this draw's, or one that ran at the same time.
    Lost,
}

impl Extent {
    fn elements(self, tile: u32) -> usize {
        match self {
            Extent::Of(elements) => elements,
            Extent::Tiles(tiles, more) => (tiles * tile as usize + more).saturating_sub(1),
        }
    }
}

impl Wish {
    /// The other products of a group: extents of the first in another order and number, or 0.
    fn others(&self, plan: &Plan) -> Vec<Size> {
        let block = plan.problem.asked_extents(plan.block);
        let tile = [block.m, block.n, block.k];
        let of = |index: usize| {
            let [m, n, k] = [0, 1, 2].map(|at| {
                let extent =
                    self.extents[(at + index) % 3].elements(tile[at]) * usize::from((index + at) % 5 != self.gap);
                if plan.edges.tail == Tail::None { extent.next_multiple_of(tile[at] as usize) } else { extent }
            });
            Size::new(m, n, k)
        };
        (0..2 * self.batch).map(of).collect()
    }

    fn request(&self, plan: &Plan) -> Request {
        let [m, n, k] = self.extents;
        let elements = |extent: Extent, tile: u32| match plan.edges.tail {
            Tail::None => extent.elements(tile).next_multiple_of(tile as usize),
            Tail::Predicate => extent.elements(tile),
        };
        let (problem, block) = (plan.problem.asked(), plan.problem.asked_extents(plan.block));
        let (m, n, k) = (elements(m, block.m), elements(n, block.n), elements(k, block.k));
        let mut request = Request { data: self.data, seed: self.seed, ..Request::random(m, n, k) };
        if plan.problem.batch == Batch::Strided {
            request = Request { gap: self.gap, ..request }.batch(self.batch);
        }
        if plan.problem.batch == Batch::Grouped {
            request = request.with_others(self.others(plan));
        }
        request = match self.rows {
            Rows::Packed => request,
            Rows::Padded(padding) => request.padded(&problem, padding),
            Rows::Aligned => request.aligned(),
        };
        if self.in_place {
            request.output = Output::in_place_if_possible(&problem);
        }
        for (name, value) in problem.epilogue.scalars.iter().zip(self.scalars) {
            request = value.into_iter().fold(request, |request, value| request.set(name, value));
        }
        request
    }
}

fn extent() -> impl Strategy<Value = Extent> {
    prop_oneof![
        1 => (0..4usize).prop_map(Extent::Of),
        2 => (0..90usize).prop_map(Extent::Of),
        1 => (1..=2usize, 0..3usize).prop_map(|(tiles, more)| Extent::Tiles(tiles, more)),
    ]
}

fn wish() -> impl Strategy<Value = Wish> {
    let scalar = || maybe(60, of(&[0.0, 0.0, -1.0, 2.0]));
    let kind = of(&[Data::Exact, Data::Exact, Data::Random, Data::Special]);
    let rows = of(&[Rows::Packed, Rows::Packed, Rows::Padded(1), Rows::Padded(3), Rows::Padded(4), Rows::Aligned]);
    let data = (kind, any::<u64>(), rows, prop::bool::weighted(0.2));
    let extents = [extent(), extent(), extent()];
    (extents, data, 0..4usize, 0..6usize, scalar(), scalar()).prop_map(
        |(extents, (data, seed, rows, in_place), batch, gap, first, second)| Wish {
            extents,
            data,
            seed,
            batch,
            gap,
            rows,
            in_place,
            scalars: [first, second],
        },
    )
}

fn warp_order() -> impl Strategy<Value = WarpOrder> {
    let seeded =
        prop_oneof![2 => any::<u64>().prop_map(WarpOrder::Seeded), 1 => any::<u64>().prop_map(WarpOrder::Late)];
    prop_oneof![2 => Just(WarpOrder::RunToBarrier), 1 => Just(WarpOrder::Forward), 1 => Just(WarpOrder::Backward), 1 => seeded]
}

fn block_order() -> impl Strategy<Value = BlockOrder> {
    let seeded = any::<u64>().prop_map(BlockOrder::Seeded);
    prop_oneof![3 => Just(BlockOrder::Forward), 1 => Just(BlockOrder::Backward), 1 => Just(BlockOrder::Interleaved), 1 => seeded]
}

fn landing() -> impl Strategy<Value = Landing> {
    let seeded = any::<u64>().prop_map(Landing::Seeded);
    prop_oneof![2 => Just(Landing::Latest), 1 => Just(Landing::Earliest), 1 => seeded]
}

/// A draw.
pub fn draw() -> impl Strategy<Value = Draw> {
    let misalign = prop_oneof![4 => Just(0u32), 1 => Just(1u32)];
    let order = (warp_order(), block_order(), landing());
    (schedule(), order, misalign, prop::collection::vec(wish(), 1..=4)).prop_map(
        |(schedule, (warps, blocks, landing), misalign, requests)| Draw {
            schedule,
            warps,
            blocks,
            landing,
            misalign,
            requests,
        },
    )
}

/// Runs `test` on `count` draws, the same for the same seed. The error is about the smallest draw that was found to fail.
pub fn for_all(count: u32, seed: u64, test: impl Fn(&Draw) -> Result<(), String>) -> Result<(), String> {
    let config = Config { cases: count, failure_persistence: None, max_shrink_iters: 10_000, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let run = |draw: Draw| test(&draw).map_err(TestCaseError::fail);
    TestRunner::new_with_rng(config, rng).run(&draw(), run).map_err(|error| match error {
        TestError::Fail(reason, value) => format!("seed {seed}: {reason}\nthe smallest that fails: {value:?}"),
        TestError::Abort(reason) => format!("seed {seed}: {reason}"),
    })
}

impl Draw {
    /// The devices that execute it; `misalign` applies to the interpreter.
    fn devices(&self, runs: Runs<'_>, misalign: u32) -> Vec<Device> {
        let options = Options { checks: Checks::Full, ..Options::default() };
        let interpreter = |options| Device::interpreter_with(InterpreterOptions { options, misalign });
        match runs {
            Runs::On(gpu) => vec![gpu.clone()],
            Runs::AsDrawn => {
                let (order, blocks, landing) = (self.warps, self.blocks, self.landing);
                vec![interpreter(Options { order, blocks, landing, ..options })]
            }
            Runs::Each(orders) => orders.list().iter().map(|order| interpreter(order.options(&options))).collect(),
        }
    }
}

/// Compiles and multiplies the products of a draw.
///
/// # Errors
/// Describes what is wrong: a schedule that does not parse or is rejected without a reason, or any failure
/// of an accepted one.
pub fn execute(draw: &Draw, runs: Runs<'_>) -> Result<Fate, String> {
    let schedule: Schedule = draw.schedule.parse().map_err(|e| format!("it does not parse: {e}"))?;
    let plan = match schedule.plan(None) {
        Ok(plan) => plan,
        Err(refusal) => {
            let first = refusal.errors().next().ok_or("it is refused without an error")?;
            if refusal.iter().any(|diagnostic| diagnostic.message.is_empty()) {
                return Err(format!("{refusal:?} has no reason"));
            }
            return Ok(Fate::Refused(first.rule));
        }
    };
    let mut verdicts = Vec::new();
    for device in draw.devices(runs, draw.misalign) {
        // Of the same products.
        verdicts.clear();
        let gemm = match CompiledGemm::new(&schedule, &device) {
            Err(Error::Device(DeviceError::Target { .. })) if device.kind() != DeviceKind::Interpreter => {
                return Ok(Fate::Refused("another target"));
            }
            Err(Error::Device(DeviceError::ContextLost { .. })) => return Ok(Fate::Lost),
            gemm => gemm.map_err(|e| e.to_string())?,
        };
        for request in draw.requests.iter().map(|wish| wish.request(&plan)) {
            let told = || match runs {
                Runs::Each(_) => format!("{device:?}: {request:?}"),
                Runs::AsDrawn | Runs::On(_) => format!("{request:?}"),
            };
            let outcome = match check(&gemm, &request) {
                Err(CheckError::Runtime(Error::Device(DeviceError::ContextLost { .. }))) => return Ok(Fate::Lost),
                outcome => outcome.map_err(|e| format!("{}: {e}", told()))?,
            };
            match outcome.verdict() {
                Verdict::Wrong => return Err(format!("{}: {outcome:?}", told())),
                verdict => verdicts.push(verdict),
            }
        }
    }
    Ok(Fate::Ran(verdicts))
}

/// The results of many draws.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Draws.
    pub draws: usize,
    /// Pairs of a schedule and a product that were compared, and were right.
    pub pairs: usize,
    /// Pairs with an empty D.
    pub empty: usize,
    /// Pairs without a comparable element.
    pub uncompared: usize,
    /// How often each rule rejected a schedule.
    pub refused: BTreeMap<&'static str, usize>,
    /// Draws that were not executed to their end.
    pub lost: usize,
}

impl Tally {
    /// Takes a draw into account.
    pub fn add(&mut self, fate: &Fate) {
        self.draws += 1;
        match fate {
            Fate::Ran(verdicts) => {
                let count = |of| verdicts.iter().filter(|verdict| **verdict == of).count();
                self.pairs += count(Verdict::Right);
                self.empty += count(Verdict::Empty);
                self.uncompared += count(Verdict::Uncompared);
            }
            Fate::Refused(rule) => *self.refused.entry(rule).or_default() += 1,
            Fate::Lost => self.lost += 1,
        }
    }

    /// Schedules that were rejected.
    pub fn refusals(&self) -> usize {
        self.refused.values().sum()
    }
}
