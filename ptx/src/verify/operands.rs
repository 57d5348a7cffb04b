//! Checks operands against the slots of their instruction's row.

use super::Context;
use crate::asynchronous::CacheHint;
use crate::instruction::{Base, Opcode, Operand, Reg};
use crate::print;
use crate::signature::{Class, Row, Slot, Types, doubled, registers_of, wide_registers_of};
use crate::table;
use crate::types::{Space, Type};

type Checked = Result<(), String>;

/// Number of operands that [`Legal`] lists register types for: a multiply-add has four.
const LISTED: usize = 4;

/// An opcode that was found legal.
pub(super) struct Legal<'i> {
    pub op: &'i Opcode,
    row: Row,
    /// By operand: the register types that need no further check.
    registers: [Types; LISTED],
}

impl<'i> Legal<'i> {
    pub fn new(op: &'i Opcode, row: Row) -> Self {
        let mut registers = [Types::NONE; LISTED];
        for (types, slot) in registers.iter_mut().zip(row.slots) {
            *types = match slot {
                Slot::Write(class) | Slot::Read(class) => registers_of(class_type(&row, *class)),
                Slot::MoveTo | Slot::MoveFrom => registers_of(row.types[0]),
                Slot::WriteLanes | Slot::ReadLanes if row.counts[0] == 1 => wide_registers_of(row.types[0]),
                Slot::Predicates | Slot::Condition => registers_of(Type::Pred),
                _ => Types::NONE,
            };
        }
        Legal { op, row, registers }
    }
}

