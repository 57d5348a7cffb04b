//! Starts bulk copies, lane by lane, with every check that is possible at that time; [`super::landing`] moves the
//! bytes. The module also executes the related instructions: groups, and fences between proxies.

mod tiles;
mod values;

use std::sync::PoisonError;

use arrayvec::ArrayVec;

use self::values::Values;
use super::landing::Layout;
use super::locate::{AccessKind, LaneAccess, out_of_global, out_of_shared};
use super::proxy::{self, Starter};
use super::unordered::{MemoryAccess, race};
use super::{addresses, landing, order, tensormap, undefined, watch};
use crate::address::StateSpace;
use crate::agents::{Fenced, Movement, Pending, Region};
use crate::clocks::Ordered;
use crate::cost::Direction;
use crate::env::{BlockMemory, Env};
use crate::flags::Scope;
use crate::global::shadow::Agent;
use crate::knowledge::{Knowledge, of_copies};
use crate::mbarrier::Misuse;
use crate::op::{Bulk, Pointer, R32, Reduce, Slot};
use crate::options::{Severity, Watch};
use crate::row::{LANES, lanes};
use crate::shadow::{Actor, Did, IN_FLIGHT, Past};
use crate::violation::{Checked, Fault, ViolationKind};
use crate::warp::Warp;

#[inline(never)]
pub(super) fn execute(warp: &mut Warp, block: &mut BlockMemory, env: &Env, op: &Bulk, active: u32, pc: u32) -> Checked {
    let index = warp.index as usize;
    match *op {
        Bulk::Commit => lanes(active).for_each(|lane| block.agents.commit(index * LANES + lane)),
        Bulk::Wait { pending, read } => {
            lanes(active).for_each(|lane| landing::wait(block, env, (index * LANES + lane) as u16, pending, read));
        }
        Bulk::FenceProxy { shared, global } => {
            if shared {
                fence(block, index, active, Fenced::Shared);
            }
            if global {
                let mut history = block.history.lock().unwrap_or_else(PoisonError::into_inner);
                let clock = block.clocks.now_or_zero(index);
                lanes(active).for_each(|lane| history.fences.add(index * LANES + lane, clock));
            }
            if env.strict && env.fenced_late != Severity::Deny {
                let ordered = [shared.then_some(Ordered::Shared), global.then_some(Ordered::Global)];
                ordered.into_iter().flatten().for_each(|ordered| block.clocks.fence_proxy(index, active, ordered));
            }
            synchronises(block, env, index, active, pc);
        }
        Bulk::FenceInit => {
            fence(block, index, active, Fenced::Init);
            if env.watch == Watch::On {
                warp.published = Knowledge::default();
                lanes(active).for_each(|lane| warp.published.join(&block.clocks.knowledge(index, lane)));
            }
            synchronises(block, env, index, active, pc);
        }
        Bulk::ReplaceField { .. } | Bulk::CopyMap { .. } | Bulk::FenceMap { .. } => {
            return tensormap::execute(warp, block, env, op, active, pc);
        }
        Bulk::Map { d, a, rank, space } => return addresses::map(warp, env, (d, a, rank, space), active),
        Bulk::Rank { d, a, space } => return addresses::rank(warp, env, (d, a, space), active),
        Bulk::Values { to, barrier, ref values, count, bytes, reduce } => {
            let slots = &values[..usize::from(count)];
            let mut accessed: ArrayVec<(usize, usize), LANES> = ArrayVec::new();
            for lane in lanes(active) {
                let starter = Starter { thread: (index * LANES + lane) as u16, lane, pc };
                let values = Values { slots, bytes, reduce };
                accessed.push((lane, Start { warp, env, starter }.values(block, (to, barrier), values)?));
            }
            values::count(block, pc, &accessed, u32::from(bytes) * u32::from(count));
        }
        ref copy => {
            for lane in lanes(active) {
                let thread = (index * LANES + lane) as u16;
                Start { warp, env, starter: Starter { thread, lane, pc } }.copy(block, copy)?;
            }
        }
    }
    Ok(())
}

