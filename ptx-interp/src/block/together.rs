//! What the warps of a cluster share in addition to barriers: the cluster's barrier, the end of each block, and the
//! pools of registers.

use super::{Block, Status};
use crate::env::Env;
use crate::exec::landing;
use crate::knowledge::Knowledge;
use crate::options::Watch;
use crate::pool::{Outcome, Pool, Resizing, Uneven};
use crate::row::{LANES, lanes};
use crate::scope::Scope;
use crate::violation::{Checked, Fault, Violation, ViolationKind, triple};

impl Block {
    /// Counts a warp's arrival at the cluster's barrier. A relaxed arrival publishes only what came before a fence: of the
    /// initialisation of mbarriers, or of everything.
    pub(super) fn arrive_at_cluster(&mut self, env: &Env, index: usize, relaxed: bool) -> Checked {
        let published = match (env.watch, relaxed) {
            (Watch::Off, _) => Knowledge::default(),
            (Watch::On, true) => {
                let mut published = self.warps[index].published.clone();
                let fenced = |lane| self.memory.clocks.fenced(index, lane, Scope::Cluster);
                lanes(self.warps[index].mask).filter_map(fenced).for_each(|known| published.join(known));
                published
            }
            (Watch::On, false) => self.memory.clocks.knowledge_of_all(index),
        };
        let (mask, pc) = (self.warps[index].mask, self.warps[index].pc);
        if env.watch == Watch::On {
            self.memory.note(index, mask, pc, true);
            self.memory.complete_reads(env, index, mask);
        }
        self.cluster.arrive(index, &published).map_err(|misuse| {
            Fault::new(ViolationKind::BarrierMismatch, mask, format!("{{thread}} {}", misuse.words()))
        })?;
        self.memory.clocks_tick(env, index);
        self.warps[index].pc += 1;
        self.complete_cluster(env);
        Ok(())
    }

    /// Lets a warp wait at the cluster's barrier.
    pub(super) fn wait_at_cluster(&mut self, env: &Env, index: usize) -> Checked {
        let mask = self.warps[index].mask;
        let known = self.cluster.wait(index).map_err(|misuse| {
            Fault::new(ViolationKind::BarrierMismatch, mask, format!("{{thread}} {}", misuse.words()))
        })?;
        let Some(known) = known else {
            self.status[index] = Status::AtCluster;
            return Ok(());
        };
        if env.watch == Watch::On {
            let (mask, pc) = (self.warps[index].mask, self.warps[index].pc);
            self.memory.clocks.learn(index, mask, true, known);
            self.memory.clocks.learn_start(index);
            self.memory.note(index, mask, pc, true);
            self.memory.clocks.synchronise(index);
        }
        self.status[index] = Status::Ready;
        self.warps[index].pc += 1;
        Ok(())
    }

    /// Releases the warps that wait at the cluster's barrier, if all have arrived.
    pub(super) fn complete_cluster(&mut self, env: &Env) {
        let status = &self.status;
        if !self.cluster.complete(|warp| status[warp] == Status::Done) {
            return;
        }
        for index in 0..self.warps.len() {
            if self.status[index] == Status::AtCluster {
                // The warp has arrived, so it may wait.
                let _ = self.wait_at_cluster(env, index);
            }
        }
    }

    /// Wakes the warps that waited until their whole warp group had started a multiplication. Returns whether any warp
    /// has started one.
    pub(super) fn wake_groups(&mut self) -> bool {
        if !std::mem::take(&mut self.memory.moved_group) {
            return false;
        }
        for (index, status) in self.status.iter_mut().enumerate() {
            if let Status::AtGroup { count } = *status
                && self.memory.groups.have_started(index, count)
            {
                *status = Status::Ready;
            }
        }
        true
    }

    /// A warp releases registers or requests some.
    pub(super) fn resize(&mut self, env: &Env, index: usize, what: Resizing) -> Checked {
        let rank = index / self.pitch;
        match self.pools[rank].execute(index % self.pitch, what, self.warps[index].pc) {
            Outcome::Passes => {
                self.status[index] = Status::Ready;
                self.warps[index].pc += 1;
                self.resize_waiting(rank)
            }
            Outcome::Waits { missing } => {
                self.status[index] = Status::Starved { what, missing };
                Ok(())
            }
            Outcome::Wrong(_) if !env.watches(ViolationKind::Registers) => {
                self.warps[index].pc += 1;
                Ok(())
            }
            Outcome::Wrong(why) => {
                let mask = self.warps[index].mask;
                let message = format!("{{thread}} requests {} registers {why}", what.count);
                let mut fault = Fault::new(ViolationKind::Registers, mask, message);
                fault.at = Some(((index * LANES) as u16, self.warps[index].pc));
                Err(fault)
            }
        }
    }

    /// Retries the requests of a block's warps that wait for registers.
    fn resize_waiting(&mut self, rank: usize) -> Checked {
        for index in rank * self.pitch..(rank + 1) * self.pitch {
            let Status::Starved { what, .. } = self.status[index] else { continue };
            match self.pools[rank].execute(index % self.pitch, what, self.warps[index].pc) {
                Outcome::Passes => {
                    self.status[index] = Status::Ready;
                    self.warps[index].pc += 1;
                }
                Outcome::Waits { missing } => self.status[index] = Status::Starved { what, missing },
                Outcome::Wrong(_) => {}
            }
        }
        Ok(())
    }

