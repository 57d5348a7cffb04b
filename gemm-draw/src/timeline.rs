//! What the roles of a tile program do during the K-tiles of one tile of D, or of two where a block goes on to the next one,
//! with the program's own order and waits.
//!
//! The durations of statements are invented, and the same for all programs ([`LOAD`] and the others): a picture shows
//! which work waits for which, and which overlaps.

use std::collections::VecDeque;

use ptx_gemm_runtime::tile::verify::trace;
use ptx_gemm_runtime::tile::{Division, Empty, Full, Index, Mover, Op, Program, Writer};

/// Latency of data from global memory.
pub(crate) const LOAD: f64 = 3.0;
/// Time to issue the loads or copies of one buffer.
const ISSUE: f64 = 0.5;
/// Time to store one K-tile from registers to shared memory.
const STORE: f64 = 0.8;
/// Time to multiply one whole K-tile.
const MULTIPLY: f64 = 4.0;
const EPILOGUE: f64 = 2.0;

/// What a role does for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Issues loads to registers.
    Load,
    /// Stores registers to shared memory.
    Store,
    /// Issues asynchronous copies.
    Copy,
    /// Starts products that tensor cores compute while the role goes on.
    Start,
    Multiply,
    /// Waits for data or for a free slot.
    Wait,
    Epilogue,
}

/// Threads that do the same: a role, or one of its ping-pong groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub role: usize,
    pub group: u32,
}

/// A piece of work of one lane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Done {
    /// Index of the lane.
    pub lane: usize,
    pub work: Work,
    /// The K-tile, counted over all tiles of D; `None` for work that does not belong to one.
    pub tile: Option<u32>,
    pub from: f64,
    pub to: f64,
}

/// The contents of a slot of a ring during some time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stay {
    pub ring: usize,
    pub slot: u32,
    /// The K-tile; `None` for a part of the tile of D.
    pub tile: Option<u32>,
    /// The times at which its copy begins, its bytes arrive, and its reader begins and ends.
    pub filled: f64,
    pub there: f64,
    pub read: Option<f64>,
    pub freed: Option<f64>,
}

/// Everything that happens.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timeline {
    pub lanes: Vec<Lane>,
    /// Tiles of D.
    pub tiles: u32,
    pub done: Vec<Done>,
    /// The products that run while the lane that started them goes on.
    pub products: Vec<Done>,
    pub stays: Vec<Stay>,
    /// The time at which a lane arrives at a barrier of several warps.
    pub barriers: Vec<(usize, f64)>,
    pub end: f64,
}

/// The state of one lane.
struct Walker<'a> {
    lane: usize,
    events: VecDeque<trace::Step<'a>>,
    /// The tile of D that it is at.
    tile: u32,
    now: f64,
    /// When TMA has read the tile of D that the lane stored last.
    stored: f64,
    /// When the tile of C that its threads wait for next is in shared memory.
    c_arrives: f64,
    /// For each ring, the K-tile that the role has been copying since it acquired the slot, when it began, and how.
    filling: Vec<Option<Filling>>,
    acquired: Vec<u32>,
    taken: Vec<u32>,
    /// Slots that its current statement has given to the tile of D, or taken, so far.
    passed: u32,
    /// The ends of the products in flight, oldest first: those of one `steps` are one group.
    in_flight: VecDeque<f64>,
}

#[derive(Clone, Copy)]
struct Filling {
    tile: u32,
    from: f64,
    issued: f64,
    by: Mover,
}

struct Run<'a> {
    program: &'a Program,
    /// K-tiles of each tile of D.
    k_tiles: u32,
    /// Whether roles wait for products; otherwise these end with the statement.
    is_async: bool,
    line: Timeline,
    /// For each ring, the stays in order, by index.
    rings: Vec<Vec<usize>>,
    /// The ordered barriers that were passed on: which, in which tile of D, and when.
    passed: Vec<(usize, u32, f64)>,
}

/// Tiles of D that a picture shows: two, if slots and phases carry over from one to the next.
pub(crate) fn tiles(program: &Program) -> u32 {
    let goes_on = program.scheduler.persistent.is_some() && program.scheduler.division != Division::Stream;
    if goes_on && (0..program.rings.len()).all(|ring| program.carried(ring)) { 2 } else { 1 }
}

