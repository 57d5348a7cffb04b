//! Products of warps (`mma`): `ldmatrix` reads matrices of eight rows of 16 bytes from shared memory.
//!
//! A product over 32 bytes of k takes four matrices for 16 rows of A, and two for 8 columns of B; one over 16 bytes takes
//! half of that. A warp reads four matrices at once, those of 16 or 32 rows or columns; fewer if it has fewer. Lane
//! `8 i + r` provides the address of row r of matrix i. In memory a matrix has rows along the contiguous dimension; if that
//! is not k, matrices of 16-bit elements are transposed on the way. The matrices of a step may be read into other registers
//! while those of the previous step are multiplied. Lanes load elements of 64 bits one by one. Numbers of f32 are rounded to
//! tf32 once they are in registers.

use std::ops::Range;

use ptx_gemm_dsl::atoms::Unit;
use ptx_gemm_dsl::target::WARP;
use ptx_gemm_dsl::terms::{Fast, Reads, Side};

use super::pipeline::Pipeline;
use super::shared::SharedAddress;
use super::slot::FragmentBase;
use super::stream::offset;
use super::{Lowered, Lowering, broken, index, letter};
use crate::kernel::{Address, Expr, Factor, Math, Op as KernelOp, Reg, Value};
use crate::origin::Site;
use crate::tile::{
    self, Buffer, Fetch, Hold, Instruction, MATRIX, MATRIX_BYTES, MMA, Note, Op, Source, Span, Statement,
};

/// Most matrices that a warp reads at once.
const MOST: u32 = 4;

/// Steps of k, and rows or columns, of the elements of 64 bits that a warp loads at once: lane l has step l % 4 of row or
/// column l / 4 (PTX ISA, "Matrix fragments for mma.m16n8k16 with .f64").
const ELEMENTS: (u32, u32) = (4, MATRIX);

/// The matrices of one operand.
struct Matrices<'a> {
    side: Side,
    buffer: &'a Buffer,
    /// Rows or columns that are read at once, and the start of each such block of a warp.
    rows: u32,
    blocks: Vec<u32>,
    address: SharedAddress,
    ahead: u32,
    /// Rows and extent along k of a product, and extent along k of a matrix.
    shape: (u32, u32),
    row: u32,
    note: Note,
}

impl Matrices<'_> {
    /// Number of matrices that are read at once.
    fn at_once(&self) -> usize {
        (self.rows / MATRIX * (self.shape.1 / self.row)) as usize
    }
}

impl<'a> Lowering<'a> {
    /// Whether a buffer is read as matrices.
    pub(super) fn reads_matrices(&self, buffer: usize, body: &[Statement]) -> bool {
        let mut found = false;
        tile::walk(body, &mut |statement| {
            if let Op::Steps { fetches, .. } = &statement.op {
                let reads = |fetch: &Fetch| fetch.hold == Hold::Matrices && fetch.from == Source::Buffer(buffer);
                found |= fetches.iter().any(|(fetch, _)| reads(fetch));
            }
        });
        found
    }

    /// Rows or columns that are read at once, and the start of each such block of a warp. A block is contiguous.
    fn matrix_blocks(&self, side: Side, (rows_of_a, depth): (u32, u32)) -> Lowered<(u32, Vec<u32>)> {
        let map = self.role.map.ok_or_else(|| broken("a role that multiplies has no accumulators"))?;
        let (rows, columns) = map.pieces(rows_of_a);
        // Elements that are loaded one by one gain nothing from blocks of several products.
        let most = if self.one_by_one(side) { 1 } else { MOST / (depth / self.matrix_row(side)) };
        let (pieces, atom) = if side == Side::A { (rows, rows_of_a) } else { (columns, MMA.n) };
        let together = |count: &u32| {
            let adjacent = |pieces: &[u32]| pieces.windows(2).all(|pair| pair[1] == pair[0] + atom);
            *count > 0 && pieces.len().is_multiple_of(*count as usize) && pieces.chunks(*count as usize).all(adjacent)
        };
        let counts = [most, most / 2, 1].map(|matrices| matrices * MATRIX / atom);
        let count = counts.into_iter().find(together).unwrap_or(1);
        Ok((count * atom, pieces.into_iter().step_by(count as usize).collect()))
    }

    /// Elements in a row of a matrix.
    fn matrix_row(&self, side: Side) -> u32 {
        if self.one_by_one(side) { ELEMENTS.0 } else { MATRIX_BYTES / self.program.element(side).bytes() }
    }

    /// Whether lanes load the elements of an operand one by one: `ldmatrix` would give a lane half of one of 64 bits.
    fn one_by_one(&self, side: Side) -> bool {
        self.program.element(side).bytes() == 8
    }

