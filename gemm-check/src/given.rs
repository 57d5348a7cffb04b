//! A request and its data, multiplied on a device and by the reference.

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::Problem;
use ptx_gemm_runtime::{CompiledGemm, Run};

use crate::bound::{Estimate, Rounding};
use crate::data::{Data, HostMatrix, Values, encode_all};
use crate::element::round;
use crate::epilogue;
use crate::error::CheckError;
use crate::product::{Precision, Product};
use crate::request::{Output, Request};

/// How the sums are accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sums {
    /// One fused multiply-add after another in the order of the PTX, exact to the bit.
    Fixed,
    /// In any order, as on tensor cores, which add the products of a block of K in an unspecified order and precision
    /// (PTX ISA, "Multiply-and-accumulate instruction: mma": order and rounding are unspecified).
    Free,
}

/// A request and its data: everything that does not depend on where it is multiplied.
pub(crate) struct Given<'a> {
    pub(crate) problem: Problem,
    pub(crate) request: &'a Request,
    pub(crate) input: Input,
}

impl Given<'_> {
    /// Generates the data of a request, if there is memory for them and a reference for their types.
    pub(crate) fn new(problem: Problem, request: &Request) -> Result<Given<'_>, CheckError> {
        supported(&problem)?;
        crate::memory::suffices(&problem, request)?;
        let input = Input::generate(&problem, request)?;
        Ok(Given { problem, request, input })
    }

    /// D, and the entry that ran.
    pub(crate) fn multiply(&self, gemm: &CompiledGemm) -> Result<(Run, HostMatrix), CheckError> {
        let Given { problem, request, input } = self;
        let laid = |operand| (request.shape(problem, operand), request.stack(problem, operand));
        let encode = |values: &[Values], dtype, (shape, stack)| HostMatrix::encode(values, dtype, shape, stack);
        let a = encode(&input.a, problem.types.a, laid(Operand::A));
        let b = encode(&input.b, problem.types.b, laid(Operand::B));
        let c = problem.epilogue.uses_c().then(|| encode(&input.c, problem.types.c, laid(Operand::C)));
        let vectors: Vec<Vec<u8>> = input.vectors.iter().map(|vector| encode_all(problem.types.acc, vector)).collect();
        let mut call = gemm.call();
        for (name, value) in &input.named_scalars {
            call = call.set(name, *value);
        }
        for (vector, bytes) in problem.epilogue.vectors.iter().zip(&vectors) {
            call = call.vector_bytes(&vector.name, problem.types.acc, bytes);
        }
        if let (Some(d), Output::InPlace) = (&c, request.output) {
            let mut d = d.clone();
            let run = call.accumulate_into(&a, &b, &mut d)?;
            return Ok((run, d));
        }
        let (shape, stack) = laid(Operand::D);
        let mut d = HostMatrix::filled(problem.types.d, shape, stack);
        let call = match &c {
            Some(c) => call.c(c),
            None => call,
        };
        let run = call.multiply_into(&a, &b, &mut d)?;
        Ok((run, d))
    }

    /// The reference of each element, row by row. `relative` is the error permitted for functions that hardware
    /// approximates.
    pub(crate) fn references(&self, product: usize, relative: f64, sums: Sums) -> Result<Vec<Estimate>, CheckError> {
        let Given { problem, request, input } = self;
        let (acc, stored) = (Rounding::of(problem.types.acc), Rounding::of(problem.types.d));
        let doubled = problem.types.acc == DType::F64;
        let precision = if doubled { Precision::Doubled } else { Precision::Single };
        let products = Product::of(&input.a[product], &input.b[product], precision);
        let exact = request.data == Data::Exact;
        // An operand that a scalar of 0 drops is not finite, and is not summed either.
        let large = |magnitude: &f64| magnitude.is_finite() && magnitude * acc.unit > 1.0;
        if exact && products.magnitude.iter().any(large) {
            let limit = (1.0 / acc.unit / 100.0) as usize;
            return Err(CheckError::NotExact { k: request.k, acc: problem.types.acc, limit });
        }
        let reference = |(index, (&sum, &magnitude)): (usize, (&f64, &f64))| {
            let (row, col) = (index / request.n, index % request.n);
            let operands = epilogue::Operands {
                acc: match sums {
                    Sums::Free => Estimate::accumulated(sum, magnitude, request.k, acc, exact),
                    Sums::Fixed => Estimate::exact(sum),
                },
                c: input.c_at(product, row, col),
                row,
                col,
                scalars: &input.scalars,
                vectors: &input.vectors,
            };
            let mut reference = epilogue::evaluate(&problem.epilogue, &operands, acc, relative);
            if problem.types.d != problem.types.acc {
                reference = reference.stored(stored);
            }
            if doubled && reference.error > 0.0 {
                // The reference itself is rounded to f64.
                reference.error += acc.unit * reference.value.abs();
            }
            reference
        };
        Ok(products.sum.iter().zip(&products.magnitude).enumerate().map(reference).collect())
    }
}

