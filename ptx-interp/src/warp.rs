//! A warp: 32 threads with their registers, and the groups into which divergent branches have split them.
//!
//! Groups reconverge by position: the group with the lowest position runs, and groups that reach the same instruction
//! merge. In code laid out by a compiler this is reconvergence at the post-dominator, without any analysis. A group
//! that reaches a barrier alone is parked until the warp's other groups arrive there or can no longer do so.

use crate::address::StateSpace;
use crate::groups::Flight;
use crate::knowledge::Knowledge;
use crate::op::{Code, Slot};
use crate::row::{LANES, Row32, Row64};
use crate::taint::Taint;

/// Register files of a warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) r32: Vec<Row32>,
    pub(crate) r64: Vec<Row64>,
    /// One bit per lane.
    pub(crate) preds: Vec<u32>,
}

impl Registers {
    /// A lane's value of any slot, zero-extended.
    pub(crate) fn get(&self, slot: Slot, lane: usize) -> u64 {
        match slot {
            Slot::R32(slot) => u64::from(self.r32[slot.0 as usize].0[lane]),
            Slot::R64(slot) => self.r64[slot.0 as usize].0[lane],
            Slot::P(slot) => u64::from(self.preds[slot.0 as usize] >> lane & 1),
        }
    }

    /// Sets a lane's value of any slot, truncated to its width.
    pub(crate) fn set(&mut self, slot: Slot, lane: usize, value: u64) {
        match slot {
            Slot::R32(slot) => self.r32[slot.0 as usize].0[lane] = value as u32,
            Slot::R64(slot) => self.r64[slot.0 as usize].0[lane] = value,
            Slot::P(slot) => {
                let word = &mut self.preds[slot.0 as usize];
                *word = *word & !(1 << lane) | ((value & 1) as u32) << lane;
            }
        }
    }
}

/// Why a group is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parked {
    /// It can run.
    No,
    /// It polled memory for a while; other groups go first.
    Spun,
    /// At a barrier, without the rest of the warp.
    Barrier,
    /// At a `barrier.sync` without `.aligned`, which names this barrier and this number of threads. The rest of the
    /// warp may reach another such instruction.
    Threads { id: u32, count: Option<u32> },
    /// The same, and the whole warp has arrived: the group continues once the barrier is complete.
    Arrived,
    /// At a `bar.warp.sync` for these lanes.
    Sync(u32),
    /// At an instruction that these lanes execute together.
    Collective(u32),
}

/// Lanes at the same position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) parked: Parked,
}

/// What a warp does when its running group cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The chosen group runs.
    Run,
    /// All groups poll.
    Spin,
    /// All lanes have exited.
    Done,
    /// Groups wait for each other.
    Stuck,
}

/// Registers, position and progress of one warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warp {
    pub(crate) index: u32,
    pub(crate) regs: Registers,
    pub(crate) taint: Taint,
    /// Position of the running group.
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    /// The other groups.
    pub(crate) groups: Vec<Group>,
    /// Lanes that belong to a thread of the block.
    pub(crate) exists: u32,
    /// Lanes that have not exited.
    pub(crate) live: u32,
    pub(crate) steps: u64,
    /// Floating-point multiply-adds, per lane.
    pub(crate) fma: u64,
    /// Integer multiply-adds, per lane.
    pub(crate) mad: u64,
    /// Local memory: word w of lane l is at index 32 w + l.
    pub(crate) local: Vec<u32>,
    pub(crate) polls: Polls,
    /// Its part of the multiplications of its warp group.
    pub(crate) flight: Flight,
    /// What the warp knew when it last fenced the initialisation of mbarriers.
    pub(crate) published: Knowledge,
    /// Groups that have synchronised at a `bar.warp.sync` while they were parked. Groups that synchronised with each
    /// other are adjacent.
    pub(crate) synchronised: Vec<Synchronised>,
}

/// A group that has synchronised with others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Synchronised {
    /// Its `bar.warp.sync`.
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    /// The lanes that the instruction names.
    pub(crate) named: u32,
}

/// After this many barriers with a strong read before them, other blocks get a turn.
const POLLING_BARRIERS: u32 = 16;
/// After this many barriers of any kind, the block is checked for repetition. Weak reads may also poll, which is a race
/// if the polling ever ends.
const MANY_BARRIERS: u32 = 256;

