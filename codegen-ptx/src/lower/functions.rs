//! Transcendental functions of f32, without branches: NaN and infinities go through the same instructions.
//!
//! The instructions that hardware approximates have relative errors of 2^-22 (`ex2`) and 2^-23 (`rcp`; PTX ISA, "Floating
//! point instructions"). On one million random arguments the functions stay within 2^-21, but for what the hardware's own
//! deviation adds; the language promises [`Function::ERROR`](ptx_gemm_dsl::epilogue::Function::ERROR).

use super::Lowering;
use crate::kernel::{Math, Value};

/// An odd function as a quotient of polynomials: `x p(x^2) / q(x^2)`, with the coefficients of the highest power first,
/// between `-limit` and `limit`, where it has reached its limits.
pub(super) struct Rational {
    limit: f64,
    p: [f64; 7],
    q: [f64; 5],
}

impl Rational {
    /// The same function of `factor x`, without a multiplication for it.
    fn scaled(&self, factor: f64) -> Rational {
        let scaled = |coefficients: &[f64], lowest: i32| {
            let powers = (0..coefficients.len() as i32).rev().map(|power| factor.powi(lowest + 2 * power));
            coefficients.iter().zip(powers).map(|(coefficient, power)| coefficient * power).collect::<Vec<f64>>()
        };
        let (mut p, mut q) = ([0.0; 7], [0.0; 5]);
        p.copy_from_slice(&scaled(&self.p, 1));
        q.copy_from_slice(&scaled(&self.q, 0));
        Rational { limit: self.limit / factor, p, q }
    }
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

/// The error function, which rounds to 1 from the limit on (coefficients of Eigen's `perf_float`).
const ERF: Rational = Rational {
    limit: 4.0,
    p: [
        -2.726_142_258_013_06e-10,
        2.770_681_424_959_02e-8,
        -2.101_024_020_825_08e-6,
        -5.692_506_394_623_46e-5,
        -7.349_906_303_268_55e-4,
        -2.954_599_808_540_25e-3,
        -1.609_603_332_624_15e-2,
    ],
    q: [
        -1.456_607_184_649_96e-5,
        -2.133_740_552_789_05e-4,
        -1.682_826_974_382_03e-3,
        -7.373_329_167_204_68e-3,
        -1.426_473_905_141_89e-2,
    ],
};

/// Arguments beyond which `exp` is infinite, or 0.
const EXP_LIMITS: (f64, f64) = (-104.0, 89.0);

impl Lowering<'_> {
    /// `e^x = 2^n 2^f`, with the integer n and the fraction f of x log2(e). The logarithm has two parts, so that f is as
    /// precise for large x; and 2^n is exact.
    pub(super) fn exp(&mut self, x: Value) -> Value {
        let log2e = std::f64::consts::LOG2_E;
        let high = f64::from(log2e as f32);
        let low = log2e - high;
        let x = self.apply(Math::Max, vec![x, Value::Const(EXP_LIMITS.0)]);
        let x = self.apply(Math::Min, vec![x, Value::Const(EXP_LIMITS.1)]);
        let scaled = self.apply(Math::Mul, vec![x, Value::Const(high)]);
        let n = self.apply(Math::Floor, vec![scaled]);
        let minus = self.apply(Math::Neg, vec![n]);
        let f = self.apply(Math::Fma, vec![x, Value::Const(high), minus]);
        let f = self.apply(Math::Fma, vec![x, Value::Const(low), f]);
        let fraction = self.apply(Math::Exp2, vec![f]);
        let power = self.apply(Math::Exp2, vec![n]);
        self.apply(Math::Mul, vec![fraction, power])
    }

    /// `1 / (1 + exp(-x))`
    pub(super) fn sigmoid(&mut self, x: Value) -> Value {
        let minus = self.apply(Math::Neg, vec![x]);
        let exp = self.exp(minus);
        let sum = self.apply(Math::Add, vec![exp, Value::Const(1.0)]);
        self.apply(Math::Reciprocal, vec![sum])
    }

    /// An odd function.
    pub(super) fn rational(&mut self, x: Value, of: &Rational) -> Value {
        let x = self.apply(Math::Max, vec![x, Value::Const(-of.limit)]);
        let x = self.apply(Math::Min, vec![x, Value::Const(of.limit)]);
        let square = self.apply(Math::Mul, vec![x, x]);
        let p = self.polynomial(square, &of.p);
        let q = self.polynomial(square, &of.q);
        let odd = self.apply(Math::Mul, vec![x, p]);
        let reciprocal = self.apply(Math::ReciprocalOfNormal, vec![q]);
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

    /// `x / 2 (1 + erf(x / sqrt 2))`
    pub(super) fn gelu(&mut self, x: Value) -> Value {
        self.weighted(x, x, &ERF.scaled(std::f64::consts::FRAC_1_SQRT_2))
    }

    /// `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`
    pub(super) fn gelu_tanh(&mut self, x: Value) -> Value {
        let cubic = self.apply(Math::Mul, vec![x, Value::Const(0.044715)]);
        let square = self.apply(Math::Mul, vec![x, cubic]);
        let sum = self.apply(Math::Fma, vec![square, x, x]);
        self.weighted(x, sum, &TANH.scaled((2.0 * std::f64::consts::FRAC_1_PI).sqrt()))
    }

    /// `x (1/2 + f(y) / 2)` for an odd function f from -1 to 1. Only the square of y is limited: beyond the limit the quotient of
    /// the polynomials goes on as a multiple of y, and the weight of x is cut off at 0 and 1.
    fn weighted(&mut self, x: Value, y: Value, of: &Rational) -> Value {
        let square = self.apply(Math::Mul, vec![y, y]);
        let square = self.apply(Math::Min, vec![square, Value::Const(of.limit * of.limit)]);
        let p = self.polynomial(square, &of.p.map(|coefficient| coefficient / 2.0));
        let q = self.polynomial(square, &of.q);
        let odd = self.apply(Math::Mul, vec![y, p]);
        let reciprocal = self.apply(Math::ReciprocalOfNormal, vec![q]);
        let weight = self.apply(Math::FmaSaturated, vec![odd, reciprocal, Value::Const(0.5)]);
        self.apply(Math::Mul, vec![x, weight])
    }
}
