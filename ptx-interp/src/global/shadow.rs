//! The accesses to each word of an allocation in this launch: the race detector for global memory.
//!
//! The rules are those of [`crate::shadow`], applied to the threads of all blocks. The shadow is allocated in chunks on
//! first access, and the writers of a chunk only when something is written. So read-only operands stay cheap: each of
//! their words costs one entry, with the lanes of a warp that have read it.
//!
//! Blocks that do not communicate are not ordered with each other. They run on several host threads, and readers in two
//! blocks are recorded as "any block", since every write races with such a pair. Which of two accesses comes second
//! then depends on the host. So the first race is not reported: it restores memory, and the blocks run again, one at a
//! time.

mod equal;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::buffer::{Buffer, Image};
use crate::clocks::Clocks;
use crate::row::{LANES, lanes};
use crate::shadow::{Access, Actor, Conflict, Did, IN_FLIGHT, NO_ACCESS, after_all, observed};

/// [`crate::shadow::Judge`], for a lane of a row.
pub(crate) type JudgeLane<'a> = &'a mut dyn FnMut(usize, usize, usize, &Access) -> bool;

/// Which recorded accesses [`Chunk::write_equal`] has already dealt with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    Nothing,
    Writes,
}

/// Words per chunk.
const CHUNK: usize = 4096;
/// Number of warps that may read a word and be recorded individually. Beyond it, reads are recorded per block.
const WARPS: usize = 64;

/// Whether readers in other blocks are recorded separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// A race is detected; another run determines which accesses it is between.
    Quick,
    Exact,
}

/// Shadow of one allocation.
#[derive(Debug)]
pub(crate) struct GlobalShadow {
    detail: Detail,
    words: usize,
    chunks: Box<[Mutex<Option<Box<Chunk>>>]>,
}

#[derive(Debug, Default)]
struct Chunk {
    /// The chunk's words, then four entries for each word with separately tracked bytes.
    readers: Vec<Readers>,
    /// Parallel to the readers; empty until something is written.
    writers: Vec<Access>,
    /// Readers that are not lanes of one warp, and strong accesses that do not race with the writer.
    lists: Vec<Vec<Listed>>,
    /// By word, the index of its bytes.
    split: HashMap<usize, usize>,
    /// The contents of memory before the first write.
    before: Option<Image>,
}

/// The readers of a word since it was last written.
#[derive(Clone, Copy, Debug, Default)]
struct Readers {
    kind: Kind,
    strong: Option<crate::flags::Scope>,
    warp: u16,
    block: u32,
    /// The lanes of the warp; for a list, its index.
    lanes: u32,
    clock: u32,
    pc: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    None,
    Warp,
    List,
    AnyBlock,
}

/// One of several accesses to a word.
#[derive(Clone, Copy, Debug)]
enum Listed {
    Readers(Readers),
    Access(Access),
}

/// An access by a row of lanes.
pub(crate) struct Row<'a> {
    pub(crate) did: Did,
    /// The thread of lane 0.
    pub(crate) actor: Actor,
    pub(crate) active: u32,
    /// The agent to record instead.
    pub(crate) agent: Option<Agent>,
    /// The offset of each lane's bytes.
    pub(crate) offsets: &'a dyn Fn(usize) -> usize,
    pub(crate) bytes: usize,
}

/// A copy that accesses memory on behalf of the thread that started it, with the clock at which other threads know that
/// it is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agent {
    pub(crate) thread: u16,
    pub(crate) clock: u32,
}

/// The thread that accesses memory and provides the knowledge, and the thread that is recorded.
#[derive(Clone, Copy)]
struct By {
    actor: Actor,
    agent: Option<Agent>,
}

impl By {
    #[inline(always)]
    fn remembered(&self, clocks: &Clocks) -> (u16, u32) {
        match self.agent {
            Some(Agent { thread, clock }) => (thread, clock),
            None => (self.actor.thread, clocks.now(usize::from(self.actor.thread) / LANES)),
        }
    }
}

impl GlobalShadow {
    pub(crate) fn new(buffer: &Buffer, detail: Detail) -> GlobalShadow {
        let words = buffer.words();
        let chunks = (0..words.div_ceil(CHUNK)).map(|_| Mutex::default()).collect();
        GlobalShadow { detail, words, chunks }
    }