/// What the number of barriers that a warp has passed suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// Nothing.
    Nothing,
    /// The block may be polling together: one thread reads a flag, and all decide at a barrier whether to go on. Other
    /// blocks get a turn.
    Polling,
    /// The block may repeat itself.
    Repeating,
}

/// The polling state of a warp.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Polls {
    /// Strong loads and atomics since the last backward branch.
    pub(crate) reads: u32,
    /// Whether there was one since the last barrier of the block.
    pub(crate) read_since_barrier: bool,
    /// The last such read before a barrier of the block.
    pub(crate) before_barrier: Option<Polled>,
    /// Barriers of the block after such a read, since they last made the block yield.
    pub(crate) polling_barriers: u32,
    /// Barriers of the block since its last check for repetition.
    barriers: u32,
    /// Consecutive backward branches with such a read in between.
    pub(crate) rounds: u32,
    /// Waits at mbarriers for a phase that was not complete, since the last backward branch.
    pub(crate) waits: u32,
    /// The mbarrier of the last such wait, until one succeeds.
    pub(crate) mbarrier: Option<usize>,
    /// What was polled last, until an iteration without it.
    pub(crate) last: Option<Polled>,
    /// Why groups yielded the warp's turn.
    pub(crate) spin: Option<Spin>,
    /// Number of instructions that the warp had executed when the running group was chosen.
    pub(crate) began: u64,
    /// Hash of the warp's state when it last yielded, if nothing had changed since the time before that.
    state: Option<u64>,
    /// The block's changes at that time.
    changes: Option<u64>,
    /// Number of instructions that the warp had executed at that time.
    pub(crate) gave_up: u64,
    /// Instructions between the last two times.
    iteration: u64,
    /// Instructions per iteration of the current loop, once an iteration has taken as many as the one before it.
    pub(crate) cycle: u64,
}

impl Polls {
    /// Counts a strong load or an atomic.
    pub(crate) fn read(&mut self) {
        self.reads += 1;
        self.read_since_barrier = true;
    }

    /// Counts a barrier of the block.
    pub(crate) fn count_barrier(&mut self) -> Suspicion {
        if std::mem::take(&mut self.read_since_barrier) {
            self.polling_barriers += 1;
            self.before_barrier = self.last.or(self.before_barrier);
        }
        self.barriers += 1;
        if self.polling_barriers >= POLLING_BARRIERS {
            (self.polling_barriers, self.barriers) = (0, 0);
            Suspicion::Polling
        } else if self.barriers >= MANY_BARRIERS {
            self.barriers = 0;
            Suspicion::Repeating
        } else {
            Suspicion::Nothing
        }
    }
}

/// A strong read, or a wait for a phase that was not complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polled {
    pub(crate) pc: u32,
    /// The address as the instruction uses it.
    pub(crate) address: u64,
    /// `None` for a generic address.
    pub(crate) space: Option<StateSpace>,
    pub(crate) bytes: u8,
}

/// A warp's state when it yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Something has changed since it last yielded. It may go on next time, so its state is not needed.
    Unknown,
    /// It yielded before, and nothing has changed. Unless its registers have, it will do the same again.
    Again,
    /// Its registers have changed.
    Other,
}

/// Why a warp yields, by what could end its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spin {
    /// It waits at an mbarrier, for threads of its own cluster.
    Within,
    /// Its turn was long.
    Long,
    /// It polls memory, which other blocks may write.
    Beyond,
}

impl Warp {
    /// Sets up a warp of `threads` threads at the entry.
    pub(crate) fn reset(&mut self, index: u32, threads: u32, code: &Code, local_words: usize, watch: bool) {
        self.index = index;
        self.exists = if threads >= LANES as u32 { u32::MAX } else { (1 << threads) - 1 };
        (self.live, self.mask, self.pc) = (self.exists, self.exists, 0);
        self.groups.clear();
        (self.steps, self.fma, self.mad) = (0, 0, 0);
        self.polls = Polls::default();
        self.flight.reset(code.group_registers.slots.len());
        self.synchronised.clear();
        self.published.clear();
        refill(&mut self.regs.r32, code.slots32 as usize, Row32::ZERO);
        refill(&mut self.regs.r64, code.slots64 as usize, Row64::ZERO);
        refill(&mut self.regs.preds, code.preds as usize, 0);
        refill(&mut self.local, local_words * LANES, 0);
        if watch {
            self.taint.reset(code.slots32, code.slots64, code.preds, self.exists);
        }
    }

