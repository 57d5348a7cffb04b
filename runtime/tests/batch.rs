//! Batches, split-K and persistent grids through the public interface.

use ptx_gemm_dsl::Schedule;
use ptx_gemm_runtime::{CompiledGemm, Device, Error, INTERPRETER_WAVE, Matrix, MatrixBatch, MatrixMut, MatrixRef};

const CLAUSES: &str = "tile(16, 16, 8); thread(2, 4); vector(4);";

fn compiled(more: &str) -> CompiledGemm {
    let schedule: Schedule = format!("{CLAUSES}{more}").parse().unwrap();
    CompiledGemm::new(&schedule, &Device::interpreter()).unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Argument(_)), "{error:?}");
    assert_eq!(error.to_string(), words);
}

#[test]
fn a_batch_is_its_products() {
    let one = compiled("");
    let many = compiled("batch(strided);");
    let (a, b) = (MatrixBatch::<f32>::random(3, 20, 9, 1), MatrixBatch::<f32>::random(3, 9, 18, 2));
    let d = many.call().multiply_batch_as::<f32>(&a, &b).unwrap();
    for product in 0..3 {
        let expected: Matrix<f32> = one.multiply(&a.product(product).unwrap(), &b.product(product).unwrap()).unwrap();
        for (row, col) in (0..20).flat_map(|row| (0..18).map(move |col| (row, col))) {
            assert_eq!(d.get(product, row, col), expected.get(row, col), "product {product}, D[{row}, {col}]");
        }
    }
    let [rows, cols] = [20, 18];
    assert!(d.get(2, rows - 1, cols - 1).is_some());
    assert_eq!([d.get(3, 0, 0), d.get(0, rows, 0), d.get(0, 0, cols)], [None; 3]);
}

#[test]
fn one_operand_may_serve_every_product_and_gaps_stay() {
    let gemm = compiled("batch(strided);");
    let a = MatrixBatch::<f32>::from_fn(2, 4, 3, |product, _, _| (product + 1) as f32);
    let b = [1.0f32; 12];
    let shared = MatrixRef::new(&b, 3, 4).stack(2, 0);
    let mut d = [-1.0f32; 40];
    gemm.multiply_into(&a, &shared, &mut MatrixMut::new(&mut d, 4, 4).stack(2, 20)).unwrap();
    for (index, value) in d.into_iter().enumerate() {
        let expected = if index % 20 < 16 { 3.0 * (1 + index / 20) as f32 } else { -1.0 };
        assert_eq!(value, if index < 36 { expected } else { -1.0 }, "element {index}");
    }
}

#[test]
fn wrong_batches_are_refused() {
    let (one, many) = (compiled(""), compiled("batch(strided);"));
    let data = [1.0f32; 64];
    let matrix = MatrixRef::new(&data, 4, 4);
    let words = "A is 2 matrices, 1 are needed; batch(strided) computes many products";
    refused(one.multiply_as::<f32>(&matrix.stack(2, 16), &matrix), words);
    refused(many.multiply_as::<f32>(&matrix.stack(2, 16), &matrix.stack(3, 16)), "B is 3 matrices, 2 are needed");
    let words = "the slice of B has 64 elements, 4 x 4 with ldb = 4 needs 76";
    let mut d = [0.0f32; 64];
    let into = |b: MatrixRef<'_, f32>, d: MatrixMut<'_, f32>| {
        let mut d = d;
        many.multiply_into(&matrix.stack(3, 16), &b, &mut d)
    };
    refused(into(matrix.stack(3, 30), MatrixMut::new(&mut d, 4, 4).stack(3, 16)), words);
    let words = "D's matrices are 15 elements apart, each takes 16";
    refused(into(matrix.stack(3, 16), MatrixMut::new(&mut d, 4, 4).stack(3, 15)), words);
    let nothing = into(matrix.stack(3, 0), MatrixMut::new(&mut d, 4, 4).stack(3, 16));
    assert!(nothing.is_ok(), "{nothing:?}");
    let mut empty = MatrixMut::new(&mut d, 4, 4).stack(0, 16);
    assert_eq!(many.multiply_into(&matrix.stack(0, 0), &matrix.stack(0, 0), &mut empty).unwrap().entry, None);
}

#[test]
fn split_and_persistent_products_are_the_same() {
    let (a, b) = (
        Matrix::<f32>::from_fn(40, 50, |i, k| (i % 7 + k % 5) as f32),
        Matrix::from_fn(50, 60, |k, j| (k % 3 + j % 4) as f32),
    );
    let expected: Matrix<f32> = compiled("").multiply(&a, &b).unwrap();
    for (more, blocks) in [
        ("split_k(3, reduce = serial);", 36),
        ("split_k(5, reduce = workspace);", 60),
        ("persistent;", INTERPRETER_WAVE),
        ("persistent(2);", 2),
        ("persistent(1000);", 12),
        ("split_k(2, reduce = serial); persistent(4);", 4),
    ] {
        let mut d = Matrix::zeros(40, 60);
        let run = compiled(more).multiply_into(&a, &b, &mut d).unwrap();
        assert_eq!((run.blocks, &d), (blocks, &expected), "{more}");
    }
}
