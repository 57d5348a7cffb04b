//! The rows of the table: everything that the language reference says about each clause.
//!
//! The documentation of a row is the meaning of its clause.

use super::{Argument, Info, Key, Values, words};
use crate::clause::{BatchKind, Emulation, Metric, Roles, Spills};
use crate::limits;
use crate::target::Target;
use crate::terms::{Along, Edges, FmaOrder, Load, LoadC, Operands, Pace, Reads, Reduce, Rounding, StageMemory, Store};
use crate::types::{DType, Layout};

clauses! {
    /// Element types. `types(T)` sets A, B and D. The accumulator is T's natural one, unless `acc` says otherwise: f64 for
    /// f64, i32 for integers, else f32. C has the type of D, unless `c` says otherwise.
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
    /// Row or column major, each matrix by itself: in a row-major matrix the elements of a row are neighbours. C has the
    /// layout of D, unless `c` says otherwise.
    layout Layout {
        syntax: "layout(a = row | col, b = row | col, c = row | col, d = row | col)",
        summary: "row or column major, each matrix by itself",
        default: "every matrix row major",
        arguments: [
            "a, b, c, d" in "layout(a = {}, b = {}, d = {})" => Values::Words(words::<Layout>),
        ],
        example: "layout(a = col)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// What is stored: an expression over declared names. `acc` is the sum over k, `c` the element of C, a name indexed by
    /// `[m]` or `[n]` a vector with an element per row or column of D, any other a run-time scalar. `gemmc explain
    /// epilogue` has the functions.
    epilogue Epilogue {
        syntax: "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)",
        summary: "what is stored: an expression over the sum, C, scalars and vectors",
        default: "epilogue(|acc| acc)",
        arguments: [],
        example: "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Many products in one launch. `strided`: equal extents at equal distances. `grouped`: each product has extents,
    /// addresses and leading dimensions of its own, which a list in device memory states. The blocks of one wave walk
    /// through it, as with `persistent`; extents of 0 are legal, and each tile is summed by one block. With tensor maps
    /// (`load(tma)`) the host writes the list; a kernel may write any other.
    ///
    /// `transposed` suits products of few rows, with `atom(wgmma)` and `load(tma)`, an A whose rows are contiguous, and no
    /// `stream_k`, `pingpong` or blocks of a cluster along n: the rows of a product are then divided evenly among its tiles, in
    /// multiples of 16, and a tile loads, multiplies and stores no more than it has. The host lists the products whose tiles
    /// take longest first.
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
        default: "the newest that the GPU runs; without a GPU, the first whose instructions and limits suffice",
        arguments: [
            "target" in "target({})" => Values::Words(words::<Target>),
        ],
        example: "target(sm_90)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Compute the product as its transpose, D^T = B^T A^T. `types`, `layout`, `epilogue` and `batch` are of D = A B as ever,
    /// and so are arguments and launches. All other clauses are of the product that is computed: in them m counts columns of D
    /// and n rows, a is B^T and b is A^T, row major where B and A are column major. So a D of few rows suits tensor cores,
    /// whose instructions compute 64 rows or 16, and few columns as well: `tile(64, 8, 64)` is 64 columns and 8 rows of D.
    transposed Transposed {
        syntax: "transposed",
        summary: "the product computed as its transpose, for few rows of D",
        default: "the product as it is",
        arguments: [],
        example: "transposed" in "types(bf16); layout(b = col); tile(64, 8, 64); load(tma); stages(4); atom(wgmma(64, 8, 16))",
    }
    /// What one thread block computes: m x n elements of D. k is the depth of one K-tile that is staged in shared memory;
    /// it is left out with `shared(none)` alone.
    tile Tile {
        syntax: "tile(m, n, k)",
        summary: "what one thread block computes, and the depth of a staged K-tile",
        default: "none: every schedule has one",
        arguments: [
            "m, n" in "tile({}, {}, 8)" => Values::Range(limits::EXTENT),
            "k" in "tile(64, 64, {})" => Values::Range(limits::EXTENT),
        ],
        example: "tile(32, 32, 16)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// What one warp computes: m x n elements of the tile, in one piece, so that its lanes share fragments of A and B. It
    /// holds 32 thread tiles and divides the tile. With `atom(mma)`, where it is required, it is a multiple of 16 x 8 instead.
    warp Warp {
        syntax: "warp(m, n)",
        summary: "what one warp computes",
        default: "warps are 32 threads in the order of `lanes`, over the whole tile",
        arguments: [
            "m, n" in "warp({}, {})" => Values::Range(limits::EXTENT),
        ],
        example: "warp(16, 32)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// What one thread computes: m x n elements of D, whose sums it keeps in registers. For `atom(fma)` alone, and required
    /// there.
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
    /// The order of the threads within the tile, or within a warp's part of it. `n` or `m`: the dimension along which
    /// neighbouring threads are neighbours. `z`: in a Z within groups of 4 x 8 lanes, which needs a `warp` clause.
    lanes Lanes {
        syntax: "lanes(along = n | m | z)",
        summary: "the order of the threads",
        default: "lanes(along = n)",
        arguments: [
            "along" in "lanes(along = {})" => Values::Words(words::<Along>),
        ],
        example: "lanes(along = m)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The multiply instruction: one scalar fused multiply-add of a thread, an `mma` of a warp, or a `wgmma` of a warp
    /// group, with its shape.
    ///
    /// With `mma` each warp computes what `warp` says, which is required: pieces of 16 x 8 of D, from fragments of bf16 or f16
    /// that it reads from shared memory four matrices of 8 x 8 at a time (`ldmatrix`), and adds in f32, or those of f16 in f16
    /// with `types(f16, acc = f16)`. So the tile's k is a multiple of the instruction's, 16 or 8, and rows in shared memory are
    /// multiples of 16 bytes. It needs sm_80; for `mma(16, 8, 8)` of f16 sm_75 is enough. Clauses about the work of one thread
    /// (`thread`, `fragment`, `lanes`, `operands`, `unroll`, `order`) do not go with it.
    ///
    /// With `wgmma` the tensor cores read the tiles of A and B from shared memory themselves, and each warp group of four
    /// warps computes 64 rows of the tile, or, with `specialize(consumers = n)`, several times 64. So the tile's m is a multiple of
    /// 64, its n one of the instruction's n, and its k one of the instruction's k; `transposed` is for a D of few rows. It needs
    /// `load(tma)` and takes bf16 or f16, which it adds in f32 or f16 as `mma` does. Both operands are staged as they are in
    /// memory and swizzled, and packed where TMA cannot copy them: `shared` and `pack` may be left out. `pace(free)` is the
    /// default. Clauses about the work of one thread and about its fragments (`thread`,
    /// `fragment`, `lanes`, `warp`, `operands`, `unroll`, `order`, `prefetch`) do not go with it.
    atom Atom {
        syntax: "atom(fma | mma(m, n, k) | wgmma(m, n, k))",
        summary: "the multiply instruction",
        default: "atom(fma)",
        arguments: [
            "instruction" in "" => Values::Text("fma, mma(m, n, k) or wgmma(m, n, k) with a shape of the PTX ISA"),
        ],
        example: "atom(wgmma(64, 128, 16))" in "types(bf16); tile(64, 128, 64); load(tma); atom(wgmma(64, 64, 16))",
    }
    /// An upper bound, in elements, for the width of every access; each access is as wide as the bound, the layouts and the
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
    /// The order of each staged tile, slow to fast: `mk` has the elements of k next to each other. A pad, in elements, or a
    /// swizzle, in bytes, keeps rows out of each other's banks. `none` stages nothing: fragments are read straight from
    /// global memory. With `atom(mma)` and `atom(wgmma)` the default is the order of each matrix in memory, with the widest
    /// swizzle that divides a row, instead of one of 32 bytes with one of 128 for part of a row, or for `mma`, where none keeps its rows apart, with a pad of 16 bytes.
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
    /// Hold a step's fragments of A and B in registers, or write each product as reading them from shared memory again.
    operands Operands {
        syntax: "operands(registers | shared)",
        summary: "whether a step's operands are held in registers",
        default: "operands(registers)",
        arguments: [
            "place" in "operands({})" => Values::Words(words::<Operands>),
        ],
        example: "operands(shared)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// How tiles travel from global to shared memory: through registers, by `cp.async`, or by the tensor memory
    /// accelerator (TMA).
    ///
    /// With `load(tma)` one thread starts the copies of whole K-tiles, and mbarriers count their bytes. TMA does not
    /// transpose or pad: `shared` must name the orders that the matrices have in memory, and a swizzle must span one row
    /// of the tile, or, with `atom(wgmma)`, divide it into panels, the last of which rows along n may fill in part. Rows have at most 256 elements and whole pieces of 16
    /// bytes. Where an address or leading dimension is not a multiple of 16 bytes, an entry that copies by `cp.async` runs, or, with
    /// `pack`, a kernel copies the operand first.
    ///
    /// With `c = tma`, one thread starts the copies of C's tile to where D's will be put together, before the tile's products
    /// are computed, so that no thread waits for C at their end. It needs `store(tma)` and `specialize`, elements of C as large
    /// as those of D, and the same layout. Where C or D is not aligned for TMA, threads read C.
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
    /// Operands that a kernel of its own copies into the workspace first, in the same launch call: transposed, if
    /// `shared` has them in another order than memory, and with rows that begin at multiples of 128 bytes. Where TMA can
    /// copy an operand as it is, that kernel does not run; in a group it runs once for each product that needs it. It needs
    /// `load(tma)`.
    pack Pack {
        syntax: "pack(a, b)",
        summary: "operands that are transposed or aligned first",
        default: "operands are loaded as they are; `pack(a, b)` with `atom(wgmma)`",
        arguments: [
            "operands" in "" => Values::Text("a, b or both"),
        ],
        example: "pack(b)" in "target(sm_90); tile(32, 32, 8); thread(4, 4); load(tma)",
    }
    /// The depth of the pipeline: how many K-tiles have a place in shared memory. With `load(registers)` at most 2.
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
    /// How many steps of k the body of the inner loop has; it divides the depth of the tile.
    unroll Unroll {
        syntax: "unroll(n)",
        summary: "how many steps of k are unrolled",
        default: "the tile's k; with `shared(none)` 4, 8 or 16, the more the smaller the thread tile",
        arguments: [
            "n" in "unroll({})" => Values::Range(limits::UNROLL),
        ],
        example: "unroll(2)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The order of the multiply-adds of one step of k. NVIDIA's assembler keeps it, and it decides which operands are still at
    /// hand: along rows or columns, back and forth (a snake), along diagonals, or in blocks of 4 x 4. Results are the same.
    order Order {
        syntax: "order(row | snake | column | column_snake | diagonal | blocks)",
        summary: "the order of the multiply-adds of a step",
        default: "order(row)",
        arguments: [
            "order" in "order({})" => Values::Words(words::<FmaOrder>),
        ],
        example: "order(snake)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// How many steps of k ahead fragments are read from shared memory, or, with `shared(none)`, from global memory.
    /// NVIDIA's assembler moves a read down to its first product, wherever the PTX has it; a `volatile` one it leaves
    /// well before.
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
    /// `tile`: one barrier per staged tile of the warps that multiply (and copy, where none are specialized). `free`: a
    /// ring with barriers of its own, in which warps run ahead of each other; the default with `atom(wgmma)`.
    pace Pace {
        syntax: "pace(tile | free)",
        summary: "whether consumers keep step with each other",
        default: "pace(tile)",
        arguments: [
            "pace" in "pace({})" => Values::Words(words::<Pace>),
        ],
        example: "pace(free)" in "target(sm_80); tile(32, 32, 8); thread(4, 4); load(cp_async); stages(3)",
    }
    /// How many blocks share a multiprocessor: the registers of a thread are limited accordingly.
    blocks_per_sm BlocksPerSm {
        syntax: "blocks_per_sm(n)",
        summary: "the occupancy to compile for",
        default: "what registers, threads and shared memory leave room for",
        arguments: [
            "n" in "blocks_per_sm({})" => Values::Range(limits::BLOCKS),
        ],
        example: "blocks_per_sm(4)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Whether a schedule is accepted whose accumulators alone exceed the registers of a thread, so that ptxas keeps some
    /// of them in memory. A few bytes besides them are a note, or break `expect { spills = 0 }`.
    spills Spills {
        syntax: "spills(allow)",
        summary: "whether registers may be kept in memory",
        default: "spills(refuse)",
        arguments: [
            "answer" in "spills({})" => Values::Words(words::<Spills>),
        ],
        example: "spills(allow)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// The order in which blocks take the tiles of D: bands of `group` rows of tiles run along n, or bands of
    /// columns along m. What is computed at the same time then shares A and B in the L2 cache.
    raster Raster {
        syntax: "raster(group = n, along = n | m)",
        summary: "the order of the tiles on the grid",
        default: "raster(group = 16, along = n)",
        arguments: [
            "group" in "raster(group = {})" => Values::Range(limits::GROUP),
            "along" in "" => Values::Text("n or m"),
        ],
        example: "raster(group = 4, along = m)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// One wave of blocks, each of which takes tile after tile. Without a number as many blocks as the device holds at
    /// once.
    persistent Persistent {
        syntax: "persistent or persistent(n)",
        summary: "one wave of blocks that takes all tiles in turn",
        default: "one block a tile",
        arguments: [
            "n" in "persistent({})" => Values::Range(limits::WAVE),
        ],
        example: "persistent" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// K divided into n parts, each computed by a block of its own and summed in a fixed order. With `serial` a block
    /// waits for the one before and adds its sums to those handed on; with `workspace` every block stores its sums, and
    /// the one that ends last adds them up: nobody waits, but they take n times the memory. With `cluster` the n blocks, 2 to 8 of
    /// them, are a cluster: each leaves its sums in its shared memory, and adds up those of all blocks for its share of the
    /// tile's lines, which it stores. That takes no memory and no second pass over L2; it pays for few tiles with long k.
    /// All threads take part in that, so that `registers` must leave enough of them to those that copied.
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
    /// The K-tiles of the last tiles divided evenly among a wave of blocks, which `persistent(n)` sizes. The last tiles are
    /// those that do not fill a wave, together with one whole wave; the others are computed whole. Each block stores its
    /// part of a tile that it does not finish, and the block with the tile's last K-tile adds these parts up, in a fixed
    /// order: the same device gives the same bits each run. So no multiprocessor is idle in the last wave, and small
    /// products with some depth occupy the whole device. In a group only the tiles that do not fill a wave are divided, and
    /// none where the list is the device's, since the launch does not know how many there are.
    stream_k StreamK {
        syntax: "stream_k",
        summary: "K-tiles of the last tiles divided evenly among blocks",
        default: "whole tiles",
        arguments: [],
        example: "stream_k" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Thread blocks that run together, and compute m x n neighbouring tiles: at most 8. With `multicast` they share loads.
    /// It needs `load(tma)`; a block whose tile lies outside D takes part in the loads, and stores nothing.
    cluster Cluster {
        syntax: "cluster(m, n)",
        summary: "clusters of thread blocks",
        default: "cluster(1, 1)",
        arguments: [
            "m, n" in "cluster({}, 1)" => Values::Range(limits::CLUSTER),
        ],
        example: "cluster(2, 1)" in "target(sm_90a); tile(32, 32, 8); thread(4, 4); vector(4); load(tma); stages(3)",
    }
    /// One load of A, of B or of both for all blocks of a cluster that need the same tile: of A those along n, of B those
    /// along m. Each of them loads a part of the tile into the shared memory of all. It needs `cluster`, `load(tma)`, and a
    /// ring with mbarriers, which `specialize` or `pace(free)` have.
    multicast Multicast {
        syntax: "multicast(a, b)",
        summary: "one load for several blocks of a cluster",
        default: "each block loads its own",
        arguments: [
            "operands" in "" => Values::Text("a, b or both"),
        ],
        example: "multicast(a, b)" in "target(sm_90a); tile(64, 64, 16); thread(8, 8); cluster(2, 2); load(tma); stages(3); specialize(producers = 1 warp)",
    }
    /// Roles of warps: producers copy, consumers multiply. A count is of warp groups of four, or of `warps`. The consumers
    /// are the warps that `tile` and `thread` make, or the warp groups of `atom(wgmma)`, and may be left out. They compute
    /// each tile together (`cooperative`), or, with `pingpong`, one tile each: `tile` is then what one warp group computes,
    /// and while one consumer stores its tile, the next one has the tensor cores. There are two unless their number is
    /// given, and blocks are `persistent`, without `split_k` or `stream_k`. It pays where K is short or the epilogue long.
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
    /// Registers per thread of each role: what producers do not need, consumers get. It needs `specialize`.
    registers Registers {
        syntax: "registers(producer = n, consumer = n)",
        summary: "registers per thread of each role",
        default: "the same for all",
        arguments: [
            "producer, consumer" in "registers(producer = {}, consumer = {})" => Values::Multiples(8, limits::REGISTERS),
        ],
        example: "registers(producer = 40, consumer = 232)" in "target(sm_90a); tile(128, 128, 16); thread(8, 8); load(cp_async); stages(3); specialize(producers = 1)",
    }
    /// How D leaves. From registers (`direct`), a warp's accesses reach as many lines of D as its lanes do. Through shared
    /// memory (`staged`), the threads of a block first put their tile together, and then copy whole lines with the widest
    /// accesses, whatever the shape of a thread's part. With `tma`, one thread copies the assembled tile in boxes, of which
    /// what is outside D is left out, and nothing waits for D at an edge. TMA writes units of 16 bytes, also what follows a
    /// row that ends within one; where D, its rows or its leading dimension are not multiples of that, another entry runs.
    ///
    /// The tile takes the memory of the K-tiles, or, with `specialize`, memory of its own (`memory = own`): producers go on
    /// meanwhile. With `memory = ring` these lend slots for it when they have filled those of its K-tiles, as many as it
    /// takes, and fill the others meanwhile: shared memory for more stages, or for a larger tile. Its lines are cut into
    /// panels of up to 128 bytes, and a slot holds whole panels.
    store Store {
        syntax: "store(direct | staged | tma) or store(staged | tma, memory = own | ring)",
        summary: "how D leaves",
        default: "store(direct); memory = own with specialize, else ring",
        arguments: [
            "way" in "store({})" => Values::Words(words::<Store>),
            "memory" in "store(tma, memory = {})" => Values::Words(words::<StageMemory>),
        ],
        example: "store(staged)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// With `emulate`, how many elements of k tensor cores add up before their sums are added to a second set of
    /// accumulators. Tensor cores cut off what does not fit an accumulator, always towards zero, so that the error of one
    /// long sum grows with K; the second set is added to in f32, rounded to nearest. It takes as many registers as the first.
    ///
    /// With `compensated`, a third set of accumulators has the rounding errors of these additions, which are exact numbers
    /// (D. E. Knuth's two-sum), and the store adds it to the second one: what is left are the tensor cores' own errors within
    /// `every` elements of k. That costs seven additions instead of one for each element of D.
    ///
    /// Where `every` is the depth of a K-tile, and `load(tma)` fills slots for `atom(wgmma)`, a slot has all planes of its K-tile,
    /// and is as many times larger: each plane is copied once for all its products. Otherwise each pair of planes has K-tiles
    /// of its own, and a plane is copied for each of its products.
    promote Promote {
        syntax: "promote(every = 16 | 32 | 64 | 128 | 256) or promote(every = n, plain | compensated)",
        summary: "how often the tensor cores' sums are added to those in f32",
        default: "promote(every = 128)",
        arguments: [
            "every" in "promote(every = {})" => Values::OneOf(limits::EVERY),
            "rounding" in "promote(every = 128, {})" => Values::Words(words::<Rounding>),
        ],
        example: "promote(every = 256)" in "target(sm_90a); tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); emulate(bf16x6)",
    }
    /// f32 products from several products of a 16-bit type on tensor cores, `atom(mma)` or `atom(wgmma)`, for `types(f32)`, every
    /// layout and every alignment: copies of K-tiles find planes aligned, whichever way they `load`. Kernels of their own first write each operand as a sum of planes into the workspace, each of them what the ones before it leave, rounded:
    /// two of bf16 for `bf16x3`; three for `bf16x6` and `bf16x9`, which have every bit of an f32; and for `f16x3` two of f16,
    /// of rows of A and columns of B that are scaled by powers of two, which the store undoes. The products of planes are
    /// added up from the smallest to the largest, and smaller ones are left out, except by `bf16x9`. Its last plane is
    /// there twice, with and without infinities, so that these meet no zeros of other planes.
    /// `gemmc explain emulation` says how large the error can be, and what becomes of tiny and of infinite elements.
    emulate Emulate {
        syntax: "emulate(bf16x3 | bf16x6 | bf16x9 | f16x3)",
        summary: "f32 products from narrower ones",
        default: "products of the operands' own type",
        arguments: [
            "emulation" in "emulate({})" => Values::Words(words::<Emulation>),
        ],
        example: "types(f32); emulate(bf16x6)" in "target(sm_90a); types(bf16); tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3)",
    }
    /// Strassen's algorithm in Winograd's form, above the kernel: seven products of half the size instead of eight, and 15 sums
    /// of quadrants of A, B and D. A product becomes a plan of launches, which `gemmc plan` prints: the schedule's kernel
    /// with epilogues that leave sums in the workspace, and small kernels that add. The schedule's own epilogue is applied
    /// once, by the last launch that writes an element of D. With two levels each of the seven products is computed in the same
    /// way. Rows, columns and k beyond the largest even part are computed by ordinary launches. It takes any schedule of
    /// floating-point numbers or of i32, except for a group's, and pays from some size on, where what the sums read and write
    /// takes less time than the products that they save. The error is larger: `gemmc explain strassen_errors` says how much.
    strassen Strassen {
        syntax: "strassen(levels = 1 | 2)",
        summary: "seven products of half the size instead of eight",
        default: "one product",
        arguments: [
            "levels" in "strassen(levels = {})" => Values::Range(limits::LEVELS),
        ],
        example: "strassen(levels = 1)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Guard the edges, so that every size is right, or leave the guards out and require sizes that are multiples of the
    /// tile.
    ///
    /// With `even` every size is right as well, and the columns of D are divided evenly among the tiles of a row, in multiples of
    /// 8 (16, 32 with blocks of a cluster that share B). `tile` says how many a tile has at most. With `transposed` these are the
    /// rows of the product that is asked for, so that one schedule serves 1 to 128 rows without padding: boxes copy the rows that
    /// there are, while boxes that reach beyond a matrix take TMA longer than the data would. The loop over k exists once for
    /// each number of columns. It needs `load(tma)`, a `wgmma` as wide as the tile, and B contiguous along k (`transposed`: A).
    tail Tail {
        syntax: "tail(predicate | even | none)",
        summary: "what happens at the edges",
        default: "tail(predicate)",
        arguments: [
            "tail" in "tail({})" => Values::Words(words::<Edges>),
        ],
        example: "tail(none)" in "tile(32, 32, 8); thread(4, 4)",
    }
    /// Contracts, each checked at the first place that knows its figure. The plan, and so `gemm!` while a crate is built,
    /// knows `shared` and `threads` of a block; `occupancy`, in blocks of a multiprocessor or in percent of its warps; and,
    /// counted over 2 x 2 tiles and 4 K-tiles, `bank_conflicts` (passes lost), `sectors_per_load` and `loads_per_fma`.
    /// ptxas, or the driver of a GPU, knows `spills`, `registers` and `code_bytes`.
    ///
    /// A device that runs the kernel knows `max_error`: the largest `|D - A B|` of an element relative to the same element of
    /// `|A| |B|`, without the epilogue. It is measured where the kernel is loaded, on random data: A is `Matrix::random` with
    /// seed 1, B with seed 2, in their own types (uniform in [-1, 1); integers from -10 to 10), K is 1024, and D has 64 rows
    /// and columns, each rounded up to whole tiles. `A B` is exact, to twice the precision of f64.
    expect Expect {
        syntax: "expect { spills = 0; bank_conflicts = 0; shared <= 48 KiB; loads_per_fma <= 0.25; occupancy >= 50 %; max_error <= 1e-6 }",
        summary: "contracts, each checked at the first place that knows its figure",
        default: "no contracts",
        arguments: [
            "figure" in "expect { {} >= 0 }" => Values::Words(words::<Metric>),
        ],
        example: "expect { threads <= 256 }" in "tile(32, 32, 8); thread(4, 4)",
    }
}
