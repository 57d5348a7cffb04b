//! Rules that relate an opcode's modifiers to its type and that a set of types cannot express.

use crate::asynchronous::{Arrival, CacheHint, Eviction, Multicast, PrefetchSize, Prefetched, TensorMode};
use crate::extended::Combine;
use crate::hints::{Hints, L1Hint, L2Hint};
use crate::instruction::{Approx, Atomic, Cache, Compare, Half, Instruction, Opcode, Operand, Order, Rounding, Scope};
use crate::matrix::{Element, Layout, Overflow, Part, Shape};
use crate::types::{Space, Type};
use crate::warp::ClusterOrder;

/// The reason why an opcode is illegal, or `None`.
pub(crate) fn refuse(op: &Opcode) -> Option<&'static str> {
    match op {
        Opcode::Add { rnd, ty } | Opcode::Sub { rnd, ty } | Opcode::Mul { rnd, ty } => arithmetic_rounding(*rnd, *ty),
        Opcode::Approx { function: Approx::Rcp, ty: Type::F64 } => Some("rcp.approx.f64 needs .ftz"),
        Opcode::Approx { function: Approx::Ex2, ty: Type::Bf16 | Type::Bf16x2 } => Some("ex2 of bf16 needs .ftz"),
        Opcode::Modified { op, ftz, sat, relu } if !may_be_modified(op, *ftz, *sat, *relu) => {
            Some("does not take .ftz, .sat or .relu")
        }
        Opcode::Hinted { op, hints } if !may_be_hinted(op, *hints) => Some("does not take these hints"),
        Opcode::Modified { op, .. } if matches!(**op, Opcode::Approx { .. }) => None,
        Opcode::Modified { op, .. } | Opcode::Hinted { op, .. } => refuse(op),
        Opcode::Carry { takes: false, gives: false, .. } => Some("it must read or write the carry"),
        Opcode::Fma { rnd: Rounding::None, .. } => Some("fma needs a rounding mode"),
        Opcode::Fma { rnd, ty } => arithmetic_rounding(*rnd, *ty),
        Opcode::Div { rnd: Rounding::None, ty: Type::F32 | Type::F64 } => Some("div of floats needs a rounding mode"),
        Opcode::Div { rnd, ty } => arithmetic_rounding(*rnd, *ty),
        Opcode::Min { nan: true, ty } | Opcode::Max { nan: true, ty } if !ty.is_float() || *ty == Type::F64 => {
            Some(".NaN is for f32, f16 and bf16")
        }
        Opcode::Ld { order, space, .. } | Opcode::St { order, space, .. }
            if *order != Order::Weak && matches!(space, Space::Local | Space::Const | Space::Param) =>
        {
            Some("an ordering is only for generic, global and shared memory")
        }
        Opcode::Ld { space, prefetch, .. }
            if *prefetch != PrefetchSize::None && !matches!(space, Space::Global | Space::Generic) =>
        {
            Some("a prefetch size is only for generic and global memory")
        }
        Opcode::Ld { order, space, cache, vector, ty, .. } => {
            load(*order, *space, *cache).or(access_size(*space, *vector, *ty))
        }
        Opcode::St { order, space, cache, vector, ty } => {
            store(*order, *space, *cache).or(access_size(*space, *vector, *ty))
        }
        Opcode::Setp { cmp, ty } | Opcode::SetpWith { cmp, ty, .. } => comparison(*cmp, *ty),
        Opcode::Set { cmp, to, from } => comparison(*cmp, *from).or(set(*to, *from)),
        Opcode::CvtFinite { rnd: Rounding::Rna | Rounding::Rn | Rounding::Rz, to: Type::Tf32 } => None,
        Opcode::CvtFinite { rnd: Rounding::Rn | Rounding::Rz, to } if *to != Type::Tf32 => None,
        Opcode::CvtFinite { .. } => Some("this rounding is not available for this type"),
        Opcode::Video { a, b, .. } | Opcode::VideoSet { a, b, .. }
            if [a, b].iter().any(|ty| !matches!(ty, Type::U32 | Type::S32)) =>
        {
            Some("the types of a video instruction are .u32 and .s32")
        }
        Opcode::VideoSet { cmp, .. } => comparison(*cmp, Type::S32),
        Opcode::Slct { by, .. } if !matches!(by, Type::S32 | Type::F32) => Some("slct selects by an s32 or f32"),
        Opcode::Mul24 { half: Half::Wide, .. } | Opcode::Mad24 { half: Half::Wide, .. } => Some("takes .lo or .hi"),
        Opcode::CvtPack { to, with } if *with != (to.bits() == 8) => Some("packing bytes takes a third source"),
        Opcode::Cvt { rnd, sat, to, from } => conversion(*rnd, *sat, *to, *from),
        Opcode::Cvta { space: Space::Generic, .. } => Some("cvta needs a state space"),
        Opcode::CpAsync { cache, .. } if !matches!(cache, Cache::Ca | Cache::Cg) => Some("cp.async takes .ca or .cg"),
        Opcode::Atom { order, space, .. } => atomic_space(*space).or(match order {
            Order::Volatile => Some("atom cannot be .volatile"),
            _ => None,
        }),
        Opcode::Red { order, space, .. } => atomic_space(*space).or(match order {
            Order::Volatile | Order::Acquire(_) | Order::AcqRel(_) => Some("red must be .relaxed or .release"),
            _ => None,
        }),
        Opcode::AtomVector { order, space, op, vector, ty } => {
            refuse(&Opcode::Atom { order: *order, space: *space, op: *op, ty: *ty })
                .or(atomic_vector(*space, *vector, *ty))
        }
        Opcode::RedVector { order, space, op, vector, ty } => {
            refuse(&Opcode::Red { order: *order, space: *space, op: *op, ty: *ty })
                .or(atomic_vector(*space, *vector, *ty))
        }
        Opcode::Rcp { rnd: Rounding::None, .. } | Opcode::Sqrt { rnd: Rounding::None, .. } => {
            Some("needs a rounding mode or .approx")
        }
        Opcode::Rcp { rnd, ty } | Opcode::Sqrt { rnd, ty } => arithmetic_rounding(*rnd, *ty),
        Opcode::Redux { abs, nan, ty, .. } if (*abs || *nan) && *ty != Type::F32 => Some(".abs and .NaN are for .f32"),
        Opcode::Lop3With(Combine::Xor) => Some("lop3 combines by .and or .or"),
        Opcode::IsSpaceP(Space::Generic) => Some("isspacep needs a state space"),
        Opcode::Dp4a { b, .. } | Opcode::Dp2a { b, .. } if !matches!(b, Type::U32 | Type::S32) => {
            Some("the types of a dot product are .u32 and .s32")
        }
        Opcode::Mma { shape, overflow, d, a, b, c } => multiply(*shape, *overflow, [*d, *a, *b, *c]),
        Opcode::Wgmma { shape, overflow, d, a, b } => warpgroup_multiply(*shape, *overflow, *d, [*a, *b]),
        Opcode::WmmaLoad { part: Part::A, layout: Layout::Col, element, .. }
        | Opcode::WmmaLoad { part: Part::B, layout: Layout::Row, element, .. }
            if element.bits() < 8 =>
        {
            Some(FOUR_BITS)
        }
        Opcode::WmmaLoad { part, shape, space, element, .. } => fragment(*part, *shape, *element).or(flat(*space)),
        Opcode::WmmaStore { shape, space, element, .. } => fragment(Part::D, *shape, *element).or(flat(*space)),
        Opcode::WmmaMultiply { d, overflow: Overflow::Satfinite, .. } if *d != Element::S32 => {
            Some(".satfinite is for integers")
        }
        Opcode::WmmaMultiply { rnd, ab, .. } if *rnd != Rounding::None && *ab != Element::F64 => {
            Some("wmma takes a rounding mode for .f64 alone")
        }
        Opcode::WmmaMultiply { rnd, .. }
            if !matches!(rnd, Rounding::None | Rounding::Rn | Rounding::Rz | Rounding::Rm | Rounding::Rp) =>
        {
            Some("the rounding mode is one of .rn, .rz, .rm and .rp")
        }
        Opcode::WmmaMultiply { layouts, ab: Element::S4 | Element::U4, .. }
            if *layouts != [Layout::Row, Layout::Col] =>
        {
            Some(FOUR_BITS)
        }
        Opcode::WmmaMultiply { shape, d, ab, c, .. } => match (ab, d, c) {
            (Element::F16, Element::S32, _) | (Element::F16, _, Element::S32) => {
                Some("wmma does not support these types")
            }
            (Element::Bf16, Element::F32, Element::F32)
            | (Element::Tf32, Element::F32, Element::F32)
            | (Element::F64, Element::F64, Element::F64)
            | (Element::S8 | Element::U8 | Element::S4 | Element::U4, Element::S32, Element::S32)
            | (Element::F16, ..) => {
                fragment(Part::A, *shape, *ab).or(fragment(Part::D, *shape, *d)).or(fragment(Part::C, *shape, *c))
            }
            _ => Some("wmma does not support these types"),
        },
        Opcode::LdMatrix { matrices, .. } | Opcode::StMatrix { matrices, .. } if !matches!(matrices, 1 | 2 | 4) => {
            Some("it moves 1, 2 or 4 matrices at a time")
        }
        Opcode::LdMatrix { space, .. } | Opcode::StMatrix { space, .. } => own_or_generic(*space),
        Opcode::Mapa { space, ty } | Opcode::GetCtaRank { space, ty } => match (space, ty) {
            (Space::SharedCluster, _) | (Space::Generic, Type::U64) => None,
            _ => Some("a 32-bit address needs .shared::cluster"),
        },
        op => refuse_asynchronous(op),
    }
}

