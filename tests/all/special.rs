//! NaN, infinities, zeros and subnormal numbers, and memory outside the matrices.
//!
//! A kernel without split-K adds its products in ascending order of k with one fused multiply-add each, so a loop on
//! the CPU gives the same numbers, bit for bit.

use ptx_gemm::{CompiledGemm, Device, Layout, Matrix, MatrixMut, MatrixRef, Shape};

use ptx_gemm_check::cases;

use crate::conformance::{KINDS, gemm};

const M: usize = 9;
const N: usize = 7;
const K: usize = 5;

/// Matrix, row, column and value of a special element.
type Place = (char, usize, usize, f32);

/// The scalars, and the special elements of matrices that otherwise hold small integers.
struct Special {
    name: &'static str,
    places: &'static [Place],
    alpha: f32,
    beta: f32,
}

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;
const TINY: f32 = f32::from_bits(1);

const SPECIALS: [Special; 20] = [
    special("NaN in A makes its row", &[('a', 2, 1, NAN)], 1.0, 1.0),
    special("NaN in B makes its column", &[('b', 4, 6, NAN)], 1.0, 1.0),
    special("NaN in C makes its element", &[('c', 8, 0, NAN)], 1.0, 1.0),
    special("infinity in A", &[('a', 0, 0, INF)], 1.0, 0.0),
    special("negative infinity in B", &[('b', 0, 3, -INF)], -1.0, 2.0),
    special("infinities of both signs", &[('a', 1, 0, INF), ('a', 1, 4, -INF)], 1.0, 0.0),
    special("infinity times zero", &[('a', 3, 2, INF), ('b', 2, 5, 0.0)], 1.0, 0.0),
    special("infinity in C against one in the product", &[('c', 0, 0, -INF), ('a', 0, 1, INF)], 1.0, 1.0),
    special("alpha = 0 does not see a NaN in A", &[('a', 2, 1, NAN)], 0.0, 1.0),
    special("alpha = 0 does not see an infinity in B", &[('b', 2, 1, INF)], 0.0, 1.0),
    special("beta = 0 does not see a NaN in C", &[('c', 5, 5, NAN)], 1.0, 0.0),
    special("neither sees anything", &[('a', 0, 0, NAN), ('b', 0, 0, INF), ('c', 1, 1, NAN)], 0.0, 0.0),
    special("alpha = -0 is 0", &[('a', 2, 1, NAN)], -0.0, 1.0),
    special("beta = -0 is 0", &[('c', 2, 1, INF)], 1.0, -0.0),
    special("alpha is NaN", &[], NAN, 0.0),
    special("beta is infinite", &[('c', 4, 4, 0.0)], 1.0, INF),
    special("sums that pass the largest number", &[('a', 6, 0, f32::MAX), ('b', 0, 2, 4.0)], 1.0, 0.0),
    special("alpha brings an overflow", &[('a', 6, 0, f32::MAX)], 3.0, 1.0),
    special("subnormal numbers stay", &[('a', 0, 0, TINY), ('a', 0, 1, -TINY), ('b', 0, 0, 1.0)], 1.0, 0.0),
    special("a subnormal product", &[('a', 0, 3, 1e-30), ('b', 3, 1, 1e-12), ('c', 0, 1, TINY)], 1.0, 1.0),
];

const fn special(name: &'static str, places: &'static [Place], alpha: f32, beta: f32) -> Special {
    Special { name, places, alpha, beta }
}

/// The three matrices, row by row.
fn matrices(special: &Special) -> [Matrix<f32>; 3] {
    let mut all = [('a', M, K), ('b', K, N), ('c', M, N)].map(|(name, rows, cols)| {
        let small = move |row, col| ((row * 5 + col * 3 + name as usize) % 7) as f32 - 3.0;
        (name, Matrix::from_fn(rows, cols, small))
    });
    // A row of zeros, so that a special value is the only term of its sum: subnormal sums are kept.
    all[0].1.as_mut_slice()[..K].fill(0.0);
    for (to, matrix) in &mut all {
        for &(_, row, col, value) in special.places.iter().filter(|(name, ..)| name == to) {
            let cols = matrix.cols();
            matrix.as_mut_slice()[row * cols + col] = value;
        }
    }
    all.map(|(_, matrix)| matrix)
}

