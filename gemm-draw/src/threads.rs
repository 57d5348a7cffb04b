//! Which thread holds which elements of the block's tile of D.

use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::terms::Extent3;
use ptx_gemm_runtime::tile::{Accumulator, Digit, Map, Op, Program, Role, walk};

use crate::canvas::{Anchor, Canvas, Size};
use crate::error::DrawError;
use crate::frame::Panel;
use crate::palette::{self, FAINT, GROUND, INK, MUTED, ON_LIGHT};
use crate::subject::{Subject, block, is_transposed};

/// Widths of the parts, and the space between two. The middle one has 32 lanes next to each other.
const SIDE: f64 = 300.0;
const LANES: f64 = 546.0;
const REGISTERS: f64 = 226.0;
const GAP: f64 = 36.0;
/// The narrowest cell with a lane's number.
const NARROW: f64 = 17.0;
/// The height of a line of text.
const LINE: f64 = 21.0;

pub(crate) fn panel(subject: &Subject, canvas: &mut Canvas, top: f64) -> Result<f64, DrawError> {
    let program = subject.program()?;
    let (role, accumulator) =
        holders(program).ok_or_else(|| DrawError::Nothing("no role stores a tile of D".into()))?;
    let map = if is_transposed(program) { transposed(&accumulator.map) } else { accumulator.map.clone() };
    let held = Held { program, role, map };
    let left = Panel::LEFT;
    let tile = held.tile(canvas, left, top);
    let warp = held.warp(canvas, left + SIDE + GAP, top);
    let thread = held.thread(canvas, left + SIDE + LANES + 2.0 * GAP, top);
    let mut y = tile.max(warp).max(thread) + 30.0;
    for line in held.roles() {
        y = canvas.paragraph(left, y, Panel::WIDTH, MUTED, &line);
    }
    Ok(y)
}

/// The role that stores D, and the accumulators that it stores.
fn holders(program: &Program) -> Option<(&Role, &Accumulator)> {
    program.roles.iter().find_map(|role| {
        let mut stored = None;
        walk(&role.body, &mut |statement| {
            if let Op::Store { acc, .. } | Op::Stage { acc, .. } | Op::Share { acc, .. } = statement.op {
                stored = stored.or(program.accumulators.get(acc));
            }
        });
        stored.map(|accumulator| (role, accumulator))
    })
}

/// The same accumulators, in D instead of its transpose.
fn transposed(map: &Map) -> Map {
    let of = |digits: &[Digit]| digits.iter().map(|digit| Digit { m: digit.n, n: digit.m, ..*digit }).collect();
    Map { thread: of(&map.thread), warp: of(&map.warp), element: of(&map.element) }
}

struct Held<'a> {
    program: &'a Program,
    role: &'a Role,
    map: Map,
}

/// A rectangle of elements: first row and column, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    row: u32,
    col: u32,
    rows: u32,
    cols: u32,
}

