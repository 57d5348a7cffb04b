//! From a plan to a module of tile programs: which tiles are copied, waited for, multiplied and stored, and in which
//! order.
//!
//! No other pass reads a plan. Ensures programs that the verifier accepts.
//!
//! - One stage: `acquire, copy, commit, wait, multiply, release` in the loop, with a barrier in `wait` and one in
//!   `release`.
//! - More stages: `stages - 1` tiles are copied ahead. In the loop, `wait` contains the only barrier per K-tile. After
//!   it, the slot that was read in the previous iteration may be filled. Through registers, the copy of the next tile
//!   is issued before the multiply and stored to shared memory (`commit`) after it, so that the products hide its
//!   latency.
//! - With dedicated producers, each role has its half of the loop, with mbarriers between them.
//! - Warp groups continue while tensor cores multiply. Consumers with a spare slot wait for the products of a K-tile
//!   only after they have started those of the next one, and so return slots one K-tile later.
//! - Consumers that take turns start products one after the other. Each has its own memory for its tile of D.

mod planes;
mod roles;
mod store;

use std::sync::Arc;

use ptx_gemm_dsl::atoms::Unit;
use ptx_gemm_dsl::plan::{CopyPlan, OperandPlan, Plan, Promotion, Variant};
use ptx_gemm_dsl::target::WARP_GROUP;
use ptx_gemm_dsl::terms::{Extent2, Fast, Load, Operands, Pace, Reads, Reduce, Side, SplitK};
use ptx_gemm_dsl::types::{Layout, Problem};

use super::{
    Arrival, Barrier, Buffer, Digit, Division, Empty, Exchange, Fetch, Full, Hold, Index, Instruction, Map, Module,
    Mover, Multiply, Note, Op, Program, Ring, Role, Scheduler, Source, Span, Stage, StagePlace, Statement, Walk,
};

/// The programs of a plan, one for each of its variants.
pub fn build(plan: &Plan) -> Module {
    let problem = Arc::new(problem(plan));
    let entries = plan.variants.iter().map(|variant| Builder::new(plan, variant, &problem).program()).collect();
    Module { target: plan.target, problem, orientation_note: note(&plan.clauses.transposed), entries }
}

/// The problem, without the properties of an unread C.
fn problem(plan: &Plan) -> Problem {
    let mut problem = plan.problem.clone();
    if !problem.epilogue.uses_c() {
        (problem.types.c, problem.layouts.c) = (problem.types.d, problem.layouts.d);
    }
    problem
}

fn note(clause: &str) -> Note {
    clause.into()
}

/// The note of a line if a condition holds, otherwise an empty one.
fn note_if(holds: bool, clause: &str) -> Note {
    note(if holds { clause } else { "" })
}

fn at(op: Op, clause: &str) -> Statement {
    Statement { op, note: note(clause) }
}

struct Builder<'p> {
    plan: &'p Plan,
    variant: &'p Variant,
    problem: &'p Arc<Problem>,
}

impl<'p> Builder<'p> {
    fn new(plan: &'p Plan, variant: &'p Variant, problem: &'p Arc<Problem>) -> Self {
        Builder { plan, variant, problem }
    }

