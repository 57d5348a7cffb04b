//! Rules between an opcode's modifiers and its type that a set of types cannot say.

use crate::instruction::{Cache, Compare, Instruction, Opcode, Operand, Order, Rounding};
use crate::types::{Space, Type};

/// Why an opcode is illegal as it stands, or `None`.
pub(crate) fn refuse(op: &Opcode) -> Option<&'static str> {
    match op {
        Opcode::Add { rnd, ty } | Opcode::Sub { rnd, ty } | Opcode::Mul { rnd, ty } => arithmetic_rounding(*rnd, *ty),
        Opcode::Fma { rnd: Rounding::None, .. } => Some("fma wants a rounding mode"),
        Opcode::Fma { rnd, ty } => arithmetic_rounding(*rnd, *ty),
        Opcode::Div { rnd: Rounding::None, ty: Type::F32 | Type::F64 } => Some("div of floats wants a rounding mode"),
        Opcode::Div { rnd, ty } => arithmetic_rounding(*rnd, *ty),
        Opcode::Min { nan: true, ty } | Opcode::Max { nan: true, ty } if !ty.is_float() || *ty == Type::F64 => {
            Some(".NaN is for f32, f16 and bf16")
        }
        Opcode::Ld { order, space, .. } | Opcode::St { order, space, .. }
            if *order != Order::Weak && matches!(space, Space::Local | Space::Const | Space::Param) =>
        {
            Some("an ordering goes with generic, global and shared memory")
        }
        Opcode::Ld { order, space, cache, vector, ty } => load(*order, *space, *cache).or(vector_size(*vector, *ty)),
        Opcode::St { order, space, cache, vector, ty } => store(*order, *space, *cache).or(vector_size(*vector, *ty)),
        Opcode::Setp { cmp, ty } => comparison(*cmp, *ty),
        Opcode::Cvt { rnd, sat, to, from } => conversion(*rnd, *sat, *to, *from),
        Opcode::Cvta { space: Space::Generic, .. } => Some("cvta wants a state space"),
        Opcode::CpAsync { cache } if !matches!(cache, Cache::Ca | Cache::Cg) => Some("cp.async is .ca or .cg"),
        Opcode::Atom { order, space, .. } => atomic_space(*space).or(match order {
            Order::Volatile => Some("atom has no .volatile"),
            _ => None,
        }),
        Opcode::Red { order, space, .. } => atomic_space(*space).or(match order {
            Order::Volatile | Order::Acquire(_) | Order::AcqRel(_) => Some("red is relaxed or a release"),
            _ => None,
        }),
        _ => None,
    }
}

/// Why an instruction's constants contradict its opcode, or `None`.
pub(crate) fn refuse_constants(instruction: &Instruction) -> Option<&'static str> {
    match (&instruction.op, instruction.operands.as_slice()) {
        (Opcode::CpAsync { cache: Cache::Cg }, [_, _, Operand::Int(bytes), ..]) if *bytes != 16 => {
            Some("cp.async.cg copies 16 bytes")
        }
        (Opcode::CpAsync { .. }, [_, _, Operand::Int(12), ..]) => Some("cp.async copies 4, 8 or 16 bytes"),
        (Opcode::CpAsync { .. }, [_, _, Operand::Int(bytes), Operand::Int(source)]) if source > bytes => {
            Some("cp.async cannot read more than it copies")
        }
        _ => None,
    }
}

fn arithmetic_rounding(rnd: Rounding, ty: Type) -> Option<&'static str> {
    match (rnd, ty) {
        (Rounding::None, _) | (Rounding::Rn, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => None,
        (Rounding::Rn | Rounding::Rz | Rounding::Rm | Rounding::Rp, Type::F32 | Type::F64) => None,
        _ => Some("this rounding mode does not go with this type"),
    }
}

