//! The rules of sums that the blocks of a cluster exchange.

const PARTS: &str = "tile(16, 16, 8); thread(2, 2); vector(4); split_k(4, reduce = cluster); target(sm_90)";
const COLUMNS: &str = "types(bf16); layout(d = col); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
                       specialize(producers = 1 warp); split_k(2, reduce = cluster)";
const WITH_C: &str =
    "tile(16, 16, 8); thread(2, 2); vector(4); split_k(2, reduce = cluster); epilogue(|acc, c| acc + c); target(sm_90)";
const PIPED: &str = "tile(16, 16, 8); thread(2, 2); double_buffer; split_k(4, reduce = cluster); target(sm_90)";
const PLAIN: &str = "tile(16, 16, 8); thread(2, 2); target(sm_90)";
const NARROW: &str =
    "types(f16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2); split_k(2, reduce = cluster)";

/// As [`super::ROWS`].
pub(super) const ROWS: &[(&str, &str, &str, &str)] = &[
    (PARTS, "parts 4 cluster", "parts 8 cluster", ""),
    (PARTS, "parts 4 cluster", "parts 1 cluster", "a cluster has 2 to 8 parts of k, not 1"),
    (PARTS, "parts 4 cluster", "parts 9 cluster", "a cluster has 2 to 8 parts of k, not 9"),
    (PARTS, "parts 4 cluster", "parts 3 cluster", "a block stores 6 of 16 lines, and its threads have 4 of them"),
    (PARTS, "parts 4 cluster", "parts 4", "blocks exchange sums that are no `parts` of a `cluster`"),
    (PARTS, "parts 4 cluster", "parts 4 blocks", "expected the end of the line"),
    (PARTS, "module sm_90", "module sm_80", "sm_80 has no clusters"),
    (
        PARTS,
        "    parts 4",
        "    persistent\n    parts 4",
        "a block that goes on to its next tile would overwrite sums that others read",
    ),
    (
        COLUMNS,
        "    parts 2",
        "    cluster m 2, n 1\n    parts 2",
        "a cluster has the parts of one tile, or several tiles",
    ),
    (
        PARTS,
        "    exchange threads",
        "    ; exchange threads",
        "the parts of a cluster need an `exchange` of their sums",
    ),
    (PLAIN, "store acc -> d width 1", "share acc width 1", "`share` needs an `exchange`"),
    (PARTS, "share acc width 2", "store acc -> d width 1", "an exchange needs one `share`, not 0"),
    (
        PARTS,
        "        share acc width 2",
        "        share acc width 1\n        share acc width 2",
        "an exchange needs one `share`, not 2",
    ),
    (
        PARTS,
        "share acc width 2",
        "reduce acc serial {\n      }\n      share acc width 2",
        "the blocks of a cluster `share` their sums",
    ),
    (
        PLAIN,
        "store acc -> d width 1",
        "reduce acc cluster {\n        }\n        store acc -> d width 1",
        "the blocks of a cluster `share` their sums",
    ),
    (
        PARTS,
        "share acc width 2",
        "share acc width 4",
        "a thread holds 2 adjacent sums, and cannot write 4 f32 at a time with a pitch of 24",
    ),
    (PIPED, "        sync ", "        ; nothing ", "slot 0 of As is read, but nothing filled it"),
    (COLUMNS, "        meet share ", "        ; nothing ", "no statement uses share"),
    (COLUMNS, "          retire  ", "          ; nothing ", "`retire` waits for them"),
    (
        PARTS,
        "threads 4:n4 4:m1 holds 4:n1",
        "threads 4:n4 4:m1 holds 2:n1",
        "not every one of the tile's 16 columns is held exactly once",
    ),
    (
        PARTS,
        "threads 4:n4 4:m1 holds 4:n1",
        "threads 4:n4 2:m1 holds 4:n1",
        "a block stores 4 of 16 lines, and its threads have 2 of them",
    ),
    (PARTS, "threads 4:n4 4:m1 holds 4:n1", "threads 4:n4 2:m1 holds 4:n1 2:m2", ""),
    (PARTS, "threads 4:n4 4:m1 holds 4:n1", "threads 4:n4 8:m1 holds 4:n1", ""),
    (
        PARTS,
        "threads 4:n4 4:m1 holds 4:n1",
        "threads 4:n4 32:m1 holds 4:n1",
        "128 threads add up sums, and a block has 64",
    ),
    (PARTS, "pitch 24 at 0 B", "pitch 12 at 0 B", "lines of 16 sums do not fit a pitch of 12"),
    (PARTS, "pitch 24 at 0 B", "pitch 24 at 8 B", "sums begin at 8 B, which is not a multiple of 16"),
    (PARTS, "pitch 24 at 0 B", "pitch 24 at 4096 B", ""),
    (COLUMNS, "pitch 68 at 0 B", "pitch 68 at 40960 B", "what blocks exchange, bytes 40960 to 58352, covers mbarriers"),
    (PARTS, "-> d width 4", "-> d width 8", "D is stored 8 f32 at a time, but a thread holds 4 adjacent ones"),
    (PARTS, "-> d width 4", "-> d width 2", ""),
    (WITH_C, "c width 4", "c width 8", "C is read 8 f32 at a time, but a thread holds 4 adjacent ones"),
    (NARROW, "acc f32", "acc f16", "blocks exchange sums that have a register each, and two of f16 share one"),
    (PARTS, "params a, b, d", "params workspace, a, b, d", "nothing reads the parameter `workspace`"),
    (PARTS, "-> d width 4", "-> c width 4", "expected `d`"),
];
