//! Split-K: the partial sums of a tile are combined through a workspace, in the order of the parts.
//!
//! Each thread has its own flag and synchronises only with the threads that compute the same elements in other parts,
//! so that no barrier is needed. [`interface::Workspace`] defines the layout of the workspace.
//!
//! - `serial`: part p waits until its flag is p, adds its partial sums to the total so far, and passes it on.
//! - `workspace`: every part stores its partial sums; the part that completes the count adds them all up.
//!
//! [`interface::Workspace`]: crate::tile::interface::Workspace

use ptx_gemm_dsl::terms::{Param, Reads, Reduce};

use super::extent::register;
use super::scheduler::Units;
use super::{Lowered, Lowering, WorkTile, broken};
use crate::kernel::expr::UNBOUNDED;
use crate::kernel::{Access, Address, Compare, Expr, Locality, Math, Memory, Op, Reg, Value};
use crate::origin::Site;
use crate::tile::interface::{FLAG_BYTES, WORKSPACE_ALIGN};
use crate::tile::{Division, Note, Statement};

/// A reduction being lowered.
struct Reduction<'a> {
    acc: Vec<Reg>,
    parts: u32,
    /// Bytes of one part's partial sums of a tile.
    slot_bytes: u32,
    body: &'a [Statement],
    note: &'a Note,
    workspace: Access,
}

impl<'a> Lowering<'a> {
    /// Adds up the parts of the work tile; the last contributor runs `body`.
    pub(super) fn reduce(
        &mut self,
        work_tile: &WorkTile,
        units: &Units,
        (acc, how): (usize, Reduce),
        body: &'a [Statement],
        note: &'a Note,
    ) -> Lowered<()> {
        if self.types.per_register() > 1 {
            return Err(broken("blocks exchange sums that have a register each"));
        }
        let parts = match self.program.scheduler.division {
            Division::Whole | Division::Cluster(_) => {
                return Err(broken("a reduction, but no blocks have sums in the workspace"));
            }
            Division::Stream => return self.reduce_streamed(work_tile, units, acc, body, note),
            Division::Parts(parts) => parts,
        };
        let threads = self.role.threads;
        self.b.origin_at(Site::FlagOfPart, note, "this thread's flag and its partial sums");
        let workspace = self.wide_arg(&Param::Workspace)?;
        let flags_of = threads * FLAG_BYTES;
        let flag_of = work_tile.tile.clone().wide() * flags_of + (self.role.tid.clone() * FLAG_BYTES).wide();
        let flag = self.b.set(workspace.clone() + flag_of);
        let flag = Address { base: self.b.set_reg(flag), offset: 0 };
        let all_flags = units.all_tiles.clone().wide() * flags_of + (WORKSPACE_ALIGN - 1);
        let flags = (all_flags / WORKSPACE_ALIGN) * WORKSPACE_ALIGN;
        let bytes = self.types.acc.bytes();
        let slot_bytes = self.products.acc[acc].len() as u32 * threads * bytes;
        let reduction = Reduction {
            acc: self.products.acc[acc].clone(),
            parts,
            slot_bytes,
            body,
            note,
            workspace: self.workspace_access()?,
        };
        let first = workspace + flags + (self.role.tid.clone() * bytes).wide();
        match how {
            Reduce::Serial => {
                let slot = self.b.set(first + work_tile.tile.clone().wide() * slot_bytes);
                self.serial(work_tile, units, (flag, &slot), &reduction)
            }
            Reduce::Workspace => {
                let slots = self.b.set(first + (work_tile.tile.clone().wide() * parts) * slot_bytes);
                self.gathered(work_tile, units, (flag, &slots), &reduction)
            }
            Reduce::Cluster => Err(broken("the blocks of a cluster exchange their sums")),
        }
    }

    fn serial(
        &mut self,
        work_tile: &WorkTile,
        units: &Units,
        (flag, slot): (Address, &Expr),
        reduction: &Reduction<'a>,
    ) -> Lowered<()> {
        let Reduction { acc, parts, body, note, workspace, .. } = reduction;
        self.b.origin(note, "is there a part before this one?");
        let later = self.b.set_reg(work_tile.part.clone().ge(1u32));
        self.b.open();
        self.b.origin(note, "wait for the previous part");
        self.wait_for_flag(flag, work_tile.part.clone())?;
        self.add_partials(acc, slot, *workspace, note);
        let then = self.b.close();
        self.b.origin(note, "add to the sums of the previous parts");
        self.b.branch(later, then, Vec::new());

        self.b.origin(note, "is this the last part?");
        let last = self.b.set_reg((work_tile.part.clone() + 1u32).ge(*parts));
        self.b.open();
        self.lower_flag(flag, *workspace, note);
        self.tile(work_tile, units, body)?;
        let finish = self.b.close();
        self.b.open();
        self.store_partials(acc, slot, *workspace, note);
        self.b.origin(note, "hand the sums to the next part");
        let value = self.b.set_reg(work_tile.part.clone() + 1u32);
        self.b.push(Op::RaiseFlag { address: flag, value });
        let pass_on = self.b.close();
        self.b.branch(last, finish, pass_on);
        Ok(())
    }

