//! The GPUs that a wave and a roofline may be drawn for.

use ptx_gemm_dsl::{DType, Target};

/// A GPU by its data sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in full.
    pub title: &'static str,
    /// Compute capability, times ten.
    pub capability: u32,
    /// Multiprocessors.
    pub processors: u32,
    /// The highest clock, in MHz.
    pub boost_mhz: u32,
    /// Bandwidth of its memory, in GB/s.
    pub memory_gb_s: u32,
    /// The peak of its tensor cores for dense products of 16-bit types with f32 accumulators, in TFLOP/s, from the data
    /// sheet, which may assume a lower clock than the highest one.
    pub tensor_tflops: f64,
}

/// The data sheets' figures ("NVIDIA T4", "A100 80GB SXM", "L40S", "GeForce RTX 4090", "H100 SXM", "H200 SXM", "B200", "GeForce RTX 5090").
pub const GPUS: [Gpu; 8] = [
    gpu("h200", "NVIDIA H200", 90, 132, 1980, 4800, 989.4),
    gpu("h100", "NVIDIA H100 SXM", 90, 132, 1980, 3350, 989.4),
    gpu("a100", "NVIDIA A100 80GB SXM", 80, 108, 1410, 2039, 312.0),
    gpu("l40s", "NVIDIA L40S", 89, 142, 2520, 864, 362.1),
    gpu("rtx4090", "NVIDIA GeForce RTX 4090", 89, 128, 2520, 1008, 165.2),
    gpu("t4", "NVIDIA T4", 75, 40, 1590, 320, 65.1),
    gpu("b200", "NVIDIA B200", 100, 148, 1965, 8000, 2250.0),
    gpu("rtx5090", "NVIDIA GeForce RTX 5090", 120, 170, 2407, 1792, 209.5),
];

const fn gpu(
    name: &'static str,
    title: &'static str,
    capability: u32,
    processors: u32,
    boost_mhz: u32,
    memory_gb_s: u32,
    tensor_tflops: f64,
) -> Gpu {
    Gpu { name, title, capability, processors, boost_mhz, memory_gb_s, tensor_tflops }
}

impl Gpu {
    /// The GPU of that name; case is ignored.
    pub fn named(name: &str) -> Option<Gpu> {
        GPUS.into_iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name))
    }

    /// The first of [`GPUS`] that runs code for a target.
    pub fn for_target(target: Target) -> Option<Gpu> {
        GPUS.into_iter().find(|gpu| target.runs_on(gpu.capability))
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
            bits => self.tensor_tflops * 16.0 / f64::from(bits),
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_cores_are_as_fast_as_their_rate() {
        // Multiply-adds of a multiprocessor in one cycle; data sheets state some for a lower clock.
        for (name, rate) in
            [("h200", 2048.0), ("a100", 1024.0), ("l40s", 512.0), ("rtx4090", 256.0), ("t4", 512.0), ("b200", 4096.0)]
        {
            let gpu = Gpu::named(name).unwrap();
            let highest = 2.0 * rate * f64::from(gpu.processors) * f64::from(gpu.boost_mhz) / 1e6;
            assert!((0.9..=1.01).contains(&(gpu.tensor_tflops / highest)), "{name}: {highest}");
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
            let peak = Gpu::named(name).unwrap().tensor_peak(factor);
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
            ("rtx4090", DType::F32, 82.6),
            ("t4", DType::F32, 8.1),
            ("rtx5090", DType::F32, 104.8),
        ] {
            let peak = Gpu::named(name).unwrap().peak(acc);
            assert!((peak - tflops).abs() < 0.02 * tflops, "{name} {acc}: {peak}");
        }
    }
}
