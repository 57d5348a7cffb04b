//! Copies of one operand's K-tile: global memory to registers to shared memory, or asynchronously without registers.
//!
//! The tile is cut into chunks along the operand's contiguous dimension in global memory (`plan::CopyPlan`), which the
//! threads take in turn. Where the passes differ by constants one pointer serves them all.

mod edge;

use ptx_gemm_dsl::plan::{CopyPlan, OperandPlan, Placement};
use ptx_gemm_dsl::terms::{Fast, Load, Operand, Param as AbiParam, Side, Tail};

use super::shared::SharedAddress;
use super::{Lowering, Place, locality};
use crate::kernel::expr::swizzled_bits;
use crate::kernel::{Address, Bounds, Expr, Guard, Op, Reg, Space};

/// One chunk of a thread: where it lies in the tile and which threads have it.
struct Pass {
    /// Global address of the chunk for the next K-tile.
    pointer: usize,
    /// Distance from that pointer, constants: (rows, elements).
    delta: (u32, u32),
    /// Address in slot 0 (the same for all passes up to a constant where they are regular), and the distance from it.
    shared: usize,
    shared_delta: u32,
    /// Largest byte that a store of this pass's first element can start at, from the start of shared memory.
    shared_bound: u64,
    /// Threads that have a chunk in this pass; all if absent.
    active: Option<Reg>,
}

/// The state of one operand's copies.
pub(super) struct Copies {
    side: Side,
    plan: CopyPlan,
    operand: OperandPlan,
    placement: Placement,
    /// Address of the matrix.
    matrix: Expr,
    passes: Vec<Pass>,
    /// Addresses in slot 0, prepared for every element of the passes that start from them.
    shared: Vec<SharedAddress>,
    /// Global addresses, advanced from K-tile to K-tile.
    pointers: Vec<Expr>,
    /// Bytes of one row of the outer dimension.
    row_bytes: Expr,
    /// Rows from a pass to the next, where that is the same for all, and their bytes.
    step_rows: u32,
    row_step: Expr,
    /// Bytes from one K-tile to the next.
    advance: Expr,
    /// Elements on their way, pass by pass.
    staging: Vec<Reg>,
}