    fn lock(&self, chunk: usize) -> MutexGuard<'_, Option<Box<Chunk>>> {
        self.chunks[chunk].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks and records an access by lanes of a warp. Returns the first lane that races, and the conflict. The judge
    /// decides about stores of equal bits; without one they conflict.
    pub(crate) fn touch(
        &self,
        buffer: &Buffer,
        clocks: &Clocks,
        row: &Row,
        mut judge: Option<JudgeLane<'_>>,
    ) -> Result<(), (usize, Conflict)> {
        let mut held: Option<(usize, MutexGuard<'_, Option<Box<Chunk>>>)> = None;
        for lane in lanes(row.active) {
            let offset = (row.offsets)(lane);
            let number = offset / 4 / CHUNK;
            if held.as_ref().is_none_or(|(at, _)| *at != number) {
                // The old lock is released before the new one is acquired.
                drop(held.take());
                held = Some((number, self.lock(number)));
            }
            let Some((_, guard)) = &mut held else { continue };
            let first = number * CHUNK;
            let words = CHUNK.min(self.words - first);
            let chunk = guard.get_or_insert_with(|| Box::new(Chunk::new(words)));
            if row.did == Did::Write && chunk.writers.is_empty() {
                chunk.writers = vec![NO_ACCESS; chunk.readers.len()];
                if self.detail == Detail::Quick {
                    chunk.before = Some(buffer.image(first, words));
                }
            }
            let actor = Actor { thread: row.actor.thread + lane as u16, ..row.actor };
            let by = By { actor, agent: row.agent };
            let within = offset - 4 * first;
            if let Err(conflict) = chunk.access(clocks, self.detail, within, row.bytes, row.did, by) {
                chunk.judged((clocks, self.detail), (within, row), by, lane, conflict, &mut judge)?;
            }
        }
        Ok(())
    }

    /// Restores the contents of memory from before the launch.
    pub(crate) fn restore(&self, buffer: &Buffer) {
        for (number, chunk) in self.chunks.iter().enumerate() {
            let chunk = chunk.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(image) = chunk.as_ref().and_then(|chunk| chunk.before.as_ref()) {
                buffer.restore(number * CHUNK, image);
            }
        }
    }

    /// Splits the bytes from one offset to another at chunk boundaries, and into single bytes where the range begins or
    /// ends within a word.
    pub(crate) fn parts(mut from: usize, to: usize) -> impl Iterator<Item = (usize, usize)> {
        std::iter::from_fn(move || {
            let rest = to - from;
            let bytes = match (from % 4, rest) {
                (_, 0) => return None,
                (0, 4..) => (4 * CHUNK - from % (4 * CHUNK)).min(rest / 4 * 4),
                (within, _) => rest.min(4 - within),
            };
            from += bytes;
            Some((from - bytes, bytes))
        })
    }

    /// Visits the writers of a part of a chunk, grouping neighbours written by one access.
    pub(crate) fn writers(&self, (offset, bytes): (usize, usize), mut seen: impl FnMut(usize, &Access)) {
        let guard = self.lock(offset / 4 / CHUNK);
        let Some(chunk) = guard.as_ref() else { return };
        if chunk.writers.is_empty() {
            return;
        }
        let mut last = NO_ACCESS;
        chunk.cells(offset % (4 * CHUNK), bytes, |cell, at| {
            let mut one = |writer: &Access| {
                if writer.did == Did::Write && writer.clock != 0 && *writer != last {
                    last = *writer;
                    seen(offset - offset % (4 * CHUNK) + at, writer);
                }
            };
            one(&chunk.writers[cell]);
            if chunk.readers[cell].kind == Kind::List {
                for listed in &chunk.lists[chunk.readers[cell].lanes as usize] {
                    if let Listed::Access(access) = listed {
                        one(access);
                    }
                }
            }
        });
    }

    /// Records that the thread knows that the writes of its copies to a part of a chunk are complete.
    pub(crate) fn complete(&self, clocks: &Clocks, (offset, bytes): (usize, usize), actor: Actor) {
        let mut guard = self.lock(offset / 4 / CHUNK);
        let Some(chunk) = guard.as_mut() else { return };
        let now = clocks.now(usize::from(actor.thread) / LANES);
        let mut cells = Vec::new();
        chunk.cells(offset % (4 * CHUNK), bytes, |cell, _| cells.push(cell));
        let mark_complete = |access: &mut Access| {
            if access.clock == IN_FLIGHT && access.is_by(actor) {
                access.clock = now;
            }
        };
        for cell in cells {
            chunk.writers.get_mut(cell).map(mark_complete);
            if chunk.readers[cell].kind == Kind::List {
                for listed in &mut chunk.lists[chunk.readers[cell].lanes as usize] {
                    if let Listed::Access(access) = listed {
                        mark_complete(access);
                    }
                }
            }
        }
    }

    /// The last writer of a word.
    pub(crate) fn writer(&self, offset: usize) -> Option<Access> {
        let guard = self.lock(offset / 4 / CHUNK);
        let writer = *guard.as_ref()?.writers.get(offset / 4 % CHUNK)?;
        (writer.clock != 0).then_some(writer)
    }
}

impl Chunk {
    fn new(words: usize) -> Chunk {
        Chunk { readers: vec![Readers::default(); words], ..Chunk::default() }
    }

