//! The last synchronisations of each warp of a block, for the timeline of a report.

use std::collections::VecDeque;

use crate::row::LANES;

/// How many are kept for each warp.
const KEPT: usize = 32;

/// Lanes of a warp synchronise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) pc: u32,
    lanes: u32,
    /// The warp's clock when it did.
    clock: u32,
    /// Whether what the warp does after it has a later clock.
    ticks: bool,
    /// Its number among those of the block.
    pub(crate) number: u64,
}

/// Those of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    warps: Vec<VecDeque<Event>>,
    next: u64,
}

impl History {
    pub(crate) fn new(warps: usize) -> History {
        History { warps: vec![VecDeque::new(); warps], next: 0 }
    }

    pub(crate) fn note(&mut self, warp: usize, lanes: u32, pc: u32, clock: u32, ticks: bool) {
        let number = self.next;
        self.next += 1;
        let Some(events) = self.warps.get_mut(warp) else { return };
        // A loop that polls is one event.
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

    fn of(&self, thread: u16) -> impl DoubleEndedIterator<Item = &Event> {
        let (warp, lane) = (usize::from(thread) / LANES, usize::from(thread) % LANES);
        self.warps.get(warp).into_iter().flatten().filter(move |event| event.lanes >> lane & 1 != 0)
    }

    /// The last event of a thread.
    pub(crate) fn last(&self, thread: u16) -> Option<Event> {
        self.of(thread).next_back().copied()
    }

    /// The last event of a thread before an access at this clock, and the first after it.
    pub(crate) fn around(&self, thread: u16, clock: u32) -> (Option<Event>, Option<Event>) {
        let before = |event: &&Event| event.clock < clock || event.clock == clock && !event.ticks;
        (self.of(thread).rfind(before).copied(), self.of(thread).find(|event| !before(event)).copied())
    }
}
