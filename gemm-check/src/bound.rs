//! Error bounds: a reference value in f64 together with a bound on the distance of a correct result from it.
//!
//! The first error is that of the accumulator: K fused multiply-adds, in any order, leave `|acc - sum| <= gamma(K)
//! |A||B|` with `gamma(n) = n u / (1 - n u)` (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.1).
//! From there the bound is carried through the epilogue along with the value: the error of an operation on operands
//! with errors ex and ey is the propagated error plus one rounding of its own result, `u |z|`. Exact operands with a
//! representable result need no rounding, so that integer data have the bound 0.

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::atoms::COARSE_BITS;

/// The rounding of a floating-point type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounding {
    /// Half the distance from 1 to the next number.
    pub unit: f64,
    /// Half the smallest positive number: the absolute error of a result near 0.
    pub tiny: f64,
    /// The largest finite number.
    pub max: f64,
    dtype: DType,
}

impl Rounding {
    /// Rounding to nearest in `dtype`; integers do not round.
    pub fn of(dtype: DType) -> Rounding {
        let rounding = |digits: i32, lowest: i32, max: f64| Rounding {
            unit: 2f64.powi(-digits),
            tiny: 2f64.powi(lowest - 1),
            max,
            dtype,
        };
        match dtype {
            DType::F64 => Rounding { tiny: f64::from_bits(1), ..rounding(53, -1022, f64::MAX) },
            DType::F32 | DType::Tf32 => rounding(24, -149, f64::from(f32::MAX)),
            DType::F16 => rounding(11, -24, 65504.0),
            DType::Bf16 => rounding(8, -133, f64::from(half::bf16::MAX.to_f32())),
            DType::E4m3 => rounding(4, -9, 448.0),
            DType::E5m2 => rounding(3, -16, 57344.0),
            DType::I8 | DType::U8 | DType::I32 => Rounding { unit: 0.0, tiny: 0.0, max: f64::INFINITY, dtype },
        }
    }

    /// `n u / (1 - n u)`: the relative error after n successive roundings.
    pub fn gamma(&self, n: usize) -> f64 {
        gamma(self.unit, n)
    }

    /// Whether a value computed in f64 without error is representable in this type. For f64 itself this is only
    /// certain of integers.
    fn holds(&self, value: f64) -> bool {
        match self.dtype {
            DType::F64 => value.fract() == 0.0 && value.abs() < 2f64.powi(53),
            DType::F32 | DType::Tf32 => f64::from(value as f32) == value,
            dtype => crate::element::round(dtype, value) == value,
        }
    }

    /// The result of one operation: its value in f64, and the error propagated from its operands.
    fn rounded(&self, value: f64, error: f64) -> Estimate {
        if error == 0.0 && self.holds(value) {
            return Estimate { value, error };
        }
        Estimate { value, error: error + self.unit * (value.abs() + error) + self.tiny }
    }
}

/// The part of the largest term of a coarse sum that truncation takes from each.
pub(crate) const COARSE_UNIT: f64 = 1.0 / (1u64 << COARSE_BITS) as f64;

fn gamma(unit: f64, n: usize) -> f64 {
    let nu = n as f64 * unit;
    if nu < 1.0 { nu / (1.0 - nu) } else { f64::INFINITY }
}

/// A value, and the largest distance of a correct result from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The reference.
    pub value: f64,
    /// The bound.
    pub error: f64,
}

impl Estimate {
    /// A number without error.
    pub fn exact(value: f64) -> Estimate {
        Estimate { value, error: 0.0 }
    }

    /// An accumulator after `terms` fused multiply-adds: `sum` of the products, and the sum of their `magnitude`s.
    ///
    /// Only tensor cores add in f16. They add the exact products of at least four steps of k at once, and round that sum to
    /// nearest. What they truncate before that, below 2^-24 of the largest of up to 17 terms, is less than 2^-8 of a
    /// rounding.
    ///
    /// An error as large as the magnitudes becomes infinite: a sum of 0, or any other, would pass.
    pub fn accumulated(sum: f64, magnitude: f64, terms: usize, acc: Rounding, exact: bool) -> Estimate {
        // Partial sums are exact if all of them are integers below the first integer that the type cannot represent.
        if exact && magnitude * acc.unit <= 1.0 {
            return Estimate::exact(sum);
        }
        let (roundings, cut) = match acc.dtype {
            DType::F16 => (terms.div_ceil(4), 1.0 + 2f64.powi(-8)),
            _ => (terms, 1.0),
        };
        let relative = match cut * acc.gamma(roundings) {
            useless if useless >= 1.0 => f64::INFINITY,
            relative => relative,
        };
        Estimate { value: sum, error: spread(relative, magnitude) + roundings as f64 * acc.tiny }
    }