impl Context<'_> {
    pub(super) fn operands(&self, legal: &Legal<'_>, operands: &[Operand]) -> Checked {
        let row = &legal.row;
        let operands = match (legal.op, operands) {
            (Opcode::Hinted { hints, .. }, [plain @ .., policy]) if hints.policy == CacheHint::L2 => {
                self.register(policy, Type::B64).map_err(|reason| format!("the cache policy: {reason}"))?;
                plain
            }
            (_, operands) => operands,
        };
        let most = row.slots.len();
        if operands.len() > most || operands.len() + row.optional < most {
            let least = most - row.optional;
            let wanted = if least == most { format!("{most}") } else { format!("{least} to {most}") };
            return Err(format!("has {} operands, needs {wanted}", operands.len()));
        }
        for (i, (slot, operand)) in row.slots.iter().zip(operands).enumerate() {
            // Nearly all operands are registers of the right type.
            if let (Some(types), Operand::Reg(reg)) = (legal.registers.get(i), operand)
                && let Some(family) = self.entry.registers.get(usize::from(reg.family))
                && types.has(family.ty)
                && reg.index < family.count.unwrap_or(1)
            {
                continue;
            }
            self.operand(row, *slot, operand)
                .map_err(|reason| format!("operand {} (`{}`): {reason}", i + 1, print::operand(operand, self.entry)))?;
        }
        Ok(())
    }

    fn operand(&self, row: &Row, slot: Slot, operand: &Operand) -> Checked {
        match slot {
            Slot::Write(class) => self.register(operand, class_type(row, class)),
            Slot::WriteOrSink(_) if *operand == Operand::Sink => Ok(()),
            Slot::WriteOrSink(class) => self.register(operand, class_type(row, class)),
            Slot::Read(class) => self.value(operand, class_type(row, class)),
            Slot::WriteWide(class) => self.wide(operand, class_type(row, class)),
            Slot::ReadWide(class) => self.wide_value(operand, class_type(row, class)),
            Slot::WriteLanes => self.lanes(row, operand, |element| match element {
                Operand::Sink => Ok(()),
                element => self.wide(element, row.types[0]),
            }),
            Slot::ReadLanes => self.lanes(row, operand, |element| self.wide_value(element, row.types[0])),
            Slot::WriteVector if *operand == Operand::Sink => Ok(()),
            Slot::WriteVector => self.vector(row, operand, |element| match element {
                Operand::Sink => Ok(()),
                element => self.register(element, row.types[0]),
            }),
            Slot::ReadVector => self.vector(row, operand, |element| self.value(element, row.types[0])),
            Slot::MoveTo => self.move_to(row.types[0], operand),
            Slot::MoveFrom => self.move_from(row.types[0], operand),
            Slot::AddressValue(class) => match operand {
                Operand::Symbol(name) => self.symbol(name, row.space),
                Operand::SymbolOffset(symbol) => self.symbol_offset(symbol, row.space),
                operand => self.register(operand, class_type(row, class)),
            },
            Slot::Predicates => match operand {
                Operand::Pair(pair) => {
                    let (first, second) = &**pair;
                    self.predicate_or_sink(first).and_then(|()| self.predicate_or_sink(second))
                }
                operand => self.register(operand, Type::Pred),
            },
            Slot::WithPredicate(class) => match operand {
                Operand::Pair(pair) => {
                    let (value, predicate) = &**pair;
                    self.register(value, class_type(row, class)).and_then(|()| self.register(predicate, Type::Pred))
                }
                operand => self.register(operand, class_type(row, class)),
            },
            Slot::SinkWithPredicate(class) => match operand {
                Operand::Pair(pair) => {
                    let (value, predicate) = &**pair;
                    if *value != Operand::Sink {
                        self.register(value, class_type(row, class))?;
                    }
                    self.register(predicate, Type::Pred)
                }
                _ => Err("expected a register and a predicate with `|` between them".to_owned()),
            },
            Slot::Condition => self.condition(operand),
            Slot::ThreadsOrCondition => self.condition(operand).or_else(|reason| match operand {
                Operand::Int(value) => in_range(*value, 32, 1024, 32),
                operand => self.register(operand, Type::U32).map_err(|_| reason),
            }),
            Slot::Address => self.address(operand, row.space),
            Slot::AddressIn(space) => self.address(operand, space),
            Slot::Tensor => self.tensor(operand, row.counts[0]),
            Slot::Label => match operand {
                Operand::Label(name) if self.labels.contains(name.as_str()) => Ok(()),
                Operand::Label(_) => Err("the label is not bound".to_owned()),
                _ => Err("expected a label".to_owned()),
            },
            Slot::Targets => match operand {
                Operand::Label(name) if self.targets.contains(name.as_str()) => Ok(()),
                _ => Err("expected the name of a list of labels".to_owned()),
            },
            Slot::Constant { .. } if !matches!(operand, Operand::Int(_)) => {
                Err("expected an integer constant".to_owned())
            }
            Slot::Constant { .. } => constant(slot, operand),
            Slot::Bounded { min, max, step } => match operand {
                Operand::Int(value) => in_range(*value, min, max, step),
                operand => self.register(operand, Type::U32),
            },
            Slot::WriteFragment(n) | Slot::ReadFragment(n) => self.fragment(row, n, operand),
            Slot::DescriptorOrFragment(n) => match operand {
                Operand::Vector(_) => self.fragment(row, n, operand),
                operand => self.register(operand, Type::U64),
            },
            Slot::Sign => match operand {
                Operand::Int(1 | -1) => Ok(()),
                _ => Err("expected 1 or -1".to_owned()),
            },
            Slot::Fraction => match operand {
                Operand::F32(bits) if (0.0..=1.0).contains(&f32::from_bits(*bits)) => Ok(()),
                _ => Err("expected a single-precision constant between 0 and 1".to_owned()),
            },
        }
    }

    /// The type of a register, if its family exists and has it.
    pub(super) fn register_type(&self, reg: Reg) -> Result<Type, String> {
        let family = self.entry.registers.get(usize::from(reg.family));
        let family = family.ok_or_else(|| format!("unknown register family {}", reg.family))?;
        let count = family.count.unwrap_or(1);
        if reg.index >= count {
            return Err(format!("register {} of {count} in `{}`", reg.index, family.prefix));
        }
        Ok(family.ty)
    }

    fn register_among(&self, operand: &Operand, legal: Types, ty: Type) -> Checked {
        let Operand::Reg(reg) = operand else {
            return Err(format!("expected a .{} register", ty.name()));
        };
        let found = self.register_type(*reg)?;
        if legal.has(found) { Ok(()) } else { Err(format!("is .{}, expected .{}", found.name(), ty.name())) }
    }

    fn register(&self, operand: &Operand, ty: Type) -> Checked {
        self.register_among(operand, registers_of(ty), ty)
    }

    fn wide(&self, operand: &Operand, ty: Type) -> Checked {
        self.register_among(operand, wide_registers_of(ty), ty)
    }

    fn value(&self, operand: &Operand, ty: Type) -> Checked {
        match operand {
            // Logical operations on predicates accept negated ones.
            Operand::NotReg(reg) if ty == Type::Pred => self.register(&Operand::Reg(*reg), ty),
            Operand::Reg(_) => self.register(operand, ty),
            operand => immediate(operand, ty),
        }
    }

    fn wide_value(&self, operand: &Operand, ty: Type) -> Checked {
        if let Operand::Reg(_) = operand { self.wide(operand, ty) } else { immediate(operand, ty) }
    }

    fn lanes(&self, row: &Row, operand: &Operand, check: impl Fn(&Operand) -> Checked) -> Checked {
        match (row.counts[0], operand) {
            (1, Operand::Vector(_)) => Err("expected a scalar".to_owned()),
            (1, operand) => check(operand),
            (lanes, Operand::Vector(elements)) if elements.len() == usize::from(lanes) => {
                elements.iter().try_for_each(check)?;
                self.equally_wide(elements)
            }
            (lanes, _) => Err(format!("expected a vector of {lanes}")),
        }
    }

    /// A load or store of a vector may use wider registers, but all of the same width.
    fn equally_wide(&self, elements: &[Operand]) -> Checked {
        let mut width = None;
        for element in elements {
            if let Operand::Reg(reg) = element {
                let bits = self.register_type(*reg)?.bits();
                if *width.get_or_insert(bits) != bits {
                    return Err("its registers differ in width".to_owned());
                }
            }
        }
        Ok(())
    }

    fn vector(&self, row: &Row, operand: &Operand, check: impl Fn(&Operand) -> Checked) -> Checked {
        match operand {
            Operand::Vector(elements) if elements.len() == usize::from(row.counts[0]) => {
                elements.iter().try_for_each(check)
            }
            _ => Err(format!("expected a vector of {}", row.counts[0])),
        }
    }

    fn fragment(&self, row: &Row, n: u8, operand: &Operand) -> Checked {
        let (count, ty) = (row.counts[usize::from(n)], row.types[usize::from(n)]);
        match operand {
            Operand::Vector(elements) if elements.len() == usize::from(count) => {
                elements.iter().try_for_each(|element| self.register(element, ty))
            }
            _ => Err(format!("expected a vector of {count}")),
        }
    }

    fn predicate_or_sink(&self, operand: &Operand) -> Checked {
        if *operand == Operand::Sink { Ok(()) } else { self.register(operand, Type::Pred) }
    }

    fn condition(&self, operand: &Operand) -> Checked {
        match operand {
            Operand::NotReg(reg) => self.register(&Operand::Reg(*reg), Type::Pred),
            Operand::Int(0 | 1) => Ok(()),
            operand => self.register(operand, Type::Pred),
        }
    }

    fn move_to(&self, ty: Type, operand: &Operand) -> Checked {
        match operand {
            Operand::Vector(elements) => self.packed(ty, elements),
            operand => self.register(operand, ty),
        }
    }

    fn move_from(&self, ty: Type, operand: &Operand) -> Checked {
        match operand {
            Operand::Vector(elements) => self.packed(ty, elements),
            Operand::Special(special) => {
                let legal = table::special(*special).types;
                if legal.has(ty) { Ok(()) } else { Err(format!("cannot be read as .{}", ty.name())) }
            }
            Operand::Symbol(name) if matches!(ty.bits(), 32 | 64) && !ty.is_float() => {
                self.symbol(name, Space::Generic)
            }
            Operand::SymbolOffset(symbol) if matches!(ty.bits(), 32 | 64) && !ty.is_float() => {
                self.symbol_offset(symbol, Space::Generic)
            }
            operand => self.value(operand, ty),
        }
    }

    /// Registers packed into one value, the first in the lowest bits.
    fn packed(&self, ty: Type, elements: &[Operand]) -> Checked {
        if !matches!(ty, Type::B16 | Type::B32 | Type::B64 | Type::B128) || !matches!(elements.len(), 2 | 4) {
            return Err("only untyped values of 2 or 4 elements can be packed".to_owned());
        }
        let wanted = match ty.bits() / elements.len() as u32 {
            8 => Type::B8,
            16 => Type::B16,
            32 => Type::B32,
            64 => Type::B64,
            bits => return Err(format!("elements cannot have {bits} bits")),
        };
        elements.iter().try_for_each(|element| match element {
            Operand::Sink => Ok(()),
            element => self.value(element, wanted),
        })
    }

    fn symbol(&self, name: &str, space: Space) -> Checked {
        let declared = self.symbols.get(name).ok_or_else(|| "the name is not declared".to_owned())?;
        let fits = match space {
            Space::Generic => true,
            space if space.is_shared() => declared.is_shared(),
            space => *declared == space,
        };
        if fits { Ok(()) } else { Err(format!("is in .{} memory", declared.name())) }
    }

    fn symbol_offset(&self, (name, offset): &(String, i64), space: Space) -> Checked {
        self.symbol(name, space).and_then(|()| fits_32_bits(*offset))
    }

    fn address(&self, operand: &Operand, space: Space) -> Checked {
        let Operand::Address(address) = operand else {
            return Err("expected an address".to_owned());
        };
        let (base, offset) = &**address;
        fits_32_bits(*offset)?;
        self.base(base, space)
    }

    fn tensor(&self, operand: &Operand, dimensions: u8) -> Checked {
        let Operand::TensorAddress(tensor) = operand else {
            return Err("expected a tensor map and its coordinates".to_owned());
        };
        let (base, coordinates) = &**tensor;
        if coordinates.len() != usize::from(dimensions) {
            return Err(format!("expected {dimensions} coordinates"));
        }
        if let Base::Symbol(_) = base {
            return Err("expected the map's generic address in a register".to_owned());
        }
        self.base(base, Space::Generic)?;
        coordinates.iter().try_for_each(|coordinate| self.value(coordinate, Type::S32))
    }

    fn base(&self, base: &Base, space: Space) -> Checked {
        match base {
            Base::Reg(reg) => {
                let ty = self.register_type(*reg)?;
                // Only the small state spaces have 32-bit addresses.
                let narrow = !matches!(space, Space::Generic | Space::Global);
                let legal = registers_of(Type::U64).has(ty) || (narrow && registers_of(Type::U32).has(ty));
                if legal { Ok(()) } else { Err(format!("a .{} register cannot be an address here", ty.name())) }
            }
            Base::Symbol(name) => self.symbol(name, space),
            // So ptxas says; PTX ISA, "Addresses as operands", names no state space.
            Base::None if space != Space::Local => {
                Err("is a number, and only .local memory has such addresses".to_owned())
            }
            Base::None => Ok(()),
        }
    }
}

