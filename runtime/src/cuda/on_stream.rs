//! Products on the caller's own stream, on slices in device memory: no call waits, and none allocates unless split-K or
//! `pack` needs a workspace that the caller did not pass.
#![allow(unsafe_code)] // Calls of the driver.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::{CUresult, CUstreamCaptureStatus_enum as Capture};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop, result};
use ptx_gemm_codegen::tile::interface::{WORKSPACE, WORKSPACE_ALIGN};
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::{DType, Layout};

use super::gpu::Gpu;
use crate::arguments::{DeviceMatrix, DeviceVector};
use crate::backend::{Step, StreamHandle};
use crate::checks::{self, Extents};
use crate::compiled::{CompiledGemm, DeviceCall};
use crate::element::Element;
use crate::error::{ArgumentError, DeviceError, Error};
use crate::shape::{Placement, Shape, Stack};
use crate::work;

/// A slice in device memory as a matrix, or as a stack of them: [`crate::MatrixRef`]'s counterpart.
pub struct SliceRef<'a, T> {
    data: &'a dyn DevicePtr<T>,
    placement: Placement,
}

/// The same, to be written.
pub struct SliceMut<'a, T> {
    data: &'a mut dyn DevicePtrMut<T>,
    placement: Placement,
}

macro_rules! described {
    ($name:ident) => {
        impl<T: Element> $name<'_, T> {
            /// The same slice as a column-major matrix (or a row-major one) without padding.
            pub fn layout(mut self, layout: Layout) -> Self {
                self.placement.shape = Shape::packed(self.placement.shape.rows, self.placement.shape.cols, layout);
                self
            }

            /// The same with a leading dimension in elements.
            pub fn ld(mut self, ld: usize) -> Self {
                self.placement.shape.ld = ld;
                self
            }

            /// The same as the first of `count` matrices, `stride` elements apart.
            pub fn stack(mut self, count: usize, stride: usize) -> Self {
                self.placement.stack = Stack { count, stride };
                self
            }
        }

        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?}, {:?})", stringify!($name), self.placement.shape, self.placement.stack)
            }
        }
    };
}

described!(SliceRef);
described!(SliceMut);

