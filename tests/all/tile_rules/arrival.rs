//! The rules of a C that TMA copies to the tile of D.

use super::lent::refused;

/// C is ignored where `beta` is 0.
const LOADED: &str = "types(bf16); tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma, c = tma); stages(3); \
                      specialize(producers = 1); persistent; store(tma); epilogue(|acc, c, beta| acc + beta * c)";
/// It is always read.
const ALWAYS: &str = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma, c = tma); stages(3); \
                      specialize(producers = 1, pingpong); persistent; store(tma); epilogue(|acc, c| acc + c)";
const ONCE: &str = "tile(32, 32, 8); thread(4, 4); vector(4); load(tma, c = tma); stages(3); specialize(producers = 1 warp); \
                    store(tma); epilogue(|acc, c, beta| acc + beta * c)";

/// As [`super::ROWS`].
pub(super) const ROWS: &[(&str, &str, &str, &str)] = &[
    // What is declared is used, once.
    (LOADED, "    arrival of c", "    ; arrival of c", "C passes through the stage of d, and needs an `arrival of c`"),
    (LOADED, "    arrival of c", "    arrival of c at 91200 B\n    arrival of c", "C has an arrival already"),
    (LOADED, "        prefetch c", "        ; prefetch c", "one `stage` with `c staged`, not 0, 1 and 1"),
    (LOADED, "        await c", "        ; await c", "one `stage` with `c staged`, not 1, 0 and 1"),
    (LOADED, "        await c", "        await c\n        await c", "one `stage` with `c staged`, not 1, 2 and 1"),
    (LOADED, "c staged", "c width 2", "one `stage` with `c staged`, not 1, 1 and 0"),
    (LOADED, "map_c, ", "", "the parameter `map_c` is given 0 times instead of once"),
    (LOADED, "map_c, ", "map_c, c, ", "nothing reads the parameter `c`"),
    // Where C and its mbarrier are.
    (LOADED, "arrival of c at 91184 B", "arrival of c at 91188 B", "mbarriers must begin at a multiple of 8 B"),
    (LOADED, "arrival of c at 91184 B", "arrival of c at 91176 B", "is used twice"),
    (LOADED, "arrival of c at 91184 B", "arrival of c at 81920 B", "covers mbarriers"),
    (LOADED, "arrival of c at 91184 B", "arrival of c at 91192 B", ""),
    (LOADED, "of d pitch 64 at 73728 B", "of d pitch 64 at 0 B", "to a stage of d outside their slots"),
    (LOADED, "of d pitch 64 at 73728 B", "of d pitch 64 in ab", "to a stage of d outside their slots"),
    (LOADED, "prefetch c by tma rows 64", "prefetch c by tma rows 48", "64 lines, which are not whole boxes of 48"),
    (LOADED, "prefetch c by tma rows 64", "prefetch c by tma rows 32", ""),
    (LOADED, "c bf16", "c f32", "f32 elements of c cannot be in the places of bf16 elements of d"),
    (LOADED, "c bf16", "c f16", ""),
    (LOADED, "b row, c row", "b row, c col", "size and layout differ"),
    (
        LOADED,
        "    persistent ",
        "    persistent\n    parts 2 ; ",
        "only the block that adds up the parts of a tile reads C",
    ),
    // Who copies and reads it, and when.
    (LOADED, "        settle", "        ; settle", "C is copied to the stage while the previous tile of D is there"),
    (ALWAYS, "        settle", "        ; settle", "C is copied to the stage while the previous tile of D is there"),
    (ONCE, "        settle", "        ; settle", "the block ends while tma may still read the tile of D"),
];

#[test]
fn threads_wait_for_c_before_they_replace_it() {
    const AWAIT: &str = "        await c\n";
    const STAGE: &str = "        stage acc by matrices c staged\n";
    const MEET: &str = "        meet store\n";
    const WRITE: &str = "        write d by tma rows 64\n";
    const PREFETCH: &str = "        prefetch c by tma rows 64\n";
    let late = format!("{STAGE}{AWAIT}");
    for schedule in [LOADED, ALWAYS] {
        refused(schedule, "C is read in the stage before `await c`", &[(AWAIT, ""), (STAGE, &late)]);
        // A thread that waits for copies that it starts later.
        let early = format!("{AWAIT}{PREFETCH}");
        refused(schedule, "this statement waits forever", &[(AWAIT, ""), (PREFETCH, &early)]);
        let (met, unmet) = (format!("{STAGE}{MEET}{WRITE}"), format!("{STAGE}{WRITE}{MEET}"));
        refused(schedule, "D is written before all threads have staged", &[(&met, &unmet)]);
    }
    // The copies show that the stage is free, unless `beta` is 0 and they are not started.
    let first = format!("{AWAIT}{MEET}");
    refused(LOADED, "a tile of D is staged while the previous one may still be read", &[(&first, AWAIT)]);
    let producers =
        ("      tiles {\n        if_any_k {", "      tiles {\n        prefetch c by tma rows 64\n        if_any_k {");
    refused(ALWAYS, "C is read by other threads than those of role producers", &[(PREFETCH, ""), producers]);
}
