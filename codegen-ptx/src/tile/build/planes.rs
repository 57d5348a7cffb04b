//! The additions of `emulate` to a program: operands split into planes, their buffers, and promoted accumulators.

use ptx_gemm_dsl::plan::{Emulate, OperandPlan};
use ptx_gemm_dsl::terms::{Fast, Load, Side};

use super::super::{Accumulator, Buffer, Op, Pack, Planes, Statement};
use super::{Builder, at, buffer, note};

/// Extents of the tile that a block of a packing kernel copies, and its threads: 16 elements in flight per thread fill
/// the memory's bandwidth.
const PACK_TILE: u32 = 64;
const PACK_THREADS: u32 = 256;
/// Elements along the rows of an operand that is copied as it is, and rows. Longer rows have fewer seams, at which sectors are
/// read twice; in shorter ones fewer vectors are near the end of the matrix. Bf16 at 4095 x 4097 x 4093 on an H100, with 64,
/// 128, 256 and 512 elements: 0.255, 0.253, 0.254 and 0.255 ms.
const PACK_ROWS: (u32, u32) = (128, 32);

impl Builder<'_> {
    /// The buffers of a slot: of A, then of B, one for each plane in the slot.
    pub(super) fn buffers(&self) -> Vec<Buffer> {
        let plan = self.plan;
        let of_operand = |(name, operand): (&str, &OperandPlan)| -> Vec<Buffer> {
            let whole = buffer(name, operand, &plan.clauses.shared);
            let slot_bytes = operand.placement.map_or(0, |placement| placement.slot_bytes);
            let plane = |plane: u32| {
                whole.clone().map(|whole| Buffer {
                    name: format!("{name}{plane}"),
                    plane: Some(plane),
                    offset_bytes: whole.offset_bytes + plane * slot_bytes,
                    ..whole
                })
            };
            match self.together() {
                true => (0..plan.ring.planes_in_slot).filter_map(plane).collect(),
                false => whole.into_iter().collect(),
            }
        };
        [("As", &plan.ring.a), ("Bs", &plan.ring.b)].into_iter().flat_map(of_operand).collect()
    }

    /// Whether a slot has all planes of a K-tile.
    pub(super) fn together(&self) -> bool {
        self.plan.ring.planes_in_slot > 1
    }

    /// The buffer of an operand, or of one of its planes.
    pub(super) fn buffer_of(&self, side: Side, plane: u32) -> usize {
        let first = if side == Side::A { 0 } else { self.plan.ring.planes_in_slot };
        (first + plane) as usize
    }

    /// Operands that are copied first, in the order of the buffers that they are copied into afterwards.
    pub(super) fn packs(&self) -> Vec<Pack> {
        let plan = self.plan;
        let copied = self.variant.load == Load::Tma || plan.sums.emulate.is_some();
        let packed = |operand: &&OperandPlan| copied && plan.ring.pack.contains(&operand.side);
        let pack = |operand: &OperandPlan| {
            let fast = operand.placement.map_or(operand.global_fast, |placement| placement.fast);
            let as_it_is = plan.sums.emulate.is_none() && fast == operand.global_fast;
            let (run, rows) = if as_it_is { PACK_ROWS } else { (PACK_TILE, PACK_TILE) };
            let (extent, depth) = if fast == Fast::K { (rows, run) } else { (run, rows) };
            Pack {
                side: operand.side,
                extent,
                depth,
                fast,
                threads: PACK_THREADS,
                planes: plan.sums.emulate.map(|Emulate { by }| Planes { dtype: by.factor(), count: by.planes() }),
                note: note(&plan.clauses.pack),
            }
        };
        [&plan.ring.a, &plan.ring.b].into_iter().filter(packed).map(pack).collect()
    }

    /// The accumulators of a tile, and those of one chunk of k if chunks are promoted.
    pub(super) fn accumulators(&self) -> Vec<Accumulator> {
        let clauses = &self.plan.clauses;
        let set = |name: &str, clause| Accumulator { name: name.into(), map: self.plan.map(), note: note(clause) };
        let sums = set("acc", &clauses.thread);
        let part = self.plan.sums.promote.map(|_| set("part", &clauses.promote));
        let rest = self.rest().map(|_| set("rest", &clauses.promote));
        [Some(sums), part, rest].into_iter().flatten().collect()
    }

    /// The set that products are added to.
    pub(super) fn summed(&self) -> usize {
        usize::from(self.plan.sums.promote.is_some())
    }

    /// The set that holds the rounding errors of promotions, if there is one.
    pub(super) fn rest(&self) -> Option<usize> {
        self.plan.sums.promote.filter(|promotion| promotion.compensated).map(|_| 2)
    }

    /// Adds the accumulators of a chunk to those of the tile, once no products are in flight.
    pub(super) fn promote(&self, in_flight: bool) -> Option<Statement> {
        self.plan.sums.promote?;
        let clause = &self.plan.clauses.promote;
        let mut body: Vec<Statement> = self.retire(0).into_iter().filter(|_| in_flight).collect();
        body.push(at(Op::Promote { from: self.summed(), into: 0, rest: self.rest() }, clause));
        if self.promotes_every_tile() { body.pop() } else { Some(at(Op::IfChunkEnds { body }, clause)) }
    }

    /// Whether every K-tile is a chunk: it is as deep, and there is one pair of planes or all of them.
    pub(super) fn promotes_every_tile(&self) -> bool {
        let apart = self.plan.sums.emulate.is_some() && !self.together();
        !apart && self.plan.sums.promote.is_some_and(|promotion| promotion.every == self.plan.block.k)
    }
}
