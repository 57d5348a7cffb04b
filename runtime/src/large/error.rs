//! Errors of a product of host matrices.

use super::perform::Failure;
use super::plan::PlanError;
use super::region::Region;
use crate::error::{ArgumentError, DeviceError, Error};
use ptx_gemm_dsl::Diagnostics;

/// Why a product of host matrices was not computed, or not completely.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LargeError {
    /// No plan is possible; nothing has run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A wrong argument, a schedule that does not compile, or a device that is missing; nothing has run.
    #[error(transparent)]
    Run(#[from] Error),
    /// Some of D is finished, and some is not.
    #[error("{0}")]
    Incomplete(Box<Incomplete>),
    /// The schedule is for many products in one launch.
    #[error("batch computes many products in one launch, a large product is one; leave batch out")]
    Batched,
}

/// The state of D after devices have failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Incomplete {
    /// Strips of D that are complete. Each has the same values as without the failure.
    pub finished: Vec<Region>,
    /// Parts of D that are not complete: unchanged, or partly written.
    pub left: Vec<Region>,
    /// The devices that failed, in the order in which they were noticed.
    pub failures: Vec<Failure>,
}

impl std::fmt::Display for Incomplete {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Failure { device, operation, error } in &self.failures {
            write!(f, "device {device} failed: {error}")?;
            if let Some(operation) = operation {
                write!(f, " (in: {operation})")?;
            }
            f.write_str("; ")?;
        }
        let sum = |regions: &[Region]| regions.iter().map(Region::elements).sum::<u64>();
        let (finished, left) = (sum(&self.finished), sum(&self.left));
        write!(f, "{} strips of D are finished, {finished} of {} elements", self.finished.len(), finished + left)?;
        /// Number of strips that a message lists.
        const LISTED: usize = 4;
        for strip in self.finished.iter().take(LISTED) {
            write!(f, ", D{strip}")?;
        }
        if self.finished.len() > LISTED {
            f.write_str(", ..")?;
        }
        Ok(())
    }
}

impl From<ArgumentError> for LargeError {
    fn from(error: ArgumentError) -> LargeError {
        LargeError::Run(error.into())
    }
}

impl From<DeviceError> for LargeError {
    fn from(error: DeviceError) -> LargeError {
        LargeError::Run(error.into())
    }
}

impl From<Diagnostics> for LargeError {
    fn from(diagnostics: Diagnostics) -> LargeError {
        LargeError::Run(diagnostics.into())
    }
}
