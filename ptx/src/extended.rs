//! Modifiers of instructions that this project's compiler does not emit, and other makers' PTX has.

use crate::instruction::{Opcode, Rounding};
use crate::names::words;
use crate::types::Type;

/// Arithmetic on numbers of several registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum CarryOf {
    Add,
    Sub,
    MadLo,
    MadHi,
}

/// Where `prmt` with a mode takes its bytes from; the selector's two lowest bits say from which on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are PTX's own
pub enum Permutation {
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

words!(Permutation { F4e "f4e", B4e "b4e", Rc8 "rc8", Ecl "ecl", Ecr "ecr", Rc16 "rc16" });

impl Permutation {
    /// The eight source bytes' numbers that a selector means, as the selector of a plain `prmt`.
    pub const fn selector(self, control: u32) -> u32 {
        let table: [u32; 4] = match self {
            Permutation::F4e => [0x3210, 0x4321, 0x5432, 0x6543],
            Permutation::B4e => [0x5670, 0x6701, 0x7012, 0x0123],
            Permutation::Rc8 => [0x0000, 0x1111, 0x2222, 0x3333],
            Permutation::Ecl => [0x3210, 0x3211, 0x3222, 0x3333],
            Permutation::Ecr => [0x0000, 0x1110, 0x2210, 0x3210],
            Permutation::Rc16 => [0x1010, 0x3232, 0x1010, 0x3232],
        };
        table[(control & 3) as usize]
    }
}

/// Whether there is such an instruction: `.ftz` is about single and half precision, `.sat` about sums and products.
pub(crate) fn may_be_modified(op: &Opcode, ftz: bool, sat: bool) -> bool {
    use Type::{F16, F16x2, F32, S32};
    let sum = |ty: Type| match ty {
        F32 | F16 | F16x2 => true,
        S32 => !ftz,
        _ => false,
    };
    match op {
        Opcode::Add { ty, .. } | Opcode::Sub { ty, .. } => sum(*ty),
        Opcode::Mul { ty, .. } | Opcode::Fma { ty, .. } => sum(*ty),
        _ if sat => false,
        Opcode::Min { ty, .. } | Opcode::Max { ty, .. } | Opcode::Setp { ty, .. } => matches!(ty, F32 | F16 | F16x2),
        Opcode::Abs(ty) | Opcode::Neg(ty) => matches!(ty, F32 | F16 | F16x2),
        Opcode::Div { ty, .. } | Opcode::DivFast { ty, .. } => *ty == F32,
        Opcode::Rcp { ty, .. } | Opcode::Sqrt { ty, .. } | Opcode::Approx { ty, .. } => *ty == F32,
        Opcode::Cvt { rnd, to, from, .. } => (*to == F32 || *from == F32) && *rnd != Rounding::Rna,
        _ => false,
    }
}
