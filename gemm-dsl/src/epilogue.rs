//! The epilogue: the expression that turns an accumulator into an element of D.
//!
//! `|acc, c, alpha, beta, bias| relu(alpha * acc + beta * c + bias[n])`: `acc` is the accumulator and `c` the element
//! of C. A name indexed by `[m]` or `[n]` is a vector with one element per row or column of D. Any other name is a
//! run-time scalar.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

/// A function of one to three arguments, all of the accumulator's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `max(x, 0)`, NaN stays NaN.
    Relu,
    /// Absolute value.
    Abs,
    /// Smaller of two; NaN if either is NaN.
    Min,
    /// Larger of two; NaN if either is NaN.
    Max,
    /// `clamp(x, low, high)` = `min(max(x, low), high)`.
    Clamp,
    /// e to the x.
    Exp,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `x / 2 * (1 + erf(x / sqrt 2))`; 0 for -infinity.
    Gelu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))` (Hendrycks and Gimpel); 0 for -infinity.
    GeluTanh,
    /// `x * sigmoid(x)`; 0 for -infinity.
    Silu,
}

/// One of the four operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
}

impl Function {
    /// The number of arguments.
    pub fn arity(self) -> usize {
        match self {
            Function::Min | Function::Max => 2,
            Function::Clamp => 3,
            _ => 1,
        }
    }

    /// Maximum instructions of one call in f32; older targets take a few more.
    pub fn instructions(self) -> u32 {
        match self {
            Function::Abs => 1,
            Function::Relu | Function::Min | Function::Max => 4,
            Function::Clamp => 8,
            Function::GeluTanh => 12,
            Function::Exp => 17,
            Function::Sigmoid | Function::Gelu => 20,
            Function::Tanh => 23,
            Function::Silu => 25,
        }
    }

    /// True for functions that return one of their arguments, or 0.
    pub fn chooses(self) -> bool {
        matches!(self, Function::Relu | Function::Min | Function::Max | Function::Clamp)
    }

    /// True for functions of floating-point types only.
    pub fn is_transcendental(self) -> bool {
        use Function::{Exp, Gelu, GeluTanh, Sigmoid, Silu, Tanh};
        matches!(self, Exp | Tanh | Sigmoid | Gelu | GeluTanh | Silu)
    }

    /// The largest error of a transcendental function, relative to its value. For both forms of `gelu` it is relative
    /// to the argument, since the value can be the difference of nearly equal numbers. Values below 2^-126 may also be
    /// 0, and so may those of the `sigmoid` within `silu`.
    pub const ERROR: f64 = 1.0 / (1 << 20) as f64;
}

impl BinaryOp {
    /// The operator as written.
    pub fn symbol(self) -> char {
        match self {
            BinaryOp::Add => '+',
            BinaryOp::Sub => '-',
            BinaryOp::Mul => '*',
            BinaryOp::Div => '/',
        }
    }
}

/// The dimension that indexes a vector operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// One element per row of D.
    M,
    /// One element per column of D.
    N,
}

impl Axis {
    /// The corresponding dimension of the transpose of D.
    pub fn transposed(self) -> Axis {
        match self {
            Axis::M => Axis::N,
            Axis::N => Axis::M,
        }
    }
}

/// A node of the expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// The accumulated sum over k of A[m,k] B[k,n].
    Acc,
    /// The element of C.
    C,
    /// A run-time scalar: an index into [`Epilogue::scalars`].
    Scalar(usize),
    /// An element of a vector: an index into [`Epilogue::vectors`].
    Vector(usize),
    /// A literal.
    Literal(f64),
    /// Unary minus.
    Neg(Box<Expr>),
    /// A binary operation.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// A function call; the number of arguments is the function's.
    Call(Function, Vec<Expr>),
}

/// A vector operand of the epilogue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Vector {
    /// Its name in the schedule.
    pub name: String,
    /// The dimension of D that indexes it.
    pub axis: Axis,
}

/// The epilogue of a schedule.
///
/// `x * y + z` is one fused multiply-add, left to right. A run-time scalar equal to 0 that multiplies `acc` or `c`
/// drops that operand without reading it, and the operand counts as 0. Any other 0 times NaN follows IEEE. relu, min,
/// max and clamp propagate NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Epilogue {
    /// Names of the run-time scalars, in the order they were declared.
    pub scalars: Vec<String>,
    /// The vector operands, in the order they were declared.
    pub vectors: Vec<Vector>,
    /// The names as declared between the bars, for printing.
    pub declared: Vec<String>,
    /// The expression.
    pub expr: Expr,
}

impl Epilogue {
    /// `|acc| acc`: D is the plain product.
    pub fn identity() -> Epilogue {
        Epilogue { scalars: Vec::new(), vectors: Vec::new(), declared: vec!["acc".into()], expr: Expr::Acc }
    }

    /// The same epilogue for the transpose of D.
    pub fn transposed(&self) -> Epilogue {
        let of = |vector: &Vector| Vector { name: vector.name.clone(), axis: vector.axis.transposed() };
        Epilogue { vectors: self.vectors.iter().map(of).collect(), ..self.clone() }
    }

    /// Maximum instructions for one element of D.
    pub fn instructions(&self) -> u32 {
        self.expr.instructions()
    }

    /// True if the expression reads C.
    pub fn uses_c(&self) -> bool {
        self.expr.any(&|e| matches!(e, Expr::C))
    }

    /// The scalars that each drop every `acc` of the expression if they are 0: the mainloop is then unnecessary.
    pub fn dropping_acc(&self) -> Vec<usize> {
        self.dropping(&Expr::Acc)
    }

    /// The scalars that each drop every `c` of the expression if they are 0: C is then not read.
    pub fn dropping_c(&self) -> Vec<usize> {
        self.dropping(&Expr::C)
    }

    /// True if C is read with these values of the scalars.
    pub fn reads_c(&self, scalars: &[f64]) -> bool {
        self.uses_c() && !self.dropping_c().into_iter().any(|scalar| scalars.get(scalar) == Some(&0.0))
    }

    fn dropping(&self, operand: &Expr) -> Vec<usize> {
        let mut beside = Vec::new();
        self.expr.scalars_beside(operand, &BTreeSet::new(), &mut beside);
        let Some((first, rest)) = beside.split_first() else { return Vec::new() };
        first.iter().copied().filter(|scalar| rest.iter().all(|other| other.contains(scalar))).collect()
    }
}

/// The text of the expression as a schedule would contain it.
impl Serialize for Epilogue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Expr {
    /// True if `test` holds for this node or one below it.
    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        test(self)
            || match self {
                Expr::Neg(x) => x.any(test),
                Expr::Binary(_, x, y) => x.any(test) || y.any(test),
                Expr::Call(_, args) => args.iter().any(|x| x.any(test)),
                _ => false,
            }
    }

    fn instructions(&self) -> u32 {
        match self {
            Expr::Acc | Expr::C | Expr::Scalar(_) | Expr::Vector(_) | Expr::Literal(_) => 0,
            Expr::Neg(x) => 1 + x.instructions(),
            Expr::Binary(_, x, y) => 1 + x.instructions() + y.instructions(),
            Expr::Call(function, args) => function.instructions() + args.iter().map(Expr::instructions).sum::<u32>(),
        }
    }

    /// The factors of a product chain, left to right: `alpha * acc * s` has three. Any other expression is its own only
    /// factor.
    pub fn factors(&self) -> Vec<&Expr> {
        match self {
            Expr::Binary(BinaryOp::Mul, x, y) => {
                let mut all = x.factors();
                all.extend(y.factors());
                all
            }
            other => vec![other],
        }
    }

    /// The scalar factors of this product, ignoring signs, and those of the enclosing product.
    pub fn scalar_factors(&self, around: &BTreeSet<usize>) -> BTreeSet<usize> {
        let scalar = |factor: &Expr| match factor.without_sign() {
            Expr::Scalar(index) => Some(*index),
            _ => None,
        };
        around.iter().copied().chain(self.factors().into_iter().filter_map(scalar)).collect()
    }

    /// For each occurrence of `operand` ([`Expr::Acc`] or [`Expr::C`]), the scalar factors of the same product. A sign
    /// does not end a product; anything else does.
    fn scalars_beside(&self, operand: &Expr, around: &BTreeSet<usize>, out: &mut Vec<BTreeSet<usize>>) {
        match self {
            found if found == operand => out.push(around.clone()),
            Expr::Neg(x) => x.scalars_beside(operand, around, out),
            Expr::Binary(BinaryOp::Mul, ..) => {
                let all = self.scalar_factors(around);
                self.factors().into_iter().for_each(|factor| factor.scalars_beside(operand, &all, out));
            }
            Expr::Binary(_, x, y) => {
                x.scalars_beside(operand, &BTreeSet::new(), out);
                y.scalars_beside(operand, &BTreeSet::new(), out);
            }
            Expr::Call(_, args) => args.iter().for_each(|x| x.scalars_beside(operand, &BTreeSet::new(), out)),
            Expr::Acc | Expr::C | Expr::Scalar(_) | Expr::Vector(_) | Expr::Literal(_) => {}
        }
    }

    fn without_sign(&self) -> &Expr {
        match self {
            Expr::Neg(x) => x.without_sign(),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Epilogue;
    use crate::Schedule;

    fn epilogue(text: &str) -> Epilogue {
        let schedule: Schedule =
            format!("tile(32, 32); thread(1, 1); shared(none); epilogue({text});").parse().unwrap();
        schedule.problem().unwrap().epilogue
    }

    #[test]
    fn a_zero_beside_every_c_drops_it() {
        let check = |text: &str, scalars: &[f64], reads: bool| {
            assert_eq!(epilogue(text).reads_c(scalars), reads, "{text} {scalars:?}");
        };
        check("|acc| acc", &[], false);
        check("|acc, c| acc + c", &[], true);
        check("|acc, c, beta| acc + beta * c", &[0.0], false);
        check("|acc, c, beta| acc + beta * c", &[-0.0], false);
        check("|acc, c, beta| acc + beta * c", &[1e-30], true);
        check("|acc, c, beta| acc + -beta * c * 2", &[0.0], false);
        check("|acc, c, beta| acc + beta * -(c * 2)", &[0.0], false);
        check("|acc, c, beta| acc + beta * (c + 1)", &[0.0], true);
        check("|acc, c, beta| acc + beta * abs(c)", &[0.0], true);
        check("|acc, c, alpha, beta| alpha * c + beta * c", &[0.0, 0.0], true);
        check("|acc, c, alpha, beta| alpha * c - alpha * beta * c", &[0.0, 1.0], false);
    }

    #[test]
    fn scalars_that_drop_an_operand_everywhere() {
        let check = |text: &str, acc: &[usize], c: &[usize]| {
            let epilogue = epilogue(text);
            assert_eq!((epilogue.dropping_acc(), epilogue.dropping_c()), (acc.into(), c.into()), "{text}");
        };
        check("|acc| acc", &[], &[]);
        check("|acc, c, alpha, beta| alpha * acc + beta * c", &[0], &[1]);
        check("|acc, c, alpha, beta| alpha * beta * acc * c", &[0, 1], &[0, 1]);
        check("|acc, c, alpha, beta| alpha * acc + alpha * beta * acc - c", &[0], &[]);
        check("|acc, alpha| relu(acc) * alpha", &[], &[]);
        check("|acc, alpha| -(alpha * -acc) / 2", &[0], &[]);
    }
}
