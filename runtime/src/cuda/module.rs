//! A loaded cubin and its launches.
#![allow(unsafe_code)] // Calls of the driver.

use std::ffi::{CString, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cudarc::driver::sys::{self, CUfunction_attribute as FunctionAttribute};
use cudarc::driver::{result, sys::CUevent_flags};

use super::gpu::Shared;
use crate::backend::{Execution, Launch, Module, StreamHandle, Value};
use crate::error::{DeviceError, Error};
use crate::kernel::Kernel;

/// Dynamic shared memory above this needs the function's consent (CUDA C++ Programming Guide, "Compute capability 7.x").
const STATIC_SHARED_BYTES: u32 = 48 << 10;

/// Arguments of nearly every entry; only an epilogue with many vectors or scalars has more.
const FEW: usize = 32;

/// A cubin in a context, with a function for each entry of the plan.
pub(super) struct CudaModule {
    shared: Arc<Shared>,
    module: sys::CUmodule,
    functions: Vec<sys::CUfunction>,
    threads: u32,
    /// Blocks of each entry that the device holds at once, where a grid has asked.
    resident: Vec<OnceLock<u32>>,
    /// Bytes that the launch must ask for; static shared memory is part of the cubin.
    dynamic_bytes: u32,
}

// SAFETY: the handles are the driver's, which locks; they are never written after `load`.
unsafe impl Send for CudaModule {}
// SAFETY: as above.
unsafe impl Sync for CudaModule {}

impl CudaModule {
    /// Loads a cubin into the current context.
    pub(super) fn load(shared: &Arc<Shared>, kernel: &Kernel, cubin: &[u8]) -> Result<CudaModule, DeviceError> {
        let plan = kernel.plan();
        let failed = |call| move |error| shared.failed(call, error);
        // SAFETY: the image is a whole cubin from the driver's linker; the driver copies it.
        let handle = unsafe { result::module::load_data(cubin.as_ptr().cast()) }.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => shared.out_of_memory("the kernel's code", cubin.len() as u64),
            _ => shared.failed("cuModuleLoadData", error),
        })?;
        let dynamic_bytes = if plan.shared_bytes > STATIC_SHARED_BYTES { plan.shared_bytes } else { 0 };
        let threads = plan.geometry.threads;
        let resident = plan.variants.iter().map(|_| OnceLock::new()).collect();
        // Owns the handle from here on, so that an error below unloads it.
        let mut module = CudaModule {
            shared: shared.clone(),
            module: handle,
            functions: Vec::new(),
            threads,
            resident,
            dynamic_bytes,
        };
        for variant in &plan.variants {
            let name = CString::new(variant.entry.as_str()).unwrap_or_default();
            // SAFETY: the module is loaded, and stays so for as long as its functions are used.
            let function = unsafe { result::module::get_function(module.module, name) };
            let function = function.map_err(failed("cuModuleGetFunction"))?;
            if dynamic_bytes > 0 {
                let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                // SAFETY: a function of a loaded module.
                unsafe { sys::cuFuncSetAttribute(function, attribute, dynamic_bytes as i32) }
                    .result()
                    .map_err(failed("cuFuncSetAttribute"))?;
            }
            module.functions.push(function);
        }
        Ok(module)
    }
}

impl Module for CudaModule {
    fn resident_blocks(&self, variant: usize) -> Result<u32, Error> {
        if let Some(&blocks) = self.resident[variant].get() {
            return Ok(blocks);
        }
        self.shared.enter()?;
        let (threads, bytes) = (self.threads, self.dynamic_bytes as usize);
        // SAFETY: a function of a loaded module.
        let per_processor = unsafe {
            result::occupancy::max_active_block_per_multiprocessor(self.functions[variant], threads as i32, bytes)
        };
        let per_processor =
            per_processor.map_err(|error| self.shared.failed("cuOccupancyMaxActiveBlocksPerMultiprocessor", error))?;
        let processors = self
            .shared
            .context
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(|error| self.shared.failed("cuDeviceGetAttribute", error))?;
        let blocks = (per_processor.max(1) * processors.max(1)) as u32;
        Ok(*self.resident[variant].get_or_init(|| blocks))
    }

    fn launch(&self, launch: &Launch) -> Result<Execution, Error> {
        self.shared.enter()?;
        let failed = |call| move |error| self.shared.failed(call, error);
        let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let start = self.shared.context.new_event(timed).map_err(failed("cuEventCreate"))?;
        let end = self.shared.context.new_event(timed).map_err(failed("cuEventCreate"))?;
        start.record(&self.shared.stream).map_err(failed("cuEventRecord"))?;
        self.start(launch, self.shared.stream.cu_stream())?;
        end.record(&self.shared.stream).map_err(failed("cuEventRecord"))?;
        self.shared.stream.synchronize().map_err(failed("cuStreamSynchronize"))?;
        let milliseconds = start.elapsed_ms(&end).map_err(failed("cuEventElapsedTime"))?;
        Ok(Execution { time: Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3), counts: None })
    }

    fn enqueue(&self, launch: &Launch, stream: StreamHandle) -> Result<(), Error> {
        self.shared.enter()?;
        Ok(self.start(launch, stream.0 as sys::CUstream)?)
    }
}

impl CudaModule {
    /// Puts a launch on a stream of the current context.
    fn start(&self, launch: &Launch, stream: sys::CUstream) -> Result<(), DeviceError> {
        // On the stack: a launch that is ready allocates nothing.
        let mut few = [ptr::null_mut(); FEW];
        let mut many = Vec::new();
        let args = match launch.args.len() {
            count @ 0..=FEW => &mut few[..count],
            count => {
                many.resize(count, ptr::null_mut());
                &mut many[..]
            }
        };
        args.iter_mut().zip(&launch.args).for_each(|(place, value)| *place = pointer(value));
        // SAFETY: the function belongs to a loaded module; `args` are as many, and of the types, as the entry's
        // parameters, which the plan states; device pointers were checked, or vouched for by the caller of
        // `CompiledGemm::launch`.
        unsafe {
            result::launch_kernel(
                self.functions[launch.variant],
                (launch.grid, 1, 1),
                (self.threads, 1, 1),
                self.dynamic_bytes,
                stream,
                args,
            )
        }
        .map_err(|error| self.shared.failed("cuLaunchKernel", error))
    }
}

/// Where the driver reads an argument from.
fn pointer(value: &Value) -> *mut c_void {
    match value {
        Value::U32(x) => (x as *const u32).cast_mut().cast(),
        Value::U64(x) => (x as *const u64).cast_mut().cast(),
        Value::I32(x) => (x as *const i32).cast_mut().cast(),
        Value::F32(x) => (x as *const f32).cast_mut().cast(),
        Value::F64(x) => (x as *const f64).cast_mut().cast(),
    }
}

impl Drop for CudaModule {
    fn drop(&mut self) {
        if self.shared.enter().is_ok() {
            // A launch on a stream of the caller's may still be running.
            let _ = self.shared.context.synchronize();
            // SAFETY: loaded once, unloaded once, and nothing runs.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}

impl fmt::Debug for CudaModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaModule({} entries)", self.functions.len())
    }
}
