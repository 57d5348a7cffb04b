//! The rules of ping-pong groups, which take turns at an ordered barrier.

use ptx_gemm_codegen::compile_text;

use super::{GROUPS, printed};

const TURNS: &str = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
                     specialize(producers = 1, pingpong); persistent; store(tma)";

/// As [`super::ROWS`].
pub(super) const ROWS: &[(&str, &str, &str, &str)] = &[
    // What the groups do in turn.
    (TURNS, "take mainloop", "; nothing", "mainloop is never taken"),
    (TURNS, "take mainloop", "take other", "there is no turn `other`"),
    (TURNS, "pass mainloop", "; nothing", "the tile ends before mainloop is passed on"),
    (TURNS, "take mainloop", "take mainloop\n        take mainloop", "mainloop is taken before mainloop is passed on"),
    (TURNS, "pass mainloop", "pass mainloop\n          pass mainloop", "mainloop is passed on and was not taken"),
    (
        TURNS,
        "            acquire ab",
        "            take mainloop\n            acquire ab",
        "role producers takes no turns",
    ),
    (GROUPS, "        clear acc", "        skip ab\n        clear acc", "role consumers takes no turns"),
    // Its mbarriers.
    (TURNS, "mainloop at 67632 B", "mainloop at 67636 B", "mainloop: mbarriers must begin at a multiple of 8 B"),
    (TURNS, "mainloop at 67632 B", "mainloop at 67624 B", "from byte 67624 to byte 67632 is used twice"),
    (TURNS, "mainloop at 67632 B", "mainloop at 57344 B", "covers mbarriers"),
    // The K-tiles that a group reads.
    (TURNS, "skip ab", "; nothing", "role consumers takes turns, and has 0 `skip ab` instead of one"),
    (TURNS, "skip ab", "skip ab\n        skip ab", "role consumers takes turns, and has 2 `skip ab` instead of one"),
    (TURNS, "empty mbarrier(1)", "empty mbarrier(2)", "empty after 2 arrivals, but 1 warp groups read it"),
    // Its threads.
    (TURNS, "mainloop at 67632 B", "mainloop at 67664 B", ""),
    (TURNS, "mainloop at 67632 B", "mainloop at 232448 B", "the program uses 232464 B of shared memory"),
    (TURNS, "256 turns 2 {", "256 {", "role consumers takes no turns"),
    (TURNS, "256 turns 2 {", "256 turns 4 {", "threads 0..256, which are not 4 warp groups of 128"),
    (TURNS, "256 turns 2 {", "256 turns 0 {", "role consumers has no groups to take turns"),
    (TURNS, "threads 256..384 {", "threads 256..384 turns 3 {", "only one role of a block takes turns"),
    (TURNS, "threads 256..384 {", "threads 256..384 turns 0 {", "role producers has no groups to take turns"),
    (TURNS, "threads 256..384 {", "threads 256..384 turns 1 {", ""),
    (TURNS, "4:m16 holds 2:n1 2:m8 8:n8", "2:m16 holds 2:n1 2:m8 8:n8 2:m32", "a group of its role has 128"),
    (TURNS, "number 1 threads 128", "number 1 threads 256", "store is for 256 threads, but 128 use it"),
    (TURNS, "number 1 threads 128", "number 15 threads 128", "store has numbers 15 to 16, one for each group"),
    (TURNS, "number 1 threads 128", "number 14 threads 128", ""),
    (
        TURNS,
        "            acquire ab",
        "            meet store\n            acquire ab",
        "store is of threads that take turns, which other roles cannot meet",
    ),
    (TURNS, "        clear acc", "        sync\n        clear acc", "role consumers takes turns, and has no `sync`"),
    (TURNS, "        clear acc", "        drain\n        clear acc", "role consumers takes turns, and has no `drain`"),
    (TURNS, "        clear acc", "        acquire ab\n        clear acc", "takes turns, and has no `acquire`"),
];

