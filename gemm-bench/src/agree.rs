//! Checks a result against an f64 reference at some elements, and against cuBLAS everywhere.
//!
//! Two sums of K products, each added in any order, are within gamma(K + 1) |A||B| of the exact sum, and therefore
//! within twice that of each other; gamma(n) = n u / (1 - n u) with u the unit roundoff of the accumulator (Higham,
//! *Accuracy and Stability of Numerical Algorithms*, section 3.1). |A||B| is computed by cuBLAS as well, at the same
//! size. With `strassen` the bound is that of the language reference, for elements of at most 1.

use ptx_gemm::cuda::{Cublas, Queue};
use ptx_gemm::random::SplitMix64;
use ptx_gemm::{CompiledGemm, DType, Device, Error, Resident};
use ptx_gemm_check::bound::{Estimate, Rounding};
use ptx_gemm_check::epilogue::{self, APPROXIMATE};
use ptx_gemm_check::integer;
use ptx_gemm_dsl::promise::Quadrants;

use crate::host::Host;
use crate::library::Library;
use crate::operands::{Extras, Operands};

/// The number of elements that are checked in f64, the limit on the terms of all these sums, and the minimum
/// number of elements.
const SAMPLES: usize = 256;
const TERMS: usize = 1 << 25;
const FEWEST: usize = 16;

/// The expected result.
pub(crate) struct Reference {
    /// cuBLAS's D, and |A||B|.
    cublas: Option<(Host, Host)>,
    samples: Vec<Sample>,
}

/// One element, summed in f64.
struct Sample {
    place: [usize; 3],
    index: usize,
    value: f64,
    magnitude: f64,
}

/// The accuracy of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accuracy {
    /// The share of elements that equal cuBLAS's bit for bit; `None` without cuBLAS.
    pub equal_bits: Option<f64>,
    /// The relative error of the elements checked in f64, in the Frobenius norm; `None` for integers, and with a custom
    /// epilogue.
    pub error: Option<f64>,
    /// The same of cuBLAS's result.
    pub cublas_error: Option<f64>,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Agreement {
    /// Every element that was compared is within its bound.
    Right(Accuracy),
    /// An element exceeds its bound.
    Wrong(String),
    /// No element could be compared, for this reason.
    Uncompared(String),
}

/// The largest relative error, in the Frobenius norm, of a result that bounds cannot judge. A result of zeros has 1.
const USEFUL: f64 = 0.5;

