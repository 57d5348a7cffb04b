//! The verifier of tile IR. It trusts nothing that it can derive. A program passes if
//!
//! - its parts are consistent ([`shapes`]): extents, widths, alignments and limits; buffers and mbarriers do not
//!   overlap; the threads of each map, barrier and mbarrier are those of the roles that use it; everything declared is
//!   used;
//! - groups of threads that take turns are warp groups, and skip each other's K-tiles ([`turns`]);
//! - planes are multiplied from the smallest products to the largest, without gaps ([`walk`]);
//! - its statements are correctly ordered ([`order`]): in a run of two threads of every role, over a few more K-tiles
//!   than the deepest ring has slots, no slot is written while it may be read or read before it is written, no thread
//!   waits forever, every term of the sum reaches the stored result exactly once, and no slot is in use between two
//!   tiles.

mod arrival;
mod copies;
mod exchange;
mod limits;
mod order;
mod packs;
mod problem;
mod rings;
mod shapes;
mod staged;
mod steps;
mod stored;
pub mod trace;
mod turns;
mod walk;

use super::{Module, Op, Pack, Program, Role, walk};
use crate::Violation;
use crate::violation::Site;

type Check = Result<(), Violation>;

/// Checks what the entries of a module share. Each program is verified when it is lowered.
///
/// # Errors
/// The first rule that is broken.
pub fn module(module: &Module) -> Check {
    if module.entries.is_empty() {
        return Err(broken("a module needs at least one entry"));
    }
    for (index, program) in module.entries.iter().enumerate() {
        let packs = || module.entries.iter().flat_map(|entry| &entry.packs);
        let apart = |pack: &&Pack| packs().any(|other| other.side == pack.side && !other.is_like(pack));
        let fault = if module.entries[..index].iter().any(|other| other.name == program.name) {
            Some(format!("two entries are called {}", program.name))
        } else if packs()
            .any(|pack| [pack.kernel(&program.problem), pack.scale_kernel(&program.problem)].contains(&program.name))
        {
            Some(format!("{} is the name of a kernel that packs", program.name))
        } else if let Some(pack) = program.packs.iter().find(apart) {
            Some(format!("{} is packed in two ways, and its kernel is shared", pack.side.operand().name()))
        } else if program.target != module.target || program.problem != module.problem {
            Some("an entry must have its module's problem and target".into())
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(broken(fault).in_entry(index));
        }
    }
    problem::check(module)
}

/// Checks a program.
///
/// # Errors
/// The first rule that is broken, and the part of the program that breaks it.
pub fn verify(program: &Program) -> Check {
    shapes::check(program)?;
    order::check(program)
}

/// The accumulators that a role uses.
pub fn accumulators_of(role: &Role) -> Vec<usize> {
    let mut all = Vec::new();
    walk(&role.body, &mut |statement| {
        let used = match &statement.op {
            Op::Clear { acc }
            | Op::Read { acc, .. }
            | Op::Reduce { acc, .. }
            | Op::Share { acc, .. }
            | Op::Stage { acc, .. }
            | Op::Store { acc, .. } => vec![*acc],
            Op::Steps { multiply, .. } => vec![multiply.acc],
            Op::Promote { from, into, rest } => [*from, *into].into_iter().chain(*rest).collect(),
            Op::AddRest { rest, into } => vec![*rest, *into],
            Op::Tiles { .. }
            | Op::AfterFirst { .. }
            | Op::IfAnyK { .. }
            | Op::IfChunkEnds { .. }
            | Op::Loop { .. }
            | Op::Acquire { .. }
            | Op::Copy { .. }
            | Op::Commit { .. }
            | Op::Wait { .. }
            | Op::Release { .. }
            | Op::Skip { .. }
            | Op::Lend { .. }
            | Op::Borrow { .. }
            | Op::Return { .. }
            | Op::Take { .. }
            | Op::Pass { .. }
            | Op::Retire { .. }
            | Op::Sync
            | Op::Meet { .. }
            | Op::PrefetchC { .. }
            | Op::AwaitC
            | Op::Write { .. }
            | Op::Settle
            | Op::Drain => Vec::new(),
        };
        used.into_iter().for_each(|acc| {
            if !all.contains(&acc) {
                all.push(acc);
            }
        });
    });
    all
}

fn broken(message: impl Into<String>) -> Violation {
    Violation::new("tile IR", message.into())
}

/// A rule about one part of the program.
fn rule(holds: bool, site: Site, message: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(broken(message()).at(site)) }
}
