//! Reports rows: JSON for the file of results, and a table for the terminal.

use ptx_gemm::DType;
use ptx_gemm::cuda::Properties;
use serde_json::{Value, json};

use crate::agree::Accuracy;
use crate::measure::{How, Times};
use crate::session::Row;
use crate::spelling::{RowTypes, label};
use crate::suites::{Size, Suite};

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

    /// The product's name, if the suite names its products.
    pub fn product(&self) -> Option<String> {
        Suite::product(&self.suite, self.size)
    }

    /// A line of the table. Its columns have fixed widths: lines are printed one by one as they are measured, and a table of
    /// comfy-table needs all of them for its widths.
    pub fn line(&self, peak: f64) -> String {
        let size = self.size.to_string();
        let times = self.times;
        let cublas = times.cublas_ms.map_or("-".into(), |ms| format!("{ms:.4}"));
        let ratio = times.ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
        let lt_ratio = times.cublaslt_ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
        let peak = self.of_peak(peak).map_or("-".into(), |share| format!("{:.1}%", 100.0 * share));
        let Accuracy { equal_bits, error, cublas_error } = self.accuracy;
        let bits = equal_bits.map_or("-".into(), |share| format!("{:.2}%", 100.0 * share));
        let of_theirs = error.zip(cublas_error).filter(|(_, theirs)| *theirs > 0.0);
        let of_theirs = of_theirs.map_or("-".into(), |(ours, theirs)| format!("{:.2}", ours / theirs));
        let error = error.map_or("-".into(), |error| format!("{error:.1e}"));
        let how = if times.how == How::Graph { "graph" } else { "" };
        let product = self.product().unwrap_or_default();
        format!(
            "{:<15} {:<11} {:<22} {:<30} {:>10.4} {:>7.2} {:>10} {:>7} {:>7} {:>6.1}% {:>6} {:>8} {:>7} {:>6} {:>3} {how:<5} {product}",
            self.types,
            self.layout,
            size,
            label(&self.schedule),
            times.ms,
            self.tflops(),
            cublas,
            ratio,
            lt_ratio,
            100.0 * times.spread,
            peak,
            bits,
            error,
            of_theirs,
            times.samples
        )
        .trim_end()
        .to_string()
    }
}

/// The heads of the columns of [`Row::line`].
pub fn heading() -> String {
    format!(
        "{:<15} {:<11} {:<22} {:<30} {:>10} {:>7} {:>10} {:>7} {:>7} {:>7} {:>6} {:>8} {:>7} {:>6} {:>3}",
        "types",
        "layout",
        "size",
        "schedule",
        "ms",
        "TFLOP/s",
        "cuBLAS ms",
        "ratio",
        "to Lt",
        "spread",
        "peak",
        "bits =",
        "error",
        "to its",
        "of"
    )
}

/// How the fastest schedules of several products compare with each library: the geometric mean of the ratios and the
/// lowest one; empty for a single product, and without a library.
pub fn means(best: &[&Row]) -> String {
    let line = |library: &str, ratio: fn(&Row) -> Option<f64>| {
        let all: Vec<(f64, &Row)> = best.iter().filter_map(|row| Some((ratio(row)?, *row))).collect();
        let (lowest, row) = all.iter().min_by(|one, other| one.0.total_cmp(&other.0)).filter(|_| all.len() > 1)?;
        let mean = (all.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / all.len() as f64).exp();
        let (count, size) = (all.len(), row.size);
        Some(format!(
            "of {library}: {mean:.3} in the geometric mean of {count} products, {lowest:.3} at the lowest, {size}\n"
        ))
    };
    let lines = [line("cuBLAS", |row| row.times.ratio), line("cuBLASLt's best", |row| row.times.cublaslt_ratio)];
    lines.into_iter().flatten().collect()
}

/// The rows of one suite in the form of the file of results.
pub fn json(device: &str, command: &str, peak: f64, rows: &[&Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut json = json!({
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
            });
            // Fields that only some results have, and that older files lack.
            for (name, value) in [
                ("product", row.product().map(Value::from)),
                ("cublaslt_ms", row.times.cublaslt_ms.map(rounded).map(Value::from)),
                ("cublaslt_ratio", row.times.cublaslt_ratio.map(rounded).map(Value::from)),
                ("error", row.accuracy.error.map(rounded).map(Value::from)),
                ("cublas_error", row.accuracy.cublas_error.map(rounded).map(Value::from)),
            ] {
                value.into_iter().for_each(|value| json[name] = value);
            }
            json
        })
        .collect();
    json!({ "device": device, "command": command, "f32_peak_tflops": rounded(peak), "rows": rows })
}

