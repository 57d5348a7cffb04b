//! Copies: widths that the layouts in both memories allow.

use ptx_gemm_dsl::target::{BOX_ALIGN, MAX_ACCESS_BYTES, MAX_BOX};
use ptx_gemm_dsl::terms::{BoxShare, Fast, Side, Swizzle};

use super::limits::{alignment, vector};
use super::{Check, rule};
use crate::tile::{Empty, Full, Mover, Op, Program, Role, TMA_BYTES};
use crate::violation::Site;

/// Most elements of a K-tile that one thread copies.
const MAX_COPIES: u64 = 8192;

pub(super) fn check(program: &Program, role: &Role, index: usize, by: Mover, site: Site) -> Check {
    let buffer = &program.buffers[index];
    // They share one set of pointers and addresses, or one tensor map, which has one box size for all planes.
    let by_tma = matches!(by, Mover::Tma { .. });
    let shares = |other: usize| other == index || by_tma && program.buffers[other].side == buffer.side;
    let alike = program.statements().iter().all(|statement| match &statement.op {
        Op::Copy { buffer, by: other, .. } => !shares(*buffer) || *other == by,
        _ => true,
    });
    rule(alike, site.clone(), || {
        let others = if by_tma { " and to other planes of its operand" } else { "" };
        format!("all copies to {}{others} must use the same mechanism and widths", buffer.name)
    })?;
    if let Mover::Tma { rows, multicast } = by {
        boxes(program, index, rows, site.clone())?;
        return if multicast { shared(program, index, rows, site) } else { Ok(()) };
    }
    let bytes = program.element(buffer.side).bytes();
    let global_fast = program.copied_fast(buffer.side);
    let row = match global_fast {
        Fast::K => buffer.depth,
        Fast::Mn => buffer.extent,
    };
    rule(buffer.panels() == 1, site.clone(), || {
        format!("only tma copies to panels, and the rows of {} are cut into {}", buffer.name, buffer.panels())
    })?;
    let Some((width, piece)) = by.chunk() else { return Ok(()) };
    let wide = width.is_power_of_two() && width.saturating_mul(bytes) <= MAX_ACCESS_BYTES && row.is_multiple_of(width);
    rule(wide, site.clone(), || {
        format!("cannot copy {width} elements of {bytes} B at a time from rows of {row} elements")
    })?;
    let contiguous = buffer.fast == global_fast;
    let stored = match contiguous {
        true => vector(piece, bytes) && width.is_multiple_of(piece) && buffer.pitch.is_multiple_of(piece),
        false => piece == 1,
    };
    rule(stored, site.clone(), || {
        let order = if contiguous { "along" } else { "across" };
        format!(
            "cannot store {piece} of {width} elements at a time, {order} the contiguous dimension of global memory, with a pitch of {}",
            buffer.pitch
        )
    })?;
    match by {
        Mover::Registers { width, .. } => {
            rule(vector(width, bytes), site.clone(), || format!("there is no load of {width} elements"))?;
        }
        // PTX ISA, cp.async: 4, 8 or 16 bytes.
        Mover::CpAsync { piece, .. } => {
            rule(program.target.capability >= 80, site.clone(), || {
                format!("asynchronous copies need sm_80, not {}", program.target)
            })?;
            rule([4, 8, 16].contains(&(piece * bytes)), site.clone(), || {
                format!("there is no asynchronous copy of {} B", piece * bytes)
            })?;
        }
        Mover::Tma { .. } => {}
    }
    let elements = u64::from(buffer.extent) * u64::from(buffer.depth);
    let each = elements.div_ceil(u64::from(role.len()) * u64::from(width)) * u64::from(width);
    rule(each <= MAX_COPIES, site, || {
        format!("each thread copies {each} elements of a K-tile, and the limit is {MAX_COPIES}")
    })
}

