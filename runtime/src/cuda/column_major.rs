//! A product in the form that NVIDIA's libraries take, which store their matrices column by column.
//!
//! A row-major matrix is, in the same memory, the transpose of a column-major one. A row-major D is therefore computed
//! as D^T = B^T A^T, with B as the library's first operand.

use ptx_gemm_dsl::types::Types;
use ptx_gemm_dsl::{DType, Layout};

use crate::arguments::DeviceMatrix;
use crate::error::DeviceError;

/// D = A B as a product of column-major matrices.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnMajor {
    pub(super) left: Operand,
    pub(super) right: Operand,
    pub(super) out: Operand,
    /// Rows and columns of the result, and terms of its sums.
    pub(super) extents: [i32; 3],
    pub(super) sums: Sums,
}

/// A matrix as a library sees it: column-major, `rows` x `cols`, with `ld` elements from column to column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Operand {
    pub(super) address: u64,
    pub(super) dtype: DType,
    /// Whether the product takes its transpose.
    pub(super) transposed: bool,
    pub(super) rows: i32,
    pub(super) cols: i32,
    pub(super) ld: i32,
    /// Matrices, and elements from one to the next.
    pub(super) count: i32,
    pub(super) stride: i64,
}

/// The type of the accumulator, which is also the type of alpha and beta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    F16,
    F32,
    /// f32, from operands rounded to tf32.
    Tf32,
    F64,
    I32,
    /// f32, from 8-bit floats.
    Fp8,
}

/// alpha and beta, in the type of the accumulator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalars {
    Half([half::f16; 2]),
    Float([f32; 2]),
    Double([f64; 2]),
    Integer([i32; 2]),
}

impl ColumnMajor {
    /// # Errors
    ///
    /// The libraries have no product of these types, or an extent exceeds their integers.
    pub(super) fn of(types: Types, [a, b, d]: [DeviceMatrix; 3]) -> Result<ColumnMajor, DeviceError> {
        let sums = Sums::of(types).ok_or_else(|| {
            let Types { a, b, acc, d, .. } = types;
            refused(&format!("it has no product of {a} and {b} with accumulators in {acc} and results in {d}"))
        })?;
        let operand = |matrix, dtype| Operand::of(matrix, dtype, d.shape.layout);
        let (ours, theirs) = (operand(a, types.a)?, operand(b, types.b)?);
        let (m, n, k) = (integer(d.shape.rows)?, integer(d.shape.cols)?, integer(a.shape.cols)?);
        let (left, right, extents) = match d.shape.layout {
            Layout::Col => (ours, theirs, [m, n, k]),
            Layout::Row => (theirs, ours, [n, m, k]),
        };
        Ok(ColumnMajor { left, right, out: operand(d, types.d)?, extents, sums })
    }
}

impl Operand {
    /// A column-major reader takes a matrix in the layout of D as it is, and a matrix in the other layout as its
    /// transpose.
    fn of(matrix: DeviceMatrix, dtype: DType, wanted: Layout) -> Result<Operand, DeviceError> {
        let DeviceMatrix { address, shape, stack } = matrix;
        let stride = i64::try_from(stack.stride)
            .map_err(|_| refused(&format!("a batch stride of {} is more than it supports", stack.stride)))?;
        Ok(Operand {
            address,
            dtype,
            transposed: shape.layout != wanted,
            rows: integer(shape.run())?,
            cols: integer(shape.runs())?,
            ld: integer(shape.ld)?,
            count: integer(stack.count)?,
            stride,
        })
    }
}

impl Sums {
    /// `None` if the libraries have no such product (cuBLAS documentation, "cublasGemmEx" and "cublasLtMatmul", the
    /// tables of compute types).
    fn of(types: Types) -> Option<Sums> {
        use DType::*;
        Some(match (types.a, types.b, types.acc, types.d) {
            (F64, F64, F64, F64) => Sums::F64,
            (Tf32, Tf32, F32, F32 | Tf32) => Sums::Tf32,
            (E5m2, E5m2, ..) => return None,
            (E4m3 | E5m2, E4m3 | E5m2, F32, Bf16 | F16 | F32) => Sums::Fp8,
            (F32, F32, F32, F32) | (F16, F16, F32, F16 | F32) | (Bf16, Bf16, F32, Bf16 | F32) | (I8, I8, F32, F32) => {
                Sums::F32
            }
            (F16, F16, F16, F16) => Sums::F16,
            (I8, I8, I32, I32) => Sums::I32,
            _ => return None,
        })
    }

    /// alpha = 1 and beta = 0.
    pub(super) fn scalars(self) -> Scalars {
        match self {
            Sums::F16 => Scalars::Half([half::f16::ONE, half::f16::ZERO]),
            Sums::F32 | Sums::Tf32 | Sums::Fp8 => Scalars::Float([1.0, 0.0]),
            Sums::F64 => Scalars::Double([1.0, 0.0]),
            Sums::I32 => Scalars::Integer([1, 0]),
        }
    }
}

impl Scalars {
    /// Where alpha and beta are, for a call that reads them before it returns.
    pub(super) fn pointers(&self) -> [*const std::ffi::c_void; 2] {
        match self {
            Scalars::Half(both) => both.each_ref().map(|one| std::ptr::from_ref(one).cast()),
            Scalars::Float(both) => both.each_ref().map(|one| std::ptr::from_ref(one).cast()),
            Scalars::Double(both) => both.each_ref().map(|one| std::ptr::from_ref(one).cast()),
            Scalars::Integer(both) => both.each_ref().map(|one| std::ptr::from_ref(one).cast()),
        }
    }
}

