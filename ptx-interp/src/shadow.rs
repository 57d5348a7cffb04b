//! Who touched each word of shared memory last: the race detector.
//!
//! A word remembers its last writer and two different readers. Two accesses by different threads, at least one a write,
//! race unless [`Clocks`] orders the first before the second; writing the same value is no excuse. Words that are
//! accessed by halves or bytes are remembered byte by byte.
//!
//! Known limit: of the readers that no barrier orders before a word's next write two are remembered, from two warps where
//! possible. A third one's race is missed if a barrier of a part of the block orders exactly those two.

use crate::clocks::Clocks;
use crate::row::LANES;

/// A thread at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    /// Number within the block.
    pub(crate) thread: u16,
    pub(crate) pc: u32,
    /// Volatile, relaxed, acquire, release or atomic: such accesses do not race with each other.
    pub(crate) strong: bool,
}

/// An access that may have to be ordered.
#[derive(Clone, Copy, Debug)]
struct Access {
    actor: Actor,
    /// 0 for none, which everything is ordered behind.
    clock: u32,
}

const NOBODY: Access = Access { actor: Actor { thread: 0, pc: 0, strong: true }, clock: 0 };

/// What is known of a word, or of a byte.
#[derive(Clone, Copy, Debug)]
struct Word {
    writer: Access,
    readers: [Access; 2],
    /// A `cp.async` by the writer is still under way.
    in_flight: bool,
    /// Index plus one of the word's bytes, if they are told apart.
    split: u32,
}

const UNTOUCHED: Word = Word { writer: NOBODY, readers: [NOBODY; 2], in_flight: false, split: 0 };

/// An access of the generic proxy, as a bulk copy that follows it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Past {
    pub(crate) thread: u16,
    pub(crate) pc: u32,
    pub(crate) clock: u32,
}

/// What it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Read,
    Write,
}

/// How two accesses conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// The other one wrote.
    Written(Actor),
    /// The other one read.
    Read(Actor),
    /// The other one's copy has not landed.
    InFlight(Actor),
}

/// Shadow of a block's shared memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    words: Vec<Word>,
    bytes: Vec<[Word; 4]>,
    /// By word, under which key another read changes nothing: [`Clocks::everybody`] once readers of two warps are
    /// known and all are ordered behind the writer, [`Clocks::only`] for a warp with two readers. 0 after a write.
    saturated: Vec<u64>,
}

impl Shadow {
    pub(crate) fn reset(&mut self, bytes: usize) {
        let words = bytes.div_ceil(4);
        self.words.clear();
        self.words.resize(words, UNTOUCHED);
        self.saturated.clear();
        self.saturated.resize(words, 0);
        self.bytes.clear();
    }

    #[inline(always)]
    pub(crate) fn read(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor) -> Result<(), Conflict> {
        if bytes < 4 {
            return self.each_byte(offset, bytes, |word| word.read(clocks, actor).map(|_| ()));
        }
        let (everybody, only) = (clocks.everybody(), clocks.only(usize::from(actor.thread) / LANES));
        for index in offset / 4..(offset + bytes) / 4 {
            let key = self.saturated[index];
            if key != everybody && key != only {
                self.read_word(clocks, index, actor)?;
            }
        }
        Ok(())
    }

