//! The roofline of a GPU in f32: the maximum speed of a product, given its number of operations per byte of memory
//! traffic.

use ptx_gemm::cuda::Properties;
use serde_json::{Value, json};

use crate::report;

/// The two roofs of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// The roof of its multiply-adds in f32, in TFLOP/s.
    pub peak: f64,
    /// The roof of its memory, in TB/s.
    pub bandwidth: f64,
}

/// Which roof binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roof {
    /// The multiply-adds.
    Compute,
    /// The memory.
    Memory,
}

impl Roofline {
    /// The roofs of a GPU at its highest clocks.
    pub fn of(properties: Properties) -> Roofline {
        // Memory transfers data on both edges of its clock.
        let bytes = 2.0 * f64::from(properties.memory_khz) * 1e3 * f64::from(properties.memory_bits) / 8.0;
        Roofline { peak: report::peak(properties), bandwidth: bytes / 1e12 }
    }

    /// The intensity at which the roofs meet, in FLOP/B.
    pub fn ridge(&self) -> f64 {
        self.peak / self.bandwidth
    }

    /// The roof over a product of that intensity, in TFLOP/s.
    pub fn at(&self, intensity: f64) -> (f64, Roof) {
        let memory = intensity * self.bandwidth;
        if memory < self.peak { (memory, Roof::Memory) } else { (self.peak, Roof::Compute) }
    }

    /// A line about a product: its intensity in FLOP/B, where the bytes come from, and its speed in TFLOP/s.
    pub fn line(&self, intensity: f64, bytes: &str, tflops: f64) -> String {
        let (limit, roof) = self.at(intensity);
        let share = 100.0 * tflops / limit;
        let roof = match roof {
            Roof::Compute => format!("the peak of f32, {limit:.1} TFLOP/s"),
            Roof::Memory => format!("memory, {limit:.1} TFLOP/s at {:.2} TB/s", self.bandwidth),
        };
        format!("{intensity:.2} FLOP/B {bytes}: bound by {roof}, of which it has {share:.0} %")
    }

    /// The same for tools.
    pub fn json(&self, intensity: f64, tflops: f64) -> Value {
        let (limit, roof) = self.at(intensity);
        json!({
            "intensity": intensity,
            "roof": if roof == Roof::Compute { "compute" } else { "memory" },
            "roof_tflops": limit,
            "share": tflops / limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm::cuda::Properties;

    use super::{Roof, Roofline};

    #[test]
    fn roofs_of_an_h200() {
        let properties = Properties {
            processors: 132,
            clock_khz: 1_980_000,
            memory_khz: 3_201_000,
            memory_bits: 6144,
            ..Properties::default()
        };
        let roofline = Roofline::of(properties);
        assert!((roofline.peak - 66.9).abs() < 0.1 && (roofline.bandwidth - 4.92).abs() < 0.01, "{roofline:?}");
        assert_eq!(roofline.at(32.0).1, Roof::Compute);
        let (limit, roof) = roofline.at(8.0);
        assert!(roof == Roof::Memory && (limit - 39.3).abs() < 0.1, "{limit}");
        assert!(roofline.line(8.0, "by the formula", 19.67).contains("of which it has 50 %"));
    }
}
