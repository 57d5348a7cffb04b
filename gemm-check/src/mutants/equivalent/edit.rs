//! What an edit does to an instruction, for the families to ask about.

use ptx_gemm_runtime::ptx::instruction::{Compare, Instruction, Opcode, Operand};

use crate::mutants::Mutant;

/// The last operand, if it is a number.
fn number(instruction: &Instruction) -> Option<u64> {
    match instruction.operands.last() {
        Some(Operand::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// The number at the end of the instruction before and after the edit.
pub(super) fn numbers(mutant: &Mutant) -> Option<(u64, u64)> {
    number(&mutant.was).zip(mutant.becomes().and_then(number))
}

/// The opcode that replaces another one.
pub(super) fn becomes(mutant: &Mutant) -> Option<&Opcode> {
    mutant.becomes().map(|instruction| &instruction.op)
}

pub(super) fn any_edit(_: &Mutant) -> bool {
    true
}

/// Whether the last operand was this number.
pub(super) fn had(mutant: &Mutant, wanted: u64) -> bool {
    number(&mutant.was) == Some(wanted)
}

pub(super) fn had_number(mutant: &Mutant) -> bool {
    number(&mutant.was).is_some()
}

pub(super) fn compares(mutant: &Mutant) -> bool {
    matches!(mutant.was.op, Opcode::Setp { .. })
}

/// Whether a comparison is replaced by this one.
pub(super) fn compares_by(mutant: &Mutant, wanted: Compare) -> bool {
    matches!(becomes(mutant), Some(Opcode::Setp { cmp, .. }) if *cmp == wanted)
}

pub(super) fn sets(mutant: &Mutant) -> bool {
    matches!(mutant.was.op, Opcode::Mov(_))
}

pub(super) fn selects(mutant: &Mutant) -> bool {
    matches!(mutant.was.op, Opcode::Selp(_))
}

pub(super) fn adds(mutant: &Mutant) -> bool {
    matches!(mutant.was.op, Opcode::Add { .. })
}

pub(super) fn subtracts(mutant: &Mutant) -> bool {
    matches!(mutant.was.op, Opcode::Sub { .. })
}

pub(super) fn multiplies_and_adds(mutant: &Mutant) -> bool {
    matches!(mutant.was.op, Opcode::MadInt { .. })
}

pub(super) fn masks(mutant: &Mutant) -> bool {
    matches!(mutant.was.op, Opcode::And(_))
}

pub(super) fn loads(mutant: &Mutant) -> bool {
    matches!(mutant.was.op, Opcode::Ld { .. })
}

/// A barrier of the block, or of a role.
pub(super) fn synchronises(mutant: &Mutant) -> bool {
    matches!(mutant.was.op, Opcode::BarSync)
}

/// Whether fewer groups of copies stay in flight than before.
pub(super) fn waits_for_more(mutant: &Mutant) -> bool {
    numbers(mutant).is_some_and(|(before, after)| after < before)
}

/// Whether a constant is smaller by 1.
pub(super) fn one_less(mutant: &Mutant) -> bool {
    numbers(mutant).is_some_and(|(before, after)| after + 1 == before)
}

/// Whether a constant of 32 bits that was a multiple of 16 is larger by 1.
pub(super) fn one_more(mutant: &Mutant) -> bool {
    let Some(becomes) = mutant.becomes() else { return false };
    let mut both = mutant.was.operands.iter().zip(&becomes.operands);
    match both.find(|(before, after)| before != after) {
        Some((Operand::Int(before), Operand::Int(after))) => {
            u32::try_from(*before).is_ok_and(|before| before % 16 == 0) && *after == before + 1
        }
        _ => false,
    }
}

/// Whether another mask still has all of these bits, where the mask before had no others but of the lowest four.
pub(super) fn keeps(mutant: &Mutant, bits: u64) -> bool {
    masks(mutant) && numbers(mutant).is_some_and(|(before, after)| before & !bits < 16 && after & bits == bits)
}

/// Whether fewer numbers fulfil a comparison with a constant than before, or the same multiples of 2.
pub(super) fn demands_more(mutant: &Mutant) -> bool {
    let Some((before, after)) = numbers(mutant) else { return false };
    match mutant.was.op {
        Opcode::Setp { cmp: Compare::Ge, .. } => after > before,
        Opcode::Setp { cmp: Compare::Lt, .. } => after < before || (before, after) == (1, 2),
        _ => false,
    }
}

/// Whether a constant of half a panel, and perhaps whole ones, is smaller by 1.
pub(super) fn nearly_half_a_panel(mutant: &Mutant) -> bool {
    one_less(mutant) && numbers(mutant).is_some_and(|(before, _)| before % 32 == 16)
}

/// Whether the constant that was added, and now is subtracted, is a multiple of 16.
pub(super) fn halves_of_a_panel(mutant: &Mutant) -> bool {
    matches!(becomes(mutant), Some(Opcode::Sub { .. })) && numbers(mutant).is_some_and(|(_, after)| after % 16 == 0)
}

/// Whether two constants are compared, with the same outcome as before.
pub(super) fn compares_constants(mutant: &Mutant) -> bool {
    let outcome = |instruction: &Instruction| {
        let Opcode::Setp { cmp, .. } = mutant.was.op else { return None };
        let [.., Operand::Int(left), Operand::Int(right)] = instruction.operands.as_slice() else { return None };
        Some(match cmp {
            Compare::Eq => left == right,
            Compare::Ne => left != right,
            Compare::Lt => left < right,
            Compare::Le => left <= right,
            Compare::Gt => left > right,
            Compare::Ge => left >= right,
            _ => return None,
        })
    };
    let (before, after) = (outcome(&mutant.was), mutant.becomes().and_then(outcome));
    before.is_some() && before == after
}
