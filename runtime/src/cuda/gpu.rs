//! A GPU as a device: memory, copies, and its limits.
#![allow(unsafe_code)] // Calls of the driver.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use cudarc::driver::{CudaContext, result};
use ptx_gemm_dsl::Target;
use ptx_gemm_interp::TensorMapArgs;

use super::copy::pieces;
use super::shared::Shared;
use super::{driver, link, module, tensor_map};
use crate::backend::{Backend, Execution, Lifetime, Limits, Module, Output, Step, StreamHandle};
use crate::error::{DeviceError, Error};
use crate::kernel::Kernel;
use crate::pool::{Capacity, Pool};
use crate::store::{Key, Origin, Store};
use crate::view::{AnyMut, AnyRef, HostBytes, HostBytesMut};

/// One GPU, with its own stream.
pub(crate) struct Gpu {
    /// The state shared with modules.
    pub(super) shared: Arc<Shared>,
    limits: Limits,
    driver: String,
    /// Everything that identifies the driver, which is part of the key of its cubins.
    build: String,
    /// Name and compute capability.
    model: String,
    store: Option<Store>,
    /// Blocks of [`Lifetime::Call`], between calls.
    pool: Pool,
}

/// Device memory that is kept from one call on host data to the next: at most three matrices of 8192 x 8192 f32 and
/// some more.
const IDLE: Capacity = Capacity { blocks: 64, bytes: 1 << 30 };

/// A GPU by its number.
pub(crate) fn open(ordinal: usize) -> Result<Arc<dyn Backend>, DeviceError> {
    Ok(Arc::new(Gpu::open(ordinal)?))
}

impl Gpu {
    fn open(ordinal: usize) -> Result<Gpu, DeviceError> {
        let status = driver::status()?;
        if ordinal >= status.devices {
            return Err(DeviceError::NoSuchDevice { ordinal, count: status.devices });
        }
        let context = CudaContext::new(ordinal).map_err(|error| DeviceError::Driver {
            call: "cuDevicePrimaryCtxRetain",
            device: format!("CUDA device {ordinal}"),
            code: driver::code(error),
        })?;
        Gpu::of(context, &status.driver)
    }

    /// The GPU of the caller's context.
    pub(super) fn of(context: Arc<CudaContext>, driver: &str) -> Result<Gpu, DeviceError> {
        let ordinal = context.ordinal();
        let failed = |call, error| DeviceError::Driver {
            call,
            device: format!("CUDA device {ordinal}"),
            code: driver::code(error),
        };
        let stream = context.new_stream().map_err(|error| failed("cuStreamCreate", error))?;
        let name = context.name().map_err(|error| failed("cuDeviceGetName", error))?;
        let attribute = |attribute| {
            let value = context.attribute(attribute).map_err(|error| failed("cuDeviceGetAttribute", error))?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let limits = Limits {
            target: Some(Target { capability: major * 10 + minor, specific: false }),
            threads: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1),
        };
        let model = format!("{name}, compute capability {major}.{minor}");
        let build = driver::build(driver);
        let shared = Arc::new(Shared::new(context, stream, name));
        Ok(Gpu { shared, limits, driver: driver.into(), build, model, store: Store::of_user(), pool: Pool::new(IDLE) })
    }
}

/// Returns memory to the driver of the current context.
fn give_back(address: u64) {
    // SAFETY: `address` came from `allocate`, and its `Buffer` frees it once. cuMemFree waits for the device.
    let _ = unsafe { result::free_sync(address) };
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.shared.enter().is_ok() {
            self.pool.drain().into_iter().for_each(give_back);
        }
    }
}

impl Gpu {
    /// PTX text to a cubin for this GPU.
    pub(super) fn assemble(&self, ptx: &str) -> Result<Vec<u8>, Error> {
        self.shared.enter()?;
        Ok(link::assemble(ptx)?)
    }

    /// Waits for everything on the stream.
    fn wait(&self) -> Result<(), Error> {
        Ok(self.shared.stream.synchronize().map_err(|error| self.shared.failed("cuStreamSynchronize", error))?)
    }

    /// Enqueues copies to the device on a stream of the current context. The caller keeps the host's bytes unchanged
    /// until the stream has completed them, even after an error.
    pub(super) fn enqueue_upload(&self, address: u64, matrix: AnyRef<'_>, stream: sys::CUstream) -> Result<(), Error> {
        for piece in pieces(matrix) {
            let host = match matrix.bytes {
                HostBytes::Slice(bytes) => &bytes[piece.offset..piece.offset + piece.span()],
                HostBytes::Runs(runs) => runs.run(piece.first),
            };
            let copy = piece.to_device(host, address);
            // SAFETY: the slice above proves that the host side holds the piece, or that it is the first of runs that
            // are as far apart as the shape says, and the caller keeps it; the device side was allocated for the same
            // shape.
            let copied = match piece.is_one_run() {
                true => unsafe { result::memcpy_htod_async(address + piece.offset as u64, host, stream) },
                false => unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream) }.result(),
            };
            copied.map_err(|error| self.shared.failed("cuMemcpyHtoDAsync", error))?;
        }
        Ok(())
    }

    /// The same to the host. Its bytes must not be accessed until the stream has completed the copies.
    pub(super) fn enqueue_download(&self, address: u64, mut d: AnyMut<'_>, stream: sys::CUstream) -> Result<(), Error> {
        for piece in pieces(d.as_ref()) {
            let host = match &mut d.bytes {
                HostBytesMut::Slice(bytes) => &mut bytes[piece.offset..piece.offset + piece.span()],
                HostBytesMut::Runs(runs) => runs.run_mut(piece.first),
            };
            let copy = piece.to_host(address, host);
            // SAFETY: as above; the copy writes the runs and does not touch the padding between them.
            let copied = match piece.is_one_run() {
                true => unsafe { result::memcpy_dtoh_async(host, address + piece.offset as u64, stream) },
                false => unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream) }.result(),
            };
            copied.map_err(|error| self.shared.failed("cuMemcpyDtoHAsync", error))?;
        }
        Ok(())
    }
}