/// Boxes that the blocks of a cluster share: each block starts a [`BoxShare`], and learns from the mbarriers of a slot that
/// all blocks have read it. The boxes of narrow tiles have equal shares.
fn shared(program: &Program, index: usize, rows: u32, site: Site) -> Check {
    let buffer = &program.buffers[index];
    let (name, sharers) = (&buffer.name, program.scheduler.alike(buffer.side));
    let at = || site.clone();
    rule(sharers > 1, at(), || {
        let along = if buffer.side == Side::A { "n" } else { "m" };
        format!("no block of the cluster shares {name}: it has one tile along {along}")
    })?;
    let (per_panel, all) = (buffer.rows() / rows, buffer.rows() / rows * buffer.panels());
    let shares = BoxShare::of(buffer.panels(), per_panel, sharers);
    rule(shares.is_some(), at(), || {
        format!("{sharers} blocks cannot share {all} boxes of {name}, {per_panel} in each panel")
    })?;
    let equal = program.grain().is_none() || shares.is_some_and(|shares| shares.extra == 0);
    rule(equal, at(), || {
        format!("{sharers} blocks cannot share {all} boxes of {name} equally, which narrower tiles need")
    })?;
    let signalled = program.ring_of(index).is_some_and(|ring| {
        let ring = &program.rings[ring];
        matches!((ring.full, ring.empty), (Full::Mbarrier { .. }, Empty::Mbarrier { .. }))
    });
    rule(signalled, at(), || {
        format!("other blocks fill slots of {name}, which needs mbarriers for full and empty ones")
    })
}

/// Boxes: rows of a buffer without gaps, in the order of global memory, aligned as the hardware and the swizzle
/// require.
fn boxes(program: &Program, index: usize, rows: u32, site: Site) -> Check {
    let buffer = &program.buffers[index];
    let (name, element) = (&buffer.name, program.element(buffer.side).bytes());
    let at = || site.clone();
    rule(program.target.capability >= 90, at(), || format!("{} has no tensor memory accelerator", program.target))?;
    let global_fast = program.copied_fast(buffer.side);
    rule(buffer.fast == global_fast, at(), || {
        format!("tma does not transpose, and {name} has another order than the matrix in memory")
    })?;
    let (row, count) = (buffer.panel_row(), buffer.rows());
    let bytes = row * element;
    let whole = row <= MAX_BOX && bytes.is_multiple_of(TMA_BYTES) && buffer.pitch == row;
    rule(whole, at(), || {
        format!(
            "tma copies rows without gaps of up to {MAX_BOX} elements and whole {TMA_BYTES} B, and those of {name} are {row} \
             elements of {element} B, {} apart",
            buffer.pitch
        )
    })?;
    if let Swizzle::Bytes(span) = buffer.swizzle {
        rule(bytes == span, at(), || format!("tma swizzles rows of {span} B, and those of {name} have {bytes} B"))?;
    }
    let divides = (1..=MAX_BOX).contains(&rows) && count.is_multiple_of(rows);
    rule(divides, at(), || format!("{name} has {count} rows, which are not whole boxes of {rows}, at most {MAX_BOX}"))?;
    if let (Side::B, Some(grain)) = (buffer.side, program.grain()) {
        let parts = count / rows;
        rule(grain.is_multiple_of(parts) && (grain / parts * bytes).is_multiple_of(BOX_ALIGN), at(), || {
            format!("{grain} columns are not divided among {parts} boxes of {name}, in multiples of {BOX_ALIGN} B each")
        })?;
    }
    let slot = program.ring_of(index).map_or(0, |ring| program.rings[ring].slot_bytes);
    let align = alignment(buffer.swizzle).max(BOX_ALIGN);
    rule([buffer.offset_bytes, slot].iter().all(|bytes| bytes.is_multiple_of(align)), at(), || {
        format!(
            "the first box of {name} begins at {} B, with slots of {slot} B, not multiples of {align} B",
            buffer.offset_bytes
        )
    })?;
    // A single box need not end where another could begin. The bits of an address decide how a box is swizzled.
    let next = if rows < count || buffer.panels() > 1 { rows * bytes } else { 0 };
    rule(next.is_multiple_of(BOX_ALIGN), at(), || {
        format!("the boxes of {name} are {next} B apart, not a multiple of {BOX_ALIGN} B")
    })
}