/// Whether the instruction exists with these modifiers: `.ftz` applies to single and half precision, `.sat` to sums and
/// products, `.relu` to multiply-adds of 16 bits and to conversions to narrow floats.
pub(crate) fn may_be_modified(op: &Opcode, ftz: bool, sat: bool, relu: bool) -> bool {
    use Type::{Bf16, Bf16x2, E4m3x2, E5m2x2, F16, F16x2, F32, F64, S16x2, S32, Tf32};
    if relu {
        return !sat
            && match op {
                Opcode::Fma { ty: F16 | F16x2, .. } => true,
                Opcode::CvtFinite { rnd, .. } => !ftz && *rnd != Rounding::Rna,
                Opcode::Min { ty: S32 | S16x2, nan: false } | Opcode::Max { ty: S32 | S16x2, nan: false } => !ftz,
                Opcode::Fma { ty: Bf16 | Bf16x2, .. } => !ftz,
                Opcode::Cvt {
                    rnd: Rounding::Rn | Rounding::Rz,
                    sat: false,
                    to: F16 | F16x2 | Bf16 | Bf16x2 | Tf32,
                    from: F32,
                }
                | Opcode::Cvt { rnd: Rounding::Rn, sat: true, to: E4m3x2 | E5m2x2, from: F32 | F16x2 }
                | Opcode::Cvt { rnd: Rounding::Rn, sat: false, to: F16x2, from: E4m3x2 | E5m2x2 } => !ftz,
                _ => false,
            };
    }
    let sum = |ty: Type| match ty {
        F32 | F16 | F16x2 => true,
        S32 => !ftz,
        Type::F32x2 => !sat,
        _ => false,
    };
    match op {
        Opcode::Add { ty, .. } | Opcode::Sub { ty, .. } => sum(*ty),
        Opcode::Mul { ty, .. } | Opcode::Fma { ty, .. } => sum(*ty),
        Opcode::MadInt { half: Half::Hi, ty: S32 } => sat && !ftz,
        _ if sat => false,
        Opcode::Slct { by, .. } => *by == F32,
        Opcode::XorSign { ty, .. } => matches!(ty, F32 | F16 | F16x2),
        Opcode::Set { to, from, .. } => matches!(from, F32 | F16 | F16x2) && *to != Bf16,
        Opcode::Approx { function: Approx::Ex2, ty } => matches!(ty, F32 | Bf16 | Bf16x2),
        Opcode::Min { ty, .. } | Opcode::Max { ty, .. } => matches!(ty, F32 | F16 | F16x2),
        Opcode::Setp { ty, .. } | Opcode::SetpWith { ty, .. } => matches!(ty, F32 | F16 | F16x2),
        Opcode::Abs(ty) | Opcode::Neg(ty) => matches!(ty, F32 | F16 | F16x2),
        Opcode::Div { ty, .. } | Opcode::DivFast { ty, .. } => *ty == F32,
        Opcode::Approx { function: Approx::Tanh, .. } => false,
        Opcode::Approx { function: Approx::Rcp | Approx::Rsqrt, ty } => matches!(ty, F32 | F64),
        Opcode::Rcp { ty, .. } | Opcode::Sqrt { ty, .. } | Opcode::Approx { ty, .. } => *ty == F32,
        Opcode::Cvt { rnd, to, from, .. } => {
            let narrow = matches!(to, F16x2 | Bf16x2 | Tf32 | E4m3x2 | E5m2x2);
            (*to == F32 || *from == F32) && *rnd != Rounding::Rna && !narrow
        }
        _ => false,
    }
}

