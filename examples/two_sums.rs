//! A program below the level of schedules: tile IR in a file, with its buffers, rings, copies and waits written one by
//! one.
//!
//! ```text
//! cargo run --release --example two_sums     # what the program does, and whether it is right
//! cargo test --example two_sums              # the same on every size at which kernels go wrong
//! ```
//!
//! `tile/two_sums.tile` sums each K-tile in halves, into two sets of accumulators, and copies A two K-tiles ahead and B
//! one. No schedule can express that. `gemmc ir --level tile` prints a schedule's program in the same form, as a
//! starting point.

use std::error::Error;

use ptx_gemm::{Device, Matrix, TileProgram};

const PROGRAM: &str = include_str!("tile/two_sums.tile");

fn main() -> Result<(), Box<dyn Error>> {
    let program = TileProgram::parse(PROGRAM)?;
    let entry = &program.interface().entries[0];
    println!("{} for {}: a tile is {} x {}", entry.name, program.target(), entry.tile.m, entry.tile.n);
    let asynchronous = program.ptx().lines().find(|line| line.contains("cp.async.ca")).ok_or("nothing is copied")?;
    println!("a line of its PTX:{}", asynchronous.split("//").next().unwrap_or(asynchronous).trim_end());

    let device = Device::best()?;
    let a = Matrix::<f32>::random(100, 50, 1);
    let b = Matrix::<f32>::random(50, 70, 2);
    let d: Matrix<f32> = program.on(&device)?.set("alpha", 0.5).multiply(&a, &b)?;
    let error = largest_error(0.5, &a, &b, &d);
    println!("{} x {} on {device}: largest distance from the sums in f64: {error:.2e}", d.rows(), d.cols());
    if error < 1e-5 { Ok(()) } else { Err("the result is wrong".into()) }
}

/// The largest `|D - alpha A B|`, the product summed in f64.
fn largest_error(alpha: f64, a: &Matrix<f32>, b: &Matrix<f32>, d: &Matrix<f32>) -> f64 {
    let at = |matrix: &Matrix<f32>, row, col| matrix.get(row, col).map_or(f64::NAN, f64::from);
    let error = |row, col| {
        let sum: f64 = (0..a.cols()).map(|k| at(a, row, k) * at(b, k, col)).sum();
        (at(d, row, col) - alpha * sum).abs()
    };
    let errors = (0..d.rows()).flat_map(|row| (0..d.cols()).map(move |col| error(row, col)));
    errors.fold(0.0, |largest, error| if error <= largest { largest } else { error })
}

#[cfg(test)]
mod tests {
    use ptx_gemm_check::{Request, check, edge_sizes};

    use super::*;

    #[test]
    fn the_example_runs() {
        main().unwrap();
    }

    #[test]
    fn results_are_right_on_every_edge() {
        let gemm = TileProgram::parse(PROGRAM).unwrap().on(&Device::interpreter()).unwrap();
        for size in edge_sizes(gemm.kernel()) {
            let outcome = check(&gemm, &Request::random(size.m, size.n, size.k).set("alpha", -2.0)).unwrap();
            assert!(outcome.is_right(), "{size:?}: {outcome}");
        }
    }
}