impl<'a, T: Element> SliceRef<'a, T> {
    /// A row-major view without padding, of a `CudaSlice` or a `CudaView`.
    pub fn new(data: &'a impl DevicePtr<T>, rows: usize, cols: usize) -> SliceRef<'a, T> {
        SliceRef { data, placement: Placement { shape: Shape::packed(rows, cols, Layout::Row), stack: Stack::ONE } }
    }
}

impl<'a, T: Element> SliceMut<'a, T> {
    /// A row-major view without padding, of a `CudaSlice` or a `CudaViewMut`.
    pub fn new(data: &'a mut impl DevicePtrMut<T>, rows: usize, cols: usize) -> SliceMut<'a, T> {
        SliceMut { data, placement: Placement { shape: Shape::packed(rows, cols, Layout::Row), stack: Stack::ONE } }
    }
}

/// A product under construction, on the caller's stream.
///
/// ```no_run
/// # use ptx_gemm_runtime::cuda::cudarc::driver::CudaContext;
/// # use ptx_gemm_runtime::cuda::{SliceMut, SliceRef};
/// # use ptx_gemm_runtime::{CompiledGemm, Device};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = CudaContext::new(0)?;
/// let stream = context.new_stream()?;
/// let (a, b) = (stream.clone_htod(&[1.0f32; 6])?, stream.clone_htod(&[1.0f32; 12])?);
/// let mut d = stream.alloc_zeros::<f32>(8)?;
///
/// let device = Device::from_context(&context)?;
/// let gemm = CompiledGemm::new(&"tile(32, 32, 8); thread(2, 2);".parse()?, &device)?;
/// gemm.on_stream(&stream)?.multiply_into(
///     SliceRef::new(&a, 2, 3),
///     SliceRef::new(&b, 3, 4),
///     SliceMut::new(&mut d, 2, 4),
/// )?;
/// assert_eq!(stream.clone_dtoh(&d)?, [3.0; 8]);
/// # Ok(())
/// # }
/// ```
///
/// Arguments are checked like those of host data. A launch is ordered after the work on the stream, and after the work
/// that cudarc tracks on its slices. The call does not wait for it, and a later call reports an error of the kernel,
/// like other errors of the driver. While the stream records a graph, the graph's user keeps slices, workspace and the
/// [`CompiledGemm`] alive, and orders their use with the graph's launches.
pub struct OnStream<'a> {
    gemm: &'a CompiledGemm,
    gpu: &'a Gpu,
    stream: &'a Arc<CudaStream>,
    recording: Recording,
    c: Option<Placed<'a>>,
    scalars: Vec<(&'a str, f64)>,
    vectors: Vec<(&'a str, DType, DeviceVector, Guard<'a>)>,
    workspace: Option<(DeviceVector, Guard<'a>)>,
    /// The first slice that belongs to another context.
    stranger: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recording {
    /// Work runs in stream order.
    Off,
    /// Work is recorded into a graph.
    On,
}

/// When dropped, tells cudarc that the slice is in use up to this point of the stream. This is skipped while a graph is
/// recorded, since nothing is in use then.
type Guard<'a> = Option<SyncOnDrop<'a>>;

/// A matrix in device memory.
struct Placed<'a> {
    matrix: DeviceMatrix,
    dtype: DType,
    elements: usize,
    _guard: Guard<'a>,
}

impl CompiledGemm {
    /// Starts a product on a stream of the device's context.
    pub fn on_stream<'a>(&'a self, stream: &'a Arc<CudaStream>) -> Result<OnStream<'a>, Error> {
        let gpu = self.device().gpu()?;
        if stream.context().cu_ctx() != gpu.shared.context.cu_ctx() {
            return Err(other_context(self, "the stream").into());
        }
        gpu.shared.enter()?;
        let status = stream.capture_status().map_err(|error| gpu.shared.failed("cuStreamIsCapturing", error))?;
        let recording = if status == Capture::CU_STREAM_CAPTURE_STATUS_NONE { Recording::Off } else { Recording::On };
        let (scalars, vectors) = (Vec::new(), Vec::new());
        Ok(OnStream { gemm: self, gpu, stream, recording, c: None, scalars, vectors, workspace: None, stranger: None })
    }
}

fn other_context(gemm: &CompiledGemm, what: &'static str) -> DeviceError {
    DeviceError::OtherContext { what, device: gemm.device().name().into() }
}

impl<'a> OnStream<'a> {
    /// The matrix that the epilogue calls `c`.
    pub fn c<T: Element>(mut self, c: SliceRef<'a, T>) -> OnStream<'a> {
        self.c = Some(self.read("C", c));
        self
    }

    /// The value of a run-time scalar.
    pub fn set(mut self, name: &'a str, value: impl Into<f64>) -> OnStream<'a> {
        self.scalars.push((name, value.into()));
        self
    }

    /// A vector of the epilogue.
    pub fn vector<T: Element>(mut self, name: &'a str, elements: &'a impl DevicePtr<T>) -> OnStream<'a> {
        self.note_context("a vector", elements.stream());
        let (address, guard) = elements.device_ptr(self.order());
        let vector = DeviceVector { address, len: elements.len() };
        self.vectors.push((name, T::DTYPE, vector, self.keep(guard)));
        self
    }

    /// Memory for split-K and packed operands, at least [`CompiledGemm::workspace_bytes`] long, that no other launch
    /// uses at the same time. Without it, memory is allocated on the stream, and released there.
    pub fn workspace(mut self, bytes: &'a mut CudaSlice<u8>) -> OnStream<'a> {
        self.note_context(WORKSPACE, bytes.stream());
        let len = bytes.len();
        let (address, guard) = bytes.device_ptr_mut(self.order());
        self.workspace = Some((DeviceVector { address, len }, self.keep(guard)));
        self
    }

    /// D = epilogue(A B).
    pub fn multiply_into<A: Element, B: Element, D: Element>(
        mut self,
        a: SliceRef<'a, A>,
        b: SliceRef<'a, B>,
        d: SliceMut<'a, D>,
    ) -> Result<(), Error> {
        let (a, b, d) = (self.read("A", a), self.read("B", b), self.write(d));
        let c = self.c.take();
        self.run(&a, &b, c.as_ref(), &d)
    }

    /// The same in place: `d` is also what the epilogue calls `c`.
    pub fn accumulate_into<A: Element, B: Element, D: Element>(
        mut self,
        a: SliceRef<'a, A>,
        b: SliceRef<'a, B>,
        d: SliceMut<'a, D>,
    ) -> Result<(), Error> {
        let (a, b, d) = (self.read("A", a), self.read("B", b), self.write(d));
        self.run(&a, &b, Some(&d), &d)
    }

    fn run(&self, a: &Placed<'_>, b: &Placed<'_>, c: Option<&Placed<'_>>, d: &Placed<'_>) -> Result<(), Error> {
        if let Some(what) = self.stranger {
            return Err(other_context(self.gemm, what).into());
        }
        let problem = self.gemm.problem();
        let vectors: Vec<_> = self.vectors.iter().map(|(name, _, vector, _)| (*name, *vector)).collect();
        let matrices = [(Operand::A, Some(a)), (Operand::B, Some(b)), (Operand::C, c), (Operand::D, Some(d))];
        let (extents, arguments) = self.gemm.resolve(&DeviceCall {
            a: a.matrix,
            b: b.matrix,
            c: c.map(|c| c.matrix),
            d: d.matrix,
            vectors: &vectors,
            scalars: &self.scalars,
        })?;
        for (operand, placed) in matrices {
            let Some(Placed { matrix, dtype, elements, .. }) = placed else { continue };
            let placement = Placement { shape: matrix.shape, stack: matrix.stack };
            checks::slice(problem, operand, *dtype, placement, *elements)?;
        }
        let acc = problem.types.epilogue();
        if let Some((name, got, ..)) = self.vectors.iter().find(|(_, dtype, ..)| *dtype != acc) {
            return Err(ArgumentError::VectorType { name: (*name).into(), got: *got, expected: acc }.into());
        }
        let Some(work) = self.gemm.work(extents, &arguments)? else {
            return Ok(());
        };
        let handle = StreamHandle(self.stream.cu_stream() as usize);
        let enqueue = |steps: Vec<Step>| steps.iter().try_for_each(|step| step.module.enqueue(&step.launch, handle));
        let needed = work.bytes;
        if needed == 0 {
            return enqueue(self.gemm.steps(work, 0)?);
        }
        let mut own = self.reserve(needed, extents)?;
        let (address, _in_use) = match (&self.workspace, &mut own) {
            (Some((given, _)), _) => (given.address, None),
            (None, Some(own)) => {
                let (address, guard) = own.device_ptr_mut(self.stream);
                (address, Some(guard))
            }
            (None, None) => return Err(ArgumentError::WorkspaceInCapture { needed }.into()),
        };
        self.zero(address, work.flag_bytes)?;
        let steps = self.gemm.steps(work, address)?;
        work::list(&steps).map_or(Ok(()), |(at, list)| self.write_list(address + at, list))?;
        enqueue(steps)
    }

    /// A workspace for this launch only; `None` if the caller has passed one, which suffices for every entry.
    fn reserve(&self, needed: u64, extents: Extents) -> Result<Option<CudaSlice<u8>>, Error> {
        if let Some((DeviceVector { address, len }, _)) = &self.workspace {
            let (address, got, alignment) = (*address, *len as u64, u64::from(WORKSPACE_ALIGN));
            let needed = self.gemm.largest_workspace(extents).max(needed);
            if got < needed || !address.is_multiple_of(alignment) {
                return Err(ArgumentError::Workspace { got, address, needed, alignment }.into());
            }
            return Ok(None);
        }
        if self.recording == Recording::On {
            return Err(ArgumentError::WorkspaceInCapture { needed }.into());
        }
        let shared = &self.gpu.shared;
        let (device, what) = (self.gemm.device().name().to_string(), WORKSPACE.to_string());
        // SAFETY: the kernel reads only what it has written there, except for the flags, which are zeroed.
        let own = unsafe { self.stream.alloc::<u8>(needed as usize) };
        let own = own.map_err(|error| match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => DeviceError::OutOfMemory { device, what, bytes: needed },
            _ => shared.failed("cuMemAllocAsync", error),
        })?;
        Ok(Some(own))
    }

    /// Enqueues the copy of a list of products. The host's list may be freed after that: it is not page-locked.
    fn write_list(&self, address: u64, list: &[u8]) -> Result<(), Error> {
        if self.recording == Recording::On {
            return Err(ArgumentError::ListInCapture.into());
        }
        self.gpu.shared.enter()?;
        // SAFETY: the list is in the workspace, which is long enough.
        let copied = unsafe { result::memcpy_htod_async(address, list, self.stream.cu_stream()) };
        Ok(copied.map_err(|error| self.gpu.shared.failed("cuMemcpyHtoDAsync", error))?)
    }

    /// Enqueues the zeroing of a reduction's flags: an earlier use may have left any values in the workspace.
    fn zero(&self, address: u64, bytes: u64) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.gpu.shared.enter()?;
        // SAFETY: the flags are at the start of the workspace, which is long enough.
        let zeroed = unsafe { result::memset_d8_async(address, 0, bytes as usize, self.stream.cu_stream()) };
        Ok(zeroed.map_err(|error| self.gpu.shared.failed("cuMemsetD8Async", error))?)
    }

    fn read<T: Element>(&mut self, what: &'static str, SliceRef { data, placement }: SliceRef<'a, T>) -> Placed<'a> {
        self.note_context(what, data.stream());
        let (address, guard) = data.device_ptr(self.order());
        self.place::<T>(address, placement, data.len(), guard)
    }

    fn write<T: Element>(&mut self, SliceMut { data, placement }: SliceMut<'a, T>) -> Placed<'a> {
        self.note_context("D", data.stream());
        let elements = data.len();
        let (address, guard) = data.device_ptr_mut(self.order());
        self.place::<T>(address, placement, elements, guard)
    }

    fn place<T: Element>(
        &self,
        address: u64,
        placement: Placement,
        elements: usize,
        guard: SyncOnDrop<'a>,
    ) -> Placed<'a> {
        let matrix = DeviceMatrix { address, shape: placement.shape, stack: placement.stack };
        Placed { matrix, dtype: T::DTYPE, elements, _guard: self.keep(guard) }
    }

    /// The stream that waits for the work that cudarc tracks on a slice. A stream that records a graph must not wait
    /// for outside events; the device's own stream does so instead, without effect.
    fn order(&self) -> &'a CudaStream {
        match self.recording {
            Recording::Off => self.stream,
            Recording::On => &self.gpu.shared.stream,
        }
    }

    fn keep(&self, guard: SyncOnDrop<'a>) -> Guard<'a> {
        if self.recording == Recording::Off && self.stranger.is_none() {
            return Some(guard);
        }
        // It would put an event on a stream that must not have it: one that records a graph, or one of another context.
        std::mem::forget(guard);
        None
    }

    fn note_context(&mut self, what: &'static str, stream: &CudaStream) {
        if stream.context().cu_ctx() != self.stream.context().cu_ctx() {
            self.stranger.get_or_insert(what);
        }
    }
}

impl fmt::Debug for OnStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnStream({:?}, {:?})", self.gemm.device(), self.recording)
    }
}
