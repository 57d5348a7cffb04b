//! Evaluates the epilogue of one element, as a value with its bound.

use std::f64::consts::FRAC_1_SQRT_2;

use ptx_gemm_dsl::epilogue::{Axis, BinaryOp, Epilogue, Expr, Function};

use crate::bound::{Estimate, Rounding};

/// Relative error permitted for transcendental functions: what the language promises.
pub const APPROXIMATE: f64 = Function::ERROR;

/// The smallest normal f32: a function may return 0 for a smaller value.
const NORMAL: f64 = f32::MIN_POSITIVE as f64;

/// The operands of the expression at one element of D.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The accumulator.
    pub acc: Estimate,
    /// The element of C.
    pub c: f64,
    /// Its row.
    pub row: usize,
    /// Its column.
    pub col: usize,
    /// In the order of the epilogue.
    pub scalars: &'a [f64],
    /// In the order of the epilogue.
    pub vectors: &'a [Vec<f64>],
}

/// Evaluates the epilogue in the accumulator's type, with a relative error of `approximate` in functions that hardware
/// approximates.
pub fn evaluate(epilogue: &Epilogue, operands: &Operands<'_>, rounding: Rounding, approximate: f64) -> Estimate {
    Evaluation { epilogue, operands, rounding, approximate }.of(&epilogue.expr, Product::Kept)
}

/// Whether the accumulators and the elements of C are read, given the scalars: an operand that is multiplied by a
/// scalar of 0 is not.
pub fn reads(epilogue: &Epilogue, scalars: &[f64]) -> (bool, bool) {
    fn walk(expr: &Expr, product: Product, scalars: &[f64], found: &mut (bool, bool)) {
        match expr {
            Expr::Acc => found.0 |= product == Product::Kept,
            Expr::C => found.1 |= product == Product::Kept,
            Expr::Scalar(_) | Expr::Vector(_) | Expr::Literal(_) => {}
            Expr::Neg(x) => walk(x, product, scalars, found),
            Expr::Binary(BinaryOp::Mul, x, y) => {
                let product = product.within(expr, scalars);
                walk(x, product, scalars, found);
                walk(y, product, scalars, found);
            }
            Expr::Binary(_, x, y) => {
                walk(x, Product::Kept, scalars, found);
                walk(y, Product::Kept, scalars, found);
            }
            Expr::Call(_, args) => args.iter().for_each(|arg| walk(arg, Product::Kept, scalars, found)),
        }
    }
    let mut found = (false, false);
    walk(&epilogue.expr, Product::Kept, scalars, &mut found);
    found
}

/// Whether a scalar equal to 0 is a factor of the product that contains an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// No: the operand counts.
    Kept,
    /// Yes: `acc` and `c` count as 0, whatever they are.
    Dropped,
}

impl Product {
    /// The same for the factors of a product.
    pub(crate) fn within(self, expr: &Expr, scalars: &[f64]) -> Product {
        let is_zero = |factor: &&Expr| matches!(unsigned(factor), Expr::Scalar(index) if scalars[*index] == 0.0);
        if self == Product::Dropped || expr.factors().iter().any(is_zero) { Product::Dropped } else { Product::Kept }
    }
}

/// A factor without its signs, which do not end a product.
fn unsigned(mut expr: &Expr) -> &Expr {
    while let Expr::Neg(x) = expr {
        expr = x;
    }
    expr
}

struct Evaluation<'a> {
    epilogue: &'a Epilogue,
    operands: &'a Operands<'a>,
    rounding: Rounding,
    approximate: f64,
}

