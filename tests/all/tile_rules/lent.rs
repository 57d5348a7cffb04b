//! The rules of pipeline stages that the epilogue reuses for the tile of D.

use ptx_gemm_codegen::compile_text;

/// One slot has both panels of the tile.
const LENT: &str = "types(bf16); tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                    specialize(producers = 1); persistent; store(tma, memory = ring)";
/// Each of two slots has one.
const BY_THREADS: &str = "tile(16, 64, 8); thread(4, 8); load(cp_async); stages(3); specialize(producers = 1 warp); \
                          store(staged, memory = ring); target(sm_80)";
const APART: &str = "types(bf16); tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                     specialize(producers = 1); persistent; store(tma)";
const TURNS: &str = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
                     specialize(producers = 1, pingpong); persistent; store(tma)";
const BARRIERS: &str = "tile(16, 16, 8); thread(2, 2); double_buffer; store(staged); target(sm_80)";

const AFTER_FIRST: &str = "`after_first` is a statement of `tiles`, where blocks are persistent";

/// As [`super::ROWS`].
pub(super) const ROWS: &[(&str, &str, &str, &str)] = &[
    // Where the tile of D is.
    (LENT, "of d pitch 64 in ab", "of d pitch 64 in cd", "there is no ring `cd`"),
    (LENT, "of d pitch 64 in ab", "of d pitch 64 at 0 B", "`return ab` is for a stage of d in ab, and it is elsewhere"),
    (APART, "        stage acc", "        borrow ab\n        stage acc", "`borrow ab` is for a stage of d in ab"),
    (APART, "        clear acc", "        lend ab\n        clear acc", "`lend ab` is for a stage of d in ab"),
    (APART, "at 73728 B swizzle", "in ab swizzle", "needs one `lend`, one `borrow` and one `return`, not 0, 0 and 0"),
    (LENT, "of d pitch 64 in ab swizzle 128 B", "of d pitch 128 in ab", ""),
    (LENT, "of d pitch 64 in ab swizzle 128 B", "of d pitch 32 in ab swizzle 128 B", "a swizzle of 128 B needs panels"),
    (LENT, "depth 3 slot 24576 B", "depth 3 slot 24640 B", "ab: slots are 24640 B apart"),
    (LENT, "mbarriers ab at 73728 B", "mbarriers ab at 72704 B", "the stage of d, bytes 0 to 73728, covers mbarriers"),
    (
        BY_THREADS,
        "of d pitch 32 in ab swizzle 128 B",
        "of d pitch 64 in ab",
        "a panel of the stage of d has 4096 B, which is more than a slot of ab",
    ),
    (BY_THREADS, "depth 3 slot", "depth 1 slot", "the stage of d has 2 panels, 1 in a slot, and ab has 1 slots"),
    (
        BARRIERS,
        "of d pitch 20 at 0 B",
        "of d pitch 16 in ab",
        "the stage of d is in ab, which needs mbarriers for full and empty slots",
    ),
    (TURNS, "of d pitch 64 at 49152 B swizzle", "of d pitch 64 in ab swizzle", "groups that take turns cannot tell"),
    // Which role lends, borrows and returns them.
    (LENT, "lend ab", "; nothing", "needs one `lend`, one `borrow` and one `return`, not 0, 1 and 1"),
    (LENT, "borrow ab", "; nothing", "needs one `lend`, one `borrow` and one `return`, not 1, 0 and 1"),
    (LENT, "return ab", "; nothing", "needs one `lend`, one `borrow` and one `return`, not 1, 1 and 0"),
    (LENT, "lend ab", "lend ab\n        lend ab", "not 2, 1 and 1"),
    (LENT, "lend ab", "lend cd", "there is no ring `cd`"),
    // Before the next statement uses the tile in them.
    (LENT, "        settle", "        ; nothing", "ab: slots are returned while the tile of D may still be read"),
    (BY_THREADS, "        return ab", "        meet store\n        return ab", ""),
    (BY_THREADS, "        clear acc", "        after_first {\n        }\n        clear acc", AFTER_FIRST),
    (LENT, "          loop kt {", "          after_first {\n          }\n          loop kt {", AFTER_FIRST),
];

