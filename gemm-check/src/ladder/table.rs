//! The ladder as text.

use std::fmt;

use super::{Ladder, Rung};

/// A column: its head, and what stands in it.
type Column = (&'static str, fn(&Rung) -> String);

const ALWAYS: [Column; 12] = [
    ("case", |rung| rung.case.clone()),
    ("threads", |rung| rung.threads.to_string()),
    ("shared B", |rung| rung.shared_bytes.to_string()),
    ("size", |rung| rung.size.map(|extent| extent.to_string()).join("x")),
    ("loads/FMA", |rung| format!("{:.4}", rung.loads_per_fma)),
    ("words/FMA", |rung| format!("{:.2}", rung.shared_words_per_fma)),
    ("conflicts", |rung| rung.bank_conflicts.to_string()),
    ("sectors", |rung| format!("{:.2}", rung.sector_overhead)),
    ("bytes A+B", |rung| rung.bytes.to_string()),
    ("formula", |rung| rung.formula_bytes.to_string()),
    ("op/B", |rung| format!("{:.2}", rung.intensity)),
    ("formula", |rung| format!("{:.2}", rung.formula_intensity)),
];

const ERROR: Column = ("error", |rung| format!("{:.4}{}", rung.max_error, if rung.ok { "" } else { " WRONG" }));

const ASSEMBLED: [Column; 4] = [
    ("for", |rung| rung.target.clone()),
    ("regs", |rung| rung.assembled.as_ref().map_or_else(none, |of| of.registers.to_string())),
    ("spilled B", |rung| rung.assembled.as_ref().map_or_else(none, |of| of.spill_stores.to_string())),
    ("SASS", |rung| {
        let main_loop = rung.assembled.as_ref().and_then(|of| of.main_loop);
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
    /// The table, what its columns mean, and then each case's clauses with where it comes from.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut columns: Vec<Column> = ALWAYS.into();
        if self.assembler.is_some() {
            columns.extend(ASSEMBLED);
        }
        columns.push(ERROR);
        if self.rungs.iter().any(|rung| rung.timing.is_some()) {
            columns.extend(TIMED);
        }
        let cells: Vec<Vec<String>> = columns
            .iter()
            .map(|(head, cell)| std::iter::once(head.to_string()).chain(self.rungs.iter().map(cell)).collect())
            .collect();
        let width = |column: &Vec<String>| column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = cells.iter().map(width).collect();
        for line in 0..=self.rungs.len() {
            // Names to the left, figures to the right.
            write!(f, "{:1$}", cells[0][line], widths[0])?;
            for (column, width) in cells.iter().zip(&widths).skip(1) {
                write!(f, "  {:>width$}", column[line])?;
            }
            writeln!(f)?;
        }
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
words/FMA  different words of shared memory that a warp reads for each multiply-add
conflicts  passes over the banks of shared memory beyond those that as many words need
sectors    32-byte sectors touched by loads from global memory, as a multiple of the fewest possible
bytes A+B  loaded from global memory by all threads; op/B: operations for each of them
formula    (m n / (block_m block_n)) (block_m block_k + block_n block_k) bytes (k / block_k)
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
