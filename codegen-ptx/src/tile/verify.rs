//! The verifier of tile IR. It runs the roles against each other over a few more K-tiles than the deepest ring has slots,
//! and accepts a program if
//!
//! - a slot is acquired only after it was released, and its last read is ordered before by a barrier or an mbarrier;
//! - all buffers of a ring are copied between `acquire` and `commit`, with the same K-tile;
//! - a fetch or multiply reads only the slot that was waited for, and there the K-tile that the loop is at;
//! - a slot is released only when no asynchronous multiply reads it any more, and accumulators are stored or promoted only
//!   when none is in flight;
//! - no role waits for ever;
//! - buffers have the extents of the block tile, steps cover its depth, every K-tile is multiplied exactly once.

use super::{Atom, Count, Index, Op, Program, Signal, Source, Statement};
use crate::Violation;
use ptx_gemm_dsl::terms::{Load, Side};

/// Checks `program` against the rules above; the first broken one is returned.
pub fn verify(program: &Program) -> Result<(), Violation> {
    shapes(program)?;
    let deepest = program.rings.iter().map(|r| r.depth).max().unwrap_or(1);
    (0..=deepest + 2).try_for_each(|tiles| simulate(program, tiles))
}

fn broken(message: String) -> Violation {
    Violation::new("tile IR", message)
}

fn shapes(program: &Program) -> Result<(), Violation> {
    let block = program.block;
    for buffer in &program.buffers {
        let extent = if buffer.side == Side::A { block.m } else { block.n };
        if buffer.extent != extent || buffer.depth != block.k {
            return Err(broken(format!(
                "buffer {} of {} x {} for a tile of {extent} x {}",
                buffer.name, buffer.extent, buffer.depth, block.k
            )));
        }
    }
    for ring in &program.rings {
        if ring.empty == Signal::NextWait && ring.depth < 2 {
            return Err(broken(format!("ring {} has no spare slot for its next wait", ring.name)));
        }
    }
    Ok(())
}

/// One event of a role, loops unrolled.
struct Event<'a> {
    op: &'a Op,
    clause: &'a str,
    /// Value of the K-tile loop's variable.
    kt: u32,
}

fn unroll<'a>(body: &'a [Statement], tiles: u32, kt: u32, out: &mut Vec<Event<'a>>) {
    for statement in body {
        match &statement.op {
            Op::Tiles(body) => unroll(body, tiles, kt, out),
            Op::Reduce { body, .. } => {
                out.push(Event { op: &statement.op, clause: &statement.clause, kt });
                unroll(body, tiles, kt, out);
            }
            Op::Loop { count, body } => {
                let n = match count {
                    Count::KTiles | Count::KSteps => tiles,
                    Count::Exactly(n) => *n,
                };
                (0..n).for_each(|kt| unroll(body, tiles, kt, out));
            }
            Op::Steps { body, .. } => {
                out.push(Event { op: &statement.op, clause: &statement.clause, kt });
                unroll(body, tiles, kt, out);
            }
            op => out.push(Event { op, clause: &statement.clause, kt }),
        }
    }
}

#[derive(Clone, Default)]
struct Slot {
    /// K-tile per buffer of the ring, as far as copied.
    tiles: Vec<Option<u32>>,
    committed: bool,
    /// Its contents are ordered before what the consumer does now.
    visible: bool,
    /// Read, and no barrier since.
    read: bool,
}

struct RingState {
    slots: Vec<Slot>,
    acquired: u32,
    committed: u32,
    waited: u32,
    released: u32,
}

struct Machine<'a> {
    program: &'a Program,
    rings: Vec<RingState>,
    /// Asynchronous multiplies in flight: (ring, slot) that each reads.
    in_flight: Vec<Option<(usize, usize)>>,
    /// K-tiles multiplied so far.
    multiplied: Vec<u32>,
}

