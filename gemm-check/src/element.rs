//! Converts an element from and to the bytes of its type, through f64.

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
        DType::F64 | DType::E4m3 | DType::E5m2 => value,
    }
}

/// Writes the nearest number of a type, in its bytes. Zeros for the types that the host does not compute with.
pub fn encode(dtype: DType, value: f64, to: &mut [u8]) {
    match dtype {
        DType::F64 => to.copy_from_slice(&value.to_le_bytes()),
        DType::F32 | DType::Tf32 => to.copy_from_slice(&(value as f32).to_le_bytes()),
        DType::I32 => to.copy_from_slice(&(value as i32).to_le_bytes()),
        DType::F16 => to.copy_from_slice(&<f16 as Element>::from_f64(value).to_le_bytes()),
        DType::Bf16 => to.copy_from_slice(&<bf16 as Element>::from_f64(value).to_le_bytes()),
        DType::I8 => to.copy_from_slice(&(value as i8).to_le_bytes()),
        DType::U8 => to.copy_from_slice(&[value as u8]),
        DType::E4m3 | DType::E5m2 => to.fill(0),
    }
}

/// Reads a number. NaN for the types that the host does not compute with.
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
        DType::E4m3 | DType::E5m2 => f64::NAN,
    }
}