/// A fence separates what the warp does after it from what it did before.
fn synchronises(block: &mut BlockMemory, env: &Env, warp: usize, active: u32, pc: u32) {
    if env.watch == Watch::On {
        block.note(warp, active, pc, true);
        block.clocks.tick(warp);
    }
}

fn fence(block: &mut BlockMemory, warp: usize, active: u32, what: Fenced) {
    let clock = block.clocks.now_or_zero(warp);
    lanes(active).for_each(|lane| block.agents.fence(what, warp * LANES + lane, clock));
}

/// A lane that starts a copy.
struct Start<'a, 'e> {
    warp: &'a Warp,
    env: &'a Env<'e>,
    starter: Starter,
}

impl Start<'_, '_> {
    fn copy(&self, block: &mut BlockMemory, copy: &Bulk) -> Checked {
        match *copy {
            Bulk::Load { to, from, bytes, barrier, multicast, reduce } => {
                let bytes = self.size(bytes)?;
                let region = if from.space == Some(StateSpace::Global) {
                    Region::Flat(self.flat(block, from, bytes, AccessKind::Read)?)
                } else {
                    Region::Shared(self.shared(block, from, bytes, 16, AccessKind::Read)?)
                };
                self.load(block, (to, barrier, multicast), region, bytes, 16, reduce)
            }
            Bulk::TensorLoad { to, map, coordinates, barrier, multicast } => {
                let tile = self.tile(block, map, coordinates)?;
                let bytes = tile.map.box_bytes();
                self.load(block, (to, barrier, multicast), Region::Tile(Box::new(tile)), bytes, 128, None)
            }
            Bulk::Store { to, from, bytes, reduce } => {
                let bytes = self.size(bytes)?;
                let region = Region::Flat(self.flat(block, to, bytes, AccessKind::Write)?);
                self.store(block, region, from, bytes, 16, reduce)
            }
            Bulk::TensorStore { map, coordinates, from, reduce } => {
                let tile = self.tile(block, map, coordinates)?;
                let bytes = tile.map.box_bytes();
                self.not_before(&tile)?;
                let reduce = reduce.map(|op| self.reduction(op, tile.map.element())).transpose()?;
                self.store(block, Region::Tile(Box::new(tile)), from, bytes, 128, reduce)
            }
            Bulk::Prefetch { from, bytes } => {
                let bytes = self.size(bytes)?;
                self.flat(block, from, bytes, AccessKind::Read).map(drop)
            }
            Bulk::TensorPrefetch { map, coordinates } => self.tile(block, map, coordinates).map(drop),
            Bulk::PrefetchMap { map } => self.map(block, map).map(drop),
            _ => Ok(()),
        }
    }

    /// A load into the memory of one block, or of the blocks that a multicast names. Each of them counts its own copy.
    fn load(
        &self,
        block: &mut BlockMemory,
        (to, barrier, multicast): (Pointer, Pointer, Option<R32>),
        from: Region,
        bytes: u64,
        align: u64,
        reduce: Option<Reduce>,
    ) -> Checked {
        let span = span(&from, bytes);
        let to = self.shared(block, to, span, align, AccessKind::Write)?;
        let barrier = self.shared(block, barrier, 8, 8, AccessKind::Read)?;
        let pieces = landing::pieces(&from, bytes as usize, AccessKind::Read);
        for &(address, _, len) in &pieces {
            self.in_global(block, address, len.into(), AccessKind::Read)?;
            self.count(block, Direction::Load, len);
        }
        let Some(mask) = multicast else {
            self.same_block(block, to, barrier)?;
            return self.load_into(block, (to, barrier), (from, reduce), (span, bytes), (&pieces, Source::Unread));
        };
        let mut source = Source::Unread;
        for rank in lanes(self.blocks(block, mask)?) {
            let [to, barrier] = [to, barrier].map(|offset| block.shared.in_block(rank, offset as usize) as u32);
            let copied = (from.clone(), reduce);
            self.load_into(block, (to, barrier), copied, (span, bytes), (&pieces, source))?;
            source = Source::Read;
        }
        Ok(())
    }

