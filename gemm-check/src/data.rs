//! Data to multiply: values in f64, and the same in a matrix's own type, layout and padding.

use std::ops::Range;

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::elements::Class;
use ptx_gemm_dsl::types::Types;
use ptx_gemm_runtime::random::SplitMix64;
use ptx_gemm_runtime::{AnyMut, AnyRef, AsMatrix, AsMatrixMut, Shape, Stack, Strides};

use crate::element::{decode, encode, round};

/// The kind of numbers to multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Data {
    /// Numbers in [-1, 1] of the full width of their type; integers in -10..=10.
    Random,
    /// The same, with a NaN or an infinity as the first element of every matrix and vector: a lane without work
    /// would read that element. Elements that depend on these are compared as well. Integers have no such values.
    Special,
    /// The same as random data, with a NaN in a quarter of the rows of A and of the columns of B, so that next to an element of D
    /// that is NaN there are others that are not. Integers have no such values.
    Nans,
    /// The same as random data, with an element in three of four rows of A and columns of B that is 2^20 times as large, and
    /// -infinity in half of the others, each at a different position: whatever scales rows or columns has to find it.
    /// Integers are the same as for random data.
    Peaks,
    /// Like exact data, with infinities in a quarter of the even rows of A and of the odd columns of B: if one of them
    /// is multiplied by the zero that replaces an element outside the matrix, the sum is NaN instead of infinite.
    /// Integers are the same as for exact data.
    Infinite,
    /// Like exact data, with one -infinity in half of the rows of A and of the columns of B, in groups of four. In a matrix of 64
    /// rows and columns each element of four, along either dimension, is -infinity in each 16 lines across. Integers are the same
    /// as for exact data.
    Negative,
    /// For products from planes: lines (rows of A, columns of B) of an element of 2^100 and zeros, every fourth of which is
    /// 2^-140 instead, and lines of integers, every fourth of which is -infinity instead. The position differs among every four
    /// lines, and every four lines alternate with four of the other kind: -infinity times 2^-140 must not be taken for -infinity
    /// times the zero next to it, whatever the planes of 2^-140 are. Integers are the same as for exact data.
    Vanishing,
    /// Integers in 1..=10: every partial sum is exact as long as 100 K < 2^24, and so any order of summation gives the
    /// same bits, and every dropped, doubled or misplaced product shows. For a D of 16 bits they have both signs, and up
    /// to 3 in magnitude for bf16, so that most sums are numbers of that type; the others must be rounded to nearest even.
    /// For f16 accumulators they are up to 2 in magnitude, so that sums of up to about 900 products are exact; for 8-bit floats up
    /// to 3, which sums of tensor cores keep in chunks of 256 products.
    Exact,
}

/// A matrix of values, row by row. Every value is one of its element type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Elements, row by row.
    pub elements: Vec<f64>,
}

impl Values {
    /// Values of an element type, the same for the same seed, for a product of these types.
    pub fn generate(data: Data, dtype: DType, types: Types, rows: usize, cols: usize, seed: u64) -> Values {
        let mut numbers = SplitMix64::new(seed);
        let integers = dtype.random_integers();
        let mut next = || match data {
            // A sum of K products of both signs grows like the square root of K: with these, a dropped product changes
            // D where |D| <= 256 (bf16 has 8 significant bits) or 2048 (f16 has 11).
            Data::Exact
                if [types.acc, types.d].iter().any(|of| has_few_digits(*of, 11)) || has_few_digits(types.a, 4) =>
            {
                let value = signed(&mut numbers, largest_exact(types));
                // An unsigned type has no negative ones.
                if matches!(dtype.element().class, Class::Integer { signed: false }) { value.abs() } else { value }
            }
            Data::Exact | Data::Infinite | Data::Negative | Data::Vanishing => {
                round(dtype, numbers.next_in(1, 10) as f64)
            }
            Data::Random | Data::Special | Data::Nans | Data::Peaks if dtype.is_integer() => {
                numbers.next_in(*integers.start(), *integers.end()) as f64
            }
            Data::Random | Data::Special | Data::Nans | Data::Peaks => round(dtype, numbers.next_signed()),
        };
        Values { rows, cols, elements: (0..rows * cols).map(|_| next()).collect() }
    }