/// Makes several changes in a program without its notes, and expects an error that contains `expected`.
#[track_caller]
pub(super) fn refused(schedule: &str, expected: &str, changes: &[(&str, &str)]) {
    let printed = super::printed(schedule);
    let lines = printed.lines().map(|line| line.split(" ;").next().unwrap_or_default().trim_end());
    let plain = lines.fold(String::new(), |text, line| text + line + "\n");
    let changed = changes.iter().fold(plain, |text, (from, to)| {
        assert!(text.contains(from), "{from}\n{text}");
        text.replace(from, to)
    });
    match compile_text(&changed, None) {
        Ok(_) => panic!("{expected}: it is accepted\n{changed}"),
        Err(errors) => assert!(errors.to_string().contains(expected), "{expected}: {errors}"),
    }
}

#[test]
fn slots_are_lent_and_returned_in_the_order_of_the_ring() {
    const LEND: (&str, &str) = ("        lend ab\n", "");
    const BORROW: (&str, &str) = ("        borrow ab\n", "");
    const PRODUCER: &str = "        if_any_k {\n          loop kt {\n            acquire ab\n";
    // Before the K-tiles of the tile, one of which is borrowed.
    let consumer = "        if_any_k {\n          loop kt {\n            wait";
    let first = format!("        borrow ab\n{consumer}");
    let early = (consumer, first.as_str());
    refused(LENT, "slot 0 is borrowed, and has a K-tile", &[BORROW, early]);
    let first = format!("        lend ab\n{PRODUCER}");
    refused(LENT, "slot 0 of As is read, but nothing filled it", &[LEND, (PRODUCER, &first)]);
    // Between an acquire and its commit, and so never without K-tiles.
    let inside = ("            commit ab", "            lend ab\n            commit ab");
    refused(LENT, "this statement waits forever, with 0 K-tiles", &[LEND, inside]);
    // Before the last K-tile has been released.
    let kept = ("          release ab\n        }\n        borrow", "        }\n        borrow");
    refused(LENT, "slots are borrowed before the last one is released", &[kept]);
    let back = [("        return ab\n", ""), ("        borrow ab\n", "        return ab\n        borrow ab\n")];
    refused(LENT, "slots are returned that have not been borrowed", &back);
}

#[test]
fn slots_are_returned_when_no_thread_reads_the_tile_of_d() {
    const STAGE: &str = "        borrow ab\n        stage acc by matrices\n";
    const END: &str = "          settle\n          meet store\n          return ab\n";
    const OUTSIDE: &str = "the stage of d is used outside `borrow ab` and `return ab`";
    const READ: &str = "ab: slots are returned while the tile of D may still be read";
    refused(LENT, OUTSIDE, &[(STAGE, "        stage acc by matrices\n        borrow ab\n")]);
    for end in [
        "          return ab\n          settle\n          meet store\n",
        "          meet store\n          settle\n          return ab\n",
        "          settle\n          return ab\n",
        "          meet store\n          return ab\n",
    ] {
        refused(LENT, READ, &[(END, end)]);
    }
    // In the next tile, before its first K-tile; and the last one is settled after all tiles.
    let late = format!("        after_first {{\n{END}        }}\n");
    let after = format!("{late}        borrow ab\n");
    refused(
        LENT,
        "a slot is waited for before the lent ones are returned",
        &[(&late, ""), ("        borrow ab\n", &after)],
    );
    refused(LENT, "the block ends while tma may still read the tile of D", &[("      }\n      settle\n", "      }\n")]);
    let unmet = ("        meet store\n        write d", "        write d");
    refused(LENT, "D is written before all threads have staged their parts", &[unmet]);
    let end = "        meet store\n        write d by registers width 4\n        return ab\n";
    let late = "        meet store\n        return ab\n        write d by registers width 4\n";
    refused(BY_THREADS, OUTSIDE, &[(end, late)]);
}
