//! Products with indices that do not fit into 31 bits.

use ptx_gemm::{Device, DeviceError, Error, MatrixMut, MatrixRef};

use super::claims::{Answer, Trouble, expect};
use super::inputs::{CLAUSES, compiled};

/// Host memory for this many elements, all zero, if there is that much.
fn zeros(elements: usize) -> Result<Vec<f32>, Trouble> {
    let mut data = Vec::new();
    let too_much = |_| Trouble::Skipped(format!("the host has no memory for {elements} elements"));
    data.try_reserve_exact(elements).map_err(too_much)?;
    data.resize(elements, 0.0);
    Ok(data)
}

fn skip_without_memory(error: Error) -> Trouble {
    match error {
        Error::Device(DeviceError::OutOfMemory { .. }) => Trouble::Skipped(error.to_string()),
        other => other.into(),
    }
}

/// A small integer for each position: sums of 2048 products are exact in f32.
fn entry(row: usize, col: usize) -> f32 {
    ((row * 7 + col * 3) % 11) as f32
}

pub(crate) fn leading_dimension(device: &Device) -> Answer {
    const N: usize = 2048;
    const LDA: usize = 1_049_100;
    let gemm = compiled(CLAUSES, device)?;
    let mut a = zeros((N - 1) * LDA + N)?;
    (0..N).for_each(|row| (0..N).for_each(|k| a[row * LDA + k] = entry(row, k)));
    let b: Vec<f32> = (0..N * N).map(|index| entry(index / N, index % N)).collect();
    let mut d = zeros(N * N)?;
    gemm.multiply_into(&MatrixRef::new(&a, N, N).ld(LDA), &MatrixRef::new(&b, N, N), &mut MatrixMut::new(&mut d, N, N))
        .map_err(skip_without_memory)?;
    for row in (0..N).step_by(89).chain([N - 1]) {
        for col in 0..N {
            let expected: f64 = (0..N).map(|k| f64::from(entry(row, k)) * f64::from(entry(k, col))).sum();
            let got = d[row * N + col];
            expect(f64::from(got) == expected, || format!("D[{row}, {col}] is {got}, not {expected}"))?;
        }
    }
    Ok(format!("{N}^3 with lda = {LDA}: exact in every 89th row"))
}

/// More tiles in one row than a band of 16 rows could have in 32 bits.
pub(crate) fn tiles(device: &Device) -> Answer {
    const N: usize = (1 << 28) + 3;
    let gemm = compiled("tile(1, 1, 1); thread(1, 1);", device)?;
    let (mut b, mut d) = (zeros(N)?, zeros(N)?);
    b.iter_mut().enumerate().for_each(|(col, b)| *b = entry(0, col));
    gemm.multiply_into(&MatrixRef::new(&[3.0_f32], 1, 1), &MatrixRef::new(&b, 1, N), &mut MatrixMut::new(&mut d, 1, N))
        .map_err(skip_without_memory)?;
    let wrong = (0..N).find(|&col| d[col] != 3.0 * b[col]);
    expect(wrong.is_none(), || format!("D[0, {}] is {}", wrong.unwrap_or(0), d[wrong.unwrap_or(0)]))?;
    Ok(format!("1 x {N} x 1 in as many tiles: exact in every column"))
}

pub(crate) fn rows(device: &Device) -> Answer {
    const M: usize = (1 << 31) + 1;
    let gemm = compiled(CLAUSES, device)?;
    let (mut a, mut d) = (zeros(2 * M)?, zeros(M)?);
    a.chunks_exact_mut(2).enumerate().for_each(|(row, pair)| pair.copy_from_slice(&[entry(row, 0), entry(row, 1)]));
    gemm.multiply_into(
        &MatrixRef::new(&a, M, 2),
        &MatrixRef::new(&[2.0_f32, 3.0], 2, 1),
        &mut MatrixMut::new(&mut d, M, 1),
    )
    .map_err(skip_without_memory)?;
    let wrong = (0..M).find(|&row| d[row] != 2.0 * entry(row, 0) + 3.0 * entry(row, 1));
    expect(wrong.is_none(), || format!("D[{}, 0] is {}", wrong.unwrap_or(0), d[wrong.unwrap_or(0)]))?;
    Ok(format!("{M} x 1 x 2: exact in every row"))
}
