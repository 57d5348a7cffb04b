//! Copies: widths that the rows of both memories allow.

use ptx_gemm_dsl::terms::Fast;

use super::limits::{MAX_ACCESS_BYTES, vector};
use super::{Check, rule};
use crate::tile::{Mover, Op, Program, Role};
use crate::violation::Site;

/// Most elements that one thread copies of a K-tile.
const MAX_COPIES: u64 = 8192;

pub(super) fn check(program: &Program, role: &Role, index: usize, by: Mover, site: Site) -> Check {
    let buffer = &program.buffers[index];
    // One set of pointers and addresses serves them all.
    let alike = program.statements().iter().all(|statement| match &statement.op {
        Op::Copy { buffer, by: other, .. } => *buffer != index || *other == by,
        _ => true,
    });
    rule(alike, site.clone(), || format!("all copies to {} travel alike", buffer.name))?;
    let bytes = program.element(buffer.side).bytes();
    let global_fast = program.problem.layouts.fast(buffer.side);
    let row = match global_fast {
        Fast::K => buffer.depth,
        Fast::Mn => buffer.extent,
    };
    let (width, piece) = (by.width(), by.piece());
    let wide = width.is_power_of_two() && width.saturating_mul(bytes) <= MAX_ACCESS_BYTES && row.is_multiple_of(width);
    rule(wide, site.clone(), || format!("{width} elements at a time of rows of {row}, {bytes} B each"))?;
    let contiguous = buffer.fast == global_fast;
    let stored = match contiguous {
        true => vector(piece, bytes) && width.is_multiple_of(piece) && buffer.pitch.is_multiple_of(piece),
        false => piece == 1,
    };
    rule(stored, site.clone(), || {
        let order = if contiguous { "in the order of global memory" } else { "across the order of global memory" };
        format!("{piece} of {width} elements stored at a time, {order}, rows {} apart", buffer.pitch)
    })?;
    match by {
        Mover::Registers { width, .. } => {
            rule(vector(width, bytes), site.clone(), || format!("a load of {width} elements"))?;
        }
        // PTX ISA, cp.async: 4, 8 or 16 bytes.
        Mover::CpAsync { piece, .. } => {
            rule([4, 8, 16].contains(&(piece * bytes)), site.clone(), || format!("a copy of {} B", piece * bytes))?;
        }
    }
    let elements = u64::from(buffer.extent) * u64::from(buffer.depth);
    let each = elements.div_ceil(u64::from(role.len()) * u64::from(width)) * u64::from(width);
    rule(each <= MAX_COPIES, site, || format!("each thread copies {each} elements of a K-tile, at most {MAX_COPIES}"))
}
