//! The order of statements: two threads of every role are run against each other, over some K-tiles and tiles of D.
//!
//! Two threads stand for all: each writes its part of what the others read. A vector clock per thread says what happened
//! before what; barriers and mbarriers join them. So a rule is not "there is a barrier here" but "this write happens after those
//! reads", whatever orders them. The accumulators hold the terms of the sum by number, not by value.

use std::collections::HashMap;

use super::trace::{Event, Node, events, nodes};
use super::{Check, broken};
use crate::Violation;
use crate::tile::{Empty, Full, Index, Mover, Op, Program, Role, Source, Span};
use crate::violation::Site;

/// Threads of a role that are run.
const COPIES_OF_A_ROLE: usize = 2;

/// Runs the program with as many K-tiles as can make a difference: none, one, two, and around the depth of its rings.
pub(super) fn check(program: &Program) -> Check {
    let deepest = program.rings.iter().map(|ring| ring.depth).max().unwrap_or(1);
    let mut counts: Vec<u32> = (0..=2).chain(deepest..=deepest + 2).collect();
    counts.dedup();
    let tiles = if program.walk.persistent.is_some() { 2 } else { 1 };
    let roles: Vec<Vec<Node<'_>>> =
        program.roles.iter().enumerate().map(|(index, role)| nodes(index, &role.body)).collect();
    let segments = segments(program);
    for k_tiles in counts {
        Block::new(program, &roles, &segments, tiles, k_tiles).run()?;
    }
    Ok(())
}

/// Where the ranges of steps begin and end within a K-tile: terms between two of them are always multiplied together.
fn segments(program: &Program) -> Vec<u32> {
    let mut ends = vec![0, program.block.k];
    for statement in program.statements() {
        if let Op::Steps { span: Span::Tile(range), .. } = &statement.op {
            ends.extend([range.start, range.end]);
        }
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}

type Clock = Vec<u32>;

fn join(into: &mut Clock, from: &Clock) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into = (*into).max(*from));
}

/// What one thread wrote into a slot of a buffer.
#[derive(Clone, Copy)]
struct Written {
    /// Tile of D, and K-tile.
    tile: (u32, u32),
    /// When the bytes were there, by the writer's own clock; `None` while an asynchronous copy is in flight.
    done: Option<u32>,
}

/// One slot of one buffer: per thread, what it wrote and when it last read.
#[derive(Clone, Default)]
struct Slot {
    written: HashMap<usize, Written>,
    read: HashMap<usize, u32>,
}

/// One mbarrier: completed phases, arrivals in the current one, and what happened before them.
#[derive(Clone, Default)]
struct Mbarrier {
    phases: u32,
    arrived: u32,
    pending: Clock,
    done: Clock,
}

/// A thread's place in a ring.
#[derive(Clone, Default)]
struct Cursor {
    acquired: u32,
    committed: u32,
    waited: u32,
    released: u32,
}

/// An accumulator: how often each term was added; `None` before it is cleared.
type Terms = Option<Vec<u32>>;

struct Thread<'a> {
    role: usize,
    events: Vec<Event>,
    at: usize,
    clock: Clock,
    rings: Vec<Cursor>,
    /// Asynchronous copies in flight: (buffer, slot), by group; the last group is not committed.
    groups: Vec<Vec<(usize, usize)>>,
    /// Copied through registers and not yet in shared memory: (buffer, K-tile).
    staged: Vec<(usize, u32)>,
    terms: Vec<Terms>,
    tile: u32,
    stores: u32,
    reduced: Option<usize>,
    /// The barrier that it waits at.
    blocked: Option<usize>,
    nodes: &'a [Node<'a>],
}

struct Block<'a> {
    program: &'a Program,
    segments: &'a [u32],
    k_tiles: u32,
    threads: Vec<Thread<'a>>,
    /// By buffer, then slot.
    slots: Vec<Vec<Slot>>,
    /// By ring: full and empty, per slot.
    full: Vec<Vec<Mbarrier>>,
    empty: Vec<Vec<Mbarrier>>,
}

