//! Roles with groups of threads that take turns, and their ordered barriers.

use ptx_gemm_dsl::target::WARP_GROUP;

use super::trace::{self, Node};
use super::{Check, rule};
use crate::tile::print::name;
use crate::tile::{Empty, Full, Op, Program, Role, Turn};
use crate::violation::Site;

/// Alignment of an mbarrier (PTX ISA, "mbarrier").
const ALIGN: u32 = Turn::BYTES;

pub(super) fn check(program: &Program) -> Check {
    for (index, role) in program.roles.iter().enumerate() {
        let nodes = trace::nodes(index, &role.body);
        rule(role.turns > 0, Site::Role(index), || format!("role {} has no groups to take turns", role.name))?;
        if role.turns == 1 {
            together(role, &nodes)?;
            continue;
        }
        let first = program.roles.iter().position(|role| role.turns > 1);
        rule(first == Some(index), Site::Role(index), || "only one role of a block takes turns".into())?;
        groups(program, role, index)?;
        nodes.iter().try_for_each(|node| alone(role, node))?;
        rings(program, role, &nodes)?;
    }
    for (index, turn) in program.turns.iter().enumerate() {
        let (site, name) = (|| Site::Turn(index), &turn.name);
        rule(turn.offset_bytes.is_multiple_of(ALIGN), site(), || {
            format!("{name}: mbarriers must begin at a multiple of {ALIGN} B")
        })?;
        let statements = program.statements();
        let taken = statements.iter().any(|statement| matches!(statement.op, Op::Take { turn } if turn == index));
        rule(taken, site(), || format!("{name} is never taken: there is no `take {name}`"))?;
    }
    Ok(())
}

/// Checks that a role without turns has no ordered barriers.
fn together(role: &Role, nodes: &[Node<'_>]) -> Check {
    for node in nodes {
        let of_turns = matches!(node.op, Op::Skip { .. } | Op::Take { .. } | Op::Pass { .. });
        rule(!of_turns, node.site(), || format!("role {} takes no turns: `turns` states how many", role.name))?;
    }
    Ok(())
}

/// Checks that the groups are warp groups, with several tiles to compute, and with whole sums.
fn groups(program: &Program, role: &Role, index: usize) -> Check {
    let (site, name) = (|| Site::Role(index), &role.name);
    let whole = role.per_tile() == WARP_GROUP && role.len().is_multiple_of(WARP_GROUP);
    rule(whole && role.threads.start.is_multiple_of(WARP_GROUP), site(), || {
        format!(
            "role {name} has threads {}..{}, which are not {} warp groups of {WARP_GROUP}",
            role.threads.start, role.threads.end, role.turns
        )
    })?;
    let scheduler = &program.scheduler;
    rule(scheduler.persistent.is_some(), site(), || {
        format!("a block has one tile, and the groups of role {name} compute one each: they need `persistent`")
    })?;
    rule(!scheduler.divides_k(), site(), || {
        format!(
            "the groups of role {name} pass over each other's K-tiles, and the parts of a sum differ in their number"
        )
    })
}

/// Checks that a statement concerns one group alone and lets it run independently of the others.
fn alone(role: &Role, node: &Node<'_>) -> Check {
    let word = name(node.op);
    let shared = match node.op {
        Op::Acquire { .. } | Op::Copy { .. } | Op::Commit { .. } | Op::Drain => {
            Some("K-tiles are copied by another role")
        }
        Op::Sync => Some("the threads of the block are never at the same tile"),
        _ => None,
    };
    match shared {
        None => Ok(()),
        Some(why) => rule(false, node.site(), || format!("role {} takes turns, and has no `{word}`: {why}", role.name)),
    }
}

/// Checks the rings that the role reads: their slots continue from tile to tile, and each is skipped once per tile.
fn rings(program: &Program, role: &Role, nodes: &[Node<'_>]) -> Check {
    for (index, ring) in program.rings.iter().enumerate() {
        let Some(read) = nodes.iter().find(|node| matches!(node.op, Op::Wait { ring } if *ring == index)) else {
            continue;
        };
        let name = &ring.name;
        let counts = matches!((ring.full, ring.empty), (Full::Mbarrier { .. }, Empty::Mbarrier { .. }));
        rule(counts, Site::Ring(index), || {
            format!("role {} takes turns: {name} needs mbarriers for full and empty slots", role.name)
        })?;
        let skips = nodes.iter().filter(|node| matches!(node.op, Op::Skip { ring } if *ring == index)).count();
        rule(skips == 1, read.site(), || {
            format!("role {} takes turns, and has {skips} `skip {name}` instead of one", role.name)
        })?;
    }
    Ok(())
}
