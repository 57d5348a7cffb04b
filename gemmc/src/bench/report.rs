//! What is said about the rows: JSON for the file of results, a table for the terminal, and one for the README.

use std::fmt::Write;

use ptx_gemm::cuda::Properties;
use serde_json::{Value, json};

use super::measure::How;
use super::session::Row;

/// Lanes of a multiprocessor that multiply and add in f32, on every architecture since sm_86 and on sm_90 (CUDA C++
/// Programming Guide, "Arithmetic instructions").
const LANES: f64 = 128.0;

/// The most that the GPU can do in f32, in TFLOP/s: every lane at the highest clock.
pub(crate) fn peak(properties: Properties) -> f64 {
    2.0 * LANES * f64::from(properties.processors) * f64::from(properties.clock_khz) * 1e3 / 1e12
}

impl Row {
    pub(crate) fn tflops(&self) -> f64 {
        self.size.operations() / self.times.ms / 1e9
    }

    /// The share of the peak, which is that of f32.
    pub(crate) fn of_peak(&self, peak: f64) -> Option<f64> {
        (self.types == "f32" && peak > 0.0).then(|| self.tflops() / peak)
    }

    /// A line of the table.
    pub(crate) fn line(&self, peak: f64) -> String {
        let size = self.size.to_string();
        let times = self.times;
        let cublas = times.cublas_ms.map_or("-".into(), |ms| format!("{ms:.4}"));
        let ratio = times.ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
        let peak = self.of_peak(peak).map_or("-".into(), |share| format!("{:.1}%", 100.0 * share));
        let bits = self.equal_bits.map_or("-".into(), |share| format!("{:.2}%", 100.0 * share));
        let how = if times.how == How::Graph { "graph" } else { "" };
        format!(
            "{:<15} {:<11} {:<22} {:<20} {:>10.4} {:>7.2} {:>10} {:>7} {:>6.1}% {:>6} {:>8} {:>3} {how}",
            self.types,
            self.layout,
            size,
            self.schedule,
            times.ms,
            self.tflops(),
            cublas,
            ratio,
            100.0 * times.spread,
            peak,
            bits,
            times.samples
        )
        .trim_end()
        .to_string()
    }
}

/// What the columns of [`Row::line`] are.
pub(crate) fn heading() -> String {
    format!(
        "{:<15} {:<11} {:<22} {:<20} {:>10} {:>7} {:>10} {:>7} {:>7} {:>6} {:>8} {:>3}",
        "types", "layout", "size", "schedule", "ms", "TFLOP/s", "cuBLAS ms", "ratio", "spread", "peak", "bits =", "of"
    )
}

/// The rows of one suite as the file of results has them.
pub(crate) fn json(device: &str, command: &str, rows: &[&Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "suite": row.suite,
                "types": row.types,
                "layout": row.layout,
                "m": row.size.m,
                "n": row.size.n,
                "k": row.size.k,
                "batch": row.size.batch,
                "schedule": row.schedule,
                "ms": rounded(row.times.ms),
                "tflops": rounded(row.tflops()),
                "cublas_ms": row.times.cublas_ms.map(rounded),
                "ratio": row.times.ratio.map(rounded),
                "spread": rounded(row.times.spread),
            })
        })
        .collect();
    json!({ "device": device, "command": command, "rows": rows })
}

/// To five digits, which is more than a measurement has.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// The file's text: one row on one line, so that a new run is a readable difference.
pub(crate) fn file(results: &Value) -> String {
    let rows: Vec<String> = results["rows"].as_array().into_iter().flatten().map(|row| format!("    {row}")).collect();
    format!(
        "{{\n  \"device\": {},\n  \"command\": {},\n  \"rows\": [\n{}\n  ]\n}}\n",
        results["device"],
        results["command"],
        rows.join(",\n")
    )
}

/// For each product and layout the fastest schedule, in the order of the first row of each.
pub(crate) fn best<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let mut best: Vec<&Row> = Vec::new();
    for row in rows {
        let same = |other: &&mut &Row| (other.size, &other.layout, &other.types) == (row.size, &row.layout, &row.types);
        match best.iter_mut().find(same) {
            Some(other) if row.times.ms < other.times.ms => *other = row,
            Some(_) => {}
            None => best.push(row),
        }
    }
    best
}

/// Which rows of a file of results to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    All,
    /// For each product and layout the fastest schedule.
    Best,
}

/// Whether `row` is the fastest of the rows on its product.
fn is_best(row: &Value, rows: &[Value]) -> bool {
    let product = |row: &Value| ["types", "layout", "m", "n", "k", "batch"].map(|name| row[name].clone());
    let ms = |row: &Value| row["ms"].as_f64().unwrap_or(f64::INFINITY);
    rows.iter().filter(|other| product(other) == product(row)).all(|other| ms(row) <= ms(other))
}

/// A file of results as a table in Markdown. `None` if it is not one.
pub(crate) fn markdown(results: &Value, shown: Shown) -> Option<String> {
    let mut text = format!("{}; `{}`\n\n", results["device"].as_str()?, results["command"].as_str()?);
    text.push_str(
        "| m x n x k | types | layout (a, b, d) | schedule | ms | TFLOP/s | cuBLAS ms | of cuBLAS | spread |\n",
    );
    text.push_str("|---|---|---|---|---:|---:|---:|---:|---:|\n");
    let rows = results["rows"].as_array()?;
    for row in rows.iter().filter(|row| shown == Shown::All || is_best(row, rows)) {
        let extent = |name: &str| row[name].as_u64();
        let (m, n, k) = (extent("m")?, extent("n")?, extent("k")?);
        let batch =
            extent("batch").filter(|&batch| batch > 1).map_or(String::new(), |batch| format!(", {batch} times"));
        let percent = |value: &Value| value.as_f64().map_or("-".into(), |share| format!("{:.1}%", 100.0 * share));
        let cublas = row["cublas_ms"].as_f64().map_or("-".into(), |ms| format!("{ms:.3}"));
        let _ = writeln!(
            text,
            "| {m} x {n} x {k}{batch} | {} | {} | `{}` | {:.3} | {:.1} | {cublas} | {} | {} |",
            row["types"].as_str()?,
            row["layout"].as_str()?.replace(',', ", "),
            row["schedule"].as_str()?,
            row["ms"].as_f64()?,
            row["tflops"].as_f64()?,
            percent(&row["ratio"]),
            percent(&row["spread"]),
        );
    }
    Some(text)
}
