//! Tensor maps: what a caller encodes for the matrices that TMA copies.

use ptx_gemm_dsl::terms::{Fast, Operand, Param, Side, Swizzle};
use ptx_gemm_dsl::types::{Batch, DType, Layout};

use super::grid::{Extents, Narrow};
use super::{Mover, Op, Program, param_name};

/// The boxes in which a matrix is copied. They and the operand's address and shape determine the tensor map to encode.
///
/// Dimensions are innermost first: the contiguous one, the other one, and in a batch the products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The matrix.
    pub operand: Operand,
    /// Type of the elements.
    pub dtype: DType,
    /// Planes of each matrix; 1 if it has none.
    pub planes: u32,
    /// Elements of a box along the contiguous dimension, and rows of it.
    pub row: u32,
    /// Rows of a box.
    pub rows: u32,
    /// Narrow tiles: `rows` is then the number of a whole tile's box, if the rows of a box are columns of the tile.
    pub narrow: Option<Narrow>,
    /// The permutation of the box's bytes in shared memory.
    pub swizzle: Swizzle,
}

impl TensorMap {
    /// The boxes of a matrix that is copied by TMA.
    pub fn of(program: &Program, operand: Operand) -> Option<TensorMap> {
        if matches!(operand, Operand::C | Operand::D) {
            let stage = program.stage.as_ref()?;
            let rows = if operand == Operand::C { program.boxes_of_c() } else { program.boxes_of_d() }?;
            let (dtype, swizzle, narrow) = (program.problem.types.of(operand), stage.swizzle, Narrow::of(program));
            return Some(TensorMap { operand, dtype, planes: 1, row: stage.pitch, rows, narrow, swizzle });
        }
        program.statements().into_iter().find_map(|statement| {
            let Op::Copy { buffer, by: Mover::Tma { rows, .. }, .. } = statement.op else { return None };
            let buffer = program.buffers.get(buffer).filter(|buffer| buffer.side.operand() == operand)?;
            let (dtype, planes) = (program.element(buffer.side), program.planes(buffer.side).map_or(1, |of| of.count));
            let (row, swizzle) = (buffer.panel_row(), buffer.swizzle);
            let narrow = Narrow::of(program).filter(|_| buffer.side == Side::B);
            Some(TensorMap { operand, dtype, planes, row, rows, narrow, swizzle })
        })
    }

    /// Rows of a box, for a product of these extents.
    pub fn box_rows(&self, extents: Extents) -> u32 {
        self.narrow.map_or(self.rows, |narrow| narrow.box_rows(self.rows, extents))
    }

    /// A description of the map for a caller that encodes it.
    pub fn about(&self, program: &Program) -> String {
        let TensorMap { operand, dtype, planes, row, rows, narrow, swizzle } = self;
        let problem = &program.problem;
        let extent = |param: Param| param_name(&problem.asked_param(&param), problem);
        let (m, n) = (extent(Param::M), extent(Param::N));
        let (side, own) = if *operand == Operand::B { (Side::B, n.as_str()) } else { (Side::A, m.as_str()) };
        let (inner, outer) = match (operand, problem.layouts.d) {
            (Operand::C | Operand::D, Layout::Row) => (n.as_str(), m.as_str()),
            (Operand::C | Operand::D, Layout::Col) => (m.as_str(), n.as_str()),
            _ if program.copied_fast(side) == Fast::K => ("k", own),
            _ => (own, "k"),
        };
        let name = problem.asked_operand(*operand).name();
        let bytes = dtype.bytes();
        let (pitch, stride, copy) = match program.packed(side).filter(|_| matches!(operand, Operand::A | Operand::B)) {
            None => (format!("ld{name}"), format!("stride_{name}"), ""),
            Some(pack) => {
                let pitch = format!("({inner} rounded up to {})", pack.align(program));
                (
                    pitch.clone(),
                    format!("{outer} * {pitch}"),
                    if *planes > 1 { ", in planes" } else { ", or of its copy" },
                )
            }
        };
        let stride = || format!(", {bytes} * {stride}");
        let (dims, strides, boxed) = match (problem.batch, planes) {
            (Batch::One | Batch::Grouped, 1) => (String::new(), String::new(), ""),
            (Batch::One | Batch::Grouped, planes) => (format!(", {planes}"), stride(), ", 1"),
            (Batch::Strided, 1) => (", batch".to_string(), stride(), ", 1"),
            (Batch::Strided, planes) => (format!(", batch * {planes}"), stride(), ", 1"),
        };
        let asked = [Param::M, Param::N].map(|param| param_name(&param, problem));
        let rows = narrow.map_or(rows.to_string(), |narrow| narrow.box_formula(*rows, (&asked[0], &asked[1])));
        let swizzle = match swizzle {
            Swizzle::None => "none".to_string(),
            Swizzle::Bytes(span) => format!("{span} B"),
        };
        format!(
            "tensor map of {}{copy}: {dtype}, dims ({inner}, {outer}{dims}), strides ({bytes} * {pitch}{strides}) B, box \
             ({row}, {rows}{boxed}), swizzle {swizzle}, zeros outside",
            name.to_uppercase()
        )
    }
}
