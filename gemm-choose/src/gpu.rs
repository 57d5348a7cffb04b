//! GPUs as data: one file of figures each, for estimates.

use std::fmt::Write;
use std::sync::OnceLock;

use ptx_gemm_dsl::DType;

macro_rules! figures {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The properties of a GPU that an estimate needs. All fields are public, so that figures of another GPU can be used; the
        /// files in `gpus/` say where each comes from. Cycles are those of a multiprocessor.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Gpu {
            /// Its name.
            pub name: String,
            /// Its compute capability, such as 90.
            pub capability: u32,
            /// Multiprocessors.
            pub processors: u32,
            /// Bytes of global memory.
            pub memory_bytes: u64,
            $($(#[doc = $doc])+ pub $name: f64,)+
        }

        impl Gpu {
            /// The names of the figures that are fractions, in the order of the file.
            pub const FIGURES: &[&str] = &[$(stringify!($name)),+];

            /// The figure of that name.
            pub fn figure(&mut self, name: &str) -> Option<&mut f64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }

            fn unknown(name: String, capability: u32, processors: u32, memory_bytes: u64) -> Gpu {
                Gpu { name, capability, processors, memory_bytes, $($name: f64::NAN,)+ }
            }
        }
    };
}

figures! {
    /// Cycles per nanosecond.
    clock_ghz,
    /// Multiply-adds of warps in f32 that a multiprocessor begins per cycle.
    fma_f32,
    /// The same in f64.
    fma_f64,
    /// The same in i32.
    fma_i32,
    /// Multiply-adds of 16-bit elements by `wgmma` that a multiprocessor completes per cycle.
    wgmma_per_clock,
    /// The same by `mma`.
    mma_per_clock,
    /// How much longer than its greatest demand a K-tile with `mma` takes: `ldmatrix` and `mma` of one warp wait for each other.
    mma_waits,
    /// Instructions of warps that a multiprocessor issues per cycle.
    issue_per_clock,
    /// Instructions that accompany a global load or a store: addresses, predicates, conversions.
    issue_with_each,
    /// Overhead instructions of a warp per K-tile.
    issue_per_tile,
    /// Passes of a read of shared memory that remain when quarter-warps that read the same words share them.
    merged_reads,
    /// Bytes per cycle that the second-level cache delivers to each multiprocessor when all of them read.
    l2_bytes_per_clock,
    /// Bytes per cycle that global memory delivers to all multiprocessors together.
    dram_bytes_per_clock,
    /// Cycles from a global load to its data, from the second-level cache.
    latency_global,
    /// The same from the first-level cache.
    latency_first_level,
    /// Cycles of a read of shared memory.
    latency_shared,
    /// Cycles of a barrier of a block.
    barrier,
    /// Cycles of a block before its first K-tile and after its last one.
    around,
    /// Multiply-adds of a loop body that the instruction cache holds.
    cached_fma,
    /// Microseconds of a launch, its first and last instructions included.
    launch_us,
    /// Cycles per nanosecond under the sustained load of tensor cores. The cycles below are at this clock.
    tensor_clock_ghz,
    /// Cycles of the shortest `wgmma`.
    tensor_least_instruction,
    /// Bytes per cycle that shared memory delivers to the tensor cores of a multiprocessor.
    tensor_shared_bytes,
    /// Bytes per cycle that reach the shared memory of a multiprocessor from the second-level cache.
    tensor_l2_bytes,
    /// Bytes per cycle beyond the edge of an operand that TMA fills in.
    tensor_filled_bytes,
    /// How much longer the copies of an operand take whose rows do not all begin at a sector of 32 bytes.
    tensor_off_sector,
    /// Cycles from the request for a K-tile until it has arrived and its stage is free again.
    tensor_latency,
    /// How the demands of a K-tile add up: 1 would be their sum, infinity their maximum.
    tensor_norm,
    /// Cycles of an epilogue apart from its stores.
    tensor_epilogue,
    /// Bytes per cycle at which a multiprocessor stores D by TMA or staged lines.
    tensor_store_bytes,
    /// The same where threads store their accumulators.
    tensor_direct_bytes,
    /// Cycles of a block before its first product.
    tensor_prologue,
    /// The share of an epilogue that does not overlap the next work tile, where TMA stores.
    tensor_overlapped,
    /// The same where warp groups take turns.
    tensor_turns,
    /// Cycles of an exchange of sums within a cluster.
    tensor_exchange,
    /// Bytes per cycle of such sums.
    tensor_exchange_bytes,
    /// Cycles of an exchange of sums through the workspace.
    tensor_workspace,
    /// Bytes per cycle of such sums, written or read.
    tensor_workspace_bytes,
    /// Cycles of each further block of `stream_k` that adds its sums to a tile.
    sharer,
    /// Multiprocessors that clusters of three and more blocks leave idle, for each block of a cluster.
    tensor_cluster_loss,
    /// The length of runs that memory delivers at half its rate.
    tensor_run_bytes,
    /// Terabytes per second from memory.
    tensor_dram_tb,
    /// Terabytes per second from the second-level cache in all.
    tensor_l2_tb,
    /// Megabytes that the second-level cache keeps from one wave to the next.
    tensor_l2_mb,
    /// Teraflops in 16 bits that the power limit allows.
    tensor_tflops,
    /// The same in tf32.
    tensor_tf32_tflops,
    /// The same in 8-bit floats.
    tensor_fp8_tflops,
    /// The same in 8-bit integers.
    tensor_int8_tflops,
    /// Microseconds of a launch.
    tensor_launch_us,
    /// How much longer the products of planes take: sums that leave the tensor cores, and rounds over the planes.
    tensor_planes,
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
    ///
    /// Fails on the first line of another form, on an unknown name, and on a missing figure.
    pub fn parse(text: &str) -> Result<Gpu, String> {
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (name, value) = line.split_once('=').ok_or_else(|| format!("line {}: `name = value`", index + 1))?;
            entries.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        let mut take = |name: &str| {
            let at = entries.iter().position(|(found, _)| found == name);
            at.map(|at| entries.remove(at).1).ok_or_else(|| format!("`{name}` is missing"))
        };
        let number =
            |name: &str, text: String| text.parse::<f64>().map_err(|_| format!("{name} = {text} is not a number"));
        let name = take("name")?;
        let mut whole = |name: &str| number(name, take(name)?);
        let (capability, processors) = (whole("capability")? as u32, whole("processors")? as u32);
        let mut gpu = Gpu::unknown(name, capability, processors, whole("memory_bytes")? as u64);
        for name in Gpu::FIGURES {
            let value = number(name, take(name)?)?;
            if let Some(figure) = gpu.figure(name) {
                *figure = value;
            }
        }
        match entries.first() {
            Some((name, _)) => Err(format!("`{name}` is not a figure of a GPU")),
            None => Ok(gpu),
        }
    }

    /// The text of a file of figures.
    pub fn text(&self) -> String {
        let mut gpu = self.clone();
        let Gpu { name, capability, processors, memory_bytes, .. } = self;
        let mut text = format!(
            "name = {name}\ncapability = {capability}\nprocessors = {processors}\nmemory_bytes = {memory_bytes}\n"
        );
        for name in Gpu::FIGURES {
            let value = gpu.figure(name).map_or(f64::NAN, |figure| *figure);
            // Writing to a `String` does not fail.
            let _ = writeln!(text, "{name} = {}", (value * 1e4).round() / 1e4);
        }
        text
    }

    /// Multiply-adds of warps per cycle in a type of accumulators.
    pub fn fma_of(&self, acc: DType) -> f64 {
        match acc {
            DType::F64 => self.fma_f64,
            other if other.is_integer() => self.fma_i32,
            _ => self.fma_f32,
        }
    }

    /// Teraflops of tensor cores that the power limit allows, in a type of factors.
    pub fn tflops_of(&self, factor: DType) -> f64 {
        match factor {
            DType::F16 | DType::Bf16 => self.tensor_tflops,
            DType::Tf32 => self.tensor_tf32_tflops,
            DType::E4m3 | DType::E5m2 => self.tensor_fp8_tflops,
            DType::I8 | DType::U8 => self.tensor_int8_tflops,
            // No `wgmma` multiplies them.
            DType::F64 | DType::F32 | DType::I32 => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FILES, Gpu};

    #[test]
    fn files_have_every_figure_once() {
        assert!(Gpu::all().iter().any(|gpu| gpu.name == "H200"));
        let text = FILES[0];
        assert!(Gpu::parse(&text.replace("cached_fma = 2100", "")).unwrap_err().contains("`cached_fma` is missing"));
        assert!(Gpu::parse(&format!("{text}speed = 3")).unwrap_err().contains("`speed` is not a figure"));
        assert!(Gpu::parse(&text.replace("cached_fma = 2100", "cached_fma = x")).unwrap_err().contains("not a number"));
        for gpu in Gpu::all() {
            assert_eq!(Gpu::parse(&gpu.text()).as_ref(), Ok(gpu));
        }
    }
}
