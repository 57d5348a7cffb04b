//! The canvas: an SVG document in one colour scheme, or in both.

use std::collections::BTreeSet;

use svg::Document;
use svg::node::element::path::Data;
use svg::node::element::{Description, Group, Line, Path, Rectangle, Style, Text, Title};

use crate::palette::{Color, INK, PAPER};

/// The background that a picture is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
    /// As the reader's browser prefers, by a media query; light for a viewer without one.
    #[default]
    Auto,
}

/// Sizes of text, as multiples of the document's font size: text scales with it and with the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// The picture's heading.
    Title,
    /// A panel's heading.
    Heading,
    /// A sentence.
    Body,
    /// An axis, a legend.
    Label,
    /// A cell's number.
    Cell,
    /// A cell's number where cells are narrow.
    Tiny,
}

impl Size {
    fn em(self) -> f64 {
        match self {
            Size::Title => 1.6,
            Size::Heading => 1.25,
            Size::Body => 0.95,
            Size::Label => 0.85,
            Size::Cell => 0.7,
            Size::Tiny => 0.55,
        }
    }

    /// The height of a letter with its descender, in units of the picture.
    pub fn height(self) -> f64 {
        EM * self.em()
    }

    /// An upper bound on the width of a text, from the letters of a wide font.
    pub fn width(self, text: &str) -> f64 {
        0.6 * self.height() * text.chars().count() as f64
    }
}

/// Units of the picture in one em.
const EM: f64 = 16.0;

/// The position of a text relative to its anchor point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// After it.
    Start,
    /// Around it.
    Middle,
    /// Before it.
    End,
}

/// A picture being drawn. The origin is at the top left, y grows downwards.
pub struct Canvas {
    width: f64,
    scheme: Scheme,
    group: Group,
    used: BTreeSet<Color>,
}

impl Canvas {
    /// An empty picture of this width.
    pub fn new(width: f64, scheme: Scheme) -> Canvas {
        Canvas { width, scheme, group: Group::new(), used: BTreeSet::new() }
    }