impl Held<'_> {
    fn threads(&self) -> u32 {
        self.map.threads()
    }

    /// The whole tile, coloured by warp; returns the lowest y.
    fn tile(&self, canvas: &mut Canvas, x: f64, y: f64) -> f64 {
        let Extent3 { m, n, .. } = block(self.program);
        let warps = self.threads().div_ceil(WARP);
        heading(canvas, x, y, &format!("The {m} × {n} tile of D, by warp"));
        let scale = SIDE / f64::from(m.max(n));
        let (x0, y0) = (x, y + LINE);
        let place = |piece: &Piece| placed(piece, (0, 0), (x0, y0), scale);
        let mut owner = vec![0u32; (m * n) as usize];
        for thread in 0..self.threads() {
            let (row, col) = self.map.first(thread);
            for element in 0..self.map.elements() {
                let (i, j) = self.map.position(element);
                if let Some(owner) = owner.get_mut(((row + i) * n + col + j) as usize) {
                    *owner = thread / WARP;
                }
            }
        }
        let pieces = merged(&owner, n);
        for warp in 0..warps {
            let own = pieces.iter().filter(|(of, _)| *of == warp).map(|(_, piece)| apart(place(piece)));
            canvas.rects(&own.collect::<Vec<_>>(), palette::category(warp as usize));
        }
        // Once for each warp, in its largest piece; for all warps or for none.
        let size = if warps > 16 { Size::Cell } else { Size::Label };
        let largest = |warp| pieces.iter().filter(|(of, _)| *of == warp).max_by_key(|(_, p)| p.rows.min(p.cols));
        let numbers = (0..warps).filter_map(|warp| Some((warp.to_string(), place(&largest(warp)?.1))));
        let numbers: Vec<(String, [f64; 4])> = numbers.collect();
        let numbered = numbers
            .iter()
            .all(|(text, [_, _, width, height])| *height >= 0.9 * size.height() && *width >= size.width(text));
        let first: Vec<[f64; 4]> = self.pieces(0).iter().map(place).collect();
        canvas.rects(&first, ON_LIGHT);
        // So that black elements have an edge on a dark page.
        canvas.frames(&first, INK, 0.8);
        for (warp, (text, [x, y, width, height])) in numbers.iter().enumerate().filter(|_| numbered) {
            // To the right, away from thread 0's elements; if these are everywhere, in front of them.
            let right = width.min(36.0);
            let at = [x + width - right, *y, right, *height];
            let (wide, high) = (size.width(text) + 8.0, size.height() + 4.0);
            let background =
                [at[0] + (right - wide) / 2.0, at[1] + (height - high).max(0.0) / 2.0, wide, high.min(*height)];
            if first.iter().any(|black| overlap(*black, background)) {
                canvas.rects(&[background], palette::category(warp));
            }
            canvas.within(at, size, ON_LIGHT, text);
        }
        let (width, height) = (scale * f64::from(n), scale * f64::from(m));
        canvas.frame(x0, y0, width, height, MUTED, 1.0);
        let elements = self.map.elements();
        let own = if elements == 1 { "thread 0's element".into() } else { format!("thread 0's {elements} elements") };
        let colours = match (warps, numbered) {
            (1, _) => "one warp".into(),
            (_, true) => format!("numbers: warps 0 to {}", warps - 1),
            (_, false) => format!("{warps} warps by colour; the colours repeat"),
        };
        let bottom = caption(canvas, x, y0 + height, &[&colours, &format!("black: {own}")]);
        if numbered {
            return bottom;
        }
        for warp in 0..warps.min(12) {
            let at = [x + 25.0 * f64::from(warp), bottom + 8.0, 23.0, 15.0];
            canvas.rects(&[at], palette::category(warp as usize));
            canvas.within(at, Size::Cell, ON_LIGHT, warp.to_string());
        }
        bottom + 23.0
    }

    /// The elements of warp 0, with the lane that holds each piece; returns the lowest y.
    fn warp(&self, canvas: &mut Canvas, x: f64, y: f64) -> f64 {
        let lanes = self.threads().min(WARP);
        let pieces: Vec<(u32, Piece)> =
            (0..lanes).flat_map(|lane| self.pieces(lane).into_iter().map(move |piece| (lane, piece))).collect();
        let first = |of: fn(&Piece) -> u32| pieces.iter().map(|(_, piece)| of(piece)).min().unwrap_or(0);
        let last = |of: fn(&Piece) -> u32| pieces.iter().map(|(_, piece)| of(piece)).max().unwrap_or(0);
        let (row, col) = (first(|p| p.row), first(|p| p.col));
        let (mut rows, mut cols) = (last(|p| p.row + p.rows) - row, last(|p| p.col + p.cols) - col);
        // Where the numbers would be too small, a part of it: the rest repeats.
        let smallest = pieces.iter().map(|(_, piece)| piece.cols.min(2 * piece.rows)).min().unwrap_or(1);
        let most = |room: f64| ((room / NARROW * f64::from(smallest)) as u32).max(1);
        let whole = (rows, cols);
        (rows, cols) = (rows.min(most(SIDE)), cols.min(most(LANES)));
        heading(canvas, x, y, "What the lanes of warp 0 hold");
        let scale = (SIDE / f64::from(rows)).min(LANES / f64::from(cols)).min(40.0);
        let (x0, y0) = (x, y + LINE);
        canvas.rect(x0, y0, scale * f64::from(cols), scale * f64::from(rows), GROUND);
        let inside = |piece: &Piece| piece.row + piece.rows <= row + rows && piece.col + piece.cols <= col + cols;
        let shown: Vec<&(u32, Piece)> = pieces.iter().filter(|(_, piece)| inside(piece)).collect();
        for lane in 0..lanes {
            let own: Vec<[f64; 4]> = shown
                .iter()
                .filter(|(of, _)| *of == lane)
                .map(|(_, piece)| placed(piece, (row, col), (x0, y0), scale))
                .map(|[x, y, w, h]| [x + 0.5, y + 0.5, w - 1.0, h - 1.0])
                .collect();
            let color = if lane == 0 { palette::category(1) } else { palette::category(0) };
            canvas.rects(&own, color);
            for at in own {
                let size = if at[2] < 18.0 || at[3] < 12.0 { Size::Tiny } else { Size::Cell };
                if at[2] > size.width("31") && at[3] > size.height() * 0.75 {
                    canvas.within(at, size, ON_LIGHT, lane.to_string());
                }
            }
        }
        let (width, height) = (scale * f64::from(cols), scale * f64::from(rows));
        canvas.frame(x0, y0, width, height, FAINT, 1.0);
        let place = format!("{}, {}", span("row", row, rows), span("column", col, cols));
        let full: u32 = shown.iter().map(|(_, piece)| piece.rows * piece.cols).sum();
        let mut more = vec!["orange: lane 0"];
        if full < rows * cols {
            more.push("empty: other warps");
        }
        if whole != (rows, cols) {
            more.push("the pattern goes on");
        }
        caption(canvas, x, y0 + height, &[&place, &more.join("; ")])
    }

    /// The accumulators of thread 0 by row and column; returns the lowest y.
    fn thread(&self, canvas: &mut Canvas, x: f64, y: f64) -> f64 {
        heading(canvas, x, y, "Thread 0's registers");
        let (rows, cols) = (self.map.rows(), self.map.cols());
        let (row0, col0) = self.map.first(0);
        // Headings of rows and columns take some space.
        let (left, head) = (30.0, 16.0);
        let (x0, y0) = (x + left, y + LINE + head);
        let most = 8;
        let (shown_rows, shown_cols) = (rows.len().min(most), cols.len().min(most));
        let cell = ((REGISTERS - left) / shown_cols.max(shown_rows) as f64).min(36.0);
        let size = if cell < 24.0 { Size::Tiny } else { Size::Cell };
        for element in 0..self.map.elements() {
            let (i, j) = self.map.position(element);
            let at = |all: &[u32], of: u32| all.iter().position(|one| *one == of).filter(|index| *index < most);
            let (Some(i), Some(j)) = (at(&rows, i), at(&cols, j)) else { continue };
            let at = [x0 + cell * j as f64 + 0.5, y0 + cell * i as f64 + 0.5, cell - 1.0, cell - 1.0];
            canvas.rects(&[at], palette::category(1));
            canvas.within(at, size, ON_LIGHT, element.to_string());
        }
        for (index, row) in rows.iter().take(most).enumerate() {
            let y = y0 + cell * (index as f64 + 0.5) + 4.0;
            canvas.text(x0 - 5.0, y, Anchor::End, size, MUTED, (row0 + row).to_string());
        }
        for (index, col) in cols.iter().take(most).enumerate() {
            let x = x0 + cell * (index as f64 + 0.5);
            canvas.text(x, y0 - 5.0, Anchor::Middle, size, MUTED, (col0 + col).to_string());
        }
        let text = match (shown_rows, shown_cols) == (rows.len(), cols.len()) {
            true => "by row and column of the tile".to_string(),
            false => format!("{shown_rows} × {shown_cols} of {} × {} are shown", rows.len(), cols.len()),
        };
        caption(canvas, x, y0 + cell * shown_rows as f64, &[&text])
    }

    /// The elements of a thread in as few rectangles as its registers allow.
    fn pieces(&self, thread: u32) -> Vec<Piece> {
        let (row, col) = self.map.first(thread);
        let (rows, cols) = (runs(&self.map.rows()), runs(&self.map.cols()));
        let across = |(i, rows): (u32, u32)| {
            let piece = move |&(j, cols): &(u32, u32)| Piece { row: row + i, col: col + j, rows, cols };
            cols.iter().map(piece).collect::<Vec<_>>()
        };
        rows.into_iter().flat_map(across).collect()
    }

    /// What each role does, in words.
    fn roles(&self) -> Vec<String> {
        let role = |role: &Role| {
            let threads = format!("Threads {} to {}", role.threads.start, role.threads.end.saturating_sub(1));
            let held = match self.map.elements() {
                1 => "1 element".to_string(),
                elements => format!("{elements} elements"),
            };
            match role.name == self.role.name {
                true if self.program.roles.len() == 1 => {
                    let warps = match role.len().div_ceil(WARP) {
                        1 => "1 warp".into(),
                        warps => format!("{warps} warps"),
                    };
                    format!("{threads} ({warps}) hold {held} each.")
                }
                true if role.turns > 1 => format!(
                    "{threads} (role `{}`) hold {held} each: {} groups of {} compute one tile each, in turn.",
                    role.name,
                    role.turns,
                    role.per_tile()
                ),
                true => format!("{threads} (role `{}`) hold {held} each.", role.name),
                false => format!("{threads} (role `{}`) hold none: they copy.", role.name),
            }
        };
        let mut lines = vec![self.program.roles.iter().map(role).collect::<Vec<_>>().join(" ")];
        if let Some(exchange) = &self.program.exchange {
            lines.push(format!(
                "After the roles, threads 0 to {} add up the sums of all {} blocks of the cluster, and store {} elements each.",
                exchange.map.threads() - 1,
                self.program.scheduler.parts(),
                exchange.map.elements()
            ));
        }
        if self.program.accumulators.len() > 1 {
            let names: Vec<&str> = self.program.accumulators.iter().map(|acc| acc.name.as_str()).collect();
            lines.push(format!(
                "There are {} sets of accumulators, {}; shown is the one that is stored.",
                names.len(),
                names.join(" and ")
            ));
        }
        lines
    }
}