    /// Checks that a copy completes in the block that it writes to.
    fn same_block(&self, block: &BlockMemory, to: u32, barrier: u32) -> Checked {
        if block.shared.rank_of(to as usize) == block.shared.rank_of(barrier as usize) {
            return Ok(());
        }
        let address = block.shared.address(barrier as usize);
        let message = format!(
            "{{thread}} starts a copy to shared address {:#x} that the mbarrier at {address:#x} counts, which is in another block",
            block.shared.address(to as usize)
        );
        Err(self.fault(ViolationKind::BarrierMisuse, address, message))
    }

    /// Counts a copy to this offset at an mbarrier: the column and the clock from which its completion is known.
    fn counted(&self, block: &mut BlockMemory, shared: u32, barrier: u32) -> Checked<(u32, u32)> {
        let (env, starter) = (self.env, self.starter);
        if env.strict && block.shared.ranks() > 1 {
            let (actor, offset, does) = (starter.actor(block), shared as usize, "starts a copy to");
            if block.visits.has_exited(block.shared.rank_of(offset)) {
                env.enforce(Err(order::exited(block, env, offset, actor, does)))?;
            }
            order::has_started(block, env, offset, actor, does)?;
        }
        if block.mbarriers.get(barrier as usize).is_none() {
            let address = block.shared.address(barrier as usize);
            let message = format!(
                "{{thread}} starts a copy that the mbarrier at {address:#x} counts, {}",
                Misuse::Absent.words()
            );
            return Err(self.fault(ViolationKind::BarrierMisuse, address, message));
        }
        let known = block.agents.count(barrier);
        if env.watch == Watch::On {
            let mut history = block.history.lock().unwrap_or_else(PoisonError::into_inner);
            let clock = block.clocks.now(usize::from(starter.thread) / LANES);
            history.start((of_copies(known.0), known.1), (starter.thread, clock));
        }
        Ok(known)
    }

    fn load_into(
        &self,
        block: &mut BlockMemory,
        (shared, barrier): (u32, u32),
        (from, reduce): (Region, Option<Reduce>),
        (span, bytes): (u64, u64),
        (pieces, source): (&[(u64, u32, u32)], Source),
    ) -> Checked {
        let (env, starter) = (self.env, self.starter);
        let known = self.counted(block, shared, barrier)?;
        if env.strict {
            if let Region::Shared(from) = from {
                self.take_over(block, from, (bytes, bytes), AccessKind::Read)?;
            }
            self.take_over(block, shared, (span, bytes), AccessKind::Write)?;
            let mut past = None;
            let actor = Actor { strong: Some(Scope::Cluster), ..starter.actor(block) };
            let seen = |seen: Past| {
                if seen.did == Did::Write {
                    past = Some(seen);
                }
            };
            let ordered = block.shadow.hand_over(&block.clocks, barrier as usize, 8, actor, false, seen);
            env.enforce(ordered.map_err(|conflict| {
                race(
                    block,
                    env,
                    conflict,
                    MemoryAccess { kind: AccessKind::Read, offset: barrier as usize, bytes: 8, actor },
                )
            }))?;
            if let Some(past) = past {
                let address = block.shared.address(barrier as usize);
                proxy::initialised(block, env, starter, past, address)?;
            }
            let actor = starter.actor(block);
            let agent = Agent { thread: of_copies(known.0), clock: known.1 };
            // A multicast reads its source once.
            let read = if source == Source::Unread { pieces } else { &[] };
            for &(address, _, len) in read {
                order::copied(block, env, AccessKind::Read, (address, len.into()), starter, actor, agent)?;
            }
        }
        self.start(block, shared, (span, bytes), Movement::Load { from, barrier, reduce }, known, pieces)
    }

