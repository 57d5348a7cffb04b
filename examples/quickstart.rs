//! From a schedule to a checked result: the schedule, its PTX, the device it ran on, whether the result is right, and
//! its cost.
//!
//! ```text
//! cargo run --release --example quickstart
//! ```

use std::error::Error;

use ptx_gemm::{Device, Matrix, Target, gemm};
use ptx_gemm_check::{Request, check};

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

    // Your own data: any size, checked here against a product in f64.
    let a = Matrix::<f32>::random(256, 256, 1);
    let b = Matrix::<f32>::random(256, 256, 2);
    let d: Matrix<f32> = gemm.multiply(&a, &b)?;
    println!("D[0, 0] = {:?}, and a plain loop in f64 says {:.6}\n", d.as_slice()[0], first_element(&a, &b));

    // The same with every element compared. A correct kernel stays within the bound of the rounding errors of K
    // multiply-adds in f32, in any order.
    let mut right = true;
    for (m, n, k) in [(256, 256, 256), (513, 510, 333)] {
        let outcome = check(&gemm, &Request::random(m, n, k))?;
        right &= outcome.is_right();
        let run = &outcome.run;
        let verdict = if outcome.is_right() { "right" } else { "WRONG" };
        println!("{m} x {n} x {k}: {verdict}; largest |D - reference| / bound = {:.4}", outcome.max_error);
        println!(
            "    entry {}, {} blocks of {} threads",
            run.entry.as_deref().unwrap_or("-"),
            run.blocks,
            gemm.interface().threads()
        );
        println!("    {} bytes of shared memory per block", gemm.interface().shared_bytes());
        if let Some(counts) = &run.counts {
            println!(
                "    {} instructions of warps, {} fused multiply-adds of threads",
                counts.instructions, counts.fma
            );
        }
        println!("    {:.2} ms", run.time.as_secs_f64() * 1e3);
        for note in &run.notes {
            println!("    note: {note}");
        }
    }
    if right { Ok(()) } else { Err("a result is outside its bound".into()) }
}

/// The lines around the first vector load from global memory.
fn excerpt(ptx: &str) -> String {
    let lines: Vec<&str> = ptx.lines().collect();
    let load = lines.iter().position(|line| line.contains("ld.global.v4.f32")).unwrap_or(0);
    lines[load.saturating_sub(2)..].iter().take(8).map(|line| format!("{}\n", line.trim())).collect()
}

fn first_element(a: &Matrix<f32>, b: &Matrix<f32>) -> f64 {
    let term = |k| Some(f64::from(a.get(0, k)?) * f64::from(b.get(k, 0)?));
    (0..a.cols()).filter_map(term).sum()
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
