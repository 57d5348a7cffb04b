//! The barrier of a cluster: `barrier.cluster.arrive` and `barrier.cluster.wait`. It counts the warps of all its blocks.

use crate::knowledge::Knowledge;

/// A warp that does not alternate between arriving and waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    ArrivedTwice,
    NotArrived,
}

impl Misuse {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Misuse::ArrivedTwice => "arrives at the cluster's barrier a second time without waiting in between",
            Misuse::NotArrived => "waits at the cluster's barrier without having arrived",
        }
    }
}

/// The progress of each warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterBarrier {
    phase: u64,
    /// By warp: the phase in which it arrived and for which it has not waited yet.
    arrived: Vec<Option<u64>>,
    /// Knowledge published by the arrivals of this phase, and by those of the previous one.
    published: Knowledge,
    known: Knowledge,
}

impl ClusterBarrier {
    pub(crate) fn reset(&mut self, warps: usize) {
        self.phase = 0;
        self.arrived.clear();
        self.arrived.resize(warps, None);
        self.published.clear();
        self.known.clear();
    }

    /// A warp arrives and publishes what it knows.
    pub(crate) fn arrive(&mut self, warp: usize, published: &Knowledge) -> Result<(), Misuse> {
        if self.arrived[warp].replace(self.phase).is_some() {
            return Err(Misuse::ArrivedTwice);
        }
        self.published.join(published);
        Ok(())
    }

    /// Begins the next phase if every warp has arrived or, according to `exited`, has exited; returns whether it did.
    pub(crate) fn complete(&mut self, exited: impl Fn(usize) -> bool) -> bool {
        let here = |(warp, arrived): (usize, &Option<u64>)| *arrived == Some(self.phase) || exited(warp);
        let anybody = self.arrived.contains(&Some(self.phase));
        let complete = anybody && self.arrived.iter().enumerate().all(here);
        if complete {
            self.phase += 1;
            self.known.clone_from(&self.published);
        }
        complete
    }

    /// A warp waits; returns what it learns if its phase is complete.
    pub(crate) fn wait(&mut self, warp: usize) -> Result<Option<&Knowledge>, Misuse> {
        let phase = self.arrived[warp].ok_or(Misuse::NotArrived)?;
        if phase == self.phase {
            return Ok(None);
        }
        self.arrived[warp] = None;
        Ok(Some(&self.known))
    }

    /// Whether a warp has arrived and waits for others.
    pub(crate) fn has_arrived(&self, warp: usize) -> bool {
        self.arrived[warp] == Some(self.phase)
    }
}
