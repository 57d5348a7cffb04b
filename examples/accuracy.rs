//! The accuracy of f32 products from planes, compared with a chain of f32 multiply-adds, which is how an f32 kernel sums.
//!
//! ```text
//! cargo run --release --example accuracy -- [LARGEST_K] [--promote N] [--compensated] [--draws N] [--data WORD] \
//!     [--json FILE] [--plot FILE.svg]
//! cargo run --release --example accuracy -- --from FILE --plot FILE.svg
//! ```
//!
//! `--data` is `normal`, `uniform` or `log-normal`; without it, all of them. On a GPU, D is larger and only a sample of it is
//! checked; cuBLAS runs as well, in f32 and in tf32.
//!
//! For each kind of data and each K: the relative error of D in the Frobenius norm, against an f64 reference, and the largest
//! error of an element relative to `|A| |B|`, in units of 2^-24. With several draws of A and B, the first is a geometric
//! mean, so that the ratio of two methods is the mean of their ratios: one element can dominate the norm of log-normal data,
//! and whether a method rounds it luckily says little. The file has one row for each kind, K and method; rows of other
//! methods can be added. The plot shows the first of the two errors.

use std::error::Error;
use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use lexopt::{Arg, ValueExt};
use ptx_gemm::cuda::{Cublas, Queue};
use ptx_gemm::{CompiledGemm, DType, Device, Gemm, Matrix};
use ptx_gemm_draw::Scheme;
use ptx_gemm_draw::errors::{Errors, errors};
use ptx_gemm_draw::sizes::Line;
use serde_json::{Value, json};

/// Rows and columns of D that are checked, evenly spaced: all of them in the interpreter. On a GPU D is larger: with few
/// tiles, cuBLAS would use split-K, which rounds differently from large products.
const SAMPLES: usize = 64;
const ON_A_GPU: usize = 1024;

/// The names that `emulate` gives its modes.
const MODES: [&str; 4] = ["bf16x6", "bf16x9", "f16x3", "bf16x3"];

/// A chain of f32 multiply-adds, computed here on the host.
const SINGLE: &str = "f32";

/// Products by cuBLAS.
const CUBLAS: [(&str, DType); 2] = [("cuBLAS f32", DType::F32), ("cuBLAS tf32", DType::Tf32)];

/// A K-tile must not be deeper than one promotion interval.
fn schedule(mode: &str, promote: usize, compensated: bool) -> String {
    let rounding = if compensated { "compensated" } else { "plain" };
    format!(
        "emulate({mode}); promote(every = {promote}, {rounding}); tile(64, 64, {}); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
         specialize(producers = 1)",
        promote.min(64)
    )
}

