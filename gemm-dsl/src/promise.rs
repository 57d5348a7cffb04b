//! The error bounds that `emulate` and `strassen` promise. The language reference prints these formulas, and every
//! check of such products uses them as tolerances.
//!
//! # Products of planes
//!
//! Let u be the unit roundoff of the planes' type. Each plane is an element's remainder after the planes before it,
//! rounded. Plane p, and the remainder before it, are at most u^p of the element in magnitude. A product of two
//! elements lacks
//!
//! - the remainders of both elements after their last plane: with p planes, 2 u^p of the product; nothing if p planes
//!   of bf16 hold the 24 bits of f32;
//! - the products of planes that are not multiplied: u^s of the product for each pair of planes with numbers that add
//!   up to s.
//!
//! The absolute error of an f16 element is at most half the smallest f16 number. That is 2^-39 of the largest element
//! of its row of A or column of B, since these are scaled to at least 2^14; if a scale cannot be that large, the error
//! is below 2^-149. The absolute error of a bf16 element is at most 2^-134, half the smallest bf16 number.
//!
//! A sum has the error of one addition per element of k in a chunk, and of one per chunk. The products of smaller
//! planes come first, while sums are small, and add less than as much again.
//!
//! # Products of sums
//!
//! Let a and b be the largest magnitudes of A and B, and u_A, u_B and u the unit roundoffs of their types and of the
//! sums of products. In Winograd's form the elements of S1 and S3 are at most 2 a, those of S2 at most 3 a, and those
//! of S4 at most 4 a. Rounding changes S1, S3, S2 and S4 by at most 2, 2, 5 and 9 u_A a. The same holds for T with b
//! and u_B. Let k be half of the depth. The sum D12 has the errors of P1 (a, b), P6 (3 a, 3 b), P5 (2 a, 2 b) and P3
//! (4 a, b); the error of its operands, `k (3 (5 u_A + 5 u_B) + 2 (2 u_A + 2 u_B) + 9 u_A) a b`; and the error of its
//! three additions, `(10 + 14 + 18) k u a b`. D21 and D22 have the same bound, with A and B exchanged, or with P7 in
//! place of P3. The factors below include one more addition, for the remainder of K, and smaller terms. They are those
//! of Higham, "Accuracy and Stability of Numerical Algorithms", section 23.2.2, which also shows why the bound cannot
//! be relative to the elements of `|A| |B|`.

use crate::clause::{Emulation, size};
use crate::types::DType;

/// Bits of f32.
const BITS: i32 = 24;

/// The smallest number of f32, as a power of two.
const SMALLEST: i32 = -149;

/// The bound on the error of an element of A B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// u, the unit roundoff of the planes' type, as a power of two.
    unit: i32,
    /// The missing part of a product: how many times which power of u.
    missing: (u32, u32),
    /// e, the largest error of an element relative to the largest one of its row of A or column of B, as a power of
    /// two.
    of_largest: Option<i32>,
    /// t, the absolute part of that error, as a power of two.
    least: i32,
}

/// A row of A and a column of B.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    /// K.
    pub terms: usize,
    /// The sum of the magnitudes of their products: the element of `|A| |B|`.
    pub magnitude: f64,
    /// The largest magnitude of each.
    pub largest: [f64; 2],
    /// The sum of the magnitudes of each.
    pub sums: [f64; 2],
}

impl Promise {
    /// The bound for `planes` planes in memory and the `products` largest products of planes.
    pub fn of(dtype: DType, planes: u32, products: u32) -> Promise {
        let planes = size(planes.saturating_sub(1)) + 1;
        let scaled = dtype.is_scaled();
        let unit = if scaled { -11 } else { -8 };
        let with_sum = |sum: u32| (0..planes).filter(|a| sum >= *a && sum - a < planes).count() as u32;
        let (mut counted, mut sum) = (0, 0);
        while counted < products && sum < 2 * planes {
            counted += with_sum(sum);
            sum += 1;
        }
        // The remainders of elements are at most as large as the first missing products of planes.
        let remainders = if sum == planes && unit * planes as i32 > -BITS { 2 } else { 0 };
        Promise {
            unit,
            missing: (with_sum(sum) + remainders, sum),
            of_largest: scaled.then_some(-39),
            least: if scaled { SMALLEST } else { -134 },
        }
    }

    /// r, the largest relative error of the product of two elements, apart from absolute errors. The factor covers
    /// smaller terms and the roundings of the planes themselves.
    pub fn relative(&self) -> f64 {
        let (u, (count, power)) = (2f64.powi(self.unit), self.missing);
        (1.0 + 4.0 * u) * f64::from(count) * u.powi(power as i32)
    }

    /// `e L + t`: the largest absolute error of an element in a row or column with the largest element L.
    pub fn absolute(&self, largest: f64) -> f64 {
        self.of_largest.map_or(0.0, |e| 2f64.powi(e) * largest) + 2f64.powi(self.least)
    }

    /// The largest error of an element of A B, with `chunk` elements of k between promotions.
    pub fn bound(&self, line: &Line, chunk: u32) -> f64 {
        let Line { terms, magnitude, largest, sums } = *line;
        let chunk = chunk as usize;
        let additions = 2 * terms.min(chunk) + terms.div_ceil(chunk) + 2;
        let off = largest.map(|largest| self.absolute(largest));
        let lost = off[0] * sums[1] + off[1] * sums[0] + terms as f64 * (off[0] * off[1] + 2f64.powi(SMALLEST));
        (gamma(additions) + self.relative()) * magnitude + 2.0 * lost
    }

