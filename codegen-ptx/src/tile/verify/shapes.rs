//! Extents, widths, alignments, limits, and references between the parts.

use ptx_gemm_dsl::target::{BARRIERS, MAX_THREADS, Target, WARP, WARP_GROUP, registers_per_thread};
use ptx_gemm_dsl::terms::{Along, Extent2, Operand, Param, Tail, Wave};
use ptx_gemm_dsl::types::{Batch, Layout};

use super::limits::{MAX_CLUSTER, MAX_EXTENT, MAX_PRODUCTS, vector};
use super::{
    Check, accumulators_of, arrival, broken, copies, exchange, packs, rings, rule, staged, steps, stored, trace, turns,
    walk,
};
use crate::tile::{Division, Op, Program, ReadC, Role, Source, param_name};
use crate::violation::Site;

/// Most groups of products that can be left in flight (PTX ISA, "wgmma.wait_group").
const MAX_IN_FLIGHT: u32 = 7;

pub(super) fn check(program: &Program) -> Check {
    extents(program)?;
    scheduler(program)?;
    exchange::check(program)?;
    roles(program)?;
    references(program)?;
    turns::check(program)?;
    arrival::check(program)?;
    params(program)?;
    program.buffers.iter().enumerate().try_for_each(|(index, buffer)| rings::buffer(program, index, buffer))?;
    program.packs.iter().enumerate().try_for_each(|(index, pack)| packs::check(program, index, pack))?;
    walk::check(program)?;
    program.rings.iter().enumerate().try_for_each(|(index, ring)| rings::ring(program, index, ring))?;
    staged::check(program)?;
    rings::overlaps(program)?;
    accumulators(program)?;
    barriers(program)?;
    for (index, role) in program.roles.iter().enumerate() {
        for node in trace::nodes(index, &role.body) {
            match node.op {
                Op::Copy { buffer, by, .. } => copies::check(program, role, *buffer, *by, node.site())?,
                Op::Steps { .. } => steps::check(program, &node)?,
                Op::Store { acc, width, c_width } => {
                    stored::check(program, &program.accumulators[*acc].map, (*width, *c_width), &node.site())?;
                }
                Op::Share { acc, width } => exchange::share(program, *acc, *width, node.site())?,
                Op::Read { acc, width } => read(program, *acc, *width, node.site())?,
                Op::Stage { acc, by, c } => {
                    staged::stage(program, *acc, *by, node.site())?;
                    if let ReadC::Global { width } = c {
                        stored::read_c(program, &program.accumulators[*acc].map, *width, node.site())?;
                    }
                }
                Op::PrefetchC { rows } => arrival::boxes(program, index, *rows, node.site())?,
                Op::Write { by } => staged::write(program, *by, node.site())?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn extents(program: &Program) -> Check {
    let block = program.block;
    for (name, extent) in [("m", block.m), ("n", block.n), ("k", block.k)] {
        rule((1..=MAX_EXTENT).contains(&extent), Site::Tile, || {
            format!("tile {name} is {extent}, and must be 1 to {MAX_EXTENT}")
        })?;
    }
    let warps = program.threads().div_ceil(WARP);
    let resident = u64::from(program.blocks_per_sm) * u64::from(warps) * u64::from(WARP);
    let limit = u64::from(program.target.sm_threads());
    rule(program.blocks_per_sm > 0 && resident <= limit.max(u64::from(warps * WARP)), Site::Tile, || {
        format!(
            "{} blocks of {} threads exceed the {limit} threads of a multiprocessor",
            program.blocks_per_sm,
            program.threads()
        )
    })
}

/// Checks that the parameters are those that the problem and the scheduler need, each once.
fn params(program: &Program) -> Check {
    let (problem, epilogue) = (&program.problem, &program.problem.epilogue);
    let matrices: Vec<_> = problem.matrices().collect();
    // A tensor map contains the address, the leading dimension and the batch stride.
    let mapped = |operand: &Operand| {
        program
            .rings
            .iter()
            .enumerate()
            .filter(|(ring, _)| program.by_tma(*ring))
            .any(|(_, ring)| ring.buffers.iter().any(|buffer| program.buffers[*buffer].side.operand() == *operand))
    };
    let mapped = |operand: &Operand| match operand {
        Operand::D => program.writes_by_tma(),
        Operand::C => program.boxes_of_c().is_some(),
        Operand::A | Operand::B => mapped(operand),
    };
    // The shape of planes follows from the extents.
    let split =
        |operand: &Operand| program.packs.iter().any(|pack| pack.side.operand() == *operand && pack.planes.is_some());
    let plain: Vec<_> = matrices.iter().copied().filter(|matrix| !mapped(matrix) && !split(matrix)).collect();
    let address = |matrix: &Operand| match matrix {
        _ if mapped(matrix) => Param::Map(*matrix),
        _ if split(matrix) => Param::Packed(*matrix),
        _ => Param::Matrix(*matrix),
    };
    let mut needed: Vec<Param> = (0..epilogue.scalars.len()).map(Param::Scalar).collect();
    if problem.batch == Batch::Grouped {
        // The records contain the rest.
        needed.extend([Param::Problems, Param::Batch]);
        if program.scheduler.division == Division::Stream {
            needed.push(Param::Tiles);
        }
    } else {
        needed.extend(matrices.iter().map(address));
        needed.extend((0..epilogue.vectors.len()).map(Param::Vector));
        needed.extend([Param::M, Param::N, Param::K]);
        needed.extend(plain.iter().map(|matrix| Param::Ld(*matrix)));
    }
    if problem.batch == Batch::Strided {
        needed.push(Param::Batch);
        needed.extend(plain.iter().map(|matrix| Param::BatchStride(*matrix)));
    }
    if program.scheduler.needs_workspace() {
        needed.push(Param::Workspace);
    }
    let scaled = program.packs.iter().filter(|pack| pack.scales());
    needed.extend(scaled.map(|pack| Param::Scales(pack.side.operand())));
    for param in &needed {
        let given = program.params.iter().filter(|given| *given == param).count();
        rule(given == 1, Site::Params, || {
            format!("the parameter `{}` is given {given} times instead of once", param_name(param, problem))
        })?;
    }
    let extra = program.params.iter().find(|given| !needed.contains(given));
    match extra {
        None => Ok(()),
        Some(extra) => {
            Err(broken(format!("nothing reads the parameter `{}`", param_name(extra, problem))).at(Site::Params))
        }
    }
}

/// Blocks of a cluster with tiles outside D take part in everything: TMA copies nothing for them, and guards keep them
/// from storing.
fn clusters(program: &Program) -> Check {
    let scheduler = &program.scheduler;
    let (Extent2 { m, n }, blocks) = (scheduler.cluster, scheduler.cluster_blocks());
    let portable = m > 0 && n > 0 && blocks <= MAX_CLUSTER;
    rule(portable, Site::Scheduler, || format!("a cluster has 1 to {MAX_CLUSTER} blocks, not {m} x {n}"))?;
    if blocks == 1 {
        return Ok(());
    }
    rule(program.target.capability >= 90, Site::Scheduler, || format!("{} has no clusters", program.target))?;
    rule(scheduler.division != Division::Stream, Site::Scheduler, || {
        "the blocks of a cluster sum the same part of k, and stream-K gives each a share of its own".into()
    })?;
    rule(program.tail == Tail::Predicate, Site::Scheduler, || {
        "a cluster may have blocks with tiles outside D, and `tail none` has no guards for them".into()
    })?;
    let by_tma = !program.rings.is_empty() && (0..program.rings.len()).all(|ring| program.by_tma(ring));
    rule(by_tma, Site::Scheduler, || "in a cluster, tma copies the operands".into())?;
    let whole = match scheduler.persistent {
        Some(Wave::Blocks(wave)) => wave.is_multiple_of(blocks),
        _ => true,
    };
    rule(whole, Site::Scheduler, || format!("a wave is made of whole clusters of {blocks} blocks"))
}

fn scheduler(program: &Program) -> Check {
    let scheduler = &program.scheduler;
    let group = scheduler.raster.group;
    rule((1..=65_535).contains(&group), Site::Scheduler, || {
        format!("the raster group is {group}, and must be 1 to 65535")
    })?;
    rule(scheduler.raster.along != Along::Z, Site::Scheduler, || "the raster must run along n or m".into())?;
    if let Some(Wave::Blocks(blocks)) = scheduler.persistent {
        rule((1..=65_535).contains(&blocks), Site::Scheduler, || {
            format!("the wave has {blocks} blocks, and must have 1 to 65535")
        })?;
    }
    clusters(program)?;
    if program.problem.batch == Batch::Grouped {
        rule(scheduler.persistent.is_some(), Site::Scheduler, || {
            "blocks walk through the list of a group, and need `persistent`".into()
        })?;
        rule(!matches!(scheduler.division, Division::Parts(_)), Site::Scheduler, || {
            "parts of k have the extents of one product".into()
        })?;
    }
    match scheduler.division {
        Division::Whole => Ok(()),
        Division::Parts(parts) => rule((1..=1024).contains(&parts), Site::Scheduler, || {
            format!("k has {parts} parts, and must have 1 to 1024")
        }),
        Division::Cluster(_) => Ok(()),
        Division::Stream => rule(scheduler.persistent.is_some(), Site::Scheduler, || {
            "stream_k divides K-tiles among the blocks of a wave, and needs `persistent`".into()
        }),
    }
}

fn roles(program: &Program) -> Check {
    let mut next = 0;
    for (index, role) in program.roles.iter().enumerate() {
        let site = || Site::Role(index);
        rule(role.threads.start == next && !role.is_empty(), site(), || {
            format!(
                "role {} has threads {}..{}; the first must be {next}",
                role.name, role.threads.start, role.threads.end
            )
        })?;
        next = role.threads.end;
        rule(next <= MAX_THREADS, site(), || format!("a block has {next} threads, and the limit is {MAX_THREADS}"))?;
        let whole = program.roles.len() == 1 || role.len().is_multiple_of(WARP);
        rule(whole, site(), || format!("role {} has {} threads, which are not whole warps", role.name, role.len()))?;
        let ops: Vec<&Op> = role.body.iter().map(|statement| &statement.op).collect();
        let tiles = match ops.as_slice() {
            [Op::Tiles { .. }] => true,
            [Op::Tiles { .. }, Op::Settle] => program.scheduler.persistent.is_some(),
            _ => false,
        };
        rule(tiles, site(), || {
            format!(
                "the body of role {} must be a single `tiles`, which `settle` may follow where blocks are persistent",
                role.name
            )
        })?;
    }
    registers(program)?;
    rule(!program.roles.is_empty(), Site::Tile, || "a program needs at least one role".into())
}

/// The length of the path of a statement of `tiles`: the role, `tiles`, and the statement.
const PATH_IN_TILES: usize = 3;

/// The statements of a ring, and what each does to a slot.
const RING_STATEMENTS: [(&str, &str); 4] =
    [("acquire", "acquired"), ("commit", "committed"), ("wait", "waited for"), ("release", "released")];

/// Checks the registers of roles: whole warp groups share what the block is launched with (PTX ISA, "setmaxnreg").
fn registers(program: &Program) -> Check {
    let Some(stated) = program.roles.iter().position(|role| role.registers.is_some()) else { return Ok(()) };
    let site = || Site::Role(stated);
    rule(program.target == Target::SM_90A, site(), || {
        format!("registers of a role need sm_90a, not {}", program.target)
    })?;
    let launched = registers_per_thread(program.threads(), program.blocks_per_sm);
    let mut asked = 0;
    for (index, role) in program.roles.iter().enumerate() {
        let site = || Site::Role(index);
        let Some(registers) = role.registers else {
            return Err(broken(format!("role {} states no registers, and another one does", role.name)).at(site()));
        };
        rule((24..=256).contains(&registers) && registers.is_multiple_of(8), site(), || {
            format!("role {} has {registers} registers, and must have a multiple of 8 from 24 to 256", role.name)
        })?;
        rule(role.len().is_multiple_of(WARP_GROUP), site(), || {
            format!("role {} has {} threads, which are not whole warp groups of {WARP_GROUP}", role.name, role.len())
        })?;
        asked += u64::from(role.len()) * u64::from(registers);
    }
    let pool = u64::from(launched) * u64::from(program.threads());
    rule(asked <= pool, site(), || {
        format!("the roles ask for {asked} registers, and the block is launched with {pool}")
    })
}

/// Checks that every reference to a buffer, ring, barrier or accumulator is valid, and that each of them is used.
fn references(program: &Program) -> Check {
    let mut buffers = vec![(0, 0); program.buffers.len()];
    let mut rings = vec![[0; 4]; program.rings.len()];
    let mut barriers = vec![0; program.barriers.len()];
    let missing = |what: &str, site: Site| Err(broken(format!("this {what} does not exist")).at(site));
    for (index, ring) in program.rings.iter().enumerate() {
        if ring.buffers.iter().any(|buffer| *buffer >= program.buffers.len()) {
            return missing("buffer", Site::Ring(index));
        }
    }
    for (role, body) in program.roles.iter().map(|role| &role.body).enumerate() {
        for node in trace::nodes(role, body) {
            let acc = |acc: usize| match acc < program.accumulators.len() {
                true => Ok(()),
                false => missing("accumulator", node.site()),
            };
            match node.op {
                Op::Acquire { ring } | Op::Commit { ring } | Op::Wait { ring } | Op::Release { ring, .. } => {
                    // As in `RING_STATEMENTS`.
                    let kind = match node.op {
                        Op::Acquire { .. } => 0,
                        Op::Commit { .. } => 1,
                        Op::Wait { .. } => 2,
                        _ => 3,
                    };
                    match rings.get_mut(*ring) {
                        Some(uses) => uses[kind] += 1,
                        None => return missing("ring", node.site()),
                    }
                }
                Op::Copy { buffer, .. } => match buffers.get_mut(*buffer) {
                    Some((copied, _)) => *copied += 1,
                    None => return missing("buffer", node.site()),
                },
                Op::Steps { fetches, multiply, .. } => {
                    acc(multiply.acc)?;
                    for (fetch, _) in fetches {
                        if let Source::Buffer(buffer) = fetch.from {
                            match buffers.get_mut(buffer) {
                                Some((_, read)) => *read += 1,
                                None => return missing("buffer", node.site()),
                            }
                        }
                    }
                }
                Op::Meet { barrier } => match barriers.get_mut(*barrier) {
                    Some(uses) => *uses += 1,
                    None => return missing("barrier", node.site()),
                },
                Op::Skip { ring } | Op::Lend { ring } | Op::Borrow { ring } | Op::Return { ring }
                    if *ring >= rings.len() =>
                {
                    return missing("ring", node.site());
                }
                Op::Lend { ring } | Op::Borrow { ring } | Op::Return { ring } => staged::lends(program, *ring, &node)?,
                Op::Take { turn } | Op::Pass { turn } if *turn >= program.turns.len() => {
                    return missing("turn", node.site());
                }
                Op::Clear { acc: a }
                | Op::Read { acc: a, .. }
                | Op::Reduce { acc: a, .. }
                | Op::Stage { acc: a, .. }
                | Op::Share { acc: a, .. }
                | Op::Store { acc: a, .. } => acc(*a)?,
                Op::Promote { from, into, rest } => {
                    [*from, *into].into_iter().chain(*rest).try_for_each(&acc)?;
                    rule(from != into, node.site(), || "a set of accumulators cannot be promoted into itself".into())?;
                    rule(rest.is_none_or(|rest| rest != *from && rest != *into), node.site(), || {
                        "rounding errors need a set of accumulators of their own".into()
                    })?;
                }
                Op::AddRest { rest, into } => {
                    [*rest, *into].into_iter().try_for_each(&acc)?;
                    rule(rest != into, node.site(), || "a set of accumulators cannot be added to itself".into())?;
                }
                Op::Retire { steps } => {
                    rule(*steps <= MAX_IN_FLIGHT, node.site(), || {
                        format!("at most {MAX_IN_FLIGHT} statements can be left in flight, not {steps}")
                    })?;
                }
                Op::AfterFirst { .. } => {
                    let of_tile = node.path.len() == PATH_IN_TILES;
                    rule(of_tile && program.scheduler.persistent.is_some(), node.site(), || {
                        "`after_first` is a statement of `tiles`, where blocks are persistent".into()
                    })?;
                }
                Op::Tiles { .. } | Op::IfAnyK { .. } | Op::IfChunkEnds { .. } | Op::Loop { .. } => {}
                Op::Skip { .. } | Op::Take { .. } | Op::Pass { .. } => {}
                Op::Drain => rule(program.target.capability >= 80, node.site(), || {
                    format!("`drain` waits for asynchronous copies, which need sm_80, not {}", program.target)
                })?,
                Op::Sync | Op::Write { .. } | Op::Settle | Op::PrefetchC { .. } | Op::AwaitC => {}
            }
        }
    }
    for (index, (copied, read)) in buffers.iter().enumerate() {
        let name = &program.buffers[index].name;
        rule(*copied > 0 && *read > 0, Site::Buffer(index), || format!("{name} must be both copied to and read"))?;
    }
    for (index, uses) in rings.iter().enumerate() {
        let name = &program.rings[index].name;
        rule(uses.iter().all(|n| *n > 0), Site::Ring(index), || unused(name, uses))?;
    }
    for (index, uses) in barriers.iter().enumerate() {
        let name = &program.barriers[index].name;
        rule(*uses > 0, Site::Barrier(index), || format!("no statement uses {name}"))?;
    }
    Ok(())
}

/// Names the missing statements of a ring, given how often each of [`RING_STATEMENTS`] occurs.
fn unused(ring: &str, uses: &[usize; 4]) -> String {
    let absent = || RING_STATEMENTS.iter().zip(uses).filter(|(_, uses)| **uses == 0).map(|(statement, _)| statement);
    let done: Vec<&str> = absent().map(|(_, done)| *done).collect();
    let written: Vec<String> = absent().map(|(name, _)| format!("`{name} {ring}`")).collect();
    format!("{ring} is never {}: there is no {}", done.join(" nor "), written.join(" and no "))
}

fn accumulators(program: &Program) -> Check {
    let used: Vec<Vec<usize>> = program.roles.iter().map(accumulators_of).collect();
    for (index, acc) in program.accumulators.iter().enumerate() {
        let site = || Site::Accumulator(index);
        let name = &acc.name;
        if let Some(fault) = acc.map.fault(program.block.m, program.block.n) {
            return Err(broken(format!("{name}: {fault}")).at(site()));
        }
        let roles: Vec<usize> = (0..used.len()).filter(|role| used[*role].contains(&index)).collect();
        let [role] = roles.as_slice() else {
            return Err(broken(format!("{name} is used by {} roles instead of one", roles.len())).at(site()));
        };
        let role_of = &program.roles[*role];
        let threads = role_of.per_tile();
        rule(acc.map.threads() == threads, site(), || {
            let who = if role_of.turns > 1 { "a group of its role" } else { "its role" };
            format!("{name} is distributed over {} threads, but {who} has {threads}", acc.map.threads())
        })?;
        let same = used[*role].iter().all(|other| program.accumulators[*other].map == acc.map);
        rule(same, site(), || "the accumulators of a role must have the same map".into())?;
        let most = MAX_PRODUCTS;
        rule(acc.map.elements() <= most, site(), || {
            format!("{name} has {} registers per thread, and the limit is {most}", acc.map.elements())
        })?;
    }
    Ok(())
}

fn barriers(program: &Program) -> Check {
    for (index, barrier) in program.barriers.iter().enumerate() {
        let site = || Site::Barrier(index);
        let name = &barrier.name;
        let users = meeting(program, index);
        let (first, end) = numbers(program, index);
        rule(first > 0 && end <= BARRIERS, site(), || match end.saturating_sub(first) {
            2.. => format!("{name} has numbers {first} to {}, one for each group, and must have 1 to 15", end - 1),
            _ => format!("{name} has number {first}, and must have 1 to 15"),
        })?;
        let other = (0..index).map(|other| numbers(program, other)).find(|other| other.0 < end && first < other.1);
        rule(other.is_none(), site(), || {
            format!("two barriers have number {}", first.max(other.map_or(0, |other| other.0)))
        })?;
        rule(users.len() == 1 || users.iter().all(|role| role.turns == 1), site(), || {
            format!("{name} is of threads that take turns, which other roles cannot meet")
        })?;
        let threads: u32 = users.iter().map(|role| role.per_tile()).sum();
        rule(barrier.threads == threads && threads.is_multiple_of(WARP), site(), || {
            format!("{name} is for {} threads, but {threads} use it", barrier.threads)
        })?;
    }
    Ok(())
}

/// The roles that use a named barrier.
fn meeting(program: &Program, barrier: usize) -> Vec<&Role> {
    let meets = |role: &&Role| {
        let mut found = false;
        crate::tile::walk(&role.body, &mut |s| found |= matches!(s.op, Op::Meet { barrier: of } if of == barrier));
        found
    };
    program.roles.iter().filter(meets).collect()
}

/// The first number of a barrier, and the one after its last: it has one number for each group of threads that takes
/// turns.
fn numbers(program: &Program, barrier: usize) -> (u32, u32) {
    let first = program.barriers[barrier].number;
    let groups = meeting(program, barrier).iter().map(|role| role.turns).max().unwrap_or(1);
    (first, first.saturating_add(groups))
}

/// The accumulators are read line by line as D is stored, and nothing that reads them multiplies.
fn read(program: &Program, acc: usize, width: u32, site: Site) -> Check {
    let (dtype, layouts) = (program.problem.types.a, program.problem.layouts);
    let multiplies = program.statements().iter().any(|s| matches!(s.op, Op::Steps { .. } | Op::Copy { .. }));
    rule(!multiplies && program.scheduler.division == Division::Whole, site.clone(), || {
        "a program that reads sums from a neither copies nor multiplies, and does not divide k".into()
    })?;
    rule(layouts.a == layouts.d && program.problem.batch != Batch::Grouped, site.clone(), || {
        "a and d must have the same layout, and no list, to be read and stored together".into()
    })?;
    let run = program.accumulators[acc].map.run(layouts.d == Layout::Row);
    rule(vector(width, dtype.bytes()) && run.is_multiple_of(width), site, || {
        format!("A is read {width} {dtype} at a time, but a thread holds {run} adjacent ones")
    })
}
