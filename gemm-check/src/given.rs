//! A request and its data, multiplied on a device and by the reference.

use std::borrow::Cow;

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::promise::{Line, Quadrants};
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::{Batch, Problem};
use ptx_gemm_runtime::interface::{Coarse, Emulated};
use ptx_gemm_runtime::{CompiledGemm, Run, Stack};

use crate::bound::{COARSE_UNIT, Estimate, Rounding};
use crate::data::{Data, HostMatrix, Results, Values, encode_all, largest_exact};
use crate::element::{factor, is_halfway, round};
use crate::epilogue;
use crate::error::CheckError;
use crate::planes;
use crate::product::{Precision, Product};
use crate::request::{Output, Request};
use crate::size::Size;

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
    /// Set if the product is computed from planes of the operands.
    emulated: Option<Emulated>,
    /// Set if sums keep few bits of their terms.
    coarse: Option<Coarse>,
    /// Levels of Strassen's algorithm.
    levels: Option<u32>,
}

impl Given<'_> {
    /// Generates the data of a request. Fails if memory does not suffice, or if their types have no reference.
    pub(crate) fn new<'r>(gemm: &CompiledGemm, request: &'r Request) -> Result<Given<'r>, CheckError> {
        let problem = gemm.problem().clone();
        crate::memory::suffices(&problem, request)?;
        let entries = &gemm.kernel().interface().entries;
        let emulated = entries.iter().find_map(|entry| entry.emulated);
        let coarse = entries.iter().find_map(|entry| entry.coarse);
        let levels = gemm.kernel().levels();
        let input = Input::generate(&problem, request, emulated, levels)?;
        Ok(Given { problem, request, input, emulated, coarse, levels })
    }

    /// D, and the entry that ran.
    pub(crate) fn multiply(&self, gemm: &CompiledGemm) -> Result<(Run, Results), CheckError> {
        let Given { problem, request, input, .. } = self;
        if problem.batch == Batch::Grouped {
            return self.multiply_group(gemm);
        }
        let laid = |operand| (request.shape(problem, operand), request.stack(problem, operand));
        let encode = |values: &[Values], dtype, (shape, stack)| HostMatrix::encode(values, dtype, shape, stack);
        let a = encode(&input.a, problem.types.a, laid(Operand::A));
        let b = encode(&input.b, problem.types.b, laid(Operand::B));
        let c = problem.epilogue.uses_c().then(|| encode(&input.c, problem.types.c, laid(Operand::C)));
        let vectors = self.vectors(0);
        let mut call = gemm.call().with_padding();
        for (name, value) in &input.named_scalars {
            call = call.set(name, *value);
        }
        for (vector, bytes) in problem.epilogue.vectors.iter().zip(&vectors) {
            call = call.vector_bytes(&vector.name, problem.types.epilogue(), bytes);
        }
        if let (Some(d), Output::InPlace) = (&c, request.output) {
            let mut d = d.clone();
            let run = call.accumulate_into(&a, &b, &mut d)?;
            return Ok((run, Results(vec![d])));
        }
        let (shape, stack) = laid(Operand::D);
        let mut d = HostMatrix::filled(problem.types.d, shape, stack);
        let call = match &c {
            Some(c) => call.c(c),
            None => call,
        };
        let run = call.multiply_into(&a, &b, &mut d)?;
        Ok((run, Results(vec![d])))
    }

    /// The same for the products of a group.
    fn multiply_group(&self, gemm: &CompiledGemm) -> Result<(Run, Results), CheckError> {
        let Given { problem, request, input, .. } = self;
        let of = |product: usize, operand: Operand, values: Option<&Values>| {
            let (dtype, shape) = (problem.types.of(operand), request.shape_of(problem, product, operand));
            match values {
                Some(values) => HostMatrix::encode(std::slice::from_ref(values), dtype, shape, Stack::ONE),
                None => HostMatrix::filled(dtype, shape, Stack::ONE),
            }
        };
        let products = 0..request.products();
        let a: Vec<_> = products.clone().map(|product| of(product, Operand::A, Some(&input.a[product]))).collect();
        let b: Vec<_> = products.clone().map(|product| of(product, Operand::B, Some(&input.b[product]))).collect();
        let c: Vec<_> = input.c.iter().enumerate().map(|(product, c)| of(product, Operand::C, Some(c))).collect();
        let vectors: Vec<_> = products.clone().map(|product| self.vectors(product)).collect();
        let in_place = request.output == Output::InPlace && problem.epilogue.uses_c();
        let mut d: Vec<_> = match in_place {
            true => c.clone(),
            false => products.map(|product| of(product, Operand::D, None)).collect(),
        };
        let mut group = gemm.group();
        for (name, value) in &input.named_scalars {
            group.set(name, *value);
        }
        for (index, d) in d.iter_mut().enumerate() {
            let product = group.push(&a[index], &b[index], d).with_padding();
            if in_place {
                product.in_place();
            } else if let Some(c) = c.get(index) {
                product.c(c);
            }
            for (vector, bytes) in problem.epilogue.vectors.iter().zip(&vectors[index]) {
                product.vector_bytes(&vector.name, problem.types.epilogue(), bytes);
            }
        }
        let run = group.run()?;
        Ok((run, Results(d)))
    }

    /// The vectors of a product as bytes.
    fn vectors(&self, product: usize) -> Vec<Vec<u8>> {
        let vectors = self.input.vectors_of(product).iter();
        vectors.map(|vector| encode_all(self.problem.types.epilogue(), vector)).collect()
    }

    /// The reference of each element, row by row. `relative` is the error permitted for functions that hardware
    /// approximates.
    pub(crate) fn references(&self, product: usize, relative: f64, sums: Sums) -> Result<Vec<Estimate>, CheckError> {
        let Given { problem, request, input, .. } = self;
        let size = request.size(product);
        let [acc, computed, stored] = [problem.types.acc, problem.types.epilogue(), problem.types.d].map(Rounding::of);
        let doubled = problem.types.acc == DType::F64;
        let precision = if doubled { Precision::Doubled } else { Precision::Single };
        let exact = request.data == Data::Exact;
        let quadrants = self.levels.map(|levels| self.quadrants(product, levels, exact));
        // Quadrants are added before they are rounded.
        let factors =
            |values, dtype| if quadrants.is_some() { Factors::plain(values) } else { Factors::of(values, dtype) };
        let (a, b) = (factors(&input.a[product], problem.types.a), factors(&input.b[product], problem.types.b));
        let products = Product::of(&a.values, &b.values, precision);
        // An operand that a scalar of 0 drops is not finite, so it is not summed here either.
        // Chunks of coarse sums are exact: see `largest_exact`.
        let unit = match self.coarse {
            Some(Coarse { chunk: None }) => COARSE_UNIT,
            _ => acc.unit,
        };
        let large = |magnitude: &f64| magnitude.is_finite() && magnitude * unit > 1.0;
        if exact && products.magnitude.iter().any(large) {
            let limit = (1.0 / unit / (largest_exact(problem.types) as f64).powi(2)) as usize;
            return Err(CheckError::NotExact { k: size.k, acc: problem.types.acc, limit });
        }
        // Sums of integers are exact; in the type of the epilogue large ones are rounded.
        let converted = |acc: Estimate| match problem.types.acc.is_integer() && acc.value.abs() * computed.unit > 1.0 {
            true => Estimate { error: acc.error + acc.value.abs() * computed.unit, ..acc },
            false => acc,
        };
        let reference = |(index, (&sum, &magnitude)): (usize, (&f64, &f64))| {
            let (row, col) = (index / size.n, index % size.n);
            let operands = epilogue::Operands {
                acc: match sums {
                    _ if quadrants.is_some() => Estimate { value: sum, error: quadrants.unwrap_or_default() },
                    Sums::Free => {
                        let acc = self.accumulated(product, (row, col), (sum, magnitude), exact);
                        converted(Estimate { error: acc.error + a.other_ties(&b, (row, col)), ..acc })
                    }
                    Sums::Fixed => Estimate::exact(sum),
                },
                c: input.c_at(product, row, col),
                row,
                col,
                scalars: &input.scalars,
                vectors: input.vectors_of(product),
            };
            let mut reference = epilogue::evaluate(&problem.epilogue, &operands, computed, relative);
            if problem.types.d != problem.types.epilogue() {
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

impl Given<'_> {
    /// The accumulator of an element: the sum of its products, and of their magnitudes.
    fn accumulated(
        &self,
        product: usize,
        (row, col): (usize, usize),
        (sum, magnitude): (f64, f64),
        exact: bool,
    ) -> Estimate {
        let acc = Rounding::of(self.problem.types.acc);
        let Input { a, b, .. } = &self.input;
        let (a, b) = (&a[product], &b[product]);
        match (self.emulated, self.coarse) {
            (None, Some(Coarse { chunk })) => Estimate::coarse(sum, magnitude, a.cols, chunk, acc, exact),
            (None, None) => Estimate::accumulated(sum, magnitude, a.cols, acc, exact),
            (Some(of), _) => {
                planes::accumulated((sum, magnitude), of, || planes::line(a, b, (row, col), magnitude), exact)
            }
        }
    }

    /// The error of every element with Strassen's algorithm.
    fn quadrants(&self, product: usize, levels: u32, exact: bool) -> f64 {
        let types = self.problem.types;
        let acc = Rounding::of(types.acc);
        let units = [types.a, types.b].map(|dtype| Rounding::of(dtype).unit);
        let of = Quadrants { levels, operands: units, sums: acc.unit };
        // What tensor cores round before they multiply.
        let rounded = [types.a, types.b].map(|dtype| if dtype.is_rounded() { dtype.unit() } else { 0.0 });
        let largest = |values: &Values| values.elements.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let Input { a, b, .. } = &self.input;
        let (depth, largest) = (a[product].cols, [largest(&a[product]), largest(&b[product])]);
        // Integers with exactly representable sums.
        let sums = 4f64.powi(levels as i32);
        let held = |(unit, largest): (f64, f64)| unit * sums * largest <= 1.0;
        let finest = [0, 1].map(|side| units[side].max(rounded[side]));
        if exact && finest.into_iter().zip(largest).all(held) && of.magnitude(depth, largest) * acc.unit <= 1.0 {
            return 0.0;
        }
        of.bound(depth, largest, &|terms, [a, b]| {
            let (count, magnitude) = (terms as f64, terms as f64 * a * b);
            match self.emulated {
                None => {
                    let sum = match self.coarse {
                        Some(Coarse { chunk }) => Estimate::coarse(0.0, magnitude, terms, chunk, acc, false).error,
                        None => Estimate::accumulated(0.0, magnitude, terms, acc, false).error,
                    };
                    sum + magnitude * ((1.0 + rounded[0]) * (1.0 + rounded[1]) - 1.0)
                }
                Some(of) => {
                    let line = Line { terms, magnitude, largest: [a, b], sums: [count * a, count * b] };
                    planes::accumulated((0.0, magnitude), of, || line, false).error
                }
            }
        })
    }
}

/// An operand as it is multiplied.
struct Factors<'a> {
    values: Cow<'a, Values>,
    /// The distance to the other neighbour of each element that lay halfway, row by row, if there are such.
    ties: Option<Vec<f64>>,
}

impl Factors<'_> {
    fn plain(values: &Values) -> Factors<'_> {
        Factors { values: Cow::Borrowed(values), ties: None }
    }

    fn of(values: &Values, dtype: DType) -> Factors<'_> {
        if !dtype.is_rounded() {
            return Factors::plain(values);
        }
        let rounded: Vec<f64> = values.elements.iter().map(|value| factor(dtype, *value)).collect();
        let tie = |(value, rounded): (&f64, &f64)| match is_halfway(dtype, *value) {
            true => 2.0 * (value - rounded).abs(),
            false => 0.0,
        };
        let ties: Vec<f64> = values.elements.iter().zip(&rounded).map(tie).collect();
        let ties = Some(ties).filter(|ties| ties.iter().any(|tie| *tie > 0.0));
        Factors { values: Cow::Owned(Values { elements: rounded, ..values.clone() }), ties }
    }

    /// How much an element of the product changes at most if halfway elements are rounded to their other neighbours.
    fn other_ties(&self, b: &Factors<'_>, (row, col): (usize, usize)) -> f64 {
        if self.ties.is_none() && b.ties.is_none() {
            return 0.0;
        }
        let tie = |of: &Factors<'_>, at: usize| of.ties.as_ref().map_or(0.0, |ties| ties[at]);
        let term = |k: usize| {
            let (at_a, at_b) = (row * self.values.cols + k, k * b.values.cols + col);
            let (tie_a, tie_b) = (tie(self, at_a), tie(b, at_b));
            let (a, b) = (self.values.elements[at_a].abs(), b.values.elements[at_b].abs());
            if tie_a + tie_b > 0.0 { (a + tie_a) * (b + tie_b) - a * b } else { 0.0 }
        };
        (0..self.values.cols).map(term).sum()
    }
}

