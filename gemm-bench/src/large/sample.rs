//! The data of a large product, and checks that cost time in proportion to its matrices, not to the product.

use std::num::NonZero;
use std::thread;

use ptx_gemm::random::SplitMix64;
use ptx_gemm::{DType, Element, Problem, Shape};
use ptx_gemm_check::bound::{Estimate, Rounding};
use ptx_gemm_check::epilogue::{APPROXIMATE, Operands, evaluate};
use ptx_gemm_check::{Verdict, integer};

/// Elements that one thread fills at a time; the numbers of a chunk do not depend on the number of threads.
const CHUNK: usize = 1 << 16;
/// Rows and columns of a block of D that is compared element by element.
const BLOCK: usize = 8;
/// Blocks in addition to the four corners.
const BLOCKS: usize = 12;
/// Random vectors.
const VECTORS: usize = 2;
/// A bound on the partial sums of random terms of either sign, in units of the root of the sum of their squares: the
/// largest exceeds it with a probability below 2 exp(-SPREAD^2 / 2), 3e-8 (Hoeffding's inequality for the maximum).
const SPREAD: f64 = 6.0;

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
    /// Elements without a reference, or with a bound that excludes no result.
    pub left_out: usize,
    /// Of these, sums over a row of D.
    pub sums: usize,
}

