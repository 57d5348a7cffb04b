//! Errors of a product across processes.

use std::time::Duration;

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::{DType, Diagnostics, Layout};

use super::launch::LaunchError;
use crate::error::{ArgumentError, DeviceError, Error};
use crate::large::PlanError;

/// Why a process did not get its part of D.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DistributedError {
    /// The launcher's variables are incomplete.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// No plan is possible.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A wrong argument, a schedule that does not compile, or a device that is missing or failed.
    #[error(transparent)]
    Run(#[from] Error),
    /// The processes did not find each other.
    #[error("process {rank} did not meet the others at {place}: {reason}")]
    Meeting {
        /// The process that reports it.
        rank: usize,
        /// An address, or a folder.
        place: String,
        /// Why.
        reason: String,
    },
    /// Several processes, but no place for them to meet.
    #[error(
        "{size} processes need a place to meet: set MASTER_ADDR and MASTER_PORT, or give an address or a folder that all of \
         them share"
    )]
    NoPlace {
        /// Number of processes.
        size: usize,
    },
    /// Another process failed or ended.
    #[error("process {rank} {reason}, so that this product cannot be completed")]
    Peer {
        /// The process that failed.
        rank: usize,
        /// The reason that it sent, or that others observed.
        reason: String,
    },
    /// Another process does not respond.
    #[error("nothing from process {from} for {seconds} s ({what}); a longer patience can be set")]
    Silent {
        /// The process that this one waited for.
        from: usize,
        /// What was expected.
        what: String,
        /// Duration of the wait.
        seconds: u64,
    },
    /// The processes do not compute the same product.
    #[error("process {rank} computes another product: {theirs}; process 0: {ours}")]
    Disagree {
        /// The process that differs from process 0.
        rank: usize,
        /// The product of process 0.
        ours: String,
        /// The other one.
        theirs: String,
    },
    /// A grid of another number of processes.
    #[error("a grid of {rows} x {cols} has {} processes, there are {size}", .rows.saturating_mul(*.cols))]
    Grid {
        /// Processes along m.
        rows: usize,
        /// Processes along n.
        cols: usize,
        /// Number of processes.
        size: usize,
    },
    /// NCCL cannot be used.
    #[error("GPUs of several processes exchange panels through NCCL: {reason}")]
    NoNccl {
        /// Why.
        reason: String,
    },
    /// A call of NCCL failed.
    #[error("{call} failed on process {rank}: {code}")]
    Nccl {
        /// The function.
        call: &'static str,
        /// The process.
        rank: usize,
        /// NCCL's error.
        code: String,
    },
    /// The schedule is for many products in one launch.
    #[error("batch computes many products in one launch, a product across processes is one; leave batch out")]
    Batched,
    /// The epilogue reads C.
    #[error(
        "the epilogue reads c, which a product across processes does not take: set the scalar that multiplies it to 0, or leave \
         c out"
    )]
    ReadsC,
    /// A or B of another type, shape or layout.
    #[error("{operand:?} is {got}, the product needs {needed}")]
    Source {
        /// A or B.
        operand: Operand,
        /// What was given.
        got: String,
        /// What is needed.
        needed: String,
    },
}

impl DistributedError {
    pub(super) fn source(
        operand: Operand,
        got: (DType, [usize; 2], Layout),
        needed: (DType, [usize; 2], Layout),
    ) -> DistributedError {
        let words = |(dtype, [rows, cols], layout): (DType, [usize; 2], Layout)| {
            format!("{dtype}, {rows} x {cols}, {layout} major")
        };
        DistributedError::Source { operand, got: words(got), needed: words(needed) }
    }

    pub(super) fn silent(from: usize, what: &str, patience: Duration) -> DistributedError {
        DistributedError::Silent { from, what: what.into(), seconds: patience.as_secs() }
    }
}

impl From<ArgumentError> for DistributedError {
    fn from(error: ArgumentError) -> DistributedError {
        DistributedError::Run(error.into())
    }
}

impl From<DeviceError> for DistributedError {
    fn from(error: DeviceError) -> DistributedError {
        DistributedError::Run(error.into())
    }
}

impl From<Diagnostics> for DistributedError {
    fn from(diagnostics: Diagnostics) -> DistributedError {
        DistributedError::Run(diagnostics.into())
    }
}
