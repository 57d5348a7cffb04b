//! Planes: both operands have them or neither has, and their products are added up from the smallest to the largest.
//!
//! Plane p of an operand is smaller than the operand by a factor that grows with p, and by about the same factor for
//! each plane. So the sum of the planes' numbers determines the size of a product. The walk must contain every product
//! with the last plane of an operand, and every product of at least that size. With four planes, where the fourth is
//! the third without infinities, it must contain all nine products of three planes.

use ptx_gemm_dsl::clause::{ALL_PRODUCTS, Emulation, pairs, size};
use ptx_gemm_dsl::terms::Side;

use super::{Check, rule, trace};
use crate::tile::{Op, Program, Walk};
use crate::violation::Site;

/// Most planes of an operand: those that f32 needs, and one more without infinities.
const MAX_PLANES: u32 = ALL_PRODUCTS;

pub(super) fn check(program: &Program) -> Check {
    for (index, pack) in program.packs.iter().enumerate().filter(|(_, pack)| pack.planes.is_some()) {
        let name = pack.side.operand().name();
        rule(program.walk.is_some(), Site::Pack(index), || {
            format!("{name} is split into planes, and no `walk` says in which order they are multiplied")
        })?;
    }
    for (role, body) in program.roles.iter().map(|role| &role.body).enumerate() {
        let nodes = trace::nodes(role, body);
        for node in nodes.iter().filter(|node| matches!(node.op, Op::IfChunkEnds { .. })) {
            rule(program.walk.is_some(), node.site(), || "k has no chunks: there is no `walk`".into())?;
            let around =
                |outer: &trace::Node<'_>| matches!(outer.op, Op::Loop { .. }) && node.path.starts_with(&outer.path);
            rule(nodes.iter().any(around), node.site(), || {
                "chunks end with K-tiles: `if_chunk_ends` is a statement of the loop over them".into()
            })?;
        }
    }
    let Some(walk) = &program.walk else { return Ok(()) };
    let depth = program.block.k;
    rule(walk.chunk > 0 && walk.chunk.is_multiple_of(depth) && walk.chunk <= 4096, Site::Walk, || {
        format!("a chunk of {} is not made of K-tiles of {depth}, at most 4096 of k", walk.chunk)
    })?;
    let planes = [Side::A, Side::B].map(|side| program.planes(side));
    if planes == [None, None] {
        return promoted(program, walk);
    }
    let [Some(a), Some(b)] = planes else {
        return rule(false, Site::Walk, || "both operands are split into planes, by `pack`, or neither is".into());
    };
    let matrices = [Side::A, Side::B].map(|side| program.problem.types.of(side.operand()));
    let known = a == b && a.dtype.element().bits == 16 && (2..=MAX_PLANES).contains(&a.count);
    rule(known && matrices == [Emulation::OF; 2], Site::Walk, || {
        format!("f32 operands have 2 to {MAX_PLANES} planes of f16 or bf16, alike for A and B")
    })?;
    together(program, walk, a.count)?;
    ordered(walk, a.count)
}

/// Chunks of operands without planes: the sums of tensor cores are promoted to accumulators in f32.
fn promoted(program: &Program, walk: &Walk) -> Check {
    rule(walk.pairs == [(0, 0)], Site::Walk, || "operands that are not split into planes have no pairs".into())?;
    let acc = program.problem.types.acc;
    rule(acc == Emulation::OF, Site::Walk, || format!("chunks are promoted to sums in f32, not in {acc}"))?;
    // Otherwise sums are promoted after each K-tile, and the bound of their errors would be that of longer ones.
    let ends = program.statements().iter().any(|statement| matches!(statement.op, Op::IfChunkEnds { .. }));
    let depth = program.block.k;
    rule(ends || walk.chunk == depth, Site::Walk, || {
        format!("chunks of {} end with no `if_chunk_ends`: sums are those of K-tiles of {depth}", walk.chunk)
    })
}

/// Buffers of planes: one for each plane of A and of B, and chunks of one K-tile.
fn together(program: &Program, walk: &Walk, planes: u32) -> Check {
    if !program.planes_together() {
        return Ok(());
    }
    let by_threads = program.statements().iter().any(|statement| match statement.op {
        Op::Copy { by, .. } => !matches!(by, crate::tile::Mover::Tma { .. }),
        _ => false,
    });
    rule(!by_threads, Site::Walk, || "only tma copies all planes of a K-tile to one slot".into())?;
    let depth = program.block.k;
    rule(walk.chunk == depth, Site::Walk, || {
        format!("slots have all planes of a K-tile of {depth}, and chunks of {} are others", walk.chunk)
    })?;
    for (index, buffer) in program.buffers.iter().enumerate() {
        let of_plane = |other: &&crate::tile::Buffer| (other.side, other.plane) == (buffer.side, buffer.plane);
        let alone = program.buffers.iter().filter(of_plane).count() == 1;
        rule(alone && buffer.plane.is_some_and(|plane| plane < planes), Site::Buffer(index), || {
            format!("{} is not of one of the {planes} planes, or another buffer is of the same", buffer.name)
        })?;
        let alike = |other: &crate::tile::Buffer| {
            let shape = |of: &crate::tile::Buffer| (of.fast, of.pitch, of.swizzle);
            other.side != buffer.side || shape(other) == shape(buffer)
        };
        rule(program.buffers.iter().all(alike), Site::Buffer(index), || {
            format!("{} has another layout than the other planes, which one tensor map describes", buffer.name)
        })?;
    }
    Ok(())
}

fn ordered(Walk { pairs: given, .. }: &Walk, planes: u32) -> Check {
    let at = || Site::Walk;
    if let Some((a, b)) = given.iter().find(|(a, b)| *a >= planes || *b >= planes) {
        return rule(false, at(), || format!("planes {a} of A and {b} of B are not among the {planes} of each"));
    }
    let twice = given.iter().enumerate().find(|(index, pair)| given[..*index].contains(pair));
    if let Some((_, (a, b))) = twice {
        return rule(false, at(), || format!("planes {a} of A and {b} of B are multiplied twice"));
    }
    let of = |pair: (u32, u32)| size(pair.0) + size(pair.1);
    let rising = given.windows(2).find(|two| of(two[0]) < of(two[1]));
    if let Some([(a, b), (c, d)]) = rising {
        return rule(false, at(), || {
            format!("products of planes {a} and {b} come before the smaller ones of {c} and {d}")
        });
    }
    // The last plane that has infinity is only multiplied by first planes: times the zeros of another plane, infinity
    // would be NaN.
    let all = pairs(planes);
    if let Some((a, b)) = given.iter().find(|pair| !all.contains(pair)) {
        let last = planes.min(3) - 1;
        return rule(false, at(), || {
            format!("plane {last} is multiplied by first planes alone, and products of {a} and {b} are smaller")
        });
    }
    let missing = all.into_iter().find(|pair| !given.contains(pair));
    rule(missing.is_none(), at(), || {
        let (a, b) = missing.unwrap_or_default();
        format!("the products of planes {a} of A and {b} of B are missing")
    })
}