impl Reference {
    /// Computes it, with cuBLAS's help if there is one: the product by a library, and the one of magnitudes.
    pub(crate) fn new(
        device: &Device,
        queue: &Queue,
        libraries: Option<(Library<'_>, &Cublas)>,
        operands: &Operands,
        seed: u64,
    ) -> Result<Reference, Error> {
        let cublas = libraries.map(|libraries| by_cublas(device, queue, libraries, operands)).transpose()?;
        Ok(Reference { cublas, samples: samples(operands, seed) })
    }

    /// Runs a schedule on poisoned memory and compares what it wrote.
    pub(crate) fn compare(
        &self,
        device: &Device,
        queue: &Queue,
        operands: &Operands,
        (gemm, extras): (&CompiledGemm, &Extras),
    ) -> Result<Agreement, Error> {
        let mut d = operands.poisoned(operands.problem.types.d);
        let resident = device.upload(&d)?;
        queue.launch(&operands.prepared_into(gemm, extras, &resident)?)?;
        queue.wait()?;
        resident.download(&mut d)?;
        let coarse = gemm.kernel().interface().entries.iter().find_map(|entry| entry.coarse);
        let (terms, acc) = (terms(operands), Rounding::of(operands.problem.types.acc));
        let coarse = coarse.map(|of| Estimate::coarse(0.0, 1.0, terms, of.chunk, acc, false).error);
        Ok(self.agrees(operands, extras, Sums { levels: gemm.kernel().levels(), coarse }, &d))
    }

    /// Runs the plain product by a library on poisoned memory, and compares what it wrote.
    pub(crate) fn of_library(
        &self,
        device: &Device,
        operands: &Operands,
        run: impl FnOnce(&Resident) -> Result<(), Error>,
    ) -> Result<Agreement, Error> {
        let mut d = operands.poisoned(operands.problem.types.d);
        let resident = device.upload(&d)?;
        run(&resident)?;
        resident.download(&mut d)?;
        Ok(self.agrees(operands, &Extras::none(), Sums::default(), &d))
    }

    fn agrees(&self, operands: &Operands, extras: &Extras, sums: Sums, d: &Host) -> Agreement {
        let bound = Bound::of(operands, sums);
        let plain = extras.is_plain(Rounding::of(operands.problem.types.epilogue()));
        let vectors = extras.vectors();
        let (mut compared, mut undefined) = (0, 0);
        for &Sample { place, index, value, magnitude } in &self.samples {
            let got = d.get(index);
            let expected = match plain {
                true => Some((saturated(value, operands.problem.types.d), bound.to_exact(magnitude, value))),
                false => {
                    finished(operands, extras, &vectors, place, Estimate { value, error: bound.to_sum(magnitude) })
                }
            };
            match expected {
                None => undefined += 1,
                Some((value, limit)) if value.is_finite() && limit.is_infinite() => {}
                Some((value, limit)) if !within(got, value, limit) => {
                    let what = format!("element {index} is {got:e}, in f64 it is {value:e} within {limit:e}");
                    return Agreement::Wrong(what);
                }
                Some(_) => compared += 1,
            }
        }
        if compared == 0 {
            return self.by_norm(operands, d, plain, undefined);
        }
        let error = plain.then(|| self.error(operands, d)).flatten();
        // cuBLAS does not compute the epilogue.
        let Some((theirs, magnitude)) = self.cublas.as_ref().filter(|_| plain) else {
            return Agreement::Right(Accuracy { equal_bits: None, error, cublas_error: None });
        };
        let mut equal = 0;
        for index in 0..d.elements() {
            if d.raw(index) == theirs.raw(index) {
                equal += 1;
                continue;
            }
            let (got, value) = (d.get(index), theirs.get(index));
            let limit = 2.0 * bound.to_exact(magnitude.get(index), value);
            if limit.is_infinite() {
                continue;
            }
            if !within(got, value, limit) {
                let what = format!("element {index} is {got:e}, cuBLAS has {value:e}, the bound is {limit:e}");
                return Agreement::Wrong(what);
            }
        }
        let equal_bits = Some(equal as f64 / d.elements().max(1) as f64);
        Agreement::Right(Accuracy { equal_bits, error, cublas_error: self.error(operands, theirs) })
    }

    /// Judges a result by the norm if no sampled element has a useful bound, such as after a long sum in f16.
    fn by_norm(&self, operands: &Operands, d: &Host, plain: bool, undefined: usize) -> Agreement {
        let all = self.samples.len();
        if undefined == all {
            let why = "the epilogue divides an integer by 0 at each of the elements that were compared";
            return Agreement::Uncompared(why.into());
        }
        match self.error(operands, d).filter(|_| plain) {
            Some(error) if error <= USEFUL => {
                let cublas_error = self.cublas.as_ref().and_then(|(theirs, _)| self.error(operands, theirs));
                Agreement::Right(Accuracy { equal_bits: None, error: Some(error), cublas_error })
            }
            Some(error) => Agreement::Wrong(format!("the relative error of {all} elements is {error:.3}")),
            None => Agreement::Uncompared("the bound on rounding errors excludes no result".into()),
        }
    }

    /// The relative error of the sampled elements of a result, in the Frobenius norm.
    fn error(&self, operands: &Operands, d: &Host) -> Option<f64> {
        let squares = |of: &dyn Fn(&Sample) -> f64| self.samples.iter().map(|sample| of(sample).powi(2)).sum::<f64>();
        let exact = squares(&|sample| sample.value);
        let wrong = squares(&|sample| d.get(sample.index) - sample.value);
        (exact > 0.0 && !operands.problem.types.acc.is_integer()).then(|| (wrong / exact).sqrt())
    }
}

/// The epilogue of a sum, and the permitted distance from it; `None` if it is not defined.
fn finished(
    operands: &Operands,
    extras: &Extras,
    vectors: &[Vec<f64>],
    [product, row, col]: [usize; 3],
    acc: Estimate,
) -> Option<(f64, f64)> {
    let types = operands.problem.types;
    let (rounding, stored) = (Rounding::of(types.epilogue()), Rounding::of(types.d));
    let (c, scalars) = (extras.c(product, row, col), extras.scalars.as_slice());
    if types.epilogue().is_integer() {
        let element = integer::Operands { acc: acc.value as i32, c: c as i32, row, col, scalars, vectors };
        return integer::evaluate(&extras.epilogue, &element).map(|value| (saturated(f64::from(value), types.d), 0.0));
    }
    let element = epilogue::Operands { acc, c, row, col, scalars, vectors };
    let value = epilogue::evaluate(&extras.epilogue, &element, rounding, APPROXIMATE).stored(stored);
    Some((value.value, value.error))
}

/// What an integer D holds of a sum: one that does not fit saturates. Other types round, within the bound.
fn saturated(value: f64, d: DType) -> f64 {
    if d.is_integer() { Estimate::exact(value).stored(Rounding::of(d)).value } else { value }
}

/// Whether a result is the reference, or within the bound of it.
fn within(got: f64, value: f64, limit: f64) -> bool {
    if value.is_finite() { (got - value).abs() <= limit } else { got == value || (got.is_nan() && value.is_nan()) }
}

/// The largest permitted distance of a result from the exact sum.
struct Bound {
    /// The unit roundoff of the accumulator and, for tf32, of the operands.
    sum: f64,
    /// The unit roundoff of D.
    stored: f64,
    /// The bound on every sum with Strassen's algorithm.
    quadrants: Option<f64>,
}

/// How sums differ from those of one multiply-add after another.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Levels of `strassen`.
    levels: Option<u32>,
    /// The bound on a sum of magnitude 1, where tensor cores keep few bits of its terms.
    coarse: Option<f64>,
}

