//! Every measurement in one compact file: the product, the clauses and the time of each row of many files of results, which a
//! ranking of schedules can be compared with. Runs, schedules and products are written once, and rows refer to them by index.

use ptx_gemm::{Batch, Layout, Problem, Schedule};
use ptx_gemm_check::case;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::program::Program;
use crate::spelling::RowTypes;
use crate::suites::{LayoutPair, Named, Size, Suite};

/// A file of rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// Files of results, whose rows were measured together.
    pub runs: Vec<Run>,
    schedules: Vec<Timed>,
    products: Vec<Product>,
    rows: Vec<Cells>,
}

/// One file of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The folder and the stem of the file: `h200/square`.
    pub name: String,
    /// The GPU, or several.
    pub device: String,
    /// The command that measured it.
    pub command: String,
}

/// What a schedule multiplies, and its clauses, with the types and layouts that were timed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Timed(String, String);

/// m, n, k and the number of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Product(usize, usize, usize, usize);

/// Indices of the run, the schedule and the product; ms, ms of cuBLAS, and the share of cuBLAS's speed, from samples in turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Cells(usize, usize, usize, f64, Option<f64>, Option<f64>);

/// One row, with what it refers to.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The run.
    pub run: &'a Run,
    /// The types, as tables have them.
    pub types: &'a str,
    /// The clauses of the schedule.
    pub clauses: &'a str,
    /// The product.
    pub size: Size,
    /// Milliseconds.
    pub ms: f64,
    /// Milliseconds of cuBLAS.
    pub cublas_ms: Option<f64>,
    /// The share of cuBLAS's speed.
    pub of_cublas: Option<f64>,
}

impl Rows {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Returns why it is no such file.
    pub fn read(text: &str) -> Result<Rows, String> {
        let rows: Rows = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Rows { runs, schedules, products, .. } = &rows;
        let refers = |cells: &Cells| cells.0 < runs.len() && cells.1 < schedules.len() && cells.2 < products.len();
        match rows.rows.iter().position(|cells| !refers(cells)) {
            Some(at) => Err(format!("row {at} refers to a run, schedule or product that is not there")),
            None => Ok(rows),
        }
    }

    /// The text of the file: a line for each of its parts, so that new rows are a readable diff.
    pub fn text(&self) -> String {
        fn lines<T: Serialize>(all: &[T]) -> String {
            let lines = all.iter().map(|one| serde_json::to_string(one).unwrap_or_default());
            lines.collect::<Vec<_>>().join(",\n")
        }
        let Rows { runs, schedules, products, rows } = self;
        let (runs, schedules) = (lines(runs), lines(schedules));
        format!(
            "{{\"runs\": [\n{runs}\n],\n\"schedules\": [\n{schedules}\n],\n\"products\": [\n{}\n],\n\"rows\": [\n{}\n]}}\n",
            lines(products),
            lines(rows)
        )
    }

