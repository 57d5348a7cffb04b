//! Copies of page-locked host memory: their bits, with and without waiting, and that they are worthwhile.

use std::time::{Duration, Instant};

use ptx_gemm::cuda::Queue;
use ptx_gemm::{
    ArgumentError, CompiledGemm, Device, Error, Layout, Matrix, PinnedMatrix, Resident, ResidentCall, Shape,
};

use super::claims::{Answer, Trouble, expect};
use super::inputs::compiled;

/// A matrix of 256 MiB.
const SIDE: usize = 8192;
const TRIES: usize = 5;
/// How much slower than pageable copies pinned ones may be, to allow for noise of the clock and the bus.
const NOISE: f64 = 0.95;

pub(crate) fn copies(device: &Device) -> Answer {
    without_waiting(device)?;
    torn_by_nothing(device)?;
    speed(device)
}

/// Upload, product and download follow each other on a queue; the host waits when it reads.
fn without_waiting(device: &Device) -> Result<(), Trouble> {
    let (m, n, k) = (301, 205, 407);
    let gemm = compiled("tile(32, 32, 8); thread(4, 4); layout(b = col);", device)?;
    let queue = Queue::new(device)?;
    let shape = |rows, cols, layout, ld| Shape { rows, cols, layout, ld };
    let shapes = [shape(m, k, Layout::Row, k + 3), shape(k, n, Layout::Col, k), shape(m, n, Layout::Row, n + 2)];
    let [a, b, d] = shapes.map(|shape| device.upload(&Matrix::in_shape(shape, 0.0f32)));
    let (a, b, d) = (a?, b?, d?);
    let ready = gemm.prepare_resident(&ResidentCall { a: &a, b: &b, c: None, d: &d, vectors: &[], scalars: &[] })?;
    let mut from_host: (PinnedMatrix<f32>, PinnedMatrix<f32>) =
        (device.pinned(shapes[0], f32::NAN)?, device.pinned(shapes[1], f32::NAN)?);
    let mut back = [device.pinned(shapes[2], -1.0f32)?, device.pinned(shapes[2], -1.0f32)?];
    for (round, back) in back.iter_mut().enumerate() {
        // In the second round these wait until the copies of the first have read what they overwrite.
        fill(&mut from_host.0, 1 + round)?;
        fill(&mut from_host.1, 5 + round)?;
        queue.upload(&from_host.0, &a)?;
        queue.upload(&from_host.1, &b)?;
        queue.launch(&ready)?;
        queue.download(&d, back)?;
    }
    for (round, back) in back.iter().enumerate() {
        let sum = |row, col| (0..k).map(|l| entry(row, l, 1 + round) * entry(l, col, 5 + round)).sum::<f32>();
        let (shape, found) = (back.shape(), back.as_slice()?);
        let wrong = (0..m * n).find(|&at| found[shape.index(at / n, at % n)] != sum(at / n, at % n));
        expect(wrong.is_none(), || format!("round {round}: element {wrong:?} of a product without waiting is wrong"))?;
        let padding = (0..m - 1).flat_map(|row| (n..n + 2).map(move |col| shape.index(row, col)));
        let written = padding.filter(|&at| found[at] != -1.0).count();
        expect(written == 0, || format!("{written} elements of padding on the host were written"))?;
    }
    refusals(device, &gemm, &queue, &a)
}

/// A small integer: sums of 407 products are exact in f32.
fn entry(row: usize, col: usize, seed: usize) -> f32 {
    ((row * 7 + col * 3 + seed) % 11) as f32
}

/// Elements by position; the padding stays NaN.
fn fill(matrix: &mut PinnedMatrix<f32>, seed: usize) -> Result<(), Error> {
    let shape = matrix.shape();
    let elements = matrix.as_mut_slice()?;
    for at in 0..shape.rows * shape.cols {
        let (row, col) = (at / shape.cols, at % shape.cols);
        elements[shape.index(row, col)] = entry(row, col, seed);
    }
    Ok(())
}

