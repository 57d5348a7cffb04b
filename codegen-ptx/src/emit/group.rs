//! Matrices of warps, and products of warps and warp groups.

use ptx_gemm_dsl::atoms::{Multiply, Unit};
use ptx_gemm_dsl::types::DType;
use ptx_gemm_ptx::instruction::{Opcode, Operand};
use ptx_gemm_ptx::matrix::{Element, Overflow, Shape, Transpose};
use ptx_gemm_ptx::types::Space;

use super::Emitter;
use crate::kernel::{Address, GroupShape, Guard, Reg, Type};

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

    /// `mma.m16n8k…` over 32 or 16 bytes of k.
    pub(super) fn warp_product(&mut self, acc: &[Reg], a: &[Reg], b: &[Reg], factors: [DType; 2]) {
        // Each of 32 threads holds 16 k / 32 elements of A in registers of 32 bits.
        let k = a.len() as u32 * 64 / factors[0].element().bits;
        let (shape, sums, [of_a, of_b]) = (Shape::new(16, 8, k as u16), self.sums(acc), factors.map(element));
        let op = Opcode::Mma { shape, overflow: Overflow::Wrap, d: sums, a: of_a, b: of_b, c: sums };
        let operands = [acc, a, b, acc].map(|regs| self.vector(regs));
        self.entry.emit(op, operands);
    }

    /// `wgmma`: neither operand is negated.
    pub(super) fn group_product(&mut self, acc: &[Reg], [a, b, add]: [Reg; 3], shape: &GroupShape) {
        let [of_a, of_b] = shape.factors.map(element);
        let extents = Shape::new(64, shape.columns as u16, shape.depth as u16);
        let op = Opcode::Wgmma { shape: extents, overflow: Overflow::Wrap, d: self.sums(acc), a: of_a, b: of_b };
        let mut operands = vec![self.vector(acc)];
        operands.extend([a, b, add].map(|reg| Operand::from(self.reg(reg))));
        // Integers have no signs to choose, and types of other than 16 bits no order (PTX ISA, "wgmma.mma_async").
        if !shape.factors[0].is_integer() {
            operands.extend([Operand::Int(1), Operand::Int(1)]);
        }
        if Multiply::of(Unit::WarpGroup, shape.factors[0]).any(Multiply::reads_any_order) {
            operands.extend(shape.transposed.map(|transposed| Operand::Int(transposed.into())));
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
