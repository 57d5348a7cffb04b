//! From a schedule to a checked result: the schedule, its PTX, the device it ran on, whether the result is right, and
//! its cost.
//!
//! ```text
//! cargo run --release --example quickstart
//! ```

use std::error::Error;

use ptx_gemm::{CompiledGemm, Device, Matrix, Target, gemm};

fn main() -> Result<(), Box<dyn Error>> {
    let kernel = gemm! {
        tile(128, 128, 8);          // one thread block computes 128 x 128 of D, 8 of K at a time
        thread(8, 8);               // one thread computes 8 x 8
        vector(4);                  // up to 16-byte accesses: ld.global.v4.f32
        double_buffer;              // the next K-tile loads while this one is multiplied
    };
    println!("The schedule:\n\n{}", indented(&kernel.to_string()));

    let ptx = kernel.ptx(Target::SM_80)?;
    println!("becomes {} lines of PTX, of which these are the first to touch memory:\n", ptx.lines().count());
    println!("{}", indented(&excerpt(&ptx)));
    println!("It is launched like this:\n\n{}", indented(&kernel.abi(Target::SM_80)?.to_string()));

    let device = Device::best()?;
    println!("Device: {device}\n");
    let gemm = kernel.on(&device)?;

    // Any size works, also one that is not a multiple of the tile.
    for (m, n, k) in [(256, 256, 256), (513, 510, 333)] {
        multiply(&gemm, m, n, k)?;
    }
    Ok(())
}

/// Multiplies random matrices, compares every element with a loop in f64, and says what the product cost.
fn multiply(gemm: &CompiledGemm, m: usize, n: usize, k: usize) -> Result<(), Box<dyn Error>> {
    let a = Matrix::<f32>::random(m, k, 1);
    let b = Matrix::<f32>::random(k, n, 2);
    let mut d = Matrix::<f32>::zeros(m, n);
    let run = gemm.multiply_into(&a, &b, &mut d)?;

    let error = largest_error(&a, &b, &d);
    println!("{m} x {n} x {k}: largest |D - reference| / bound = {error:.4}");
    println!("    {} blocks of {} threads", run.blocks, gemm.interface().threads());
    println!("    {} bytes of shared memory per block", gemm.interface().shared_bytes());
    if let Some(counts) = &run.counts {
        println!("    {} instructions of warps, {} fused multiply-adds of threads", counts.instructions, counts.fma);
    }
    println!("    {:.2} ms", run.time.as_secs_f64() * 1e3);
    run.notes.iter().for_each(|note| println!("    note: {note}"));
    if error <= 1.0 { Ok(()) } else { Err("a result is outside its bound".into()) }
}

/// The largest error of an element as a share of its bound: that of k multiply-adds in f32 in any order,
/// k u / (1 - k u) times the product of the absolute values (Higham, "Accuracy and Stability of Numerical Algorithms",
/// section 3.1). NaN is the largest.
fn largest_error(a: &Matrix<f32>, b: &Matrix<f32>, d: &Matrix<f32>) -> f64 {
    let rounding = a.cols() as f64 * f64::from(f32::EPSILON) / 2.0;
    let gamma = rounding / (1.0 - rounding);
    let mut largest = 0.0;
    for row in 0..d.rows() {
        for col in 0..d.cols() {
            let terms = || (0..a.cols()).map(|k| f64::from(a[(row, k)]) * f64::from(b[(k, col)]));
            let difference = (f64::from(d[(row, col)]) - terms().sum::<f64>()).abs();
            let share = difference / (gamma * terms().map(f64::abs).sum::<f64>());
            largest = if share <= largest { largest } else { share };
        }
    }
    largest
}

/// The lines around the first vector load from global memory.
fn excerpt(ptx: &str) -> String {
    let lines: Vec<&str> = ptx.lines().collect();
    let load = lines.iter().position(|line| line.contains("ld.global.v4.f32")).unwrap_or(0);
    lines[load.saturating_sub(2)..].iter().take(8).map(|line| format!("{}\n", line.trim())).collect()
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
