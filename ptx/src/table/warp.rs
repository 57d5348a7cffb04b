//! Rows of the instructions that a warp, a block or a cluster executes together.

use super::{AMPERE, BARRIER, BITS_32, BULK, COUNT, HOPPER, OWN, STATE, THREADS, asynchronous, space_since};
use crate::instruction::{Atomic, Opcode};
use crate::matrix::{Element, Part, Shape};
use crate::signature::{Class, Row, Since, Slot, Types};
use crate::types::{Space, Type};
use crate::warp::{ClusterOrder, Vote};

const SHUFFLE: &[Slot] =
    &[Slot::WithPredicate(OWN), Slot::Read(OWN), Slot::Read(OWN), Slot::Read(OWN), Slot::Read(OWN)];
const WARPGROUP: Since = Since::exactly(90, (8, 0));
const MULTIPLY: &[Slot] =
    &[Slot::WriteFragment(0), Slot::ReadFragment(1), Slot::ReadFragment(2), Slot::ReadFragment(3)];
const STRIDE: Slot = Slot::Bounded { min: 0, max: i32::MAX as i64, step: 1 };
const TRANSPOSED: Slot = Slot::Constant { min: 0, max: 1, step: 1 };
const WARPGROUP_MULTIPLY: &[Slot] = &[
    Slot::WriteFragment(0),
    Slot::DescriptorOrFragment(1),
    Slot::Read(STATE),
    Slot::Condition,
    Slot::Sign,
    Slot::Sign,
    TRANSPOSED,
    TRANSPOSED,
];
const ADDRESSES: Types = Types::of(&[Type::U32, Type::U64]);

/// Rows of the instructions that a warp, a block or a cluster executes together.
pub(super) fn row(op: &Opcode) -> Row {
    match op {
        Opcode::Shfl(_) => Row::plain("shfl.sync", SHUFFLE),
        Opcode::ShflActive(_) => Row::plain("shfl", &SHUFFLE[..SHUFFLE.len() - 1]),
        Opcode::Vote(Vote::Ballot) => Row::plain("vote.sync", &[Slot::Write(OWN), Slot::Condition, Slot::Read(OWN)]),
        Opcode::Vote(_) => {
            Row::plain("vote.sync", &[Slot::Write(Class::Is(Type::Pred)), Slot::Condition, Slot::Read(OWN)])
        }
        Opcode::VoteActive(Vote::Ballot) => Row::plain("vote", &[Slot::Write(OWN), Slot::Condition]),
        Opcode::VoteActive(_) => Row::plain("vote", &[Slot::Write(Class::Is(Type::Pred)), Slot::Condition]),
        Opcode::ActiveMask => Row::plain("activemask", &[Slot::Write(OWN)]),
        Opcode::Redux { op, ty, .. } => {
            let since = if *ty == Type::F32 { Since::accelerated(100, (8, 6)) } else { AMPERE };
            Row::typed("redux.sync", *ty, redux_types(*op), &[Slot::Write(OWN), Slot::Read(OWN), Slot::Read(BITS_32)])
                .since(since)
        }
        Opcode::Elect => Row::plain("elect.sync", &[Slot::SinkWithPredicate(OWN), Slot::Read(OWN)]).since(BULK),
        Opcode::BarrierSync => Row::plain("barrier.sync", &[BARRIER, THREADS]).optional(1),
        Opcode::BarrierArrive => Row::plain("barrier.arrive", &[BARRIER, THREADS]),
        Opcode::ClusterArrive { order, .. } => Row::plain("barrier.cluster.arrive", &[]).since(cluster_since(*order)),
        Opcode::ClusterWait { order, .. } => Row::plain("barrier.cluster.wait", &[]).since(cluster_since(*order)),
        Opcode::Mapa { space, ty } => {
            Row::typed("mapa", *ty, ADDRESSES, &[Slot::Write(OWN), Slot::AddressValue(OWN), Slot::Read(COUNT)])
                .space(*space)
                .since(HOPPER)
        }
        Opcode::GetCtaRank { space, ty } => {
            Row::typed("getctarank", *ty, ADDRESSES, &[Slot::Write(COUNT), Slot::AddressValue(OWN)])
                .space(*space)
                .since(HOPPER)
        }
        Opcode::SetMaxNReg(_) => Row::plain("setmaxnreg", &[Slot::Constant { min: 24, max: 256, step: 8 }])
            .since(Since::accelerated(90, (8, 0))),
        Opcode::GridDepControl(_) => Row::plain("griddepcontrol", &[]).since(HOPPER),
        Opcode::Mma { shape, d, a, b, c, .. } => multiply(*shape, [*d, *a, *b, *c]),
        Opcode::WmmaLoad { part, shape, space, element, .. } => {
            let stem = match part {
                Part::A => "wmma.load.a.sync.aligned",
                Part::B => "wmma.load.b.sync.aligned",
                Part::C | Part::D => "wmma.load.c.sync.aligned",
            };
            let slots = &[Slot::WriteFragment(0), Slot::Address, STRIDE];
            fragment(stem, slots, part.registers(*shape, *element), *element, *space)
        }
        Opcode::WmmaStore { shape, space, element, .. } => {
            let slots = &[Slot::Address, Slot::ReadFragment(0), STRIDE];
            let registers = Part::D.registers(*shape, *element);
            fragment("wmma.store.d.sync.aligned", slots, registers, *element, *space)
        }
        Opcode::WmmaMultiply { shape, d, ab, c, .. } => {
            let of = [(Part::D, *d), (Part::A, *ab), (Part::B, *ab), (Part::C, *c)];
            Row::plain("wmma.mma.sync.aligned", MULTIPLY)
                .types(of.map(|(_, element)| element.register()))
                .counts(of.map(|(part, element)| part.registers(*shape, element)))
                .since(element_since(*ab))
        }
        Opcode::WmmaBits { xor } => {
            let (stem, since) = match xor {
                true => ("wmma.mma.xor.popc.sync.aligned", Since::sm(75, (6, 3))),
                false => ("wmma.mma.and.popc.sync.aligned", Since::sm(80, (7, 1))),
            };
            let shape = Shape::new(8, 8, 128);
            let of = [(Part::D, Element::S32), (Part::A, Element::B1), (Part::B, Element::B1), (Part::C, Element::S32)];
            Row::plain(stem, MULTIPLY)
                .types(of.map(|(_, element)| element.register()))
                .counts(of.map(|(part, element)| part.registers(shape, element)))
                .since(since)
        }
        Opcode::Wgmma { shape, d, a, .. } => warpgroup_multiply(*shape, *d, *a),
        Opcode::WgmmaFence => Row::plain("wgmma.fence.sync.aligned", &[]).since(WARPGROUP),
        Opcode::WgmmaCommit => Row::plain("wgmma.commit_group.sync.aligned", &[]).since(WARPGROUP),
        Opcode::WgmmaWait => {
            Row::plain("wgmma.wait_group.sync.aligned", &[Slot::Constant { min: 0, max: 7, step: 1 }]).since(WARPGROUP)
        }
        Opcode::LdMatrix { matrices, space, .. } => {
            Row::plain("ldmatrix.sync.aligned.m8n8", &[Slot::WriteFragment(0), Slot::Address])
                .counts([*matrices; 4])
                .space(*space)
                .since(Since::sm(75, (6, 5)).with(space_since(*space)))
        }
        Opcode::StMatrix { matrices, space, .. } => {
            Row::plain("stmatrix.sync.aligned.m8n8", &[Slot::Address, Slot::ReadFragment(0)])
                .counts([*matrices; 4])
                .space(*space)
                .since(HOPPER)
        }
        op => asynchronous::row(op),
    }
}

