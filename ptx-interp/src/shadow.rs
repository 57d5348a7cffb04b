//! The latest accesses to each word of shared memory: the race detector.
//!
//! A word records its last writer, and every thread that has read it since: a clock and a set of lanes for each warp,
//! and a list for accesses that do not fit this form (strong accesses, lanes of one warp that read at different
//! clocks). Two accesses by different threads, at least one of them a write, race unless [`Clocks`] orders the first
//! before the second. If both write the same bits, the caller decides ([`Shadow::write_equal`]). Strong accesses do not
//! race with each other. Words that are accessed in halves or bytes are tracked byte by byte.

mod equal;

pub(crate) use self::equal::Judge;
use crate::clocks::Clocks;
use crate::flags::Scope;
use crate::knowledge::{column_of_copies, of_copies};
use crate::reads::{Read, Reads};
use crate::row::{LANES, lanes};

/// A thread at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    pub(crate) block: u32,
    /// Index within the block.
    pub(crate) thread: u16,
    pub(crate) pc: u32,
    /// Set for a volatile, relaxed, acquire, release or atomic access: the threads that it includes.
    pub(crate) strong: Option<Scope>,
    /// Whether it reads and writes atomically.
    pub(crate) atomic: bool,
}

/// An access that may have to be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) actor: Actor,
    /// 0 for no access; everything is ordered after it.
    pub(crate) clock: u32,
    pub(crate) did: Did,
}

/// The kind of a recorded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Did {
    Read,
    /// A strong read of the value before the newest write.
    ReadBefore,
    Write,
}

pub(crate) const NO_ACCESS: Access =
    Access { actor: Actor { block: 0, thread: 0, pc: 0, strong: None, atomic: false }, clock: 0, did: Did::Write };

/// The state of a word, or of a byte.
#[derive(Clone, Copy, Debug)]
struct Word {
    writer: Access,
    /// Warps of its block that have read it since. Each of them has an entry in [`Reads`].
    readers: u32,
    /// Index plus one of its entry in [`Shadow::further`], if it has listed accesses.
    further: u32,
    /// Index plus one of the word's bytes, if they are tracked separately.
    split: u32,
    /// Whether a `cp.async` by the writer is still in flight.
    in_flight: bool,
}

const UNTOUCHED: Word = Word { writer: NO_ACCESS, readers: 0, further: 0, split: 0, in_flight: false };

/// Accesses of the generic proxy by lanes of a warp, as a later bulk copy finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Past {
    pub(crate) pc: u32,
    pub(crate) warp: u16,
    pub(crate) clock: u32,
    pub(crate) did: Did,
    pub(crate) lanes: u32,
}

impl Past {
    fn of(access: &Access) -> Past {
        let Access { actor, clock, did } = *access;
        let (warp, lane) = (actor.thread / LANES as u16, usize::from(actor.thread) % LANES);
        Past { warp, lanes: 1 << lane, pc: actor.pc, clock, did }
    }

    pub(crate) fn threads(&self) -> impl Iterator<Item = u16> + use<> {
        let first = self.warp * LANES as u16;
        lanes(self.lanes).map(move |lane| first + lane as u16)
    }
}

/// The clock of a write to global memory by a copy that may still be in flight, which no thread knows.
pub(crate) const IN_FLIGHT: u32 = u32::MAX;

/// Set in the clock of a write to shared memory that an mbarrier counts ([`Shadow::write_apart`]). Such a clock is a
/// number of copies, which is not comparable with the clocks of warps.
const APART: u32 = 1 << 31;

/// How two accesses conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Nothing orders the two accesses.
    Unordered(Access),
    /// The copy that made the other access is not complete.
    InFlight(Access),
    /// Nothing orders two stores of the same bits.
    Equal(Access),
}

/// Which recorded accesses [`Shadow::write_equal`] has already dealt with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    Nothing,
    Writes,
}

impl Conflict {
    /// The conflict with an earlier access that is not ordered before the current one.
    pub(crate) fn of(access: &Access) -> Conflict {
        match access.clock {
            IN_FLIGHT => Conflict::InFlight(*access),
            _ => Conflict::Unordered(*access),
        }
    }
}

/// Shadow of a block's shared memory, by offset within the block. Reads by threads of other blocks are listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    /// The block's first warp in its cluster.
    first: usize,
    /// The words, then four entries for each word with separately tracked bytes.
    words: Vec<Word>,
    reads: Reads,
    further: Vec<Vec<Access>>,
}

