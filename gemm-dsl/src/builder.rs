//! The builder: one method per clause. No method fails; checking the schedule reports the errors.

use crate::clause::{
    Atom, BatchKind, Clause, Emulation, Expectation, Fetch, LayoutClause, LoadClause, Metric, MulticastClause,
    PackClause, PrefetchClause, PromoteClause, RasterClause, RegistersClause, Relation, ShapeClause, SharedClause,
    SpecializeClause, Spills, SplitKClause, StagedOrder, StoreClause, TileClause, TypesClause, VectorClause, WarpCount,
};
use crate::diagnostic::Diagnostic;
use crate::figure::Figure;
use crate::grammar::Item;
use crate::schedule::Schedule;
use crate::target::Target;
use crate::terms::{
    Along, Edges, Extent2, FmaOrder, Load, LoadC, Operands, Pace, Reads, Reduce, Rounding, StageMemory, Store,
};
use crate::types::{DType, Layouts};

impl Schedule {
    /// Adds a clause as data. An empty clause, such as a [`Clause::Types`] without a type, is left out.
    pub fn clause(mut self, clause: Clause) -> Schedule {
        if !clause.says_nothing() {
            self.items.push(Item { clause, span: None });
        }
        self
    }

    /// Adds clauses written as text; [`Schedule::check`] reports their errors.
    pub fn text(mut self, clauses: &str) -> Schedule {
        let parsed = Schedule::read(clauses);
        self.items.extend(parsed.items.into_iter().map(|item| Item { span: None, ..item }));
        self.errors.extend(parsed.errors.into_iter().map(|error| Diagnostic { span: None, ..error }));
        self.unknown = self.unknown.union(parsed.unknown);
        self
    }

    /// `types(T)`: the elements of A, B and D.
    pub fn types(self, all: DType) -> Schedule {
        self.clause(Clause::Types(TypesClause { all: Some(all), ..TypesClause::default() }))
    }

    /// `types(a = .., b = .., acc = .., c = .., d = ..)`; an absent type takes its default.
    pub fn types_of(self, types: TypesClause) -> Schedule {
        self.clause(Clause::Types(types))
    }

    /// `layout(a = .., b = .., c = .., d = ..)`.
    pub fn layout(self, layouts: Layouts) -> Schedule {
        let Layouts { a, b, c, d } = layouts;
        self.clause(Clause::Layout(LayoutClause { a: Some(a), b: Some(b), c: Some(c), d: Some(d) }))
    }

    /// `layout(..)`; an absent layout takes its default.
    pub fn layout_of(self, layout: LayoutClause) -> Schedule {
        self.clause(Clause::Layout(layout))
    }

    /// `shape(m, n, k)`: the product that open values are chosen for.
    pub fn shape(self, m: u32, n: u32, k: u32) -> Schedule {
        self.clause(Clause::Shape(ShapeClause { m, n, k, batch: None }))
    }

    /// `gpu(NAME)`: the GPU that open values are chosen for.
    pub fn gpu(self, name: &str) -> Schedule {
        self.clause(Clause::Gpu(name.into()))
    }

    /// `epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)`, as text.
    pub fn epilogue(self, closure: &str) -> Schedule {
        self.text(&format!("epilogue({closure})"))
    }

    /// `batch(strided | grouped)`
    pub fn batch(self, kind: BatchKind) -> Schedule {
        self.clause(Clause::Batch(kind))
    }

    /// `target(sm_90a)`
    pub fn target(self, target: Target) -> Schedule {
        self.clause(Clause::Target(target))
    }

    /// `tile(m, n, k)`
    pub fn tile(self, m: u32, n: u32, k: u32) -> Schedule {
        self.clause(Clause::Tile(TileClause { m, n, k: Some(k) }))
    }

    /// `tile(m, n)`, with [`Schedule::shared_none`].
    pub fn tile_direct(self, m: u32, n: u32) -> Schedule {
        self.clause(Clause::Tile(TileClause { m, n, k: None }))
    }

