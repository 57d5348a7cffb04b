//! The rules of `strassen`: the products that it can divide.

use crate::check::finding::Findings;
use crate::check::settings::Settings;
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
    let narrow = |dtype: &DType| dtype.element().bits <= 8;
    if let Some(dtype) = [Operand::A, Operand::B].map(|operand| types.of(operand)).iter().find(|dtype| narrow(dtype)) {
        let message = format!("{clause} adds elements of A and of B, and the sum of two {dtype} does not fit one");
        findings
            .error("strassen-types", Key::Strassen, &[Key::Types], message)
            .remove("strassen", "leave strassen out");
    }
    if types.narrow_sums() {
        let message =
            format!("{clause} adds sums of products that nearly cancel, for which the 11 bits of f16 are too few");
        let finding = findings.error("strassen-acc", Key::Strassen, &[Key::Types], message);
        finding.remove("strassen", "leave strassen out");
    }
}