/// All operands of a product, as values.
pub(crate) struct Input {
    /// One for each product.
    pub(crate) a: Vec<Values>,
    pub(crate) b: Vec<Values>,
    /// Empty if the epilogue reads none.
    c: Vec<Values>,
    /// Once for all products of a batch, or for each product of a group.
    vectors: Vec<Vec<Vec<f64>>>,
    /// In the order of the epilogue, rounded to the accumulator's type.
    pub(crate) scalars: Vec<f64>,
    /// The scalars passed to the runtime, which has to reject names that the epilogue does not have.
    named_scalars: Vec<(String, f64)>,
}

/// Whether an element, by row and column, may be infinite where data have infinities.
type Chosen = fn(usize, usize) -> bool;

/// The special elements of a matrix: the first one, and the lines of infinities.
type Specials = (f64, Chosen);

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
    fn generate(
        problem: &Problem,
        request: &Request,
        emulated: Option<Emulated>,
        levels: Option<u32>,
    ) -> Result<Input, CheckError> {
        let &Request { data, seed, .. } = request;
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
            scalars.push(round(types.epilogue(), value));
        }
        // A matrix that a scalar of 0 drops is filled with values that would be noticed.
        let (reads_acc, reads_c) = epilogue::reads(epilogue, &scalars);
        // Each matrix has its own random sequence, so that it does not change with the extents of another.
        let mut sequence = 0;
        let mut values = |dtype, rows, cols, special: Option<Specials>, is_read: bool| {
            sequence += 1;
            let seed = seed.wrapping_mul(64).wrapping_add(sequence);
            let values = Values::generate(data, dtype, types, rows, cols, seed);
            match (data, special) {
                _ if !is_read => values.poisoned(dtype),
                (Data::Special, Some((first, _))) => values.beginning_with(first, dtype),
                (Data::Infinite, Some((_, infinite))) => values.with_infinities(dtype, seed, infinite),
                (Data::Special | Data::Infinite, None) => values,
                (Data::Random | Data::Exact | Data::Nans | Data::Peaks | Data::Vanishing | Data::Negative, _) => values,
            }
        };
        // Sums of quadrants carry NaN and infinities to elements that do not depend on them.
        let special = |first, infinite: Chosen| levels.is_none().then_some((first, infinite));
        let in_a = special(f64::NAN, even_rows);
        let in_b = special(f64::INFINITY, odd_columns);
        let sizes: Vec<Size> = (0..request.products()).map(|product| request.size(product)).collect();
        let mut a: Vec<Values> = sizes.iter().map(|size| values(types.a, size.m, size.k, in_a, reads_acc)).collect();
        let mut b: Vec<Values> = sizes.iter().map(|size| values(types.b, size.k, size.n, in_b, reads_acc)).collect();
        if data == Data::Nans && reads_acc && levels.is_none() {
            let nans = |values: &mut Values, dtype, in_rows| {
                let seed = request.seed.wrapping_mul(2).wrapping_add(u64::from(in_rows));
                *values = std::mem::take(values).with_nans(dtype, seed, in_rows);
            };
            a.iter_mut().for_each(|values| nans(values, types.a, true));
            b.iter_mut().for_each(|values| nans(values, types.b, false));
        }
        if data == Data::Peaks && reads_acc && levels.is_none() {
            let peaks = |values: &mut Values, dtype, in_rows| {
                *values = std::mem::take(values).with_peaks(dtype, in_rows);
            };
            a.iter_mut().for_each(|values| peaks(values, types.a, true));
            b.iter_mut().for_each(|values| peaks(values, types.b, false));
        }
        if data == Data::Negative && reads_acc && levels.is_none() {
            a.iter_mut()
                .for_each(|values| *values = std::mem::take(values).with_negative(types.a, true, |row| row % 8 < 4));
            b.iter_mut()
                .for_each(|values| *values = std::mem::take(values).with_negative(types.b, false, |col| col % 8 >= 4));
        }
        if data == Data::Vanishing && reads_acc && levels.is_none() {
            let vanishing = |values: &mut Values, dtype, in_rows| {
                *values = std::mem::take(values).with_vanishing(dtype, in_rows);
            };
            a.iter_mut().for_each(|values| vanishing(values, types.a, true));
            b.iter_mut().for_each(|values| vanishing(values, types.b, false));
        }
        if let (Some(of), None, Data::Exact, true) = (emulated, levels, data, reads_acc) {
            a.iter_mut().zip(&mut b).for_each(|(a, b)| planes::fill(a, b, of));
        }
        let in_c = Some((f64::NAN, nowhere as Chosen));
        let with_c = sizes.iter().filter(|_| epilogue.uses_c());
        let c = with_c.map(|size| values(types.c, size.m, size.n, in_c, reads_c)).collect();
        let extent = |size: Size, axis| if axis == ptx_gemm_dsl::epilogue::Axis::M { size.m } else { size.n };
        let in_vector = Some((f64::NEG_INFINITY, nowhere as Chosen));
        let mut vector = |size: Size, axis| values(types.epilogue(), 1, extent(size, axis), in_vector, true).elements;
        // A batch without products has vectors as well.
        let sets = if problem.batch == Batch::Grouped { sizes } else { vec![request.size(0)] };
        let of_product = |size: &Size| epilogue.vectors.iter().map(|of| vector(*size, of.axis)).collect();
        let vectors = sets.iter().map(of_product).collect();
        Ok(Input { a, b, c, vectors, scalars, named_scalars })
    }

    /// The epilogue's vectors for a product.
    pub(crate) fn vectors_of(&self, product: usize) -> &[Vec<f64>] {
        self.vectors.get(product).or(self.vectors.first()).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn c_at(&self, product: usize, row: usize, col: usize) -> f64 {
        self.c.get(product).map_or(0.0, |c| c.at(row, col))
    }
}
