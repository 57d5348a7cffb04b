//! Modifiers of instructions that a warp, a block or a cluster executes together, except memory accesses.

use crate::names::words;

/// Which lane `shfl.sync` reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Shuffle {
    Up,
    Down,
    Bfly,
    Idx,
}

words!(Shuffle { Up "up", Down "down", Bfly "bfly", Idx "idx" });

/// What `vote.sync` computes; `Ballot` returns a mask, the others a predicate.
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
    /// Threads may reach it along different paths.
    Free,
    /// `.aligned`.
    Aligned,
}

words!(Alignment { Free "", Aligned "aligned" });

/// Ordering of `barrier.cluster`; if unstated, arrival is a release and waiting an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum ClusterOrder {
    Unstated,
    Release,
    Relaxed,
    Acquire,
}

words!(ClusterOrder { Unstated "", Release "release", Relaxed "relaxed", Acquire "acquire" });

/// Direction of `setmaxnreg`.
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

/// How a funnel shift treats amounts above 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum ShiftMode {
    Wrap,
    Clamp,
}

words!(ShiftMode { Wrap "wrap", Clamp "clamp" });

/// A division that is not rounded as IEEE 754 requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FastDivision {
    /// `.approx`: multiplies by the divisor's reciprocal; 2 ulp while that is in range.
    Approx,
    /// `.full`: 2 ulp over the full range.
    Full,
}

words!(FastDivision { Approx "approx", Full "full" });
