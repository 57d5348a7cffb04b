//! Performs plans on GPUs: it enqueues every copy, launch and event, and waits only at the end.
#![allow(unsafe_code)] // Calls of the driver.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUmemorytype as MemoryType};
use cudarc::driver::{CudaEvent, CudaStream, result};

use super::copy::{MAX_PITCH, block};
use super::shared::Shared;
use crate::arguments::DeviceMatrix;
use crate::backend::StreamHandle;
use crate::error::Error;
use crate::large::executor::Executor;
use crate::large::host::Host;
use crate::large::operation::{Action, Operation, Place, Stream};
use crate::large::site::Site;
use crate::shape::Shape;
use crate::view::{HostBytes, HostBytesMut, Runs, RunsMut};

/// GPUs with streams that run the operations of a plan.
///
/// Copies in flight read and write the host's matrices. These are borrowed until the value is dropped, which waits for
/// the copies.
pub(crate) struct Gpus<'h, 's> {
    sites: &'s [Option<Site>],
    host: &'s mut Host<'h>,
    lanes: Vec<Lane>,
    events: BTreeMap<usize, CudaEvent>,
    /// Number of events that had ended at the last check.
    ended: usize,
    /// Products in flight of each device, in their order: the index of the operation, and its end.
    products: Vec<VecDeque<(usize, CudaEvent)>>,
    /// Downloads in flight: the device, the index of the operation, and its end.
    downloads: Vec<(usize, usize, CudaEvent)>,
    /// Devices with a context that has died, reported already or not.
    failed: Vec<(usize, Option<Error>)>,
}

/// The streams of one GPU.
struct Lane {
    shared: Arc<Shared>,
    streams: Vec<Arc<CudaStream>>,
}

impl Lane {
    fn stream(&self, stream: Stream) -> &Arc<CudaStream> {
        &self.streams[stream as usize]
    }

    fn failed(&self, call: &'static str) -> impl Fn(DriverError) -> Error {
        move |error| self.shared.failed(call, error).into()
    }

    fn event(&self, stream: Stream) -> Result<CudaEvent, Error> {
        let event = self.shared.context.new_event(None).map_err(self.failed("cuEventCreate"))?;
        event.record(self.stream(stream)).map_err(self.failed("cuEventRecord"))?;
        Ok(event)
    }

    /// Whether everything that was enqueued has ended.
    fn is_idle(&self) -> Result<bool, Error> {
        self.shared.enter()?;
        for stream in &self.streams {
            // SAFETY: a stream of the current context.
            match unsafe { sys::cuStreamQuery(stream.cu_stream()) }.result() {
                Ok(()) => {}
                Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => return Ok(false),
                Err(error) => return Err(self.failed("cuStreamQuery")(error)),
            }
        }
        Ok(true)
    }
}

/// Runs of bytes at equal distances on the host.
struct Strided<P> {
    start: P,
    pitch: usize,
}

impl<'h, 's> Gpus<'h, 's> {
    /// Streams for each of the sites, which are GPUs. An error comes with the index of its device.
    pub(crate) fn new(sites: &'s [Option<Site>], host: &'s mut Host<'h>) -> Result<Gpus<'h, 's>, (usize, Error)> {
        let lane = |site: &Site| -> Result<Lane, Error> {
            let shared = site.device.gpu()?.shared.clone();
            shared.enter()?;
            let failed = |call| {
                let shared = &shared;
                move |error| shared.failed(call, error)
            };
            // Waits until what the sites have copied is complete.
            shared.stream.synchronize().map_err(failed("cuStreamSynchronize"))?;
            let stream = |_| shared.context.new_stream().map_err(failed("cuStreamCreate"));
            let streams = Stream::ALL.iter().map(stream).collect::<Result<_, _>>()?;
            Ok(Lane { shared: shared.clone(), streams })
        };
        let mut lanes = Vec::new();
        for (device, site) in sites.iter().flatten().enumerate() {
            lanes.push(lane(site).map_err(|error| (device, error))?);
        }
        let products = lanes.iter().map(|_| VecDeque::new()).collect();
        let (events, downloads, failed) = Default::default();
        Ok(Gpus { sites, host, lanes, events, ended: 0, products, downloads, failed })
    }

