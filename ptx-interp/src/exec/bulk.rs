//! Starts bulk copies, lane by lane, with everything that can be said of them at that moment; [`super::landing`] moves the
//! bytes. Also what belongs to them: groups, fences between proxies, addresses within the cluster.

use std::sync::PoisonError;

use ptx_gemm_ptx::instruction::Atomic;
use ptx_gemm_ptx::types::Type;

use super::landing::Layout;
use super::order::race;
use super::proxy::{self, Starter};
use super::spot::{Touch, Verb, out_of_global, out_of_space};
use super::{landing, order, undefined, watch};
use crate::address::{Place, SHARED_START};
use crate::agents::{Fenced, Movement, Pending, Region};
use crate::env::{BlockMemory, Env};
use crate::flags::Scope;
use crate::global::shadow::Agent;
use crate::knowledge::{Knowledge, of_copies};
use crate::mbarrier::Misuse;
use crate::op::{Bulk, Coordinates, Pointer, R32, Reduce, Slot};
use crate::options::Watch;
use crate::row::{LANES, lanes};
use crate::shadow::{Actor, Did, Past, UNDER_WAY};
use crate::shared::load_words;
use crate::tensor::{Interleave, TensorElement, TensorMap, Tile};
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
        Bulk::Map { d, a, rank, place } => return map_address(warp, env, (d, a, rank, place), active),
        Bulk::Rank { d, a, place } => {
            for lane in lanes(active) {
                cluster_address(warp, env, a, place, lane)?;
                warp.regs.set(d, lane, 0);
            }
            if env.watch == Watch::On {
                warp.taint.clear(warp.taint.at(d), active);
            }
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

/// A fence: what the warp does after it is told apart from what it did.
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

/// One lane's start of one copy.
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
                self.only_own(multicast)?;
                let region = if from.place == Some(Place::Global) {
                    Region::Flat(self.flat(block, from, bytes, Verb::Reads)?)
                } else {
                    Region::Shared(self.shared(block, from, bytes, 16, Verb::Reads)?)
                };
                self.load(block, to, region, bytes, 16, barrier, reduce)
            }
            Bulk::TensorLoad { to, map, coordinates, barrier, multicast } => {
                self.only_own(multicast)?;
                let tile = self.tile(block, map, coordinates)?;
                let bytes = tile.map.box_bytes();
                self.load(block, to, Region::Tile(Box::new(tile)), bytes, 128, barrier, None)
            }
            Bulk::Store { to, from, bytes, reduce } => {
                let bytes = self.size(bytes)?;
                let region = Region::Flat(self.flat(block, to, bytes, Verb::Writes)?);
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
                self.flat(block, from, bytes, Verb::Reads).map(drop)
            }
            Bulk::TensorPrefetch { map, coordinates } => self.tile(block, map, coordinates).map(drop),
            Bulk::PrefetchMap { map } => self.map(block, map).map(drop),
            _ => Ok(()),
        }
    }

    #[allow(clippy::too_many_arguments)] // the operands of the instruction
    fn load(
        &self,
        block: &mut BlockMemory,
        to: Pointer,
        from: Region,
        bytes: u64,
        align: u64,
        barrier: Pointer,
        reduce: Option<Reduce>,
    ) -> Checked {
        let (env, starter) = (self.env, self.starter);
        let span = span(&from, bytes);
        let shared = self.shared(block, to, span, align, Verb::Writes)?;
        let barrier = self.shared(block, barrier, 8, 8, Verb::Reads)?;
        if block.mbarriers.get(barrier as usize).is_none() {
            let address = u64::from(barrier) + u64::from(SHARED_START);
            let message = format!(
                "{{thread}} starts a copy that the mbarrier at {address:#x} counts, {}",
                Misuse::Absent.words()
            );
            return Err(self.fault(ViolationKind::BarrierMisuse, address, message));
        }
        let places = landing::places(&from, bytes as usize);
        for &(address, _, len) in &places {
            self.in_global(block, address, len.into(), Verb::Reads)?;
        }
        let known = block.agents.count(barrier);
        if env.watch == Watch::On {
            let mut history = block.history.lock().unwrap_or_else(PoisonError::into_inner);
            let clock = block.clocks.now(usize::from(starter.thread) / LANES);
            history.start((of_copies(known.0), known.1), (starter.thread, clock));
        }
        if env.strict {
            if let Region::Shared(from) = from {
                self.take_over(block, from, bytes, Verb::Reads)?;
            }
            self.take_over(block, shared, span, Verb::Writes)?;
            let mut past = None;
            let actor = Actor { strong: Some(Scope::Cta), ..starter.actor(block) };
            let seen = |seen: Past| {
                if seen.did == Did::Write {
                    past = Some(seen);
                }
            };
            let ordered = block.shadow.hand_over(&block.clocks, barrier as usize, 8, actor, false, seen);
            env.heed(ordered.map_err(|conflict| race(block, env, conflict, Verb::Reads, barrier as usize, 8, actor)))?;
            if let Some(past) = past {
                proxy::initialised(block, env, starter, past, u64::from(barrier) + u64::from(SHARED_START))?;
            }
            let actor = starter.actor(block);
            let agent = Agent { thread: of_copies(known.0), clock: known.1 };
            for &(address, _, len) in &places {
                order::copied(block, env, Verb::Reads, (address, len.into()), starter, actor, agent)?;
            }
        }
        self.start(block, shared, (span, bytes), Movement::Load { from, barrier, reduce }, known, &places)
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
        let shared = self.shared(block, from, span, align, Verb::Reads)?;
        let places = landing::places(&to, bytes as usize);
        for &(address, _, len) in &places {
            self.in_global(block, address, len.into(), Verb::Writes)?;
        }
        if env.strict {
            self.take_over(block, shared, span, Verb::Reads)?;
            let layout = Layout::of(&to);
            for &(address, offset, len) in &places {
                self.written(block, shared, offset, len, layout)?;
                let (strong, atomic) = (reduce.map(|_| Scope::Gpu), reduce.is_some());
                let actor = Actor { strong, atomic, ..starter.actor(block) };
                let agent = Agent { thread: starter.thread, clock: UNDER_WAY };
                order::copied(block, env, Verb::Writes, (address, len.into()), starter, actor, agent)?;
                self.write_once(block, address, len)?;
            }
        }
        let group = *block.agents.group_of(starter.thread.into());
        self.start(block, shared, (span, bytes), Movement::Store { to, group, reduce }, (0, 0), &places)
    }

    fn start(
        &self,
        block: &mut BlockMemory,
        shared: u32,
        (span, counted): (u64, u64),
        movement: Movement,
        known: (u32, u32),
        places: &[(u64, u32, u32)],
    ) -> Checked {
        let Starter { thread, lane, pc } = self.starter;
        if !block.agents.has_room() {
            let message = "{thread} starts a copy, and too many of its block are under way: nobody waits for them";
            return Err(Fault::new(ViolationKind::InstructionLimit, 1 << lane, message));
        }
        let first = places.iter().map(|(address, ..)| *address).min().unwrap_or(u64::MAX);
        let last = places.iter().map(|(address, _, len)| address + u64::from(*len).max(1) - 1).max().unwrap_or(0);
        let pieces = places.iter().map(|(address, _, len)| (*address, *len)).collect();
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

    /// Shared memory goes over to the copy: nothing else is in its way, what was there before is ordered and fenced.
    fn take_over(&self, block: &mut BlockMemory, offset: u32, bytes: u64, verb: Verb) -> Checked {
        let (env, starter) = (self.env, self.starter);
        let (offset, bytes) = (offset as usize, bytes as usize);
        env.heed(order::no_mbarrier(block, offset, bytes, verb, starter.lane))?;
        let actor = starter.actor(block);
        proxy::undisturbed(block, env, (offset, bytes), verb, actor)?;
        // Accesses of the same lanes to neighbouring words are one.
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
        let ordered = block.shadow.hand_over(&block.clocks, offset, bytes, actor, verb == Verb::Writes, seen);
        env.heed(ordered.map_err(|conflict| race(block, env, conflict, verb, offset, bytes, actor)))?;
        pasts.sort_by_key(|past| (past.pc, past.warp, past.clock, past.did));
        proxy::fenced(block, env, starter, &pasts, verb, offset as u64 + u64::from(SHARED_START))
    }

    /// What reaches global memory must have been written.
    fn written(&self, block: &BlockMemory, shared: u32, offset: u32, len: u32, layout: Layout) -> Checked {
        for byte in (offset..offset + len).filter(|_| self.env.watches(ViolationKind::Uninitialised)) {
            let at = layout.place(shared, byte as usize / 16) + byte as usize % 16;
            if !block.shared.is_written(at, 1) {
                let address = at as u64 + u64::from(SHARED_START);
                let message = format!(
                    "{{thread}} starts a copy to global memory from shared address {address:#x}, which was never written"
                );
                return Err(self.fault(ViolationKind::Uninitialised, address, message));
            }
        }
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
            watch::written_once(block, self.env, mapped, at, step, self.starter.lane)?;
            at += step;
        }
        Ok(())
    }

    /// The bytes of a copy, a multiple of 16.
    fn size(&self, bytes: R32) -> Checked<u64> {
        let bytes = u64::from(self.value(bytes, "is a copy's size")?);
        if !bytes.is_multiple_of(16) {
            let message = format!("{{thread}} starts a copy of {bytes} bytes, which is not a multiple of 16");
            return Err(Fault::new(ViolationKind::Misaligned, 1 << self.starter.lane, message));
        }
        Ok(bytes)
    }

    /// Multicast goes to this block alone, which is its cluster.
    fn only_own(&self, mask: Option<R32>) -> Checked {
        let Some(mask) = mask else { return Ok(()) };
        let mask = self.value(mask, "is a multicast's mask")? & 0xffff;
        if mask == 1 {
            return Ok(());
        }
        let message = format!("{{thread}} starts a copy for the blocks {mask:#06x} of a cluster that has one block");
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

    /// Where a pointer leads.
    fn target(&self, pointer: Pointer) -> Checked<(Place, u64)> {
        self.defined(pointer.base, "is used as an address")?;
        let lane = self.starter.lane;
        let address = match pointer.base {
            // 32-bit addresses wrap around at 32 bits.
            Slot::R32(_) => {
                u64::from((self.warp.regs.get(pointer.base, lane) as u32).wrapping_add(pointer.offset as u32))
            }
            base => self.warp.regs.get(base, lane).wrapping_add(pointer.offset as u64),
        };
        Ok(match pointer.place {
            Some(place) => (place, address),
            None => Place::of_generic(address),
        })
    }

    /// Offset of a range of shared memory.
    fn shared(&self, block: &BlockMemory, pointer: Pointer, bytes: u64, align: u64, verb: Verb) -> Checked<u32> {
        let (place, address) = self.target(pointer)?;
        let touch = Touch { place: Some(place), address, bytes, lane: self.starter.lane, verb };
        if !address.is_multiple_of(align) {
            return Err(self.misaligned(address, align));
        }
        match block.shared.offset(address, bytes) {
            Some(offset) if place == Place::Shared => Ok(offset as u32),
            _ => Err(out_of_space(Place::Shared, block.shared.bytes().into(), &touch)),
        }
    }

    /// Address of a range of global memory.
    fn flat(&self, block: &mut BlockMemory, pointer: Pointer, bytes: u64, verb: Verb) -> Checked<u64> {
        let (_, address) = self.target(pointer)?;
        if !address.is_multiple_of(16) {
            return Err(self.misaligned(address, 16));
        }
        self.in_global(block, address, bytes, verb)?;
        Ok(address)
    }

    fn in_global(&self, block: &mut BlockMemory, address: u64, bytes: u64, verb: Verb) -> Checked {
        match self.env.global.find(address, bytes, &mut block.last) {
            Some(_) => Ok(()),
            None => {
                let touch = Touch { place: Some(Place::Global), address, bytes, lane: self.starter.lane, verb };
                Err(out_of_global(self.env, &touch))
            }
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

    /// The tensor map at an address.
    fn map(&self, block: &mut BlockMemory, pointer: Pointer) -> Checked<TensorMap> {
        let (place, address) = self.target(pointer)?;
        if !address.is_multiple_of(64) {
            return Err(self.misaligned(address, 64));
        }
        let mut bytes = [0; 128];
        let found = match place {
            Place::Param if address.checked_add(128).is_some_and(|end| end <= self.env.param_bytes as u64) => {
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = load_words(&self.env.params, address as usize + index, 1) as u8;
                }
                true
            }
            Place::Global => match self.env.global.find(address, 128, &mut block.last) {
                Some(mapped) => {
                    mapped.buffer.read(address, &mut bytes);
                    true
                }
                None => false,
            },
            _ => false,
        };
        let map = found.then(|| TensorMap::from_bytes(&bytes)).flatten();
        map.ok_or_else(|| {
            let message = format!("{{thread}} takes what is at {} address {address:#x} for a tensor map", place.name());
            self.fault(ViolationKind::TensorMap, address, message)
        })
    }

    /// A box of a map at its coordinates.
    fn tile(&self, block: &mut BlockMemory, pointer: Pointer, coordinates: Coordinates) -> Checked<Tile> {
        let map = self.map(block, pointer)?;
        let (rank, count) = (map.rank(), usize::from(coordinates.count));
        let wrong = if rank != count {
            Some(format!("{{thread}} gives {count} coordinates for a tensor map of {rank} dimensions"))
        } else if map.interleave() != Interleave::None {
            Some("interleaved tensor maps are not executed".to_owned())
        } else {
            None
        };
        if let Some(message) = wrong {
            return Err(Fault::new(ViolationKind::TensorMap, 1 << self.starter.lane, message));
        }
        let mut at = [0; 5];
        for (at, slot) in at.iter_mut().zip(&coordinates.at[..count]) {
            *at = self.value(*slot, "is a coordinate")? as i32;
        }
        // An H200 calls another one an illegal instruction.
        let along = i64::from(at[0]) * map.element().bytes() as i64;
        if along % 16 != 0 {
            let message = format!(
                "{{thread}} gives {} as the innermost coordinate, {along} bytes from the tensor's start, which is not a multiple \
                 of 16 bytes",
                at[0]
            );
            return Err(Fault::new(ViolationKind::Misaligned, 1 << self.starter.lane, message));
        }
        // A box that fits no shared memory is not walked over; its copy is refused for its bounds.
        Ok(Tile { map, coordinates: at })
    }

    /// What goes to global memory does not begin before the tensor: an H200 calls it an illegal instruction. It may end after it.
    fn not_before(&self, tile: &Tile) -> Checked {
        let Some(coordinate) = tile.coordinates.iter().find(|coordinate| **coordinate < 0) else { return Ok(()) };
        let message = format!(
            "{{thread}} gives {coordinate} as a coordinate of a copy to global memory; only loads take negative ones"
        );
        Err(Fault::new(ViolationKind::OutOfBounds, 1 << self.starter.lane, message))
    }

    /// The type that a tensor reduction works on.
    fn reduction(&self, op: Atomic, element: TensorElement) -> Checked<Reduce> {
        use TensorElement as E;
        let ty = match (op, element) {
            (Atomic::And | Atomic::Or | Atomic::Xor, E::U32 | E::I32) => Some(Type::B32),
            (Atomic::And | Atomic::Or | Atomic::Xor, E::U64 | E::I64) => Some(Type::B64),
            (Atomic::And | Atomic::Or | Atomic::Xor, _) => None,
            (Atomic::Inc | Atomic::Dec, E::U32) => Some(Type::U32),
            (Atomic::Add, E::F32 | E::F32Ftz | E::Tf32 | E::Tf32Ftz) => Some(Type::F32),
            (Atomic::Add, E::F64) => Some(Type::F64),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::U32) => Some(Type::U32),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::I32) => Some(Type::S32),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::U64) => Some(Type::U64),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::I64) => Some(Type::S64),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::F16) => Some(Type::F16),
            (Atomic::Add | Atomic::Min | Atomic::Max, E::Bf16) => Some(Type::Bf16),
            _ => None,
        };
        ty.map(|ty| (op, ty)).ok_or_else(|| {
            let message = format!("there is no reduction `{}` of a tensor of {element:?}", op.name());
            Fault::new(ViolationKind::TensorMap, 1 << self.starter.lane, message)
        })
    }
}

