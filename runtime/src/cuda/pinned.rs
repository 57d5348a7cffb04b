//! Copies between page-locked memory and a GPU, which a queue makes while the program continues.

use std::sync::PoisonError;

use cudarc::driver::CudaEvent;
use cudarc::driver::sys::CUstreamCaptureStatus_enum as Capture;

use super::driver::failure;
use super::gpu::Gpu;
use super::queue::Queue;
use crate::element::Element;
use crate::error::{ArgumentError, DeviceError, Error};
use crate::pinned::PinnedMatrix;
use crate::resident::Resident;
use crate::shape::Stack;
use crate::view::{AnyMut, AnyRef, AsMatrix, AsMatrixMut};

impl Queue {
    /// Enqueues a copy to the device and returns: later work on the queue finds the elements of `from` in `to`. Both
    /// have the same type and shape; padding is unchanged. Writing to `from` waits for the copy.
    ///
    /// A matrix of the interpreter is ordinary memory, and the call waits for its copy.
    pub fn upload<T: Element>(&self, from: &PinnedMatrix<T>, to: &Resident) -> Result<(), Error> {
        let any = from.as_any().map_err(ArgumentError::from)?;
        let gpu = self.destination(to, any)?;
        let copy = || gpu.enqueue_upload(to.matrix().address, any, self.stream().cu_stream());
        match from.locked() {
            None => copy().and(self.wait()),
            // Held while the copy is queued, so that a concurrent access to the bytes finds it in the list.
            Some(locked) => {
                self.tracked(&mut locked.copies.lock().unwrap_or_else(PoisonError::into_inner).reading, copy)
            }
        }
    }

    /// Enqueues a copy to the host and returns. Both have the same type and shape; padding is unchanged. Reading `into`
    /// waits for the copy, and reports its failure.
    ///
    /// A matrix of the interpreter is ordinary memory, and the call waits for its copy.
    pub fn download<T: Element>(&self, from: &Resident, into: &mut PinnedMatrix<T>) -> Result<(), Error> {
        // Waits for the copies in flight on `into`; another copy to it starts after that.
        let gpu = self.destination(from, into.as_any().map_err(ArgumentError::from)?)?;
        let (address, stream) = (from.matrix().address, self.stream().cu_stream());
        let shape = into.shape();
        match into.locked_mut() {
            None => {
                let into = into.as_any_mut().map_err(ArgumentError::from)?;
                gpu.enqueue_download(address, into, stream).and(self.wait())
            }
            Some(locked) => {
                let (bytes, copies) = locked.idle();
                let any = AnyMut { dtype: T::DTYPE, shape, stack: Stack::ONE, bytes: bytes.into() };
                self.tracked(&mut copies.writing, || gpu.enqueue_download(address, any, stream))
            }
        }
    }

    /// The GPU of a resident matrix, if the queue belongs to the same context and the host's matrix has the same type
    /// and shape.
    fn destination<'a>(&self, resident: &'a Resident, host: AnyRef<'_>) -> Result<&'a Gpu, Error> {
        let gpu = resident.device().gpu()?;
        if gpu.shared.context.cu_ctx() != self.stream().context().cu_ctx() {
            let device = gpu.shared.name().into();
            return Err(DeviceError::OtherContext { what: "the queue", device }.into());
        }
        resident.is_like(host)?;
        gpu.shared.enter()?;
        let status = self.stream().capture_status();
        match status.map_err(|error| gpu.shared.failed("cuStreamIsCapturing", error))? {
            Capture::CU_STREAM_CAPTURE_STATUS_NONE => Ok(gpu),
            // It is unknown when such a copy runs, so the host could not be kept from its bytes.
            _ => Err(ArgumentError::PinnedInCapture.into()),
        }
    }

    /// Starts a copy, and adds an event for its end to `under_way`.
    fn tracked(&self, under_way: &mut Vec<CudaEvent>, copy: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let failed = |call| move |error| failure(call, self.name(), error);
        under_way.retain(|event| !matches!(event.try_is_complete(), Ok(true)));
        // The event is created before the copy, so that a failure happens before there is something to wait for.
        let event = self.stream().context().new_event(None).map_err(failed("cuEventCreate"))?;
        let copied = copy();
        if let Err(error) = event.record(self.stream()) {
            // Without an event to wait for, wait for the whole stream.
            let _ = self.stream().synchronize();
            return copied.and(Err(failed("cuEventRecord")(error).into()));
        }
        under_way.push(event);
        copied
    }
}