    /// All rows, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = Measured<'_>> {
        self.rows.iter().map(|Cells(run, schedule, product, ms, cublas_ms, of_cublas)| {
            let Timed(types, clauses) = &self.schedules[*schedule];
            let Product(m, n, k, batch) = self.products[*product];
            Measured {
                run: &self.runs[*run],
                types,
                clauses,
                size: Size { m, n, k, batch },
                ms: *ms,
                cublas_ms: *cublas_ms,
                of_cublas: *of_cublas,
            }
        })
    }

    /// Adds the rows of a file of results, in place of those that were added from it before.
    ///
    /// # Errors
    ///
    /// Returns the schedule whose clauses are not known, or that cannot have the types and layouts of its row.
    pub fn add(&mut self, name: &str, results: &Value) -> Result<(), String> {
        let mut all = Rows::default();
        let of_run = |run: &Run| run.name == name;
        let kept: Vec<Measured> = self.iter().filter(|row| !of_run(row.run)).collect();
        for row in kept {
            all.push(row);
        }
        let before = all.rows.len();
        let no_file = || format!("{name}: no file of results");
        let (device, command) = results["device"].as_str().zip(results["command"].as_str()).ok_or_else(no_file)?;
        for row in results["rows"].as_array().ok_or_else(no_file)? {
            let extent = |name: &str| row[name].as_u64().and_then(|extent| usize::try_from(extent).ok());
            let size = || Some(Size { m: extent("m")?, n: extent("n")?, k: extent("k")?, batch: extent("batch")? });
            let (Some(types), Some(size), Some(ms)) = (row["types"].as_str(), size(), row["ms"].as_f64()) else {
                return Err(no_file());
            };
            let clauses = as_timed(named(row["schedule"].as_str().unwrap_or_default())?, row, size)?;
            // The rows of several GPUs say how many.
            let device = match row["devices"].as_u64() {
                Some(devices) => format!("{devices} x {}", device.split_once(" x ").map_or(device, |(_, gpu)| gpu)),
                None => device.to_string(),
            };
            let run = Run { name: name.into(), device, command: command.into() };
            all.push(Measured {
                run: &run,
                types,
                clauses: &clauses,
                size,
                ms,
                cublas_ms: row["cublas_ms"].as_f64(),
                of_cublas: row["ratio"].as_f64(),
            });
        }
        // Files that were merged may have a row twice.
        let added = all.rows.split_off(before);
        for cells in added {
            if !all.rows[before..].contains(&cells) {
                all.rows.push(cells);
            }
        }
        *self = all;
        Ok(())
    }

    /// Adds the times of a run by `gemmc pick`, in place of those that were added under its name before: clauses, product, and
    /// time.
    pub fn add_timed<'t>(
        &mut self,
        run: Run,
        times: impl IntoIterator<Item = (&'t str, Size, &'t crate::sweep::Measured)>,
    ) {
        let mut all = Rows::default();
        for row in self.iter().filter(|row| row.run.name != run.name) {
            all.push(row);
        }
        for (clauses, size, measured) in times {
            let types = clauses.parse::<Schedule>().ok().and_then(|schedule| schedule.problem().ok()).map(|problem| {
                let types = problem.types;
                RowTypes { types: [types.a, types.b, types.acc, types.d], planes: None }.to_string()
            });
            all.push(Measured {
                run: &run,
                types: &types.unwrap_or_default(),
                clauses,
                size,
                ms: measured.ms,
                cublas_ms: measured.cublas_ms,
                of_cublas: measured.ratio,
            });
        }
        *self = all;
    }

    /// Appends a row.
    fn push(&mut self, row: Measured<'_>) {
        let Measured { types, clauses, size: Size { m, n, k, batch }, .. } = row;
        let run = index_of(&mut self.runs, row.run.clone());
        let schedule = index_of(&mut self.schedules, Timed(types.into(), clauses.into()));
        let product = index_of(&mut self.products, Product(m, n, k, batch));
        self.rows.push(Cells(run, schedule, product, row.ms, row.cublas_ms, row.of_cublas));
    }
}

fn index_of<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

/// The schedule of a row: its clauses, or the case that it names, as it is now.
///
/// # Errors
///
/// Returns the text, if it is neither the name of a case nor clauses.
pub fn named(name: &str) -> Result<Schedule, String> {
    let clauses = case(name).map_or(name, |case| case.text);
    clauses.parse().map_err(|_| format!("`{name}` is neither a case nor clauses"))
}