    #[inline(always)]
    fn access(
        &mut self,
        clocks: &Clocks,
        detail: Detail,
        offset: usize,
        bytes: usize,
        did: Did,
        by: By,
    ) -> Result<(), Conflict> {
        let one = |chunk: &mut Chunk, cell: usize| match did {
            Did::Read | Did::ReadBefore => chunk.read(clocks, detail, cell, by),
            Did::Write => chunk.write(clocks, cell, by),
        };
        if bytes < 4 {
            let first = self.bytes_of(offset / 4) + offset % 4;
            return (first..first + bytes).try_for_each(|cell| one(self, cell));
        }
        for word in offset / 4..(offset + bytes) / 4 {
            match self.split.is_empty() {
                true => one(self, word)?,
                false => match self.split.get(&word).copied() {
                    Some(first) => (first..first + 4).try_for_each(|cell| one(self, cell))?,
                    None => one(self, word)?,
                },
            }
        }
        Ok(())
    }

    /// Visits the entries for a part of the chunk, with the offset of each in the part.
    fn cells(&self, offset: usize, bytes: usize, mut f: impl FnMut(usize, usize)) {
        for word in offset / 4..(offset + bytes).div_ceil(4) {
            match self.split.get(&word) {
                None => f(word, 4 * word),
                Some(first) => {
                    let within = (0..4).filter(|byte| (offset..offset + bytes).contains(&(4 * word + byte)));
                    within.for_each(|byte| f(first + byte, 4 * word + byte));
                }
            }
        }
    }

    /// Splits a word: from now on its bytes are tracked separately. Returns their index.
    fn bytes_of(&mut self, word: usize) -> usize {
        if let Some(first) = self.split.get(&word) {
            return *first;
        }
        let first = self.readers.len();
        for _ in 0..4 {
            let mut readers = self.readers[word];
            if readers.kind == Kind::List {
                self.lists.push(self.lists[readers.lanes as usize].clone());
                readers.lanes = self.lists.len() as u32 - 1;
            }
            self.readers.push(readers);
            if !self.writers.is_empty() {
                self.writers.push(self.writers[word]);
            }
        }
        self.split.insert(word, first);
        first
    }

    #[inline(always)]
    fn after_writer(&self, clocks: &Clocks, cell: usize, actor: Actor) -> Result<(), Conflict> {
        let Some(writer) = self.writers.get(cell) else { return Ok(()) };
        if writer.clock != 0
            && writer.conflicts(clocks, actor)
            && !writer.ordered(clocks, actor.thread)
            && (writer.clock == IN_FLIGHT || !self.observed(clocks, cell, actor))
        {
            return Err(Conflict::of(writer));
        }
        Ok(())
    }

    fn observed(&self, clocks: &Clocks, cell: usize, actor: Actor) -> bool {
        let (writer, readers) = (&self.writers[cell], &self.readers[cell]);
        let by = |readers: &Readers| readers.accesses().any(|read| observed(clocks, writer, [read].iter(), actor));
        match readers.kind {
            Kind::Warp => by(readers),
            Kind::List => self.lists[readers.lanes as usize]
                .iter()
                .any(|listed| matches!(listed, Listed::Readers(readers) if by(readers))),
            Kind::None | Kind::AnyBlock => false,
        }
    }