/// Whether an access may have these hints.
pub(crate) fn may_be_hinted(op: &Opcode, hints: Hints) -> bool {
    let access = matches!(op, Opcode::Ld { .. } | Opcode::St { .. });
    match op {
        _ if hints == Hints::NONE => false,
        Opcode::Ld { space, .. }
        | Opcode::St { space, .. }
        | Opcode::Atom { space, .. }
        | Opcode::Red { space, .. }
        | Opcode::AtomVector { space, .. }
        | Opcode::RedVector { space, .. }
            if !matches!(space, Space::Generic | Space::Global) =>
        {
            false
        }
        // ptxas takes either a cache operator or a priority.
        Opcode::Ld { cache, .. } | Opcode::St { cache, .. }
            if !matches!(cache, Cache::None | Cache::Nc) && hints.l1 != L1Hint::Unstated =>
        {
            false
        }
        Opcode::Ld { .. }
        | Opcode::St { .. }
        | Opcode::Atom { .. }
        | Opcode::Red { .. }
        | Opcode::AtomVector { .. }
        | Opcode::RedVector { .. }
        | Opcode::CpAsync { .. } => access || (hints.l1 == L1Hint::Unstated && hints.l2 == L2Hint::Unstated),
        _ => false,
    }
}

fn refuse_asynchronous(op: &Opcode) -> Option<&'static str> {
    match op {
        Opcode::MbarrierInit { space } | Opcode::MbarrierInval { space } | Opcode::CpAsyncArrive { space, .. } => {
            own_or_generic(*space)
        }
        Opcode::MbarrierArrive { arrival: Arrival::NoComplete, order, space }
        | Opcode::MbarrierArriveDrop { arrival: Arrival::NoComplete, order, space }
            if !matches!(order, Order::Weak | Order::Release(Scope::Cta)) || *space == Space::SharedCluster =>
        {
            Some("with .noComplete an arrival is .release.cta, at a barrier of its own block")
        }
        Opcode::MbarrierArrive { order, space, .. } | Opcode::MbarrierArriveDrop { order, space, .. } => match order {
            Order::Weak | Order::Release(_) | Order::Relaxed(_) => shared_or_generic(*space).or(barrier_scope(*order)),
            _ => Some("an arrival must be .release or .relaxed"),
        },
        Opcode::MbarrierTx { order, space, .. } => match order {
            Order::Weak | Order::Relaxed(_) => shared_or_generic(*space).or(barrier_scope(*order)),
            _ => Some("a transaction must be .relaxed"),
        },
        Opcode::MbarrierWait { order, space, .. } => match order {
            Order::Weak | Order::Acquire(_) | Order::Relaxed(_) => own_or_generic(*space).or(barrier_scope(*order)),
            _ => Some("a wait must be .acquire or .relaxed"),
        },
        Opcode::FenceProxyAsync { space: Space::Shared | Space::Local | Space::Param | Space::Const } => {
            Some("takes .global, .shared::cta, .shared::cluster or no state space")
        }
        Opcode::ClusterArrive { order: ClusterOrder::Acquire, .. } => Some("an arrival must be .release or .relaxed"),
        Opcode::ClusterWait { order: ClusterOrder::Release | ClusterOrder::Relaxed, .. } => {
            Some("a wait must be .acquire")
        }
        Opcode::BulkReduce { op: Atomic::Exch | Atomic::Cas, .. } => Some("a bulk reduction cannot be exch or cas"),
        Opcode::StAsync { space, vector, ty } => shared_or_generic(*space).or(vector_size(*vector, *ty)),
        Opcode::RedAsync { space: Space::Generic | Space::SharedCluster, .. } => None,
        Opcode::RedAsync { .. } => Some("works only on the shared memory of the cluster"),
        Opcode::TensormapReplace { space: Space::Generic | Space::Global | Space::SharedCta, .. } => None,
        Opcode::TensormapReplace { .. } => Some("replaces fields in generic, global or shared::cta memory"),
        Opcode::BulkCopy { to, from, multicast, hint } => bulk_copy(*to, *from, *multicast, *hint),
        Opcode::TensorLoad { dimensions, to, mode, multicast, .. } => match (to, multicast, mode) {
            (Space::SharedCta, Multicast::Cluster, _) => Some(".multicast needs .shared::cluster as the destination"),
            (Space::SharedCta | Space::SharedCluster, _, TensorMode::Tile | TensorMode::Im2col) => {
                tensor(*dimensions, *mode)
            }
            _ => Some("a tensor load needs shared memory as the destination, and .tile or .im2col"),
        },
        Opcode::TensorStore { mode: TensorMode::Im2col, .. }
        | Opcode::TensorReduce { mode: TensorMode::Im2col, .. } => {
            Some("a tensor store has no image offsets and needs .im2col_no_offs")
        }
        Opcode::TensorStore { dimensions, mode, .. } => tensor(*dimensions, *mode),
        Opcode::TensorReduce { dimensions, op, mode, .. } => match op {
            Atomic::Exch | Atomic::Cas => Some("a tensor reduction cannot be exch or cas"),
            _ => tensor(*dimensions, *mode),
        },
        Opcode::TensorPrefetch { mode: TensorMode::Im2colNoOffs, .. } => Some("a prefetch needs .tile or .im2col"),
        Opcode::TensorPrefetch { dimensions, mode, .. } => tensor(*dimensions, *mode),
        Opcode::Prefetch { space, what: Prefetched::Tensormap } => match space {
            Space::Generic | Space::Param | Space::Const => None,
            _ => Some("a tensor map must be in generic, param or const memory"),
        },
        Opcode::Prefetch { space, .. } => match space {
            Space::Generic | Space::Global | Space::Local => None,
            _ => Some("prefetch is for generic, global and local memory"),
        },
        Opcode::CreatePolicy { primary: Eviction::Unstated, .. } => Some("a policy needs a priority"),
        Opcode::CreatePolicy { secondary: Eviction::Last | Eviction::Normal, .. } => {
            Some("the second priority must be evict_first or evict_unchanged")
        }
        _ => None,
    }
}