/// Runs every role of a program over this many K-tiles of one tile of D, or of each of two.
pub(crate) fn timeline(program: &Program, k_tiles: u32) -> Timeline {
    let rings = program.rings.len();
    let is_async = program.statements().iter().any(|statement| matches!(statement.op, Op::Retire { .. }));
    let (tiles, chunk) = (tiles(program), program.k_tiles_of_chunk());
    let roles = program.roles.iter().enumerate();
    let lanes: Vec<Lane> =
        roles.flat_map(|(role, of)| (0..of.turns.max(1)).map(move |group| Lane { role, group })).collect();
    let walker = |(lane, of): (usize, &Lane)| {
        let role = &program.roles[of.role];
        let turns = role.turns.max(1);
        let own = (0..tiles).filter(|tile| tile % turns == of.group).count() as u32;
        let steps = trace::statements(role, own, k_tiles, chunk);
        let steps = steps.into_iter().map(|step| trace::Step { tile: step.tile * turns + of.group, ..step });
        Walker {
            lane,
            events: steps.collect(),
            tile: 0,
            now: 0.0,
            stored: 0.0,
            c_arrives: 0.0,
            filling: vec![None; rings],
            acquired: vec![0; rings],
            taken: vec![0; rings],
            passed: 0,
            in_flight: VecDeque::new(),
        }
    };
    let mut walkers: Vec<Walker<'_>> = lanes.iter().enumerate().map(walker).collect();
    let line = Timeline { lanes: lanes.clone(), tiles, ..Timeline::default() };
    let mut run = Run { program, k_tiles, is_async, line, rings: vec![Vec::new(); rings], passed: Vec::new() };
    // A lane continues until it depends on work that another lane has not done yet.
    loop {
        let left = walkers.iter().map(|walker| walker.events.len()).sum::<usize>();
        for walker in &mut walkers {
            while let Some(&step) = walker.events.front() {
                walker.tile = step.tile;
                if !run.step(walker, step.op, step.kt) {
                    break;
                }
                walker.events.pop_front();
            }
        }
        if left == walkers.iter().map(|walker| walker.events.len()).sum::<usize>() {
            break;
        }
    }
    if program.exchange.is_some() {
        // After a barrier of the cluster, at which all roles arrive.
        let from = run.line.done.iter().map(|done| done.to).fold(0.0, f64::max);
        for lane in 0..run.line.lanes.len() {
            run.line.barriers.push((lane, from));
        }
        run.line.done.push(Done { lane: 0, work: Work::Epilogue, tile: None, from, to: from + EPILOGUE / 2.0 });
    }
    run.line.end = run.line.done.iter().chain(&run.line.products).map(|done| done.to).fold(0.0, f64::max);
    run.line
}

