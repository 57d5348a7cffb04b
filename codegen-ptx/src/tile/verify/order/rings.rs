//! Rings: what is written to a slot, what is read from it, and the order of these accesses.

use super::super::Check;
use super::{Block, COPIES_OF_A_ROLE, Clock, Mbarrier, READING, Written, join};
use crate::Violation;
use crate::tile::{Empty, Full, Index, Mover, Op};

impl Block<'_> {
    pub(super) fn acquire(&mut self, t: usize, ring: usize, kt: Option<u32>) -> Result<bool, Violation> {
        let decl = &self.program.rings[ring];
        let cursor = &self.threads[t].rings[ring];
        if cursor.acquired > cursor.committed {
            return Err(
                self.fault(format_args!("{}: a slot is acquired before the previous one is committed", decl.name))
            );
        }
        if kt.is_none() && cursor.acquired - cursor.filled_before >= decl.depth {
            return Err(
                self.fault(format_args!("{}: more slots are filled before the loop than the ring has", decl.name))
            );
        }
        if self.past_the_end(ring, cursor.acquired - cursor.filled_before) {
            return Ok(true);
        }
        self.take_slot(t, ring)
    }

    /// Takes the next slot if it is free; returns false if it is not free yet.
    pub(super) fn take_slot(&mut self, t: usize, ring: usize) -> Result<bool, Violation> {
        let decl = &self.program.rings[ring];
        let acquired = self.threads[t].rings[ring].acquired;
        let (round, slot) = (acquired / decl.depth, (acquired % decl.depth) as usize);
        if self.idle(t, ring) {
            self.threads[t].rings[ring].acquired += 1;
            return Ok(true);
        }
        if matches!(decl.empty, Empty::Mbarrier { .. }) && round > 0 {
            let barrier = &self.empty[ring][slot];
            if barrier.phases < round {
                return Ok(false);
            }
            join(&mut self.threads[t].clock, &barrier.done);
        }
        let clock = &self.threads[t].clock;
        for buffer in &decl.buffers {
            if self.slots[*buffer][slot].read.iter().zip(clock).any(|(read, seen)| seen < read) {
                return Err(
                    self.fault(format_args!("{}: slot {slot} is acquired while it may still be read", decl.name))
                );
            }
        }
        self.threads[t].rings[ring].acquired += 1;
        Ok(true)
    }

    /// Whether K-tile number `k_tile` of this tile of D is past the end of k and therefore not copied. In other rings such
    /// copies write zeros.
    fn past_the_end(&self, ring: usize, k_tile: u32) -> bool {
        k_tile >= self.k_tiles && (self.by_tma[ring] || self.program.carried(ring))
    }

    /// Whether a thread takes no part in filling a ring: with TMA only the role's first thread does.
    pub(super) fn idle(&self, t: usize, ring: usize) -> bool {
        self.by_tma[ring] && !t.is_multiple_of(COPIES_OF_A_ROLE)
    }

    pub(super) fn copy(&mut self, t: usize, buffer: usize, tile: Index, by: Mover, kt: Option<u32>) -> Check {
        let Some(ring) = self.program.ring_of(buffer) else { return Err(self.fault("a buffer is not in any ring")) };
        let decl = &self.program.rings[ring];
        let name = &self.program.buffers[buffer].name;
        let cursor = &self.threads[t].rings[ring];
        if self.past_the_end(ring, cursor.committed - cursor.filled_before) {
            return Ok(());
        }
        if cursor.acquired != cursor.committed + 1 {
            return Err(self.fault(format_args!("{name} is copied to outside acquire and commit")));
        }
        let tile = match (tile, kt) {
            (Index::At(n), None) => n,
            (Index::Ahead(distance), Some(kt)) => kt + distance,
            _ => {
                return Err(self.fault("the K-tile must be a constant before the loop, and relative to `kt` inside it"));
            }
        };
        if tile != cursor.committed - cursor.filled_before {
            let next = cursor.committed - cursor.filled_before;
            return Err(self
                .fault(format_args!("K-tile {tile} is copied, but {next} is next: K-tiles must be copied in order")));
        }
        let slot = (cursor.committed % decl.depth) as usize;
        if self.idle(t, ring) {
            return Ok(());
        }
        if by.is_async() {
            self.write(t, buffer, slot, tile, None)?;
            if let Some(group) = self.threads[t].groups.last_mut() {
                group.push((buffer, slot));
            }
        } else {
            let staged = &mut self.threads[t].staged;
            if staged.iter().any(|(of, _)| *of == buffer) {
                return Err(self.fault(format_args!("{name} is copied twice before a commit")));
            }
            staged.push((buffer, tile));
        }
        Ok(())
    }

    /// A thread's part of a slot is written, or the write begins. `acquire` has already checked that its readers are
    /// done.
    pub(super) fn write(&mut self, t: usize, buffer: usize, slot: usize, k_tile: u32, done: Option<u32>) -> Check {
        self.not_staged(t, buffer)?;
        let name = &self.program.buffers[buffer].name;
        let tile = (self.threads[t].tile, k_tile);
        let state = &self.slots[buffer][slot];
        if let Some(own) = &state.written[t] {
            if own.done.is_none() {
                return Err(
                    self.fault(format_args!("slot {slot} of {name} is written while a copy into it is in flight"))
                );
            }
            if own.tile == tile {
                return Err(self.fault(format_args!("{name} is copied twice before a commit")));
            }
        }
        let other = state.written.iter().enumerate().any(|(writer, of)| {
            self.threads[writer].role != self.threads[t].role && of.is_some_and(|of| of.tile == tile)
        });
        if other {
            return Err(self.fault(format_args!("two roles fill one slot of {name}")));
        }
        self.slots[buffer][slot].written[t] = Some(Written { tile, done });
        Ok(())
    }

    pub(super) fn commit(&mut self, t: usize, ring: usize) -> Check {
        let decl = &self.program.rings[ring];
        let cursor = self.threads[t].rings[ring].clone();
        let k_tile = cursor.committed - cursor.filled_before;
        if self.past_the_end(ring, k_tile) {
            return Ok(());
        }
        if cursor.acquired != cursor.committed + 1 {
            return Err(self.fault(format_args!("{}: it is committed without an acquire", decl.name)));
        }
        let slot = (cursor.committed % decl.depth) as usize;
        if self.idle(t, ring) {
            self.threads[t].rings[ring].committed += 1;
            return Ok(());
        }
        let now = self.threads[t].clock[t];
        let staged = std::mem::take(&mut self.threads[t].staged);
        for (buffer, k_tile) in staged {
            if decl.buffers.contains(&buffer) {
                self.write(t, buffer, slot, k_tile, Some(now))?;
            } else {
                self.threads[t].staged.push((buffer, k_tile));
            }
        }
        for buffer in &decl.buffers {
            let written = self.slots[*buffer][slot].written[t];
            let fresh = written.is_some_and(|written| written.tile == (self.threads[t].tile, k_tile));
            if !fresh {
                let name = &self.program.buffers[*buffer].name;
                return Err(self.fault(format_args!("{} is committed without a copy to {name}", decl.name)));
            }
        }
        match decl.full {
            Full::Barrier => {}
            Full::CopyGroups { .. } => self.threads[t].groups.push(Vec::new()),
            Full::Mbarrier { .. } => {
                // The arrival takes effect when the thread's copies are complete.
                self.land(t);
                let all = self.members(|op| matches!(op, Op::Commit { ring: of } if *of == ring));
                let count = if self.by_tma[ring] { 1 } else { all };
                arrive(&mut self.full[ring][slot], &self.threads[t].clock, count);
            }
        }
        self.threads[t].rings[ring].committed += 1;
        Ok(())
    }

    /// Completes all of the thread's asynchronous copies.
    pub(super) fn land(&mut self, t: usize) {
        self.threads[t].groups.push(Vec::new());
        self.land_groups(t, 0);
    }

    /// Number of threads that use a slot: those of one group, if groups take turns.
    pub(super) fn members(&self, uses: impl Fn(&Op) -> bool) -> u32 {
        let members = self.threads.iter().filter(|thread| thread.group == 0);
        members.filter(|thread| thread.nodes.iter().any(|node| uses(node.op))).count() as u32
    }

    pub(super) fn wait(&mut self, t: usize, ring: usize, kt: Option<u32>) -> Result<bool, Violation> {
        let decl = &self.program.rings[ring];
        let cursor = &self.threads[t].rings[ring];
        if kt.is_none() {
            return Err(self.fault(format_args!("{}: a slot can only be waited for inside the loop", decl.name)));
        }
        if cursor.borrowed > 0 {
            return Err(
                self.fault(format_args!("{}: a slot is waited for before the lent ones are returned", decl.name))
            );
        }
        if cursor.waited > cursor.released + self.kept(t, ring) {
            return Err(
                self.fault(format_args!("{}: a slot is waited for before the previous one is released", decl.name))
            );
        }
        match decl.full {
            Full::Mbarrier { .. } => self.wait_full(t, ring),
            Full::Barrier | Full::CopyGroups { .. } => {
                if let Full::CopyGroups { in_flight } = decl.full {
                    self.land_groups(t, in_flight as usize);
                }
                self.threads[t].rings[ring].waited += 1;
                self.threads[t].blocked = Some(0);
                Ok(false)
            }
        }
    }

    /// Waits until the mbarrier of the next slot signals that it is full; returns false if it is not full yet.
    pub(super) fn wait_full(&mut self, t: usize, ring: usize) -> Result<bool, Violation> {
        let decl = &self.program.rings[ring];
        let waited = self.threads[t].rings[ring].waited;
        let (round, slot) = (waited / decl.depth, (waited % decl.depth) as usize);
        let fills = self.fills(ring, slot);
        if self.threads[t].clock[fills] < round {
            return Err(self.fault(format_args!(
                "{}: slot {slot} may look full while an earlier K-tile is copied to it: nothing tells this thread \
                         that this copy is complete",
                decl.name
            )));
        }
        let barrier = &self.full[ring][slot];
        if barrier.phases <= round {
            return Ok(false);
        }
        join(&mut self.threads[t].clock, &barrier.done);
        self.threads[t].clock[fills] = round + 1;
        self.threads[t].rings[ring].waited += 1;
        Ok(true)
    }

    /// Completes the thread's committed groups, except the newest `in_flight`.
    pub(super) fn land_groups(&mut self, t: usize, in_flight: usize) {
        let committed = self.threads[t].groups.len() - 1;
        let keep = committed.saturating_sub(in_flight);
        let now = self.threads[t].clock[t];
        let landed: Vec<_> = self.threads[t].groups.drain(..keep).flatten().collect();
        for (buffer, slot) in landed {
            if let Some(written) = &mut self.slots[buffer][slot].written[t] {
                written.done.get_or_insert(now);
            }
        }
    }

    /// Slots of a ring that a thread keeps while it waits for the next one.
    fn kept(&self, t: usize, ring: usize) -> u32 {
        let releases = self.threads[t].nodes.iter().map(|node| match node.op {
            Op::Release { ring: of, kept } if *of == ring => *kept,
            _ => 0,
        });
        releases.max().unwrap_or(0)
    }

    pub(super) fn release(&mut self, t: usize, ring: usize, kept: u32) -> Result<bool, Violation> {
        let decl = &self.program.rings[ring];
        let cursor = self.threads[t].rings[ring].clone();
        if cursor.released == cursor.waited {
            return Err(self.fault(format_args!("{}: it is released without a wait", decl.name)));
        }
        if kept > 0 {
            if cursor.kept_of == cursor.waited {
                return Err(self.fault(format_args!("{}: a slot is kept twice after one wait", decl.name)));
            }
            self.threads[t].rings[ring].kept_of = cursor.waited;
        }
        if cursor.waited - cursor.released <= kept {
            return Ok(true);
        }
        if cursor.waited - cursor.released > kept + 1 {
            return Err(self.fault(format_args!("{}: two slots are released at once", decl.name)));
        }
        self.threads[t].rings[ring].released += 1;
        let slot = (cursor.released % decl.depth) as usize;
        match decl.empty {
            Empty::NextWait => Ok(true),
            Empty::Barrier => {
                self.threads[t].blocked = Some(0);
                Ok(false)
            }
            Empty::Mbarrier { .. } => {
                let count = self.members(|op| matches!(op, Op::Release { ring: of, .. } if *of == ring));
                arrive(&mut self.empty[ring][slot], &self.threads[t].clock, count);
                Ok(true)
            }
        }
    }

    /// A thread reads the newest slot that it has waited for; returns the slot.
    pub(super) fn fetch(&mut self, t: usize, buffer: usize, kt: Option<u32>) -> Result<usize, Violation> {
        let name = &self.program.buffers[buffer].name;
        let Some(ring) = self.program.ring_of(buffer) else { return Err(self.fault("a buffer is not in any ring")) };
        let thread = &self.threads[t];
        let cursor = &thread.rings[ring];
        let (Some(kt), true) = (kt, cursor.waited > cursor.released) else {
            return Err(self.fault(format_args!("{name} is read outside wait and release")));
        };
        let slot = ((cursor.waited - 1) % self.program.rings[ring].depth) as usize;
        let tile = (thread.tile, kt);
        let state = &self.slots[buffer][slot];
        if state.written.iter().all(Option::is_none) {
            let why = if self.is_staged_in(buffer) { "a tile of D is in its memory" } else { "nothing filled it" };
            return Err(self.fault(format_args!("slot {slot} of {name} is read, but {why}")));
        }
        for (writer, written) in state.written.iter().enumerate().filter_map(|(w, of)| Some((w, of.as_ref()?))) {
            if written.tile != tile {
                let (held, of) = (written.tile.1, written.tile.0);
                let other = if of == tile.0 { "" } else { " of another tile" };
                return Err(self.fault(format_args!("K-tile {kt} is read, but {name} holds K-tile {held}{other}")));
            }
            if written.done.is_none_or(|done| thread.clock[writer] < done) {
                return Err(self.fault(format_args!("{name} is read before its copies are complete for all threads")));
            }
        }
        let now = thread.clock[t];
        let read = &mut self.slots[buffer][slot].read[t];
        if *read != READING {
            *read = now;
        }
        Ok(slot)
    }
}

/// An arrival at a barrier that completes a phase after `count` arrivals.
pub(super) fn arrive(barrier: &mut Mbarrier, clock: &Clock, count: u32) {
    join(&mut barrier.pending, clock);
    barrier.arrived += 1;
    if barrier.arrived == count {
        barrier.arrived = 0;
        barrier.phases += 1;
        barrier.done = barrier.pending.clone();
    }
}
