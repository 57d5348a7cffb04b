//! Decoded calls of CUDA's own functions.

use arrayvec::ArrayVec;

use super::Slot;

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemFunction {
    /// `vprintf`: prints a format with the arguments behind a pointer.
    Print,
    /// `__assertfail`: an assertion does not hold.
    Assert,
    /// No function: a call for which the stack has no room.
    Deeper,
    /// A register that holds the address of no function of the module.
    Stray,
}

/// A result or an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument {
    /// In local memory.
    Memory {
        base: Slot,
        offset: i64,
    },
    Value(Slot),
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) function: SystemFunction,
    /// The result of `vprintf`, then the arguments.
    pub(crate) arguments: ArrayVec<Argument, 5>,
    /// The name of what was called.
    pub(crate) name: String,
}