impl Lowering<'_> {
    /// Prepares the copies of one operand.
    pub(super) fn copies(&mut self, place: &Place, side: Side, placement: Placement) -> Copies {
        let plan = if side == Side::A { self.variant.a } else { self.variant.b };
        let (index, operand) = self.side(side);
        let operand = *operand;
        let bytes = operand.dtype.bytes();
        let clause = self.plan.clauses.tile.clone();
        let which = if side == Side::A { Operand::A } else { Operand::B };
        self.b.origin(
            &clause,
            if side == Side::A { "address of this thread's part of A" } else { "address of this thread's part of B" },
        );
        let base = self.matrix(place, which, bytes);
        let ld = self.wide_arg(&AbiParam::Ld(which));
        let row_bytes = self.b.set(ld * bytes);
        let own = if side == Side::A { place.m0.clone() } else { place.n0.clone() };
        let own_bytes = match operand.global_fast {
            Fast::K => own.wide() * row_bytes.clone(),
            Fast::Mn => own.wide() * bytes,
        };
        let tile_base = self.b.set(base.clone() + own_bytes);
        let first_k = match operand.global_fast {
            Fast::K => place.k0.clone().wide() * bytes,
            Fast::Mn => place.k0.clone().wide() * row_bytes.clone(),
        };
        let tile_base = self.b.set(tile_base + first_k);
        let advance = match operand.global_fast {
            Fast::K => Expr::Const(u64::from(operand.depth * bytes)),
            Fast::Mn => self.b.set(row_bytes.clone() * operand.depth),
        };
        let staging = match self.plan.load {
            Load::Registers => self.b.fresh_many(self.families.staging[index], (plan.passes * plan.width) as usize),
            _ => Vec::new(),
        };
        let step_rows = (self.plan.geometry.threads / plan.chunks_per_row).max(1);
        let row_step = if plan.passes > 1 { self.b.set(row_bytes.clone() * step_rows) } else { Expr::Const(0) };
        let (passes, pointers, shared) = (Vec::new(), Vec::new(), Vec::new());
        let mut copies = Copies {
            side,
            plan,
            operand,
            placement,
            matrix: base,
            passes,
            shared,
            pointers,
            row_bytes,
            step_rows,
            row_step,
            advance,
            staging,
        };
        for pass in 0..plan.passes {
            self.add_pass(&mut copies, pass, &tile_base);
        }
        copies
    }

    /// Coordinates of pass number `pass`, its pointer and its place in shared memory.
    fn add_pass(&mut self, copies: &mut Copies, pass: u32, tile_base: &Expr) {
        let CopyPlan { width, chunks_per_row, chunks, .. } = copies.plan;
        let threads = self.plan.geometry.threads;
        let bytes = copies.operand.dtype.bytes();
        let first = pass * threads;
        let active = (first + threads > chunks).then(|| {
            let has_chunk = Expr::Tid(threads).lt(chunks - first);
            self.b.set_reg(has_chunk)
        });
        // (rows, elements) from the first pass to this one, where that is a constant.
        let delta = if threads.is_multiple_of(chunks_per_row) {
            Some((first / chunks_per_row, 0))
        } else if chunks_per_row.is_multiple_of(threads) {
            Some((first / chunks_per_row, first % chunks_per_row * width))
        } else {
            (pass == 0).then_some((0, 0))
        };
        if let (Some((rows, elements)), Some(base)) = (delta, copies.passes.first()) {
            let shared_delta = copies.shared_offset(rows, elements);
            let (pointer, shared) = (base.pointer, base.shared);
            let shared_bound = copies.last_byte(first, threads);
            let delta = (rows, elements);
            copies.passes.push(Pass { pointer, delta, shared, shared_delta, shared_bound, active });
            return;
        }
        let (chunk, outer, inner) = self.coordinates(copies.plan, pass);
        let address =
            tile_base.clone() + outer.clone().wide() * copies.row_bytes.clone() + (inner.clone() * bytes).wide();
        let pointer = self.b.variable_wide(address);
        copies.pointers.push(pointer);
        let in_slot = match copies.same_order() {
            // Chunks that lie side by side are told apart by their number alone.
            true if chunks_per_row * width == copies.placement.pitch => chunk * width,
            true => outer.clone() * copies.placement.pitch + inner.clone(),
            false => inner.clone() * copies.placement.pitch + outer.clone(),
        };
        // Of a regular copy the first pass prepares all of them.
        let regular = threads.is_multiple_of(chunks_per_row) || chunks_per_row.is_multiple_of(threads);
        let served = if regular { pass..copies.plan.passes } else { pass..pass + 1 };
        let mut distances = Vec::new();
        for served in served {
            let chunk = served * threads;
            let (rows, elements) = (chunk / chunks_per_row, chunk % chunks_per_row * width);
            let from = if regular { copies.shared_offset(rows, elements) } else { 0 };
            distances.extend((0..width).map(|e| from + copies.shared_offset(0, e)));
        }
        let Placement { offset_bytes, swizzle, .. } = copies.placement;
        copies.shared.push(SharedAddress::new(&mut self.b, offset_bytes, in_slot * bytes, swizzle, distances));
        let shared = copies.shared.len() - 1;
        copies.passes.push(Pass {
            pointer: copies.pointers.len() - 1,
            delta: (0, 0),
            shared,
            shared_delta: 0,
            shared_bound: copies.last_byte(first, threads),
            active,
        });
    }

    /// Copies the K-tiles that the pointers stand at, of which `rem_k` remains, into the slot at byte offset `slot`.
    /// Through registers only the first half happens here; [`Lowering::land`] does the other. Operands that are copied one
    /// after the other share one branch: each costs the main loop an instruction or two that no multiply can fill.
    ///
    /// `full` says whether the whole K-tile lies inside; absent if it always does.
    pub(super) fn copy(
        &mut self,
        place: &Place,
        operands: &[(&Copies, &str)],
        full: Option<Reg>,
        rem_k: &Expr,
        slot: &Expr,
    ) {
        let inside = |lowering: &mut Self| {
            operands.iter().for_each(|(copies, clause)| lowering.copy_inside(copies, slot, clause));
        };
        match full {
            None => inside(self),
            Some(full) => {
                self.b.open();
                inside(self);
                let then = self.b.close();
                self.b.open();
                let rem_k = match self.plan.tail {
                    Tail::Predicate => {
                        self.b.origin(&self.plan.clauses.tail, "K left from the tile that is copied");
                        self.b.set(rem_k.clone())
                    }
                    Tail::None => Expr::Const(0),
                };
                for (copies, clause) in operands {
                    match (self.plan.tail, self.plan.load) {
                        (Tail::Predicate, Load::CpAsync) => self.copy_edge_async(place, copies, &rem_k, slot, clause),
                        (Tail::Predicate, _) => self.copy_edge(place, copies, &rem_k, clause),
                        // Sizes divide: the only tile that is not full is the one past the end, which nothing multiplies.
                        (Tail::None, _) => self.clear_staging(copies, clause),
                    }
                }
                let other = self.b.close();
                let names = operands.iter().map(|(copies, _)| copies.name()).collect::<Vec<_>>().join(" and ");
                let clause = operands.first().map_or("", |(_, clause)| clause);
                self.b.origin(clause, &format!("{names}: the widest accesses where the K-tile lies inside"));
                self.b.branch(full, true, then, other);
            }
        }
    }

    /// Moves an operand's pointers on to the next K-tile.
    pub(super) fn advance(&mut self, copies: &Copies, clause: &str) {
        self.b.origin(clause, &format!("{}: on to the next K-tile", copies.name()));
        for pointer in &copies.pointers {
            self.b.assign(pointer, pointer.clone() + copies.advance.clone());
        }
    }

    /// The number of a pass's chunk, computed from the thread's, and where it lies in the tile: its coordinate along the
    /// dimension that is not contiguous in global memory, and its first element's along the one that is.
    fn coordinates(&mut self, plan: CopyPlan, pass: u32) -> (Expr, Expr, Expr) {
        let threads = self.plan.geometry.threads;
        let chunk = self.b.set(Expr::Tid(threads) + pass * threads);
        let outer = self.b.set(chunk.clone() / plan.chunks_per_row);
        let inner = self.b.set((chunk.clone() % plan.chunks_per_row) * plan.width);
        (chunk, outer, inner)
    }

    /// The global address of each pass's chunk, as a register and a constant; rows are stepped through one after the other.
    fn chunk_pointers(&mut self, copies: &Copies) -> Vec<(Expr, i64)> {
        let mut at = (Expr::Const(0), usize::MAX, 0);
        let mut out = Vec::new();
        for pass in &copies.passes {
            let (rows, elements) = pass.delta;
            if at.1 != pass.pointer || rows < at.2 {
                at = (copies.pointers[pass.pointer].clone(), pass.pointer, 0);
            }
            while at.2 < rows {
                at = (self.b.set(at.0 + copies.row_step.clone()), at.1, at.2 + copies.step_rows);
            }
            out.push((at.0.clone(), i64::from(elements * copies.operand.dtype.bytes())));
        }
        out
    }

    fn copy_inside(&mut self, copies: &Copies, slot: &Expr, clause: &str) {
        let bounds = self.inside();
        let locality = locality(&copies.operand);
        let width = copies.plan.width;
        self.b.origin(clause, &format!("copy {}: {width} elements a thread and pass", copies.name()));
        let pointers = self.chunk_pointers(copies);
        for (i, (pass, (pointer, offset))) in copies.passes.iter().zip(pointers).enumerate() {
            let guard = pass.active.map(|pred| Guard { pred, expect: true });
            match self.plan.load {
                Load::CpAsync => self.copy_async(copies, pass, slot, (&pointer, offset), None, bounds),
                _ => self.b.load_global(copies.chunk(i).to_vec(), &pointer, offset, guard, (bounds, locality)),
            }
        }
    }

    /// One asynchronous copy of a chunk (or, transposing, one for each of its elements, each with its own `valid`).
    fn copy_async(
        &mut self,
        copies: &Copies,
        pass: &Pass,
        slot: &Expr,
        from: (&Expr, i64),
        limit: Option<&Expr>,
        bounds: Bounds,
    ) {
        let bytes = copies.operand.dtype.bytes();
        let piece = copies.plan.store_width;
        for e in (0..copies.plan.width).step_by(piece as usize) {
            // Elements of this piece inside the matrix, in bytes: what is not read is zero.
            let valid = limit.map(|limit| {
                let left = limit.clone().max(e.into()) - e;
                self.b.set_reg(left.min(piece.into()) * bytes)
            });
            let to = self.shared_address(copies, pass, slot, e);
            let from =
                Address { base: self.b.set_reg(from.0.clone()), offset: from.1 + i64::from(e * bytes), bound: 0 };
            let guard = pass.active.map(|pred| Guard { pred, expect: true });
            self.b.push(Op::CopyAsync { to, from, bytes: piece * bytes, valid, guard, bounds });
        }
    }

    /// Address in shared memory of element `e` of a pass's chunk.
    fn shared_address(&mut self, copies: &Copies, pass: &Pass, slot: &Expr, e: u32) -> Address {
        let (base, offset) = copies.shared[pass.shared].at(pass.shared_delta + copies.shared_offset(0, e));
        let base = self.b.set_reg(base + slot.clone());
        let swizzled = u64::from(swizzled_bits(copies.placement.swizzle));
        let last = pass.shared_bound + u64::from(copies.shared_offset(0, e));
        let bound = ((last | swizzled) + slot.bound()).saturating_sub(u64::from(offset));
        Address { base, offset: i64::from(offset), bound }
    }

    /// The second half of a copy through registers: stores the staged elements into the slot at byte offset `slot`.
    pub(super) fn land(&mut self, copies: &Copies, slot: &Expr, clause: &str) {
        self.b.origin(clause, &format!("{} lands in shared memory", copies.name()));
        let piece = copies.plan.store_width;
        for (i, pass) in copies.passes.iter().enumerate() {
            for e in (0..copies.plan.width).step_by(piece as usize) {
                let address = self.shared_address(copies, pass, slot, e);
                let src = copies.chunk(i)[e as usize..(e + piece) as usize].to_vec();
                let guard = pass.active.map(|pred| Guard { pred, expect: true });
                self.b.push(Op::Store { space: Space::Shared, src, address, guard, bounds: Bounds::Shared });
            }
        }
    }
}