    fn program(&self) -> Program {
        let (plan, clauses) = (self.plan, &self.plan.clauses);
        let buffers = self.buffers();
        let staged = !buffers.is_empty();
        // If operands are not aligned for TMA, each block copies its own.
        let cluster = if self.variant.load == Load::Tma { plan.scheduler.cluster } else { Extent2 { m: 1, n: 1 } };
        Program {
            name: self.variant.entry.clone(),
            target: plan.target,
            problem: self.problem.clone(),
            block: plan.block,
            block_note: note(&clauses.tile),
            blocks_per_sm: plan.resident_blocks(self.variant),
            tail: plan.edges.tail,
            tail_note: note(&clauses.tail),
            params: self.variant.params.clone(),
            scheduler: Scheduler {
                raster: plan.scheduler.raster,
                raster_note: note(&clauses.raster),
                persistent: plan.scheduler.persistent,
                persistent_note: note_if(plan.scheduler.persistent.is_some(), &clauses.persistent),
                cluster,
                cluster_note: note_if(cluster.m * cluster.n > 1, &clauses.cluster),
                division: match plan.scheduler.split_k {
                    Some(SplitK { parts, reduce: Reduce::Cluster }) => Division::Cluster(parts),
                    Some(SplitK { parts, .. }) => Division::Parts(parts),
                    None if plan.scheduler.stream_k => Division::Stream,
                    None => Division::Whole,
                },
                division_note: note_if(plan.scheduler.split_k.is_some() || plan.scheduler.stream_k, &clauses.split_k),
            },
            packs: self.packs(),
            walk: plan.sums.promote.map(|Promotion { every, .. }| Walk {
                chunk: every,
                pairs: plan.sums.emulate.map_or(vec![(0, 0)], |emulate| emulate.by.pairs()),
                note: note(&clauses.promote),
            }),
            rings: if staged { vec![self.ring()] } else { Vec::new() },
            buffers,
            stage: self.variant.staged.map(|staged| Stage {
                pitch: staged.pitch,
                swizzle: staged.swizzle,
                place: if staged.lent.is_some() { StagePlace::Slots(0) } else { StagePlace::At(staged.offset_bytes) },
                note: note(&clauses.store),
            }),
            arrival: plan
                .c_offset(self.variant)
                .map(|offset_bytes| Arrival { offset_bytes, note: note(&clauses.load) }),
            barriers: self.barriers(),
            turns: self.turns().into_iter().collect(),
            accumulators: self.accumulators(),
            roles: self.roles(staged),
            exchange: self.exchange(),
        }
    }

    fn roles(&self, staged: bool) -> Vec<Role> {
        let (plan, clauses) = (self.plan, &self.plan.clauses);
        let role = |name: &str, threads, turns, body, clause: &str| {
            let mut body = vec![at(Op::Tiles { body }, &clauses.raster)];
            if name != "producers" && (self.settles_late() || self.returns_late()) {
                body.push(at(Op::Settle, &clauses.store));
            }
            let (registers, registers_note) = (None, note(""));
            Role { name: name.into(), threads, turns, registers, registers_note, body, note: note(clause) }
        };
        let math = plan.geometry.threads * plan.roles.turns;
        if !staged {
            return vec![role("all", 0..math, 1, self.with_store(vec![self.direct()]), &clauses.lanes)];
        }
        if plan.roles.producer_warps == 0 {
            return vec![role("all", 0..math, 1, self.with_store(self.staged()), &clauses.lanes)];
        }
        let mut roles = vec![
            role("consumers", 0..math, plan.roles.turns, self.with_store(self.consumer()), &clauses.specialize),
            role("producers", math..plan.threads(), 1, self.producer(), &clauses.specialize),
        ];
        if let Some((producer, consumer)) = plan.roles.registers {
            for (role, registers) in roles.iter_mut().zip([consumer, producer]) {
                (role.registers, role.registers_note) = (Some(registers), note(&clauses.registers));
            }
        }
        roles
    }

    /// Whether the multiply instruction is asynchronous.
    fn multiplies_asynchronously(&self) -> bool {
        self.plan.atom.of_group().is_some()
    }

    /// Waits for products in flight, if any, except those of the newest `steps`.
    fn retire(&self, steps: u32) -> Option<Statement> {
        self.multiplies_asynchronously().then(|| at(Op::Retire { steps }, &self.plan.clauses.thread))
    }

    /// The cluster reduction after the roles.
    fn exchange(&self) -> Option<Exchange> {
        let plan = self.plan;
        let ptx_gemm_dsl::plan::Exchange { pitch, chunk, across, chunks, at_once, steps, .. } = plan.sums.exchange?;
        let rows = self.problem.layouts.d == Layout::Row;
        let digit =
            |along: bool, extent, step| if along == rows { Digit::n(extent, step) } else { Digit::m(extent, step) };
        let thread = vec![digit(true, across, chunk), digit(false, at_once, 1)];
        let element = vec![digit(true, chunk, 1), digit(true, chunks, chunk * across), digit(false, steps, at_once)];
        let c = self.problem.epilogue.uses_c() && self.problem.layouts.c == self.problem.layouts.d;
        Some(Exchange {
            map: Map::new(thread, Vec::new(), element),
            pitch,
            offset_bytes: 0,
            width: self.variant.d_width,
            c_width: if c { self.variant.c_width } else { 1 },
            note: note(&plan.clauses.split_k),
        })
    }

