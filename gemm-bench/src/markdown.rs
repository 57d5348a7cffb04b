//! A file of results as a table in Markdown, for the README.

use std::fmt::Write;

use serde_json::Value;

use crate::spelling::AS_PLANES;

/// Which parts of a file of results to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    /// Only the fastest schedule of each product and layout.
    pub best: bool,
    /// Only schedules of these names; all if empty.
    pub schedules: &'a [String],
    /// Another file of results: its times for schedules of the same name.
    pub beside: Option<&'a Value>,
}

/// `None` if it is not a file of results.
pub fn table(results: &Value, shown: Shown<'_>) -> Option<String> {
    let rows = results["rows"].as_array()?;
    let mut text = source(results)?;
    let mut heads =
        vec!["schedule", "m x n x k", "types", "layout (a, b, d)", "ms", "TFLOP/s", "cuBLAS ms", "of cuBLAS"];
    // Columns of which no row has a value are left out.
    let has = |name: &str| rows.iter().any(|row| !row[name].is_null());
    // Errors are of interest where the accumulators are emulated.
    let planes = rows.iter().any(|row| row["types"].as_str().is_some_and(|types| types.contains(AS_PLANES)));
    let columns = Columns { product: has("product"), cublaslt: has("cublaslt_ms"), error: planes && has("error") };
    if columns.cublaslt {
        heads.extend(["cuBLASLt ms", "of cuBLASLt"]);
    }
    heads.push("spread");
    if columns.error {
        heads.extend(["error", "of cuBLAS's"]);
    }
    if columns.product {
        heads.insert(1, "product");
    }
    let texts = if columns.product { 5 } else { 4 };
    if let Some(beside) = shown.beside {
        text.push_str(&source(beside)?);
        heads.extend([beside["title"].as_str().unwrap_or("TFLOP/s there"), "of that"]);
    }
    let _ = writeln!(text, "\n| {} |", heads.join(" | "));
    let _ = writeln!(text, "|{}{}|", "---|".repeat(texts), vec!["---:"; heads.len() - texts].join("|"));
    for row in chosen(rows, shown) {
        let mut cells = cells(row, columns)?;
        if let Some(beside) = shown.beside {
            cells.extend(compared(row, beside["rows"].as_array()?));
        }
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    Some(text)
}

/// The schedules that a file has results for, in its order.
pub fn names(results: &Value) -> Vec<&str> {
    let rows = results["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let mut names: Vec<&str> = Vec::new();
    for name in rows.iter().filter_map(|row| row["schedule"].as_str()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The names in `wanted` without results in the file.
pub fn absent<'a>(results: &Value, wanted: &'a [String]) -> Vec<&'a str> {
    let known = names(results);
    wanted.iter().map(String::as_str).filter(|name| !known.contains(name)).collect()
}

/// Whether a file can be compared with another one.
pub fn is_comparable(results: &Value) -> bool {
    source(results).is_some() && results["rows"].is_array()
}

/// Whether another file of results has the speed of some row that is shown.
pub fn has_common_rows(results: &Value, shown: Shown<'_>, beside: &Value) -> bool {
    let rows = |results: &Value| results["rows"].as_array().cloned().unwrap_or_default();
    let (rows, others) = (rows(results), rows(beside));
    chosen(&rows, shown).into_iter().any(|row| same(row, &others).is_some())
}

/// The device, and the command that made the file.
fn source(results: &Value) -> Option<String> {
    let about = results["about"].as_str().map_or(String::new(), |about| format!(" {about}"));
    Some(format!("{}: `{}`.{about}\n", results["device"].as_str()?, results["command"].as_str()?))
}

/// In the order of the products, or in that of the names if names are given and all their rows are shown.
fn chosen<'a>(rows: &'a [Value], shown: Shown<'_>) -> Vec<&'a Value> {
    let place = |row: &Value| shown.schedules.iter().position(|name| row["schedule"] == **name);
    let mut rows: Vec<&Value> = rows.iter().filter(|row| shown.schedules.is_empty() || place(row).is_some()).collect();
    if !shown.best {
        rows.sort_by_key(|row| place(row));
    }
    let best = |row: &&&Value| !shown.best || is_best(row, &rows);
    rows.iter().filter(best).copied().collect()
}

/// Whether `row` is the fastest of the rows on its product.
fn is_best(row: &Value, rows: &[&Value]) -> bool {
    let product = |row: &Value| ["types", "layout", "m", "n", "k", "batch"].map(|name| row[name].clone());
    let ms = |row: &Value| row["ms"].as_f64().unwrap_or(f64::INFINITY);
    rows.iter().filter(|other| product(other) == product(row)).all(|other| ms(row) <= ms(other))
}

/// The columns that only some files of results have.
#[derive(Clone, Copy)]
struct Columns {
    product: bool,
    cublaslt: bool,
    error: bool,
}

fn cells(row: &Value, columns: Columns) -> Option<Vec<String>> {
    let extent = |name: &str| row[name].as_u64();
    let (m, n, k) = (extent("m")?, extent("n")?, extent("k")?);
    let batch = extent("batch").filter(|&batch| batch > 1).map_or(String::new(), |batch| format!(", {batch} times"));
    let time = |name: &str| row[name].as_f64().map_or("-".into(), |ms| format!("{ms:.3}"));
    let mut cells = vec![
        format!("`{}`", row["schedule"].as_str()?),
        format!("{m} x {n} x {k}{batch}"),
        row["types"].as_str()?.into(),
        row["layout"].as_str()?.replace(',', ", "),
        format!("{:.3}", row["ms"].as_f64()?),
        format!("{:.1}", row["tflops"].as_f64()?),
        time("cublas_ms"),
        percent(row["ratio"].as_f64()),
    ];
    if columns.cublaslt {
        cells.extend([time("cublaslt_ms"), percent(row["cublaslt_ratio"].as_f64())]);
    }
    cells.push(percent(row["spread"].as_f64()));
    if columns.error {
        let (error, theirs) = (row["error"].as_f64(), row["cublas_error"].as_f64());
        let share = error.zip(theirs).map(|(ours, theirs)| ours / theirs);
        cells.extend([error.map_or("-".into(), |error| format!("{error:.1e}")), percent(share)]);
    }
    if columns.product {
        cells.insert(1, row["product"].as_str().unwrap_or("-").into());
    }
    Some(cells)
}

/// The row of another file on the same schedule and product. Fields that the other file lacks count as equal.
fn same<'a>(row: &Value, others: &'a [Value]) -> Option<&'a Value> {
    let agrees = |other: &Value, name: &str| other[name].is_null() || other[name] == row[name];
    let named = ["schedule", "m", "n", "k", "batch", "types", "layout"];
    let is_same = |other: &&Value| !other["schedule"].is_null() && named.iter().all(|name| agrees(other, name));
    others.iter().find(is_same)
}

/// The other file's speed on that, and our speed as a share of it.
fn compared(row: &Value, others: &[Value]) -> [String; 2] {
    let theirs = same(row, others).and_then(|other| other["tflops"].as_f64());
    let share = theirs.zip(row["tflops"].as_f64()).map(|(theirs, ours)| ours / theirs);
    [theirs.map_or("-".into(), |tflops| format!("{tflops:.1}")), percent(share)]
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1}%", 100.0 * share))
}
