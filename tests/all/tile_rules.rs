//! Each rule of tile IR, with a program that breaks it: a replacement in a printed program, and the expected error.

mod arrival;
mod bodies;
mod clusters;
mod exchange;
mod flight;
mod grain;
mod lent;
mod planes;
mod problem;
mod turns;

use ptx_gemm_codegen::tile::{self, print::print};
use ptx_gemm_codegen::{TextErrors, compile_text};

const STAGED: &str = "tile(16, 16, 8); thread(2, 2); vector(2); double_buffer; target(sm_80)";
const ASYNC: &str = "tile(16, 16, 8); thread(2, 2); load(cp_async); stages(3); persistent; target(sm_80)";
const ROLES: &str =
    "tile(16, 32, 8); thread(4, 4); load(cp_async); stages(3); specialize(producers = 1 warp); target(sm_80)";
const BOXED: &str =
    "layout(a = col); tile(32, 32, 8); thread(4, 4); vector(4); shared(a = km, b = kn); load(tma); stages(3)";
const PACKED: &str =
    "tile(32, 32, 8); thread(4, 4); vector(4); shared(a = km, b = kn); load(tma); pack(a, b); stages(3)";
const SWIZZLED: &str =
    "tile(32, 32, 32); thread(4, 4); shared(a = mk + swizzle(128)); load(tma); stages(2); persistent";
const BUDGET: &str = "target(sm_90a); tile(128, 128, 8); thread(8, 8); load(cp_async); stages(3); specialize(producers = 1); \
                      registers(producer = 40, consumer = 232)";
const OUT: &str =
    "tile(16, 16, 8); thread(2, 2); vector(2); load(cp_async); stages(3); persistent; store(staged); target(sm_80)";
const OUT_PLAIN: &str = "tile(16, 16, 8); thread(2, 2); double_buffer; store(staged); target(sm_80)";
const OUT_BOXED: &str = "tile(32, 32, 8); thread(4, 4); vector(4); load(tma); stages(3); specialize(producers = 1 warp); \
                         persistent; store(tma)";
const OUT_SPLIT: &str = "tile(16, 16, 8); thread(2, 2); split_k(2); store(staged); target(sm_80)";
const SPLIT: &str = "tile(16, 16, 8); thread(2, 2); split_k(2); target(sm_80)";
const STREAM: &str = "tile(16, 16, 8); thread(2, 2); stream_k; target(sm_80)";
const DIRECT: &str = "tile(16, 16); thread(2, 2); shared(none); vector(2); unroll(4); target(sm_80)";
const WITH_C: &str =
    "tile(16, 16, 8); thread(2, 2); epilogue(|acc, c, bias| acc + c + bias[n]); batch(strided); target(sm_80)";

const GROUPED: &str =
    "tile(16, 16, 8); thread(2, 2); epilogue(|acc, alpha| alpha * acc); batch(grouped); target(sm_80)";

const GROUPED_BOXED: &str = "layout(a = col); tile(32, 32, 8); thread(4, 4); vector(4); shared(a = km, b = kn); load(tma); \
                             stages(3); batch(grouped)";

const WARPS: &str = "types(bf16); tile(64, 64, 32); warp(32, 32); atom(mma(16, 8, 16)); load(cp_async); stages(3)";
const WARPS_SHORT: &str = "types(f16); tile(64, 64, 32); warp(32, 32); atom(mma(16, 8, 8)); double_buffer";
const WARPS_PLAIN: &str = "types(bf16); tile(64, 64, 32); warp(32, 32); atom(mma(16, 8, 16)); vector(1); shared(a = mk + pad(8), b = kn + pad(8))";
const GROUPS: &str = "types(bf16); tile(128, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
                      specialize(producers = 1); persistent";
const GROUP: &str = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2)";
const HALVES: &str = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 32, 16)); load(tma); stages(2)";

const TALL: &str = "types(bf16); tile(256, 128, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2); \
                    specialize(producers = 1, consumers = 2)";
const DIVIDED: &str = "types(bf16); tile(128, 64, 64); warp(64, 32); atom(wgmma(64, 32, 16)); load(tma); stages(2)";
const MATRICES: &str = "types(bf16); tile(64, 64, 32); warp(32, 32); atom(mma(16, 8, 16)); load(cp_async); stages(3); \
                        store(staged); target(sm_90)";
const CUT: &str = "types(bf16); tile(64, 96, 32); warp(32, 24); atom(mma(16, 8, 16)); load(tma); stages(3); store(tma)";
const NARROW: &str = "types(bf16); tile(16, 16, 8); thread(2, 2); store(staged); target(sm_90)";

