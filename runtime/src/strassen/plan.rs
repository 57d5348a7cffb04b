//! The launches of Winograd's form of Strassen's algorithm: pure data, without devices.
//!
//! With quadrants of A, B and D, seven products of half the size and 15 sums give D:
//!
//! ```text
//! S1 = A21 + A22   T1 = B12 - B11   P1 = A11 B11   P5 = S1 T1   U2 = P1 + P6   D11 = P1 + P2
//! S2 = S1 - A11    T2 = B22 - T1    P2 = A12 B21   P6 = S2 T2   U3 = U2 + P7   D12 = U2 + P5 + P3
//! S3 = A11 - A21   T3 = B22 - B12   P3 = S4 B22    P7 = S3 T3                  D21 = U3 - P4
//! S4 = A12 - S2    T4 = T2 - B21    P4 = A22 T4                                D22 = U3 + P5
//! ```
//!
//! A launch computes a product and adds one matrix, so that most sums of products cost no launch. Five matrices of a
//! quadrant's size are enough: S and T for factors, X, Y and Z for sums of products. Elements of D are written once, in
//! the last launch of their quadrant: D may be C, and the epilogue gets the whole sum.
//!
//! The size of a quadrant is half of the largest even number of granules. Ordinary launches add the remainder of k to
//! the four sums, and the remaining rows and columns of D are separate products.

use std::fmt;

use ptx_gemm_dsl::sums::Part;
use ptx_gemm_dsl::terms::Operand;

/// A product to plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Rows of D.
    pub m: usize,
    /// Columns of D.
    pub n: usize,
    /// Depth of the sum.
    pub k: usize,
    /// Levels of Strassen's algorithm.
    pub levels: u32,
    /// The m, n and k of quadrants are multiples of these, so that quadrants are aligned like the matrices.
    pub granule: [usize; 3],
    /// Whether the epilogue reads C.
    pub reads_c: bool,
    /// Whether it can be applied to a product and sums together: see [`ptx_gemm_dsl::sums::takes_sums`].
    pub takes_sums: bool,
}

/// A matrix: one of the caller's, or one in the workspace, by its index in [`Plan::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Matrix {
    /// The caller's.
    Given(Operand),
    /// In the workspace.
    Buffer(usize),
}

/// A block of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The matrix.
    pub of: Matrix,
    /// First row.
    pub row: usize,
    /// First column.
    pub col: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl View {
    /// A whole matrix.
    pub fn whole(of: Matrix, rows: usize, cols: usize) -> View {
        View { of, row: 0, col: 0, rows, cols }
    }

    /// A block of it.
    fn block(self, row: usize, col: usize, rows: usize, cols: usize) -> View {
        View { row: self.row + row, col: self.col + col, rows, cols, ..self }
    }

    /// A quadrant of these extents, by the numbers of its row and column, 1 or 2.
    fn quadrant(self, (i, j): (usize, usize), (rows, cols): (usize, usize)) -> View {
        self.block((i - 1) * rows, (j - 1) * cols, rows, cols)
    }
}

/// The form of a sum of two matrices: `first` is read as the sum over k of an epilogue, `second` is its C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sign {
    /// first + second
    Plus,
    /// first - second
    Minus,
    /// second - first
    Reversed,
}

/// Every sum of operands in a plan.
pub const SUMS: [(Operand, Sign); 4] =
    [(Operand::A, Sign::Plus), (Operand::A, Sign::Minus), (Operand::A, Sign::Reversed), (Operand::B, Sign::Minus)];

/// The kernel of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Piece {
    /// D = epilogue(A B, C), with the epilogue of a part.
    Product(Part),
    /// D = epilogue(A, C), where A has the extents of D and the type of sums.
    Epilogue(Part),
    /// The sum of two matrices like this operand.
    Sum(Operand, Sign),
}

