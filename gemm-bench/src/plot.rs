//! A suite as a picture: the speed of the fastest schedules next to cuBLAS's and the GPU's peak.
//!
//! Schedules on one product are bars grouped by idea; on a few products that were named, bars grouped by product. Cubes are
//! lines over their size; other products, which have no order, are bars with a mark for cuBLAS.

use ptx_gemm_draw::bars::{Bar, Bars, Group, Panel, bars};
use ptx_gemm_draw::sizes::{Line, Lines, lines};
use ptx_gemm_draw::{Scheme, by_idea, middle};

use crate::report::best;
use crate::session::Row;
use crate::spelling::{AS_PLANES, label};
use crate::suites::{self, Size};

/// The plot as SVG text. `peak`, that of f32, is in TFLOP/s; 0 if it is not known.
pub fn plot(suite: &str, device: &str, rows: &[&Row], peak: f64) -> String {
    let suite = Suite { name: suite, device, rows, peak };
    let one_product = rows.windows(2).all(|pair| pair[0].size == pair[1].size);
    let one_schedule = rows.windows(2).all(|pair| pair[0].schedule == pair[1].schedule);
    let cubes = rows.iter().all(|row| is_cube(row.size));
    let products = suite.by_product();
    let compared = rows.iter().all(|row| row.suite == suites::SIZES)
        && products.len() <= COMPARED
        && products.iter().any(|(_, schedules)| schedules.len() > 1);
    match () {
        () if one_product && !one_schedule => bars(&suite.schedules(), Scheme::Auto),
        () if compared => bars(&suite.comparison(), Scheme::Auto),
        () if cubes && !one_product => lines(&suite.cubes(), Scheme::Auto),
        () => bars(&suite.products(), Scheme::Auto),
    }
}

/// At most this many named products, in each type and layout, are a comparison of schedules.
const COMPARED: usize = 4;

struct Suite<'a> {
    name: &'a str,
    device: &'a str,
    rows: &'a [&'a Row],
    peak: f64,
}

