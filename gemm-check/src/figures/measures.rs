//! The figures by which two schedules are compared: numbers that are comparable for products of any size.

use serde::Serialize;

use super::{Figures, table};

/// Units of the error: the unit roundoff of f32, 2^-24.
const UNITS: f64 = (1u64 << 24) as f64;

/// One number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// What it is.
    pub name: &'static str,
    /// The same in the head of a table.
    pub short: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The number, where it is known.
    pub value: Option<f64>,
    /// Digits after the point that are shown.
    #[serde(skip)]
    pub digits: usize,
}

impl Measure {
    /// The number as it is printed.
    pub fn text(&self) -> String {
        self.value.map_or("-".into(), |value| format!("{value:.0$}", self.digits))
    }
}

impl Figures {
    /// All of them, always in the same order.
    pub fn measures(&self) -> Vec<Measure> {
        let per_fma = |count: u64| Some(count as f64 / self.fma.max(1) as f64);
        let sectors = self.operands.iter().filter(|operand| operand.name == "A" || operand.name == "B");
        let sectors: u64 = sectors.map(|operand| operand.loads.sectors).sum();
        let (assembled, main) = (self.assembled.as_ref(), self.main_loop);
        // For each scalar multiply-add: a matrix product is many.
        let sass = assembled.and_then(|of| of.main_loop).filter(|of| !of.matrix);
        let figure = |name, short, unit, value, digits| Measure { name, short, unit, value, digits };
        vec![
            figure("instructions, main loop", "instr/FMA", "per FMA", Some(main.instructions_per_fma), 3),
            figure("loads, main loop", "loads/FMA", "per FMA", Some(main.loads_per_fma), 4),
            figure("shared-memory passes, main loop", "passes/FMA", "per FMA", Some(main.shared_passes_per_fma), 3),
            figure("bank conflicts", "conflicts/FMA", "passes per FMA", per_fma(self.bank_conflicts), 4),
            figure("sectors of A and B", "sectors/FMA", "per FMA", per_fma(sectors), 4),
            figure("intensity by the formula", "FLOP/B", "FLOP/B", Some(self.formula_intensity), 2),
            figure("threads", "threads", "per block", Some(self.threads.into()), 0),
            figure("shared memory", "shared B", "B per block", Some(self.shared_bytes.into()), 0),
            figure("occupancy", "warps %", "% of warps", Some(100.0 * self.occupancy.share()), 0),
            figure("registers", "regs", "per thread", assembled.map(|of| of.registers.into()), 0),
            figure("spills", "spills B", "B per thread", assembled.map(|of| of.spill_stores.into()), 0),
            figure(
                "SASS instructions, main loop",
                "SASS/FMA",
                "per FMA",
                sass.map(|of| f64::from(of.instructions) / f64::from(of.fma.max(1))),
                3,
            ),
            figure("SASS loads, main loop", "SASS loads", "per FMA", sass.map(|of| of.loads_per_fma()), 4),
            figure("error by the Frobenius norm", "error/u", "2^-24", self.relative_error.map(|of| of * UNITS), 3),
            figure("SASS operands reused", "reuse %", "% of FMA", sass.map(|of| 100.0 * of.reuse_share()), 1),
        ]
    }
}

/// The figures of two schedules next to each other; one without figures was not compiled from a tile program.
pub fn side_by_side(names: [&str; 2], figures: [Option<&Figures>; 2]) -> String {
    let measures = figures.map(|figures| figures.map(Figures::measures));
    let Some(known) = measures.iter().flatten().next() else { return String::new() };
    let rows = known.iter().enumerate().map(|(index, known)| {
        let [first, second] = measures.each_ref().map(|all| all.as_ref().map(|all| all[index]));
        let text = |measure: Option<Measure>| measure.map_or("-".into(), |measure| measure.text());
        let [before, after] = [first, second].map(|measure| measure.and_then(|measure| measure.value));
        vec![known.name.into(), text(first), text(second), change(before, after), known.unit.into()]
    });
    table(["", names[0], names[1], "change", "unit"], rows)
}

/// The change as text: a share of the old value.
fn change(before: Option<f64>, after: Option<f64>) -> String {
    match (before, after) {
        (Some(before), Some(after)) if before == after => "=".into(),
        (Some(before), Some(after)) if before != 0.0 => format!("{:+.1} %", 100.0 * (after / before - 1.0)),
        (Some(_), Some(after)) => format!("+{after:.3}"),
        _ => "-".into(),
    }
}
