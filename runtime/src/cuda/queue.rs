//! A stream of a GPU: work is enqueued on it without waiting, timed, and recorded into graphs.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUevent_flags};
use cudarc::driver::{CudaEvent, CudaGraph, CudaStream};

use super::driver::failure;
use crate::backend::StreamHandle;
use crate::device::Device;
use crate::error::{DeviceError, Error};
use crate::prepared::Prepared;

/// A stream, either a new one or the caller's.
///
/// The runtime does not track its work: call [`Queue::wait`] before reading results.
pub struct Queue {
    stream: Arc<CudaStream>,
    name: String,
    start: CudaEvent,
    end: CudaEvent,
}

/// Work that a queue can run.
pub trait Enqueue {
    /// Enqueues it and returns.
    fn enqueue(&self, queue: &Queue) -> Result<(), Error>;
}

/// Recorded work, which is replayed with one call of the driver.
pub struct Graph<'a> {
    graph: CudaGraph,
    stream: Arc<CudaStream>,
    work: PhantomData<&'a dyn Enqueue>,
}

/// The hardware properties of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Multiprocessors.
    pub processors: u32,
    /// The highest clock of the multiprocessors, in kHz.
    pub clock_khz: u32,
    /// Bytes of its second-level cache.
    pub l2_bytes: u64,
    /// The highest clock of its memory, in kHz; it transfers data on both edges.
    pub memory_khz: u32,
    /// Width of the bus to its memory, in bits.
    pub memory_bits: u32,
}

impl Queue {
    /// A new stream on a GPU.
    pub fn new(device: &Device) -> Result<Queue, Error> {
        let context = &device.gpu()?.shared.context;
        let stream = context.new_stream().map_err(|error| failure("cuStreamCreate", device.name(), error))?;
        Queue::on(&stream)
    }

    /// The caller's own stream.
    pub fn on(stream: &Arc<CudaStream>) -> Result<Queue, Error> {
        let context = stream.context();
        let name = context.name().map_err(|error| failure("cuDeviceGetName", "the GPU", error))?;
        let event = || {
            let event = context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
            event.map_err(|error| failure("cuEventCreate", &name, error))
        };
        let (start, end) = (event()?, event()?);
        Ok(Queue { stream: stream.clone(), name, start, end })
    }

    /// Enqueues work and returns.
    pub fn launch(&self, work: &dyn Enqueue) -> Result<(), Error> {
        work.enqueue(self)
    }

    /// Waits for everything on the queue.
    pub fn wait(&self) -> Result<(), Error> {
        self.check("cuStreamSynchronize", self.stream.synchronize())
    }

    /// The time that the GPU takes for some work, run in order between two events; waits for completion.
    pub fn time(&self, work: &[&dyn Enqueue]) -> Result<Duration, Error> {
        self.check("cuEventRecord", self.start.record(&self.stream))?;
        work.iter().try_for_each(|one| one.enqueue(self))?;
        self.check("cuEventRecord", self.end.record(&self.stream))?;
        self.wait()?;
        let milliseconds = self.start.elapsed_ms(&self.end);
        let milliseconds = milliseconds.map_err(|error| failure("cuEventElapsedTime", &self.name, error))?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }

    /// Records work into a graph, without running it.
    pub fn record<'a>(&self, work: &[&'a dyn Enqueue]) -> Result<Graph<'a>, Error> {
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.check("cuStreamBeginCapture", self.stream.begin_capture(mode))?;
        let recorded = work.iter().try_for_each(|one| one.enqueue(self));
        // Also after an error: a stream in capture accepts no other work.
        let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        recorded?;
        let graph = graph.map_err(|error| failure("cuStreamEndCapture", &self.name, error))?;
        let graph = graph.ok_or_else(|| DeviceError::Driver {
            call: "cuStreamEndCapture",
            device: self.name.clone(),
            code: "no graph".into(),
        })?;
        Ok(Graph { graph, stream: self.stream.clone(), work: PhantomData })
    }

    /// The hardware properties of the GPU.
    pub fn properties(&self) -> Result<Properties, Error> {
        let attribute = |attribute| {
            let value = self.stream.context().attribute(attribute);
            value.map(i32::unsigned_abs).map_err(|error| failure("cuDeviceGetAttribute", &self.name, error))
        };
        Ok(Properties {
            processors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
            memory_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
            memory_bits: attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
        })
    }

    /// The stream.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The name of its GPU in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn check<T>(&self, call: &'static str, result: Result<T, DriverError>) -> Result<T, Error> {
        Ok(result.map_err(|error| failure(call, &self.name, error))?)
    }
}

impl Enqueue for Prepared<'_> {
    fn enqueue(&self, queue: &Queue) -> Result<(), Error> {
        if self.device().gpu()?.shared.context.cu_ctx() != queue.stream.context().cu_ctx() {
            let device = self.device().name().into();
            return Err(DeviceError::OtherContext { what: "the queue", device }.into());
        }
        let records = |status| status != sys::CUstreamCaptureStatus_enum::CU_STREAM_CAPTURE_STATUS_NONE;
        // Only a first launch needs to know.
        let recorded = match self.copies_first() {
            true => records(queue.check("cuStreamIsCapturing", queue.stream.capture_status())?),
            false => false,
        };
        Prepared::enqueue(self, StreamHandle(queue.stream.cu_stream() as usize), recorded)
    }
}

impl Enqueue for Graph<'_> {
    /// Replays it, on the queue that recorded it.
    fn enqueue(&self, queue: &Queue) -> Result<(), Error> {
        if self.stream.cu_stream() != queue.stream.cu_stream() {
            return Err(DeviceError::OtherQueue { device: queue.name.clone() }.into());
        }
        queue.check("cuGraphLaunch", self.graph.launch())
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.name)
    }
}

impl fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Graph")
    }
}
