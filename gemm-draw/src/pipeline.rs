//! The pipeline: what each role does over time, and which K-tile is in which slot.

use ptx_gemm_dsl::target::WARP;
use ptx_gemm_runtime::tile::{Mover, Op, Program};

use crate::canvas::{Anchor, Canvas, Size};
use crate::error::DrawError;
use crate::frame::Panel;
use crate::palette::{self, ALARM, Color, FAINT, GROUND, INK, MUTED, ON_LIGHT};
use crate::subject::Subject;
use crate::timeline::{Done, Timeline, Work, tiles, timeline};

/// Where time begins on the page, after the names.
const NAMES: f64 = 150.0;
const ROW: f64 = 30.0;
const STEP: f64 = 38.0;

pub(crate) fn panel(subject: &Subject, canvas: &mut Canvas, top: f64) -> Result<f64, DrawError> {
    let program = subject.program()?;
    if program.rings.is_empty() {
        let why = "nothing is staged in shared memory: each thread reads A and B from global memory as it multiplies";
        return Err(DrawError::Nothing(why.into()));
    }
    let deepest = program.rings.iter().map(|ring| ring.depth).max().unwrap_or(1);
    let each = if tiles(program) == 1 { (deepest + 3).clamp(6, 9) } else { (deepest + 1).clamp(4, 5) };
    let line = timeline(program, each);
    let k_tiles = each * line.tiles;
    let x0 = Panel::LEFT + NAMES;
    let scale = (Panel::WIDTH - NAMES) / line.end.max(1.0);
    let at = |time: f64| x0 + scale * time;
    let mut y = top;
    for (index, lane) in line.lanes.iter().enumerate() {
        let role = &program.roles[lane.role];
        let warps = role.per_tile().div_ceil(WARP);
        let group =
            if role.turns > 1 { format!(", group {} of {}", lane.group + 1, role.turns) } else { String::new() };
        let name = if role.name == "all" { "all threads" } else { &role.name };
        names(canvas, y, name, &format!("{warps} warp{}{group}", plural(warps)));
        canvas.rect(x0, y, at(line.end) - x0, ROW, GROUND);
        for done in line.done.iter().filter(|done| done.lane == index) {
            work(canvas, done, label(&line, done), y, at, k_tiles);
        }
        for (_, time) in line.barriers.iter().filter(|(lane, _)| *lane == index) {
            canvas.line((at(*time), y - 3.0), (at(*time), y + ROW + 3.0), INK, 1.6, None);
        }
        y += STEP;
        let mut products = line.products.iter().filter(|done| done.lane == index).peekable();
        if products.peek().is_some() {
            names(canvas, y, "tensor cores", "their products");
            canvas.rect(x0, y, at(line.end) - x0, ROW, GROUND);
            products.for_each(|done| work(canvas, done, [done.from, done.to], y, at, k_tiles));
            y += STEP;
        }
    }
    y += 6.0;
    for (index, ring) in program.rings.iter().enumerate() {
        let buffers: Vec<&str> = ring.buffers.iter().map(|b| program.buffers[*b].name.as_str()).collect();
        for slot in 0..ring.depth {
            names(canvas, y, &format!("slot {slot}"), &format!("of {}", buffers.join(", ")));
            canvas.rect(x0, y, at(line.end) - x0, ROW, GROUND);
            slots(canvas, &line, (index, slot), y, at, k_tiles);
            y += STEP;
        }
    }
    time(canvas, at(line.end), y + 8.0);
    y = legend(canvas, Panel::LEFT + NAMES, y + 8.0);
    let mut text = explained(program, each, &line);
    let room = |done: &Done| label(&line, done).map(at);
    let is_short = |done: &Done| !names_epilogue(room(done)[1] - room(done)[0]);
    if line.done.iter().any(|done| done.work == Work::Epilogue && is_short(done)) {
        text.push_str(" D: the epilogue, which stores it.");
    }
    Ok(canvas.paragraph(Panel::LEFT, y + 10.0, Panel::WIDTH, MUTED, &text))
}

