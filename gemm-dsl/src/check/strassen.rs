//! The rules of `strassen`: what its sums can be of, and whether the kernels that it launches are legal.

use crate::check::finding::Findings;
use crate::check::settings::Settings;
use crate::plan::Plan;
use crate::schedule::Schedule;
use crate::sums::Sums;
use crate::table::Key;
use crate::terms::Operand;
use crate::types::{Batch, DType};

pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    let Some(clause) = settings.get(Key::Strassen) else { return };
    if let (Batch::Grouped, Some(batch)) = (settings.problem.batch, settings.get(Key::Batch)) {
        let message = format!(
            "{clause} conflicts with {batch}: it divides the extents of a product into launches, and those of a group are in \
             device memory"
        );
        findings
            .error("strassen-grouped", Key::Strassen, &[Key::Batch], message)
            .remove("strassen", "leave strassen out")
            .set("batch(strided)", "batch(strided) goes with strassen");
    }
    let types = settings.problem.types;
    let narrow = |dtype: &DType| matches!(dtype, DType::I8 | DType::U8 | DType::E4m3 | DType::E5m2);
    if let Some(dtype) = [Operand::A, Operand::B].map(|operand| types.of(operand)).iter().find(|dtype| narrow(dtype)) {
        let message = format!("{clause} adds elements of A and of B, and the sum of two {dtype} does not fit one");
        findings
            .error("strassen-types", Key::Strassen, &[Key::Types], message)
            .remove("strassen", "leave strassen out");
    }
}

/// Checks the kernels that leave sums in the workspace, once the schedule itself has a plan.
pub(super) fn kernels(schedule: &Schedule, plan: &Plan, findings: &mut Findings) {
    let Some(levels) = plan.strassen else { return };
    for part in Sums::of_quadrants(schedule, plan).schedules() {
        let Err(errors) = part.plan(Some(plan.target)) else { continue };
        let epilogue = part.get(Key::Epilogue).map_or_else(String::new, ToString::to_string);
        let why = errors.errors().next().map_or_else(String::new, |error| format!(": {}", error.message));
        let message = format!(
            "strassen(levels = {levels}) needs the schedule with {epilogue} as well, and sums in {}, which is not legal{why}",
            plan.problem.types.acc
        );
        findings
            .error("strassen-kernel", Key::Strassen, &[], message)
            .remove("strassen", "leave strassen out");
        return;
    }
}
