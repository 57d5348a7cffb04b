//! Loaded machine code and its launches.
#![allow(unsafe_code)] // Calls of the driver.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Arc, OnceLock};

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUfunction_attribute as FunctionAttribute};
use ptx_gemm_codegen::tile::interface::{Interface, KernelLaunch};

use super::shared::Shared;
use crate::backend::{Execution, Module, StreamHandle};
use crate::contracts::{MachineCode, code_bytes};
use crate::error::{DeviceError, Error};
use crate::kernel::Kernel;
use crate::launch::{Launch, Start, Value};

/// Enough arguments for nearly every entry; only an epilogue with many vectors or scalars has more.
const FEW: usize = 32;

/// A module in a context, with the functions of each entry of the interface.
pub(super) struct CudaModule {
    shared: Arc<Shared>,
    module: sys::CUmodule,
    entries: Vec<Vec<Function>>,
    interface: Interface,
    /// Whether a kernel can start before the preceding one has ended.
    overlaps: bool,
}

/// The compute capability that programmatic dependent launches need, and the version of CUDA from which a graph can
/// capture them, times 1000 (CUDA driver API, `cuLaunchKernelEx`; release notes of CUDA 12.3).
const OVERLAP_CAPABILITY: i32 = 9;
const OVERLAP_VERSION: i32 = 12_030;

/// A kernel of the module.
struct Function {
    handle: sys::CUfunction,
    threads: u32,
    /// Bytes that the launch must request; static shared memory is part of the cubin.
    dynamic_bytes: u32,
    name: String,
    /// 0 if the cubin is not known.
    code_bytes: u64,
    /// Blocks of a cluster, along x.
    cluster: u32,
    /// Blocks that a multiprocessor holds at once, determined when a grid first needs it.
    resident: OnceLock<u32>,
    /// Clusters that the device holds at once, determined likewise.
    clusters: OnceLock<u32>,
}

// SAFETY: the handles are the driver's, which locks; they are never written after `load`.
unsafe impl Send for CudaModule {}
// SAFETY: as above.
unsafe impl Sync for CudaModule {}

impl CudaModule {
    /// Loads a cubin into the current context.
    pub(super) fn load(shared: &Arc<Shared>, kernel: &Kernel, cubin: &[u8]) -> Result<CudaModule, DeviceError> {
        // SAFETY: the image is a whole cubin from the driver's linker; the driver copies it.
        let handle = unsafe { result::module::load_data(cubin.as_ptr().cast()) }.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => shared.out_of_memory("the kernel's code", cubin.len() as u64),
            _ => shared.failed("cuModuleLoadData", error),
        })?;
        CudaModule::of(shared, kernel, handle, Some(cubin))
    }

    /// A module that was loaded into the current context, and its cubin if that is known.
    pub(super) fn of(
        shared: &Arc<Shared>,
        kernel: &Kernel,
        handle: sys::CUmodule,
        cubin: Option<&[u8]>,
    ) -> Result<CudaModule, DeviceError> {
        // `module` owns the handle from here on, so that an error below unloads it.
        let mut module = CudaModule {
            shared: shared.clone(),
            module: handle,
            entries: Vec::new(),
            interface: kernel.interface().clone(),
            overlaps: overlaps(shared)?,
        };
        for entry in &kernel.interface().entries {
            let functions =
                entry.launches.iter().map(|launch| module.function(launch, cubin)).collect::<Result<_, _>>()?;
            module.entries.push(functions);
        }
        Ok(module)
    }

    /// Looks up a kernel, and permits the shared memory that it needs.
    fn function(&self, launch: &KernelLaunch, cubin: Option<&[u8]>) -> Result<Function, DeviceError> {
        let failed = |call| move |error| self.shared.failed(call, error);
        let name = CString::new(launch.kernel.as_str()).unwrap_or_default();
        // SAFETY: the module is loaded, and stays loaded for as long as its functions are used.
        let handle = unsafe { result::module::get_function(self.module, name) };
        let handle = handle.map_err(failed("cuModuleGetFunction"))?;
        let dynamic_bytes = launch.dynamic_shared_bytes();
        if dynamic_bytes > 0 {
            // Dynamic shared memory above 48 KiB requires a function attribute (CUDA C++ Programming Guide, "Compute
            // capability 7.x").
            let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a function of a loaded module.
            unsafe { sys::cuFuncSetAttribute(handle, attribute, dynamic_bytes as i32) }
                .result()
                .map_err(failed("cuFuncSetAttribute"))?;
        }
        let code_bytes = cubin.and_then(|cubin| code_bytes(cubin, &launch.kernel)).unwrap_or(0);
        Ok(Function {
            handle,
            threads: launch.threads,
            dynamic_bytes,
            name: launch.kernel.clone(),
            code_bytes,
            cluster: launch.grid.cluster_blocks(),
            resident: OnceLock::new(),
            clusters: OnceLock::new(),
        })
    }
}

