//! The ladder as text.

use std::fmt;

use super::{Ladder, Rung};
use crate::compare::Verdict;
use crate::figures::table;

/// A column: its head, and its cells.
type Column = (&'static str, fn(&Rung) -> String);

const ALWAYS: [Column; 14] = [
    ("case", |rung| rung.case.clone()),
    ("threads", |rung| rung.figures.threads.to_string()),
    ("shared B", |rung| rung.figures.shared_bytes.to_string()),
    ("size", |rung| rung.figures.size.map(|extent| extent.to_string()).join("x")),
    ("loads/FMA", |rung| format!("{:.4}", rung.figures.loads_per_fma)),
    ("instr/FMA", |rung| format!("{:.3}", rung.figures.main_loop.instructions_per_fma)),
    ("words/FMA", |rung| format!("{:.2}", rung.figures.shared_words_per_fma)),
    ("conflicts", |rung| rung.figures.bank_conflicts.to_string()),
    ("sectors", |rung| format!("{:.2}", rung.figures.sector_overhead)),
    ("bytes A+B", |rung| rung.figures.bytes.to_string()),
    ("formula", |rung| rung.figures.formula_bytes.to_string()),
    ("op/B", |rung| format!("{:.2}", rung.figures.intensity)),
    ("formula", |rung| format!("{:.2}", rung.figures.formula_intensity)),
    ("warps", |rung| format!("{:.0} %", 100.0 * rung.figures.occupancy.share())),
];

const ERROR: Column = ("error", |rung| match rung.figures.verdict {
    Verdict::Right => format!("{:.4}", rung.figures.max_error),
    verdict => format!("{:.4} {verdict}", rung.figures.max_error),
});

const ASSEMBLED: [Column; 4] = [
    ("for", |rung| rung.figures.target.clone()),
    ("regs", |rung| rung.figures.assembled.as_ref().map_or_else(none, |of| of.registers.to_string())),
    ("spilled B", |rung| rung.figures.assembled.as_ref().map_or_else(none, |of| of.spill_stores.to_string())),
    ("SASS", |rung| {
        let main_loop = rung.figures.assembled.as_ref().and_then(|of| of.main_loop);
        main_loop.map_or_else(none, |found| format!("{:.4}", found.loads_per_fma()))
    }),
];

const TIMED: [Column; 4] = [
    ("ms", |rung| rung.timing.as_ref().map_or_else(none, |timing| format!("{:.3}", timing.ms))),
    ("noise", |rung| rung.timing.as_ref().map_or_else(none, |timing| format!("{:.1} %", 100.0 * timing.noise))),
    ("TFLOP/s", |rung| rung.timing.as_ref().map_or_else(none, |timing| format!("{:.2}", timing.tflops()))),
    ("cuBLAS", |rung| {
        let share = rung.timing.as_ref().and_then(|timing| timing.share());
        share.map_or_else(none, |share| format!("{:.0} %", 100.0 * share))
    }),
];

fn none() -> String {
    "-".into()
}

impl fmt::Display for Ladder {
    /// The table, the meaning of its columns, and then each case's clauses with its origin.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut columns: Vec<Column> = ALWAYS.into();
        if self.assembler.is_some() {
            columns.extend(ASSEMBLED);
        }
        columns.push(ERROR);
        if self.rungs.iter().any(|rung| rung.timing.is_some()) {
            columns.extend(TIMED);
        }
        let rows = self.rungs.iter().map(|rung| columns.iter().map(|(_, cell)| cell(rung)).collect());
        f.write_str(&table(columns.iter().map(|(head, _)| *head), rows))?;
        self.legend(f)?;
        for rung in &self.rungs {
            writeln!(f, "\n{}: {}\n    {}", rung.case, rung.origin, rung.clauses)?;
        }
        Ok(())
    }
}

impl Ladder {
    fn legend(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "
Counted by the interpreter on 2 x 2 tiles over 4 K-tiles, beta = 0:
loads/FMA  instructions that load from shared or global memory, for each multiply-add (PTX)
instr/FMA  instructions of the main loop for each multiply-add (PTX): what one more K-tile costs
words/FMA  different words of shared memory that a warp reads for each multiply-add
conflicts  passes over the banks of shared memory beyond those that as many words need
sectors    32-byte sectors touched by loads from global memory, as a multiple of the fewest possible
bytes A+B  loaded from global memory by all threads; op/B: operations for each of them
formula    (m n / (block_m block_n)) (block_m block_k + block_n block_k) bytes (k / block_k)
warps      of a multiprocessor that are resident, as assembled where ptxas is found, else as compiled for
error      largest |D - reference| / bound
",
        )?;
        match &self.assembler {
            Some(version) => writeln!(
                f,
                "regs, spilled B: of a thread, by ptxas {version}; SASS: loads for each multiply-add in the loop over k, both ways \
                 around its branches"
            ),
            None => writeln!(f, "no ptxas in $PTXAS or the path: no registers, no spills, no SASS"),
        }
    }
}
