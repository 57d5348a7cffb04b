//! Widths of accesses to D and C.

use ptx_gemm_dsl::types::Layout;

use super::limits::vector;
use super::{Check, rule};
use crate::tile::{Map, Program};
use crate::violation::Site;

/// Elements of D, and of C, that a thread accesses at once.
pub(super) fn check(program: &Program, map: &Map, (width, c_width): (u32, u32), site: &Site) -> Check {
    let (dtype, layouts) = (program.problem.types.d, program.problem.layouts);
    let run = map.run(layouts.d == Layout::Row);
    rule(vector(width, dtype.bytes()) && run.is_multiple_of(width), site.clone(), || {
        format!("D is stored {width} {dtype} at a time, but a thread holds {run} adjacent ones")
    })?;
    read_c(program, map, c_width, site.clone())
}

/// Elements of C that a thread reads at once.
pub(super) fn read_c(program: &Program, map: &Map, width: u32, site: Site) -> Check {
    let (dtype, layouts) = (program.problem.types.c, program.problem.layouts);
    let run = map.run(layouts.d == Layout::Row);
    let fits = match program.problem.epilogue.uses_c() && layouts.c == layouts.d {
        true => vector(width, dtype.bytes()) && run.is_multiple_of(width),
        // A C with rows across those of D is read element by element.
        false => width == 1,
    };
    rule(fits, site, || format!("C is read {width} {dtype} at a time, but a thread holds {run} adjacent ones"))
}