/// The clauses of a schedule with the types and layouts of its row, on one line.
fn as_timed(schedule: Schedule, row: &Value, size: Size) -> Result<String, String> {
    let name = row["schedule"].as_str().unwrap_or_default().to_string();
    let (types, layout) = (row["types"].as_str().unwrap_or_default(), row["layout"].as_str().unwrap_or_default());
    let of = |schedule: &Schedule| schedule.problem().map_err(|errors| format!("{name}: {errors}"));
    let RowTypes { types: wanted, .. } = types.parse()?;
    let has_types = |schedule: &Schedule| {
        of(schedule).map(|Problem { types, .. }| [types.a, types.b, types.acc, types.d] == wanted)
    };
    let schedule = if has_types(&schedule)? { schedule } else { schedule.with(Schedule::new().types(wanted[0])) };
    let mut letters = layout.split(',').map(|layout| if layout == "col" { Layout::Col } else { Layout::Row });
    let pair = match (letters.next(), letters.next()) {
        (Some(Layout::Row), Some(Layout::Row)) => LayoutPair::Nn,
        (Some(Layout::Row), Some(Layout::Col)) => LayoutPair::Nt,
        (Some(Layout::Col), Some(Layout::Row)) => LayoutPair::Tn,
        _ => LayoutPair::Tt,
    };
    let batch = match row["suite"].as_str() {
        Some(suite) if suite == Suite::Grouped.name() => Batch::Grouped,
        _ if size.batch > 1 => Batch::Strided,
        _ => Batch::One,
    };
    let whole = Named { name: name.clone(), program: Program::Schedule(schedule) };
    let whole = whole.with_layouts(pair).and_then(|whole| whole.batched(batch));
    let Program::Schedule(schedule) = whole.map_err(|why| format!("{name}: {why}"))?.program else {
        return Err(format!("{name}: a tile program"));
    };
    let layouts = of(&schedule)?.layouts;
    match has_types(&schedule)? && format!("{},{},{}", layouts.a, layouts.b, layouts.d) == layout {
        true => Ok(schedule.to_string().split_whitespace().collect::<Vec<_>>().join(" ")),
        false => Err(format!("{name} is not of the types and layouts of its row: {types}, {layout}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn results(ms: f64) -> Value {
        let row = |schedule: &str, types: &str, layout: &str| {
            json!({"suite": "sizes", "types": types, "layout": layout, "m": 8, "n": 16, "k": 32, "batch": 1,
                "schedule": schedule, "ms": ms, "cublas_ms": 0.5, "ratio": 0.25})
        };
        let bf16 = row("bf16_rows16", "bf16,bf16,f32,bf16", "row,row,row");
        let rows = [row("naive", "f32", "row,row,row"), bf16.clone(), bf16];
        json!({"device": "Some GPU", "command": "gemmc bench", "rows": rows})
    }

    #[test]
    fn rows_are_added_once_and_read_again() {
        let mut rows = Rows::default();
        rows.add("some/sizes", &results(1.0)).unwrap();
        rows.add("some/others", &results(3.0)).unwrap();
        rows.add("some/sizes", &results(2.0)).unwrap();
        let again = Rows::read(&rows.text()).unwrap();
        assert_eq!(again, rows);
        let times: Vec<(&str, f64)> = again.iter().map(|row| (row.run.name.as_str(), row.ms)).collect();
        assert_eq!(times, [("some/others", 3.0), ("some/others", 3.0), ("some/sizes", 2.0), ("some/sizes", 2.0)]);
        let bf16 = again.iter().find(|row| row.types.starts_with("bf16")).unwrap();
        assert!(bf16.clauses.contains("layout(a = row, b = row)"), "as it was timed: {}", bf16.clauses);
        assert_eq!(
            (bf16.size, bf16.cublas_ms, bf16.of_cublas),
            (Size { m: 8, n: 16, k: 32, batch: 1 }, Some(0.5), Some(0.25))
        );
        let broken = rows.text().replace("[0,1,0,", "[0,9,0,");
        assert!(Rows::read(&broken).unwrap_err().contains("refers to"));
    }

    #[test]
    fn what_is_not_known_is_said() {
        let mut other = results(1.0);
        other["rows"][0]["schedule"] = "-e 1".into();
        assert_eq!(Rows::default().add("x", &other), Err("`-e 1` is neither a case nor clauses".into()));
        other = results(1.0);
        other["rows"][0]["types"] = "f64".into();
        assert_eq!(Rows::default().add("x", &other), Ok(()), "it can be of f64");
        other["rows"][0]["layout"] = "row,row,col".into();
        assert!(Rows::default().add("x", &other).unwrap_err().contains("not of the types and layouts"));
        assert!(Rows::default().add("x", &json!({})).unwrap_err().contains("no file of results"));
    }

    /// The file of all rows there are: each has clauses of a schedule that computes a product like its own.
    #[test]
    fn all_rows_have_clauses() {
        let text = include_str!("../../bench/results/rows.json");
        let rows = Rows::read(text).unwrap();
        assert!(rows.iter().count() > 9000, "{}", rows.iter().count());
        let mut clauses = BTreeSet::new();
        for row in rows.iter() {
            assert!(row.ms > 0.0 && row.run.device.contains("NVIDIA"), "{row:?}");
            if clauses.insert(row.clauses) {
                let schedule: Schedule =
                    row.clauses.parse().unwrap_or_else(|errors| panic!("{}: {errors}", row.clauses));
                let types = schedule.problem().unwrap().types;
                let named: RowTypes = row.types.parse().unwrap();
                assert_eq!([types.a, types.b, types.acc, types.d], named.types, "{}", row.clauses);
            }
        }
        assert!(clauses.len() > 150, "{}", clauses.len());
    }
}