/// An arrow to the right, with what it means.
fn time(canvas: &mut Canvas, right: f64, y: f64) {
    canvas.text(right - 34.0, y, Anchor::End, Size::Label, MUTED, "time");
    let y = y - 4.0;
    canvas.line((right - 27.0, y), (right, y), MUTED, 1.4, None);
    canvas.polyline(&[(right - 6.0, y - 4.0), (right, y), (right - 6.0, y + 4.0)], MUTED, 1.4);
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn names(canvas: &mut Canvas, y: f64, name: &str, detail: &str) {
    canvas.text(Panel::LEFT, y + 13.0, Anchor::Start, Size::Label, INK, name);
    canvas.text(Panel::LEFT, y + 27.0, Anchor::Start, Size::Cell, MUTED, detail);
}

/// The colour of a K-tile; `None` past the end of k.
fn color(tile: u32, k_tiles: u32) -> Color {
    // The last category is the grey for nothing.
    if tile >= k_tiles { palette::category(6) } else { palette::category(tile as usize % 6) }
}

/// Whether the word fits.
fn names_epilogue(width: f64) -> bool {
    width > 64.0
}

/// The longest time within a piece of work without a barrier of its role; a barrier's line would cross a text.
fn label(line: &Timeline, done: &Done) -> [f64; 2] {
    let barriers =
        line.barriers.iter().filter(|(lane, time)| *lane == done.lane && (done.from..done.to).contains(time));
    let mut ends: Vec<f64> = barriers.map(|(_, time)| *time).chain([done.from, done.to]).collect();
    ends.sort_by(f64::total_cmp);
    let longest = ends.windows(2).max_by(|one, other| (one[1] - one[0]).total_cmp(&(other[1] - other[0])));
    longest.map_or([done.from, done.to], |pair| [pair[0], pair[1]])
}

/// One piece of work, with its name in the part `label` of its time.
fn work(canvas: &mut Canvas, done: &Done, label: [f64; 2], y: f64, at: impl Fn(f64) -> f64, k_tiles: u32) {
    let (x, width) = (at(done.from), at(done.to) - at(done.from));
    let (height, inset) = match done.work {
        Work::Multiply | Work::Epilogue => (ROW, 0.0),
        Work::Load | Work::Store | Work::Copy | Work::Start => (ROW * 0.55, ROW * 0.45),
        Work::Wait => {
            canvas.line((x, y + ROW * 0.7), (x + width, y + ROW * 0.7), ALARM, 2.0, Some("2 3"));
            return;
        }
    };
    let fill = done.tile.map_or(FAINT, |tile| color(tile, k_tiles));
    canvas.rect(x + 0.5, y + inset, width - 1.0, height, fill);
    let (x, width) = (at(label[0]), at(label[1]) - at(label[0]));
    let tile = done.tile.map_or(String::new(), |tile| tile.to_string());
    let (text, size, ink) = match done.work {
        Work::Multiply if width > 92.0 => (format!("multiply {tile}"), Size::Label, ON_LIGHT),
        Work::Multiply if width > 34.0 => (format!("× {tile}"), Size::Label, ON_LIGHT),
        Work::Multiply => (tile, Size::Label, ON_LIGHT),
        Work::Epilogue if names_epilogue(width) => ("epilogue".into(), Size::Label, INK),
        Work::Epilogue => ("D".into(), Size::Label, INK),
        Work::Load => (format!("L{tile}"), Size::Cell, ON_LIGHT),
        Work::Store => (format!("S{tile}"), Size::Cell, ON_LIGHT),
        Work::Copy => (format!("C{tile}"), Size::Cell, ON_LIGHT),
        Work::Start => (format!("M{tile}"), Size::Cell, ON_LIGHT),
        Work::Wait => return,
    };
    // Narrow pieces touch each other: their texts must not.
    let size = if size.width(&text) + 3.0 > width { Size::Tiny } else { size };
    // An M is half as wide again as the letters and digits that widths are estimated from.
    let estimate = size.width(&text) * if done.work == Work::Start { 1.3 } else { 0.9 };
    if estimate <= width {
        let y = y + inset + height / 2.0 + 0.35 * size.height();
        canvas.text(x + width / 2.0, y, Anchor::Middle, size, ink, text);
    }
}

/// The contents of one slot.
fn slots(canvas: &mut Canvas, line: &Timeline, slot: (usize, u32), y: f64, at: impl Fn(f64) -> f64, k_tiles: u32) {
    for stay in line.stays.iter().filter(|stay| (stay.ring, stay.slot) == slot) {
        let fill = stay.tile.map_or(FAINT, |tile| color(tile, k_tiles));
        let (from, there) = (at(stay.filled), at(stay.there.min(line.end)));
        let read = at(stay.read.unwrap_or(stay.there).min(line.end));
        let freed = at(stay.freed.unwrap_or(line.end));
        // Filling: a thin bar with a border; full: half; being read: all of it.
        canvas.frame(from + 0.8, y + ROW * 0.6, (there - from - 1.6).max(0.0), ROW * 0.4 - 1.0, fill, 1.6);
        canvas.rect(there, y + ROW * 0.6, (read - there).max(0.0), ROW * 0.4, fill);
        if stay.read.is_none() {
            continue;
        }
        canvas.rect(read, y, (freed - read).max(0.0), ROW, fill);
        let [long, short] = match stay.tile {
            Some(tile) => [format!("K-tile {tile}"), tile.to_string()],
            None => ["tile of D".into(), "D".into()],
        };
        let (text, width) = (if freed - read > 62.0 { long } else { short }, freed - read);
        if width > 16.0 {
            canvas.text(read + width / 2.0, y + 20.0, Anchor::Middle, Size::Label, ON_LIGHT, text);
        }
    }
}

/// Draws the legend of the shapes; returns the next free y.
fn legend(canvas: &mut Canvas, x: f64, y: f64) -> f64 {
    let (fill, y) = (palette::category(0), y + 22.0);
    let mut x = x;
    let words = ["slot being filled", "full, not read yet", "being read", "barrier of the warps", "waiting"];
    for (kind, text) in words.into_iter().enumerate() {
        match kind {
            0 => canvas.frame(x, y - 8.0, 24.0, 9.0, fill, 1.6),
            1 => canvas.rect(x, y - 8.0, 24.0, 10.0, fill),
            2 => canvas.rect(x, y - 14.0, 24.0, 18.0, fill),
            3 => canvas.line((x + 12.0, y - 15.0), (x + 12.0, y + 5.0), INK, 1.6, None),
            _ => canvas.line((x, y - 4.0), (x + 24.0, y - 4.0), ALARM, 2.0, Some("2 3")),
        }
        canvas.text(x + 31.0, y, Anchor::Start, Size::Label, MUTED, text);
        x += 31.0 + Size::Label.width(text) * 0.9 + 22.0;
    }
    y + 24.0
}

fn explained(program: &Program, each: u32, line: &Timeline) -> String {
    let mut how = Vec::new();
    for statement in program.statements() {
        if let Op::Copy { by, .. } = &statement.op {
            let words = match by {
                Mover::Registers { .. } => "L: load into registers, S: store them to shared memory",
                _ => "C: issue asynchronous copies",
            };
            if !how.contains(&words) {
                how.push(words);
            }
        }
    }
    if program.arrival.is_some() {
        how.push("C without a number: issue the copy of C's tile to where D's will be");
    }
    if !line.products.is_empty() {
        how.push("M: start products, which tensor cores compute meanwhile");
    }
    let ahead = line.stays.iter().any(|stay| stay.tile.is_some_and(|tile| tile >= each * line.tiles));
    let past = if ahead { " Grey: past the end of k, where zeros are written and nothing multiplies." } else { "" };
    let lent = line.stays.iter().any(|stay| stay.tile.is_none());
    let lent = if lent { " Slots with a D are lent for the tile of D." } else { "" };
    let of = match line.tiles {
        1 => format!("One tile of D with {each} K-tiles"),
        _ => format!("Two tiles of D with {each} K-tiles each, from {each} on those of the second"),
    };
    format!(
        "{of}; colours and numbers are K-tiles. {}. The order of the work and what waits for \
         what are the program's; how long each piece takes is made up, and the same for every program.{past}{lent}",
        how.join("; ")
    )
}
