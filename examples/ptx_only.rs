//! Uses only the PTX and its ABI: this library writes the text, and the program launches it by hand.
//!
//! ```text
//! cargo run --release --example ptx_only
//! ```
//!
//! On a GPU the text goes to the driver unchanged, through cudarc alone. Without one it runs in the interpreter, also
//! by hand: the same text, with the same arguments in the same order. The kernel copies A and B by TMA, which finds them
//! through tensor maps; these are encoded by hand too.
#![allow(unsafe_code)] // A launch by hand: the arguments are those of the ABI.

use std::error::Error;

use std::mem::MaybeUninit;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;
use ptx_gemm::{Abi, AbiEntry, Matrix, Target, cuda, gemm};
use ptx_gemm_interp::{Arg, Launch, Memory, Options, Program, TensorElement, TensorMap, TensorMapArgs, launch};

const M: u32 = 200;
const N: u32 = 120;
const K: u32 = 90;

/// Rows and columns of a tile of D, and the k of a K-tile: a box of A is 64 m wide and 8 k high, one of B 64 n and 8 k.
const TILE: (u32, u32, u32) = (64, 64, 8);

/// The arguments of both launches below, in this order.
const ARGUMENTS: [&str; 7] = ["map_a", "map_b", "d", "m", "n", "k", "ldd"];

fn main() -> Result<(), Box<dyn Error>> {
    let kernel = gemm! {
        target(sm_90);
        layout(a = col);
        tile(64, 64, 8);
        thread(4, 4);
        shared(a = km, b = kn);
        load(tma);
        stages(3);
    };
    let (ptx, abi) = (kernel.ptx(Target::SM_90)?, kernel.abi(Target::SM_90)?);
    println!("{} lines of PTX, to be launched like this:\n\n{abi}", ptx.lines().count());

    let entry = entry(&abi)?;
    let asked: Vec<&str> = entry.launches[0].params.iter().map(|param| param.name.as_str()).collect();
    if asked != ARGUMENTS || entry.tile != TILE {
        return Err(format!("the kernel asks for {asked:?}, and this program has {ARGUMENTS:?}").into());
    }
    // A is column major: K columns of M elements.
    let a = Matrix::<f32>::random(K as usize, M as usize, 1);
    let b = Matrix::<f32>::random(K as usize, N as usize, 2);
    let d = match on_the_gpu(&ptx, entry, &a, &b)? {
        Ok(d) => d,
        Err(why) => {
            println!("In the interpreter: {why}.");
            in_the_interpreter(&ptx, entry, &a, &b)?
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

/// The first entry copies by TMA; the one after it takes operands that TMA cannot address. It has one kernel.
fn entry(abi: &Abi) -> Result<&AbiEntry, &'static str> {
    abi.entries.first().ok_or("the module has no entry")
}

/// A tensor map as a kernel argument, at a multiple of 64 bytes.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Map(sys::CUtensorMap);

// SAFETY: it consists of 128 bytes, which the kernel reads as they are.
unsafe impl DeviceRepr for Map {}

/// The map of an input of K rows, each of `row` contiguous elements along m or n, as the ABI describes it.
fn map_of(stream: &CudaStream, matrix: &CudaSlice<f32>, row: u32, box_row: u32) -> Result<Map, Box<dyn Error>> {
    let mut map = MaybeUninit::<sys::CUtensorMap>::zeroed();
    let (address, _reading) = matrix.device_ptr(stream);
    let (dims, strides) = ([u64::from(row), u64::from(K)], [4 * u64::from(row)]);
    let (box_dims, element_strides) = ([box_row, TILE.2], [1, 1]);
    // SAFETY: the arrays have as many dimensions, strides and box extents as the rank says, and the map has room.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            map.as_mut_ptr(),
            sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
            2,
            address as *mut _,
            dims.as_ptr(),
            strides.as_ptr(),
            box_dims.as_ptr(),
            element_strides.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        .result()?;
        Ok(Map(map.assume_init()))
    }
}

/// Runs on a GPU through cudarc alone; the inner error says why no GPU can run it.
fn on_the_gpu(
    ptx: &str,
    entry: &AbiEntry,
    a: &Matrix<f32>,
    b: &Matrix<f32>,
) -> Result<Result<Vec<f32>, String>, Box<dyn Error>> {
    if let Err(why) = cuda::status() {
        return Ok(Err(why.to_string()));
    }
    let context = CudaContext::new(0)?;
    let (name, (major, _)) = (context.name()?, context.compute_capability()?);
    if major < 9 {
        return Ok(Err(format!("{name} has no TMA")));
    }
    println!("On {name}.");
    let stream = context.default_stream();
    let launch = &entry.launches[0];
    let function = context.load_module(Ptx::from_src(ptx))?.load_function(&launch.kernel)?;
    let (a, b) = (stream.clone_htod(a.as_slice())?, stream.clone_htod(b.as_slice())?);
    let (map_a, map_b) = (map_of(&stream, &a, M, TILE.0)?, map_of(&stream, &b, N, TILE.1)?);
    let mut d = stream.alloc_zeros::<f32>((M * N) as usize)?;
    let config = LaunchConfig {
        grid_dim: (blocks(entry), 1, 1),
        block_dim: (launch.threads, 1, 1),
        shared_mem_bytes: launch.dynamic_shared_bytes,
    };
    let ldd = u64::from(N);
    let mut call = stream.launch_builder(&function);
    // In the order of `ARGUMENTS`.
    call.arg(&map_a).arg(&map_b).arg(&mut d).arg(&M).arg(&N).arg(&K).arg(&ldd);
    // SAFETY: the slices hold what maps, extents and leading dimension say, and live until the result has been copied; the
    // arguments are those of the ABI, in order.
    unsafe { call.launch(config) }?;
    Ok(Ok(stream.clone_dtoh(&d)?))
}

/// Runs on the interpreter, through its own interface, which knows nothing about matrix products.
fn in_the_interpreter(
    ptx: &str,
    entry: &AbiEntry,
    a: &Matrix<f32>,
    b: &Matrix<f32>,
) -> Result<Vec<f32>, Box<dyn Error>> {
    let program = Program::from_text(ptx)?;
    let memory = Memory::new();
    let bytes = |matrix: &Matrix<f32>| matrix.as_slice().iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let a = memory.alloc_from("A", &bytes(a), 256)?;
    let b = memory.alloc_from("B", &bytes(b), 256)?;
    let d = memory.alloc("D", u64::from(M * N) * 4, 256)?;
    let map = |address: u64, row: u32, box_row: u32| {
        let (dims, strides) = ([row.into(), K.into()], [4 * u64::from(row)]);
        let args = TensorMapArgs::new(TensorElement::F32, address, &dims, &strides, &[box_row, TILE.2]);
        TensorMap::encode(&args).map(|map| Arg::Bytes(map.to_bytes().into()))
    };
    let maps = [map(a.address, M, TILE.0)?, map(b.address, N, TILE.1)?];
    let rest = [Arg::U64(d.address), Arg::U32(M), Arg::U32(N), Arg::U32(K), Arg::U64(N.into())];
    let args: Vec<Arg> = maps.into_iter().chain(rest).collect();
    let by_hand = &entry.launches[0];
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
        let sum: f64 = (0..K as usize).map(|k| at(a, k, row) * at(b, k, col)).sum();
        let distance = (f64::from(*got) - sum).abs();
        // A NaN counts as an infinite distance.
        if distance.is_nan() { f64::INFINITY } else { distance }
    };
    d.iter().enumerate().map(distance).fold(0.0, f64::max)
}
