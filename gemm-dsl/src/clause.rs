//! The clauses as data: exactly as written, before any default.

use serde::Serialize;

use crate::epilogue::Epilogue;
use crate::figure::Figure;
use crate::target::Target;
use crate::terms::{
    Along, Edges, Extent2, Fast, FmaOrder, Load, LoadC, Operands, Pace, Reads, Reduce, Rounding, StageMemory, Store,
};
use crate::types::{DType, Layout};

/// The arguments of `shape`: the extents of a product, and the number of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeClause {
    /// Rows of A and D.
    pub m: u32,
    /// Columns of B and D.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// Products; 1 if it is absent.
    pub batch: Option<u32>,
}

/// One clause of a schedule.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Clause {
    /// `types(f32)`, `types(a = f16, d = f32)`
    Types(TypesClause),
    /// `layout(a = row, b = col)`
    Layout(LayoutClause),
    /// `epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)`
    Epilogue(Epilogue),
    /// `batch(strided)`
    Batch(BatchKind),
    /// `target(sm_90a)`
    Target(Target),
    /// `transposed`
    Transposed,
    /// `tile(m, n, k)`, `tile(m, n)`
    Tile(TileClause),
    /// `warp(m, n)`, `warp(m, n, k)`
    Warp(TileClause),
    /// `thread(m, n)`
    Thread(Extent2),
    /// `fragment(m, n)`
    Fragment(Extent2),
    /// `lanes(along = n)`
    Lanes(Along),
    /// `atom(fma)`
    Atom(Atom),
    /// `vector(4)`, `vector(a = 4, d = 4)`
    Vector(VectorClause),
    /// `shared(none)`, `shared(a = km + pad(4))`
    Shared(SharedClause),
    /// `operands(registers)`
    Operands(Operands),
    /// `load(cp_async)`
    Load(LoadClause),
    /// `pack(a)`, `pack(a, b)`
    Pack(PackClause),
    /// `stages(3)`
    Stages(u32),
    /// `double_buffer`
    DoubleBuffer,
    /// `unroll(4)`
    Unroll(u32),
    /// `order(snake)`
    Order(FmaOrder),
    /// `prefetch(2)`, `prefetch(1, volatile)`
    Prefetch(PrefetchClause),
    /// `pace(tile)`
    Pace(Pace),
    /// `blocks_per_sm(2)`
    BlocksPerSm(u32),
    /// `spills(allow)`
    Spills(Spills),
    /// `raster(group = 8, along = n)`
    Raster(RasterClause),
    /// `persistent`, `persistent(132)`
    Persistent(Option<u32>),
    /// `split_k(4, reduce = serial)`
    SplitK(SplitKClause),
    /// `stream_k`
    StreamK,
    /// `cluster(2, 1)`
    Cluster(Extent2),
    /// `multicast(a, b)`
    Multicast(MulticastClause),
    /// `specialize(producers = 1 warp)`, `specialize(producers = 1 warp, consumers = 2, cooperative)`
    Specialize(SpecializeClause),
    /// `registers(producer = 40, consumer = 232)`
    Registers(RegistersClause),
    /// `store(tma, memory = ring)`
    Store(StoreClause),
    /// `promote(every = 128)`
    Promote(PromoteClause),
    /// `emulate(bf16x6)`
    Emulate(Emulation),
    /// `strassen(levels = 1)`
    Strassen(u32),
    /// `tail(predicate)`
    Tail(Edges),
    /// `expect { spills = 0; shared <= 48 KiB }`
    Expect(Vec<Expectation>),
    /// `shape(4096, 4096, 4096)`
    Shape(ShapeClause),
    /// `gpu(H200)`
    Gpu(String),
}

