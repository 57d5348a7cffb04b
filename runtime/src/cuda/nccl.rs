//! One process's part of a product across processes, on its GPU: broadcasts by NCCL on one stream, products on another,
//! ordered by events.
//!
//! Communicators do not block: every call returns at once, and while NCCL still connects, this process checks whether
//! another one has failed. So a process that dies causes an error everywhere, and never an endless wait.
#![allow(unsafe_code)] // Calls of NCCL and of the driver.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::result::DriverError;
use cudarc::driver::{CudaEvent, CudaStream, result, sys as driver};
use cudarc::nccl::sys::{self as nccl, ncclResult_t as Status};
use ptx_gemm_dsl::terms::Operand;

use super::shared::Shared;
use crate::arguments::DeviceMatrix;
use crate::backend::StreamHandle;
use crate::device::Device;
use crate::distributed::DistributedError;
use crate::large::site::Site;
use crate::large::{Action, Operation, Stream};

/// The first version with communicators that do not block.
const OLDEST: i32 = 21400;
/// Pause between two checks of work in progress.
const PAUSE: Duration = Duration::from_micros(200);
/// Pause between two checks whether another process has failed.
const CHECKS: Duration = Duration::from_millis(50);
/// How long streams may take to become idle after their communicators have been aborted.
const ABORTED: Duration = Duration::from_secs(5);

/// Checks whether another process has failed.
type Check<'c> = &'c dyn Fn() -> Result<(), DistributedError>;

/// The processes of a row or a column of the grid.
pub(crate) struct Group {
    /// The name that [`unique_name`] has made for it.
    pub(crate) name: Vec<u8>,
    /// Number of its processes.
    pub(crate) size: usize,
    /// Index of this process among them.
    pub(crate) index: usize,
}

/// The fields of `ncclConfig_t` of version 2.17. Later versions see from `size` and `version` which fields are missing,
/// and use their defaults; earlier ones read only the fields that they know (NCCL User Guide, "ncclConfig_t").
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: i32,
    cluster: i32,
    min_blocks: i32,
    max_blocks: i32,
    network: *const c_void,
    share: i32,
}

/// The version of [`Config`].
const CONFIG: u32 = 21700;
/// A field of a configuration that is left to NCCL.
const UNDEFINED: i32 = i32::MIN;

/// Looks for the library. Without it, cudarc panics at a missing function.
fn load() -> Result<(), DistributedError> {
    let none = |reason: String| Err(DistributedError::NoNccl { reason });
    // SAFETY: it only tries to open the library.
    if !unsafe { nccl::is_culib_present() } {
        return none(
            "libnccl.so was not found; where only libnccl.so.2 is installed, a link to it of that name in a folder of \
             LD_LIBRARY_PATH helps"
                .into(),
        );
    }
    let mut version = 0;
    // SAFETY: the library is loaded, and the pointer is to a local variable.
    let known = unsafe { nccl::ncclGetVersion(&mut version) };
    if known != Status::ncclSuccess || version < OLDEST {
        return none(format!("libnccl.so has version {version}, at least {OLDEST} (2.14.0) is needed"));
    }
    Ok(())
}

/// A name by which the processes of a group find each other. One of them makes it, and must still run when the others
/// connect.
pub(crate) fn unique_name(device: &Device) -> Result<Vec<u8>, DistributedError> {
    load()?;
    device.gpu()?.shared.enter()?;
    let mut id = nccl::ncclUniqueId { internal: [0; 128] };
    // SAFETY: the library is loaded, and the pointer is to a local variable.
    match unsafe { nccl::ncclGetUniqueId(&mut id) } {
        Status::ncclSuccess => Ok(id.internal.iter().map(|byte| *byte as u8).collect()),
        status => Err(failure("ncclGetUniqueId", 0, status)),
    }
}

fn failure(call: &'static str, rank: usize, status: Status) -> DistributedError {
    DistributedError::Nccl { call, rank, code: format!("{status:?}") }
}

/// This process in its row and its column.
pub(crate) struct Communicators {
    shared: Arc<Shared>,
    rank: usize,
    row: Communicator,
    column: Communicator,
    exchange: Arc<CudaStream>,
    compute: Arc<CudaStream>,
}

/// A communicator, which is aborted when it is dropped: by then every process has all it needs, or one has failed.
struct Communicator(nccl::ncclComm_t);

// SAFETY: any thread may use NCCL's communicators, one at a time; `&mut` of their owner ensures that.
unsafe impl Send for Communicator {}
// SAFETY: only `state` accesses it through a shared reference, which NCCL allows at any time.
unsafe impl Sync for Communicator {}

impl Communicator {
    /// The status of the last call.
    fn state(&self) -> Status {
        let mut state = Status::ncclSuccess;
        // SAFETY: the communicator is alive, and the pointer is to a local variable.
        match unsafe { nccl::ncclCommGetAsyncError(self.0, &mut state) } {
            Status::ncclSuccess => state,
            failed => failed,
        }
    }