fn integer(extent: usize) -> Result<i32, DeviceError> {
    i32::try_from(extent).map_err(|_| refused(&format!("an extent of {extent} is more than it supports")))
}

pub(super) fn refused(message: &str) -> DeviceError {
    DeviceError::Cublas { message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Shape, Stack};

    const LAYOUTS: [Layout; 2] = [Layout::Row, Layout::Col];

    /// A matrix with its index in `memory` as its address, with 2 elements between its runs and 3 between matrices.
    fn matrix(address: u64, rows: usize, cols: usize, layout: Layout, count: usize) -> DeviceMatrix {
        let packed = Shape::packed(rows, cols, layout);
        let shape = Shape { ld: packed.ld + 2, ..packed };
        let stack = Stack { count, stride: shape.len().expect("small") + 3 };
        DeviceMatrix { address, shape, stack }
    }

    /// An element of an operand, as cublasGemmEx defines its place.
    fn at(memory: &[i64], operand: &Operand, product: i32, row: i32, col: i32) -> i64 {
        let (row, col) = if operand.transposed { (col, row) } else { (row, col) };
        assert!(row < operand.rows && col < operand.cols && operand.rows <= operand.ld, "{operand:?}");
        let offset = i64::from(product) * operand.stride + i64::from(col) * i64::from(operand.ld) + i64::from(row);
        memory[operand.address as usize + offset as usize]
    }

    #[test]
    fn every_layout_gives_the_product() {
        let memory: Vec<i64> = (0..2000).map(|index| (index * 37 + index * index % 91) % 101 - 50).collect();
        let (m, n, k, count) = (3, 5, 7, 2);
        for [a, b, d] in LAYOUTS.map(|a| LAYOUTS.map(|b| LAYOUTS.map(|d| [a, b, d]))).as_flattened().as_flattened() {
            let (a, b, d) = (matrix(0, m, k, *a, count), matrix(500, k, n, *b, count), matrix(1000, m, n, *d, count));
            let types = Types { a: DType::I8, b: DType::I8, acc: DType::I32, c: DType::I32, d: DType::I32 };
            let product = ColumnMajor::of(types, [a, b, d]).expect("supported");
            let [rows, cols, terms] = product.extents;
            assert!(!product.out.transposed && (product.out.rows, product.out.cols) == (rows, cols));
            for (index, row, col) in (0..count).flat_map(|i| (0..m).flat_map(move |r| (0..n).map(move |c| (i, r, c)))) {
                let ours = |of: DeviceMatrix, row, col| {
                    memory[of.address as usize + index * of.stack.stride + of.shape.index(row, col)]
                };
                let expected: i64 = (0..k).map(|k| ours(a, row, k) * ours(b, k, col)).sum();
                // The place where the library stores this element, which has to be its place in D.
                let place = index * d.stack.stride + d.shape.index(row, col);
                let within = place as i32 - index as i32 * product.out.stride as i32;
                let (x, y) = (within % product.out.ld, within / product.out.ld);
                let (of, index) = (&product, index as i32);
                let left = |k| at(&memory, &of.left, index, x, k);
                let got: i64 = (0..terms).map(|k| left(k) * at(&memory, &of.right, index, k, y)).sum();
                assert_eq!(got, expected, "{:?} {:?} {:?}: ({row}, {col})", a.shape, b.shape, d.shape);
            }
        }
    }

    #[test]
    fn scalars_have_the_type_of_the_sums() {
        let types = |a, acc, d| Types { a, b: a, acc, c: d, d };
        let of = |types| Sums::of(types).map(Sums::scalars);
        assert_eq!(of(types(DType::Bf16, DType::F32, DType::Bf16)), Some(Scalars::Float([1.0, 0.0])));
        assert_eq!(of(types(DType::F64, DType::F64, DType::F64)), Some(Scalars::Double([1.0, 0.0])));
        assert_eq!(of(types(DType::I8, DType::I32, DType::I32)), Some(Scalars::Integer([1, 0])));
        assert_eq!(of(types(DType::I8, DType::F32, DType::F32)), Some(Scalars::Float([1.0, 0.0])));
        assert!(matches!(of(types(DType::F16, DType::F16, DType::F16)), Some(Scalars::Half(_))));
        assert_eq!(of(types(DType::Bf16, DType::F32, DType::F16)), None);
        assert_eq!(of(types(DType::Tf32, DType::F32, DType::Tf32)), Some(Scalars::Float([1.0, 0.0])));
        assert_eq!(of(types(DType::E4m3, DType::F32, DType::Bf16)), Some(Scalars::Float([1.0, 0.0])));
        assert_eq!(of(types(DType::E5m2, DType::F32, DType::Bf16)), None);
    }

    #[test]
    fn what_exceeds_their_integers_is_refused() {
        let types = Types { a: DType::F32, b: DType::F32, acc: DType::F32, c: DType::F32, d: DType::F32 };
        let of = |rows, cols| DeviceMatrix::new(0, Shape::packed(rows, cols, Layout::Col));
        let error = ColumnMajor::of(types, [of(1 << 31, 1), of(1, 1), of(1 << 31, 1)]).unwrap_err().to_string();
        assert!(error.contains("2147483648 is more than it supports"), "{error}");
    }
}