    /// The same with the first element replaced; integers stay as they are.
    pub(crate) fn beginning_with(mut self, value: f64, dtype: DType) -> Values {
        if let Some(first) = self.elements.first_mut().filter(|_| !dtype.is_integer()) {
            *first = round(dtype, value);
        }
        self
    }

    /// The same with an infinity in place of a quarter of the elements of the chosen lines; integers stay as they are.
    pub(crate) fn with_infinities(mut self, dtype: DType, seed: u64, chosen: fn(usize, usize) -> bool) -> Values {
        let mut numbers = SplitMix64::new(seed);
        let cols = self.cols;
        for (index, value) in self.elements.iter_mut().enumerate().filter(|_| !dtype.is_integer()) {
            if chosen(index / cols, index % cols) && numbers.next_in(0, 3) == 0 {
                *value = round(dtype, f64::INFINITY);
            }
        }
        self
    }

    /// The same with the elements of [`Data::Negative`] in the chosen rows or columns; integers stay as they are.
    pub(crate) fn with_negative(mut self, dtype: DType, in_rows: bool, chosen: fn(usize) -> bool) -> Values {
        let (lines, length) = if in_rows { (self.rows, self.cols) } else { (self.cols, self.rows) };
        for line in (0..lines).filter(|line| length > 0 && !dtype.is_integer() && chosen(*line)) {
            let at = (16 * (line / 8) + 5 * (line % 4)) % length;
            let index = if in_rows { line * self.cols + at } else { at * self.cols + line };
            self.elements[index] = round(dtype, f64::NEG_INFINITY);
        }
        self
    }

    /// The same with a NaN somewhere in a quarter of the rows, or of the columns; integers stay as they are.
    pub(crate) fn with_nans(mut self, dtype: DType, seed: u64, in_rows: bool) -> Values {
        let mut numbers = SplitMix64::new(seed);
        let (lines, length) = if in_rows { (self.rows, self.cols) } else { (self.cols, self.rows) };
        for line in (0..lines).filter(|_| length > 0 && !dtype.is_integer()) {
            let (at, chosen) = (numbers.next_in(0, length as i64 - 1) as usize, numbers.next_in(0, 3) == 0);
            if chosen {
                let index = if in_rows { line * self.cols + at } else { at * self.cols + line };
                self.elements[index] = f64::NAN;
            }
        }
        self
    }

    /// The same with the elements of [`Data::Peaks`] in the rows, or in the columns; integers stay as they are.
    pub(crate) fn with_peaks(mut self, dtype: DType, in_rows: bool) -> Values {
        let (lines, length) = if in_rows { (self.rows, self.cols) } else { (self.cols, self.rows) };
        for line in (0..lines).filter(|_| length > 0 && !dtype.is_integer()) {
            let turn = line / 4;
            let at = match line % 4 {
                // The first and the last element of each run of 32, which the lanes of a warp look at together.
                0 => 32 * turn % length,
                2 => (32 * turn + 31) % length,
                // All remainders: from the end, with the last element first.
                3 => length - 1 - 31 * turn % length,
                _ => 33 * (turn / 2) % length,
            };
            let index = if in_rows { line * self.cols + at } else { at * self.cols + line };
            match line % 8 {
                1 => self.elements[index] = f64::NEG_INFINITY,
                5 => {}
                _ => self.elements[index] = round(dtype, self.elements[index] * PEAK),
            }
        }
        self
    }

    /// The same with the elements of [`Data::Vanishing`] in the rows, or in the columns; integers stay as they are.
    pub(crate) fn with_vanishing(mut self, dtype: DType, in_rows: bool) -> Values {
        let cols = self.cols;
        for (index, value) in self.elements.iter_mut().enumerate().filter(|_| !dtype.is_integer()) {
            let (row, col) = (index / cols, index % cols);
            let (line, at) = if in_rows { (row, col) } else { (col, row) };
            let (first, own) = (at < 4, at % 4 == line % 4);
            *value = match line % 8 < 4 {
                true if first && at == (line + 1) % 4 => 2f64.powi(100),
                true if !first && own => 2f64.powi(-140),
                true => 0.0,
                false if !first && own => f64::NEG_INFINITY,
                false => *value,
            };
        }
        self
    }

