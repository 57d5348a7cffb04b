//! A tile of D that warps write to its stage as matrices of 8 x 8 16-bit elements (`stmatrix`).
//!
//! Tensor cores leave a lane two adjacent columns of a row of each matrix, which is the layout that `stmatrix` takes.
//! One instruction stores four matrices (16 rows, 16 columns), or two where a warp, or a panel of D, has an odd number of
//! 8-column matrices. Lane `8 i + r` provides the address of line r of matrix i. Where the lines of D run along m, the matrices
//! are transposed on the way.

use std::ops::Range;

use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::types::Layout;

use super::super::expression::{Element, per_row};
use super::super::shared::SharedAddress;
use super::super::{Lowered, Lowering};
use super::{Axis, Held, SourceOfC};
use crate::kernel::{Access, Address, Expr, Math, Op, Reg, Value};
use crate::origin::Site;
use crate::tile::MATRIX;

/// Rows of a thread in a block of matrices, and columns in a block of four.
const ROWS: usize = 2;
const COLUMNS: usize = 4;

impl Axis {
    /// Some of the thread's elements.
    fn part(&self, part: &Range<usize>) -> Axis {
        Axis { positions: self.positions[part.clone()].to_vec(), ..self.clone() }
    }
}

/// The addresses that a lane provides, by the distance of a block of matrices from the warp's first one.
struct Lines {
    address: SharedAddress,
    /// If the stage is in slots: the address of its panel, and of the panels after it.
    panels: Vec<Expr>,
}

/// A block of matrices: the thread's columns in it, and the address of the line that this lane provides.
struct Block {
    columns: usize,
    address: Address,
}

/// The word of a block that contains the thread's element in row `i` and column `j`.
fn word(i: usize, j: usize) -> usize {
    j / 2 * ROWS + i
}

