//! The table of element types. What a type is stands here alone: the language, the compiler's rules and the reference read the rows.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;

use crate::target::Target;

/// The type of a matrix element or of an accumulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    #[default]
    F32,
    /// binary32 storage; the tensor cores read 10 fraction bits.
    Tf32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit float, 4 exponent bits, 3 fraction bits (OCP E4M3).
    E4m3,
    /// 8-bit float, 5 exponent bits, 2 fraction bits (OCP E5M2).
    E5m2,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 32-bit integer; arithmetic wraps around.
    I32,
}

impl DType {
    /// The number of types.
    pub(crate) const COUNT: usize = DType::I32 as usize + 1;

    /// Every type, in the order that the documentation lists them.
    pub const ALL: [DType; DType::COUNT] = {
        let mut all = [DType::F64; DType::COUNT];
        let mut index = 0;
        while index < all.len() {
            all[index] = ELEMENTS[index].dtype;
            index += 1;
        }
        all
    };
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the values of a type are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Floating-point numbers.
    Float {
        /// Bits of the significand, with the one that is not stored.
        significand: u32,
        /// Bits of the exponent.
        exponent: u32,
    },
    /// Integers; those with a sign are in two's complement, and arithmetic wraps around.
    Integer {
        /// Whether there are negative ones.
        signed: bool,
    },
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// The type.
    pub dtype: DType,
    /// Its name in the language.
    pub name: &'static str,
    /// What it is, for the reference.
    pub meaning: &'static str,
    /// Bits of an element in memory.
    pub bits: u32,
    /// Its values.
    pub class: Class,
    /// The accumulator of `types(T)`.
    pub sums: DType,
    /// Whether it is an accumulator itself.
    pub accumulates: bool,
    /// The first target that converts it; `None`: every target.
    pub since: Option<Target>,
    /// The type that its elements are outside tensor cores, if only these know it.
    pub elsewhere: Option<DType>,
    /// Whether the compiler knows it.
    pub works: bool,
}

const fn float(significand: u32, exponent: u32) -> Class {
    Class::Float { significand, exponent }
}

const fn row(dtype: DType, name: &'static str, meaning: &'static str, bits: u32, class: Class, sums: DType) -> Element {
    Element { dtype, name, meaning, bits, class, sums, accumulates: false, since: None, elsewhere: None, works: true }
}

/// The rows, in the order of [`DType`]'s variants, which is that of the documentation.
pub const ELEMENTS: [Element; DType::COUNT] = {
    let signed = Class::Integer { signed: true };
    [
        Element { accumulates: true, ..row(DType::F64, "f64", "IEEE binary64", 64, float(53, 11), DType::F64) },
        Element { accumulates: true, ..row(DType::F32, "f32", "IEEE binary32", 32, float(24, 8), DType::F32) },
        Element {
            elsewhere: Some(DType::F32),
            ..row(DType::Tf32, "tf32", "f32 with 10 bits of mantissa, in 32 bits", 32, float(11, 8), DType::F32)
        },
        Element { accumulates: true, ..row(DType::F16, "f16", "IEEE binary16", 16, float(11, 5), DType::F32) },
        row(DType::Bf16, "bf16", "the upper half of an f32", 16, float(8, 8), DType::F32),
        Element {
            since: Some(Target::SM_89),
            ..row(DType::E4m3, "e4m3", "8-bit float with 4 bits of exponent", 8, float(4, 4), DType::F32)
        },
        Element {
            since: Some(Target::SM_89),
            ..row(DType::E5m2, "e5m2", "8-bit float with 5 bits of exponent", 8, float(3, 5), DType::F32)
        },
        row(DType::I8, "i8", "signed integer", 8, signed, DType::I32),
        row(DType::U8, "u8", "unsigned integer", 8, Class::Integer { signed: false }, DType::I32),
        Element { accumulates: true, ..row(DType::I32, "i32", "signed integer", 32, signed, DType::I32) },
    ]
};

