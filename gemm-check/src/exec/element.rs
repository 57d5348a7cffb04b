//! Elements of the buffers of a launch file: conversion between numbers and bytes.

use std::fmt;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use ptx_gemm_runtime::Element;
use serde::Deserialize;
use serde_json::{Number, Value, json};

/// The type of a buffer's elements, with the names of PTX's instruction types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the names are PTX's
pub enum ElementType {
    F64,
    F32,
    F16,
    Bf16,
    E4m3,
    E5m2,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
}

impl ElementType {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            ElementType::E4m3 | ElementType::E5m2 | ElementType::U8 | ElementType::S8 => 1,
            ElementType::F16 | ElementType::Bf16 | ElementType::U16 | ElementType::S16 => 2,
            ElementType::F32 | ElementType::U32 | ElementType::S32 => 4,
            ElementType::F64 | ElementType::U64 | ElementType::S64 => 8,
        }
    }

    /// True for the floating-point types.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            ElementType::F64
                | ElementType::F32
                | ElementType::F16
                | ElementType::Bf16
                | ElementType::E4m3
                | ElementType::E5m2
        )
    }

    /// The smallest and the largest integer of the type; `None` for floating-point types.
    fn range(self) -> Option<(i128, i128)> {
        let bits = 8 * self.bytes() as u32;
        match self {
            ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => Some((0, (1 << bits) - 1)),
            ElementType::S8 | ElementType::S16 | ElementType::S32 | ElementType::S64 => {
                Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
            }
            _ => None,
        }
    }

    /// Appends a floating-point number, rounded to the type; for an integer type its integral part, saturated.
    pub fn push_float(self, value: f64, out: &mut Vec<u8>) {
        match self {
            ElementType::F64 => out.extend(value.to_le_bytes()),
            ElementType::F32 => out.extend((value as f32).to_le_bytes()),
            ElementType::F16 => out.extend(<f16 as Element>::from_f64(value).to_le_bytes()),
            ElementType::Bf16 => out.extend(<bf16 as Element>::from_f64(value).to_le_bytes()),
            ElementType::E4m3 => out.push(F8E4M3::from_f64(value).to_bits()),
            ElementType::E5m2 => out.push(F8E5M2::from_f64(value).to_bits()),
            integer => integer.push_integer(value as i128, out),
        }
    }

    /// Appends an integer, modulo the size of an integer type.
    pub fn push_integer(self, value: i128, out: &mut Vec<u8>) {
        match self.range() {
            Some(_) => out.extend(&value.to_le_bytes()[..self.bytes()]),
            None => self.push_float(value as f64, out),
        }
    }

    /// Appends a value of a launch file: a number, or one of `"nan"`, `"inf"` and `"-inf"`, which are not numbers in
    /// JSON.
    ///
    /// # Errors
    /// Values that the type does not have.
    pub fn push_value(self, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        let special = |text: &str| match text.to_ascii_lowercase().as_str() {
            "nan" => Some(f64::NAN),
            "inf" | "+inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        };
        match (value, self.range()) {
            (Value::Number(number), None) => {
                self.push_float(number.as_f64().unwrap_or(f64::NAN), out);
                Ok(())
            }
            (Value::Number(number), Some((least, most))) => {
                let integer = number.as_u64().map(i128::from).or(number.as_i64().map(i128::from));
                let integer = integer.filter(|integer| (least..=most).contains(integer));
                let integer = integer.ok_or_else(|| format!("{number} is not an integer from {least} to {most}"))?;
                self.push_integer(integer, out);
                Ok(())
            }
            (Value::String(text), None) => {
                let value = special(text).ok_or_else(|| format!("\"{text}\" is none of \"nan\", \"inf\", \"-inf\""))?;
                self.push_float(value, out);
                Ok(())
            }
            (other, _) => Err(format!("{other} is not a value of type {self}")),
        }
    }

    /// The elements of a buffer as JSON.
    pub fn values(self, bytes: &[u8]) -> Vec<Value> {
        bytes.chunks_exact(self.bytes()).map(|chunk| self.value(chunk)).collect()
    }

    fn value(self, chunk: &[u8]) -> Value {
        let mut wide = [0; 8];
        wide[..chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_le_bytes(wide);
        let unused = 64 - 8 * chunk.len() as u32;
        let signed = (bits << unused) as i64 >> unused;
        match self {
            ElementType::F64 => float(f64::from_bits(bits)),
            // The shortest digits for the f32, not those of the equal f64.
            ElementType::F32 => single(f32::from_bits(bits as u32)),
            ElementType::F16 => float(f16::from_bits(bits as u16).to_f64()),
            ElementType::Bf16 => float(bf16::from_bits(bits as u16).to_f64()),
            ElementType::E4m3 => float(F8E4M3::from_bits(bits as u8).to_f64()),
            ElementType::E5m2 => float(F8E5M2::from_bits(bits as u8).to_f64()),
            ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => json!(bits),
            ElementType::S8 | ElementType::S16 | ElementType::S32 | ElementType::S64 => json!(signed),
        }
    }
}

fn float(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None => special(value),
    }
}

