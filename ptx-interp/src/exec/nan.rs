//! Which NaN an operation returns.
//!
//! In single precision there is only one, 0x7fffffff (CUDA C++ Programming Guide, "Floating-Point Standard"), and for
//! the 16-bit types 0x7fff. Double precision propagates the NaNs of its operands; the manual does not say which.
//! Measured on an H200: of two NaNs, a sum and a product propagate the second; a multiply-add prefers its second factor
//! to the first and to the addend. The result is quiet and keeps its sign, even where the instruction subtracts it,
//! negates it or takes its absolute value.
//!
//! That a multiply-add prefers the addend to the first factor is inferred: in the machine code, the second operand of a
//! sum is in the place of a multiply-add's addend, and no launch so far had NaNs in only these two operands.

use ptx_gemm_ptx::types::Type;

use crate::op::Arith;
use crate::row::LANES;

/// The bit that distinguishes a quiet NaN from a signaling one.
pub(super) const QUIET: u64 = 1 << 51;
/// The result of an invalid operation without a NaN operand, in every rounding mode (measured on an H200).
pub(super) const INVALID: u64 = 0xfff8_0000_0000_0000;

/// The canonical NaN of a type narrower than f64.
pub(super) fn canonical(ty: Type) -> u64 {
    if ty.bits() == 16 { 0x7fff } else { 0x7fff_ffff }
}

/// A NaN converted to or from f64: quiet, with its sign and the part of its payload that fits.
pub(super) fn converted(to: Type, from: Type, bits: u64) -> u64 {
    let fraction = |ty: Type| match ty {
        Type::F16 => 10,
        Type::Bf16 => 7,
        Type::F64 => 52,
        _ => 23,
    };
    let sign = bits >> (from.bits() - 1) & 1;
    let payload = bits << (64 - fraction(from)) | 1 << 63;
    let exponent = (1 << (to.bits() - 1 - fraction(to))) - 1;
    sign << (to.bits() - 1) | exponent << fraction(to) | payload >> (64 - fraction(to))
}

/// Whether these are the bits of an f64 NaN.
#[inline(always)]
pub(super) fn is_nan(bits: u64) -> bool {
    bits & (u64::MAX >> 1) > 0x7ff0_0000_0000_0000
}

/// The first operand that is a NaN, made quiet.
pub(super) fn propagated<const N: usize>(operands: [u64; N]) -> u64 {
    operands.into_iter().find(|bits| is_nan(*bits)).map_or(INVALID, |bits| bits | QUIET)
}

/// The NaN that an f64 operation returns.
pub(super) fn of_double(op: Arith, [a, b, c]: [u64; 3]) -> u64 {
    match op {
        Arith::Fma => propagated([b, c, a]),
        // The driver's assembler expands divisions, and checks the dividend first.
        Arith::Div => propagated([a, b]),
        Arith::Rcp | Arith::Sqrt => propagated([a]),
        _ => propagated([b, a]),
    }
}

/// Replaces the host's NaNs in a row of results.
#[inline(always)]
pub(super) fn replace(out: &mut [u64; LANES], op: Arith, operands: impl Fn(usize) -> [u64; 3]) {
    let mut any = false;
    for bits in out.iter() {
        any |= is_nan(*bits);
    }
    if any {
        for (lane, bits) in out.iter_mut().enumerate() {
            if is_nan(*bits) {
                *bits = of_double(op, operands(lane));
            }
        }
    }
}
