//! Figures as text: one table per subject.

use std::fmt;

use comfy_table::{CellAlignment, Table};

use super::{Figures, Passes, Sectors};

/// A table without rules; names are left-aligned, figures right-aligned.
pub fn table<'a>(head: impl IntoIterator<Item = &'a str>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(head).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 1 }, 1));
        column.set_cell_alignment(if index == 0 { CellAlignment::Left } else { CellAlignment::Right });
    }
    table.trim_fmt() + "\n"
}

impl fmt::Display for Figures {
    /// The figures with their units, followed by the advice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.size;
        writeln!(
            f,
            "{} for {}: {m} x {n} x {k} in {} blocks of {} threads",
            self.entry, self.target, self.blocks, self.threads
        )?;
        write!(f, "counted by the interpreter; the result is {}, {:.3} of the bound", self.verdict, self.max_error)?;
        match self.relative_error {
            Some(error) => writeln!(f, ", off by {error:.2e} in the Frobenius norm\n")?,
            None => f.write_str("\n\n")?,
        }
        self.lines(f)?;
        self.shared_memory(f)?;
        self.global_memory(f)?;
        self.instruction_mix(f)?;
        self.each_kernel(f)?;
        if !self.advice.is_empty() {
            writeln!(f, "\nlook at")?;
        }
        for advice in &self.advice {
            writeln!(f, "  {}: {}\n      {}", advice.figure, advice.what, advice.look_at)?;
        }
        Ok(())
    }
}

impl Figures {
    fn lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, text: String| writeln!(f, "{name:<18} {text}");
        let main = self.main_loop;
        line(
            f,
            "main loop",
            format!(
                "{:.3} instructions, {:.3} loads, {:.3} shared-memory passes per FMA; {:.2} barriers per K-tile",
                main.instructions_per_fma, main.loads_per_fma, main.shared_passes_per_fma, main.barriers_per_k_tile
            ),
        )?;
        line(
            f,
            "loads",
            format!(
                "{:.4} per FMA, {:.2} words of shared memory per FMA",
                self.loads_per_fma, self.shared_words_per_fma
            ),
        )?;
        line(f, "bank conflicts", format!("{} passes", self.bank_conflicts))?;
        line(f, "bytes of A and B", format!("{} B, by the formula {} B", self.bytes, self.formula_bytes))?;
        line(
            f,
            "intensity",
            format!("{:.2} FLOP/B, by the formula {:.2} FLOP/B", self.intensity, self.formula_intensity),
        )?;
        line(f, "shared memory", format!("{} B per block", self.shared_bytes))?;
        line(f, "occupancy", self.occupancy_text())?;
        self.machine(f)
    }

    fn occupancy_text(&self) -> String {
        let of = self.occupancy;
        let limit = format!("{:?}", of.limit).to_lowercase();
        let limit = if limit == "shared" { "shared memory".into() } else { limit };
        let source = if of.registers.is_some() { "as assembled" } else { "as compiled for" };
        let (blocks, share) = (of.blocks, 100.0 * of.share());
        format!(
            "{blocks} blocks, {} of {} warps ({share:.0} %) per SM, limited by {limit}, {source}",
            of.warps, of.most_warps
        )
    }

    fn machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.assembled, &self.not_assembled) {
            (Some(of), _) => {
                writeln!(f, "{:<18} {} per thread", "registers", of.registers)?;
                writeln!(f, "{:<18} {} B stored, {} B loaded per thread", "spills", of.spill_stores, of.spill_loads)?;
                let Some(found) = of.main_loop else { return Ok(()) };
                if found.matrix {
                    return writeln!(
                        f,
                        "{:<18} {} instructions, {} matrix products, {} loads, both ways around branches",
                        "SASS main loop", found.instructions, found.fma, found.loads
                    );
                }
                writeln!(
                    f,
                    "{:<18} {} instructions, {} FMA ({:.0} %), {} of them reuse an operand, {:.4} loads per FMA, both ways \
                     around branches",
                    "SASS main loop",
                    found.instructions,
                    found.fma,
                    100.0 * found.fma_share(),
                    found.reusing,
                    found.loads_per_fma()
                )
            }
            (None, Some(why)) => writeln!(f, "{:<18} unknown: ptxas: {why}", "registers"),
            (None, None) => writeln!(f, "{:<18} unknown: no ptxas in $PTXAS or the path", "registers"),
        }
    }

    fn shared_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.buffers.iter().flat_map(|buffer| {
            [("loads", buffer.loads), ("stores", buffer.stores)].map(|(way, passes)| (&buffer.name, way, passes))
        });
        let rows: Vec<Vec<String>> = rows
            .filter(|(_, _, passes)| passes.instructions > 0)
            .map(|(name, way, passes)| {
                let Passes { instructions, passes, conflicts } = passes;
                let lost = 100.0 * conflicts as f64 / passes.max(1) as f64;
                let per = passes as f64 / instructions.max(1) as f64;
                let counts = [instructions, passes, conflicts].map(|count| count.to_string());
                let [instructions, passes, conflicts] = counts;
                vec![
                    format!("{name} {way}"),
                    instructions,
                    passes,
                    format!("{per:.2}"),
                    conflicts,
                    format!("{lost:.1} %"),
                ]
            })
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let head = ["shared memory", "instructions", "passes", "per instruction", "bank conflicts", "of passes"];
        write!(f, "\n{}", table(head, rows))
    }

    fn global_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.operands.iter().flat_map(|of| {
            [("loads", of.loads, of.bytes_loaded), ("stores", of.stores, of.bytes_stored)].map(|way| (&of.name, way))
        });
        let rows: Vec<Vec<String>> = rows
            .filter(|(_, (_, sectors, _))| sectors.instructions > 0)
            .map(|(name, (way, of, bytes))| {
                let Sectors { instructions, sectors, ideal } = of;
                let per = sectors as f64 / instructions.max(1) as f64;
                let share = 100.0 * ideal as f64 / sectors.max(1) as f64;
                let [instructions, sectors, ideal, bytes] =
                    [instructions, sectors, ideal, bytes].map(|count| count.to_string());
                let (per, share) = (format!("{per:.2}"), format!("{share:.0} %"));
                vec![format!("{name} {way}"), instructions, bytes, sectors, per, ideal, share]
            })
            .collect();
        let head =
            ["global memory", "instructions", "bytes", "sectors of 32 B", "per instruction", "fewest", "efficiency"];
        write!(f, "\n{}", table(head, rows))
    }

    fn each_kernel(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kernels.is_empty() {
            return Ok(());
        }
        let rows = self.kernels.iter().map(|of| {
            let share = 100.0 * of.instructions as f64 / self.instructions.max(1) as f64;
            let counts = [of.bytes_loaded, of.bytes_stored].map(|count| count.to_string());
            [vec![of.name.clone(), of.instructions.to_string(), format!("{share:.1} %")], counts.to_vec()].concat()
        });
        write!(f, "\n{}", table(["kernels", "instructions", "share", "bytes loaded", "bytes stored"], rows))
    }

    fn instruction_mix(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.mix.iter().map(|kind| {
            let share = 100.0 * kind.count as f64 / self.instructions.max(1) as f64;
            let per = kind.count as f64 / self.fma.max(1) as f64;
            vec![kind.name.into(), kind.count.to_string(), format!("{share:.1} %"), format!("{per:.4}")]
        });
        write!(f, "\n{}", table(["instructions of warps", "count", "share", "per FMA"], rows))
    }
}
