//! The epilogue's own arguments: scalars and vectors by name.

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::epilogue::{Axis, Epilogue};
use ptx_gemm_dsl::types::Problem;

use crate::checks::Extents;
use crate::error::ArgumentError;

/// C is required if the kernel reads it, and must be absent if the epilogue does not use it.
pub(crate) fn check_c(problem: &Problem, given: bool, scalars: &[f64]) -> Result<(), ArgumentError> {
    let epilogue = &problem.epilogue;
    if given && !epilogue.uses_c() {
        return Err(ArgumentError::UnusedC { epilogue: format!("epilogue({epilogue})") });
    }
    if !given && epilogue.reads_c(scalars) {
        return Err(ArgumentError::MissingC);
    }
    Ok(())
}

/// The value of each scalar, in the order of the epilogue; if a name is given twice, the last value counts.
pub(crate) fn resolve_scalars(
    epilogue: &Epilogue,
    acc: DType,
    given: &[(impl AsRef<str>, f64)],
) -> Result<Vec<f64>, ArgumentError> {
    if let Some((name, _)) = given
        .iter()
        .map(|(name, value)| (name.as_ref(), value))
        .find(|(name, _)| !epilogue.scalars.iter().any(|known| known == name))
    {
        return Err(ArgumentError::UnknownScalar { name: name.into(), known: known("scalars", &epilogue.scalars) });
    }
    let value = |name: &String| {
        let found = given.iter().rev().find(|(given, _)| given.as_ref() == name.as_str());
        let value =
            found.map(|(_, value)| *value).ok_or_else(|| ArgumentError::MissingScalar { name: name.clone() })?;
        if representable(acc, value) {
            Ok(value)
        } else {
            Err(ArgumentError::ScalarValue { name: name.clone(), value, dtype: acc })
        }
    };
    epilogue.scalars.iter().map(value).collect()
}

/// Fractions are rounded to the accumulator's type; a number outside its range, or a fraction for an integer, is an
/// error.
fn representable(acc: DType, value: f64) -> bool {
    match acc {
        DType::I32 => value.fract() == 0.0 && value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX),
        DType::F64 => true,
        _ => !value.is_finite() || (value as f32).is_finite(),
    }
}

/// One vector as given by the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenVector<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: DType,
    pub(crate) len: usize,
}

/// For each vector of the epilogue, the index of the one given for it.
pub(crate) fn resolve_vectors(
    epilogue: &Epilogue,
    acc: DType,
    extents: Extents,
    given: &[GivenVector<'_>],
) -> Result<Vec<usize>, ArgumentError> {
    let names: Vec<String> = epilogue.vectors.iter().map(|vector| vector.name.clone()).collect();
    if let Some(stranger) = given.iter().find(|given| !names.iter().any(|name| name == given.name)) {
        return Err(ArgumentError::UnknownVector { name: stranger.name.into(), known: known("vectors", &names) });
    }
    let resolve = |vector: &ptx_gemm_dsl::epilogue::Vector| {
        let name = vector.name.clone();
        let Some(index) = given.iter().rposition(|given| given.name == name) else {
            return Err(ArgumentError::MissingVector { name });
        };
        let (axis, expected) = match vector.axis {
            Axis::M => ("M", extents.m as usize),
            Axis::N => ("N", extents.n as usize),
        };
        let GivenVector { dtype, len, .. } = given[index];
        if dtype != acc {
            return Err(ArgumentError::VectorType { name, got: dtype, expected: acc });
        }
        if len != expected {
            return Err(ArgumentError::VectorLength { name, got: len, axis, expected });
        }
        Ok(index)
    };
    epilogue.vectors.iter().map(resolve).collect()
}

fn known(what: &str, names: &[String]) -> String {
    if names.is_empty() { format!("it has no {what}") } else { format!("its {what} are {}", names.join(", ")) }
}
