//! Products of warp groups (`wgmma`): tensor cores read tiles in shared memory through matrix descriptors.
//!
//! A tile is swizzled, in panels as wide as the span. If it is contiguous along k, a panel has the tile's rows, and a
//! product's 64 rows of 32 bytes of k begin at any multiple of eight rows. If it is contiguous along m or n, a panel
//! has the tile's k, and a product's rows begin at a panel. A descriptor holds the distance between groups of eight
//! rows of a panel, and the distance between panels (PTX ISA, "Strides" and "Matrix descriptor" of the asynchronous
//! warp group instructions).

use std::ops::Range;

use ptx_gemm_dsl::atoms::Unit;
use ptx_gemm_dsl::target::{SWIZZLED_ROWS, WARP_GROUP};
use ptx_gemm_dsl::terms::{Extent2, Fast, Side, Swizzle};
use ptx_gemm_dsl::types::Batch;

use super::pipeline::Pipeline;
use super::{Lowered, Lowering, broken, letter};
use crate::kernel::{Expr, Factor, Op as KernelOp, Reg};
use crate::origin::Site;
use crate::tile::{Buffer, Fetch, Instruction, Note, Op, Source, Statement, WGMMA_DEPTH_BYTES, WGMMA_ROWS};

/// Unit of addresses and distances in a descriptor: 16 bytes.
const UNIT: u32 = 16;

/// The last address that fits a descriptor (PTX ISA, "Matrix descriptor": 18 bits).
const LAST_ADDRESS: u64 = (1 << 18) - 1;

impl<'a> Lowering<'a> {
    /// Lowers the steps of a K-tile that tensor cores multiply: one group of products, together with those of all
    /// planes that follow.
    pub(super) fn group_steps(
        &mut self,
        pipeline: &Pipeline<'a>,
        (fetches, note): (&[(Fetch, Note)], &Note),
        (acc, columns): (usize, u32),
        steps: &Range<u32>,
    ) -> Lowered<()> {
        let described = match self.products.described.take() {
            Some(described) => described,
            None => self.descriptors(pipeline, fetches, (acc, columns))?,
        };
        let [(a, fast_a), (b, fast_b)] = described;
        let depth = WGMMA_DEPTH_BYTES / self.program.element(Side::A).bytes();
        let multiplied = self.products.columns.unwrap_or(columns);
        let transposed = [fast_a, fast_b].map(|fast| fast == Fast::Mn);
        let shape = self.product_shape(Unit::WarpGroup, (WGMMA_ROWS, depth), multiplied, transposed)?;
        let held = self.products.acc[acc].clone();
        self.b.origin(note, "the accumulators are written by tensor cores from here on");
        let add = self.b.set_reg(Expr::Const(0).lt(1u32));
        let started = self.products.started[acc].clone();
        // Products of the next planes follow directly, and nothing else has used the accumulators since.
        let follows = self.products.multiplying.replace(acc) == Some(acc);
        let add_first = match &started {
            Some(started) if !follows => self.b.set_reg(started.clone().ge(1u32)),
            _ => add,
        };
        if !follows {
            self.b.push(KernelOp::FenceProducts);
        }
        let parts = (self.warp_groups(acc, columns)?.0.n / columns) as usize;
        let held_by = |columns: u32| (columns / 2 / self.types.per_register()) as usize;
        let (of_product, written) = (held_by(columns), held_by(multiplied));
        for k in steps.clone().step_by(depth as usize) {
            let columns_of_b = (0..parts as u32).map(|part| self.moved(&b, fetches, Side::B, (part * columns, k)));
            let at_b: Vec<Reg> = columns_of_b.collect::<Lowered<_>>()?;
            for (row, held) in held.chunks(of_product * parts).enumerate() {
                let at_a = self.moved(&a, fetches, Side::A, (row as u32 * WGMMA_ROWS, k))?;
                self.b.origin_at(Site::TensorCoreProduct, note, &format!("multiply, steps {k} to {}", k + depth - 1));
                for (acc, b) in held.chunks(of_product).zip(&at_b) {
                    let add = if k == steps.start { add_first } else { add };
                    let (acc, [a, b]) = (acc[..written].to_vec(), [at_a, *b].map(Factor::Descriptor));
                    self.b.push(KernelOp::TensorProduct { acc, a, b, add: Some(add), shape });
                }
            }
        }
        if !self.products.more_follow {
            self.b.origin(note, "one group of products per K-tile");
            self.b.push(KernelOp::CommitProducts);
        }
        if let Some(started) = started.filter(|_| !follows) {
            self.b.origin(note, "the next products are added to these");
            self.b.assign(&started, Expr::Const(1));
        }
        self.products.has_products[acc] = true;
        Ok(())
    }

    /// Computes the descriptors for the products of `next` before the wait for their slot, where blocks walk through a
    /// list or warp groups take turns. In other kernels ptxas moves them there itself. Here it would leave 10 to 15
    /// dependent instructions between the wait and the first product of each K-tile.
    pub(super) fn describe_ahead(&mut self, pipeline: &Pipeline<'a>, next: Option<&'a Statement>) -> Lowered<()> {
        let left = self.role.groups.is_some() || self.program.problem.batch == Batch::Grouped;
        let Some(Statement { op: Op::Steps { fetches, multiply, .. }, .. }) = next.filter(|_| left) else {
            return Ok(());
        };
        if let Instruction::Wgmma { columns, .. } = multiply.by {
            self.products.described = Some(self.descriptors(pipeline, fetches, (multiply.acc, columns))?);
        }
        Ok(())
    }

