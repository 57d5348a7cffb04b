//! The epilogue: the expression that turns an accumulator into an element of D.
//!
//! `|acc, c, alpha, beta, bias| relu(alpha * acc + beta * c + bias[n])`: `acc` is the accumulator, `c` the element of
//! C, a name indexed by `[m]` or `[n]` a vector with one element per row or column of D, any other name a run-time scalar.

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
    /// `x / 2 * (1 + erf(x / sqrt 2))`, in its tanh form.
    Gelu,
    /// `x * sigmoid(x)`.
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
    /// How many arguments it takes.
    pub fn arity(self) -> usize {
        match self {
            Function::Min | Function::Max => 2,
            Function::Clamp => 3,
            _ => 1,
        }
    }

    /// True for the functions that only floating-point types have.
    pub fn is_transcendental(self) -> bool {
        matches!(self, Function::Exp | Function::Tanh | Function::Sigmoid | Function::Gelu | Function::Silu)
    }
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
    /// Whether it has an element per row or per column of D.
    pub axis: Axis,
}

/// The epilogue of a schedule.
///
/// Rules (design): `x * y + z` is one fused multiply-add, left to right; a run-time scalar equal to 0 that multiplies
/// `acc` or `c` drops that operand unread (it then counts as 0); every other 0 times NaN follows IEEE; relu, min, max
/// and clamp propagate NaN.
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

    /// True if the expression reads C.
    pub fn uses_c(&self) -> bool {
        self.expr.any(&|e| matches!(e, Expr::C))
    }
}

/// As the text that a schedule would hold.
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

    /// The factors of a product chain, left to right: `alpha * acc * s` gives three, anything else gives itself.
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
}
