//! Modifiers of the instructions of warps, blocks and clusters that are not about memory.

use crate::names::words;

/// Where a lane of `shfl.sync` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Shuffle {
    Up,
    Down,
    Bfly,
    Idx,
}

words!(Shuffle { Up "up", Down "down", Bfly "bfly", Idx "idx" });

/// What `vote.sync` asks; `Ballot` answers with a mask, the others with a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

words!(Vote { All "all", Any "any", Uni "uni", Ballot "ballot" });

/// Whether all threads of the warp have to execute the same instruction of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alignment {
    /// Threads may come by different ways.
    Free,
    /// `.aligned`.
    Aligned,
}

words!(Alignment { Free "", Aligned "aligned" });

/// Ordering of `barrier.cluster`; unstated is release on arrival and acquire on waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum ClusterOrder {
    Unstated,
    Release,
    Relaxed,
    Acquire,
}

words!(ClusterOrder { Unstated "", Release "release", Relaxed "relaxed", Acquire "acquire" });

/// Which way `setmaxnreg` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Resize {
    Inc,
    Dec,
}

words!(Resize { Inc "inc", Dec "dec" });

/// `griddepcontrol`'s actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum GridDependency {
    Wait,
    LaunchDependents,
}

words!(GridDependency { Wait "wait", LaunchDependents "launch_dependents" });

/// Direction of a funnel shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `.l`: towards the high bits.
    Left,
    /// `.r`.
    Right,
}

words!(Direction { Left "l", Right "r" });

/// What a funnel shift does with amounts beyond 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum ShiftMode {
    Wrap,
    Clamp,
}

words!(ShiftMode { Wrap "wrap", Clamp "clamp" });

/// A division that is not rounded as IEEE says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FastDivision {
    /// `.approx`: the divisor's reciprocal, 2 ulp where that is in range.
    Approx,
    /// `.full`: 2 ulp over the full range.
    Full,
}

words!(FastDivision { Approx "approx", Full "full" });
