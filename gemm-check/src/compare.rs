//! Compares a result with its reference.

use std::fmt;

use ptx_gemm_runtime::Run;
use serde::Serialize;

use crate::bound::{Estimate, Rounding};

/// The verdict of a comparison. Only [`Verdict::Right`] says that something was computed correctly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every element that could be compared is within its bound, and nothing else was written.
    Right,
    /// An element exceeds its bound, or something else was written.
    Wrong,
    /// D has no elements, and nothing was written.
    Empty,
    /// D has elements, and none could be compared: the data leave all of them undefined, or their bounds exclude no result.
    Uncompared,
}

impl Verdict {
    /// The verdict from the number of elements that were and were not compared, and whether the compared ones are right.
    pub fn of(right: bool, compared: usize, left_out: usize) -> Verdict {
        match (right, compared, left_out) {
            (false, ..) => Verdict::Wrong,
            (true, 0, 0) => Verdict::Empty,
            (true, 0, _) => Verdict::Uncompared,
            (true, ..) => Verdict::Right,
        }
    }

    /// Whether nothing contradicts the result: it is right, or has no elements.
    pub fn holds(self) -> bool {
        matches!(self, Verdict::Right | Verdict::Empty)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Right => "right",
            Verdict::Wrong => "WRONG",
            Verdict::Empty => "empty: D has no elements",
            Verdict::Uncompared => "NOT COMPARED",
        })
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The entry that ran.
    pub run: Run,
    /// The largest |D - reference| / bound; infinite where the bound is 0 and D differs, or where only one is NaN.
    pub max_error: f64,
    /// The element with that error, if it is above 1.
    pub worst: Option<Mismatch>,
    /// Elements compared.
    pub compared: usize,
    /// Elements without a reference: an integer is divided by 0.
    pub undefined: usize,
    /// Elements with a bound that excludes no result.
    pub unbounded: usize,
    /// Whether everything around the elements of D is unchanged.
    pub padding_intact: bool,
    /// The sums of the squares of the errors and of the references, where both are finite.
    squares: [f64; 2],
}

/// Why elements have no reference, and why they have no bound.
const UNDEFINED: &str = "the epilogue divides an integer by 0, which has no defined result";
const UNBOUNDED: &str = "the bound on rounding errors excludes no result";

/// An element that is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mismatch {
    /// Its row.
    pub row: usize,
    /// Its column.
    pub col: usize,
    /// What D has there.
    pub got: f64,
    /// The reference.
    pub expected: f64,
    /// The largest permitted distance from it.
    pub bound: f64,
}

impl Outcome {
    pub(crate) fn new(run: Run) -> Outcome {
        let (compared, undefined, unbounded) = (0, 0, 0);
        Outcome {
            run,
            max_error: 0.0,
            worst: None,
            compared,
            undefined,
            unbounded,
            padding_intact: true,
            squares: [0.0; 2],
        }
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        let right = self.max_error <= 1.0 && self.padding_intact;
        Verdict::of(right, self.compared, self.undefined + self.unbounded)
    }

    /// Whether every element that could be compared is within its bound, and nothing else was written. False if D has elements
    /// of which none could be compared; true if it has none.
    pub fn is_right(&self) -> bool {
        self.verdict().holds()
    }

    /// Elements of D.
    pub fn elements(&self) -> usize {
        self.compared + self.undefined + self.unbounded
    }

    /// Why elements were not compared; `None` if all were.
    pub fn left_out(&self) -> Option<String> {
        let reasons = [(self.undefined, UNDEFINED), (self.unbounded, UNBOUNDED)];
        let reasons = reasons.into_iter().filter(|(count, _)| *count > 0);
        let texts: Vec<String> = reasons.map(|(count, why)| format!("{count} of {}: {why}", self.elements())).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// The Frobenius norm of D - reference, relative to that of the reference; infinite elements and NaN do not count.
    pub fn relative_error(&self) -> f64 {
        let [errors, references] = self.squares;
        if errors == 0.0 { 0.0 } else { (errors / references).sqrt() }
    }

    /// Takes one element into account.
    pub(crate) fn compare(&mut self, row: usize, col: usize, got: f64, reference: Estimate, stored: Rounding) {
        // With an infinite bound, any result passes: that is not a comparison.
        if reference.value.is_finite() && reference.error.is_infinite() {
            self.unbounded += 1;
            return;
        }
        let ratio = ratio(got, reference, stored);
        self.compared += 1;
        if got.is_finite() && reference.value.is_finite() {
            self.squares[0] += (got - reference.value).powi(2);
            self.squares[1] += reference.value.powi(2);
        }
        if ratio > self.max_error {
            self.max_error = ratio;
            if ratio > 1.0 {
                let Estimate { value: expected, error: bound } = reference;
                self.worst = Some(Mismatch { row, col, got, expected, bound });
            }
        }
    }
}

/// |got - value| / error, with separate cases for values that have no distance.
fn ratio(got: f64, Estimate { value, error }: Estimate, stored: Rounding) -> f64 {
    let right = if value.is_nan() {
        got.is_nan()
    } else if got.is_nan() || value.is_infinite() {
        got == value
    } else if got.is_infinite() {
        // The value plus its bound may exceed the largest number of the type.
        got.signum() == value.signum() && value.abs() + error >= stored.max
    } else {
        let distance = (got - value).abs();
        return if distance == 0.0 { 0.0 } else { distance / error };
    };
    if right { 0.0 } else { f64::INFINITY }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.elements(), self.compared) {
            (0, _) => f.write_str("D has no elements")?,
            (all, 0) => write!(f, "none of {all} elements compared")?,
            (_, compared) => write!(f, "{compared} elements, largest error {:.3} of its bound", self.max_error)?,
        }
        if let Some(Mismatch { row, col, got, expected, bound }) = self.worst {
            write!(f, ": D[{row}, {col}] is {got:e}, the reference is {expected:e} within {bound:e}")?;
        }
        if let Some(left_out) = self.left_out() {
            write!(f, "; not compared: {left_out}")?;
        }
        if !self.padding_intact {
            f.write_str("; the padding between the rows of D was written")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::DType;

    use super::ratio;
    use crate::bound::{Estimate, Rounding};

    #[track_caller]
    fn check(got: f64, value: f64, error: f64, expected: f64) {
        let ratio = ratio(got, Estimate { value, error }, Rounding::of(DType::F32));
        assert_eq!(ratio, expected, "{got} against {value} within {error}");
    }

    #[test]
    fn an_element_is_measured_by_its_bound() {
        const INF: f64 = f64::INFINITY;
        const NAN: f64 = f64::NAN;
        check(1.5, 1.0, 1.0, 0.5);
        check(3.0, 1.0, 1.0, 2.0);
        check(1.0, 1.0, 0.0, 0.0);
        check(-0.0, 0.0, 0.0, 0.0);
        // With a bound of 0, only equality is right.
        check(1.0 + 1e-9, 1.0, 0.0, INF);
        // NaN is right only for NaN, an infinity only for the same infinity.
        check(NAN, NAN, 0.1, 0.0);
        check(1.0, NAN, 0.1, INF);
        check(NAN, 1.0, 0.1, INF);
        check(INF, INF, 0.1, 0.0);
        check(-INF, INF, 0.1, INF);
        check(1e38, INF, 0.1, INF);
        check(INF, 1.0, 0.1, INF);
        // A sum that may exceed the largest number may become infinite.
        check(INF, 3.4e38, 1e36, 0.0);
        check(-INF, 3.4e38, 1e36, INF);
    }
}
