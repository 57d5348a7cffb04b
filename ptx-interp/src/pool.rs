//! The registers of a block, which `setmaxnreg` moves between its warps. The number that a warp really uses is not
//! tracked: PTX has virtual registers, and only ptxas knows.

use ptx_gemm_ptx::warp::Resize;

use crate::row::LANES;

/// Warps per warp group.
const GROUP: usize = 4;
/// Number of a warp group's `setmaxnreg` instructions that are compared between its warps.
const MOST_COMPARED: usize = 1 << 12;

/// Registers of a multiprocessor.
const FILE: u64 = 64 << 10;
/// Schedulers of a multiprocessor, which share its registers equally.
const SCHEDULERS: u64 = 4;
/// Registers per thread are a multiple of this.
const GRANULE: u64 = 8;
const MOST: u64 = 256;

/// Registers that each thread starts with in a kernel that uses `setmaxnreg`, for at most this many threads per block
/// and blocks per multiprocessor: the number that fits, but never more than the kernel requests. This is what ptxas
/// 13.0 assigns. It ignores `setmaxnreg` if `.minnctapersm` is not stated; such a kernel counts as having one block per
/// multiprocessor here.
pub(crate) fn at_entry(threads: u64, blocks: u64, requested: u32) -> u32 {
    let warps = threads.div_ceil(LANES as u64).saturating_mul(blocks).max(1);
    let lanes = warps.div_ceil(SCHEDULERS).saturating_mul(SCHEDULERS * LANES as u64);
    let share = (FILE / lanes / GRANULE * GRANULE).min(MOST);
    requested.min(share as u32)
}

/// A `setmaxnreg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resizing {
    pub(crate) resize: Resize,
    /// Registers per thread.
    pub(crate) count: u32,
}

/// The pool of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// Unassigned registers; `None` if the number that threads start with is not known.
    free: Option<u64>,
    /// Registers per thread, by warp; 0 if not known.
    held: Vec<u32>,
    /// The instructions that each warp group has executed, with the position of the first warp's, and the number of
    /// them that each warp has executed.
    executed: Vec<Vec<(Resizing, u32)>>,
    done: Vec<usize>,
}

/// The outcome of a warp's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passes,
    /// The pool does not have enough registers; with the number that is missing.
    Waits {
        missing: u64,
    },
    /// It broke a rule.
    Wrong(String),
}

/// Warps of a warp group that executed different numbers of `setmaxnreg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uneven {
    /// The warp that executed the fewest.
    pub(crate) warp: usize,
    pub(crate) fewest: usize,
    pub(crate) most: usize,
    /// The first instruction that it did not execute, unless there are too many.
    pub(crate) missing: Option<u32>,
}

impl Pool {
    pub(crate) fn reset(&mut self, registers: Option<u32>, warps: usize) {
        self.free = registers.map(|_| 0);
        self.held.clear();
        self.held.resize(warps, registers.unwrap_or(0));
        self.executed.clear();
        self.executed.resize(warps.div_ceil(GROUP), Vec::new());
        self.done.clear();
        self.done.resize(warps, 0);
    }

    /// Executes a warp's `setmaxnreg` at this position; called again until it succeeds.
    pub(crate) fn execute(&mut self, warp: usize, what: Resizing, pc: u32) -> Outcome {
        let Resizing { resize, count } = what;
        let group = &mut self.executed[warp / GROUP];
        match group.get(self.done[warp]) {
            Some((other, _)) if *other != what => {
                let (way, count) = (other.resize.name(), other.count);
                return Outcome::Wrong(format!("where another warp of its warp group has executed {way} {count}"));
            }
            Some(_) => {}
            None if group.len() < MOST_COMPARED => group.push((what, pc)),
            None => {}
        }
        let held = self.held[warp];
        let legal = held == 0 || if resize == Resize::Inc { count >= held } else { count <= held };
        if !legal {
            return Outcome::Wrong(format!("but has {held} registers per thread"));
        }
        if let Some(free) = &mut self.free {
            let change = u64::from(count.abs_diff(held)) * LANES as u64;
            match resize {
                Resize::Dec => *free += change,
                Resize::Inc if change > *free => return Outcome::Waits { missing: change - *free },
                Resize::Inc => *free -= change,
            }
        }
        self.held[warp] = count;
        self.done[warp] += 1;
        Outcome::Passes
    }

    /// Two warps of one warp group that executed different numbers of `setmaxnreg`.
    pub(crate) fn uneven(&self) -> Option<Uneven> {
        self.done.chunks(GROUP).enumerate().find_map(|(group, done)| {
            let (most, fewest) = (done.iter().max()?, done.iter().min()?);
            let warp = done.iter().position(|count| count == fewest)?;
            let missing = self.executed[group].get(*fewest).map(|(_, pc)| *pc);
            (most != fewest).then_some(Uneven { warp: GROUP * group + warp, fewest: *fewest, most: *most, missing })
        })
    }
}
