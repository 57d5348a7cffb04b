//! A file of results as a table in Markdown, for the README.

use std::fmt::Write;

use serde_json::Value;

use crate::spelling::{AS_PLANES, label};

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
    let of = |row| {
        let mut cells = cells(row, columns)?;
        if let Some(beside) = shown.beside {
            cells.extend(compared(row, beside["rows"].as_array()?));
        }
        Some(cells)
    };
    let lines: Option<Vec<Vec<String>>> = chosen(rows, shown).into_iter().map(of).collect();
    Some(text + &grid(&heads, texts, lines?))
}

/// Lines under their heads, the first of which are texts. What all lines say of the product, its types and its layouts is said
/// once, above them.
fn grid(heads: &[&str], texts: usize, lines: Vec<Vec<String>>) -> String {
    let common = |column: &usize| lines.len() > 1 && lines.iter().all(|line| line[*column] == lines[0][*column]);
    let common: Vec<usize> = (texts - 3..texts).filter(common).collect();
    let said: Vec<String> = common.iter().map(|&column| format!("{} {}", heads[column], lines[0][column])).collect();
    let mut text = if said.is_empty() { String::new() } else { format!("All rows: {}.\n", said.join("; ")) };
    let left = |cells: &[&str]| {
        let cells = cells.iter().enumerate().filter(|(column, _)| !common.contains(column)).map(|(_, cell)| *cell);
        cells.collect::<Vec<_>>().join(" | ")
    };
    let texts = texts - common.len();
    let figures = heads.len() - common.len() - texts;
    let _ = writeln!(text, "\n| {} |\n|{}{}|", left(heads), "---|".repeat(texts), vec!["---:"; figures].join("|"));
    for line in &lines {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let _ = writeln!(text, "| {} |", left(&line));
    }
    text
}

/// One line for each number of rows, types and layouts: the fastest schedules of its products next to the libraries, by geometric
/// mean and at the lowest. `None` if it is not a file of results.
pub fn means(results: &Value, shown: Shown<'_>) -> Option<String> {
    let mut groups: Vec<([&Value; 3], Vec<&Value>)> = Vec::new();
    for row in chosen(results["rows"].as_array()?, Shown { best: true, ..shown }) {
        let of = ["m", "types", "layout"].map(|name| &row[name]);
        match groups.iter_mut().find(|(known, _)| *known == of) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((of, vec![row])),
        }
    }
    groups.sort_by_key(|(of, _)| (of[1].to_string(), of[2].to_string(), of[0].as_u64()));
    let heads =
        ["m", "types", "layout (a, b, d)", "products", "of cuBLAS", "lowest", "of n x k", "of cuBLASLt", "lowest"];
    let line = |(of, rows): &([&Value; 3], Vec<&Value>)| {
        let [ours, theirs] = ["ratio", "cublaslt_ratio"].map(|name| mean_and_lowest(rows, name));
        let lowest = ours.map_or("-".into(), |(_, _, row)| format!("{} x {}", row["n"], row["k"]));
        let mut cells = vec![of[0].to_string(), of[1].as_str()?.into(), of[2].as_str()?.replace(',', ", ")];
        cells.push(rows.len().to_string());
        cells.extend([percent(ours.map(|(mean, ..)| mean)), percent(ours.map(|(_, lowest, _)| lowest)), lowest]);
        cells.extend([percent(theirs.map(|(mean, ..)| mean)), percent(theirs.map(|(_, lowest, _)| lowest))]);
        Some(cells)
    };
    let lines: Option<Vec<Vec<String>>> = groups.iter().map(line).collect();
    Some(source(results)? + &grid(&heads, 3, lines?))
}

/// The geometric mean of a ratio, the lowest one, and the row that has it; `None` if a row has none.
fn mean_and_lowest<'a>(rows: &[&'a Value], name: &str) -> Option<(f64, f64, &'a Value)> {
    let ratios: Option<Vec<(f64, &Value)>> = rows.iter().map(|row| Some((row[name].as_f64()?, *row))).collect();
    let ratios = ratios?;
    let (lowest, row) = ratios.iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    let mean = (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    Some((mean, *lowest, row))
}

/// The file with only the rows that are shown, in the order of the file.
pub fn shown(results: &Value, shown: Shown<'_>) -> Option<Value> {
    let rows = results["rows"].as_array()?;
    let kept = chosen(rows, shown);
    let rows = rows.iter().filter(|row| kept.iter().any(|kept| std::ptr::eq(*kept, *row)));
    let mut results = results.clone();
    results["rows"] = rows.cloned().collect();
    Some(results)
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
    Some(format!("{}: `{}`.{about}\n", results["device"].as_str()?, abbreviated(results["command"].as_str()?)))
}

/// A command with `...` for the rest of long lists, and for its end if it is longer than [`LONGEST`]; the file has all of it.
fn abbreviated(command: &str) -> String {
    let word = |word: &str| match word.match_indices(',').nth(1) {
        Some((second, _)) if word.len() > LONG_WORD => format!("{},...", &word[..second]),
        _ => word.to_string(),
    };
    let mut short = String::new();
    for word in command.split(' ').map(word) {
        if short.len() + word.len() > LONGEST {
            return short + " ...";
        }
        short.push_str(if short.is_empty() { "" } else { " " });
        short.push_str(&word);
    }
    short
}

/// Bytes of a list, and of a command, that are shown whole.
const LONG_WORD: usize = 80;
const LONGEST: usize = 240;

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
        format!("`{}`", label(row["schedule"].as_str()?)),
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

#[cfg(test)]
mod tests {
    use super::{LONGEST, abbreviated};

    #[test]
    fn commands_are_abbreviated() {
        let short = "gemmc bench --suite ladder,square,odd --seconds 480";
        assert_eq!(abbreviated(short), short);
        let sizes = "1024x1024x1024,".repeat(8);
        assert_eq!(
            abbreviated(&format!("gemmc bench --size {sizes} --json x")),
            "gemmc bench --size 1024x1024x1024,1024x1024x1024,... --json x"
        );
        let long = abbreviated(&"gemmc bench ".repeat(100));
        assert!(long.ends_with(" ...") && long.len() < LONGEST + 5, "{long}");
    }
}
