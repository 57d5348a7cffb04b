//! The device's bits beside the interpreter's, for every case, on random data.

use ptx_gemm::{ArgumentError, CompiledGemm, DType, Device, Element, Error, Matrix, Problem};
use ptx_gemm_check::cases;

use super::claims::{Answer, Trouble, expect};

/// Odd in every direction, and large enough for several tiles of most cases.
const SIZE: (usize, usize, usize) = (141, 133, 67);

pub(crate) fn equal(device: &Device) -> Answer {
    let (mut compared, mut left) = (0, Vec::new());
    for case in cases() {
        let schedule = case.schedule().map_err(Error::from)?;
        let gemm = CompiledGemm::new(&schedule, device)?;
        let problem = &gemm.plan().problem;
        let types = &problem.types;
        let epilogue = &problem.epilogue;
        let plain = !epilogue.uses_c() && epilogue.scalars.is_empty() && epilogue.vectors.is_empty();
        let found = match (types.a, types.b, types.d) {
            _ if !plain => None,
            (DType::F32, DType::F32, DType::F32) => Some(differ::<f32>(&gemm, problem)?),
            (DType::I32, DType::I32, DType::I32) => Some(differ::<i32>(&gemm, problem)?),
            _ => None,
        };
        match found {
            Some(difference) => {
                expect(difference.is_none(), || format!("{}: {}", case.name, difference.unwrap_or_default()))?;
                compared += 1;
            }
            None => left.push(case.name),
        }
    }
    if compared == 0 {
        return Err(Trouble::Skipped("no case is a plain product of f32 or i32".into()));
    }
    let (m, n, k) = SIZE;
    let left = if left.is_empty() { String::new() } else { format!("; not compared: {}", left.join(", ")) };
    Ok(format!("{compared} cases, {m} x {n} x {k}: every bit the interpreter's{left}"))
}

/// The first element that differs, in words.
fn differ<T: Element>(gemm: &CompiledGemm, problem: &Problem) -> Result<Option<String>, Error> {
    let block = &gemm.plan().block;
    let tiles = |extent: usize, tile: u32| extent.next_multiple_of(tile.max(1) as usize);
    let whole = (tiles(SIZE.0, block.m), tiles(SIZE.1, block.n), tiles(SIZE.2, block.k));
    match differ_at::<T>(gemm, problem, SIZE) {
        // tail(none) takes whole tiles alone.
        Err(Error::Argument(ArgumentError::Tail { .. })) => differ_at::<T>(gemm, problem, whole),
        other => other,
    }
}

fn differ_at<T: Element>(
    gemm: &CompiledGemm,
    problem: &Problem,
    (m, n, k): (usize, usize, usize),
) -> Result<Option<String>, Error> {
    let a = Matrix::<T>::random(m, k, 1).to_layout(problem.layouts.a);
    let b = Matrix::<T>::random(k, n, 2).to_layout(problem.layouts.b);
    let here: Matrix<T> = gemm.multiply(&a, &b)?;
    let there: Matrix<T> = gemm.in_interpreter()?.multiply(&a, &b)?;
    let differs = |(row, col): &(usize, usize)| {
        let bits = |matrix: &Matrix<T>| matrix.get(*row, *col).map(|value| value.to_f64().to_bits());
        bits(&here) != bits(&there)
    };
    let first = (0..m).flat_map(|row| (0..n).map(move |col| (row, col))).find(differs);
    Ok(first.map(|(row, col)| {
        let (here, there) = (here.get(row, col), there.get(row, col));
        format!("D[{row}, {col}] is {here:?}, the interpreter says {there:?}")
    }))
}
