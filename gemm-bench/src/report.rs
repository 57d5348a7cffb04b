//! Reports rows: JSON for the file of results, and a table for the terminal.

use ptx_gemm::DType;
use ptx_gemm::cuda::Properties;
use serde_json::{Value, json};

use crate::measure::{How, Times};
use crate::session::Row;
use crate::suites::Size;

/// Lanes of a multiprocessor that multiply and add in f32, on every architecture since sm_86 and on sm_90 (CUDA C++
/// Programming Guide, "Arithmetic instructions").
const LANES: f64 = 128.0;

/// The GPU's peak in f32, in TFLOP/s: every lane at the highest clock.
pub fn peak(properties: Properties) -> f64 {
    2.0 * LANES * f64::from(properties.processors) * f64::from(properties.clock_khz) * 1e3 / 1e12
}

impl Row {
    /// Its speed, in TFLOP/s.
    pub fn tflops(&self) -> f64 {
        self.size.operations() / self.times.ms / 1e9
    }

    /// The share of the peak, which is that of f32.
    pub fn of_peak(&self, peak: f64) -> Option<f64> {
        (self.types == DType::F32.name() && peak > 0.0).then(|| self.tflops() / peak)
    }

    /// A line of the table. Its columns have fixed widths: lines are printed one by one as they are measured, and a table of
    /// comfy-table needs all of them for its widths.
    pub fn line(&self, peak: f64) -> String {
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

/// The heads of the columns of [`Row::line`].
pub fn heading() -> String {
    format!(
        "{:<15} {:<11} {:<22} {:<20} {:>10} {:>7} {:>10} {:>7} {:>7} {:>6} {:>8} {:>3}",
        "types", "layout", "size", "schedule", "ms", "TFLOP/s", "cuBLAS ms", "ratio", "spread", "peak", "bits =", "of"
    )
}

/// The rows of one suite in the form of the file of results.
pub fn json(device: &str, command: &str, peak: f64, rows: &[&Row]) -> Value {
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
    json!({ "device": device, "command": command, "f32_peak_tflops": rounded(peak), "rows": rows })
}

/// The rows of a file of results, and the peak; `None` if it is not one.
pub fn read(results: &Value) -> Option<(Vec<Row>, f64)> {
    let row = |row: &Value| {
        let (text, extent) = (|name: &str| row[name].as_str(), |name: &str| Some(row[name].as_u64()? as usize));
        let times = Times {
            ms: row["ms"].as_f64().filter(|ms| (1e-9..1e12).contains(ms))?,
            cublas_ms: row["cublas_ms"].as_f64(),
            ratio: row["ratio"].as_f64().filter(|ratio| (0.0..1e6).contains(ratio)),
            spread: row["spread"].as_f64()?,
            // Not stored.
            samples: 0,
            how: How::Stream,
        };
        Some(Row {
            suite: text("suite")?.into(),
            types: text("types")?.into(),
            layout: text("layout")?.into(),
            size: Size { m: extent("m")?, n: extent("n")?, k: extent("k")?, batch: extent("batch")? },
            schedule: text("schedule")?.into(),
            times,
            equal_bits: None,
        })
    };
    let rows: Option<Vec<Row>> = results["rows"].as_array()?.iter().map(row).collect();
    Some((rows?, results["f32_peak_tflops"].as_f64().unwrap_or_default()))
}

/// Rounded to five digits, which is more than the precision of a measurement.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// The file's text: one row per line, so that a new run gives a readable diff.
pub fn file(results: &Value) -> String {
    let rows: Vec<String> = results["rows"].as_array().into_iter().flatten().map(|row| format!("    {row}")).collect();
    format!(
        "{{\n  \"device\": {},\n  \"command\": {},\n  \"f32_peak_tflops\": {},\n  \"rows\": [\n{}\n  ]\n}}\n",
        results["device"],
        results["command"],
        results["f32_peak_tflops"],
        rows.join(",\n")
    )
}

/// For each product and layout the fastest schedule, in the order of the first row of each.
pub fn best<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
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
