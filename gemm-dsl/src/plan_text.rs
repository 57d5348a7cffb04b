//! The plan as a table for people: every figure and its source.

use std::fmt::{self, Display, Formatter};

use crate::clause::{ALL_PRODUCTS, size};
use crate::epilogue::Axis;
use crate::plan::{CopyPlan, Emulate, Exchange, Geometry, LentSlots, OperandPlan, Placement, Plan, Promotion, Variant};
use crate::suggest::count;
use crate::target::{WARP, WARP_GROUP};
use crate::terms::{Along, Extent2, Fast, Load, Operand, Operands, Param, Side, Swizzle, Tail, Wave};
use crate::types::{Orientation, Problem};
use crate::words::Word;

/// Rows of two columns under headings. Two columns need no table library, which everyone would have to compile, since
/// the macro depends on this crate.
#[derive(Default)]
struct Table {
    text: String,
}

impl Table {
    fn heading(&mut self, name: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(name);
        self.text.push('\n');
    }

    fn row(&mut self, name: &str, value: impl Display) {
        self.text.push_str(&format!("  {name:<20}{value}\n"));
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut table = Table::default();
        if let Some(filled) = &self.filled {
            table.heading("chosen");
            table.row("clauses", filled.text());
            table.row("", filled.reason());
        }
        self.problem_rows(&mut table);
        self.thread_rows(&mut table);
        self.memory_rows(&mut table);
        self.loop_rows(&mut table);
        self.grid_rows(&mut table);
        for variant in &self.variants {
            self.variant_rows(variant, &mut table);
        }
        let mut told: Vec<&[Param]> = Vec::new();
        for variant in &self.variants {
            let params = variant.params.as_slice();
            if told.contains(&params) {
                continue;
            }
            // The parameters of entries with tensor maps differ from the others.
            match self.ring.load {
                Load::Tma => table.heading(&format!("parameters of {}", variant.entry)),
                Load::Registers | Load::CpAsync => table.heading("parameters"),
            }
            for param in params {
                let (name, kind) = self.parameter(param);
                table.row(&name, kind);
            }
            told.push(params);
        }
        f.write_str(&table.text)
    }
}

impl Plan {
    fn problem_rows(&self, table: &mut Table) {
        let asked = self.problem.asked();
        let matrices = |problem: &Problem| {
            let (types, layouts) = (problem.types, problem.layouts);
            let named = |o: Operand| format!("{} {} {}", o.name(), types.of(o), layouts.of(o));
            problem.matrices().map(named).collect::<Vec<_>>().join(", ")
        };
        table.heading("problem");
        table.row("target", self.target);
        table.row("matrices", matrices(&asked));
        table.row("accumulator", asked.types.acc);
        table.row("epilogue", &asked.epilogue);
        if self.problem.orientation == Orientation::Transposed {
            table.row("computed as", format!("its transpose, with {}; all below is of it", matrices(&self.problem)));
        }
        table.row("batch", self.problem.batch);
    }

    fn thread_rows(&self, table: &mut Table) {
        let g = &self.geometry;
        table.heading("threads");
        table.row("block tile", format!("{} x {} x {}", self.block.m, self.block.n, self.block.k));
        table.row("multiply", self.atom);
        table.row("threads", self.warps());
        if g.regions.m * g.regions.n > 1 {
            table.row(
                "warps",
                format!("{} x {}, n fastest, each {} x {}", g.regions.m, g.regions.n, g.region.m, g.region.n),
            );
        }
        let along = match g.along {
            Along::N => "n fastest",
            Along::M => "m fastest",
            Along::Z => "in z order",
        };
        table.row("thread grid", format!("{} x {}, {along}", g.grid.m, g.grid.n));
        table.row("thread tile", format!("{} x {}", g.thread.m, g.thread.n));
        table.row(
            "fragments",
            format!(
                "{} x {} of {} x {}, {} rows and {} columns apart",
                g.repeat.m, g.repeat.n, g.fragment.m, g.fragment.n, g.stride.m, g.stride.n
            ),
        );
        if self.roles.turns > 1 {
            table.row("turns", format!("{} consumers compute one tile each, in turn", self.roles.turns));
        }
        if let Some((producer, consumer)) = self.roles.registers {
            table.row("registers", format!("{consumer} of a consumer thread, {producer} of a producer thread"));
        }
        // The total number of registers depends on the blocks per multiprocessor and is a row of each variant.
        table.row(
            "accumulators",
            format!("{} in {} registers", self.accumulators(), self.resources.accumulator_registers),
        );
    }

