//! The rules of tiles that are narrowed to the columns that they need.

const NARROW: &str = "types(bf16); transposed; tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                      specialize(producers = 1); store(tma); batch(grouped)";
const MULTICAST: &str = "types(bf16); transposed; tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                         specialize(producers = 1); store(direct); cluster(2, 1); multicast(b); batch(grouped)";
const UNEQUAL: &str = "types(bf16); transposed; tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                       specialize(producers = 1); store(direct); cluster(3, 1); multicast(b); batch(grouped)";
const HALVES: &str = "types(bf16); transposed; tile(64, 128, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
                      specialize(producers = 1); store(direct); batch(grouped)";
const SHARED: &str = "types(bf16); transposed; tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                      specialize(producers = 1); store(direct); cluster(1, 2); batch(grouped)";
const STREAM: &str = "types(bf16); transposed; tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                      specialize(producers = 1); store(direct); stream_k; batch(grouped)";
const ROWS_OF_B: &str = "types(bf16); layout(a = col); transposed; tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); \
                         stages(3); specialize(producers = 1); store(direct); batch(grouped)";
const ROWS_OF_D: &str = "types(bf16); layout(d = col); transposed; tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); \
                         stages(3); specialize(producers = 1); store(tma); batch(grouped)";
const WHOLE: &str = "types(bf16); layout(b = col); tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                     specialize(producers = 1); persistent; tail(none)";
const PLANES: &str = "emulate(bf16x6); layout(b = col); tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                      specialize(producers = 1); persistent";
const TURNS: &str = "types(bf16); transposed; tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                     specialize(producers = 1, pingpong); batch(grouped)";
const PACED: &str = "types(bf16); transposed; tile(128, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                     specialize(producers = 1); pace(tile); batch(grouped)";

/// As [`super::ROWS`].
pub(super) const ROWS: &[(&str, &str, &str, &str)] = &[
    (NARROW, "grain 16", "grain 8", ""),
    (PACED, "grain 16", "grain 32", ""),
    (NARROW, "grain 16", "grain 64", ""),
    (NARROW, "grain 16", "", ""),
    (NARROW, "grain 16", "grain 0", "128 columns are not made of parts of 0"),
    (NARROW, "grain 16", "grain 4", "128 columns are not made of parts of 4, or these not a multiple of 8"),
    (NARROW, "grain 16", "grain 48", "128 columns are not made of parts of 48"),
    (NARROW, "grain 16", "grain 256", "128 columns are not made of parts of 256"),
    (NARROW, "write d by tma rows 128", "write d by tma rows 64", "boxes of D have all columns of a tile"),
    (NARROW, "Bs by tma rows 128", "Bs by tma rows 64", ""),
    (
        NARROW,
        "Bs by tma rows 128",
        "Bs by tma rows 4",
        "16 columns are not divided among 32 boxes of Bs, in multiples of 128 B each",
    ),
    (MULTICAST, "grain 16", "grain 8", ""),
    (
        UNEQUAL,
        "wgmma n 128",
        "wgmma n 128 grain 32",
        "3 blocks cannot share 4 boxes of Bs equally, which narrower tiles need",
    ),
    (HALVES, "wgmma n 64", "wgmma n 64 grain 16", "narrower products are of all columns of a tile at once"),
    (
        SHARED,
        "wgmma n 128",
        "wgmma n 128 grain 16",
        "blocks that share columns or K-tiles have tiles of the same columns",
    ),
    (
        STREAM,
        "wgmma n 128",
        "wgmma n 128 grain 16",
        "blocks that share columns or K-tiles have tiles of the same columns",
    ),
    (
        ROWS_OF_B,
        "wgmma n 128",
        "wgmma n 128 grain 16",
        "boxes of B begin at any column, and must be contiguous along k",
    ),
    (ROWS_OF_D, "wgmma n 128", "wgmma n 128 grain 16", "boxes of D have all columns of a tile"),
    (WHOLE, "wgmma n 128", "wgmma n 128 grain 16", "with `tail none` every tile has all columns"),
    (PLANES, "wgmma n 128", "wgmma n 128 grain 16", "products of planes have all columns"),
    (TURNS, "wgmma n 128", "wgmma n 128 grain 16", "groups of threads that take turns have tiles of different columns"),
];
