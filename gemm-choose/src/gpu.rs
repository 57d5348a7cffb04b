//! GPUs as data: one file each, with the figures of the data sheet, and those that `gemmc calibrate` fits where it was run.

use std::fmt::Write;
use std::sync::OnceLock;

use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::{DType, Target};

macro_rules! figures {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The properties of a GPU that an estimate needs. All fields are public, so that figures of another GPU can be used; the
        /// files in `gpus/` say where each comes from. Cycles are those of a multiprocessor.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Gpu {
            /// Its name, such as H200.
            pub name: String,
            /// Its name in full.
            pub title: String,
            /// Its compute capability, such as 90.
            pub capability: u32,
            /// Multiprocessors.
            pub processors: u32,
            /// Bytes of global memory.
            pub memory_bytes: u64,
            /// The highest clock, in MHz.
            pub boost_mhz: u32,
            /// Bandwidth of its memory, in GB/s.
            pub memory_gb_s: u32,
            /// Megabytes of its second-level cache.
            pub cache_mb: u32,
            /// The peak of its tensor cores for dense products of 16-bit types with f32 accumulators, in TFLOP/s, from the data
            /// sheet, which may assume a lower clock than the highest one.
            pub peak_tflops: f64,
            /// Whether the figures below were fitted to times on this GPU. Otherwise they follow from the ones above.
            pub calibrated: bool,
            $($(#[doc = $doc])+ pub $name: f64,)+
        }

        impl Gpu {
            /// The names of the figures that are fractions, in the order of the file.
            pub const FIGURES: &[&str] = &[$(stringify!($name)),+];

            /// Nothing known.
            fn blank() -> Gpu {
                Gpu {
                    name: String::new(),
                    title: String::new(),
                    capability: 0,
                    processors: 0,
                    memory_bytes: 0,
                    boost_mhz: 0,
                    memory_gb_s: 0,
                    cache_mb: 0,
                    peak_tflops: f64::NAN,
                    calibrated: false,
                    $($name: f64::NAN,)+
                }
            }

            /// The figure of that name.
            pub fn figure(&mut self, name: &str) -> Option<&mut f64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
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
    /// Multiply-adds of 16-bit elements by `mma` that a multiprocessor completes per cycle.
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
    /// The same if they begin at sectors, but not all at a line of 128 bytes.
    tensor_off_line,
    /// Cycles from the request for a K-tile until it has arrived and its stage is free again.
    tensor_latency,
    /// How much longer that takes if blocks of a cluster share copies: each waits for the slowest.
    tensor_shared_latency,
    /// How much longer the instructions of a consumer take that has 64 rows and takes turns: no other one fills the gaps between them.
    tensor_alone,
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
    /// Cycles for each further part of k in the workspace: the last block of a tile reads one after the other.
    workspace_part,
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

/// The files. The first one is of the GPU that the project is measured on.
const FILES: [&str; 9] = [
    include_str!("../gpus/h200.txt"),
    include_str!("../gpus/h100.txt"),
    include_str!("../gpus/a100.txt"),
    include_str!("../gpus/l40s.txt"),
    include_str!("../gpus/rtx4090.txt"),
    include_str!("../gpus/rtx3090.txt"),
    include_str!("../gpus/t4.txt"),
    include_str!("../gpus/b200.txt"),
    include_str!("../gpus/rtx5090.txt"),
];

impl Gpu {
    /// The GPUs known by name.
    pub fn all() -> &'static [Gpu] {
        static ALL: OnceLock<Vec<Gpu>> = OnceLock::new();
        ALL.get_or_init(|| {
            let mut all: Vec<Gpu> = Vec::new();
            for text in FILES {
                let gpu = read(text, all.first()).unwrap_or_else(|what| panic!("{what}"));
                all.push(gpu);
            }
            all
        })
    }

    /// The GPU of that name; case and spaces are ignored.
    pub fn find(name: &str) -> Option<&'static Gpu> {
        let plain = |name: &str| name.replace(' ', "").to_ascii_lowercase();
        Gpu::all().iter().find(|gpu| plain(&gpu.name) == plain(name))
    }

    /// NVIDIA H200.
    pub fn h200() -> &'static Gpu {
        &Gpu::all()[0]
    }

    /// What to say next to an estimate, if anything.
    pub fn caveat(&self) -> Option<String> {
        let advice = "gemmc calibrate --device fits them";
        (!self.calibrated).then(|| {
            format!("not calibrated: the figures of {} follow from its data sheet; {advice}", with_article(&self.name))
        })
    }

    /// The first GPU that runs code for a target.
    pub fn for_target(target: Target) -> Option<&'static Gpu> {
        Gpu::all().iter().find(|gpu| target.runs_on(gpu.capability))
    }

    /// A device's GPU: the one with this name in the device's own, or else one of its generation; with as many multiprocessors as the
    /// device has.
    pub fn of_device(device: &str, target: Option<Target>, processors: u32) -> Gpu {
        let target = target.unwrap_or(Target::SM_90A);
        // `GeForce RTX 4090` is an RTX4090, and a GH200 is not an H200.
        let name = device.to_ascii_lowercase();
        let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        let spelled = |own: &str| (1..=2).any(|count| words.windows(count).any(|some| some.concat() == own));
        let named = |gpu: &&Gpu| gpu.capability == target.capability && spelled(&gpu.name.to_ascii_lowercase());
        match Gpu::all().iter().find(named) {
            Some(gpu) if gpu.processors == processors => gpu.clone(),
            named => {
                let like = named.or_else(|| Gpu::for_target(target)).unwrap_or(Gpu::h200());
                Gpu { name: device.to_owned(), processors, calibrated: false, ..like.clone() }
            }
        }
    }

    /// Reads a file: lines `name = value`, comments after `#`. Without figures that `calibrate` fits, they follow from those of the
    /// data sheet and of a calibrated GPU.
    ///
    /// # Errors
    ///
    /// Fails on the first line of another form, on an unknown name, and on a missing figure, unless all that are fitted are missing.
    pub fn parse(text: &str) -> Result<Gpu, String> {
        read(text, Some(Gpu::h200()))
    }

    /// The same GPU with the figures that follow from its data sheet alone.
    pub fn uncalibrated(&self) -> Gpu {
        derived(self.clone(), Gpu::h200())
    }

    /// The text of a file of figures.
    pub fn text(&self) -> String {
        let mut gpu = self.clone();
        let Gpu { name, title, capability, processors, memory_bytes, boost_mhz, memory_gb_s, cache_mb, .. } = self;
        let mut text = format!(
            "name = {name}\ntitle = {title}\ncapability = {capability}\nprocessors = {processors}\nmemory_bytes = \
             {memory_bytes}\nboost_mhz = {boost_mhz}\nmemory_gb_s = {memory_gb_s}\ncache_mb = {cache_mb}\npeak_tflops = {}\n",
            self.peak_tflops
        );
        if !self.calibrated {
            return text;
        }
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

    /// Multiply-adds by `mma` that a multiprocessor completes per cycle: as many bytes whatever the type, but f64 at
    /// 0.76 of what the data sheet says: `gemmc pick` reached 51 of 67 TFLOP/s on an H200 at 6144.
    pub fn mma_of(&self, factor: DType) -> f64 {
        match factor.element().bits {
            64 => 0.76 * self.tensor_peak(factor) * 1e6 / 2.0 / f64::from(self.processors) / f64::from(self.boost_mhz),
            bits => self.mma_per_clock * 16.0 / f64::from(bits),
        }
    }

    /// Its peak for multiply-adds of this type without tensor cores, in TFLOP/s.
    pub fn peak(&self, acc: DType) -> f64 {
        2.0 * f64::from(self.lanes(acc)) * f64::from(self.processors) * f64::from(self.boost_mhz) / 1e6
    }

    /// The peak of its tensor cores for dense products of a type, in TFLOP/s: they multiply as many bytes in a cycle, whatever
    /// the type, except f64. That is twice as fast as without them where they have it, and no faster elsewhere.
    pub fn tensor_peak(&self, factor: DType) -> f64 {
        match factor.element().bits {
            64 if matches!(self.capability, 80 | 90) => 2.0 * self.peak(factor),
            64 => self.peak(factor),
            bits => self.peak_tflops * 16.0 / f64::from(bits),
        }
    }

    /// Multiply-adds of a multiprocessor in one cycle (CUDA C++ Programming Guide, "Arithmetic instructions").
    fn lanes(&self, acc: DType) -> u32 {
        let data_centre = matches!(self.capability, 80 | 90 | 100);
        match acc {
            DType::F64 if data_centre && self.capability > 80 => 64,
            DType::F64 if data_centre => 32,
            DType::F64 => 2,
            _ if matches!(self.capability, 75 | 80) => 64,
            DType::I32 if self.capability < 120 => 64,
            _ => 128,
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

/// A GPU's name with an article, as it is read aloud: an H200, a T4.
pub fn with_article(name: &str) -> String {
    let vowel = name.starts_with(['A', 'E', 'F', 'H', 'I', 'L', 'M', 'N', 'O', 'R', 'S', 'X']);
    format!("{} {name}", if vowel { "an" } else { "a" })
}

/// Reads a file; figures that it lacks follow from those of a calibrated GPU.
fn read(text: &str, like: Option<&Gpu>) -> Result<Gpu, String> {
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
    let number = |name: &str, text: String| match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("{name} = {text} is not a number")),
    };
    let (name, title) = (take("name")?, take("title")?);
    let mut whole = |name: &str| number(name, take(name)?);
    let mut gpu = Gpu {
        name,
        title,
        capability: whole("capability")? as u32,
        processors: whole("processors")? as u32,
        memory_bytes: whole("memory_bytes")? as u64,
        boost_mhz: whole("boost_mhz")? as u32,
        memory_gb_s: whole("memory_gb_s")? as u32,
        cache_mb: whole("cache_mb")? as u32,
        peak_tflops: whole("peak_tflops")?,
        ..Gpu::blank()
    };
    let fitted = entries.iter().any(|(name, _)| gpu.figure(name).is_some());
    match like.filter(|_| !fitted) {
        Some(like) => gpu = derived(gpu, like),
        None => {
            let mut take = |name: &str| {
                let at = entries.iter().position(|(found, _)| found == name);
                at.map(|at| entries.remove(at).1).ok_or_else(|| format!("`{name}` is missing"))
            };
            for name in Gpu::FIGURES {
                let value = number(name, take(name)?)?;
                if let Some(figure) = gpu.figure(name) {
                    *figure = value;
                }
            }
            gpu.calibrated = true;
        }
    }
    match entries.first() {
        Some((name, _)) => Err(format!("`{name}` is not a figure of a GPU")),
        None => Ok(gpu),
    }
}

/// The figures that are not known of a GPU: what its data sheet says, as far as a calibrated GPU reaches what its own one says, and
/// the cycles of that GPU.
fn derived(gpu: Gpu, like: &Gpu) -> Gpu {
    let clock = |gpu: &Gpu| f64::from(gpu.boost_mhz) / 1e3;
    let of_processor =
        |gpu: &Gpu, tflops: f64| tflops * 1e6 / 2.0 / f64::from(gpu.processors) / f64::from(gpu.boost_mhz);
    let (clocks, processors) = (clock(&gpu) / clock(like), f64::from(gpu.processors) / f64::from(like.processors));
    let (memory, cache) =
        (f64::from(gpu.memory_gb_s) / f64::from(like.memory_gb_s), f64::from(gpu.cache_mb) / f64::from(like.cache_mb));
    let warps = |acc| f64::from(gpu.lanes(acc)) / f64::from(WARP);
    let rate = of_processor(&gpu, gpu.peak_tflops);
    // `mma.sync` of a GPU with faster instructions has the rate of the GPU before.
    let newer = matches!(gpu.capability, 90 | 100);
    let reached = |dtype, tflops: f64| tflops / like.tensor_peak(dtype) * gpu.tensor_peak(dtype);
    Gpu {
        calibrated: false,
        clock_ghz: clock(&gpu),
        fma_f32: warps(DType::F32),
        fma_f64: warps(DType::F64),
        fma_i32: warps(DType::I32),
        mma_per_clock: if newer { rate.min(like.mma_per_clock) } else { rate },
        dram_bytes_per_clock: like.dram_bytes_per_clock * memory / clocks,
        tensor_clock_ghz: like.tensor_clock_ghz * clocks,
        tensor_dram_tb: like.tensor_dram_tb * memory,
        tensor_l2_tb: like.tensor_l2_tb * processors * clocks,
        tensor_l2_mb: like.tensor_l2_mb * cache,
        tensor_tflops: reached(DType::F16, like.tensor_tflops),
        tensor_tf32_tflops: reached(DType::Tf32, like.tensor_tf32_tflops),
        tensor_fp8_tflops: reached(DType::E4m3, like.tensor_fp8_tflops),
        tensor_int8_tflops: reached(DType::I8, like.tensor_int8_tflops),
        name: gpu.name,
        title: gpu.title,
        capability: gpu.capability,
        processors: gpu.processors,
        memory_bytes: gpu.memory_bytes,
        boost_mhz: gpu.boost_mhz,
        memory_gb_s: gpu.memory_gb_s,
        cache_mb: gpu.cache_mb,
        peak_tflops: gpu.peak_tflops,
        ..like.clone()
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::{DType, Target};

    use super::{FILES, Gpu};

    #[test]
    fn a_device_is_known_by_its_name_and_generation() {
        let known = |device: &str, target: Target, processors: u32| Gpu::of_device(device, Some(target), processors);
        let h200 = known("NVIDIA H200", Target::SM_90A, 132);
        assert!(h200.calibrated && h200.name == "H200");
        // Another board of the same name, and another name that contains one.
        let pcie = known("NVIDIA H100 PCIe", Target::SM_90A, 114);
        assert!(!pcie.calibrated && pcie.processors == 114 && pcie.memory_gb_s == 3350);
        assert!(!known("NVIDIA GH200 480GB", Target::SM_90A, 132).calibrated);
        assert_eq!(known("NVIDIA GeForce RTX 4090", Target::SM_89, 128).name, "RTX4090");
        assert_eq!(known("NVIDIA A100-SXM4-80GB", Target::SM_80, 108).name, "A100");
        let a1000 = known("NVIDIA RTX A1000", Target::SM_80, 16);
        assert!(!a1000.calibrated && a1000.processors == 16);
    }

    #[test]
    fn files_have_every_figure_once() {
        let text = FILES[0];
        assert!(Gpu::h200().calibrated && Gpu::h200().name == "H200");
        assert!(Gpu::parse(&text.replace("cached_fma = 2100", "")).unwrap_err().contains("`cached_fma` is missing"));
        assert!(Gpu::parse(&format!("{text}speed = 3")).unwrap_err().contains("`speed` is not a figure"));
        for wrong in ["x", "inf", "-1"] {
            let wrong = text.replace("cached_fma = 2100", &format!("cached_fma = {wrong}"));
            assert!(Gpu::parse(&wrong).unwrap_err().contains("not a number"));
        }
        for gpu in Gpu::all() {
            assert_eq!(Gpu::parse(&gpu.text()).as_ref(), Ok(gpu));
            assert_eq!(Gpu::find(&gpu.name.to_lowercase()), Some(gpu));
        }
        assert_eq!(Gpu::find("RTX 4090"), Gpu::find("rtx4090"));
    }

    /// What follows from a data sheet is near what was fitted on the GPU that it is derived from, and below the peak.
    #[test]
    fn figures_follow_from_a_data_sheet() {
        let derived = Gpu::h200().uncalibrated();
        assert!(!derived.calibrated);
        for name in Gpu::FIGURES {
            let [mut fitted, mut derived] = [Gpu::h200().clone(), derived.clone()];
            let [fitted, derived] = [fitted.figure(name), derived.figure(name)].map(|figure| *figure.unwrap());
            assert!((0.9..=1.1).contains(&(derived / fitted)), "{name}: {derived}, {fitted}");
        }
        for gpu in Gpu::all() {
            for factor in [DType::F16, DType::Tf32, DType::E4m3, DType::I8] {
                assert!(gpu.tflops_of(factor) < gpu.tensor_peak(factor), "{} {factor}", gpu.name);
            }
        }
    }

    #[test]
    fn tensor_cores_are_as_fast_as_their_rate() {
        // Multiply-adds of a multiprocessor in one cycle; data sheets state some for a lower clock.
        for (name, rate) in [
            ("h200", 2048.0),
            ("a100", 1024.0),
            ("l40s", 512.0),
            ("rtx4090", 256.0),
            ("rtx3090", 256.0),
            ("t4", 512.0),
            ("b200", 4096.0),
        ] {
            let gpu = Gpu::find(name).unwrap();
            let highest = 2.0 * rate * f64::from(gpu.processors) * f64::from(gpu.boost_mhz) / 1e6;
            assert!((0.9..=1.01).contains(&(gpu.peak_tflops / highest)), "{name}: {highest}");
        }
    }

    #[test]
    fn peaks_of_tensor_cores_are_those_of_the_data_sheets() {
        for (name, factor, tflops) in [
            ("h200", DType::F64, 67.0),
            ("a100", DType::F64, 19.5),
            ("h200", DType::Tf32, 494.7),
            ("a100", DType::Tf32, 156.0),
            ("h200", DType::E4m3, 1979.0),
            ("l40s", DType::E4m3, 733.0),
            ("a100", DType::I8, 624.0),
        ] {
            let peak = Gpu::find(name).unwrap().tensor_peak(factor);
            assert!((peak - tflops).abs() < 0.02 * tflops, "{name} {factor}: {peak}");
        }
    }

    #[test]
    fn peaks_are_those_of_the_data_sheets() {
        for (name, acc, tflops) in [
            ("h200", DType::F32, 67.0),
            ("h200", DType::F64, 34.0),
            ("a100", DType::F32, 19.5),
            ("a100", DType::F64, 9.7),
            ("l40s", DType::F32, 91.6),
            ("rtx3090", DType::F32, 35.6),
            ("rtx4090", DType::F32, 82.6),
            ("t4", DType::F32, 8.1),
            ("rtx5090", DType::F32, 104.8),
        ] {
            let peak = Gpu::find(name).unwrap().peak(acc);
            assert!((peak - tflops).abs() < 0.02 * tflops, "{name} {acc}: {peak}");
        }
    }
}
