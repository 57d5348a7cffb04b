//! Runs any PTX text on a GPU, for comparison with the interpreter: memory by its address, arguments by their bytes.
#![allow(unsafe_code)] // Calls of the driver.

use std::ffi::{CString, c_void};
use std::ptr;
use std::time::Duration;

use cudarc::driver::sys::{self, CUevent_flags};
use ptx_gemm_interp::TensorMapArgs;

use super::gpu::Gpu;
use super::shared::Shared;
use super::{driver, link, tensor_map};
use crate::backend::{Backend, Lifetime};
use crate::device::Device;
use crate::error::{DeviceError, Error};

/// Bytes in the memory of a GPU.
#[derive(Debug)]
pub struct Bytes {
    device: Device,
    address: u64,
    len: u64,
}

impl Bytes {
    /// Reserves memory and fills it.
    pub fn upload(device: &Device, label: &str, contents: &[u8]) -> Result<Bytes, Error> {
        let gpu = device.gpu()?;
        let len = contents.len() as u64;
        let bytes = Bytes { device: device.clone(), address: gpu.allocate(label, len, 1, Lifetime::Kept)?, len };
        if !contents.is_empty() {
            // SAFETY: the memory was reserved for this number of bytes, and the context is current.
            let copied = unsafe { cudarc::driver::result::memcpy_htod_sync(bytes.address, contents) };
            copied.map_err(|error| gpu.shared.failed("cuMemcpyHtoD", error))?;
        }
        Ok(bytes)
    }

    /// Their address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Copies them to the host.
    pub fn download(&self) -> Result<Vec<u8>, Error> {
        let gpu = self.device.gpu()?;
        gpu.shared.enter()?;
        let mut out = vec![0; self.len as usize];
        if !out.is_empty() {
            // SAFETY: as in `upload`.
            let copied = unsafe { cudarc::driver::result::memcpy_dtoh_sync(&mut out, self.address) };
            copied.map_err(|error| gpu.shared.failed("cuMemcpyDtoH", error))?;
        }
        Ok(out)
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Ok(gpu) = self.device.gpu() {
            gpu.free(self.address, self.len, Lifetime::Kept);
        }
    }
}

/// A launch of an entry of a PTX text.
#[derive(Clone, Copy, Debug)]
pub struct PtxLaunch<'a> {
    /// Name of the entry.
    pub entry: &'a str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster, if the launch uses clusters.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// The bytes of each argument, in the order of the parameters.
    pub args: &'a [Vec<u8>],
}

/// Encodes a tensor map with the driver: 128 bytes for a parameter.
///
/// # Errors
/// `CUDA_ERROR_INVALID_VALUE`, whatever is wrong with them.
pub fn encode_tensor_map(device: &Device, args: &TensorMapArgs) -> Result<[u8; 128], Error> {
    tensor_map::encode(&device.gpu()?.shared, args)
}

/// A module of the driver, which is unloaded on every path.
struct Loaded(sys::CUmodule);

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the module was loaded once, and none of its kernels is still running.
        let _ = unsafe { cudarc::driver::result::module::unload(self.0) };
    }
}

