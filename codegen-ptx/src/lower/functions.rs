//! Transcendental functions of f32, without branches: NaN and infinities go through the same instructions.
//!
//! The approximate instructions have relative errors of 2^-22 (`ex2`) and 2^-23 (`rcp`; PTX ISA, "Floating point
//! instructions"). On one million random arguments the functions stay within 2^-21, plus the hardware's own deviation.
//! The language promises [`Function::ERROR`](ptx_gemm_dsl::epilogue::Function::ERROR).

use super::Lowering;
use crate::kernel::{Math, Value};

/// An odd function as a quotient of polynomials: `x p(x^2) / q(x^2)`, with the coefficients of the highest power first.
/// Arguments are clamped to `-limit` to `limit`, where the function has converged.
pub(super) struct Rational {
    limit: f64,
    p: [f64; 7],
    q: [f64; 5],
}

/// The hyperbolic tangent, which rounds to 1 from the limit on (coefficients of Eigen's `ptanh_float`).
pub(super) const TANH: Rational = Rational {
    limit: 7.998_811_721_801_758,
    p: [
        -2.760_768_477_423_55e-16,
        2.000_187_904_824_77e-13,
        -8.604_671_522_137_35e-11,
        5.122_297_090_371_14e-8,
        1.485_722_357_179_79e-5,
        6.372_619_288_754_36e-4,
        4.893_524_558_917_86e-3,
    ],
    q: [0.0, 1.198_258_394_667_02e-6, 1.185_347_056_866_54e-4, 2.268_434_632_439_00e-3, 4.893_525_185_543_85e-3],
};

/// The binary logarithm of the normal distribution function at `-t`, with the coefficient of the highest power first.
/// The coefficients are a minimax fit from 0 to 14, with -1 at 0. `2^` of the polynomial is within 2^-21.9 of the
/// value, and within 0.07% of it below t = 5.
const TAIL: [f64; 8] = [
    -5.484_301_937_030_978e-7,
    3.476_285_201_031_715e-5,
    -7.419_010_989_950_8e-4,
    7.924_902_252_852_917e-3,
    -5.311_416_834_592_819e-2,
    -4.590_107_798_576_355e-1,
    -1.151_125_192_642_212,
    -1.0,
];

/// From `-GELU_LIMIT` down, `gelu` of f32 is 0 in both forms: its second factor is below 2^-126.
const GELU_LIMIT: f64 = 14.0;

/// Adding this rounds a number below 2^22 to an integer.
const INTEGERS: f64 = 1.5 * (1 << 23) as f64;

/// Arguments beyond which `exp` is infinite, or 0.
const EXP_LIMITS: (f64, f64) = (-104.0, 89.0);

