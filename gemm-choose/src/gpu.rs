//! GPUs as data: one file of figures each, for estimates.

use std::sync::OnceLock;

use ptx_gemm_dsl::DType;

/// The properties of a GPU that an estimate needs. All fields are public, so that figures of another GPU can be used; the
/// files in `gpus/` say where each comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its name.
    pub name: String,
    /// Its compute capability, such as 90.
    pub capability: u32,
    /// Multiprocessors.
    pub processors: u32,
    /// Cycles per nanosecond.
    pub clock_ghz: f64,
    /// Multiply-adds of warps that a multiprocessor begins per cycle: in f32, in f64, in i32.
    pub fma_per_clock: [f64; 3],
    /// Multiply-adds of elements of 16 bits that the tensor cores of a multiprocessor complete per cycle, with `wgmma` and with
    /// `mma`.
    pub tensor_per_clock: [f64; 2],
    /// Instructions of warps that a multiprocessor issues per cycle.
    pub issue_per_clock: f64,
    /// Bytes per cycle that the second-level cache delivers to each multiprocessor when all of them read.
    pub l2_bytes_per_clock: f64,
    /// Bytes of global memory.
    pub memory_bytes: u64,
    /// Bytes per cycle that global memory delivers to all multiprocessors together.
    pub dram_bytes_per_clock: f64,
    /// Cycles from a global load to its data, from the second-level cache; from the first-level cache; and of a read of shared
    /// memory.
    pub latencies: [f64; 3],
    /// Cycles of a barrier of a block.
    pub barrier: f64,
    /// Multiply-adds of a loop body that the instruction cache holds.
    pub cached_fma: f64,
    /// Microseconds of a launch, its first and last instructions included.
    pub launch_us: f64,
    /// What schedules with `wgmma` need.
    pub tensor: Tensor,
}

/// The figures of the model for `wgmma`, in cycles of [`Tensor::clock_ghz`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tensor {
    /// Cycles per nanosecond under sustained load.
    pub clock_ghz: f64,
    /// The least cycles of one instruction, whatever its n.
    pub least_instruction: f64,
    /// Bytes per cycle that shared memory delivers to the tensor cores of a multiprocessor.
    pub shared_bytes: f64,
    /// Bytes per cycle that reach the shared memory of a multiprocessor from the second-level cache.
    pub l2_bytes: f64,
    /// Cycles from the request for a K-tile until it has arrived and its stage is free again.
    pub latency: f64,
    /// Cycles of an epilogue apart from its stores.
    pub epilogue: f64,
    /// Bytes per cycle at which a multiprocessor stores D.
    pub store_bytes: f64,
    /// Cycles of a block before its first product.
    pub prologue: f64,
    /// The share of an epilogue that does not overlap the next work tile, where threads are free to go on.
    pub overlapped: f64,
    /// Cycles of an exchange of sums within a cluster, and of one through the workspace.
    pub exchange: f64,
    /// The same through the workspace.
    pub workspace: f64,
    /// Multiprocessors that clusters of three and more blocks leave idle, for each block of a cluster.
    pub cluster_loss: f64,
    /// Terabytes per second from memory, and in all from the second-level cache.
    pub dram_tb: f64,
    /// The same from the second-level cache.
    pub l2_tb: f64,
    /// Teraflops that the power limit allows.
    pub tflops: f64,
}

/// The files of figures.
const FILES: [&str; 1] = [include_str!("../gpus/h200.txt")];