    fn store(
        &self,
        block: &mut BlockMemory,
        to: Region,
        from: Pointer,
        bytes: u64,
        align: u64,
        reduce: Option<Reduce>,
    ) -> Checked {
        let (env, starter) = (self.env, self.starter);
        let span = span(&to, bytes);
        let shared = self.shared(block, from, span, align, AccessKind::Read)?;
        let pieces = landing::pieces(&to, bytes as usize, AccessKind::Write);
        for &(address, _, len) in &pieces {
            self.in_global(block, address, len.into(), AccessKind::Write)?;
            self.count(block, Direction::Store, len);
        }
        if env.strict {
            self.take_over(block, shared, (span, bytes), AccessKind::Read)?;
            let layout = Layout::of(&to);
            let past = match &to {
                Region::Tile(tile) => tile.past_rows(),
                Region::Flat(_) | Region::Shared(_) => 0,
            };
            if let (Some(&(address, _, len)), 1..) = (pieces.first(), past) {
                self.past_rows(block, address + u64::from(len - past), past)?;
            }
            for &(address, offset, len) in &pieces {
                self.written(block, shared, offset, len - past, layout)?;
                let (strong, atomic) = (reduce.map(|_| Scope::Gpu), reduce.is_some());
                let actor = Actor { strong, atomic, ..starter.actor(block) };
                let agent = Agent { thread: starter.thread, clock: IN_FLIGHT };
                order::copied(block, env, AccessKind::Write, (address, len.into()), starter, actor, agent)?;
                self.write_once(block, address, len)?;
            }
        }
        let group = *block.agents.group_of(starter.thread.into());
        self.start(block, shared, (span, bytes), Movement::Store { to, group, reduce }, (0, 0), &pieces)
    }

    fn start(
        &self,
        block: &mut BlockMemory,
        shared: u32,
        (span, counted): (u64, u64),
        movement: Movement,
        known: (u32, u32),
        pieces: &[(u64, u32, u32)],
    ) -> Checked {
        let Starter { thread, lane, pc } = self.starter;
        if !block.agents.has_room() {
            let message =
                "{thread} starts a copy, but too many copies of its block are in flight: no thread waits for them";
            return Err(Fault::new(ViolationKind::InstructionLimit, 1 << lane, message));
        }
        let first = pieces.iter().map(|(address, ..)| *address).min().unwrap_or(u64::MAX);
        let last = pieces.iter().map(|(address, _, len)| address + u64::from(*len).max(1) - 1).max().unwrap_or(0);
        let pieces = pieces.iter().map(|(address, _, len)| (*address, *len)).collect();
        let pending = Pending {
            thread,
            pc,
            began: block.clocks.now_or_zero(usize::from(thread) / LANES),
            known,
            shared,
            bytes: span as u32,
            counted: counted as u32,
            movement,
            data: None,
            landed: false,
            read: false,
            span: (first, last),
            pieces,
        };
        block.agents.start(pending);
        if block.agents.lands_at_once() {
            let newest = block.agents.pending.len() - 1;
            landing::land(block, self.env, newest)?;
        }
        Ok(())
    }

    /// Transfers a range of shared memory to the copy, after checking that no other copy conflicts and that earlier
    /// accesses are ordered and fenced. Only `copied` of the bytes from the first to the last are copied.
    fn take_over(
        &self,
        block: &mut BlockMemory,
        offset: u32,
        (bytes, copied): (u64, u64),
        kind: AccessKind,
    ) -> Checked {
        let (env, starter) = (self.env, self.starter);
        let (offset, bytes) = (offset as usize, bytes as usize);
        env.enforce(order::no_mbarrier(block, offset, bytes, kind, starter.lane))?;
        let actor = starter.actor(block);
        proxy::undisturbed(block, env, (offset, bytes), kind, actor)?;
        // Accesses of the same lanes to neighbouring words count as one.
        let mut pasts: Vec<Past> = Vec::new();
        let seen = |past: Past| {
            let known = pasts.iter_mut().rev().take(64).find(|known| {
                (known.pc, known.warp, known.clock, known.did) == (past.pc, past.warp, past.clock, past.did)
            });
            match known {
                Some(known) => known.lanes |= past.lanes,
                None => pasts.push(past),
            }
        };
        let ordered = block.shadow.hand_over(&block.clocks, offset, bytes, actor, kind == AccessKind::Write, seen);
        env.enforce(ordered.map_err(|conflict| {
            race(block, env, conflict, MemoryAccess { kind, offset, bytes: copied as usize, actor })
        }))?;
        pasts.sort_by_key(|past| (past.pc, past.warp, past.clock, past.did));
        proxy::fenced(block, env, starter, &pasts, kind, block.shared.address(offset))
    }