/// Makes several changes, and expects an error that contains `expected`.
#[track_caller]
fn refused(expected: &str, changes: &[(&str, &str)]) {
    let changed = changes.iter().fold(printed(TURNS), |text, (from, to)| {
        assert!(text.contains(from), "`{from}` is not in\n{text}");
        text.replace(from, to)
    });
    let errors = compile_text(&changed, None).map(|_| "accepted").unwrap_err().to_string();
    assert!(errors.contains(expected), "{changes:?}: {errors}");
}

#[test]
fn a_group_waits_for_slots_only_in_its_turn() {
    let early = "may look full while an earlier K-tile is copied to it";
    refused(early, &[("pass mainloop", "; nothing"), ("take mainloop", "take mainloop\n        pass mainloop")]);
    refused(early, &[("pass mainloop", "; nothing"), ("take mainloop", "; nothing"), ("    turn mainloop", "    ;")]);
}

/// A second ordered barrier, for what follows the products: programs may have several.
#[test]
fn groups_may_take_turns_at_several_things() {
    let second = [
        ("        settle ", "        take epilogue\n        settle "),
        ("write d by tma rows 64", "write d by tma rows 64\n        pass epilogue"),
        ("    role consumers", "    turn epilogue at 67648 B\n    role consumers"),
    ];
    let two = second.iter().fold(printed(TURNS), |text, (from, to)| text.replacen(from, to, 2));
    compile_text(&two, None).unwrap();
    for (from, to, expected) in [
        ("take epilogue", "; nothing", "epilogue is never taken"),
        ("pass mainloop", "; nothing", "epilogue is taken before mainloop is passed on"),
        ("pass mainloop", "pass epilogue", "epilogue is passed on and was not taken"),
        ("pass epilogue", "; nothing", "the tile ends before epilogue is passed on"),
        ("epilogue at 67648 B", "epilogue at 67640 B", "is used twice"),
        ("turn epilogue", "turn mainloop", "mainloop"),
    ] {
        assert!(two.contains(from), "`{from}` is not in\n{two}");
        let errors = compile_text(&two.replace(from, to), None).map(drop).unwrap_err().to_string();
        assert!(errors.contains(expected), "{from} -> {to}: {errors}");
    }
}

#[test]
fn a_group_passes_over_what_others_read_before_it_reads() {
    refused("of another tile", &[("skip ab", "; nothing"), ("write d", "skip ab\n        write d")]);
    let last = "\n          release ab ";
    refused(
        "before the last slot is released",
        &[("skip ab", "; nothing"), (last, "\n          skip ab\n          release ab ")],
    );
}

#[test]
fn groups_are_warp_groups_with_several_tiles() {
    let text = printed(TURNS).replace("    persistent ", "    ; ").replace("      settle ", "      ; ");
    let errors = compile_text(&text, None).map(|_| "accepted").unwrap_err().to_string();
    assert!(errors.contains("the groups of role consumers compute one each: they need `persistent`"), "{errors}");
    refused(
        "the parts of a sum differ in their number",
        &[("params ", "params workspace, "), ("    pack a", "    stream_k\n    pack a")],
    );
    // Producers before consumers, and one warp of them.
    let text = printed(TURNS);
    let (rest, producers) = text.split_once("    role producers").unwrap();
    let (head, consumers) = rest.split_once("    role consumers").unwrap();
    let (producers, end) = producers.split_once("\n    }\n").unwrap();
    for (first, whole) in [(128, true), (32, false)] {
        let producers = producers.replace("256..384", &format!("0..{first}"));
        let consumers = consumers.replace("0..256", &format!("{first}..{}", first + 256));
        let text = format!("{head}    role producers{producers}\n    }}\n    role consumers{consumers}{end}");
        let errors = compile_text(&text, None).map(drop).err().map(|errors| errors.to_string());
        match errors {
            None => assert!(whole),
            Some(errors) => assert!(!whole && errors.contains("which are not 2 warp groups of 128"), "{errors}"),
        }
    }
}
