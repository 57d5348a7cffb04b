//! Text with alternatives: the schedules it denotes, and the diagnostics for mistakes in it.

use proptest::prelude::*;
use ptx_gemm_dsl::{Schedule, Space};

/// The canonical schedules of a space, one line each.
fn schedules(text: &str) -> Vec<String> {
    let space = Space::parse(text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
    let all: Vec<String> = space
        .combinations()
        .map(|one| {
            let schedule = one.schedule().unwrap_or_else(|errors| panic!("{}: {errors}", one.text()));
            schedule.to_string().trim_end().replace('\n', " ")
        })
        .collect();
    assert_eq!(space.len(), all.len() as u128, "{text}");
    all
}

#[test]
fn values_are_numbers_words_and_names() {
    assert_eq!(
        schedules("tile({64, 128}, 64, {8, 16}); order({row, snake})"),
        [
            "tile(64, 64, 8); order(row);",
            "tile(64, 64, 8); order(snake);",
            "tile(64, 64, 16); order(row);",
            "tile(64, 64, 16); order(snake);",
            "tile(128, 64, 8); order(row);",
            "tile(128, 64, 8); order(snake);",
            "tile(128, 64, 16); order(row);",
            "tile(128, 64, 16); order(snake);",
        ]
    );
    assert_eq!(schedules("vector({a, b} = 4)"), ["vector(a = 4);", "vector(b = 4);"]);
    assert_eq!(
        schedules("shared(a = {mk, km + pad({4, 8})})"),
        ["shared(a = mk);", "shared(a = km + pad(4));", "shared(a = km + pad(8));"]
    );
    assert_eq!(schedules("raster(group = {8, 16,}, along = m);").len(), 2, "a comma may follow the last one");
    assert_eq!(schedules("epilogue(|acc| {2.0, 0.5} * acc)").len(), 2);
    assert_eq!(schedules("tile(64, 64, 8);"), ["tile(64, 64, 8);"], "no alternatives are one combination");
    assert_eq!(schedules("expect { shared <= {16, 32} KiB } stages({2, 3})").len(), 4);
}

#[test]
fn a_name_stands_for_what_its_choice_chose() {
    assert_eq!(
        schedules("tile({bm: 64, 128}, {bn: 8..=16 step 8}, 64); atom(wgmma(64, {bn}, 16))"),
        [
            "tile(64, 8, 64); atom(wgmma(64, 8, 16));",
            "tile(64, 16, 64); atom(wgmma(64, 16, 16));",
            "tile(128, 8, 64); atom(wgmma(64, 8, 16));",
            "tile(128, 16, 64); atom(wgmma(64, 16, 16));",
        ]
    );
    // Words and whole arguments too, also within alternatives of clauses, where a name ends with its alternative.
    assert_eq!(schedules("shared(a = km + {skew: pad(4), swizzle(64)}, b = kn + {skew})").len(), 2);
    let split = "stages({s: 2, 3}); {split_k({s}) | thread({t: 4, 8}, {t}) | }";
    assert_eq!(schedules(split)[0], "stages(2); split_k(2);");
    assert_eq!(schedules(split).len(), 8);
    assert_eq!(schedules("{tile({b: 32, 64}, {b}, 8) | tile({b: 16, 8}, {b}, 4)}").len(), 4);
    for (text, said) in [
        ("tile({b: 32, 64}, {b: 8, 16}, 8)", "`b` is the name of another choice"),
        ("tile({b}, {b: 8, 16}, 8)", "{b} has one alternative"),
        ("{tile({b: 32, 64}, 8, 8) | }; stages({b})", "{b} has one alternative"),
        ("tile({b: }, 8, 8)", "there are no alternatives"),
    ] {
        let errors = Space::parse(text).unwrap_err().to_string();
        assert!(errors.contains(said), "{text}: {errors}");
    }
}

#[test]
fn ranges_add_or_multiply() {
    assert_eq!(schedules("stages({1..=3})"), ["stages(1);", "stages(2);", "stages(3);"]);
    assert_eq!(schedules("stages({8..=32 step 8})").len(), 4);
    assert_eq!(schedules("stages({8..32 step 8})").len(), 3);
    assert_eq!(schedules("stages({8..=32 step *2})"), ["stages(8);", "stages(16);", "stages(32);"]);
    assert_eq!(schedules("stages({8..=33 step * 2})").len(), 3);
    assert_eq!(schedules("stages({1, 4..=8 step 2})"), ["stages(1);", "stages(4);", "stages(6);", "stages(8);"]);
    assert_eq!(schedules("stages({4294967295..=4294967295})").len(), 1, "the end of the numbers ends a range");
}

#[test]
fn clauses_are_alternatives_of_each_other_or_of_none() {
    assert_eq!(
        schedules("{double_buffer | stages({3, 4}); pace(free) | }"),
        ["double_buffer;", "stages(3); pace(free);", "stages(4); pace(free);", ""]
    );
    let without_semicolon = schedules("{double_buffer | } {order(row) | order(snake)}; tail(none)");
    assert_eq!(
        without_semicolon,
        schedules("{double_buffer; | };\n{order(row); | order(snake); } // why\ntail(none);")
    );
    assert_eq!(without_semicolon.len(), 4);
    assert_eq!(without_semicolon[0], "double_buffer; order(row); tail(none);");
}

/// The full diagnostics of a text.
#[track_caller]
fn wrong(text: &str, expected: &[&str]) {
    let errors = Space::parse(text).expect_err(text);
    let told: Vec<String> = errors
        .iter()
        .map(|error| {
            let place = error.span.map_or("nowhere", |span| &text[span.start as usize..span.end as usize]);
            let fix = error.fix.as_ref().map_or(String::new(), |fix| format!(" [{:?}]", fix.edit));
            format!("`{place}`: {error}{fix}")
        })
        .collect();
    assert_eq!(told, expected, "{text}");
}

#[test]
fn what_is_no_choice_is_explained() {
    wrong(
        "tile({BM}, 64, 8)",
        &[
            "`{BM}`: {BM} has one alternative, and is not a choice; write several, such as `{64, 128}`, or choose `BM` before: \
             `{BM: 64, 128}`; if it is a value of Rust code, write the number itself: only gemm! takes such values",
        ],
    );
    wrong(
        "tile({64}, 64, 8)",
        &[
            "`{64}`: {64} has one alternative, and is not a choice; write `64`, or several, such as `{64, 128}` [Spell(\"64\")]",
        ],
    );
    wrong(
        "{double_buffer;}",
        &[
            "`{double_buffer;}`: `{double_buffer;}` has one alternative, and is not a choice; write `double_buffer;`, or \
         `{double_buffer | }` for schedules with and without it [Spell(\"double_buffer;\")]",
        ],
    );
    wrong(
        "tile({}, 64, 8); {}",
        &[
            "`{}`: tile: there are no alternatives in `{}`; write several, such as `{64, 128}`",
            "`{}`: there are no alternatives in `{}`; write `{double_buffer | stages(3)}`",
        ],
    );
    wrong(
        "tile({64 | 128}, 64, 8)",
        &[
            "`{64 | 128}`: `|` separates clauses, and these are values; write `{64, 128}`; alternatives of a whole epilogue are \
         clauses: `{epilogue(…) | epilogue(…)}` [Spell(\"{64, 128}\")]",
        ],
    );
    wrong(
        "{double_buffer, stages(3)}",
        &[
            "`{double_buffer, stages(3)}`: `,` separates values, and these are clauses; write `{double_buffer | stages(3)}` \
         [Spell(\"{double_buffer | stages(3)}\")]",
        ],
    );
    wrong(
        "{stages, prefetch}(3)",
        &[
            "`{stages, prefetch}`: `,` separates values, and these are clauses; write `{stages | prefetch}` \
         [Spell(\"{stages | prefetch}\")]",
            "`(3)`: alternatives in the place of a clause are whole clauses, and `(...)` follows; write `{stages(2) | stages(3)}`, \
         or `stages({2, 3})`",
        ],
    );
}

#[test]
fn alternatives_are_not_empty_repeated_or_nested() {
    wrong("tile({64, , 128}, 64, 8)", &["`{64, , 128}`: tile: an alternative is missing before the comma"]);
    wrong("stages({2, 3, 2})", &["`2`: `2` is among these alternatives twice; keep one"]);
    wrong("stages({2..=4, 3})", &["`3`: `3` is among these alternatives twice; keep one"]);
    wrong(
        "{ | double_buffer | }",
        &["`{ | double_buffer | }`: no clause at all is among these alternatives twice; keep one"],
    );
    wrong(
        "stages({{2, 3}, 4})",
        &["`{2, 3}`: stages: alternatives in alternatives; write `2, 3` without its braces [Spell(\"2, 3\")]"],
    );
    wrong(
        "stages({{2, 3}})",
        &["`{{2, 3}}`: alternatives in alternatives; write one pair of braces [Spell(\"{2, 3}\")]"],
    );
}

#[test]
fn ranges_end() {
    let help = "; a range is `8..=32`, `8..=32 step 8` or `8..=32 step *2`";
    for (range, message) in [
        ("8..=4", "this range is empty: it begins at 8 and ends at 4"),
        ("4..4", "this range is empty: it begins at 4 and ends at 4"),
        ("1..=9 step 0", "a range with `step 0` has no end"),
        ("1..=9 step *1", "a range multiplies by 2 or more"),
        ("0..=9 step *2", "a range from 0 stays there when it is multiplied"),
        ("..=9", "the start of this range is missing"),
        ("1..=", "the end of this range is missing"),
        ("1..=x", "the end of this range must be a whole number, got `x`"),
        ("1..=1.5", "the end of this range, 1.5, is not a whole number up to 4294967295"),
        ("1..=5000000000", "the end of this range, 5000000000, is not a whole number up to 4294967295"),
        ("1..=9 step", "the step of this range is missing"),
        ("1..=4294967295", "this range has more than 4096 numbers"),
    ] {
        wrong(&format!("stages({{{range}}})"), &[&format!("`{range}`: {message}{help}")]);
    }
}

#[test]
fn the_grammar_speaks_of_the_text_with_the_alternatives() {
    wrong(
        "tiel({64, 128}, 64, 8); stages({2, x});",
        &[
            "`tiel`: unknown clause `tiel`; did you mean `tile`? [Spell(\"tile\")]",
            "`x`: stages: n must be a whole number, got `x`; write the number itself: only gemm! takes values from Rust",
        ],
    );
    wrong(
        "order({row, snaky}); {stages(2) | stage(3)}",
        &[
            "`snaky`: order: `snaky` is not an order; did you mean `snake`? [Spell(\"snake\")]",
            "`stage`: unknown clause `stage`; did you mean `stages`? [Spell(\"stages\")]",
        ],
    );
    let text = "tile({64, 128}, 64, 8);\n  ordr({row,\n snake});";
    let errors = Space::parse(text).unwrap_err();
    let span = errors.iter().next().and_then(|error| error.span).unwrap();
    assert_eq!((span.line, span.column), (2, 3));
    assert!(errors.to_string().contains("2 |   ordr({row,"), "{errors}");
    wrong("order({row, snake}", &["`(`: `(` is never closed"]);
}

#[test]
fn spaces_are_counted_and_not_made() {
    let space = Space::parse(&"tile({1..=100}, {1..=100}, {1..=100});".repeat(6)).expect("a large space");
    assert_eq!(space.len(), 10u128.pow(36));
    let last = space.combination(space.len() - 1).expect("the last one");
    assert_eq!(last.text(), "tile(100, 100, 100);".repeat(6));
    assert_eq!(space.combination(space.len()), None);
    wrong(
        &"stages({1..=4096});".repeat(2),
        &[&format!(
            "`{}`: there are 8192 alternatives, 4096 at most are read; leave some out",
            "stages({1..=4096});".repeat(2)
        )],
    );
    let text = "stages({1..=31});".repeat(130);
    wrong(&text, &[&format!("`{text}`: there are more combinations than can be counted; leave alternatives out")]);
}

/// A clause with alternatives: its text in a space, and each text that it denotes.
fn clause() -> impl Strategy<Value = (String, Vec<String>)> {
    let numbers = prop::collection::btree_set(1u32..=512, 2..5);
    let values = (prop::sample::select(vec!["stages", "unroll", "prefetch", "blocks_per_sm"]), numbers).prop_map(
        |(name, numbers)| {
            let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let all = list.iter().map(|number| format!("{name}({number});")).collect();
            (format!("{name}({{{}}});", list.join(", ")), all)
        },
    );
    let range = (1u32..64, 0u32..64, 1u32..16).prop_map(|(first, more, step)| {
        let all = (first..=first + more).step_by(step as usize).map(|n| format!("tile(64, {n}, 8);")).collect();
        (format!("tile(64, {{{first}..={} step {step}}}, 8);", first + more), all)
    });
    let words = Just((
        "order({row, snake, column_snake}); // words\n".to_string(),
        ["row", "snake", "column_snake"].map(|word| format!("order({word});")).to_vec(),
    ));
    let fixed = Just(("thread(8, 8);".to_string(), vec!["thread(8, 8);".to_string()]));
    let leaf = prop_oneof![values, range, words, fixed];
    prop_oneof![3 => leaf.clone(), 1 => prop::collection::vec(leaf, 1..3).prop_map(|clauses| {
        // Each clause separately, all together, or none.
        let mut written: Vec<String> = clauses.iter().map(|(text, _)| text.clone()).collect();
        let mut all: Vec<String> = clauses.iter().flat_map(|(_, all)| all.clone()).collect();
        let together: String = written.concat();
        if written.len() > 1 {
            all.extend(product(&clauses));
            written.push(together);
        }
        written.push(String::new());
        all.push(String::new());
        (format!("{{{}}}", written.join(" | ")), all)
    })]
}

/// The texts of clauses in sequence.
fn product(clauses: &[(String, Vec<String>)]) -> Vec<String> {
    clauses.iter().fold(vec![String::new()], |texts, (_, all)| {
        texts.iter().flat_map(|text| all.iter().map(move |clause| format!("{text} {clause}"))).collect()
    })
}

fn without_repeats(clauses: &[(String, Vec<String>)]) -> bool {
    !clauses.iter().any(|(text, _)| Space::parse(text).is_err())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn combinations_are_the_product_of_alternatives(clauses in prop::collection::vec(clause(), 0..4)) {
        prop_assume!(without_repeats(&clauses));
        let text: String = clauses.iter().map(|(text, _)| text.as_str()).collect();
        let expected = product(&clauses);
        prop_assume!(expected.len() <= 5000);
        let space = Space::parse(&text).unwrap();
        prop_assert_eq!(space.len(), expected.len() as u128);
        for (combination, expected) in space.combinations().zip(&expected) {
            let expected: Schedule = expected.parse().unwrap();
            prop_assert_eq!(combination.schedule().unwrap(), expected, "{}", combination.text());
            prop_assert_eq!(space.combination(combination.index()), Some(combination));
        }
    }

    #[test]
    fn nothing_panics(text in "[a-z{}()|;,.=*0-9 \n]{0,60}") {
        if let Ok(space) = Space::parse(&text) {
            for combination in space.combinations().take(20) {
                let _ = combination.schedule();
            }
        }
    }
}
