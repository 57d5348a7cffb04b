//! The mbarriers of a block: how many arrivals and bytes each phase still waits for, and what its arrivals have brought.
//!
//! The eight bytes of an mbarrier are opaque, so its state lives here and not in them. Arrivals that `cp.async` is to make
//! are kept as well, and happen when somebody waits for them: the latest moment that the ISA allows, so that a kernel that
//! waits too little reads what was there before.

use std::collections::{BTreeMap, VecDeque};

use crate::knowledge::Knowledge;

/// Largest count of arrivals, and of bytes, that an mbarrier holds.
pub(crate) const MAX_COUNT: u32 = (1 << 20) - 1;

/// How an mbarrier is used wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    Absent,
    Live,
    Count(u32),
    TooMany {
        count: u32,
        pending: u32,
    },
    Bytes(i64),
    /// All arrivals are there, and more bytes than were announced.
    Overrun(i64),
    /// A copy that was to land here broke a rule; the report is kept elsewhere.
    InCopy,
    /// The state is of this phase, the mbarrier in that one.
    Stale {
        state: u64,
        phase: u64,
    },
}

impl Misuse {
    /// What is wrong, to follow the address.
    pub(crate) fn words(self) -> String {
        match self {
            Misuse::Absent => "where no mbarrier was initialised, or it was invalidated".into(),
            Misuse::Live => "where there is one that was not invalidated".into(),
            Misuse::Count(count) => format!("with a count of {count}; a count is 1 to {MAX_COUNT}"),
            Misuse::TooMany { count, pending } => {
                format!("with {count} arrivals, and its phase expects only {pending} more")
            }
            Misuse::Bytes(bytes) => format!("which would expect {bytes} bytes; at most {MAX_COUNT} are possible"),
            Misuse::Overrun(bytes) => {
                format!("whose phase has all its arrivals, and {bytes} bytes more than announced")
            }
            Misuse::InCopy => "at which a copy cannot land".into(),
            Misuse::Stale { state, phase } => {
                format!("with the state of phase {state}, and it is in phase {phase}: only the last two are known")
            }
        }
    }
}

/// Which phase a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Parity(u32),
    Number(u64),
}

/// Arrivals that some lanes of a warp make once their copies have landed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked {
    pub(crate) warp: usize,
    pub(crate) lanes: u32,
    /// Copies that the warp had started, in instructions: those before it are waited for.
    pub(crate) copies: u32,
}

/// One mbarrier.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    expected: u32,
    pending: u32,
    /// Bytes that are still to come; less than none if they came before they were announced.
    bytes: i64,
    phase: u64,
    pub(crate) tracked: VecDeque<Tracked>,
    /// The thread and the instruction that announced bytes last.
    pub(crate) announced: Option<(u16, u32)>,
    /// What all arrivals so far have brought. An arrival changes the mbarrier atomically, so that whoever sees a later phase
    /// is ordered behind the arrivals of the earlier ones too.
    brought: Knowledge,
    /// The same when the last phase was completed.
    known: Knowledge,
    /// Whose arrival completed the last phase, and when.
    completed: Option<Completed>,
    /// By warp, the lanes that have been told that a phase still runs when it was over, and which phase.
    told: Vec<(u64, u32)>,
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

    /// What happened before the last phase was completed.
    pub(crate) fn known(&self) -> &Knowledge {
        &self.known
    }

    /// What arrivals bring is added here.
    pub(crate) fn brought(&mut self) -> &mut Knowledge {
        &mut self.brought
    }

    /// Whether copies are on their way that arrive here.
    pub(crate) fn promises_copies(&self) -> bool {
        !self.tracked.is_empty()
    }

    /// What completed the last phase; nothing before the first is over.
    pub(crate) fn completed(&self) -> Option<Completed> {
        self.completed
    }

    /// Whether a lane has not been told yet that this phase's predecessor still runs. From now on it has.
    pub(crate) fn tell(&mut self, warp: usize, lane: usize) -> bool {
        if self.told.len() <= warp {
            self.told.resize(warp + 1, (0, 0));
        }
        let (phase, lanes) = &mut self.told[warp];
        if *phase != self.phase {
            (*phase, *lanes) = (self.phase, 0);
        }
        let first = *lanes >> lane & 1 == 0;
        *lanes |= 1 << lane;
        first
    }

    /// Whether the phase that somebody waits for is over.
    pub(crate) fn is_over(&self, awaited: Awaited) -> Result<bool, Misuse> {
        match awaited {
            Awaited::Parity(parity) => Ok(self.phase & 1 != u64::from(parity & 1)),
            Awaited::Number(state) if state == self.phase => Ok(false),
            Awaited::Number(state) if state.checked_add(1) == Some(self.phase) => Ok(true),
            Awaited::Number(state) => Err(Misuse::Stale { state, phase: self.phase }),
        }
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

    /// One arrival more than it was initialised for, in this phase.
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
            self.known.clone_from(&self.brought);
            self.completed = Some(by);
        }
        Ok(())
    }

    /// Whether the phase waits for nothing but bytes.
    pub(crate) fn lacks_only_bytes(&self) -> bool {
        self.pending == 0
    }

    /// What the running phase waits for.
    pub(crate) fn missing(&self) -> String {
        let arrivals = format!("phase {} misses {} of {} arrivals", self.phase, self.pending, self.expected);
        if self.bytes == 0 { arrivals } else { format!("{arrivals} and {} bytes", self.bytes) }
    }
}

/// All mbarriers of a block, by their offset in shared memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mbarriers {
    live: BTreeMap<usize, Mbarrier>,
    /// Where the first one starts and the last one ends, so that most accesses need no search.
    start: usize,
    end: usize,
}

impl Mbarriers {
    pub(crate) fn reset(&mut self) {
        self.live.clear();
        (self.start, self.end) = (usize::MAX, 0);
    }

    /// A new mbarrier. One that is there already is replaced; whether that was so.
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
            brought: Knowledge::default(),
            known: Knowledge::default(),
            completed: None,
            told: Vec::new(),
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

    /// Where the mbarrier is that these bytes are a part of.
    #[inline(always)]
    pub(crate) fn touched(&self, offset: usize, bytes: usize) -> Option<usize> {
        if offset >= self.end || offset + bytes <= self.start {
            return None;
        }
        let (&start, _) = self.live.range(..offset + bytes).next_back()?;
        (start + 8 > offset).then_some(start)
    }
}