impl Shadow {
    pub(crate) fn reset(&mut self, bytes: usize, first: usize, warps: usize) {
        let words = bytes.div_ceil(4);
        self.first = first;
        self.words.clear();
        self.words.resize(words, UNTOUCHED);
        self.reads.reset(words, warps);
        self.further.clear();
    }

    #[inline(always)]
    pub(crate) fn read(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor) -> Result<(), Conflict> {
        let warp = usize::from(actor.thread) / LANES;
        let (now, bit) = (clocks.now(warp), 1 << (usize::from(actor.thread) % LANES));
        if bytes >= 4
            && actor.strong.is_none()
            && let Some(warp) = self.own(warp)
        {
            let first = warp * self.reads.whole;
            for index in offset / 4..(offset + bytes) / 4 {
                let read = &mut self.reads.of_words[first + index];
                if read.quick == now {
                    read.lanes |= bit;
                } else {
                    self.read_word(clocks, index, actor)?;
                }
            }
            return Ok(());
        }
        self.each(offset, bytes, |shadow, index| shadow.read_one(clocks, index, actor))
    }

    /// Adds lanes of a reading warp at the same location, if the result for the first lane holds for all of them.
    #[inline(always)]
    pub(crate) fn join(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor, lanes: u32) -> bool {
        let warp = usize::from(actor.thread) / LANES;
        let Some(own) = self.own(warp) else { return false };
        let (first, now) = (own * self.reads.whole, clocks.now(warp));
        let words = first + offset / 4..first + (offset + bytes) / 4;
        let covered =
            bytes >= 4 && actor.strong.is_none() && self.reads.of_words[words.clone()].iter().all(|r| r.quick == now);
        if covered {
            self.reads.of_words[words].iter_mut().for_each(|read| read.lanes |= lanes);
        }
        covered
    }

    /// Checks that an access comes after the writer, without recording it.
    pub(crate) fn words_after_writers(
        &self,
        clocks: &Clocks,
        offset: usize,
        bytes: usize,
        actor: Actor,
    ) -> Result<(), Conflict> {
        (offset / 4..(offset + bytes) / 4).try_for_each(|index| self.after_writer(clocks, index, actor))
    }

    /// The index of a warp within the block, if it belongs to it.
    #[inline(always)]
    fn own(&self, warp: usize) -> Option<usize> {
        let own = warp.wrapping_sub(self.first);
        (own < self.reads.warps).then_some(own)
    }

    #[inline(never)]
    fn read_word(&mut self, clocks: &Clocks, index: usize, actor: Actor) -> Result<(), Conflict> {
        if self.words[index].split != 0 {
            return self.each(index * 4, 4, |shadow, index| shadow.read_one(clocks, index, actor));
        }
        self.read_one(clocks, index, actor)
    }

    fn read_one(&mut self, clocks: &Clocks, index: usize, actor: Actor) -> Result<(), Conflict> {
        if let Err(conflict) = self.after_writer(clocks, index, actor) {
            self.unless_stored_too(conflict, index, actor)?;
        }
        let (warp, lane) = (usize::from(actor.thread) / LANES, usize::from(actor.thread) % LANES);
        let (now, bit) = (clocks.now(warp), 1u32 << lane);
        let word = &self.words[index];
        if word.further != 0 {
            let writes = self.further[word.further as usize - 1].iter().filter(|access| access.did == Did::Write);
            if let Err(conflict) = after_all(clocks, writes, actor) {
                self.unless_stored_too(conflict, index, actor)?;
            }
        }
        let own = self.own(warp).filter(|_| actor.strong.is_none());
        let Some(own) = own else {
            self.list(clocks, index, Access { actor, clock: now, did: Did::Read });
            return Ok(());
        };
        let word = &mut self.words[index];
        let quick = if word.writer.clock <= clocks.floor() && word.further == 0 { now } else { 0 };
        let new = Read { quick, clock: now, lanes: bit, pc: actor.pc };
        let read = self.reads.at_mut(index, own);
        if word.readers >> own & 1 == 0 {
            word.readers |= 1 << own;
            *read = new;
        } else if read.clock == now {
            read.lanes |= bit;
        } else {
            // Lanes that the warp has not synchronised with since stay recorded, unless the same thread reads again.
            let old = std::mem::replace(read, new);
            if old.clock > clocks.seen(warp, warp) {
                for lane in lanes(old.lanes & !bit) {
                    let thread = (warp * LANES + lane) as u16;
                    let actor = Actor { thread, pc: old.pc, ..actor };
                    self.list(clocks, index, Access { actor, clock: old.clock, did: Did::Read });
                }
            }
        }
        Ok(())
    }

