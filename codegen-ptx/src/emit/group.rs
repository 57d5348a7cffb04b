//! Products of warp groups.

use ptx_gemm_ptx::instruction::{Opcode, Operand};
use ptx_gemm_ptx::matrix::{Element, Overflow, Shape};

use super::Emitter;
use crate::kernel::{GroupShape, Reg, Type};

impl Emitter<'_> {
    /// `wgmma`: neither operand is negated.
    pub(super) fn group_product(&mut self, acc: &[Reg], [a, b, add]: [Reg; 3], shape: &GroupShape) {
        let factor = if shape.factor == Type::Bf16 { Element::Bf16 } else { Element::F16 };
        let extents = Shape::new(64, shape.columns as u16, shape.depth as u16);
        let op = Opcode::Wgmma { shape: extents, overflow: Overflow::Wrap, d: Element::F32, a: factor, b: factor };
        let mut operands = vec![self.data(acc, &[])];
        operands.extend([a, b, add].map(|reg| Operand::from(self.reg(reg))));
        operands.extend([Operand::Int(1), Operand::Int(1)]);
        operands.extend(shape.transposed.map(|transposed| Operand::Int(transposed.into())));
        self.entry.emit(op, operands);
    }
}
