//! Converts an element from and to the bytes of its type, through f64.

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use ptx_gemm_dsl::DType;
use ptx_gemm_runtime::Element;

/// The nearest value of a type.
pub(crate) fn round(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F32 | DType::Tf32 => f64::from(value as f32),
        DType::F16 => <f16 as Element>::from_f64(value).to_f64(),
        DType::Bf16 => <bf16 as Element>::from_f64(value).to_f64(),
        DType::I32 => f64::from(value as i32),
        DType::I8 => f64::from(value as i8),
        DType::U8 => f64::from(value as u8),
        DType::E4m3 => F8E4M3::from_f64(value).to_f64(),
        DType::E5m2 => F8E5M2::from_f64(value).to_f64(),
        DType::F64 => value,
    }
}

/// Bits of an f32 that tensor cores do not read as tf32.
const UNREAD: u32 = 0x1fff;

/// An element as tensor cores multiply it: of tf32, f32 rounded to nearest, ties to even.
pub(crate) fn factor(dtype: DType, value: f64) -> f64 {
    let bits = (value as f32).to_bits();
    if !dtype.is_rounded() || !value.is_finite() {
        return value;
    }
    let rounded = bits + (UNREAD / 2 + (bits >> UNREAD.count_ones() & 1));
    f64::from(f32::from_bits(rounded & !UNREAD))
}

/// Whether an element lies halfway between two that tensor cores multiply: TMA rounds such a one to even, `cvt.rna` away
/// from zero.
pub(crate) fn is_halfway(dtype: DType, value: f64) -> bool {
    dtype.is_rounded() && value.is_finite() && (value as f32).to_bits() & UNREAD == UNREAD / 2 + 1
}

/// Writes the nearest number of a type, in its bytes.
pub fn encode(dtype: DType, value: f64, to: &mut [u8]) {
    match dtype {
        DType::F64 => to.copy_from_slice(&value.to_le_bytes()),
        DType::F32 | DType::Tf32 => to.copy_from_slice(&(value as f32).to_le_bytes()),
        DType::I32 => to.copy_from_slice(&(value as i32).to_le_bytes()),
        DType::F16 => to.copy_from_slice(&<f16 as Element>::from_f64(value).to_le_bytes()),
        DType::Bf16 => to.copy_from_slice(&<bf16 as Element>::from_f64(value).to_le_bytes()),
        DType::I8 => to.copy_from_slice(&(value as i8).to_le_bytes()),
        DType::U8 => to.copy_from_slice(&[value as u8]),
        DType::E4m3 => to.copy_from_slice(&[F8E4M3::from_f64(value).to_bits()]),
        DType::E5m2 => to.copy_from_slice(&[F8E5M2::from_f64(value).to_bits()]),
    }
}

/// Reads a number.
pub fn decode(dtype: DType, from: &[u8]) -> f64 {
    let low = |n: usize| from.iter().take(n).rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    match dtype {
        DType::F64 => f64::from_bits(low(8)),
        DType::F32 | DType::Tf32 => f64::from(f32::from_bits(low(4) as u32)),
        DType::I32 => f64::from(low(4) as u32 as i32),
        DType::F16 => f16::from_bits(low(2) as u16).to_f64(),
        DType::Bf16 => bf16::from_bits(low(2) as u16).to_f64(),
        DType::I8 => f64::from(low(1) as u8 as i8),
        DType::U8 => low(1) as f64,
        DType::E4m3 => F8E4M3::from_bits(low(1) as u8).to_f64(),
        DType::E5m2 => F8E5M2::from_bits(low(1) as u8).to_f64(),
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::DType;
    use ptx_gemm_dsl::elements::{Class, ELEMENTS};

    use super::{decode, encode, round};

    /// Every bit pattern of the narrow types, and some of the wide ones.
    #[test]
    fn what_is_read_is_written_again() {
        for element in &ELEMENTS {
            let bytes = element.dtype.bytes() as usize;
            let patterns = 1u64 << element.bits.min(16);
            for pattern in 0..patterns {
                let bits = if bytes > 2 { pattern << (8 * bytes - 16) } else { pattern };
                let from = &bits.to_le_bytes()[..bytes];
                let value = decode(element.dtype, from);
                // Conversions to 8-bit floats saturate, as on the GPU.
                if !value.is_finite() {
                    continue;
                }
                let mut to = [0; 8];
                encode(element.dtype, value, &mut to[..bytes]);
                assert_eq!(&to[..bytes], from, "{}: {value}", element.name);
                assert_eq!(round(element.dtype, value), value, "{}", element.name);
            }
        }
    }

    #[test]
    fn numbers_between_two_values_go_to_the_nearest_or_the_even_one() {
        for element in &ELEMENTS {
            let Class::Float { significand, .. } = element.class else { continue };
            // The host holds tf32 as f32.
            let significand = if element.dtype == DType::Tf32 { 24 } else { significand };
            let unit = 0.5f64.powi(significand as i32 - 1);
            for (value, nearest) in [(1.0 + unit / 2.0, 1.0), (1.0 + 1.5 * unit, 1.0 + 2.0 * unit)] {
                // f64 has no number between.
                if element.dtype != DType::F64 {
                    assert_eq!(round(element.dtype, value), nearest, "{}", element.name);
                }
            }
        }
    }
}