    /// Lists an access. Accesses of the same kind that are ordered before it become redundant.
    fn list(&mut self, clocks: &Clocks, index: usize, access: Access) {
        let word = &mut self.words[index];
        if word.further == 0 {
            self.further.push(Vec::new());
            word.further = self.further.len() as u32;
        }
        let further = &mut self.further[word.further as usize - 1];
        further.retain(|old| !access.subsumes(old, clocks));
        further.push(access);
    }

    #[inline(always)]
    pub(crate) fn write(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor) -> Result<(), Conflict> {
        self.each(offset, bytes, |shadow, index| shadow.write_one(clocks, index, actor))
    }

    /// A copy starts: from now on it owns the destination.
    pub(crate) fn start(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor) -> Result<(), Conflict> {
        self.each(offset, bytes, |shadow, index| {
            shadow.write_one(clocks, index, actor)?;
            shadow.words[index].in_flight = true;
            Ok(())
        })
    }

    /// A thread writes asynchronously. This is checked like a write by the thread. Then its writer becomes the thread
    /// that represents the copies of an mbarrier, given by `known`, and even the writing thread itself has to wait
    /// there.
    pub(crate) fn write_apart(
        &mut self,
        clocks: &Clocks,
        offset: usize,
        bytes: usize,
        actor: Actor,
        known: (u32, u32),
    ) -> Result<(), Conflict> {
        self.each(offset, bytes, |shadow, index| {
            shadow.write_one(clocks, index, actor)?;
            let writer = &mut shadow.words[index].writer;
            writer.actor.thread = of_copies(known.0);
            writer.clock = APART | known.1;
            Ok(())
        })
    }

    /// A thread starts a bulk copy. This is checked like an access by the thread, and `seen` is called with the earlier
    /// accesses: the writers and the readers. From then on [`crate::agents`] tracks the copy; a word that it writes no
    /// longer has a writer here.
    pub(crate) fn hand_over(
        &mut self,
        clocks: &Clocks,
        offset: usize,
        bytes: usize,
        actor: Actor,
        writes: bool,
        mut seen: impl FnMut(Past),
    ) -> Result<(), Conflict> {
        self.each(offset, bytes, |shadow, index| {
            let word = shadow.words[index];
            let listed = word.further.checked_sub(1).map_or(&[][..], |at| &shadow.further[at as usize]);
            let listed: Vec<Past> =
                listed.iter().filter(|past| writes || past.did == Did::Write).map(Past::of).collect();
            if writes {
                shadow.write_one(clocks, index, actor)?;
                shadow.words[index].writer = NO_ACCESS;
                for warp in lanes(word.readers) {
                    let Read { lanes, pc, clock, .. } = *shadow.reads.at(index, warp);
                    let warp = (shadow.first + warp) as u16;
                    seen(Past { warp, lanes, pc, clock, did: Did::Read });
                }
            } else {
                shadow.after_writer(clocks, index, actor)?;
            }
            if word.writer.clock > 0 {
                seen(Past::of(&word.writer));
            }
            listed.into_iter().for_each(&mut seen);
            Ok(())
        })
    }

    /// Whether no thread, and no copy by a thread, has written these words since a bulk copy did.
    #[inline(always)]
    pub(crate) fn has_no_writer(&self, offset: usize, bytes: usize) -> bool {
        let words = &self.words[offset / 4..(offset + bytes) / 4];
        words.iter().all(|word| word.writer.clock == 0 && word.further | word.split == 0 && !word.in_flight)
    }

    /// A copy completes: its thread writes now.
    pub(crate) fn land(&mut self, clocks: &Clocks, offset: usize, bytes: usize) {
        let _ = self.each(offset, bytes, |shadow, index| {
            let word = &mut shadow.words[index];
            word.in_flight = false;
            word.writer.clock = clocks.now(usize::from(word.writer.actor.thread) / LANES);
            Ok(())
        });
    }