/// Bytes of shared memory from a copy's first to its last.
fn span(region: &Region, bytes: u64) -> u64 {
    match region {
        Region::Tile(tile) => tile.map.shared_bytes(),
        _ => bytes,
    }
}

/// Where a byte of this block's shared memory is in a block of the cluster, of which there is one.
fn map_address(warp: &mut Warp, env: &Env, op: (Slot, Slot, R32, Option<Place>), active: u32) -> Checked {
    let (d, a, rank, place) = op;
    for lane in lanes(active) {
        cluster_address(warp, env, a, place, lane)?;
        let rank = warp.regs.r32[rank.0 as usize].0[lane];
        if rank != 0 {
            let message = format!("{{thread}} asks for an address in block {rank} of a cluster that has one block");
            return Err(Fault::new(ViolationKind::OutOfBounds, 1 << lane, message));
        }
        let address = warp.regs.get(a, lane);
        warp.regs.set(d, lane, address);
    }
    if env.watch == Watch::On {
        let (d, a, rank) = (warp.taint.at(d), warp.taint.at(a), warp.taint.at(rank.into()));
        warp.taint.flow(d, [a, rank], active);
    }
    Ok(())
}

/// A value is an address of shared memory.
fn cluster_address(warp: &Warp, env: &Env, a: Slot, place: Option<Place>, lane: usize) -> Checked {
    let address = warp.regs.get(a, lane);
    if !env.strict || place.is_some() || Place::of_generic(address).0 == Place::Shared {
        return Ok(());
    }
    let message = format!("{{thread}} takes {address:#x} for a generic address of shared memory");
    Err(Fault::new(ViolationKind::OutOfBounds, 1 << lane, message))
}
