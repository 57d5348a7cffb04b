//! The figures of a GPU that the cost model needs.

use ptx_gemm::DType;

/// The properties of a GPU that an estimate needs. All fields are public, so that figures of another GPU can be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// Its name.
    pub name: &'static str,
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
}

impl Gpu {
    /// NVIDIA H200. Clock, multiprocessors and memory are the vendor's figures; lanes are those of the CUDA C++
    /// Programming Guide, "Arithmetic Instructions"; latencies, cache and code size come from microbenchmarks and the
    /// timed schedules of `bench/results/h200`.
    pub const H200: Gpu = Gpu {
        name: "H200",
        capability: 90,
        processors: 132,
        clock_ghz: 1.98,
        fma_per_clock: [4.0, 2.0, 2.0],
        // The data sheet's 989 TFLOP/s at 1.83 GHz; and the share of it that `mma.sync` reaches in microbenchmarks.
        tensor_per_clock: [2048.0, 1280.0],
        issue_per_clock: 4.0,
        l2_bytes_per_clock: 47.0,
        memory_bytes: 141_000_000_000,
        dram_bytes_per_clock: 2180.0,
        latencies: [600.0, 40.0, 30.0],
        barrier: 30.0,
        cached_fma: 2100.0,
        launch_us: 1.5,
    };

    /// The GPUs known by name.
    pub const ALL: [Gpu; 1] = [Gpu::H200];

    /// The GPU of that name; case is ignored.
    pub fn find(name: &str) -> Option<Gpu> {
        Gpu::ALL.into_iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name))
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
