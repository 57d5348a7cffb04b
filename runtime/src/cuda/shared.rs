//! The state that a GPU shares with its modules and its page-locked memory: the context, a stream, and whether they are
//! alive.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUevent_flags};
use cudarc::driver::{CudaContext, CudaStream};

use super::driver;
use crate::backend::Execution;
use crate::error::{DeviceError, Error};
use crate::health::Health;

/// The parts of a GPU that its modules keep alive.
pub(super) struct Shared {
    pub(super) context: Arc<CudaContext>,
    pub(super) stream: Arc<CudaStream>,
    name: String,
    health: Health,
}

impl Shared {
    /// A context, a stream of it, and the name of its GPU in messages.
    pub(super) fn new(context: Arc<CudaContext>, stream: Arc<CudaStream>, name: String) -> Shared {
        Shared { context, stream, name, health: Health::default() }
    }

    /// The name of the GPU in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the context current in this thread, unless it is dead.
    pub(super) fn enter(&self) -> Result<(), DeviceError> {
        self.health.check(&self.name)?;
        self.context.bind_to_thread().map_err(|error| self.failed("cuCtxSetCurrent", error))
    }

    /// Waits for work on the stream, and measures the time that the GPU takes for it, between two events.
    pub(super) fn timed(&self, work: impl FnOnce(sys::CUstream) -> Result<(), Error>) -> Result<Execution, Error> {
        let failed = |call| move |error| self.failed(call, error);
        let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let start = self.context.new_event(timed).map_err(failed("cuEventCreate"))?;
        let end = self.context.new_event(timed).map_err(failed("cuEventCreate"))?;
        start.record(&self.stream).map_err(failed("cuEventRecord"))?;
        work(self.stream.cu_stream())?;
        end.record(&self.stream).map_err(failed("cuEventRecord"))?;
        self.stream.synchronize().map_err(failed("cuStreamSynchronize"))?;
        let milliseconds = start.elapsed_ms(&end).map_err(failed("cuEventElapsedTime"))?;
        Ok(Execution { time: Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3), counts: None })
    }

    /// Records that the context has ended, for this reason. It is not used any more.
    pub(super) fn died(&self, reason: String) -> DeviceError {
        self.health.died(&self.name, reason)
    }

    pub(super) fn out_of_memory(&self, what: &str, bytes: u64) -> DeviceError {
        DeviceError::OutOfMemory { device: self.name.clone(), what: what.into(), bytes }
    }

    /// An error of the driver as this crate reports it. An error that kills the context is remembered.
    pub(super) fn failed(&self, call: &'static str, error: DriverError) -> DeviceError {
        let (device, code) = (self.name.clone(), driver::code(error));
        if !driver::kills_context(error) {
            return DeviceError::Driver { call, device, code };
        }
        self.health.died(&device, code)
    }
}
