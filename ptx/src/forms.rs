//! Lists every form of every row of the instruction table: each legal combination of modifiers, with a description of
//! its operands. Tests of code that reads PTX try them all.

use crate::instruction::Opcode;
use crate::legality::{may_be_modified, refuse};
use crate::mnemonic;
use crate::prototype;
use crate::signature::{Class, Row, Slot, doubled, registers_of, wide_registers_of};
use crate::table;
use crate::text::Text;
use crate::types::{Space, Type};

/// An opcode with a description of its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// The opcode.
    pub op: Opcode,
    /// Its mnemonic.
    pub mnemonic: String,
    /// Its operands in order.
    pub operands: Vec<Field>,
}

/// What one operand of a form is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// A register of this type (`.pred`, or bits), which is written.
    Write(Type),
    /// A register of this type, which is read.
    Read(Type),
    /// A vector of this many registers, which are written.
    WriteVector(Type, u8),
    /// A vector of this many registers, which are read.
    ReadVector(Type, u8),
    /// A register of this type and a predicate with `|` between them, both written.
    WritePair(Type),
    /// A register with an address in this state space, as a number.
    Pointer(Type, Space),
    /// `[address]` in this state space.
    Address(Space),
    /// `_`, where an instruction has no result.
    Sink,
    /// This integer constant.
    Constant(i64),
    /// A single-precision constant between 0 and 1.
    Fraction,
    /// A label, a list of labels, or a tensor map with coordinates.
    Other,
}

/// All forms, row by row. Opcodes that differ in a register's width (conversions, loads), in the number of operands, or
/// in whether operands are packed are separate forms.
pub fn all() -> impl Iterator<Item = Form> {
    prototype::all().iter().flat_map(mnemonic::choices).flat_map(modified).filter(is_legal).flat_map(|op| {
        let row = table::row(&op);
        let mut text = Text::default();
        mnemonic::write(&op, &mut text);
        let mnemonic = text.finish();
        let counts = row.slots.len() - row.optional..=row.slots.len();
        let lists: Vec<Vec<Field>> = counts.flat_map(|count| operands(&row, &op, count)).collect();
        lists.into_iter().map(move |operands| Form { op: op.clone(), mnemonic: mnemonic.clone(), operands })
    })
}

fn is_legal(op: &Opcode) -> bool {
    let row = table::row(op);
    row.legal.has(row.types[0]) && refuse(op).is_none()
}

/// The opcode itself, and with each set of `.ftz`, `.sat` and `.relu` that it takes.
fn modified(op: Opcode) -> impl Iterator<Item = Opcode> {
    let sets = (1..8).map(|set| [1, 2, 4].map(|bit| set & bit != 0));
    let plain = op.clone();
    let sets = sets.filter(move |&[ftz, sat, relu]| may_be_modified(&plain, ftz, sat, relu)).collect::<Vec<_>>();
    let with = op.clone();
    std::iter::once(op).chain(sets.into_iter().map(move |[ftz, sat, relu]| Opcode::Modified {
        op: Box::new(with.clone()),
        ftz,
        sat,
        relu,
    }))
}

/// The operand lists of an opcode with this many operands.
fn operands(row: &Row, op: &Opcode, count: usize) -> Vec<Vec<Field>> {
    let mut lists = vec![Vec::new()];
    for slot in &row.slots[..count] {
        let fields = fields(row, *slot);
        lists = lists
            .iter()
            .flat_map(|list| fields.iter().map(move |field| [list.as_slice(), &[*field]].concat()))
            .collect();
    }
    if let Opcode::Mov(ty) = op {
        for (parts, of) in packed(*ty) {
            let whole = bits(*ty);
            lists.push(vec![Field::WriteVector(*of, *parts), Field::Read(whole)]);
            lists.push(vec![Field::Write(whole), Field::ReadVector(*of, *parts)]);
        }
    }
    lists
}

/// The vectors that a `mov` of this type packs and unpacks.
fn packed(ty: Type) -> &'static [(u8, Type)] {
    match ty {
        Type::B32 => &[(2, Type::B16)],
        Type::B64 => &[(2, Type::B32), (4, Type::B16)],
        Type::B128 => &[(2, Type::B64)],
        _ => &[],
    }
}