impl Backend for Gpu {
    fn name(&self) -> &str {
        self.shared.name()
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn free_bytes(&self) -> Result<Option<u64>, Error> {
        self.shared.enter()?;
        let (free, _) = result::mem_get_info().map_err(|error| self.shared.failed("cuMemGetInfo", error))?;
        Ok(Some(free as u64))
    }

    fn encode(&self, args: &TensorMapArgs) -> Result<[u8; 128], Error> {
        tensor_map::encode(&self.shared, args)
    }

    fn address_space(&self) -> Option<usize> {
        Some(self.shared.context.cu_ctx() as usize)
    }

    fn load(&self, kernel: &Arc<Kernel>) -> Result<Arc<dyn Module>, Error> {
        self.shared.enter()?;
        if link::is_whole(kernel.ptx()) {
            let module = link::module(kernel, &self.driver)?;
            return Ok(Arc::new(module::CudaModule::of(&self.shared, kernel, module, None)?));
        }
        let key = Key::of(Origin { ptx: kernel.ptx(), device: &self.model, driver: &self.build });
        if let Some(cubin) = self.store.as_ref().and_then(|store| store.load(key)) {
            match module::CudaModule::load(&self.shared, kernel, &cubin) {
                Ok(module) => return Ok(Arc::new(module)),
                Err(error @ (DeviceError::ContextDead { .. } | DeviceError::ContextLost { .. })) => {
                    return Err(error.into());
                }
                // The cubin is intact, but this driver rejects it: it is recreated below.
                Err(_) => {}
            }
        }
        let cubin = link::cubin(kernel, &self.driver)?;
        let module = module::CudaModule::load(&self.shared, kernel, &cubin)?;
        if let Some(store) = &self.store {
            // A cubin that cannot be stored is recreated by the next process. This process has it.
            let _ = store.save(key, &cubin);
        }
        Ok(Arc::new(module))
    }

    fn launch(&self, steps: &[Step]) -> Result<Execution, Error> {
        self.shared.enter()?;
        self.shared.timed(|stream| {
            steps.iter().try_for_each(|step| step.module.enqueue(&step.launch, StreamHandle(stream as usize)))
        })
    }

    fn allocate(&self, label: &str, bytes: u64, _element: u32, lifetime: Lifetime) -> Result<u64, Error> {
        self.shared.enter()?;
        if let (Lifetime::Call, Some(address)) = (lifetime, self.pool.take(bytes)) {
            return Ok(address);
        }
        let out_of_memory = || self.shared.out_of_memory(label, bytes);
        // An empty matrix still gets a pointer of its own.
        let size = usize::try_from(bytes.max(1)).map_err(|_| out_of_memory())?;
        // SAFETY: a context is current; the memory is only released by `free`.
        let reserve = || unsafe { result::malloc_sync(size) };
        let is_full = |error: &DriverError| error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let pointer = reserve().or_else(|error| {
            let idle = self.pool.drain();
            if !is_full(&error) || idle.is_empty() {
                return Err(error);
            }
            idle.into_iter().for_each(give_back);
            reserve()
        });
        Ok(pointer
            .map_err(|error| if is_full(&error) { out_of_memory() } else { self.shared.failed("cuMemAlloc", error) })?)
    }

    fn free(&self, address: u64, bytes: u64, lifetime: Lifetime) {
        // In a dead context there is nothing to release, and errors cannot be reported.
        if self.shared.enter().is_err() {
            return;
        }
        match lifetime {
            Lifetime::Call => self.pool.put(bytes, address).into_iter().for_each(give_back),
            Lifetime::Kept => give_back(address),
        }
    }

    fn zero(&self, address: u64, bytes: u64) -> Result<(), Error> {
        self.shared.enter()?;
        // SAFETY: a part of memory that `allocate` returned.
        let set = unsafe { result::memset_d8_async(address, 0, bytes as usize, self.shared.stream.cu_stream()) };
        Ok(set.map_err(|error| self.shared.failed("cuMemsetD8Async", error))?)
    }

    fn upload(&self, address: u64, matrix: AnyRef<'_>) -> Result<(), Error> {
        self.shared.enter()?;
        // This uses the stream that the kernel will run on: a copy on another stream may still be in flight when the
        // kernel starts, even after the call has returned. The wait happens even after an error, which leaves earlier
        // pieces in flight.
        self.enqueue_upload(address, matrix, self.shared.stream.cu_stream()).and(self.wait())
    }

    fn prepare(&self, address: u64, d: AnyRef<'_>, output: Output) -> Result<(), Error> {
        match output {
            Output::Fresh => Ok(()),
            Output::InPlace => self.upload(address, d),
        }
    }

    fn download(&self, address: u64, _entry: &str, d: AnyMut<'_>) -> Result<(), Error> {
        self.shared.enter()?;
        self.enqueue_download(address, d, self.shared.stream.cu_stream()).and(self.wait())
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({})", self.shared.name())
    }
}
