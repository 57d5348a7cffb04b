//! The epilogue's expression, element by element.
//!
//! `x * y + z` becomes one fused multiply-add, from left to right. A scalar of 0 drops `acc` or `c` where it is a
//! factor of the same product. Where every occurrence has the same scalar factors, the operand itself is zero (it was
//! never computed or loaded). Where the factors differ, each occurrence selects.

use std::collections::BTreeSet;

use ptx_gemm_dsl::epilogue::{Axis, BinaryOp, Epilogue, Expr, Function};

use super::functions::TANH;
use super::{Lowered, Lowering, broken};
use crate::kernel::{Math, Op, Reg, Value};

/// The operands of one element's expression.
pub(super) struct Element {
    pub acc: Reg,
    pub c: Option<Reg>,
    /// The element of each vector.
    pub vectors: Vec<Reg>,
}

/// The scalars that drop an operand in every occurrence if one of them is 0.
pub(super) struct Dropping {
    pub acc: Vec<usize>,
    pub c: Vec<usize>,
}

impl Dropping {
    pub(super) fn of(epilogue: &Epilogue) -> Dropping {
        Dropping { acc: epilogue.dropping_acc(), c: epilogue.dropping_c() }
    }
}

impl Lowering<'_> {
    /// Evaluates the epilogue for one element.
    pub(super) fn evaluate(&mut self, element: &Element) -> Lowered<Value> {
        let program = self.program;
        self.eval(&program.problem.epilogue.expr, element, &BTreeSet::new())
    }

    fn eval(&mut self, expr: &Expr, element: &Element, factors: &BTreeSet<usize>) -> Lowered<Value> {
        let none = BTreeSet::new();
        Ok(match expr {
            Expr::Acc => self.drop_unless(Value::Reg(element.acc), |drops| &drops.acc, factors),
            Expr::C => {
                let c = element.c.ok_or_else(|| broken("the epilogue reads a C that is not loaded"))?;
                self.drop_unless(Value::Reg(c), |drops| &drops.c, factors)
            }
            Expr::Scalar(i) => Value::Reg(self.args.scalars[*i]),
            Expr::Vector(i) => Value::Reg(element.vectors[*i]),
            Expr::Literal(x) => Value::Const(*x),
            Expr::Neg(x) => {
                let x = self.eval(x, element, factors)?;
                self.apply(Math::Neg, vec![x])
            }
            Expr::Binary(BinaryOp::Mul, x, y) => {
                let all = expr.scalar_factors(factors);
                let x = self.eval(x, element, &all)?;
                let y = self.eval(y, element, &all)?;
                self.apply(Math::Mul, vec![x, y])
            }
            Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), x, y) => self.sum(*op, x, y, element)?,
            Expr::Binary(BinaryOp::Div, x, y) => {
                let x = self.eval(x, element, &none)?;
                let y = self.eval(y, element, &none)?;
                self.apply(Math::Div, vec![x, y])
            }
            Expr::Call(function, args) => {
                let args: Vec<Value> = args.iter().map(|x| self.eval(x, element, &none)).collect::<Lowered<_>>()?;
                self.call(*function, &args)?
            }
        })
    }

    /// A sum or difference. Fuses one product, the left one if there are two.
    fn sum(&mut self, op: BinaryOp, x: &Expr, y: &Expr, element: &Element) -> Lowered<Value> {
        let none = BTreeSet::new();
        let minus = op == BinaryOp::Sub;
        if let Expr::Binary(BinaryOp::Mul, p, q) = x {
            let all = x.scalar_factors(&none);
            let (p, q) = (self.eval(p, element, &all)?, self.eval(q, element, &all)?);
            let mut rest = self.eval(y, element, &none)?;
            if minus {
                rest = self.apply(Math::Neg, vec![rest]);
            }
            return Ok(self.apply(Math::Fma, vec![p, q, rest]));
        }
        if let Expr::Binary(BinaryOp::Mul, p, q) = y {
            let rest = self.eval(x, element, &none)?;
            let all = y.scalar_factors(&none);
            let (mut p, q) = (self.eval(p, element, &all)?, self.eval(q, element, &all)?);
            if minus {
                p = self.apply(Math::Neg, vec![p]);
            }
            return Ok(self.apply(Math::Fma, vec![p, q, rest]));
        }
        let (x, y) = (self.eval(x, element, &none)?, self.eval(y, element, &none)?);
        Ok(self.apply(if minus { Math::Sub } else { Math::Add }, vec![x, y]))
    }

    fn call(&mut self, function: Function, args: &[Value]) -> Lowered<Value> {
        Ok(match (function, args) {
            (Function::Relu, [x]) => self.apply(Math::Max, vec![*x, Value::Const(0.0)]),
            (Function::Abs, [x]) => self.apply(Math::Abs, vec![*x]),
            (Function::Min, [x, y]) => self.apply(Math::Min, vec![*x, *y]),
            (Function::Max, [x, y]) => self.apply(Math::Max, vec![*x, *y]),
            (Function::Clamp, [x, low, high]) => {
                let x = self.apply(Math::Max, vec![*x, *low]);
                self.apply(Math::Min, vec![x, *high])
            }
            (Function::Exp, [x]) => self.exp(*x),
            (Function::Sigmoid, [x]) => self.sigmoid(*x),
            (Function::Silu, [x]) => self.silu(*x),
            (Function::Tanh, [x]) => self.rational(*x, &TANH),
            (Function::Gelu, [x]) => self.gelu(*x),
            (Function::GeluTanh, [x]) => self.gelu_tanh(*x),
            _ => return Err(broken(format!("there is no code for {function:?} with {} arguments", args.len()))),
        })
    }

    pub(super) fn apply(&mut self, op: Math, args: Vec<Value>) -> Value {
        let dst = self.value_register();
        self.b.math(op, dst, args);
        Value::Reg(dst)
    }

    /// The operand, or 0 if one of the scalars that multiply this occurrence is 0. Those in `common` multiply every
    /// occurrence.
    fn drop_unless(
        &mut self,
        value: Value,
        common: impl Fn(&Dropping) -> &Vec<usize>,
        factors: &BTreeSet<usize>,
    ) -> Value {
        let mut value = value;
        for scalar in factors {
            if common(&self.dropping).contains(scalar) {
                continue;
            }
            let pred = self.b.fresh_pred();
            self.b.push(Op::IsZero { dst: pred, src: self.args.scalars[*scalar] });
            let dst = self.value_register();
            self.b.push(Op::Select { dst, pred, yes: Value::Const(0.0), no: value });
            value = Value::Reg(dst);
        }
        value
    }

    /// A register for an intermediate value, reused from one group of elements to the next.
    fn value_register(&mut self) -> Reg {
        if self.values.used == self.values.pool.len() {
            let reg = self.b.fresh(self.families.value);
            self.values.pool.push(reg);
        }
        self.values.used += 1;
        self.values.pool[self.values.used - 1]
    }
}

/// Whether the vector has one element per row.
pub(super) fn per_row(axis: Axis) -> bool {
    axis == Axis::M
}