/// A kind of data: its name, and a function from four uniform numbers in (0, 1) to one element.
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
        let (depth, extent) = (a.cols(), b.cols());
        let element = |index: usize| {
            let (row, col) = place(index, extent);
            let (mut exact, mut magnitude, mut single) = (0.0f64, 0.0f64, 0.0f32);
            for k in 0..depth {
                let (x, y) = (a_rows[row * depth + k], b_rows[k * extent + col]);
                let product = f64::from(x) * f64::from(y);
                exact += product;
                magnitude += product.abs();
                single = x.mul_add(y, single);
            }
            (exact, magnitude, single)
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let each = (SAMPLES * SAMPLES).div_ceil(threads);
        let mut all = vec![(0.0, 0.0, 0.0); SAMPLES * SAMPLES];
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

    /// The errors of D.
    fn errors(&self, d: &Matrix<f32>) -> (f64, f64) {
        let sampled = |index| {
            let (row, col) = place(index, d.cols());
            d.as_slice()[row * d.cols() + col]
        };
        self.sampled(&(0..SAMPLES * SAMPLES).map(sampled).collect::<Vec<f32>>())
    }

    /// The relative error in the Frobenius norm, and the largest of an element relative to its `|A| |B|`.
    fn sampled(&self, d: &[f32]) -> (f64, f64) {
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

/// The row and column of a sample of a square matrix.
fn place(index: usize, extent: usize) -> (usize, usize) {
    let distance = extent / SAMPLES;
    (index / SAMPLES * distance, index % SAMPLES * distance)
}

/// The product by cuBLAS, with f32 accumulators.
fn by_cublas(
    (cublas, queue): (&Cublas, &Queue),
    device: &Device,
    (a, b): (&Matrix<f32>, &Matrix<f32>),
    operands: DType,
) -> Result<Matrix<f32>, Box<dyn Error>> {
    let gemm = "tile(16, 16, 16); thread(1, 1)".parse::<Gemm>()?.on(device)?;
    let mut types = gemm.problem().types;
    (types.a, types.b) = (operands, operands);
    let mut d = Matrix::<f32>::zeros(a.rows(), b.cols());
    let (a, b, to) = (device.upload(a)?, device.upload(b)?, device.upload(&d)?);
    queue.launch(&cublas.product(types, &a, &b, &to)?)?;
    queue.wait()?;
    to.download(&mut d)?;
    Ok(d)
}

/// What was measured.
struct Row {
    kind: String,
    k: usize,
    method: String,
    norm: f64,
    largest: f64,
}

/// A kind of data in a word.
fn word(kind: &str) -> &'static str {
    match kind {
        "N(0, 1)" => "normal",
        "U(0, 1)" => "uniform",
        _ => "log-normal",
    }
}

/// The kind with this name.
fn kind_of(text: &str) -> Result<&'static str, &'static str> {
    let kind = KINDS.iter().map(|(kind, _)| *kind).find(|kind| word(kind) == text);
    kind.ok_or("data are normal, uniform or log-normal")
}

/// How it was measured.
struct Setting {
    /// Rows and columns of D.
    extent: usize,
    promote: usize,
    compensated: bool,
    draws: u64,
}

/// The plot of the errors in the norm.
fn plot(device: &str, setting: &Setting, rows: &[Row]) -> Errors {
    let Setting { extent, promote, compensated, draws } = setting;
    let mut methods: Vec<&str> = Vec::new();
    for row in rows {
        if !methods.contains(&&*row.method) {
            methods.push(&row.method);
        }
    }
    // The plot has six colours, and the effect of three more plane products is too small to see.
    let coincide = methods.len() > 6;
    methods.retain(|method| !coincide || *method != "bf16x9");
    let line = |kind: &str, (index, method): (usize, &&str)| Line {
        name: match *method {
            SINGLE => "f32: multiply-adds, one after another".into(),
            mode if MODES.contains(&mode) => format!("emulate({mode})"),
            other => other.into(),
        },
        points: rows
            .iter()
            .filter(|row| row.kind == kind && row.method == *method)
            .map(|row| (row.k as f64, row.norm))
            .collect(),
        // The line of `bf16x9` would cover another one.
        dashed: !MODES.contains(method) || *method == "bf16x9",
        // The last colour is grey.
        color: if index == 0 { 5 } else { index - 1 },
    };
    let lines = |kind: &str| methods.iter().enumerate().map(|method| line(kind, method)).collect();
    Errors {
        title: "How far f32 products are from exact ones".into(),
        text: format!(
            "{device}; D is {extent} × {extent}, sums of K products, promoted every {promote} of K{}. Each point is the error of D \
             relative to D, in the Frobenius norm, next to sums in f64{}: lower is better. Elements of A and B are drawn from \
             the distribution above each panel.{}",
            if *compensated { ", with their rounding errors" } else { "" },
            if *draws > 1 { format!(", the geometric mean of {draws} draws") } else { String::new() },
            if coincide { " emulate(bf16x9) is close to emulate(bf16x6), and left out." } else { "" }
        ),
        x: "K, the number of products in a sum".into(),
        y: "relative error of D".into(),
        panels: KINDS
            .iter()
            .filter(|(kind, _)| rows.iter().any(|row| row.kind == *kind))
            .map(|(kind, _)| (format!("{}: {kind}", word(kind)), lines(kind)))
            .collect(),
    }
}

/// Draws what an earlier run wrote.
fn redraw(file: &Path, picture: &Path) -> Result<(), Box<dyn Error>> {
    let file: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let (text, whole) = (|of: &Value| of.as_str().map(String::from), |of: &Value| Some(of.as_u64()? as usize));
    let row = |row: &Value| {
        let (norm, largest) = (row["norm"].as_f64()?, row["largest"].as_f64()?);
        Some(Row { kind: text(&row["data"])?, k: whole(&row["k"])?, method: text(&row["method"])?, norm, largest })
    };
    let read = || {
        let rows: Option<Vec<Row>> = file["rows"].as_array()?.iter().map(row).collect();
        // Older files lack these two: they had one draw, and no rounding errors.
        let setting = Setting {
            extent: whole(&file["m"])?,
            promote: whole(&file["promote"])?,
            compensated: file["compensated"].as_bool().unwrap_or(false),
            draws: file["draws"].as_u64().unwrap_or(1),
        };
        Some(plot(&text(&file["device"])?, &setting, &rows?))
    };
    Ok(fs::write(picture, errors(&read().ok_or("it is not a file of this example")?, Scheme::Auto))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut largest, mut promote, mut compensated) = (1024usize, 128usize, false);
    let (mut file, mut picture) = (None, None);
    let (mut earlier, mut draws, mut data) = (None, 1u64, None);
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Value(value) => largest = value.parse()?,
            Arg::Long("promote") => promote = args.value()?.parse()?,
            Arg::Long("compensated") => compensated = true,
            Arg::Long("draws") => draws = args.value()?.parse_with(|text| text.parse::<NonZeroU64>())?.get(),
            Arg::Long("data") => data = Some(args.value()?.parse_with(kind_of)?),
            Arg::Long("from") => earlier = Some(PathBuf::from(args.value()?)),
            Arg::Long("json") => file = Some(PathBuf::from(args.value()?)),
            Arg::Long("plot") => picture = Some(PathBuf::from(args.value()?)),
            other => return Err(other.unexpected().into()),
        }
    }
    if let (Some(earlier), Some(picture)) = (&earlier, &picture) {
        return redraw(earlier, picture);
    }
    let device = Device::best()?;
    let cublas = match Queue::new(&device) {
        Ok(queue) => Some((Cublas::new(&queue)?, queue)),
        Err(_) => None,
    };
    let extent = if cublas.is_some() { ON_A_GPU } else { SAMPLES };
    println!(
        "{extent} x {extent} x K on {device}: relative error of D, and largest error of an element / (|A| |B| 2^-24)\n"
    );
    let compile = |mode: &&str| -> Result<CompiledGemm, Box<dyn Error>> {
        Ok(schedule(mode, promote, compensated).parse::<Gemm>()?.on(&device)?)
    };
    let modes = MODES.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
    let libraries = if cublas.is_some() { &CUBLAS[..] } else { &[] };
    let methods: Vec<&str> =
        [SINGLE].into_iter().chain(MODES).chain(libraries.iter().map(|(method, _)| *method)).collect();
    let mut rows = Vec::new();
    for kind in KINDS.into_iter().filter(|(kind, _)| data.is_none_or(|data| data == *kind)) {
        println!("{:24}{}", kind.0, methods.iter().map(|method| format!("{method:>22}")).collect::<String>());
        for k in std::iter::successors(Some(256), |k| Some(k * 4)).take_while(|k| *k <= largest) {
            // Sums of the logarithms of norms, and the largest errors.
            let mut all = vec![(0.0, 0.0f64); methods.len()];
            for draw in 0..draws {
                let (a, b) = (matrix(kind, extent, k, 2 * draw + 1), matrix(kind, k, extent, 2 * draw + 2));
                let reference = Reference::of(&a, &b);
                let mut errors = vec![reference.sampled(&reference.single)];
                for mode in &modes {
                    errors.push(reference.errors(&mode.multiply(&a, &b)?));
                }
                if let Some((cublas, queue)) = &cublas {
                    for (_, operands) in libraries {
                        errors.push(reference.errors(&by_cublas((cublas, queue), &device, (&a, &b), *operands)?));
                    }
                }
                for (all, (norm, largest)) in all.iter_mut().zip(errors) {
                    *all = (all.0 + norm.ln(), all.1.max(largest));
                }
            }
            let mut line = format!("  K = {k:<18}");
            for ((logarithms, largest), method) in all.into_iter().zip(&methods) {
                let norm = (logarithms / draws as f64).exp();
                line.push_str(&format!("{norm:>12.2e}{:>10.2}", largest * (1u64 << 24) as f64));
                rows.push(Row { kind: kind.0.into(), k, method: method.to_string(), norm, largest });
            }
            println!("{line}");
        }
        println!();
    }
    if let Some(path) = picture {
        let setting = Setting { extent, promote, compensated, draws };
        fs::write(path, errors(&plot(device.name(), &setting, &rows), Scheme::Auto))?;
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
            "m": extent,
            "n": extent,
            "promote": promote,
            "compensated": compensated,
            "draws": draws,
            "norm": "relative error of D in the Frobenius norm, the geometric mean of the draws",
            "largest": "largest error of an element of D relative to its |A| |B|",
            "rows": all,
        });
        fs::write(path, serde_json::to_string_pretty(&file)? + "\n")?;
    }
    Ok(())
}
