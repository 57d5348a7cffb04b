//! Lines over the size of a product.

use crate::axis::{Axis, number};
use crate::canvas::{Anchor, Canvas, Scheme, Size};
use crate::palette::{self, FAINT, INK, MUTED};

/// A plot of lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// Its heading.
    pub title: String,
    /// Sentences below the heading.
    pub text: String,
    /// What the sizes are.
    pub x: String,
    /// What the values are.
    pub y: String,
    /// The lines.
    pub lines: Vec<Line>,
    /// Horizontal lines: name and value.
    pub limits: Vec<(String, f64)>,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Size and value, in any order.
    pub points: Vec<(f64, f64)>,
    /// The line that it is to be compared with, which has its colour: dashed.
    pub dashed: bool,
    /// Which colour.
    pub color: usize,
}

const WIDTH: f64 = 1100.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 24.0;

/// The plot as SVG.
pub fn lines(lines: &Lines, scheme: Scheme) -> String {
    let mut lines = lines.clone();
    lines.lines.iter_mut().for_each(|line| line.points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    let mut canvas = Canvas::new(WIDTH, scheme);
    canvas.text(LEFT, 38.0, Anchor::Start, Size::Title, INK, &lines.title);
    let top = canvas.paragraph(LEFT, 64.0, WIDTH - 2.0 * LEFT, MUTED, &lines.text) + 14.0;
    // Space for the names of the lines, at the right.
    let names = lines.lines.iter().map(|line| Size::Label.width(&line.name)).fold(80.0, f64::max) + 56.0;
    let points = || lines.lines.iter().flat_map(|line| &line.points);
    let mut sizes: Vec<f64> = points().map(|(size, _)| *size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let (first, last) = (sizes.first().copied().unwrap_or(1.0), sizes.last().copied().unwrap_or(2.0));
    let limits = lines.limits.iter().map(|(_, value)| *value);
    let highest = points().map(|(_, value)| *value).chain(limits).fold(1e-9, f64::max);
    let (x0, right, bottom) = (LEFT + 58.0, WIDTH - names, top + HEIGHT);
    let x = Axis::log(first * 0.9..last.max(2.0 * first) * 1.1, x0, right);
    let y = Axis::linear(0.0..highest * 1.06, bottom, top);
    for tick in y.ticks(9) {
        canvas.line((x0, y.at(tick)), (right, y.at(tick)), FAINT, 1.0, None);
        canvas.text(x0 - 8.0, y.at(tick) + 5.0, Anchor::End, Size::Label, MUTED, number(tick));
    }
    let mut free = f64::MIN;
    for size in &sizes {
        let at = x.at(*size);
        canvas.line((at, top), (at, bottom), FAINT, 1.0, None);
        let text = number(*size);
        if at - free > Size::Label.width(&text) + 4.0 {
            canvas.text(at, bottom + 20.0, Anchor::Middle, Size::Label, MUTED, text);
            free = at;
        }
    }
    canvas.text((x0 + right) / 2.0, bottom + 44.0, Anchor::Middle, Size::Label, MUTED, &lines.x);
    canvas.upwards(LEFT + 12.0, (top + bottom) / 2.0, Anchor::Middle, Size::Label, MUTED, &lines.y);
    for (name, value) in &lines.limits {
        canvas.line((x0, y.at(*value)), (right, y.at(*value)), INK, 1.6, Some("2 4"));
        canvas.text(
            x0 + 8.0,
            y.at(*value) - 6.0,
            Anchor::Start,
            Size::Label,
            INK,
            format!("{name}: {}", number(*value)),
        );
    }
    for line in &lines.lines {
        let color = palette::line(line.color);
        let at: Vec<(f64, f64)> = line.points.iter().map(|&(size, value)| (x.at(size), y.at(value))).collect();
        match line.dashed {
            true => at.windows(2).for_each(|pair| canvas.line(pair[0], pair[1], color, 2.0, Some("6 4"))),
            false => canvas.polyline(&at, color, 2.6),
        }
        for (x, y) in at {
            if line.dashed { canvas.ring(x, y, 3.5, color, 1.8) } else { canvas.dot(x, y, 5.0, color) }
        }
    }
    legend(&mut canvas, &lines.lines, &y, (right + 14.0, bottom));
    let names: Vec<&str> = lines.lines.iter().map(|line| line.name.as_str()).collect();
    canvas.finish(bottom + 62.0, &lines.title, &format!("{} Lines: {}.", lines.text, names.join("; ")))
}

/// The distance of two names.
const PITCH: f64 = 20.0;

/// The names of the lines next to their ends, moved apart where these are close, and up where they would be below the axis.
fn legend(canvas: &mut Canvas, lines: &[Line], y: &Axis, (x, bottom): (f64, f64)) {
    let end = |line: &Line| line.points.last().map_or(0.0, |(_, value)| y.at(*value));
    let mut ends: Vec<(f64, &Line)> = lines.iter().map(|line| (end(line), line)).collect();
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = f64::MIN;
    for (at, _) in &mut ends {
        *at = at.max(free);
        free = *at + PITCH;
    }
    let mut free = bottom;
    for (at, _) in ends.iter_mut().rev() {
        *at = at.min(free);
        free = *at - PITCH;
    }
    for (at, line) in ends {
        let color = palette::line(line.color);
        canvas.line((x, at), (x + 22.0, at), color, 2.4, line.dashed.then_some("6 4"));
        canvas.text(x + 28.0, at + 5.0, Anchor::Start, Size::Label, color, &line.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(points: Vec<(f64, f64)>) -> Lines {
        let line = |index: usize| Line { name: format!("line {index}"), points: points.clone(), ..Line::default() };
        Lines { lines: (0..9).map(line).collect(), ..Lines::default() }
    }

    #[test]
    fn names_stay_apart_and_above_the_axis() {
        let svg = lines(&many(vec![(16.0, 5.0), (64.0, 0.0)]), Scheme::Auto);
        let all: Vec<&str> = svg.lines().collect();
        // A text is on the line after its element.
        let height = |pair: &[&str]| pair[0].split(" y=\"").nth(1)?.split('"').next()?.parse::<f64>().ok();
        let texts = |is: fn(&str) -> bool| all.windows(2).filter(move |pair| is(pair[1])).filter_map(height);
        let places: Vec<f64> = texts(|text| text.starts_with("line ")).collect();
        assert_eq!(places.len(), 9, "{svg}");
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= PITCH - 0.1), "{places:?}");
        let axis = texts(|text| text == "16").next();
        assert!(places.last().copied() < axis, "{places:?} {axis:?}");
    }

    #[test]
    fn the_order_of_the_points_is_that_of_the_sizes() {
        let (up, down) = (vec![(16.0, 5.0), (64.0, 7.0)], vec![(64.0, 7.0), (16.0, 5.0)]);
        assert_eq!(lines(&many(up), Scheme::Auto), lines(&many(down), Scheme::Auto));
    }
}
