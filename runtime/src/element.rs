//! Element types that a host matrix can hold.

use std::fmt;

use ptx_gemm_dsl::DType;

use crate::random::SplitMix64;

mod sealed {
    pub trait Sealed {}
}

/// A type whose values are elements of a matrix: `f32`, `f64`, `i32`, `i8`, `u8`, and `half`'s `f16` and `bf16`.
pub trait Element: Copy + Default + PartialEq + fmt::Debug + bytemuck::Pod + Send + Sync + sealed::Sealed {
    /// The type's name in the language.
    const DTYPE: DType;

    /// The value, exactly.
    fn to_f64(self) -> f64;

    /// The nearest value of this type; integers saturate, and NaN becomes 0 there.
    fn from_f64(value: f64) -> Self;

    /// The next random value: a multiple of 2^-23 in [-1, 1), rounded to this type, or an integer in -10..=10 (unsigned
    /// ones in 0..=10).
    fn random(numbers: &mut SplitMix64) -> Self {
        let low = if Self::DTYPE == DType::U8 { 0 } else { -10 };
        let integer = Self::DTYPE.is_integer();
        Self::from_f64(if integer { numbers.next_in(low, 10) as f64 } else { numbers.next_signed() })
    }
}

/// True if a kernel reads elements of the Rust type called `host` as `kernel`. A tf32 matrix has elements of type f32.
pub(crate) fn holds(host: DType, kernel: DType) -> bool {
    host == kernel || (host == DType::F32 && kernel == DType::Tf32)
}

macro_rules! element {
    ($($rust:ty, $dtype:ident, $to:expr, $from:expr;)*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
            fn to_f64(self) -> f64 {
                $to(self)
            }
            fn from_f64(value: f64) -> Self {
                $from(value)
            }
        }
    )*};
}

element! {
    f64, F64, |x| x, |x| x;
    f32, F32, f64::from, |x| x as f32;
    i32, I32, f64::from, |x| x as i32;
    i8, I8, f64::from, |x| x as i8;
    u8, U8, f64::from, |x| x as u8;
    half::f16, F16, half::f16::to_f64, half::f16::from_f64;
    half::bf16, Bf16, half::bf16::to_f64, half::bf16::from_f64;
}