    fn gathered(
        &mut self,
        work_tile: &WorkTile,
        units: &Units,
        (flag, slots): (Address, &Expr),
        reduction: &Reduction<'a>,
    ) -> Lowered<()> {
        let Reduction { acc, parts, body, note, workspace, .. } = reduction;
        let slot_bytes = reduction.slot_bytes;
        self.b.origin(note, "this part's partial sums");
        let own = self.b.set(slots.clone() + work_tile.part.clone().wide() * slot_bytes);
        self.store_partials(acc, &own, *workspace, note);
        self.b.origin(note, "count the finished parts");
        let count = self.b.variable(Expr::Block, u64::from(u32::MAX));
        let count = register(&count)?;
        self.b.push(Op::CountUp { dst: count, address: flag });
        let last = self.b.set_reg((Expr::Reg(count, UNBOUNDED) + 1u32).ge(*parts));
        self.b.open();
        self.lower_flag(flag, *workspace, note);
        self.b.origin(note, "the first part's sums");
        for (e, reg) in acc.iter().copied().enumerate() {
            let address = self.partial(slots, e);
            let (memory, locality) = (Memory::Global(*workspace), Locality::Unknown);
            self.b.push(Op::Load { memory, dst: vec![reg], address, guard: None, locality, reads: Reads::Movable });
        }
        if *parts > 1 {
            self.b.origin(note, "then those of the others, in order");
            let slot = self.b.variable(slots.clone() + slot_bytes, UNBOUNDED);
            let left = self.b.variable(Expr::Const(u64::from(*parts - 1)), u64::from(*parts));
            self.b.open();
            let sums = self.partials(acc.len(), &slot, *workspace);
            self.b.origin(note, "add one part's sums");
            for (acc, sum) in acc.iter().copied().zip(sums) {
                self.b.math(Math::Add, acc, vec![Value::Reg(acc), Value::Reg(sum)]);
            }
            self.b.assign(&slot, slot.clone() + slot_bytes);
            self.b.assign(&left, left.clone() - 1u32);
            let again = self.b.set_reg(left.ge(1u32));
            let body = self.b.close();
            self.b.push(Op::Loop { body, again });
        }
        self.tile(work_tile, units, body)?;
        let finish = self.b.close();
        self.b.origin(note, "the last part to finish completes the tile");
        self.b.branch(last, finish, Vec::new());
        Ok(())
    }

    /// Waits until a flag has this value.
    pub(super) fn wait_for_flag(&mut self, flag: Address, value: Expr) -> Lowered<()> {
        self.b.open();
        let seen = self.b.variable(Expr::Block, u64::from(u32::MAX));
        let seen = register(&seen)?;
        self.b.push(Op::ReadFlag { dst: seen, address: flag });
        let again = self.b.set_reg(Expr::Reg(seen, UNBOUNDED).compare(Compare::Ne, value));
        let spin = self.b.close();
        self.b.push(Op::Loop { body: spin, again });
        Ok(())
    }

    /// Resets the flag to zero for the next launch.
    pub(super) fn lower_flag(&mut self, flag: Address, workspace: Access, note: &Note) {
        self.b.origin(note, "reset the flag for the next launch");
        let value = self.b.set_reg(Expr::Const(0));
        let memory = Memory::Global(workspace);
        self.b.push(Op::Store { memory, src: vec![value], address: flag, guard: None });
    }

    fn partial(&mut self, slot: &Expr, element: usize) -> Address {
        let offset = element as i64 * i64::from(self.role.threads * self.types.acc.bytes());
        Address { base: self.b.set_reg(slot.clone()), offset }
    }

    pub(super) fn store_partials(&mut self, acc: &[Reg], slot: &Expr, workspace: Access, note: &Note) {
        self.b.origin(note, "store the partial sums");
        for (e, reg) in acc.iter().copied().enumerate() {
            let address = self.partial(slot, e);
            let memory = Memory::Global(workspace);
            self.b.push(Op::Store { memory, src: vec![reg], address, guard: None });
        }
    }

    /// Registers for sums of other blocks.
    pub(super) fn fresh_partials(&mut self, count: usize) -> Vec<Reg> {
        let family = if self.types.sums == self.types.acc { self.families.value } else { self.families.acc };
        self.b.fresh_many(family, count)
    }

    fn partials(&mut self, count: usize, slot: &Expr, workspace: Access) -> Vec<Reg> {
        let sums = self.fresh_partials(count);
        for (e, reg) in sums.iter().enumerate() {
            let address = self.partial(slot, e);
            let (memory, locality) = (Memory::Global(workspace), Locality::Unknown);
            self.b.push(Op::Load { memory, dst: vec![*reg], address, guard: None, locality, reads: Reads::Movable });
        }
        sums
    }

    pub(super) fn add_partials(&mut self, acc: &[Reg], slot: &Expr, workspace: Access, note: &Note) {
        self.b.origin(note, "the sums of the previous parts");
        let sums = self.partials(acc.len(), slot, workspace);
        self.b.origin(note, "add this part's sums");
        for (acc, sum) in acc.iter().copied().zip(sums) {
            self.b.math(Math::Add, acc, vec![Value::Reg(sum), Value::Reg(acc)]);
        }
    }
}
