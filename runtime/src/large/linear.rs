//! Orders in which a device could run the operations of a plan.

use std::collections::BTreeMap;

use super::operation::{Action, Operation, Stream};
use crate::random::SplitMix64;

/// A random order in which each stream runs its operations in sequence, and each wait comes after its event. Equal
/// seeds give equal orders.
pub fn shuffled(operations: &[Operation], seed: u64) -> Vec<usize> {
    let mut queues: BTreeMap<(usize, Stream), Vec<usize>> = BTreeMap::new();
    for (index, operation) in operations.iter().enumerate().rev() {
        queues.entry((operation.device, operation.stream)).or_default().push(index);
    }
    let mut queues: Vec<Vec<usize>> = queues.into_values().collect();
    // A wait for an event that is never recorded blocks nothing.
    let mut pending: BTreeMap<usize, usize> = BTreeMap::new();
    for operation in operations {
        if let Action::Record(event) = operation.action {
            *pending.entry(event).or_default() += 1;
        }
    }
    let mut numbers = SplitMix64::new(seed);
    let mut order = Vec::with_capacity(operations.len());
    loop {
        let ready = |queue: &&mut Vec<usize>| match queue.last().map(|&next| &operations[next].action) {
            Some(Action::Wait(event)) => pending.get(event).is_none_or(|left| *left == 0),
            Some(_) => true,
            None => false,
        };
        let mut ready: Vec<&mut Vec<usize>> = queues.iter_mut().filter(ready).collect();
        if ready.is_empty() {
            return order;
        }
        let chosen = numbers.next_in(0, ready.len() as i64 - 1) as usize;
        let Some(next) = ready[chosen].pop() else { return order };
        if let Action::Record(event) = operations[next].action
            && let Some(left) = pending.get_mut(&event)
        {
            *left -= 1;
        }
        order.push(next);
    }
}