    /// u, r, e and t as formulas.
    pub(crate) fn formulas(&self) -> [String; 4] {
        let r = match self.missing {
            (0, _) => "0".into(),
            (count, power) => format!("(1 + 4 u) {count} u^{power}"),
        };
        let e = self.of_largest.map_or("0".into(), |e| format!("2^{e}"));
        [format!("2^{}", self.unit), r, e, format!("2^{}", self.least)]
    }
}

impl Emulation {
    /// Its error bound.
    pub fn promise(self) -> Promise {
        Promise::of(self.factor(), self.planes(), self.pairs().len() as u32)
    }
}

/// The bound as text, with the letters of [`Promise`]; a table of the modes follows it.
pub(crate) const FORMULA: &str = "\
(gamma(2 c + K / c + 3) + r) S + 2 (a S_b + b S_a + K (a b + 2^-149))
";

/// The bound on the error of `strassen`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quadrants {
    /// Levels.
    pub levels: u32,
    /// u_A and u_B, the unit roundoffs of the types of A and B.
    pub operands: [f64; 2],
    /// u, the unit roundoff of the sums of products.
    pub sums: f64,
}

impl Quadrants {
    /// The largest error of an element of A B, for a depth and the largest magnitudes of A and B. `product` bounds the
    /// error of one launch.
    pub fn bound(&self, depth: usize, largest: [f64; 2], product: &dyn Fn(usize, [f64; 2]) -> f64) -> f64 {
        self.at(self.levels, depth, largest, product)
    }

    fn at(&self, level: u32, depth: usize, [a, b]: [f64; 2], product: &dyn Fn(usize, [f64; 2]) -> f64) -> f64 {
        if level == 0 {
            return product(depth, [a, b]);
        }
        let half = depth.div_ceil(2);
        let of = |x: f64, y: f64| self.at(level - 1, half, [x * a, y * b], product);
        let products = of(1.0, 1.0) + of(2.0, 2.0) + of(3.0, 3.0) + of(4.0, 1.0).max(of(1.0, 4.0)).max(of(2.0, 2.0));
        let roundings = 30.0 * (self.operands[0] + self.operands[1]) + 64.0 * self.sums;
        products + half as f64 * a * b * roundings
    }

    /// The largest magnitude of any sum of products.
    pub fn magnitude(&self, depth: usize, [a, b]: [f64; 2]) -> f64 {
        9f64.powi(self.levels as i32) * (depth + (1 << self.levels)) as f64 * a * b
    }
}

/// The bound of [`Quadrants`] as text.
pub(crate) const OF_QUADRANTS: &str = "\
E_0(K, a, b) = the bound without strassen, for operands with all elements a and b
E_l(K, a, b) = E(a, b) + E(2 a, 2 b) + E(3 a, 3 b) + max(E(4 a, b), E(a, 4 b), E(2 a, 2 b))
               + k a b (30 (u_A + u_B) + 64 u)
               with k = ceil(K / 2) and E(x, y) = E_(l-1)(k, x, y)
";

/// `n u / (1 - n u)`: the relative error after n successive roundings in f32.
fn gamma(n: usize) -> f64 {
    let nu = n as f64 * 2f64.powi(-BITS);
    if nu < 1.0 { nu / (1.0 - nu) } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::{Line, Quadrants};
    use crate::clause::Emulation;

    #[test]
    fn errors_of_products() {
        let of = |emulation: Emulation| emulation.promise().relative().log2();
        assert!((-14.5..-14.3).contains(&of(Emulation::Bf16x3)));
        assert!((-23.1..-22.9).contains(&of(Emulation::Bf16x6)));
        assert!((-20.5..-20.3).contains(&of(Emulation::F16x3)));
        assert_eq!(Emulation::Bf16x9.promise().relative(), 0.0);
    }

    /// A level multiplies the bound of multiply-adds by 18 / 4 and adds the error of the sums.
    #[test]
    fn levels_of_sums() {
        let u = 2f64.powi(-24);
        let bound = |levels| {
            let of = Quadrants { levels, operands: [u, u], sums: u };
            of.bound(4096, [1.0, 1.0], &|depth, [a, b]| (depth as f64).powi(2) * u * a * b)
        };
        let (none, one, two) = (bound(0), bound(1), bound(2));
        assert!((one / none - 4.5 - 124.0 / (2.0 * 4096.0)).abs() < 1e-9, "{}", one / none);
        assert!((20.25..20.5).contains(&(two / none)), "{}", two / none);
    }

    #[test]
    fn what_it_costs_to_be_small_is_absolute() {
        let line = Line { terms: 1, magnitude: 0.0, largest: [1.0, 2.0], sums: [1.0, 2.0] };
        let bound = |emulation: Emulation| emulation.promise().bound(&line, 128);
        assert!((bound(Emulation::F16x3) / (8.0 * 2f64.powi(-39)) - 1.0).abs() < 1e-6);
        assert!((bound(Emulation::Bf16x6) / (6.0 * 2f64.powi(-134)) - 1.0).abs() < 1e-3);
    }
}