/// Rows or columns in words.
fn span(what: &str, first: u32, count: u32) -> String {
    if count == 1 { format!("{what} {first}") } else { format!("{what}s {first} to {}", first + count - 1) }
}

/// First and length of each run of neighbours.
fn runs(ascending: &[u32]) -> Vec<(u32, u32)> {
    let chunks = ascending.chunk_by(|one, next| one + 1 == *next);
    chunks.map(|run| (run[0], run.len() as u32)).collect()
}

/// Rectangles of elements with one owner: runs of a row, joined with equal runs of the rows below it.
fn merged(owner: &[u32], cols: u32) -> Vec<(u32, Piece)> {
    let mut done = Vec::new();
    let mut open: Vec<(u32, Piece)> = Vec::new();
    for (row, owners) in owner.chunks(cols as usize).enumerate() {
        let mut next = Vec::new();
        let mut col = 0;
        for run in owners.chunk_by(|one, other| one == other) {
            let (of, cols) = (run[0], run.len() as u32);
            let above = open.iter().position(|(o, p)| (*o, p.col, p.cols) == (of, col, cols));
            let piece = match above {
                Some(index) => {
                    let (_, piece) = open.swap_remove(index);
                    Piece { rows: piece.rows + 1, ..piece }
                }
                None => Piece { row: row as u32, col, rows: 1, cols },
            };
            next.push((of, piece));
            col += cols;
        }
        done.append(&mut open);
        open = next;
    }
    done.append(&mut open);
    done
}

