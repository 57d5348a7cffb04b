//! Points out bad figures, and the clauses that they depend on.

use ptx_gemm_dsl::clause::Metric;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::interface::WORKSPACE;
use ptx_gemm_runtime::tile::{Op, Program, Source};
use serde::Serialize;

use super::{BufferFigures, Figures, OperandFigures};

/// Above this many times the fewest sectors, accesses to a matrix are scattered.
const SCATTERED: f64 = 1.05;
/// Above this, loads no longer keep up with multiply-adds: a multiprocessor issues one shared load in the time of four
/// of its schedulers' multiply-adds.
const LOADS: f64 = 0.25;
/// Above this, a quarter of the instructions issued in the main loop are not part of the product.
const INSTRUCTIONS: f64 = 4.0 / 3.0;
/// Below this share of the warps there are few warps to hide latency.
const OCCUPANCY: f64 = 0.125;

/// A figure that is bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Which figure.
    pub figure: String,
    /// Why it is bad.
    pub what: String,
    /// The clauses to look at, or the lines of a tile program.
    pub look_at: String,
}

/// Everything that is bad.
pub(super) fn of(figures: &Figures, kernel: &Kernel, program: &Program) -> Vec<Advice> {
    let mut all = Vec::new();
    let mut bad = |figure: String, what: String, look_at: String| all.push(Advice { figure, what, look_at });
    let clauses = Clauses { kernel, program };
    for buffer in &figures.buffers {
        let (loads, stores) = (buffer.loads.conflicts, buffer.stores.conflicts);
        if loads + stores > 0 {
            let passes = buffer.loads.passes + buffer.stores.passes;
            let share = 100.0 * (loads + stores) as f64 / passes.max(1) as f64;
            let what = format!("{share:.0} % of its passes are lost: {loads} in loads, {stores} in stores");
            bad(format!("bank conflicts of {}", buffer.name), what, clauses.of_buffer(buffer));
        }
    }
    for operand in &figures.operands {
        for (way, sectors) in [("loads", operand.loads), ("stores", operand.stores)] {
            let times = sectors.sectors as f64 / sectors.ideal.max(1) as f64;
            // Copies and scales in the workspace are read as planes demand; no clause changes that.
            let planes = figures.relative_error.is_some() && operand.name == WORKSPACE;
            if times > SCATTERED && !planes {
                let what = format!("{way} touch {times:.1} times the sectors that their bytes fill");
                bad(format!("sectors of {}", operand.name), what, clauses.of_operand(operand, way));
            }
        }
    }
    if figures.loads_per_fma > LOADS {
        let what = format!("{:.2}, above {LOADS}", figures.loads_per_fma);
        bad("loads per FMA".into(), what, clauses.of(Metric::LoadsPerFma));
    }
    if figures.main_loop.instructions_per_fma > INSTRUCTIONS {
        let share = 100.0 / figures.main_loop.instructions_per_fma;
        let what = format!("{share:.0} % of the main loop's instructions are the product's");
        bad("instructions per FMA".into(), what, clauses.of(Metric::CodeBytes));
    }
    if figures.bytes != figures.formula_bytes {
        let times = figures.bytes as f64 / figures.formula_bytes.max(1) as f64;
        bad("bytes loaded".into(), format!("{times:.2} times the formula's"), clauses.of(Metric::SectorsPerLoad));
    }
    if figures.occupancy.share() < OCCUPANCY {
        let what = format!("{:.0} % of the warps", 100.0 * figures.occupancy.share());
        bad("occupancy".into(), what, clauses.of(Metric::Occupancy));
    }
    if let Some(assembled) = figures.assembled.as_ref().filter(|of| of.spill_stores + of.spill_loads > 0) {
        let what = format!("{} B stored, {} B loaded by each thread", assembled.spill_stores, assembled.spill_loads);
        bad("spills".into(), what, clauses.of(Metric::Spills));
    }
    all
}

/// The source that knows which clause a figure depends on: the plan, or the notes of a tile program and its statements.
struct Clauses<'a> {
    kernel: &'a Kernel,
    program: &'a Program,
}

impl Clauses<'_> {
    fn of(&self, metric: Metric) -> String {
        match (self.kernel.plan(), metric) {
            (Some(plan), metric) => plan.look_at(metric),
            (None, Metric::LoadsPerFma) => "`accumulator` and the widths of `fetch`".into(),
            (None, Metric::CodeBytes) => "`steps` and its `unroll`".into(),
            (None, Metric::SectorsPerLoad) => "the widths of `copy`".into(),
            (None, Metric::Occupancy) => "`blocks_per_sm`, the depth of `ring`, the threads of `accumulator`".into(),
            (None, _) => "`accumulator` and `blocks_per_sm`".into(),
        }
    }

    /// Stores depend on the layout of the buffer, loads also on which part of it a thread reads.
    fn of_buffer(&self, figures: &BufferFigures) -> String {
        let Some(index) = self.program.buffers.iter().position(|buffer| buffer.name == figures.name) else {
            return String::new();
        };
        let buffer = &self.program.buffers[index];
        let layout = noted(&buffer.note, &format!("buffer {}", buffer.name));
        if figures.loads.conflicts == 0 {
            return layout;
        }
        let fragment = self.kernel.plan().map(|plan| plan.geometry.fragment);
        let reads = self.program.statements().into_iter().find_map(|statement| match &statement.op {
            Op::Steps { fetches, .. } => {
                fetches.iter().find(|(fetch, _)| fetch.from == Source::Buffer(index)).map(|(_, note)| note)
            }
            _ => None,
        });
        let reads = reads.map_or_else(|| "`fetch`".into(), |note| noted(note, "`fetch`"));
        match fragment {
            Some(fragment) => {
                let thread = self.kernel.plan().map(|plan| plan.clauses.thread.clone()).unwrap_or_default();
                let (m, n) = (fragment.m, fragment.n);
                format!("{thread} in fragments of {m} x {n} read by {reads}, and {layout}")
            }
            None => format!("{reads} and {layout}"),
        }
    }

    fn of_operand(&self, figures: &OperandFigures, way: &str) -> String {
        let is = |operand: Operand| figures.name.eq_ignore_ascii_case(operand.name());
        match self.kernel.plan() {
            Some(plan) if way == "loads" && (is(Operand::A) || is(Operand::B)) => {
                let own = if plan.ring.a.placement.is_some() { &plan.clauses.tile } else { &plan.clauses.lanes };
                format!("{}, {} and {own}", plan.clauses.layout, plan.clauses.vector)
            }
            Some(plan) => {
                let clauses = &plan.clauses;
                format!("{}, {}, {} and {}", clauses.layout, clauses.vector, clauses.thread, clauses.lanes)
            }
            None if is(Operand::C) || is(Operand::D) => "`store` and the threads of `accumulator`".into(),
            None => "the widths of `copy`, and the layout".into(),
        }
    }
}

/// The note, or the statement itself where there is none.
fn noted(note: &str, otherwise: &str) -> String {
    if note.is_empty() { format!("`{}`", otherwise.trim_matches('`')) } else { note.into() }
}