impl Clause {
    /// True for a clause that leaves everything to its defaults: text cannot express it, and nobody needs it.
    pub(crate) fn says_nothing(&self) -> bool {
        match self {
            Clause::Types(types) => *types == TypesClause::default(),
            Clause::Layout(layout) => *layout == LayoutClause::default(),
            Clause::Vector(vector) => *vector == VectorClause::default(),
            Clause::Raster(raster) => *raster == RasterClause::default(),
            Clause::Shared(shared) => *shared == SharedClause::Orders { a: None, b: None },
            Clause::Pack(pack) => *pack == PackClause::default(),
            Clause::Multicast(multicast) => (multicast.a, multicast.b) == (Fetch::Own, Fetch::Own),
            Clause::Expect(list) => list.is_empty(),
            _ => false,
        }
    }
}

/// Element types as written; the default of an absent type depends on the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TypesClause {
    /// `types(T)`: the type of A, B and D.
    pub all: Option<DType>,
    /// Elements of A.
    pub a: Option<DType>,
    /// Elements of B.
    pub b: Option<DType>,
    /// The accumulator.
    pub acc: Option<DType>,
    /// Elements of C.
    pub c: Option<DType>,
    /// Elements of D.
    pub d: Option<DType>,
}

/// Layouts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LayoutClause {
    /// Layout of A.
    pub a: Option<Layout>,
    /// Layout of B.
    pub b: Option<Layout>,
    /// Layout of C.
    pub c: Option<Layout>,
    /// Layout of D.
    pub d: Option<Layout>,
}

/// Many products in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// Equal shapes at equal distances.
    Strided,
    /// Each product has its own shape and pointers.
    Grouped,
}

/// A tile with or without a depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileClause {
    /// Rows of D.
    pub m: u32,
    /// Columns of D.
    pub n: u32,
    /// Depth of K.
    pub k: Option<u32>,
}

/// The multiply instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Atom {
    #[default]
    /// One scalar fused multiply-add.
    Fma,
    /// A warp's `mma.sync` of m x n x k.
    Mma(u32, u32, u32),
    /// A warp group's `wgmma` of m x n x k.
    Wgmma(u32, u32, u32),
}

/// Access widths as written, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VectorClause {
    /// The upper bound for every access.
    pub all: Option<u32>,
    /// The demanded width of global accesses to A.
    pub a: Option<u32>,
    /// The same for B.
    pub b: Option<u32>,
    /// The same for C.
    pub c: Option<u32>,
    /// The same for D.
    pub d: Option<u32>,
}

impl VectorClause {
    /// The same clause, demanding `width` for the matrix called `name`.
    pub(crate) fn with(self, name: &str, width: u32) -> VectorClause {
        match name {
            "a" => VectorClause { a: Some(width), ..self },
            "b" => VectorClause { b: Some(width), ..self },
            "c" => VectorClause { c: Some(width), ..self },
            _ => VectorClause { d: Some(width), ..self },
        }
    }
}

/// Staging in shared memory as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedClause {
    /// Operands are read straight from global memory.
    None,
    /// The order of each operand's staged tile.
    Orders {
        /// For A: `mk` or `km`.
        a: Option<StagedOrder>,
        /// For B: `kn` or `nk`.
        b: Option<StagedOrder>,
    },
}

/// The order of one staged tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StagedOrder {
    /// The contiguous dimension.
    pub fast: Fast,
    /// How its rows avoid bank conflicts.
    pub skew: Skew,
}

/// How the rows of a staged tile are shifted relative to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skew {
    /// Nothing.
    None,
    /// Unused elements after each row.
    Pad(u32),
    /// An XOR on the address, by its span in bytes.
    Swizzle(u32),
}

/// The policy for a kernel that needs too many registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spills {
    /// Compile anyhow.
    Allow,
    /// Refuse the schedule.
    Refuse,
}

/// The prefetching of fragments, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefetchClause {
    /// The prefetch distance, in steps of k.
    pub steps: u32,
    /// Whether the assembler may move the reads; by default it may.
    pub reads: Option<Reads>,
}

/// The promotion of sums, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PromoteClause {
    /// Elements of k between two promotions; `None`: sums are not promoted.
    pub every: Option<u32>,
    /// The treatment of rounding errors; by default they are lost.
    pub rounding: Option<Rounding>,
}

