//! Parts that operations on single elements share: halves of a packed type, comparisons, and the minimum of two floats.

use ptx_gemm_ptx::types::Type;

use super::alu::compare_floats;
use super::convert::to_integer;
use super::round::to_f64;
use crate::op::Cmp;

/// Evaluates packed types half by half.
pub(super) fn by_halves(ty: Type, values: [u64; 3], f: impl Fn(Type, [u64; 3]) -> u64) -> u64 {
    let half = match ty {
        Type::F16x2 => Type::F16,
        Type::Bf16x2 => Type::Bf16,
        Type::U16x2 => Type::U16,
        Type::S16x2 => Type::S16,
        _ => return f(ty, values),
    };
    let low = f(half, values.map(|value| value & 0xffff));
    let high = f(half, values.map(|value| value >> 16 & 0xffff));
    low & 0xffff | (high & 0xffff) << 16
}

/// min with PTX's rules: -0 is less than +0, and a NaN loses to a number unless it propagates.
pub(super) fn min(x: f64, y: f64, propagate: bool) -> f64 {
    if x.is_nan() || y.is_nan() {
        return if propagate || (x.is_nan() && y.is_nan()) {
            f64::NAN
        } else if x.is_nan() {
            y
        } else {
            x
        };
    }
    if x < y || (x == y && x.is_sign_negative()) { x } else { y }
}

pub(super) fn compare(cmp: Cmp, ty: Type, a: u64, b: u64) -> bool {
    if ty.is_float() {
        return compare_floats(cmp, to_f64(ty, a), to_f64(ty, b));
    }
    let (a, b) = (to_integer(ty, a), to_integer(ty, b));
    match cmp {
        Cmp::Eq => a == b,
        Cmp::Ne => a != b,
        Cmp::LtU | Cmp::LtS => a < b,
        _ => a <= b,
    }
}
