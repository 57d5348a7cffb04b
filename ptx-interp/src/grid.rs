//! Runs a grid. Its clusters (single blocks, if none are specified) run on the host's threads, in ascending order, each
//! until it is finished or waits for another one. Or they run on one thread in other orders, in which they may also
//! alternate.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::{Block, Progress};
use crate::cost::{Cost, Counters};
use crate::env::Env;
use crate::options::{BlockOrder, Counting};
use crate::report::Report;
use crate::shadows::Shadows;
use crate::violation::Violation;

/// Number of clusters that alternate at a time.
const RESIDENT: usize = 6;

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Shadows of the shared memory of earlier grids, for reuse: to get their memory from the operating system again takes
/// a fifth of the time of a small launch.
static SHADOWS: Mutex<Vec<Shadows>> = Mutex::new(Vec::new());
/// Most shadows that are kept. Each takes up to 20 MB for each block of a cluster.
const MOST_SHADOWS: usize = 8;

/// A grid that is running.
pub(crate) struct Grid<'e, 'a> {
    env: &'e Env<'a>,
    /// Number of times that a cluster has written something and then stopped.
    version: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of clusters that have been started.
    next: u64,
    random: u64,
    /// Clusters that wait for others.
    waiting: VecDeque<Waiting>,
    running: usize,
    /// The violation of the lowest cluster so far.
    violation: Option<(u64, Violation)>,
    report: Report,
    /// By the pair of instructions: the lowest cluster that has the warning.
    warnings: BTreeMap<(u32, u32), (u64, Violation)>,
    /// What each cluster has printed.
    printed: BTreeMap<u64, Vec<u8>>,
    /// Finished clusters, to be reused.
    spare: Vec<Block>,
}

struct Waiting {
    block: Block,
    /// Version of memory that the cluster has last seen.
    seen: u64,
    stuck: bool,
}

impl<'e, 'a> Grid<'e, 'a> {
    pub(crate) fn new(env: &'e Env<'a>) -> Grid<'e, 'a> {
        let random = if let BlockOrder::Seeded(seed) = env.block_order { seed } else { 0 };
        let random = random.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Grid { env, version: AtomicU64::new(0), state: Mutex::new(State { random, ..State::default() }) }
    }

    /// Runs all clusters on at most this many host threads.
    pub(crate) fn run(self, threads: Option<usize>) -> Result<Report, Violation> {
        let blocks = usize::try_from(self.env.clusters()).unwrap_or(usize::MAX);
        let workers = threads.unwrap_or_else(rayon::current_num_threads).min(blocks).max(1);
        if workers == 1 {
            self.work();
        } else {
            rayon::scope(|scope| {
                for _ in 1..workers {
                    scope.spawn(|_| self.work());
                }
                self.work();
            });
        }
        let state = std::mem::take(&mut *self.lock());
        let result = match state.violation {
            Some((_, violation)) => Err(violation),
            None => {
                let mut report = state.report;
                report.warnings = state.warnings.into_values().map(|(_, warning)| warning).collect();
                report.printed = state.printed.into_values().flatten().collect();
                if self.env.counting == Counting::On {
                    report.cost = Some(self.cost(&state.spare));
                }
                Ok(report)
            }
        };
        let mut shadows = SHADOWS.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_SHADOWS.saturating_sub(shadows.len());
        shadows.extend(state.spare.into_iter().map(|block| block.memory.shadow).take(room));
        result
    }