    /// `warp(m, n)`
    pub fn warp(self, m: u32, n: u32) -> Schedule {
        self.clause(Clause::Warp(TileClause { m, n, k: None }))
    }

    /// `warp(m, n, k)`
    pub fn warp_deep(self, m: u32, n: u32, k: u32) -> Schedule {
        self.clause(Clause::Warp(TileClause { m, n, k: Some(k) }))
    }

    /// `thread(m, n)`
    pub fn thread(self, m: u32, n: u32) -> Schedule {
        self.clause(Clause::Thread(Extent2 { m, n }))
    }

    /// `fragment(m, n)`
    pub fn fragment(self, m: u32, n: u32) -> Schedule {
        self.clause(Clause::Fragment(Extent2 { m, n }))
    }

    /// `lanes(along = n | m | z)`
    pub fn lanes(self, along: Along) -> Schedule {
        self.clause(Clause::Lanes(along))
    }

    /// `atom(fma | mma(m, n, k) | wgmma(m, n, k))`
    pub fn atom(self, atom: Atom) -> Schedule {
        self.clause(Clause::Atom(atom))
    }

    /// `vector(n)`
    pub fn vector(self, width: u32) -> Schedule {
        self.clause(Clause::Vector(VectorClause { all: Some(width), ..VectorClause::default() }))
    }

    /// `vector(n, a = .., b = .., c = .., d = ..)`
    pub fn vector_of(self, widths: VectorClause) -> Schedule {
        self.clause(Clause::Vector(widths))
    }

    /// `shared(none)`
    pub fn shared_none(self) -> Schedule {
        self.clause(Clause::Shared(SharedClause::None))
    }

    /// `shared(a = .., b = ..)`; an absent order takes its default.
    pub fn shared(self, a: Option<StagedOrder>, b: Option<StagedOrder>) -> Schedule {
        self.clause(Clause::Shared(SharedClause::Orders { a, b }))
    }

    /// `operands(registers | shared)`
    pub fn operands(self, operands: Operands) -> Schedule {
        self.clause(Clause::Operands(operands))
    }

    /// `load(registers | cp_async | tma)`
    pub fn load(self, load: Load) -> Schedule {
        self.clause(Clause::Load(LoadClause { way: load, c: None }))
    }

    /// `load(tma, c = registers | tma)`
    pub fn load_with_c(self, load: Load, c: LoadC) -> Schedule {
        self.clause(Clause::Load(LoadClause { way: load, c: Some(c) }))
    }

    /// `pack(a, b)`
    pub fn pack(self, a: bool, b: bool) -> Schedule {
        self.clause(Clause::Pack(PackClause { a, b }))
    }

    /// `stages(n)`
    pub fn stages(self, n: u32) -> Schedule {
        self.clause(Clause::Stages(n))
    }

    /// `double_buffer`
    pub fn double_buffer(self) -> Schedule {
        self.clause(Clause::DoubleBuffer)
    }

    /// `unroll(n)`
    pub fn unroll(self, n: u32) -> Schedule {
        self.clause(Clause::Unroll(n))
    }

    /// `order(row | snake | column | column_snake | diagonal | blocks)`
    pub fn order(self, order: FmaOrder) -> Schedule {
        self.clause(Clause::Order(order))
    }

    /// `prefetch(n)`
    pub fn prefetch(self, n: u32) -> Schedule {
        self.clause(Clause::Prefetch(PrefetchClause { steps: n, reads: None }))
    }

    /// `prefetch(n, movable | volatile)`
    pub fn prefetch_of(self, n: u32, reads: Reads) -> Schedule {
        self.clause(Clause::Prefetch(PrefetchClause { steps: n, reads: Some(reads) }))
    }

    /// `pace(tile | free)`
    pub fn pace(self, pace: Pace) -> Schedule {
        self.clause(Clause::Pace(pace))
    }

    /// `blocks_per_sm(n)`
    pub fn blocks_per_sm(self, n: u32) -> Schedule {
        self.clause(Clause::BlocksPerSm(n))
    }

    /// `spills(allow)`
    pub fn spills(self, spills: Spills) -> Schedule {
        self.clause(Clause::Spills(spills))
    }

