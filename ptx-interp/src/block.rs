//! The unit of scheduling: the blocks of a cluster, usually a single one. Their warps alternate until all are done, or
//! until they can only wait for another cluster.
//!
//! The cluster's warps are numbered block by block. Those of one block are [`Env::warp_pitch`] apart from those of the
//! next, and have barriers and a pool of registers of their own.

mod report;
mod together;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use pulp::Arch;

use crate::barrier::{Barriers, MAX_BARRIERS};
use crate::clocks::Waits;
use crate::cluster::ClusterBarrier;
use crate::copies::Copies;
use crate::cost::Counters;
use crate::env::{BlockMemory, Env};
use crate::exec::{Step, Stop, landing};
use crate::op::Op;
use crate::options::{Counting, Watch};
use crate::pool::{Pool, Resizing};
use crate::repeats::Repeats;
use crate::row::LANES;
use crate::scheduler::Scheduler;
use crate::violation::{Fault, Violation, ViolationKind};
use crate::warp::{Seen, Spin, Suspicion, Warp};

/// Why a warp cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    /// At a barrier. The instruction and its number of threads are for reports.
    Waiting {
        id: u32,
        pc: u32,
        count: Option<u32>,
    },
    /// At a wait for the cluster's barrier.
    AtCluster,
    /// Waits until its warp group has started this many multiplications.
    AtGroup {
        count: u32,
    },
    /// At an instruction that requests more registers than are available.
    Starved {
        what: Resizing,
        missing: u64,
    },
    Done,
}

/// The state of a cluster after it has run as far as it can.
#[derive(Debug)]
pub(crate) enum Progress {
    Finished,
    /// It polls for something that another cluster has to do. It is `stuck` if its whole state has not changed.
    Waits {
        stuck: bool,
    },
    Broken(Violation),
    /// A cluster with a lower index has broken a rule.
    Abandoned,
}

/// Warps, barriers, and the memory of a cluster's blocks. Reused for the next cluster.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) memory: BlockMemory,
    pub(crate) warps: Vec<Warp>,
    status: Vec<Status>,
    /// By rank.
    barriers: Vec<Barriers>,
    cluster: ClusterBarrier,
    /// By rank.
    pools: Vec<Pool>,
    /// Distance between the first warps of two blocks.
    pitch: usize,
    scheduler: Scheduler,
    /// Whether the warps of a block may be polling together, with barriers in between.
    polls_together: bool,
    repeats: Repeats,
    /// Number of rounds in which a warp had a long turn, since other clusters last had a turn.
    long_rounds: u32,
    /// By warp, iterations of its loop since the last change.
    idle: Vec<u32>,
    /// By warp, the number of times that it has yielded while polling since the last change, whatever its registers
    /// hold.
    idle_polls: Vec<u32>,
    /// Number of changes so far.
    changes: u64,
    /// Version of global memory that these counts belong to.
    version: u64,
    /// Whether no warp has synchronised with others, or written something, in this round so far.
    quiet: bool,
}

/// After this many rounds other blocks get a turn, in case this one reads a flag with plain loads.
const LONG_ROUNDS: u32 = 64;
/// Instructions per turn of a warp when blocks take turns too.
const SLICE: u64 = 64;
/// A warp that has repeated its state this often repeats it forever, unless others change something.
const IDLE_ROUNDS: u32 = 2;
/// A warp that has polled this often while nothing changed waits forever, even if it counts its polls or reads a clock.
const IDLE_POLLS: u32 = 128;

