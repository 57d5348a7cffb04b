//! Ten thousand launches, and memory that runs out: the conditions of a long-running process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ptx_gemm::cuda::cudarc::driver::{CudaContext, CudaSlice};
use ptx_gemm::cuda::{Queue, SliceMut, SliceRef};
use ptx_gemm::{CompiledGemm, Device, DeviceError, Error, Matrix, ResidentCall};

use super::claims::{Answer, Trouble, expect, failed};
use super::inputs::{CLAUSES, compiled, ones};

/// The maximum host time of a launch, including all checks.
const SLOW: Duration = Duration::from_micros(5);
/// What the checks may add to the driver's part, on a host where that alone takes nearly as long.
const CHECKS: Duration = Duration::from_micros(2);
/// Memory that the driver may keep for itself.
const SLACK: usize = 4 << 20;

fn driver<T, E: std::fmt::Debug>(doing: &str, result: Result<T, E>) -> Result<T, Trouble> {
    result.map_err(|error| failed(doing)(&error))
}

/// The extent of the launches' products, chosen so small that their time is negligible.
const N: usize = 64;

pub(crate) fn launches(ordinal: usize, count: u32) -> Answer {
    let context = driver("opening a context", CudaContext::new(ordinal))?;
    let device = Device::from_context(&context)?;
    let gemm = compiled(CLAUSES, &device)?;
    let slices = on_slices(&context, &gemm, count)?;
    let [checked, prepared] = on_matrices(&device, &gemm)?;
    let limit = SLOW.max(prepared + CHECKS);
    expect(checked <= limit || cfg!(debug_assertions), || {
        format!("a launch takes the host {checked:?}, of which the driver has {prepared:?}")
    })?;
    Ok(format!(
        "{count} launches, with products of host data between them: no memory is lost; host time of one: {checked:?} with \
         every check, {prepared:?} prepared, {slices:?} on slices of cudarc's, which records events for them"
    ))
}

/// Median host time of a launch on slices of cudarc's; no launch may be lost, and the last result must be right.
fn on_slices(context: &Arc<CudaContext>, gemm: &CompiledGemm, count: u32) -> Result<Duration, Trouble> {
    let stream = driver("making a stream", context.new_stream())?;
    let (a, b) = (driver("A", stream.clone_htod(&[1.0f32; N * N]))?, driver("B", stream.clone_htod(&[1.0f32; N * N]))?);
    let mut d: CudaSlice<f32> = driver("D", stream.alloc_zeros(N * N))?;
    let mut launch = || {
        let (a, b, d) = (SliceRef::new(&a, N, N), SliceRef::new(&b, N, N), SliceMut::new(&mut d, N, N));
        gemm.on_stream(&stream)?.multiply_into(a, b, d)
    };
    let free = || driver("asking for free memory", context.mem_get_info()).map(|(free, _)| free);
    let host = || gemm.multiply_as::<f32>(&ones(N, N), &ones(N, N)).map(drop);
    (0..20).try_for_each(|_| launch().and_then(|()| host()))?;
    driver("waiting", stream.synchronize())?;
    let before = free()?;
    // In groups that the driver's queue holds, so that the host never waits for the GPU.
    let mut spent = Vec::new();
    for _ in 0..count.div_ceil(100) {
        let start = Instant::now();
        (0..100).try_for_each(|_| launch())?;
        spent.push(start.elapsed() / 100);
        driver("waiting", stream.synchronize())?;
        host()?;
    }
    let leaked = before.saturating_sub(free()?);
    expect(leaked <= SLACK, || format!("{leaked} bytes less are free after {count} launches"))?;
    let d = driver("copying D back", stream.clone_dtoh(&d))?;
    expect(d.iter().all(|&x| x == N as f32), || "the last result is wrong".into())?;
    spent.sort();
    Ok(spent[spent.len() / 2])
}

/// Host times of a launch on matrices in device memory, checked each time, and once before all. Of groups of launches the
/// fastest tenth counts: that is the time of a launch on an idle processor, which a limit can apply to.
fn on_matrices(device: &Device, gemm: &CompiledGemm) -> Result<[Duration; 2], Trouble> {
    let (a, b, d) = (device.upload(&ones(N, N))?, device.upload(&ones(N, N))?, device.upload(&ones(N, N))?);
    let call = ResidentCall { a: &a, b: &b, c: None, d: &d, vectors: &[], scalars: &[] };
    let ready = gemm.prepare_resident(&call)?;
    let queue = Queue::new(device)?;
    let undisturbed = |launch: &dyn Fn() -> Result<(), Error>| {
        let mut spent = Vec::new();
        for _ in 0..50 {
            let start = Instant::now();
            (0..100).try_for_each(|_| launch())?;
            spent.push(start.elapsed() / 100);
            queue.wait()?;
        }
        spent.sort();
        Ok::<_, Error>(spent[spent.len() / 10])
    };
    let checked = undisturbed(&|| queue.launch(&gemm.prepare_resident(&call)?))?;
    Ok([checked, undisturbed(&|| queue.launch(&ready))?])
}

pub(crate) fn memory(device: &Device, ordinal: usize) -> Answer {
    const N: usize = 4096;
    let context = driver("opening a context", CudaContext::new(ordinal))?;
    let stream = driver("making a stream", context.new_stream())?;
    let gemm = compiled(CLAUSES, device)?;
    let (a, b) = (ones(N, N), ones(N, N));
    let mut hogs: Vec<CudaSlice<u8>> = Vec::new();
    let mut bytes = driver("asking for free memory", context.mem_get_info())?.0;
    // All but some 32 MB, in ever smaller pieces; a matrix of the call takes 64 MB.
    while bytes >= 32 << 20 {
        match stream.alloc_zeros::<u8>(bytes) {
            Ok(hog) => hogs.push(hog),
            Err(_) => bytes /= 2,
        }
    }
    driver("waiting", stream.synchronize())?;
    let mut d = Matrix::<f32>::from_fn(N, N, |_, _| -1.0);
    let answer = gemm.multiply_into(&a, &b, &mut d);
    drop(hogs);
    driver("waiting", stream.synchronize())?;
    match answer {
        Err(Error::Device(DeviceError::OutOfMemory { .. })) => {}
        Err(other) => return Err(Trouble::Wrong(format!("with no memory left: {other}"))),
        Ok(_) => return Err(Trouble::Skipped("memory did not run out".into())),
    }
    expect(d.as_slice().iter().all(|&x| x == -1.0), || "D was touched".into())?;
    gemm.multiply_into(&a, &b, &mut d)?;
    expect(d.as_slice().iter().all(|&x| x == N as f32), || "the second try is wrong".into())?;
    Ok("a typed error, D as it was, and right at the second try".into())
}
