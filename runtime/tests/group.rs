//! `batch(grouped)`: products of different extents in one launch.

use ptx_gemm_runtime::{
    ArgumentError, CompiledGemm, Device, DeviceGroup, DeviceMatrix, DeviceProduct, Error, Matrix, Shape,
};

fn compiled(clauses: &str) -> CompiledGemm {
    CompiledGemm::new(&clauses.parse().unwrap(), &Device::interpreter()).unwrap()
}

const SMALL: &str = "tile(16, 8, 4); thread(4, 2); vector(2); batch(grouped);";

fn a(m: usize, k: usize) -> Matrix<f32> {
    Matrix::from_fn(m, k, |i, j| ((3 * i + 5 * j) % 7) as f32 - 3.0)
}

fn b(k: usize, n: usize) -> Matrix<f32> {
    Matrix::from_fn(k, n, |i, j| ((2 * i + 3 * j) % 5) as f32 - 2.0)
}

fn product(a: &Matrix<f32>, b: &Matrix<f32>) -> Matrix<f32> {
    let at = |of: &Matrix<f32>, i, j| of.get(i, j).unwrap();
    Matrix::from_fn(a.shape().rows, b.shape().cols, |i, j| {
        (0..a.shape().cols).map(|k| at(a, i, k) * at(b, k, j)).sum()
    })
}

fn every(gemm: &CompiledGemm, extents: &[(usize, usize, usize)]) {
    let all: Vec<_> = extents.iter().map(|&(m, n, k)| (a(m, k), b(k, n))).collect();
    let (left, right): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let results = gemm.multiply_group(&left, &right).unwrap();
    for (index, d) in results.iter().enumerate() {
        assert_eq!(*d, product(&left[index], &right[index]), "product {index} of {extents:?}");
    }
}

#[test]
fn products_of_any_extents() {
    let gemm = compiled(SMALL);
    every(&gemm, &[]);
    every(&gemm, &[(0, 3, 4)]);
    every(&gemm, &[(5, 3, 0)]);
    every(&gemm, &[(16, 8, 4)]);
    every(&gemm, &[(40, 17, 9), (1, 1, 1), (0, 8, 8), (33, 20, 5), (8, 0, 3), (16, 16, 0), (2, 50, 13)]);
    every(&gemm, &[(0, 0, 0), (0, 4, 4), (64, 24, 8), (0, 1, 2)]);
    let tiny: Vec<_> = (0..40).map(|i| (i % 4, (i * 3) % 5, i % 3)).collect();
    every(&gemm, &tiny);
}