    /// Checks that the bytes copied to global memory were written.
    fn written(&self, block: &BlockMemory, shared: u32, offset: u32, len: u32, layout: Layout) -> Checked {
        for byte in (offset..offset + len).filter(|_| self.env.watches(ViolationKind::Uninitialised)) {
            let at = layout.chunk_offset(shared, byte as usize / 16) + byte as usize % 16;
            if !block.shared.is_written(at, 1) {
                let address = block.shared.address(at);
                let message = format!(
                    "{{thread}} starts a copy to global memory from shared address {address:#x}, which was never written"
                );
                return Err(self.fault(ViolationKind::Uninitialised, address, message));
            }
        }
        Ok(())
    }

    /// Reports a store that also writes bytes after the rows of its tensor.
    fn past_rows(&self, block: &mut BlockMemory, address: u64, past: u32) -> Checked {
        let (env, pc) = (self.env, self.starter.pc);
        let severity = env.past_rows;
        if !env.watches(ViolationKind::PastRows)
            || severity == Severity::Allow
            || (severity == Severity::Warn && !block.warnings.is_new(pc, pc))
        {
            return Ok(());
        }
        let message = format!(
            "{{thread}} stores a box of a tensor with rows that end {past} bytes before a multiple of 16: the hardware writes these \
             bytes after each row as well, the first of them at {address:#x}"
        );
        let mut fault = self.fault(ViolationKind::PastRows, address, message);
        if severity == Severity::Deny {
            return Err(fault);
        }
        fault.at = Some((self.starter.thread, pc));
        block.warnings.faults.push(*fault);
        Ok(())
    }

    fn write_once(&self, block: &mut BlockMemory, address: u64, len: u32) -> Checked {
        let Some(mapped) = self.env.global.find(address, len.into(), &mut block.last) else { return Ok(()) };
        if !mapped.is_write_once() {
            return Ok(());
        }
        let (mut at, end) = (mapped.buffer.offset(address), mapped.buffer.offset(address) + len as usize);
        while at < end {
            let step = (16 - at % 16).min(end - at);
            watch::written_once(block, self.env, mapped, (at, step), self.starter.thread)?;
            at += step;
        }
        Ok(())
    }

    /// The size of a copy in bytes, a multiple of 16.
    fn size(&self, bytes: R32) -> Checked<u64> {
        let bytes = u64::from(self.value(bytes, "is a copy's size")?);
        if !bytes.is_multiple_of(16) {
            let message = format!("{{thread}} starts a copy of {bytes} bytes, which is not a multiple of 16");
            return Err(Fault::new(ViolationKind::Misaligned, 1 << self.starter.lane, message));
        }
        Ok(bytes)
    }

    /// The blocks of the cluster that a multicast's mask names, one bit each.
    fn blocks(&self, block: &BlockMemory, mask: R32) -> Checked<u32> {
        let mask = self.value(mask, "is a multicast's mask")? & 0xffff;
        let ranks = block.shared.ranks();
        if mask != 0 && mask >> ranks == 0 {
            return Ok(mask);
        }
        let message = format!(
            "{{thread}} starts a copy for the blocks {mask:#06x}, but its cluster has {}",
            if ranks == 1 { "only one block".into() } else { format!("{ranks} blocks") }
        );
        Err(Fault::new(ViolationKind::OutOfBounds, 1 << self.starter.lane, message))
    }