impl Evaluation<'_> {
    fn of(&self, expr: &Expr, product: Product) -> Estimate {
        let rounding = self.rounding;
        match expr {
            Expr::Acc | Expr::C if product == Product::Dropped => Estimate::exact(0.0),
            Expr::Acc => self.operands.acc,
            // Elements of a wider type are rounded when they are read.
            Expr::C => Estimate::exact(self.operands.c).stored(rounding),
            Expr::Scalar(index) => Estimate::exact(self.operands.scalars[*index]),
            Expr::Vector(index) => Estimate::exact(self.vector(*index)),
            // A literal is rounded to the type when it is compiled.
            Expr::Literal(value) => Estimate::exact(*value).stored(rounding),
            Expr::Neg(x) => -self.of(x, product),
            Expr::Binary(BinaryOp::Mul, x, y) => {
                let product = product.within(expr, self.operands.scalars);
                self.of(x, product).mul(self.of(y, product), rounding)
            }
            Expr::Binary(op, x, y) => {
                let (x, y) = (self.of(x, Product::Kept), self.of(y, Product::Kept));
                match op {
                    BinaryOp::Add => x.add(y, rounding),
                    BinaryOp::Sub => x.sub(y, rounding),
                    BinaryOp::Mul => x.mul(y, rounding),
                    BinaryOp::Div => x.div(y, rounding),
                }
            }
            Expr::Call(function, args) => {
                let args: Vec<Estimate> = args.iter().map(|arg| self.of(arg, Product::Kept)).collect();
                self.call(*function, &args)
            }
        }
    }

    fn vector(&self, index: usize) -> f64 {
        let at = match self.epilogue.vectors[index].axis {
            Axis::M => self.operands.row,
            Axis::N => self.operands.col,
        };
        self.operands.vectors[index][at]
    }

    fn call(&self, function: Function, args: &[Estimate]) -> Estimate {
        let zero = Estimate::exact(0.0);
        let arg = |index: usize| args.get(index).copied().unwrap_or(zero);
        let x = arg(0);
        // `lost`: whether a number on the way to the value is so small that it may be 0.
        let or_zero = |value: f64, slope: f64, lost: bool| {
            let near = x.map(value, slope, self.approximate, self.rounding);
            Estimate { error: near.error + if lost { value.abs() } else { 0.0 }, ..near }
        };
        let approximate = |value: f64, slope: f64| or_zero(value, slope, value.abs() < NORMAL);
        // 1 + w cancels for negative x: the error is relative to x, and not to the difference.
        let weighted = |value: f64, slope: f64| {
            let near = approximate(value, slope);
            Estimate { error: near.error + self.approximate * x.value.abs(), ..near }
        };
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match function {
            Function::Relu => x.max(zero),
            Function::Abs => x.abs(),
            Function::Min => x.min(arg(1)),
            Function::Max => x.max(arg(1)),
            Function::Clamp => x.max(arg(1)).min(arg(2)),
            Function::Exp => approximate(x.value.exp(), (x.value + x.error).exp()),
            Function::Tanh => approximate(x.value.tanh(), 1.0),
            Function::Sigmoid => approximate(sigmoid(x.value), 0.25),
            // The slopes of gelu, in both forms, and of silu stay below 1.13 and 1.10.
            // All three tend to 0 on the left, where the formulas have -inf * 0.
            Function::Gelu | Function::GeluTanh | Function::Silu if x.value == f64::NEG_INFINITY => zero,
            Function::Gelu => weighted(0.5 * x.value * libm::erfc(-x.value * FRAC_1_SQRT_2), 1.13),
            Function::GeluTanh => weighted(gelu_tanh(x.value), 1.13),
            Function::Silu => or_zero(x.value * sigmoid(x.value), 1.10, sigmoid(x.value) < NORMAL),
        }
    }
}

/// `gelu` in its tanh form (Hendrycks and Gimpel).
fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + (std::f64::consts::FRAC_2_PI.sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::epilogue::Function;
    use ptx_gemm_dsl::words::Word;
    use ptx_gemm_dsl::{Schedule, Target};
    use ptx_gemm_runtime::Kernel;
    use ptx_gemm_runtime::ptx::module::Statement;

    /// Instructions of a kernel with this epilogue, which it repeats inside of D and at its edges.
    fn instructions(expression: &str) -> u32 {
        let text = format!("tile(16, 16, 8); thread(1, 1); epilogue(|acc| {expression});");
        let kernel = Kernel::compile(&text.parse::<Schedule>().unwrap(), Some(Target::SM_75)).unwrap();
        let statements = kernel.module().entries.iter().flat_map(|entry| &entry.body);
        statements.filter(|statement| matches!(statement, Statement::Instruction(_))).count() as u32
    }

    /// The limit on an epilogue counts the instructions that the compiler emits for it.
    #[test]
    fn functions_take_as_many_instructions_as_they_say() {
        let plain = instructions("acc");
        for (name, function) in Function::TABLE {
            let arguments = ["acc", "1", "2"][..function.arity()].join(", ");
            let own = (instructions(&format!("{name}({arguments})")) - plain) / 2;
            let said = function.instructions();
            assert!(own <= said && said <= own + 3, "{name}: {own} instructions, and not {said}");
        }
    }
}
