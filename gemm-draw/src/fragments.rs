//! Which lane holds which elements of A, B and D of one instruction of the tensor cores.

use ptx_gemm_dsl::atoms::{Multiply, Unit};
use ptx_gemm_dsl::terms::Side;
use ptx_gemm_runtime::tile::{Instruction, MMA, Map, Op, Program, WGMMA_DEPTH_BYTES, WGMMA_ROWS, walk};

use crate::canvas::{Anchor, Canvas, Size};
use crate::error::DrawError;
use crate::frame::Panel;
use crate::palette::{self, FAINT, INK, MUTED, ON_LIGHT};
use crate::subject::{Subject, is_transposed};

/// An element's cell.
const CELL: (f64, f64) = (25.0, 18.0);
/// Space for the numbers of rows and columns, and between two matrices.
const MARGIN: f64 = 34.0;
const GAP: f64 = 30.0;

/// A matrix of an instruction: rows and columns, and who holds them.
struct Fragment {
    letter: char,
    extent: (u32, u32),
    along: [&'static str; 2],
    map: Map,
}

pub(crate) fn panel(subject: &Subject, canvas: &mut Canvas, top: f64) -> Result<f64, DrawError> {
    let program = subject.program()?;
    let nothing = || DrawError::Nothing("threads multiply by themselves, and hold fragments of any shape".into());
    let by = instruction(program).ok_or_else(nothing)?;
    let element = program.element(Side::A);
    let (atom, factors, rows) = match by {
        Instruction::Fma { .. } => return Err(nothing()),
        Instruction::Mma { rows, depth } => {
            let row = Multiply::of(Unit::Warp, element).find(|row| (row.rows, row.depth) == (rows, depth));
            let row = row.ok_or_else(nothing)?;
            let (a, b) = (Map::of_factor(row, Side::A, element), Map::of_factor(row, Side::B, element));
            let a = Fragment { letter: 'a', extent: (rows, depth), along: ["row", "k"], map: a };
            let b = Fragment { letter: 'b', extent: (depth, MMA.n), along: ["k", "column"], map: b };
            (format!("mma m{rows}n{}k{depth}", MMA.n), Some([a, b]), rows)
        }
        Instruction::Wgmma { columns, .. } => {
            let depth = WGMMA_DEPTH_BYTES / element.bytes();
            (format!("wgmma m{WGMMA_ROWS}n{columns}k{depth}"), None, MMA.m)
        }
    };
    let d = Fragment { letter: 'd', extent: (rows, MMA.n), along: ["row", "column"], map: Map::of_warp(rows) };
    let (wide, high) = factors.as_ref().map_or((0, 0), |[a, b]| (a.extent.1, b.extent.0));
    let right = Panel::LEFT + MARGIN + if wide > 0 { f64::from(wide) * CELL.0 + GAP + MARGIN } else { 0.0 };
    let below = top + 40.0 + if high > 0 { f64::from(high) * CELL.1 + GAP + 40.0 } else { 0.0 };
    if let Some([a, b]) = &factors {
        a.draw(canvas, Panel::LEFT + MARGIN, below);
        b.draw(canvas, right, top + 40.0);
    }
    d.draw(canvas, right, below);
    let mut y = below + f64::from(rows) * CELL.1 + 26.0;
    let per_register = (32 / element.element().bits).max(1);
    let packed = match per_register {
        1 => String::new(),
        many => format!(" A register of A or B holds {many} neighbours along k."),
    };
    let mut lines = vec![match &factors {
        Some(_) => {
            format!("{atom} of {element}. Numbers are lanes; orange: lane 0, with the number of the element.{packed}")
        }
        None => format!(
            "{atom} of {element}. A and B stay in shared memory, behind descriptors. D: the first eight columns of warp 0; numbers \
             are lanes, and orange is lane 0, with the number of the element. Warp w holds rows 16 w to 16 w + 15, and every eight \
             columns the pattern repeats, four elements on."
        ),
    }];
    if is_transposed(program) {
        lines.push(
            "The kernel computes the transpose: its A is B of the product, transposed, and its D is D transposed."
                .into(),
        );
    }
    for line in lines {
        y = canvas.paragraph(Panel::LEFT, y, Panel::WIDTH, MUTED, &line);
    }
    Ok(y)
}

/// The first instruction that multiplies.
fn instruction(program: &Program) -> Option<Instruction> {
    let mut found = None;
    for role in &program.roles {
        walk(&role.body, &mut |statement| {
            if let Op::Steps { multiply, .. } = &statement.op {
                found = found.or(Some(multiply.by));
            }
        });
    }
    found
}

impl Fragment {
    /// Draws its elements from this corner on.
    fn draw(&self, canvas: &mut Canvas, x: f64, y: f64) {
        let (rows, columns) = self.extent;
        let [down, across] = self.along;
        let title = format!("{}: {rows} × {columns}, {} a lane", self.letter.to_uppercase(), self.map.elements());
        canvas.text(x, y - 20.0, Anchor::Start, Size::Body, INK, title);
        let held = |lane| (0..self.map.elements()).map(move |number| (lane, number));
        let place = |(lane, number)| {
            let ((row, column), (i, j)) = (self.map.first(lane), self.map.position(number));
            [x + CELL.0 * f64::from(column + j), y + CELL.1 * f64::from(row + i), CELL.0 - 1.0, CELL.1 - 1.0]
        };
        let lanes = 0..self.map.threads();
        for (color, of) in [(1, 0..1), (0, 1..lanes.end)] {
            let cells: Vec<[f64; 4]> = of.flat_map(held).map(place).collect();
            canvas.rects(&cells, palette::category(color));
        }
        for (lane, number) in lanes.flat_map(held) {
            let text = if lane == 0 { format!("{}{number}", self.letter) } else { lane.to_string() };
            canvas.within(place((lane, number)), Size::Cell, ON_LIGHT, text);
        }
        let (width, height) = (CELL.0 * f64::from(columns), CELL.1 * f64::from(rows));
        canvas.frame(x, y, width, height, FAINT, 1.0);
        // The first and the last of each, which is enough to count by.
        for row in [0, rows - 1] {
            let at = y + CELL.1 * (f64::from(row) + 0.5) + 4.0;
            canvas.text(x - 5.0, at, Anchor::End, Size::Cell, MUTED, row.to_string());
        }
        for column in [0, columns - 1] {
            let at = x + CELL.0 * (f64::from(column) + 0.5);
            canvas.text(at, y - 5.0, Anchor::Middle, Size::Cell, MUTED, column.to_string());
        }
        canvas.text(x + width / 2.0, y - 5.0, Anchor::Middle, Size::Cell, MUTED, across);
        canvas.upwards(x - 9.0, y + height / 2.0, Anchor::Middle, Size::Cell, MUTED, down);
    }
}