/// How tiles are loaded as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadClause {
    /// How K-tiles of A and B are loaded.
    pub way: Load,
    /// How C is loaded; by default through registers.
    pub c: Option<LoadC>,
}

/// How D is stored as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreClause {
    /// How D is stored.
    pub way: Store,
    /// The memory of the staged tile of D: by default the ring, or with `specialize` its own.
    pub memory: Option<StageMemory>,
}

/// The rasterisation of the tiles as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RasterClause {
    /// Tiles in a band.
    pub group: Option<u32>,
    /// The dimension along which a band runs: n or m.
    pub along: Option<Along>,
}

/// Split-K: K divided among blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitKClause {
    /// Parts.
    pub parts: u32,
    /// How they are summed.
    pub reduce: Option<Reduce>,
}

/// The operands to copy into the workspace first, unless they can be loaded directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PackClause {
    /// A.
    pub a: bool,
    /// B.
    pub b: bool,
}

/// The operands that one load multicasts to several blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MulticastClause {
    /// A.
    pub a: Fetch,
    /// B.
    pub b: Fetch,
}

/// Whether the blocks of a cluster share the loads of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fetch {
    /// Each block loads its own.
    Own,
    /// One load for all.
    Multicast,
}

/// Warp specialization as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpecializeClause {
    /// The warps that copy.
    pub producers: WarpCount,
    /// The warps that multiply; `None` with `atom(fma)`: the warps that `tile` and `thread` make.
    pub consumers: Option<WarpCount>,
    /// How consumers share the work.
    pub roles: Option<Roles>,
}

/// A number of warps or warp groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WarpCount {
    /// Warps of 32 threads.
    Warps(u32),
    /// Warp groups of 128 threads.
    Groups(u32),
}

impl WarpCount {
    /// The number of warps.
    pub fn warps(self) -> u32 {
        match self {
            WarpCount::Warps(n) => n,
            WarpCount::Groups(n) => n.saturating_mul(4),
        }
    }
}

/// How consumers share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Roles {
    /// Parts of the same tile.
    Cooperative,
    /// Whole tiles in turn.
    Pingpong,
}

/// Register budgets of roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegistersClause {
    /// Per producer thread.
    pub producer: u32,
    /// Per consumer thread.
    pub consumer: u32,
}

/// f32 products from narrower ones: each operand is a sum of 16-bit planes, largest first, and the products of planes
/// are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Emulation {
    /// Three bf16 products.
    Bf16x3,
    /// Six bf16 products.
    Bf16x6,
    /// Nine bf16 products: all products of three planes.
    Bf16x9,
    /// Three f16 products.
    F16x3,
}

impl Emulation {
    /// The type of the elements that are divided into planes, and of their sums.
    pub const OF: DType = DType::F32;

    /// The type of the planes.
    pub fn factor(self) -> DType {
        match self {
            Emulation::Bf16x3 | Emulation::Bf16x6 | Emulation::Bf16x9 => DType::Bf16,
            Emulation::F16x3 => DType::F16,
        }
    }

    /// Whether the planes hold rows of A and columns of B scaled by powers of two: f16 has a small exponent range.
    pub fn scales(self) -> bool {
        self.factor().is_scaled()
    }

    /// Planes of each operand in memory. With nine products the last plane is stored twice, see [`pairs`].
    pub fn planes(self) -> u32 {
        match self {
            Emulation::Bf16x3 | Emulation::F16x3 => 2,
            Emulation::Bf16x6 => 3,
            Emulation::Bf16x9 => ALL_PRODUCTS,
        }
    }

    /// The pairs of planes of A and B to multiply, smallest products first.
    pub fn pairs(self) -> Vec<(u32, u32)> {
        pairs(self.planes())
    }
}

/// Planes in memory if all nine products are added.
pub const ALL_PRODUCTS: u32 = 4;

/// The magnitude of a plane relative to the first, as a power of the planes' unit roundoff.
pub fn size(plane: u32) -> u32 {
    // The fourth plane repeats the third.
    plane.min(2)
}

