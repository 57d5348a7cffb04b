//! Checks whether D overlaps an input. No kernel supports that: blocks would read what other blocks have written.

use std::ops::{Range, RangeInclusive};

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::Problem;

use crate::arguments::{Arguments, DeviceMatrix, DeviceVector};
use crate::error::{ArgumentError, OperandName};

/// Contiguous runs of bytes at a fixed distance.
#[derive(Clone, Copy, Debug)]
struct Runs {
    start: u64,
    /// Bytes of a run.
    run: u64,
    /// Runs.
    count: u64,
    /// Bytes from one run to the next.
    pitch: u64,
    /// Matrices of such runs.
    matrices: u64,
    /// Bytes from one matrix to the next.
    stride: u64,
}

impl Runs {
    fn is_empty(&self) -> bool {
        self.run == 0 || self.count == 0 || self.matrices == 0
    }

    /// Bytes from the first to the last of one matrix.
    fn span(&self) -> u64 {
        if self.is_empty() { 0 } else { (self.count - 1) * self.pitch + self.run }
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start + self.matrices.saturating_sub(1) * self.stride + self.span()
    }
}

/// Checks the D of each product of a group against every matrix and vector of the others.
pub(crate) fn between(problem: &Problem, products: &[&Arguments]) -> Result<(), ArgumentError> {
    let mut all: Vec<Piece<'_>> = Vec::new();
    for (index, arguments) in products.iter().enumerate() {
        for operand in [Operand::A, Operand::B, Operand::C, Operand::D] {
            // A C in place is the product's own D.
            let matrix = arguments.matrix(operand).filter(|c| operand != Operand::C || *c != arguments.d);
            if let Some(given) = matrix {
                let runs = self::matrix(problem, operand, given)?;
                all.push(Piece { index, is_d: operand == Operand::D, name: OperandName(operand).upper(), runs });
            }
        }
        for (vector, named) in arguments.vectors.iter().zip(&problem.epilogue.vectors) {
            let runs = self::vector(problem, &named.name, *vector)?;
            all.push(Piece { index, is_d: false, name: &named.name, runs });
        }
    }
    all.retain(|piece| !piece.runs.is_empty());
    all.sort_by_key(|piece| piece.runs.start);
    // Pieces that begin before the current one and may reach into it.
    let (mut open_d, mut open): (Vec<&Piece<'_>>, Vec<&Piece<'_>>) = (Vec::new(), Vec::new());
    for piece in &all {
        open_d.retain(|before| before.runs.range().end > piece.runs.start);
        open.retain(|before| before.runs.range().end > piece.runs.start);
        let inputs = open.iter().filter(|_| piece.is_d);
        let overlapping = |other: &&&Piece<'_>| other.index != piece.index && overlaps(other.runs, piece.runs);
        if let Some(other) = open_d.iter().chain(inputs).find(overlapping) {
            let (d, input) = if piece.is_d { (piece, *other) } else { (*other, piece) };
            return Err(ArgumentError::OverlapInGroup {
                index: d.index,
                d: d.runs.range(),
                other: input.index,
                name: input.name.into(),
                input: input.runs.range(),
            });
        }
        if piece.is_d { &mut open_d } else { &mut open }.push(piece);
    }
    Ok(())
}

/// A matrix or vector of a product in a group.
struct Piece<'a> {
    index: usize,
    is_d: bool,
    name: &'a str,
    runs: Runs,
}

/// Checks pointers against element sizes and address space, and D against every input.
pub(crate) fn check(problem: &Problem, arguments: &Arguments) -> Result<(), ArgumentError> {
    let d = matrix(problem, Operand::D, arguments.d)?;
    for operand in [Operand::A, Operand::B] {
        if let Some(input) = arguments.matrix(operand) {
            apart(OperandName(operand).upper(), d, matrix(problem, operand, input)?)?;
        }
    }
    if let Some(c) = arguments.c {
        let runs = matrix(problem, Operand::C, c)?;
        if c == arguments.d {
            in_place(problem)?;
        } else {
            apart("C", d, runs)?;
        }
    }
    for (vector, named) in arguments.vectors.iter().zip(&problem.epilogue.vectors) {
        apart(&named.name, d, self::vector(problem, &named.name, *vector)?)?;
    }
    Ok(())
}

fn in_place(problem: &Problem) -> Result<(), ArgumentError> {
    let (types, layouts) = (&problem.types, &problem.layouts);
    if types.c == types.d && layouts.c == layouts.d {
        return Ok(());
    }
    Err(ArgumentError::NotInPlace { c: format!("{} {}", types.c, layouts.c), d: format!("{} {}", types.d, layouts.d) })
}

fn matrix(problem: &Problem, operand: Operand, matrix: DeviceMatrix) -> Result<Runs, ArgumentError> {
    let name = OperandName(operand).upper();
    let bytes = problem.types.of(operand).bytes();
    let shape = matrix.shape;
    let elements = matrix.stack.len(shape).map_or(u64::MAX, |len| len as u64);
    placed(name, matrix.address, elements, bytes)?;
    let bytes = u64::from(bytes);
    Ok(Runs {
        start: matrix.address,
        run: shape.run() as u64 * bytes,
        count: shape.runs() as u64,
        pitch: (shape.ld as u64).saturating_mul(bytes),
        matrices: matrix.stack.stored() as u64,
        stride: (matrix.stack.stride as u64).saturating_mul(bytes),
    })
}