    /// Rows and extent along k of the products of a body.
    fn extents_of_product(body: &[Statement]) -> (u32, u32) {
        let mut found = (MMA.m, MMA.k);
        tile::walk(body, &mut |statement| {
            if let Op::Steps { multiply, .. } = &statement.op
                && let Instruction::Mma { rows, depth } = multiply.by
            {
                found = (rows, depth);
            }
        });
        found
    }

    /// The address of the matrix row that this lane provides, or of the element that it loads, for the first block and step
    /// in slot 0.
    pub(super) fn matrix_base(&mut self, buffer: usize, body: &[Statement]) -> Lowered<FragmentBase> {
        let Buffer { side, fast, pitch, swizzle, offset_bytes, ref note, .. } = self.program.buffers[buffer];
        let (extents, along_k) = (Self::extents_of_product(body), self.matrix_row(side));
        let depth = extents.1;
        let (rows, blocks) = self.matrix_blocks(side, extents)?;
        self.b.origin_at(
            Site::RowOfMatrix,
            note,
            &format!("the row of a matrix of {} that this lane points at", letter(side)),
        );
        let (warp_row, warp_col) = self.warp_coordinates()?;
        let lane = self.b.set(self.role.tid.clone() % WARP);
        let row = lane.clone() % MATRIX;
        let middle = (lane.clone() / MATRIX) % 2u32;
        let high = lane / (2 * MATRIX);
        // Matrices in the order in which `mma` takes them: of A along m first, of B along k first.
        let (first, own, k) = match side {
            _ if depth == along_k => {
                let own = self.b.set((self.role.tid.clone() % WARP) / MATRIX);
                let own = own % (rows / MATRIX);
                (if side == Side::A { warp_row } else { warp_col }, own, Expr::Const(0))
            }
            Side::A => (warp_row, middle, high),
            Side::B if rows == MATRIX => (warp_col, Expr::Const(0), middle),
            Side::B => (warp_col, high, middle),
        };
        let (own, k) = match fast {
            _ if self.one_by_one(side) => {
                let lane = self.b.set(self.role.tid.clone() % WARP);
                (first + lane.clone() / ELEMENTS.0, lane % ELEMENTS.0)
            }
            Fast::K => (first + own * MATRIX + row, k * along_k),
            Fast::Mn => (first + own * MATRIX, k * MATRIX + row),
        };
        let (slow, along) = if fast == Fast::K { (own, k) } else { (k, own) };
        let offset = self.b.set((slow * pitch + along) * self.program.element(side).bytes());
        let mut steps = Vec::new();
        tile::walk(body, &mut |statement| {
            if let Op::Steps { span: Span::Tile(range), .. } = &statement.op {
                steps.extend(range.clone().step_by(depth as usize));
            }
        });
        let bytes = self.program.element(side).bytes();
        let parts = self.parts(side, (rows, depth));
        let distances: Vec<u32> = steps
            .iter()
            .flat_map(|step| blocks.iter().map(move |block| (block, step)))
            .flat_map(|(block, step)| {
                parts.iter().map(move |(own, k)| self::offset(fast, pitch, bytes, block + own, step + k))
            })
            .collect();
        let address = SharedAddress::new(&mut self.b, offset_bytes, offset.clone(), swizzle, distances);
        Ok(FragmentBase { offset, address })
    }

    /// The distances, in rows or columns and in steps, of what a lane reads of a block from the first: one instruction reads
    /// all matrices, and each element of 64 bits has its own, in the order in which `mma` takes them.
    fn parts(&self, side: Side, (rows, depth): (u32, u32)) -> Vec<(u32, u32)> {
        if !self.one_by_one(side) {
            return vec![(0, 0)];
        }
        let (steps, own) = ELEMENTS;
        let along_k = (0..depth).step_by(steps as usize);
        along_k.flat_map(|k| (0..rows).step_by(own as usize).map(move |row| (row, k))).collect()
    }