    /// Ends all work in progress.
    fn abort(&mut self) {
        let communicator = std::mem::replace(&mut self.0, std::ptr::null_mut());
        if !communicator.is_null() {
            // SAFETY: it is alive, and nobody uses it any more.
            let _ = unsafe { nccl::ncclCommAbort(communicator) };
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.abort();
    }
}

impl Communicators {
    /// Connects this process to those of its row and its column, which have the same order everywhere. A broadcast has
    /// at most `channels` blocks, from version 2.17 on.
    pub(crate) fn new(
        device: &Device,
        rank: usize,
        [row, column]: [Group; 2],
        channels: u32,
        check: Check<'_>,
        patience: Duration,
    ) -> Result<Communicators, DistributedError> {
        load()?;
        let shared = device.gpu()?.shared.clone();
        shared.enter()?;
        let failed = |call| {
            let shared = &shared;
            move |error| shared.failed(call, error)
        };
        // A broadcast needs few multiprocessors, and needs them at once, while a product occupies all of them.
        let (_, first) = result::stream::get_priority_range().map_err(failed("cuCtxGetStreamPriorityRange"))?;
        let exchange = shared.context.new_stream_with_priority(first).map_err(failed("cuStreamCreateWithPriority"))?;
        let compute = shared.context.new_stream().map_err(failed("cuStreamCreate"))?;
        let row = connect(&row, rank, channels, check, patience)?;
        let column = connect(&column, rank, channels, check, patience)?;
        Ok(Communicators { shared, rank, row, column, exchange, compute })
    }

    /// Enqueues every operation of this process, then waits for the end. `index` returns the position of a panel's
    /// owner in its group.
    pub(crate) fn perform(
        &mut self,
        site: &Site,
        operations: &[Operation],
        index: &dyn Fn(Operand, usize) -> Option<usize>,
        check: Check<'_>,
        patience: Duration,
    ) -> Result<(), DistributedError> {
        self.shared.enter()?;
        // Waits until what the site has copied is complete.
        self.shared.stream.synchronize().map_err(|error| self.shared.failed("cuStreamSynchronize", error))?;
        let mut events = BTreeMap::new();
        let enqueued = operations
            .iter()
            .try_for_each(|operation| self.enqueue(site, operation, &mut events, index, check, patience))
            .and_then(|()| self.wait(&events, check, patience));
        if enqueued.is_err() {
            self.abandon();
        }
        enqueued
    }

    fn stream(&self, stream: Stream) -> &Arc<CudaStream> {
        if stream == Stream::Exchange { &self.exchange } else { &self.compute }
    }

    fn failed(&self, call: &'static str) -> impl Fn(DriverError) -> DistributedError {
        move |error| self.shared.failed(call, error).into()
    }

    fn enqueue(
        &self,
        site: &Site,
        operation: &Operation,
        events: &mut BTreeMap<usize, CudaEvent>,
        index: &dyn Fn(Operand, usize) -> Option<usize>,
        check: Check<'_>,
        patience: Duration,
    ) -> Result<(), DistributedError> {
        let stream = self.stream(operation.stream);
        match &operation.action {
            Action::Broadcast { operand, root, to, .. } => {
                let (Some((dtype, panel)), Some(root)) = (site.matrix(*to), index(*operand, *root)) else {
                    return Ok(());
                };
                let communicator = if *operand == Operand::A { &self.row } else { &self.column };
                let (address, bytes) = (panel.address as *mut c_void, span(dtype.bytes(), panel));
                // SAFETY: the panel is a block of a buffer of this GPU, of the same shape in every process of the group. It
                // is alive until the stream is idle.
                let status = unsafe {
                    nccl::ncclBroadcast(
                        address,
                        address,
                        bytes,
                        nccl::ncclDataType_t::ncclUint8,
                        root as i32,
                        communicator.0,
                        stream.cu_stream().cast(),
                    )
                };
                wait_for_call(communicator, "ncclBroadcast", status, self.rank, check, patience)
            }
            Action::Multiply(product) => {
                let Some(ready) = site.ready(product)? else { return Ok(()) };
                if ready.flags.1 > 0 {
                    let (address, bytes) = ready.flags;
                    // SAFETY: the flags are at the start of the workspace, which only this stream uses.
                    unsafe { result::memset_d8_async(address, 0, bytes as usize, stream.cu_stream()) }
                        .map_err(self.failed("cuMemsetD8Async"))?;
                }
                let handle = StreamHandle(stream.cu_stream() as usize);
                Ok(ready.steps.iter().try_for_each(|step| step.module.enqueue(&step.launch, handle))?)
            }
            Action::Record(event) => {
                let recorded = self.shared.context.new_event(None).map_err(self.failed("cuEventCreate"))?;
                recorded.record(stream).map_err(self.failed("cuEventRecord"))?;
                events.insert(*event, recorded);
                Ok(())
            }
            Action::Wait(event) => match events.get(event) {
                Some(event) => stream.wait(event).map_err(self.failed("cuStreamWaitEvent")),
                None => Ok(()),
            },
            Action::Upload { .. } | Action::Receive { .. } | Action::Download { .. } => Ok(()),
        }
    }