fn simulate(program: &Program, tiles: u32) -> Result<(), Violation> {
    let mut traces = Vec::new();
    for role in &program.roles {
        let mut events = Vec::new();
        unroll(&role.body, tiles, 0, &mut events);
        traces.push((events, 0));
    }
    let rings = program
        .rings
        .iter()
        .map(|ring| RingState {
            slots: vec![Slot { tiles: vec![None; ring.buffers.len()], ..Slot::default() }; ring.depth as usize],
            acquired: 0,
            committed: 0,
            waited: 0,
            released: 0,
        })
        .collect();
    let mut machine = Machine { program, rings, in_flight: Vec::new(), multiplied: Vec::new() };
    loop {
        let mut moved = false;
        for (events, at) in &mut traces {
            while let Some(event) = events.get(*at) {
                let done =
                    machine.step(event).map_err(|v| v.within(format_args!("{} with {tiles} K-tiles", event.clause)))?;
                if !done {
                    break;
                }
                *at += 1;
                moved = true;
            }
        }
        if traces.iter().all(|(events, at)| *at == events.len()) {
            break;
        }
        if !moved {
            return Err(broken(format!("every role waits for another, with {tiles} K-tiles")));
        }
    }
    let staged = !program.rings.is_empty();
    if staged && machine.multiplied != (0..tiles).collect::<Vec<_>>() {
        return Err(broken(format!("K-tiles {:?} multiplied, of {tiles}", machine.multiplied)));
    }
    Ok(())
}