impl Run<'_> {
    /// One statement; false if it has to wait for another role.
    fn step(&mut self, walker: &mut Walker<'_>, op: &Op, kt: Option<u32>) -> bool {
        match op {
            Op::Acquire { ring } => return self.acquire(walker, *ring),
            Op::Copy { buffer, tile, by } => self.copy(walker, *buffer, kt_of(*tile, kt), *by),
            Op::Commit { ring } => self.commit(walker, *ring),
            Op::Wait { ring } => return self.wait(walker, *ring),
            Op::Release { ring, kept } => self.release(walker, *ring, *kept),
            Op::Steps { span, .. } => {
                let share = match span {
                    ptx_gemm_runtime::tile::Span::Tile(steps) => {
                        f64::from(steps.end - steps.start) / f64::from(self.program.block.k.max(1))
                    }
                    ptx_gemm_runtime::tile::Span::All => f64::from(self.k_tiles),
                };
                let kt = kt.map(|kt| self.number(walker, kt));
                match self.is_async {
                    true => self.start(walker, kt, share * MULTIPLY),
                    false => self.work(walker, Work::Multiply, kt, share * MULTIPLY),
                }
            }
            // Relative to the K-tiles of its own tile.
            Op::Skip { ring } => walker.taken[*ring] = walker.tile * self.k_tiles,
            Op::Lend { ring } => return self.lend(walker, *ring),
            Op::Borrow { ring } => return self.borrow(walker, *ring),
            Op::Return { ring } => {
                (0..self.lent()).rev().for_each(|kept| self.release(walker, *ring, kept));
            }
            Op::Take { turn } => {
                let Some(before) = walker.tile.checked_sub(1) else { return true };
                let passed = self.passed.iter().find(|(of, tile, _)| (of, *tile) == (turn, before));
                let Some((.., when)) = passed.copied() else { return false };
                self.wait_until(walker, None, when);
            }
            Op::Pass { turn } => self.passed.push((*turn, walker.tile, walker.now)),
            Op::Settle => {
                let stored = walker.stored;
                self.wait_until(walker, None, stored);
            }
            Op::PrefetchC { .. } => {
                self.work(walker, Work::Copy, None, ISSUE);
                walker.c_arrives = walker.now + LOAD;
            }
            Op::AwaitC => {
                let arrives = walker.c_arrives;
                self.wait_until(walker, None, arrives);
            }
            Op::Write { by: Writer::Tma { .. } } => {
                self.work(walker, Work::Epilogue, None, ISSUE);
                walker.stored = walker.now + EPILOGUE / 2.0;
            }
            Op::Stage { .. } | Op::Write { .. } | Op::Share { .. } => {
                self.work(walker, Work::Epilogue, None, EPILOGUE / 2.0)
            }
            Op::Store { .. } => self.work(walker, Work::Epilogue, None, EPILOGUE),
            Op::Sync | Op::Meet { .. } => self.line.barriers.push((walker.lane, walker.now)),
            Op::Drain => {
                let landed = self.line.stays.iter().map(|stay| stay.there).fold(walker.now, f64::max);
                self.wait_until(walker, None, landed);
            }
            Op::Retire { steps } => {
                while walker.in_flight.len() > *steps as usize {
                    let end = walker.in_flight.pop_front().unwrap_or_default();
                    self.wait_until(walker, kt.map(|kt| self.number(walker, kt)), end);
                }
            }
            Op::Clear { .. } | Op::Read { .. } | Op::Promote { .. } | Op::AddRest { .. } | Op::Reduce { .. } => {}
            Op::Tiles { .. } | Op::AfterFirst { .. } | Op::IfAnyK { .. } | Op::IfChunkEnds { .. } | Op::Loop { .. } => {
            }
        }
        true
    }

    /// The number of a K-tile of the tile of D that a lane is at, over all tiles of D.
    fn number(&self, walker: &Walker<'_>, kt: u32) -> u32 {
        walker.tile * self.k_tiles + kt
    }

    fn work(&mut self, walker: &mut Walker<'_>, work: Work, tile: Option<u32>, time: f64) {
        let (from, to) = (walker.now, walker.now + time);
        walker.now = to;
        // The parts of one K-tile count as one piece of work.
        if let Some(last) = self.line.done.iter_mut().rev().find(|done| done.lane == walker.lane)
            && (last.work, last.tile) == (work, tile)
            && last.to == from
        {
            last.to = to;
            return;
        }
        self.line.done.push(Done { lane: walker.lane, work, tile, from, to });
    }

    /// Starts products, which run after those that were started before.
    fn start(&mut self, walker: &mut Walker<'_>, tile: Option<u32>, time: f64) {
        let from = self.line.products.last().map_or(0.0, |before| before.to).max(walker.now);
        let (lane, to) = (walker.lane, from + time);
        self.work(walker, Work::Start, tile, ISSUE);
        walker.in_flight.push_back(to);
        self.line.products.push(Done { lane, work: Work::Multiply, tile, from, to });
    }

    fn wait_until(&mut self, walker: &mut Walker<'_>, tile: Option<u32>, when: f64) {
        if when > walker.now {
            self.work(walker, Work::Wait, tile, when - walker.now);
        }
    }

    fn acquire(&mut self, walker: &mut Walker<'_>, ring: usize) -> bool {
        let depth = self.program.rings[ring].depth;
        // The slot's last reader has released it; where the next wait frees it, that follows from the order within one
        // thread.
        if let Some(before) = walker.acquired[ring].checked_sub(depth)
            && matches!(self.program.rings[ring].empty, Empty::Mbarrier { .. })
        {
            let stay = self.rings[ring].get(before as usize).map(|index| &self.line.stays[*index]);
            match stay.and_then(|stay| stay.freed) {
                Some(freed) => self.wait_until(walker, None, freed),
                None if self.program.roles.len() > 1 => return false,
                None => {}
            }
        }
        walker.acquired[ring] += 1;
        true
    }

    fn copy(&mut self, walker: &mut Walker<'_>, buffer: usize, tile: u32, by: Mover) {
        if tile >= self.k_tiles && self.program.ring_of(buffer).is_some_and(|ring| self.program.ends_with_k(ring)) {
            return;
        }
        let (from, tile) = (walker.now, self.number(walker, tile));
        self.work(walker, if by.is_async() { Work::Copy } else { Work::Load }, Some(tile), ISSUE);
        let Some(ring) = self.program.ring_of(buffer) else { return };
        let from = walker.filling[ring].map_or(from, |filling| filling.from);
        walker.filling[ring] = Some(Filling { tile, from, issued: walker.now, by });
    }

    fn commit(&mut self, walker: &mut Walker<'_>, ring: usize) {
        let Some(filling) = walker.filling[ring].take() else { return };
        let past_the_end = filling.tile >= self.k_tiles * self.line.tiles;
        let latency = if past_the_end { 0.0 } else { LOAD };
        let there = match filling.by {
            Mover::Registers { .. } => {
                self.wait_until(walker, Some(filling.tile), filling.issued + latency);
                self.work(walker, Work::Store, Some(filling.tile), STORE);
                walker.now
            }
            _ => filling.issued + latency,
        };
        self.stay(ring, Some(filling.tile), filling.from, there);
    }

    fn stay(&mut self, ring: usize, tile: Option<u32>, filled: f64, there: f64) {
        let index = self.rings[ring].len() as u32;
        let slot = index % self.program.rings[ring].depth;
        self.rings[ring].push(self.line.stays.len());
        self.line.stays.push(Stay { ring, slot, tile, filled, there, read: None, freed: None });
    }

    fn lend(&mut self, walker: &mut Walker<'_>, ring: usize) -> bool {
        while walker.passed < self.lent() {
            if !self.acquire(walker, ring) {
                return false;
            }
            self.stay(ring, None, walker.now, walker.now);
            walker.passed += 1;
        }
        walker.passed = 0;
        true
    }

    fn borrow(&mut self, walker: &mut Walker<'_>, ring: usize) -> bool {
        while walker.passed < self.lent() {
            if !self.wait(walker, ring) {
                return false;
            }
            walker.passed += 1;
        }
        walker.passed = 0;
        true
    }

    /// Slots that a tile of D takes.
    fn lent(&self) -> u32 {
        self.program.lent().map_or(0, |lent| lent.slots)
    }

    fn wait(&mut self, walker: &mut Walker<'_>, ring: usize) -> bool {
        let Some(&index) = self.rings[ring].get(walker.taken[ring] as usize) else { return false };
        let Stay { tile, there, .. } = self.line.stays[index];
        self.wait_until(walker, tile, there);
        if !matches!(self.program.rings[ring].full, Full::Mbarrier { .. }) {
            self.line.barriers.push((walker.lane, walker.now));
        }
        walker.taken[ring] += 1;
        let stay = &mut self.line.stays[index];
        stay.read = Some(stay.read.unwrap_or(walker.now));
        true
    }

    fn release(&mut self, walker: &mut Walker<'_>, ring: usize, kept: u32) {
        let Some(taken) = walker.taken[ring].checked_sub(1 + kept) else { return };
        let Some(&index) = self.rings[ring].get(taken as usize) else { return };
        // Slots kept from the previous tile are free already.
        self.line.stays[index].freed.get_or_insert(walker.now);
        if self.program.rings[ring].empty == Empty::Barrier {
            self.line.barriers.push((walker.lane, walker.now));
        }
    }
}

