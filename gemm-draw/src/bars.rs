//! Horizontal bars in groups: names on the left, and a panel for each figure.

use crate::axis::{Axis, number};
use crate::canvas::{Anchor, Canvas, Scheme, Size};
use crate::palette::{self, ALARM, FAINT, INK, MUTED, PAPER};

/// A plot of bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Its heading.
    pub title: String,
    /// Sentences below the heading: the device, and the meaning of the marks.
    pub text: String,
    /// The panels, from the left to the right.
    pub panels: Vec<Panel>,
    /// The groups, from the top to the bottom.
    pub groups: Vec<Group>,
    /// The meaning of the mark on a bar, if some bars have one.
    pub mark: Option<String>,
}

/// The figure that the bars of a panel show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// The axis: figure and unit.
    pub axis: String,
    /// Lines over all bars: name and value.
    pub limits: Vec<(String, f64)>,
}

/// Bars that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// What they have in common; empty if there is one group.
    pub name: String,
    /// From the top to the bottom.
    pub bars: Vec<Bar>,
}

/// One bar in each panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its value in each panel, if it has one.
    pub values: Vec<Option<f64>>,
    /// A value to compare the first one with.
    pub mark: Option<f64>,
    /// A note on the first value.
    pub note: String,
}

const WIDTH: f64 = 1100.0;
const LEFT: f64 = 24.0;
const ROW: f64 = 22.0;
const GAP: f64 = 34.0;

/// The plot as SVG.
pub fn bars(bars: &Bars, scheme: Scheme) -> String {
    let mut canvas = Canvas::new(WIDTH, scheme);
    canvas.text(LEFT, 38.0, Anchor::Start, Size::Title, INK, &bars.title);
    let mut top = canvas.paragraph(LEFT, 64.0, WIDTH - 2.0 * LEFT, MUTED, &bars.text);
    if let Some(mark) = &bars.mark {
        canvas.line((LEFT + 8.0, top - 11.0), (LEFT + 8.0, top + 5.0), ALARM, 3.0, None);
        canvas.text(LEFT + 22.0, top + 2.0, Anchor::Start, Size::Body, MUTED, mark);
        top += 24.0;
    }
    let all = || bars.groups.iter().flat_map(|group| &group.bars);
    let longest = all().map(|bar| Size::Label.width(&bar.name) * 0.95).fold(60.0, f64::max);
    let names = LEFT + longest.min(360.0) + 14.0;
    let count = bars.panels.len().max(1) as f64;
    let width = (WIDTH - names - LEFT - GAP * (count - 1.0)) / count;
    // The lines' names are above the bars, each in a line of its own.
    let lines = bars.panels.iter().map(|panel| panel.limits.len()).max().unwrap_or(0);
    top += 4.0 + 18.0 * lines as f64;
    let titles = bars.groups.iter().filter(|group| !group.name.is_empty()).count();
    let height = ROW * (all().count() as f64) + 34.0 * titles as f64 + 6.0;
    for (index, panel) in bars.panels.iter().enumerate() {
        let x0 = names + (width + GAP) * index as f64;
        let highest = highest(bars, index);
        let room = room(bars, index);
        let axis = Axis::linear(0.0..highest, x0, x0 + width - room);
        frame(&mut canvas, panel, &axis, (x0, top, height), width);
    }
    let mut y = top + 4.0;
    for (number_of_group, group) in bars.groups.iter().enumerate() {
        if !group.name.is_empty() {
            canvas.text(LEFT, y + 22.0, Anchor::Start, Size::Body, INK, &group.name);
            y += 34.0;
        }
        for bar in &group.bars {
            canvas.text(names - 10.0, y + 15.5, Anchor::End, Size::Label, INK, &bar.name);
            for (index, value) in bar.values.iter().enumerate() {
                let x0 = names + (width + GAP) * index as f64;
                let room = room(bars, index);
                let axis = Axis::linear(0.0..highest(bars, index), x0, x0 + width - room);
                let mark = bar.mark.filter(|_| index == 0);
                one(&mut canvas, bar, (*value, mark), &axis, y, (index, number_of_group));
            }
            y += ROW;
        }
    }
    let names: Vec<String> = bars.groups.iter().map(|group| group.name.clone()).collect();
    canvas.finish(top + height + 62.0, &bars.title, &format!("{} {}", bars.text, names.join("; ")))
}

