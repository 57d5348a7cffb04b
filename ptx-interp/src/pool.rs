//! The registers of a block, which `setmaxnreg` moves between its warps. How many each warp uses is not followed: PTX has
//! virtual registers, and only ptxas knows.

use ptx_gemm_ptx::warp::Resize;

use crate::row::LANES;

/// Warps of a warp group.
const GROUP: usize = 4;
/// Instructions of a warp group that are compared between its warps.
const MOST_COMPARED: usize = 1 << 12;

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
    /// Registers that nobody has; absent if it is not known how many threads start with.
    free: Option<u64>,
    /// Per thread, by warp; 0 if not known.
    held: Vec<u32>,
    /// What each warp group has executed, and how many of these each warp.
    executed: Vec<Vec<Resizing>>,
    done: Vec<usize>,
}

/// What happens to a warp that executes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passes,
    /// The pool has not enough; how many are missing.
    Waits {
        missing: u64,
    },
    /// It broke a rule.
    Wrong(String),
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

    /// A warp comes to a `setmaxnreg`; again and again until it passes.
    pub(crate) fn execute(&mut self, warp: usize, what: Resizing) -> Outcome {
        let Resizing { resize, count } = what;
        let group = &mut self.executed[warp / GROUP];
        match group.get(self.done[warp]) {
            Some(other) if *other != what => {
                let (way, count) = (other.resize.name(), other.count);
                return Outcome::Wrong(format!("where another warp of its warp group has executed {way} {count}"));
            }
            Some(_) => {}
            None if group.len() < MOST_COMPARED => group.push(what),
            None => {}
        }
        let held = self.held[warp];
        let legal = held == 0 || if resize == Resize::Inc { count >= held } else { count <= held };
        if !legal {
            return Outcome::Wrong(format!("and has {held} registers per thread"));
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

    /// Two warps of one warp group that did not execute equally many: the one with fewer, and both numbers.
    pub(crate) fn uneven(&self) -> Option<(usize, usize, usize)> {
        self.done.chunks(GROUP).enumerate().find_map(|(group, done)| {
            let (most, fewest) = (done.iter().max()?, done.iter().min()?);
            let warp = done.iter().position(|count| count == fewest)?;
            (most != fewest).then_some((GROUP * group + warp, *fewest, *most))
        })
    }
}