fn single(value: f32) -> Value {
    match value.to_string().parse().ok().and_then(Number::from_f64) {
        Some(number) => Value::Number(number),
        None => special(value.into()),
    }
}

fn special(value: f64) -> Value {
    json!(if value.is_nan() {
        "nan"
    } else if value > 0.0 {
        "inf"
    } else {
        "-inf"
    })
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElementType::F64 => "f64",
            ElementType::F32 => "f32",
            ElementType::F16 => "f16",
            ElementType::Bf16 => "bf16",
            ElementType::E4m3 => "e4m3",
            ElementType::E5m2 => "e5m2",
            ElementType::U8 => "u8",
            ElementType::U16 => "u16",
            ElementType::U32 => "u32",
            ElementType::U64 => "u64",
            ElementType::S8 => "s8",
            ElementType::S16 => "s16",
            ElementType::S32 => "s32",
            ElementType::S64 => "s64",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(ty: ElementType, value: Value) -> Result<Value, String> {
        let mut bytes = Vec::new();
        ty.push_value(&value, &mut bytes)?;
        assert_eq!(bytes.len(), ty.bytes());
        Ok(ty.values(&bytes)[0].clone())
    }

    #[test]
    fn values_come_back_as_the_type_has_them() {
        for (ty, value, expected) in [
            (ElementType::F32, json!(0.1), json!(0.1)),
            (ElementType::F16, json!(0.1), json!(0.0999755859375)),
            (ElementType::Bf16, json!(257), json!(256.0)),
            (ElementType::E4m3, json!(17), json!(16.0)),
            (ElementType::E5m2, json!(-3), json!(-3.0)),
            (ElementType::F64, json!("nan"), json!("nan")),
            (ElementType::F32, json!("-inf"), json!("-inf")),
            (ElementType::U64, json!(u64::MAX), json!(u64::MAX)),
            (ElementType::S64, json!(i64::MIN), json!(i64::MIN)),
            (ElementType::S8, json!(-128), json!(-128)),
        ] {
            assert_eq!(back(ty, value.clone()), Ok(expected), "{value} as {ty}");
        }
    }

    #[test]
    fn values_that_a_type_does_not_have_are_refused() {
        for (ty, value, words) in [
            (ElementType::U8, json!(256), "256 is not an integer from 0 to 255"),
            (ElementType::S8, json!(-129), "-129 is not an integer from -128 to 127"),
            (ElementType::U32, json!(1.5), "1.5 is not an integer from 0 to 4294967295"),
            (ElementType::U32, json!("nan"), "\"nan\" is not a value of type u32"),
            (ElementType::F32, json!("many"), "\"many\" is none of \"nan\", \"inf\", \"-inf\""),
            (ElementType::F32, json!([1]), "[1] is not a value of type f32"),
        ] {
            assert_eq!(back(ty, value), Err(words.into()));
        }
    }
}