/// Products of a sum, and its addition to another one.
fn terms(operands: &Operands) -> usize {
    operands.size.k.saturating_add(1)
}

impl Bound {
    fn of(operands: &Operands, Sums { levels, coarse }: Sums) -> Bound {
        let types = operands.problem.types;
        let unit = unit(types.acc);
        let gamma = coarse.unwrap_or_else(|| Rounding::of(types.acc).gamma(terms(operands)));
        // A bound as large as the sum of the magnitudes excludes nothing.
        let gamma = if gamma < 1.0 { gamma } else { f64::INFINITY };
        let rounded_inputs = if types.a == DType::Tf32 { 2.0 * TF32 } else { 0.0 };
        let stored = if types.d == types.acc { 0.0 } else { self::unit(types.d) };
        // A sum of integers is rounded once more.
        let stored = stored + if types.acc.is_integer() { self::unit(types.epilogue()) } else { 0.0 };
        let quadrants = levels.map(|levels| {
            let of = Quadrants { levels, operands: [self::unit(types.a), self::unit(types.b)], sums: unit };
            let product = |depth: usize, [a, b]: [f64; 2]| {
                let gamma = (depth as f64 + 1.0) * unit * 2.0;
                (gamma + rounded_inputs) * depth as f64 * a * b
            };
            of.bound(operands.size.k, [1.0, 1.0], &product)
        });
        Bound { sum: gamma + rounded_inputs, stored, quadrants }
    }