fn refusals(device: &Device, gemm: &CompiledGemm, queue: &Queue, a: &Resident) -> Result<(), Trouble> {
    let small = device.pinned(Shape::packed(2, 2, Layout::Row), 1.0f32)?;
    let unlike = queue.upload(&small, a);
    let refused = matches!(unlike, Err(Error::Argument(ArgumentError::NotAlike { .. })));
    expect(refused, || format!("a copy between matrices that are not alike: {unlike:?}"))?;
    // Ordinary memory is copied as well, and a pinned matrix is an operand like any other.
    let ordinary = Device::interpreter().pin(&Matrix::<f32>::from_fn(2, 2, |row, col| (2 * row + col) as f32))?;
    let resident = device.upload(&small)?;
    queue.upload(&ordinary, &resident)?;
    let mut back = device.pinned(Shape::packed(2, 2, Layout::Row), 0.0f32)?;
    resident.download(&mut back)?;
    expect(back.as_slice()? == [0.0, 1.0, 2.0, 3.0], || format!("ordinary memory arrived as {:?}", back.as_slice()))?;
    let b = Matrix::<f32>::from_fn(2, 2, |row, col| (row + col) as f32).to_layout(Layout::Col);
    let product: Matrix<f32> = gemm.multiply(&back, &b)?;
    expect(product.as_slice() == [1.0, 2.0, 3.0, 8.0], || format!("a product of a pinned A: {product:?}"))
}

/// Dropped and forgotten early: the memory outlives the copies.
fn torn_by_nothing(device: &Device) -> Result<(), Trouble> {
    let shape = Shape::packed(2048, 2048, Layout::Row);
    let queue = Queue::new(device)?;
    let resident = device.upload(&Matrix::in_shape(shape, 0.0f32))?;
    for round in 0..8 {
        let pinned = device.pinned(shape, round as f32)?;
        queue.upload(&pinned, &resident)?;
        drop(pinned);
    }
    queue.wait()?;
    let mut back = Matrix::in_shape(shape, -1.0f32);
    resident.download(&mut back)?;
    expect(back.as_slice().iter().all(|&x| x == 7.0), || "memory that was dropped early did not arrive".into())
}

fn speed(device: &Device) -> Answer {
    let mut pageable = Matrix::<f32>::from_fn(SIDE, SIDE, |row, col| entry(row, col, 0));
    let mut pinned = device.pin(&pageable)?;
    let resident = device.upload(&pageable)?;
    // Alternating, so that a disturbance affects both.
    let mut rates = [const { Vec::new() }; 4];
    for _ in 0..TRIES {
        rates[0].push(rate(|| resident.overwrite(&pageable))?);
        rates[1].push(rate(|| resident.overwrite(&pinned))?);
        rates[2].push(rate(|| resident.download(&mut pageable))?);
        rates[3].push(rate(|| resident.download(&mut pinned))?);
    }
    let same = pinned.as_slice()? == pageable.as_slice();
    let right = same && (0..SIDE).all(|at| pageable.get(at, SIDE - 1) == Some(entry(at, SIDE - 1, 0)));
    expect(right, || "256 MiB did not come back as they went".into())?;
    let [up, up_pinned, down, down_pinned] = rates.map(|mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[TRIES / 2]
    });
    let words = format!(
        "256 MiB to the GPU at {up_pinned:.1} GB/s pinned, {up:.1} pageable; back at {down_pinned:.1} and {down:.1}; \
         without waiting, the right bits"
    );
    expect(up_pinned >= NOISE * up && down_pinned >= NOISE * down, || format!("pinned copies are slower: {words}"))?;
    Ok(words)
}

/// GB/s of one copy of the large matrix.
fn rate(copy: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    copy()?;
    let time = start.elapsed().max(Duration::from_nanos(1));
    Ok((SIDE * SIDE * size_of::<f32>()) as f64 / time.as_secs_f64() / 1e9)
}
