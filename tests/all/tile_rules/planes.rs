//! The rules of planes.

use super::{DIRECT, GROUP, PACKED};

/// The text between the names of two fetched buffers.
macro_rules! fetched {
    () => {
        " by descriptor                               ; shared(a = mk + swizzle(64), b = kn + swizzle(128))\n              fetch b <- "
    };
}

const PLANES: &str = "emulate(bf16x6); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
                      specialize(producers = 1 warp); persistent";
const ALL: &str = "emulate(bf16x9); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
                   specialize(producers = 1 warp)";
const COARSE: &str = "types(a = e4m3, b = e4m3, d = f32); layout(b = col); tile(64, 64, 64); warp(32, 32); \
                      atom(mma(16, 8, 32)); promote(every = 64)";
const TOGETHER: &str = "emulate(bf16x6); promote(every = 32); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
                        specialize(producers = 1 warp); persistent";
/// Where planes 1 of both are multiplied, and another plane of A in its place.
const FIRST_PLANES: &str = concat!("As1", fetched!(), "Bs1");
const SECOND_OF_A: &str = concat!("As2", fetched!(), "Bs1");
const ZEROTH_OF_A: &str = concat!("As0", fetched!(), "Bs1");
const COMPENSATED: &str = "emulate(bf16x6); promote(every = 32, compensated); tile(64, 64, 32); atom(wgmma(64, 64, 16)); \
                           load(tma); stages(3); specialize(producers = 1 warp); persistent";
const SCALED: &str = "emulate(f16x3); tile(64, 64, 64); warp(32, 32); atom(mma(16, 8, 16)); load(tma); stages(3)";
const COPIED: &str = "emulate(bf16x6); tile(64, 64, 32); warp(32, 32); atom(mma(16, 8, 16)); load(cp_async); stages(3)";