    /// The position at which the running group has to look for other groups: the lowest position of those that can run.
    pub(crate) fn reconvergence_pc(&self) -> u32 {
        let running = self.groups.iter().filter(|group| group.parked == Parked::No);
        running.map(|group| group.pc).min().unwrap_or(u32::MAX)
    }

    /// Sets the running group aside.
    pub(crate) fn park(&mut self, parked: Parked) {
        if self.mask != 0 {
            self.groups.push(Group { pc: self.pc, mask: self.mask, parked });
        }
        self.mask = 0;
    }

    /// Chooses the group with the lowest position, merged with all others there. Requires that no group is running.
    pub(crate) fn choose(&mut self) -> Next {
        self.release_synchronised();
        let pc = self.reconvergence_pc();
        if pc != u32::MAX {
            self.take(pc, |parked| parked == Parked::No);
            return Next::Run;
        }
        if let Some((pc, here)) = self.assembled() {
            self.take(pc, |parked| parked == here);
            return Next::Run;
        }
        if self.groups.is_empty() {
            return Next::Done;
        }
        if self.groups.iter().any(|group| group.parked == Parked::Spun) {
            self.wake();
            return Next::Spin;
        }
        // All groups are parked. If they are all at one barrier, the warp has arrived there.
        let pc = self.groups[0].pc;
        if self.groups.iter().all(|group| group.pc == pc && group.parked == Parked::Barrier) {
            self.take(pc, |_| true);
            return Next::Run;
        }
        // The same holds if each is at a different instruction that names the same barrier. The last one executes it
        // for all.
        let first = self.groups[0].parked;
        if matches!(first, Parked::Threads { .. }) && self.groups.iter().all(|group| group.parked == first) {
            let last = self.groups.iter().map(|group| group.pc).max().unwrap_or(pc);
            self.take(last, |_| true);
            for group in &mut self.groups {
                (group.pc, group.parked) = (group.pc + 1, Parked::Arrived);
            }
            return Next::Run;
        }
        Next::Stuck
    }

    /// Lanes that have arrived at a barrier by an instruction other than the running group's.
    pub(crate) fn arrived(&self) -> u32 {
        let arrived = self.groups.iter().filter(|group| group.parked == Parked::Arrived);
        arrived.fold(0, |lanes, group| lanes | group.mask)
    }

    /// Continues after a barrier, with the group at the lowest position.
    pub(crate) fn pass(&mut self) {
        self.pc += 1;
        if self.groups.is_empty() {
            return;
        }
        self.park(Parked::No);
        for group in &mut self.groups {
            if group.parked == Parked::Arrived {
                group.parked = Parked::No;
            }
        }
        self.choose();
    }

    /// Lets groups that polled try again. The one with the lowest position becomes the running group.
    pub(crate) fn wake(&mut self) {
        for group in &mut self.groups {
            if group.parked == Parked::Spun {
                group.parked = Parked::No;
            }
        }
        if self.mask == 0 {
            let pc = self.reconvergence_pc();
            self.take(pc, |parked| parked == Parked::No);
        }
    }

    fn take(&mut self, pc: u32, eligible: impl Fn(Parked) -> bool) {
        self.pc = pc;
        self.mask = 0;
        self.groups.retain(|group| {
            let joins = group.pc == pc && eligible(group.parked);
            if joins {
                self.mask |= group.mask;
            }
            !joins
        });
    }

    /// A `bar.warp.sync` completes when all named lanes that are still live have reached one.
    fn release_synchronised(&mut self) {
        let live = self.live;
        for index in 0..self.groups.len() {
            let Parked::Sync(named) = self.groups[index].parked else { continue };
            let same = |group: &Group| group.parked == Parked::Sync(named);
            let arrived = self.groups.iter().filter(|group| same(group)).fold(0, |lanes, group| lanes | group.mask);
            if named & live & !arrived == 0 {
                for group in self.groups.iter_mut().filter(|group| group.parked == Parked::Sync(named)) {
                    self.synchronised.push(Synchronised { pc: group.pc, mask: group.mask, named });
                    group.parked = Parked::No;
                    group.pc += 1;
                }
            }
        }
    }