impl Module for CudaModule {
    fn blocks_per_multiprocessor(&self, entry: usize, kernel: usize) -> Result<u32, Error> {
        let Function { handle, threads, dynamic_bytes, ref resident, .. } = self.entries[entry][kernel];
        if let Some(&blocks) = resident.get() {
            return Ok(blocks);
        }
        self.shared.enter()?;
        // SAFETY: a function of a loaded module.
        let blocks = unsafe {
            result::occupancy::max_active_block_per_multiprocessor(handle, threads as i32, dynamic_bytes as usize)
        };
        let blocks =
            blocks.map_err(|error| self.shared.failed("cuOccupancyMaxActiveBlocksPerMultiprocessor", error))?;
        Ok(*resident.get_or_init(|| blocks.max(1) as u32))
    }

    fn resident_clusters(&self, entry: usize, kernel: usize) -> Result<Option<u32>, Error> {
        let function = &self.entries[entry][kernel];
        let &Function { handle, cluster, ref clusters, .. } = function;
        if cluster == 1 {
            return Ok(None);
        }
        if let Some(&held) = clusters.get() {
            return Ok(Some(held));
        }
        self.shared.enter()?;
        // The kernel itself states the extents of its clusters.
        let config = configuration(function, cluster);
        let mut held = 0;
        // SAFETY: a function of a loaded module; the call writes one integer, and reads `config` before it returns.
        unsafe { sys::cuOccupancyMaxActiveClusters(&mut held, handle, &config) }
            .result()
            .map_err(|error| self.shared.failed("cuOccupancyMaxActiveClusters", error))?;
        Ok(Some(*clusters.get_or_init(|| held.max(1) as u32)))
    }

    fn machine_code(&self) -> Result<Option<BTreeMap<String, MachineCode>>, Error> {
        self.shared.enter()?;
        let code = |function: &Function| {
            let attribute = |attribute| {
                // SAFETY: a function of a loaded module.
                let value = unsafe { result::function::get_function_attribute(function.handle, attribute) };
                value.map_err(|error| self.shared.failed("cuFuncGetAttribute", error))
            };
            // Local memory holds only spilled registers: the compiler declares no variables there.
            let spilled = attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)? as u32;
            let registers = attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS)? as u32;
            let code_bytes = function.code_bytes;
            let code = MachineCode { registers, spill_stores: spilled, spill_loads: spilled, code_bytes };
            Ok((function.name.clone(), code))
        };
        Ok(Some(self.entries.iter().flatten().map(code).collect::<Result<_, DeviceError>>()?))
    }

    fn launch(&self, launch: &Launch) -> Result<Execution, Error> {
        self.shared.enter()?;
        self.shared.timed(|stream| Ok(self.start(launch, stream)?))
    }

    fn enqueue(&self, launch: &Launch, stream: StreamHandle) -> Result<(), Error> {
        self.shared.enter()?;
        Ok(self.start(launch, stream.0 as sys::CUstream)?)
    }
}