impl Suite<'_> {
    /// Every schedule on one product.
    fn schedules(&self) -> Bars {
        let bar = |row: &Row| Bar {
            name: label(&row.schedule),
            values: vec![Some(row.tflops())],
            note: row.times.ratio.map_or(String::new(), percent),
            ..Bar::default()
        };
        let cublas = self.rows.iter().filter_map(|row| theirs(row)).collect();
        let mut limits: Vec<(String, f64)> = middle(cublas).map(|of| ("cuBLAS".to_string(), of)).into_iter().collect();
        limits.extend(self.limit());
        let size = self.rows.first().map_or(String::new(), |row| extents(row.size));
        Bars {
            title: format!("Suite {}: every schedule on one product", self.name),
            text: format!(
                "{}; {size}. Each bar is a schedule, grouped by its main idea; next to it its speed and its share of cuBLAS's \
                 on the same layout. The dashed lines are cuBLAS, in the median, and the most that the GPU does without tensor \
                 cores.",
                self.device
            ),
            panels: vec![Panel { axis: "TFLOP/s".into(), limits }],
            groups: by_idea(self.rows.iter().map(|row| (row.schedule.as_str(), bar(row)))),
            mark: None,
        }
    }

    /// Every schedule on each of a few products.
    fn comparison(&self) -> Bars {
        let bar = |row: &&Row| Bar {
            name: label(&row.schedule),
            values: vec![Some(row.tflops())],
            mark: theirs(row),
            note: row.times.ratio.map_or(String::new(), percent),
        };
        let group = |(name, rows): (String, Vec<&Row>)| Group { name, bars: rows.iter().map(bar).collect() };
        Bars {
            title: "Schedules by product".into(),
            text: format!(
                "{}; m × n × k. Each bar is a schedule; next to it its speed and its share of cuBLAS's on the same product.",
                self.device
            ),
            panels: vec![Panel { axis: "TFLOP/s".into(), limits: vec![] }],
            groups: self.by_product().into_iter().map(group).collect(),
            mark: Some("cuBLAS on the same product".into()),
        }
    }

    /// The fastest schedule on each cube, by layout and type.
    fn cubes(&self) -> Lines {
        let (mut all, kinds) = (Vec::new(), self.by_kind());
        let any_plain = kinds.iter().any(|(kind, _)| !kind.contains(AS_PLANES));
        for (index, (kind, rows)) in kinds.into_iter().enumerate() {
            let points = |value: fn(&Row) -> Option<f64>| {
                let mut points: Vec<(f64, f64)> =
                    rows.iter().filter_map(|row| Some((row.size.m as f64, value(row)?))).collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                points
            };
            let ours = points(|row| Some(row.tflops()));
            all.push(Line { name: format!("ours: {kind}"), points: ours, dashed: false, color: index });
            // cuBLAS multiplies f32 itself: products from planes share its line with other products, or with the first of the plot.
            let first = if any_plain { !kind.contains(AS_PLANES) } else { index == 0 };
            let theirs = points(theirs);
            if first && !theirs.is_empty() {
                all.push(Line { name: format!("cuBLAS: {kind}"), points: theirs, dashed: true, color: index });
            }
        }
        let highest = all.iter().flat_map(|line| &line.points).map(|(_, value)| *value).fold(0.0, f64::max);
        Lines {
            title: format!("Suite {}: speed over the size of the product", self.name),
            text: format!(
                "{}; n × n × n. Solid: the fastest of our schedules at each size; dashed: cuBLAS on the same data.{}",
                self.device,
                self.beyond(highest)
            ),
            x: "n, the extent of the matrices".into(),
            y: "TFLOP/s".into(),
            lines: all,
            limits: self.limit().filter(|(_, peak)| *peak < 3.0 * highest).into_iter().collect(),
        }
    }

    /// The fastest schedule on each of some unordered products.
    fn products(&self) -> Bars {
        let bar = |row: &&Row| Bar {
            name: match suites::Suite::product(&row.suite, row.size) {
                Some(product) => format!("{product}: {}", extents(row.size)),
                None => extents(row.size),
            },
            values: vec![Some(row.tflops())],
            mark: theirs(row),
            note: match row.times.ratio {
                Some(ratio) => format!("{}, {}", percent(ratio), label(&row.schedule)),
                None => label(&row.schedule),
            },
        };
        let kinds = self.by_kind();
        let highest = self.rows.iter().flat_map(|row| [Some(row.tflops()), theirs(row)]).flatten().fold(0.0, f64::max);
        let group = |(name, rows): (String, Vec<&Row>)| Group { name, bars: rows.iter().map(bar).collect() };
        Bars {
            title: format!("Suite {}: speed by product", self.name),
            text: format!(
                "{}; m × n × k. Each bar is the fastest of our schedules on a product; next to it its speed as a share of cuBLAS's \
                 and its name.{}",
                self.device,
                self.beyond(highest)
            ),
            panels: vec![Panel {
                axis: "TFLOP/s".into(),
                limits: self.limit().filter(|(_, peak)| *peak < 3.0 * highest).into_iter().collect(),
            }],
            groups: kinds.into_iter().map(group).collect(),
            mark: Some("cuBLAS on the same product".into()),
        }
    }

    /// The best rows by types and layout.
    fn by_kind(&self) -> Vec<(String, Vec<&Row>)> {
        grouped(best(self.rows), kind)
    }

    /// All rows by product, types and layout.
    fn by_product(&self) -> Vec<(String, Vec<&Row>)> {
        grouped(self.rows.iter().copied(), |row| format!("{}, {}", extents(row.size), kind(row)))
    }

    fn limit(&self) -> Option<(String, f64)> {
        let in_f32 = self.rows.iter().all(|row| row.types.split(AS_PLANES).next() == Some("f32"));
        (in_f32 && self.peak > 0.0).then(|| ("f32 peak".into(), self.peak))
    }

    /// Where the peak is, if the plot does not reach it.
    fn beyond(&self, highest: f64) -> String {
        match self.limit() {
            Some((name, peak)) if peak >= 3.0 * highest => {
                format!(" The {name}, {peak:.0} TFLOP/s, is beyond the plot.")
            }
            _ => String::new(),
        }
    }
}

/// The rows by name, in the order of the first of each.
fn grouped<'a>(rows: impl IntoIterator<Item = &'a Row>, name: fn(&Row) -> String) -> Vec<(String, Vec<&'a Row>)> {
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let name = name(row);
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    groups
}

fn theirs(row: &Row) -> Option<f64> {
    let of = |ratio: f64| row.tflops() / ratio;
    row.times.ratio.filter(|ratio| *ratio > 0.0).map(of)
}

