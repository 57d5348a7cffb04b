//! Faults in what is computed and accessed: constants, offsets, operations, registers.

use ptx_gemm_runtime::ptx::instruction::{Base, Compare, Instruction, Opcode, Operand, Reg};
use ptx_gemm_runtime::ptx::matrix::Transpose;
use ptx_gemm_runtime::ptx::module::Statement;
use ptx_gemm_runtime::ptx::types::Type;

use super::Maker;
use super::order::is_synchronisation;
use crate::mutants::MutantKind;

impl Maker<'_> {
    pub(super) fn numbers(&mut self, instruction: &Instruction) {
        let edited = |index: usize, operand: Operand| {
            let mut edited = instruction.clone();
            edited.operands[index] = operand;
            vec![edited]
        };
        let counts_itself = is_synchronisation(&instruction.op)
            || matches!(
                instruction.op,
                Opcode::MbarrierInit { .. } | Opcode::CpAsync { .. } | Opcode::Shfl(_) | Opcode::Wgmma { .. }
            );
        for (index, operand) in instruction.operands.iter().enumerate() {
            match operand {
                Operand::Int(value) if !counts_itself => {
                    let bound = matches!(instruction.op, Opcode::Setp { .. });
                    let kind = if bound { MutantKind::Bound } else { MutantKind::Constant };
                    // The constants of a descriptor have all 64 bits.
                    self.push(kind, edited(index, Operand::Int(value.wrapping_add(1))));
                    if *value > 0 {
                        self.push(kind, edited(index, Operand::Int(value - 1)));
                    }
                    if !bound && *value > 1 {
                        self.push(kind, edited(index, Operand::Int(value.wrapping_mul(2))));
                    }
                }
                Operand::Address(address) if !matches!(address.0, Base::Symbol(_)) && address.0 != Base::None => {
                    let (base, offset) = &**address;
                    let element = element_bytes(&instruction.op);
                    for step in [element, -element] {
                        let moved = Operand::address(base.clone(), offset + step);
                        self.push(MutantKind::Offset, edited(index, moved));
                    }
                }
                // `ld.param` of another parameter of the same type.
                Operand::Address(address) => {
                    let (Base::Symbol(name), offset) = (&address.0, address.1) else { continue };
                    let params = &self.entry.params;
                    let Some(place) = params.iter().position(|param| param.name == **name) else { continue };
                    let next = (1..params.len()).map(|step| &params[(place + step) % params.len()]);
                    if let Some(other) = next.into_iter().find(|param| param.ty == params[place].ty) {
                        let other = Operand::address(other.name.as_str(), offset);
                        self.push(MutantKind::OtherParameter, edited(index, other));
                    }
                }
                _ => {}
            }
        }
    }

    /// Products of tensor cores with a switch the other way: D added to or not, a sign, a transposition; with another
    /// swizzle; and with two registers of a fragment swapped.
    pub(super) fn tensor_core(&mut self, instruction: &Instruction) {
        let edited = |index: usize, operand: Operand| {
            let mut edited = instruction.clone();
            edited.operands[index] = operand;
            vec![edited]
        };
        match &instruction.op {
            Opcode::Wgmma { .. } => {
                for (index, operand) in instruction.operands.iter().enumerate() {
                    let Operand::Int(value) = operand else { continue };
                    // The two after scale-d are signs.
                    let other = if matches!(index, 4 | 5) { -value } else { 1 - (*value).clamp(0, 1) };
                    self.push(MutantKind::Switch, edited(index, Operand::Int(other)));
                }
            }
            Opcode::LdMatrix { matrices, transpose, space } => {
                let transpose = transposed(*transpose);
                let op = Opcode::LdMatrix { matrices: *matrices, transpose, space: *space };
                self.push(MutantKind::Switch, vec![Instruction { op, ..instruction.clone() }]);
            }
            Opcode::StMatrix { matrices, transpose, space } => {
                let transpose = transposed(*transpose);
                let op = Opcode::StMatrix { matrices: *matrices, transpose, space: *space };
                self.push(MutantKind::Switch, vec![Instruction { op, ..instruction.clone() }]);
            }
            // The swizzle of a descriptor is in its two highest bits.
            Opcode::Or(Type::B64) => {
                for (index, operand) in instruction.operands.iter().enumerate() {
                    let Operand::Int(value) = operand else { continue };
                    if (*value as u64) >> 62 != 0 {
                        let other = (*value as u64).wrapping_add(1 << 62) as i64;
                        self.push(MutantKind::Switch, edited(index, Operand::Int(other)));
                    }
                }
            }
            _ => {}
        }
        let fragments = matches!(
            instruction.op,
            Opcode::Mma { .. } | Opcode::Wgmma { .. } | Opcode::LdMatrix { .. } | Opcode::StMatrix { .. }
        );
        for (index, operand) in instruction.operands.iter().enumerate().filter(|_| fragments) {
            let Operand::Vector(registers) = operand else { continue };
            if registers.len() > 1 && registers[0] != registers[1] {
                let mut registers = registers.clone();
                registers.swap(0, 1);
                self.push(MutantKind::SwappedOperands, edited(index, Operand::Vector(registers)));
            }
        }
    }

    pub(super) fn operations(&mut self, instruction: &Instruction) {
        let with = |op: Opcode| vec![Instruction { op, ..instruction.clone() }];
        let narrower = |vector: u8| if vector > 2 { vector / 2 } else { 1 };
        let other = match &instruction.op {
            Opcode::Add { rnd, ty } => Some(Opcode::Sub { rnd: *rnd, ty: *ty }),
            Opcode::Sub { rnd, ty } => Some(Opcode::Add { rnd: *rnd, ty: *ty }),
            Opcode::Min { nan, ty } => Some(Opcode::Max { nan: *nan, ty: *ty }),
            Opcode::Max { nan, ty } => Some(Opcode::Min { nan: *nan, ty: *ty }),
            Opcode::And(ty) => Some(Opcode::Or(*ty)),
            Opcode::Or(ty) => Some(Opcode::And(*ty)),
            Opcode::Xor(ty) if *ty != Type::Pred => Some(Opcode::Or(*ty)),
            Opcode::Shl(ty) => Some(Opcode::Shr(*ty)),
            Opcode::Shr(ty) => Some(Opcode::Shl(bits(*ty))),
            _ => None,
        };
        if let Some(op) = other {
            self.push(MutantKind::OtherOperation, with(op));
        }
        match &instruction.op {
            Opcode::Setp { cmp, ty } => {
                for cmp in other_comparisons(*cmp) {
                    self.push(MutantKind::Comparison, with(Opcode::Setp { cmp, ty: *ty }));
                }
            }
            Opcode::Ld { vector, .. } | Opcode::St { vector, .. } if *vector > 1 => {
                let mut edited = instruction.clone();
                if let Opcode::Ld { vector, .. } | Opcode::St { vector, .. } = &mut edited.op {
                    *vector = narrower(*vector);
                    let left = usize::from(*vector);
                    for operand in &mut edited.operands {
                        if let Operand::Vector(elements) = operand {
                            elements.truncate(left);
                            if let ([one], 1) = (elements.as_slice(), left) {
                                *operand = one.clone();
                            }
                        }
                    }
                }
                self.push(MutantKind::NarrowVector, vec![edited]);
            }
            Opcode::Fma { rnd, ty } => {
                if let ([d, a, b, c], Some(product)) = (instruction.operands.as_slice(), self.scratch_register(*ty)) {
                    let product = Operand::Reg(product);
                    let multiply = Instruction {
                        op: Opcode::Mul { rnd: *rnd, ty: *ty },
                        operands: vec![product.clone(), a.clone(), b.clone()],
                        ..instruction.clone()
                    };
                    let add = Instruction {
                        op: Opcode::Add { rnd: *rnd, ty: *ty },
                        operands: vec![d.clone(), product, c.clone()],
                        ..instruction.clone()
                    };
                    self.push(MutantKind::RoundedTwice, vec![multiply, add]);
                }
            }
            _ => {}
        }
    }

    pub(super) fn registers(&mut self, instruction: &Instruction) {
        let edited = |index: usize, operand: Operand| {
            let mut edited = instruction.clone();
            edited.operands[index] = operand;
            vec![edited]
        };
        let stores = matches!(instruction.op, Opcode::St { .. } | Opcode::Red { .. });
        let first_source = usize::from(!stores);
        for (index, operand) in instruction.operands.iter().enumerate().skip(first_source) {
            let Operand::Reg(reg) = operand else { continue };
            let count = self.entry.registers.get(usize::from(reg.family)).and_then(|family| family.count).unwrap_or(1);
            if count > 1 {
                let next = Reg { index: (reg.index + 1) % count, ..*reg };
                self.push(MutantKind::OtherRegister, edited(index, Operand::Reg(next)));
            }
        }
        let ordered = matches!(
            instruction.op,
            Opcode::Sub { .. } | Opcode::Setp { .. } | Opcode::Selp(_) | Opcode::Div { .. } | Opcode::Rem(_)
        );
        let swaps = [(1, 2), (2, 3)].into_iter().filter(|(a, b)| match &instruction.op {
            // The addend for a factor; factors commute.
            Opcode::Fma { .. } | Opcode::MadInt { .. } => (*a, *b) == (2, 3),
            _ => ordered && (*a, *b) == (1, 2),
        });
        for (a, b) in swaps {
            if instruction.operands.len() > b && instruction.operands[a] != instruction.operands[b] {
                let mut edited = instruction.clone();
                edited.operands.swap(a, b);
                self.push(MutantKind::SwappedOperands, vec![edited]);
            }
        }
    }

    /// Two neighbours, at least one of which writes memory.
    pub(super) fn swapped_accesses(&mut self, instruction: &Instruction) {
        let body = &self.entry.body;
        let Some(Statement::Instruction(next)) = body.get(self.at + 1) else { return };
        let writes = |op: &Opcode| matches!(op, Opcode::St { .. } | Opcode::Red { .. } | Opcode::CpAsync { .. });
        let orders = |op: &Opcode| is_synchronisation(op) || matches!(op, Opcode::Atom { .. });
        if (writes(&instruction.op) && orders(&next.op)) || (orders(&instruction.op) && writes(&next.op)) {
            let by = vec![body[self.at + 1].clone(), body[self.at].clone()];
            self.replace(MutantKind::SwappedAccesses, 2, by);
        }
    }
}

/// Comparisons that differ for one number, and for many.
fn other_comparisons(cmp: Compare) -> Vec<Compare> {
    match cmp {
        Compare::Lt => vec![Compare::Le, Compare::Ge],
        Compare::Le => vec![Compare::Lt, Compare::Gt],
        Compare::Gt => vec![Compare::Ge, Compare::Le],
        Compare::Ge => vec![Compare::Gt, Compare::Lt],
        Compare::Eq => vec![Compare::Ne],
        Compare::Ne => vec![Compare::Eq],
        _ => Vec::new(),
    }
}

/// Bytes of one element of an access.
fn element_bytes(op: &Opcode) -> i64 {
    match op {
        Opcode::Ld { ty, .. } | Opcode::St { ty, .. } | Opcode::Atom { ty, .. } | Opcode::Red { ty, .. } => {
            i64::from(ty.bits() / 8).max(1)
        }
        _ => 16,
    }
}

fn bits(ty: Type) -> Type {
    match ty.bits() {
        64 => Type::B64,
        16 => Type::B16,
        _ => Type::B32,
    }
}

fn transposed(transpose: Transpose) -> Transpose {
    match transpose {
        Transpose::No => Transpose::Yes,
        Transpose::Yes => Transpose::No,
    }
}
