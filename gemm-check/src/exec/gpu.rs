//! A launch file on a GPU.

use std::time::Duration;

use super::Contents;
#[cfg(not(feature = "cuda"))]
pub use absent::on_gpu;
#[cfg(feature = "cuda")]
pub use present::on_gpu;

/// The result of one run.
#[derive(Debug)]
pub struct GpuRun {
    /// Every buffer afterwards, by name. A buffer without initial contents starts with zeros.
    pub contents: Contents,
    /// The run time of the kernel.
    pub time: Duration,
}

#[cfg(feature = "cuda")]
mod present {
    use std::collections::BTreeMap;

    use ptx_gemm_runtime::Device;
    use ptx_gemm_runtime::cuda::{Bytes, PtxLaunch, encode_tensor_map, launch_ptx};

    use super::super::{Arg, Contents, ExecError, LaunchFile};
    use super::GpuRun;

    /// Runs a launch file on a GPU. `level` is the assembler's level of optimisation, 0 to 4; the driver's own if absent.
    ///
    /// # Errors
    /// Returns what is wrong with the file or the PTX, and the driver's errors.
    pub fn on_gpu(device: &Device, ptx: &str, file: &LaunchFile, level: Option<u32>) -> Result<GpuRun, ExecError> {
        let mut buffers: BTreeMap<&str, Bytes> = BTreeMap::new();
        for (name, buffer) in &file.buffers {
            let contents =
                buffer.contents().map_err(|message| ExecError::File(format!("buffer `{name}`: {message}")))?;
            let contents = contents.unwrap_or_else(|| vec![0; buffer.bytes().unwrap_or(0) as usize]);
            buffers.insert(name, Bytes::upload(device, name, &contents)?);
        }
        let mut args = Vec::new();
        for arg in &file.args {
            // The names were checked when the file was read.
            let address = |name: &str| buffers.get(name).map_or(0, Bytes::address);
            args.push(match arg {
                Arg::Buffer(name) => address(name).to_le_bytes().to_vec(),
                Arg::Map(name) => {
                    let map =
                        file.maps.get(name).ok_or_else(|| ExecError::File(format!("the file has no map `{name}`")))?;
                    encode_tensor_map(device, &map.args(address(&map.buffer))?)?.to_vec()
                }
                plain => plain.bytes().map_err(ExecError::File)?.unwrap_or_default(),
            });
        }
        let entry = file.entry.as_deref();
        let entry = entry.ok_or_else(|| ExecError::File("on a GPU the launch file names the entry".into()))?;
        let launch = PtxLaunch {
            entry,
            grid: file.grid,
            block: file.block,
            cluster: file.cluster,
            dynamic_shared_bytes: file.shared,
            args: &args,
        };
        let time = launch_ptx(device, ptx, &launch, level)?;
        let mut contents = Contents::new();
        for (name, buffer) in buffers {
            contents.push((name.into(), buffer.download()?));
        }
        Ok(GpuRun { contents, time })
    }
}

#[cfg(not(feature = "cuda"))]
mod absent {
    use ptx_gemm_runtime::{Device, Error};

    use super::super::{ExecError, LaunchFile};
    use super::GpuRun;

    /// Without the feature `cuda`: an error that says so.
    ///
    /// # Errors
    /// Always.
    pub fn on_gpu(device: &Device, _ptx: &str, _file: &LaunchFile, _level: Option<u32>) -> Result<GpuRun, ExecError> {
        let missing = ptx_gemm_runtime::cuda::status().err().map(Error::from);
        Err(missing.map_or_else(|| ExecError::File(format!("{device} is not a GPU")), ExecError::from))
    }
}