    fn run(&mut self, index: usize, operation: &Operation) -> Result<(), Error> {
        let Operation { device, stream, ref action } = *operation;
        let (Some(lane), Some(site)) = (self.lanes.get(device), self.sites.get(device).and_then(Option::as_ref)) else {
            return Ok(());
        };
        lane.shared.enter()?;
        let cu_stream = lane.stream(stream).cu_stream();
        match action {
            Action::Upload { operand, host, to } => {
                let (Some(part), Some((dtype, to))) = (self.host.input(*operand, *host), site.matrix(*to)) else {
                    return Ok(());
                };
                let pitch = part.matrix.shape.ld * dtype.bytes() as usize;
                let whole = matches!(part.matrix.bytes, HostBytes::Slice(_)) && pitch <= MAX_PITCH;
                let lines = Lines::of(to, dtype.bytes(), whole);
                for line in lines.copies() {
                    let from = Strided { start: part.run(line.first).as_ptr(), pitch };
                    // SAFETY: `part` checks that the host has the first run; the others are as far apart as its leading
                    // dimension says. They are borrowed until everything has ended. The device side is a block of a buffer.
                    unsafe { upload(line, &from, cu_stream) }.map_err(lane.failed("cuMemcpyHtoDAsync"))?;
                }
                Ok(())
            }
            Action::Receive { from, place } => self.receive((device, *place), (*from, *place), cu_stream),
            Action::Broadcast { root, .. } if *root == device => Ok(()),
            Action::Broadcast { root, from, to, .. } => self.receive((device, *to), (*root, *from), cu_stream),
            Action::Multiply(product) => {
                let Some(ready) = site.ready(product)? else { return Ok(()) };
                if ready.flags.1 > 0 {
                    let (address, bytes) = ready.flags;
                    // SAFETY: the flags are at the start of the workspace, which only this stream uses.
                    unsafe { result::memset_d8_async(address, 0, bytes as usize, cu_stream) }
                        .map_err(lane.failed("cuMemsetD8Async"))?;
                }
                let handle = StreamHandle(cu_stream as usize);
                ready.steps.iter().try_for_each(|step| step.module.enqueue(&step.launch, handle))?;
                let end = lane.event(stream)?;
                self.products[device].push_back((index, end));
                Ok(())
            }
            Action::Download { from, host } => {
                let Some((dtype, from)) = site.matrix(*from) else { return Ok(()) };
                let mut part = self.host.output(*host);
                let pitch = part.matrix.shape.ld * dtype.bytes() as usize;
                let whole = matches!(part.matrix.bytes, HostBytesMut::Slice(_)) && pitch <= MAX_PITCH;
                let lines = Lines::of(from, dtype.bytes(), whole);
                for line in lines.copies() {
                    let to = Strided { start: part.run_mut(line.first).as_mut_ptr(), pitch };
                    // SAFETY: as above; strips of D are disjoint, so that no two copies write the same bytes.
                    unsafe { download(line, &to, cu_stream) }.map_err(lane.failed("cuMemcpyDtoHAsync"))?;
                }
                let end = lane.event(stream)?;
                self.downloads.push((device, index, end));
                Ok(())
            }
            Action::Record(event) => {
                let recorded = lane.event(stream)?;
                self.events.insert(*event, recorded);
                Ok(())
            }
            Action::Wait(event) => match self.events.get(event) {
                Some(event) => lane.stream(stream).wait(event).map_err(lane.failed("cuStreamWaitEvent")),
                None => Ok(()),
            },
        }
    }