fn load(order: Order, space: Space, cache: Cache) -> Option<&'static str> {
    match (order, cache) {
        (Order::Release(_) | Order::AcqRel(_), _) => Some("a load is no release"),
        (_, Cache::Wb | Cache::Wt) => Some("this cache operator is for stores"),
        (Order::Weak, Cache::Nc) if space != Space::Global => Some(".nc is for global memory"),
        (Order::Weak, _) | (_, Cache::None) => None,
        _ => Some("a cache operator goes with weak accesses only"),
    }
}

fn store(order: Order, space: Space, cache: Cache) -> Option<&'static str> {
    match (order, cache) {
        _ if matches!(space, Space::Const | Space::Param) => Some("this state space is read only"),
        (Order::Acquire(_) | Order::AcqRel(_), _) => Some("a store is no acquire"),
        (_, Cache::Ca | Cache::Lu | Cache::Cv | Cache::Nc) => Some("this cache operator is for loads"),
        (Order::Weak, _) | (_, Cache::None) => None,
        _ => Some("a cache operator goes with weak accesses only"),
    }
}

fn vector_size(vector: u8, ty: Type) -> Option<&'static str> {
    match vector {
        1 => None,
        2 | 4 if u32::from(vector) * ty.bytes() <= 16 => None,
        2 | 4 => Some("a vector has at most 16 bytes"),
        _ => Some("a vector has 2 or 4 elements"),
    }
}

fn comparison(cmp: Compare, ty: Type) -> Option<&'static str> {
    use Compare::*;
    let legal = match cmp {
        Eq | Ne => true,
        Lt | Le | Gt | Ge => !matches!(ty, Type::B16 | Type::B32 | Type::B64),
        Lo | Ls | Hi | Hs => matches!(ty, Type::U16 | Type::U32 | Type::U64),
        Equ | Neu | Ltu | Leu | Gtu | Geu | Num | Nan => ty.is_float(),
    };
    if legal { None } else { Some("this comparison does not go with this type") }
}

fn conversion(rnd: Rounding, sat: bool, to: Type, from: Type) -> Option<&'static str> {
    use Rounding::*;
    use Type::*;
    let narrow = |ty| matches!(ty, E4m3x2 | E5m2x2);
    let legal = match (to, from) {
        (E4m3x2 | E5m2x2, F32 | F16x2) => rnd == Rn && sat,
        (F16x2, E4m3x2 | E5m2x2) => rnd == Rn && !sat,
        (F16x2 | Bf16x2, F32) => matches!(rnd, Rn | Rz) && !sat,
        (Tf32, F32) => matches!(rnd, Rna | Rn | Rz) && !sat,
        (Tf32 | F16x2 | Bf16x2, _) | (_, Tf32 | F16x2 | Bf16x2) => false,
        _ if narrow(to) || narrow(from) => false,
        // Between floats: rounding when it narrows, to an integer value when it does not, none when it widens.
        (to, from) if to.is_float() && from.is_float() => match to.bits().cmp(&from.bits()) {
            std::cmp::Ordering::Less => matches!(rnd, Rn | Rz | Rm | Rp),
            std::cmp::Ordering::Equal if to != from => matches!(rnd, Rn | Rz | Rm | Rp),
            std::cmp::Ordering::Equal => matches!(rnd, None | Rni | Rzi | Rmi | Rpi),
            std::cmp::Ordering::Greater => rnd == None,
        },
        (to, _) if to.is_float() => matches!(rnd, Rn | Rz | Rm | Rp),
        (_, from) if from.is_float() => matches!(rnd, Rni | Rzi | Rmi | Rpi),
        _ => rnd == None,
    };
    if legal { Option::None } else { Some("this rounding or saturation does not go with these types") }
}

fn atomic_space(space: Space) -> Option<&'static str> {
    match space {
        Space::Generic | Space::Global | Space::Shared | Space::SharedCta | Space::SharedCluster => None,
        Space::Local | Space::Param | Space::Const => Some("atomics are for global and shared memory"),
    }
}
