//! `wmma`: fragments with a layout that is opaque to the program.

use arrayvec::ArrayVec;
use ptx_gemm_ptx::instruction::{Opcode, Operand};
use ptx_gemm_ptx::matrix::{Element, Layout, Overflow, Part, Shape};
use ptx_gemm_ptx::types::{Space, Type};

use super::Decoder;
use super::memory::state_space;
use super::tensor_core::UNFIT;
use crate::op::{Factor, Fragment, FragmentMultiply, Op, Pointer, R32, Sum, Way};

impl Decoder<'_> {
    pub(super) fn wmma_access(
        &mut self,
        (way, part): (Way, Part),
        (layout, shape, space, element): (Layout, Shape, Space, Element),
        [address, values]: [&Operand; 2],
        stride: &[Operand],
    ) -> Result<Op, String> {
        if !supported(shape) || !matches!(element.bits(), 8 | 16 | 32) {
            return Err(format!("wmma of {shape} in .{} is not supported", element.name()));
        }
        let stride = match stride {
            [] => None,
            [stride] => Some(self.r32(stride, Type::U32)?),
            _ => return Err(UNFIT.into()),
        };
        let values = self.wmma_registers(values, part.registers(shape, element))?;
        let space = state_space(space);
        let (base, offset) = self.address(address, space)?;
        let (address, bytes) = (Pointer { space, base, offset }, (element.bits() / 8) as u8);
        self.code.fragments.push(Fragment { way, part, layout, shape, bytes, address, stride, values });
        Ok(Op::Fragment { index: self.code.fragments.len() as u32 - 1 })
    }

    pub(super) fn wmma_multiply(&mut self, opcode: &Opcode, operands: [&Operand; 4]) -> Result<Op, String> {
        let &Opcode::WmmaMultiply { layouts, shape, d, ab, c, overflow } = opcode else { return Err(UNFIT.into()) };
        let factor = match ab {
            Element::F16 | Element::S8 | Element::U8 => Factor::F16,
            Element::Bf16 => Factor::Bf16,
            _ => return Err(UNFIT.into()),
        };
        if !supported(shape) {
            return Err(format!("wmma of {shape} is not supported"));
        }
        let sum = |element: Element| match element {
            Element::F32 => Ok(Sum::F32),
            Element::F16 => Ok(Sum::F16),
            Element::S32 => Ok(Sum::S32),
            _ => Err(UNFIT.to_owned()),
        };
        let [to, left, right, from] = operands;
        let multiply = FragmentMultiply {
            layouts,
            shape,
            factor,
            sums: [sum(d)?, sum(c)?],
            bytes: (ab.bits() == 8).then_some([ab == Element::S8, overflow == Overflow::Satfinite]),
            d: self.wmma_registers(to, Part::D.registers(shape, d))?,
            a: self.wmma_registers(left, Part::A.registers(shape, ab))?,
            b: self.wmma_registers(right, Part::B.registers(shape, ab))?,
            c: self.wmma_registers(from, Part::C.registers(shape, c))?,
        };
        self.code.fragment_multiplies.push(multiply);
        Ok(Op::FragmentMultiply { index: self.code.fragment_multiplies.len() as u32 - 1 })
    }

    fn wmma_registers(&mut self, operand: &Operand, count: u8) -> Result<ArrayVec<R32, 8>, String> {
        let Operand::Vector(values) = operand else { return Err(UNFIT.into()) };
        let mut registers = ArrayVec::new();
        for value in values {
            registers.try_push(self.d32(value)?).map_err(|_| UNFIT)?;
        }
        if registers.len() == usize::from(count) { Ok(registers) } else { Err(UNFIT.into()) }
    }
}

fn supported(shape: Shape) -> bool {
    matches!((shape.m, shape.n, shape.k), (16, 16, 16) | (32, 8, 16) | (8, 32, 16))
}