/// One launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its kernel.
    pub piece: Piece,
    /// A, or the matrix that is read in its place.
    pub a: View,
    /// B, of a product.
    pub b: Option<View>,
    /// C.
    pub c: Option<View>,
    /// The block that it writes.
    pub d: View,
}

/// A matrix in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its name in the text.
    pub name: String,
    /// The operand with the same layout and type; for D, the type is that of sums.
    pub like: Operand,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

/// The launches of a product in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The launches.
    pub steps: Vec<Step>,
    /// The matrices in the workspace.
    pub buffers: Vec<Buffer>,
    /// The m, n and k of the quadrants of the whole product, if it has any.
    pub quadrants: Option<[usize; 3]>,
}

/// The use of a product: the epilogue of this part, with this C.
#[derive(Clone, Copy)]
struct Target {
    part: Part,
    c: Option<View>,
}

/// The matrices of one level in the workspace.
#[derive(Clone, Copy)]
struct Scratch {
    s: View,
    t: View,
    x: View,
    y: View,
    z: View,
}

impl Plan {
    /// The launches of a product.
    pub fn new(request: Request) -> Plan {
        let Request { m, n, k, levels, reads_c, .. } = request;
        let quadrants = halves(&request, levels, [m, n, k]);
        let mut planner = Planner { request, plan: Plan { steps: Vec::new(), buffers: Vec::new(), quadrants } };
        let of = |operand, rows, cols| View::whole(Matrix::Given(operand), rows, cols);
        let (a, b, d) = (of(Operand::A, m, k), of(Operand::B, k, n), of(Operand::D, m, n));
        let c = reads_c.then(|| of(Operand::C, m, n));
        planner.product(levels, [a, b, d], Target { part: Part::Whole, c });
        planner.plan
    }
}

/// Extents of the quadrants of a product at a level; `None` if they would have less than one granule.
fn halves(request: &Request, level: u32, [m, n, k]: [usize; 3]) -> Option<[usize; 3]> {
    let [gm, gn, gk] = request.granule;
    // Halves are divided again without remainders.
    let half = |extent: usize, granule: usize| {
        let granule = granule << (level - 1);
        extent / (2 * granule) * granule
    };
    let halves = [half(m, gm), half(n, gn), half(k, gk)];
    (!halves.contains(&0)).then_some(halves)
}

struct Planner {
    request: Request,
    plan: Plan,
}

impl Planner {
    fn step(&mut self, piece: Piece, [a, b, c]: [Option<View>; 3], d: View) {
        if let Some(a) = a {
            self.plan.steps.push(Step { piece, a, b, c, d });
        }
    }

    fn sum(&mut self, operand: Operand, sign: Sign, [first, second]: [View; 2], into: View) {
        self.step(Piece::Sum(operand, sign), [Some(first), None, Some(second)], into);
    }

    /// D = epilogue(A B, C) at a level: by one launch at level 0.
    fn product(&mut self, level: u32, [a, b, d]: [View; 3], target: Target) {
        let extents = [d.rows, d.cols, a.cols];
        let Some(quadrants) = (level > 0).then(|| halves(&self.request, level, extents)).flatten() else {
            self.step(Piece::Product(target.part), [Some(a), Some(b), target.c], d);
            return;
        };
        self.quadrants(level, [a, b, d], target, quadrants);
        let [m, n] = [2 * quadrants[0], 2 * quadrants[1]];
        let (rows, cols, k) = (d.rows, d.cols, a.cols);
        let mut rest = |row: usize, col: usize, rows: usize, cols: usize| {
            if rows > 0 && cols > 0 {
                let c = target.c.map(|c| c.block(row, col, rows, cols));
                let operands = [Some(a.block(row, 0, rows, k)), Some(b.block(0, col, k, cols)), c];
                self.step(Piece::Product(target.part), operands, d.block(row, col, rows, cols));
            }
        };
        rest(m, 0, rows - m, cols);
        rest(0, n, m, cols - n);
    }

