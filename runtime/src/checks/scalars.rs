//! The epilogue's own arguments: scalars and vectors by name, and whether C is read at all.

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::epilogue::{Axis, BinaryOp, Epilogue, Expr};

use crate::checks::Extents;
use crate::error::ArgumentError;

/// The value of each scalar, in the order of the epilogue; a name given twice takes the last value.
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

/// Fractions are rounded to the accumulator's type; a number outside its range, or a fraction for an integer, is a
/// mistake of the caller.
fn representable(acc: DType, value: f64) -> bool {
    match acc {
        DType::I32 => value.fract() == 0.0 && value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX),
        DType::F64 => true,
        _ => !value.is_finite() || (value as f32).is_finite(),
    }
}

/// One vector as the caller gave it.
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

/// Whether the kernel reads C with these scalars: not if one of them is 0 and a factor beside every `c` of the expression.
pub(crate) fn reads_c(expr: &Expr, scalars: &[f64]) -> bool {
    let mut beside_c = Vec::new();
    scalars_beside_c(expr, &[], &mut beside_c);
    let drops = |scalar: &usize| scalars.get(*scalar) == Some(&0.0) && beside_c.iter().all(|set| set.contains(scalar));
    match beside_c.first() {
        Some(first) => !first.iter().any(drops),
        None => false,
    }
}

/// For each `c`, the scalars that are factors of the same product. A sign does not end a product, anything else does.
fn scalars_beside_c(expr: &Expr, beside: &[usize], out: &mut Vec<Vec<usize>>) {
    match expr {
        Expr::C => out.push(beside.to_vec()),
        Expr::Neg(x) => scalars_beside_c(x, beside, out),
        Expr::Binary(BinaryOp::Mul, ..) => {
            let factors = expr.factors();
            let scalar = |factor: &&Expr| match unsigned(factor) {
                Expr::Scalar(index) => Some(*index),
                _ => None,
            };
            let all: Vec<usize> = beside.iter().copied().chain(factors.iter().filter_map(scalar)).collect();
            factors.into_iter().for_each(|factor| scalars_beside_c(factor, &all, out));
        }
        Expr::Binary(_, x, y) => {
            scalars_beside_c(x, &[], out);
            scalars_beside_c(y, &[], out);
        }
        Expr::Call(_, args) => args.iter().for_each(|arg| scalars_beside_c(arg, &[], out)),
        Expr::Acc | Expr::Scalar(_) | Expr::Vector(_) | Expr::Literal(_) => {}
    }
}

fn unsigned(mut expr: &Expr) -> &Expr {
    while let Expr::Neg(x) = expr {
        expr = x;
    }
    expr
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::Schedule;

    use super::reads_c;

    #[track_caller]
    fn check(epilogue: &str, scalars: &[f64], reads: bool) {
        let text = format!("tile(32, 32); thread(1, 1); shared(none); epilogue({epilogue});");
        let schedule: Schedule = text.parse().unwrap();
        assert_eq!(reads_c(&schedule.problem().unwrap().epilogue.expr, scalars), reads, "{epilogue} {scalars:?}");
    }

    #[test]
    fn a_zero_beside_every_c_drops_it() {
        check("|acc| acc", &[], false);
        check("|acc, c| acc + c", &[], true);
        check("|acc, c, beta| acc + beta * c", &[0.0], false);
        check("|acc, c, beta| acc + beta * c", &[-0.0], false);
        check("|acc, c, beta| acc + beta * c", &[1e-30], true);
        check("|acc, c, beta| acc + -beta * c * 2", &[0.0], false);
        check("|acc, c, beta| acc + beta * -(c * 2)", &[0.0], false);
        check("|acc, c, beta| acc + beta * (c + 1)", &[0.0], true);
        check("|acc, c, beta| acc + beta * abs(c)", &[0.0], true);
        check("|acc, c, alpha, beta| alpha * c + beta * c", &[0.0, 0.0], true);
        check("|acc, c, alpha, beta| alpha * c - alpha * beta * c", &[0.0, 1.0], false);
    }
}
