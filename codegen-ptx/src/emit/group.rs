//! Matrices of warps, and products of warps and warp groups.

use ptx_gemm_dsl::atoms::Unit;
use ptx_gemm_dsl::types::DType;
use ptx_gemm_ptx::instruction::{Opcode, Operand};
use ptx_gemm_ptx::matrix::{Element, Overflow, Shape, Transpose};
use ptx_gemm_ptx::types::Space;

use super::Emitter;
use crate::kernel::{Address, Factor, Guard, ProductShape, Reg, Type};

/// The name of an element type in the instructions of matrices.
fn element(dtype: DType) -> Element {
    match dtype {
        DType::F64 => Element::F64,
        DType::F32 => Element::F32,
        DType::Tf32 => Element::Tf32,
        DType::F16 => Element::F16,
        DType::Bf16 => Element::Bf16,
        DType::E4m3 => Element::E4m3,
        DType::E5m2 => Element::E5m2,
        DType::I8 => Element::S8,
        DType::U8 => Element::U8,
        DType::I32 => Element::S32,
    }
}

impl Emitter<'_> {
    /// `ldmatrix`.
    pub(super) fn load_matrices(&mut self, dst: &[Reg], address: &Address, transposed: bool, guard: Option<Guard>) {
        let transpose = if transposed { Transpose::Yes } else { Transpose::No };
        let op = Opcode::LdMatrix { matrices: dst.len() as u8, transpose, space: Space::Shared };
        let operands = [self.vector(dst), self.address(address)];
        self.emit(guard, op, operands);
    }

    /// `stmatrix`.
    pub(super) fn store_matrices(&mut self, src: &[Reg], address: &Address, transposed: bool) {
        let transpose = if transposed { Transpose::Yes } else { Transpose::No };
        let op = Opcode::StMatrix { matrices: src.len() as u8, transpose, space: Space::Shared };
        let operands = [self.address(address), self.vector(src)];
        self.entry.emit(op, operands);
    }

    /// `mma`, or `wgmma`, which negates neither operand.
    pub(super) fn tensor_product(
        &mut self,
        acc: &[Reg],
        factors: [&Factor; 2],
        add: Option<Reg>,
        shape: &ProductShape,
    ) {
        let ProductShape { row, columns, transposed, .. } = *shape;
        let extents = Shape::new(row.rows as u16, columns as u16, row.depth as u16);
        let (overflow, sums, [a, b]) = (Overflow::Wrap, self.sums(acc), shape.factors.map(element));
        let op = match row.unit {
            Unit::Warp => Opcode::Mma { shape: extents, overflow, d: sums, a, b, c: sums },
            Unit::WarpGroup => Opcode::Wgmma { shape: extents, overflow, d: sums, a, b },
        };
        let mut operands = vec![self.vector(acc)];
        operands.extend(factors.map(|factor| match factor {
            Factor::Registers(regs) => self.vector(regs),
            Factor::Descriptor(reg) => Operand::from(self.reg(*reg)),
        }));
        operands.push(match add {
            None => self.vector(acc),
            Some(add) => Operand::from(self.reg(add)),
        });
        if row.unit == Unit::WarpGroup {
            // Integers have no signs to choose, and types of other than 16 bits no order (PTX ISA, "wgmma.mma_async").
            if !shape.factors[0].is_integer() {
                operands.extend([Operand::Int(1), Operand::Int(1)]);
            }
            if row.reads_any_order() {
                operands.extend(transposed.map(|transposed| Operand::Int(transposed.into())));
            }
        }
        self.entry.emit(op, operands);
    }

    /// The accumulator type of a product: that of its registers, or f16 where a register holds two accumulators. The verifier
    /// admits no others, and no product without accumulators.
    fn sums(&self, acc: &[Reg]) -> Element {
        match acc.first().map(|reg| self.kernel.ty(*reg)) {
            Some(Type::Word) => Element::F16,
            Some(Type::F32) => Element::F32,
            Some(Type::S32) => Element::S32,
            Some(Type::F64) => Element::F64,
            other => unreachable!("accumulators in {other:?}"),
        }
    }

    /// Any number of registers in braces.
    fn vector(&self, regs: &[Reg]) -> Operand {
        Operand::Vector(regs.iter().map(|reg| self.reg(*reg).into()).collect())
    }
}
