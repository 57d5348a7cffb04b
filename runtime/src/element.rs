//! Element types that a host matrix can hold.

use std::fmt;

use ptx_gemm_dsl::DType;

use crate::random::SplitMix64;

mod sealed {
    pub trait Sealed {}
}

/// A type of matrix elements: `f32`, `f64`, `i32`, `i8`, `u8`, `half`'s `f16` and `bf16`, and `float8`'s `F8E4M3` and `F8E5M2`.
pub trait Element: Copy + Default + PartialEq + fmt::Debug + bytemuck::Pod + Send + Sync + sealed::Sealed {
    /// The type's name in the language.
    const DTYPE: DType;

    /// The value, exactly.
    fn to_f64(self) -> f64;

    /// The nearest value of this type. Integers and 8-bit floats saturate, and NaN becomes 0 in integers.
    fn from_f64(value: f64) -> Self;

    /// The next random value: a multiple of 2^-23 in [-1, 1), rounded to this type, or an integer in
    /// [`DType::random_integers`].
    fn random(numbers: &mut SplitMix64) -> Self {
        let integers = Self::DTYPE.random_integers();
        Self::from_f64(match Self::DTYPE.is_integer() {
            true => numbers.next_in(*integers.start(), *integers.end()) as f64,
            false => numbers.next_signed(),
        })
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
    float8::F8E4M3, E4m3, |x| float8::F8E4M3::to_f64(&x), float8::F8E4M3::from_f64;
    float8::F8E5M2, E5m2, |x| float8::F8E5M2::to_f64(&x), float8::F8E5M2::from_f64;
    half::f16, F16, half::f16::to_f64, |x| half::f16::from_f32(rounded_to_odd(x));
    half::bf16, Bf16, half::bf16::to_f64, |x| half::bf16::from_f32(rounded_to_odd(x));
}

/// An f32 that rounds to the same 16-bit number: truncated, with the last bit set if something was lost. (`from_f64` of
/// `half` ignores the last 32 bits, and treats a value just above a tie as a tie.)
fn rounded_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let wide = f64::from(nearest);
    if wide == value || value.is_nan() {
        return nearest;
    }
    let truncated = if wide.abs() > value.abs() { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f32::from_bits(truncated | 1)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::Element;

    #[test]
    fn sixteen_bits_are_rounded_to_nearest_even() {
        let tiny = 2f64.powi(-45);
        for (value, of_f16, of_bf16) in [
            (1.0, 1.0, 1.0),
            // Ties, and values just above and below them.
            (1.0 + 2f64.powi(-8), 1.0 + 2f64.powi(-8), 1.0),
            (1.0 + 2f64.powi(-8) + tiny, 1.0 + 2f64.powi(-8), 1.0 + 2f64.powi(-7)),
            (1.0 + 3.0 * 2f64.powi(-8) - tiny, 1.0 + 3.0 * 2f64.powi(-8), 1.0 + 2f64.powi(-7)),
            (1.0 + 2f64.powi(-11), 1.0, 1.0),
            (1.0 + 2f64.powi(-11) + tiny, 1.0 + 2f64.powi(-10), 1.0),
            (-1.0 - 2f64.powi(-11) - tiny, -1.0 - 2f64.powi(-10), -1.0),
            // The largest number of f16, and the first that rounds to infinity.
            (65519.9, 65504.0, 65536.0),
            (65520.0, f64::INFINITY, 65536.0),
            (2f64.powi(-25), 0.0, 2f64.powi(-25)),
            (2f64.powi(-25) * (1.0 + tiny), 2f64.powi(-24), 2f64.powi(-25)),
            (2f64.powi(-134), 0.0, 0.0),
            (2f64.powi(-134) * (1.0 + tiny), 0.0, 2f64.powi(-133)),
            (f64::MAX, f64::INFINITY, f64::INFINITY),
            (f64::from(f32::MAX) * (1.0 + tiny), f64::INFINITY, f64::INFINITY),
        ] {
            let got = (<f16 as Element>::from_f64(value).to_f64(), <bf16 as Element>::from_f64(value).to_f64());
            assert_eq!(got, (of_f16, of_bf16), "{value:e}");
        }
        assert!(<f16 as Element>::from_f64(f64::NAN).is_nan() && <bf16 as Element>::from_f64(f64::NAN).is_nan());
    }
}
