//! One entry per clause: its name, its kind, how it is written, and what it means.
//!
//! The grammar looks names up here, suggestions come from here, and so do the items of [`clauses`].

/// What a clause settles. A schedule settles a thing at most once; `double_buffer` and `stages` settle the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
#[rustfmt::skip]
pub enum Key {
    Types, Layout, Epilogue, Batch, Target, Tile, Warp, Thread, Fragment, Lanes, Atom, Vector, Shared, Operands, Load,
    Stages, Unroll, Order, Prefetch, Pace, BlocksPerSm, Spills, Raster, Persistent, SplitK, StreamK, Cluster, Multicast,
    Specialize, Registers, Store, Promote, Emulate, Tail, Expect,
}

/// A clause of the language.
#[derive(Debug)]
pub struct Info {
    /// Its name.
    pub name: &'static str,
    /// What it settles.
    pub key: Key,
    /// How it is written.
    pub signature: &'static str,
}

/// The clause of this name.
pub fn find(name: &str) -> Option<&'static Info> {
    ALL.iter().find(|info| info.name == name)
}

/// The clause that settles `key` (for stages, `stages`).
pub fn of(key: Key) -> &'static Info {
    ALL.iter().find(|info| info.key == key).unwrap_or(&ALL[0])
}

macro_rules! clauses {
    ($($(#[$doc:meta])* $name:ident $key:ident $signature:literal;)+) => {
        /// Every clause, in the order of the documentation.
        pub static ALL: &[Info] =
            &[$(Info { name: stringify!($name), key: Key::$key, signature: $signature }),+];

        /// The clauses of the language, one documented item each.
        ///
        /// Nobody needs these items: the macro mentions the item of each clause that a schedule uses, so that an editor
        /// shows what the clause means where the user wrote it.
        #[allow(non_camel_case_types)]
        pub mod clauses {
            $(
                #[doc = concat!("`", $signature, "`\n\n")]
                $(#[$doc])*
                pub struct $name;
            )+
        }
    };
}

clauses! {
    /// Element types. `types(T)` sets a, b and d; acc is T's natural accumulator (f64 for f64, i32 for integers, else
    /// f32); c is d's. Default: `types(f32)`.
    types Types "types(T) or types(a = f32, b = f32, acc = f32, c = f32, d = f32)";
    /// Row or column major, each matrix by itself. Default: row (c: as d).
    layout Layout "layout(a = row | col, b = row | col, c = row | col, d = row | col)";
    /// What is stored: an expression over declared names. `acc` is the sum, `c` the element of C, a name indexed by
    /// `[m]` or `[n]` a vector, any other a run-time scalar. Default: `|acc| acc`.
    epilogue Epilogue "epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)";
    /// Many products in one launch. Default: one.
    batch Batch "batch(strided | grouped)";
    /// Compile for this target. Default: the device's; with no device yet, the first whose instructions and limits suffice.
    target Target "target(sm_75 | sm_80 | sm_86 | sm_89 | sm_90 | sm_90a | sm_100 | sm_120)";
    /// What one thread block computes, and the depth of one staged K-tile; without a depth only with `shared(none)`.
    tile Tile "tile(m, n, k)";
    /// What one warp computes.
    warp Warp "warp(m, n)";
    /// What one thread computes; `atom(fma)` only, and required there.
    thread Thread "thread(m, n)";
    /// The contiguous piece that a thread tile is made of. Default: the thread tile.
    fragment Fragment "fragment(m, n)";
    /// The order of the threads. Default: n fastest.
    lanes Lanes "lanes(along = n | m | z)";
    /// The multiply instruction. Default: fma.
    atom Atom "atom(fma | mma(m, n, k) | wgmma(m, n, k))";
    /// An upper bound, in elements, for the width of every access; a named width is a demand. Default: 1.
    vector Vector "vector(n) or vector(a = n, b = n, c = n, d = n)";
    /// The order of the staged tiles, slow to fast, with a pad in elements or a swizzle in bytes; or no staging.
    /// Default: `a = mk, b = kn`.
    shared Shared "shared(none) or shared(a = mk | km, b = kn | nk), each + pad(n) or + swizzle(32 | 64 | 128)";
    /// Hold a step's operand fragments in registers, or write each product as reloading them. Default: registers.
    operands Operands "operands(registers | shared)";
    /// How tiles travel from global to shared memory. Default: registers.
    load Load "load(registers | cp_async | tma)";
    /// The depth of the pipeline. Default: 1.
    stages Stages "stages(n)";
    /// `stages(2)`: the next K-tile loads while this one is multiplied.
    double_buffer Stages "double_buffer";
    /// K-steps unrolled. Default: the tile's k (with `shared(none)` 4, 8 or 16, the more the smaller the thread tile).
    unroll Unroll "unroll(n)";
    /// The order of the FMA block. Default: row.
    order Order "order(row | snake | column_snake)";
    /// How many steps ahead fragments are read. Default: 1; 0 in a block of 1024 threads; with `shared(none)` 6 or fewer.
    prefetch Prefetch "prefetch(n)";
    /// One barrier per staged tile of the warps that multiply (and copy, where none are specialized), or a free-running ring.
    /// Default: tile.
    pace Pace "pace(tile | free)";
    /// The occupancy to compile for. Default: what registers, threads and shared memory leave room for.
    blocks_per_sm BlocksPerSm "blocks_per_sm(n)";
    /// Accept that ptxas spills for want of registers for the accumulators. Default: refused; a few bytes beside them are a
    /// note, or break `expect { spills = 0 }`.
    spills Spills "spills(allow)";
    /// The order of the tiles on the grid. Default: `group = 16, along = n`.
    raster Raster "raster(group = n, along = n | m)";
    /// One wave of blocks that walks all tiles. Default: one block a tile.
    persistent Persistent "persistent or persistent(n)";
    /// K divided among blocks, summed in a fixed order.
    split_k SplitK "split_k(n, reduce = serial | workspace)";
    /// Tiles and parts of K divided evenly among blocks, summed in a fixed order.
    stream_k StreamK "stream_k";
    /// Thread-block clusters.
    cluster Cluster "cluster(m, n)";
    /// One load for several blocks of a cluster.
    multicast Multicast "multicast(a, b)";
    /// Roles of warps: producers copy, consumers multiply. Counts are warp groups of four, or `warps`. With `atom(fma)` the
    /// consumers are the warps that `tile` and `thread` make, and may be left out. Default: every warp does both.
    specialize Specialize
        "specialize(producers = 1 warp) or specialize(producers = 1 warp, consumers = 2, cooperative | pingpong)";
    /// Registers per thread of each role.
    registers Registers "registers(producer = n, consumer = n)";
    /// How D leaves. Default: direct.
    store Store "store(direct | staged | tma)";
    /// Add the tensor core's sums to a full-precision accumulator every n instructions.
    promote Promote "promote(every = n)";
    /// f32 products from narrower ones.
    emulate Emulate "emulate(bf16x3 | bf16x6 | bf16x9 | f16x3)";
    /// Guard the edges, or require sizes that divide. Default: predicate.
    tail Tail "tail(predicate | none)";
    /// Contracts, each checked at the first place that knows its figure. The plan, and so `gemm!` while a crate is built, knows
    /// `shared` and `threads` of a block; `occupancy`, in blocks of a multiprocessor or in percent of its warps; and, counted
    /// over 2 x 2 tiles and 4 K-tiles, `bank_conflicts` (passes lost), `sectors_per_load` and `loads_per_fma`. ptxas, or the
    /// driver of a GPU, knows `spills`, `registers` and `code_bytes`.
    expect Expect "expect { spills = 0; bank_conflicts = 0; shared <= 48 KiB; loads_per_fma <= 0.25; occupancy >= 50 % }";
}