    fn warps(&self) -> String {
        let (threads, multiply) = (self.threads(), self.geometry.threads);
        if self.roles.producer_warps > 0 {
            let consumers = match (self.roles.turns, multiply.div_ceil(WARP)) {
                (1, warps) => warps.to_string(),
                (turns, warps) => format!("{turns} x {warps}"),
            };
            return format!("{threads} = {consumers} consumer + {} producer warps", self.roles.producer_warps);
        }
        let idle = threads.next_multiple_of(WARP) - threads;
        let idle = if idle == 0 { String::new() } else { format!(", {idle} lanes of the last warp idle") };
        format!("{threads} = {} warps{idle}", threads.div_ceil(WARP))
    }

    fn memory_rows(&self, table: &mut Table) {
        table.heading("shared memory");
        for operand in [&self.ring.a, &self.ring.b] {
            let name = if operand.side == Side::A { "A" } else { "B" };
            table.row(name, operand.placement.map_or("not staged".into(), |p| placement(operand, &p)));
        }
        table.row("stages", format!("{} of {} B", self.ring.stages, self.ring.stage_bytes));
        if let Some(offset) = self.variants.first().and_then(|variant| self.barrier_offset(variant)) {
            let turns = if self.roles.turns > 1 { self.roles.turns } else { 0 };
            let c = self.variants.first().and_then(|variant| self.c_offset(variant)).map_or(0, |_| self.roles.turns);
            table.row("mbarriers", format!("{} of 8 B at {offset}", 2 * self.ring.stages + turns + c));
        }
        table.row("in all", format!("{} B of at most {}", self.resources.shared_bytes, self.target.max_shared_bytes()));
    }

    fn loop_rows(&self, table: &mut Table) {
        table.heading("loop over k");
        table.row("load", self.ring.load.word());
        if !self.ring.pack.is_empty() {
            table.row("copied first", &self.clauses.pack);
        }
        if let Some(Emulate { by }) = self.sums.emulate {
            let (planes, products) = (by.planes(), by.pairs().len());
            let twice = if planes == ALL_PRODUCTS { ", the last one twice" } else { "" };
            let planes = size(planes - 1) + 1;
            table.row(
                "planes",
                format!("{planes} of {} for each operand{twice}, {products} products of them", by.factor()),
            );
        }
        if let Some(Promotion { every, compensated }) = self.sums.promote {
            let k_tiles = every / self.block.k;
            let chunk = match (self.sums.emulate, self.ring.planes_in_slot) {
                (None, _) => count(k_tiles, "K-tile"),
                (Some(Emulate { by }), 1) => format!("{} K-tiles of planes", by.pairs().len() as u32 * k_tiles),
                (Some(_), _) => "a K-tile with all planes".into(),
            };
            let rounding = if compensated { ", rounding errors as well" } else { "" };
            table.row("promoted", format!("every {every} of k, {chunk}{rounding}"));
        }
        match self.atom.of_group() {
            None => self.steps_rows(table),
            // Tensor cores read shared memory; threads read no fragments.
            Some((_, columns, depth)) => {
                let of_planes = if self.ring.planes_in_slot > 1 { self.pairs() as u32 } else { 1 };
                let Geometry { region, regions, .. } = self.geometry;
                // A region is what one of the four warps of a group computes.
                let rows = if regions.n > 1 {
                    let rows = region.m * WARP_GROUP / WARP;
                    table.row("warp group", format!("{rows} x {} of the tile, in pieces of 64 x {columns}", region.n));
                    rows / 64
                } else {
                    1
                };
                let products = of_planes * (self.block.k / depth) * (region.n / columns) * rows;
                let products = if products == 1 { "1 product".into() } else { format!("{products} products") };
                table.row("multiply", format!("{products} of each warp group per K-tile, from shared memory"));
            }
        }
        table.row("pace", self.ring.pace.word());
        table.row("intensity", format!("{:.2} operations per byte of A and B", self.intensity()));
    }

