//! Data of a large product, and checks whose cost grows with its matrices and not with the product.

use std::num::NonZero;
use std::thread;

use ptx_gemm::random::SplitMix64;
use ptx_gemm::{DType, Element, Problem, Shape};
use ptx_gemm_check::bound::{Estimate, Rounding};
use ptx_gemm_check::epilogue::{APPROXIMATE, Operands, evaluate};

/// Elements that one thread fills at a time; each chunk has numbers of its own, however many threads there are.
const CHUNK: usize = 1 << 16;
/// Rows and columns of a block of D that is compared element by element.
const BLOCK: usize = 8;
/// Blocks besides the four corners.
const BLOCKS: usize = 12;
/// Random vectors.
const VECTORS: usize = 2;

/// Fills with random numbers, on every core.
pub fn fill<T: Element>(elements: &mut [T], seed: u64) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = elements.len().div_ceil(CHUNK).div_ceil(threads).max(1) * CHUNK;
    thread::scope(|scope| {
        for (part, elements) in elements.chunks_mut(share).enumerate() {
            scope.spawn(move || {
                for (chunk, elements) in elements.chunks_mut(CHUNK).enumerate() {
                    let index = (part * share / CHUNK + chunk) as u64;
                    let mut numbers = SplitMix64::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(index << 20));
                    elements.iter_mut().for_each(|element| *element = T::random(&mut numbers));
                }
            });
        }
    });
}