    /// Alternating NaN and infinities in place of every element, for data that must not be read. Integers stay as they
    /// are.
    pub(crate) fn poisoned(mut self, dtype: DType) -> Values {
        let poison = [f64::NAN, f64::INFINITY, f64::NAN, f64::NEG_INFINITY];
        if !dtype.is_integer() {
            self.elements.iter_mut().enumerate().for_each(|(index, value)| *value = poison[index % poison.len()]);
        }
        self
    }

    /// One value.
    pub fn at(&self, row: usize, col: usize) -> f64 {
        self.elements[row * self.cols + col]
    }
}

/// The ratio of a peak to other elements: 2^20. Scaled for the others, a peak overflows f16; scaled for a peak, the others are
/// not 0 in f16, so that infinity times one of them is infinity.
const PEAK: f64 = (1u64 << 20) as f64;

/// The largest magnitude of exact data for a product of these types.
pub(crate) fn largest_exact(types: Types) -> i64 {
    match (types.acc, types.d) {
        (DType::F16, _) => 2,
        // Those that e5m2 has; and the sum of a chunk of 256 products fits the bits that tensor cores keep.
        _ if has_few_digits(types.a, 4) => 3,
        (_, DType::Bf16) => 3,
        _ => 10,
    }
}

/// Whether floating-point numbers in memory have at most this many digits.
fn has_few_digits(dtype: DType, digits: u32) -> bool {
    matches!(dtype.element().class, Class::Float { significand, .. } if significand <= digits) && !dtype.is_rounded()
}

/// An integer of this magnitude at most, of either sign and not 0.
fn signed(numbers: &mut SplitMix64, largest: i64) -> f64 {
    let drawn = numbers.next_in(1, 2 * largest);
    (if drawn > largest { largest - drawn } else { drawn }) as f64
}

/// A host matrix of a type known at run time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostMatrix {
    dtype: DType,
    shape: Shape,
    stack: Stack,
    bytes: Vec<u8>,
}

impl HostMatrix {
    /// One matrix for each of `values`, in one shape, every byte of padding `0xff`: NaN in every floating-point type, and -1
    /// (255) in integers.
    pub(crate) fn encode(values: &[Values], dtype: DType, shape: Shape, stack: Stack) -> HostMatrix {
        let mut matrix = HostMatrix::filled(dtype, shape, stack);
        for (product, values) in values.iter().enumerate() {
            for (index, &value) in values.elements.iter().enumerate() {
                matrix.set(product, index / values.cols, index % values.cols, value);
            }
        }
        matrix
    }

    /// Every byte `0xff`.
    pub(crate) fn filled(dtype: DType, shape: Shape, stack: Stack) -> HostMatrix {
        // The launch checks reject a leading dimension that is too small; the storage fits any.
        let stored = Shape { ld: shape.ld.max(shape.min_ld()), ..shape };
        let bytes = vec![0xff; stack.len(stored).unwrap_or(0) * dtype.bytes() as usize];
        HostMatrix { dtype, shape, stack, bytes }
    }

    fn range(&self, product: usize, row: usize, col: usize) -> Range<usize> {
        let bytes = self.dtype.bytes() as usize;
        let stored = Shape { ld: self.shape.ld.max(self.shape.min_ld()), ..self.shape };
        let index = product * self.stack.stride + stored.index(row, col);
        index * bytes..(index + 1) * bytes
    }

    pub(crate) fn set(&mut self, product: usize, row: usize, col: usize, value: f64) {
        let range = self.range(product, row, col);
        encode(self.dtype, value, &mut self.bytes[range]);
    }

    /// The bytes of one element.
    pub(crate) fn bits(&self, product: usize, row: usize, col: usize) -> &[u8] {
        &self.bytes[self.range(product, row, col)]
    }