/// One element as the language defines it.
fn element(Special { alpha, beta, .. }: &Special, [a, b, c]: &[Matrix<f32>; 3], row: usize, col: usize) -> f32 {
    let at = |matrix: &Matrix<f32>, row, col| matrix.get(row, col).unwrap_or(NAN);
    let acc = (0..K).fold(0.0f32, |acc, k| at(a, row, k).mul_add(at(b, k, col), acc));
    // A scalar of 0 drops the operand that it multiplies.
    let scaled = |scalar: f32, value: f32| if scalar == 0.0 { 0.0 } else { scalar * value };
    let added = scaled(*beta, at(c, row, col));
    if *alpha == 0.0 { added } else { alpha.mul_add(acc, added) }
}

fn same(got: f32, expected: f32) -> bool {
    got == expected || got.is_nan() && expected.is_nan()
}

#[test]
fn special_values_go_where_ieee_says() {
    for kind in KINDS {
        for layout in [Layout::Row, Layout::Col] {
            let gemm = gemm(kind, [layout; 4], &Device::interpreter());
            for special in &SPECIALS {
                let data = matrices(special);
                let [a, b, c] = data.clone().map(|matrix| matrix.to_layout(layout));
                let call = gemm.set("alpha", special.alpha).set("beta", special.beta).c(&c);
                let d: Matrix<f32> = call.multiply(&a, &b).unwrap_or_else(|e| panic!("{}: {e}", special.name));
                for (row, col) in (0..M).flat_map(|row| (0..N).map(move |col| (row, col))) {
                    let (got, expected) = (d.get(row, col).unwrap(), element(special, &data, row, col));
                    let what =
                        || format!("{}: {kind} {layout}: D[{row}, {col}] is {got}, not {expected}", special.name);
                    assert!(same(got, expected), "{}", what());
                }
            }
        }
    }
}

/// The same for every f32 case that neither divides K nor splits elements, with random data, so that the
/// order of summation matters.
#[test]
fn unsplit_sums_ascend_with_k() {
    let [m, n, k] = [33, 29, 71];
    let (a, b) = (Matrix::<f32>::random(m, k, 1), Matrix::<f32>::random(k, n, 2));
    let (a_at, b_at) = (|row, k| a.get(row, k).unwrap(), |k, col| b.get(k, col).unwrap());
    let add = |row, col| move |acc: f32, k| a_at(row, k).mul_add(b_at(k, col), acc);
    let (mut kernels, mut by_tma) = (0, 0);
    for case in cases() {
        let schedule = case.schedule().unwrap();
        let text = schedule.to_string();
        if ["types", "atom", "split_k", "stream_k", "emulate", "strassen"].iter().any(|clause| text.contains(clause)) {
            continue;
        }
        let gemm = CompiledGemm::new(&schedule, &Device::interpreter()).unwrap();
        let layouts = gemm.problem().layouts;
        // The product alone: 1 times the sums, and nothing of C.
        let scalars = gemm.problem().epilogue.scalars.iter();
        let value = |name: &String| if name == "beta" { 0.0 } else { 1.0 };
        let call = scalars.fold(gemm.call(), |call, name| call.set(name, value(name)));
        let d: Matrix<f32> = call.multiply(&a.to_layout(layouts.a), &b.to_layout(layouts.b)).unwrap();
        for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let (got, expected) = (d.get(row, col).unwrap(), (0..k).fold(0.0, add(row, col)));
            assert_eq!(got.to_bits(), expected.to_bits(), "{}: D[{row}, {col}] is {got}, not {expected}", case.name);
        }
        (kernels, by_tma) = (kernels + 1, by_tma + usize::from(text.contains("load(tma)")));
    }
    assert!(kernels >= 50 && by_tma >= 8, "{kernels} kernels, {by_tma} with TMA");
    let differ = |(row, col)| (0..k).fold(0.0, add(row, col)) != (0..k).rev().fold(0.0, add(row, col));
    assert!((0..m).flat_map(|row| (0..n).map(move |col| (row, col))).filter(|at| differ(*at)).count() > m * n / 2);
}