/// As [`super::ROWS`].
pub(super) const ROWS: &[(&str, &str, &str, &str)] = &[
    (
        PLANES,
        "a 1 b 0, a 0 b 1, a 0 b 0",
        "a 0 b 0, a 1 b 0, a 0 b 1",
        "planes 0 and 0 come before the smaller ones of 1 and 0",
    ),
    (PLANES, "a 1 b 1, ", "", "the products of planes 1 of A and 1 of B are missing"),
    (PLANES, "a 0 b 1, a 0 b 0", "a 0 b 1", "the products of planes 0 of A and 0 of B are missing"),
    (PLANES, "a 1 b 1", "a 2 b 0", "planes 2 of A and 0 of B are multiplied twice"),
    (PLANES, "a 2 b 0", "a 3 b 0", "planes 3 of A and 0 of B are not among the 3 of each"),
    (PLANES, "pairs a 2 b 0", "pairs a 2 b 1, a 2 b 0", "plane 2 is multiplied by first planes alone"),
    (PLANES, "pairs a 2 b 0, a 1 b 1, a 0 b 2", "pairs a 0 b 2, a 1 b 1, a 2 b 0", ""),
    (PLANES, "    walk ", "    ; ", "no `walk` says in which order they are multiplied"),
    (PLANES, "    walk ", "    walk chunk 64 pairs a 0 b 0\n    walk ", "the planes are given an order already"),
    (PLANES, "chunk 128", "chunk 100", "a chunk of 100 is not made of K-tiles of 64"),
    (PLANES, "chunk 128", "chunk 256", ""),
    (PLANES, "chunk 128", "chunk 8192", "at most 4096 of k"),
    (
        PLANES,
        "pack a [m 64][k 64] threads 256 planes 3 bf16",
        "pack a [m 64][k 64] threads 256",
        "both operands are split into planes",
    ),
    (PLANES, "planes 3 bf16", "planes 5 bf16", "f32 operands have 2 to 4 planes of f16 or bf16"),
    (PLANES, "planes 3 bf16", "planes 3 f32", "f32 operands have 2 to 4 planes of f16 or bf16"),
    (PLANES, "planes 3 bf16", "planes 4 bf16", "the products of planes 3 of A and 3 of B are missing"),
    (ALL, "a 3 b 3, ", "", "the products of planes 3 of A and 3 of B are missing"),
    (ALL, "a 1 b 3, ", "", "the products of planes 1 of A and 3 of B are missing"),
    (ALL, "a 3 b 1", "a 2 b 1", "plane 2 is multiplied by first planes alone"),
    (ALL, "a 2 b 0", "a 3 b 0", "plane 2 is multiplied by first planes alone"),
    (ALL, "a 3 b 3, a 3 b 1", "a 3 b 1, a 3 b 3", "come before the smaller ones of 3 and 3"),
    (PLANES, "planes 3 bf16", "planes 3 f16", "the parameter `scales_a` is given 0 times"),
    (PLANES, "promote part into acc", "; nothing", "0 times instead of once"),
    (
        PLANES,
        "        store acc -> d",
        "        if_chunk_ends {\n        }\n        store acc -> d",
        "`if_chunk_ends` is a statement of the loop over them",
    ),
    (PLANES, "promote part into acc", "promote part into acc\n              promote part into acc", ""),
    (PLANES, "        store acc -> d", "        promote part into acc\n        store acc -> d", ""),
    (
        PLANES,
        "        store acc -> d",
        "        promote part into acc\n        store part -> d",
        "0 times instead of once",
    ),
    (COPIED, "        store acc -> d", "        promote part into acc\n        store acc -> d", ""),
    (PLANES, "promote part into acc", "promote acc into part", "instead of once"),
    (PLANES, "\n              retire ", "\n              ; retire ", "part is used while products are added to it"),
    (PLANES, "multiply part", "multiply acc", "acc has products of the chunk before this one"),
    (COARSE, "chunk 64", "chunk 128", "chunks of 128 end with no `if_chunk_ends`"),
    (TOGETHER, "chunk 32", "chunk 64", "slots have all planes of a K-tile of 32, and chunks of 64 are others"),
    (TOGETHER, "of a plane 2", "of a plane 1", "is not of one of the 3 planes, or another buffer is of the same"),
    (TOGETHER, "of a plane 2", "of a plane 3", "As2 is not of one of the 3 planes"),
    (TOGETHER, "buffer As2 of a plane 2", "buffer As2 of a", "As2 is not of one of the 3 planes"),
    (TOGETHER, FIRST_PLANES, SECOND_OF_A, "planes are multiplied that are no pair of the `walk`"),
    (TOGETHER, FIRST_PLANES, ZEROTH_OF_A, "has no products of the pair of planes before this one"),
    (TOGETHER, "fetch a <- As2", "fetch a <- As1", "As2 must be both copied to and read"),
    (TOGETHER, "copy a[kt] -> As2 by tma rows 64", "; nothing", "copied"),
    (
        TOGETHER,
        "-> As2 by tma rows 64",
        "-> As2 by tma rows 32",
        "and to other planes of its operand must use the same mechanism",
    ),
    (TOGETHER, "promote part into acc", "; nothing", "0 times instead of once"),
    (TOGETHER, "\n            retire ", "\n            ; retire ", "part is used while products are added to it"),
    (TOGETHER, "a 1 b 1, ", "", "the products of planes 1 of A and 1 of B are missing"),
    (COMPENSATED, "add rest to acc", "; nothing", "the rounding errors of acc have not been added to it"),
    (COMPENSATED, "add rest to acc", "add rest to part", "the rounding errors of another sum are added"),
    (COMPENSATED, "add rest to acc", "add rest to rest", "a set of accumulators cannot be added to itself"),
    (COMPENSATED, "add rest to acc", "add part to acc", "part has been promoted, and holds its old products"),
    (COMPENSATED, "into acc rest rest", "into acc rest acc", "rounding errors need a set of accumulators of their own"),
    (
        COMPENSATED,
        "into acc rest rest",
        "into acc rest part",
        "rounding errors need a set of accumulators of their own",
    ),
    (
        COMPENSATED,
        "add rest to acc",
        "add rest to acc\n        add part to acc",
        "part has been promoted, and holds its old products until the next ones",
    ),
    (COMPENSATED, "add rest to acc", "add rest to acc\n        add rest to acc", "rest is used before it is cleared"),
    (
        COMPENSATED,
        "add rest to acc",
        "clear rest\n        add rest to acc",
        "rest is cleared before its rounding errors are added",
    ),
    (COMPENSATED, "clear rest", "; nothing", "rest is used before it is cleared"),
    (PLANES, "entry gemm_tma_v2", "entry split_b", "split_b is the name of a kernel that packs"),
    (
        GROUP,
        "            wait ab",
        "            if_chunk_ends {\n            }\n            wait ab",
        "k has no chunks: there is no `walk`",
    ),
    (SCALED, "entry gemm_tma_v2", "entry scale_b", "scale_b is the name of a kernel that packs"),
    (SCALED, ", scales_b", "", "the parameter `scales_b` is given 0 times instead of once"),
    (SCALED, "promote part into acc", "; nothing", "0 times instead of once"),
    (COPIED, "buffer As of a", "buffer As of a plane 0", "only tma copies all planes of a K-tile to one slot"),
    (COPIED, "params packed_a", "params a", "the parameter `packed_a` is given 0 times instead of once"),
    (COPIED, "params ", "params lda, ", "nothing reads the parameter `lda`"),
    (COPIED, "pack a [m 64][k 64]", "pack a [k 64][m 64]", "cannot store 8 of 8 elements at a time, across"),
    (COPIED, "by cp_async width 8 piece 8", "by cp_async width 1 piece 1", "no asynchronous copy of 2 B"),
    (COPIED, "promote part into acc", "; nothing", "0 times instead of once"),
    (COPIED, "multiply part", "multiply acc", "acc has products of the chunk before this one"),
    (
        DIRECT,
        "a, b, d, m, n, k, lda, ldb, ldd\n    raster group 16 along n",
        "packed_a, b, d, m, n, k, ldb, ldd\n    raster group 16 along n\n    pack a [m 64][k 64] threads 256 planes 3 bf16",
        "a is split into planes, and they are not copied",
    ),
    (PACKED, "params ", "params scales_a, ", "nothing reads the parameter `scales_a`"),
];
