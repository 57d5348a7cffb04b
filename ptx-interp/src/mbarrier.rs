//! The mbarriers of a block: the arrivals and bytes that each phase still waits for, and the knowledge that its
//! arrivals publish.
//!
//! The eight bytes of an mbarrier are opaque, so its state is kept here and not in them. Arrivals that `cp.async` makes
//! are recorded as well, and take effect when a thread waits for them. This is the latest time that the ISA allows, so
//! a kernel with a missing wait reads old values.

use std::collections::{BTreeMap, VecDeque};

use crate::knowledge::Knowledge;

/// Largest number of arrivals, and of bytes, that an mbarrier can count.
pub(crate) const MAX_COUNT: u32 = (1 << 20) - 1;

/// The first bit of the field of a state that counts the missing arrivals of its phase; the bits below are the phase's
/// number.
pub(crate) const PENDING: u32 = 40;

/// A misuse of an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    Absent,
    Live,
    Count(u32),
    TooMany {
        count: u32,
        pending: u32,
    },
    /// The arrivals of one instruction belong to more than one phase.
    Astride {
        count: u32,
    },
    Bytes(i64),
    /// An arrival marked as not completing its phase would complete it.
    Completes,
    /// All arrivals have been made, with more bytes than were announced.
    Overrun(i64),
    /// A copy that would complete here broke a rule; its report is kept elsewhere.
    InCopy,
    /// Only threads of the mbarrier's own block may do this.
    Remote,
    /// PTX ISA, "mbarrier.test_wait": a parity is 0 or 1.
    Parity(u32),
    /// The state is from one phase, and the mbarrier is in another.
    Stale {
        state: u64,
        phase: u64,
    },
}

impl Misuse {
    /// What is wrong, as text after the address.
    pub(crate) fn words(self) -> String {
        match self {
            Misuse::Absent => "where no mbarrier was initialised, or it was invalidated".into(),
            Misuse::Live => "where there is one that was not invalidated".into(),
            Misuse::Count(count) => format!("with a count of {count}, which must be 1 to {MAX_COUNT}"),
            Misuse::TooMany { count, pending } => {
                format!("with {count} arrivals, but its phase expects only {pending} more")
            }
            Misuse::Astride { count } => {
                format!("which takes {count} arrivals a phase: those of this instruction belong to more than one phase")
            }
            Misuse::Bytes(bytes) => format!("which would expect {bytes} bytes, and the limit is {MAX_COUNT}"),
            Misuse::Completes => "and would complete its phase, although the arrival is marked as `.noComplete`".into(),
            Misuse::Overrun(bytes) => {
                format!("which has all arrivals of its phase, and {bytes} bytes more than announced")
            }
            Misuse::Remote => {
                "which belongs to another block of the cluster: threads of other blocks only arrive".into()
            }
            Misuse::InCopy => "at which a copy cannot complete".into(),
            Misuse::Parity(parity) => format!("with parity {parity}: phases have parity 0 or 1"),
            Misuse::Stale { state, phase } => {
                format!(
                    "with the state of phase {state}, but it is in phase {phase}: only the current and the previous phase can be tested"
                )
            }
        }
    }
}

/// The phase that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Parity(u32),
    Number(u64),
}

/// Arrivals that some lanes of a warp make once their copies are complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked {
    pub(crate) warp: usize,
    pub(crate) lanes: u32,
    /// Number of copy instructions that the warp had started; the arrival waits for these.
    pub(crate) copies: u32,
}

/// One mbarrier.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    expected: u32,
    pending: u32,
    /// Bytes that are still expected; negative if bytes arrived before they were announced.
    bytes: i64,
    phase: u64,
    pub(crate) tracked: VecDeque<Tracked>,
    /// The thread and the instruction that last announced bytes.
    pub(crate) announced: Option<(u16, u32)>,
    /// What all arrivals so far have published. An arrival changes the mbarrier atomically, so a thread that sees a
    /// later phase is also ordered after the arrivals of earlier ones.
    published: Knowledge,
    /// The same for threads of other blocks of the cluster; only a wait of sufficient scope acquires it.
    published_by_peers: Knowledge,
    /// What had been published when the last phase completed.
    known: Knowledge,
    known_of_peers: Knowledge,
    /// The arrival that completed the last phase, and when.
    completed: Option<Completed>,
    /// By warp, the phase and the lanes that got the answer that it was still running although it was complete.
    delayed: Vec<(u64, u32)>,
}

