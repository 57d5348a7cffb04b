//! `wmma`: fragments with a layout that is opaque to the program.

use arrayvec::ArrayVec;
use ptx_gemm_ptx::instruction::{Opcode, Operand};
use ptx_gemm_ptx::matrix::{Element, Layout, Overflow, Part, Shape};
use ptx_gemm_ptx::types::{Space, Type};

use super::Decoder;
use super::memory::state_space;
use super::tensor_core::UNFIT;
use crate::op::{Factor, Fragment, FragmentMultiply, FragmentProduct, Op, Pointer, Slot, Sum, Way};

impl Decoder<'_> {
    pub(super) fn wmma_access(
        &mut self,
        (way, part): (Way, Part),
        (layout, shape, space, element): (Layout, Shape, Space, Element),
        [address, values]: [&Operand; 2],
        stride: &[Operand],
    ) -> Result<Op, String> {
        let stride = match stride {
            [] => None,
            [stride] => Some(self.r32(stride, Type::U32)?),
            _ => return Err(UNFIT.into()),
        };
        let values = self.wmma_registers(values, part.registers(shape, element))?;
        let space = state_space(space);
        let (base, offset) = self.address(address, space)?;
        let (address, bits) = (Pointer { space, base, offset }, element.bits() as u8);
        self.code.fragments.push(Fragment { way, part, layout, shape, bits, address, stride, values });
        Ok(Op::Fragment { index: self.code.fragments.len() as u32 - 1 })
    }

    pub(super) fn wmma_multiply(&mut self, opcode: &Opcode, operands: [&Operand; 4]) -> Result<Op, String> {
        let sum = |element: Element| match element {
            Element::F32 => Ok(Sum::F32),
            Element::F16 => Ok(Sum::F16),
            _ => Err(UNFIT.to_owned()),
        };
        let (layouts, shape, [d, ab, c], product) = match *opcode {
            Opcode::WmmaMultiply { layouts, shape, rnd, d, ab, c, overflow } => {
                let (signed, saturates) = (matches!(ab, Element::S8 | Element::S4), overflow == Overflow::Satfinite);
                let product = match ab {
                    Element::F16 => FragmentProduct::Half(Factor::F16, [sum(d)?, sum(c)?]),
                    Element::Bf16 => FragmentProduct::Half(Factor::Bf16, [sum(d)?, sum(c)?]),
                    Element::Tf32 => FragmentProduct::Tf32,
                    Element::F64 => FragmentProduct::Double(rnd),
                    Element::S8 | Element::U8 | Element::S4 | Element::U4 => {
                        FragmentProduct::Integers { bits: ab.bits() as u8, signed, saturates }
                    }
                    _ => return Err(UNFIT.into()),
                };
                (layouts, shape, [d, ab, c], product)
            }
            Opcode::WmmaBits { xor } => {
                let of = [Element::S32, Element::B1, Element::S32];
                ([Layout::Row, Layout::Col], Shape::new(8, 8, 128), of, FragmentProduct::Bits { xor })
            }
            _ => return Err(UNFIT.into()),
        };
        let [to, left, right, from] = operands;
        let multiply = FragmentMultiply {
            layouts,
            shape,
            product,
            d: self.wmma_registers(to, Part::D.registers(shape, d))?,
            a: self.wmma_registers(left, Part::A.registers(shape, ab))?,
            b: self.wmma_registers(right, Part::B.registers(shape, ab))?,
            c: self.wmma_registers(from, Part::C.registers(shape, c))?,
        };
        self.code.fragment_multiplies.push(multiply);
        Ok(Op::FragmentMultiply { index: self.code.fragment_multiplies.len() as u32 - 1 })
    }

    fn wmma_registers(&mut self, operand: &Operand, count: u8) -> Result<ArrayVec<Slot, 8>, String> {
        let Operand::Vector(values) = operand else { return Err(UNFIT.into()) };
        let mut registers = ArrayVec::new();
        for value in values {
            registers.try_push(self.destination(value)?).map_err(|_| UNFIT)?;
        }
        if registers.len() == usize::from(count) { Ok(registers) } else { Err(UNFIT.into()) }
    }
}