    /// Copies a part of a slab from another GPU, directly if the two are linked.
    fn receive(
        &self,
        (device, to): (usize, Place),
        (from, source): (usize, Place),
        stream: sys::CUstream,
    ) -> Result<(), Error> {
        let at = |device: usize, place| self.sites.get(device).and_then(Option::as_ref)?.matrix(place);
        let (Some((dtype, to)), Some((_, source))) = (at(device, to), at(from, source)) else { return Ok(()) };
        let (to_context, from_context) =
            (self.lanes[device].shared.context.cu_ctx(), self.lanes[from].shared.context.cu_ctx());
        let lines = Lines::of(to, dtype.bytes(), true);
        let Lines { run, runs, pitch, .. } = lines;
        let failed = self.lanes[device].failed("cuMemcpyPeerAsync");
        if runs == 1 || run == pitch {
            // SAFETY: equal blocks of equal buffers, which live until everything has ended.
            let copied = unsafe {
                result::memcpy_peer_async(to_context, to.address, from_context, source.address, run * runs, stream)
            };
            return copied.map_err(failed);
        }
        let copy = sys::CUDA_MEMCPY3D_PEER {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: MemoryType::CU_MEMORYTYPE_DEVICE,
            srcHost: std::ptr::null(),
            srcDevice: source.address,
            srcArray: std::ptr::null_mut(),
            srcContext: from_context,
            srcPitch: pitch,
            srcHeight: runs,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: MemoryType::CU_MEMORYTYPE_DEVICE,
            dstHost: std::ptr::null_mut(),
            dstDevice: to.address,
            dstArray: std::ptr::null_mut(),
            dstContext: to_context,
            dstPitch: pitch,
            dstHeight: runs,
            WidthInBytes: run,
            Height: runs,
            Depth: 1,
        };
        // SAFETY: as above.
        unsafe { sys::cuMemcpy3DPeerAsync(&copy, stream) }.result().map_err(failed)
    }

    fn fail(&mut self, device: usize, error: Error) {
        if self.failed.iter().all(|(failed, _)| *failed != device) {
            self.failed.push((device, Some(error)));
        }
    }

    /// Queries every GPU that is alive; those that cannot answer have failed.
    fn idle(&mut self) -> Vec<bool> {
        let asked: Vec<Result<bool, Error>> = self.lanes.iter().map(Lane::is_idle).collect();
        let mut idle = Vec::new();
        for (device, answer) in asked.into_iter().enumerate() {
            // A dead context copies nothing any more.
            idle.push(answer.unwrap_or_else(|error| {
                self.fail(device, error);
                true
            }));
        }
        idle
    }
}

impl Executor for Gpus<'_, '_> {
    fn start(&mut self, index: usize, operation: &Operation) -> Result<(), (usize, Error)> {
        self.run(index, operation).map_err(|error| (operation.device, error))
    }

    fn poll(&mut self, ended: &mut dyn FnMut(usize)) -> Vec<(usize, Error)> {
        // A device's products end in their order. The failure of a device is noticed by its downloads and its streams.
        for products in &mut self.products {
            let running = products.iter().position(|(_, end)| !end.is_complete()).unwrap_or(products.len());
            products.drain(..running).for_each(|(index, _)| ended(index));
        }
        let mut failed = Vec::new();
        self.downloads.retain(|(device, index, end)| match end.try_is_complete() {
            Ok(true) => {
                ended(*index);
                false
            }
            Ok(false) => true,
            Err(error) => {
                failed.push((*device, self.lanes[*device].failed("cuEventQuery")(error)));
                false
            }
        });
        failed.into_iter().for_each(|(device, error)| self.fail(device, error));
        self.failed.iter_mut().filter_map(|(device, error)| Some((*device, error.take()?))).collect()
    }

    fn has_advanced(&mut self) -> bool {
        let ended = self.events.values().filter(|event| event.is_complete()).count();
        ended > std::mem::replace(&mut self.ended, ended)
    }

    fn is_idle(&mut self) -> bool {
        self.idle().into_iter().all(|idle| idle)
    }

    /// Resets the GPUs that still wait for an event of a context that has died: nothing else guarantees that they will
    /// not write the host's memory later.
    fn abandon(&mut self) -> Vec<(usize, Error)> {
        let stuck = self.idle().into_iter().enumerate().filter(|(_, idle)| !idle);
        let stuck: Vec<usize> = stuck.map(|(device, _)| device).collect();
        for device in stuck {
            let shared = &self.lanes[device].shared;
            // SAFETY: the number is that of a device; everything that this crate has on it refuses further work below.
            let _ = unsafe { sys::cuDevicePrimaryCtxReset_v2(shared.context.cu_device()) };
            let error = shared.died("waits for a GPU that failed".into());
            self.fail(device, error.into());
        }
        self.poll(&mut |_| ())
    }
}