fn own_or_generic(space: Space) -> Option<&'static str> {
    match space {
        Space::Generic | Space::Shared | Space::SharedCta => None,
        _ => Some("works only on the block's own shared memory"),
    }
}

fn shared_or_generic(space: Space) -> Option<&'static str> {
    match space {
        Space::Generic | Space::Shared | Space::SharedCta | Space::SharedCluster => None,
        _ => Some("works only on shared memory"),
    }
}

fn barrier_scope(order: Order) -> Option<&'static str> {
    match order {
        Order::Relaxed(scope) | Order::Acquire(scope) | Order::Release(scope) => match scope {
            Scope::Cta | Scope::Cluster => None,
            Scope::Gpu | Scope::Sys => Some("an mbarrier's scope must be .cta or .cluster"),
        },
        _ => None,
    }
}

fn bulk_copy(to: Space, from: Space, multicast: Multicast, hint: CacheHint) -> Option<&'static str> {
    match (to, from) {
        (Space::SharedCluster, Space::Global) => None,
        (Space::SharedCta, Space::Global) if multicast == Multicast::None => None,
        (Space::SharedCluster, Space::SharedCta) if multicast == Multicast::None && hint == CacheHint::None => None,
        (Space::Global, Space::SharedCta) if multicast == Multicast::None => None,
        _ => Some("a bulk copy cannot connect these state spaces"),
    }
}