    /// The position of a collective instruction that all its named lanes have reached, if any, and what they are parked
    /// for.
    fn assembled(&self) -> Option<(u32, Parked)> {
        self.groups.iter().find_map(|group| {
            let Parked::Collective(named) = group.parked else { return None };
            let here = |other: &&Group| other.pc == group.pc && other.parked == group.parked;
            let arrived = self.groups.iter().filter(here).fold(0, |lanes, other| lanes | other.mask);
            (named & self.live & !arrived == 0).then_some((group.pc, group.parked))
        })
    }

    /// Notes that the warp yields while it polls. `changes` is the number of changes in its block.
    ///
    /// Only a warp that yields several times while nothing changes may be stuck. Its registers are compared from the
    /// second time on. To hash thousands of them each time would take longer than the work of all other warps
    /// meanwhile, which execute one instruction per turn.
    pub(crate) fn yielded(&mut self, changes: u64) -> Seen {
        let iteration = self.steps - std::mem::replace(&mut self.polls.gave_up, self.steps);
        let same_length = std::mem::replace(&mut self.polls.iteration, iteration) == iteration;
        if self.polls.changes.replace(changes) != Some(changes) {
            self.polls.state = None;
            self.polls.cycle = if same_length { iteration } else { 0 };
            return Seen::Unknown;
        }
        let state = self.state();
        match self.polls.state.replace(state) {
            Some(before) if before != state => {
                self.polls.cycle = 0;
                Seen::Other
            }
            _ => {
                self.polls.cycle = iteration;
                Seen::Again
            }
        }
    }

    /// A hash of everything except memory that determines what the warp does next.
    pub(crate) fn state(&self) -> u64 {
        let mut hash = u64::from(self.pc) << 32 | u64::from(self.mask);
        let mut mix = |value: u64| hash = (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        // Lane by lane, so that the loops vectorise: a waiting warp is hashed each time it polls.
        let (mut narrow, mut wide) = ([0u32; LANES], [0u64; LANES]);
        for row in &self.regs.r32 {
            for (lane, value) in narrow.iter_mut().zip(row.0) {
                *lane = (lane.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9);
            }
        }
        for row in &self.regs.r64 {
            for (lane, value) in wide.iter_mut().zip(row.0) {
                *lane = (lane.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
        narrow.iter().for_each(|value| mix(u64::from(*value)));
        wide.iter().for_each(|value| mix(*value));
        self.regs.preds.iter().for_each(|value| mix(u64::from(*value)));
        self.groups.iter().for_each(|group| mix(u64::from(group.pc) << 32 | u64::from(group.mask)));
        hash
    }
}

fn refill<T: Copy>(rows: &mut Vec<T>, len: usize, value: T) {
    rows.clear();
    rows.resize(len, value);
}

#[cfg(test)]
mod tests {
    use super::{Seen, Warp};
    use crate::row::Row32;

    fn yields(warp: &mut Warp, changes: u64) -> Seen {
        warp.steps += 4;
        warp.yielded(changes)
    }

    #[test]
    fn a_warp_repeats_itself_only_while_nothing_changes() {
        let mut warp = Warp::default();
        warp.regs.r32.push(Row32::ZERO);
        let quiet = [0, 0, 0].map(|changes| yields(&mut warp, changes));
        assert_eq!(quiet, [Seen::Unknown, Seen::Again, Seen::Again]);
        assert_eq!(warp.polls.cycle, 4);
        // While other warps make progress, its registers are not compared.
        let among_others = [1, 2, 3].map(|changes| yields(&mut warp, changes));
        assert_eq!(among_others, [Seen::Unknown; 3]);
        assert_eq!((warp.polls.state, warp.polls.cycle), (None, 4));
        // A loop that counts.
        assert_eq!(yields(&mut warp, 3), Seen::Again);
        warp.regs.r32[0].0[3] = 1;
        assert_eq!(yields(&mut warp, 3), Seen::Other);
        assert_eq!(yields(&mut warp, 4), Seen::Unknown);
    }
}
