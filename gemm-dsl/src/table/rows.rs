//! The rows of the table: the language reference's text for each clause.
//!
//! The documentation of a row is its clause's meaning.

use super::{Argument, Info, Key, Values, words};
use crate::clause::{BatchKind, Emulation, Metric, Roles, Spills};
use crate::limits;
use crate::target::Target;
use crate::terms::{Along, Edges, FmaOrder, Load, LoadC, Operands, Pace, Reads, Reduce, Rounding, StageMemory, Store};
use crate::types::{DType, Layout};

clauses! {
    /// Element types. `types(T)` sets A, B and D. Without `acc`, the accumulator has T's natural type: f64 for f64, i32 for
    /// integers, else f32. Without `c`, C has the type of D.
    types Types {
        syntax: "types(T) or types(a = f32, b = f32, acc = f32, c = f32, d = f32)",
        summary: "element types of the matrices and of the accumulator",
        default: "types(f32)",
        arguments: [
            "T" in "types({})" => Values::Words(words::<DType>),
            "acc" in "types(f32, acc = {})" => Values::Words(words::<DType>),
            "a, b, c, d" in "types(a = {}, b = {}, c = {}, d = {})" => Values::Words(words::<DType>),
        ],
        example: "types(f64)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Row or column major, each matrix by itself. In a row-major matrix the elements of a row are neighbours. Without `c`, C
    /// has the layout of D.
    layout Layout {
        syntax: "layout(a = row | col, b = row | col, c = row | col, d = row | col)",
        summary: "row or column major, each matrix by itself",
        default: "every matrix row major",
        arguments: [
            "a, b, c, d" in "layout(a = {}, b = {}, d = {})" => Values::Words(words::<Layout>),
        ],
        example: "layout(a = col)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// What is stored: an expression over declared names. `acc` is the sum over k, and `c` is the element of C. A name
    /// indexed by `[m]` or `[n]` is a vector with one element per row or column of D. Any other name is a run-time scalar.
    /// `gemmc explain epilogue` has the functions.
    epilogue Epilogue {
        syntax: "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)",
        summary: "what is stored: an expression over the sum, C, scalars and vectors",
        default: "epilogue(|acc| acc)",
        arguments: [],
        example: "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Many products in one launch. `strided`: equal extents at equal distances. `grouped`: each product has its own extents,
    /// addresses and leading dimensions, from a list in device memory. The blocks of one wave walk the list, as with
    /// `persistent`. Extents of 0 are legal, and one block sums each tile. With tensor maps (`load(tma)`) the host writes the
    /// list; a kernel may write any other.
    ///
    /// `transposed` suits groups of skinny products. It takes `atom(wgmma)`, `load(tma)` and an A with contiguous rows,
    /// without `stream_k`, `pingpong` or cluster blocks along n. The rows of a product are then divided evenly among its
    /// tiles, in multiples of 16, and a tile loads, multiplies and stores only its own rows. The host lists the products with
    /// the longest tiles first.
    batch Batch {
        syntax: "batch(strided | grouped)",
        summary: "many products in one launch",
        default: "one product",
        arguments: [
            "kind" in "batch({})" => Values::Words(words::<BatchKind>),
        ],
        example: "batch(strided)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The GPU to compile for. `gemmc explain targets` has their limits.
    target Target {
        syntax: "target(sm_75 | sm_80 | sm_86 | sm_89 | sm_90 | sm_90a | sm_100 | sm_120)",
        summary: "the GPU to compile for",
        default: "the newest that the GPU runs; without a GPU, the first with sufficient instructions and limits",
        arguments: [
            "target" in "target({})" => Values::Words(words::<Target>),
        ],
        example: "target(sm_90)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Compute the product as its transpose, D^T = B^T A^T. `types`, `layout`, `epilogue` and `batch` still describe D = A B,
    /// and so do arguments and launches. All other clauses describe the product that is computed: m counts columns of D and n
    /// rows, a is B^T and b is A^T, row major where B and A are column major. So a D of few rows suits tensor cores: their
    /// instructions compute 64 or 16 rows, and can compute few columns. `tile(64, 8, 64)` is 64 columns and 8 rows of D.
    transposed Transposed {
        syntax: "transposed",
        summary: "the product computed as its transpose, for skinny products (small m)",
        default: "the product as it is",
        arguments: [],
        example: "transposed" in "types(bf16); layout(b = col); tile(64, 8, 64); load(tma); stages(4); atom(wgmma(64, 8, 16))",
    }
    /// What one thread block computes: m x n elements of D. k is the depth of a K-tile in shared memory; only `shared(none)`
    /// omits it.
    tile Tile {
        syntax: "tile(m, n, k)",
        summary: "what one thread block computes, and the depth of a staged K-tile",
        default: "none: every schedule needs one",
        arguments: [
            "m, n" in "tile({}, {}, 8)" => Values::Range(limits::EXTENT),
            "k" in "tile(64, 64, {})" => Values::Range(limits::EXTENT),
        ],
        example: "tile(32, 32, 16)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// What one warp computes: m x n elements of the tile, in one piece, so its lanes share fragments of A and B. It holds 32
    /// thread tiles and divides the tile. `atom(mma)` requires the clause; there it is a multiple of 16 x 8 instead.
    ///
    /// With `atom(wgmma)` it is what one warp group computes: a multiple of 64 rows and of the instruction's columns. So warp
    /// groups can divide a tile along m, along n or both, and their number follows: `tile(192, 208, 64); warp(192, 104)` has
    /// two, although 192 rows are three times 64. Ping-pong consumers compute whole tiles.
    warp Warp {
        syntax: "warp(m, n)",
        summary: "what one warp computes",
        default: "warps are 32 threads in the order of `lanes`, over the whole tile; with `atom(wgmma)` see there",
        arguments: [
            "m, n" in "warp({}, {})" => Values::Range(limits::EXTENT),
        ],
        example: "warp(16, 32)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// What one thread computes: m x n elements of D, with their sums in registers. `atom(fma)` requires the clause; no other
    /// atom takes it.
    thread Thread {
        syntax: "thread(m, n)",
        summary: "what one thread computes",
        default: "none: `atom(fma)` needs one",
        arguments: [
            "m, n" in "thread({}, {})" => Values::Range(limits::EXTENT),
        ],
        example: "thread(8, 4)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The contiguous piece that a thread tile is made of; it divides the thread tile. The pieces of one thread are spread
    /// over the tile, so that the pieces of neighbouring threads are neighbours.
    fragment Fragment {
        syntax: "fragment(m, n)",
        summary: "the contiguous piece that a thread tile is made of",
        default: "the thread tile, in one piece",
        arguments: [
            "m, n" in "fragment({}, {})" => Values::Range(limits::EXTENT),
        ],
        example: "fragment(2, 2)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The order of the threads within the tile, or within a warp's part of it. `n` or `m` is the dimension along which
    /// neighbouring threads are neighbours. `z` is a Z order within groups of 4 x 8 lanes; it needs a `warp` clause.
    lanes Lanes {
        syntax: "lanes(along = n | m | z)",
        summary: "the order of the threads",
        default: "lanes(along = n)",
        arguments: [
            "along" in "lanes(along = {})" => Values::Words(words::<Along>),
        ],
        example: "lanes(along = m)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The multiply instruction, with its shape: a scalar fused multiply-add of a thread, an `mma` of a warp, or a `wgmma` of
    /// a warp group.
    ///
    /// The shapes, with the types that they multiply, their accumulators and targets, are in the table of `types`.
    ///
    /// With `mma` each warp computes what `warp` says, in pieces of the instruction's m x n of D; `warp` is required. It reads
    /// fragments from shared memory, four matrices of eight rows of 16 bytes at a time (`ldmatrix`), or f64 element by element.
    /// The tile's k is a multiple of the instruction's, and rows in shared memory are multiples of 16 bytes. Clauses about the
    /// work of one thread (`thread`, `fragment`, `lanes`, `operands`, `unroll`, `order`) do not go with it.
    ///
    /// With `wgmma` the tensor cores read the tiles of A and B from shared memory themselves. Each warp group of four warps
    /// computes 64 rows of the tile, or several times 64 with `specialize(consumers = n)`, or what `warp` says. So the
    /// tile's m is a multiple of 64, its n of the instruction's n, and its k of the instruction's k; `transposed` serves a D
    /// of few rows. It needs `load(tma)`. Both operands are staged in their memory order and swizzled, and packed where TMA
    /// cannot copy them, so `shared` and `pack` may be left out.
    /// `pace(free)` is the default. Clauses about the work of one thread and about its fragments (`thread`, `fragment`,
    /// `lanes`, `operands`, `unroll`, `order`, `prefetch`) do not go with it.
    atom Atom {
        syntax: "atom(fma | mma(m, n, k) | wgmma(m, n, k))",
        summary: "the multiply instruction",
        default: "atom(fma)",
        arguments: [
            "instruction" in "" => Values::Text("fma, mma(m, n, k) or wgmma(m, n, k) with a shape of the PTX ISA"),
        ],
        example: "atom(wgmma(64, 128, 16))" in "types(bf16); tile(64, 128, 64); load(tma); atom(wgmma(64, 64, 16))",
    }
    /// An upper bound, in elements, for the width of every access. Each access is as wide as the bound, the layouts and the
    /// tile allow. A width by name is a demand on the global accesses to that matrix, and an error where it cannot be met.
    vector Vector {
        syntax: "vector(n) or vector(a = n, b = n, c = n, d = n)",
        summary: "how wide accesses may be",
        default: "`vector(1)`; with tensor cores as wide as layouts and tile allow",
        arguments: [
            "n" in "vector({})" => Values::Powers(limits::WIDTH),
            "a, b, c, d" in "vector(a = {}, b = {}, c = {}, d = {})" => Values::Powers(limits::WIDTH),
        ],
        example: "vector(4)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The order of each staged tile, slow to fast: in `mk` the elements of k are contiguous. A pad (in elements) or a
    /// swizzle (in bytes) keeps rows in different banks. `none` stages nothing: fragments are read straight from global
    /// memory.
    ///
    /// With `atom(mma)` and `atom(wgmma)` the default is the order of each matrix in memory, with the widest swizzle that
    /// divides a row. Instead of a swizzle of 32 bytes it is one of 128 bytes for part of a row. With `mma`, where no swizzle
    /// keeps rows apart, it is a pad of 16 bytes; of f64, 32 bytes.
    shared Shared {
        syntax: "shared(none) or shared(a = mk | km, b = kn | nk), each + pad(n) or + swizzle(32 | 64 | 128)",
        summary: "how A and B are staged in shared memory, or that they are not",
        default: "shared(a = mk, b = kn)",
        arguments: [
            "order of a" in "" => Values::Text("mk or km"),
            "order of b" in "" => Values::Text("kn or nk"),
            "pad" in "shared(a = km + pad({}))" => Values::Range(limits::PAD),
            "swizzle" in "shared(a = km + swizzle({}))" => Values::OneOf(limits::SWIZZLES),
        ],
        example: "shared(a = km + pad(4))" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Hold a step's fragments of A and B in registers, or let each product read them from shared memory again.
    operands Operands {
        syntax: "operands(registers | shared)",
        summary: "whether a step's operands are held in registers",
        default: "operands(registers)",
        arguments: [
            "place" in "operands({})" => Values::Words(words::<Operands>),
        ],
        example: "operands(shared)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// How tiles travel from global to shared memory: through registers, by `cp.async`, or by the tensor memory accelerator
    /// (TMA).
    ///
    /// With `load(tma)` one thread starts the copies of whole K-tiles, and mbarriers count their bytes. TMA does not
    /// transpose or pad, so `shared` must name the orders of the matrices in memory. A swizzle must span one row of the tile.
    /// With `atom(wgmma)` it may also divide the row into panels, and rows along n may fill the last panel in part. Rows have
    /// at most 256 elements and whole pieces of 16 bytes. If an address or leading dimension is not a multiple of 16 bytes,
    /// an entry that copies by `cp.async` runs, or, with `pack`, a kernel copies the operand first.
    ///
    /// With `c = tma`, one thread starts the copies of C's tile before the mainloop, to where D's tile will be assembled. So
    /// no thread waits for C after it. It needs `store(tma)` and `specialize`, and C with the layout and the element size of
    /// D. If C or D is not aligned for TMA, threads read C.
    load Load {
        syntax: "load(registers | cp_async | tma) or load(tma, c = registers | tma)",
        summary: "how tiles travel from global to shared memory",
        default: "load(registers); c = registers",
        arguments: [
            "way" in "load({})" => Values::Words(words::<Load>),
            "c" in "load(tma, c = {})" => Values::Words(words::<LoadC>),
        ],
        example: "load(cp_async)" in "target(sm_80); tile(32, 32, 8); thread(4, 4)",
    }
    /// Operands that a separate kernel first copies into the workspace, in the same launch call. It transposes an operand if
    /// `shared` has another order than memory, and begins rows at multiples of 128 bytes. If TMA can copy an operand as it
    /// is, the kernel does not run. In a group it runs once for each product that needs it. `pack` needs `load(tma)`.
    pack Pack {
        syntax: "pack(a, b)",
        summary: "operands that are transposed or aligned first",
        default: "operands are loaded as they are; `pack(a, b)` with `atom(wgmma)`",
        arguments: [
            "operands" in "" => Values::Text("a, b or both"),
        ],
        example: "pack(b)" in "target(sm_90); tile(32, 32, 8); thread(4, 4); load(tma)",
    }
    /// The depth of the pipeline: how many K-tiles shared memory holds. With `load(registers)` at most 2.
    stages Stages {
        syntax: "stages(n)",
        summary: "the depth of the pipeline",
        default: "stages(1)",
        arguments: [
            "n" in "stages({})" => Values::Range(limits::STAGES),
        ],
        example: "stages(3)" in "target(sm_80); tile(32, 32, 8); thread(4, 4); load(cp_async)",
    }
    /// `stages(2)`: the next K-tile loads while this one is multiplied.
    double_buffer Stages {
        syntax: "double_buffer",
        summary: "`stages(2)` by its usual name",
        default: "stages(1)",
        arguments: [],
        example: "double_buffer" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// How many steps of k the body of the inner loop has. It divides the depth of the tile.
    unroll Unroll {
        syntax: "unroll(n)",
        summary: "how many steps of k are unrolled",
        default: "the tile's k; with `shared(none)` 4, 8 or 16, more for a smaller thread tile",
        arguments: [
            "n" in "unroll({})" => Values::Range(limits::UNROLL),
        ],
        example: "unroll(2)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The order of the multiply-adds in one step of k: along rows or columns, back and forth (a snake), along diagonals, or
    /// in blocks of 4 x 4. ptxas keeps it, and it decides which operands are still at hand. Results are the same.
    order Order {
        syntax: "order(row | snake | column | column_snake | diagonal | blocks)",
        summary: "the order of the multiply-adds of a step",
        default: "order(row)",
        arguments: [
            "order" in "order({})" => Values::Words(words::<FmaOrder>),
        ],
        example: "order(snake)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// How many steps of k ahead fragments are read from shared memory, or, with `shared(none)`, from global memory. ptxas
    /// moves a read down to its first use, wherever the PTX has it. It leaves a `volatile` read early.
    prefetch Prefetch {
        syntax: "prefetch(n) or prefetch(n, movable | volatile)",
        summary: "how many steps ahead fragments are read",
        default: "prefetch(1); 0 in a block of 1024 threads; with `shared(none)` 6 or fewer",
        arguments: [
            "n" in "prefetch({})" => Values::Range(limits::PREFETCH),
            "reads" in "prefetch(1, {})" => Values::Words(words::<Reads>),
        ],
        example: "prefetch(0)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// `tile`: one barrier per K-tile for the warps that multiply (and copy, if none are specialized). `free`: a pipeline
    /// with its own barriers, in which warps run ahead of each other; the default with `atom(wgmma)`.
    pace Pace {
        syntax: "pace(tile | free)",
        summary: "whether consumers keep step with each other",
        default: "pace(tile)",
        arguments: [
            "pace" in "pace({})" => Values::Words(words::<Pace>),
        ],
        example: "pace(free)" in "target(sm_80); tile(32, 32, 8); thread(4, 4); load(cp_async); stages(3)",
    }
    /// How many blocks share a multiprocessor. The registers of a thread are limited accordingly.
    blocks_per_sm BlocksPerSm {
        syntax: "blocks_per_sm(n)",
        summary: "the occupancy to compile for",
        default: "what registers, threads and shared memory leave room for",
        arguments: [
            "n" in "blocks_per_sm({})" => Values::Range(limits::BLOCKS),
        ],
        example: "blocks_per_sm(4)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Whether to accept a schedule if its accumulators alone exceed the registers of a thread, so that ptxas keeps some of
    /// them in memory. A few bytes of other spills are a note, or break `expect { spills = 0 }`.
    spills Spills {
        syntax: "spills(allow)",
        summary: "whether accumulators may spill to memory",
        default: "spills(refuse)",
        arguments: [
            "answer" in "spills({})" => Values::Words(words::<Spills>),
        ],
        example: "spills(allow)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The rasterisation of the tiles of D: bands of `group` rows of tiles run along n, or bands of columns along m. Tiles
    /// that are computed at the same time then share A and B in L2.
    raster Raster {
        syntax: "raster(group = n, along = n | m)",
        summary: "the rasterisation: the order of the tiles on the grid",
        default: "raster(group = 16, along = n)",
        arguments: [
            "group" in "raster(group = {})" => Values::Range(limits::GROUP),
            "along" in "" => Values::Text("n or m"),
        ],
        example: "raster(group = 4, along = m)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// One wave of blocks, each of which takes tile after tile. Without a number, as many blocks as the device holds at once.
    persistent Persistent {
        syntax: "persistent or persistent(n)",
        summary: "one wave of blocks that takes all tiles",
        default: "one block a tile",
        arguments: [
            "n" in "persistent({})" => Values::Range(limits::WAVE),
        ],
        example: "persistent" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// K divided into n parts. One block computes each part, and the sums are added in a fixed order.
    ///
    /// - `serial`: a block waits for the one before it and adds its sums to those that it receives.
    /// - `workspace`: every block stores its sums, and the one that ends last adds them. Nobody waits, but the sums take n
    ///   times the memory.
    /// - `cluster`: the n blocks, 2 to 8, are a cluster. Each leaves its sums in its shared memory. It adds the sums of all
    ///   blocks for its share of the tile's lines, and stores these lines. That takes no memory and no second pass over L2;
    ///   it pays for few tiles with long k. All threads take part, so `registers` must leave enough of them to the producers.
    split_k SplitK {
        syntax: "split_k(n, reduce = serial | workspace | cluster)",
        summary: "K divided among blocks",
        default: "one block computes the whole sum",
        arguments: [
            "n" in "split_k({})" => Values::Range(limits::PARTS),
            "reduce" in "split_k(2, reduce = {})" => Values::Words(words::<Reduce>),
        ],
        example: "split_k(4)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The K-tiles of the last tiles, divided evenly among one wave of blocks (`persistent(n)` sets its size). The last tiles
    /// are those that do not fill a wave, together with one whole wave; the others are computed whole. A block stores its
    /// part of a tile that it does not finish. The block with the tile's last K-tile adds these parts in a fixed order, so
    /// the same device gives the same bits in each run. No multiprocessor is idle in the last wave, and small products with
    /// some depth occupy the whole device. In a group, only the tiles that do not fill a wave are divided, and none if the
    /// list is the device's, because the launch does not know how many there are.
    stream_k StreamK {
        syntax: "stream_k",
        summary: "the K-tiles of the last tiles, divided evenly among blocks",
        default: "whole tiles",
        arguments: [],
        example: "stream_k" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Thread blocks that run together and compute m x n neighbouring tiles, at most 8. With `multicast` they share loads. It
    /// needs `load(tma)`. A block with a tile outside D takes part in the loads and stores nothing.
    cluster Cluster {
        syntax: "cluster(m, n)",
        summary: "clusters of thread blocks",
        default: "cluster(1, 1)",
        arguments: [
            "m, n" in "cluster({}, 1)" => Values::Range(limits::CLUSTER),
        ],
        example: "cluster(2, 1)" in "target(sm_90a); tile(32, 32, 8); thread(4, 4); vector(4); load(tma); stages(3)",
    }
    /// One load of A, of B or of both for all blocks of a cluster that need the same tile: A for the blocks along n, B for
    /// those along m. Each block loads a part of the tile into the shared memory of all; parts need not be equal, but each has
    /// at least one box. It needs `cluster`, `load(tma)`, and a pipeline with mbarriers, from `specialize` or `pace(free)`.
    multicast Multicast {
        syntax: "multicast(a, b)",
        summary: "one load for several blocks of a cluster",
        default: "each block loads its own",
        arguments: [
            "operands" in "" => Values::Text("a, b or both"),
        ],
        example: "multicast(a, b)" in "target(sm_90a); tile(64, 64, 16); thread(8, 8); cluster(2, 2); load(tma); stages(3); specialize(producers = 1 warp)",
    }
    /// Roles of warps: producers copy, consumers multiply. A count is in warp groups of four warps, or in `warps`. The
    /// consumers are the warps that `tile` and `thread` make, or the warp groups of `atom(wgmma)`, so they may be left out.
    /// With `warp` their number follows from it.
    ///
    /// `cooperative` consumers compute each tile together. `pingpong` consumers compute one tile each: `tile` is then what
    /// one warp group computes, and while one consumer stores its tile, the next one uses the tensor cores. There are two
    /// unless their number is given, and blocks are `persistent`, without `split_k` or `stream_k`. Ping-pong pays where K is
    /// short or the epilogue long.
    specialize Specialize {
        syntax: "specialize(producers = 1 warp) or specialize(producers = 1 warp, consumers = 2, cooperative | pingpong)",
        summary: "roles of warps: producers copy, consumers multiply",
        default: "every warp does both; cooperative",
        arguments: [
            "producers" in "specialize(producers = {})" => Values::Range(limits::GROUPS),
            "producers, in warps" in "specialize(producers = {} warps)" => Values::Range(limits::WARPS),
            "roles" in "specialize(producers = 1, consumers = 2, {})" => Values::Words(words::<Roles>),
        ],
        example: "specialize(producers = 1 warp)" in "target(sm_80); tile(32, 32, 8); thread(4, 4); load(cp_async); stages(3)",
    }
    /// Registers per thread of each role: consumers get what producers do not need. It needs `specialize`.
    registers Registers {
        syntax: "registers(producer = n, consumer = n)",
        summary: "registers per thread of each role",
        default: "the same for all",
        arguments: [
            "producer, consumer" in "registers(producer = {}, consumer = {})" => Values::Multiples(8, limits::REGISTERS),
        ],
        example: "registers(producer = 40, consumer = 232)" in "target(sm_90a); tile(128, 128, 16); thread(8, 8); load(cp_async); stages(3); specialize(producers = 1)",
    }
    /// How D is stored.
    ///
    /// - `direct`: from registers. A warp's accesses reach as many lines of D as its lanes do.
    /// - `staged`: through shared memory. The threads of a block assemble their tile there, and then copy whole lines with
    ///   the widest accesses, whatever the shape of a thread's part.
    /// - `tma`: one thread copies the assembled tile in boxes. TMA leaves out what is outside D, so nothing waits for D at an
    ///   edge. TMA writes units of 16 bytes, including what follows a row that ends within one. If D, its rows or its leading
    ///   dimension are not multiples of that, another entry runs.
    ///
    /// The tile takes the memory of the K-tiles. With `specialize` it takes its own memory (`memory = own`), and producers go
    /// on meanwhile. With `memory = ring` it reuses pipeline stages: after its K-tiles, the producers hand over as many
    /// stages as it takes, and fill the others meanwhile. That saves shared memory for more stages or a larger tile. The
    /// tile's lines are cut into panels of up to 128 bytes, and a stage holds whole panels.
    store Store {
        syntax: "store(direct | staged | tma) or store(staged | tma, memory = own | ring)",
        summary: "how D is stored",
        default: "store(direct); memory = own with specialize, else ring",
        arguments: [
            "way" in "store({})" => Values::Words(words::<Store>),
            "memory" in "store(tma, memory = {})" => Values::Words(words::<StageMemory>),
        ],
        example: "store(staged)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// How many elements of k the tensor cores add up before their sums are added to a second set of accumulators, in f32. It
    /// is the default with `emulate` and for 8-bit floats, and goes with all sums in f32. Tensor cores truncate what does not fit an accumulator, always towards zero, so the error of one long
    /// sum grows with K. The second set is added to in f32, rounded to nearest. It takes as many registers as the first.
    ///
    /// With `compensated`, a third set of accumulators holds the rounding errors of these additions, which are exact numbers
    /// (D. E. Knuth's two-sum). The store adds it to the second set. Only the tensor cores' own errors within `every`
    /// elements of k remain. That costs seven additions instead of one for each element of D.
    ///
    /// With `none`, sums of 8-bit floats lose what is below 2^-13 of their largest term, at each instruction: the error of K
    /// products is up to K / 8192 of the sum of their magnitudes. With promotion it is at most 1/64 of it, and usually far less.
    ///
    /// If `every` is the depth of a K-tile of planes, and `load(tma)` fills stages for `atom(wgmma)`, a stage holds all planes of its
    /// K-tile and is as many times larger. Each plane is then copied once for all its products. Otherwise each pair of planes
    /// has its own K-tiles, and a plane is copied for each of its products.
    promote Promote {
        syntax: "promote(every = 16 | 32 | 64 | 128 | 256) or promote(every = n, plain | compensated) or promote(none)",
        summary: "how often the tensor cores' sums are added to f32 accumulators",
        default: "promote(every = 128) with emulate and for 8-bit floats, else promote(none)",
        arguments: [
            "every" in "promote(every = {})" => Values::OneOf(limits::EVERY),
            "rounding" in "promote(every = 128, {})" => Values::Words(words::<Rounding>),
        ],
        example: "promote(every = 256)" in "target(sm_90a); tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); emulate(bf16x6)",
    }
    /// f32 products from several products of a 16-bit type on tensor cores, `atom(mma)` or `atom(wgmma)`. It is for
    /// `types(f32)`, every layout and every alignment: copies of K-tiles find aligned planes, whichever way they `load`.
    ///
    /// Separate kernels first write each operand into the workspace as a sum of planes. Each plane is the rounded remainder
    /// of those before it. `bf16x3` has two planes of bf16. `bf16x6` and `bf16x9` have three, which hold every bit of an f32.
    /// `f16x3` has two of f16, of rows of A and columns of B scaled by powers of two; the store undoes the scaling. The
    /// products of planes are added from the smallest to the largest. All modes except `bf16x9` leave out the smaller ones.
    /// `bf16x9` has its last plane twice, with and without infinities, so that infinities do not meet zeros of other planes.
    /// `gemmc explain emulation` says how large the error can be, and what happens to tiny and infinite elements.
    emulate Emulate {
        syntax: "emulate(bf16x3 | bf16x6 | bf16x9 | f16x3)",
        summary: "f32 products from narrower ones",
        default: "products of the operands' own type",
        arguments: [
            "emulation" in "emulate({})" => Values::Words(words::<Emulation>),
        ],
        example: "types(f32); emulate(bf16x6)" in "target(sm_90a); types(bf16); tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3)",
    }
    /// Strassen's algorithm in Winograd's form, above the kernel: seven products of half the size instead of eight, and 15
    /// sums of quadrants of A, B and D. A product becomes a plan of launches, which `gemmc plan` prints: the schedule's
    /// kernel with epilogues that leave sums in the workspace, and small kernels that add. The last launch that writes an
    /// element of D applies the schedule's own epilogue, once. With two levels, each of the seven products is computed in the
    /// same way. Ordinary launches compute the rows, columns and k past the largest even part.
    ///
    /// It takes any schedule of floating-point numbers or of i32, except a group's. It pays from the size on where the sums
    /// take less time than the products that they save. The error is larger: `gemmc explain strassen_errors` says how much.
    strassen Strassen {
        syntax: "strassen(levels = 1 | 2)",
        summary: "seven products of half the size instead of eight",
        default: "one product",
        arguments: [
            "levels" in "strassen(levels = {})" => Values::Range(limits::LEVELS),
        ],
        example: "strassen(levels = 1)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// `predicate` guards the edges, so every size is right. `none` leaves the guards out and requires sizes that are
    /// multiples of the tile.
    ///
    /// With `even` every size is right as well. The columns of D are divided evenly among the tiles of a row, in multiples of
    /// 8; `tile` says how many a tile has at most. With `transposed` these are the rows of the requested product, so one
    /// schedule serves 1 to 128 rows without padding. Boxes copy only the rows that exist, because TMA takes longer for what
    /// is past a matrix than for data. The mainloop exists once for each number of columns. It needs `load(tma)`, a `wgmma`
    /// as wide as the tile, and B contiguous along k (`transposed`: A).
    tail Tail {
        syntax: "tail(predicate | even | none)",
        summary: "what happens at the edges",
        default: "tail(predicate)",
        arguments: [
            "tail" in "tail({})" => Values::Words(words::<Edges>),
        ],
        example: "tail(none)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Contracts, each checked at the first place that knows its figure.
    ///
    /// - The plan, and so `gemm!` while a crate is built, knows `shared` and `threads` of a block, and `occupancy`, in blocks
    ///   of a multiprocessor or in percent of its warps. Counted over 2 x 2 tiles and 4 K-tiles, it knows `bank_conflicts`
    ///   (passes lost), `sectors_per_load` and `loads_per_fma`.
    /// - ptxas, or the driver of a GPU, knows `spills`, `registers` and `code_bytes`.
    /// - A device that runs the kernel knows `max_error`: the largest `|D - A B|` of an element relative to the same element
    ///   of `|A| |B|`, without the epilogue.
    ///
    /// `max_error` is measured where the kernel is loaded, on random data. A is `Matrix::random` with seed 1, B with seed 2,
    /// in their own types (uniform in [-1, 1); integers from -10 to 10). K is 1024, and D has 64 rows and columns, each
    /// rounded up to whole tiles. `A B` is exact, to twice the precision of f64.
    expect Expect {
        syntax: "expect { spills = 0; bank_conflicts = 0; shared <= 48 KiB; loads_per_fma <= 0.25; occupancy >= 50 %; max_error <= 1e-6 }",
        summary: "contracts, each checked at the first place that knows its figure",
        default: "no contracts",
        arguments: [
            "figure" in "expect { {} >= 0 }" => Values::Words(words::<Metric>),
        ],
        example: "expect { threads <= 256 }" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The product that open values, `?`, are chosen for. It is a hint: the kernel is right for every size. `gemmc explain open` has
    /// more.
    shape Shape {
        syntax: "shape(m, n, k) or shape(m, n, k, batch = count)",
        summary: "the product that open values are chosen for",
        default: "shape(4096, 4096, 4096)",
        arguments: [
            "m, n" in "shape({}, {}, 64)" => Values::Range(limits::PRODUCT),
            "k" in "shape(64, 64, {})" => Values::Range(limits::PRODUCT),
            "batch" in "shape(64, 64, 64, batch = {})" => Values::Range(limits::PRODUCT),
        ],
        example: "shape(300, 11480, 3000)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The GPU that open values, `?`, are chosen for. It is a hint: `target` says what to compile for.
    gpu Gpu {
        syntax: "gpu(NAME)",
        summary: "the GPU that open values are chosen for",
        default: "one of the target, if a target is given, else H200",
        arguments: [
            "name" in "" => Values::Text("a name that `gemmc pick --gpu` takes, such as H200, A100 or RTX4090"),
        ],
        example: "gpu(A100)" in "tile(32, 32, 8); thread(4, 4)",
    }
}
