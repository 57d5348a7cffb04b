//! The loop over K-steps: fragments are prefetched into rotating registers, and multiplied.
//!
//! The same loop serves fragments from shared memory and from global memory. A fragment is read in groups of steps:
//! along k one access covers as many steps as its width, along m or n a single step. Each group is read `ahead` steps
//! before its first product. Register sets rotate so that prefetched groups never overwrite groups still to be
//! multiplied.

use std::ops::Range;

use ptx_gemm_dsl::terms::Side;

use super::outer::OuterProducts;
use super::pipeline::Pipeline;
use super::stream::Stream;
use super::{Lowered, Lowering, broken, index, misplaced};
use crate::kernel::{Expr, Guard, Op as KernelOp, Reg};
use crate::origin::Site;
use crate::tile::{Hold, Instruction, Op, Source, Span, Statement};

impl<'a> Lowering<'a> {
    /// Positions of the thread's elements along an operand's own dimension.
    pub(super) fn positions(&self, side: Side) -> Lowered<Vec<u32>> {
        let map = self.role.map.ok_or_else(|| broken("a role that multiplies has no accumulators"))?;
        Ok(match side {
            Side::A => map.rows(),
            Side::B => map.cols(),
        })
    }

    /// Registers from index `from` of a fragment family. Every use of the family shares them.
    pub(super) fn rotating(&mut self, side: Side, from: u32, n: u32, converted: bool) -> Vec<Reg> {
        let index = index(side);
        let family = if converted { self.families.converted[index] } else { self.families.fragment[index] };
        let pool = &mut self.products.fragment_pool[index][usize::from(converted)];
        while pool.len() < (from + n) as usize {
            let reg = self.b.fresh(family);
            pool.push(reg);
        }
        pool[from as usize..(from + n) as usize].to_vec()
    }

    /// Lowers the steps of the K-tile in the slots that were waited for.
    pub(super) fn steps(&mut self, pipeline: &Pipeline<'a>, statement: &Statement) -> Lowered<()> {
        let Op::Steps { span: Span::Tile(range), unroll, fetches, multiply, multiply_note } = &statement.op else {
            return Err(misplaced(statement));
        };
        if let Instruction::Wgmma { columns, .. } = multiply.by {
            return self.group_steps(pipeline, (fetches, multiply_note), (multiply.acc, columns), range);
        }
        if let Instruction::Mma { rows, depth } = multiply.by {
            return self.warp_steps(pipeline, (fetches, multiply_note), (multiply.acc, (rows, depth)), range);
        }
        let products = OuterProducts::of(self, multiply, multiply_note)?;
        let mut bases = Vec::new();
        let mut streams = Vec::new();
        for (fetch, note) in fetches {
            let Source::Buffer(buffer) = fetch.from else { return Err(misplaced(statement)) };
            bases.push(pipeline.reading(self.program, buffer)?);
            streams.push((buffer, *fetch, note));
        }
        let shared = self.program.buffers[streams.first().map_or(0, |(buffer, ..)| *buffer)].note.clone();
        if *unroll == range.end - range.start {
            self.b.origin_at(Site::PartOfSlot, &shared, "this thread's part of A and B in the slot");
            let mut all = Vec::new();
            for ((buffer, fetch, note), (base, read)) in streams.into_iter().zip(bases) {
                let address = base.address.in_slot(&mut self.b, &read);
                all.push(self.slot_stream(buffer, fetch, note, address, *unroll)?);
            }
            return self.step_loop(&products, &mut all, range.clone(), None);
        }
        let note = &statement.note;
        let steps = range.end - range.start;
        self.b.origin(note, "steps left, and the distance to them");
        let left = self.b.variable(Expr::Const(u64::from(steps)), u64::from(steps));
        let mut moved = Vec::new();
        for (buffer, ..) in &streams {
            let (first, step) = (self.step_bytes(*buffer, range.start), self.step_bytes(*buffer, *unroll));
            // The last advance is computed but never used.
            let bound = u64::from(first) + u64::from(step) * u64::from(steps / unroll);
            moved.push((self.b.variable(Expr::Const(u64::from(first)), bound), step));
        }
        self.b.open();
        self.b.origin_at(Site::PartOfSlot, &shared, "this thread's part of A and B in the slot");
        let mut all = Vec::new();
        for (((buffer, fetch, fetch_note), (base, read)), (distance, _)) in streams.into_iter().zip(bases).zip(&moved) {
            let address = self.moved_base(buffer, &base, distance, *unroll)?.in_slot(&mut self.b, &read);
            all.push(self.slot_stream(buffer, fetch, fetch_note, address, *unroll)?);
        }
        self.step_loop(&products, &mut all, 0..*unroll, None)?;
        self.b.origin_at(Site::NextSteps, note, "advance to the next steps");
        for (distance, step) in moved {
            self.b.assign(&distance, distance.clone() + step);
        }
        self.b.assign(&left, left.clone() - *unroll);
        let again = self.b.set_reg(left.clone().ge(1u32));
        let body = self.b.close();
        self.b.push(KernelOp::Loop { body, again });
        Ok(())
    }

    /// Reads the groups that are needed before the loop.
    pub(super) fn first_groups(&mut self, products: &OuterProducts, stream: &mut Stream, first: u32) -> Lowered<()> {
        for step in (first..first + stream.ahead).step_by(stream.group as usize) {
            products.fetch(self, stream, (step, step), None)?;
        }
        Ok(())
    }

    /// One body of the loop: the steps of `range`. If `again` is given, the body is a round of a longer loop: reads
    /// past its end belong to the next round, if there is one, and the groups of its first steps were already read.
    pub(super) fn step_loop(
        &mut self,
        products: &OuterProducts,
        streams: &mut [Stream],
        range: Range<u32>,
        again: Option<Reg>,
    ) -> Lowered<()> {
        if streams.iter().any(|stream| stream.hold == Hold::EachProduct) {
            return range.into_iter().try_for_each(|step| products.multiply_reloading(self, streams, step));
        }
        if again.is_none() {
            streams.iter_mut().try_for_each(|stream| self.first_groups(products, stream, range.start))?;
        }
        for step in range.clone() {
            for stream in streams.iter_mut() {
                let first = step + stream.ahead;
                if !step.is_multiple_of(stream.group) {
                    // An earlier step has read this group.
                } else if first < range.end {
                    products.fetch(self, stream, (step, first), None)?;
                } else if let Some(pred) = again {
                    let next = first % (range.end - range.start);
                    products.fetch(self, stream, (step, next), Some(Guard { pred, expect: true }))?;
                }
                self.convert_step(stream, step);
            }
            products.multiply(self, streams, step)?;
        }
        Ok(())
    }
}
