//! Compares the results of two devices, a GPU and the interpreter, bit by bit.
//!
//! The same PTX gives the same bits, since nearly every instruction is defined to the bit. The exceptions in a
//! kernel are read from its PTX and form its [`Rule`]; a kernel without any must give equal bits.

use std::collections::BTreeMap;
use std::fmt;

use ptx_gemm_dsl::DType;
use ptx_gemm_dsl::types::Batch;
use ptx_gemm_runtime::interface::Entry;
use ptx_gemm_runtime::ptx::instruction::{Approx, Opcode};
use ptx_gemm_runtime::ptx::matrix::Element;
use ptx_gemm_runtime::ptx::module::{Module, Statement};
use ptx_gemm_runtime::ptx::types::Type;
use ptx_gemm_runtime::{CompiledGemm, Kernel, Run};

use crate::data::Results;
use crate::error::CheckError;
use crate::given::{Given, Sums};
use crate::landmarks::{Landmarks, of_kernel};
use crate::request::{Output, Request};
use crate::size::Size;
use crate::suite::others;

/// How far the bits of one kernel may differ from device to device.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Instructions that compute approximately, and their largest relative errors.
    approximate: BTreeMap<&'static str, f64>,
    sums: Sums,
}

/// One f32 rounding: operations after an approximate function have different operands, and therefore round
/// differently.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;

impl Rule {
    /// The rule of a module, determined by its instructions.
    pub fn of(module: &Module) -> Rule {
        let mut rule = Rule { approximate: BTreeMap::new(), sums: Sums::Fixed };
        for statement in module.entries.iter().flat_map(|entry| &entry.body) {
            let Statement::Instruction(instruction) = statement else { continue };
            let op = match &instruction.op {
                Opcode::Modified { op, .. } => op,
                op => op,
            };
            match op {
                Opcode::Approx { function, ty } => {
                    let (name, error) = documented(*function, *ty);
                    rule.approximate.insert(name, error);
                }
                Opcode::DivFast { .. } => {
                    // "div.approx" and "div.full": at most 2 units in the last place.
                    rule.approximate.insert("div", 4.0 * ROUNDING);
                }
                Opcode::WmmaMultiply { .. } => rule.sums = Sums::Free,
                Opcode::Mma { d, .. } | Opcode::Wgmma { d, .. } if *d != Element::S32 => rule.sums = Sums::Free,
                _ => {}
            }
        }
        rule
    }

    /// Whether every bit has to be equal.
    pub fn is_equality(&self) -> bool {
        self.approximate.is_empty() && self.sums == Sums::Fixed
    }

    pub(crate) fn sums(&self) -> Sums {
        self.sums
    }

    /// The permitted distance of two devices' values of this magnitude. A function of the module, such as an
    /// exponential or a power, consists of a few approximate instructions.
    pub(crate) fn spread(&self, value: f64) -> f64 {
        16.0 * self.relative() * value.max(1.0)
    }

    /// The permitted relative error of an epilogue function, which consists of these instructions and a few others.
    pub(crate) fn relative(&self) -> f64 {
        let roundings = if self.approximate.is_empty() { 0.0 } else { 4.0 * ROUNDING };
        self.approximate.values().sum::<f64>() + roundings
    }
}

