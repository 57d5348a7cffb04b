//! One product on many GPUs, of one host or of many: every process that a launcher starts has one GPU and a part of A, B
//! and D.
//!
//! ```text
//! cargo build --release --features nccl --example distributed
//! torchrun --no-python --nproc-per-node 4 target/release/examples/distributed 32768
//! MASTER_ADDR=$(hostname) MASTER_PORT=29500 srun --ntasks 8 target/release/examples/distributed 32768
//! mpirun -n 4 target/release/examples/distributed 32768 mine.gemm /shared/empty     # a schedule; where processes meet
//! ```
//!
//! Without a GPU it runs on interpreters, which is slow: 64 is a good size there.

use std::error::Error;
use std::process::ExitCode;

use ptx_gemm::distributed::{Distributed, Launch, Rendezvous, Tiles, World};
use ptx_gemm::large::{Arguments, Region};
use ptx_gemm::{Device, Gemm, Matrix, gemm};

/// Elements are a function of their position: small integers, so that every sum is exact.
fn a(row: usize, k: usize) -> f32 {
    ((row * 7 + k * 3) % 11) as f32 - 5.0
}

fn b(k: usize, col: usize) -> f32 {
    ((k * 5 + col * 2) % 13) as f32 - 6.0
}

/// Fills the tiles of A or B that belong to this process.
fn tiles<'t>(element: fn(usize, usize) -> f32) -> Tiles<'t> {
    Tiles::function(move |region: Region, tile: &mut Matrix<f32>| {
        for (row, col) in (0..region.rows).flat_map(|row| (0..region.cols).map(move |col| (row, col))) {
            tile[(row, col)] = element(region.row + row, region.col + col);
        }
    })
}

fn main() -> ExitCode {
    match started() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_sources(&*error));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes. A text that an error repeats from its source appears once.
fn with_sources(error: &dyn Error) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(source) = next {
        let words = source.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        next = source.source();
    }
    text
}

fn started() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let size = arguments.first().map_or("64", String::as_str);
    let size = size.parse().map_err(|error| format!("the size {size:?} is not a whole number: {error}"))?;
    let kernel = match arguments.get(1) {
        Some(file) => std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?.parse()?,
        None => gemm! { tile(128, 128, 8); thread(8, 8); vector(4); double_buffer; },
    };
    let place = arguments.get(2).map_or(Rendezvous::Launcher, |folder| Rendezvous::Folder(folder.into()));
    multiplied(size, &kernel, place)
}

fn multiplied(size: usize, kernel: &Gemm, place: Rendezvous) -> Result<(), Box<dyn Error>> {
    let world = World::meet(Launch::from_env()?, place)?;
    let device = world.gpu().unwrap_or_else(|_| Device::interpreter());
    let mut product = Distributed::new(kernel.schedule(), &world, &device)?;
    if world.rank() == 0 {
        println!("{}", product.plan(size, size, size)?);
    }
    let scalars = &kernel.schedule().problem()?.epilogue.scalars;
    let set = |arguments: Arguments<'static>, name: &String| arguments.set(name, if name == "beta" { 0 } else { 1 });
    let arguments = scalars.iter().fold(Arguments::new(), set);
    // NCCL connects to its peers at the first broadcasts, so the first product warms it up.
    let first = product.run([size; 3], &mut tiles(a), &mut tiles(b), &arguments)?.time;
    let d = product.run([size; 3], &mut tiles(a), &mut tiles(b), &arguments)?;

    // Each process checks some elements of its part.
    let (part, Region { row, col, rows, cols }) = (d.download::<f32>()?, d.region);
    for at in (0..rows.min(cols)).step_by(1 + rows.min(cols) / 50) {
        let (i, j) = (row + at, col + at);
        let sum: f64 = (0..size).map(|k| f64::from(a(i, k)) * f64::from(b(k, j))).sum();
        if f64::from(part[(at, at)]) != sum {
            return Err(format!("D[{i}, {j}] is {}, and should be {sum}", part[(at, at)]).into());
        }
    }
    let seconds = d.time.as_secs_f64();
    let tflops = 2.0 * (size as f64).powi(3) / seconds / 1e12;
    let (rank, first) = (world.rank(), first.as_secs_f64());
    println!(
        "process {rank} has D{}: {seconds:.3} s, the first time {first:.3} s, {tflops:.2} TFLOP/s of all; {device}",
        d.region
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sentences_with_their_sources() {
        #[derive(Debug)]
        struct Outer(std::num::ParseIntError, &'static str);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.1)
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let outer = |text| with_sources(&Outer("x".parse::<u8>().unwrap_err(), text));
        assert_eq!(outer("no number"), "no number: invalid digit found in string");
        // This happens with thiserror's `transparent`.
        assert_eq!(outer("why: invalid digit found in string"), "why: invalid digit found in string");
    }

    #[test]
    fn the_example_runs_alone() {
        // Under a launcher it would wait for its peers.
        if Launch::from_env() == Ok(Launch::ALONE) {
            let kernel = "tile(32, 32, 8); thread(4, 4);".parse().unwrap();
            multiplied(50, &kernel, Rendezvous::Launcher).unwrap();
        }
    }
}
