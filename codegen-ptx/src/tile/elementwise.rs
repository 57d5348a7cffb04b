//! Programs without a product: D = epilogue(A, C), element by element. A has the extents of D and takes the place of
//! the accumulators.
//!
//! `strassen` uses them for its sums, and for its epilogue if no product is left to apply it. A thread reads 16
//! elements of each matrix at once, lanes along the contiguous dimension of D.

use std::sync::Arc;

use ptx_gemm_dsl::target::{MAX_ACCESS_BYTES, Target, WARP};
use ptx_gemm_dsl::terms::{Along, Extent2, Extent3, Operand, Param, Raster, Tail};
use ptx_gemm_dsl::types::{Batch, Layout, Problem};

use super::{Accumulator, Digit, Division, Map, Module, Note, Op, Program, Role, Scheduler, Statement};

/// Warps of a block, and elements of each matrix that a thread reads.
const WARPS: u32 = 8;
const ELEMENTS: u32 = 16;

/// Blocks per multiprocessor: these threads have enough reads in flight to fill the memory's bandwidth.
const BLOCKS_PER_SM: u32 = 2;

/// The programs for a problem in which A has the extents and the layout of D. They have the parameters of a product; B
/// and k are not read. `aligned` says that all matrices are aligned to the widest accesses, as in a workspace: then one
/// program suffices.
pub fn build(problem: Problem, target: Target, aligned: bool, note: &str) -> Module {
    let mut problem = problem;
    if !problem.epilogue.uses_c() {
        (problem.types.c, problem.layouts.c) = (problem.types.d, problem.layouts.d);
    }
    let types = problem.types;
    let widest = [types.a, types.c, types.d].map(|dtype| dtype.bytes()).into_iter().max().unwrap_or(1);
    let problem = Arc::new(problem);
    let mut widths = vec![MAX_ACCESS_BYTES / widest];
    if !aligned && widths[0] > 1 {
        widths.push(1);
    }
    let entries = widths.iter().map(|width| program(&problem, target, (widths[0], *width), note)).collect();
    Module { target, problem, orientation_note: "".into(), entries }
}

fn program(problem: &Arc<Problem>, target: Target, (run, width): (u32, u32), note: &str) -> Program {
    let note: Note = note.into();
    let by_rows = problem.layouts.d == Layout::Row;
    let lines = ELEMENTS / run;
    let (along, across) = (WARP * run, WARPS * lines);
    let digit = |runs_along: bool, extent, step| {
        if runs_along == by_rows { Digit::n(extent, step) } else { Digit::m(extent, step) }
    };
    let map = Map::new(
        vec![digit(true, WARP, run)],
        vec![digit(false, WARPS, 1)],
        vec![digit(true, run, 1), digit(false, lines, WARPS)],
    );
    let (m, n) = if by_rows { (across, along) } else { (along, across) };
    let c_width = if problem.epilogue.uses_c() && problem.layouts.c == problem.layouts.d { width } else { 1 };
    let at = |op| Statement { op, note: note.clone() };
    let body = vec![at(Op::Read { acc: 0, width }), at(Op::Store { acc: 0, width, c_width })];
    Program {
        name: format!("sums_v{width}"),
        target,
        problem: problem.clone(),
        block: Extent3 { m, n, k: 1 },
        block_note: note.clone(),
        blocks_per_sm: BLOCKS_PER_SM,
        tail: Tail::Predicate,
        tail_note: note.clone(),
        params: params(problem),
        scheduler: Scheduler {
            raster: Raster { group: 1, along: if by_rows { Along::N } else { Along::M } },
            raster_note: note.clone(),
            persistent: None,
            persistent_note: "".into(),
            cluster: Extent2 { m: 1, n: 1 },
            cluster_note: "".into(),
            division: Division::Whole,
            division_note: "".into(),
        },
        packs: Vec::new(),
        walk: None,
        buffers: Vec::new(),
        rings: Vec::new(),
        stage: None,
        arrival: None,
        barriers: Vec::new(),
        turns: Vec::new(),
        accumulators: vec![Accumulator { name: "acc".into(), map, note: note.clone() }],
        exchange: None,
        roles: vec![Role {
            name: "all".into(),
            threads: 0..WARPS * WARP,
            turns: 1,
            registers: None,
            registers_note: "".into(),
            body: vec![at(Op::Tiles { body })],
            note: note.clone(),
        }],
    }
}

/// Parameters in the order of the ABI.
fn params(problem: &Problem) -> Vec<Param> {
    let matrices: Vec<Operand> = problem.matrices().collect();
    let mut params: Vec<Param> = matrices.iter().map(|matrix| Param::Matrix(*matrix)).collect();
    params.extend((0..problem.epilogue.vectors.len()).map(Param::Vector));
    params.extend([Param::M, Param::N, Param::K]);
    params.extend(matrices.iter().map(|matrix| Param::Ld(*matrix)));
    params.extend((0..problem.epilogue.scalars.len()).map(Param::Scalar));
    if problem.batch == Batch::Strided {
        params.push(Param::Batch);
        params.extend(matrices.iter().map(|matrix| Param::BatchStride(*matrix)));
    }
    params
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::target::Target;

    use super::build;
    use crate::compile_text;
    use crate::tile::print::print;

    /// Replaces text in the programs of a sum of f32.
    #[track_caller]
    fn check(from: &str, to: &str, expected: &str) {
        let plan: ptx_gemm_dsl::Schedule =
            "tile(16, 16, 8); thread(2, 2); epilogue(|acc, c| acc - c); target(sm_80)".parse().unwrap();
        let problem = plan.plan(None).unwrap().problem;
        let text = print(&build(problem, Target::SM_80, false, "a sum"));
        assert!(text.contains(from), "{text}");
        let edited = compile_text(&text.replace(from, to), None);
        match edited {
            Ok(_) => assert_eq!(expected, "", "{from} -> {to} is accepted"),
            Err(errors) => assert!(!expected.is_empty() && errors.to_string().contains(expected), "{errors}"),
        }
    }

    #[test]
    fn rules() {
        check("read acc <- a width 4", "read acc <- a width 2", "");
        check("read acc <- a width 4", "read acc <- a width 8", "A is read 8 f32 at a time");
        check("layout a row", "layout a col", "a and d must have the same layout");
        check("read acc <- a width 4", "clear acc", "0 times instead of once");
        check("read acc <- a width 4", "read acc <- b width 4", "expected `a`");
    }
}