    fn hex(&mut self, color: Color) -> &'static str {
        self.used.insert(color);
        if self.scheme == Scheme::Dark { color.dark } else { color.light }
    }

    /// Draws everything of another picture on top.
    pub fn absorb(&mut self, other: Canvas) {
        self.used.extend(other.used);
        self.add(other.group);
    }

    fn add(&mut self, node: impl svg::Node) {
        self.group = std::mem::take(&mut self.group).add(node);
    }

    /// A filled rectangle.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: Color) {
        let fill = self.hex(fill);
        self.add(rectangle(x, y, width, height).set("fill", fill));
    }

    /// The border of a rectangle.
    pub fn frame(&mut self, x: f64, y: f64, width: f64, height: f64, stroke: Color, thick: f64) {
        let stroke = self.hex(stroke);
        let frame = rectangle(x, y, width, height).set("fill", "none");
        self.add(frame.set("stroke", stroke).set("stroke-width", round(thick)));
    }

    /// Many rectangles (x, y, width, height) of one colour.
    pub fn rects(&mut self, all: &[[f64; 4]], fill: Color) {
        if all.is_empty() {
            return;
        }
        let fill = self.hex(fill);
        let draw = |data: Data, &[x, y, w, h]: &[f64; 4]| {
            let [x, y, w, h] = [x, y, w, h].map(|value| round(value) as f32);
            data.move_to((x, y)).horizontal_line_by(w).vertical_line_by(h).horizontal_line_by(-w).close()
        };
        self.add(Path::new().set("d", all.iter().fold(Data::new(), draw)).set("fill", fill));
    }

    /// The borders of many rectangles (x, y, width, height).
    pub fn frames(&mut self, all: &[[f64; 4]], stroke: Color, thick: f64) {
        for &[x, y, width, height] in all {
            self.frame(x, y, width, height, stroke, thick);
        }
    }

    /// A line, dashed if it marks a limit.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Color, thick: f64, dash: Option<&str>) {
        let stroke = self.hex(stroke);
        let line = Line::new().set("x1", round(from.0)).set("y1", round(from.1)).set("x2", round(to.0));
        let line = line.set("y2", round(to.1)).set("stroke", stroke).set("stroke-width", round(thick));
        self.add(match dash {
            Some(dash) => line.set("stroke-dasharray", dash),
            None => line,
        });
    }

    /// Lines from point to point.
    pub fn polyline(&mut self, points: &[(f64, f64)], stroke: Color, thick: f64) {
        let stroke = self.hex(stroke);
        let mut data = Data::new();
        for (index, &(x, y)) in points.iter().enumerate() {
            let at = (round(x) as f32, round(y) as f32);
            data = if index == 0 { data.move_to(at) } else { data.line_to(at) };
        }
        let path = Path::new().set("d", data).set("fill", "none").set("stroke", stroke);
        self.add(path.set("stroke-width", round(thick)).set("stroke-linejoin", "round"));
    }

    /// A disc with a border of the background's colour.
    pub fn dot(&mut self, x: f64, y: f64, radius: f64, fill: Color) {
        let (fill, stroke) = (self.hex(fill), self.hex(PAPER));
        let circle = svg::node::element::Circle::new().set("cx", round(x)).set("cy", round(y)).set("r", round(radius));
        self.add(circle.set("fill", fill).set("stroke", stroke).set("stroke-width", 1.5));
    }

    /// A circle.
    pub fn ring(&mut self, x: f64, y: f64, radius: f64, stroke: Color, thick: f64) {
        let (fill, stroke) = (self.hex(PAPER), self.hex(stroke));
        let circle = svg::node::element::Circle::new().set("cx", round(x)).set("cy", round(y)).set("r", round(radius));
        self.add(circle.set("fill", fill).set("stroke", stroke).set("stroke-width", round(thick)));
    }

    /// A text on a baseline.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, size: Size, color: Color, text: impl Into<String>) {
        self.turned(x, y, anchor, size, color, text, false);
    }

    /// A text in the middle of a cell (x, y, width, height).
    pub fn within(&mut self, [x, y, width, height]: [f64; 4], size: Size, color: Color, text: impl Into<String>) {
        self.text(x + width / 2.0, y + height / 2.0 + 0.36 * size.height(), Anchor::Middle, size, color, text);
    }

    /// A text that is read from the bottom to the top.
    pub fn upwards(&mut self, x: f64, y: f64, anchor: Anchor, size: Size, color: Color, text: impl Into<String>) {
        self.turned(x, y, anchor, size, color, text, true);
    }

    #[allow(clippy::too_many_arguments)] // its two callers fix one each
    fn turned(
        &mut self,
        x: f64,
        y: f64,
        anchor: Anchor,
        size: Size,
        color: Color,
        text: impl Into<String>,
        turned: bool,
    ) {
        let fill = self.hex(color);
        let mut node = Text::new(text).set("x", round(x)).set("y", round(y)).set("fill", fill);
        node = node.set("font-size", format!("{}em", size.em()));
        node = match anchor {
            Anchor::Start => node,
            Anchor::Middle => node.set("text-anchor", "middle"),
            Anchor::End => node.set("text-anchor", "end"),
        };
        if turned {
            node = node.set("transform", format!("rotate(-90 {} {})", round(x), round(y)));
        }
        self.add(node);
    }

    /// Sentences, broken into lines that fit the width; the next free y.
    pub fn paragraph(&mut self, x: f64, y: f64, width: f64, color: Color, text: &str) -> f64 {
        let mut y = y;
        for line in wrapped(text, width, Size::Body) {
            self.text(x, y, Anchor::Start, Size::Body, color, line);
            y += 1.35 * Size::Body.height();
        }
        y
    }

    /// The document: `title` is its name, `description` describes the picture to readers who cannot see it.
    pub fn finish(mut self, height: f64, title: &str, description: &str) -> String {
        let (ink, paper) = (self.hex(INK), self.hex(PAPER));
        let mut document = Document::new()
            .set("viewBox", format!("0 0 {} {}", round(self.width), round(height)))
            .set("width", "100%")
            .set("role", "img")
            .set("font-family", "'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif")
            .set("font-size", EM)
            .set("fill", ink)
            .add(Title::new(title))
            .add(Description::new().add(svg::node::Text::new(description)));
        if self.scheme == Scheme::Auto {
            document = document.add(Style::new(self.dark()));
        }
        let ground = rectangle(0.0, 0.0, self.width, height).set("fill", paper);
        format!("{}\n", document.add(ground).add(self.group))
    }

    /// The style rules that give every colour its dark variant.
    fn dark(&self) -> String {
        let mut rules = String::from("@media (prefers-color-scheme: dark) {\n");
        for Color { light, dark } in &self.used {
            rules.push_str(&format!(
                "[fill=\"{light}\"] {{ fill: {dark} }} [stroke=\"{light}\"] {{ stroke: {dark} }}\n"
            ));
        }
        rules.push('}');
        rules
    }
}

fn rectangle(x: f64, y: f64, width: f64, height: f64) -> Rectangle {
    let (width, height) = (round(width.max(0.0)), round(height.max(0.0)));
    Rectangle::new().set("x", round(x)).set("y", round(y)).set("width", width).set("height", height)
}

/// To a hundredth of a unit.
fn round(value: f64) -> f64 {
    (100.0 * value).round() / 100.0
}

/// Lines of at most this width.
pub fn wrapped(text: &str, width: f64, size: Size) -> Vec<String> {
    // Letters are narrower on average than the widest font's.
    let most = (width / (0.56 * size.height())).max(8.0) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}
