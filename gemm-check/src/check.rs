//! One product, run and compared with its reference.

use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::Problem;
use ptx_gemm_dsl::{DType, Layout};
use ptx_gemm_runtime::{CompiledGemm, Error, Run, Shape, Stack};

use crate::bits::Sums;
use crate::bound::{Estimate, Rounding};
use crate::compare::Outcome;
use crate::data::{Data, HostMatrix, Values, encode_all, round};
use crate::product::{Precision, Product};
use crate::{epilogue, integer};

/// What to multiply.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Products; what `batch(strided)` computes in one launch.
    pub batch: usize,
    /// Leading dimensions in elements; the smallest possible where not stated.
    pub leading: Leading,
    /// Elements between one matrix of a batch and the next.
    pub gap: usize,
    /// Kind of the numbers.
    pub data: Data,
    /// Which of them.
    pub seed: u64,
    /// Run-time scalars. One that is not named is 0 if it is called `beta`, else 1.
    pub scalars: Vec<(String, f64)>,
    /// Where C lies.
    pub output: Output,
}

/// Leading dimensions in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // one for each matrix
pub struct Leading {
    pub a: Option<usize>,
    pub b: Option<usize>,
    pub c: Option<usize>,
    pub d: Option<usize>,
}

/// Where C lies, if the epilogue reads one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// In memory of its own.
    Apart,
    /// In D: the very same matrix.
    InPlace,
}

impl Output {
    /// In place, where the problem's C and D can be one matrix.
    pub fn in_place_if_possible(problem: &Problem) -> Output {
        let (types, layouts) = (problem.types, problem.layouts);
        if types.c == types.d && layouts.c == layouts.d { Output::InPlace } else { Output::Apart }
    }
}

/// Why there was nothing to compare.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The runtime's answer.
    #[error(transparent)]
    Runtime(#[from] Error),
    /// Matrices that this machine has no memory for.
    #[error("checking {m} x {n} x {k} needs about {needed} MiB of memory, {available} MiB are available")]
    TooLarge {
        /// Rows of D.
        m: usize,
        /// Columns of D.
        n: usize,
        /// Terms of each sum.
        k: usize,
        /// MiB needed.
        needed: u64,
        /// MiB available.
        available: u64,
    },
    /// Exact data with a scalar that is not an integer.
    #[error("exact data need integer scalars, `{name}` is {value}")]
    Fraction {
        /// Its name.
        name: String,
        /// Its value.
        value: f64,
    },
    /// Exact data whose sums pass what the accumulator holds exactly.
    #[error("sums of {k} exact products are not exact in {acc}: K is at most {limit}")]
    NotExact {
        /// Terms of each sum.
        k: usize,
        /// Type of the accumulator.
        acc: DType,
        /// The largest K.
        limit: usize,
    },
    /// A type without a reference.
    #[error("there is no reference for {dtype} yet")]
    NoReference {
        /// The type.
        dtype: DType,
    },
}

impl Request {
    /// Random data, packed matrices, seed 0.
    pub fn random(m: usize, n: usize, k: usize) -> Request {
        let (leading, scalars) = (Leading::default(), Vec::new());
        let (data, output) = (Data::Random, Output::Apart);
        Request { m, n, k, batch: 1, leading, gap: 0, data, seed: 0, scalars, output }
    }

    /// Exact integer data, packed matrices, seed 0.
    pub fn exact(m: usize, n: usize, k: usize) -> Request {
        Request { data: Data::Exact, ..Request::random(m, n, k) }
    }

    /// The same with a value for a scalar.
    pub fn set(mut self, name: &str, value: f64) -> Request {
        self.scalars.push((name.into(), value));
        self
    }

    /// The same for a batch of `count` products.
    pub fn batch(self, count: usize) -> Request {
        Request { batch: count, ..self }
    }

    /// The same with every leading dimension `padding` elements above the smallest possible.
    pub fn padded(self, problem: &Problem, padding: usize) -> Request {
        let ld = |operand| Some(self.shape(problem, operand).min_ld() + padding);
        let (a, b, c, d) = (ld(Operand::A), ld(Operand::B), ld(Operand::C), ld(Operand::D));
        Request { leading: Leading { a, b, c, d }, ..self }
    }

    /// Extents, layout and leading dimension of a matrix.
    pub fn shape(&self, problem: &Problem, operand: Operand) -> Shape {
        let (layouts, leading) = (problem.layouts, self.leading);
        let (rows, cols, layout, ld): (_, _, Layout, Option<usize>) = match operand {
            Operand::A => (self.m, self.k, layouts.a, leading.a),
            Operand::B => (self.k, self.n, layouts.b, leading.b),
            // In place there is one matrix, with one leading dimension.
            Operand::C if self.output == Output::InPlace => (self.m, self.n, layouts.d, leading.d),
            Operand::C => (self.m, self.n, layouts.c, leading.c),
            Operand::D => (self.m, self.n, layouts.d, leading.d),
        };
        let packed = Shape::packed(rows, cols, layout);
        Shape { ld: ld.unwrap_or(packed.ld), ..packed }
    }

