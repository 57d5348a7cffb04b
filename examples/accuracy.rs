//! How exact f32 products from planes are, next to multiply-adds in f32 one after another, as an f32 kernel sums them.
//!
//! ```text
//! cargo run --release --example accuracy -- [LARGEST_K] [--json FILE] [--plot FILE.svg]
//! ```
//!
//! For each kind of data and each K: the relative error of D in the Frobenius norm, against sums in f64, and the largest error
//! of an element relative to `|A| |B|`, in units of 2^-24. The file has a row for each kind, K and method, so that rows of
//! other methods can be added, and the plot shows the first of the two errors.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use lexopt::{Arg, ValueExt};
use ptx_gemm::{CompiledGemm, Device, Gemm, Matrix};
use ptx_gemm_draw::Scheme;
use ptx_gemm_draw::errors::{Errors, errors};
use ptx_gemm_draw::sizes::Line;
use serde_json::{Value, json};

/// Rows and columns of D.
const EXTENT: usize = 64;

/// Multiply-adds in f32 one after another, computed here, and what `emulate` calls the others.
const METHODS: [&str; 5] = ["f32", "bf16x6", "bf16x9", "f16x3", "bf16x3"];

const SCHEDULE: &str = "tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); specialize(producers = 1)";

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

    /// The relative error in the Frobenius norm, and the largest of an element relative to its `|A| |B|`.
    fn errors(&self, d: &[f32]) -> (f64, f64) {
        let (mut errors, mut values, mut largest) = (0.0, 0.0, 0.0f64);
        for ((got, exact), magnitude) in d.iter().zip(&self.exact).zip(&self.magnitude) {
            let error = f64::from(*got) - exact;
            errors += error * error;
            values += exact * exact;
            largest = largest.max(error.abs() / magnitude);
        }
        (f64::sqrt(errors / values), largest)
    }
}

/// What was measured.
struct Row {
    kind: &'static str,
    k: usize,
    method: &'static str,
    norm: f64,
    largest: f64,
}

/// A kind of data in words.
fn headed(kind: &str) -> String {
    let word = match kind {
        "N(0, 1)" => "normal",
        "U(0, 1)" => "uniform",
        _ => "log-normal",
    };
    format!("{word}: {kind}")
}

/// The plot of the errors in the norm.
fn plot(device: &Device, rows: &[Row]) -> Errors {
    let line = |kind: &str, (index, method): (usize, &&str)| Line {
        name: if index == 0 { "f32: multiply-adds, one after another".into() } else { format!("emulate({method})") },
        points: rows
            .iter()
            .filter(|row| row.kind == kind && row.method == *method)
            .map(|row| (row.k as f64, row.norm))
            .collect(),
        // What three more products of planes change is too small to see: the line is on top of another.
        dashed: index == 0 || *method == "bf16x9",
        // The last colour is grey.
        color: if index == 0 { 5 } else { index - 1 },
    };
    let lines = |kind: &'static str| METHODS.iter().enumerate().map(|method| line(kind, method)).collect();
    Errors {
        title: "How far f32 products are from exact ones".into(),
        text: format!(
            "{}; D is {EXTENT} × {EXTENT}, sums of K products, promoted every 128 of K. Each point is the error of the whole of D \
             relative to D, in the Frobenius norm, next to sums in f64: lower is better. Elements of A and B are drawn from the \
             distribution above each panel.",
            device.name()
        ),
        x: "K, the number of products in a sum".into(),
        y: "relative error of D".into(),
        panels: KINDS.iter().map(|(kind, _)| (headed(kind), lines(kind))).collect(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut largest, mut file, mut picture) = (1024usize, None, None);
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Value(value) => largest = value.parse()?,
            Arg::Long("json") => file = Some(PathBuf::from(args.value()?)),
            Arg::Long("plot") => picture = Some(PathBuf::from(args.value()?)),
            other => return Err(other.unexpected().into()),
        }
    }
    let device = Device::best()?;
    println!(
        "{EXTENT} x {EXTENT} x K on {device}: relative error of D, and largest error of an element / (|A| |B| 2^-24)\n"
    );
    let compile = |mode: &&str| -> Result<CompiledGemm, Box<dyn Error>> {
        Ok(format!("emulate({mode}); {SCHEDULE}").parse::<Gemm>()?.on(&device)?)
    };
    let modes = METHODS[1..].iter().map(compile).collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for kind in KINDS {
        println!("{:24}{}", kind.0, METHODS.map(|method| format!("{method:>22}")).concat());
        for k in std::iter::successors(Some(256), |k| Some(k * 4)).take_while(|k| *k <= largest) {
            let (a, b) = (matrix(kind, EXTENT, k, 1), matrix(kind, k, EXTENT, 2));
            let reference = Reference::of(&a, &b);
            let mut line = format!("  K = {k:<18}");
            for (index, method) in METHODS.into_iter().enumerate() {
                let (norm, largest) = match index {
                    0 => reference.errors(&reference.single),
                    _ => reference.errors(modes[index - 1].multiply(&a, &b)?.as_slice()),
                };
                line.push_str(&format!("{norm:>12.2e}{:>10.2}", largest * (1u64 << 24) as f64));
                rows.push(Row { kind: kind.0, k, method, norm, largest });
            }
            println!("{line}");
        }
        println!();
    }
    if let Some(path) = picture {
        fs::write(path, errors(&plot(&device, &rows), Scheme::Auto))?;
    }
    if let Some(path) = file {
        let row = |row: &Row| {
            let Row { kind, k, method, norm, largest } = row;
            json!({ "data": kind, "k": k, "method": method, "norm": norm, "largest": largest })
        };
        let all: Vec<Value> = rows.iter().map(row).collect();
        let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
        let file = json!({
            "device": device.name(),
            "command": format!("cargo run --release --example accuracy -- {command}"),
            "m": EXTENT,
            "n": EXTENT,
            "norm": "relative error of D in the Frobenius norm",
            "largest": "largest error of an element of D relative to its |A| |B|",
            "rows": all,
        });
        fs::write(path, serde_json::to_string_pretty(&file)? + "\n")?;
    }
    Ok(())
}