/// What may be in a slot.
fn fields(row: &Row, slot: Slot) -> Vec<Field> {
    let of = |class| match class {
        Class::Type(n) => row.types[usize::from(n)],
        Class::Wide => doubled(row.types[0]),
        Class::Is(ty) => ty,
    };
    let (own, lanes) = (row.types[0], row.counts[0]);
    let fragment = |n: u8| (bits(row.types[usize::from(n)]), row.counts[usize::from(n)]);
    let each = |ty, field: &dyn Fn(Type) -> Field| wide(ty).into_iter().map(field).collect();
    match slot {
        // An arrival at another block's barrier returns no state.
        Slot::WriteOrSink(_) if row.space == Space::SharedCluster && row.stem.starts_with("mbarrier") => {
            vec![Field::Sink]
        }
        Slot::Write(class) | Slot::WriteOrSink(class) => vec![Field::Write(bits(of(class)))],
        Slot::Read(class) => vec![Field::Read(bits(of(class)))],
        Slot::WriteWide(class) => each(of(class), &Field::Write),
        Slot::ReadWide(class) => each(of(class), &Field::Read),
        Slot::WriteLanes if lanes == 1 => each(own, &Field::Write),
        Slot::ReadLanes if lanes == 1 => each(own, &Field::Read),
        Slot::WriteLanes => each(own, &|ty| Field::WriteVector(ty, lanes)),
        Slot::ReadLanes => each(own, &|ty| Field::ReadVector(ty, lanes)),
        Slot::WriteVector => vec![Field::WriteVector(bits(own), lanes)],
        Slot::ReadVector => vec![Field::ReadVector(bits(own), lanes)],
        Slot::MoveTo => vec![Field::Write(bits(own))],
        Slot::MoveFrom => vec![Field::Read(bits(own))],
        Slot::AddressValue(class) => vec![Field::Pointer(bits(of(class)), row.space)],
        Slot::Predicates => vec![Field::Write(Type::Pred), Field::WritePair(Type::Pred)],
        Slot::WithPredicate(class) => vec![Field::Write(bits(of(class))), Field::WritePair(bits(of(class)))],
        Slot::SinkWithPredicate(class) => vec![Field::WritePair(bits(of(class)))],
        Slot::Condition => vec![Field::Read(Type::Pred)],
        Slot::ThreadsOrCondition => vec![Field::Constant(32)],
        Slot::Address => vec![Field::Address(row.space)],
        Slot::AddressIn(space) => vec![Field::Address(space)],
        Slot::Constant { min, .. } => vec![Field::Constant(min)],
        // Numbers of barriers and threads are the only bounds that a register may not exceed.
        Slot::Bounded { min: 0, max: 255, .. } => vec![Field::Read(Type::B32)],
        Slot::Bounded { min, .. } => vec![Field::Constant(min)],
        Slot::WriteFragment(n) => vec![Field::WriteVector(fragment(n).0, fragment(n).1)],
        Slot::ReadFragment(n) => vec![Field::ReadVector(fragment(n).0, fragment(n).1)],
        Slot::DescriptorOrFragment(n) => {
            vec![Field::Read(Type::B64), Field::ReadVector(fragment(n).0, fragment(n).1)]
        }
        Slot::Sign => vec![Field::Constant(1)],
        Slot::Fraction => vec![Field::Fraction],
        Slot::Tensor | Slot::Label | Slot::Targets => vec![Field::Other],
    }
}

/// The untyped registers that hold a value of a type exactly.
fn bits(ty: Type) -> Type {
    match ty.bits() {
        1 => Type::Pred,
        8 => Type::B8,
        16 => Type::B16,
        32 => Type::B32,
        64 => Type::B64,
        _ => Type::B128,
    }
}

/// The untyped registers that hold a value of a type, exactly or in a wider register.
fn wide(ty: Type) -> Vec<Type> {
    let exact = registers_of(ty);
    let all = wide_registers_of(ty);
    let mut found: Vec<Type> =
        [Type::B16, Type::B32, Type::B64, Type::B128].into_iter().filter(|bits| all.has(*bits)).collect();
    if exact.has(bits(ty)) && ty.bits() > 8 && !found.contains(&bits(ty)) {
        found.push(bits(ty));
    }
    found
}
