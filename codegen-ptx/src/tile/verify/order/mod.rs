//! The order of statements: runs two threads of every role against each other, or two of every group of threads that
//! takes turns, over several K-tiles and tiles of D.
//!
//! Two threads represent all: each writes its part of what the others read. A vector clock per thread tracks which
//! events happened before others; barriers and mbarriers join the clocks. So a rule is not "there is a barrier here"
//! but "this write happens after those reads", whatever orders them. The accumulators hold the terms of the sum by
//! index, not by value.
//!
//! A wait tests only the parity of a phase, so it cannot tell a phase from the one two before it. A thread may therefore
//! wait for a phase only if it knows that the previous one is complete. Its clock records that for each full mbarrier.

mod arrival;
mod lent;
mod rings;
mod staged;
mod terms;
mod turns;

use arrival::TileOfC;
use ptx_gemm_dsl::terms::Reduce;
use staged::Staged;

use super::trace::{Event, Node, Part, Tiles, events, nodes};
use super::{Check, broken};
use crate::Violation;
use crate::tile::{Division, Instruction, Op, Program, Source, Span};
use crate::violation::Site;

/// Number of threads that are run: of each role, or of each group that takes turns.
const COPIES_OF_A_ROLE: usize = 2;

/// Runs the program with every number of K-tiles that can make a difference: none, one, two, and around the depth of
/// its rings.
pub(super) fn check(program: &Program) -> Check {
    let deepest = program.rings.iter().map(|ring| ring.depth).max().unwrap_or(1);
    // With planes: a chunk, a part of the next one, and two chunks.
    let chunks = program.k_tiles_of_chunk().into_iter().flat_map(|tiles| [tiles, tiles + 1, 2 * tiles]);
    let mut counts: Vec<u32> = (0..=2).chain(deepest..=deepest + 2).chain(chunks).collect();
    counts.sort_unstable();
    counts.dedup();
    let persistent = program.scheduler.persistent.is_some();
    // The group with the first tile has one more than the others, which have two.
    let count = if !persistent {
        1
    } else if program.groups() > 1 {
        2 * program.groups() + 1
    } else {
        2
    };
    let mut tiles = vec![Tiles { count, first: Part::Last }];
    if persistent && program.scheduler.divides_k() {
        // Accesses in code that only the block with the last part of a tile executes cannot order the next tile.
        tiles.push(Tiles { count: 2, first: Part::Other });
    }
    let roles: Vec<Vec<Node<'_>>> =
        program.roles.iter().enumerate().map(|(index, role)| nodes(index, &role.body)).collect();
    let segments = segments(program);
    for k_tiles in counts {
        tiles.iter().try_for_each(|tiles| Block::new(program, &roles, &segments, *tiles, k_tiles).run())?;
    }
    Ok(())
}

/// The boundaries of the ranges of steps within a K-tile: terms between two boundaries are always multiplied together.
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

/// Pairs of planes that are multiplied in one K-tile.
fn pairs_of(program: &Program) -> usize {
    let together = program.walk.as_ref().filter(|_| program.planes_together());
    together.map_or(1, |walk| walk.pairs.len())
}

/// The time of each thread's last known step, followed by the known number of fills of each slot of each ring.
type Clock = Vec<u32>;

fn join(into: &mut Clock, from: &Clock) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into = (*into).max(*from));
}

/// One thread's write to a slot of a buffer.
#[derive(Clone, Copy)]
struct Written {
    /// Index of the tile of D, and of the K-tile.
    tile: (u32, u32),
    /// The time at which the bytes were written, by the writer's own clock; `None` while an asynchronous copy is in
    /// flight.
    done: Option<u32>,
}

/// One slot of one buffer: per thread, what it wrote and the time of its last read (0: never).
#[derive(Clone)]
struct Slot {
    written: Vec<Option<Written>>,
    read: Vec<u32>,
}

