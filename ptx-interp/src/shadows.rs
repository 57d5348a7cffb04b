//! The race detector of a cluster's shared memory: a [`Shadow`] for each of its blocks.

use crate::clocks::Clocks;
use crate::shadow::{Actor, Conflict, Judge, Past, Shadow};
use crate::shared::Layout;

/// The shadows of the blocks of a cluster, by offset in its shared memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadows {
    blocks: Vec<Shadow>,
    layout: Layout,
}

impl Shadows {
    /// Resets to the initial state: `ranks` blocks of `warps` warps each.
    pub(crate) fn reset(&mut self, bytes: usize, layout: Layout, warps: usize, ranks: usize) {
        self.layout = layout;
        self.blocks.resize_with(ranks, Shadow::default);
        for (rank, block) in self.blocks.iter_mut().enumerate() {
            block.reset(bytes, rank * warps, warps);
        }
    }

    #[inline(always)]
    fn at(&mut self, offset: usize) -> (&mut Shadow, usize) {
        let (rank, within) = self.layout.split(offset);
        (&mut self.blocks[rank], within)
    }

    #[inline(always)]
    fn of(&self, offset: usize) -> (&Shadow, usize) {
        let (rank, within) = self.layout.split(offset);
        (&self.blocks[rank], within)
    }

    #[inline(always)]
    pub(crate) fn read(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor) -> Result<(), Conflict> {
        let (shadow, offset) = self.at(offset);
        shadow.read(clocks, offset, bytes, actor)
    }

    /// [`Shadow::join`].
    #[inline(always)]
    pub(crate) fn join(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor, lanes: u32) -> bool {
        let (shadow, offset) = self.at(offset);
        shadow.join(clocks, offset, bytes, actor, lanes)
    }

    /// [`Shadow::words_after_writers`].
    pub(crate) fn words_after_writers(
        &self,
        clocks: &Clocks,
        offset: usize,
        bytes: usize,
        actor: Actor,
    ) -> Result<(), Conflict> {
        let (shadow, offset) = self.of(offset);
        shadow.words_after_writers(clocks, offset, bytes, actor)
    }

    #[inline(always)]
    pub(crate) fn write(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor) -> Result<(), Conflict> {
        let (shadow, offset) = self.at(offset);
        shadow.write(clocks, offset, bytes, actor)
    }

    /// [`Shadow::write_equal`].
    pub(crate) fn write_equal(
        &mut self,
        clocks: &Clocks,
        offset: usize,
        bytes: usize,
        actor: Actor,
        judge: Judge<'_>,
    ) -> Result<(), Conflict> {
        let (shadow, offset) = self.at(offset);
        shadow.write_equal(clocks, offset, bytes, actor, judge)
    }

    /// [`Shadow::write_apart`].
    pub(crate) fn write_apart(
        &mut self,
        clocks: &Clocks,
        offset: usize,
        bytes: usize,
        actor: Actor,
        known: (u32, u32),
    ) -> Result<(), Conflict> {
        let (shadow, offset) = self.at(offset);
        shadow.write_apart(clocks, offset, bytes, actor, known)
    }

    /// [`Shadow::start`].
    pub(crate) fn start(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor) -> Result<(), Conflict> {
        let (shadow, offset) = self.at(offset);
        shadow.start(clocks, offset, bytes, actor)
    }

    /// [`Shadow::hand_over`].
    pub(crate) fn hand_over(
        &mut self,
        clocks: &Clocks,
        offset: usize,
        bytes: usize,
        actor: Actor,
        writes: bool,
        seen: impl FnMut(Past),
    ) -> Result<(), Conflict> {
        let (shadow, offset) = self.at(offset);
        shadow.hand_over(clocks, offset, bytes, actor, writes, seen)
    }

    /// [`Shadow::has_no_writer`].
    #[inline(always)]
    pub(crate) fn has_no_writer(&self, offset: usize, bytes: usize) -> bool {
        let (shadow, offset) = self.of(offset);
        shadow.has_no_writer(offset, bytes)
    }

    /// [`Shadow::land`].
    pub(crate) fn land(&mut self, clocks: &Clocks, offset: usize, bytes: usize) {
        let (shadow, offset) = self.at(offset);
        shadow.land(clocks, offset, bytes);
    }

    /// [`Shadow::land_apart`].
    pub(crate) fn land_apart(&mut self, offset: usize, bytes: usize, columns: usize, clock: u32) {
        let (shadow, offset) = self.at(offset);
        shadow.land_apart(offset, bytes, columns, clock);
    }
}