    /// A copy completes for an mbarrier. Its writer becomes a separate thread, `columns` warps further on, so that even
    /// the thread that started it has to wait there.
    pub(crate) fn land_apart(&mut self, offset: usize, bytes: usize, columns: usize, clock: u32) {
        let _ = self.each(offset, bytes, |shadow, index| {
            let word = &mut shadow.words[index];
            word.in_flight = false;
            word.writer.actor.thread += (columns * LANES) as u16;
            word.writer.clock = clock;
            Ok(())
        });
    }

    #[inline(always)]
    fn after_writer(&self, clocks: &Clocks, index: usize, actor: Actor) -> Result<(), Conflict> {
        let word = &self.words[index];
        if word.in_flight {
            return Err(Conflict::InFlight(word.writer));
        }
        if word.writer.clock > clocks.floor()
            && word.writer.conflicts(clocks, actor)
            && !word.writer.ordered(clocks, actor.thread)
            && !self.observed(clocks, word, actor)
        {
            return Err(Conflict::Unordered(word.writer));
        }
        Ok(())
    }

    fn observed(&self, clocks: &Clocks, word: &Word, actor: Actor) -> bool {
        word.further != 0 && observed(clocks, &word.writer, self.further[word.further as usize - 1].iter(), actor)
    }

    #[inline(always)]
    fn write_one(&mut self, clocks: &Clocks, index: usize, actor: Actor) -> Result<(), Conflict> {
        self.after_writer(clocks, index, actor)?;
        let old = self.words[index].writer;
        let left = old.is_left_by(clocks, actor) && !self.observed(clocks, &self.words[index], actor);
        self.replace(clocks, index, actor, left, Judged::Nothing)
    }

    /// Makes a thread the writer of a word, after its readers and the listed accesses. `left` says whether the old
    /// writer stays recorded.
    #[inline(always)]
    fn replace(
        &mut self,
        clocks: &Clocks,
        index: usize,
        actor: Actor,
        left: bool,
        judged: Judged,
    ) -> Result<(), Conflict> {
        let old = self.words[index].writer;
        let word = &mut self.words[index];
        let warp = usize::from(actor.thread) / LANES;
        for reader in lanes(word.readers) {
            let read = self.reads.at_mut(index, reader);
            read.quick = 0;
            let reader = self.first + reader;
            if read.clock > clocks.floor() && read.clock > clocks.seen(warp, reader) {
                after_readers(clocks, reader, read, actor)?;
            }
        }
        if word.further != 0 {
            let further = &mut self.further[word.further as usize - 1];
            after_all(clocks, further.iter().filter(|old| judged == Judged::Nothing || old.did != Did::Write), actor)?;
            further.retain_mut(|old| {
                if old.did == Did::Read {
                    old.did = Did::ReadBefore;
                }
                !old.is_by(actor) && !old.ordered(clocks, actor.thread)
            });
            if further.is_empty() {
                word.further = 0;
            }
        }
        word.readers = 0;
        word.writer = Access { actor, clock: clocks.now(warp), did: Did::Write };
        if left {
            self.list(clocks, index, old);
        }
        Ok(())
    }

    /// Visits the words of an access, or their bytes if these are tracked separately.
    #[inline(always)]
    fn each(
        &mut self,
        offset: usize,
        bytes: usize,
        mut f: impl FnMut(&mut Shadow, usize) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        if bytes < 4 {
            return self.each_byte(offset, bytes, f);
        }
        for index in offset / 4..(offset + bytes) / 4 {
            if self.words[index].split != 0 {
                self.each_byte(index * 4, 4, &mut f)?;
            } else {
                f(self, index)?;
            }
        }
        Ok(())
    }

    /// Visits the bytes of one word, which are tracked separately from now on.
    #[inline(never)]
    fn each_byte(
        &mut self,
        offset: usize,
        bytes: usize,
        mut f: impl FnMut(&mut Shadow, usize) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        let index = offset / 4;
        if self.words[index].split == 0 {
            self.split(index);
        }
        let first = self.words[index].split as usize - 1;
        (first + offset % 4..first + offset % 4 + bytes).try_for_each(|byte| f(self, byte))
    }