/// A `wmma` fragment in memory; the stride may be left out.
fn fragment(stem: &'static str, slots: &'static [Slot], registers: u8, element: Element, space: Space) -> Row {
    Row::plain(stem, slots)
        .optional(1)
        .types([element.register(); 4])
        .counts([registers; 4])
        .space(space)
        .since(element_since(element).with(space_since(space)))
}

fn element_since(element: Element) -> Since {
    match element {
        Element::Bf16 | Element::Tf32 | Element::F64 => AMPERE,
        Element::S4 | Element::U4 | Element::B1 => Since::sm(75, (6, 3)),
        _ => Since::ALWAYS,
    }
}

/// `mma.sync`: D, A, B, C as fragments over the 32 threads of a warp.
fn multiply(shape: Shape, elements: [Element; 4]) -> Row {
    let Shape { m, n, k } = shape;
    let [d, a, b, c] = elements;
    let counts = [d.registers(m, n, 32), a.registers(m, k, 32), b.registers(k, n, 32), c.registers(m, n, 32)];
    let since = match (a, shape.m, shape.k) {
        (Element::F16, 16, 8) | (Element::S8 | Element::U8, 8, 16) => Since::sm(75, (6, 5)),
        (Element::E4m3 | Element::E5m2, _, 32) if d == Element::F32 => Since::sm(89, (8, 4)),
        (Element::E4m3 | Element::E5m2, ..) => Since::sm(89, (8, 7)),
        (Element::F64, 16, _) => HOPPER,
        _ => AMPERE,
    };
    Row::plain("mma.sync.aligned", MULTIPLY).types(elements.map(Element::register)).counts(counts).since(since)
}

/// `wgmma`: D over the 128 threads of a warp group; A from a descriptor or registers, B from a descriptor.
fn warpgroup_multiply(shape: Shape, d: Element, a: Element) -> Row {
    let accumulators = d.registers(shape.m, shape.n, 128);
    let (slots, optional, since) = match a {
        Element::F16 | Element::Bf16 => (WARPGROUP_MULTIPLY, 1, WARPGROUP),
        Element::S8 | Element::U8 => (&WARPGROUP_MULTIPLY[..4], 0, Since::exactly(90, (8, 4))),
        _ => (&WARPGROUP_MULTIPLY[..6], 0, WARPGROUP),
    };
    Row::plain("wgmma.mma_async.sync.aligned", slots)
        .optional(optional)
        .types([d.register(), Type::B32, Type::B64, Type::B64])
        .counts([accumulators, 4, 1, 1])
        .since(since)
}

fn cluster_since(order: ClusterOrder) -> Since {
    if order == ClusterOrder::Unstated { HOPPER } else { BULK }
}

fn redux_types(op: Atomic) -> Types {
    match op {
        Atomic::Add => Types::of(&[Type::U32, Type::S32]),
        Atomic::Min | Atomic::Max => Types::of(&[Type::U32, Type::S32, Type::F32]),
        Atomic::And | Atomic::Or | Atomic::Xor => Types::of(&[Type::B32]),
        Atomic::Exch | Atomic::Cas | Atomic::Inc | Atomic::Dec => Types::NONE,
    }
}