    fn read_word(&mut self, clocks: &Clocks, index: usize, actor: Actor) -> Result<(), Conflict> {
        let word = &mut self.words[index];
        if word.split != 0 {
            return self.each_byte(index * 4, 4, |word| word.read(clocks, actor).map(|_| ()));
        }
        self.saturated[index] = word.read(clocks, actor)?;
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn write(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor) -> Result<(), Conflict> {
        self.change(offset, bytes, |word| word.write(clocks, actor))
    }

    /// A copy starts: from here on the destination belongs to it.
    pub(crate) fn start(&mut self, clocks: &Clocks, offset: usize, bytes: usize, actor: Actor) -> Result<(), Conflict> {
        self.change(offset, bytes, |word| {
            word.write(clocks, actor)?;
            word.in_flight = true;
            Ok(())
        })
    }

    /// A bulk copy starts, by this thread. It is checked like an access of the thread's, and what `seen` is told of: the last
    /// writer and the readers, as threads and clocks. From there on [`crate::agents`] knows what the copy does; a word that
    /// it writes has no writer here any more.
    pub(crate) fn hand_over(
        &mut self,
        clocks: &Clocks,
        offset: usize,
        bytes: usize,
        actor: Actor,
        writes: bool,
        mut seen: impl FnMut(Past, Did),
    ) -> Result<(), Conflict> {
        let warp = usize::from(actor.thread) / LANES;
        self.change(offset, bytes, |word| {
            let Word { writer, readers, .. } = *word;
            if writes {
                word.write(clocks, actor)?;
                word.writer = NOBODY;
                readers.iter().filter(|reader| reader.clock > 0).for_each(|reader| seen(reader.past(), Did::Read));
            } else {
                word.after_writer(clocks, actor, warp)?;
            }
            if writer.clock > 0 {
                seen(writer.past(), Did::Write);
            }
            Ok(())
        })
    }

    /// A copy lands: its thread has written, now.
    pub(crate) fn land(&mut self, clocks: &Clocks, offset: usize, bytes: usize) {
        let _ = self.change(offset, bytes, |word| {
            word.in_flight = false;
            word.writer.clock = clocks.now(usize::from(word.writer.actor.thread) / LANES);
            Ok(())
        });
    }

    /// A copy lands for an mbarrier. Its writer becomes a thread of its own, `columns` warps further on, so that even the
    /// thread that started it has to wait there.
    pub(crate) fn land_apart(&mut self, offset: usize, bytes: usize, columns: usize, clock: u32) {
        let _ = self.change(offset, bytes, |word| {
            word.in_flight = false;
            word.writer.actor.thread += (columns * LANES) as u16;
            word.writer.clock = clock;
            Ok(())
        });
    }

    #[inline(always)]
    fn change(
        &mut self,
        offset: usize,
        bytes: usize,
        mut f: impl FnMut(&mut Word) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        if bytes < 4 {
            return self.each_byte(offset, bytes, f);
        }
        for index in offset / 4..(offset + bytes) / 4 {
            self.saturated[index] = 0;
            let word = &mut self.words[index];
            if word.split != 0 {
                self.each_byte(index * 4, 4, &mut f)?;
            } else {
                f(word)?;
            }
        }
        Ok(())
    }

    /// Bytes of one word, which are told apart from now on.
    #[inline(never)]
    fn each_byte(
        &mut self,
        offset: usize,
        bytes: usize,
        mut f: impl FnMut(&mut Word) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        let index = offset / 4;
        let word = &mut self.words[index];
        self.saturated[index] = 0;
        if word.split == 0 {
            self.bytes.push([*word; 4]);
            word.split = self.bytes.len() as u32;
        }
        let all = &mut self.bytes[word.split as usize - 1];
        all[offset % 4..offset % 4 + bytes].iter_mut().try_for_each(&mut f)
    }
}

impl Word {
    /// The key under which further reads change nothing, or 0.
    #[inline(always)]
    fn read(&mut self, clocks: &Clocks, actor: Actor) -> Result<u64, Conflict> {
        let warp = usize::from(actor.thread) / LANES;
        self.after_writer(clocks, actor, warp)?;
        let now = Access { actor, clock: clocks.now(warp) };
        let [first, second] = &mut self.readers;
        if first.clock == 0 || first.actor.thread == actor.thread || first.ordered(clocks, warp) {
            *first = now;
            return Ok(0);
        }
        let replaceable = second.clock == 0 || second.actor.thread == actor.thread || second.ordered(clocks, warp);
        if replaceable || (second.warp() == first.warp() && first.warp() != warp) {
            *second = now;
        }
        Ok(if first.warp() != second.warp() && clocks.is_settled(self.writer.clock) {
            clocks.everybody()
        } else if first.warp() == warp && second.warp() == warp && self.writer.ordered(clocks, warp) {
            clocks.only(warp)
        } else {
            0
        })
    }

    #[inline(always)]
    fn write(&mut self, clocks: &Clocks, actor: Actor) -> Result<(), Conflict> {
        let warp = usize::from(actor.thread) / LANES;
        self.after_writer(clocks, actor, warp)?;
        for reader in &self.readers {
            if reader.conflicts(actor) && !reader.ordered(clocks, warp) {
                return Err(Conflict::Read(reader.actor));
            }
        }
        self.writer = Access { actor, clock: clocks.now(warp) };
        self.readers = [NOBODY; 2];
        Ok(())
    }

    #[inline(always)]
    fn after_writer(&self, clocks: &Clocks, actor: Actor, warp: usize) -> Result<(), Conflict> {
        if self.in_flight {
            return Err(Conflict::InFlight(self.writer.actor));
        }
        if self.writer.conflicts(actor) && !self.writer.ordered(clocks, warp) {
            return Err(Conflict::Written(self.writer.actor));
        }
        Ok(())
    }
}

impl Access {
    fn past(&self) -> Past {
        Past { thread: self.actor.thread, pc: self.actor.pc, clock: self.clock }
    }

    /// Whether the two need an order.
    #[inline(always)]
    fn conflicts(&self, actor: Actor) -> bool {
        self.actor.thread != actor.thread && !(self.actor.strong && actor.strong)
    }

    #[inline(always)]
    fn ordered(&self, clocks: &Clocks, warp: usize) -> bool {
        clocks.ordered(self.clock, self.warp(), warp)
    }

    #[inline(always)]
    fn warp(&self) -> usize {
        usize::from(self.actor.thread) / LANES
    }
}
