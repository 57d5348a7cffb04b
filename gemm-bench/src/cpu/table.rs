//! The measurements as a table and as a picture.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use ptx_gemm_draw::Scheme;
use ptx_gemm_draw::sizes::{Line, Lines, lines};

use super::{LeftOut, Row};

/// The rungs of a list of rows, in the order of their first appearance.
fn names(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.rung.as_str()) {
            names.push(&row.rung);
        }
    }
    names
}

/// GFLOP/s: a line for each size, a column for each rung.
pub fn table(rows: &[Row]) -> String {
    let names = names(rows);
    let mut text = format!("{:>6}", "n");
    for name in &names {
        let _ = write!(text, " {name:>14}");
    }
    text.push_str("   GFLOP/s\n");
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.n).collect();
    sizes.dedup();
    for n in sizes {
        let _ = write!(text, "{n:>6}");
        for name in &names {
            let row = rows.iter().find(|row| row.n == n && row.rung == *name);
            let value = row.map_or("-".to_string(), |row| format!("{:.2}", row.gflops()));
            let _ = write!(text, " {value:>14}");
        }
        text.push('\n');
    }
    text
}

/// What was not measured and why, one line a rung; empty if everything was.
pub fn left_out(all: &[LeftOut], limit: Duration) -> String {
    let mut rungs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in all {
        let size = format!("{}: about {}", one.n, words(one.seconds));
        rungs.entry(&one.rung).or_default().push(size);
    }
    if rungs.is_empty() {
        return String::new();
    }
    let limit = limit.as_secs_f64();
    let mut text = format!("left out, since one product would take longer than {limit} s (--seconds):\n");
    for (rung, sizes) in rungs {
        let _ = writeln!(text, "  {rung:<14} {}", sizes.join(", "));
    }
    text
}

/// A time with a suitable unit.
fn words(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1.0 => format!("{seconds:.2} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 48.0 * 3600.0 => format!("{:.0} h", seconds / 3600.0),
        seconds => format!("{:.0} days", seconds / 86400.0),
    }
}

/// The same as lines over the size, as SVG text: steps solid, libraries dashed.
pub fn plot(rows: &[Row]) -> String {
    let line = |(color, name): (usize, &str)| Line {
        name: name.into(),
        points: rows.iter().filter(|row| row.rung == name).map(|row| (row.n as f64, row.gflops())).collect(),
        dashed: ["matrixmultiply", "faer", "OpenBLAS"].contains(&name),
        color,
    };
    let all = Lines {
        title: "The CPU's ladder".into(),
        text: "f32, n × n × n. Solid: the steps of gemm-bench/examples/cpu, each a screen of code; dashed: libraries."
            .into(),
        x: "n, the extent of the matrices".into(),
        y: "GFLOP/s".into(),
        lines: names(rows).into_iter().enumerate().map(line).collect(),
        limits: Vec::new(),
    };
    lines(&all, Scheme::Auto)
}
