//! `st.async` and `red.async`: values from registers that are stored to, or combined with, the shared memory of a block
//! of the cluster, and counted by an mbarrier there.
//!
//! They belong to the generic proxy and need no proxy fences. Like a copy, such a store completes at the latest when a
//! thread waits for its mbarrier, and until then nothing else may access its bytes. In the shadow, its writer is the
//! thread that represents the mbarrier's copies, so that even the thread that executed it has to wait. The ISA makes
//! the completion a release at the scope of the cluster: a wait of a thread of another block acquires it only at that
//! scope.

use super::{Reduce, Start};
use crate::agents::Movement;
use crate::env::BlockMemory;
use crate::exec::locate::AccessKind;
use crate::exec::order;
use crate::exec::unordered::{MemoryAccess, race};
use crate::exec::{proxy, watch};
use crate::flags::Scope;
use crate::op::{Pointer, Slot};
use crate::options::Watch;
use crate::shadow::Actor;
use crate::violation::Checked;

/// Registers of one instruction, and the bytes of each that are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a> {
    pub(super) slots: &'a [Slot],
    pub(super) bytes: u8,
    pub(super) reduce: Option<Reduce>,
}

impl Start<'_, '_> {
    /// Stores a lane's values; returns their offset in shared memory.
    pub(super) fn values(
        &self,
        block: &mut BlockMemory,
        (to, barrier): (Pointer, Pointer),
        values: Values<'_>,
    ) -> Checked<usize> {
        let (env, starter) = (self.env, self.starter);
        let (size, reduces) = (usize::from(values.bytes), values.reduce.is_some());
        let bytes = size * values.slots.len();
        let to = self.shared(block, to, bytes as u64, bytes as u64, AccessKind::Write)?;
        let barrier = self.shared(block, barrier, 8, 8, AccessKind::Read)?;
        self.same_block(block, to, barrier)?;
        let known = self.counted(block, to, barrier)?;
        let offset = to as usize;
        if env.strict {
            env.enforce(order::no_mbarrier(block, offset, bytes, AccessKind::Write, starter.lane))?;
            let strong = Actor { strong: Some(Scope::Cluster), atomic: true, ..starter.actor(block) };
            let actor = if reduces { strong } else { starter.actor(block) };
            proxy::undisturbed(block, env, (offset, bytes), AccessKind::Write, actor)?;
            let ordered = block.shadow.write_apart(&block.clocks, offset, bytes, actor, known);
            env.enforce(ordered.map_err(|conflict| {
                race(block, env, conflict, MemoryAccess { kind: AccessKind::Write, offset, bytes, actor })
            }))?;
            let (at, kind) = (barrier as usize, AccessKind::Read);
            let ordered = block.shadow.words_after_writers(&block.clocks, at, 8, strong);
            env.enforce(ordered.map_err(|conflict| {
                race(block, env, conflict, MemoryAccess { kind, offset: at, bytes: 8, actor: strong })
            }))?;
        }
        let (mut data, mut defined) = ([0; 16], u16::MAX);
        for (index, (slot, data)) in values.slots.iter().zip(data.chunks_exact_mut(size)).enumerate() {
            if reduces {
                self.defined(*slot, "is an operand of an atomic")?;
            }
            let value = self.warp.regs.get(*slot, starter.lane);
            data.copy_from_slice(&value.to_le_bytes()[..size]);
            let tainted =
                env.watch == Watch::On && self.warp.taint.mask(self.warp.taint.at(*slot)) >> starter.lane & 1 != 0;
            defined &= !(u16::from(tainted) << index);
        }
        let movement = Movement::Values { barrier, data, size: values.bytes, defined, reduce: values.reduce };
        self.start(block, to, (bytes as u64, bytes as u64), movement, known, &[])?;
        Ok(offset)
    }
}

/// Counts the accesses of one instruction.
pub(super) fn count(block: &mut BlockMemory, pc: u32, accessed: &[(usize, usize)], bytes: u32) {
    let layout = block.shared.layout();
    let Some(counters) = &mut block.counters else { return };
    let accessed: Vec<(usize, u32)> =
        accessed.iter().map(|(lane, offset)| (*lane, layout.split(*offset).1 as u32)).collect();
    counters.shared(pc, watch::way(AccessKind::Write), &accessed, bytes);
}