    /// Computes the part of D that consists of four quadrants.
    fn quadrants(&mut self, level: u32, [a, b, d]: [View; 3], target: Target, [m, n, k]: [usize; 3]) {
        let Scratch { s, t, x, y, z } = self.scratch(level, [m, n, k]);
        let at = |i, j| (a.quadrant((i, j), (m, k)), b.quadrant((i, j), (k, n)));
        let [(a11, b11), (a12, b12), (a21, b21), (a22, b22)] = [at(1, 1), at(1, 2), at(2, 1), at(2, 2)];
        let (in_a, in_b) = (Operand::A, Operand::B);
        let goal = |i, j| (d.quadrant((i, j), (m, n)), target.c.map(|c| c.quadrant((i, j), (m, n))));
        // The remainder of k adds its products to the sums of each quadrant.
        let left = a.cols - 2 * k;
        let rest = |planner: &mut Planner, (i, j): (usize, usize), sums: View, into: View| -> View {
            if left == 0 {
                return sums;
            }
            let (of_a, of_b) = (a.block((i - 1) * m, 2 * k, m, left), b.block(2 * k, (j - 1) * n, left, n));
            planner.step(Piece::Product(Part::Middle), [Some(of_a), Some(of_b), Some(sums)], into);
            into
        };
        let first = Target { part: Part::First, c: None };
        let onto = |sums: View| Target { part: Part::Middle, c: Some(sums) };
        self.product(level - 1, [a11, b11, x], first);
        let sums = rest(self, (1, 1), x, y);
        self.last_product(level, [a12, b21], sums, y, target.part, goal(1, 1));
        self.sum(in_a, Sign::Plus, [a21, a22], s);
        self.sum(in_b, Sign::Minus, [b12, b11], t);
        self.product(level - 1, [s, t, z], first);
        self.sum(in_a, Sign::Reversed, [a11, s], s);
        self.sum(in_b, Sign::Minus, [b22, t], t);
        self.product(level - 1, [s, t, x], onto(x));
        self.sum(in_a, Sign::Minus, [a12, s], s);
        self.step(Piece::Epilogue(Part::Middle), [Some(x), None, Some(z)], z);
        let sums = rest(self, (1, 2), z, y);
        self.last_product(level, [s, b22], sums, y, target.part, goal(1, 2));
        // This is -T4, so that its product is added as well.
        self.sum(in_b, Sign::Minus, [b21, t], t);
        self.product(level - 1, [a22, t, x], onto(x));
        rest(self, (2, 1), x, x);
        self.sum(in_a, Sign::Minus, [a11, a21], s);
        self.sum(in_b, Sign::Minus, [b22, b12], t);
        self.product(level - 1, [s, t, y], first);
        rest(self, (2, 2), z, z);
        self.last_sum([y, x], target.part, goal(2, 1));
        self.last_sum([y, z], target.part, goal(2, 2));
    }

    /// D = epilogue(sums + A B, C). If the epilogue does not take sums, the sum is first made in `scratch`.
    fn last_product(
        &mut self,
        level: u32,
        [a, b]: [View; 2],
        sums: View,
        scratch: View,
        part: Part,
        (d, c): (View, Option<View>),
    ) {
        match self.with_sums(part) {
            Some(part) => self.product(level - 1, [a, b, d], Target { part, c: Some(sums) }),
            None => {
                self.product(level - 1, [a, b, scratch], Target { part: Part::Middle, c: Some(sums) });
                self.step(Piece::Epilogue(part), [Some(scratch), None, c], d);
            }
        }
    }

    /// D = epilogue(first + second, C). If the epilogue does not take sums, the second first becomes the sum.
    fn last_sum(&mut self, [first, second]: [View; 2], part: Part, (d, c): (View, Option<View>)) {
        match self.with_sums(part) {
            Some(part) => self.step(Piece::Epilogue(part), [Some(first), None, Some(second)], d),
            None => {
                self.step(Piece::Epilogue(Part::Middle), [Some(first), None, Some(second)], second);
                self.step(Piece::Epilogue(part), [Some(second), None, c], d);
            }
        }
    }