    fn split(&mut self, index: usize) {
        let word = self.words[index];
        let first = self.words.len();
        for _ in 0..4 {
            let mut byte = word;
            if word.further != 0 {
                self.further.push(self.further[word.further as usize - 1].clone());
                byte.further = self.further.len() as u32;
            }
            self.words.push(byte);
        }
        self.reads.split(index);
        (self.words[index].split, self.words[index].readers) = (first as u32 + 1, 0);
    }
}

/// Checks that all lanes of a warp that have read are ordered before a write.
#[inline(never)]
fn after_readers(clocks: &Clocks, warp: usize, read: &Read, actor: Actor) -> Result<(), Conflict> {
    for lane in lanes(read.lanes) {
        let thread = (warp * LANES + lane) as u16;
        let reader = Actor { block: actor.block, thread, pc: read.pc, strong: None, atomic: false };
        let read = Access { actor: reader, clock: read.clock, did: Did::Read };
        if read.conflicts(clocks, actor) && !read.ordered(clocks, actor.thread) {
            return Err(Conflict::Unordered(read));
        }
    }
    Ok(())
}

/// Checks that all those accesses that need an order come before what a thread does now.
pub(crate) fn after_all<'a>(
    clocks: &Clocks,
    mut accesses: impl Iterator<Item = &'a Access>,
    actor: Actor,
) -> Result<(), Conflict> {
    let found = accesses.find(|access| access.conflicts(clocks, actor) && !access.ordered(clocks, actor.thread));
    found.map_or(Ok(()), |access| Err(Conflict::of(access)))
}

/// After a strong read of a strong write, a thread's later accesses come after that write, whether or not the read
/// acquires anything else: causality includes observation.
pub(crate) fn observed<'a>(
    clocks: &Clocks,
    writer: &Access,
    mut listed: impl Iterator<Item = &'a Access>,
    actor: Actor,
) -> bool {
    writer.actor.strong.is_some()
        && listed.any(|read| {
            read.did == Did::Read
                && read.actor.strong.is_some()
                && !writer.conflicts(clocks, read.actor)
                && (read.is_by(actor) || read.ordered(clocks, actor.thread))
        })
}

impl Access {
    pub(crate) fn is_by(&self, actor: Actor) -> bool {
        (self.actor.thread, self.actor.block) == (actor.thread, actor.block)
    }

    /// Whether the two accesses need an order, given that one of them is a write: they are by different threads, and
    /// not both strong with scopes that include each other.
    #[inline(always)]
    pub(crate) fn conflicts(&self, clocks: &Clocks, actor: Actor) -> bool {
        if self.is_by(actor) {
            return false;
        }
        match (self.actor.strong, actor.strong) {
            (Some(a), Some(b)) if self.actor.block != actor.block => a.min(b) < Scope::Gpu,
            (Some(a), Some(b)) => a.min(b) == Scope::Cta && clocks.rank(self.actor.thread) != clocks.rank(actor.thread),
            _ => true,
        }
    }

    /// Whether a strong write stays recorded when the actor writes. Strong writes do not race with each other, and a
    /// weak access has to come after all of them. An atomic reads the previous write and replaces it in the record. So
    /// does a thread that has read the write before.
    pub(crate) fn is_left_by(&self, clocks: &Clocks, actor: Actor) -> bool {
        let stays = !actor.atomic || self.clock >= APART;
        self.actor.strong.is_some() && stays && !self.is_by(actor) && !self.ordered(clocks, actor.thread)
    }

    #[inline(always)]
    pub(crate) fn ordered(&self, clocks: &Clocks, thread: u16) -> bool {
        self.clock == 0 || clocks.ordered_across_blocks(self.actor.block, self.plain_clock(), self.actor.thread, thread)
    }

    /// The clock of its thread, or the number of copies that an mbarrier had counted.
    #[inline(always)]
    pub(crate) fn plain_clock(&self) -> u32 {
        match column_of_copies(self.actor.thread) {
            Some(_) => self.clock & !APART,
            None => self.clock,
        }
    }

    /// Whether everything that has to come after an older access also has to come after this one.
    pub(crate) fn subsumes(&self, old: &Access, clocks: &Clocks) -> bool {
        // The copies of an mbarrier do not know of other threads.
        let counted = column_of_copies(self.actor.thread).is_some();
        (old.did, old.actor.strong) == (self.did, self.actor.strong)
            && (old.is_by(self.actor) || !counted && old.ordered(clocks, self.actor.thread))
    }
}