impl Lowering<'_> {
    /// Applies the epilogue and writes the tile to the stage, two matrices high and two wide at a time.
    pub(super) fn stage_matrices(
        &mut self,
        held: &Held,
        (rows, cols): (&Axis, &Axis),
        c: Option<(&SourceOfC, Option<Reg>)>,
        vectors: &[(Expr, Access)],
        at_edge: bool,
    ) -> Lowered<()> {
        let vectors = self.load_vectors([rows, cols], vectors, at_edge, &held.note);
        let layout = self.program.problem.layouts.d;
        let by_rows = layout == Layout::Row;
        let (outer, inner) = if by_rows { (rows, cols) } else { (cols, rows) };
        let of_rows: Vec<Range<usize>> = (0..rows.positions.len()).step_by(ROWS).map(|row| row..row + ROWS).collect();
        let of_cols = self.the_stage()?.blocks(&cols.positions, layout);
        let (lines, elements) = if by_rows { (&of_rows, &of_cols) } else { (&of_cols, &of_rows) };
        let addresses = self.matrix_addresses(rows, cols)?;
        let plane = match c {
            Some((SourceOfC::Global(plane), reads)) => Some((plane, reads)),
            _ => None,
        };
        let mut c_line = plane.map(|(plane, _)| plane.base.clone());
        let mut last = 0;
        for line in lines {
            let of_lines = outer.part(line);
            let mut at_c = Vec::new();
            for position in &of_lines.positions {
                if let (Some((plane, _)), Some(at)) = (plane, &mut c_line) {
                    if *position > last {
                        self.b.origin(&held.note, "advance to the next line of D");
                        *at = self.b.set(at.clone() + plane.lines(layout, position - last));
                    }
                    at_c.push(at.clone());
                }
                last = *position;
            }
            for element in elements {
                let (row, col) = if by_rows { (line.start, element) } else { (element.start, line) };
                let address = self.matrix_address(&addresses, (rows, row), (cols, col), held)?;
                let of_elements = inner.part(element);
                let edge = at_edge.then(|| self.edge(&of_elements));
                // By line, then element.
                let mut c_regs: Vec<Vec<Reg>> = Vec::new();
                for (line, at) in at_c.iter().enumerate() {
                    let guards = edge.as_ref().map(|edge| self.line_guards(edge, &of_lines, line as u32));
                    if let Some((plane, reads)) = plane {
                        c_regs.push(self.load_c(
                            (plane, line),
                            layout,
                            at,
                            &of_elements,
                            reads,
                            (guards.as_deref(), &held.note),
                        ));
                    }
                }
                let staged = match c {
                    Some((SourceOfC::Stage, reads)) => self.load_matrices_of_c(&address, reads, held),
                    _ => Vec::new(),
                };
                let of_c = |i: usize, j: usize| {
                    let (line, element) = if by_rows { (i, j) } else { (j, i) };
                    let in_global = c_regs.get(line).map(|line| line[element]);
                    in_global.or_else(|| staged.get(word(i, j) * 2 + j % 2).copied())
                };
                self.store_matrices(held, &address, (row, col.start), &vectors, of_c)?;
            }
        }
        Ok(())
    }

    /// Reads a block of matrices of C from the places of those of D, in the accumulator's type: two elements from each
    /// word.
    fn load_matrices_of_c(&mut self, block: &Block, reads: Option<Reg>, held: &Held) -> Vec<Reg> {
        self.b.origin_at(Site::LoadMatricesOfC, &held.note, "matrices of C in shared memory");
        let words = self.b.fresh_many(self.families.word, block.columns / 2 * ROWS);
        let guard = self.guarded(&words, reads);
        let transposed = self.program.problem.layouts.d == Layout::Col;
        self.b.push(Op::LoadMatrices { dst: words.clone(), address: block.address, transposed, guard });
        self.b.origin(&held.note, "their elements");
        let raw = self.pool_c(2 * words.len(), 0);
        for (word, pair) in words.iter().zip(raw.chunks(2)) {
            for (half, dst) in [Math::First, Math::Second].into_iter().zip(pair) {
                self.b.math(half, *dst, vec![Value::Reg(*word)]);
            }
        }
        self.widen_c(raw, &held.note)
    }

    /// The address of this lane's line in a block of matrices of the thread's row `row` and of the columns `block`.
    fn matrix_address(
        &mut self,
        (wide, narrow): &(Lines, Option<Lines>),
        (rows, row): (&Axis, usize),
        (cols, block): (&Axis, &Range<usize>),
        held: &Held,
    ) -> Lowered<Block> {
        let columns = block.len();
        self.b.origin_at(Site::StagedTile, &held.note, "D's tile in shared memory");
        let lines = if columns == COLUMNS { wide } else { narrow.as_ref().unwrap_or(wide) };
        let (panel, distance) = self.stage_distance(rows.positions[row], cols.positions[block.start])?;
        let (base, offset) = lines.address.at(distance)?;
        let base = lines.panels.get(panel as usize).map_or(base.clone(), |panel| self.b.set(base + panel.clone()));
        Ok(Block { columns, address: Address { base: self.b.set_reg(base), offset: i64::from(offset) } })
    }

    /// Stores a block of matrices that begins at the thread's row `row` and column `col`.
    fn store_matrices(
        &mut self,
        held: &Held,
        block: &Block,
        (row, col): (usize, usize),
        vectors: &[Vec<Reg>],
        of_c: impl Fn(usize, usize) -> Option<Reg>,
    ) -> Lowered<()> {
        self.values.used = 0;
        self.b.origin_at(Site::ValueOfD, &held.note, "value of D");
        let per_rows: Vec<bool> = self.program.problem.epilogue.vectors.iter().map(|v| per_row(v.axis)).collect();
        let mut words = Vec::new();
        for pair in (0..block.columns).step_by(2) {
            for i in 0..ROWS {
                let mut values = Vec::new();
                for j in pair..pair + 2 {
                    let of = |(regs, row_wise): (&Vec<Reg>, &bool)| regs[if *row_wise { row + i } else { col + j }];
                    let vectors = vectors.iter().zip(&per_rows).map(of).collect();
                    let acc = held.regs[(row + i) * held.columns as usize + col + j];
                    let value = self.evaluate(&Element { acc, c: of_c(i, j), vectors })?;
                    values.push(match value {
                        Value::Reg(_) => value,
                        Value::Const(_) => self.apply(Math::Mov, vec![value]),
                    });
                }
                let word = self.b.fresh(self.families.word);
                self.b.math(Math::ConvertPair(self.types.d), word, values);
                words.push(word);
            }
        }
        self.b.origin_at(Site::StagedTile, &held.note, "D's tile in shared memory");
        let transposed = self.program.problem.layouts.d == Layout::Col;
        self.b.push(Op::StoreMatrices { src: words, address: block.address, transposed });
        Ok(())
    }

    /// The line addresses that this lane provides for blocks of four matrices, and for blocks of two if there are any.
    fn matrix_addresses(&mut self, rows: &Axis, cols: &Axis) -> Lowered<(Lines, Option<Lines>)> {
        let (stage, note) = (self.the_stage()?.clone(), self.epilogue_note());
        self.b.origin_at(Site::LineOfMatrix, &note, "the line of a matrix of D that this lane points at");
        let (warp_row, warp_col) = self.warp_coordinates()?;
        let lane = self.b.set(self.role.tid.clone() % WARP);
        let (line, below) = (lane.clone() % MATRIX, (lane.clone() / MATRIX) % 2u32);
        let right = lane / (2 * MATRIX);
        let all = stage.blocks(&cols.positions, self.program.problem.layouts.d);
        let starts = |wide: bool| -> Lowered<Vec<u32>> {
            let firsts = all.iter().filter(|block| (block.len() == COLUMNS) == wide).map(|block| block.start);
            let firsts: Vec<u32> = firsts.map(|first| cols.positions[first]).collect();
            let pairs = rows.positions.iter().step_by(ROWS);
            let blocks = pairs.flat_map(|row| firsts.iter().map(move |col| (*row, *col)));
            blocks.map(|(row, col)| Ok(self.stage_distance(row, col)?.1)).collect()
        };
        let (of_wide, of_narrow) = (starts(true)?, starts(false)?);
        let start = self.stage_start()?;
        let along = if self.program.problem.layouts.d == Layout::Row { cols } else { rows };
        let last = along.positions.last().map_or(0, |last| last / stage.pitch);
        let mut address = |right: Expr, distances: Vec<u32>| -> Lowered<Lines> {
            let (row, col) = (warp_row.clone() + below.clone() * MATRIX, warp_col.clone() + right * MATRIX);
            let (row, col) = match self.program.problem.layouts.d {
                Layout::Row => (row + line.clone(), col),
                Layout::Col => (row, col + line.clone()),
            };
            let (line, element) = if self.program.problem.layouts.d == Layout::Row { (row, col) } else { (col, row) };
            let panels = self.panels_from(&element, last)?;
            let offset = self.stage_offset(line, element)?;
            let offset = self.b.set(offset);
            Ok(Lines { address: SharedAddress::new(&mut self.b, start, offset, stage.swizzle, distances), panels })
        };
        let wide = address(right, of_wide)?;
        let narrow = if of_narrow.is_empty() { None } else { Some(address(Expr::Const(0), of_narrow)?) };
        Ok((wide, narrow))
    }

    /// If the stage is in slots: the address of the panel of an element, and of up to `last` later panels.
    fn panels_from(&mut self, element: &Expr, last: u32) -> Lowered<Vec<Expr>> {
        if self.program.lent().is_none() {
            return Ok(Vec::new());
        }
        let first = self.panel_of(element, 0)?;
        (0..=last).map(|panel| self.panel_in_slots(first.clone() + panel)).collect()
    }

    /// The byte distance between elements of the stage that are this many rows and columns apart. In slots: the number
    /// of panels between them, and the bytes within a panel.
    fn stage_distance(&self, row: u32, col: u32) -> Lowered<(u32, u32)> {
        let at = if self.program.problem.layouts.d == Layout::Row { (row, col) } else { (col, row) };
        let stage = self.the_stage()?;
        let (panel, at) = match self.program.lent() {
            None => (0, at),
            Some(_) => (at.1 / stage.pitch, (at.0, at.1 % stage.pitch)),
        };
        Ok((panel, stage.distance(self.program.lines(), self.program.problem.types.d, at)))
    }
}