    #[inline(always)]
    fn read(&mut self, clocks: &Clocks, detail: Detail, cell: usize, by: By) -> Result<(), Conflict> {
        self.after_writer(clocks, cell, by.actor)?;
        self.record_reader(clocks, detail, cell, by)
    }

    /// Records a reader of a word after its writer was checked.
    #[inline(always)]
    fn record_reader(&mut self, clocks: &Clocks, detail: Detail, cell: usize, by: By) -> Result<(), Conflict> {
        let actor = by.actor;
        let (thread, clock) = by.remembered(clocks);
        let readers = &mut self.readers[cell];
        let new = Readers {
            kind: Kind::Warp,
            strong: actor.strong,
            warp: thread / LANES as u16,
            block: actor.block,
            lanes: 1 << (usize::from(thread) % LANES),
            clock,
            pc: actor.pc,
        };
        match readers.kind {
            Kind::AnyBlock => {}
            Kind::None => *readers = new,
            Kind::Warp if readers.goes_with(&new) => readers.lanes |= new.lanes,
            Kind::Warp if detail == Detail::Quick && readers.block != actor.block => readers.kind = Kind::AnyBlock,
            Kind::Warp if readers.is_before(clocks, by) => *readers = new,
            _ => return self.read_listed(clocks, detail, cell, new, by),
        }
        Ok(())
    }

    /// Adds a reader to a word that has several.
    #[inline(never)]
    fn read_listed(
        &mut self,
        clocks: &Clocks,
        detail: Detail,
        cell: usize,
        new: Readers,
        by: By,
    ) -> Result<(), Conflict> {
        let readers = self.readers[cell];
        if readers.kind == Kind::Warp {
            self.list(cell, Listed::Readers(readers));
        }
        let listed = self.lists[self.readers[cell].lanes as usize].iter().filter_map(|listed| match listed {
            Listed::Access(access) => Some(access),
            Listed::Readers(_) => None,
        });
        if let Err(conflict) = after_all(clocks, listed.filter(|access| access.did == Did::Write), by.actor) {
            self.unless_stored_too(conflict, cell, by.actor)?;
        }
        let list = &mut self.lists[self.readers[cell].lanes as usize];
        let others = |listed: &Listed| matches!(listed, Listed::Readers(old) if old.block != new.block);
        if detail == Detail::Quick && list.iter().any(others) {
            list.clear();
            self.readers[cell].kind = Kind::AnyBlock;
            return Ok(());
        }
        for listed in &mut *list {
            if let Listed::Readers(old) = listed
                && old.goes_with(&new)
            {
                old.lanes |= new.lanes;
                return Ok(());
            }
        }
        if list.len() >= WARPS {
            // From now on, one warp represents its block.
            for listed in &mut *list {
                if let Listed::Readers(old) = listed
                    && (old.block, old.strong) == (new.block, new.strong)
                {
                    *old = new;
                    return Ok(());
                }
            }
        }
        list.retain(|listed| match listed {
            Listed::Readers(old) => !old.is_before(clocks, by),
            Listed::Access(_) => true,
        });
        list.push(Listed::Readers(new));
        Ok(())
    }

    /// Whether there is room to record another access of copies that no thread waits for.
    fn has_room(&self, cell: usize) -> bool {
        let readers = &self.readers[cell];
        readers.kind != Kind::List || self.lists[readers.lanes as usize].len() < WARPS
    }

    fn list(&mut self, cell: usize, listed: Listed) {
        let readers = &mut self.readers[cell];
        if readers.kind == Kind::List {
            self.lists[readers.lanes as usize].push(listed);
            return;
        }
        let old = std::mem::take(readers);
        let list = if old.kind == Kind::Warp && !matches!(listed, Listed::Readers(_)) {
            vec![Listed::Readers(old), listed]
        } else {
            vec![listed]
        };
        self.lists.push(list);
        (readers.kind, readers.lanes) = (Kind::List, self.lists.len() as u32 - 1);
    }