/// The cases above test what their names say: each has such an element.
#[test]
fn special_cases_are_special() {
    for special in &SPECIALS {
        let data = matrices(special);
        let all = (0..M * N).map(|i| element(special, &data, i / N, i % N));
        let (mut usual, mut unusual) = (0, 0);
        all.for_each(|x| if x == 0.0 || x.is_normal() { usual += 1 } else { unusual += 1 });
        let dropped =
            special.alpha == 0.0 || special.beta == 0.0 && special.places.iter().all(|(name, ..)| *name == 'c');
        let dropped = dropped && !special.alpha.is_nan();
        assert_eq!(unusual == 0, dropped, "{}: {usual} usual and {unusual} unusual elements", special.name);
    }
}

/// A matrix in the middle of a slice of NaN, with margins around it.
struct Banded {
    slice: Vec<f32>,
    shape: Shape,
}

/// Number of margin elements before and after a matrix.
const BAND: usize = 67;

impl Banded {
    fn new(rows: usize, cols: usize, layout: Layout, ld_more: usize, seed: u64) -> Banded {
        let packed = Shape::packed(rows, cols, layout);
        let shape = Shape { ld: packed.ld + ld_more, ..packed };
        let mut slice = vec![f32::from_bits(0x7fc0_0000 | seed as u32); 2 * BAND + shape.len().unwrap()];
        let values = Matrix::<f32>::random(rows, cols, seed);
        for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
            slice[BAND + shape.index(row, col)] = values.get(row, col).unwrap();
        }
        Banded { slice, shape }
    }

    fn inside(&self) -> std::ops::Range<usize> {
        BAND..self.slice.len() - BAND
    }

    fn view(&self) -> MatrixRef<'_, f32> {
        MatrixRef::in_shape(&self.slice[self.inside()], self.shape)
    }

    fn bits(&self) -> Vec<u32> {
        self.slice.iter().map(|x| x.to_bits()).collect()
    }

    /// Indices in the slice that are not elements of the matrix.
    fn outside(&self) -> Vec<usize> {
        let (run, ld, inside) = (self.shape.run(), self.shape.ld, self.inside());
        (0..self.slice.len()).filter(|i| !inside.contains(i) || (i - BAND) % ld >= run).collect()
    }
}

fn check_bands(gemm: &CompiledGemm, layout: Layout, [m, n, k]: [usize; 3], ld_more: usize) {
    let make = |rows, cols, seed| Banded::new(rows, cols, layout, ld_more, seed);
    let (a, b, c, mut d) = (make(m, k, 1), make(k, n, 2), make(m, n, 3), make(m, n, 4));
    let before = [&a, &b, &c, &d].map(Banded::bits);
    let inside = d.inside();
    let mut view = MatrixMut::in_shape(&mut d.slice[inside.clone()], d.shape);
    let call = gemm.set("alpha", 1.5).set("beta", -0.5);
    let (of_a, of_b, of_c) = (a.view(), b.view(), c.view());
    call.c(&of_c).multiply_into(&of_a, &of_b, &mut view).unwrap();
    let what = format!("{m} x {n} x {k}, {layout}, leading dimensions + {ld_more}");
    for (matrix, before) in [&a, &b, &c].into_iter().zip(&before) {
        assert_eq!(&matrix.bits(), before, "{what}: an input changed");
    }
    let after = d.bits();
    let outside = d.outside();
    assert!(outside.len() >= 2 * BAND, "{what}: D has no margins");
    assert!(outside.iter().all(|&i| after[i] == before[3][i]), "{what}: the margins of D changed");
    let element = |i: usize| d.slice[BAND + d.shape.index(i / n, i % n)];
    assert!(m * n > 0 && (0..m * n).all(|i| element(i).is_finite()), "{what}: a margin was read");
}

#[test]
fn guard_bands_are_neither_read_nor_written() {
    let device = Device::interpreter();
    for kind in KINDS {
        for layout in [Layout::Row, Layout::Col] {
            let gemm = gemm(kind, [layout; 4], &device);
            for extents in [[1, 1, 1], [3, 5, 2], [31, 33, 9], [64, 64, 16], [65, 130, 17]] {
                for ld_more in [0, 1, 4, 61] {
                    check_bands(&gemm, layout, extents, ld_more);
                }
            }
        }
    }
}