    /// How a thread reads its fragments and multiplies them.
    fn steps_rows(&self, table: &mut Table) {
        table.row(
            "unroll",
            format!("{} steps, {} multiply-adds", self.body.unroll, self.body.unroll * self.accumulators()),
        );
        table.row("order", self.body.order.word());
        let held = match self.body.operands {
            Operands::Registers => {
                format!("held, read {} ahead, {}", steps(self.body.prefetch), self.body.reads.word())
            }
            Operands::Shared => "read again for every product".into(),
        };
        table.row("fragments", held);
        table.row(
            "shared reads",
            format!("A {} and B {} elements wide", self.ring.a.read_width, self.ring.b.read_width),
        );
    }

    fn grid_rows(&self, table: &mut Table) {
        table.heading("grid");
        table.row("blocks", format!("ceil(m / {}) * ceil(n / {})", self.block.m, self.block.n));
        table.row(
            "order",
            format!("bands of {} along {}", self.scheduler.raster.group, self.scheduler.raster.along.word()),
        );
        if self.scheduler.cluster.m * self.scheduler.cluster.n > 1 {
            let Extent2 { m, n } = self.scheduler.cluster;
            let shared: Vec<&str> = ["A", "B"]
                .into_iter()
                .zip(self.scheduler.multicast)
                .filter(|(_, shared)| *shared)
                .map(|(name, _)| name)
                .collect();
            let loads = if shared.is_empty() {
                String::new()
            } else {
                format!(", which share loads of {}", shared.join(" and "))
            };
            table.row("clusters", format!("of {m} x {n} tiles{loads}"));
        }
        match self.scheduler.persistent {
            None => {}
            Some(Wave::Device) => table.row("persistent", "one wave"),
            Some(Wave::Blocks(n)) => table.row("persistent", format!("{n} blocks")),
        }
        if let Some(split) = self.scheduler.split_k {
            table.row("split of k", format!("{} parts, {}", split.parts, split.reduce.word()));
        }
        if let Some(Exchange { pitch, across, chunks, chunk, at_once, steps, bytes, .. }) = self.sums.exchange {
            table.row("exchange", format!("sums of {bytes} B at 0, lines {pitch} apart"));
            let turns = if steps > 1 { format!(", {steps} times") } else { String::new() };
            let each = if chunks > 1 { format!("{chunks} times {chunk}") } else { chunk.to_string() };
            table.row(
                "share",
                format!("{across} threads along a line, {each} sums each, {at_once} lines at once{turns}"),
            );
        }
        if self.scheduler.stream_k {
            table.row("streamed", "K-tiles of the last wave, divided evenly");
        }
        let tail = match self.edges.tail {
            Tail::Predicate => "guarded",
            Tail::None => "sizes must be multiples of the tile",
        };
        match self.edges.grain {
            None => table.row("edges", tail),
            Some(grain) => {
                table.row("edges", format!("{tail}; tiles of a row as wide as one another, in multiples of {grain}"));
            }
        }
        if let Some(levels) = self.sums.strassen {
            let products = 7u32.pow(levels);
            table.row("strassen", format!("{products} products of 1/{} of m, n and k, and sums", 1 << levels));
            table.row(
                "workspace",
                "2 matrices of operands and 3 of D, each a quadrant, for each level; see the launches",
            );
        }
        for contract in &self.resources.expect {
            table.row("expected", contract);
        }
    }