fn tensor(dimensions: u8, mode: TensorMode) -> Option<&'static str> {
    match (mode, dimensions) {
        (TensorMode::Tile, 1..=5) | (_, 3..=5) => None,
        (TensorMode::Tile, _) => Some("a tensor has 1 to 5 dimensions"),
        _ => Some("an image tensor has 3 to 5 dimensions"),
    }
}

fn multiply(shape: Shape, overflow: Overflow, elements: [Element; 4]) -> Option<&'static str> {
    use Element::*;
    let [d, a, b, c] = elements;
    let shapes: &[(u16, u16, u16)] = match (a, b) {
        (F16, F16) if (shape.m, shape.n, shape.k) == (8, 8, 4) => {
            return Some("mma of the shape of Volta is not supported here");
        }
        (F16, F16) | (Bf16, Bf16) => &[(16, 8, 8), (16, 8, 16)],
        (Tf32, Tf32) => &[(16, 8, 4), (16, 8, 8)],
        (E4m3 | E5m2, E4m3 | E5m2) => &[(16, 8, 16), (16, 8, 32)],
        (S8 | U8, S8 | U8) => &[(8, 8, 16), (16, 8, 16), (16, 8, 32)],
        (F64, F64) => &[(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)],
        (S4 | U4, S4 | U4) | (B1, B1) => return Some("mma of elements of less than a byte is not supported here"),
        _ => return Some("mma does not support these operand types"),
    };
    let accumulates = match a {
        F16 | E4m3 | E5m2 => matches!((d, c), (F32, F32) | (F16, F16)),
        S8 | U8 => (d, c) == (S32, S32),
        F64 => (d, c) == (F64, F64),
        _ => (d, c) == (F32, F32),
    };
    if !shapes.contains(&(shape.m, shape.n, shape.k)) {
        return Some("mma does not support this shape for these types");
    }
    if !accumulates {
        return Some("mma does not support this accumulator type for these operands");
    }
    saturation(overflow, a)
}

