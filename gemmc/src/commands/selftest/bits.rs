//! The device's bits beside the interpreter's: every case, every tuned schedule, and what no case has: each type, each kind
//! of epilogue, batches, split sums.

use std::collections::BTreeMap;

use ptx_gemm::{CompiledGemm, DType, Device, Diagnostics, Error, Schedule};
use ptx_gemm_check::{Agreement, CheckError, Request, agree, bit_requests, cases, tuned};

use super::claims::{Answer, Trouble, expect};

const TILE: &str = "tile(32, 32, 16); thread(2, 4); vector(4);";
/// What the cases have not, each with `TILE`.
const MORE: [(&str, &str); 13] = [
    ("alpha beta", "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);"),
    ("vectors", "epilogue(|acc, bias, scale| relu(acc * scale[m] + bias[n]));"),
    ("quotients", "epilogue(|acc, c, x| max(-acc / x[n], min(c, 0.5)) - abs(c));"),
    ("clamp", "double_buffer; epilogue(|acc, c, low| clamp(acc - c, low, 2 * c));"),
    ("c by columns", "layout(a = col, c = col); epilogue(|acc, c, beta| acc + beta * c);"),
    ("batch", "batch(strided);"),
    ("batch alpha beta", "batch(strided); epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);"),
    ("split", "split_k(3); epilogue(|acc, c, beta, bias| acc + beta * c + bias[m]);"),
    ("split workspace", "split_k(4, reduce = workspace); epilogue(|acc, c, beta| acc + beta * c);"),
    ("split batch", "split_k(2); batch(strided);"),
    ("persistent", "persistent; epilogue(|acc, c, beta| acc + beta * c);"),
    ("cp_async", "load(cp_async); stages(3);"),
    ("functions", "epilogue(|acc, c| exp(acc / 8) + tanh(c) * sigmoid(acc) - gelu(acc) + silu(c));"),
];

/// A schedule by its name here.
type Named = (String, Result<Schedule, Diagnostics>);

pub(crate) fn equal(device: &Device) -> Answer {
    let mut report = Report::default();
    let files = cases().chain(tuned()).map(|case| (case.name.to_string(), case.schedule()));
    for (name, schedule) in files {
        report.add(name, &schedule.map_err(Error::from)?, device)?;
    }
    for (name, schedule) in more() {
        match schedule {
            Ok(schedule) => report.add(name, &schedule, device)?,
            // What the compiler says it cannot do yet: nothing to compare.
            Err(_) => report.unknown.push(name),
        }
    }
    Ok(report.words())
}

fn more() -> impl Iterator<Item = Named> {
    let more = MORE.iter().map(|(name, clauses)| (name.to_string(), format!("{TILE}{clauses}")));
    let typed = DType::ALL.into_iter().flat_map(|dtype| {
        let clauses = format!("tile(32, 32, 16); thread(2, 4); vector(2); types({dtype}); double_buffer;");
        let scaled = format!("{clauses}epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);");
        [(format!("{dtype}"), clauses), (format!("{dtype} alpha beta"), scaled)]
    });
    more.chain(typed).map(|(name, clauses)| {
        let schedule = clauses.parse::<Schedule>().and_then(|schedule| {
            schedule.plan(None)?;
            Ok(schedule)
        });
        (name, schedule)
    })
}

#[derive(Default)]
struct Report {
    schedules: usize,
    products: usize,
    elements: usize,
    /// What was compared by another rule than equality, by that rule's words: names, and the largest share of it used.
    by_rule: BTreeMap<String, (Vec<String>, f64)>,
    /// What the compiler cannot do yet.
    unknown: Vec<String>,
}

impl Report {
    fn add(&mut self, name: String, schedule: &Schedule, device: &Device) -> Result<(), Trouble> {
        let gemm = CompiledGemm::new(schedule, device)?;
        let there = gemm.in_interpreter()?;
        self.schedules += 1;
        for request in bit_requests(gemm.plan()) {
            let Request { m, n, k, .. } = request;
            let found = agree(&gemm, &there, &request)
                .map_err(|error: CheckError| Trouble::Wrong(format!("{name}, {m} x {n} x {k}: {error}")))?;
            expect(found.holds(), || format!("{name}, {m} x {n} x {k}: {found}"))?;
            let Agreement { rule, compared, share, .. } = found;
            self.products += request.batch;
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
        let Report { schedules, products, elements, by_rule, unknown } = self;
        let other: usize = by_rule.values().map(|(names, _)| names.len()).sum();
        let equal = schedules - other;
        let mut words = format!(
            "{schedules} schedules, {products} products, {elements} elements: every bit the interpreter's in {equal} of the \
             schedules"
        );
        for (rule, (names, share)) in by_rule {
            words.push_str(&format!("; by the rule of {rule}, {share:.3} of it used: {}", names.join(", ")));
        }
        if !unknown.is_empty() {
            words.push_str(&format!("; not in the compiler yet: {}", unknown.join(", ")));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm::{Device, InterpreterOptions};

    use super::{MORE, equal, more};
    use crate::commands::selftest::claims::Trouble;

    /// An interpreter that aligns nothing, and so runs other entries than the one it is compared with.
    #[test]
    fn another_interpreter_has_the_same_bits() {
        let device = Device::interpreter_with(InterpreterOptions { misalign: 1, ..InterpreterOptions::default() });
        let words = match equal(&device) {
            Ok(words) | Err(Trouble::Skipped(words)) => words,
            Err(Trouble::Wrong(words)) => panic!("{words}"),
        };
        assert!(words.contains(" schedules, ") && words.contains("every bit the interpreter's"), "{words}");
    }

    /// A name that the compiler does not know would leave a schedule out without a word about it.
    #[test]
    fn what_is_left_out_is_only_what_is_not_implemented() {
        for (name, schedule) in more() {
            if let Err(errors) = schedule {
                let words = errors.to_string();
                assert!(words.contains("not implemented yet"), "{name}: {words}");
            }
        }
        assert!(more().filter(|(_, schedule)| schedule.is_ok()).count() >= MORE.len());
    }
}