/// Types in one spelling for all rows; other text stays as it is.
fn spelled(types: &str) -> String {
    types.parse::<RowTypes>().map_or_else(|_| types.into(), |types| types.to_string())
}

/// The rows of a file of results, and the peak; `None` if it is not one.
pub fn read(results: &Value) -> Option<(Vec<Row>, f64)> {
    let row = |row: &Value| {
        let (text, extent) = (|name: &str| row[name].as_str(), |name: &str| Some(row[name].as_u64()? as usize));
        let times = Times {
            ms: row["ms"].as_f64().filter(|ms| (1e-9..1e12).contains(ms))?,
            cublas_ms: row["cublas_ms"].as_f64(),
            ratio: row["ratio"].as_f64().filter(|ratio| (0.0..1e6).contains(ratio)),
            cublaslt_ms: row["cublaslt_ms"].as_f64(),
            cublaslt_ratio: row["cublaslt_ratio"].as_f64().filter(|ratio| (0.0..1e6).contains(ratio)),
            spread: row["spread"].as_f64()?,
            // Not stored.
            samples: 0,
            how: How::Stream,
        };
        Some(Row {
            suite: text("suite")?.into(),
            types: spelled(text("types")?),
            layout: text("layout")?.into(),
            size: Size { m: extent("m")?, n: extent("n")?, k: extent("k")?, batch: extent("batch")? },
            schedule: text("schedule")?.into(),
            times,
            accuracy: Accuracy {
                equal_bits: None,
                error: row["error"].as_f64(),
                cublas_error: row["cublas_error"].as_f64(),
            },
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{file, heading, json, means, read};
    use crate::agree::Accuracy;
    use crate::measure::{How, Times};
    use crate::session::Row;
    use crate::suites::Size;

    fn row(m: usize, ratio: Option<f64>, cublaslt_ratio: Option<f64>) -> Row {
        let of = |ratio: Option<f64>| ratio.map(|ratio| 2.0 * ratio);
        let (cublas_ms, cublaslt_ms) = (of(ratio), of(cublaslt_ratio));
        let (samples, how) = (0, How::Stream);
        let times = Times { ms: 2.0, cublas_ms, ratio, cublaslt_ms, cublaslt_ratio, spread: 0.01, samples, how };
        let (suite, types, layout) = ("llm".into(), "bf16".into(), "row,col,row".into());
        let size = Size { m, n: 6144, k: 4096, batch: 1 };
        let accuracy = Accuracy { equal_bits: None, error: ratio.map(|_| 1e-7), cublas_error: cublaslt_ratio };
        Row { suite, types, layout, size, schedule: "one".into(), times, accuracy }
    }

    #[test]
    fn a_file_of_results_is_read_again() {
        let rows = [row(8, Some(0.5), Some(0.25)), row(16, Some(2.0), None), row(32, None, None)];
        let text = file(&json("Some GPU", "gemmc bench", 60.0, &rows.iter().collect::<Vec<_>>()));
        let results: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(results["rows"][0]["product"], "Llama-3 8B qkv");
        assert!(results["rows"][1].get("cublaslt_ms").is_none(), "{text}");
        let (again, peak) = read(&results).unwrap();
        assert_eq!(peak, 60.0);
        assert!(
            again
                .iter()
                .zip(&rows)
                .all(|(again, row)| (again.times, again.size, again.accuracy) == (row.times, row.size, row.accuracy))
        );
    }

    #[test]
    fn lines_are_as_wide_as_their_heading() {
        let line = row(8, Some(0.5), Some(0.25)).line(60.0);
        assert!(line.contains("  1.0000   0.500   0.250 ") && line.ends_with("Llama-3 8B qkv"), "{line}");
        assert_eq!(line.find(" 0.250 "), heading().find("to Lt").map(|at| at - 1), "{line}\n{}", heading());
    }

    #[test]
    fn means_are_geometric() {
        let rows = [row(8, Some(0.5), Some(0.25)), row(16, Some(2.0), None)];
        let rows: Vec<&Row> = rows.iter().collect();
        let expected = "of cuBLAS: 1.000 in the geometric mean of 2 products, 0.500 at the lowest, 8 x 6144 x 4096\n";
        assert_eq!(means(&rows), expected);
        assert_eq!(means(&rows[..1]), "");
    }
}