impl<'a> Block<'a> {
    fn new(program: &'a Program, roles: &'a [Vec<Node<'a>>], segments: &'a [u32], tiles: u32, k_tiles: u32) -> Self {
        let count = program.roles.len() * COPIES_OF_A_ROLE;
        let thread = |index: usize, role: &Role, nodes: &'a [Node<'a>]| Thread {
            role: index / COPIES_OF_A_ROLE,
            events: events(role, nodes, tiles, k_tiles),
            at: 0,
            clock: vec![0; count],
            rings: vec![Cursor::default(); program.rings.len()],
            groups: vec![Vec::new()],
            staged: Vec::new(),
            terms: vec![None; program.accumulators.len()],
            tile: 0,
            stores: 0,
            reduced: None,
            blocked: None,
            nodes,
        };
        let threads = (0..count)
            .map(|index| {
                let role = index / COPIES_OF_A_ROLE;
                thread(index, &program.roles[role], &roles[role])
            })
            .collect();
        let depth_of = |buffer| program.ring_of(buffer).map_or(1, |ring| program.rings[ring].depth as usize);
        let slots = (0..program.buffers.len()).map(|buffer| vec![Slot::default(); depth_of(buffer)]).collect();
        let barrier = Mbarrier { pending: vec![0; count], done: vec![0; count], ..Mbarrier::default() };
        let barriers = || program.rings.iter().map(|ring| vec![barrier.clone(); ring.depth as usize]).collect();
        Block { program, segments, k_tiles, threads, slots, full: barriers(), empty: barriers() }
    }

    fn run(&mut self) -> Check {
        loop {
            let mut moved = false;
            for thread in 0..self.threads.len() {
                while let Some(event) = self.next(thread) {
                    self.threads[thread].clock[thread] += 1;
                    let done = self.step(thread, event).map_err(|violation| match event {
                        Event::Do { node, .. } => violation.at(self.threads[thread].nodes[node].site()),
                        Event::Begin | Event::End => violation.at(Site::Role(self.threads[thread].role)),
                    })?;
                    if !done {
                        break;
                    }
                    self.threads[thread].at += 1;
                    moved = true;
                }
            }
            moved |= self.meet();
            if !moved {
                break;
            }
        }
        let stuck = self.threads.iter().find(|thread| thread.at < thread.events.len());
        match stuck {
            None => self.every_tile_is_stored(),
            Some(thread) => {
                let site = match thread.events[thread.at] {
                    Event::Do { node, .. } => thread.nodes[node].site(),
                    Event::Begin | Event::End => Site::Role(thread.role),
                };
                Err(self.fault("this waits for ever").at(site))
            }
        }
    }

    fn fault(&self, what: impl std::fmt::Display) -> Violation {
        broken(format!("{what}, with {} K-tiles", self.k_tiles))
    }

    fn every_tile_is_stored(&self) -> Check {
        // Each thread has counted its own role's; a program without any store stores nothing.
        let stored = self.threads.iter().any(|thread| thread.stores > 0);
        if stored { Ok(()) } else { Err(broken("no role stores the tile").at(Site::Role(0))) }
    }

    /// The thread's next event, unless it waits at a barrier.
    fn next(&self, thread: usize) -> Option<Event> {
        let thread = &self.threads[thread];
        if thread.blocked.is_some() { None } else { thread.events.get(thread.at).copied() }
    }

