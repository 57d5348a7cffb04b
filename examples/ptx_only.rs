//! Uses only the PTX and its ABI: this library writes the text, and the program launches it by hand.
//!
//! ```text
//! cargo run --release --example ptx_only
//! ```
//!
//! On a GPU the text goes to the driver unchanged, through cudarc alone. Without one it runs in the interpreter, also
//! by hand: the same text, with the same arguments in the same order.
#![allow(unsafe_code)] // A launch by hand: the arguments are those of the ABI.

use std::error::Error;

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use ptx_gemm::{Abi, AbiEntry, Matrix, Target, cuda, gemm};
use ptx_gemm_interp::{Arg, Launch, Memory, Options, Program, launch};

const M: u32 = 200;
const N: u32 = 120;
const K: u32 = 90;

/// The arguments of both launches below, in this order.
const ARGUMENTS: [&str; 9] = ["a", "b", "d", "m", "n", "k", "lda", "ldb", "ldd"];

fn main() -> Result<(), Box<dyn Error>> {
    let kernel = gemm! {
        target(sm_75);
        tile(64, 64, 8);
        thread(4, 4);
        double_buffer;
    };
    let (ptx, abi) = (kernel.ptx(Target::SM_75)?, kernel.abi(Target::SM_75)?);
    println!("{} lines of PTX, to be launched like this:\n\n{abi}", ptx.lines().count());

    let asked: Vec<&str> = entry(&abi)?.launches[0].params.iter().map(|param| param.name.as_str()).collect();
    if asked != ARGUMENTS {
        return Err(format!("the kernel asks for {asked:?}, and this program has {ARGUMENTS:?}").into());
    }
    let a = Matrix::<f32>::random(M as usize, K as usize, 1);
    let b = Matrix::<f32>::random(K as usize, N as usize, 2);
    let d = match cuda::status() {
        Ok(_) => on_the_gpu(&ptx, &abi, &a, &b)?,
        Err(why) => {
            println!("In the interpreter: {why}.");
            in_the_interpreter(&ptx, &abi, &a, &b)?
        }
    };
    let error = largest_error(&a, &b, &d);
    println!("largest distance from the sums in f64: {error:.2e}");
    if error < 1e-4 { Ok(()) } else { Err("the result is wrong".into()) }
}

/// Blocks of the grid: ceil(m / tile m) * ceil(n / tile n), as the ABI says.
fn blocks(entry: &AbiEntry) -> u32 {
    M.div_ceil(entry.tile.0) * N.div_ceil(entry.tile.1)
}

/// The last entry has no vector accesses, and therefore no requirements on pointers and leading dimensions. It has one
/// kernel.
fn entry(abi: &Abi) -> Result<&AbiEntry, &'static str> {
    abi.entries.last().ok_or("the module has no entry")
}

/// Through cudarc alone.
fn on_the_gpu(ptx: &str, abi: &Abi, a: &Matrix<f32>, b: &Matrix<f32>) -> Result<Vec<f32>, Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    println!("On {}.", context.name()?);
    let stream = context.default_stream();
    let (entry, launch) = (entry(abi)?, &entry(abi)?.launches[0]);
    let function = context.load_module(Ptx::from_src(ptx))?.load_function(&launch.kernel)?;
    let (a, b) = (stream.clone_htod(a.as_slice())?, stream.clone_htod(b.as_slice())?);
    let mut d = stream.alloc_zeros::<f32>((M * N) as usize)?;
    let config = LaunchConfig {
        grid_dim: (blocks(entry), 1, 1),
        block_dim: (launch.threads, 1, 1),
        shared_mem_bytes: launch.dynamic_shared_bytes,
    };
    let (lda, ldb, ldd) = (u64::from(K), u64::from(N), u64::from(N));
    let mut call = stream.launch_builder(&function);
    // In the order of `ARGUMENTS`.
    call.arg(&a).arg(&b).arg(&mut d).arg(&M).arg(&N).arg(&K).arg(&lda).arg(&ldb).arg(&ldd);
    // SAFETY: the slices hold what extents and leading dimensions say, and the arguments are those of the ABI, in order.
    unsafe { call.launch(config) }?;
    Ok(stream.clone_dtoh(&d)?)
}

/// Through the interpreter's own interface, which knows nothing about matrix products.
fn in_the_interpreter(ptx: &str, abi: &Abi, a: &Matrix<f32>, b: &Matrix<f32>) -> Result<Vec<f32>, Box<dyn Error>> {
    let program = Program::from_text(ptx)?;
    let memory = Memory::new();
    let bytes = |matrix: &Matrix<f32>| matrix.as_slice().iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let a = memory.alloc_from("A", &bytes(a), 256)?;
    let b = memory.alloc_from("B", &bytes(b), 256)?;
    let d = memory.alloc("D", u64::from(M * N) * 4, 256)?;
    let pointers = [a, b, d].map(|matrix| Arg::U64(matrix.address));
    let extents = [M, N, K].map(Arg::U32);
    let leading = [K, N, N].map(|ld| Arg::U64(ld.into()));
    let args: Vec<Arg> = pointers.into_iter().chain(extents).chain(leading).collect();
    let (entry, by_hand) = (entry(abi)?, &entry(abi)?.launches[0]);
    let what = Launch {
        entry: &by_hand.kernel,
        grid: [blocks(entry), 1, 1],
        block: [by_hand.threads, 1, 1],
        dynamic_shared_bytes: by_hand.dynamic_shared_bytes,
        args: &args,
        ..Launch::default()
    };
    let report = launch(&program, &memory, &what, &Options::default())?;
    println!("{} instructions of warps, and nothing to complain of.", report.instructions);
    let mut bytes = vec![0; (M * N * 4) as usize];
    memory.read(d.address, &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

fn largest_error(a: &Matrix<f32>, b: &Matrix<f32>, d: &[f32]) -> f64 {
    let at = |matrix: &Matrix<f32>, row, col| f64::from(matrix.get(row, col).unwrap_or(f32::NAN));
    let distance = |(index, got): (usize, &f32)| {
        let (row, col) = (index / N as usize, index % N as usize);
        let sum: f64 = (0..K as usize).map(|k| at(a, row, k) * at(b, k, col)).sum();
        let distance = (f64::from(*got) - sum).abs();
        // A NaN counts as an infinite distance.
        if distance.is_nan() { f64::INFINITY } else { distance }
    };
    d.iter().enumerate().map(distance).fold(0.0, f64::max)
}
