//! The clauses with every default that no rule decides.

use crate::atoms::Multiply;
use crate::clause::{
    Atom, BatchKind, Clause, Emulation, Expectation, Fetch, LayoutClause, PackClause, PrefetchClause, PromoteClause,
    Roles, SharedClause, Skew, SpecializeClause, Spills, SplitKClause, StagedOrder, TileClause, TypesClause,
    VectorClause, WarpCount,
};
use crate::epilogue::Epilogue;
use crate::keys::KeySet;
use crate::plan::{Geometry, Promotion, Scheduler};
use crate::schedule::Schedule;
use crate::table::Key;
use crate::target::{MAX_ACCESS_BYTES, Target};
use crate::terms::{
    Along, Edges, Extent2, Fast, FmaOrder, Load, LoadC, Operands, Pace, Raster, Reads, Reduce, Rounding, Side, SplitK,
    StageMemory, Store, Wave,
};
use crate::types::{Batch, DType, Layout, Layouts, Orientation, Problem, Types};

/// The tile and its division among threads.
pub(super) struct Shape {
    pub tile: Option<TileClause>,
    pub warp: Option<TileClause>,
    pub thread: Option<Extent2>,
    pub fragment: Option<Extent2>,
    pub along: Along,
}

/// Copies of K-tiles to shared memory.
pub(super) struct Staged {
    /// The staged orders of A and B; `None` with `shared(none)`.
    pub shared: Option<(StagedOrder, StagedOrder)>,
    pub vector: VectorClause,
    pub load: Load,
    pub pack: PackClause,
    pub stages: u32,
    pub pace: Pace,
}

/// The body of the loop over K-tiles.
pub(super) struct Steps {
    pub unroll: Option<u32>,
    pub order: FmaOrder,
    pub prefetch: Option<u32>,
    pub reads: Reads,
    pub operands: Operands,
}

/// Clauses about sums.
pub(super) struct SumClauses {
    pub emulation: Option<Emulation>,
    pub promote: Option<PromoteClause>,
    /// Levels of `strassen`.
    pub levels: Option<u32>,
}

/// Clauses about the roles of warps.
pub(super) struct RoleClauses {
    pub specialize: Option<SpecializeClause>,
    /// Registers of producers and of consumers.
    pub registers: Option<(u32, u32)>,
}

/// Clauses about C and D.
pub(super) struct Output {
    /// How C is loaded.
    pub c: Option<LoadC>,
    pub store: Store,
    /// The memory of the staged tile of D.
    pub memory: Option<StageMemory>,
    pub edges: Edges,
}

/// Clauses about resources.
pub(super) struct Limits {
    pub blocks_per_sm: Option<u32>,
    pub spills: Spills,
    pub expect: Vec<Expectation>,
}

/// The settings of a schedule, defaults included.
pub(super) struct Settings<'s> {
    schedule: &'s Schedule,
    ignored: KeySet,
    /// The problem that the caller asks for.
    pub asked: Problem,
    /// The problem that kernels compute: the same, or its transpose.
    pub problem: Problem,
    pub target: Option<Target>,
    pub atom: Atom,
    pub shape: Shape,
    pub staged: Staged,
    pub steps: Steps,
    pub scheduler: Scheduler,
    pub sums: SumClauses,
    pub roles: RoleClauses,
    pub output: Output,
    pub limits: Limits,
}