/// What narrower elements than bytes need.
const FOUR_BITS: &str = "elements of less than a byte are in rows of A and columns of B";

/// A fragment of `wmma`.
fn fragment(part: Part, shape: Shape, element: Element) -> Option<&'static str> {
    use Element::*;
    let (factors, sums): (&[Element], &[Element]) = match (shape.m, shape.n, shape.k) {
        (16, 16, 16) | (32, 8, 16) | (8, 32, 16) => (&[F16, Bf16, S8, U8], &[F16, F32, S32]),
        (16, 16, 8) => (&[Tf32], &[F32]),
        (8, 8, 4) => (&[F64], &[F64]),
        (8, 8, 32) => (&[S4, U4], &[S32]),
        (8, 8, 128) => (&[B1], &[S32]),
        _ => return Some("wmma does not support this shape"),
    };
    let legal = match part {
        Part::A | Part::B => factors.contains(&element),
        Part::C | Part::D => sums.contains(&element),
    };
    (!legal).then_some("wmma does not support this type for this matrix")
}

fn flat(space: Space) -> Option<&'static str> {
    match space {
        Space::Generic | Space::Global | Space::Shared | Space::SharedCta => None,
        _ => Some("fragments are in global memory, or in the block's own shared memory"),
    }
}

fn warpgroup_multiply(shape: Shape, overflow: Overflow, d: Element, [a, b]: [Element; 2]) -> Option<&'static str> {
    use Element::*;
    let (k, accumulates) = match (a, b) {
        (F16, F16) => (16, matches!(d, F32 | F16)),
        (Bf16, Bf16) => (16, d == F32),
        (Tf32, Tf32) => (8, d == F32),
        (E4m3 | E5m2, E4m3 | E5m2) => (32, matches!(d, F32 | F16)),
        (S8 | U8, S8 | U8) => (32, d == S32),
        _ => return Some("wgmma does not support these operand types"),
    };
    // Integers with more than 32 columns come in steps of 16.
    let step = if d == S32 && shape.n > 32 { 16 } else { 8 };
    if shape.m != 64 || shape.k != k || !(8..=256).contains(&shape.n) || !shape.n.is_multiple_of(step) {
        return Some("wgmma does not support this shape for these types");
    }
    if !accumulates {
        return Some("wgmma does not support this accumulator type for these operands");
    }
    saturation(overflow, a)
}