impl Gpu {
    /// The GPUs known by name.
    pub fn all() -> &'static [Gpu] {
        static ALL: OnceLock<Vec<Gpu>> = OnceLock::new();
        ALL.get_or_init(|| {
            FILES.into_iter().map(|text| Gpu::parse(text).unwrap_or_else(|what| panic!("{what}"))).collect()
        })
    }

    /// The GPU of that name; case is ignored.
    pub fn find(name: &str) -> Option<&'static Gpu> {
        Gpu::all().iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name))
    }

    /// NVIDIA H200.
    pub fn h200() -> &'static Gpu {
        &Gpu::all()[0]
    }

    /// Reads a file of figures: lines `name = value`, comments after `#`.
    ///
    /// # Errors
    /// Fails on the first line of another form, on an unknown name, and on a missing figure.
    pub fn parse(text: &str) -> Result<Gpu, String> {
        let mut figures = Figures { entries: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (name, value) = line.split_once('=').ok_or_else(|| format!("line {}: `name = value`", index + 1))?;
            figures.entries.push((name.trim().into(), value.trim().into()));
        }
        let gpu = Gpu {
            name: figures.take("name")?,
            capability: figures.number("capability")? as u32,
            processors: figures.number("processors")? as u32,
            clock_ghz: figures.number("clock_ghz")?,
            fma_per_clock: figures.numbers(["fma_per_clock_f32", "fma_per_clock_f64", "fma_per_clock_i32"])?,
            tensor_per_clock: figures.numbers(["wgmma_per_clock", "mma_per_clock"])?,
            issue_per_clock: figures.number("issue_per_clock")?,
            l2_bytes_per_clock: figures.number("l2_bytes_per_clock")?,
            memory_bytes: figures.number("memory_bytes")? as u64,
            dram_bytes_per_clock: figures.number("dram_bytes_per_clock")?,
            latencies: figures.numbers(["latency_global", "latency_first_level", "latency_shared"])?,
            barrier: figures.number("barrier")?,
            cached_fma: figures.number("cached_fma")?,
            launch_us: figures.number("launch_us")?,
            tensor: Tensor {
                clock_ghz: figures.number("tensor_clock_ghz")?,
                least_instruction: figures.number("tensor_least_instruction")?,
                shared_bytes: figures.number("tensor_shared_bytes")?,
                l2_bytes: figures.number("tensor_l2_bytes")?,
                latency: figures.number("tensor_latency")?,
                epilogue: figures.number("tensor_epilogue")?,
                store_bytes: figures.number("tensor_store_bytes")?,
                prologue: figures.number("tensor_prologue")?,
                overlapped: figures.number("tensor_overlapped")?,
                exchange: figures.number("tensor_exchange")?,
                workspace: figures.number("tensor_workspace")?,
                cluster_loss: figures.number("tensor_cluster_loss")?,
                dram_tb: figures.number("tensor_dram_tb")?,
                l2_tb: figures.number("tensor_l2_tb")?,
                tflops: figures.number("tensor_tflops")?,
            },
        };
        match figures.entries.first() {
            Some((name, _)) => Err(format!("`{name}` is not a figure of a GPU")),
            None => Ok(gpu),
        }
    }

    /// Multiply-adds of warps per cycle in a type of accumulators.
    pub fn fma_of(&self, acc: DType) -> f64 {
        self.fma_per_clock[match acc {
            DType::F64 => 1,
            other if other.is_integer() => 2,
            _ => 0,
        }]
    }
}

/// The lines of a file that have not been taken.
struct Figures {
    entries: Vec<(String, String)>,
}

impl Figures {
    fn take(&mut self, name: &str) -> Result<String, String> {
        let at = self.entries.iter().position(|(found, _)| found == name);
        at.map(|at| self.entries.remove(at).1).ok_or_else(|| format!("`{name}` is missing"))
    }

    fn number(&mut self, name: &str) -> Result<f64, String> {
        let text = self.take(name)?;
        text.parse().map_err(|_| format!("{name} = {text} is not a number"))
    }

    fn numbers<const N: usize>(&mut self, names: [&str; N]) -> Result<[f64; N], String> {
        let mut numbers = [0.0; N];
        for (number, name) in numbers.iter_mut().zip(names) {
            *number = self.number(name)?;
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::{FILES, Gpu};

    #[test]
    fn files_have_every_figure_once() {
        assert!(Gpu::all().iter().any(|gpu| gpu.name == "H200"));
        let text = FILES[0];
        assert!(Gpu::parse(&text.replace("barrier = 30", "")).unwrap_err().contains("`barrier` is missing"));
        assert!(Gpu::parse(&format!("{text}speed = 3")).unwrap_err().contains("`speed` is not a figure"));
        assert!(Gpu::parse(&text.replace("barrier = 30", "barrier = x")).unwrap_err().contains("not a number"));
    }
}