impl<'s> Settings<'s> {
    /// Reads the clauses, except those of the kinds in `ignored`.
    pub fn new(schedule: &'s Schedule, ignored: KeySet) -> Settings<'s> {
        let mut settings = Settings {
            schedule,
            ignored,
            asked: problem(schedule),
            problem: computed(schedule, problem(schedule)),
            target: None,
            atom: Atom::default(),
            shape: Shape { tile: None, warp: None, thread: None, fragment: None, along: Along::N },
            staged: Staged {
                shared: Some(default_orders()),
                vector: VectorClause::default(),
                load: Load::Registers,
                pack: PackClause::default(),
                stages: 1,
                pace: Pace::Tile,
            },
            steps: Steps {
                unroll: None,
                order: FmaOrder::Row,
                prefetch: None,
                reads: Reads::Movable,
                operands: Operands::Registers,
            },
            scheduler: Scheduler {
                raster: Raster { group: RASTER_GROUP, along: Along::N },
                persistent: None,
                cluster: Extent2 { m: 1, n: 1 },
                multicast: [false; 2],
                split_k: None,
                stream_k: false,
            },
            sums: SumClauses { emulation: None, promote: None, levels: None },
            roles: RoleClauses { specialize: None, registers: None },
            output: Output { c: None, store: Store::Direct, memory: None, edges: Edges::Predicate },
            limits: Limits { blocks_per_sm: None, spills: Spills::Refuse, expect: Vec::new() },
        };
        // Last to first: of duplicate clauses, which are an error anyway, the first one counts.
        for item in schedule.items.iter().rev().filter(|item| !ignored.contains(item.clause.key())) {
            settings.apply(&item.clause);
        }
        if !settings.atom.by_threads() {
            settings.read_as_matrices();
        }
        settings
    }

    /// The defaults of clauses about operands that tensor cores read from shared memory.
    ///
    /// Operands keep their order in global memory, except that elements of 8 and 32 bits, which no instruction
    /// transposes, are contiguous along k. A warp reads 16 bytes of eight rows at once; a swizzle as wide as a
    /// row, or a pad of 16 bytes, puts them into different banks; for elements of 64 bits, a pad of 32. Warp groups read through descriptors. They need the
    /// widest swizzle that divides the rows (for B, the rows of one instruction), and TMA, so operands that TMA cannot
    /// address are packed first. If one instruction reads whole rows of B and only 32 bytes divide them, the last panel
    /// of a row is partly filled instead: boxes of 32 bytes are slow (docs/performance.md). Warp groups do not wait for
    /// each other.
    fn read_as_matrices(&mut self) {
        let columns = if let Some((_, columns, _)) = self.atom.of_group() { Some(columns) } else { None };
        let groups = columns.is_some();
        let tile = self.shape.tile.unwrap_or(TileClause { m: 0, n: 0, k: None });
        let staged = |dtype: DType, fast, extent: u32| {
            let depth = self.shape.tile.and_then(|tile| tile.k).unwrap_or(0);
            let bytes = u64::from(if fast == Fast::K { depth } else { extent }) * u64::from(dtype.bytes());
            let fits = |span: &u32| match groups {
                true => bytes.is_multiple_of(u64::from(*span)),
                false => bytes == u64::from(*span),
            };
            let partly = groups && fast == Fast::Mn && bytes > WIDEST.into() && columns == Some(tile.n);
            let skew = match [128, 64, 32].into_iter().find(fits) {
                // Half a warp loads 4 elements of each of 4 rows, 32 B: rows at odd multiples of that are in different
                // banks.
                _ if dtype.bytes() == 8 && self.staged.load != Load::Tma => match bytes.is_multiple_of(64) {
                    true => Skew::Pad(4),
                    false => Skew::None,
                },
                Some(32) if partly => Skew::Swizzle(WIDEST),
                Some(span) => Skew::Swizzle(span),
                None if groups || self.staged.load == Load::Tma => Skew::None,
                None => Skew::Pad(MAX_ACCESS_BYTES / dtype.bytes()),
            };
            StagedOrder { fast, skew }
        };
        let fast = |side| match self.reads_any_order(side) {
            true => self.problem.layouts.fast(side),
            false => Fast::K,
        };
        let a = staged(self.factor(Side::A), fast(Side::A), tile.m);
        let b = staged(self.factor(Side::B), fast(Side::B), columns.unwrap_or(tile.n));
        let given = match self.get(Key::Shared) {
            Some(Clause::Shared(SharedClause::Orders { a, b })) => (*a, *b),
            Some(_) => return,
            None => (None, None),
        };
        self.staged.shared = Some((given.0.unwrap_or(a), given.1.unwrap_or(b)));
        if self.sums.emulation.is_some() {
            // Planes are copies.
            self.staged.pack = PackClause { a: true, b: true };
        }
        if !groups {
            return;
        }
        self.staged.pack = PackClause { a: true, b: true };
        if self.get(Key::Pace).is_none() {
            self.staged.pace = Pace::Free;
        }
    }

    /// An upper bound for the width of every access, in elements. Threads of tensor-core schedules load no fragments,
    /// so only the instructions bound theirs.
    pub fn width_bound(&self) -> u32 {
        let default = if self.atom.by_threads() { 1 } else { MAX_ACCESS_BYTES };
        self.staged.vector.all.unwrap_or(default)
    }

    fn apply(&mut self, clause: &Clause) {
        match clause {
            Clause::Target(target) => self.target = Some(*target),
            Clause::Tile(tile) => self.shape.tile = Some(*tile),
            Clause::Warp(warp) => self.shape.warp = Some(*warp),
            Clause::Thread(thread) => self.shape.thread = Some(*thread),
            Clause::Fragment(fragment) => self.shape.fragment = Some(*fragment),
            Clause::Lanes(along) => self.shape.along = *along,
            Clause::Atom(atom) => self.atom = *atom,
            Clause::Vector(vector) => self.staged.vector = *vector,
            Clause::Shared(SharedClause::None) => self.staged.shared = None,
            Clause::Shared(SharedClause::Orders { a, b }) => {
                let (default_a, default_b) = default_orders();
                self.staged.shared = Some((a.unwrap_or(default_a), b.unwrap_or(default_b)));
            }
            Clause::Operands(operands) => self.steps.operands = *operands,
            Clause::Load(load) => (self.staged.load, self.output.c) = (load.way, load.c),
            Clause::Pack(pack) => self.staged.pack = *pack,
            Clause::Stages(n) => self.staged.stages = *n,
            Clause::DoubleBuffer => self.staged.stages = 2,
            Clause::Unroll(n) => self.steps.unroll = Some(*n),
            Clause::Order(order) => self.steps.order = *order,
            Clause::Prefetch(PrefetchClause { steps, reads }) => {
                self.steps.prefetch = Some(*steps);
                self.steps.reads = reads.unwrap_or(Reads::Movable);
            }
            Clause::Pace(pace) => self.staged.pace = *pace,
            Clause::BlocksPerSm(n) => self.limits.blocks_per_sm = Some(*n),
            Clause::Spills(spills) => self.limits.spills = *spills,
            Clause::Raster(raster) => {
                let along = raster.along.unwrap_or(Along::N);
                self.scheduler.raster = Raster { group: raster.group.unwrap_or(RASTER_GROUP), along };
            }
            Clause::Persistent(blocks) => self.scheduler.persistent = Some(blocks.map_or(Wave::Device, Wave::Blocks)),
            Clause::SplitK(SplitKClause { parts, reduce }) => {
                self.scheduler.split_k = Some(SplitK { parts: *parts, reduce: reduce.unwrap_or(Reduce::Serial) });
            }
            Clause::StreamK => self.scheduler.stream_k = true,
            Clause::Emulate(emulation) => self.sums.emulation = Some(*emulation),
            Clause::Strassen(levels) => self.sums.levels = Some(*levels),
            Clause::Promote(promote) => self.sums.promote = Some(*promote),
            Clause::Cluster(extent) => self.scheduler.cluster = *extent,
            Clause::Multicast(clause) => {
                self.scheduler.multicast = [clause.a, clause.b].map(|fetch| fetch == Fetch::Multicast)
            }
            Clause::Store(store) => (self.output.store, self.output.memory) = (store.way, store.memory),
            Clause::Specialize(specialize) => self.roles.specialize = Some(*specialize),
            Clause::Registers(registers) => self.roles.registers = Some((registers.producer, registers.consumer)),
            Clause::Tail(edges) => self.output.edges = *edges,
            Clause::Expect(list) => self.limits.expect = list.clone(),
            // Part of the problem, or not yet used by a rule.
            _ => {}
        }
    }

    /// The type of an operand's multiplied elements; with `emulate`, the type of its planes.
    pub fn factor(&self, side: Side) -> DType {
        self.sums.emulation.map_or(self.problem.types.of(side.operand()), Emulation::factor)
    }

    /// Whether the instruction reads tiles of an operand in either order, not along k alone.
    pub fn reads_any_order(&self, side: Side) -> bool {
        let unit = self.atom.tensor().map(|(unit, _)| unit);
        unit.is_none_or(|unit| Multiply::of(unit, self.factor(side)).all(Multiply::reads_any_order))
    }

    /// Sets of accumulators.
    pub fn sums(&self) -> u32 {
        match self.promotion() {
            None => 1,
            Some(Promotion { compensated: true, .. }) => 3,
            Some(_) => 2,
        }
    }

    /// How sums of tensor cores are promoted: as `promote` says, and by default those of planes and of instructions with coarse
    /// sums. Sums of other types than f32 are not.
    pub fn promotion(&self) -> Option<Promotion> {
        let (unit, _) = self.atom.tensor()?;
        let factor = self.factor(Side::A);
        let coarse = Multiply::of(unit, factor).any(|row| row.coarse);
        let floats = !self.problem.types.acc.is_integer() && self.problem.types.acc.element().bits == 32;
        let written = self.sums.promote.filter(|_| floats);
        let by_default = (self.sums.emulation.is_some() || coarse) && floats;
        let every = match written {
            Some(clause) => clause.every?,
            None => by_default.then_some(PROMOTE)?,
        };
        let rounding = written.and_then(|clause| clause.rounding);
        Some(Promotion { every, compensated: rounding == Some(Rounding::Compensated) })
    }

    /// Producer warps.
    pub fn producer_warps(&self) -> u32 {
        self.roles.specialize.map_or(0, |specialize| specialize.producers.warps())
    }

    /// Whether the staged tile of D reuses slots of the ring that producers fill.
    pub fn lends(&self) -> bool {
        self.output.store != Store::Direct
            && self.output.memory == Some(StageMemory::Ring)
            && self.roles.specialize.is_some()
    }

    /// Whether TMA copies C to shared memory.
    pub fn loads_c(&self) -> bool {
        self.output.c == Some(LoadC::Tma)
    }

    /// Warp groups that compute whole tiles in turn: the consumers of a ping-pong schedule; 1 if all consumers share a
    /// tile.
    pub fn turns(&self) -> u32 {
        let pingpong = |clause: &SpecializeClause| clause.roles == Some(Roles::Pingpong);
        match (self.roles.specialize.filter(pingpong), self.atom.of_group()) {
            // A count that is not whole groups is reported separately.
            (Some(clause), Some(_)) => match clause.consumers.map_or(8, WarpCount::warps) {
                warps if warps > 0 && warps.is_multiple_of(4) => warps / 4,
                _ => 2,
            },
            _ => 1,
        }
    }

    /// Whether blocks are persistent, by `persistent` or by a clause that implies it.
    pub fn is_persistent(&self) -> bool {
        self.scheduler.persistent.is_some() || self.implies_wave()
    }

    /// Whether blocks are persistent without `persistent`.
    pub fn implies_wave(&self) -> bool {
        self.scheduler.stream_k || self.problem.batch == Batch::Grouped
    }

    /// Consumer threads of the block.
    pub fn consumer_threads(&self, geometry: &Geometry) -> u32 {
        geometry.threads.saturating_mul(self.turns())
    }

    /// Threads of the block.
    pub fn threads(&self, geometry: &Geometry) -> u32 {
        geometry.with_others(self.turns(), self.producer_warps())
    }

    /// Threads that copy K-tiles.
    pub fn copying_threads(&self, geometry: &Geometry) -> u32 {
        geometry.copying(self.producer_warps())
    }

    /// Planes of an operand in a slot: all of them if one promotion covers exactly one K-tile, so that each plane is
    /// copied once for all its products. Only `wgmma`, which reads shared memory itself, can switch planes within a
    /// slot.
    pub fn planes_in_slot(&self, depth: u32) -> u32 {
        let direct = self.staged.load == Load::Tma && self.atom.of_group().is_some();
        let whole = self.promotion().is_some_and(|promotion| promotion.every == depth);
        self.sums.emulation.filter(|_| direct && whole).map_or(1, Emulation::planes)
    }

    /// Whether the slots of the ring are signalled by mbarriers.
    pub fn mbarriers(&self) -> bool {
        self.staged.pace == Pace::Free || self.roles.specialize.is_some() || self.staged.load == Load::Tma
    }

    /// The number of blocks that share the loads of an operand: along n for A, along m for B.
    pub fn sharers(&self, side: Side) -> u32 {
        match (side, self.scheduler.multicast) {
            (Side::A, [true, _]) => self.scheduler.cluster.n,
            (Side::B, [_, true]) => self.scheduler.cluster.m,
            _ => 1,
        }
    }

    /// The clause that settles `key`.
    pub fn get(&self, key: Key) -> Option<&'s Clause> {
        self.schedule.get(key).filter(|_| !self.ignored.contains(key))
    }