impl Lowering<'_> {
    /// `e^x = 2^n 2^f`, with f between 1/2 and 3/2 and an integer n for which 2^n is exact and finite wherever e^x is.
    /// The logarithm of e is split into two parts, so that f stays precise for large x.
    pub(super) fn exp(&mut self, x: Value) -> Value {
        self.exp_by(x, Math::Exp2)
    }

    /// `power` computes 2^n: it decides whether results below 2^-126 are subnormal or 0.
    fn exp_by(&mut self, x: Value, power: Math) -> Value {
        let log2e = std::f64::consts::LOG2_E;
        let high = f64::from(log2e as f32);
        let low = log2e - high;
        let x = self.apply(Math::Max, vec![x, Value::Const(EXP_LIMITS.0)]);
        let x = self.apply(Math::Min, vec![x, Value::Const(EXP_LIMITS.1)]);
        let factor = self.apply(Math::Mov, vec![Value::Const(high)]);
        let n = self.apply(Math::Fma, vec![x, factor, Value::Const(INTEGERS)]);
        let n = self.apply(Math::Sub, vec![n, Value::Const(INTEGERS + 1.0)]);
        let minus = self.apply(Math::Neg, vec![n]);
        let f = self.apply(Math::Fma, vec![x, factor, minus]);
        let f = self.apply(Math::Fma, vec![x, Value::Const(low), f]);
        let fraction = self.apply(Math::Exp2OrZero, vec![f]);
        let power = self.apply(power, vec![n]);
        self.apply(Math::Mul, vec![fraction, power])
    }

    /// `1 / (1 + exp(-x))`
    pub(super) fn sigmoid(&mut self, x: Value) -> Value {
        let minus = self.apply(Math::Neg, vec![x]);
        // Added to 1, a number below 2^-126 has the same effect as 0.
        let exp = self.exp_by(minus, Math::Exp2OrZero);
        let sum = self.apply(Math::Add, vec![exp, Value::Const(1.0)]);
        self.apply(Math::Reciprocal, vec![sum])
    }

    /// `x sigmoid(x)`, which tends to 0 where the sigmoid does: the factor x is clamped there.
    pub(super) fn silu(&mut self, x: Value) -> Value {
        let sigmoid = self.sigmoid(x);
        let x = self.apply(Math::Max, vec![x, Value::Const(EXP_LIMITS.0)]);
        self.apply(Math::Mul, vec![x, sigmoid])
    }

    /// An odd function.
    pub(super) fn rational(&mut self, x: Value, of: &Rational) -> Value {
        let x = self.apply(Math::Max, vec![x, Value::Const(-of.limit)]);
        let x = self.apply(Math::Min, vec![x, Value::Const(of.limit)]);
        let square = self.apply(Math::Mul, vec![x, x]);
        let p = self.polynomial(square, &of.p);
        let q = self.polynomial(square, &of.q);
        let odd = self.apply(Math::Mul, vec![x, p]);
        let reciprocal = self.apply(Math::Reciprocal, vec![q]);
        self.apply(Math::Mul, vec![odd, reciprocal])
    }

    /// A polynomial by Horner's rule; the coefficient of the highest power comes first.
    fn polynomial(&mut self, x: Value, coefficients: &[f64]) -> Value {
        let degree = coefficients.iter().skip_while(|coefficient| **coefficient == 0.0).count();
        let [first, second, rest @ ..] = &coefficients[coefficients.len() - degree..] else { return Value::Const(0.0) };
        let start = self.apply(Math::Mov, vec![Value::Const(*first)]);
        let sum = self.apply(Math::Fma, vec![start, x, Value::Const(*second)]);
        rest.iter().fold(sum, |sum, next| self.apply(Math::Fma, vec![sum, x, Value::Const(*next)]))
    }

    /// `x / 2 (1 + erf(x / sqrt 2))`, which is `x F(x)` with the normal distribution function F. With t = |x|, and
    /// since F(t) = 1 - F(-t), it is `max(x, 0) - t F(-t)`. This takes one approximate instruction and subtracts no
    /// nearly equal numbers.
    pub(super) fn gelu(&mut self, x: Value) -> Value {
        let t = self.apply(Math::Abs, vec![x]);
        let t = self.apply(Math::Min, vec![t, Value::Const(GELU_LIMIT)]);
        let logarithm = self.polynomial(t, &TAIL);
        let tail = self.apply(Math::Exp2OrZero, vec![logarithm]);
        let positive = self.apply(Math::Max, vec![x, Value::Const(0.0)]);
        let minus = self.apply(Math::Neg, vec![t]);
        self.apply(Math::Fma, vec![minus, tail, positive])
    }

    /// `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, which is `x / (1 + 2^y)` with
    /// `y = -2 log2(e) sqrt(2 / pi) (x + 0.044715 x^3)`.
    pub(super) fn gelu_tanh(&mut self, x: Value) -> Value {
        let linear = -2.0 * std::f64::consts::LOG2_E * std::f64::consts::FRAC_2_PI.sqrt();
        let x = self.apply(Math::Max, vec![x, Value::Const(-GELU_LIMIT)]);
        let square = self.apply(Math::Mul, vec![x, x]);
        let factor = self.polynomial(square, &[0.044715 * linear, linear]);
        let y = self.apply(Math::Mul, vec![x, factor]);
        let power = self.apply(Math::Exp2OrZero, vec![y]);
        let sum = self.apply(Math::Add, vec![power, Value::Const(1.0)]);
        let reciprocal = self.apply(Math::Reciprocal, vec![sum]);
        self.apply(Math::Mul, vec![x, reciprocal])
    }
}