/// (schedule, replaced text, replacement, expected error)
const ROWS: &[(&str, &str, &str, &str)] = &[
    // Partial sums in memory.
    (
        SPLIT,
        "clear acc",
        "read acc <- a width 1",
        "a program that reads sums from a neither copies nor multiplies, and does not divide k",
    ),
    // Groups of products.
    (GROUPED, "    persistent ", "    ; nothing ", "blocks walk through the list of a group, and need `persistent`"),
    (GROUPED, "    persistent ", "    persistent blocks 2 ; ", ""),
    (GROUPED, "    buffer As", "    parts 2\n    buffer As", "parts of k have the extents of one product"),
    (GROUPED, "    buffer As", "    stream_k\n    buffer As", "the parameter `tiles` is given 0 times"),
    (GROUPED, "params problems, ", "params ", "the parameter `problems` is given 0 times instead of once"),
    (GROUPED, "params problems, batch", "params problems", "the parameter `batch` is given 0 times instead of once"),
    (GROUPED, "params problems", "params m, problems", "nothing reads the parameter `m`"),
    (
        GROUPED_BOXED,
        "    buffer As",
        "    pack a [k 64][m 64] threads 256 planes 2 bf16\n    buffer As",
        "a is split into planes, and the products of a group are not",
    ),
    (GROUPED, "batch grouped", "batch strided", "the parameter `a` is given 0 times instead of once"),
    (GROUPED, "batch grouped", "batch groups", "expected `one`, `strided` or `grouped`, found `groups`"),
    // Products of warps.
    (WARPS, "a * b by mma", "a * b order row", "fused multiply-adds multiply single elements"),
    (WARPS, "a * b by mma", "a * b by wgmma n 8", "`wgmma` reads its operands by descriptor"),
    (WARPS, "a * b by mma", "a * b by hmma", "expected `mma` or `wgmma`, found `hmma`"),
    (WARPS, "a * b by mma", "a * b by mma k 4", "`mma` multiplies 16 or 8 steps at once, not 4"),
    (WARPS, "a * b by mma", "a * b by mma k 8", "matrices are read 0 or 8 steps ahead, not 16"),
    (
        WARPS,
        "steps 0..32 unroll 32",
        "steps 0..16 unroll 16",
        "matrices of the only product of 16 steps are read 0 steps ahead, not 16",
    ),
    (WARPS_SHORT, "a * b by mma k 8", "a * b by mma", "`mma` needs sm_80, not sm_75"),
    (WARPS_SHORT, "module sm_75", "module sm_90", ""),
    (WARPS_SHORT, "types a f16, b f16", "types a bf16, b bf16", "`mma` needs sm_80, not sm_75"),
    (WARPS, "a <- As by matrices ahead 16", "a <- As width 1 ahead 1", "must be read in the same way"),
    (WARPS, "a <- As by matrices ahead 16", "a <- As by rows ahead 16", "expected `matrices` or `descriptor`"),
    (WARPS, "a <- As by matrices ahead 16", "a <- As by matrices ahead 8", "read 0 or 16 steps ahead, not 8"),
    (WARPS, "steps 0..32 unroll 32", "steps 0..32 unroll 16", "are unrolled as a whole, not by 16"),
    (WARPS, "steps 0..32 unroll 32", "steps 0..24 unroll 24", "`mma` multiplies 16 steps at once"),
    (WARPS, "holds 2:n1 2:m8", "holds 2:m8 2:n1", "not held as `mma` leaves them"),
    (WARPS, "threads 4:n2 8:m1", "threads 8:m1 4:n2", "not held as `mma` leaves them"),
    (WARPS, "types a bf16", "types a f16", "i8 or u8 in i32, not f16 by bf16 in f32"),
    (WARPS, "acc f32", "acc f16", "acc = f16 is not what tensor cores add products of bf16 in"),
    (WARPS_SHORT, "acc f32", "acc f16", ""),
    (WARPS_PLAIN, "module sm_80", "module sm_75", "`mma` needs sm_80, not sm_75"),
    (WARPS_PLAIN, "[k 32] pitch 40", "[k 32] pitch 36", "the rows of As are 72 B apart"),
    // Rows of several products of a warp group.
    (TALL, "2:n64 2:m64", "2:m64 2:n64", "not held as `wgmma` with 64 columns leaves them, in each of 2 warp groups"),
    (TALL, "4:m16 2:m128", "2:m128 4:m16", "not held as `wgmma` with 64 columns leaves them"),
    // Warp groups that divide a tile along both extents.
    (
        DIVIDED,
        "2:n32 2:m64",
        "2:m64 2:n32",
        "not held as `wgmma` with 32 columns leaves them, in each of 4 warp groups",
    ),
    (
        DIVIDED,
        "by wgmma n 32",
        "by wgmma n 16",
        "not held as `wgmma` with 16 columns leaves them, in each of 4 warp groups",
    ),
    // Matrices of D.
    (MATRICES, "stage acc by matrices", "stage acc width 2", ""),
    (MATRICES, "stage acc by matrices", "stage acc by rows", "expected `matrices`, found `rows`"),
    (MATRICES, "module sm_90", "module sm_80", "`stmatrix` needs sm_90, not sm_80"),
    (MATRICES, "d bf16", "d f32", "matrices are of 16-bit elements, converted from f32, not f32 from f32"),
    (MATRICES, "d pitch 72 at", "d pitch 68 at", "lines of 68 bf16 do not begin at multiples of 16 B"),
    (NARROW, "stage acc width 2", "stage acc by matrices", "the accumulators are not held as matrices"),
    (CUT, "stage acc width 2", "stage acc by matrices", "a warp's matrices are cut by panels of 32 elements"),
    // Packed operands.
    (PACKED, "pack a [k 64][m 64]", "pack a [m 64][k 64]", "tma does not transpose"),
    (PACKED, "    buffer Bs", "    pack b [k 64][n 64] threads 256\n    buffer Bs", "come before the buffers"),
    (PACKED, "entry gemm_tma_v4", "entry pack_a", "pack_a is the name of a kernel that packs"),
    (PACKED, "pack b [k 32][n 128] threads 256", "pack a [k 64][m 64] threads 256", "a is packed twice"),
    (PACKED, "[m 64] threads 256", "[m 64] threads 250", "250 threads are not 1 to 32 warps"),
    (PACKED, "[m 64] threads 256", "[m 64] threads 2048", "2048 threads are not 1 to 32 warps"),
    (
        PACKED,
        "pack a [k 64][m 64]",
        "pack a [k 64][m 48]",
        "256 threads do not copy a tile of 48 x 64 in whole rows, 4 elements each at a time",
    ),
    (
        PACKED,
        "pack a [k 64][m 64] threads 256",
        "pack a [k 64][m 64] threads 96",
        "96 threads do not copy a tile of 64 x 64 in whole rows",
    ),
    (PACKED, "pack a [k 64][m 64] threads 256", "pack a [k 64][m 64] threads 32", "each thread copies 128 elements"),
    (PACKED, "pack a [k 64][m 64] threads 256", "pack a [k 128][m 128] threads 256", "and the limit is 49152 B"),
    (PACKED, "pack a [k 64]", "pack a [n 64]", "expected `[m …]` and `[k …]`, found `n`"),
    (
        STAGED,
        "    buffer As",
        "    pack a [m 64][k 64] threads 256\n    buffer As",
        "a is packed, and tma does not copy it",
    ),
    (STAGED, "ahead 1", "ahead 1 volatil", "expected the end of the line"),
    (DIRECT, "global width 2 ahead 2", "global width 2 ahead 2 volatile", "only fragments that are held"),
    // Products of warp groups: the instruction, its operands, and the registers that hold its results.
    (GROUPS, "module sm_90a", "module sm_90", "`wgmma` needs sm_90a, not sm_90"),
    (GROUPS, "types a bf16, b bf16", "types a bf16, b f16", "not bf16 by f16 in f32"),
    (GROUPS, "acc f32", "acc f64", "acc = f64 is not what tensor cores add products of bf16 in"),
    (GROUPS, "by wgmma n 64", "by wgmma n 60", "8 to 256 columns, a multiple of 8, not 60"),
    (GROUPS, "by wgmma n 64", "by wgmma n 264", "8 to 256 columns, a multiple of 8, not 264"),
    (GROUPS, "by wgmma n 64", "by wgmma n 32", "are not held as `wgmma` with 32 columns leaves them"),
    (GROUPS, "warps 4:m16 2:m64", "warps 2:m64 4:m16", "are not held as `wgmma` with 64 columns leaves them"),
    (GROUPS, "holds 2:n1 2:m8", "holds 2:m8 2:n1", "are not held as `wgmma` with 64 columns leaves them"),
    (GROUPS, "by wgmma n 64", "order row", "fused multiply-adds multiply single elements"),
    (GROUPS, "As by descriptor", "As width 1 ahead 1", "must be read in the same way"),
    (GROUPS, "As by descriptor", "global by descriptor", "As must be both copied to and read"),
    (GROUPS, "unroll 64", "unroll 16", "are unrolled as a whole, not by 16"),
    (GROUPS, "steps 0..64 unroll 64", "steps 0..56 unroll 56", "multiplies 16 steps at once, which 56 from 0"),
    (GROUPS, "steps 0..64 unroll 64", "steps 8..64 unroll 56", "which 56 from 8 are not made of"),
    (GROUPS, "pitch 64 at 0 B swizzle 128 B", "pitch 64 at 0 B", "As is not swizzled in panels as wide as the span"),
    (GROUPS, "pitch 64 at 0 B swizzle 128 B", "pitch 64 at 0 B swizzle 64 B", "a row of a panel has 128 B"),
    (
        HALVES,
        "pitch 32 at 8192 B swizzle 64 B",
        "pitch 64 at 8192 B swizzle 128 B",
        "reads 32 of Bs, which are not whole",
    ),
    (GROUPS, "As by tma rows 128", "As by cp_async width 8 piece 8", "a is packed, and tma does not copy it"),
    // Panels.
    (GROUPS, "pitch 64 at 0 B swizzle 128 B", "pitch 32 at 0 B swizzle 64 B", ""),
    (GROUPS, "pitch 64 at 0 B", "pitch 48 at 0 B", "cannot have a pitch of 48, nor be cut into panels of it"),
    (STAGED, "pitch 8 at", "pitch 4 at", "only tma copies to panels, and the rows of As are cut into 2"),
    (SWIZZLED, "pitch 32 at 0 B swizzle 128 B", "pitch 16 at 0 B swizzle 64 B", "threads read whole rows"),
    // The text.
    (GROUPS, "retire but 1", "retire but", "expected"),
    (GROUPS, "by wgmma", "by mma", "expected the end of the line"),
    (STAGED, "module sm_80", "module sm_81", "`sm_81` is not a target"),
    (STAGED, "tile m 16", "tile m 99999999999", "does not fit 32 bits"),
    (STAGED, "types a f32", "types a f33", "`f33` is not a type"),
    (STAGED, "epilogue |acc| acc", "epilogue |acc| acc +", "an operand is missing"),
    (STAGED, "wait ab", "wait ab ab", "expected the end of the line"),
    (STAGED, "wait ab", "wait cd", "there is no ring `cd`"),
    (STAGED, "wait ab", "expect ab", "`expect` is not a statement"),
    (STAGED, "buffer Bs of b", "buffer As of b", "the name `As` is already taken"),
    (STAGED, "params a, b", "params a, a", "the parameter `a` is given twice"),
    (STAGED, "params a, b", "params a, q", "`q` is not a parameter"),
    (STAGED, "copy a[0] -> As", "copy b[0] -> As", "`As` is not a buffer of that operand"),
    // Extents and limits.
    (STAGED, "tile m 16", "tile m 0", "tile m is 0, and must be 1 to 32768"),
    (STAGED, "blocks_per_sm 32", "blocks_per_sm 33", "33 blocks of 64 threads exceed"),
    (STAGED, "params a, b, d, ", "params a, b, ", "the parameter `d` is given 0 times"),
    (STAGED, "ldd", "ldd, workspace", "nothing reads the parameter `workspace`"),
    (WITH_C, ", stride_d", "", "the parameter `stride_d` is given 0 times"),
    (STAGED, "group 16", "group 0", "the raster group is 0"),
    (STAGED, "along n", "along z", "the raster must run along n or m"),
    (SPLIT, "parts 2", "parts 0", "k has 0 parts"),
    (ASYNC, "persistent ", "persistent blocks 0 ", "the wave has 0 blocks"),
    (STREAM, "    persistent ", "    ;", "stream_k divides K-tiles among the blocks of a wave, and needs `persistent`"),
    (STREAM, "    stream_k ", "    stream_k 2 ", "expected the end of the line"),
    (
        "tile(16, 16, 8); thread(2, 2); double_buffer; stream_k; target(sm_80)",
        "        }\n        sync                                                             ; stream_k",
        "          sync\n        }",
        "of another tile",
    ),
    (STREAM, "    stream_k ", "    ;", "nothing reads the parameter `workspace`"),
    (STREAM, "reduce acc workspace", "reduce acc serial", "blocks of stream_k add up their sums in the `workspace`"),
    // Roles.
    (STAGED, "threads 0..64", "threads 1..64", "the first must be 0"),
    (STAGED, "threads 0..64", "threads 0..1056", "exceed the 2048 threads of a multiprocessor"),
    (ROLES, "threads 32..64", "threads 32..65", "which are not whole warps"),
    (STAGED, "      tiles {", "      sync\n      tiles {", "must be a single `tiles`"),
    // Buffers and rings.
    (STAGED, "[m 16][k 8]", "[m 16][k 16]", "As is 16 x 16, but the K-tile is 16 x 8"),
    (STAGED, "pitch 8 ", "pitch 7 ", "rows of 8 elements cannot have a pitch of 7"),
    (STAGED, "pitch 8 at 0 B", "pitch 8 at 0 B swizzle 48 B", "the span of a swizzle must be 32, 64 or 128 B"),
    (STAGED, "ring ab (As, Bs)", "ring ab (As)", "Bs is in 0 rings"),
    (STAGED, "ring ab (As, Bs)", "ring ab (As, Bs, As)", "lists a buffer twice"),
    (STAGED, "depth 2", "depth 0", "ab has 0 slots"),
    (STAGED, "slot 1024 B", "slot 1032 B", "not a multiple of 16"),
    (STAGED, "pitch 16 at 512 B", "pitch 16 at 520 B", "B, which is not a multiple of 16"),
    (STAGED, "pitch 16 at 512 B", "pitch 16 at 256 B", "shared memory from byte 256 to byte 512 is used twice"),
    (STAGED, "slot 1024 B", "slot 512 B", "is used twice"),
    (STAGED, "depth 2 slot 1024 B", "depth 64 slot 65536 B", "B of shared memory, but sm_80 has"),
    (ROLES, "mbarriers ab at", "; mbarriers ab at", "ab has no mbarriers"),
    (STAGED, "    accumulator", "    mbarriers ab at 2048 B\n    accumulator", "nothing uses the mbarriers of ab"),
    (ROLES, "mbarriers ab at 4608 B", "mbarriers ab at 4612 B", "must begin at a multiple of 8 B"),
    (ROLES, "mbarriers ab at 4608 B", "mbarriers ab at 4600 B", "is used twice"),
    (ROLES, "full mbarrier(32)", "full mbarrier(31)", "full after 31 arrivals, but 32 threads fill it"),
    (ROLES, "empty mbarrier(32)", "empty mbarrier(64)", "empty after 64 arrivals, but 32 threads read it"),
    (ROLES, "    raster group 16 along n", "    raster group 16 along n\n    persistent", ""),
    (BUDGET, "registers 40", "registers 41", "must have a multiple of 8 from 24 to 256"),
    (BUDGET, "registers 40", "registers 48", "ask for 65536 registers, and the block is launched with 64512"),
    (BUDGET, "      registers 40", "      ; 40", "role producers states no registers"),
    (BUDGET, "module sm_90a", "module sm_90", "registers of a role need sm_90a"),
    (BUDGET, "threads 256..384", "threads 256..288", "which are not whole warp groups"),
    // Tensor maps and boxes.
    (BOXED, "full mbarrier(1)", "full mbarrier(2)", "full after 2 arrivals, but 1 thread fills it"),
    (BOXED, "full mbarrier(1)", "full barrier", "only an mbarrier says when that is complete"),
    (BOXED, "-> Bs by tma rows 8", "-> Bs by cp_async width 4 piece 4", "filled by tma, and by threads as well"),
    (BOXED, "Bs by tma rows 8", "Bs by tma rows 3", "has 8 rows, which are not whole boxes of 3"),
    (BOXED, "[k 8][m 32] pitch 32", "[m 32][k 8] pitch 8", "tma does not transpose"),
    (BOXED, "depth 3 slot 2048 B", "depth 2 slot 2112 B", "with slots of 2112 B, not multiples of 128 B"),
    (BOXED, "params map_a", "params a", "the parameter `map_a` is given 0 times"),
    (BOXED, "module sm_90", "module sm_80", "sm_80 has no tensor memory accelerator"),
    (BOXED, "            sync", "            ; sync", "K-tile 0 is read, but As holds K-tile 3"),
    (BOXED, "            copy b[kt + 2]", "            sync\n            copy b[kt + 2]", "not allowed here"),
    (SWIZZLED, "swizzle 128 B", "swizzle 64 B", "tma swizzles rows of 64 B, and those of As have 128 B"),
    (SWIZZLED, "pitch 32 at 0 B", "pitch 31 at 0 B", "rows of 32 elements cannot have a pitch of 31"),
    (
        STAGED,
        "    accumulator",
        "    buffer Cs of a [m 16][k 8] pitch 8 at 4096 B\n    accumulator",
        "must be both copied to and read",
    ),
    (ROLES, "            meet pace", "            ; meet pace", "no statement uses pace"),
    (ROLES, "number 1 threads 32", "number 16 threads 32", "has number 16, and must have 1 to 15"),
    (ROLES, "number 1 threads 32", "number 1 threads 64", "is for 64 threads, but 32 use it"),
    (ROLES, "    barrier pace", "    barrier more number 1 threads 32\n    barrier pace", "no statement uses more"),
    // Accumulators.
    (STAGED, "threads 8:n2 8:m2", "threads 8:n2 8:m1", "not every one of the tile's 16 rows is held exactly once"),
    (STAGED, "holds 2:n1 2:m1", "holds 2:n2 2:m1", "columns is held exactly once"),
    (
        STAGED,
        "accumulator acc",
        "accumulator sum threads 8:n2 8:m2 holds 2:n1 2:m1\n    accumulator acc",
        "used by 0 roles",
    ),
    (STAGED, "threads 0..64", "threads 0..32", "distributed over 64 threads, but its role has 32"),
    // The stage of D.
    (OUT, "    stage of d", "    ; stage of d", "`stage` and `write` need a `stage of d`"),
    (OUT, "        write d", "        ; write d", "one `stage` and one `write`, not 1 and 0"),
    (
        OUT,
        "        stage acc",
        "        store acc -> d width 2\n        ; ",
        "one `stage` and one `write`, not 0 and 1",
    ),
    (OUT, "        stage acc", "        store acc -> d width 2\n        stage acc", "stored 2 times"),
    (OUT, "stage of d", "stage of c", "expected `d`, found `c`"),
    (OUT, "d pitch 20 at 0 B", "d pitch 0 at 0 B", "the stage of d has a pitch of 0"),
    (OUT, "d pitch 20 at 0 B", "d pitch 12 at 0 B", "lines of 16 elements cannot be cut into panels of 12"),
    (OUT, "d pitch 20 at 0 B", "d pitch 20 at 0 B swizzle 64 B", "a swizzle of 64 B needs panels"),
    (OUT, "d pitch 20 at 0 B", "d pitch 20 at 8 B", "begins at 8 B, which is not a multiple of 16"),
    (OUT, "d pitch 20 at 0 B", "d pitch 20 at 262144 B", "B of shared memory, but sm_80 has"),
    (OUT, "d pitch 20 at 0 B", "d pitch 17 at 0 B", "cannot write 2 f32 at a time with a pitch of 17"),
    (OUT, "d pitch 20 at 0 B", "d pitch 18 at 0 B", "cannot copy 4 f32 at a time from lines of 16"),
    (
        OUT_PLAIN,
        "        sync                                                             ; store(staged)\n        stage",
        "        stage",
        "of As is read, but a tile of D is in its memory",
    ),
    (OUT, "stage acc width 2", "stage acc width 4", "a thread holds 2 adjacent elements of D"),
    (OUT, "by registers width 4", "by registers width 3", "cannot copy 3 f32 at a time"),
    (OUT, "by registers width 4", "by tma rows 16", "the parameter `map_d` is given 0 times"),
    (OUT, "by registers width 4", "by hand width 4", "expected `registers` or `tma`"),
    (OUT, "        drain", "        ; drain", "staged while As may still be copied to or read"),
    (
        OUT,
        "        drain                                                            ; store(staged)\n        sync",
        "        drain",
        "staged while As may still be copied to or read",
    ),
    (
        OUT,
        "        sync                                                             ; store(staged)\n        write",
        "        write",
        "before all threads have staged",
    ),
    (
        OUT,
        "        sync                                                             ; persistent",
        "        ;",
        "a staged tile of D that may still be read",
    ),
    (OUT_BOXED, "module sm_90", "module sm_80", "sm_80 has no tensor memory accelerator"),
    (OUT_BOXED, "d pitch 32 at 6144 B swizzle 128 B", "d pitch 32 at 6144 B", ""),
    (OUT_BOXED, "d pitch 32 at 6144 B swizzle 128 B", "d pitch 16 at 6144 B swizzle 64 B", ""),
    (OUT_BOXED, "d pitch 32 at 6144 B swizzle 128 B", "d pitch 36 at 6144 B", "tma copies lines without gaps"),
    (
        OUT_BOXED,
        "d pitch 32 at 6144 B swizzle 128 B",
        "d pitch 2 at 6144 B",
        "cannot write 4 f32 at a time with a pitch of 2",
    ),
    (OUT_BOXED, "d pitch 32 at 6144 B", "d pitch 32 at 6272 B", "begins at 6272 B, which is not a multiple of 1024"),
    (OUT_BOXED, "d pitch 32 at 6144 B", "d pitch 32 at 8192 B", "bytes 8192 to 12288, covers mbarriers"),
    (OUT_BOXED, "d pitch 32 at 6144 B", "d pitch 32 at 0 B", "staged while As may still be copied to or read"),
    (OUT_BOXED, "d by tma rows 32", "d by tma rows 12", "32 lines, which are not whole boxes of 12"),
    (OUT_BOXED, "d by tma rows 32", "d by tma rows 4", "do not begin at multiples of 1024 B"),
    (OUT_BOXED, "d by tma rows 32", "d by tma rows 0", "not whole boxes of 0"),
    (OUT_BOXED, "d by tma rows 32", "d by registers width 4", "the parameter `d` is given 0 times"),
    (
        OUT_BOXED,
        "        meet store                                                       ; store(tma)\n        stage",
        "        stage",
        "the previous one may still be read",
    ),
    (OUT_BOXED, "        settle", "        ; settle", "the previous one may still be read"),
    (
        OUT_BOXED,
        "      }\n      settle",
        "      }\n      ; settle",
        "the block ends while tma may still read the tile of D",
    ),
    (OUT_BOXED, "      }\n      settle", "      }\n      sync", "single `tiles`, which `settle` may follow"),
    (
        OUT_BOXED,
        "        meet store                                                       ; store(tma)\n        write",
        "        write",
        "before all threads have staged",
    ),
    (
        OUT_BOXED,
        "        meet store                                                       ; store(tma)\n        stage",
        "        sync\n        stage",
        "waits forever",
    ),
    (
        OUT_SPLIT,
        "        reduce acc serial {",
        "        stage acc width 1\n        reduce acc serial {",
        "one `stage` and one `write`, not 2 and 1",
    ),
    (
        OUT_SPLIT,
        "          write d by registers width 4                                   ; store(staged)\n        }",
        "        }\n        write d by registers width 4",
        "D is written outside the reduction",
    ),
    (
        "tile(32, 32, 8); thread(4, 4); vector(4); load(tma); stages(2); persistent(2); store(staged)",
        "        write d by registers width 4                                     ; store(staged)\n        sync",
        "        sync\n        write d by registers width 4",
        "a staged tile of D that may still be read",
    ),
    (
        OUT_SPLIT,
        "reduce acc serial",
        "reduce acc workspace",
        "only one of the blocks that share a tile reaches this statement",
    ),
    // Copies and steps.
    (
        STAGED,
        "As by registers width 2",
        "As by registers width 3",
        "cannot copy 3 elements of 4 B at a time from rows of 8",
    ),
    (
        STAGED,
        "As by registers width 2 store 2",
        "As by registers width 2 store 4",
        "cannot store 4 of 2 elements at a time",
    ),
    (
        STAGED,
        "copy a[kt + 1] -> As by registers width 2 store 2",
        "copy a[kt + 1] -> As by registers width 2 store 1",
        "must use the same mechanism",
    ),
    (STAGED, "by registers width 2 store 2", "by cp_async width 2 piece 2", "read before its copies are complete"),
    (STAGED, "steps 0..8", "steps 0..9", "steps 0..9 do not fit a K-tile of 8"),
    (STAGED, "steps 0..8 unroll 8", "steps 0..8 unroll 3", "8 steps cannot be unrolled by 3"),
    (STAGED, "fetch b <- Bs width 2", "fetch b <- Bs width 4", "a thread has 2 adjacent ones"),
    (
        STAGED,
        "fetch a <- As width 2 ahead 0",
        "fetch a <- As width 2 ahead 1",
        "groups of 2 steps cannot be read 1 steps ahead",
    ),
    (DIRECT, "fetch b <- global width 2", "fetch a <- global width 1", "one fragment of A and one of B"),
    (STAGED, "fetch b <- Bs width 2 ahead 1", "fetch b <- Bs width 1 each product", "must be read in the same way"),
    (DIRECT, "steps all unroll 4", "steps all unroll 2", "unrolled by 2, but the tile's k is 4"),
    (DIRECT, "steps all", "steps 0..4", "the steps of a K-tile fetches from a buffer"),
    (STAGED, "-> d width 2", "-> d width 4", "D is stored 4 f32 at a time, but a thread holds 2"),
    (WITH_C, "c width 1", "c width 4", "C is read 4 f32 at a time"),
    // Order.
    (
        ASYNC,
        "acquire ab                                                     ; stages(3)\n          copy a[0]",
        "copy a[0]",
        "outside acquire and commit",
    ),
    (STAGED, "acquire ab", "; acquire ab", "ab is never acquired: there is no `acquire ab`"),
    (STAGED, "commit ab", "; commit ab", "ab is never committed: there is no `commit ab`"),
    (STAGED, "wait ab", "; wait ab", "ab is never waited for: there is no `wait ab`"),
    (STAGED, "release ab", "; release ab", "ab is never released: there is no `release ab`"),
    (STAGED, "copy a[kt + 1]", "copy a[kt + 2]", "K-tiles must be copied in order"),
    (STAGED, "copy a[0]", "copy a[kt]", "the K-tile must be a constant before the loop"),
    (STAGED, "empty next_wait", "empty barrier", ""),
    (SPLIT, "full barrier empty barrier", "full barrier empty next_wait", "K-tile 0 is read, but"),
    (
        STAGED,
        "            wait ab                                                      ; double_buffer\n            acquire ab",
        "            acquire ab\n            wait ab",
        "acquired while it may still be read",
    ),
    (ASYNC, "depth 3", "depth 2", "K-tile 0 is read, but"),
    (ASYNC, "copy_groups(1)", "copy_groups(2)", "read before its copies are complete"),
    (ASYNC, "        drain", "        ; drain", "while a copy into it is in flight"),
    (ASYNC, "        sync", "        ; sync", "of another tile"),
    (STAGED, "        clear acc", "        ; clear acc", "acc is read before it is cleared"),
    (STAGED, "        store acc", "        ; store acc", "stored 0 times"),
    (
        STAGED,
        "        if_any_k {",
        "        store acc -> d width 2
        if_any_k {",
        "stored 2 times",
    ),
    (DIRECT, "        store acc", "        clear acc\n        store acc", "0 times instead of once"),
    (DIRECT, "        clear acc", "        clear acc\n        promote acc into acc", "promoted into itself"),
    (SPLIT, "    parts 2", "    ; parts 2", "nothing reads the parameter `workspace`"),
    (
        SPLIT,
        "        reduce acc serial {",
        "        store acc -> d width 1
        reduce acc serial {",
        "the tile is stored before",
    ),
    (DIRECT, "        store acc", "        sync\n        store acc", ""),
];

fn printed(schedule: &str) -> String {
    let plan = schedule.parse::<ptx_gemm_dsl::Schedule>().unwrap().plan(None).unwrap();
    let mut module = tile::build::build(&plan);
    module.entries.truncate(1);
    print(&module)
}

#[test]
fn each_rule_has_a_program_that_breaks_it() {
    let mut wrong = Vec::new();
    let more = [
        arrival::ROWS,
        clusters::ROWS,
        exchange::ROWS,
        flight::ROWS,
        grain::ROWS,
        lent::ROWS,
        planes::ROWS,
        problem::ROWS,
        turns::ROWS,
    ];
    for (schedule, from, to, expected) in ROWS.iter().chain(more.into_iter().flatten()) {
        let text = printed(schedule);
        if !text.contains(from) {
            wrong.push(format!("`{from}` is not in the program of `{schedule}`"));
            continue;
        }
        match (compile_text(&text.replace(from, to), None), *expected) {
            (Ok(_), "") => {}
            (Ok(_), _) => wrong.push(format!("`{from}` -> `{to}` is accepted, expected `{expected}`")),
            (Err(errors), "") => wrong.push(format!("`{from}` -> `{to}` is rejected: {errors}")),
            (Err(TextErrors(errors)), _) => {
                if !errors.iter().any(|e| e.message.contains(expected) && e.line > 0) {
                    wrong.push(format!("`{from}` -> `{to}`: {errors:?}, expected `{expected}`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_absent_statements_of_a_ring_are_named() {
    let text = printed(STAGED).replace("wait ab", "; wait").replace("commit ab", "; commit");
    let errors = compile_text(&text, None).unwrap_err().to_string();
    let expected = "ab is never committed nor waited for: there is no `commit ab` and no `wait ab`";
    assert!(errors.contains(expected), "{errors}");
}

#[test]
fn entries_share_the_kernel_that_packs() {
    let plan = PACKED.parse::<ptx_gemm_dsl::Schedule>().unwrap().plan(None).unwrap();
    let text = print(&tile::build::build(&plan)).replacen("[m 64] threads 256", "[m 64] threads 128", 1);
    let errors = compile_text(&text, None).map(|_| "compiled").unwrap_err().to_string();
    assert!(errors.contains("a is packed in two ways, and its kernel is shared"), "{errors}");
}

/// Steps that are multiplied twice or never, and terms that are added to sums that are never stored.
#[test]
fn every_term_is_summed_once() {
    let by_hand = include_str!("../../examples/tile/two_sums.tile");
    let rows = [
        ("steps 4..8", "steps 0..4", "of K-tile 0 2 times instead of once"),
        ("multiply high", "multiply low", ""),
        ("promote high into low", "promote low into high", "0 times instead of once"),
        ("promote high into low", "; nothing", "0 times instead of once"),
        ("promote high into low", "promote high into low\n        promote high into low", ""),
        ("store low", "store high", "0 times instead of once"),
        ("clear high", "clear low", "before it is cleared"),
    ];
    for (from, to, expected) in rows {
        assert!(by_hand.contains(from), "{from}");
        match (compile_text(&by_hand.replace(from, to), None), expected) {
            (Ok(_), "") => {}
            (Ok(_), _) => panic!("`{from}` -> `{to}` is accepted"),
            (Err(errors), expected) => {
                assert!(errors.to_string().contains(expected) && !expected.is_empty(), "`{from}` -> `{to}`: {errors}");
            }
        }
    }
}

/// Texts that are not programs are rejected with a position.
#[test]
fn hostile_texts_are_refused() {
    let deep = format!("{}{}", printed(STAGED).split("tiles {").next().unwrap(), "tiles {\n".repeat(500));
    let long = format!("module sm_80 {{\n{}", "; a note\n".repeat(20_000));
    let cases = ["", "module", "module sm_80 {", "}", "{", ";", "module sm_80 {\n}", "\u{0}", "é", &deep, &long];
    for text in cases {
        let errors = compile_text(text, None).expect_err("it is not a program");
        assert!(errors.0.iter().all(|e| e.line > 0 && e.column > 0) && !errors.0.is_empty(), "{text:?}");
    }
    // Numbers that overflow everything that is computed from them.
    for (from, number) in [("m 16", "m 4294967295"), ("depth 2", "depth 4294967295"), ("slot 1024", "slot 4294967280")]
    {
        assert!(compile_text(&printed(STAGED).replace(from, number), None).is_err(), "{number}");
    }
    let text = printed(STAGED);
    for number in ["0", "1", "4294967295"] {
        let numbers = text.match_indices(|c: char| c.is_ascii_digit()).count();
        for at in 0..numbers {
            let position = text.match_indices(|c: char| c.is_ascii_digit()).nth(at).unwrap().0;
            let edited = format!("{}{number}{}", &text[..position], &text[position + 1..]);
            // It may compile; it must not panic.
            let _ = compile_text(&edited, None);
        }
    }
}
