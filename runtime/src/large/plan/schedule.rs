//! From steps in the order of one thread to operations on streams: adds events that keep two steps in order if they
//! access the same memory and one of them writes.
//!
//! *Requires*: steps without events. *Ensures*: the same steps in the same order. Waits precede each step for the steps
//! of other streams that it depends on and that nothing orders yet, and a record follows it if another step waits for
//! it. Vector clocks tell what is ordered already: the clock of each stream says how many steps of every stream precede
//! its next one.

use std::collections::{BTreeMap, BTreeSet};

use crate::large::operation::{Access, AccessKind, Action, Memory, Operation, Stream};

/// By stream, the number of steps that have happened before.
type Clock = Vec<u32>;

/// A step that a later one may depend on.
struct Earlier {
    access: Access,
    step: usize,
}

/// The operations, and the number of events.
pub(crate) fn schedule(steps: Vec<Operation>) -> (Vec<Operation>, usize) {
    let waits = waits(&steps);
    let awaited: BTreeSet<usize> = waits.iter().flatten().copied().collect();
    let events: BTreeMap<usize, usize> = awaited.into_iter().enumerate().map(|(event, step)| (step, event)).collect();
    let mut operations = Vec::with_capacity(steps.len() * 2);
    for (index, (step, before)) in steps.into_iter().zip(&waits).enumerate() {
        let Operation { device, stream, .. } = step;
        let on_stream = |action| Operation { device, stream, action };
        operations.extend(before.iter().map(|earlier| on_stream(Action::Wait(events[earlier]))));
        operations.push(step);
        operations.extend(events.get(&index).map(|event| on_stream(Action::Record(*event))));
    }
    (operations, events.len())
}

/// For each step, the steps of other streams that it waits for.
fn waits(steps: &[Operation]) -> Vec<Vec<usize>> {
    let key = |step: &Operation| (step.device, step.stream);
    let used: BTreeSet<(usize, Stream)> = steps.iter().map(key).collect();
    let indices: BTreeMap<(usize, Stream), usize> = used.into_iter().zip(0..).collect();
    let stream_index = |step: &Operation| indices[&key(step)];
    let streams = indices.len();
    let mut now: Vec<Clock> = vec![vec![0; streams]; streams];
    // The clock of each step includes the step itself.
    let mut clocks: Vec<Clock> = Vec::with_capacity(steps.len());
    let mut memory: BTreeMap<Memory, Vec<Earlier>> = BTreeMap::new();
    let mut waits = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        let stream = stream_index(step);
        let accesses = step.accesses();
        let mut needed: BTreeSet<usize> = BTreeSet::new();
        for access in &accesses {
            let earlier = memory.entry(access.memory).or_default();
            let conflicts = earlier.iter().filter(|earlier| earlier.access.conflicts(access));
            needed.extend(conflicts.map(|earlier| earlier.step));
        }
        let precedes = |step: &usize, clock: &Clock| {
            let stream = stream_index(&steps[*step]);
            clocks[*step][stream] <= clock[stream]
        };
        // Steps that neither this stream nor another needed step already follows.
        let open: Vec<usize> = needed.into_iter().filter(|step| !precedes(step, &now[stream])).collect();
        let implied = |step: &usize| open.iter().any(|other| other != step && precedes(step, &clocks[*other]));
        let direct: Vec<usize> = open.iter().copied().filter(|step| !implied(step)).collect();
        for earlier in &direct {
            let seen = &clocks[*earlier];
            now[stream].iter_mut().zip(seen).for_each(|(now, seen)| *now = (*now).max(*seen));
        }
        now[stream][stream] += 1;
        clocks.push(now[stream].clone());
        for access in accesses {
            let earlier = memory.entry(access.memory).or_default();
            if access.kind == AccessKind::Write {
                // A step that depends on these also depends on this write, which follows them.
                earlier.retain(|earlier| !access.region.covers(&earlier.access.region));
            }
            earlier.push(Earlier { access, step: index });
        }
        waits.push(direct);
    }
    waits
}