    /// The report if a warp waits for something that no other warp can provide; called when no warp can run.
    pub(super) fn starved(&self, env: &Env) -> Option<Violation> {
        let starved = self.status.iter().enumerate().find_map(|(index, status)| match *status {
            Status::Starved { what, missing } => Some((
                index,
                format!(
                    "{{thread}} waits for {} registers per thread; the block's pool lacks {missing}, and no warp can release \
                     some back",
                    what.count
                ),
            )),
            Status::AtCluster => Some((
                index,
                format!(
                    "{{thread}} waits at the cluster's barrier, which has {}, and no other warp can arrive",
                    self.cluster_state(env)
                ),
            )),
            Status::AtGroup { count } => self.memory.groups.laggard(index, count).map(|(late, started)| {
                let message = format!(
                    "{{thread}} waits for {count} multiplications of its warp group, but warp {} of the block has started \
                     {started} of them, and cannot continue",
                    late % self.pitch
                );
                (index, message)
            }),
            _ => None,
        });
        let (index, message) = starved?;
        Some(self.report(env, index, *Fault::new(ViolationKind::Deadlock, self.warps[index].mask, message)))
    }

    /// The number of warps that have arrived at the cluster's barrier, as text, with those of each block if there are
    /// several.
    fn cluster_state(&self, env: &Env) -> String {
        let arrived = |rank: usize| {
            let own = rank * self.pitch..rank * self.pitch + env.warps() as usize;
            own.filter(|warp| self.cluster.has_arrived(*warp)).count()
        };
        let ranks = 0..env.ranks() as usize;
        let all = format!("{} of {} warps", ranks.clone().map(arrived).sum::<usize>(), env.warps() * env.ranks());
        if ranks.len() == 1 {
            return all;
        }
        let of_block = |rank: usize| {
            let block = triple(env.ctaid_in(self.memory.number, rank as u32));
            format!("{} of {} of block {block}", arrived(rank), env.warps())
        };
        format!("{all} ({})", ranks.map(of_block).collect::<Vec<String>>().join(", "))
    }

    /// Handles the exit of a warp. The last one of a block ends it, and its shared memory with it: accesses of other
    /// blocks of the cluster to this memory have to be over.
    pub(super) fn exited(&mut self, env: &Env, rank: usize) -> Checked {
        let own = &self.status[rank * self.pitch..(rank + 1) * self.pitch];
        if env.ranks() == 1 || own.iter().any(|status| *status != Status::Done) {
            return Ok(());
        }
        self.memory.visits.exit(rank);
        if !env.strict || !env.watches(ViolationKind::Race) {
            return Ok(());
        }
        let left = landing::unfinished(&self.memory, env, rank);
        left.or_else(|| landing::unordered_before_exit(&self.memory, env, rank)).map_or(Ok(()), Err)
    }

    /// The report about a cluster after all its warps have exited, if something is wrong with it.
    pub(super) fn unfinished_warps(&mut self, env: &Env) -> Option<Violation> {
        if env.strict {
            let uneven = |(rank, pool): (usize, &Pool)| Some((rank, pool.uneven()?));
            if let Some((rank, Uneven { warp, fewest, most, missing })) = self.pools.iter().enumerate().find_map(uneven)
                && env.watches(ViolationKind::Registers)
            {
                let message = format!(
                    "the warp of {{thread}} has changed its registers {fewest} times, another one of its warp group {most} times"
                );
                let index = rank * self.pitch + warp;
                let mut fault = Fault::new(ViolationKind::Registers, 1, message);
                // The warp itself has exited; the instruction is one that only the other warps have executed.
                fault.pc = missing;
                return Some(self.report(env, index, *fault));
            }
            let left = self.warps.iter().position(|warp| warp.flight.complete < warp.flight.started);
            if let Some(index) = left
                && env.watches(ViolationKind::Wgmma)
            {
                let message = "the warp of {thread} has exited, and has not waited for its last multiplication";
                let mut fault = Fault::new(ViolationKind::Wgmma, 0, message);
                fault.at = Some(((index * LANES) as u16, self.warps[index].flight.last));
                return Some(self.report(env, index, *fault));
            }
            if env.ranks() == 1
                && let Some(fault) = landing::unfinished(&self.memory, env, 0)
                && env.watches(ViolationKind::Race)
            {
                return Some(self.report(env, 0, *fault));
            }
        }
        let landed = landing::land_all(&mut self.memory, env);
        landed.err().filter(|_| env.strict).map(|fault| self.report(env, 0, *fault))
    }

    /// The cluster's warnings, as reports.
    pub(crate) fn warnings(&mut self, env: &Env) -> Vec<((u32, u32), Violation)> {
        let faults = std::mem::take(&mut self.memory.warnings.faults);
        let lines = |fault: &Fault| (fault.at.map_or(0, |(_, pc)| pc), fault.other_pc);
        faults.into_iter().map(|fault| (lines(&fault), self.report(env, 0, fault))).collect()
    }
}