impl Block {
    /// Sets up cluster number `number` of the grid.
    pub(crate) fn reset(&mut self, env: &Env, number: u64) {
        let watched = env.watch == Watch::On;
        let (ranks, warps, count) = (env.ranks() as usize, env.warps() as usize, env.all_warps());
        self.pitch = env.warp_pitch() as usize;
        self.memory.number = number;
        self.memory.shared.reset(env.shared_bytes, &env.shared_gaps, ranks as u32, watched);
        if watched {
            self.memory.shadow.reset(env.shared_bytes as usize, self.memory.shared.layout(), self.pitch, ranks);
            let ordered = !env.watches(ViolationKind::Race);
            self.memory.clocks.reset(number, self.pitch, ranks, ordered);
            self.memory.waits.reset(count);
            self.memory.history = env.begin_history(number as u32);
            self.memory.copies.resize_with(count, Copies::default);
            self.memory.copies.iter_mut().for_each(Copies::reset);
        }
        self.memory.mbarriers.reset();
        self.memory.visits.reset(ranks);
        self.memory.maps.clear();
        self.memory.agents.reset(env.landing, number, self.memory.shared.all_bytes() as u32);
        self.memory.groups.reset(warps, self.pitch, ranks);
        self.memory.warnings.reset();
        self.memory.printed.clear();
        self.cluster.reset(count);
        self.pools.resize_with(ranks, Pool::default);
        self.pools.iter_mut().for_each(|pool| pool.reset(env.registers, warps));
        if env.counting == Counting::On && self.memory.counters.is_none() {
            let counters = Counters::new(env.code.instrs.len(), env.global.len(), env.regions);
            self.memory.counters = Some(Box::new(counters));
        }
        (self.memory.wrote_global, self.memory.wrote_shared) = (false, false);
        (self.memory.stored, self.memory.changed) = (false, false);
        self.repeats = Repeats::default();
        self.warps.resize_with(count, Warp::default);
        self.status.clear();
        self.status.resize(count, Status::Ready);
        self.idle.clear();
        self.idle.resize(count, 0);
        self.idle_polls.clear();
        self.idle_polls.resize(count, 0);
        self.barriers.clear();
        self.barriers.resize(ranks, Barriers::default());
        let local_words = env.entry.symbols.local_bytes.div_ceil(4) as usize;
        for (index, warp) in self.warps.iter_mut().enumerate() {
            // The last warps of a block may only fill up its last warp group.
            let before = (index % self.pitch * LANES) as u32;
            let threads = env.threads().saturating_sub(before).min(LANES as u32);
            warp.reset(index as u32, threads, env.code, local_words, watched);
            if threads == 0 {
                self.status[index] = Status::Done;
                continue;
            }
            env.fill_constants(warp, number);
        }
        self.quiet = false;
        self.scheduler.reset(env.order, count, number, if env.slices() { SLICE } else { u64::MAX });
    }

    /// Runs until the cluster is finished, waits for other clusters, or breaks a rule. `version` changes when others
    /// write.
    pub(crate) fn run(&mut self, env: &Env, version: u64) -> Progress {
        if std::mem::replace(&mut self.version, version) != version {
            self.changed();
            self.idle_polls.fill(0);
            self.repeats.disturb();
        }
        loop {
            if !env.matters(self.memory.number) {
                return Progress::Abandoned;
            }
            let (mut polled, mut looped) = (false, false);
            self.scheduler.begin_round(std::mem::replace(&mut self.quiet, true));
            for turn in 0..self.warps.len() {
                let index = self.scheduler.warp(turn);
                if self.status[index] != Status::Ready || self.scheduler.holds(index) {
                    continue;
                }
                if let Some(drawn) = self.memory.agents.draw() {
                    self.repeats.disturb();
                    if let Err(fault) = landing::land(&mut self.memory, env, drawn) {
                        return Progress::Broken(self.report(env, index, *fault));
                    }
                }
                let wrote_before = std::mem::take(&mut self.memory.wrote_global);
                let mut progress = false;
                let moved = match self.turn(env, index) {
                    Ok(TurnEnd::Synchronised) => {
                        progress = true;
                        true
                    }
                    Ok(TurnEnd::Moved) => true,
                    Ok(TurnEnd::InLoop) => false,
                    Ok(TurnEnd::Spun { spin, state }) => {
                        polled |= spin == Spin::Beyond;
                        looped |= spin == Spin::Long;
                        self.idle[index] += u32::from(state == Seen::Again);
                        self.idle_polls[index] += u32::from(spin != Spin::Long);
                        state == Seen::Other
                    }
                    Err(fault) => return Progress::Broken(self.report(env, index, *fault)),
                };
                if self.wake_groups() {
                    progress = true;
                    self.repeats.disturb();
                }
                let wrote = std::mem::take(&mut self.memory.wrote_shared);
                let changed = std::mem::take(&mut self.memory.changed);
                if wrote || moved || changed {
                    self.changed();
                }
                // A warp that counts its polls may also store.
                if std::mem::take(&mut self.memory.stored) || wrote || progress || self.memory.wrote_global {
                    self.idle_polls.fill(0);
                    self.quiet = false;
                }
                if wrote || changed || self.memory.wrote_global {
                    self.repeats.disturb();
                }
                self.memory.wrote_global |= wrote_before;
                if self.repeats.is_due() {
                    self.repeats.compare(self.state());
                    if self.repeats.found() {
                        break;
                    }
                }
            }
            if self.status.iter().all(|status| *status == Status::Done) {
                return match self.unfinished_warps(env) {
                    Some(violation) => Progress::Broken(violation),
                    None => Progress::Finished,
                };
            }
            if let Some(fault) = self.blocked(env) {
                return Progress::Broken(fault);
            }
            self.long_rounds += u32::from(looped);
            if self.is_stuck() || self.repeats.found() {
                // Copies that no thread waits for also complete at some time.
                match landing::land_all(&mut self.memory, env) {
                    Err(fault) => return Progress::Broken(self.report(env, 0, *fault)),
                    Ok(true) => {
                        self.changed();
                        self.idle_polls.fill(0);
                        self.repeats.disturb();
                        continue;
                    }
                    Ok(false) => {}
                }
                return Progress::Waits { stuck: true };
            }
            if env.slices() {
                return Progress::Waits { stuck: false };
            }
            // This cluster may be waiting for others.
            polled |= std::mem::take(&mut self.polls_together);
            if polled || self.long_rounds >= LONG_ROUNDS {
                self.long_rounds = 0;
                return Progress::Waits { stuck: false };
            }
        }
    }

