//! The roofline: what a GPU's memory and arithmetic allow a schedule, and what was measured.

use ptx_gemm_choose::Gpu;
use ptx_gemm_dsl::terms::Side;
use ptx_gemm_runtime::tile::{Instruction, Op, Program};

use crate::axis::{Axis, number};
use crate::canvas::{Anchor, Canvas, Size};
use crate::error::DrawError;
use crate::frame::Panel;
use crate::palette::{self, ALARM, FAINT, INK, MUTED, PAPER};
use crate::subject::Subject;

const HEIGHT: f64 = 330.0;
const WIDTH: f64 = 700.0;
/// The minimum range of the axes: operations per byte, and TFLOP/s.
const X: std::ops::Range<f64> = 0.1..1000.0;
const LOWEST: f64 = 0.1;

pub(crate) fn panel(subject: &Subject, canvas: &mut Canvas, top: f64) -> Result<f64, DrawError> {
    let (program, gpu) = (subject.program()?, subject.gpu);
    let profile = subject.profile()?;
    let (peak, with) = peak(program, gpu);
    let memory = f64::from(gpu.memory_gb_s) / 1e3;
    let allowed = |intensity: f64| (memory * intensity).min(peak);
    let (x0, y0) = (Panel::LEFT + 62.0, top + 8.0);
    let x = Axis::log(X, x0, x0 + WIDTH);
    let highest = peak * 2.5;
    let y = Axis::log(LOWEST..highest, y0 + HEIGHT, y0);
    axes(canvas, &x, &y, (x0, y0), highest);
    let ridge = peak / memory;
    let start = X.start.max(LOWEST / memory);
    let roof = [(start, allowed(start)), (ridge, peak), (X.end, peak)];
    let roof: Vec<(f64, f64)> = roof.iter().map(|&(i, t)| (x.at(i), y.at(t))).collect();
    let compute = format!("peak: {} TFLOP/s {with}", number(peak));
    label(canvas, x.at(X.end) - 6.0, y.at(peak) - 9.0, &compute);
    let on_slope = ridge * 0.12;
    label(canvas, x.at(on_slope) - 14.0, y.at(allowed(on_slope)) - 9.0, &format!("memory: {} TB/s", number(memory)));
    canvas.polyline(&roof, INK, 2.4);
    let intensity = profile.intensity();
    let own = palette::line(0);
    let bound = allowed(intensity);
    canvas.line((x.at(intensity), y0 + HEIGHT), (x.at(intensity), y.at(bound)), own, 1.4, Some("4 4"));
    canvas.ring(x.at(intensity), y.at(bound), 6.0, own, 2.4);
    if let Some(measured) = subject.measured {
        canvas.dot(x.at(intensity), y.at(measured.tflops.max(LOWEST)), 7.0, ALARM);
    }
    let right = x0 + WIDTH + 36.0;
    let width = Panel::LEFT + Panel::WIDTH - right;
    let mut below = y0 + 12.0;
    for (kind, line) in words(subject, program, intensity, bound)?.into_iter().enumerate() {
        match kind {
            0 => canvas.ring(right + 8.0, below - 5.0, 6.0, own, 2.4),
            1 if subject.measured.is_some() => canvas.dot(right + 8.0, below - 5.0, 7.0, ALARM),
            _ => {}
        }
        below = canvas.paragraph(right + 26.0, below, width - 26.0, INK, &line) + 12.0;
    }
    Ok(below.max(y0 + HEIGHT + 52.0))
}

/// The peak in TFLOP/s of the instructions that a program multiplies with, and what it is of.
fn peak(program: &Program, gpu: &Gpu) -> (f64, String) {
    let by_matrices =
        |op: &Op| matches!(op, Op::Steps { multiply, .. } if !matches!(multiply.by, Instruction::Fma { .. }));
    match program.statements().iter().any(|statement| by_matrices(&statement.op)) {
        true => {
            let factor = program.element(Side::A);
            let of = if factor.element().bits == 16 { String::new() } else { format!(" in {factor}") };
            (gpu.tensor_peak(factor), format!("on tensor cores{of}"))
        }
        false => (gpu.peak(program.problem.types.acc), format!("in {}", program.problem.types.acc)),
    }
}

/// A text that ends there, and hides the grid.
fn label(canvas: &mut Canvas, right: f64, y: f64, text: &str) {
    let width = 0.9 * Size::Label.width(text);
    canvas.rect(right - width - 3.0, y - 12.0, width + 6.0, 16.0, PAPER);
    canvas.text(right, y, Anchor::End, Size::Label, INK, text);
}

fn axes(canvas: &mut Canvas, x: &Axis, y: &Axis, (x0, y0): (f64, f64), highest: f64) {
    for tick in powers(X.start, X.end) {
        let at = x.at(tick);
        canvas.line((at, y0), (at, y0 + HEIGHT), FAINT, 1.0, None);
        canvas.text(at, y0 + HEIGHT + 18.0, Anchor::Middle, Size::Label, MUTED, number(tick));
    }
    for tick in powers(LOWEST, highest) {
        let at = y.at(tick);
        canvas.line((x0, at), (x0 + WIDTH, at), FAINT, 1.0, None);
        canvas.text(x0 - 8.0, at + 5.0, Anchor::End, Size::Label, MUTED, number(tick));
    }
    let middle = x0 + WIDTH / 2.0;
    let text = "operations for each byte of A and B that threads load from global memory";
    canvas.text(middle, y0 + HEIGHT + 40.0, Anchor::Middle, Size::Label, MUTED, text);
    canvas.upwards(x0 - 44.0, y0 + HEIGHT / 2.0, Anchor::Middle, Size::Label, MUTED, "TFLOP/s");
}

/// Powers of ten from one of them up to `to`.
fn powers(from: f64, to: f64) -> Vec<f64> {
    let (first, last) = (from.log10().round() as i32, (to.log10() + 1e-9).floor() as i32);
    (first..=last).map(|power| 10f64.powi(power)).collect()
}

fn words(subject: &Subject, program: &Program, intensity: f64, bound: f64) -> Result<Vec<String>, DrawError> {
    let gpu = subject.gpu;
    let mut lines = vec![format!(
        "{}: {} operations for each byte that its threads load, counted by the interpreter. If every one of these bytes came from \
         the memory of an {}, it could reach {} TFLOP/s.",
        subject.name,
        number(intensity),
        gpu.title,
        number(bound)
    )];
    if let Some(measured) = subject.measured {
        let [m, n, k] = measured.size;
        let (peak, _) = peak(program, gpu);
        lines.push(format!(
            "Measured at {m} × {n} × {k}: {} TFLOP/s, {:.0} % of the peak.",
            number(measured.tflops),
            100.0 * measured.tflops / peak
        ));
    }
    lines.push(
        "A speed above the slope is possible: neighbouring threads and blocks load the same bytes, and the caches serve those that \
         are loaded again."
            .into(),
    );
    Ok(lines)
}