/// The pairs of planes of A and B to multiply, smallest products first, for `planes` planes in memory. The sizes of a
/// pair add up to less than the number of planes; [`ALL_PRODUCTS`] planes make all nine products of three.
///
/// Infinity is stored in the last of two or three planes. Only first planes multiply it, since infinity times the zeros
/// of other planes would be NaN. If the last plane takes part in more products, a fourth plane repeats the third
/// without infinity and NaN, for products with planes other than the first.
pub fn pairs(planes: u32) -> Vec<(u32, u32)> {
    let distinct = planes.min(3);
    let of_sum = |sum: u32| (0..distinct).rev().filter_map(move |a| Some((a, sum.checked_sub(a)?)));
    let small = if planes == ALL_PRODUCTS { vec![(3, 3), (3, 1), (1, 3)] } else { Vec::new() };
    small.into_iter().chain((0..distinct).rev().flat_map(of_sum)).collect()
}

/// One contract of `expect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expectation {
    /// The figure.
    pub metric: Metric,
    /// The comparison.
    pub relation: Relation,
    /// The limit, in the figure's own unit.
    pub limit: Figure,
}

/// A figure that `expect` can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Bytes of registers that a thread keeps in memory: known once the PTX is assembled.
    Spills,
    /// Registers per thread: known once the PTX is assembled.
    Registers,
    /// Bytes of machine code of an entry: known once the PTX is assembled.
    CodeBytes,
    /// Bank-conflict passes: extra passes over the banks of shared memory in the sample product of [`Plan::sample`].
    ///
    /// [`Plan::sample`]: crate::plan::Plan::sample
    BankConflicts,
    /// 32-byte sectors of global memory per warp load of A or B, on average over the same product.
    SectorsPerLoad,
    /// Shared and global loads per multiply-add in the mainloop, both counted as warp instructions.
    LoadsPerFma,
    /// Blocks per multiprocessor that the kernel is compiled for.
    Occupancy,
    /// The same as a percentage of the warps that a multiprocessor can hold: `occupancy >= 50 %`.
    OccupancyPercent,
    /// Bytes of shared memory per block.
    Shared,
    /// Threads per block.
    Threads,
    /// Largest `|D - A B|` of an element relative to its `|A| |B|`, for random A and B: known once a device has
    /// multiplied them.
    MaxError,
}

/// The stage that knows a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Knower {
    /// The plan.
    Plan,
    /// The assembler that turns PTX into machine code: ptxas, or the driver of a GPU.
    Assembler,
    /// A device that runs the kernel.
    Device,
}

impl Metric {
    /// The first stage that knows it.
    pub fn knower(self) -> Knower {
        match self {
            Metric::Spills | Metric::Registers | Metric::CodeBytes => Knower::Assembler,
            Metric::MaxError => Knower::Device,
            _ => Knower::Plan,
        }
    }

    /// Whether it counts bytes.
    pub fn is_bytes(self) -> bool {
        matches!(self, Metric::Spills | Metric::Shared | Metric::CodeBytes)
    }

    /// Whether it may be a fraction.
    pub fn is_fraction(self) -> bool {
        let averages = matches!(self, Metric::SectorsPerLoad | Metric::LoadsPerFma | Metric::OccupancyPercent);
        averages || self == Metric::MaxError
    }

    /// The unit printed after the figure.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::OccupancyPercent => " %",
            metric if metric.is_bytes() => " B",
            _ => "",
        }
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// `=`
    Equal,
    /// `<=`
    AtMost,
    /// `<`
    Below,
    /// `>=`
    AtLeast,
    /// `>`
    Above,
}

impl Relation {
    /// True if `value` is in this relation to `limit`.
    pub fn holds(self, value: Figure, limit: Figure) -> bool {
        match self {
            Relation::Equal => value == limit,
            Relation::AtMost => value <= limit,
            Relation::Below => value < limit,
            Relation::AtLeast => value >= limit,
            Relation::Above => value > limit,
        }
    }
}