impl Drop for Gpus<'_, '_> {
    /// Waits for everything in flight, also after a panic.
    fn drop(&mut self) {
        /// Number of checks, a millisecond apart, in which no event ends, before devices that wait are reset.
        const LOOKS: usize = 10_000;
        let mut looks = 0;
        while looks < LOOKS {
            if self.is_idle() {
                return;
            }
            looks = if self.has_advanced() { 0 } else { looks + 1 };
            thread::sleep(Duration::from_millis(1));
        }
        self.abandon();
    }
}

/// Runs of bytes of a block on a GPU.
#[derive(Clone, Copy)]
struct Lines {
    address: u64,
    /// Index of the first run.
    first: usize,
    run: usize,
    runs: usize,
    pitch: usize,
    /// Whether one copy may move all of them.
    whole: bool,
}

impl Lines {
    fn of(DeviceMatrix { address, shape, .. }: DeviceMatrix, element: u32, whole: bool) -> Lines {
        let element = element as usize;
        let Shape { ld, .. } = shape;
        Lines { address, first: 0, run: shape.run() * element, runs: shape.runs(), pitch: ld * element, whole }
    }

    /// The copies that move them: one, or one for each run.
    fn copies(self) -> impl Iterator<Item = Lines> {
        let (count, runs) = match (self.run * self.runs, self.whole) {
            (0, _) => (0, 0),
            (_, true) => (1, self.runs),
            (_, false) => (self.runs, 1),
        };
        let line =
            move |first: usize| Lines { first, address: self.address + (first * self.pitch) as u64, runs, ..self };
        (0..count).map(line)
    }
}

/// Enqueues a copy to a GPU.
///
/// # Safety
/// The host's runs are readable, and are not written, until the stream has completed the copy; a context is current.
unsafe fn upload(to: Lines, from: &Strided<*const u8>, stream: sys::CUstream) -> Result<(), DriverError> {
    let copy = sys::CUDA_MEMCPY2D {
        srcMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        srcHost: from.start.cast(),
        dstMemoryType: MemoryType::CU_MEMORYTYPE_DEVICE,
        dstDevice: to.address,
        ..block(to.run, to.runs, from.pitch, to.pitch)
    };
    // SAFETY: as the caller says.
    unsafe { enqueue(&copy, to, stream) }
}

/// Enqueues a copy to the host.
///
/// # Safety
/// Nothing accesses the host's runs until the stream has completed the copy; a context is current.
unsafe fn download(from: Lines, to: &Strided<*mut u8>, stream: sys::CUstream) -> Result<(), DriverError> {
    let copy = sys::CUDA_MEMCPY2D {
        srcMemoryType: MemoryType::CU_MEMORYTYPE_DEVICE,
        srcDevice: from.address,
        dstMemoryType: MemoryType::CU_MEMORYTYPE_HOST,
        dstHost: to.start.cast(),
        ..block(from.run, from.runs, from.pitch, to.pitch)
    };
    // SAFETY: as the caller says.
    unsafe { enqueue(&copy, from, stream) }
}

/// Enqueues a strided copy, or for a single run a plain one, which has no limit on its length.
///
/// # Safety
/// As for its callers.
unsafe fn enqueue(copy: &sys::CUDA_MEMCPY2D, lines: Lines, stream: sys::CUstream) -> Result<(), DriverError> {
    if lines.runs > 1 {
        // SAFETY: as the caller says.
        return unsafe { sys::cuMemcpy2DAsync_v2(copy, stream) }.result();
    }
    match copy.srcMemoryType {
        // SAFETY: as the caller says.
        MemoryType::CU_MEMORYTYPE_HOST => unsafe {
            sys::cuMemcpyHtoDAsync_v2(copy.dstDevice, copy.srcHost, lines.run, stream)
        },
        // SAFETY: as the caller says.
        _ => unsafe { sys::cuMemcpyDtoHAsync_v2(copy.dstHost, copy.srcDevice, lines.run, stream) },
    }
    .result()
}