    /// Adds up the counters of the clusters. A counter may belong to several clusters, one after another.
    fn cost(&self, blocks: &[Block]) -> Cost {
        let mut sum = Counters::new(self.env.code.instrs.len(), self.env.global.len(), self.env.regions);
        for counters in blocks.iter().filter_map(|block| block.memory.counters.as_deref()) {
            sum += counters;
        }
        Cost::new(&sum, self.env.code, self.env.global.labels(), self.env.regions)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of one host thread: runs clusters while some can make progress.
    fn work(&self) {
        while let Some(mut block) = self.take() {
            let seen = self.version.load(Ordering::SeqCst);
            let progress = block.run(self.env, seen);
            let wrote = std::mem::take(&mut block.memory.wrote_global);
            if wrote {
                self.version.fetch_add(1, Ordering::SeqCst);
            }
            self.put_back(block, progress, seen, wrote);
        }
    }

    fn put_back(&self, mut block: Block, progress: Progress, seen: u64, wrote: bool) {
        let mut state = self.lock();
        state.running -= 1;
        match progress {
            Progress::Finished => {
                let number = block.memory.number;
                for (lines, warning) in block.warnings(self.env) {
                    let lowest = state.warnings.get(&lines).map_or(u64::MAX, |(lowest, _)| *lowest);
                    if number < lowest {
                        state.warnings.insert(lines, (number, warning));
                    }
                }
                if !block.memory.printed.is_empty() {
                    state.printed.insert(number, std::mem::take(&mut block.memory.printed));
                }
                state.report.instructions += block.warps.iter().map(|warp| warp.steps).sum::<u64>();
                state.report.fma += block.warps.iter().map(|warp| warp.fma).sum::<u64>();
                state.report.mad += block.warps.iter().map(|warp| warp.mad).sum::<u64>();
                state.spare.push(block);
            }
            Progress::Waits { stuck } => state.waiting.push_back(Waiting { block, seen, stuck: stuck && !wrote }),
            Progress::Broken(violation) => self.keep_lowest(&mut state, block.memory.number, violation),
            Progress::Abandoned => state.spare.push(block),
        }
    }

    /// The next cluster to run: preferably one that waited and may continue now, then a new one, then any that waits.
    fn take(&self) -> Option<Block> {
        let mut state = self.lock();
        let version = self.version.load(Ordering::SeqCst);
        let may_move = |waiting: &Waiting| !waiting.stuck || waiting.seen != version;
        state.waiting.retain(|waiting| self.env.matters(waiting.block.memory.number));
        let changed = match self.env.slices() {
            true => self.sliced(&mut state, may_move),
            false => state.waiting.iter().position(|waiting| waiting.seen != version),
        };
        let room = state.waiting.len() + state.running < self.env.resident_clusters();
        let unstarted = room && state.next < self.env.clusters();
        let block = if let Some(index) = changed {
            state.waiting.remove(index).map(|waiting| waiting.block)
        } else if unstarted && self.start(&mut state).is_some() {
            let number = self.number(state.next - 1);
            let spare = state.spare.pop();
            state.running += 1;
            drop(state);
            let mut block = spare.unwrap_or_else(|| {
                let mut block = Block::default();
                let shadow = SHADOWS.lock().unwrap_or_else(PoisonError::into_inner).pop();
                block.memory.shadow = shadow.unwrap_or_default();
                block
            });
            block.reset(self.env, number);
            return Some(block);
        } else {
            let index = state.waiting.iter().position(may_move);
            index.and_then(|index| state.waiting.remove(index)).map(|waiting| waiting.block)
        };
        match block {
            Some(block) => {
                state.running += 1;
                Some(block)
            }
            None => {
                if state.running == 0 && state.violation.is_none() {
                    let deadlock = state.waiting.iter().min_by_key(|waiting| waiting.block.memory.number);
                    let deadlock =
                        deadlock.map(|waiting| (waiting.block.memory.number, waiting.block.deadlock(self.env)));
                    if let Some((number, mut violation)) = deadlock {
                        let (all, started) = (self.env.clusters(), state.next);
                        if started < all {
                            violation.message += &self.unstarted(all - started);
                        }
                        self.keep_lowest(&mut state, number, violation);
                    }
                }
                None
            }
        }
    }

    /// Why blocks that have not started do not end the wait of those that have.
    fn unstarted(&self, clusters: u64) -> String {
        let resident = self.env.resident.unwrap_or(0);
        let left = clusters.saturating_mul(self.env.ranks().into());
        format!(
            "; {left} blocks of the grid have not started: the GPU holds {resident} at once, none of these can exit, and so \
             no other becomes resident"
        )
    }

    /// The alternating cluster that is next; `None` if another one should be started.
    fn sliced(&self, state: &mut State, may_move: impl Fn(&Waiting) -> bool) -> Option<usize> {
        if state.next < self.env.clusters() && state.waiting.len() < RESIDENT.min(self.env.resident_clusters()) {
            return None;
        }
        let able: Vec<usize> = (0..state.waiting.len()).filter(|index| may_move(&state.waiting[*index])).collect();
        match self.env.block_order {
            BlockOrder::Seeded(_) if !able.is_empty() => {
                // xorshift, as for the turns of warps.
                state.random ^= state.random << 13;
                state.random ^= state.random >> 7;
                state.random ^= state.random << 17;
                Some(able[(state.random >> 33) as usize % able.len()])
            }
            // A cluster that had a turn moves to the end.
            _ => able.first().copied(),
        }
    }

    /// Starts the next cluster that has a result of interest.
    fn start(&self, state: &mut State) -> Option<u64> {
        while state.next < self.env.clusters() {
            let number = self.number(state.next);
            // In the forward order, the later ones do not matter either.
            if !self.env.matters(number) && self.env.block_order == BlockOrder::Forward {
                return None;
            }
            state.next += 1;
            if self.env.matters(number) {
                return Some(number);
            }
        }
        None
    }

    /// The index of the cluster that is started as number `index`.
    fn number(&self, index: u64) -> u64 {
        let blocks = self.env.clusters();
        match self.env.block_order {
            BlockOrder::Forward | BlockOrder::Interleaved => index,
            BlockOrder::Backward => blocks - 1 - index,
            BlockOrder::Seeded(seed) => {
                // A step that is coprime to the number of clusters visits all of them.
                let mut step = (seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % blocks;
                while divisor(step, blocks) != 1 {
                    step = (step + 1) % blocks;
                }
                let at = (u128::from(index) * u128::from(step) + u128::from(seed)) % u128::from(blocks);
                at as u64
            }
        }
    }

    fn keep_lowest(&self, state: &mut State, number: u64, violation: Violation) {
        self.env.broken.fetch_min(number, Ordering::Relaxed);
        if state.violation.as_ref().is_none_or(|(lowest, _)| number < *lowest) {
            state.violation = Some((number, violation));
        }
    }
}
