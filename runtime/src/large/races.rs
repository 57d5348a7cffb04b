//! Checks that the operations of a plan are ordered: no two may run at the same time if they access the same memory and
//! one of them writes.
//!
//! One operation happens before another if it is earlier on the same stream, or if an event recorded after it is waited
//! for before the other. The check reads only operations, records and waits, not the steps or dependencies that the
//! plan was made from.

use std::collections::BTreeMap;
use std::fmt;

use super::operation::{Access, AccessKind, Action, Memory, Operation, Stream};

/// Two operations that nothing orders, and their accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// Index of the earlier one, in the order of issue.
    pub first: usize,
    /// Index of the later one.
    pub second: usize,
    /// The access of the first.
    pub earlier: Access,
    /// The access of the second.
    pub later: Access,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = |access: &Access| match access.kind {
            AccessKind::Read => "reads",
            AccessKind::Write => "writes",
        };
        let Race { first, second, earlier, later } = self;
        write!(f, "operation {first} {} {} {}, ", verb(earlier), earlier.memory, earlier.region)?;
        write!(f, "operation {second} {} {}, and nothing orders them", verb(later), later.region)
    }
}

/// The order of operations.
#[derive(Clone, Debug)]
pub struct Order {
    /// The stream of each operation.
    streams: Vec<usize>,
    /// By operation, the number of operations of each stream that precede it, including itself.
    clocks: Vec<Vec<u32>>,
}

impl Order {
    /// The order that streams and events establish. As on a device, a wait for an event that is recorded later, or
    /// never, orders nothing.
    pub fn of(operations: &[Operation]) -> Order {
        let index = |operation: &Operation| operation.device * Stream::ALL.len() + operation.stream as usize;
        let streams: Vec<usize> = operations.iter().map(index).collect();
        let count = streams.iter().max().map_or(0, |most| most + 1);
        let mut now = vec![vec![0; count]; count];
        let mut events: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        let mut clocks = Vec::with_capacity(operations.len());
        for (operation, &stream) in operations.iter().zip(&streams) {
            now[stream][stream] += 1;
            match operation.action {
                Action::Record(event) => drop(events.insert(event, now[stream].clone())),
                Action::Wait(event) => {
                    let seen = events.get(&event).into_iter().flatten();
                    now[stream].iter_mut().zip(seen).for_each(|(now, seen)| *now = (*now).max(*seen));
                }
                _ => {}
            }
            clocks.push(now[stream].clone());
        }
        Order { streams, clocks }
    }

    /// Whether one operation has ended when the other begins.
    pub fn precedes(&self, first: usize, second: usize) -> bool {
        let stream = self.streams[first];
        first != second && self.clocks[first][stream] <= self.clocks[second][stream]
    }
}

/// The races of a list of operations: for each operation and memory, the first earlier one that it races with.
pub fn races(operations: &[Operation]) -> Vec<Race> {
    let order = Order::of(operations);
    let mut memory: BTreeMap<Memory, Vec<(usize, Access)>> = BTreeMap::new();
    let mut races = Vec::new();
    for (second, operation) in operations.iter().enumerate() {
        for later in operation.accesses() {
            let all = memory.entry(later.memory).or_default();
            let unordered = |(first, earlier): &&(usize, Access)| {
                *first != second && earlier.conflicts(&later) && !order.precedes(*first, second)
            };
            if let Some(&(first, earlier)) = all.iter().find(unordered) {
                races.push(Race { first, second, earlier, later });
            }
            if later.kind == AccessKind::Write {
                // An operation that races with these, and not with this write, would precede it.
                all.retain(|(first, earlier)| {
                    !(later.region.covers(&earlier.region) && order.precedes(*first, second))
                });
            }
            all.push((second, later));
        }
    }
    races
}