    /// A barrier of the threads that store a tile together.
    fn meet_to_store(&self) -> Statement {
        let op = match self.plan.roles.producer_warps {
            0 => Op::Sync,
            _ => Op::Meet { barrier: self.barriers().len() - 1 },
        };
        at(op, &self.plan.clauses.store)
    }

    /// The barriers of the consumers, if they are not the whole block: one keeps them in step, and one synchronises the
    /// threads that store a tile together.
    fn barriers(&self) -> Vec<Barrier> {
        let (plan, clauses) = (self.plan, &self.plan.clauses);
        if plan.roles.producer_warps == 0 {
            return Vec::new();
        }
        let wanted = [
            (plan.ring.pace == Pace::Tile, "pace", &clauses.pace),
            (self.variant.staged.is_some(), "store", &clauses.store),
            (plan.sums.exchange.is_some(), "share", &clauses.split_k),
        ];
        // Each group that takes turns has its own.
        let wanted = wanted.into_iter().filter(|(wanted, ..)| *wanted).zip((1..).step_by(plan.roles.turns as usize));
        let threads = plan.geometry.threads;
        let barrier = |((_, name, clause), number): ((bool, &str, &String), u32)| Barrier {
            name: name.into(),
            number,
            threads,
            note: note(clause),
        };
        wanted.map(barrier).collect()
    }

    fn ring(&self) -> Ring {
        let (plan, clauses) = (self.plan, &self.plan.clauses);
        let load = self.variant.load;
        // One thread starts the copies of TMA.
        let fill = if load == Load::Tma { 1 } else { plan.copying_threads() };
        // If tensor cores read a slot, one thread of a warp group returns it: its wait is for the products of the
        // group.
        let read = plan.geometry.threads / if self.multiplies_asynchronously() { WARP_GROUP } else { 1 };
        // How a slot becomes free when the block runs in step: through its own barrier, or through that of the next
        // wait.
        let idle = if plan.ring.stages == 1 { Empty::Barrier } else { Empty::NextWait };
        let (full, empty) = match (plan.ring.pace, load) {
            // Every thread signals separately that its copies are complete, and that it has read the slot.
            _ if plan.roles.producer_warps > 0 => {
                (Full::Mbarrier { arrivals: fill }, Empty::Mbarrier { arrivals: read })
            }
            // With two slots, a thread arrives for the second one after reading the first. A wait for one of them does
            // not wait for the other.
            (Pace::Free, Load::Registers) if plan.ring.stages == 2 => {
                (Full::Mbarrier { arrivals: fill }, Empty::NextWait)
            }
            (Pace::Free, _) => (Full::Mbarrier { arrivals: fill }, Empty::Mbarrier { arrivals: read }),
            (Pace::Tile, Load::Tma) => (Full::Mbarrier { arrivals: fill }, idle),
            (Pace::Tile, Load::CpAsync) => (Full::CopyGroups { in_flight: plan.ring.stages.saturating_sub(2) }, idle),
            (Pace::Tile, Load::Registers) => (Full::Barrier, idle),
        };
        Ring {
            name: "ab".into(),
            buffers: (0..2 * plan.ring.planes_in_slot as usize).collect(),
            depth: plan.ring.stages,
            slot_bytes: plan.ring.stage_bytes,
            full,
            empty,
            mbarriers: plan.barrier_offset(self.variant),
            note: note(&clauses.stages),
            mbarrier_note: note_if(
                plan.barrier_offset(self.variant).is_some(),
                match (plan.roles.producer_warps, plan.ring.pace) {
                    (1.., _) => &clauses.specialize,
                    (0, Pace::Free) => &clauses.pace,
                    (0, Pace::Tile) => &clauses.load,
                },
            ),
        }
    }