impl CudaModule {
    /// Enqueues the kernels of a launch on a stream of the current context, in order.
    fn start(&self, launch: &Launch, stream: sys::CUstream) -> Result<(), DeviceError> {
        if let Some((address, bytes)) = launch.zero {
            // SAFETY: a part of the launch's workspace.
            let set = unsafe { result::memset_d8_async(address, 0, bytes as usize, stream) };
            set.map_err(|error| self.shared.failed("cuMemsetD8Async", error))?;
        }
        let functions = &self.entries[launch.entry];
        let entry = &self.interface.entries[launch.entry];
        let mut before = None;
        for (index, start) in launch.starts() {
            let overlaps = self.overlaps && before.is_some_and(|before| entry.may_overlap(before, index));
            self.start_one(&functions[index], start, stream, overlaps)?;
            before = Some(index);
        }
        Ok(())
    }

    /// Enqueues a kernel. If it overlaps, it may start before the preceding one in the stream has ended.
    fn start_one(
        &self,
        function: &Function,
        start: &Start,
        stream: sys::CUstream,
        overlaps: bool,
    ) -> Result<(), DeviceError> {
        // On the stack, so that a prepared launch does not allocate.
        let mut few = [ptr::null_mut(); FEW];
        let mut many = Vec::new();
        let args = match start.args.len() {
            count @ 0..=FEW => &mut few[..count],
            count => {
                many.resize(count, ptr::null_mut());
                &mut many[..]
            }
        };
        args.iter_mut().zip(&start.args).for_each(|(place, value)| *place = pointer(value));
        if overlaps {
            let mut attribute = sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
                pad: Default::default(),
            };
            let mut config = configuration(function, start.grid);
            (config.hStream, config.attrs, config.numAttrs) = (stream, &raw mut attribute, 1);
            // SAFETY: as below; the call reads the configuration and its attribute before it returns. The kernel
            // neither reads nor writes what the preceding one writes, and the next kernel waits for both.
            return unsafe { sys::cuLaunchKernelEx(&config, function.handle, args.as_mut_ptr(), ptr::null_mut()) }
                .result()
                .map_err(|error| self.shared.failed("cuLaunchKernelEx", error));
        }
        // SAFETY: the function belongs to a loaded module; `args` match its parameters in number and types, which the
        // interface states; device pointers were checked, or vouched for by the caller of `CompiledGemm::launch`.
        unsafe {
            result::launch_kernel(
                function.handle,
                (start.grid, 1, 1),
                (function.threads, 1, 1),
                function.dynamic_bytes,
                stream,
                args,
            )
        }
        .map_err(|error| self.shared.failed("cuLaunchKernel", error))
    }
}

/// The configuration of a launch with this many blocks, without attributes.
fn configuration(function: &Function, blocks: u32) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: function.threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: function.dynamic_bytes,
        hStream: ptr::null_mut(),
        attrs: ptr::null_mut(),
        numAttrs: 0,
    }
}

/// Whether a kernel can start before the preceding one has ended.
fn overlaps(shared: &Shared) -> Result<bool, DeviceError> {
    let capability =
        shared.context.compute_capability().map_err(|error| shared.failed("cuDeviceGetAttribute", error))?;
    let mut version = 0;
    // SAFETY: the call writes one integer.
    let known = unsafe { sys::cuDriverGetVersion(&mut version) }.result().is_ok();
    Ok(capability.0 >= OVERLAP_CAPABILITY && known && version >= OVERLAP_VERSION)
}

/// The address from which the driver reads an argument.
fn pointer(value: &Value) -> *mut c_void {
    match value {
        Value::U32(x) => (x as *const u32).cast_mut().cast(),
        Value::U64(x) => (x as *const u64).cast_mut().cast(),
        Value::I32(x) => (x as *const i32).cast_mut().cast(),
        Value::F32(x) => (x as *const f32).cast_mut().cast(),
        Value::F64(x) => (x as *const f64).cast_mut().cast(),
        Value::Map(x) => (&raw const **x).cast_mut().cast(),
    }
}

impl Drop for CudaModule {
    fn drop(&mut self) {
        if self.shared.enter().is_ok() {
            // A launch on a stream of the caller may still be running.
            let _ = self.shared.context.synchronize();
            // SAFETY: loaded once, unloaded once, and nothing runs.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}

impl fmt::Debug for CudaModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaModule({} entries)", self.entries.len())
    }
}
