//! Reports about a block: deadlocks, with the threads that wait for each other, and the place where a rule was broken.

use super::{Block, Status};
use crate::address::StateSpace;
use crate::barrier::MAX_BARRIERS;
use crate::env::Env;
use crate::row::{LANES, lanes};
use crate::violation::{Fault, Moment, Site, Step, Violation, ViolationKind, bytes as in_words, triple};
use crate::warp::Polled;

/// A warp that waits at a barrier.
#[derive(Clone, Copy)]
struct Waiter {
    warp: usize,
    id: u32,
    pc: u32,
    /// The number of threads that its instruction specifies.
    count: Option<u32>,
}

impl Block {
    /// The report if no thread of the cluster can ever continue.
    pub(super) fn blocked(&mut self, env: &Env) -> Option<Violation> {
        if self.status.contains(&Status::Ready) {
            return None;
        }
        if let Some(violation) = self.starved(env) {
            return Some(violation);
        }
        let waiting: Vec<Waiter> = self.waiters().collect();
        let first = *waiting.first()?;
        let rank = first.warp / self.pitch;
        let waiting: Vec<Waiter> = waiting.into_iter().filter(|waiter| waiter.warp / self.pitch == rank).collect();
        let own = self.status.iter().skip(rank * self.pitch).take(env.warps() as usize);
        let exited = own.filter(|status| **status == Status::Done).count();
        if exited > 0
            && !env.watches(ViolationKind::BarrierMismatch)
            && waiting.iter().all(|other| other.id == first.id && other.count.is_none())
        {
            // Without checks, exited warps count as arrived, as on hardware.
            self.release(env, rank, first.id);
            return None;
        }
        let here = self.barriers[rank].state(first.id);
        let elsewhere = waiting.iter().find(|other| other.id != first.id);
        let mut message = format!("{{thread}} waits at barrier {}, which has {here}", first.id);
        if let Some(Waiter { id, pc, .. }) = elsewhere {
            let line = env.code.origins[*pc as usize].line;
            message +=
                &format!("; others wait at barrier {id} (line {line}), which has {}", self.barriers[rank].state(*id));
        }
        if exited > 0 {
            message += &format!("; {exited} of {} warps have exited", env.warps());
        }
        message += ", and no other thread can arrive";
        // A barrier of the whole block that some threads do not reach, or one for a part of the block.
        let named = waiting.iter().any(|waiter| waiter.count.is_some());
        let kind = if named { ViolationKind::Deadlock } else { ViolationKind::BarrierMismatch };
        Some(self.report(env, first.warp, *Fault::new(kind, self.warps[first.warp].mask, message)))
    }

    fn waiters(&self) -> impl Iterator<Item = Waiter> {
        self.status.iter().enumerate().filter_map(|(warp, status)| match *status {
            Status::Waiting { id, pc, count } => Some(Waiter { warp, id, pc, count }),
            _ => None,
        })
    }

    /// What the cluster waits for when the whole grid is stuck.
    pub(crate) fn deadlock(&self, env: &Env) -> Violation {
        let index = self.status.iter().position(|status| *status == Status::Ready).unwrap_or(0);
        let mask = self.warps[index].mask;
        // Other warps may wait at barriers for the warps that poll.
        let mut ids: Vec<(usize, u32)> = self.waiters().map(|waiter| (waiter.warp / self.pitch, waiter.id)).collect();
        ids.sort_unstable();
        ids.dedup();
        let barriers = ids.iter().map(|&(rank, id)| {
            let of_block = match self.barriers.len() {
                1 => String::new(),
                _ => format!(" of block {}", triple(env.ctaid_in(self.memory.number, rank as u32))),
            };
            format!("; barrier {id}{of_block} has {}", self.barriers[rank].state(id))
        });
        let barriers: String = barriers.collect();
        if let Some(Waiter { warp, id, pc, .. }) = self.short_of_threads(env) {
            let here = self.barriers[warp / self.pitch].state(id);
            let others = barriers.replacen(&format!("; barrier {id} has {here}"), "", 1);
            let message = format!(
                "{{thread}} waits at barrier {id}, which has {here}, and too few others can still arrive{others}"
            );
            let mut fault = Fault::new(ViolationKind::Deadlock, self.warps[warp].mask, message);
            fault.pc = Some(pc);
            return self.report(env, warp, *fault);
        }
        // The polling warps may wait for something that this warp would do with its registers.
        if self.status.iter().any(|status| matches!(status, Status::Starved { .. }))
            && let Some(violation) = self.starved(env)
        {
            return violation;
        }
        let awaited = |index: usize| {
            let offset = self.warps[index].polls.mbarrier?;
            Some((index, offset, self.memory.mbarriers.get(offset)?))
        };
        let ready = |index: &usize| self.status[*index] == Status::Ready;
        let mut all = (0..self.warps.len()).filter(ready).filter_map(awaited);
        // With several mbarriers, the likely cause is one with some arrivals missing rather than one that nothing has
        // arrived at.
        let begun = all.clone().find(|(_, _, barrier)| barrier.has_begun());
        if let Some((index, offset, barrier)) = begun.or_else(|| all.next()) {
            let (address, missing) = (self.memory.shared.address(offset), barrier.missing());
            let message = format!(
                "{{thread}} waits at the mbarrier at {address:#x}, and no other thread can arrive: {missing}{barriers}"
            );
            let mut fault = Fault::new(ViolationKind::Deadlock, self.warps[index].mask, message);
            fault.address = Some(address);
            fault.pc = self.warps[index].polls.last.map(|polled| polled.pc);
            return self.report(env, index, *fault);
        }
        let polling = |index: usize| {
            let polls = &self.warps[index].polls;
            let together = polls.before_barrier.filter(|_| self.repeats.found());
            Some((index, polls.last.or(together)?))
        };
        if let Some((index, polled)) = (0..self.warps.len()).filter(ready).find_map(polling) {
            let (words, label) = self.polled(env, polled);
            let message =
                format!("{{thread}} waits for a change of {words}, and no other thread can continue{barriers}");
            let mut fault = Fault::new(ViolationKind::Deadlock, self.warps[index].mask, message);
            (fault.address, fault.label, fault.pc) = (Some(polled.address), label, Some(polled.pc));
            return self.report(env, index, *fault);
        }
        let message = format!(
            "{{thread}} runs a loop that only other threads could end, and no other thread can continue{barriers}"
        );
        self.report(env, index, *Fault::new(ViolationKind::Deadlock, mask, message))
    }

