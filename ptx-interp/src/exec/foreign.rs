//! Operations that this project's compiler does not emit, one lane at a time.

use ptx_gemm_ptx::extended::{FloatTest, Merge, Parts, Video};
use ptx_gemm_ptx::instruction::Rounding;
use ptx_gemm_ptx::types::Type;
use rustc_apfloat::Round;

use super::convert::{convert, to_integer};
use super::elements::{by_halves, compare, min};
use super::extended::flush;
use super::nan;
use super::round::{from_f64, to_f64};
use crate::op::{Arith, ScalarFn};

/// Evaluates one lane.
pub(super) fn evaluate(f: ScalarFn, [a, b, c]: [u64; 3]) -> u64 {
    match f {
        ScalarFn::TestFloat { what, ty } => u64::from(test(what, ty, a)),
        ScalarFn::IsZero => u64::from(a == 0),
        ScalarFn::Dot2 { high, a: signed_a, b: signed_b } => {
            let bytes = if high { b >> 16 } else { b };
            let field = |bits: u64, width: u32, signed: bool| match (width, signed) {
                (16, true) => i64::from(bits as u16 as i16),
                (16, false) => i64::from(bits as u16),
                (_, true) => i64::from(bits as u8 as i8),
                (_, false) => i64::from(bits as u8),
            };
            let product = |index| field(a >> (16 * index), 16, signed_a) * field(bytes >> (8 * index), 8, signed_b);
            (c as i64).wrapping_add(product(0)).wrapping_add(product(1)) as u64 & 0xffff_ffff
        }
        ScalarFn::MadHiSaturating => {
            let [x, y, z] = [a, b, c].map(|bits| to_integer(Type::S32, bits));
            let sum = ((x * y) >> 32) + z;
            sum.clamp(i32::MIN.into(), i32::MAX.into()) as u64 & 0xffff_ffff
        }
        ScalarFn::OfThree { op, ty } => {
            let [x, y, z] = [a, b, c].map(|bits| to_f64(ty, bits));
            from_f64(ty, extremum(op, extremum(op, x, y), z), Round::NearestTiesToEven)
        }
        ScalarFn::XorSign { op, ty, ftz } => by_halves(ty, [a, b, 0], |ty, [a, b, _]| {
            let sign = 1 << (ty.bits() - 1);
            let flushed = |bits: u64| if ftz { flush(ty, bits as u32).into() } else { bits };
            let magnitude = |bits: u64| to_f64(ty, flushed(bits) & (sign - 1));
            let value = extremum(op, magnitude(a), magnitude(b));
            let signs = if value.is_nan() { 0 } else { (a ^ b) & sign };
            from_f64(ty, value, Round::NearestTiesToEven) | signs
        }),
        ScalarFn::ConvertFinite { to, rounding } => match to {
            Type::F16x2 => finite(Type::F16, rounding, a) << 16 | finite(Type::F16, rounding, b),
            Type::Bf16x2 => finite(Type::Bf16, rounding, a) << 16 | finite(Type::Bf16, rounding, b),
            to => finite(to, rounding, a),
        },
        ScalarFn::Video { op, parts, merge, types: [d, of_a, of_b] } => {
            let width = width(parts);
            let low = if d.is_signed() { -(1i64 << (width - 1)) } else { 0 };
            let high = low + (1 << width) - 1;
            let results = (0..32 / width).map(|index| {
                let (x, y) = (part(a, index, width, of_a), part(b, index, width, of_b));
                match op {
                    Video::Add => x + y,
                    Video::Sub => x - y,
                    Video::Avrg => (x + y + i64::from(x + y >= 0)) >> 1,
                    Video::AbsDiff => (x - y).abs(),
                    Video::Min => x.min(y),
                    Video::Max => x.max(y),
                }
            });
            match merge {
                Merge::Add => results.fold(c as i64, i64::wrapping_add) as u64 & 0xffff_ffff,
                Merge::Wrap => side_by_side(results, width),
                Merge::Sat => side_by_side(results.map(|value| value.clamp(low, high)), width),
            }
        }
        ScalarFn::VideoSet { parts, add, cmp, types: [of_a, of_b] } => {
            let width = width(parts);
            let results = (0..32 / width).map(|index| {
                let (x, y) = (part(a, index, width, of_a), part(b, index, width, of_b));
                i64::from(compare(cmp, Type::S64, x as u64, y as u64))
            });
            match add {
                true => results.fold(c as i64, i64::wrapping_add) as u64 & 0xffff_ffff,
                false => side_by_side(results, width),
            }
        }
        _ => 0,
    }
}

fn width(parts: Parts) -> u32 {
    if parts == Parts::Halves { 16 } else { 8 }
}

/// A half or a byte of a word, extended.
fn part(word: u64, index: u32, width: u32, ty: Type) -> i64 {
    let bits = (word >> (index * width)) as i64 & ((1 << width) - 1);
    if ty.is_signed() { bits << (64 - width) >> (64 - width) } else { bits }
}

fn side_by_side(results: impl DoubleEndedIterator<Item = i64>, width: u32) -> u64 {
    results.rev().fold(0, |word, part| word << width | part as u64 & ((1 << width) - 1))
}

fn extremum(op: Arith, x: f64, y: f64) -> f64 {
    match op {
        Arith::Min => min(x, y, false),
        Arith::MinNan => min(x, y, true),
        Arith::Max => -min(-x, -y, false),
        _ => -min(-x, -y, true),
    }
}

/// PTX ISA, `testp`: zero counts as normal.
fn test(what: FloatTest, ty: Type, bits: u64) -> bool {
    let fraction = if ty == Type::F64 { 52 } else { 23 };
    let magnitude = bits & ((1 << (ty.bits() - 1)) - 1);
    let infinity = ((1 << (ty.bits() - 1)) - 1) >> fraction << fraction;
    let subnormal = magnitude != 0 && magnitude >> fraction == 0;
    match what {
        FloatTest::Finite => magnitude < infinity,
        FloatTest::Infinite => magnitude == infinity,
        FloatTest::Number => magnitude <= infinity,
        FloatTest::NotANumber => magnitude > infinity,
        FloatTest::Normal => magnitude < infinity && !subnormal,
        FloatTest::Subnormal => subnormal,
    }
}

/// A conversion from single precision that has no infinite results.
fn finite(to: Type, rounding: Rounding, bits: u64) -> u64 {
    let (infinity, sign, step) = match to {
        Type::F16 => (0x7c00, 0x8000, 1),
        Type::Bf16 => (0x7f80, 0x8000, 1),
        _ => (0x7f80_0000, 0x8000_0000, 0x2000),
    };
    let given = to_f64(Type::F32, bits);
    let result = convert(to, Type::F32, rounding, false, bits);
    match to {
        Type::F16 | Type::Bf16 if given.is_nan() => nan::canonical(to),
        // Measured on an H200 for `.rna`: a result that is not finite, even a NaN, becomes the number before it.
        Type::Tf32 if given.is_nan() && rounding == Rounding::Rna && result & (sign - 1) >= infinity => result - step,
        _ if given.is_nan() => result,
        _ if result & (sign - 1) >= infinity => result & sign | (infinity - step),
        _ => result,
    }
}
