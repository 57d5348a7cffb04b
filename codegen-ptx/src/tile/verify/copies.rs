//! Copies: widths that the layouts in both memories allow.

use ptx_gemm_dsl::terms::Fast;

use super::limits::{MAX_ACCESS_BYTES, vector};
use super::{Check, rule};
use crate::tile::{Mover, Op, Program, Role};
use crate::violation::Site;

/// Most elements of a K-tile that one thread copies.
const MAX_COPIES: u64 = 8192;

pub(super) fn check(program: &Program, role: &Role, index: usize, by: Mover, site: Site) -> Check {
    let buffer = &program.buffers[index];
    // They share one set of pointers and addresses.
    let alike = program.statements().iter().all(|statement| match &statement.op {
        Op::Copy { buffer, by: other, .. } => *buffer != index || *other == by,
        _ => true,
    });
    rule(alike, site.clone(), || format!("all copies to {} must use the same mechanism and widths", buffer.name))?;
    let bytes = program.element(buffer.side).bytes();
    let global_fast = program.problem.layouts.fast(buffer.side);
    let row = match global_fast {
        Fast::K => buffer.depth,
        Fast::Mn => buffer.extent,
    };
    let (width, piece) = (by.width(), by.piece());
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
            rule([4, 8, 16].contains(&(piece * bytes)), site.clone(), || {
                format!("there is no asynchronous copy of {} B", piece * bytes)
            })?;
        }
    }
    let elements = u64::from(buffer.extent) * u64::from(buffer.depth);
    let each = elements.div_ceil(u64::from(role.len()) * u64::from(width)) * u64::from(width);
    rule(each <= MAX_COPIES, site, || {
        format!("each thread copies {each} elements of a K-tile, and the limit is {MAX_COPIES}")
    })
}