    fn value(&self, slot: R32, what: &str) -> Checked<u32> {
        self.defined(slot.into(), what)?;
        Ok(self.warp.regs.r32[slot.0 as usize].0[self.starter.lane])
    }

    fn defined(&self, slot: Slot, what: &str) -> Checked {
        let (warp, env, lane) = (self.warp, self.env, 1 << self.starter.lane);
        if env.watches(ViolationKind::Uninitialised) && warp.taint.mask(warp.taint.at(slot)) & lane != 0 {
            return Err(undefined(warp, env, slot, lane, what));
        }
        Ok(())
    }

    /// The space and address that a pointer points to.
    fn target(&self, pointer: Pointer) -> Checked<(StateSpace, u64)> {
        self.defined(pointer.base, "is used as an address")?;
        let lane = self.starter.lane;
        let address = match pointer.base {
            // 32-bit addresses wrap at 32 bits.
            Slot::R32(_) => {
                u64::from((self.warp.regs.get(pointer.base, lane) as u32).wrapping_add(pointer.offset as u32))
            }
            base => self.warp.regs.get(base, lane).wrapping_add(pointer.offset as u64),
        };
        Ok(match pointer.space {
            Some(space) => (space, address),
            None => StateSpace::of_generic(address),
        })
    }

    /// Offset of a range of shared memory.
    fn shared(&self, block: &BlockMemory, pointer: Pointer, bytes: u64, align: u64, kind: AccessKind) -> Checked<u32> {
        let (space, address) = self.target(pointer)?;
        let lane_access = LaneAccess { space: Some(space), address, bytes, lane: self.starter.lane, kind };
        if !address.is_multiple_of(align) {
            return Err(self.misaligned(address, align));
        }
        let offset = match space {
            StateSpace::Shared => block.shared.offset(address, bytes),
            StateSpace::Cluster => block.shared.offset_in_cluster(address, bytes),
            _ => None,
        };
        offset.map(|offset| offset as u32).ok_or_else(|| out_of_shared(block, &lane_access))
    }

    /// Address of a range of global memory.
    fn flat(&self, block: &mut BlockMemory, pointer: Pointer, bytes: u64, kind: AccessKind) -> Checked<u64> {
        let (_, address) = self.target(pointer)?;
        if !address.is_multiple_of(16) {
            return Err(self.misaligned(address, 16));
        }
        self.in_global(block, address, bytes, kind)?;
        Ok(address)
    }

    fn in_global(&self, block: &mut BlockMemory, address: u64, bytes: u64, kind: AccessKind) -> Checked {
        match self.env.global.find(address, bytes, &mut block.last) {
            Some(_) => Ok(()),
            None => {
                let lane_access =
                    LaneAccess { space: Some(StateSpace::Global), address, bytes, lane: self.starter.lane, kind };
                Err(out_of_global(self.env, &lane_access))
            }
        }
    }

    /// Counts bytes for the allocation that was found last.
    fn count(&self, block: &mut BlockMemory, way: Direction, bytes: u32) {
        let allocation = block.last;
        if let Some(counters) = &mut block.counters {
            counters.bulk(way, allocation, bytes.into());
        }
    }

    #[cold]
    fn misaligned(&self, address: u64, align: u64) -> Box<Fault> {
        let message =
            format!("{{thread}} starts a copy with the address {address:#x}, which is not a multiple of {align}");
        self.fault(ViolationKind::Misaligned, address, message)
    }

    fn fault(&self, kind: ViolationKind, address: u64, message: String) -> Box<Fault> {
        let mut fault = Fault::new(kind, 1 << self.starter.lane, message);
        fault.address = Some(address);
        fault
    }
}

/// Distance in shared memory from a copy's first to its last byte.
fn span(region: &Region, bytes: u64) -> u64 {
    match region {
        Region::Tile(tile) => tile.map.shared_bytes(),
        _ => bytes,
    }
}

/// Whether the source of a multicast was recorded as read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Unread,
    Read,
}