    fn to_sum(&self, magnitude: f64) -> f64 {
        // The magnitude is itself rounded, upwards or downwards, so the bound is slightly enlarged.
        self.quadrants.unwrap_or(if magnitude == 0.0 { 0.0 } else { self.sum * magnitude * 1.001 })
    }

    fn to_exact(&self, magnitude: f64, value: f64) -> f64 {
        let sum = self.to_sum(magnitude);
        sum + self.stored * (value.abs() + sum)
    }
}

/// Half the distance from 1 to the next number; 0 for integers, which are exact.
fn unit(dtype: DType) -> f64 {
    Rounding::of(dtype).unit
}

/// The relative error of a tf32 operand, which has 10 bits after the leading one and may be truncated instead of
/// rounded.
const TF32: f64 = 1.0 / 1024.0;

fn by_cublas(
    device: &Device,
    queue: &Queue,
    (library, cublas): (Library<'_>, &Cublas),
    operands: &Operands,
) -> Result<(Host, Host), Error> {
    let types = operands.problem.types;
    let mut d = operands.poisoned(types.d);
    let resident = device.upload(&d)?;
    library.compute(queue, operands, &resident)?;
    resident.download(&mut d)?;
    if types.acc.is_integer() {
        let exact = Host::poisoned(DType::U8, operands.poisoned(types.d).shape, d.stack);
        return Ok((d, exact));
    }
    // In the widest type that cuBLAS supports for it, so that nothing overflows and little accuracy is lost.
    let wide = if types.acc == DType::F64 { DType::F64 } else { DType::F32 };
    let (a, b) = (operands.a.magnitudes(wide), operands.b.magnitudes(wide));
    let mut magnitude = operands.poisoned(wide);
    let (a, b, product) = (device.upload(&a)?, device.upload(&b)?, device.upload(&magnitude)?);
    let mut widened = types;
    (widened.a, widened.b, widened.acc, widened.d) = (wide, wide, wide, wide);
    queue.launch(&cublas.product(widened, &a, &b, &product)?)?;
    queue.wait()?;
    product.download(&mut magnitude)?;
    Ok((d, magnitude))
}

/// Some elements, the last one among them.
fn samples(operands: &Operands, seed: u64) -> Vec<Sample> {
    let crate::suites::Size { m, n, k, batch } = operands.size;
    let mut numbers = SplitMix64::new(seed);
    let mut below = |limit: usize| numbers.next_in(0, limit as i64 - 1) as usize;
    let mut places: Vec<[usize; 3]> =
        (1..(TERMS / k).clamp(FEWEST, SAMPLES)).map(|_| [below(batch), below(m), below(n)]).collect();
    places.push([batch - 1, m - 1, n - 1]);
    let d = operands.poisoned(operands.problem.types.d);
    let integer = operands.problem.types.acc.is_integer();
    let sample = |[product, row, col]: [usize; 3]| {
        let term = |k| operands.a.at(product, row, k) * operands.b.at(product, k, col);
        let (value, magnitude) = (0..k).map(term).fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs()));
        // Sums of integers wrap.
        let value = if integer { f64::from(value as i64 as i32) } else { value };
        Sample { place: [product, row, col], index: d.index(product, row, col), value, magnitude }
    };
    places.into_iter().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use ptx_gemm::DType;

    use super::saturated;

    #[test]
    fn sums_that_an_integer_cannot_hold() {
        let of = |d| [-300.0, 3.0, 300.0].map(|sum| saturated(sum, d));
        assert_eq!(of(DType::I8), [-128.0, 3.0, 127.0]);
        assert_eq!(of(DType::U8), [0.0, 3.0, 255.0]);
        assert_eq!(of(DType::I32), [-300.0, 3.0, 300.0]);
        assert_eq!(of(DType::Bf16), [-300.0, 3.0, 300.0]);
    }
}