    /// Lowers the steps of a K-tile that warps multiply.
    pub(super) fn warp_steps(
        &mut self,
        pipeline: &Pipeline<'a>,
        (fetches, note): (&[(Fetch, Note)], &Note),
        (acc, extents): (usize, (u32, u32)),
        steps: &Range<u32>,
    ) -> Lowered<()> {
        let (rows_of_a, depth) = extents;
        let mut operands = Vec::new();
        for (fetch, fetch_note) in fetches {
            let Source::Buffer(index) = fetch.from else { return Err(broken("matrices are read from a buffer")) };
            let buffer = &self.program.buffers[index];
            let (base, read) = pipeline.reading(self.program, index)?;
            self.b.origin(&buffer.note, &format!("matrices of {} in the slot", letter(fetch.side)));
            let address = base.address.in_slot(&mut self.b, &read);
            let (rows, blocks) = self.matrix_blocks(fetch.side, extents)?;
            let (side, ahead, note, row) = (fetch.side, fetch.ahead, fetch_note.clone(), self.matrix_row(fetch.side));
            operands.push(Matrices { side, buffer, rows, blocks, address, ahead, shape: extents, row, note });
        }
        operands.sort_by_key(|of| index(of.side));
        let [a, b] = operands.as_slice() else { return Err(broken("a multiply needs matrices of A and of B")) };
        for of in [a, b].into_iter().filter(|of| of.ahead > 0) {
            self.load_matrices(of, steps.start)?;
        }
        let parts = (depth / a.row) as usize;
        for step in steps.clone().step_by(depth as usize) {
            for of in [a, b] {
                let read = step + of.ahead;
                if read < steps.end {
                    self.load_matrices(of, read)?;
                }
            }
            self.b.origin_at(Site::TensorCoreProduct, note, &format!("multiply, steps {step} to {}", step + depth - 1));
            let (of_a, of_b) = (self.matrix_set(a, step), self.matrix_set(b, step));
            let map = &self.program.accumulators[acc].map;
            let shape = self.product_shape(Unit::Warp, extents, MMA.n, [false; 2])?;
            let (rows, columns) = map.pieces(rows_of_a);
            let sums_of_product = rows_of_a * MMA.n / WARP;
            let held = (sums_of_product / self.types.per_register()) as usize;
            let registers_of_a = parts * (rows_of_a / MATRIX) as usize;
            for (tile, sums) in self.products.acc[acc].clone().chunks(held).enumerate() {
                let (m, n) = map.position(tile as u32 * sums_of_product);
                let piece = rows.binary_search(&m).ok().zip(columns.binary_search(&n).ok());
                let (row, column) = piece.ok_or_else(|| broken("a product is outside its own map"))?;
                let a = Factor::Registers(of_a[registers_of_a * row..][..registers_of_a].to_vec());
                let b = Factor::Registers(of_b[parts * column..][..parts].to_vec());
                self.b.push(KernelOp::TensorProduct { acc: sums.to_vec(), a, b, add: None, shape });
            }
        }
        Ok(())
    }

    /// The registers of an operand's matrices at a step. The sets alternate where the next step's matrices are read
    /// meanwhile.
    fn matrix_set(&mut self, of: &Matrices<'_>, step: u32) -> Vec<Reg> {
        let set = if of.ahead > 0 { (step / of.shape.1 % 2) as usize } else { 0 };
        let count = of.blocks.len() * of.at_once();
        let family = self.families.matrix[index(of.side)];
        let pool = &mut self.products.matrix_pool[index(of.side)];
        while pool.len() <= set {
            pool.push(self.b.fresh_many(family, count));
        }
        pool[set].clone()
    }

    /// Reads an operand's matrices at a step.
    fn load_matrices(&mut self, of: &Matrices<'_>, step: u32) -> Lowered<()> {
        let Buffer { fast, pitch, side, .. } = *of.buffer;
        let set = self.matrix_set(of, step);
        let bytes = self.program.element(side).bytes();
        self.b.origin(&of.note, &format!("matrices of {}, steps {step} to {}", letter(side), step + of.shape.1 - 1));
        for (block, dst) in of.blocks.iter().zip(set.chunks(of.at_once())) {
            if self.one_by_one(side) {
                for (reg, (own, k)) in dst.iter().zip(self.parts(side, (of.rows, of.shape.1))) {
                    let (base, offset) = of.address.at(offset(fast, pitch, bytes, block + own, step + k))?;
                    self.b.load_shared(vec![*reg], &base, i64::from(offset), Reads::Movable);
                }
                continue;
            }
            let (base, offset) = of.address.at(offset(fast, pitch, bytes, *block, step))?;
            let address = Address { base: self.b.set_reg(base), offset: i64::from(offset) };
            let transposed = fast == Fast::Mn;
            self.b.push(KernelOp::LoadMatrices { dst: dst.to_vec(), address, transposed, guard: None });
        }
        if self.program.element(side).is_rounded() {
            self.b.origin(&of.note, &format!("{}, rounded to tf32", letter(side)));
            set.iter().for_each(|reg| self.b.math(Math::Tf32, *reg, vec![Value::Reg(*reg)]));
        }
        Ok(())
    }
}