    #[inline(always)]
    fn write(&mut self, clocks: &Clocks, cell: usize, by: By) -> Result<(), Conflict> {
        let actor = by.actor;
        self.after_writer(clocks, cell, actor)?;
        let old = self.writers[cell];
        let left = old.is_left_by(clocks, actor)
            && if old.clock == IN_FLIGHT { self.has_room(cell) } else { !self.observed(clocks, cell, actor) };
        self.replace(clocks, cell, by, left, Judged::Nothing)
    }

    /// Makes a thread the writer of a word, after its readers and the listed accesses. `left` says whether the old
    /// writer stays recorded.
    #[inline(always)]
    fn replace(&mut self, clocks: &Clocks, cell: usize, by: By, left: bool, judged: Judged) -> Result<(), Conflict> {
        let (actor, old) = (by.actor, self.writers[cell]);
        let readers = self.readers[cell];
        let mut kept = Vec::new();
        match readers.kind {
            Kind::None => {}
            Kind::Warp => {
                readers.before(clocks, actor)?;
                kept.extend(readers.left_by(clocks, actor));
            }
            Kind::AnyBlock => {
                let other = Access { did: Did::Read, actor, clock: 1 };
                return Err(Conflict::Unordered(other));
            }
            Kind::List => {
                for listed in &self.lists[readers.lanes as usize] {
                    match listed {
                        Listed::Readers(readers) => {
                            readers.before(clocks, actor)?;
                            kept.extend(readers.left_by(clocks, actor));
                        }
                        Listed::Access(access) => {
                            if judged == Judged::Nothing || access.did != Did::Write {
                                after_all(clocks, std::iter::once(access), actor)?;
                            }
                            if !access.is_by(actor) && !access.ordered(clocks, actor.thread) {
                                kept.push(*listed);
                            }
                        }
                    }
                }
                self.lists[readers.lanes as usize].clear();
            }
        }
        let (thread, clock) = by.remembered(clocks);
        self.writers[cell] = Access { actor: Actor { thread, ..actor }, clock, did: Did::Write };
        if readers.kind != Kind::List {
            self.readers[cell] = Readers::default();
        }
        if left {
            // Strong writes do not race with each other, and a weak access has to come after all of them.
            kept.push(Listed::Access(old));
        }
        kept.into_iter().for_each(|listed| self.list(cell, listed));
        Ok(())
    }
}

impl Readers {
    fn goes_with(&self, new: &Readers) -> bool {
        (self.clock, self.block, self.warp, self.strong) == (new.clock, new.block, new.warp, new.strong)
    }

    fn accesses(&self) -> impl Iterator<Item = Access> + '_ {
        lanes(self.lanes).map(|lane| {
            let thread = (usize::from(self.warp) * LANES + lane) as u16;
            let actor = Actor { block: self.block, thread, pc: self.pc, strong: self.strong, atomic: false };
            Access { actor, clock: self.clock, did: Did::Read }
        })
    }

    /// Strong reads that stay recorded when the actor writes.
    fn left_by<'a>(&'a self, clocks: &'a Clocks, actor: Actor) -> impl Iterator<Item = Listed> + 'a {
        let strong = self.strong.is_some();
        let left = self.accesses().filter(move |read| strong && !read.is_by(actor));
        let left = left.filter(move |read| !read.ordered(clocks, actor.thread));
        left.map(|read| Listed::Access(Access { did: Did::ReadBefore, ..read }))
    }

    /// Whether a later read by the actor implies all of these.
    fn is_before(&self, clocks: &Clocks, by: By) -> bool {
        if let Some(Agent { thread, .. }) = by.agent {
            // A thread that waits for a copy need not know what the copy's thread knew.
            return self.accesses().all(|old| (old.actor.block, old.actor.thread) == (by.actor.block, thread));
        }
        let new = Access { actor: by.actor, clock: self.clock, did: Did::Read };
        self.accesses().all(|old| new.subsumes(&old, clocks))
    }

    /// Checks that all of these are ordered before the actor's write.
    fn before(&self, clocks: &Clocks, actor: Actor) -> Result<(), Conflict> {
        for access in self.accesses() {
            after_all(clocks, std::iter::once(&access), actor)?;
        }
        Ok(())
    }
}