impl Checked {
    /// What the checks say.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.max_error <= 1.0, self.compared, self.left_out)
    }

    fn compare(&mut self, got: f64, reference: f64, bound: f64) {
        if bound.is_infinite() && reference.is_finite() {
            self.left_out += 1;
            return;
        }
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
    ///
    /// The elements of A and B have to be random with the mean 0, as [`fill`] makes them. Each addition of a sum is then off by at
    /// most a unit roundoff of a partial sum, and none of these is larger than [`SPREAD`] times the root of the sum of the
    /// squares of all terms. A bound by their magnitudes would be so wide at large K that products could be missing.
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
        let (sum, magnitude, squares) =
            terms.fold((0.0, 0.0, 0.0), |(sum, all, squares), x| (sum + x, all + f64::abs(x), squares + x * x));
        let (stored, got) = (Rounding::of(self.problem.types.d), at(self.d, row, col));
        let c = self.c.map_or(0.0, |c| at(c, row, col));
        let (scalars, vectors) = (self.scalars.as_slice(), self.vectors.as_slice());
        if self.problem.types.acc == DType::I32 {
            // Sums of small integers are exact in f64; those of i32 wrap around.
            let operands = integer::Operands { acc: sum as i64 as i32, c: c as i32, row, col, scalars, vectors };
            match integer::evaluate(&self.problem.epilogue, &operands) {
                Some(reference) => checked.compare(got, f64::from(reference), 0.0),
                None => checked.left_out += 1,
            }
            return;
        }
        let acc = Rounding::of(self.problem.types.acc);
        // One more rounding for each slab, of which there are fewer than terms.
        let partial = magnitude.min(SPREAD * squares.sqrt());
        let acc_estimate = Estimate::accumulated(sum, partial, 2 * k + 2, acc, false);
        let operands = Operands { acc: acc_estimate, c, row, col, scalars, vectors };
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
        let of_d = lines(self.d, &signs);
        let expected = lines(self.a, &of_b);
        // Errors of the elements of a row have either sign as well, so that the squares of their bounds add up.
        let squares_b = lines_of(self.b, |x, _| x * x, &signs);
        let squares = lines_of(self.a, |x, y| x * x * y, &squares_b);
        let squares_d = lines_of(self.d, |x, _| x * x, &signs);
        let (acc, stored) = (Rounding::of(self.problem.types.acc), Rounding::of(self.problem.types.d));
        // The sums here are in f64. Their own error counts where the product is f64 as well.
        let here = Rounding::of(DType::F64).gamma(n + k + 2);
        for (((got, want), squares), squares_d) in of_d.iter().zip(&expected).zip(&squares).zip(&squares_d) {
            let summed = SPREAD * (acc.gamma(2 * k + 2) + here) * squares.sqrt();
            let bound = SPREAD * (summed + stored.gamma(1) * squares_d.sqrt()) + acc.tiny * n as f64;
            checked.compare(*got, *want, bound);
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
    if shape.cols == 0 {
        return sums;
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = shape.rows.div_ceil(threads).max(1);
    let term = &term;
    thread::scope(|scope| {
        for (part, sums) in sums.chunks_mut(share).enumerate() {
            scope.spawn(move || {
                let first = part * share;
                // In memory order, for either layout.
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use ptx_gemm::{Layout, Problem, Schedule, Shape};

    use super::{Host, fill};

    const DEPTH: usize = 16_384;
    const ROWS: usize = 8;

    fn problem() -> Problem {
        "tile(16, 16, 8); thread(2, 2);".parse::<Schedule>().unwrap().problem().unwrap()
    }

    fn largest_error(of: impl Fn(usize, usize, &dyn Fn(usize, usize, usize) -> f64) -> f64) -> f64 {
        let shapes = [(ROWS, DEPTH), (DEPTH, ROWS), (ROWS, ROWS)].map(|(m, n)| Shape::packed(m, n, Layout::Row));
        let mut operands = [vec![0f32; ROWS * DEPTH], vec![0f32; ROWS * DEPTH]];
        (1..).zip(&mut operands).for_each(|(seed, elements)| fill(elements, seed));
        let [a, b] = &operands;
        let term = |row: usize, col: usize, k: usize| f64::from(a[row * DEPTH + k]) * f64::from(b[k * ROWS + col]);
        let d: Vec<f32> = (0..ROWS * ROWS).map(|index| of(index / ROWS, index % ROWS, &term) as f32).collect();
        let problem = problem();
        let host = Host {
            problem: &problem,
            a: (a, shapes[0]),
            b: (b, shapes[1]),
            c: None,
            d: (&d, shapes[2]),
            scalars: Vec::new(),
            vectors: Vec::new(),
        };
        host.check(3).max_error
    }

    /// An f32 sum in any order is right; a missing slab, a slab added twice, and wrong elements are not.
    #[test]
    fn a_slab_that_is_missing_is_found() {
        // Every use has the same operands, and so the same sums.
        let sums = RefCell::new(HashMap::new());
        let all = |row: usize, col: usize, term: &dyn Fn(usize, usize, usize) -> f64| {
            let sum = || (0..DEPTH).map(|k| term(row, col, k)).sum::<f64>();
            *sums.borrow_mut().entry((row, col)).or_insert_with(sum)
        };
        assert!(largest_error(all) < 1e-3);
        let in_f32 = |row, col, term: &dyn Fn(usize, usize, usize) -> f64| {
            f64::from((0..DEPTH).rev().fold(0f32, |sum, k| sum + term(row, col, k) as f32))
        };
        assert!(largest_error(in_f32) < 0.5);
        for slab in [1024, 512] {
            let part =
                |row, col, term: &dyn Fn(usize, usize, usize) -> f64| (0..slab).map(|k| term(row, col, k)).sum::<f64>();
            assert!(largest_error(|row, col, term| all(row, col, term) - part(row, col, term)) > 2.0, "{slab} missing");
            assert!(largest_error(|row, col, term| all(row, col, term) + part(row, col, term)) > 2.0, "{slab} twice");
        }
        assert!(largest_error(|_, _, _| 0.0) > 2.0);
        let one = |row, col, term: &dyn Fn(usize, usize, usize) -> f64| {
            all(row, col, term) + if (row, col) == (3, 5) { 100.0 } else { 0.0 }
        };
        assert!(largest_error(one) > 1.0);
    }

    #[test]
    fn nothing_to_sum_is_zero() {
        let (problem, empty) = (problem(), Vec::<f32>::new());
        let shape = |rows, cols| Shape::packed(rows, cols, Layout::Row);
        let d = [0f32; 12];
        let (a, b, d) = ((&empty[..], shape(3, 0)), (&empty[..], shape(0, 4)), (&d[..], shape(3, 4)));
        let host = Host { problem: &problem, a, b, c: None, d, scalars: Vec::new(), vectors: Vec::new() };
        let checked = host.check(1);
        assert!(checked.max_error == 0.0 && checked.compared > 12 && checked.sums > 0);
    }
}
