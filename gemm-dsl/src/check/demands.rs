//! A width demanded by `vector(a = 4)` must be possible.

use crate::check::access::{Input, c_run, d_run, widest};
use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::clause::{Clause, VectorClause};
use crate::plan::Geometry;
use crate::table::Key;
use crate::target::MAX_ACCESS_BYTES;
use crate::terms::{Fast, Load, Side};
use crate::types::{DType, Layout};

/// What every width depends on.
const DEPENDS: [Key; 10] = [
    Key::Tile,
    Key::Thread,
    Key::Fragment,
    Key::Warp,
    Key::Layout,
    Key::Types,
    Key::Shared,
    Key::Unroll,
    Key::Load,
    Key::Epilogue,
];

pub(super) fn check(settings: &Settings, inputs: &[Input; 2], geometry: &Geometry, findings: &mut Findings) {
    if settings.staged.load == Load::CpAsync {
        inputs.iter().for_each(|input| async_bytes(settings, input, findings));
    }
    let Some(Clause::Vector(vector)) = settings.get(Key::Vector) else { return };
    for input in inputs {
        if let Some(demand) = input.demand.filter(|n| *n > 0) {
            let possible = input.global_width(settings, demand);
            let name = if input.side == Side::A { "a" } else { "b" };
            let reason = if transposed(settings, input) {
                "cp_async copies element by element where the shared order is not the global one".into()
            } else {
                input_reason(input)
            };
            refuse(*vector, name, demand, possible, input.dtype, reason, findings);
        }
    }
    let (types, layouts) = (settings.problem.types, settings.problem.layouts);
    if let Some(demand) = vector.d.filter(|n| *n > 0) {
        let run = d_run(layouts, geometry);
        let reason = output_reason("D", layouts.d, run);
        refuse(*vector, "d", demand, widest(demand, types.d, &[run]), types.d, reason, findings);
    }
    if let Some(demand) = vector.c.filter(|n| *n > 0) {
        if settings.problem.epilogue.uses_c() && !settings.loads_c() {
            let run = c_run(layouts, geometry);
            let reason = match layouts.c == layouts.d {
                true => output_reason("C", layouts.c, run),
                false => {
                    let [c, d] = [layouts.c, layouts.d].map(contiguous);
                    format!("C is contiguous along {c} and D along {d}, so C is read element by element")
                }
            };
            refuse(*vector, "c", demand, widest(demand, types.c, &[run]), types.c, reason, findings);
        } else {
            let clause = Clause::Vector(*vector);
            let rest = VectorClause { c: None, ..*vector };
            let why = if settings.loads_c() { "TMA copies C in boxes" } else { "the epilogue does not read C" };
            let finding = findings.error("vector-c", Key::Vector, &DEPENDS, format!("{clause}: {why}"));
            if rest == VectorClause::default() {
                finding.remove("vector", "leave vector out");
            } else {
                finding.set(Clause::Vector(rest), format!("{} is legal", Clause::Vector(rest)));
            }
        }
    }
}

/// `cp.async` moves 4, 8 or 16 bytes (PTX ISA, cp.async); narrow elements must travel together.
fn async_bytes(settings: &Settings, input: &Input, findings: &mut Findings) {
    let Some(placement) = input.placement else { return };
    let width = input.global_width(settings, settings.width_bound());
    let bytes = width * input.dtype.bytes();
    if bytes >= 4 {
        return;
    }
    let (name, order) = match (input.side, input.global_fast) {
        (Side::A, Fast::K) => ("A", "shared(a = mk)"),
        (Side::A, Fast::Mn) => ("A", "shared(a = km)"),
        (Side::B, Fast::K) => ("B", "shared(b = nk)"),
        (Side::B, Fast::Mn) => ("B", "shared(b = kn)"),
    };
    let why = match placement.fast == input.global_fast {
        true => format!("{name} travels {width} {} at a time, {bytes} B", input.dtype),
        false => format!("{name} is staged in a different order than in memory, so {bytes} B are copied at a time"),
    };
    let message = format!("load(cp_async) moves 4, 8 or 16 B, and {why}");
    let finding = findings.error("async-bytes", Key::Load, &DEPENDS, message);
    finding.depends.insert(Key::Vector);
    for width in [4, 8, 16, 2] {
        finding.set(format!("vector({width})"), format!("vector({width}) makes it wider"));
    }
    finding.set(order, format!("{order} keeps its order"));
    finding.set("load(registers)", "load(registers) moves any width");
}

fn transposed(settings: &Settings, input: &Input) -> bool {
    settings.staged.load == Load::CpAsync && input.placement.is_some_and(|p| p.fast != input.global_fast)
}

fn input_reason(input: &Input) -> String {
    let (name, dimension) = if input.side == Side::A { ("A", "m") } else { ("B", "n") };
    let run = input.global_run();
    match (input.placement.is_some(), input.global_fast) {
        (true, Fast::K) => format!("{name} is contiguous along k, and its tile has {run} of k"),
        (true, Fast::Mn) => format!("{name} is contiguous along {dimension}, and its tile has {run} of {dimension}"),
        (false, Fast::K) => format!("{name} is contiguous along k, and {run} steps of k are unrolled"),
        (false, Fast::Mn) => {
            format!("{name} is contiguous along {dimension}, and a fragment has {run} of {dimension}")
        }
    }
}

fn output_reason(name: &str, layout: Layout, run: u32) -> String {
    let dimension = contiguous(layout);
    format!("{name} is contiguous along {dimension}, and a fragment has {run} of {dimension}")
}

/// The contiguous dimension of C or D.
fn contiguous(layout: Layout) -> &'static str {
    if layout == Layout::Row { "n" } else { "m" }
}

fn refuse(
    vector: VectorClause,
    name: &'static str,
    demand: u32,
    possible: u32,
    dtype: DType,
    reason: String,
    findings: &mut Findings,
) {
    if demand == possible {
        return;
    }
    let bytes = u64::from(demand) * u64::from(dtype.bytes());
    let why = if bytes > u64::from(MAX_ACCESS_BYTES) {
        format!("{demand} {dtype} are {bytes} B, an access moves at most {MAX_ACCESS_BYTES} B")
    } else {
        reason
    };
    let message = format!("vector({name} = {demand}) is not possible: {why}");
    let fixed = vector.with(name, possible);
    let rule = match name {
        "a" => "vector-demand-a",
        "b" => "vector-demand-b",
        "c" => "vector-demand-c",
        _ => "vector-demand-d",
    };
    let finding = findings.error(rule, Key::Vector, &DEPENDS, message);
    finding.set(Clause::Vector(fixed), format!("{} is the widest", Clause::Vector(fixed)));
}