    fn copy(&self, buffer: usize, tile: Index) -> Statement {
        let plan = self.plan;
        let of_a = buffer < plan.ring.planes_in_slot as usize;
        let (operand, copy) = if of_a { (&plan.ring.a, self.variant.a) } else { (&plan.ring.b, self.variant.b) };
        let CopyPlan { width, store_width, chunks, .. } = copy;
        // Each panel has the same number of boxes.
        let panels = operand.placement.map_or(1, |placement| placement.panels());
        let by = match self.variant.load {
            Load::CpAsync => Mover::CpAsync { width, piece: store_width },
            Load::Registers => Mover::Registers { width, store: store_width },
            Load::Tma => Mover::Tma {
                rows: operand.placement.map_or(0, |placement| placement.slow_extent * panels) / chunks.max(1),
                multicast: plan.scheduler.multicast[usize::from(!of_a)],
            },
        };
        let clause = match self.variant.load {
            Load::Tma => &plan.clauses.load,
            _ if plan.ring.stages > 1 => &plan.clauses.stages,
            _ => &plan.clauses.tile,
        };
        at(Op::Copy { buffer, tile, by }, clause)
    }

    /// The statements that fill a slot with one K-tile, up to the commit.
    fn produce(&self, tile: Index) -> Vec<Statement> {
        let copies = (0..2 * self.plan.ring.planes_in_slot as usize).map(|buffer| self.copy(buffer, tile));
        std::iter::once(at(Op::Acquire { ring: 0 }, &self.plan.clauses.stages)).chain(copies).collect()
    }

    fn staged(&self) -> Vec<Statement> {
        let (plan, clauses) = (self.plan, &self.plan.clauses);
        let commit = || at(Op::Commit { ring: 0 }, &clauses.stages);
        let wait = || at(Op::Wait { ring: 0 }, &clauses.stages);
        let release = || at(Op::Release { ring: 0, kept: 0 }, &clauses.stages);
        let steps = || self.steps().into_iter().chain(self.retire(0));
        let ahead = plan.ring.stages - 1;
        let mut sum = Vec::new();
        for tile in 0..ahead {
            sum.extend(self.produce(Index::At(tile)));
            sum.push(commit());
        }
        let mut body = Vec::new();
        if ahead == 0 {
            body.extend(self.produce(Index::Ahead(0)));
            body.extend([commit(), wait()]);
            body.extend(steps());
            body.push(release());
        } else {
            body.push(wait());
            if self.variant.load == Load::Tma && plan.ring.pace == Pace::Tile {
                // The wait covers only the copies, and does not keep the threads in step.
                body.push(at(Op::Sync, &clauses.pace));
            }
            body.extend(self.produce(Index::Ahead(ahead)));
            // Asynchronous copies are committed at once; copies through registers are stored after the multiply.
            match self.variant.load {
                Load::Registers => {
                    body.extend(steps());
                    body.push(commit());
                }
                Load::CpAsync | Load::Tma => {
                    body.push(commit());
                    body.extend(steps());
                }
            }
            body.push(release());
        }
        body.extend(self.promote(false));
        sum.push(at(Op::Loop { body }, &clauses.tile));
        vec![at(Op::IfAnyK { body: sum }, &clauses.tile)]
    }

    /// The steps of the K-tile that was waited for; for each pair of planes, if a slot has all planes.
    fn steps(&self) -> Vec<Statement> {
        let pairs =
            self.plan.sums.emulate.filter(|_| self.together()).map_or(vec![(0, 0)], |emulate| emulate.by.pairs());
        pairs.into_iter().map(|pair| self.steps_of_pair(pair)).collect()
    }