    fn variant_rows(&self, variant: &Variant, table: &mut Table) {
        table.heading(&variant.entry);
        table.row("A", self.access(&self.ring.a, &variant.a, variant.load));
        table.row("B", self.access(&self.ring.b, &variant.b, variant.load));
        if self.problem.epilogue.uses_c() {
            let by_tma = variant.staged.is_some_and(|staged| staged.holds_c);
            table.row("C", if by_tma { "as D, by one thread".into() } else { format!("{} wide", variant.c_width) });
        }
        table.row("D", self.way_out(variant));
        let blocks = self.resident_blocks(variant);
        table.row(
            "blocks per SM",
            format!("{blocks}, so at most {} registers a thread", self.registers_per_thread(blocks)),
        );
        let needs: Vec<String> = self
            .problem
            .matrices()
            .map(|asked| (asked, self.problem.asked_operand(asked)))
            .map(|(asked, operand)| (asked, operand, width(variant, operand)))
            .filter(|(_, operand, width)| *width > 1 && !self.is_split(*operand))
            .map(|(asked, operand, width)| {
                let bytes = width * self.problem.types.of(operand).bytes();
                format!("{} {bytes} B, ld {width}", asked.name())
            })
            .collect();
        table.row("needs multiples of", if needs.is_empty() { "nothing".into() } else { needs.join("; ") });
    }

    /// Whether the operand is always copied as planes.
    fn is_split(&self, operand: Operand) -> bool {
        self.sums.emulate.is_some() && matches!(operand, Operand::A | Operand::B)
    }

    /// How D is stored.
    fn way_out(&self, variant: &Variant) -> String {
        let width = variant.d_width;
        let Some(staged) = variant.staged else { return format!("{width} wide") };
        let (lines, elements) = self.d_lines();
        let skew = match staged.swizzle {
            Swizzle::Bytes(span) => format!("swizzled by {span} B"),
            Swizzle::None => format!("{} apart", staged.pitch),
        };
        let by = if staged.matrices { ", written as matrices" } else { "" };
        let each = if self.roles.turns > 1 { ", one for each consumer" } else { "" };
        let place = match staged.lent {
            None => format!("at {}", staged.offset_bytes),
            Some(LentSlots { panels, slots }) => {
                format!("in {} of the ring, {} in each", count(slots, "slot"), count(panels, "panel"))
            }
        };
        let tile = format!("{lines} lines of {elements}, {skew}, {place}{each}{by}");
        match staged.box_lines {
            None => format!("{tile}, copied {width} wide"),
            Some(rows) => {
                let boxes = lines / rows * (elements / staged.pitch).max(1);
                let boxes = if boxes == 1 { "1 box".into() } else { format!("{boxes} boxes") };
                format!("{tile}, copied as {boxes} of {rows} by {}, by one thread", staged.pitch)
            }
        }
    }

    fn access(&self, operand: &OperandPlan, copy: &CopyPlan, load: Load) -> String {
        if load == Load::Tma {
            let Some(placement) = operand.placement else { return String::new() };
            let row = placement.fast_extent.min(placement.pitch);
            let rows = placement.panels() * placement.slow_extent / copy.chunks.max(1);
            let boxes = if copy.chunks == 1 { "1 box".into() } else { format!("{} boxes", copy.chunks) };
            return format!("{boxes} of {rows} rows of {row}, by one thread");
        }
        let along = match (operand.global_fast, operand.side) {
            (Fast::K, _) => "k",
            (Fast::Mn, Side::A) => "m",
            (Fast::Mn, Side::B) => "n",
        };
        if operand.placement.is_none() {
            return format!("{} wide along {along}", copy.width);
        }
        let idle = u64::from(copy.passes) * u64::from(self.copying_threads()) - u64::from(copy.chunks);
        let idle = if idle == 0 { String::new() } else { format!(", {idle} idle in the last") };
        let thread = if self.roles.producer_warps > 0 { "producer thread" } else { "thread" };
        format!(
            "{} chunks {} wide along {along}, {} per {thread}{idle}, stored {} wide",
            copy.chunks, copy.width, copy.passes, copy.store_width
        )
    }