    /// Lets the threads pass a barrier at which all that take part have come.
    fn meet(&mut self) -> bool {
        for barrier in 0..=self.program.barriers.len() {
            let takes_part = |thread: &Thread<'_>| match barrier.checked_sub(1) {
                None => true,
                Some(named) => thread
                    .nodes
                    .iter()
                    .any(|node| matches!(node.op, Op::Meet { barrier } if *barrier == named)),
            };
            let members: Vec<usize> = (0..self.threads.len()).filter(|t| takes_part(&self.threads[*t])).collect();
            if members.is_empty() || members.iter().any(|t| self.threads[*t].blocked != Some(barrier)) {
                continue;
            }
            let mut all = vec![0; self.threads.len()];
            members.iter().for_each(|t| join(&mut all, &self.threads[*t].clock));
            for t in members {
                join(&mut self.threads[t].clock, &all);
                self.threads[t].blocked = None;
                self.threads[t].at += 1;
            }
            return true;
        }
        false
    }

    /// One event of a thread; false if it has to wait.
    fn step(&mut self, t: usize, event: Event) -> Result<bool, Violation> {
        let (node, kt) = match event {
            Event::Begin => {
                // Slots are counted anew in each tile.
                let thread = &mut self.threads[t];
                thread.rings.fill(Cursor::default());
                thread.stores = 0;
                thread.reduced = None;
                return Ok(true);
            }
            Event::End => return self.end(t).map(|()| true),
            Event::Do { node, kt } => (node, kt),
        };
        let op = self.threads[t].nodes[node].op;
        match op {
            Op::Clear { acc } => {
                let terms = (self.segments.len() - 1) * self.k_tiles as usize;
                self.threads[t].terms[*acc] = Some(vec![0; terms]);
            }
            Op::Acquire { ring } => return self.acquire(t, *ring, kt),
            Op::Copy { buffer, tile, by } => self.copy(t, *buffer, *tile, *by, kt)?,
            Op::Commit { ring } => self.commit(t, *ring)?,
            Op::Wait { ring } => return self.wait(t, *ring, kt),
            Op::Release { ring } => return self.release(t, *ring),
            Op::Steps { span, fetches, multiply, .. } => {
                for (fetch, _) in fetches {
                    if let Source::Buffer(buffer) = fetch.from {
                        self.fetch(t, buffer, kt)?;
                    }
                }
                self.multiply(t, multiply.acc, span, kt)?;
            }
            Op::Promote { from, into } => self.promote(t, *from, *into)?,
            Op::Sync => {
                self.threads[t].blocked = Some(0);
                return Ok(false);
            }
            Op::Meet { barrier } => {
                self.threads[t].blocked = Some(barrier + 1);
                return Ok(false);
            }
            Op::Drain => self.land(t),
            Op::Reduce { acc, .. } => self.reduce(t, *acc)?,
            Op::Store { acc, .. } => self.store(t, *acc)?,
            Op::Tiles { .. } | Op::IfAnyK { .. } | Op::Loop { .. } => {}
        }
        Ok(true)
    }

    fn end(&mut self, t: usize) -> Check {
        let thread = &mut self.threads[t];
        let unfinished = thread.rings.iter().position(|ring| ring.acquired != ring.committed);
        let name = unfinished.map(|ring| self.program.rings[ring].name.as_str());
        thread.tile += 1;
        let has_accumulators = thread.terms.iter().any(Option::is_some);
        let stores = thread.stores;
        if let Some(name) = name {
            return Err(self.fault(format_args!("a slot of {name} is acquired and not committed")));
        }
        if has_accumulators && stores != 1 {
            return Err(self.fault(format_args!("the tile is stored {stores} times, not once")));
        }
        Ok(())
    }

    fn acquire(&mut self, t: usize, ring: usize, kt: Option<u32>) -> Result<bool, Violation> {
        let decl = &self.program.rings[ring];
        let cursor = &self.threads[t].rings[ring];
        if cursor.acquired > cursor.committed {
            return Err(self.fault(format_args!("{}: a slot is acquired before the last one is committed", decl.name)));
        }
        let round = cursor.acquired / decl.depth;
        if kt.is_none() && round > 0 {
            return Err(self.fault(format_args!("{}: more slots are filled before the loop than there are", decl.name)));
        }
        let slot = (cursor.acquired % decl.depth) as usize;
        if matches!(decl.empty, Empty::Mbarrier { .. }) && round > 0 {
            let barrier = &self.empty[ring][slot];
            if barrier.phases < round {
                return Ok(false);
            }
            join(&mut self.threads[t].clock, &barrier.done);
        }
        self.threads[t].rings[ring].acquired += 1;
        Ok(true)
    }

    fn copy(&mut self, t: usize, buffer: usize, tile: Index, by: Mover, kt: Option<u32>) -> Check {
        let Some(ring) = self.program.ring_of(buffer) else { return Err(self.fault("a buffer is in no ring")) };
        let decl = &self.program.rings[ring];
        let name = &self.program.buffers[buffer].name;
        let cursor = &self.threads[t].rings[ring];
        if cursor.acquired != cursor.committed + 1 {
            return Err(self.fault(format_args!("{name} is copied to outside of acquire and commit")));
        }
        let tile = match (tile, kt) {
            (Index::At(n), None) => n,
            (Index::Ahead(distance), Some(kt)) => kt + distance,
            _ => return Err(self.fault("K-tiles are constants before the loop, and counted from its own in it")),
        };
        if tile != cursor.committed {
            let next = cursor.committed;
            return Err(self.fault(format_args!("K-tile {tile} is copied where {next} is next: they go in order")));
        }
        let slot = (cursor.committed % decl.depth) as usize;
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

    /// A thread's part of a slot is written, or begins to be.
    fn write(&mut self, t: usize, buffer: usize, slot: usize, k_tile: u32, done: Option<u32>) -> Check {
        let clock = &self.threads[t].clock;
        let name = &self.program.buffers[buffer].name;
        let tile = (self.threads[t].tile, k_tile);
        let state = &self.slots[buffer][slot];
        if state.read.iter().any(|(reader, time)| clock[*reader] < *time) {
            return Err(self.fault(format_args!("slot {slot} of {name} is written while it may still be read")));
        }
        if let Some(own) = state.written.get(&t) {
            if own.done.is_none() {
                return Err(self.fault(format_args!("slot {slot} of {name} is written while a copy into it is in flight")));
            }
            if own.tile == tile {
                return Err(self.fault(format_args!("{name} is copied twice before a commit")));
            }
        }
        let other = state.written.iter().any(|(w, of)| self.threads[*w].role != self.threads[t].role && of.tile == tile);
        if other {
            return Err(self.fault(format_args!("two roles fill one slot of {name}")));
        }
        self.slots[buffer][slot].written.insert(t, Written { tile, done });
        Ok(())
    }

    fn commit(&mut self, t: usize, ring: usize) -> Check {
        let decl = &self.program.rings[ring];
        let cursor = self.threads[t].rings[ring].clone();
        if cursor.acquired != cursor.committed + 1 {
            return Err(self.fault(format_args!("{}: a commit without an acquire", decl.name)));
        }
        let slot = (cursor.committed % decl.depth) as usize;
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
            let written = self.slots[*buffer][slot].written.get(&t);
            let fresh = written.is_some_and(|written| written.tile == (self.threads[t].tile, cursor.committed));
            if !fresh {
                let name = &self.program.buffers[*buffer].name;
                return Err(self.fault(format_args!("{} is committed without a copy to {name}", decl.name)));
            }
        }
        match decl.full {
            Full::Barrier => {}
            Full::CopyGroups { .. } => self.threads[t].groups.push(Vec::new()),
            Full::Mbarrier { .. } => {
                // The arrival counts when the thread's copies have landed.
                self.land(t);
                let count = self.members(|op| matches!(op, Op::Commit { ring: of } if *of == ring));
                arrive(&mut self.full[ring][slot], &self.threads[t].clock, count);
            }
        }
        self.threads[t].rings[ring].committed += 1;
        Ok(())
    }

    /// All of the thread's asynchronous copies have landed.
    fn land(&mut self, t: usize) {
        self.threads[t].groups.push(Vec::new());
        self.land_groups(t, 0);
    }

    fn members(&self, uses: impl Fn(&Op) -> bool) -> u32 {
        self.threads.iter().filter(|thread| thread.nodes.iter().any(|node| uses(node.op))).count() as u32
    }

    fn wait(&mut self, t: usize, ring: usize, kt: Option<u32>) -> Result<bool, Violation> {
        let decl = &self.program.rings[ring];
        let cursor = &self.threads[t].rings[ring];
        if kt.is_none() {
            return Err(self.fault(format_args!("{}: slots are waited for in the loop", decl.name)));
        }
        if cursor.waited > cursor.released {
            return Err(self.fault(format_args!("{}: a wait before the last slot is released", decl.name)));
        }
        let (round, slot) = (cursor.waited / decl.depth, (cursor.waited % decl.depth) as usize);
        match decl.full {
            Full::Mbarrier { .. } => {
                let barrier = &self.full[ring][slot];
                if barrier.phases <= round {
                    return Ok(false);
                }
                join(&mut self.threads[t].clock, &barrier.done);
                self.threads[t].rings[ring].waited += 1;
                Ok(true)
            }
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

    /// The thread's committed groups have landed, but for the newest.
    fn land_groups(&mut self, t: usize, in_flight: usize) {
        let committed = self.threads[t].groups.len() - 1;
        let keep = committed.saturating_sub(in_flight);
        let now = self.threads[t].clock[t];
        let landed: Vec<_> = self.threads[t].groups.drain(..keep).flatten().collect();
        for (buffer, slot) in landed {
            if let Some(written) = self.slots[buffer][slot].written.get_mut(&t) {
                written.done.get_or_insert(now);
            }
        }
    }

    fn release(&mut self, t: usize, ring: usize) -> Result<bool, Violation> {
        let decl = &self.program.rings[ring];
        let cursor = self.threads[t].rings[ring].clone();
        if cursor.released + 1 != cursor.waited {
            return Err(self.fault(format_args!("{}: a release without a wait", decl.name)));
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
                let count = self.members(|op| matches!(op, Op::Release { ring: of } if *of == ring));
                arrive(&mut self.empty[ring][slot], &self.threads[t].clock, count);
                Ok(true)
            }
        }
    }

    fn fetch(&mut self, t: usize, buffer: usize, kt: Option<u32>) -> Check {
        let name = &self.program.buffers[buffer].name;
        let Some(ring) = self.program.ring_of(buffer) else { return Err(self.fault("a buffer is in no ring")) };
        let thread = &self.threads[t];
        let cursor = &thread.rings[ring];
        let (Some(kt), true) = (kt, cursor.waited == cursor.released + 1) else {
            return Err(self.fault(format_args!("{name} is read outside of wait and release")));
        };
        let slot = (cursor.released % self.program.rings[ring].depth) as usize;
        let tile = (thread.tile, kt);
        let state = &self.slots[buffer][slot];
        if state.written.is_empty() {
            return Err(self.fault(format_args!("slot {slot} of {name} is read, and nothing filled it")));
        }
        for (writer, written) in &state.written {
            if written.tile != tile {
                let (held, of) = (written.tile.1, written.tile.0);
                let other = if of == tile.0 { "" } else { " of another tile" };
                return Err(self.fault(format_args!("{name} holds K-tile {held}{other} where {kt} is read")));
            }
            if written.done.is_none_or(|done| thread.clock[*writer] < done) {
                return Err(self.fault(format_args!("{name} is read before its copy has landed for all threads")));
            }
        }
        let now = thread.clock[t];
        self.slots[buffer][slot].read.insert(t, now);
        Ok(())
    }

    fn multiply(&mut self, t: usize, acc: usize, span: &Span, kt: Option<u32>) -> Check {
        let per_tile = self.segments.len() - 1;
        let covered: Vec<usize> = match (span, kt) {
            (Span::All, None) => (0..per_tile * self.k_tiles as usize).collect(),
            (Span::Tile(range), Some(kt)) => {
                let inside = |segment: &usize| {
                    self.segments[*segment] >= range.start && self.segments[segment + 1] <= range.end
                };
                (0..per_tile).filter(inside).map(|segment| kt as usize * per_tile + segment).collect()
            }
            _ => return Err(self.fault("the steps of a K-tile are in the loop, those of all of k outside")),
        };
        let name = &self.program.accumulators[acc].name;
        let Some(terms) = &mut self.threads[t].terms[acc] else {
            return Err(self.fault(format_args!("{name} is added to before it is cleared")));
        };
        covered.into_iter().for_each(|term| terms[term] += 1);
        Ok(())
    }

    fn promote(&mut self, t: usize, from: usize, into: usize) -> Check {
        let terms = &mut self.threads[t].terms;
        let added = terms[from].clone();
        match (added, &mut terms[into]) {
            (Some(added), Some(sum)) => {
                sum.iter_mut().zip(&added).for_each(|(sum, added)| *sum += added);
                terms[from] = Some(vec![0; added.len()]);
                Ok(())
            }
            _ => Err(self.fault("accumulators are added before they are cleared")),
        }
    }

    /// Every term is there once.
    fn complete(&self, t: usize, acc: usize) -> Check {
        let name = &self.program.accumulators[acc].name;
        let Some(terms) = &self.threads[t].terms[acc] else {
            return Err(self.fault(format_args!("{name} is read before it is cleared")));
        };
        let per_tile = self.segments.len() - 1;
        match terms.iter().position(|count| *count != 1) {
            None => Ok(()),
            Some(term) => {
                let (kt, segment) = (term / per_tile, term % per_tile);
                let (first, end, count) = (self.segments[segment], self.segments[segment + 1], terms[term]);
                Err(self.fault(format_args!(
                    "{name} has the products of steps {first}..{end} of K-tile {kt} {count} times, not once"
                )))
            }
        }
    }

    fn reduce(&mut self, t: usize, acc: usize) -> Check {
        if self.program.walk.parts.is_none() {
            return Err(self.fault("k is not split: there is nothing to reduce"));
        }
        if self.threads[t].reduced.is_some() {
            return Err(self.fault("the parts of k are added up once"));
        }
        self.complete(t, acc)?;
        self.threads[t].reduced = Some(acc);
        Ok(())
    }

    fn store(&mut self, t: usize, acc: usize) -> Check {
        self.complete(t, acc)?;
        let thread = &mut self.threads[t];
        thread.stores += 1;
        let whole = self.program.walk.parts.is_none() || thread.reduced == Some(acc);
        if whole { Ok(()) } else { Err(self.fault("the parts of k are added up before the tile is stored")) }
    }
}

/// One arrival of `count` that complete a phase.
fn arrive(barrier: &mut Mbarrier, clock: &Clock, count: u32) {
    join(&mut barrier.pending, clock);
    barrier.arrived += 1;
    if barrier.arrived == count {
        barrier.arrived = 0;
        barrier.phases += 1;
        barrier.done = barrier.pending.clone();
    }
}