/// One mbarrier: its completed phases, the arrivals in the current one, and the clock joined from them.
#[derive(Clone, Default)]
struct Mbarrier {
    phases: u32,
    arrived: u32,
    pending: Clock,
    done: Clock,
}

/// A thread's position in a ring: slots so far.
#[derive(Clone, Default)]
struct Cursor {
    acquired: u32,
    committed: u32,
    waited: u32,
    released: u32,
    /// Slots waited for when it last released all but the kept slots.
    kept_of: u32,
    /// Slots lent, or waited for as lent, so far by the thread's current statement.
    passed: u32,
    /// Slots that it has borrowed.
    borrowed: u32,
    /// Slots filled before the current tile: not 0 in a ring with phases that continue from tile to tile.
    filled_before: u32,
}

/// An accumulator: the number of times that each term was added; `None` before it is cleared.
type Terms = Option<Vec<u32>>;

/// A group of products by tensor cores: their accumulators, and each (buffer, slot) that they read.
#[derive(Default)]
struct Products {
    acc: usize,
    reads: Vec<(usize, usize)>,
}

/// The time of a read that has not ended.
const READING: u32 = u32::MAX;

struct Thread<'a> {
    role: usize,
    /// Its group among those of the role that take turns, and the number of these groups.
    group: u32,
    turns: u32,
    /// The ordered barrier that it holds now, and how often it has taken each one.
    holds: Option<usize>,
    taken: Vec<u32>,
    events: Vec<Event>,
    at: usize,
    clock: Clock,
    rings: Vec<Cursor>,
    /// Asynchronous copies in flight, (buffer, slot), by group; the last group is not committed.
    groups: Vec<Vec<(usize, usize)>>,
    /// Copies that are in registers and not yet in shared memory: (buffer, K-tile).
    staged: Vec<(usize, u32)>,
    terms: Vec<Terms>,
    /// By set: the set that its rounding errors belong to, once it holds some.
    rests: Vec<Option<usize>>,
    /// By set: whether it was promoted, and tensor cores have not overwritten it.
    stale: Vec<bool>,
    /// Products that tensor cores compute meanwhile, the newest last. Products of consecutive statements form one
    /// group.
    flight: Vec<Products>,
    /// Whether the last statement started products.
    multiplies: bool,
    tile: u32,
    /// The tile of which it has waited for the elements of C.
    tile_of_c: Option<u32>,
    stores: u32,
    /// The accumulators that the block reduces, inside the body of `reduce`.
    reduced: Option<usize>,
    /// The barrier at which it waits.
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
    /// By ring: the full and empty mbarriers of each slot.
    full: Vec<Vec<Mbarrier>>,
    empty: Vec<Vec<Mbarrier>>,
    /// By ordered barrier, then group.
    turns: Vec<Vec<Mbarrier>>,
    /// By ring: whether one thread fills it by TMA.
    by_tma: Vec<bool>,
    staged: Staged,
    /// By group: the tile of C in its stage.
    tiles_of_c: Vec<TileOfC>,
}

