//! The device's bits compared with the interpreter's: every case, and every other kind of
//! schedule.

use std::collections::BTreeMap;

use ptx_gemm::{CompiledGemm, Device};
use ptx_gemm_check::{Agreement, CheckError, Request, agree, bit_requests};

use super::claims::{Answer, Trouble, expect};
use super::kinds;

pub(crate) fn equal(device: &Device) -> Answer {
    compared(device, |_| true)
}

/// The same for some of the schedules, by their index.
fn compared(device: &Device, includes: impl Fn(usize) -> bool) -> Answer {
    let mut report = Report::default();
    for (_, (name, schedule)) in super::schedules().enumerate().filter(|(index, _)| includes(*index)) {
        let gemm = CompiledGemm::new(&schedule?, device)?;
        report.add(name, &gemm)?;
    }
    Ok(report.words())
}

#[derive(Default)]
struct Report {
    schedules: usize,
    products: usize,
    elements: usize,
    /// Comparisons by a rule other than equality, by the rule's text: names, and the largest share of the tolerance
    /// that was used.
    by_rule: BTreeMap<String, (Vec<String>, f64)>,
}

impl Report {
    fn add(&mut self, name: String, gemm: &CompiledGemm) -> Result<(), Trouble> {
        let there = gemm.in_interpreter()?;
        self.schedules += 1;
        for request in bit_requests(gemm.kernel()) {
            let Request { m, n, k, .. } = request;
            let found = agree(gemm, &there, &request)
                .map_err(|error: CheckError| Trouble::Wrong(format!("{name}, {m} x {n} x {k}: {error}")))?;
            expect(found.holds(), || format!("{name}, {m} x {n} x {k}: {found}"))?;
            let Agreement { rule, compared, share, .. } = found;
            self.products += request.products();
            self.elements += compared;
            if !rule.is_equality() {
                let (names, largest) = self.by_rule.entry(rule.to_string()).or_default();
                *largest = largest.max(share);
                if names.last() != Some(&name) {
                    names.push(name.clone());
                }
            }
        }
        Ok(())
    }

    fn words(&self) -> String {
        let Report { schedules, products, elements, by_rule } = self;
        let other: usize = by_rule.values().map(|(names, _)| names.len()).sum();
        let equal = schedules - other;
        let mut words = format!(
            "{schedules} schedules, {products} products, {elements} elements: every bit the interpreter's in {equal} of the \
             schedules"
        );
        for (rule, (names, share)) in by_rule {
            words.push_str(&format!("; by the rule of {rule}, {share:.3} of it used: {}", names.join(", ")));
        }
        let unknown = kinds::unknown();
        if !unknown.is_empty() {
            words.push_str(&format!("; not in the compiler yet: {}", unknown.join(", ")));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm::{Device, InterpreterOptions};
    use ptx_gemm_check::part::Part;

    use super::compared;
    use crate::commands::selftest::claims::Trouble;

    /// An interpreter that aligns nothing, and therefore runs other entries than the one it is compared with. A part of the
    /// schedules shows that the comparison works; whether an interpreter is right at all is tested elsewhere.
    #[test]
    fn another_interpreter_has_the_same_bits() {
        let device = Device::interpreter_with(InterpreterOptions { misalign: 1, ..InterpreterOptions::default() });
        let part = Part::of_this_run();
        let words = match compared(&device, |index| part.has(index)) {
            Ok(words) | Err(Trouble::Skipped(words)) => words,
            Err(Trouble::Wrong(words)) => panic!("{words}"),
        };
        assert!(words.contains(" schedules, ") && words.contains("every bit the interpreter's"), "{words}");
    }
}
