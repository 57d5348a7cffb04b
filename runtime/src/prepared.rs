//! Products that are checked once and launched many times.

use std::marker::PhantomData;
use std::sync::Arc;

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::Problem;

use crate::backend::{Module, StreamHandle};
use crate::compiled::{DeviceCall, Ready};
use crate::device::Device;
use crate::element;
use crate::error::{ArgumentError, Error, OperandName};
use crate::resident::Resident;

/// A product whose arguments are checked and whose workspace is reserved. [`crate::cuda::Queue`] launches it, at the cost
/// of the driver's own call.
///
/// Split-K keeps its partial sums in the workspace: launches of one `Prepared` must follow each other, on one queue.
#[derive(Debug)]
pub struct Prepared<'a> {
    module: Arc<dyn Module>,
    device: Device,
    ready: Option<Ready>,
    notes: Vec<String>,
    operands: PhantomData<&'a Resident>,
}

/// A product of matrices that this crate keeps in device memory.
#[derive(Clone, Copy, Debug)]
pub struct ResidentCall<'a, 's> {
    /// A, M x K.
    pub a: &'a Resident,
    /// B, K x N.
    pub b: &'a Resident,
    /// C, M x N: the very same as `d`, or apart from it.
    pub c: Option<&'a Resident>,
    /// D, M x N. Its elements change with each launch.
    pub d: &'a Resident,
    /// The epilogue's scalars by name.
    pub scalars: &'s [(&'s str, f64)],
}

impl Prepared<'_> {
    pub(crate) fn new(module: Arc<dyn Module>, device: Device, ready: Option<Ready>, notes: Vec<String>) -> Self {
        Prepared { module, device, ready, notes, operands: PhantomData }
    }

    /// Where it runs.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Blocks of the grid; 0 if there is nothing to compute.
    pub fn blocks(&self) -> u32 {
        self.ready.as_ref().map_or(0, |ready| ready.launch.blocks())
    }

    /// What is worth knowing, such as why the aligned entry does not run.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(crate) fn enqueue(&self, stream: StreamHandle) -> Result<(), Error> {
        match &self.ready {
            Some(ready) => self.module.enqueue(&ready.launch, stream),
            None => Ok(()),
        }
    }
}

impl ResidentCall<'_, '_> {
    /// Whether each matrix has the elements that the schedule multiplies, and lies where the kernel is.
    pub(crate) fn check(&self, problem: &Problem, device: &Device) -> Result<(), ArgumentError> {
        let operands =
            [(Operand::A, Some(self.a)), (Operand::B, Some(self.b)), (Operand::C, self.c), (Operand::D, Some(self.d))];
        for (operand, resident) in operands {
            let Some(resident) = resident else { continue };
            let (got, expected, operand) = (resident.dtype(), problem.types.of(operand), OperandName(operand));
            if !element::holds(got, expected) {
                return Err(ArgumentError::Type { operand, got, expected });
            }
            if !resident.device().shares_memory_with(device) {
                let (got, expected) = (resident.device().to_string(), device.to_string());
                return Err(ArgumentError::OtherDevice { operand, got, expected });
            }
        }
        Ok(())
    }

    pub(crate) fn on_device(&self) -> DeviceCall<'_> {
        let (a, b, d) = (self.a.matrix(), self.b.matrix(), self.d.matrix());
        DeviceCall { a, b, c: self.c.map(Resident::matrix), d, vectors: &[], scalars: self.scalars }
    }
}