fn saturation(overflow: Overflow, a: Element) -> Option<&'static str> {
    match (overflow, a) {
        (Overflow::Wrap, _) | (_, Element::S8 | Element::U8) => None,
        (Overflow::Satfinite, _) => Some(".satfinite is only for integers"),
    }
}

/// The reason why an instruction's constants contradict its opcode, or `None`.
pub(crate) fn refuse_constants(instruction: &Instruction) -> Option<&'static str> {
    match (&instruction.op, instruction.operands.as_slice()) {
        // A in registers is never transposed, so that form has one constant less.
        (Opcode::Wgmma { a: Element::F16 | Element::Bf16, .. }, operands) => {
            let from_registers = matches!(operands.get(1), Some(Operand::Vector(_)));
            let wanted = if from_registers { 7 } else { 8 };
            if operands.len() != wanted {
                return Some("needs trans-b, preceded by trans-a if A is a descriptor");
            }
            let is_bit = |operand: &Operand| matches!(operand, Operand::Int(0 | 1));
            if !operands[6..].iter().all(is_bit) {
                return Some("trans-a and trans-b are 0 or 1");
            }
            scales(operands)
        }
        (Opcode::Wgmma { a: Element::Tf32 | Element::E4m3 | Element::E5m2, .. }, operands) => scales(operands),
        (
            Opcode::MbarrierArrive { space: Space::SharedCluster, .. }
            | Opcode::MbarrierArriveDrop { space: Space::SharedCluster, .. },
            [state, ..],
        ) if *state != Operand::Sink => Some("an arrival at another block's barrier returns no state"),
        (Opcode::CpAsync { cache: Cache::Cg, .. }, [_, _, Operand::Int(bytes), ..]) if *bytes != 16 => {
            Some("cp.async.cg copies 16 bytes")
        }
        (Opcode::CpAsync { .. }, [_, _, Operand::Int(12), ..]) => Some("cp.async copies 4, 8 or 16 bytes"),
        (Opcode::CpAsync { .. }, [_, _, Operand::Int(bytes), Operand::Int(source)]) if source > bytes => {
            Some("cp.async cannot read more than it copies")
        }
        _ => None,
    }
}

/// The factors of A and B of a `wgmma` (PTX ISA, wgmma.mma_async: imm-scale-a and imm-scale-b).
fn scales(operands: &[Operand]) -> Option<&'static str> {
    let is_sign = |operand: &Operand| matches!(operand, Operand::Int(1 | -1));
    let factors = operands.get(4..6).unwrap_or_default();
    (!factors.iter().all(is_sign)).then_some("imm-scale-a and imm-scale-b are 1 or -1")
}

fn arithmetic_rounding(rnd: Rounding, ty: Type) -> Option<&'static str> {
    match (rnd, ty) {
        (Rounding::None, _) | (Rounding::Rn, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => None,
        (Rounding::Rn | Rounding::Rz | Rounding::Rm | Rounding::Rp, Type::F32 | Type::F64 | Type::F32x2) => None,
        _ => Some("this rounding mode is not available for this type"),
    }
}

fn load(order: Order, space: Space, cache: Cache) -> Option<&'static str> {
    match (order, cache) {
        (Order::Release(_) | Order::AcqRel(_), _) => Some("a load cannot be a release"),
        (_, Cache::Wb | Cache::Wt) => Some("this cache operator is for stores"),
        (Order::Weak, Cache::Nc) if space != Space::Global => Some(".nc is for global memory"),
        (Order::Weak, _) | (_, Cache::None) => None,
        _ => Some("a cache operator is only for weak accesses"),
    }
}

