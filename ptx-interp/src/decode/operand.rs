//! Converts operands to slots.

use ptx_gemm_ptx::instruction::{Operand, Reg, Special};
use ptx_gemm_ptx::types::Type;

use super::symbols::Symbol;
use super::{Decoder, Width};
use crate::address::StateSpace;
use crate::op::{Constant, P, R32, R64, Slot};

impl Decoder<'_> {
    /// The slot of a register, assigned at its first use.
    pub(super) fn register(&mut self, reg: Reg) -> Result<Slot, String> {
        if let Some(&slot) = self.registers.get(&(reg.family, reg.index)) {
            return Ok(slot);
        }
        let family =
            self.entry.registers.get(usize::from(reg.family)).ok_or("the register's family is not declared")?;
        let name = match family.count {
            None => family.prefix.clone(),
            Some(_) => format!("{}{}", family.prefix, reg.index),
        };
        let slot = match family.ty.bits() {
            1 => {
                self.names_pred.push(name);
                Slot::P(P(self.names_pred.len() as u32 - 1))
            }
            64 => Slot::R64(self.new64(name)),
            128 => return Err(format!("a register of 128 bits, {name}, does not fit here")),
            _ => Slot::R32(self.new32(name)),
        };
        self.registers.insert((reg.family, reg.index), slot);
        Ok(slot)
    }

    /// The halves of 128 bits, the lower one first: a register, or two of 64 bits.
    pub(super) fn halves(&mut self, operand: &Operand) -> Result<[R64; 2], String> {
        match operand {
            Operand::Vector(halves) => match halves.as_slice() {
                [low, high] => Ok([self.half64(low)?, self.half64(high)?]),
                _ => Err("128 bits are packed from two registers of 64".into()),
            },
            Operand::Sink => Ok([self.sink64(); 2]),
            Operand::Reg(reg) => {
                let key = (reg.family, reg.index);
                if let Some(&halves) = self.registers128.get(&key) {
                    return Ok(halves);
                }
                let family =
                    self.entry.registers.get(usize::from(reg.family)).ok_or("the register's family is not declared")?;
                let name = family.count.map_or(family.prefix.clone(), |_| format!("{}{}", family.prefix, reg.index));
                let halves = [self.new64(format!("{name} (low)")), self.new64(format!("{name} (high)"))];
                self.registers128.insert(key, halves);
                Ok(halves)
            }
            _ => Err("expected a register of 128 bits".into()),
        }
    }

    /// A half, to read or to write.
    fn half64(&mut self, operand: &Operand) -> Result<R64, String> {
        match operand {
            Operand::Sink => Ok(self.sink64()),
            Operand::Reg(_) => self.d64(operand),
            _ => self.r64(operand, Type::B64),
        }
    }

    fn new32(&mut self, name: String) -> R32 {
        self.names32.push(name);
        R32(self.names32.len() as u32 - 1)
    }

    fn new64(&mut self, name: String) -> R64 {
        self.names64.push(name);
        R64(self.names64.len() as u32 - 1)
    }

    pub(super) fn constant32(&mut self, constant: Constant) -> R32 {
        if let Some(&Slot::R32(slot)) = self.constants.get(&(constant, Width::Narrow)) {
            return slot;
        }
        let slot = self.new32(constant_name(constant));
        self.code.constants32.push((slot, constant));
        self.constants.insert((constant, Width::Narrow), Slot::R32(slot));
        slot
    }

    pub(super) fn constant64(&mut self, constant: Constant) -> R64 {
        if let Some(&Slot::R64(slot)) = self.constants.get(&(constant, Width::Wide)) {
            return slot;
        }
        let slot = self.new64(constant_name(constant));
        self.code.constants64.push((slot, constant));
        self.constants.insert((constant, Width::Wide), Slot::R64(slot));
        slot
    }

    fn constant_pred(&mut self, constant: Constant) -> P {
        if let Some((known, _)) = self.code.constants_pred.iter().find(|(_, known)| *known == constant) {
            return *known;
        }
        self.names_pred.push(constant_name(constant));
        let slot = P(self.names_pred.len() as u32 - 1);
        self.code.constants_pred.push((slot, constant));
        slot
    }

    /// A source of at most 32 bits.
    pub(super) fn r32(&mut self, operand: &Operand, ty: Type) -> Result<R32, String> {
        match operand {
            Operand::Reg(reg) => match self.register(*reg)? {
                Slot::R32(slot) => Ok(slot),
                slot => Err(self.wrong_width(slot, ty)),
            },
            Operand::Special(special) => Ok(self.constant32(Constant::Special(*special))),
            Operand::Symbol(name) => self.symbol32(name, 0),
            Operand::SymbolOffset(symbol) => self.symbol32(&symbol.0, symbol.1),
            other => {
                let bits = immediate(other, ty)?;
                Ok(self.constant32(Constant::Value(bits)))
            }
        }
    }

    /// A 64-bit source.
    pub(super) fn r64(&mut self, operand: &Operand, ty: Type) -> Result<R64, String> {
        match operand {
            Operand::Reg(reg) => match self.register(*reg)? {
                Slot::R64(slot) => Ok(slot),
                slot => Err(self.wrong_width(slot, ty)),
            },
            Operand::Special(special) => Ok(self.constant64(Constant::Special(*special))),
            Operand::Symbol(name) => self.symbol64(name, 0),
            Operand::SymbolOffset(symbol) => self.symbol64(&symbol.0, symbol.1),
            other => {
                let bits = immediate(other, ty)?;
                Ok(self.constant64(Constant::Value(bits)))
            }
        }
    }

    /// A source predicate without negation; an immediate is true unless it is 0.
    pub(super) fn pred(&mut self, operand: &Operand) -> Result<P, String> {
        match operand {
            Operand::Int(value) => Ok(self.constant_pred(Constant::Value(u64::from(*value != 0)))),
            Operand::Special(special) => Ok(self.constant_pred(Constant::Special(*special))),
            Operand::Reg(reg) => match self.register(*reg)? {
                Slot::P(slot) => Ok(slot),
                slot => Err(self.wrong_width(slot, Type::Pred)),
            },
            _ => Err("expected a predicate register".into()),
        }
    }

    /// A source with the width of a type.
    pub(super) fn source(&mut self, operand: &Operand, ty: Type) -> Result<Slot, String> {
        Ok(match ty.bits() {
            1 => Slot::P(self.pred(operand)?),
            64 => Slot::R64(self.r64(operand, ty)?),
            128 => return Err("a value of 128 bits does not fit here".into()),
            _ => Slot::R32(self.r32(operand, ty)?),
        })
    }

    /// A destination register of any width; `_` becomes a slot that is never read.
    pub(super) fn destination(&mut self, operand: &Operand) -> Result<Slot, String> {
        match operand {
            Operand::Reg(reg) => self.register(*reg),
            Operand::Sink => Ok(Slot::R64(self.sink64())),
            _ => Err("the destination is not a register".into()),
        }
    }

    fn sink64(&mut self) -> R64 {
        match self.names64.iter().position(|name| name == "_") {
            Some(index) => R64(index as u32),
            None => self.new64("_".into()),
        }
    }

    /// A 32-bit slot that is never read.
    pub(super) fn sink32(&mut self) -> R32 {
        match self.names32.iter().position(|name| name == "_") {
            Some(index) => R32(index as u32),
            None => self.new32("_".into()),
        }
    }

    pub(super) fn d32(&mut self, operand: &Operand) -> Result<R32, String> {
        match self.destination(operand)? {
            Slot::R32(slot) => Ok(slot),
            slot => Err(self.wrong_width(slot, Type::B32)),
        }
    }

    pub(super) fn d64(&mut self, operand: &Operand) -> Result<R64, String> {
        match self.destination(operand)? {
            Slot::R64(slot) => Ok(slot),
            slot => Err(self.wrong_width(slot, Type::B64)),
        }
    }

    /// A destination predicate, or `_`.
    pub(super) fn dp(&mut self, operand: &Operand) -> Result<P, String> {
        match operand {
            Operand::Sink => Ok(self.sink),
            Operand::Int(_) => Err("an immediate cannot be a destination".into()),
            other => self.pred(other),
        }
    }

    fn symbol32(&mut self, name: &str, offset: i64) -> Result<R32, String> {
        let constant = match self.symbol_address(name, offset)? {
            Constant::Value(address) => Constant::Value(address & u64::from(u32::MAX)),
            constant => constant,
        };
        Ok(self.constant32(constant))
    }

    fn symbol64(&mut self, name: &str, offset: i64) -> Result<R64, String> {
        let constant = match self.symbols.get(name) {
            Some(Symbol { space: StateSpace::Global, address }) => Constant::Global(address as u32, offset),
            _ => self.symbol_address(name, offset)?,
        };
        Ok(self.constant64(constant))
    }

    /// An address within its own space.
    fn symbol_address(&self, name: &str, offset: i64) -> Result<Constant, String> {
        match self.symbols.get(name) {
            Some(Symbol { space: StateSpace::Shared, address }) => {
                Ok(Constant::Shared(address.wrapping_add_signed(offset)))
            }
            Some(symbol) => Ok(Constant::Value(symbol.address.wrapping_add_signed(offset))),
            None => Err(format!("`{name}` is not a variable or parameter with an address in this interpreter")),
        }
    }

    fn wrong_width(&self, slot: Slot, ty: Type) -> String {
        let name = match slot {
            Slot::R32(slot) => &self.names32[slot.0 as usize],
            Slot::R64(slot) => &self.names64[slot.0 as usize],
            Slot::P(slot) => &self.names_pred[slot.0 as usize],
        };
        format!("register {name} does not have the width of .{}", ty.name())
    }
}

