//! Points on two logarithmic axes of the same unit, next to the line on which both are equal.

use crate::axis::{Axis, number};
use crate::canvas::{Anchor, Canvas, Scheme, Size};
use crate::palette::{self, FAINT, INK, MUTED};

const WIDTH: f64 = 1000.0;
const SIDE: f64 = 560.0;
const LEFT: f64 = 40.0;

/// A picture of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scatter {
    /// The title.
    pub title: String,
    /// What it shows.
    pub text: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// The label of the vertical axis.
    pub y: String,
    /// Named groups of points: x and y, both above 0.
    pub groups: Vec<(String, Vec<(f64, f64)>)>,
    /// Lines next to that of equal values: their names, and y over x.
    pub ratios: Vec<(String, f64)>,
}

/// The picture as SVG.
pub fn scatter(scatter: &Scatter, scheme: Scheme) -> String {
    let mut canvas = Canvas::new(WIDTH, scheme);
    canvas.text(LEFT, 38.0, Anchor::Start, Size::Title, INK, &scatter.title);
    let top = canvas.paragraph(LEFT, 64.0, WIDTH - 2.0 * LEFT, MUTED, &scatter.text) + 14.0;
    let values = || scatter.groups.iter().flat_map(|(_, points)| points).flat_map(|(x, y)| [*x, *y]);
    let least = values().fold(f64::INFINITY, f64::min).clamp(1e-9, 1e9) * 0.8;
    let most = values().fold(least, f64::max) * 1.25;
    let (x0, bottom) = (LEFT + 70.0, top + SIDE);
    let (x, y) = (Axis::log(least..most, x0, x0 + SIDE), Axis::log(least..most, bottom, top));
    for tick in x.ticks(10) {
        canvas.line((x.at(tick), top), (x.at(tick), bottom), FAINT, 1.0, None);
        canvas.line((x0, y.at(tick)), (x0 + SIDE, y.at(tick)), FAINT, 1.0, None);
        canvas.text(x.at(tick), bottom + 20.0, Anchor::Middle, Size::Label, MUTED, number(tick));
        canvas.text(x0 - 8.0, y.at(tick) + 5.0, Anchor::End, Size::Label, MUTED, number(tick));
    }
    let equal = ("equal".to_owned(), 1.0);
    let legend = x0 + SIDE + 24.0;
    let mut below = top + 16.0;
    for (name, ratio) in std::iter::once(&equal).chain(&scatter.ratios) {
        // The part of the line that is within the axes.
        let (from, to) = (least.max(least / ratio), most.min(most / ratio));
        let dash = if *ratio == 1.0 { None } else { Some("5 4") };
        canvas.line((x.at(from), y.at(from * ratio)), (x.at(to), y.at(to * ratio)), INK, 1.2, dash);
        canvas.line((legend, below - 5.0), (legend + 20.0, below - 5.0), INK, 1.2, dash);
        canvas.text(legend + 28.0, below, Anchor::Start, Size::Label, INK, name);
        below += 24.0;
    }
    for (index, (name, points)) in scatter.groups.iter().enumerate() {
        let color = palette::line(index);
        for &(at, value) in points {
            canvas.dot(x.at(at), y.at(value), 2.5, color);
        }
        canvas.dot(legend + 10.0, below - 5.0, 5.0, color);
        canvas.text(legend + 28.0, below, Anchor::Start, Size::Label, INK, format!("{name} ({})", points.len()));
        below += 24.0;
    }
    canvas.text(x0 + SIDE / 2.0, bottom + 46.0, Anchor::Middle, Size::Label, MUTED, &scatter.x);
    canvas.upwards(LEFT + 12.0, top + SIDE / 2.0, Anchor::Middle, Size::Label, MUTED, &scatter.y);
    let names: Vec<&str> = scatter.groups.iter().map(|(name, _)| name.as_str()).collect();
    canvas.finish(bottom + 64.0, &scatter.title, &format!("{} Points: {}.", scatter.text, names.join("; ")))
}
