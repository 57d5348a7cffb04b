//! What to multiply: extents, data, scalars, and the placement of the matrices.

use ptx_gemm_dsl::Layout;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::Problem;
use ptx_gemm_runtime::{Shape, Stack};

use crate::data::Data;
use crate::size::Size;

/// What to multiply.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// The number of products; `batch(strided)` computes them in one launch.
    pub batch: usize,
    /// Extents of the other products of a group, which `batch(grouped)` computes in the same launch; `batch` is 1.
    pub others: Vec<Size>,
    /// Leading dimensions in elements; the smallest possible where not stated.
    pub leading: Leading,
    /// Elements between one matrix of a batch and the next.
    pub gap: usize,
    /// Elements that leading dimensions, and the distances between the matrices of a batch, are rounded up to multiples of;
    /// 1 leaves them as they are.
    pub multiple: usize,
    /// Kind of the numbers.
    pub data: Data,
    /// The seed of the numbers.
    pub seed: u64,
    /// Run-time scalars. Any other one is 0 if it is called `beta`, else 1.
    pub scalars: Vec<(String, f64)>,
    /// The placement of C.
    pub output: Output,
}

/// Elements of the widest access, of any type: 16 bytes.
const WIDEST: usize = 16;

/// Leading dimensions in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // one for each matrix
pub struct Leading {
    pub a: Option<usize>,
    pub b: Option<usize>,
    pub c: Option<usize>,
    pub d: Option<usize>,
}

/// The placement of C, if the epilogue reads one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// In memory of its own.
    Apart,
    /// In place: C is D.
    InPlace,
}

impl Output {
    /// In place, where the problem's C and D can be one matrix.
    pub fn in_place_if_possible(problem: &Problem) -> Output {
        let (types, layouts) = (problem.types, problem.layouts);
        if types.c == types.d && layouts.c == layouts.d { Output::InPlace } else { Output::Apart }
    }
}

impl Request {
    /// Random data, packed matrices, seed 0.
    pub fn random(m: usize, n: usize, k: usize) -> Request {
        let (leading, scalars) = (Leading::default(), Vec::new());
        let (data, output) = (Data::Random, Output::Apart);
        let others = Vec::new();
        Request { m, n, k, batch: 1, others, leading, gap: 0, multiple: 1, data, seed: 0, scalars, output }
    }

    /// Exact integer data, packed matrices, seed 0.
    pub fn exact(m: usize, n: usize, k: usize) -> Request {
        Request { data: Data::Exact, ..Request::random(m, n, k) }
    }

    /// The same with a NaN or an infinity as the first element of every matrix.
    pub fn special(m: usize, n: usize, k: usize) -> Request {
        Request { data: Data::Special, ..Request::random(m, n, k) }
    }

    /// The same with a NaN in a quarter of the rows of A and of the columns of B.
    pub fn nans(m: usize, n: usize, k: usize) -> Request {
        Request { data: Data::Nans, ..Request::random(m, n, k) }
    }

    /// The same with one very large element in three of four rows of A and columns of B.
    pub fn peaks(m: usize, n: usize, k: usize) -> Request {
        Request { data: Data::Peaks, ..Request::random(m, n, k) }
    }

    /// Exact data with infinities among them, packed matrices, seed 0.
    pub fn infinite(m: usize, n: usize, k: usize) -> Request {
        Request { data: Data::Infinite, ..Request::random(m, n, k) }
    }

    /// Exact data with -infinity among them, packed matrices, seed 0.
    pub fn negative(m: usize, n: usize, k: usize) -> Request {
        Request { data: Data::Negative, ..Request::random(m, n, k) }
    }

    /// Infinities, and elements that vanish in their planes, packed matrices, seed 0.
    pub fn vanishing(m: usize, n: usize, k: usize) -> Request {
        Request { data: Data::Vanishing, ..Request::random(m, n, k) }
    }

    /// The same with every row aligned for the widest access, whatever the extents: the entries with wide accesses run,
    /// and reach the edges.
    pub fn aligned(self) -> Request {
        Request { multiple: WIDEST, ..self }
    }

    /// The same with rows of C and D that are not aligned for wide accesses.
    pub fn odd_output(mut self, problem: &Problem) -> Request {
        let odd = |operand| Some(self.shape(problem, operand).ld | 1);
        (self.leading.c, self.leading.d) = (odd(Operand::C), odd(Operand::D));
        self
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

    /// The same with more products in its group.
    pub fn with_others(self, others: Vec<Size>) -> Request {
        Request { others, ..self }
    }

    /// The number of products.
    pub fn products(&self) -> usize {
        if self.others.is_empty() { self.batch } else { 1 + self.others.len() }
    }

    /// Extents of a product.
    pub fn size(&self, product: usize) -> Size {
        let other = product.checked_sub(1).and_then(|other| self.others.get(other));
        other.copied().unwrap_or(Size::new(self.m, self.n, self.k))
    }

    /// Extents, layout and leading dimension of a matrix of a product. Every product of a group has rows aligned like
    /// those of the first, and at least as much padding.
    pub fn shape_of(&self, problem: &Problem, product: usize, operand: Operand) -> Shape {
        let first = self.shape(problem, operand);
        if self.others.is_empty() || product == 0 {
            return first;
        }
        let Size { m, n, k } = self.size(product);
        let shape = Request::random(m, n, k).shape(problem, operand);
        let padded = (shape.min_ld() + first.ld).saturating_sub(first.min_ld()).max(1);
        let more = (first.ld % WIDEST + WIDEST - padded % WIDEST) % WIDEST;
        Shape { ld: padded + more, ..shape }
    }

    /// The same with every leading dimension at least `padding` elements above the smallest possible, no two by the
    /// same amount, and none with less alignment, so that matrices with rows of the same length are distinguished.
    pub fn padded(self, problem: &Problem, padding: usize) -> Request {
        let ld = |operand, padding| Some(self.shape(problem, operand).min_ld() + padding);
        let (a, b) = (ld(Operand::A, padding), ld(Operand::B, padding + WIDEST));
        let (c, d) = (ld(Operand::C, padding + 2 * WIDEST), ld(Operand::D, padding + 3 * WIDEST));
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
        let rounded = match self.multiple {
            0 | 1 => packed.ld,
            // Matrices with rows of the same length must differ in their leading dimensions.
            multiple => {
                let more = match operand {
                    Operand::A => 0,
                    Operand::B => 1,
                    Operand::C if self.output == Output::Apart => 2,
                    Operand::C | Operand::D => 3,
                };
                packed.ld.next_multiple_of(multiple) + more * multiple
            }
        };
        // A stated leading dimension is used as it is.
        Shape { ld: ld.unwrap_or(rounded), ..packed }
    }

    /// The number of matrices, and the distance between them.
    pub fn stack(&self, problem: &Problem, operand: Operand) -> Stack {
        let shape = self.shape(problem, operand);
        let stored = Shape { ld: shape.ld.max(shape.min_ld()), ..shape };
        match self.batch {
            1 => Stack::ONE,
            count => {
                let stride = stored.len().unwrap_or(0).saturating_add(self.gap);
                Stack { count, stride: stride.checked_next_multiple_of(self.multiple.max(1)).unwrap_or(stride) }
            }
        }
    }
}