/// The bits of an immediate as an operand of this type; floats are rounded to the type.
fn immediate(operand: &Operand, ty: Type) -> Result<u64, String> {
    let bits = match (operand, ty) {
        (Operand::Int(value), Type::F32) => u64::from((*value as f32).to_bits()),
        (Operand::Int(value), Type::F64) => (*value as f64).to_bits(),
        (Operand::Int(value), _) => *value as u64,
        (Operand::F32(bits), Type::F64) => f64::from(f32::from_bits(*bits)).to_bits(),
        (Operand::F32(bits), _) => u64::from(*bits),
        (Operand::F64(bits), Type::F32) => u64::from((f64::from_bits(*bits) as f32).to_bits()),
        (Operand::F64(bits), _) if ty.bits() == 64 => *bits,
        _ => return Err(format!("an operand of type .{} is not allowed here", ty.name())),
    };
    Ok(match ty.bits() {
        8 => bits & 0xff,
        16 => bits & 0xffff,
        32 => bits & 0xffff_ffff,
        _ => bits,
    })
}

fn constant_name(constant: Constant) -> String {
    match constant {
        Constant::Value(value) | Constant::Shared(value) => format!("{value}"),
        Constant::Global(number, 0) => format!("variable {number}"),
        Constant::Global(number, offset) => format!("variable {number} + {offset}"),
        Constant::Special(special) => format!("{special:?}"),
    }
}

/// Whether a special register changes while a warp runs.
pub(super) fn is_clock(special: Special) -> bool {
    use Special::*;
    matches!(special, Clock | ClockHi | Clock64 | GlobalTimer | GlobalTimerLo | GlobalTimerHi)
}