impl DType {
    /// Its row.
    pub fn element(self) -> &'static Element {
        static ROWS: [Element; DType::COUNT] = ELEMENTS;
        &ROWS[self as usize]
    }

    /// The type's name in the language.
    pub fn name(self) -> &'static str {
        self.element().name
    }

    /// Bytes of one element in memory.
    pub fn bytes(self) -> u32 {
        self.element().bits / 8
    }

    /// True for the integer types.
    pub fn is_integer(self) -> bool {
        matches!(self.element().class, Class::Integer { .. })
    }

    /// The default accumulator of `types(T)`.
    pub fn natural_accumulator(self) -> DType {
        self.element().sums
    }

    /// The default accumulator of an A of this type and a B of another one: the wider of theirs. Another rule checks that they
    /// multiply.
    pub fn sums_with(self, other: DType) -> DType {
        let (sums, others) = (self.natural_accumulator(), other.natural_accumulator());
        if sums.holds(others) { sums } else { others }
    }

    /// Whether tensor cores read fewer bits than memory holds, so that elements are rounded before they are multiplied.
    pub fn is_rounded(self) -> bool {
        self.element().elsewhere.is_some()
    }

    /// Whether it has every value of another type of the same class.
    pub fn holds(self, other: DType) -> bool {
        match (self.element().class, other.element().class) {
            (Class::Float { significand, exponent }, Class::Float { significand: digits, exponent: range }) => {
                significand >= digits && exponent >= range
            }
            _ => self.element().bits >= other.element().bits,
        }
    }

    /// Half the distance from 1 to the next number; 0 for integers, which do not round.
    pub fn unit(self) -> f64 {
        match self.element().class {
            Class::Float { significand, .. } => 0.5f64.powi(significand as i32),
            Class::Integer { .. } => 0.0,
        }
    }

    /// The range of random integers: all those of 8 bits, so that signs and upper bits matter; few of 32, so that sums of
    /// products do not wrap around.
    pub fn random_integers(self) -> RangeInclusive<i64> {
        let most = self.most() as i64;
        match self.element().class {
            Class::Integer { signed: true } if self.element().bits == 8 => -most - 1..=most,
            Class::Integer { signed: false } => 0..=most,
            _ => -10..=10,
        }
    }

    /// The smallest positive value, a subnormal one; of integers 1.
    pub fn least(self) -> f64 {
        match self.element().class {
            Class::Float { significand, exponent } => 2f64.powi(3 - (1 << (exponent - 1)) - significand as i32),
            Class::Integer { .. } => 1.0,
        }
    }

    /// The largest finite value of a format of IEEE's kind, in which the greatest exponent means infinity.
    pub fn most(self) -> f64 {
        match self.element().class {
            Class::Float { significand, exponent } => {
                (2.0 - 0.5f64.powi(significand as i32 - 1)) * 2f64.powi((1 << (exponent - 1)) - 1)
            }
            Class::Integer { signed } => 2f64.powi(self.element().bits as i32 - i32::from(signed)) - 1.0,
        }
    }

    /// Whether its exponents are fewer than those of f32, so that planes of it hold scaled rows and columns.
    pub fn is_scaled(self) -> bool {
        let exponents = |dtype: DType| match dtype.element().class {
            Class::Float { exponent, .. } => exponent,
            Class::Integer { .. } => 0,
        };
        exponents(self) < exponents(DType::F32)
    }

    /// Whether a positive number exceeds its largest value, rounded to nearest.
    pub fn exceeded_by(self, value: f64) -> bool {
        match self.element().class {
            // Half a unit in the last place beyond the largest value; beyond f64's there is infinity alone.
            Class::Float { significand, exponent } => {
                let unit = 2f64.powi((1 << (exponent - 1)) - significand as i32);
                value >= self.most() + unit / 2.0 && value > self.most()
            }
            Class::Integer { .. } => value > self.most(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, DType, ELEMENTS};

    #[test]
    fn rows_are_those_of_their_types() {
        for (index, element) in ELEMENTS.iter().enumerate() {
            assert_eq!(element.dtype as usize, index);
            assert!(element.sums.element().accumulates && element.sums.holds(element.dtype), "{}", element.name);
            if let Class::Float { significand, exponent } = element.class {
                let stored = significand + exponent;
                assert!(stored == element.bits || element.dtype == DType::Tf32, "{}", element.name);
            }
        }
    }

    #[test]
    fn the_largest_values_are_those_of_the_formats() {
        assert!(!DType::F32.exceeded_by(f64::from(f32::MAX)) && DType::F32.exceeded_by(3.4028236e38));
        assert!(!DType::F16.exceeded_by(65_519.9) && DType::F16.exceeded_by(65_520.0));
        assert!(!DType::I32.exceeded_by(f64::from(i32::MAX)) && DType::I32.exceeded_by(2_147_483_648.0));
        assert!(!DType::U8.exceeded_by(255.0) && DType::U8.exceeded_by(256.0));
        assert!(!DType::F64.exceeded_by(f64::MAX) && DType::F64.exceeded_by(f64::INFINITY));
        assert_eq!((DType::F16.most(), DType::F16.least()), (65_504.0, 2f64.powi(-24)));
        assert_eq!((DType::F64.most(), DType::F32.most()), (f64::MAX, f64::from(f32::MAX)));
        assert_eq!((DType::Bf16.least(), DType::F64.least()), (2f64.powi(-133), f64::from_bits(1)));
        assert!(!DType::F16.holds(DType::Bf16) && DType::F16.holds(DType::E5m2) && DType::F32.holds(DType::Tf32));
    }
}