    pub(crate) fn get(&self, product: usize, row: usize, col: usize) -> f64 {
        decode(self.dtype, &self.bytes[self.range(product, row, col)])
    }

    /// Whether every byte that belongs to no element is still `0xff`.
    pub(crate) fn padding_is_intact(&self) -> bool {
        let stride = if self.stack.stride > 0 { self.stack.stride } else { usize::MAX };
        let is_element = |index: usize| {
            let within = index % stride;
            within < self.shape.len().unwrap_or(0) && within % self.shape.ld.max(1) < self.shape.run()
        };
        let elements = self.bytes.chunks(self.dtype.bytes() as usize).enumerate();
        elements.into_iter().all(|(index, bytes)| is_element(index) || bytes.iter().all(|&byte| byte == 0xff))
    }
}

/// The D of every product: one stack of matrices, or one matrix for each product of a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results(pub(crate) Vec<HostMatrix>);

impl Results {
    fn at(&self, product: usize) -> (usize, usize) {
        if self.0.len() == 1 { (0, product) } else { (product, 0) }
    }

    #[cfg(test)]
    pub(crate) fn set(&mut self, product: usize, row: usize, col: usize, value: f64) {
        let (matrix, product) = self.at(product);
        self.0[matrix].set(product, row, col, value);
    }

    /// The bytes of one element.
    pub(crate) fn bits(&self, product: usize, row: usize, col: usize) -> &[u8] {
        let (matrix, product) = self.at(product);
        self.0[matrix].bits(product, row, col)
    }

    pub(crate) fn get(&self, product: usize, row: usize, col: usize) -> f64 {
        let (matrix, product) = self.at(product);
        self.0[matrix].get(product, row, col)
    }

    /// Whether every byte that belongs to no element is still `0xff`.
    pub(crate) fn padding_is_intact(&self) -> bool {
        self.0.iter().all(HostMatrix::padding_is_intact)
    }
}

impl AsMatrix for HostMatrix {
    fn as_any(&self) -> Result<AnyRef<'_>, Strides> {
        Ok(AnyRef { dtype: self.dtype, shape: self.shape, stack: self.stack, bytes: self.bytes.as_slice().into() })
    }
}

impl AsMatrixMut for HostMatrix {
    fn as_any_mut(&mut self) -> Result<AnyMut<'_>, Strides> {
        Ok(AnyMut { dtype: self.dtype, shape: self.shape, stack: self.stack, bytes: self.bytes.as_mut_slice().into() })
    }
}

/// The bytes of a vector of the epilogue.
pub(crate) fn encode_all(dtype: DType, values: &[f64]) -> Vec<u8> {
    let bytes = dtype.bytes() as usize;
    let mut out = vec![0; values.len() * bytes];
    out.chunks_exact_mut(bytes).zip(values).for_each(|(to, &value)| encode(dtype, value, to));
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{DType, PEAK, Values};

    /// 128 rows or columns have peaks at both ends of every run of 32 elements, in every lane and in the last element, and
    /// -infinity at every position of a vector.
    #[test]
    fn peaks_are_at_every_end() {
        for in_rows in [true, false] {
            let (rows, cols) = if in_rows { (128, 1012) } else { (1012, 128) };
            let values = Values { rows, cols, elements: vec![1.0; rows * cols] }.with_peaks(DType::F32, in_rows);
            let at = |index: usize| if in_rows { index % cols } else { index / cols };
            let places = |is: fn(f64) -> bool| -> BTreeSet<usize> {
                let all = values.elements.iter().enumerate();
                all.filter(|(_, value)| is(**value)).map(|(index, _)| at(index)).collect()
            };
            let peaks = places(|value| value == PEAK);
            assert!((0..1012).filter(|at| at % 32 == 0 || at % 32 == 31).all(|at| peaks.contains(&at)), "{peaks:?}");
            assert_eq!(peaks.iter().map(|at| at % 32).collect::<BTreeSet<_>>().len(), 32);
            assert!(peaks.contains(&1011));
            let infinite: BTreeSet<usize> = places(f64::is_infinite).iter().map(|at| at % 16).collect();
            assert_eq!(infinite.len(), 16);
        }
    }
}