fn kt_of(tile: Index, kt: Option<u32>) -> u32 {
    match tile {
        Index::At(tile) => tile,
        Index::Ahead(distance) => kt.unwrap_or(0) + distance,
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm_check::part::Part;
    use ptx_gemm_check::{case, cases};
    use ptx_gemm_runtime::Kernel;

    use super::{Timeline, Work, timeline};

    const K_TILES: u32 = 8;

    fn of(name: &str) -> Timeline {
        let schedule = case(name).unwrap().schedule().unwrap();
        let kernel = Kernel::compile(&schedule, None).unwrap();
        timeline(&kernel.programs().entries[0], K_TILES)
    }

    #[test]
    fn every_program_runs_to_its_end() {
        for case in Part::of_this_run().of_cases(cases()) {
            let line = of(case.name);
            assert!(line.done.iter().any(|done| done.work == Work::Epilogue), "{}", case.name);
            if line.stays.is_empty() {
                continue;
            }
            let products = line.done.iter().chain(&line.products);
            let multiplied: Vec<_> =
                products.filter(|done| done.work == Work::Multiply).filter_map(|done| done.tile).collect();
            // Every K-tile once, or once for each pair of its planes.
            let kernel = Kernel::compile(&case.schedule().unwrap(), None).unwrap();
            let program = &kernel.programs().entries[0];
            let pairs = program.walk.as_ref().filter(|_| program.planes_together()).map_or(1, |walk| walk.pairs.len());
            let k_tiles = K_TILES * line.tiles;
            let each: Vec<_> = (0..k_tiles).flat_map(|tile| std::iter::repeat_n(tile, pairs)).collect();
            assert_eq!(multiplied, each, "{}", case.name);
            for stay in &line.stays {
                assert!(stay.filled <= stay.there, "{}: {stay:?}", case.name);
                // K-tiles past the end of k are not read, and TMA does not copy them.
                let used = stay.tile.is_none_or(|tile| tile < k_tiles);
                assert!(used || !case.name.starts_with("tma"), "{}: {stay:?}", case.name);
                assert_eq!(stay.read.is_some(), used, "{}: {stay:?}", case.name);
                let (Some(read), Some(freed)) = (stay.read, stay.freed) else { continue };
                assert!(stay.there <= read && read < freed, "{}: {stay:?}", case.name);
                let next = line.stays.iter().filter(|other| (other.ring, other.slot) == (stay.ring, stay.slot));
                let next =
                    next.filter(|other| other.filled > stay.filled).map(|other| other.filled).fold(f64::MAX, f64::min);
                assert!(next >= freed - 1e-9, "{}: {stay:?} is overwritten at {next}", case.name);
            }
        }
    }

    #[test]
    fn products_of_tensor_cores_follow_each_other_without_a_gap() {
        let line = of("wgmma_roles");
        assert!(line.products.windows(2).all(|pair| pair[0].to == pair[1].from), "{:?}", line.products);
        // The consumer is ahead: it starts the next products while these run, and keeps their slot until they end.
        let starts: Vec<f64> = line.done.iter().filter(|done| done.work == Work::Start).map(|done| done.from).collect();
        assert!(starts.iter().skip(1).zip(&line.products).all(|(start, before)| *start < before.to), "{starts:?}");
        for (stay, products) in line.stays.iter().zip(&line.products) {
            assert!(stay.freed.is_some_and(|freed| freed >= products.to), "{stay:?} {products:?}");
        }
        // With a single role and no slot in reserve, it waits for all of them.
        let line = of("wgmma");
        let starts = line.done.iter().filter(|done| done.work == Work::Start).skip(1);
        assert!(starts.zip(&line.products).all(|(start, before)| start.from >= before.to));
        assert!(of("mma").products.is_empty());
    }

    /// Persistent blocks copy the next tile's K-tiles while this one is stored; of two ping-pong groups, one multiplies while
    /// the other one stores.
    #[test]
    fn the_next_tile_begins_while_this_one_is_stored() {
        let line = of("wgmma_persistent");
        assert_eq!((line.tiles, line.lanes.len()), (2, 2));
        let epilogue = line.done.iter().find(|done| done.work == Work::Epilogue).unwrap();
        let copied = line.stays.iter().find(|stay| stay.tile == Some(K_TILES)).unwrap();
        assert!(copied.filled < epilogue.from, "{copied:?} {epilogue:?}");
        let next = line.products.iter().find(|done| done.tile == Some(K_TILES)).unwrap();
        assert!(next.from >= epilogue.to, "{next:?} {epilogue:?}");

        let line = of("wgmma_pingpong");
        assert_eq!((line.tiles, line.lanes.len()), (2, 3));
        let epilogue = line.done.iter().find(|done| done.work == Work::Epilogue).unwrap();
        let next = line.products.iter().find(|done| done.tile == Some(K_TILES)).unwrap();
        assert!(next.lane != epilogue.lane && next.from <= epilogue.from, "{next:?} {epilogue:?}");
        assert!(line.products.windows(2).all(|pair| pair[0].to == pair[1].from), "{:?}", line.products);
        assert_eq!(of("wgmma_roles").tiles, 1);
    }

    #[test]
    fn a_second_slot_hides_the_loads() {
        let waits = |name| {
            let line = of(name);
            let waits = line.done.iter().filter(|done| done.work == Work::Wait).map(|done| done.to - done.from);
            (waits.sum::<f64>(), line.end)
        };
        let (one, two) = (waits("vectorized"), waits("double_buffered"));
        assert!(two.0 < one.0 / 4.0 && two.1 < one.1, "{one:?} {two:?}");
    }
}