fn placed(piece: &Piece, first: (u32, u32), at: (f64, f64), scale: f64) -> [f64; 4] {
    let along = |of: u32, first: u32| scale * f64::from(of - first);
    let (x, y) = (at.0 + along(piece.col, first.1), at.1 + along(piece.row, first.0));
    [x, y, scale * f64::from(piece.cols), scale * f64::from(piece.rows)]
}

fn heading(canvas: &mut Canvas, x: f64, y: f64, text: &str) {
    canvas.text(x, y + 10.0, Anchor::Start, Size::Body, INK, text);
}

/// Lines below a drawing; returns the lowest y.
fn caption(canvas: &mut Canvas, x: f64, y: f64, lines: &[&str]) -> f64 {
    let mut y = y;
    for line in lines {
        y += 18.0;
        canvas.text(x, y, Anchor::Start, Size::Label, MUTED, *line);
    }
    y
}

/// A piece with a gap to its neighbours, which may have the same colour.
fn apart([x, y, width, height]: [f64; 4]) -> [f64; 4] {
    let gap = 0.5f64.min(0.1 * width).min(0.1 * height);
    [x + gap, y + gap, width - 2.0 * gap, height - 2.0 * gap]
}

/// Whether two rectangles share a point.
fn overlap(one: [f64; 4], other: [f64; 4]) -> bool {
    (0..2).all(|side| one[side] < other[side] + other[side + 2] && other[side] < one[side] + one[side + 2])
}

#[cfg(test)]
mod tests {
    use super::{Piece, merged, runs};

    #[test]
    fn runs_of_neighbours() {
        assert_eq!(runs(&[0, 1, 2, 3, 64, 65, 66, 67]), [(0, 4), (64, 4)]);
    }

    #[test]
    fn equal_rows_are_joined() {
        let owner = [0, 0, 1, 0, 0, 1, 2, 2, 2];
        let piece = |row, col, rows, cols| Piece { row, col, rows, cols };
        let mut all = merged(&owner, 3);
        all.sort_by_key(|(_, piece)| (piece.row, piece.col));
        assert_eq!(all, [(0, piece(0, 0, 2, 2)), (1, piece(0, 2, 2, 1)), (2, piece(2, 0, 1, 3))]);
    }
}
