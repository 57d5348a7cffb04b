//! Which threads of a cluster have waited for the kernels that were launched before theirs, in a kernel that may start
//! while these still run (`griddepcontrol.wait`; CUDA C++ Programming Guide, "Programmatic Dependent Launch").

use crate::clocks::Clocks;
use crate::row::{LANES, lanes};

/// The first waits of threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// By warp, the lanes that have waited themselves.
    by: Vec<u32>,
    /// Each thread that has waited, and its clock at that time.
    first: Vec<(u16, u32)>,
}

impl Waits {
    pub(crate) fn reset(&mut self, warps: usize) {
        self.by.clear();
        self.by.resize(warps, 0);
        self.first.clear();
    }

    /// Lanes of a warp wait.
    pub(crate) fn add(&mut self, warp: usize, active: u32, clocks: &Clocks) {
        let new = active & !self.by[warp];
        self.by[warp] |= new;
        self.first.extend(lanes(new).map(|lane| ((warp * LANES + lane) as u16, clocks.now(warp))));
    }

    /// The first of some lanes of a warp that has not waited and is not ordered after a thread that has.
    pub(crate) fn too_early(&self, warp: usize, active: u32, clocks: &Clocks) -> Option<usize> {
        let after = |me: u16| self.first.iter().any(|&(thread, clock)| clocks.ordered(clock, thread, me));
        lanes(active & !self.by[warp]).find(|lane| !after((warp * LANES + lane) as u16))
    }
}