impl Machine<'_> {
    /// Executes one event; false if it has to wait for another role.
    fn step(&mut self, event: &Event<'_>) -> Result<bool, Violation> {
        match event.op {
            Op::Acquire { ring } => return self.acquire(*ring),
            Op::Copy { ring, buffer, tile, .. } => self.copy(*ring, *buffer, *tile, event.kt)?,
            Op::Commit { ring } => self.commit(*ring)?,
            Op::Wait { ring } => return self.wait(*ring),
            Op::Release { ring } => self.release(*ring)?,
            Op::Steps { count: Count::Exactly(n), .. } => {
                let depth = match self.program.accumulators.first().map(|a| a.atom) {
                    Some(Atom::Mma(e) | Atom::Wgmma(e)) => e.k,
                    _ => 1,
                };
                if n * depth != self.program.block.k {
                    return Err(broken(format!("{n} steps of {depth} for a depth of {}", self.program.block.k)));
                }
            }
            Op::Fetch { from: Source::Buffer(buffer), .. } => self.fetch(*buffer, event.kt)?,
            Op::Multiply { acc, .. } => self.multiply(*acc, event.kt)?,
            Op::Retire { in_flight } => {
                let done = self.in_flight.len().saturating_sub(*in_flight as usize);
                self.in_flight.drain(..done);
            }
            Op::Promote { .. } | Op::Store { .. } | Op::Reduce { .. } if !self.in_flight.is_empty() => {
                return Err(broken("accumulators are read while a multiply is in flight".into()));
            }
            Op::Sync => self.barrier(),
            _ => {}
        }
        Ok(true)
    }

    fn acquire(&mut self, ring: usize) -> Result<bool, Violation> {
        let decl = &self.program.rings[ring];
        let state = &mut self.rings[ring];
        let taken = state.acquired >= state.released + decl.depth;
        let concurrent = matches!(decl.empty, Signal::Mbarrier { .. } | Signal::NamedBarrier { .. });
        if taken && concurrent {
            return Ok(false);
        }
        // The consumer of a ring with a spare slot has left the slot when it passes the next wait.
        let busy = match decl.empty {
            Signal::NextWait => state.acquired >= state.waited.max(1) + decl.depth - 1,
            _ => taken,
        };
        let slot = &mut state.slots[(state.acquired % decl.depth) as usize];
        if busy || slot.read {
            return Err(broken(format!("ring {}: a slot is acquired before its readers are done", decl.name)));
        }
        *slot = Slot { tiles: vec![None; decl.buffers.len()], ..Slot::default() };
        state.acquired += 1;
        Ok(true)
    }

    fn copy(&mut self, ring: usize, buffer: usize, tile: Index, kt: u32) -> Result<(), Violation> {
        let decl = &self.program.rings[ring];
        let state = &mut self.rings[ring];
        let position = decl.buffers.iter().position(|b| *b == buffer);
        let (Some(position), true) = (position, state.acquired == state.committed + 1) else {
            return Err(broken(format!("ring {}: a copy outside of acquire and commit", decl.name)));
        };
        let slot = &mut state.slots[(state.committed % decl.depth) as usize];
        slot.tiles[position] = Some(match tile {
            Index::At(n) => n,
            Index::Ahead(n) => kt + n,
        });
        Ok(())
    }

    fn commit(&mut self, ring: usize) -> Result<(), Violation> {
        let decl = &self.program.rings[ring];
        let state = &mut self.rings[ring];
        let slot = &mut state.slots[(state.committed % decl.depth) as usize];
        let first = slot.tiles.first().copied().flatten();
        if state.acquired != state.committed + 1 || first.is_none() || slot.tiles.iter().any(|t| *t != first) {
            return Err(broken(format!("ring {}: a commit of K-tiles {:?}", decl.name, slot.tiles)));
        }
        // Through registers the slot is written here: no reader may be left.
        if decl.fill == Load::Registers && slot.read {
            return Err(broken(format!("ring {}: a slot is written before its readers are done", decl.name)));
        }
        slot.committed = true;
        state.committed += 1;
        Ok(())
    }

    fn wait(&mut self, ring: usize) -> Result<bool, Violation> {
        let decl = &self.program.rings[ring];
        let state = &mut self.rings[ring];
        if state.waited >= state.committed {
            return match decl.full {
                Signal::Mbarrier { .. } | Signal::NamedBarrier { .. } => Ok(false),
                _ => Err(broken(format!("ring {}: a wait for a slot that nothing fills", decl.name))),
            };
        }
        state.slots[(state.waited % decl.depth) as usize].visible = true;
        state.waited += 1;
        if matches!(decl.full, Signal::BlockBarrier | Signal::CopyGroups) {
            self.barrier();
        }
        Ok(true)
    }

    fn release(&mut self, ring: usize) -> Result<(), Violation> {
        let decl = &self.program.rings[ring];
        let state = &mut self.rings[ring];
        if state.released >= state.waited {
            return Err(broken(format!("ring {}: a release without a wait", decl.name)));
        }
        let index = (state.released % decl.depth) as usize;
        if self.in_flight.contains(&Some((ring, index))) {
            return Err(broken(format!("ring {}: a slot is released while a multiply reads it", decl.name)));
        }
        state.released += 1;
        match decl.empty {
            Signal::BlockBarrier => self.barrier(),
            Signal::Mbarrier { .. } | Signal::NamedBarrier { .. } => state.slots[index].read = false,
            _ => {}
        }
        Ok(())
    }

    /// All threads have met: what was read before is read.
    fn barrier(&mut self) {
        for slot in self.rings.iter_mut().flat_map(|r| &mut r.slots) {
            slot.read = false;
        }
    }

    fn holder(&self, buffer: usize) -> Option<usize> {
        self.program.rings.iter().position(|r| r.buffers.contains(&buffer))
    }

    fn fetch(&mut self, buffer: usize, kt: u32) -> Result<(), Violation> {
        let name = self.program.buffers[buffer].name;
        let Some(ring) = self.holder(buffer) else {
            return Err(broken(format!("buffer {name} belongs to no ring")));
        };
        let decl = &self.program.rings[ring];
        let position = decl.buffers.iter().position(|b| *b == buffer).unwrap_or(0);
        let state = &mut self.rings[ring];
        if state.waited <= state.released {
            return Err(broken(format!("buffer {name} is read outside of wait and release")));
        }
        let slot = &mut state.slots[((state.waited - 1) % decl.depth) as usize];
        if !slot.visible || slot.tiles[position] != Some(kt) {
            return Err(broken(format!("buffer {name} holds K-tile {:?} where {kt} is read", slot.tiles[position])));
        }
        slot.read = true;
        Ok(())
    }

    fn multiply(&mut self, acc: usize, kt: u32) -> Result<(), Violation> {
        if self.multiplied.last() != Some(&kt) {
            self.multiplied.push(kt);
        }
        if !matches!(self.program.accumulators[acc].atom, Atom::Wgmma(_)) {
            return Ok(());
        }
        // wgmma reads its operands from the slot itself.
        for buffer in 0..self.program.buffers.len() {
            self.fetch(buffer, kt)?;
        }
        let slot = self.holder(0).map(|ring| {
            let state = &self.rings[ring];
            (ring, ((state.waited.max(1) - 1) % self.program.rings[ring].depth) as usize)
        });
        self.in_flight.push(slot);
        Ok(())
    }
}
