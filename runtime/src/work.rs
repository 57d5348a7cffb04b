//! The launches of one product, in order, and the workspace that they share.

use crate::arguments::Arguments;
use crate::backend::Step;
use crate::checks::{self, Extents};
use crate::launch::Checked;
use crate::strassen::Placed;

/// A product that has passed every check, before its workspace has an address.
pub(crate) struct Work {
    pub(crate) how: How,
    pub(crate) extents: Extents,
    /// Bytes of its workspace.
    pub(crate) bytes: u64,
    /// Bytes at its start that must be zero before the first launch.
    pub(crate) flag_bytes: u64,
}

/// One launch, or those of a plan.
pub(crate) enum How {
    One(Box<Checked>),
    Strassen(Box<(Placed, Arguments)>),
}

/// The list of products in the workspace of these launches, with its byte offset, if there is one: a group is one
/// launch.
pub(crate) fn list(steps: &[Step]) -> Option<(u64, &[u8])> {
    steps.first().map(|step| (step.launch.list_at, &step.launch.list[..])).filter(|(_, list)| !list.is_empty())
}

/// Notes about the launches of a run: why an aligned entry did not run, once for each reason. The operands of several
/// products are parts of the caller's matrices and sums of these. The notes do not give their addresses and leading
/// dimensions.
pub(crate) fn notes(steps: &[Step]) -> Vec<String> {
    // To find out whether a kernel multiplies, its program is searched, which would add to the host time of a single
    // launch.
    if steps.len() > 1 && steps.iter().filter(|step| step.kernel.multiplies()).count() > 1 {
        let other = steps.iter().filter(|step| step.launch.unsuited.iter().flatten().next().is_some()).count();
        let note = format!(
            "{other} of {} launches do not run their first entry: quadrants, or sums of them, are not aligned for it",
            steps.len()
        );
        return Some(note).filter(|_| other > 0).into_iter().collect();
    }
    let mut notes = Vec::new();
    for note in steps.iter().flat_map(|step| checks::notes(step.kernel.interface(), &step.launch)) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// The last launch that multiplies; the only one of most products.
pub(crate) fn main(steps: &[Step]) -> Option<&Step> {
    steps.iter().rev().find(|step| step.kernel.multiplies())
}
