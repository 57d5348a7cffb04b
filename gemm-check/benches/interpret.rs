//! How fast the interpreter runs the compiler's own text: the double-buffered case at 512 x 512 x 512.
//!
//! `cargo bench -p ptx-gemm-check`. Divan times whole calls, copies to and from the device included, and counts
//! multiply-adds as items. At the end it prints the rate of the kernel alone, next to the minimum required on two
//! cores; the run fails below it.

use std::process::ExitCode;
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use ptx_gemm_check::case;
use ptx_gemm_runtime::interp::{Checks, Options};
use ptx_gemm_runtime::{CompiledGemm, Device, InterpreterOptions, Matrix};

const EXTENT: usize = 512;
const FMA: u64 = (EXTENT * EXTENT * EXTENT) as u64;

/// The rate that the interpreter must reach, in multiply-adds per second.
const REQUIRED: [(Checks, f64); 2] = [(Checks::Off, 1e9), (Checks::Full, 5e8)];

fn main() -> ExitCode {
    divan::main();
    let mut status = ExitCode::SUCCESS;
    for (checks, required) in REQUIRED {
        let product = Product::new("double_buffered", checks);
        let mut times: Vec<Duration> = (0..11).map(|_| product.run()).collect();
        times.sort_unstable();
        let rate = |time: Duration| FMA as f64 / time.as_secs_f64();
        let (median, best) = (rate(times[times.len() / 2]), rate(times[0]));
        println!(
            "checks {checks:?}: {:.3} G FMA/s (best {:.3}), required {:.1}",
            median / 1e9,
            best / 1e9,
            required / 1e9
        );
        if median < required {
            status = ExitCode::FAILURE;
        }
    }
    status
}

/// A case with its data.
struct Product {
    gemm: CompiledGemm,
    a: Matrix<f32>,
    b: Matrix<f32>,
}

impl Product {
    fn new(name: &str, checks: Checks) -> Product {
        let options = InterpreterOptions { options: Options { checks, ..Options::default() }, ..Default::default() };
        let schedule = case(name).expect("the case exists").schedule().expect("the case is a schedule");
        let gemm = CompiledGemm::new(&schedule, &Device::interpreter_with(options)).expect("the case compiles");
        Product { gemm, a: Matrix::random(EXTENT, EXTENT, 1), b: Matrix::random(EXTENT, EXTENT, 2) }
    }

    /// Multiplies, and returns the time of the kernel alone.
    fn run(&self) -> Duration {
        let mut d = Matrix::<f32>::zeros(EXTENT, EXTENT);
        let run = self.gemm.multiply_into(&self.a, &self.b, &mut d).expect("the kernel is right");
        divan::black_box(d);
        run.time
    }
}

#[divan::bench(args = [Checks::Off, Checks::Full])]
fn double_buffered(bencher: Bencher, checks: Checks) {
    let product = Product::new("double_buffered", checks);
    bencher.counter(ItemsCount::new(FMA)).bench(|| product.run());
}
