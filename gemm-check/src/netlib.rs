//! The SGEMM part of the grid of netlib's `sblat3`: 17,496 calls through the public interface, for matrices of any type.
//!
//! `C := alpha op(A) op(B) + beta C`, everything column major as in BLAS. A transposed operand is a row-major matrix here,
//! so that there are four kernels for the nine pairs of `N`, `T` and `C`. As in netlib, each leading dimension is one above
//! the smallest, padding is -1e10 and must stay, A and B must stay, and an element passes if `|C - reference| < 16 eps
//! (|alpha| |A||B| + |beta| |C|)`, with the eps of f32. Matrices of 16 bits have f32 accumulators as well; for these the
//! rounding of C to its type is permitted in addition: half a unit in its last place. The eps of products that are rounded to
//! tf32 is that of tf32. Integers have integer scalars, and C must be exact.

use std::fmt;

use ptx_gemm_dsl::{DType, Layout};
use ptx_gemm_runtime::random::SplitMix64;
use ptx_gemm_runtime::{CompiledGemm, Element, Error, Matrix, MatrixMut, Run, Shape};

use crate::bound::Rounding;
use crate::part::Part;

/// M, N and K.
pub const EXTENTS: [usize; 6] = [0, 1, 2, 3, 5, 9];
/// Values of alpha.
pub const ALPHAS: [f32; 3] = [0.0, 1.0, 0.7];
/// Values of beta.
pub const BETAS: [f32; 3] = [0.0, 1.0, 1.3];
/// The same of integers.
const INTEGER_SCALARS: [[f32; 3]; 2] = [[0.0, 1.0, 2.0], [0.0, 1.0, 3.0]];
/// The value of the padding between columns, in the matrices' type.
pub const PADDING: f64 = -1e10;
/// An element fails from this ratio on.
pub const THRESHOLD: f64 = 16.0;

/// `op(X)` of BLAS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transpose {
    /// Not transposed.
    N,
    /// Transposed.
    T,
    /// Conjugated and transposed: for real numbers the same.
    C,
}

impl Transpose {
    /// All three.
    pub const ALL: [Transpose; 3] = [Transpose::N, Transpose::T, Transpose::C];

    /// The layout of `op(X)`, of which X is the column-major matrix.
    pub fn layout(self) -> Layout {
        match self {
            Transpose::N => Layout::Col,
            Transpose::T | Transpose::C => Layout::Row,
        }
    }
}

/// One call of the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the names are those of BLAS
pub struct Call {
    pub trans_a: Transpose,
    pub trans_b: Transpose,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: f32,
    pub beta: f32,
}

/// The result of the grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Calls made.
    pub calls: usize,
    /// Elements compared.
    pub compared: usize,
    /// The largest ratio.
    pub worst_ratio: f64,
    /// The calls that failed, with the reasons.
    pub failures: Vec<(Call, String)>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls, largest ratio {:.3} of {THRESHOLD}", self.calls, self.worst_ratio)?;
        for (call, what) in self.failures.iter().take(10) {
            write!(f, "\n{call:?}: {what}")?;
        }
        match self.failures.len() {
            0..=10 => Ok(()),
            more => write!(f, "\nand {} more", more - 10),
        }
    }
}

/// Runs a part of the grid, 17,496 calls in all. `kernel` gives, for the layouts of A and B, a kernel that computes `alpha * acc + beta * c`
/// on matrices of `T`, with column-major C and D of `U`.
pub fn run<T: Element, U: Element>(
    part: Part,
    mut kernel: impl FnMut(Layout, Layout) -> Result<CompiledGemm, Error>,
) -> Result<Summary, Error> {
    let mut summary = Summary::default();
    let mut numbers = SplitMix64::new(100);
    for trans_a in Transpose::ALL {
        for trans_b in Transpose::ALL {
            let gemm = kernel(trans_a.layout(), trans_b.layout())?;
            let scalars = if T::DTYPE.is_integer() { INTEGER_SCALARS } else { [ALPHAS, BETAS] };
            for call in part.of(calls(trans_a, trans_b, scalars)) {
                summary.calls += 1;
                match one::<T, U>(&gemm, &call, &mut numbers)? {
                    Ok(ratio) => {
                        summary.compared += call.m * call.n;
                        summary.worst_ratio = summary.worst_ratio.max(ratio);
                    }
                    Err(what) => summary.failures.push((call, what)),
                }
            }
        }
    }
    Ok(summary)
}

fn calls(trans_a: Transpose, trans_b: Transpose, [alphas, betas]: [[f32; 3]; 2]) -> impl Iterator<Item = Call> {
    let sizes = EXTENTS.into_iter().flat_map(|m| EXTENTS.into_iter().map(move |n| (m, n)));
    let sizes = sizes.flat_map(|(m, n)| EXTENTS.into_iter().map(move |k| (m, n, k)));
    let scalars =
        move |size| alphas.into_iter().flat_map(move |alpha| betas.into_iter().map(move |beta| (size, alpha, beta)));
    sizes.flat_map(scalars).map(move |((m, n, k), alpha, beta)| Call { trans_a, trans_b, m, n, k, alpha, beta })
}