/// The end of a panel's axis: its largest value, mark or limit.
fn highest(bars: &Bars, index: usize) -> f64 {
    let values = bars.groups.iter().flat_map(|group| &group.bars);
    let values = values.flat_map(|bar| {
        let mark = bar.mark.filter(|_| index == 0);
        bar.values.get(index).copied().flatten().into_iter().chain(mark)
    });
    let limits = bars.panels[index].limits.iter().map(|(_, value)| *value);
    let highest = values.chain(limits).fold(0.0, f64::max);
    if highest > 0.0 { 1.02 * highest } else { 1.0 }
}

/// The text next to a bar.
fn label(bar: &Bar, panel: usize, value: f64) -> String {
    match bar.note.is_empty() || panel > 0 {
        true => number(value),
        false => format!("{} · {}", number(value), bar.note),
    }
}

/// Width that a panel reserves next to its longest bar for the label.
fn room(bars: &Bars, panel: usize) -> f64 {
    let all = bars.groups.iter().flat_map(|group| &group.bars);
    let texts = all.filter(|bar| panel == 0 && !bar.note.is_empty()).filter_map(|bar| {
        let value = bar.values.first().copied().flatten()?;
        Some(9.0 + Size::Label.width(&label(bar, panel, value)) * 0.95)
    });
    texts.fold(None, |longest: Option<f64>, text| Some(longest.unwrap_or(150.0).max(text))).unwrap_or(62.0)
}

fn frame(canvas: &mut Canvas, panel: &Panel, axis: &Axis, (x0, top, height): (f64, f64, f64), width: f64) {
    let bottom = top + height;
    // The widest numbers do not overlap.
    for tick in axis.ticks(((width / 75.0) as usize).clamp(2, 7)) {
        let at = axis.at(tick);
        canvas.line((at, top), (at, bottom), FAINT, 1.0, None);
        canvas.text(at, bottom + 18.0, Anchor::Middle, Size::Label, MUTED, number(tick));
    }
    canvas.text(x0, bottom + 40.0, Anchor::Start, Size::Label, MUTED, &panel.axis);
    for (index, (name, value)) in panel.limits.iter().enumerate() {
        let (at, y) = (axis.at(*value), top - 10.0 - 18.0 * index as f64);
        canvas.line((at, y + 3.0), (at, bottom), palette::line(index + 1), 2.0, Some("7 4"));
        let text = format!("{name}: {}", number(*value));
        // On the side that has space.
        let fits = at + Size::Label.width(&text) < x0 + width;
        let (anchor, x) = if fits { (Anchor::Start, at + 5.0) } else { (Anchor::End, at - 5.0) };
        canvas.text(x, y + 2.0, anchor, Size::Label, palette::line(index + 1), text);
    }
}

fn one(
    canvas: &mut Canvas,
    bar: &Bar,
    (value, mark): (Option<f64>, Option<f64>),
    axis: &Axis,
    y: f64,
    (panel, group): (usize, usize),
) {
    let x0 = axis.at(0.0);
    let Some(value) = value else {
        canvas.text(x0 + 6.0, y + 15.5, Anchor::Start, Size::Label, MUTED, "–");
        return;
    };
    let end = axis.at(value);
    canvas.rect(x0, y + 3.0, (end - x0).max(1.0), ROW - 6.0, palette::category(group % 6));
    if let Some(mark) = mark {
        canvas.line((axis.at(mark), y + 1.0), (axis.at(mark), y + ROW - 1.0), ALARM, 3.0, None);
    }
    let text = label(bar, panel, value);
    let x = mark.map_or(end, |mark| end.max(axis.at(mark))) + 7.0;
    // Lines of limits do not cross the text.
    canvas.rect(x - 2.0, y + 3.0, Size::Label.width(&text) * 0.88 + 4.0, ROW - 6.0, PAPER);
    canvas.text(x, y + 15.5, Anchor::Start, Size::Label, INK, text);
}
