//! The problem of a module: compatible types, and an epilogue in them. The rules are those of the language.

use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::atoms::{Multiply, Unit};
use ptx_gemm_dsl::clause::{Clause, TypesClause};
use ptx_gemm_dsl::types::Types;

use super::{Check, broken, rule};
use crate::tile::{Instruction, Module, Op, Program};
use crate::violation::Site;

pub(super) fn check(module: &Module) -> Check {
    let Types { a, b, acc, c, d } = module.problem.types;
    for dtype in [a, b, acc, c, d] {
        rule(dtype.element().works, Site::Types, || format!("{dtype} is not implemented yet"))?;
        let since = dtype.element().since.map_or(0, |target| target.capability);
        rule(module.target.capability >= since, Site::Types, || {
            format!("{dtype} needs sm_{since}, not {}", module.target)
        })?;
    }
    let types = TypesClause { all: None, a: Some(a), b: Some(b), acc: Some(acc), c: Some(c), d: Some(d) };
    let epilogue = Clause::Epilogue(module.problem.epilogue.clone());
    let schedule = Schedule::new().types_of(types).clause(epilogue.clone());
    let schedule = match module.entries.iter().any(by_matrices) {
        true => {
            Multiply::of(Unit::Warp, a).next().map_or(schedule.clone(), |row| schedule.clause(Clause::Atom(row.atom())))
        }
        false => schedule,
    };
    let Err(said) = schedule.problem() else { return Ok(()) };
    said.errors().next().map_or(Ok(()), |error| {
        let site = if error.clause == epilogue.name() { Site::Epilogue } else { Site::Types };
        Err(broken(error.message.clone()).at(site))
    })
}

/// Whether tensor cores multiply.
fn by_matrices(program: &Program) -> bool {
    program.statements().iter().any(|statement| match &statement.op {
        Op::Steps { multiply, .. } => !matches!(multiply.by, Instruction::Fma { .. }),
        _ => false,
    })
}