impl<'a> Block<'a> {
    fn new(program: &'a Program, roles: &'a [Vec<Node<'a>>], segments: &'a [u32], tiles: Tiles, k_tiles: u32) -> Self {
        // Each role's groups, in order.
        let groups =
            program.roles.iter().enumerate().flat_map(|(role, of)| (0..of.turns).map(move |group| (role, group)));
        let places: Vec<(usize, u32)> = groups.flat_map(|place| [place; COPIES_OF_A_ROLE]).collect();
        let count = places.len();
        let slots_of_rings: u32 = program.rings.iter().map(|ring| ring.depth).sum();
        let unknown = vec![0; count + slots_of_rings as usize];
        let thread = |(index, group): (usize, u32)| {
            let (role, nodes) = (&program.roles[index], &roles[index]);
            // The tiles of its group.
            let own = Tiles { count: (tiles.count - group).div_ceil(role.turns), ..tiles };
            Thread {
                role: index,
                group,
                turns: role.turns,
                holds: None,
                taken: vec![0; program.turns.len()],
                events: events(role, nodes, own, k_tiles, program.k_tiles_of_chunk()),
                at: 0,
                clock: unknown.clone(),
                rings: vec![Cursor::default(); program.rings.len()],
                groups: vec![Vec::new()],
                staged: Vec::new(),
                terms: vec![None; program.accumulators.len()],
                rests: vec![None; program.accumulators.len()],
                stale: vec![false; program.accumulators.len()],
                flight: Vec::new(),
                multiplies: false,
                tile: group,
                tile_of_c: None,
                stores: 0,
                reduced: None,
                blocked: None,
                nodes,
            }
        };
        let threads = places.into_iter().map(thread).collect();
        let depth_of = |buffer| program.ring_of(buffer).map_or(1, |ring| program.rings[ring].depth as usize);
        let unused = Slot { written: vec![None; count], read: vec![0; count] };
        let slots = (0..program.buffers.len()).map(|buffer| vec![unused.clone(); depth_of(buffer)]).collect();
        let barrier = Mbarrier { pending: unknown.clone(), done: unknown.clone(), ..Mbarrier::default() };
        let barriers = || program.rings.iter().map(|ring| vec![barrier.clone(); ring.depth as usize]).collect();
        let turns = vec![vec![barrier.clone(); program.groups() as usize]; program.turns.len()];
        let by_tma = (0..program.rings.len()).map(|ring| program.by_tma(ring)).collect();
        let places = program.lent().map_or(1, |lent| program.rings[lent.ring].depth);
        let staged = Staged::new(count, places);
        let tiles_of_c = vec![TileOfC::default(); program.groups() as usize];
        Block {
            program,
            segments,
            k_tiles,
            threads,
            slots,
            full: barriers(),
            empty: barriers(),
            turns,
            by_tma,
            staged,
            tiles_of_c,
        }
    }

    fn run(&mut self) -> Check {
        loop {
            let mut moved = false;
            for thread in 0..self.threads.len() {
                while let Some(event) = self.next(thread) {
                    self.threads[thread].clock[thread] += 1;
                    let done = self.step(thread, event).map_err(|violation| match event {
                        Event::Do { node, .. } => violation.at(self.threads[thread].nodes[node].site()),
                        Event::Begin | Event::End | Event::Reduced | Event::Skipped => {
                            violation.at(Site::Role(self.threads[thread].role))
                        }
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
            None => self.every_tile_is_stored().and_then(|()| self.all_settled()),
            Some(thread) => {
                let site = match thread.events[thread.at] {
                    Event::Do { node, .. } => thread.nodes[node].site(),
                    Event::Begin | Event::End | Event::Reduced | Event::Skipped => Site::Role(thread.role),
                };
                Err(self.fault("this statement waits forever").at(site))
            }
        }
    }

    fn fault(&self, what: impl std::fmt::Display) -> Violation {
        broken(format!("{what}, with {} K-tiles", self.k_tiles))
    }

    fn every_tile_is_stored(&self) -> Check {
        // Each thread counts the stores of its own role; this finds programs without any store.
        let stored = self.threads.iter().any(|thread| thread.stores > 0);
        if stored { Ok(()) } else { Err(broken("no role stores the tile").at(Site::Role(0))) }
    }

    /// The thread's next event, unless it is waiting at a barrier.
    fn next(&self, thread: usize) -> Option<Event> {
        let thread = &self.threads[thread];
        if thread.blocked.is_some() { None } else { thread.events.get(thread.at).copied() }
    }

    /// Lets the threads pass a barrier if all participants have reached it.
    fn meet(&mut self) -> bool {
        for (barrier, group) in (0..=self.program.barriers.len())
            .flat_map(|barrier| (0..self.program.groups()).map(move |group| (barrier, group)))
        {
            // Groups that take turns each have their own barrier.
            let takes_part = |thread: &Thread<'_>| match barrier.checked_sub(1) {
                None => true,
                Some(named) => {
                    (thread.turns == 1 || thread.group == group)
                        && thread.nodes.iter().any(|node| matches!(node.op, Op::Meet { barrier } if *barrier == named))
                }
            };
            let members: Vec<usize> = (0..self.threads.len()).filter(|t| takes_part(&self.threads[*t])).collect();
            if members.is_empty() || members.iter().any(|t| self.threads[*t].blocked != Some(barrier)) {
                continue;
            }
            let mut all = vec![0; self.threads[0].clock.len()];
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

    /// Executes one event of a thread; false if it has to wait.
    fn step(&mut self, t: usize, event: Event) -> Result<bool, Violation> {
        let (node, kt) = match event {
            Event::Begin => {
                let thread = &mut self.threads[t];
                for (ring, cursor) in thread.rings.iter_mut().enumerate() {
                    // Slot numbering restarts in each tile, except that mbarriers keep their phases.
                    *cursor = match self.program.carried(ring) {
                        false => Cursor::default(),
                        true => Cursor { filled_before: cursor.committed, ..cursor.clone() },
                    };
                }
                thread.stores = 0;
                thread.reduced = None;
                return Ok(true);
            }
            Event::End => return self.end(t).map(|()| true),
            Event::Reduced => {
                self.threads[t].reduced = None;
                return Ok(true);
            }
            Event::Skipped => {
                // Another block stores the tile.
                self.threads[t].reduced = None;
                self.threads[t].stores += 1;
                return Ok(true);
            }
            Event::Do { node, kt } => (node, kt),
        };
        let op = self.threads[t].nodes[node].op;
        if self.threads[t].reduced.is_some() && !self.may_be_reduced(op) {
            return Err(self.fault("only one of the blocks that share a tile reaches this statement"));
        }
        let follows = std::mem::take(&mut self.threads[t].multiplies);
        match op {
            Op::Clear { acc } => {
                self.settled(t, *acc)?;
                let terms = self.per_tile() * self.k_tiles as usize;
                self.threads[t].terms[*acc] = Some(vec![0; terms]);
                self.clear(t, *acc)?;
            }
            Op::Read { acc, .. } => {
                // The whole sum, which another block has computed.
                let terms = self.per_tile() * self.k_tiles as usize;
                self.threads[t].terms[*acc] = Some(vec![1; terms]);
            }
            Op::Acquire { ring } => return self.acquire(t, *ring, kt),
            Op::Copy { buffer, tile, by } => self.copy(t, *buffer, *tile, *by, kt)?,
            Op::Commit { ring } => self.commit(t, *ring)?,
            Op::Wait { ring } => return self.wait(t, *ring, kt),
            Op::Release { ring, kept } => return self.release(t, *ring, *kept),
            Op::Skip { ring } => self.skip(t, *ring)?,
            Op::Lend { ring } => return self.lend(t, *ring),
            Op::Borrow { ring } => return self.borrow(t, *ring),
            Op::Return { ring } => self.give_back(t, *ring)?,
            Op::Take { turn } => return self.take(t, *turn),
            Op::Pass { turn } => self.pass(t, *turn)?,
            Op::Retire { steps } => self.retire(t, *steps as usize)?,
            Op::Steps { span, fetches, multiply, .. } => {
                let mut reads = Vec::new();
                for (fetch, _) in fetches {
                    if let Source::Buffer(buffer) = fetch.from {
                        reads.push((buffer, self.fetch(t, buffer, kt)?));
                    }
                }
                match multiply.by {
                    Instruction::Fma { .. } | Instruction::Mma { .. } => self.settled(t, multiply.acc)?,
                    Instruction::Wgmma { .. } => {
                        self.start(t, Products { acc: multiply.acc, reads }, follows);
                        self.threads[t].multiplies = true;
                    }
                }
                self.multiply(t, multiply.acc, (span, self.program.pair_of(fetches)), kt)?;
            }
            Op::Promote { from, into, rest } => {
                self.settled(t, *from)?;
                self.settled(t, *into)?;
                self.promote(t, *from, *into)?;
                self.keep_rest(t, *rest, *into)?;
            }
            Op::AddRest { rest, into } => {
                self.settled(t, *into)?;
                self.add_rest(t, *rest, *into)?;
            }
            Op::Sync => {
                self.threads[t].blocked = Some(0);
                return Ok(false);
            }
            Op::Meet { barrier } => {
                self.threads[t].blocked = Some(barrier + 1);
                return Ok(false);
            }
            Op::Drain => self.land(t),
            Op::Reduce { acc, how, .. } => self.reduce(t, *acc, *how)?,
            Op::Share { acc, .. } => self.share(t, *acc)?,
            Op::PrefetchC { .. } => self.prefetch_c(t)?,
            Op::AwaitC => return Ok(self.await_c(t)),
            Op::Stage { acc, c, .. } => {
                self.has_c(t, *c)?;
                self.stage(t, *acc)?;
            }
            Op::Write { by } => self.write_out(t, *by)?,
            Op::Settle => self.settle(t),
            Op::Store { acc, .. } => self.store(t, *acc)?,
            Op::Tiles { .. } | Op::AfterFirst { .. } | Op::IfAnyK { .. } | Op::IfChunkEnds { .. } | Op::Loop { .. } => {
            }
        }
        Ok(true)
    }

    /// Whether a statement may be in the body of `reduce`, which only one of the blocks that share a tile runs. If the
    /// blocks count parts, each thread decides for itself. Otherwise the block runs it as a whole, but other roles do
    /// not.
    fn may_be_reduced(&self, op: &Op) -> bool {
        let together = !self.program.statements().iter().any(|statement| {
            let counts = matches!(statement.op, Op::Reduce { how: Reduce::Workspace, .. });
            counts && self.program.scheduler.division != Division::Stream
        });
        match op {
            Op::Store { .. } | Op::Promote { .. } | Op::AddRest { .. } | Op::Clear { .. } => true,
            Op::Stage { .. } | Op::Write { .. } | Op::Settle => together,
            Op::Sync => together && self.program.roles.len() == 1,
            Op::Meet { barrier } => {
                let meets = |thread: &&Thread<'_>| {
                    thread.nodes.iter().any(|node| matches!(node.op, Op::Meet { barrier: of } if of == barrier))
                };
                let mut roles: Vec<usize> = self.threads.iter().filter(meets).map(|thread| thread.role).collect();
                roles.dedup();
                together && roles.len() == 1
            }
            _ => false,
        }
    }

    fn end(&mut self, t: usize) -> Check {
        let thread = &mut self.threads[t];
        let unfinished = thread.rings.iter().position(|ring| ring.acquired != ring.committed);
        let name = unfinished.map(|ring| self.program.rings[ring].name.as_str());
        // The slot that a role returns late is counted from the first K-tile of each tile.
        // Borrowed slots may be returned in the next tile.
        let unreturned = thread.rings.iter().position(|ring| ring.waited != ring.released + ring.borrowed);
        let kept = unreturned.map(|ring| self.program.rings[ring].name.as_str());
        thread.tile += thread.turns;
        let has_accumulators = thread.terms.iter().any(Option::is_some);
        let stores = thread.stores;
        if let Some(name) = name {
            return Err(self.fault(format_args!("a slot of {name} is acquired but not committed")));
        }
        if let Some(name) = kept {
            return Err(self.fault(format_args!("a slot of {name} is waited for but not released when the tile ends")));
        }
        if let Some(products) = self.threads[t].flight.first() {
            let name = &self.program.accumulators[products.acc].name;
            return Err(
                self.fault(format_args!("the tile ends while products are added to {name}: `retire` waits for them"))
            );
        }
        if let Some(turn) = self.threads[t].holds {
            let name = &self.program.turns[turn].name;
            return Err(self.fault(format_args!("the tile ends before {name} is passed on")));
        }
        if has_accumulators && stores != 1 {
            return Err(self.fault(format_args!("the tile is stored {stores} times instead of once")));
        }
        Ok(())
    }
}