    /// The same where tensor cores keep [`COARSE_BITS`] fraction bits of their terms, below the largest one. After each `chunk`
    /// of terms the sum is added to one in `acc`; `None`: after all of them.
    pub fn coarse(sum: f64, magnitude: f64, terms: usize, chunk: Option<u32>, acc: Rounding, exact: bool) -> Estimate {
        let unit = if chunk.is_some() { acc.unit } else { COARSE_UNIT };
        if exact && magnitude * unit <= 1.0 {
            return Estimate::exact(sum);
        }
        let chunk = chunk.map_or(terms, |chunk| terms.min(chunk as usize)).max(1);
        let relative = gamma(COARSE_UNIT, chunk) + acc.gamma(terms.div_ceil(chunk));
        let relative = if relative >= 1.0 { f64::INFINITY } else { relative };
        Estimate { value: sum, error: spread(relative, magnitude) + terms as f64 * acc.tiny }
    }

    /// x + y
    pub fn add(self, other: Estimate, rounding: Rounding) -> Estimate {
        rounding.rounded(self.value + other.value, self.error + other.error)
    }

    /// x - y
    pub fn sub(self, other: Estimate, rounding: Rounding) -> Estimate {
        self.add(-other, rounding)
    }

    /// x y
    pub fn mul(self, other: Estimate, rounding: Rounding) -> Estimate {
        let (x, y) = (self.value.abs(), other.value.abs());
        rounding.rounded(
            self.value * other.value,
            spread(x, other.error) + spread(y, self.error) + self.error * other.error,
        )
    }

    /// x / y; without a bound if y might be 0.
    pub fn div(self, other: Estimate, rounding: Rounding) -> Estimate {
        let value = self.value / other.value;
        if self.error == 0.0 && other.error == 0.0 {
            return rounding.rounded_quotient(value, self.value, other.value);
        }
        let smallest = other.value.abs() - other.error;
        let error = match smallest > 0.0 {
            true => (self.error + spread(value.abs(), other.error)) / smallest,
            false => f64::INFINITY,
        };
        rounding.rounded(value, error)
    }

    /// |x|
    pub fn abs(self) -> Estimate {
        Estimate { value: self.value.abs(), ..self }
    }

    /// The smaller one, NaN if either is.
    pub fn min(self, other: Estimate) -> Estimate {
        let smaller = if self.value.is_nan() || self.value < other.value { self.value } else { other.value };
        Estimate { value: smaller, error: self.error.max(other.error) }
    }

    /// The larger one, NaN if either is.
    pub fn max(self, other: Estimate) -> Estimate {
        -(-self).min(-other)
    }

    /// A function with a slope of at most `slope` near here, computed with relative error `relative`.
    pub fn map(self, value: f64, slope: f64, relative: f64, rounding: Rounding) -> Estimate {
        let error = spread(slope, self.error);
        Estimate { value, error: error + relative * (value.abs() + error) + rounding.tiny }
    }

    /// Stored in another type. Storing rounds to nearest even, or saturates, so an exact value has only one right result.
    pub fn stored(self, rounding: Rounding) -> Estimate {
        match self.error {
            0.0 => Estimate::exact(crate::element::round(rounding.dtype, self.value)),
            _ if rounding.dtype.element().bits == 8 => {
                let Estimate { value, error } = rounding.rounded(self.value, self.error);
                let nearest = value.clamp(-rounding.max, rounding.max);
                if value.abs() - error > rounding.max {
                    Estimate::exact(nearest)
                } else {
                    Estimate { value: nearest, error }
                }
            }
            _ => rounding.rounded(self.value, self.error),
        }
    }
}

impl std::ops::Neg for Estimate {
    type Output = Estimate;

    fn neg(self) -> Estimate {
        Estimate { value: -self.value, ..self }
    }
}

impl Rounding {
    /// A quotient of exact operands is exact if multiplying by the divisor gives the dividend.
    fn rounded_quotient(&self, value: f64, dividend: f64, divisor: f64) -> Estimate {
        if value * divisor == dividend && value.fract() == 0.0 && value.abs() < 2f64.powi(24) {
            return Estimate::exact(value);
        }
        Estimate { value, error: self.unit * value.abs() * (1.0 + self.unit) + self.tiny }
    }
}

/// `factor * error`, where an error of 0 stays 0 even if the factor is infinite.
fn spread(factor: f64, error: f64) -> f64 {
    if error == 0.0 { 0.0 } else { factor * error }
}