/// The largest relative error of an instruction (PTX ISA, "Floating point instructions" and "Half precision floating
/// point instructions", each at its own page). For `sin` and `cos` an absolute error is documented, for results of at
/// most 1; no function of the language uses them.
fn documented(function: Approx, ty: Type) -> (&'static str, f64) {
    let single = ty == Type::F32;
    match function {
        Approx::Tanh if single => ("tanh", 2f64.powi(-11)),
        Approx::Tanh => ("tanh of 16 bits", 2f64.powi(-8)),
        Approx::Ex2 if single => ("ex2", 2f64.powi(-22)),
        Approx::Ex2 => ("ex2 of 16 bits", 2f64.powi(-7)),
        Approx::Lg2 => ("lg2", 2f64.powi(-22)),
        Approx::Rcp => ("rcp", 2f64.powi(-23)),
        Approx::Sqrt => ("sqrt", 2f64.powi(-23)),
        Approx::Rsqrt => ("rsqrt", 2f64.powf(-22.9)),
        Approx::Sin => ("sin", 2f64.powf(-20.5)),
        Approx::Cos => ("cos", 2f64.powf(-20.5)),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_equality() {
            return f.write_str("every bit");
        }
        let names: Vec<&str> = self.approximate.keys().copied().collect();
        if !names.is_empty() {
            let log = self.approximate.values().sum::<f64>().log2();
            write!(f, "approximate functions ({}: within 2^{log:.1} together)", names.join(", "))?;
        }
        match (self.sums, names.is_empty()) {
            (Sums::Fixed, _) => Ok(()),
            (Sums::Free, true) => f.write_str("sums of tensor cores (within the bound of f32 sums)"),
            (Sums::Free, false) => f.write_str(" and sums of tensor cores"),
        }
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The rule that was applied.
    pub rule: Rule,
    /// The entry that ran on the first device.
    pub run: Run,
    /// Elements compared: those that must be equal, and those with a bound on the difference.
    pub compared: usize,
    /// Elements with different bits.
    pub differing: usize,
    /// The largest difference, as a share of what the rule allows; infinite where it allows none.
    pub share: f64,
    /// The first element that exceeds it, described in words.
    pub worst: Option<String>,
    /// Whether neither device wrote outside the elements of D.
    pub padding_intact: bool,
}

impl Agreement {
    /// Whether the rule holds for every element.
    pub fn holds(&self) -> bool {
        self.share <= 1.0 && self.padding_intact && self.compared > 0
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Agreement { rule, differing, compared, share, .. } = self;
        write!(f, "{differing} elements differ, {compared} were compared, the rule is {rule}")?;
        if !rule.is_equality() {
            write!(f, ", {share:.3} of it used")?;
        }
        if let Some(worst) = &self.worst {
            write!(f, ": {worst}")?;
        }
        if !self.padding_intact {
            f.write_str("; the padding between the rows of D was written")?;
        }
        Ok(())
    }
}

/// Odd in every direction, and large enough for several tiles of most schedules: the entry without wide accesses.
const ODD: Size = Size { m: 141, n: 133, k: 67 };
/// Multiples of the widest access of every type, past the edges of tiles: the entry with wide accesses.
const ALIGNED: Size = Size { m: 144, n: 176, k: 80 };

/// The sizes that are compared, rounded up to multiples of the tile for an entry without guards.
fn sizes(kernel: &Kernel) -> Vec<Size> {
    let mut all = Vec::new();
    for landmarks in of_kernel(kernel) {
        let Landmarks { tile: [m, n, k], guarded, .. } = landmarks;
        let whole = Size::new(ODD.m.next_multiple_of(m), ODD.n.next_multiple_of(n), ODD.k.next_multiple_of(k));
        let sizes = if guarded { vec![ODD, ALIGNED] } else { vec![whole] };
        for size in sizes.into_iter().map(|size| landmarks.suited(size)) {
            if !all.contains(&size) {
                all.push(size);
            }
        }
    }
    all
}

/// The requests that are compared: every kind of entry, scalars that are not powers of two, C separate from D and in
/// place, padding, and gaps in a batch.
pub fn bit_requests(kernel: &Kernel) -> Vec<Request> {
    let problem = kernel.problem();
    let any = kernel.interface().entries.iter().any(Entry::suits_all);
    let integers = problem.types.epilogue().is_integer();
    let of_size = |(index, Size { m, n, k }): (usize, Size)| {
        // The first has odd padding; the padding of the others keeps every row aligned.
        let padding = if index == 0 && any { 3 } else { 16 };
        let mut request = Request { seed: index as u64, ..Request::random(m, n, k) }.padded(problem, padding);
        for (at, name) in problem.epilogue.scalars.iter().enumerate() {
            request = request.set(name, if integers { 3.0 - 5.0 * at as f64 } else { 0.7 - 1.3 * at as f64 });
        }
        if problem.batch == Batch::Strided {
            request = Request { gap: padding, ..request.batch(3) };
        }
        if problem.batch == Batch::Grouped {
            request = request.with_others(others(kernel, Size::new(m, n, k), index));
        }
        let output = if index > 0 { Output::in_place_if_possible(problem) } else { Output::Apart };
        Request { output, ..request }
    };
    sizes(kernel).into_iter().enumerate().map(of_size).collect()
}

/// Runs the product of `request` with one kernel on two devices, and compares the bits.
pub fn agree(here: &CompiledGemm, there: &CompiledGemm, request: &Request) -> Result<Agreement, CheckError> {
    let given = Given::new(here, request)?;
    let rule = Rule::of(here.kernel().module());
    let (run, x) = given.multiply(here)?;
    let (_, y) = given.multiply(there)?;
    let padding_intact = x.padding_is_intact() && y.padding_is_intact();
    let mut found = Agreement { rule, run, compared: 0, differing: 0, share: 0.0, worst: None, padding_intact };
    for product in 0..request.products() {
        found.product(&given, product, &x, &y)?;
    }
    Ok(found)
}

impl Agreement {
    fn product(&mut self, given: &Given, product: usize, x: &Results, y: &Results) -> Result<(), CheckError> {
        let Size { m, n, .. } = given.request.size(product);
        let integers = given.problem.types.acc == DType::I32;
        let allowed = match self.rule.is_equality() || integers {
            true => None,
            false => Some(given.references(product, self.rule.relative(), self.rule.sums())?),
        };
        for index in 0..m * n {
            let (row, col) = (index / n, index % n);
            if x.bits(product, row, col) == y.bits(product, row, col) {
                self.compared += 1;
                continue;
            }
            self.differing += 1;
            let (here, there) = (x.get(product, row, col), y.get(product, row, col));
            // Both devices may deviate, in different directions.
            let bound = allowed.as_ref().map_or(0.0, |references| 2.0 * references[index].error);
            // Any two results are within it.
            if bound.is_infinite() {
                continue;
            }
            self.compared += 1;
            let difference = (here - there).abs();
            let share = if bound > 0.0 && difference.is_finite() { difference / bound } else { f64::INFINITY };
            if share > 1.0 && self.worst.is_none() {
                self.worst = Some(format!("D[{row}, {col}] is {here:e} and {there:e}, {bound:e} apart at most"));
            }
            self.share = self.share.max(share);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ptx_gemm_dsl::Schedule;
    use ptx_gemm_runtime::{CompiledGemm, Device, ptx};

    use super::{Agreement, Given, Rule};
    use crate::request::Request;

    fn compiled() -> CompiledGemm {
        let schedule: Schedule =
            "tile(4, 4, 4); thread(2, 2); tail(none); epilogue(|acc, c| acc + c);".parse().unwrap();
        CompiledGemm::new(&schedule, &Device::interpreter()).unwrap()
    }

    /// The rule of a kernel with one more instruction.
    fn rule(instruction: &str) -> Rule {
        let text = compiled().ptx().replacen("    ret;", &format!("    {instruction}\n    ret;"), 1);
        Rule::of(&ptx::parse::parse(&text).unwrap())
    }

    #[test]
    fn rules_are_read_off_the_ptx() {
        for (instruction, words) in [
            ("", "every bit"),
            ("// ex2.approx.f32", "every bit"),
            ("ex2.approx.f32 %acc0, %acc0;", "approximate functions (ex2: within 2^-22.0 together)"),
            ("tanh.approx.f32 %acc0, %acc0;", "approximate functions (tanh: within 2^-11.0 together)"),
            (
                "rcp.approx.f32 %acc0, %acc0; ex2.approx.f32 %acc0, %acc0;",
                "approximate functions (ex2, rcp: within 2^-21.4 together)",
            ),
            ("rcp.rn.f32 %acc0, %acc0;", "every bit"),
            ("div.rn.f32 %acc0, %acc0, %acc0;", "every bit"),
            ("div.full.f32 %acc0, %acc0, %acc0;", "approximate functions (div: within 2^-22.0 together)"),
            (
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%a0, %a0, %a0, %a0}, {%a0, %a0, %a0, %a0}, {%a0, %a0}, {%a0, %a0, %a0, %a0};",
                "sums of tensor cores (within the bound of f32 sums)",
            ),
            (
                "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%a0, %a0, %a0, %a0}, {%a0, %a0, %a0, %a0}, {%a0, %a0}, {%a0, %a0, %a0, %a0};",
                "every bit",
            ),
        ] {
            assert_eq!(rule(instruction).to_string(), words, "{instruction}");
        }
    }

    #[test]
    fn a_difference_is_measured_by_the_rule() {
        let gemm = compiled();
        let request = Request::random(4, 4, 4);
        let given = Given::new(&gemm, &request).unwrap();
        let (run, x) = given.multiply(&gemm).unwrap();
        let found = |rule: &Rule, ulps: f64| {
            let mut y = x.clone();
            let value = x.get(0, 2, 3);
            y.set(0, 2, 3, value * (1.0 + ulps * 2f64.powi(-23)));
            let mut found = Agreement {
                rule: rule.clone(),
                run: run.clone(),
                compared: 0,
                differing: 0,
                share: 0.0,
                worst: None,
                padding_intact: true,
            };
            found.product(&given, 0, &x, &y).unwrap();
            assert_eq!(found.compared, 16);
            found
        };
        let (equal, sums) = (
            rule(""),
            rule(
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%a0, %a0, %a0, %a0}, {%a0, %a0, %a0, %a0}, {%a0, %a0}, {%a0, %a0, %a0, %a0};",
            ),
        );
        for (rule, ulps, differing, holds) in
            [(&equal, 0.0, 0, true), (&equal, 1.0, 1, false), (&sums, 1.0, 1, true), (&sums, 1e4, 1, false)]
        {
            let found = found(rule, ulps);
            assert_eq!((found.differing, found.holds()), (differing, holds), "{ulps}: {found}");
            assert_eq!(found.worst.is_none(), holds);
        }
    }
}
