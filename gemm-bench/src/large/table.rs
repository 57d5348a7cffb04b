//! The measurements as a table in Markdown and as a picture.

use std::fmt::Write;

use ptx_gemm_draw::Scheme;
use ptx_gemm_draw::sizes::{Line, Lines, lines};

use super::Row;

/// A line for each row.
pub fn table(rows: &[Row]) -> String {
    let mut text =
        String::from("| schedule | m x n x k | types | GPUs | ms | TFLOP/s | of one GPU | of its bound | runs |\n");
    text.push_str("|---|---|---|---:|---:|---:|---:|---:|---:|\n");
    for row in rows {
        let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{share:.2}"));
        let (speedup, bound) = (share(row.speedup), share(row.of_bound()));
        let _ = writeln!(
            text,
            "| `{}` | {} x {} x {} | {} | {} | {:.3} | {:.1} | {speedup} | {bound} | {} |",
            row.schedule, row.m, row.n, row.k, row.types, row.devices, row.ms, row.tflops, row.runs
        );
    }
    text
}

/// Lines over the size, as SVG text: a colour for each schedule, solid on all devices and dashed on fewer.
pub fn plot(device: &str, rows: &[Row]) -> String {
    let most = rows.iter().map(|row| row.devices).max().unwrap_or(1);
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    let mut schedules: Vec<&str> = Vec::new();
    for row in rows {
        let kind = (row.schedule.as_str(), row.devices);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
        if !schedules.contains(&kind.0) {
            schedules.push(kind.0);
        }
    }
    let line = |&(schedule, devices): &(&str, usize)| Line {
        name: format!("{schedule}, {devices} GPU{}", if devices == 1 { "" } else { "s" }),
        points: rows
            .iter()
            .filter(|row| (row.schedule.as_str(), row.devices) == (schedule, devices))
            .map(|row| (row.n as f64, row.tflops))
            .collect(),
        dashed: devices != most,
        color: schedules.iter().position(|name| *name == schedule).unwrap_or(0),
    };
    let all = Lines {
        title: "Suite large: matrices of the host".into(),
        text: format!(
            "{device}; f32, n × n × n, from page-locked memory to page-locked memory. Solid: on {most} GPUs; dashed: on fewer."
        ),
        x: "n, the extent of the matrices".into(),
        y: "TFLOP/s".into(),
        lines: kinds.iter().map(line).collect(),
        limits: Vec::new(),
    };
    lines(&all, Scheme::Auto)
}