fn supported(problem: &Problem) -> Result<(), CheckError> {
    let types = problem.types;
    let without = |dtype: &DType| matches!(dtype, DType::E4m3 | DType::E5m2);
    match [types.a, types.b, types.acc, types.c, types.d].into_iter().find(without) {
        Some(dtype) => Err(CheckError::NoReference { dtype }),
        None => Ok(()),
    }
}

/// All operands of a product, as values.
pub(crate) struct Input {
    /// One for each product.
    pub(crate) a: Vec<Values>,
    pub(crate) b: Vec<Values>,
    /// Empty if the epilogue reads none.
    c: Vec<Values>,
    pub(crate) vectors: Vec<Vec<f64>>,
    /// In the order of the epilogue, rounded to the accumulator's type.
    pub(crate) scalars: Vec<f64>,
    /// The scalars passed to the runtime, which has to reject names that the epilogue does not have.
    named_scalars: Vec<(String, f64)>,
}

/// Whether an element, by row and column, may be infinite where data have infinities.
type Chosen = fn(usize, usize) -> bool;

fn even_rows(row: usize, _: usize) -> bool {
    row.is_multiple_of(2)
}

fn odd_columns(_: usize, col: usize) -> bool {
    !col.is_multiple_of(2)
}

fn nowhere(_: usize, _: usize) -> bool {
    false
}

impl Input {
    fn generate(problem: &Problem, request: &Request) -> Result<Input, CheckError> {
        let &Request { m, n, k, data, seed, .. } = request;
        let (types, epilogue) = (problem.types, &problem.epilogue);
        if let Some((name, value)) = request.scalars.iter().find(|(_, value)| value.fract() != 0.0)
            && data == Data::Exact
        {
            return Err(CheckError::Fraction { name: name.clone(), value: *value });
        }
        let mut named_scalars = request.scalars.clone();
        let mut scalars = Vec::new();
        for name in &epilogue.scalars {
            let given = request.scalars.iter().rev().find(|(given, _)| given == name).map(|(_, value)| *value);
            let value = given.unwrap_or(if name == "beta" { 0.0 } else { 1.0 });
            if given.is_none() {
                named_scalars.push((name.clone(), value));
            }
            scalars.push(round(types.acc, value));
        }
        // A matrix that a scalar of 0 drops is filled with values that would be noticed.
        let (reads_acc, reads_c) = epilogue::reads(epilogue, &scalars);
        // Each matrix has its own random sequence, so that it does not change with the extents of another.
        let mut sequence = 0;
        let mut values = |dtype, rows, cols, (first, infinite): (f64, Chosen), is_read: bool| {
            sequence += 1;
            let seed = seed.wrapping_mul(64).wrapping_add(sequence);
            let values = Values::generate(data, dtype, types.d, rows, cols, seed);
            match data {
                _ if !is_read => values.poisoned(dtype),
                Data::Special => values.beginning_with(first, dtype),
                Data::Infinite => values.with_infinities(dtype, seed, infinite),
                Data::Random | Data::Exact => values,
            }
        };
        let (in_a, in_b) = ((f64::NAN, even_rows as Chosen), (f64::INFINITY, odd_columns as Chosen));
        let products = 0..request.batch;
        let a = products.clone().map(|_| values(types.a, m, k, in_a, reads_acc)).collect();
        let b = products.clone().map(|_| values(types.b, k, n, in_b, reads_acc)).collect();
        let in_c = (f64::NAN, nowhere as Chosen);
        let c = products.filter(|_| epilogue.uses_c()).map(|_| values(types.c, m, n, in_c, reads_c)).collect();
        let extent = |axis| if axis == ptx_gemm_dsl::epilogue::Axis::M { m } else { n };
        let in_vector = (f64::NEG_INFINITY, nowhere as Chosen);
        let mut vector = |axis| values(types.acc, 1, extent(axis), in_vector, true).elements;
        let vectors = epilogue.vectors.iter().map(|of| vector(of.axis)).collect();
        Ok(Input { a, b, c, vectors, scalars, named_scalars })
    }

    pub(crate) fn c_at(&self, product: usize, row: usize, col: usize) -> f64 {
        self.c.get(product).map_or(0.0, |c| c.at(row, col))
    }
}
