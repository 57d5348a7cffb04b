//! Buffers and the rings of their slots: their place in shared memory, and what signals that a slot is full or empty.

use ptx_gemm_dsl::target::{MBARRIER_PAIR, WARP_GROUP};
use ptx_gemm_dsl::terms::{Side, Swizzle};

use super::limits::{MAX_EXTENT, alignment};
use super::{Check, rule};
use crate::tile::{Buffer, Empty, Full, Mover, Op, Program, Ring};
use crate::violation::Site;

/// Most slots of a ring.
const MAX_DEPTH: u32 = 64;

pub(super) fn buffer(program: &Program, index: usize, buffer: &Buffer) -> Check {
    let site = || Site::Buffer(index);
    let (name, block) = (&buffer.name, program.block);
    let extent = match buffer.side {
        Side::A => block.m,
        Side::B => block.n,
    };
    rule((buffer.extent, buffer.depth) == (extent, block.k), site(), || {
        format!("{name} is {} x {}, but the K-tile is {extent} x {}", buffer.extent, buffer.depth, block.k)
    })?;
    let (row, pitch) = (buffer.row(), buffer.pitch);
    // If panels are as wide as the swizzle span, rows may fill the last panel only in part.
    let element = program.element(buffer.side).bytes();
    let spans = buffer.swizzle == Swizzle::Bytes(pitch.saturating_mul(element));
    let panels = pitch > 0 && (row.is_multiple_of(pitch) || spans);
    rule(panels || (row..=4 * MAX_EXTENT).contains(&pitch), site(), || {
        format!("{name}: rows of {row} elements cannot have a pitch of {pitch}, nor be cut into panels of it")
    })?;
    if let Swizzle::Bytes(span) = buffer.swizzle {
        rule([32, 64, 128].contains(&span), site(), || {
            format!("{name}: the span of a swizzle must be 32, 64 or 128 B, not {span}")
        })?;
    }
    let rings = program.rings.iter().filter(|ring| ring.buffers.contains(&index)).count();
    rule(rings == 1, site(), || format!("{name} is in {rings} rings instead of one"))
}

pub(super) fn ring(program: &Program, index: usize, ring: &Ring) -> Check {
    let site = || Site::Ring(index);
    let name = &ring.name;
    rule((1..=MAX_DEPTH).contains(&ring.depth), site(), || {
        format!("{name} has {} slots, and must have 1 to {MAX_DEPTH}", ring.depth)
    })?;
    let mut unique = ring.buffers.clone();
    unique.sort_unstable();
    unique.dedup();
    rule(unique.len() == ring.buffers.len(), site(), || format!("{name} lists a buffer twice"))?;
    let align = ring.buffers.iter().map(|b| alignment(program.buffers[*b].swizzle)).max().unwrap_or(1);
    rule(ring.slot_bytes.is_multiple_of(align) && ring.slot_bytes > 0, site(), || {
        format!("{name}: slots are {} B apart, which is not a multiple of {align}", ring.slot_bytes)
    })?;
    for buffer in &ring.buffers {
        let Buffer { name, offset_bytes, .. } = &program.buffers[*buffer];
        rule(offset_bytes.is_multiple_of(align), Site::Buffer(*buffer), || {
            format!("{name} begins at {offset_bytes} B, which is not a multiple of {align}")
        })?;
    }
    rule(!program.by_tma(index) || matches!(ring.full, Full::Mbarrier { .. }), site(), || {
        format!("{name} is filled by tma, and only an mbarrier says when that is complete: `full mbarrier(1)`")
    })?;
    let since = |holds: bool, what: &str| {
        rule(holds || program.target.capability >= 80, site(), || format!("{what} need sm_80, not {}", program.target))
    };
    since(!matches!(ring.full, Full::CopyGroups { .. }), "groups of copies")?;
    since(ring.mbarriers.is_none(), "mbarriers")?;
    let counted = matches!(ring.full, Full::Mbarrier { .. }) || matches!(ring.empty, Empty::Mbarrier { .. });
    rule(counted == ring.mbarriers.is_some(), site(), || {
        if counted { format!("{name} has no mbarriers") } else { format!("nothing uses the mbarriers of {name}") }
    })?;
    let fits = ring.mbarriers.is_none_or(|at| at.is_multiple_of(8));
    rule(fits, site(), || format!("{name}: mbarriers must begin at a multiple of 8 B"))?;
    let by_tma = program.by_tma(index);
    let mixed = program.statements().iter().any(|statement| match &statement.op {
        Op::Copy { buffer, by, .. } => ring.buffers.contains(buffer) && matches!(by, Mover::Tma { .. }) != by_tma,
        _ => false,
    });
    rule(!mixed, site(), || format!("{name} is filled by tma, and by threads as well"))?;
    let threads = |used: fn(&Op) -> Option<usize>, alone: bool| -> u32 {
        let uses = |body: &[crate::tile::Statement]| {
            let mut found = false;
            crate::tile::walk(body, &mut |statement| found |= used(&statement.op) == Some(index));
            found
        };
        program.roles.iter().filter(|role| uses(&role.body)).map(|role| if alone { 1 } else { role.per_tile() }).sum()
    };
    if let Full::Mbarrier { arrivals } = ring.full {
        let fill = threads(|op| if let Op::Commit { ring } = op { Some(*ring) } else { None }, by_tma);
        rule(arrivals == fill, site(), || {
            let threads = if fill == 1 { "thread fills" } else { "threads fill" };
            format!("{name} is full after {arrivals} arrivals, but {fill} {threads} it")
        })?;
    }
    if let Empty::Mbarrier { arrivals } = ring.empty {
        let read = threads(|op| if let Op::Release { ring, .. } = op { Some(*ring) } else { None }, false);
        let groups = program.read_by_descriptor(index);
        let (read, who) = if groups { (read / WARP_GROUP, "warp groups") } else { (read, "threads") };
        rule(arrivals == read, site(), || {
            format!("{name} is empty after {arrivals} arrivals, but {read} {who} read it")
        })?;
    }
    // A barrier of the block says that all slots were read, not which one.
    let keeps = |op: &Op| matches!(op, Op::Release { ring, kept: 1.. } if *ring == index);
    let kept = program.statements().iter().any(|statement| keeps(&statement.op));
    rule(!kept || matches!(ring.empty, Empty::Mbarrier { .. }), site(), || {
        format!("{name} has no mbarriers: `release {name} but 1` needs them")
    })
}

