//! The ladder as a picture: bars by case, in panels side by side.

use plotters::prelude::*;

use super::{Ladder, Rung};

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[error("the plot could not be drawn: {0}")]
pub struct PlotError(String);

const WIDTH: u32 = 1300;
const ROW: u32 = 22;
const MARGIN: u32 = 60;
const NAMES: u32 = 160;
/// Sizes of the letters.
const TITLE: u32 = 18;
const LABEL: u32 = 14;

/// One panel: its title, and the figure of a rung.
type Panel = (&'static str, fn(&Rung) -> Option<f64>, RGBColor);

const COUNTED: [Panel; 3] = [
    ("loads per multiply-add (log)", |rung| Some(rung.figures.loads_per_fma), RGBColor(200, 90, 60)),
    ("operations per byte of A and B (log)", |rung| Some(rung.figures.intensity), RGBColor(60, 120, 180)),
    ("shared words per multiply-add (log)", |rung| Some(rung.figures.shared_words_per_fma), RGBColor(120, 150, 70)),
];
const TIMED: Panel =
    ("TFLOP/s (log)", |rung| rung.timing.as_ref().map(|timing| timing.tflops()), RGBColor(110, 80, 150));

/// The plot as SVG text. Where times were measured, a panel shows the speed; the others show what was counted.
pub fn plot(ladder: &Ladder) -> Result<String, PlotError> {
    let mut text = String::new();
    draw(ladder, &mut text).map_err(|error| PlotError(error.to_string()))?;
    Ok(text)
}

fn draw(ladder: &Ladder, text: &mut String) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let rungs = &ladder.rungs;
    let height = MARGIN + 40 + ROW * rungs.len() as u32;
    let root = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE).map_err(plain)?;
    let timed = rungs.iter().any(|rung| rung.timing.is_some());
    let panels: Vec<Panel> = if timed { [TIMED].into_iter().chain(COUNTED).collect() } else { COUNTED.into() };
    let areas = root.split_evenly((1, panels.len()));
    for (index, (area, panel)) in areas.iter().zip(panels).enumerate() {
        // The names stand once, at the left.
        let names = if index == 0 { NAMES } else { 8 };
        panel_of(area, rungs, panel, names)?;
    }
    root.present().map_err(plain)
}

fn panel_of<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    rungs: &[Rung],
    (title, figure, color): Panel,
    names: u32,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
where
    B::ErrorType: 'static,
{
    let values: Vec<f64> = rungs.iter().map(|rung| figure(rung).unwrap_or(0.0)).collect();
    let positive = values.iter().copied().filter(|value| *value > 0.0);
    let (low, high) = positive.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let (low, high) = if low > high { (1.0, 10.0) } else { (low / 2.0, high * 2.0) };
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", TITLE))
        .margin(8)
        .x_label_area_size(30)
        .y_label_area_size(names)
        .build_cartesian_2d((low..high).log_scale(), (0..rungs.len() as i32 - 1).into_segmented())
        .map_err(plain)?;
    // The first rung stands at the top.
    let name = |at: &SegmentValue<i32>| match at {
        SegmentValue::CenterOf(row) if names == NAMES => {
            rungs.iter().rev().nth(*row as usize).map_or_else(String::new, |r| r.case.clone())
        }
        _ => String::new(),
    };
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh().y_labels(rungs.len()).y_label_formatter(&name).x_labels(5);
    mesh.label_style(("sans-serif", LABEL)).draw().map_err(plain)?;
    let bars = values.iter().rev().enumerate().filter(|(_, value)| **value > 0.0).map(|(row, value)| {
        let row = row as i32;
        let mut bar =
            Rectangle::new([(low, SegmentValue::Exact(row)), (*value, SegmentValue::Exact(row + 1))], color.filled());
        bar.set_margin(3, 3, 0, 0);
        bar
    });
    chart.draw_series(bars).map_err(plain)?;
    Ok(())
}

fn plain(error: impl std::fmt::Display) -> Box<dyn std::error::Error + Send + Sync> {
    error.to_string().into()
}