    /// What each warp group computes, and the number of warp groups along m and n.
    fn warp_groups(&self, acc: usize, columns: u32) -> Lowered<(Extent2, Extent2)> {
        let groups = self.program.accumulators.get(acc).and_then(|acc| acc.map.warp_groups(columns));
        groups.ok_or_else(|| broken("the accumulators are not those of warp groups"))
    }

    /// The descriptors of A and B for products with `columns` columns that are added to the accumulators `acc`.
    fn descriptors(
        &mut self,
        pipeline: &Pipeline<'a>,
        fetches: &[(Fetch, Note)],
        (acc, columns): (usize, u32),
    ) -> Lowered<[(Expr, Fast); 2]> {
        let (part, groups) = self.warp_groups(acc, columns)?;
        let group = || self.role.tid.clone() / WARP_GROUP;
        // Neighbouring warp groups are neighbours along n.
        let of_a = match (groups.m, groups.n) {
            (1, _) => None,
            (_, 1) => Some(group()),
            (_, n) => Some(group() / n),
        };
        let of_b = match (groups.m, groups.n) {
            (_, 1) => None,
            (1, _) => Some(group()),
            (_, n) => Some(group() % n),
        };
        Ok([
            self.descriptor(pipeline, fetches, (Side::A, of_a, part.m))?,
            self.descriptor(pipeline, fetches, (Side::B, of_b, part.n))?,
        ])
    }

    /// The matrix descriptor of this warp group's part of an operand in the current slot, and the operand's contiguous
    /// dimension. The part begins at row (of A) or column (of B) `part * extent`.
    fn descriptor(
        &mut self,
        pipeline: &Pipeline<'a>,
        fetches: &[(Fetch, Note)],
        (side, part, extent): (Side, Option<Expr>, u32),
    ) -> Lowered<(Expr, Fast)> {
        let (buffer, note) = self.described(fetches, side)?;
        let index = self.program.buffers.iter().position(|of| of.name == buffer.name).unwrap_or(0);
        let slot = self.program.ring_of(index).and_then(|ring| pipeline.rings[ring].read.clone());
        let slot = slot.ok_or_else(|| broken(format!("{} is not read through a ring", buffer.name)))?;
        self.b.origin_at(Site::Descriptor, note, &format!("matrix descriptor of {} in the slot", letter(side)));
        let own = part.map_or(Expr::Const(0), |part| part * self.distance(buffer, side, (extent, 0)));
        let address = Expr::SharedBase + buffer.offset_bytes + slot + own;
        // An expression's bound counts from the start of shared memory, but a quotient needs the bound of the address
        // itself. In a cluster the upper bits of the address are the rank of the block.
        let address = match self.program.scheduler.cluster_size() {
            1 => self.b.variable(address, LAST_ADDRESS),
            _ => self.b.variable(address, u64::from(u32::MAX)) % (LAST_ADDRESS as u32 + 1),
        };
        let fixed = self.fixed_bits(buffer, side)?;
        Ok((self.b.set((address / UNIT).wide() + Expr::Const(fixed)), buffer.fast))
    }

    /// A descriptor moved to other rows or columns, and along k.
    fn moved(&mut self, descriptor: &Expr, fetches: &[(Fetch, Note)], side: Side, to: (u32, u32)) -> Lowered<Reg> {
        let (buffer, note) = self.described(fetches, side)?;
        self.b.origin_at(Site::Descriptor, note, &format!("matrix descriptor of {}, from step {}", letter(side), to.1));
        let distance = self.distance(buffer, side, to) / UNIT;
        let moved = if distance == 0 { descriptor.clone() } else { descriptor.clone() + u64::from(distance) };
        Ok(self.b.set_reg(moved))
    }

    /// The buffer that an operand's descriptor describes.
    fn described<'f>(&self, fetches: &'f [(Fetch, Note)], side: Side) -> Lowered<(&'a Buffer, &'f Note)> {
        let of = |(fetch, note): &'f (Fetch, Note)| match fetch.from {
            Source::Buffer(buffer) if fetch.side == side => Some((&self.program.buffers[buffer], note)),
            _ => None,
        };
        fetches.iter().find_map(of).ok_or_else(|| broken("a multiply needs a fragment of A and one of B"))
    }

    /// Bytes from the first element of a tile to the one at (row or column, k), before the swizzle.
    fn distance(&self, buffer: &Buffer, side: Side, (own, k): (u32, u32)) -> u32 {
        let (slow, fast) = if buffer.fast == Fast::K { (own, k) } else { (k, own) };
        let rows = fast / buffer.pitch * buffer.rows() + slow;
        (rows * buffer.pitch + fast % buffer.pitch) * self.program.element(side).bytes()
    }

    /// The bits of a descriptor that do not depend on where the tile is.
    fn fixed_bits(&self, buffer: &Buffer, side: Side) -> Lowered<u64> {
        let Swizzle::Bytes(span) = buffer.swizzle else {
            return Err(broken(format!("{} is read by descriptor, and is not swizzled", buffer.name)));
        };
        let mode: u64 = match span {
            128 => 1,
            64 => 2,
            _ => 3,
        };
        let rows = SWIZZLED_ROWS * span;
        // Along k the span is the part of a row that one product reads, and the distance between panels is not used.
        let panels = match buffer.fast {
            Fast::K => UNIT,
            Fast::Mn => self.distance(buffer, side, (buffer.pitch, 0)),
        };
        Ok(mode << 62 | u64::from(rows / UNIT) << 32 | u64::from(panels / UNIT) << 16)
    }
}
