//! The part of D that a process keeps.

use std::time::Duration;

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::terms::Operand;

use super::error::DistributedError;
use super::plan::Plan;
use crate::arguments::DeviceMatrix;
use crate::backend::Buffer;
use crate::device::Device;
use crate::element::{Element, holds};
use crate::error::{ArgumentError, OperandName};
use crate::large::Region;
use crate::large::host::PartMut;
use crate::large::plan::Allocation;
use crate::matrix::Matrix;
use crate::shape::{Shape, Stack};
use crate::view::{AnyMut, AsMatrixMut, HostBytesMut};

/// One process's part of D, in the memory of its device.
#[derive(Debug)]
pub struct Share {
    /// Rows and columns of D; empty if the grid has more processes than D has tiles.
    pub region: Region,
    /// The plan that ran.
    pub plan: Plan,
    /// Time for planning, compiling, reserving memory, making the tiles of A and B and copying them to the device, and
    /// connecting to the other processes.
    pub loading: Duration,
    /// Time from the first broadcast to the last product of this process.
    pub time: Duration,
    device: Device,
    matrix: Option<(DType, DeviceMatrix)>,
    /// Keeps the memory alive.
    _memory: Option<(Buffer, Allocation)>,
}

impl Share {
    pub(super) fn new(
        device: Device,
        region: Region,
        matrix: Option<(DType, DeviceMatrix)>,
        memory: Option<(Buffer, Allocation)>,
        plan: Plan,
        loading: Duration,
        time: Duration,
    ) -> Share {
        Share { region, plan, loading, time, device, matrix, _memory: memory }
    }

    /// The address and shape of the part, for further launches; `None` if it is empty. Valid as long as this value.
    pub fn matrix(&self) -> Option<DeviceMatrix> {
        self.matrix.filter(|_| !self.region.is_empty()).map(|(_, matrix)| matrix)
    }

    /// Copies the part to the host.
    ///
    /// # Errors
    /// A type other than D's, and a device that fails.
    pub fn download<T: Element>(&self) -> Result<Matrix<T>, DistributedError> {
        let needed = self.plan.request.types.d;
        if !holds(T::DTYPE, needed) {
            let operand = OperandName(Operand::D);
            return Err(ArgumentError::Type { operand, got: T::DTYPE, expected: needed }.into());
        }
        let Region { rows, cols, .. } = self.region;
        let mut part = Matrix::<T>::in_shape(Shape::packed(rows, cols, self.plan.request.layouts.d), T::default());
        if let (Some((dtype, DeviceMatrix { address, shape, .. })), false) = (self.matrix, self.region.is_empty()) {
            let matrix = part.as_any_mut().map_err(ArgumentError::from)?;
            let mut runs = PartMut { matrix, region: Region { row: 0, col: 0, ..self.region } };
            let bytes = HostBytesMut::Runs(&mut runs);
            let into = AnyMut { dtype, shape, stack: Stack::ONE, bytes };
            self.device.backend().download(address, "the last panel", into)?;
        }
        Ok(part)
    }
}