/// Types and layouts in words, in the notation of BLAS for a row-major D; types other than f32 are named.
fn kind(row: &Row) -> String {
    let types = if row.types == "f32" { String::new() } else { format!("{}, ", row.types) };
    let layouts: Vec<&str> = row.layout.split(',').collect();
    match layouts[..] {
        [a, b, "row"] => format!("{types}A {a}, B {b} major"),
        _ => format!("{types}{}", row.layout),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn is_cube(size: Size) -> bool {
    size.m == size.n && size.n == size.k && size.batch == 1
}

fn extents(size: Size) -> String {
    let times = if size.batch > 1 { format!(", {} times", size.batch) } else { String::new() };
    format!("{} × {} × {}{times}", size.m, size.n, size.k)
}

#[cfg(test)]
mod tests {
    use super::plot;
    use crate::agree::Accuracy;
    use crate::measure::{How, Times};
    use crate::report::best;
    use crate::session::Row;
    use crate::suites::Size;

    fn row(extent: usize, schedule: &str, ms: f64) -> Row {
        let times = Times {
            ms,
            cublas_ms: Some(1.0),
            ratio: Some(1.0 / ms),
            cublaslt_ms: None,
            cublaslt_ratio: None,
            spread: 0.01,
            samples: 25,
            how: How::Stream,
        };
        let (suite, types, layout) = ("square".into(), "f32".into(), "row,row,row".into());
        Row {
            suite,
            types,
            layout,
            size: Size::cube(extent),
            schedule: schedule.into(),
            times,
            accuracy: Accuracy::default(),
        }
    }

    #[test]
    fn the_best_of_each_cube_is_on_a_line() {
        let rows = [row(64, "slow", 2.0), row(64, "fast", 0.5), row(128, "fast", 1.0), row(128, "slow", 1.5)];
        let rows: Vec<&Row> = rows.iter().collect();
        let chosen: Vec<&str> = best(&rows).iter().map(|row| row.schedule.as_str()).collect();
        assert_eq!(chosen, ["fast", "fast"]);
        let svg = plot("square", "Some GPU", &rows, 60.0);
        assert!(svg.starts_with("<svg") && svg.contains("128") && svg.contains("Some GPU"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4, "two sizes, ours and cuBLAS's");
    }

    #[test]
    fn products_from_planes_have_lines_of_their_own() {
        let mut rows = [row(64, "one", 2.0), row(64, "two", 0.5), row(128, "one", 1.0), row(128, "two", 0.5)];
        rows.iter_mut().skip(1).step_by(2).for_each(|row| row.types = "f32 as bf16x6".into());
        let svg = plot("square", "Some GPU", &rows.iter().collect::<Vec<_>>(), 60.0);
        assert!(svg.contains("ours: f32 as bf16x6, A row, B row major"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 6, "ours, ours from planes, and cuBLAS's once");
    }

    #[test]
    fn schedules_on_one_product_are_bars_by_their_idea() {
        let rows = [row(64, "naive", 2.0), row(64, "vectorized", 0.5), row(64, "unheard_of", 0.5)];
        let svg = plot("ladder", "Some GPU", &rows.iter().collect::<Vec<_>>(), 0.001);
        for text in
            ["naive", "vectorized", "unheard_of", "straight from global memory", "Others", "cuBLAS: ", "f32 peak: "]
        {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("<circle") && !svg.contains("rotate"), "nothing joins names, and none is on its head");
    }

    #[test]
    fn products_without_an_order_are_bars_with_marks() {
        let mut rows = [row(64, "one", 2.0), row(128, "two", 0.5)];
        rows[1].size.k = 65;
        let svg = plot("odd", "Some GPU", &rows.iter().collect::<Vec<_>>(), 60.0);
        for text in ["128 × 128 × 65", "50 %, one", "200 %, two", "cuBLAS on the same product"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(svg.contains("beyond the plot"), "the bars would be too small next to the peak");
    }

    #[test]
    fn schedules_are_compared_on_a_few_named_products() {
        let mut rows = [row(64, "one", 2.0), row(64, "two", 0.5), row(128, "one", 1.0), row(128, "two", 0.8)];
        rows.iter_mut().for_each(|row| row.suite = crate::suites::SIZES.into());
        let svg = plot(crate::suites::SIZES, "Some GPU", &rows.iter().collect::<Vec<_>>(), 60.0);
        for text in ["64 × 64 × 64, A row", "128 × 128 × 128, A row", "50 %", "200 %", "100 %", "125 %"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn nothing_is_a_picture_too() {
        assert!(plot("square", "Some GPU", &[], 0.0).starts_with("<svg"));
    }
}