    fn changed(&mut self) {
        self.idle.fill(0);
        self.changes += 1;
    }

    /// A hash of all state that determines what the cluster does next, except memory.
    fn state(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (warp, status) in self.warps.iter().zip(&self.status) {
            (warp.state(), discriminant(status)).hash(&mut hasher);
        }
        self.barriers.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether every warp that could run has completed an iteration of its loop since the last change. The first
    /// iteration may have begun before the change.
    fn is_stuck(&self) -> bool {
        let spins = |index: usize| self.idle[index] >= IDLE_ROUNDS || self.idle_polls[index] >= IDLE_POLLS;
        self.status.iter().enumerate().all(|(index, status)| *status != Status::Ready || spins(index))
    }

    fn turn(&mut self, env: &Env, index: usize) -> Result<TurnEnd, Box<Fault>> {
        let left = env.max_instructions.saturating_sub(self.warps[index].steps);
        let fuel = self.scheduler.length().min(left);
        if fuel == 0 {
            let message = format!("{{thread}}: its warp has executed {} instructions", env.max_instructions);
            return Err(Fault::new(ViolationKind::InstructionLimit, self.warps[index].mask, message));
        }
        self.memory.shared.enter(index / self.pitch);
        let (warp, block) = (&mut self.warps[index], &mut self.memory);
        let stop = match env.watch {
            Watch::Off => Arch::new().dispatch(Step::<false> { warp, block, env, fuel }),
            Watch::On => Arch::new().dispatch(Step::<true> { warp, block, env, fuel }),
        };
        let warp = &mut self.warps[index];
        match stop {
            Stop::Fuel if warp.steps - warp.polls.gave_up <= warp.polls.cycle => return Ok(TurnEnd::InLoop),
            Stop::Fuel => return Ok(TurnEnd::Moved),
            Stop::Poll(spin) => {
                let state = warp.yielded(self.changes);
                return Ok(TurnEnd::Spun { spin, state });
            }
            Stop::Done => {
                self.status[index] = Status::Done;
                self.exited(env, index / self.pitch)?;
                self.complete_cluster(env);
            }
            Stop::ClusterArrive { relaxed } => {
                self.repeats.disturb();
                self.arrive_at_cluster(env, index, relaxed)?;
            }
            Stop::ClusterWait => {
                self.repeats.disturb();
                self.wait_at_cluster(env, index)?;
            }
            Stop::GroupWait { count } => {
                self.repeats.disturb();
                self.status[index] = Status::AtGroup { count };
            }
            Stop::Resize(what) => {
                self.repeats.disturb();
                self.resize(env, index, what)?;
            }
            Stop::Barrier { id, count } => {
                let (pc, mask) = (warp.pc, warp.mask | warp.arrived());
                let suspicion = warp.polls.count_barrier();
                self.polls_together |= suspicion == Suspicion::Polling;
                if suspicion != Suspicion::Nothing {
                    self.repeats.expect(index / self.pitch, id);
                }
                if let Op::BarrierReduce { index: of } = env.code.instrs[pc as usize].op
                    && (id as usize) < MAX_BARRIERS
                {
                    let votes = warp.votes(&env.code.reductions[of as usize], env.watch == Watch::On);
                    self.barriers[index / self.pitch].vote(id, votes);
                }
                self.status[index] = Status::Waiting { id, pc, count };
                self.arrive(env, index, (id, count), (pc, mask))?;
            }
            Stop::Arrive { id, count } => {
                // The warp has already moved past the instruction.
                let (pc, mask) = (warp.pc.saturating_sub(1), warp.mask);
                let arrived = self.arrive(env, index, (id, Some(count)), (pc, mask));
                if arrived.is_err() {
                    self.warps[index].pc = pc;
                }
                arrived?;
            }
            Stop::Fault(fault) => return Err(fault),
        }
        Ok(TurnEnd::Synchronised)
    }

    /// Counts a warp's arrival at a barrier, and releases the barrier if it is the last.
    fn arrive(
        &mut self,
        env: &Env,
        index: usize,
        (id, count): (u32, Option<u32>),
        (pc, mask): (u32, u32),
    ) -> Result<(), Box<Fault>> {
        let (all, rank) = (env.warps() * LANES as u32, index / self.pitch);
        let mismatch = |message: String| Err(Fault::new(ViolationKind::BarrierMismatch, mask, message));
        if id as usize >= MAX_BARRIERS {
            return mismatch(format!("{{thread}}: barrier {id} does not exist: a block has barriers 0 to 15"));
        }
        let expected = count.unwrap_or(all);
        if expected == 0 || !expected.is_multiple_of(LANES as u32) || expected > all {
            return mismatch(format!(
                "{{thread}} uses barrier {id} with {expected} threads, but the block has {all}, in warps of 32"
            ));
        }
        if env.watch == Watch::On {
            self.memory.note(index, mask, pc, true);
            self.memory.complete_reads(env, index, mask);
            let waits = if self.status[index] == Status::Ready { Waits::No } else { Waits::Yes };
            self.memory.clocks.arrive(index, rank * MAX_BARRIERS + id as usize, waits);
        }
        match self.barriers[rank].arrive(id, expected) {
            Err(others) => mismatch(format!(
                "{{thread}} reaches barrier {id} with {expected} threads, but others wait there with {others}"
            )),
            Ok(false) => Ok(()),
            Ok(true) => {
                self.release(env, rank, id);
                Ok(())
            }
        }
    }

    /// Releases a barrier of the block of this rank.
    fn release(&mut self, env: &Env, rank: usize, id: u32) {
        let votes = self.barriers[rank].votes(id);
        let mut waiting = Vec::with_capacity(self.pitch);
        let warps = self.status.iter_mut().zip(&mut self.warps).enumerate().skip(rank * self.pitch).take(self.pitch);
        for (index, (status, warp)) in warps {
            if matches!(*status, Status::Waiting { id: at, .. } if at == id) {
                *status = Status::Ready;
                if let Op::BarrierReduce { index } = env.code.instrs[warp.pc as usize].op {
                    warp.reduced(&env.code.reductions[index as usize], votes, env.watch == Watch::On);
                }
                warp.pass();
                waiting.push(index);
            }
        }
        if env.watch == Watch::On {
            self.memory.clocks.release(&waiting, rank * MAX_BARRIERS + id as usize);
        }
        self.barriers[rank].clear(id);
        self.repeats.complete_barrier(rank, id);
    }
}

/// How a warp's turn ended.
enum TurnEnd {
    Moved,
    /// It reached a barrier that others may have waited at, or its end.
    Synchronised,
    /// It is inside an iteration as long as the one before it, after which it yielded.
    InLoop,
    /// It yielded while polling.
    Spun {
        spin: Spin,
        state: Seen,
    },
}