    /// How many matrices there are, and how far apart.
    pub fn stack(&self, problem: &Problem, operand: Operand) -> Stack {
        let shape = self.shape(problem, operand);
        let stored = Shape { ld: shape.ld.max(shape.min_ld()), ..shape };
        match self.batch {
            1 => Stack::ONE,
            count => Stack { count, stride: stored.len().unwrap_or(0).saturating_add(self.gap) },
        }
    }
}

/// Multiplies what `request` describes and compares the result with the reference.
pub fn check(gemm: &CompiledGemm, request: &Request) -> Result<Outcome, CheckError> {
    let given = Given::new(gemm.problem().clone(), request)?;
    let (run, d) = given.multiply(gemm)?;
    let mut outcome = Outcome::new(run);
    outcome.padding_intact = d.padding_is_intact();
    for product in 0..request.batch {
        match given.problem.types.acc {
            DType::I32 => given.compare_integers(product, &d, &mut outcome),
            _ => given.compare_floats(product, &d, &mut outcome)?,
        }
    }
    Ok(outcome)
}

/// A request and its data: everything that does not depend on where it is multiplied.
pub(crate) struct Given<'a> {
    pub(crate) problem: Problem,
    pub(crate) request: &'a Request,
    input: Input,
}

impl Given<'_> {
    /// The data of a request, if there is memory for them and a reference for their types.
    pub(crate) fn new(problem: Problem, request: &Request) -> Result<Given<'_>, CheckError> {
        supported(&problem)?;
        crate::memory::suffices(&problem, request)?;
        let input = Input::generate(&problem, request)?;
        Ok(Given { problem, request, input })
    }

    /// D, and what ran.
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

    /// The reference of each element, row by row. `relative` is the error granted to functions that hardware
    /// approximates.
    pub(crate) fn references(&self, product: usize, relative: f64, sums: Sums) -> Result<Vec<Estimate>, CheckError> {
        let Given { problem, request, input } = self;
        let (acc, stored) = (Rounding::of(problem.types.acc), Rounding::of(problem.types.d));
        let doubled = problem.types.acc == DType::F64;
        let precision = if doubled { Precision::Doubled } else { Precision::Single };
        let products = Product::of(&input.a[product], &input.b[product], precision);
        let exact = request.data == Data::Exact;
        if exact && products.magnitude.iter().any(|magnitude| magnitude * acc.unit > 1.0) {
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

    fn compare_floats(&self, product: usize, d: &HostMatrix, outcome: &mut Outcome) -> Result<(), CheckError> {
        let stored = Rounding::of(self.problem.types.d);
        // In whatever order the sums come about.
        let references = self.references(product, epilogue::APPROXIMATE, Sums::Free)?;
        for (index, reference) in references.into_iter().enumerate() {
            let (row, col) = (index / self.request.n, index % self.request.n);
            outcome.compare(row, col, d.get(product, row, col), reference, stored);
        }
        Ok(())
    }

    fn compare_integers(&self, product: usize, d: &HostMatrix, outcome: &mut Outcome) {
        let Given { problem, input, .. } = self;
        let (a, b) = (&input.a[product], &input.b[product]);
        let sums = integer::product(a, b);
        for (index, &acc) in sums.iter().enumerate() {
            let (row, col) = (index / b.cols, index % b.cols);
            let operands = integer::Operands {
                acc,
                c: input.c_at(product, row, col) as i32,
                row,
                col,
                scalars: &input.scalars,
                vectors: &input.vectors,
            };
            if let Some(reference) = integer::evaluate(&problem.epilogue, &operands) {
                let reference = Estimate::exact(f64::from(reference)).stored(Rounding::of(problem.types.d));
                outcome.compare(row, col, d.get(product, row, col), reference, Rounding::of(problem.types.d));
            }
        }
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

/// Everything that goes into a product, as values.
struct Input {
    /// One for each product.
    a: Vec<Values>,
    b: Vec<Values>,
    /// Empty if the epilogue reads none.
    c: Vec<Values>,
    vectors: Vec<Vec<f64>>,
    /// In the order of the epilogue, rounded to the accumulator's type.
    scalars: Vec<f64>,
    /// What the runtime is given: names that the epilogue does not have are for it to refuse.
    named_scalars: Vec<(String, f64)>,
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
        // Sequences of their own, so that one matrix does not change with the extents of another.
        let mut sequence = 0;
        let mut values = |dtype, rows, cols| {
            sequence += 1;
            Values::generate(data, dtype, rows, cols, seed.wrapping_mul(64).wrapping_add(sequence))
        };
        let products = 0..request.batch;
        let a = products.clone().map(|_| values(types.a, m, k)).collect();
        let b = products.clone().map(|_| values(types.b, k, n)).collect();
        let c = products.filter(|_| epilogue.uses_c()).map(|_| values(types.c, m, n)).collect();
        let extent = |axis| if axis == ptx_gemm_dsl::epilogue::Axis::M { m } else { n };
        let vectors =
            epilogue.vectors.iter().map(|vector| values(types.acc, 1, extent(vector.axis)).elements).collect();
        Ok(Input { a, b, c, vectors, scalars, named_scalars })
    }

    fn c_at(&self, product: usize, row: usize, col: usize) -> f64 {
        self.c.get(product).map_or(0.0, |c| c.at(row, col))
    }
}