/// A thread, or one of its copies, and the clock of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    pub(crate) thread: u16,
    pub(crate) clock: u32,
}

impl Mbarrier {
    pub(crate) fn phase(&self) -> u64 {
        self.phase
    }

    /// The knowledge from before the last phase completed: what threads of the same block, and copies, published, and
    /// what threads of other blocks published.
    pub(crate) fn known(&self) -> (&Knowledge, &Knowledge) {
        (&self.known, &self.known_of_peers)
    }

    /// Collects what copies, and arrivals of threads of the mbarrier's block, publish.
    pub(crate) fn published(&mut self) -> &mut Knowledge {
        &mut self.published
    }

    /// Collects what arrivals of threads of other blocks publish.
    pub(crate) fn published_by_peers(&mut self) -> &mut Knowledge {
        &mut self.published_by_peers
    }

    /// Whether copies in flight are going to arrive here.
    pub(crate) fn promises_copies(&self) -> bool {
        !self.tracked.is_empty()
    }

    /// What completed the last phase; `None` before the first one is complete.
    pub(crate) fn completed(&self) -> Option<Completed> {
        self.completed
    }

    /// Whether a lane has not yet got the answer that the previous phase is still running. Records that it now has.
    pub(crate) fn delay_once(&mut self, warp: usize, lane: usize) -> bool {
        if self.delayed.len() <= warp {
            self.delayed.resize(warp + 1, (0, 0));
        }
        let (phase, lanes) = &mut self.delayed[warp];
        if *phase != self.phase {
            (*phase, *lanes) = (self.phase, 0);
        }
        let first = *lanes >> lane & 1 == 0;
        *lanes |= 1 << lane;
        first
    }

    /// Whether the awaited phase is complete.
    pub(crate) fn is_over(&self, awaited: Awaited) -> Result<bool, Misuse> {
        match awaited {
            // The hardware reads the lowest bit.
            Awaited::Parity(parity) => Ok(self.phase & 1 != u64::from(parity & 1)),
            Awaited::Number(state) if state == self.phase => Ok(false),
            Awaited::Number(state) if state.checked_add(1) == Some(self.phase) => Ok(true),
            Awaited::Number(state) => Err(Misuse::Stale { state, phase: self.phase }),
        }
    }

    /// Whether some of the arrivals or bytes that the current phase waits for have arrived, or bytes were announced.
    pub(crate) fn has_begun(&self) -> bool {
        self.pending < self.expected || self.bytes != 0
    }

    /// The result of an arrival: the phase, and the number of its missing arrivals.
    pub(crate) fn state(&self) -> u64 {
        self.phase & ((1 << PENDING) - 1) | u64::from(self.pending) << PENDING
    }

    /// Checks that this many arrivals do not complete the phase.
    pub(crate) fn incomplete(&self, count: u32) -> Result<u32, Misuse> {
        if count == self.pending { Err(Misuse::Completes) } else { Ok(count) }
    }

    /// Later phases expect this many arrivals less.
    pub(crate) fn leave(&mut self, count: u32) -> Result<(), Misuse> {
        self.expected = self.expected.checked_sub(count).ok_or(Misuse::TooMany { count, pending: self.expected })?;
        Ok(())
    }

    pub(crate) fn arrive(&mut self, count: u32, by: Completed) -> Result<(), Misuse> {
        if count == 0 || count > MAX_COUNT {
            return Err(Misuse::Count(count));
        }
        if count > self.pending {
            return Err(Misuse::TooMany { count, pending: self.pending });
        }
        self.pending -= count;
        self.complete(by)
    }

    /// What is wrong with the arrivals of one instruction, if the first of them found the mbarrier in `phase`. Arrivals
    /// that are left over when a phase completes count for the next phase, which then completes too early. If one
    /// instruction completes several phases, no thread can wait for the first of them.
    pub(crate) fn astride(&self, phase: u64) -> Option<Misuse> {
        let (phases, begun) = (self.phase - phase, self.pending < self.expected);
        (phases > 1 || phases == 1 && begun).then_some(Misuse::Astride { count: self.expected })
    }