/// The ratio of one call, or what is wrong with it.
fn one<T: Element, U: Element>(
    gemm: &CompiledGemm,
    call: &Call,
    numbers: &mut SplitMix64,
) -> Result<Result<f64, String>, Error> {
    let &Call { trans_a, trans_b, m, n, k, alpha, beta } = call;
    let a = matrix::<T>(m, k, trans_a.layout(), numbers);
    let b = matrix::<T>(k, n, trans_b.layout(), numbers);
    let before = matrix::<U>(m, n, Layout::Col, numbers);
    let ld = before.shape().ld;
    // One padding element per column, even where a column has no element.
    let padding = U::from_f64(PADDING);
    let mut c = vec![padding; ld * n];
    c[..before.as_slice().len()].copy_from_slice(before.as_slice());
    let (a_before, b_before) = (a.clone(), b.clone());
    let mut view = MatrixMut::in_shape(&mut c, before.shape());
    let run = gemm.set("alpha", alpha).set("beta", beta).accumulate_into(&a, &b, &mut view)?;
    if a != a_before || b != b_before || writes_inputs(&run) {
        return Ok(Err("an input was changed".into()));
    }
    let factor = gemm.problem().types.a;
    let eps = if factor.is_rounded() { 2.0 * factor.unit() } else { f64::from(f32::EPSILON) };
    let mut worst = 0.0f64;
    for (index, &got) in c.iter().enumerate() {
        let (row, col) = (index % ld, index / ld);
        if row >= m {
            if got != padding {
                return Ok(Err(format!("the padding below column {col} is {got:?}")));
            }
            continue;
        }
        let (expected, gauge) = reference(call, &a, &b, &before, row, col);
        let stored = if U::DTYPE.bytes() == 2 { half_a_place(expected, U::DTYPE) } else { 0.0 };
        // A NaN stays one.
        let distance = ((got.to_f64() - expected).abs() - stored).clamp(0.0, f64::INFINITY) / eps;
        let ratio = if gauge > 0.0 && !U::DTYPE.is_integer() { distance / gauge } else { distance };
        // A NaN is not below the threshold.
        if ratio.is_nan() || ratio >= THRESHOLD {
            return Ok(Err(format!("C[{row}, {col}] is {got:?}, the reference is {expected}")));
        }
        worst = worst.max(ratio);
    }
    Ok(Ok(worst))
}

/// Half a unit in the last place of a number of a type.
fn half_a_place(value: f64, dtype: DType) -> f64 {
    let rounding = Rounding::of(dtype);
    let exponent = value.abs().log2().floor().exp2();
    (rounding.unit * exponent).max(rounding.tiny)
}

/// Whether the interpreter counted a store to A or B.
fn writes_inputs(run: &Run) -> bool {
    let traffic = run.counts.iter().filter_map(|counts| counts.cost.as_ref()).flat_map(|cost| &cost.traffic);
    traffic.into_iter().any(|(label, traffic)| (label == "A" || label == "B") && traffic.written > 0)
}

/// Values in [-0.5, 0.5) or random integers, and padding.
fn matrix<T: Element>(rows: usize, cols: usize, layout: Layout, numbers: &mut SplitMix64) -> Matrix<T> {
    let packed = Shape::packed(rows, cols, layout);
    let shape = Shape { ld: packed.ld + 1, ..packed };
    let mut matrix = Matrix::in_shape(shape, T::from_f64(PADDING));
    for row in 0..rows {
        for col in 0..cols {
            let value =
                if T::DTYPE.is_integer() { T::random(numbers) } else { T::from_f64(numbers.next_signed() / 2.0) };
            matrix.as_mut_slice()[shape.index(row, col)] = value;
        }
    }
    matrix
}

/// One element in f64, and the magnitude that its error is measured by.
fn reference<T: Element, U: Element>(
    call: &Call,
    a: &Matrix<T>,
    b: &Matrix<T>,
    before: &Matrix<U>,
    row: usize,
    col: usize,
) -> (f64, f64) {
    fn element<T: Element>(matrix: &Matrix<T>, row: usize, col: usize) -> f64 {
        matrix.get(row, col).map_or(f64::NAN, T::to_f64)
    }
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for k in 0..call.k {
        let product = element(a, row, k) * element(b, k, col);
        sum += product;
        magnitude += product.abs();
    }
    let (alpha, beta, c) = (f64::from(call.alpha), f64::from(call.beta), element(before, row, col));
    (alpha * sum + beta * c, alpha.abs() * magnitude + beta.abs() * c.abs())
}