    /// Floating-point operations per byte of A and B that a block reads.
    fn intensity(&self) -> f64 {
        let (m, n) = match self.ring.a.placement {
            Some(_) => (self.block.m, self.block.n),
            // Without staging every thread reads its own fragments.
            None => (self.geometry.thread.m, self.geometry.thread.n),
        };
        let bytes = f64::from(m * self.ring.a.dtype.bytes()) + f64::from(n * self.ring.b.dtype.bytes());
        // Per pair of planes, or for all pairs of a slot with every plane.
        let pairs =
            if self.ring.planes_in_slot > 1 { self.pairs() as f64 / f64::from(self.ring.planes_in_slot) } else { 1.0 };
        2.0 * f64::from(m) * f64::from(n) * pairs / bytes
    }

    fn parameter(&self, param: &Param) -> (String, String) {
        // The name that a launch uses.
        let asked = self.problem.asked();
        let (types, epilogue) = (asked.types, &asked.epilogue);
        match &self.problem.asked_param(param) {
            Param::Matrix(operand) => (operand.name().into(), format!("u64, address of {}", types.of(*operand))),
            Param::Map(operand) => {
                // The type of the planes, if the operand is split.
                let planes = self.sums.emulate.filter(|_| matches!(operand, Operand::A | Operand::B));
                let dtype = planes.map_or(types.of(*operand), |emulate| emulate.by.factor());
                (format!("map_{}", operand.name()), format!("128 bytes, tensor map of {dtype}"))
            }
            Param::Vector(index) => {
                let vector = epilogue.vectors.get(*index);
                let text = vector.map(|v| {
                    format!(
                        "u64, address of {}, one per {}",
                        types.epilogue(),
                        if v.axis == Axis::M { "row" } else { "column" }
                    )
                });
                (
                    vector.map_or_else(String::new, |v| format!("{}[{}]", v.name, v.axis.word())),
                    text.unwrap_or_default(),
                )
            }
            Param::M => ("m".into(), "u32".into()),
            Param::N => ("n".into(), "u32".into()),
            Param::K => ("k".into(), "u32".into()),
            Param::Ld(operand) => (format!("ld{}", operand.name()), "u64, elements".into()),
            Param::BatchStride(operand) => (format!("stride_{}", operand.name()), "u64, elements".into()),
            Param::Scalar(index) => {
                (epilogue.scalars.get(*index).cloned().unwrap_or_default(), types.epilogue().to_string())
            }
            Param::Batch => ("batch".into(), "u32, products".into()),
            Param::Problems => ("problems".into(), "u64, address of the list of products".into()),
            Param::Tiles => ("tiles".into(), "u32, tiles of all products, or 0 if it is not known".into()),
            Param::Workspace => ("workspace".into(), "u64, address".into()),
            Param::Packed(operand) => (format!("packed_{}", operand.name()), "u64, address".into()),
            Param::Scales(operand) => (format!("scales_{}", operand.name()), "u64, address".into()),
        }
    }
}

/// Elements of the widest access to a matrix.
fn width(variant: &Variant, operand: Operand) -> u32 {
    match operand {
        Operand::A => variant.a.width,
        Operand::B => variant.b.width,
        Operand::C => variant.c_width,
        Operand::D => variant.d_width,
    }
}

fn steps(n: u32) -> String {
    if n == 1 { "1 step".into() } else { format!("{n} steps") }
}

fn placement(operand: &OperandPlan, p: &Placement) -> String {
    let (slow, fast) = match (operand.side, p.fast) {
        (Side::A, Fast::K) => ("m", "k"),
        (Side::A, Fast::Mn) => ("k", "m"),
        (Side::B, Fast::K) => ("n", "k"),
        (Side::B, Fast::Mn) => ("k", "n"),
    };
    let skew = match p.swizzle {
        Swizzle::Bytes(span) if p.panels() > 1 => {
            format!(" in {} panels of {}, swizzled by {span} B", p.panels(), p.pitch)
        }
        Swizzle::Bytes(span) => format!(", swizzled by {span} B"),
        Swizzle::None if p.pitch > p.fast_extent => format!(", padded to {}", p.pitch),
        Swizzle::None => String::new(),
    };
    format!("[{slow} {}][{fast} {}]{skew}, {} B at {}", p.slow_extent, p.fast_extent, p.slot_bytes, p.offset_bytes)
}