    /// The part with this one's epilogue of `acc + c`, if there is one.
    fn with_sums(&self, part: Part) -> Option<Part> {
        match part {
            Part::First => Some(Part::Middle),
            Part::Whole if self.request.takes_sums => Some(Part::Last),
            Part::Whole | Part::Middle | Part::Last => None,
        }
    }

    /// The matrices of a level, made at its first product; later products have the same extents.
    fn scratch(&mut self, level: u32, [m, n, k]: [usize; 3]) -> Scratch {
        let level = self.request.levels - level + 1;
        let mut buffer = |name: &str, like, rows, cols| {
            let name = if self.request.levels == 1 { name.into() } else { format!("{name}{level}") };
            let known = self.plan.buffers.iter().position(|buffer| buffer.name == name);
            let index = known.unwrap_or(self.plan.buffers.len());
            if known.is_none() {
                self.plan.buffers.push(Buffer { name, like, rows, cols });
            }
            View::whole(Matrix::Buffer(index), rows, cols)
        };
        Scratch {
            s: buffer("S", Operand::A, m, k),
            t: buffer("T", Operand::B, k, n),
            x: buffer("X", Operand::D, m, n),
            y: buffer("Y", Operand::D, m, n),
            z: buffer("Z", Operand::D, m, n),
        }
    }
}

impl Plan {
    /// `A12`, if a block of the caller's matrix is a quadrant.
    fn quadrant_of(&self, View { of, row, col, rows, cols }: View) -> Option<String> {
        let [m, n, k] = self.quadrants?;
        let Matrix::Given(operand) = of else { return None };
        let (height, width) = match operand {
            Operand::A => (m, k),
            Operand::B => (k, n),
            Operand::C | Operand::D => (m, n),
        };
        let (i, j) = (row / height + 1, col / width + 1);
        let exact = (rows, cols) == (height, width) && row.is_multiple_of(height) && col.is_multiple_of(width);
        (exact && i <= 2 && j <= 2).then(|| format!("{}{i}{j}", operand.name().to_uppercase()))
    }

    fn text_of(&self, view: View) -> String {
        if let Some(quadrant) = self.quadrant_of(view) {
            return quadrant;
        }

        let name = match view.of {
            Matrix::Given(operand) => operand.name().to_uppercase(),
            Matrix::Buffer(index) => self.buffers[index].name.clone(),
        };
        let View { row, col, rows, cols, .. } = view;
        match view.of {
            Matrix::Buffer(index) if (rows, cols) == (self.buffers[index].rows, self.buffers[index].cols) => name,
            _ => format!("{name}[{row}..{}, {col}..{}]", row + rows, col + cols),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let of = |view: View| self.text_of(view);
            let (a, c, d) = (of(step.a), step.c.map(of), of(step.d));
            let c = c.unwrap_or_default();
            let with = |sum: String, part: Part| match part {
                Part::Whole if c.is_empty() => format!("epilogue({sum})"),
                Part::Whole => format!("epilogue({sum}, {c})"),
                Part::First => sum,
                Part::Middle => format!("{sum} + {c}"),
                Part::Last => format!("epilogue({sum} + {c})"),
            };
            let value = match step.piece {
                Piece::Product(part) => with(format!("{a} {}", step.b.map(of).unwrap_or_default()), part),
                Piece::Epilogue(part) => with(a, part),
                Piece::Sum(_, Sign::Plus) => format!("{a} + {c}"),
                Piece::Sum(_, Sign::Minus) => format!("{a} - {c}"),
                Piece::Sum(_, Sign::Reversed) => format!("{c} - {a}"),
            };
            writeln!(f, "{d} = {value}")?;
        }
        Ok(())
    }
}