    /// Waits until both streams are idle, as long as events complete and no process fails.
    fn wait(
        &self,
        events: &BTreeMap<usize, CudaEvent>,
        check: Check<'_>,
        patience: Duration,
    ) -> Result<(), DistributedError> {
        let (mut ended, mut since, mut checked) = (0, Instant::now(), Instant::now());
        while !self.is_idle()? {
            for communicator in [&self.row, &self.column] {
                wait_for_call(communicator, "ncclBroadcast", communicator.state(), self.rank, check, patience)?;
            }
            if checked.elapsed() > CHECKS {
                check()?;
                checked = Instant::now();
                let now = events.values().filter(|event| event.is_complete()).count();
                if now > ended {
                    (ended, since) = (now, Instant::now());
                }
            }
            if since.elapsed() > patience {
                return Err(no_progress(self.rank, patience));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn is_idle(&self) -> Result<bool, DistributedError> {
        for stream in [&self.exchange, &self.compute] {
            // SAFETY: a stream of the current context.
            match unsafe { driver::cuStreamQuery(stream.cu_stream()) }.result() {
                Ok(()) => {}
                Err(DriverError(driver::CUresult::CUDA_ERROR_NOT_READY)) => return Ok(false),
                Err(error) => return Err(self.failed("cuStreamQuery")(error)),
            }
        }
        Ok(true)
    }

    /// Ends the exchange. If the streams do not become idle then, the GPU is reset: nothing else guarantees that it
    /// does not write memory after it has been released.
    fn abandon(&mut self) {
        self.row.abort();
        self.column.abort();
        let begun = Instant::now();
        // A dead context writes nothing either.
        while !self.is_idle().unwrap_or(true) {
            if begun.elapsed() > ABORTED {
                // SAFETY: the number is that of a device; everything that this crate has on it refuses further work
                // below.
                let _ = unsafe { driver::cuDevicePrimaryCtxReset_v2(self.shared.context.cu_device()) };
                self.shared.died("waits for a process that failed".into());
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

impl fmt::Debug for Communicators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicators(process {} on {})", self.rank, self.shared.name())
    }
}

/// Bytes from the first element to the last, padding between rows included.
fn span(element: u32, DeviceMatrix { shape, .. }: DeviceMatrix) -> usize {
    let elements = shape.runs().saturating_sub(1) * shape.ld + shape.run();
    elements * element as usize
}

fn no_progress(rank: usize, patience: Duration) -> DistributedError {
    DistributedError::Silent {
        from: rank,
        what: "the end of a broadcast or product".into(),
        seconds: patience.as_secs(),
    }
}

/// Waits until a call is complete on this side: a communicator is still connecting during its first calls.
fn wait_for_call(
    communicator: &Communicator,
    call: &'static str,
    mut status: Status,
    rank: usize,
    check: Check<'_>,
    patience: Duration,
) -> Result<(), DistributedError> {
    let (begun, mut checked) = (Instant::now(), Instant::now());
    loop {
        match status {
            Status::ncclSuccess => return Ok(()),
            Status::ncclInProgress => {}
            status => {
                // The failure of another process is the better explanation.
                check()?;
                return Err(failure(call, rank, status));
            }
        }
        if checked.elapsed() > CHECKS {
            check()?;
            checked = Instant::now();
        }
        if begun.elapsed() > patience {
            return Err(no_progress(rank, patience));
        }
        thread::sleep(PAUSE);
        status = communicator.state();
    }
}

fn connect(
    group: &Group,
    rank: usize,
    channels: u32,
    check: Check<'_>,
    patience: Duration,
) -> Result<Communicator, DistributedError> {
    let mut id = nccl::ncclUniqueId { internal: [0; 128] };
    id.internal.iter_mut().zip(&group.name).for_each(|(to, from)| *to = *from as _);
    let mut config = Config {
        size: size_of::<Config>(),
        magic: 0xcafe_beef,
        version: CONFIG,
        blocking: 0,
        cluster: UNDEFINED,
        min_blocks: UNDEFINED,
        max_blocks: channels as i32,
        network: std::ptr::null(),
        share: UNDEFINED,
    };
    let mut communicator = Communicator(std::ptr::null_mut());
    // SAFETY: the library is loaded. The configuration begins like `ncclConfig_t`, and states its own size.
    let status = unsafe {
        nccl::ncclCommInitRankConfig(
            &mut communicator.0,
            group.size as i32,
            id,
            group.index as i32,
            (&raw mut config).cast(),
        )
    };
    wait_for_call(&communicator, "ncclCommInitRankConfig", status, rank, check, patience)?;
    Ok(communicator)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the library is missing or too old, this is an error before cudarc looks for a function in it.
    #[test]
    fn a_missing_library_is_an_error() {
        match load() {
            Ok(()) => {}
            Err(DistributedError::NoNccl { reason }) => assert!(reason.starts_with("libnccl.so "), "{reason}"),
            Err(other) => panic!("{other}"),
        }
    }
}
