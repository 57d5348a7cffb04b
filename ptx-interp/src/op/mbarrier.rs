//! Decoded instructions on mbarriers.

use ptx_gemm_ptx::asynchronous::{Arrival, Pending, Transaction};

use super::{P, R32, R64, Slot};
use crate::address::StateSpace;
use crate::flags::Scope;

/// An instruction on an mbarrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierOp {
    /// `None` for a generic address.
    pub(crate) space: Option<StateSpace>,
    pub(crate) base: Slot,
    pub(crate) offset: i64,
    pub(crate) action: Action,
}

/// The operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Init {
        count: R32,
    },
    Inval,
    /// `amount` is the count of a plain arrival (one if absent), or the number of bytes that it announces.
    Arrive {
        arrival: Arrival,
        state: Slot,
        amount: Option<R32>,
        /// Whether later phases expect that many fewer arrivals.
        drops: bool,
        ordering: Ordering,
    },
    Transact {
        transaction: Transaction,
        bytes: R32,
    },
    Wait {
        done: P,
        phase: PhaseSlot,
        ordering: Ordering,
    },
    /// An arrival by copies that were started before.
    Track {
        pending: Pending,
    },
}

/// The operand that names the awaited phase.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PhaseSlot {
    Parity(R32),
    State(R64),
}

/// Whether an arrival publishes what its thread did, and whether a wait acquires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordering {
    /// With the threads of this scope.
    Synchronises(Scope),
    Relaxed,
}

impl Action {
    /// The register that it reads in addition to the address.
    pub(crate) fn source(&self) -> Option<Slot> {
        match *self {
            Action::Init { count } => Some(count.into()),
            Action::Arrive { amount, .. } => amount.map(Slot::from),
            Action::Transact { bytes, .. } => Some(bytes.into()),
            Action::Wait { phase: PhaseSlot::Parity(parity), .. } => Some(parity.into()),
            Action::Wait { phase: PhaseSlot::State(state), .. } => Some(state.into()),
            Action::Inval | Action::Track { .. } => None,
        }
    }

    /// As text for reports, before "the mbarrier at".
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Action::Init { .. } => "initialises",
            Action::Inval => "invalidates",
            Action::Arrive { .. } => "arrives at",
            Action::Transact { .. } => "changes the byte count of",
            Action::Wait { .. } => "waits at",
            Action::Track { .. } => "lets copies arrive at",
        }
    }
}
