//! Errors over a size, for several methods on several kinds of data: a panel for each kind, all with the same two
//! logarithmic axes.

use crate::axis::Axis;
use crate::canvas::{Anchor, Canvas, Scheme, Size};
use crate::palette::{self, FAINT, INK, MUTED};
use crate::sizes::Line;

/// A plot of panels side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors {
    /// Its heading.
    pub title: String,
    /// Sentences below the heading.
    pub text: String,
    /// What the sizes are.
    pub x: String,
    /// What the errors are.
    pub y: String,
    /// The kinds of data: name and lines. A method has the same name and colour in each.
    pub panels: Vec<(String, Vec<Line>)>,
}

const WIDTH: f64 = 1100.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 24.0;
const GAP: f64 = 26.0;

/// The plot as SVG. Errors of 0 have no place on it, and are left out.
pub fn errors(errors: &Errors, scheme: Scheme) -> String {
    let mut canvas = Canvas::new(WIDTH, scheme);
    canvas.text(LEFT, 38.0, Anchor::Start, Size::Title, INK, &errors.title);
    let mut top = canvas.paragraph(LEFT, 64.0, WIDTH - 2.0 * LEFT, MUTED, &errors.text) + 6.0;
    let methods = methods(errors);
    top = legend(&mut canvas, &methods, top) + 48.0;
    let points = || errors.panels.iter().flat_map(|(_, lines)| lines).flat_map(|line| &line.points);
    let mut sizes: Vec<f64> = points().map(|(size, _)| *size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let (first, last) = (sizes.first().copied().unwrap_or(1.0), sizes.last().copied().unwrap_or(2.0));
    let values = || points().map(|(_, value)| *value).filter(|value| *value > 0.0);
    let decade = |value: f64, way: fn(f64) -> f64| 10f64.powf(way(value.log10()));
    let lowest = decade(values().fold(f64::MAX, f64::min).clamp(1e-30, 1.0), f64::floor);
    let highest = decade(values().fold(lowest * 2.0, f64::max), f64::ceil);
    let bottom = top + HEIGHT;
    let y = Axis::log(lowest * 0.8..highest * 1.25, bottom, top);
    let count = errors.panels.len().max(1) as f64;
    let names = LEFT + 74.0;
    let width = (WIDTH - names - LEFT - GAP * (count - 1.0)) / count;
    for (index, (name, lines)) in errors.panels.iter().enumerate() {
        let x0 = names + (width + GAP) * index as f64;
        let x = Axis::log(first * 0.8..last.max(2.0 * first) * 1.25, x0, x0 + width);
        canvas.text(x0, top - 12.0, Anchor::Start, Size::Body, INK, name);
        let mut tick = lowest;
        while tick <= highest * 1.01 {
            canvas.line((x0, y.at(tick)), (x0 + width, y.at(tick)), FAINT, 1.0, None);
            if index == 0 {
                let text = format!("{tick:.0e}");
                canvas.text(x0 - 8.0, y.at(tick) + 5.0, Anchor::End, Size::Label, MUTED, text);
            }
            tick *= 10.0;
        }
        let mut free = f64::MIN;
        for size in &sizes {
            let at = x.at(*size);
            canvas.line((at, top), (at, bottom), FAINT, 1.0, None);
            let text = format!("{size:.0}");
            let half = Size::Label.width(&text) / 2.0;
            if at - half > free {
                canvas.text(at, bottom + 20.0, Anchor::Middle, Size::Label, MUTED, text);
                free = at + half + 4.0;
            }
        }
        for line in lines {
            draw(&mut canvas, line, &x, &y);
        }
    }
    canvas.text((names + WIDTH - LEFT) / 2.0, bottom + 44.0, Anchor::Middle, Size::Label, MUTED, &errors.x);
    canvas.upwards(LEFT + 8.0, (top + bottom) / 2.0, Anchor::Middle, Size::Label, MUTED, &errors.y);
    let names: Vec<&str> = methods.iter().map(|line| line.name.as_str()).collect();
    let kinds: Vec<&str> = errors.panels.iter().map(|(name, _)| name.as_str()).collect();
    let about = format!("{} Panels: {}. Lines: {}.", errors.text, kinds.join("; "), names.join("; "));
    canvas.finish(bottom + 62.0, &errors.title, &about)
}

fn draw(canvas: &mut Canvas, line: &Line, x: &Axis, y: &Axis) {
    let color = palette::line(line.color);
    let points = line.points.iter().filter(|(_, value)| *value > 0.0);
    let at: Vec<(f64, f64)> = points.map(|&(size, value)| (x.at(size), y.at(value))).collect();
    match line.dashed {
        true => at.windows(2).for_each(|pair| canvas.line(pair[0], pair[1], color, 2.0, Some("6 4"))),
        false => canvas.polyline(&at, color, 2.6),
    }
    for (x, y) in at {
        if line.dashed { canvas.ring(x, y, 3.5, color, 1.8) } else { canvas.dot(x, y, 4.5, color) }
    }
}

/// The first line of each method.
fn methods(errors: &Errors) -> Vec<&Line> {
    let mut methods: Vec<&Line> = Vec::new();
    for line in errors.panels.iter().flat_map(|(_, lines)| lines) {
        if methods.iter().all(|known| known.name != line.name) {
            methods.push(line);
        }
    }
    methods
}

/// The names of the methods, in as many rows as they take; the height of the last row.
fn legend(canvas: &mut Canvas, methods: &[&Line], mut at: f64) -> f64 {
    let mut x = LEFT;
    for line in methods {
        let color = palette::line(line.color);
        if x > LEFT && x + 33.0 + Size::Label.width(&line.name) > WIDTH - LEFT {
            (x, at) = (LEFT, at + 24.0);
        }
        canvas.line((x, at), (x + 26.0, at), color, 2.6, line.dashed.then_some("6 4"));
        canvas.text(x + 33.0, at + 5.0, Anchor::Start, Size::Label, color, &line.name);
        x += 33.0 + Size::Label.width(&line.name) + 18.0;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{Errors, errors};
    use crate::Scheme;
    use crate::sizes::Line;

    fn line(name: &str, errors: [f64; 2], color: usize) -> Line {
        Line { name: name.into(), points: vec![(256.0, errors[0]), (1024.0, errors[1])], dashed: color == 0, color }
    }

    #[test]
    fn every_kind_has_a_panel_with_every_method() {
        let panel =
            |name: &str| (name.to_string(), vec![line("in f32", [1e-7, 2e-7], 0), line("from planes", [2e-8, 0.0], 1)]);
        let plot =
            Errors { title: "Errors".into(), panels: vec![panel("one kind"), panel("another")], ..Errors::default() };
        let svg = errors(&plot, Scheme::Auto);
        assert_eq!(svg.matches("<circle").count(), 6, "an error of 0 is not drawn");
        for text in ["one kind", "another", "1e-8", "1e-6", "1024"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert_eq!(svg.matches(">\nin f32\n<").count() + svg.matches(">in f32<").count(), 1, "one legend: {svg}");
    }

    #[test]
    fn nothing_is_a_picture_too() {
        assert!(errors(&Errors::default(), Scheme::Light).starts_with("<svg"));
    }
}
