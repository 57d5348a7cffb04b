//! The latest synchronisations of each warp of a block, for the timeline of a report.

use std::collections::{HashMap, VecDeque};

use crate::agents::Fences;
use crate::row::LANES;

/// Number of events kept per warp.
const KEPT: usize = 32;
/// Number of copies for which the starting thread is kept.
const STARTERS: usize = 1 << 12;

/// A synchronisation of lanes of a warp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) pc: u32,
    lanes: u32,
    /// The warp's clock at that time.
    clock: u32,
    /// Whether what the warp does afterwards has a later clock.
    ticks: bool,
    /// Its index among the block's events.
    pub(crate) number: u64,
}

/// The events of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    warps: Vec<VecDeque<Event>>,
    next: u64,
    /// The times at which threads executed proxy fences for global memory.
    pub(crate) fences: Fences,
    /// The times at which threads released their changes of tensor maps.
    pub(crate) maps: Fences,
    /// The starters of copies that mbarriers count. Maps the thread that represents the copies, and their clock, to the
    /// thread that started the copy, and the clock of its warp.
    starters: HashMap<(u16, u32), (u16, u32)>,
}

impl History {
    pub(crate) fn new(warps: usize) -> History {
        History { warps: vec![VecDeque::new(); warps], ..History::default() }
    }

    pub(crate) fn note(&mut self, warp: usize, lanes: u32, pc: u32, clock: u32, ticks: bool) {
        let number = self.next;
        self.next += 1;
        let Some(events) = self.warps.get_mut(warp) else { return };
        // A polling loop is one event.
        if let Some(last) = events.back_mut()
            && (last.pc, last.clock, last.lanes) == (pc, clock, lanes)
        {
            last.number = number;
            return;
        }
        if events.len() == KEPT {
            events.pop_front();
        }
        events.push_back(Event { pc, lanes, clock, ticks, number });
    }

    /// Records that a thread starts a copy.
    pub(crate) fn start(&mut self, copy: (u16, u32), starter: (u16, u32)) {
        if self.starters.len() == STARTERS {
            self.starters.clear();
        }
        self.starters.insert(copy, starter);
    }

    /// The thread that started a copy, and the clock of its warp at that time.
    pub(crate) fn starter(&self, copy: (u16, u32)) -> Option<(u16, u32)> {
        self.starters.get(&copy).copied()
    }

    fn of(&self, thread: u16) -> impl DoubleEndedIterator<Item = &Event> {
        let (warp, lane) = (usize::from(thread) / LANES, usize::from(thread) % LANES);
        self.warps.get(warp).into_iter().flatten().filter(move |event| event.lanes >> lane & 1 != 0)
    }

    /// The last event of a thread.
    pub(crate) fn last(&self, thread: u16) -> Option<Event> {
        self.of(thread).next_back().copied()
    }

    /// The last event of a thread before an access at this clock, and the first one after it.
    pub(crate) fn around(&self, thread: u16, clock: u32) -> (Option<Event>, Option<Event>) {
        let before = |event: &&Event| event.clock < clock || event.clock == clock && !event.ticks;
        (self.of(thread).rfind(before).copied(), self.of(thread).find(|event| !before(event)).copied())
    }
}