/// Runs an entry of a PTX text to completion and returns the kernel's time. `level` is the assembler's optimisation
/// level, 0 to 4; the driver's default if absent.
///
/// # Errors
/// Returns the driver's error about the text, the arguments or the launch. A fault of the kernel ends the
/// context, and the device is then unusable in this process.
pub fn launch_ptx(device: &Device, ptx: &str, launch: &PtxLaunch<'_>, level: Option<u32>) -> Result<Duration, Error> {
    let gpu = device.gpu()?;
    let shared = &gpu.shared;
    shared.enter()?;
    let module = load(gpu, ptx, level)?;
    let failed = |call| move |error| shared.failed(call, error);
    let name = CString::new(launch.entry).unwrap_or_default();
    // SAFETY: the module is loaded, and stays so until the kernel has ended.
    let function = unsafe { cudarc::driver::result::module::get_function(module.0, name) };
    let function = function.map_err(failed("cuModuleGetFunction"))?;
    check_arguments(shared, function, launch)?;
    if launch.dynamic_shared_bytes > 0 {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a function of a loaded module.
        unsafe { sys::cuFuncSetAttribute(function, attribute, launch.dynamic_shared_bytes as i32) }
            .result()
            .map_err(failed("cuFuncSetAttribute"))?;
    }
    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let start = shared.context.new_event(timed).map_err(failed("cuEventCreate"))?;
    let end = shared.context.new_event(timed).map_err(failed("cuEventCreate"))?;
    start.record(&shared.stream).map_err(failed("cuEventRecord"))?;
    let mut args: Vec<*mut c_void> = launch.args.iter().map(|bytes| bytes.as_ptr().cast_mut().cast()).collect();
    let mut clusters = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { pad: [0; 64] },
    };
    if let Some([x, y, z]) = launch.cluster {
        clusters.value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
    }
    let config = sys::CUlaunchConfig {
        gridDimX: launch.grid[0],
        gridDimY: launch.grid[1],
        gridDimZ: launch.grid[2],
        blockDimX: launch.block[0],
        blockDimY: launch.block[1],
        blockDimZ: launch.block[2],
        sharedMemBytes: launch.dynamic_shared_bytes,
        hStream: shared.stream.cu_stream(),
        attrs: &mut clusters,
        numAttrs: u32::from(launch.cluster.is_some()),
    };
    // SAFETY: the arguments match the parameters in number and size, as was checked above; config and attribute live
    // until the call returns.
    unsafe { sys::cuLaunchKernelEx(&config, function, args.as_mut_ptr(), ptr::null_mut()) }
        .result()
        .map_err(failed("cuLaunchKernelEx"))?;
    end.record(&shared.stream).map_err(failed("cuEventRecord"))?;
    shared.stream.synchronize().map_err(failed("cuStreamSynchronize"))?;
    let milliseconds = start.elapsed_ms(&end).map_err(failed("cuEventElapsedTime"))?;
    Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
}

/// Loads PTX as a module, with the driver's own compiler.
fn load(gpu: &Gpu, ptx: &str, level: Option<u32>) -> Result<Loaded, DeviceError> {
    if ptx.contains('\0') {
        let (code, log) = ("CUDA_ERROR_INVALID_PTX".into(), "the text has a zero byte".into());
        return Err(DeviceError::Link { code, log });
    }
    let module = link::load(ptx, level).map_err(|(error, log)| match log.is_empty() {
        true => gpu.shared.failed("cuModuleLoadDataEx", error),
        false => DeviceError::Link { code: driver::code(error), log },
    })?;
    Ok(Loaded(module))
}

/// Checks the arguments against the parameters in number and size. The driver reads as many bytes as the parameters
/// have.
fn check_arguments(shared: &Shared, function: sys::CUfunction, launch: &PtxLaunch<'_>) -> Result<(), DeviceError> {
    let wrong = |code: String| DeviceError::Driver { call: "cuFuncGetParamInfo", device: shared.name().into(), code };
    for index in 0.. {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: a function of a loaded module; the pointers are to local variables.
        let known = unsafe { sys::cuFuncGetParamInfo(function, index, &mut offset, &mut bytes) }.result();
        match (known, launch.args.get(index)) {
            (Ok(()), Some(arg)) if arg.len() == bytes => {}
            (Ok(()), Some(arg)) => {
                return Err(wrong(format!("parameter {index} has {bytes} bytes, its argument {}", arg.len())));
            }
            (Ok(()), None) => return Err(wrong(format!("{index} arguments, and the entry has more parameters"))),
            (Err(_), Some(_)) => return Err(wrong(format!("{} arguments for {index} parameters", launch.args.len()))),
            (Err(_), None) => break,
        }
    }
    Ok(())
}