/// A product and its result on the host.
pub struct Host<'h, T> {
    /// What was computed.
    pub problem: &'h Problem,
    /// A, M x K.
    pub a: (&'h [T], Shape),
    /// B, K x N.
    pub b: (&'h [T], Shape),
    /// C, M x N, if the epilogue has it.
    pub c: Option<(&'h [T], Shape)>,
    /// The result, M x N.
    pub d: (&'h [T], Shape),
    /// The epilogue's scalars, in its order.
    pub scalars: Vec<f64>,
    /// The epilogue's vectors, in its order.
    pub vectors: Vec<Vec<f64>>,
}

/// The result of the checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// The largest distance from the reference, as a share of its bound.
    pub max_error: f64,
    /// Numbers compared.
    pub compared: usize,
    /// Those of them that are sums over a row of D.
    pub sums: usize,
}

impl Checked {
    fn compare(&mut self, got: f64, reference: f64, bound: f64) {
        let distance = (got - reference).abs();
        // NaN is never within a bound.
        let ratio = if distance == 0.0 { 0.0 } else { distance / bound };
        self.max_error = if ratio.is_nan() { f64::INFINITY } else { self.max_error.max(ratio) };
        self.compared += 1;
    }
}

impl<T: Element> Host<'_, T> {
    /// Compares the corners of D and some blocks of it element by element, and for a plain product D t with A (B t) for vectors
    /// t of signs; `seed` says which.
    pub fn check(&self, seed: u64) -> Checked {
        let mut checked = Checked::default();
        let (m, n) = (self.d.1.rows, self.d.1.cols);
        if m == 0 || n == 0 {
            return checked;
        }
        let mut numbers = SplitMix64::new(seed ^ 0x5eed);
        let mut corners = vec![(0, 0), (0, n.saturating_sub(BLOCK)), (m.saturating_sub(BLOCK), 0)];
        corners.push((m.saturating_sub(BLOCK), n.saturating_sub(BLOCK)));
        let mut random = |extent: usize| numbers.next_in(0, extent.saturating_sub(BLOCK) as i64) as usize;
        corners.extend((0..BLOCKS).map(|_| (random(m), random(n))));
        for (row, col) in corners {
            for (row, col) in
                (row..m.min(row + BLOCK)).flat_map(|row| (col..n.min(col + BLOCK)).map(move |col| (row, col)))
            {
                self.element(row, col, &mut checked);
            }
        }
        let plain = self.problem.epilogue == ptx_gemm::builder::Epilogue::identity();
        if plain && self.problem.types.acc != DType::I32 {
            (0..VECTORS as u64).for_each(|vector| self.sums(seed ^ (vector + 1), &mut checked));
        }
        checked
    }

    /// One element of D.
    fn element(&self, row: usize, col: usize, checked: &mut Checked) {
        let k = self.a.1.cols;
        let terms = (0..k).map(|k| at(self.a, row, k) * at(self.b, k, col));
        let (sum, magnitude) = terms.fold((0.0, 0.0), |(sum, all), x| (sum + x, all + f64::abs(x)));
        let (stored, got) = (Rounding::of(self.problem.types.d), at(self.d, row, col));
        if self.problem.types.acc == DType::I32 {
            // Small integers: exact in f64, as long as nothing wraps around.
            if self.problem.epilogue == ptx_gemm::builder::Epilogue::identity() && magnitude < f64::from(i32::MAX) {
                checked.compare(got, sum, 0.0);
            }
            return;
        }
        let acc = Rounding::of(self.problem.types.acc);
        // One more rounding for each slab, of which there are fewer than terms.
        let acc_estimate = Estimate::accumulated(sum, magnitude, 2 * k + 2, acc, false);
        let c = self.c.map_or(0.0, |c| at(c, row, col));
        let operands = Operands { acc: acc_estimate, c, row, col, scalars: &self.scalars, vectors: &self.vectors };
        let reference = evaluate(&self.problem.epilogue, &operands, acc, APPROXIMATE).stored(stored);
        // C is added before the last slabs where the sums contain it.
        let slack = acc.gamma(2 * k + 2) * c.abs() * self.scalars.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
        checked.compare(got, reference.value, reference.error + slack);
    }

    /// D t against A (B t), for a vector t of signs.
    fn sums(&self, seed: u64, checked: &mut Checked) {
        let (n, k) = (self.d.1.cols, self.a.1.cols);
        let mut numbers = SplitMix64::new(seed);
        let signs: Vec<f64> = (0..n).map(|_| if numbers.next_u64() & 1 == 0 { 1.0 } else { -1.0 }).collect();
        let of_b = lines(self.b, &signs);
        let magnitude_b: Vec<f64> = lines_of(self.b, |x, _| x.abs(), &signs);
        let of_d = lines(self.d, &signs);
        let expected = lines(self.a, &of_b);
        let magnitudes = lines_of(self.a, |x, y| x.abs() * y, &magnitude_b);
        let acc = Rounding::of(self.problem.types.acc);
        // The sums here are in f64, whose own error counts where the product is f64 as well.
        let here = Rounding::of(DType::F64).gamma(n + k + 2);
        for ((got, want), magnitude) in of_d.iter().zip(&expected).zip(&magnitudes) {
            checked.compare(*got, *want, (acc.gamma(2 * k + 2) + here) * magnitude + acc.tiny * n as f64);
            checked.sums += 1;
        }
    }
}

fn at<T: Element>((elements, shape): (&[T], Shape), row: usize, col: usize) -> f64 {
    elements[shape.index(row, col)].to_f64()
}

/// The matrix times a vector.
fn lines<T: Element>(matrix: (&[T], Shape), by: &[f64]) -> Vec<f64> {
    lines_of(matrix, |x, y| x * y, by)
}

/// For each row the sum of `term` over its elements and those of a vector, on every core.
fn lines_of<T: Element>(
    (elements, shape): (&[T], Shape),
    term: impl Fn(f64, f64) -> f64 + Sync,
    by: &[f64],
) -> Vec<f64> {
    let mut sums = vec![0.0; shape.rows];
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = shape.rows.div_ceil(threads).max(1);
    let term = &term;
    thread::scope(|scope| {
        for (part, sums) in sums.chunks_mut(share).enumerate() {
            scope.spawn(move || {
                let first = part * share;
                // In the order of memory, whichever it is.
                match shape.layout {
                    ptx_gemm::Layout::Row => {
                        for (row, sum) in sums.iter_mut().enumerate() {
                            let start = shape.index(first + row, 0);
                            let row = &elements[start..start + shape.cols];
                            *sum = row.iter().zip(by).map(|(x, y)| term(x.to_f64(), *y)).sum();
                        }
                    }
                    ptx_gemm::Layout::Col => {
                        for (col, y) in by.iter().enumerate().take(shape.cols) {
                            let start = shape.index(first, col);
                            let column = &elements[start..start + sums.len()];
                            sums.iter_mut().zip(column).for_each(|(sum, x)| *sum += term(x.to_f64(), *y));
                        }
                    }
                }
            });
        }
    });
    sums
}
