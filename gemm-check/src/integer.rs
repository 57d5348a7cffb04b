//! The same product in i32: exact, modulo 2^32.

use ptx_gemm_dsl::epilogue::{Axis, BinaryOp, Epilogue, Expr, Function};
use rayon::prelude::*;

use crate::data::Values;
use crate::epilogue::Product;

/// The sums over k, row by row, modulo 2^32.
pub(crate) fn product(a: &Values, b: &Values) -> Vec<i32> {
    let n = b.cols;
    let mut sums = vec![0i32; a.rows * n];
    if sums.is_empty() {
        return sums;
    }
    let b: Vec<i32> = b.elements.iter().map(|&x| x as i32).collect();
    sums.par_chunks_mut(n).enumerate().for_each(|(row, sums)| {
        for k in 0..a.cols {
            let x = a.at(row, k) as i32;
            sums.iter_mut().zip(&b[k * n..]).for_each(|(to, y)| *to = to.wrapping_add(x.wrapping_mul(*y)));
        }
    });
    sums
}

/// The operands of the expression at one element of D.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The accumulator.
    pub acc: i32,
    /// The element of C.
    pub c: i32,
    /// Its row.
    pub row: usize,
    /// Its column.
    pub col: usize,
    /// In the order of the epilogue.
    pub scalars: &'a [f64],
    /// In the order of the epilogue.
    pub vectors: &'a [Vec<f64>],
}

/// The epilogue in i32; `None` if it is undefined because of a division by 0.
pub fn evaluate(epilogue: &Epilogue, operands: &Operands<'_>) -> Option<i32> {
    of(epilogue, operands, &epilogue.expr, Product::Kept)
}

fn of(epilogue: &Epilogue, operands: &Operands<'_>, expr: &Expr, product: Product) -> Option<i32> {
    let value = |expr: &Expr| of(epilogue, operands, expr, Product::Kept);
    Some(match expr {
        Expr::Acc | Expr::C if product == Product::Dropped => 0,
        Expr::Acc => operands.acc,
        Expr::C => operands.c,
        Expr::Scalar(index) => operands.scalars[*index] as i32,
        Expr::Vector(index) => {
            let at = if epilogue.vectors[*index].axis == Axis::M { operands.row } else { operands.col };
            operands.vectors[*index][at] as i32
        }
        Expr::Literal(value) => *value as i32,
        Expr::Neg(x) => of(epilogue, operands, x, product)?.wrapping_neg(),
        Expr::Binary(BinaryOp::Mul, x, y) => {
            let product = product.within(expr, operands.scalars);
            of(epilogue, operands, x, product)?.wrapping_mul(of(epilogue, operands, y, product)?)
        }
        Expr::Binary(BinaryOp::Add, x, y) => value(x)?.wrapping_add(value(y)?),
        Expr::Binary(BinaryOp::Sub, x, y) => value(x)?.wrapping_sub(value(y)?),
        Expr::Binary(BinaryOp::Div, x, y) => {
            let (x, y) = (value(x)?, value(y)?);
            if y == 0 {
                return None;
            }
            x.wrapping_div(y)
        }
        Expr::Call(function, args) => {
            let args = args.iter().map(value).collect::<Option<Vec<i32>>>()?;
            call(*function, &args)?
        }
    })
}

fn call(function: Function, args: &[i32]) -> Option<i32> {
    match (function, args) {
        (Function::Relu, [x]) => Some((*x).max(0)),
        (Function::Abs, [x]) => Some(x.wrapping_abs()),
        (Function::Min, [x, y]) => Some(*x.min(y)),
        (Function::Max, [x, y]) => Some(*x.max(y)),
        (Function::Clamp, [x, low, high]) => Some((*x).max(*low).min(*high)),
        _ => None,
    }
}