    /// Expects one more arrival in this phase than the mbarrier was initialised for.
    pub(crate) fn expect_one_more(&mut self) -> Result<(), Misuse> {
        if self.pending >= MAX_COUNT {
            return Err(Misuse::Count(self.pending + 1));
        }
        self.pending += 1;
        Ok(())
    }

    pub(crate) fn expect_bytes(&mut self, bytes: u32) -> Result<(), Misuse> {
        self.change_bytes(i64::from(bytes))
    }

    pub(crate) fn complete_bytes(&mut self, bytes: u32, by: Completed) -> Result<(), Misuse> {
        self.change_bytes(-i64::from(bytes))?;
        self.complete(by)
    }

    fn change_bytes(&mut self, change: i64) -> Result<(), Misuse> {
        let bytes = self.bytes + change;
        if bytes.unsigned_abs() > u64::from(MAX_COUNT) {
            return Err(Misuse::Bytes(bytes));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Begins the next phase if nothing is missing in this one.
    fn complete(&mut self, by: Completed) -> Result<(), Misuse> {
        if self.pending == 0 && self.bytes < 0 {
            return Err(Misuse::Overrun(-self.bytes));
        }
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.expected;
            self.known.clone_from(&self.published);
            self.known_of_peers.clone_from(&self.published_by_peers);
            self.completed = Some(by);
        }
        Ok(())
    }

    /// Whether the phase waits only for bytes.
    pub(crate) fn lacks_only_bytes(&self) -> bool {
        self.pending == 0
    }

    /// What the current phase waits for, as text.
    pub(crate) fn missing(&self) -> String {
        let arrivals = format!("phase {} lacks {} of {} arrivals", self.phase, self.pending, self.expected);
        if self.bytes == 0 { arrivals } else { format!("{arrivals} and {} bytes", self.bytes) }
    }
}

/// All mbarriers of a block, by their offset in shared memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mbarriers {
    live: BTreeMap<usize, Mbarrier>,
    /// Start of the first one and end of the last one, so that most accesses need no search.
    start: usize,
    end: usize,
}

impl Mbarriers {
    pub(crate) fn reset(&mut self) {
        self.live.clear();
        (self.start, self.end) = (usize::MAX, 0);
    }

    /// A new mbarrier. Replaces and returns one that already exists at the offset.
    pub(crate) fn init(&mut self, offset: usize, count: u32) -> Result<Option<Mbarrier>, Misuse> {
        if count == 0 || count > MAX_COUNT {
            return Err(Misuse::Count(count));
        }
        (self.start, self.end) = (self.start.min(offset), self.end.max(offset + 8));
        let barrier = Mbarrier {
            expected: count,
            pending: count,
            bytes: 0,
            phase: 0,
            tracked: VecDeque::new(),
            announced: None,
            published: Knowledge::default(),
            published_by_peers: Knowledge::default(),
            known: Knowledge::default(),
            known_of_peers: Knowledge::default(),
            completed: None,
            delayed: Vec::new(),
        };
        Ok(self.live.insert(offset, barrier))
    }

    pub(crate) fn invalidate(&mut self, offset: usize) -> Result<(), Misuse> {
        self.live.remove(&offset).map(|_| ()).ok_or(Misuse::Absent)
    }

    pub(crate) fn get(&self, offset: usize) -> Option<&Mbarrier> {
        self.live.get(&offset)
    }

    pub(crate) fn at(&mut self, offset: usize) -> Result<&mut Mbarrier, Misuse> {
        self.live.get_mut(&offset).ok_or(Misuse::Absent)
    }

    /// The offset of the mbarrier that these bytes are part of.
    #[inline(always)]
    pub(crate) fn accessed(&self, offset: usize, bytes: usize) -> Option<usize> {
        if offset >= self.end || offset + bytes <= self.start {
            return None;
        }
        let (&start, _) = self.live.range(..offset + bytes).next_back()?;
        (start + 8 > offset).then_some(start)
    }
}
