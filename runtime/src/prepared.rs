//! Products that are checked once and launched many times.

use crate::arguments::DeviceVector;
use std::marker::PhantomData;
use std::sync::Arc;

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::Problem;

use crate::backend::{Lifetime, Module, StreamHandle};
use crate::checks;
use crate::compiled::{CompiledGemm, DeviceCall, Ready, Workspace};
use crate::device::Device;
use crate::element;
use crate::error::{ArgumentError, Error, OperandName};
use crate::resident::Resident;
use crate::view::AnyRef;

/// A product whose arguments are checked and whose workspace is reserved. [`crate::cuda::Queue`] launches it at the
/// cost of only the driver's call.
///
/// Split-K keeps its partial sums in the workspace: launches of one `Prepared` must be ordered on a single queue.
#[derive(Debug)]
pub struct Prepared<'a> {
    module: Arc<dyn Module>,
    device: Device,
    ready: Option<Ready>,
    notes: Vec<String>,
    operands: PhantomData<&'a Resident>,
}

/// A product of [`Resident`] matrices, which are in device memory.
#[derive(Clone, Copy, Debug)]
pub struct ResidentCall<'a, 's> {
    /// A, M x K.
    pub a: &'a Resident,
    /// B, K x N.
    pub b: &'a Resident,
    /// C, M x N: either identical to `d`, or disjoint from it.
    pub c: Option<&'a Resident>,
    /// D, M x N. Its elements change with each launch.
    pub d: &'a Resident,
    /// The epilogue's vectors by name: matrices with elements of the accumulator's type, of one row or one column.
    pub vectors: &'s [(&'s str, &'a Resident)],
    /// The epilogue's scalars by name.
    pub scalars: &'s [(&'s str, f64)],
}

impl CompiledGemm {
    /// Checks a product once, for many launches that are not waited for.
    ///
    /// # Safety
    ///
    /// As for [`CompiledGemm::launch`], for as long as a launch may run.
    #[allow(unsafe_code)] // This is a declaration: the obligation is the caller's.
    pub unsafe fn prepare<'a>(&self, call: &DeviceCall<'_>) -> Result<Prepared<'a>, Error> {
        let (extents, arguments) = self.resolve(call)?;
        self.kept(self.ready(extents, arguments, Lifetime::Kept)?)
    }

    /// A launch whose memory is kept for many, with its flags set to zero.
    pub(crate) fn kept<'a>(&self, ready: Option<Ready>) -> Result<Prepared<'a>, Error> {
        let workspace = ready.as_ref().and_then(|ready| ready.workspace.as_ref());
        if let Some(Workspace { buffer, flag_bytes }) = workspace.filter(|workspace| workspace.flag_bytes > 0) {
            // Once, and with a wait: each launch leaves them zero for the next.
            let zeros = vec![0; *flag_bytes as usize];
            self.device().backend().upload(buffer.address, AnyRef::of_bytes(&zeros))?;
        }
        let notes = ready.as_ref().map_or_else(Vec::new, |ready| checks::notes(self.interface(), &ready.launch));
        let (module, device) = (self.module().clone(), self.device().clone());
        Ok(Prepared { module, device, ready, notes, operands: PhantomData })
    }

    /// The same for [`Resident`] matrices.
    pub fn prepare_resident<'a>(&self, call: &ResidentCall<'a, '_>) -> Result<Prepared<'a>, Error> {
        call.check(self.problem(), self.device())?;
        // SAFETY: the matrices are borrowed for as long as launches are possible, and freeing one waits for the device.
        #[allow(unsafe_code)]
        unsafe {
            self.prepare(&call.on_device(&call.vectors_on_device()))
        }
    }
}

impl Prepared<'_> {
    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Blocks of the grid; 0 if there is nothing to compute.
    pub fn blocks(&self) -> u32 {
        self.ready.as_ref().map_or(0, |ready| ready.launch.blocks())
    }

    /// Notes, such as why the aligned entry does not run.
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
    /// Checks that each matrix has the element type of the schedule, and is on the kernel's device.
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
        let acc = problem.types.acc;
        for (name, vector) in self.vectors {
            let got = vector.dtype();
            if !element::holds(got, acc) {
                return Err(ArgumentError::VectorType { name: (*name).into(), got, expected: acc });
            }
            if !vector.device().shares_memory_with(device) {
                let (got, expected) = (vector.device().to_string(), device.to_string());
                return Err(ArgumentError::VectorOnOtherDevice { name: (*name).into(), got, expected });
            }
        }
        Ok(())
    }

    fn vectors_on_device(&self) -> Vec<(&str, DeviceVector)> {
        self.vectors.iter().map(|(name, vector)| (*name, vector.vector())).collect()
    }

    fn on_device<'c>(&'c self, vectors: &'c [(&'c str, DeviceVector)]) -> DeviceCall<'c> {
        let (a, b, d) = (self.a.matrix(), self.b.matrix(), self.d.matrix());
        DeviceCall { a, b, c: self.c.map(Resident::matrix), d, vectors, scalars: self.scalars }
    }
}