fn class_type(row: &Row, class: Class) -> Type {
    match class {
        Class::Type(n) => row.types[usize::from(n)],
        Class::Wide => doubled(row.types[0]),
        Class::Is(ty) => ty,
    }
}

fn fits_32_bits(offset: i64) -> Checked {
    i32::try_from(offset).map(drop).map_err(|_| "the offset does not fit 32 bits".to_owned())
}

/// Checks the value of a constant against the range of an operand that is always one.
pub(super) fn constant(slot: Slot, operand: &Operand) -> Checked {
    match (slot, operand) {
        (Slot::Constant { min, max, step }, Operand::Int(value)) => in_range(*value, min, max, step),
        _ => Ok(()),
    }
}

fn in_range(value: i64, min: i64, max: i64, step: i64) -> Checked {
    match (value, step) {
        (value, _) if value < min || value > max => Err(format!("expected {min} to {max}")),
        (value, step) if value % step != 0 => Err(format!("expected a multiple of {step}")),
        _ => Ok(()),
    }
}

/// A constant of a type: an integer that fits it as signed or unsigned, or a float of the same precision.
fn immediate(operand: &Operand, ty: Type) -> Checked {
    match (operand, ty) {
        (Operand::Int(value), ty) if !ty.is_float() => {
            let bits = ty.bits();
            // NVRTC writes -1 for true.
            let fits = bits >= 64 || ty == Type::Pred || (-(1i64 << (bits - 1))..1i64 << bits).contains(value);
            if fits { Ok(()) } else { Err(format!("does not fit .{}", ty.name())) }
        }
        (Operand::F32(_), Type::F32 | Type::B32) | (Operand::F64(_), Type::F64 | Type::B64) => Ok(()),
        _ => Err(format!("is not a .{} value", ty.name())),
    }
}
