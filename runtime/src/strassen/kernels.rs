//! The kernels of a plan of launches in addition to the schedule's own, and their sources.

use ptx_gemm_codegen::tile::{self, elementwise};
use ptx_gemm_dsl::epilogue::{BinaryOp, Epilogue, Expr};
use ptx_gemm_dsl::sums::{self, Part, Sums};
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_dsl::types::{DType, Layouts, Orientation, Problem, Types};
use ptx_gemm_dsl::{Diagnostics, Layout, Plan, Schedule};

use super::plan::{Piece, SUMS, Sign};

/// The source of a kernel.
pub(crate) enum Source {
    Schedule(Schedule),
    Tile(tile::Module),
}

/// The kernels of a schedule with `strassen`, which has this plan, except the schedule's own kernel.
///
/// # Errors
/// A kernel that is not legal.
pub(crate) fn kernels(schedule: &Schedule, plan: &Plan) -> Result<Vec<(Piece, Source)>, Diagnostics> {
    let Some(levels) = plan.sums.strassen else { return Ok(Vec::new()) };
    let (parts, note) = (Sums::of_quadrants(schedule, plan), format!("strassen(levels = {levels})"));
    let own = plan.problem.asked();
    let mut kernels = Vec::new();
    for (part, schedule) in Part::ALL.into_iter().zip(parts.schedules()) {
        let problem = if part == Part::Whole {
            own.clone()
        } else {
            // At two levels, the products with the last epilogue are divided again, without a remainder.
            if part != Part::Last || levels == 1 {
                kernels.push((Piece::Product(part), Source::Schedule(schedule.clone())));
            }
            schedule.plan(Some(plan.target))?.problem.asked()
        };
        // A kernel applies the whole epilogue to sums in memory if it cannot take them in addition to the product's.
        let applied = match part {
            Part::First => false,
            Part::Whole => !sums::takes_sums(&own.epilogue),
            Part::Middle | Part::Last => true,
        };
        if applied {
            let problem = of_sums(problem, &own);
            // The sums of the middle part are in the workspace, and stay there.
            let programs = elementwise::build(problem, plan.target, part == Part::Middle, &note);
            kernels.push((Piece::Epilogue(part), Source::Tile(programs)));
        }
    }
    for (operand, sign) in SUMS {
        let programs = elementwise::build(sum(&own, operand, sign), plan.target, false, &note);
        kernels.push((Piece::Sum(operand, sign), Source::Tile(programs)));
    }
    Ok(kernels)
}

/// The problem of a part with sums in memory: in the accumulator's type, and the layout of D.
fn of_sums(part: Problem, own: &Problem) -> Problem {
    let sum = own.types.acc;
    Problem {
        orientation: Orientation::AsAsked,
        types: Types { a: sum, b: sum, ..part.types },
        layouts: Layouts { a: own.layouts.d, b: Layout::Row, ..part.layouts },
        ..part
    }
}

/// The problem of the sum of two blocks of an operand.
fn sum(own: &Problem, operand: Operand, sign: Sign) -> Problem {
    // Elements of tf32 are f32 in memory, and are rounded when they are multiplied.
    let dtype = match own.types.of(operand) {
        DType::Tf32 => DType::F32,
        dtype => dtype,
    };
    let layout = own.layouts.of(operand);
    let (first, second) = (Box::new(Expr::Acc), Box::new(Expr::C));
    let expr = match sign {
        Sign::Plus => Expr::Binary(BinaryOp::Add, first, second),
        Sign::Minus => Expr::Binary(BinaryOp::Sub, first, second),
        Sign::Reversed => Expr::Binary(BinaryOp::Sub, second, first),
    };
    let declared = vec!["acc".into(), "c".into()];
    Problem {
        orientation: Orientation::AsAsked,
        types: Types { a: dtype, b: dtype, acc: own.types.acc, c: dtype, d: dtype },
        layouts: Layouts { a: layout, b: Layout::Row, c: layout, d: layout },
        epilogue: Epilogue { scalars: Vec::new(), vectors: Vec::new(), declared, expr },
        batch: own.batch,
    }
}