    fn steps_of_pair(&self, (plane_of_a, plane_of_b): (u32, u32)) -> Statement {
        let plan = self.plan;
        let (a, b) = (self.buffer_of(Side::A, plane_of_a), self.buffer_of(Side::B, plane_of_b));
        if self.multiplies_asynchronously() {
            let fetch = |side, buffer| {
                let from = Source::Buffer(buffer);
                let fetch = Fetch { side, from, width: 1, ahead: 0, hold: Hold::Descriptor, reads: Reads::Movable };
                (fetch, note(&plan.clauses.shared))
            };
            let fetches = vec![fetch(Side::A, a), fetch(Side::B, b)];
            return self.steps_of(Span::Tile(0..plan.block.k), plan.body.unroll, fetches);
        }
        if let Some((_, _, depth)) = plan.atom.of_warp() {
            let ahead = (plan.body.prefetch * depth).min(plan.body.unroll - depth).min(depth);
            let fetch = |side, buffer| {
                let from = Source::Buffer(buffer);
                let fetch = Fetch { side, from, width: 1, ahead, hold: Hold::Matrices, reads: Reads::Movable };
                (fetch, note(&plan.clauses.thread))
            };
            let fetches = vec![fetch(Side::A, a), fetch(Side::B, b)];
            return self.steps_of(Span::Tile(0..plan.block.k), plan.body.unroll, fetches);
        }
        let fetch = |operand: &OperandPlan, buffer| {
            let fast = operand.placement.map_or(Fast::K, |placement| placement.fast);
            let group = if fast == Fast::K { operand.read_width } else { 1 };
            // Rounded to whole groups within the unrolled body: holding a group of four steps twice is too much for
            // reading one step ahead.
            let groups = (plan.body.prefetch / group).min(plan.body.unroll.div_ceil(group) - 1);
            self.fetch(operand.side, Source::Buffer(buffer), operand.read_width, groups * group)
        };
        let fetches = vec![fetch(&plan.ring.a, a), fetch(&plan.ring.b, b)];
        self.steps_of(Span::Tile(0..plan.block.k), plan.body.unroll, fetches)
    }

    /// All of k, read from global memory.
    fn direct(&self) -> Statement {
        let plan = self.plan;
        let fetch = |operand: &OperandPlan, copy: CopyPlan| {
            let group = if operand.global_fast == Fast::K { copy.width } else { 1 };
            self.fetch(operand.side, Source::Global, copy.width, plan.body.prefetch / group * group)
        };
        let fetches = vec![fetch(&plan.ring.a, self.variant.a), fetch(&plan.ring.b, self.variant.b)];
        self.steps_of(Span::All, plan.block.k, fetches)
    }

    fn fetch(&self, side: Side, from: Source, width: u32, ahead: u32) -> (Fetch, Note) {
        let clauses = &self.plan.clauses;
        let hold = match self.plan.body.operands {
            Operands::Registers => Hold::Registers,
            Operands::Shared => Hold::EachProduct,
        };
        let (width, clause) = match (hold, from, width) {
            (Hold::EachProduct, ..) => (1, "operands(shared)"),
            (_, _, 2..) => (width, clauses.vector.as_str()),
            (_, Source::Global, _) => (width, clauses.shared.as_str()),
            (_, Source::Buffer(_), _) => (width, clauses.thread.as_str()),
        };
        let ahead = if hold == Hold::EachProduct { 0 } else { ahead };
        (Fetch { side, from, width, ahead, hold, reads: self.plan.body.reads }, note(clause))
    }

    fn steps_of(&self, span: Span, unroll: u32, fetches: Vec<(Fetch, Note)>) -> Statement {
        let by = match self.plan.atom.tensor() {
            None => Instruction::Fma { order: self.plan.body.order },
            Some((Unit::Warp, (rows, _, depth))) => Instruction::Mma { rows, depth },
            Some((Unit::WarpGroup, (_, columns, _))) => {
                Instruction::Wgmma { columns, grain: self.plan.edges.grain.unwrap_or(columns) }
            }
        };
        let multiply = Multiply { acc: self.summed(), by };
        let multiply_note = note(&self.plan.clauses.thread);
        at(Op::Steps { span, unroll, fetches, multiply, multiply_note }, &self.plan.clauses.unroll)
    }
}

fn buffer(name: &str, operand: &OperandPlan, shared: &str) -> Option<Buffer> {
    operand.placement.map(|placement| Buffer {
        name: name.into(),
        side: operand.side,
        plane: None,
        extent: operand.extent,
        depth: operand.depth,
        fast: placement.fast,
        pitch: placement.pitch,
        swizzle: placement.swizzle,
        offset_bytes: placement.offset_bytes,
        note: note(shared),
    })
}