fn store(order: Order, space: Space, cache: Cache) -> Option<&'static str> {
    match (order, cache) {
        _ if matches!(space, Space::Const | Space::Param) => Some("this state space is read-only"),
        (Order::Acquire(_) | Order::AcqRel(_), _) => Some("a store cannot be an acquire"),
        (_, Cache::Ca | Cache::Lu | Cache::Cv | Cache::Nc) => Some("this cache operator is for loads"),
        (Order::Weak, _) | (_, Cache::None) => None,
        _ => Some("a cache operator is only for weak accesses"),
    }
}

/// Generic and global accesses also have 8 elements of 4 bytes, and 4 elements of 8 bytes.
fn access_size(space: Space, vector: u8, ty: Type) -> Option<&'static str> {
    match (vector, ty.bits()) {
        (8, 32) | (4, 64) if matches!(space, Space::Generic | Space::Global) => None,
        _ => vector_size(vector, ty),
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
    if legal { None } else { Some("this comparison is not available for this type") }
}

/// Pairs of 16-bit floats are compared half by half, and give pairs or words; only 16-bit floats give 16-bit integers.
fn set(to: Type, from: Type) -> Option<&'static str> {
    use Type::*;
    let legal = match (to, from) {
        (_, Pred | B8 | B128 | U8 | S8 | Tf32 | E4m3x2 | E5m2x2 | U16x2 | S16x2 | F32x2) => false,
        (F16x2, F16x2) | (Bf16x2, Bf16x2) | (U32 | S32, _) | (U16 | S16, F16 | Bf16) => true,
        (F16x2 | Bf16x2 | U16 | S16, _) | (_, F16x2 | Bf16x2) => false,
        (F16, from) => from != Bf16,
        (Bf16, _) => true,
        (_, from) => !matches!(from, F16 | Bf16),
    };
    if legal { None } else { Some("set does not have these types") }
}

/// Whether every value of an integer type is one of another.
fn holds(to: Type, from: Type) -> bool {
    match (to.is_signed(), from.is_signed()) {
        (true, true) | (false, false) => to.bits() >= from.bits(),
        (true, false) => to.bits() > from.bits(),
        (false, true) => false,
    }
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
        (_, Pred | B8 | B16 | B32 | B64 | B128 | U16x2 | S16x2 | F32x2) => false,
        (Bf16, _) | (_, Bf16) if sat => false,
        (to, from) if sat && !to.is_float() && !from.is_float() && holds(to, from) => false,
        _ if narrow(to) || narrow(from) => false,
        // Between floats, a narrowing conversion rounds, one to the same type rounds to an integral value, and a
        // widening one does not round.
        (to, from) if to.is_float() && from.is_float() => match to.bits().cmp(&from.bits()) {
            std::cmp::Ordering::Less => matches!(rnd, Rn | Rz | Rm | Rp),
            // ptxas takes no mode here for the nearest.
            std::cmp::Ordering::Equal if to != from => matches!(rnd, None | Rn | Rz | Rm | Rp),
            std::cmp::Ordering::Equal => matches!(rnd, None | Rni | Rzi | Rmi | Rpi),
            std::cmp::Ordering::Greater => rnd == None,
        },
        (to, _) if to.is_float() => matches!(rnd, Rn | Rz | Rm | Rp),
        (_, from) if from.is_float() => matches!(rnd, Rni | Rzi | Rmi | Rpi),
        _ => rnd == None,
    };
    if legal { Option::None } else { Some("this rounding or saturation is not available for these types") }
}

fn atomic_vector(space: Space, vector: u8, ty: Type) -> Option<&'static str> {
    match (space, vector, ty.bits()) {
        (Space::Generic | Space::Global, 2 | 4, _) | (Space::Generic | Space::Global, 8, 16) => None,
        (Space::Generic | Space::Global, ..) => Some("a vector of atomics has 2 or 4 elements, or 8 of 16 bits"),
        _ => Some("vectors of atomics are for global memory"),
    }
}

fn atomic_space(space: Space) -> Option<&'static str> {
    match space {
        Space::Generic | Space::Global | Space::Shared | Space::SharedCta | Space::SharedCluster => None,
        Space::Local | Space::Param | Space::Const => Some("atomics are for global and shared memory"),
    }
}