/// Checks that slots and mbarriers do not share bytes, and that shared memory is large enough.
pub(super) fn overlaps(program: &Program) -> Check {
    let mut taken: Vec<(u64, u64, Site)> = Vec::new();
    for (index, ring) in program.rings.iter().enumerate() {
        for slot in 0..ring.depth {
            for buffer in &ring.buffers {
                let tile = &program.buffers[*buffer];
                let start = u64::from(tile.offset_bytes) + u64::from(slot) * u64::from(ring.slot_bytes);
                let bytes = tile.span_bytes(program.element(tile.side));
                // A swizzle permutes whole periods.
                let bytes = bytes.next_multiple_of(u64::from(alignment(tile.swizzle)));
                taken.push((start, start + bytes, Site::Buffer(*buffer)));
            }
        }
        if let Some(at) = ring.mbarriers {
            let start = u64::from(at);
            taken.push((start, start + u64::from(MBARRIER_PAIR) * u64::from(ring.depth), Site::Ring(index)));
        }
    }
    for (index, turn) in program.turns.iter().enumerate() {
        taken.push((u64::from(turn.offset_bytes), turn.end(program.groups()), Site::Turn(index)));
    }
    if let Some(arrival) = &program.arrival {
        taken.push((arrival.offset_bytes.into(), arrival.end(program.groups()), Site::Arrival));
    }
    let staged = match program.lent() {
        None => program.staged_range(),
        Some(lent) => {
            let (start, ring) = (u64::from(lent.first_bytes), &program.rings[lent.ring]);
            Some((start, start + u64::from(ring.depth) * u64::from(ring.slot_bytes)))
        }
    };
    if let Some((start, end)) = staged {
        // The stage may use the slots' memory, in an order that `order` checks, but not that of mbarriers. If slots are
        // lent for it, it may not use another ring's slots.
        let lent = program.lent().map(|lent| &program.rings[lent.ring].buffers);
        let mut others = taken.iter().filter(|(_, _, site)| match site {
            Site::Buffer(buffer) => lent.is_some_and(|buffers| !buffers.contains(buffer)),
            _ => true,
        });
        let covered = others.find(|(first, last, _)| start < *last && *first < end);
        let (site, staged) = match program.stage {
            Some(_) => (Site::Stage, "the stage of d"),
            None => (Site::Exchange, "what blocks exchange"),
        };
        rule(covered.is_none(), site, || {
            let what = match covered {
                Some((_, _, Site::Buffer(buffer))) => program.buffers[*buffer].name.as_str(),
                _ => "mbarriers",
            };
            format!("{staged}, bytes {start} to {end}, covers {what}")
        })?;
    }
    taken.sort_by_key(|(start, end, _)| (*start, *end));
    for pair in taken.windows(2) {
        let [(_, end, _), (start, _, site)] = pair else { continue };
        rule(end <= start, site.clone(), || format!("shared memory from byte {start} to byte {end} is used twice"))?;
    }
    let (bytes, limit) = (program.shared_bytes(), u64::from(program.target.max_shared_bytes()));
    let end = taken.iter().map(|(_, end, _)| *end).max().unwrap_or(0).max(bytes);
    rule(end <= limit, Site::Tile, || {
        format!("the program uses {end} B of shared memory, but {} has {limit}", program.target)
    })?;
    rule(end <= bytes, Site::Tile, || format!("shared memory is used up to byte {end}, but its size is {bytes}"))
}