    /// `raster(group = n, along = n | m)`
    pub fn raster(self, group: u32, along: Along) -> Schedule {
        self.clause(Clause::Raster(RasterClause { group: Some(group), along: Some(along) }))
    }

    /// `persistent`, or `persistent(n)`
    pub fn persistent(self, blocks: Option<u32>) -> Schedule {
        self.clause(Clause::Persistent(blocks))
    }

    /// `split_k(n, reduce = serial | workspace | cluster)`
    pub fn split_k(self, parts: u32, reduce: Reduce) -> Schedule {
        self.clause(Clause::SplitK(SplitKClause { parts, reduce: Some(reduce) }))
    }

    /// `transposed`
    pub fn transposed(self) -> Schedule {
        self.clause(Clause::Transposed)
    }

    /// `stream_k`
    pub fn stream_k(self) -> Schedule {
        self.clause(Clause::StreamK)
    }

    /// `cluster(m, n)`
    pub fn cluster(self, m: u32, n: u32) -> Schedule {
        self.clause(Clause::Cluster(Extent2 { m, n }))
    }

    /// `multicast(a, b)`
    pub fn multicast(self, a: Fetch, b: Fetch) -> Schedule {
        self.clause(Clause::Multicast(MulticastClause { a, b }))
    }

    /// `specialize(producers = ..)`: every other warp of the block multiplies.
    pub fn specialize(self, producers: WarpCount) -> Schedule {
        self.specialize_of(SpecializeClause { producers, consumers: None, roles: None })
    }

    /// `specialize(producers = .., consumers = .., cooperative | pingpong)`; absent parts take their defaults.
    pub fn specialize_of(self, roles: SpecializeClause) -> Schedule {
        self.clause(Clause::Specialize(roles))
    }

    /// `registers(producer = n, consumer = n)`
    pub fn registers(self, producer: u32, consumer: u32) -> Schedule {
        self.clause(Clause::Registers(RegistersClause { producer, consumer }))
    }

    /// `store(direct | staged | tma)`
    pub fn store(self, store: Store) -> Schedule {
        self.clause(Clause::Store(StoreClause { way: store, memory: None }))
    }

    /// `store(staged | tma, memory = own | ring)`
    pub fn store_in(self, store: Store, memory: StageMemory) -> Schedule {
        self.clause(Clause::Store(StoreClause { way: store, memory: Some(memory) }))
    }

    /// `promote(every = n)`
    pub fn promote(self, every: u32) -> Schedule {
        self.clause(Clause::Promote(PromoteClause { every: Some(every), rounding: None }))
    }

    /// `promote(every = n, plain | compensated)`
    pub fn promote_by(self, every: u32, rounding: Rounding) -> Schedule {
        self.clause(Clause::Promote(PromoteClause { every: Some(every), rounding: Some(rounding) }))
    }

    /// `promote(none)`
    pub fn promote_nothing(self) -> Schedule {
        self.clause(Clause::Promote(PromoteClause { every: None, rounding: None }))
    }

    /// `emulate(bf16x3 | bf16x6 | bf16x9 | f16x3)`
    pub fn emulate(self, emulation: Emulation) -> Schedule {
        self.clause(Clause::Emulate(emulation))
    }

    /// `strassen(levels = 1 | 2)`
    pub fn strassen(self, levels: u32) -> Schedule {
        self.clause(Clause::Strassen(levels))
    }

    /// `tail(predicate | even | none)`
    pub fn tail(self, tail: Edges) -> Schedule {
        self.clause(Clause::Tail(tail))
    }

    /// One contract of `expect { .. }`; calls accumulate. A limit is an integer or, for averages, a fraction.
    pub fn expect(mut self, metric: Metric, relation: Relation, limit: impl Into<Figure>) -> Schedule {
        let contract = Expectation { metric, relation, limit: limit.into() };
        for item in &mut self.items {
            if let Clause::Expect(list) = &mut item.clause {
                list.push(contract);
                return self;
            }
        }
        self.clause(Clause::Expect(vec![contract]))
    }
}