impl Copies {
    fn name(&self) -> &'static str {
        if self.side == Side::A { "A" } else { "B" }
    }

    /// Registers of pass number `pass`.
    fn chunk(&self, pass: usize) -> &[Reg] {
        let width = self.plan.width as usize;
        &self.staging[pass * width..(pass + 1) * width]
    }

    /// True if the contiguous dimension in global memory is the contiguous one in shared memory too.
    fn same_order(&self) -> bool {
        self.placement.fast == self.operand.global_fast
    }

    /// Bytes from a tile's element to the one `rows` further along the outer and `elements` along the inner dimension.
    fn shared_offset(&self, rows: u32, elements: u32) -> u32 {
        let (slow, fast) = if self.same_order() { (rows, elements) } else { (elements, rows) };
        (slow * self.placement.pitch + fast) * self.operand.dtype.bytes()
    }

    /// The largest byte at which the first element of a chunk can lie, of the chunks `first .. first + threads`.
    fn last_byte(&self, first: u32, threads: u32) -> u64 {
        let CopyPlan { width, chunks_per_row, chunks, .. } = self.plan;
        let last = (first + threads).min(chunks) - 1;
        let inner = if last - first + 1 >= chunks_per_row || last % chunks_per_row < first % chunks_per_row {
            chunks_per_row - 1
        } else {
            last % chunks_per_row
        };
        u64::from(self.placement.offset_bytes + self.shared_offset(last / chunks_per_row, inner * width))
    }
}