fn vector(problem: &Problem, name: &str, vector: DeviceVector) -> Result<Runs, ArgumentError> {
    let bytes = problem.types.epilogue().bytes();
    placed(name, vector.address, vector.len as u64, bytes)?;
    let run = vector.len as u64 * u64::from(bytes);
    Ok(Runs { start: vector.address, run, count: 1, pitch: run, matrices: 1, stride: 0 })
}

fn placed(name: &str, address: u64, elements: u64, bytes: u32) -> Result<(), ArgumentError> {
    if !address.is_multiple_of(u64::from(bytes)) {
        return Err(ArgumentError::Pointer { name: name.into(), address, bytes });
    }
    // Below 2^63, so that a kernel's signed distances between two addresses are also right.
    let end = elements.checked_mul(u64::from(bytes)).and_then(|bytes| address.checked_add(bytes));
    if end.is_some_and(|end| end < 1 << 63) {
        return Ok(());
    }
    Err(ArgumentError::AddressSpace { name: name.into(), address, elements })
}

fn apart(name: &str, d: Runs, input: Runs) -> Result<(), ArgumentError> {
    if !overlaps(d, input) {
        return Ok(());
    }
    Err(ArgumentError::Overlap { name: name.into(), d: d.range(), input: input.range() })
}

/// Exact if both have the same pitch, as blocks of one larger matrix do (a factorisation updates such a block by its
/// neighbours), and if both have the same stride, as operands of adjacent products do. Otherwise the ranges from first
/// to last byte decide.
fn overlaps(x: Runs, y: Runs) -> bool {
    if x.is_empty() || y.is_empty() {
        return false;
    }
    let (xs, ys) = (x.range(), y.range());
    if xs.end <= ys.start || ys.end <= xs.start {
        return false;
    }
    let delta = i128::from(y.start) - i128::from(x.start);
    if x.matrices == 1 && y.matrices == 1 {
        return matrices_overlap(x, y, delta);
    }
    if x.stride != y.stride || x.stride == 0 {
        return true;
    }
    // Only a few distances make two matrices overlap: those of D are at least their own length apart.
    let near = overlap(delta, x.stride, (x.span(), x.matrices), (y.span(), y.matrices));
    near.into_iter().flatten().any(|steps| matrices_overlap(x, y, delta + steps * i128::from(x.stride)))
}

/// Whether one matrix of x overlaps one of y that starts `delta` bytes after it.
fn matrices_overlap(x: Runs, y: Runs, delta: i128) -> bool {
    let ranges_overlap = -i128::from(y.span()) < delta && delta < i128::from(x.span());
    ranges_overlap && (x.pitch != y.pitch || overlap(delta, x.pitch, (x.run, x.count), (y.run, y.count)).is_some())
}

/// Pieces i of x and j of y, all `pitch` bytes apart, overlap if -y.0 < delta + (j - i) pitch < x.0. Returns the values
/// of j - i for which they do. Each side is the length of a piece and the number of pieces.
fn overlap(delta: i128, pitch: u64, x: (u64, u64), y: (u64, u64)) -> Option<RangeInclusive<i128>> {
    let pitch = i128::from(pitch);
    let first = (-i128::from(y.0) - delta).div_euclid(pitch) + 1;
    let last = (i128::from(x.0) - 1 - delta).div_euclid(pitch);
    let overlap = first.max(1 - i128::from(x.1))..=last.min(i128::from(y.1) - 1);
    (!overlap.is_empty()).then_some(overlap)
}

#[cfg(test)]
mod tests {
    use super::{Runs, overlaps};

    /// Marks every byte of both.
    fn touches(x: Runs, y: Runs) -> bool {
        let bytes = |runs: Runs| {
            let matrices = (0..runs.matrices).map(move |i| runs.start + i * runs.stride);
            let lines = matrices.flat_map(move |start| (0..runs.count).map(move |i| start + i * runs.pitch));
            lines.flat_map(move |start| (0..runs.run).map(move |b| start + b)).collect::<Vec<_>>()
        };
        let y = bytes(y);
        bytes(x).iter().any(|byte| y.contains(byte))
    }

    #[test]
    fn equal_pitches_are_told_apart_exactly() {
        for x_start in 0..14 {
            for run in [(1, 1), (2, 3), (3, 2), (4, 4), (0, 2)] {
                for count in [(1, 1), (3, 2), (2, 4), (0, 1)] {
                    let x = Runs { start: 20 + x_start, run: run.0, count: count.0, pitch: 5, matrices: 1, stride: 0 };
                    let y = Runs { start: 26, run: run.1, count: count.1, ..x };
                    for (matrices, stride) in [((1, 1), 0), ((2, 3), 20), ((1, 3), 24), ((4, 2), 31)] {
                        let x = Runs { matrices: matrices.0, stride, ..x };
                        let y = Runs { matrices: matrices.1, stride, ..y };
                        assert_eq!(overlaps(x, y), touches(x, y), "{x:?} {y:?}");
                        assert_eq!(overlaps(y, x), touches(x, y), "{y:?} {x:?}");
                    }
                }
            }
        }
    }
}