    /// The clause that settles `key` as text, or the text of its default.
    pub fn text(&self, key: Key, default: &str) -> String {
        self.get(key).map_or_else(|| default.into(), Clause::to_string)
    }
}

/// The default number of rows of tiles in a band. The 132 to 264 blocks that an H200 holds at once then form a square
/// instead of a few long rows, and read less of A and B (`shared_32` at 4096: 9.3 instead of 8.8 TFLOP/s).
const RASTER_GROUP: u32 = 16;

/// The span of the widest swizzle, in bytes.
const WIDEST: u32 = 128;

/// The default number of elements of k between two promotions. Fewer make the sums hardly more precise; more lose the
/// bits that tensor cores truncate at each addition.
const PROMOTE: u32 = 128;

fn default_orders() -> (StagedOrder, StagedOrder) {
    (StagedOrder { fast: Fast::K, skew: Skew::None }, StagedOrder { fast: Fast::Mn, skew: Skew::None })
}

/// The problem that a schedule's kernels compute for the requested problem `asked`.
pub(super) fn computed(schedule: &Schedule, asked: Problem) -> Problem {
    if schedule.get(Key::Transposed).is_some() { asked.transposed() } else { asked }
}

/// Types, layouts, epilogue and batch of a schedule, defaults included.
pub(super) fn problem(schedule: &Schedule) -> Problem {
    let written = match schedule.get(Key::Types) {
        Some(Clause::Types(types)) => *types,
        _ => TypesClause::default(),
    };
    let layouts = match schedule.get(Key::Layout) {
        Some(Clause::Layout(layouts)) => *layouts,
        _ => LayoutClause::default(),
    };
    let d = layouts.d.unwrap_or(Layout::Row);
    let layouts = Layouts {
        a: layouts.a.unwrap_or(Layout::Row),
        b: layouts.b.unwrap_or(Layout::Row),
        c: layouts.c.unwrap_or(d),
        d,
    };
    let epilogue = match schedule.get(Key::Epilogue) {
        Some(Clause::Epilogue(epilogue)) => epilogue.clone(),
        _ => Epilogue::identity(),
    };
    let batch = match schedule.get(Key::Batch) {
        Some(Clause::Batch(BatchKind::Strided)) => Batch::Strided,
        Some(Clause::Batch(BatchKind::Grouped)) => Batch::Grouped,
        _ => Batch::One,
    };
    Problem { orientation: Orientation::AsAsked, types: types(written), layouts, epilogue, batch }
}

fn types(written: TypesClause) -> Types {
    let all = written.all.unwrap_or_default();
    let (a, b, d) = (written.a.unwrap_or(all), written.b.unwrap_or(all), written.d.unwrap_or(all));
    Types { a, b, acc: written.acc.unwrap_or(a.sums_with(b)), c: written.c.unwrap_or(d), d }
}
