//! Products that are checked once and launched many times.

use crate::arguments::DeviceVector;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::Problem;

use crate::backend::{Lifetime, Step, StreamHandle};
use crate::compiled::{CompiledGemm, DeviceCall, Ready, Workspace};
use crate::device::Device;
use crate::element;
use crate::error::{ArgumentError, Error, OperandName};
use crate::resident::Resident;
use crate::view::AnyRef;
use crate::work;

/// A product with checked arguments and a reserved workspace. [`crate::cuda::Queue`] launches it at the cost of only
/// the driver's call.
///
/// Split-K keeps its partial sums in the workspace: launches of one `Prepared` must be ordered on a single queue.
#[derive(Debug)]
pub struct Prepared<'a> {
    device: Device,
    ready: Option<Ready>,
    /// For operands that are copied into the workspace, packed or in planes: the kernels that copy them.
    copies: Vec<(Operand, Range<usize>)>,
    /// The launches without the kernels that copy unchanged operands, and whether those kernels have run.
    again: Option<Vec<Step>>,
    launched: AtomicBool,
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
    /// Checks a product once, for many launches without a wait.
    ///
    /// # Safety
    ///
    /// As for [`CompiledGemm::launch`], for as long as a launch may run.
    #[allow(unsafe_code)] // This is a declaration: the obligation is the caller's.
    pub unsafe fn prepare<'a>(&self, call: &DeviceCall<'_>) -> Result<Prepared<'a>, Error> {
        let (extents, arguments) = self.resolve(call)?;
        self.kept(self.ready(extents, arguments, Lifetime::Kept)?)
    }

    /// A launch that keeps its memory for many runs, with its flags set to zero.
    pub(crate) fn kept<'a>(&self, ready: Option<Ready>) -> Result<Prepared<'a>, Error> {
        let workspace = ready.as_ref().and_then(|ready| ready.workspace.as_ref());
        if let Some(Workspace { buffer, flag_bytes, .. }) = workspace.filter(|workspace| workspace.flag_bytes > 0) {
            // Once, and with a wait: each launch leaves them zero for the next.
            let zeros = vec![0; *flag_bytes as usize];
            self.device().backend().upload(buffer.address, AnyRef::of_bytes(&zeros))?;
        }
        let notes = ready.as_ref().map_or_else(Vec::new, |ready| work::notes(&ready.steps));
        // Launches of a plan copy to the same place one after another, so none of them finds its earlier copy.
        let entry = match ready.as_ref().map(|ready| ready.steps.as_slice()) {
            Some([step]) => self.interface().entries.get(step.launch.entry),
            _ => None,
        };
        let packings = entry.into_iter().flat_map(|entry| &entry.packings);
        let copies = packings.map(|packing| (packing.operand, packing.launches.clone())).collect();
        let device = self.device().clone();
        let (again, launched) = (None, AtomicBool::new(false));
        Ok(Prepared { device, ready, copies, again, launched, notes, operands: PhantomData })
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
        self.ready.as_ref().and_then(|ready| work::main(&ready.steps)).map_or(0, |step| step.launch.blocks())
    }

    /// Notes, such as why the aligned entry does not run.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The same with an operand that stays as it is at the first launch, such as the weights of a layer: later launches
    /// reuse what that launch copies of it into the workspace, packed or in planes. Nothing changes if the operand is
    /// used as it is, or with `strassen`, which shares a workspace among its launches.
    ///
    /// A graph that is recorded before the first launch contains all of that, and copies the operand each time it runs.
    pub fn keeping(mut self, operand: Operand) -> Self {
        let steps = self.again.take().or_else(|| self.ready.as_ref().map(|ready| ready.steps.clone()));
        self.again = steps.map(|mut steps| {
            let copies = self.copies.iter().filter(|(of, _)| *of == operand);
            for index in copies.flat_map(|(_, kernels)| kernels.clone()) {
                steps.iter_mut().for_each(|step| step.launch.kernels[index].grid = 0);
            }
            steps.iter_mut().for_each(|step| step.launch.copies.retain(|copy| copy.operand != operand));
            steps
        });
        self
    }

    /// Whether unchanged operands have yet to be copied.
    pub(crate) fn copies_first(&self) -> bool {
        self.again.is_some() && !self.launched.load(Relaxed)
    }

    /// Enqueues the launches. `recorded` means that the stream only records them, so that nothing has been copied
    /// afterwards.
    pub(crate) fn enqueue(&self, stream: StreamHandle, recorded: bool) -> Result<(), Error> {
        let Some(ready) = &self.ready else { return Ok(()) };
        let again = self.again.as_ref().filter(|_| self.launched.load(Relaxed));
        let steps = again.unwrap_or(&ready.steps);
        steps.iter().try_for_each(|step| step.module.enqueue(&step.launch, stream))?;
        self.launched.fetch_or(!recorded, Relaxed);
        Ok(())
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
        let acc = problem.types.epilogue();
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

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::Schedule;
    use ptx_gemm_dsl::terms::Operand;

    use super::{Prepared, ResidentCall};
    use crate::backend::StreamHandle;
    use crate::{CompiledGemm, Device, Expert, ExpertsCall, Matrix};

    /// Planes of a kept operand are those of the first launch; those of the other operand are written again.
    #[test]
    fn kept_operands_are_split_once() {
        let schedule: Schedule =
            "emulate(f16x3); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2)".parse().unwrap();
        let device = Device::interpreter();
        let gemm = CompiledGemm::new(&schedule, &device).unwrap();
        let of = |value: f32| device.upload(&Matrix::from_fn(8, 8, |_, _| value)).unwrap();
        let first = |matrix: &crate::Resident| {
            let mut d = Matrix::<f32>::from_fn(8, 8, |_, _| 0.0);
            matrix.download(&mut d).unwrap();
            d.get(0, 0).unwrap()
        };
        let (a, b, d) = (of(1.0), of(2.0), of(0.0));
        let call = ResidentCall { a: &a, b: &b, c: None, d: &d, vectors: &[], scalars: &[] };
        let product = |prepared: &Prepared<'_>| {
            prepared.enqueue(StreamHandle(0), false).unwrap();
            first(&d)
        };
        let kept = gemm.prepare_resident(&call).unwrap().keeping(Operand::B);
        assert_eq!(product(&kept), 8.0 * 1.0 * 2.0);
        a.overwrite(&Matrix::from_fn(8, 8, |_, _| 3.0f32)).unwrap();
        b.overwrite(&Matrix::from_fn(8, 8, |_, _| 5.0f32)).unwrap();
        assert_eq!(product(&kept), 8.0 * 3.0 * 2.0);
        assert_eq!(product(&gemm.prepare_resident(&call).unwrap()), 8.0 * 3.0 * 5.0);
        // A recorded launch has not run: the first launch copies.
        let kept = gemm.prepare_resident(&call).unwrap().keeping(Operand::B);
        kept.enqueue(StreamHandle(0), true).unwrap();
        b.overwrite(&Matrix::from_fn(8, 8, |_, _| 7.0f32)).unwrap();
        assert_eq!(product(&kept), 8.0 * 3.0 * 7.0);
    }

    /// The same for the products of a group, if TMA cannot copy some of their operands as they are.
    #[test]
    fn kept_operands_of_a_group_are_packed_once() {
        let clauses = "target(sm_90); tile(32, 32, 8); thread(4, 4); load(tma); stages(2); pack(a, b); batch(grouped);";
        let device = Device::interpreter();
        let gemm = CompiledGemm::new(&clauses.parse::<Schedule>().unwrap(), &device).unwrap();
        let of = |rows, cols, value: f32| device.upload(&Matrix::from_fn(rows, cols, |_, _| value)).unwrap();
        // Rows of 7 elements of A, and of 9 of B, do not begin at multiples of 16 bytes.
        let (a, d, weights) = (of(5, 7, 1.0), of(5, 9, 0.0), [of(7, 9, 2.0), of(7, 9, 3.0)]);
        let experts = [2, 3].into_iter().zip(&weights).map(|(rows, b)| Expert { rows, b, vectors: &[] });
        let experts: Vec<_> = experts.collect();
        let call = ExpertsCall { a: &a, d: &d, experts: &experts, scalars: &[] };
        let kept = gemm.prepare_experts(&call).unwrap().keeping(Operand::B);
        let product = || {
            kept.enqueue(StreamHandle(0), false).unwrap();
            let mut found = Matrix::<f32>::from_fn(5, 9, |_, _| 0.0);
            d.download(&mut found).unwrap();
            [1, 4].map(|row| found.get(row, 8).unwrap())
        };
        assert_eq!(product(), [7.0 * 2.0, 7.0 * 3.0]);
        a.overwrite(&Matrix::from_fn(5, 7, |_, _| 10.0f32)).unwrap();
        weights[0].overwrite(&Matrix::from_fn(7, 9, |_, _| 5.0f32)).unwrap();
        assert_eq!(product(), [70.0 * 2.0, 70.0 * 3.0]);
    }
}