    /// A warp at a barrier of a block in which the barriers lack more threads than can still arrive. Such barriers, and
    /// not the polls of the other warps, are the cause.
    fn short_of_threads(&self, env: &Env) -> Option<Waiter> {
        self.waiters().find(|waiter| {
            let rank = waiter.warp / self.pitch;
            let own = self.status.iter().skip(rank * self.pitch).take(env.warps() as usize);
            let free = own.filter(|status| !matches!(status, Status::Done | Status::Waiting { .. })).count();
            let missing: u32 = (0..MAX_BARRIERS as u32).map(|id| self.barriers[rank].missing(id)).sum();
            missing as usize > free * LANES
        })
    }

    /// The memory that a warp polls, with its value, and the allocation's label.
    fn polled(&self, env: &Env, polled: Polled) -> (String, Option<String>) {
        let Polled { address, space, bytes, .. } = polled;
        let (space, at) = space.map_or_else(|| StateSpace::of_generic(address), |space| (space, address));
        let bytes = u64::from(bytes);
        let (value, of, label) = match space {
            StateSpace::Global => {
                let Some(mapped) = env.global.find(at, bytes, &mut 0) else { return (format!("{at:#x}"), None) };
                let (address, label) = mapped.address_and_label(mapped.buffer.offset(at));
                let of = format!(", byte {} of `{label}`", address - mapped.buffer.start);
                (mapped.buffer.load(mapped.buffer.offset(at), bytes as usize), of, Some(label.to_string()))
            }
            StateSpace::Shared | StateSpace::Cluster => {
                let shared = &self.memory.shared;
                let value = shared.offset_in_cluster(at, bytes).map_or(0, |at| shared.load(at, bytes as usize));
                (value, String::new(), None)
            }
            _ => return (format!("{} address {at:#x}", space.name()), None),
        };
        (format!("{} at {} address {at:#x}{of}, which contain {value}", in_words(bytes), space.name()), label)
    }

    /// Converts lanes to threads and positions to lines.
    pub(super) fn report(&self, env: &Env, index: usize, fault: Fault) -> Violation {
        let (index, pc, lane) = match fault.at {
            None => (index, fault.pc.unwrap_or(self.warps[index].pc), 0),
            Some((thread, pc)) => (usize::from(thread) / LANES, pc, 1 << (usize::from(thread) % LANES)),
        };
        let warp = &self.warps[index];
        let origin = env.code.origins.get(pc as usize);
        let first = warp.index * LANES as u32;
        let mask = [lane, fault.lanes, warp.mask].into_iter().find(|mask| *mask != 0).unwrap_or(0);
        let own = lanes(mask & warp.exists).map(|lane| first + lane as u32);
        let threads: Vec<[u32; 3]> = own.chain(fault.other.map(u32::from)).map(|thread| env.tid(thread)).collect();
        let thread = threads.first().copied().unwrap_or_default();
        let ctaid = env.ctaid_in(self.memory.number, (index / self.pitch) as u32);
        let culprit = format!("thread {} of block {}", triple(thread), triple(ctaid));
        let site = Site {
            entry: env.entry.name.clone(),
            line: origin.map(|origin| origin.line),
            instruction: origin.map_or_else(String::new, |origin| origin.text.clone()),
            note: origin.and_then(|origin| origin.note.clone()),
            block: Some(ctaid),
            threads,
            address: fault.address,
            label: fault.label,
            timeline: fault.timeline.iter().map(|step| moment(env, step)).collect(),
        };
        Violation { kind: fault.kind, message: fault.message.replace("{thread}", &culprit), site: Box::new(site) }
    }
}

fn moment(env: &Env, step: &Step) -> Moment {
    let origin = &env.code.origins[step.pc as usize];
    Moment {
        kind: step.kind,
        block: env.ctaid_of(step.block, step.thread),
        thread: env.tid(u32::from(step.thread)),
        line: origin.line,
        instruction: origin.text.clone(),
        note: origin.note.clone(),
    }
}
