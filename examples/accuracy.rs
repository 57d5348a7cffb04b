//! How exact f32 products from planes are, next to multiply-adds in f32 one after another, as an f32 kernel sums them.
//!
//! ```text
//! cargo run --release --example accuracy -- [LARGEST_K]
//! ```
//!
//! For each kind of data and each K: the relative error of D in the Frobenius norm, against sums in f64, and the largest error
//! of an element relative to `|A| |B|`, in units of 2^-24.

use std::error::Error;

use ptx_gemm::{CompiledGemm, Device, Gemm, Matrix};

/// Rows and columns of D.
const EXTENT: usize = 128;

const MODES: [&str; 3] = ["bf16x6", "f16x3", "bf16x3"];

const SCHEDULE: &str = "tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); specialize(producers = 1)";

/// A kind of data: its name, and a number made of four that are uniform in (0, 1).
type Kind = (&'static str, fn([f64; 4]) -> f64);

const KINDS: [Kind; 3] = [
    ("N(0, 1)", |[x, y, ..]| normal(x, y)),
    ("U(0, 1)", |[x, ..]| x),
    ("N(0, 1) exp(4 N(0, 1))", |[x, y, z, w]| normal(x, y) * (4.0 * normal(z, w)).exp()),
];

/// A standard normal number (G. E. P. Box and M. E. Muller, "A note on the generation of random normal deviates", 1958).
fn normal(x: f64, y: f64) -> f64 {
    (-2.0 * x.ln()).sqrt() * (std::f64::consts::TAU * y).cos()
}

/// A matrix of a kind.
fn matrix((_, number): Kind, rows: usize, cols: usize, seed: u64) -> Matrix<f32> {
    let uniform: Vec<Matrix<f64>> = (0..4).map(|part| Matrix::random(rows, cols, 4 * seed + part)).collect();
    let at =
        |index: usize| number([0, 1, 2, 3].map(|part| uniform[part].as_slice()[index].abs().max(f64::MIN_POSITIVE)));
    Matrix::from_fn(rows, cols, |row, col| at(row * cols + col) as f32)
}

/// The exact D and `|A| |B|`, row by row, and D by multiply-adds in f32.
struct Reference {
    exact: Vec<f64>,
    magnitude: Vec<f64>,
    single: Vec<f32>,
}

impl Reference {
    fn of(a: &Matrix<f32>, b: &Matrix<f32>) -> Reference {
        let (a_rows, b_rows) = (a.as_slice(), b.as_slice());
        let depth = a.cols();
        let element = |index: usize| {
            let (row, col) = (index / EXTENT, index % EXTENT);
            let (mut exact, mut magnitude, mut single) = (0.0f64, 0.0f64, 0.0f32);
            for k in 0..depth {
                let (x, y) = (a_rows[row * depth + k], b_rows[k * EXTENT + col]);
                let product = f64::from(x) * f64::from(y);
                exact += product;
                magnitude += product.abs();
                single = x.mul_add(y, single);
            }
            (exact, magnitude, single)
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let each = (EXTENT * EXTENT).div_ceil(threads);
        let mut all = vec![(0.0, 0.0, 0.0); EXTENT * EXTENT];
        std::thread::scope(|scope| {
            for (part, elements) in all.chunks_mut(each).enumerate() {
                scope.spawn(move || {
                    elements.iter_mut().enumerate().for_each(|(index, to)| *to = element(part * each + index));
                });
            }
        });
        let exact = all.iter().map(|(exact, ..)| *exact).collect();
        let magnitude = all.iter().map(|(_, magnitude, _)| *magnitude).collect();
        let single = all.iter().map(|(.., single)| *single).collect();
        Reference { exact, magnitude, single }
    }

    /// The relative error in the Frobenius norm, and the largest of an element, in units of 2^-24 of its `|A| |B|`.
    fn errors(&self, d: &[f32]) -> (f64, f64) {
        let (mut errors, mut values, mut largest) = (0.0, 0.0, 0.0f64);
        for ((got, exact), magnitude) in d.iter().zip(&self.exact).zip(&self.magnitude) {
            let error = f64::from(*got) - exact;
            errors += error * error;
            values += exact * exact;
            largest = largest.max(error.abs() / magnitude);
        }
        (f64::sqrt(errors / values), largest * (1u64 << 24) as f64)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::best()?;
    let largest: usize = std::env::args().nth(1).map_or(Ok(1024), |text| text.parse())?;
    println!(
        "{EXTENT} x {EXTENT} x K on {device}: relative error of D, and largest error of an element / (|A| |B| 2^-24)\n"
    );
    let compile = |mode: &str| -> Result<CompiledGemm, Box<dyn Error>> {
        Ok(format!("emulate({mode}); {SCHEDULE}").parse::<Gemm>()?.on(&device)?)
    };
    let modes = MODES.iter().map(|mode| compile(mode)).collect::<Result<Vec<_>, _>>()?;
    for kind in KINDS {
        println!("{:24}{:>22}{:>22}{:>22}{:>22}", kind.0, "f32", MODES[0], MODES[1], MODES[2]);
        for k in std::iter::successors(Some(256), |k| Some(k * 4)).take_while(|k| *k <= largest) {
            let (a, b) = (matrix(kind, EXTENT, k, 1), matrix(kind, k, EXTENT, 2));
            let reference = Reference::of(&a, &b);
            let mut line = format!("  K = {k:<18}");
            let mut show = |(norm, largest): (f64, f64)| line.push_str(&format!("{norm:>12.2e}{largest:>10.2}"));
            show(reference.errors(&reference.single));
            for gemm in &modes {
                let d: Matrix<f32> = gemm.multiply(&a, &b)?;
                show(reference.errors(d.as_slice()));
            }
            println!("{line}");
        }
        println!();
    }
    Ok(())
}
