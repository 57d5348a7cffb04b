//! Tile IR is a language: printed programs parse back, and every token matters, for the kernel and for the result.

use ptx_gemm_check::mutants::{TileJudge, token_edits};
use ptx_gemm_check::part::Part;
use ptx_gemm_check::{Leading, Request, Size, cases, check, edge_sizes};
use ptx_gemm_codegen::tile::interface::Extents;
use ptx_gemm_codegen::tile::{self, parse::parse, print::print};
use ptx_gemm_codegen::{compile_programs, compile_text};
use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::epilogue::Axis;
use ptx_gemm_dsl::terms::Tail;
use ptx_gemm_dsl::types::Batch;
use ptx_gemm_interp::{Checks, Options, WarpOrder};
use ptx_gemm_ptx::normal::instructions;
use ptx_gemm_runtime::{CompiledGemm, Device, InterpreterOptions, Matrix};
use rayon::prelude::*;

use crate::net::RANDOM;

/// A program that no schedule compiles to.
const BY_HAND: &str = include_str!("../../examples/tile/two_sums.tile");

fn module(schedule: &Schedule) -> tile::Module {
    tile::build::build(&schedule.plan(None).unwrap_or_else(|e| panic!("{schedule}: {e}")))
}

fn interpreter() -> Device {
    let options = Options { checks: Checks::Full, ..Options::default() };
    Device::interpreter_with(InterpreterOptions { options, misalign: 0 })
}

#[test]
fn printed_programs_parse_back() {
    let named = cases().map(|case| case.schedule().unwrap());
    let random = RANDOM.lines().map(|text| text.parse().unwrap());
    let mut count = 0;
    for schedule in named.chain(random) {
        let module = module(&schedule);
        let printed = print(&module);
        match parse(&printed) {
            Ok((parsed, _)) => assert!(parsed == module, "{schedule}\n{printed}"),
            Err(errors) => panic!("{schedule}: {errors}\n{printed}"),
        }
        count += 1;
    }
    assert!(count > 400);
    let (by_hand, _) = parse(BY_HAND).unwrap();
    assert!(parse(&print(&by_hand)).unwrap().0 == by_hand);
}

/// Each edit of this run's part, of each case, gives other instructions, or is rejected with a position.
#[test]
fn every_token_matters() {
    let part = Part::of_this_run();
    let named = cases().map(|case| (case.name, module(&case.schedule().unwrap())));
    let by_hand = ("two_sums", parse(BY_HAND).unwrap().0);
    let all: Vec<_> = named.chain([by_hand]).enumerate().collect();
    let edited: Vec<Edited> =
        all.into_par_iter().map(|(index, (name, module))| Edited::of(name, module, index, part)).collect();
    let edits: usize = edited.iter().map(|of| of.edits).sum();
    let refused: usize = edited.iter().map(|of| of.refused).sum();
    let same: Vec<String> = edited.into_iter().flat_map(|of| of.same).collect();
    println!("{edits} edits, {refused} refused");
    assert!(edits > 2_000 && refused < edits);
    assert!(same.is_empty(), "these edits change nothing:\n{}", same.join("\n"));
}

/// What became of the edits of a program.
#[derive(Default)]
struct Edited {
    edits: usize,
    refused: usize,
    /// Those that change nothing.
    same: Vec<String>,
}

impl Edited {
    /// Makes the edits of a part; `index` is that of the program, so that programs with few edits differ in which.
    fn of(name: &str, mut module: tile::Module, index: usize, part: Part) -> Edited {
        // The other entries differ only in widths.
        module.entries.truncate(1);
        let printed = print(&module);
        let judge = TileJudge::new(printed.clone()).unwrap();
        let original = instructions(&compile_programs(&module, None).unwrap().ptx);
        let lines: Vec<&str> = printed.lines().collect();
        let mut of = Edited::default();
        for (_, edit) in judge.edits().into_iter().enumerate().filter(|(edit, _)| part.has(edit + index)) {
            of.edits += 1;
            match compile_text(&edit.text, None) {
                Err(errors) => {
                    of.refused += 1;
                    let placed = |e: &ptx_gemm_codegen::TextError| {
                        e.line > 0 && e.line <= lines.len() + 1 && e.column > 0 && !e.message.is_empty()
                    };
                    assert!(!errors.0.is_empty() && errors.0.iter().all(placed), "{name}: {}: {errors}", edit.what);
                }
                Ok(compiled) => {
                    let line = lines[edit.line - 1];
                    if instructions(&compiled.ptx) == original && judge.equivalent(&edit).is_none() {
                        of.same.push(format!("{name}:{}: {} | {}", edit.line, edit.what, line.trim()));
                    }
                }
            }
        }
        of
    }
}

/// Small schedules that together use every statement.
const SMALL: [&str; 13] = [
    "tile(16, 16, 4); thread(2, 2); vector(2); double_buffer; epilogue(|acc, c, alpha, beta| alpha * acc + beta * c)",
    "tile(16, 16, 8); thread(2, 4); vector(4); shared(a = km + pad(4)); unroll(4); prefetch(2); order(snake)",
    "tile(16, 32, 4); thread(2, 4); load(cp_async); stages(3); persistent(2); epilogue(|acc, bias| relu(acc + bias[n]))",
    "tile(16, 16, 4); thread(4, 2); split_k(3); vector(2); layout(a = col, b = col, d = col)",
    "tile(16, 16, 4); thread(2, 4); split_k(2, reduce = workspace); shared(a = mk + swizzle(32))",
    "tile(16, 16, 4); thread(2, 4); vector(2); double_buffer; persistent(3); stream_k",
    "tile(16, 32, 4); thread(4, 4); load(cp_async); stages(3); specialize(producers = 1 warp)",
    "tile(16, 32, 4); thread(4, 4); double_buffer; pace(free); operands(shared)",
    "tile(16, 16, 4); thread(2, 4); load(cp_async); stages(2); persistent(2); store(staged)",
    "tile(16, 16, 4); thread(4, 4); vector(4); load(tma); stages(2); persistent(2); store(tma)",
    "tile(16, 64, 8); thread(4, 8); load(cp_async); stages(3); specialize(producers = 1 warp); persistent(2); \
     store(staged, memory = ring)",
    "tile(16, 32, 4); thread(4, 4); vector(4); load(tma, c = tma); stages(2); specialize(producers = 1 warp); persistent(2); \
     store(tma); epilogue(|acc, c, beta| acc + beta * c)",
    "tile(16, 16); thread(2, 2); shared(none); vector(2); tail(predicate); raster(group = 2, along = m)",
];

/// D of an f32 program on small integers, by element.
fn product(gemm: &CompiledGemm, (m, n, k): (usize, usize, usize)) -> Vec<f32> {
    let problem = gemm.problem();
    let digit = |i: usize, j: usize, by: usize| ((i * 7 + j * 3 + by) % 5) as f32 - 1.5;
    let a = Matrix::from_fn(m, k, |i, j| digit(i, j, 1)).to_layout(problem.layouts.a);
    let b = Matrix::from_fn(k, n, |i, j| digit(i, j, 2)).to_layout(problem.layouts.b);
    let c = Matrix::from_fn(m, n, |i, j| digit(i, j, 3)).to_layout(problem.layouts.c);
    let elements: Vec<f32> = (0..m.max(n)).map(|i| digit(i, 0, 4)).collect();
    let mut call = gemm.call();
    if problem.epilogue.uses_c() {
        call = call.c(&c);
    }
    for (index, name) in problem.epilogue.scalars.iter().enumerate() {
        call = call.set(name, index as f64 + 2.0);
    }
    for vector in &problem.epilogue.vectors {
        let length = if vector.axis == Axis::M { m } else { n };
        call = call.vector(&vector.name, &elements[..length]);
    }
    let d: Matrix<f32> = call.multiply(&a, &b).unwrap_or_else(|e| panic!("{e}"));
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| d.get(i, j).unwrap()).collect()
}

/// Sizes that are multiples of every tile here, and sizes with edges on all sides; the rows of both suit 16-byte
/// accesses.
const WHOLE: (usize, usize, usize) = (64, 64, 24);
const RAGGED: (usize, usize, usize) = (36, 44, 12);
/// Sizes with edges on all sides; leading dimensions are padded.
const ODD: (usize, usize, usize) = (37, 41, 11);

/// Accepted programs are correct: however an edit moves, widens, unrolls or reorders statements, the result has the
/// same bits, and edits that would change it (another K-tile, a missing or repeated statement, another accumulator)
/// are rejected. Only tokens that say *what* is computed change the result.
#[test]
fn what_is_accepted_is_right() {
    let device = interpreter();
    let (mut ran, mut refused, mut changed) = (0, 0, 0);
    let printed = SMALL.iter().map(|text| {
        let mut module = module(&text.parse().unwrap());
        module.entries.reverse();
        module.entries.truncate(1);
        print(&module)
    });
    let part = Part::of_this_run();
    for (program, printed) in printed.chain([BY_HAND.to_string()]).enumerate() {
        let original = CompiledGemm::from_tile(&printed, &device).unwrap_or_else(|e| panic!("{e}\n{printed}"));
        let expected = product(&original, RAGGED);
        let lines: Vec<&str> = printed.lines().collect();
        // A fifth of the edits.
        let tried = |index: usize| part.has(index + program) || part.has(index + program + 5);
        for (_, edit) in token_edits(&printed).into_iter().enumerate().filter(|(index, _)| tried(*index)) {
            let Ok(gemm) = CompiledGemm::from_tile(&edit.text, &device) else {
                refused += 1;
                continue;
            };
            ran += 1;
            let at =
                format!("{}\nline {}: {}: {}", lines.join("\n"), edit.line, lines[edit.line - 1].trim(), edit.what);
            let problem = gemm.problem();
            let wide = Leading { a: Some(64), b: Some(64), c: Some(64), d: Some(64) };
            let guarded = gemm.interface().entries.iter().all(|entry| entry.tail == Tail::Predicate);
            for (m, n, k) in [WHOLE, ODD].into_iter().take(1 + usize::from(guarded)) {
                let mut request = Request { leading: wide, ..Request::exact(m, n, k) };
                if problem.batch == Batch::Strided {
                    request = request.batch(2);
                }
                let outcome = check(&gemm, &request).unwrap_or_else(|e| panic!("{at}: {e}"));
                assert!(outcome.is_right(), "{at}: {outcome:?}");
            }
            let numbers = problem.batch == Batch::One && problem.types == original.problem().types && guarded;
            if !numbers {
                continue;
            }
            let same = product(&gemm, RAGGED) == expected;
            let says_what = problem.epilogue != original.problem().epilogue;
            if says_what {
                changed += usize::from(!same);
            } else {
                assert!(same, "{at}: other bits");
            }
        }
    }
    println!("{ran} programs ran, {refused} were refused, {changed} compute something else");
    assert!(ran > 40 && refused > 400 && changed > 0);
}

/// Schedules, and other maps of their accumulators: registers in another order, warps that hold separate pieces.
const MAPS: [(&str, &[(&str, &str)]); 5] = [
    (
        "tile(16, 32, 4); thread(4, 4); fragment(2, 2); vector(2)",
        &[
            ("holds 2:n1 2:n16 2:m1 2:m8", "holds 2:m1 2:m8 2:n1 2:n16"),
            ("holds 2:n1 2:n16 2:m1 2:m8", "holds 2:m8 2:n16 2:m1 2:n1"),
            ("threads 8:n2 4:m2 holds 2:n1 2:n16 2:m1 2:m8", "threads 4:m2 8:n2 holds 2:n1 2:m8 2:n16 2:m1"),
        ],
    ),
    ("tile(16, 16); thread(2, 2); shared(none)", &[("holds 2:n1 2:m1", "holds 2:m1 2:n1")]),
    ("tile(16, 16, 4); thread(2, 2); operands(shared)", &[("holds 2:n1 2:m1", "holds 2:m1 2:n1")]),
    (
        "types(bf16); layout(b = col); tile(64, 64, 32); warp(32, 32); atom(mma(16, 8, 16)); double_buffer; vector(2)",
        &[
            ("4:n8 2:m16", "2:m16 4:n8"),
            ("4:n8 2:m16", "2:n8 2:m16 2:n16"),
            ("warps 2:n32 2:m32 holds 2:n1 2:m8 4:n8 2:m16", "warps 2:n8 2:m16 holds 2:n1 2:m8 4:n16 2:m32"),
            ("warps 2:n32 2:m32 holds 2:n1 2:m8 4:n8 2:m16", "warps 2:n16 2:m32 holds 2:n1 2:m8 2:n32 2:m16 2:n8"),
        ],
    ),
    (
        "types(f16, acc = f16); tile(64, 64, 16); warp(32, 32); atom(mma(16, 8, 8)); vector(2)",
        &[
            ("4:n8 2:m16", "2:m16 4:n8"),
            ("warps 2:n32 2:m32 holds 2:n1 2:m8 4:n8 2:m16", "warps 2:n16 2:m16 holds 2:n1 2:m8 2:n32 2:m32 2:n8"),
        ],
    ),
];

/// A map says which register holds which element; products follow it, whatever the order of registers.
#[test]
fn accumulators_may_be_held_in_any_order() {
    let device = interpreter();
    for (schedule, maps) in MAPS {
        let printed = print(&module(&schedule.parse().unwrap()));
        for (from, to) in maps {
            assert!(printed.contains(from), "{from}\n{printed}");
            let edited = printed.replace(from, to);
            let gemm = CompiledGemm::from_tile(&edited, &device).unwrap_or_else(|e| panic!("{e}\n{edited}"));
            for (m, n, k) in [(64, 64, 32), (37, 41, 11)] {
                let outcome = check(&gemm, &Request::exact(m, n, k)).unwrap_or_else(|e| panic!("{e}\n{edited}"));
                assert!(outcome.is_right(), "{outcome:?}\n{edited}");
            }
        }
    }
}

/// The copy of a narrow tile of B is divided evenly among the boxes of the text, and C is equally narrow. Schedules have such
/// tiles only in groups, and copy C by TMA only in other problems.
#[test]
fn narrow_tiles_are_copied_in_any_number_of_boxes() {
    let device = interpreter();
    let grouped = "types(bf16); transposed; tile(64, 128, 64); atom(wgmma(64, 128, 16)); load(tma); stages(3); \
                   specialize(producers = 1); store(tma); batch(grouped)";
    let alone = "types(bf16); layout(b = col, c = col, d = col); tile(64, 128, 64); atom(wgmma(64, 128, 16)); \
                 load(tma, c = tma); stages(3); specialize(producers = 1); persistent(2); store(tma); \
                 epilogue(|acc, c, beta| acc + beta * c)";
    for schedule in [grouped, alone] {
        let printed = print(&module(&schedule.parse().unwrap())).replace(" grain 16", "");
        for (grain, boxes) in [(16, 128), (16, 64), (32, 32), (8, 128)] {
            let edited = printed
                .replace("by wgmma n 128", &format!("by wgmma n 128 grain {grain}"))
                .replace("Bs by tma rows 128", &format!("Bs by tma rows {boxes}"));
            let gemm = CompiledGemm::from_tile(&edited, &device).unwrap_or_else(|e| panic!("{e}\n{edited}"));
            for n in [1, 8, 16, 17, 96, 128, 129, 250, 300] {
                let request = match schedule == grouped {
                    true => Request::exact(n, 64, 130).with_others(vec![Size::new(n + 1, 64, 64)]),
                    false => Request::exact(64, n, 130).set("beta", 2.0),
                };
                let outcome = check(&gemm, &request).unwrap_or_else(|e| panic!("{n}: {e}\n{edited}"));
                assert!(outcome.is_right(), "{n}: {outcome:?}\n{edited}");
                assert_eq!(outcome.run.entry.as_deref(), Some("gemm_tma_v8"), "{n}");
            }
        }
    }
}

/// Tiles of groups are narrow exactly where the rules of tile IR let them be.
#[test]
fn tiles_are_narrow_where_they_can_be() {
    let grouped =
        "types(bf16); transposed; tile(64, 96, 32); atom(wgmma(64, 96, 16)); load(tma); stages(2); batch(grouped)";
    for (more, narrow) in [
        ("", true),
        ("; specialize(producers = 1); pace(tile)", true),
        ("; cluster(2, 1); multicast(b)", true),
        ("; store(tma)", true),
        ("; specialize(producers = 1, pingpong)", false),
        ("; shared(b = kn + swizzle(64))", false),
        ("; layout(a = col)", false),
        ("; cluster(1, 2); multicast(a)", false),
    ] {
        let schedule = format!("{grouped}{more}").parse().unwrap_or_else(|e| panic!("{e}"));
        let gemm = CompiledGemm::new(&schedule, &interpreter()).unwrap_or_else(|e| panic!("{more}: {e}"));
        assert_eq!(print(&module(&schedule)).contains(" grain "), narrow, "{more}");
        let request = Request::exact(33, 70, 40).with_others(vec![Size::new(100, 5, 64)]);
        let outcome = check(&gemm, &request).unwrap_or_else(|e| panic!("{more}: {e}"));
        assert!(outcome.is_right(), "{more}: {outcome:?}");
    }
}

/// With `tail(even)` also outside groups: by one and by two tiles of rows, in boxes of C and D, in parts of k, and in batches.
#[test]
fn columns_are_divided_evenly_among_tiles() {
    let even = "types(bf16); transposed; tile(64, 48, 32); atom(wgmma(64, 48, 16)); load(tma); stages(2); tail(even)";
    for more in [
        "; persistent; specialize(producers = 1 warp); store(tma, memory = ring)",
        "; split_k(2, reduce = workspace)",
        "; batch(strided); cluster(2, 1); multicast(b)",
        "; specialize(producers = 1 warp); load(tma, c = tma); store(tma); epilogue(|acc, c| acc + c)",
    ] {
        let text = if more.contains("c = tma") { even.replace("load(tma); ", "") } else { even.into() };
        let schedule = format!("{text}{more}").parse().unwrap_or_else(|e| panic!("{e}"));
        let gemm = CompiledGemm::new(&schedule, &interpreter()).unwrap_or_else(|e| panic!("{more}: {e}"));
        let narrow = gemm.interface().entries[0].narrow.unwrap_or_else(|| panic!("{more}: whole tiles"));
        // The tile of 48 columns is narrowed to the rows that there are: in one tile, and in two.
        let widths = [1, 17, 48, 49, 70].map(|m| narrow.width(Extents { m, n: 3, k: 3, batch: 1 }));
        assert_eq!(widths, [1u32, 17, 48, 25, 35].map(|rows| rows.next_multiple_of(8)), "{more}");
        for m in [1, 17, 33, 48, 49, 70] {
            let outcome = check(&gemm, &Request::exact(m, 70, 72)).unwrap_or_else(|e| panic!("{more}, m {m}: {e}"));
            assert!(outcome.is_right(), "{more}, m {m}: {outcome:?}");
        }
    }
}

/// A hand-written program is correct at every edge, in every order of warps.
#[test]
fn a_program_by_hand_is_right_at_every_edge() {
    for order in [WarpOrder::Forward, WarpOrder::Backward, WarpOrder::Seeded(7)] {
        let options = Options { checks: Checks::Full, order, ..Options::default() };
        let device = Device::interpreter_with(InterpreterOptions { options, misalign: 4 });
        let gemm = CompiledGemm::from_tile(BY_HAND, &device).unwrap();
        let sizes = edge_sizes(gemm.kernel());
        assert!(sizes.len() > 10);
        for (index, Size { m, n, k }) in sizes.into_iter().enumerate().filter(|(index, _)| index % 3 == 0) {
            let request = if index % 2 == 0 { Request::exact(m, n, k) } else { Request::random(m, n, k) };
            let outcome = check(&gemm, &request.set("alpha", -2.0)).unwrap();
            assert!(outcome.is_right(), "{m} x {n} x {k}: {outcome:?}");
        }
    }
}

/// Sums may be promoted where there are no products: for k = 0, after the last chunk, twice. For instructions that overwrite
/// what a set of accumulators has, as for those that add to it.
#[test]
fn sums_are_promoted_wherever_a_program_says() {
    let twice = |text: &str| {
        let again = text.replace("promote part into acc", "promote part into acc\n              promote part into acc");
        again.replace("        store acc -> d", "        promote part into acc\n        store acc -> d")
    };
    // The second half of each K-tile has a set of its own.
    let halves = |text: &str| {
        let edited = text.lines().map(|line| match line.trim_start().split_once(' ') {
            Some(("accumulator", rest)) => format!("{line}\naccumulator high {}", rest.trim_start_matches("acc ")),
            Some(("clear", _)) => format!("{line}\nclear high"),
            Some(("store", _)) => format!("promote high into acc\n{line}"),
            _ => line.into(),
        });
        let text = edited.collect::<Vec<String>>().join("\n");
        let steps = &text[text.find("steps 0..32").unwrap()..];
        let steps = &steps[..steps.find('}').unwrap() + 1];
        let [low, high] = [("0..16", "acc"), ("16..32", "high")].map(|(half, acc)| {
            let of_half = steps.replace("0..32 unroll 32", &format!("{half} unroll 16"));
            of_half.replace("multiply acc", &format!("multiply {acc}")).replace("ahead 16", "ahead 0")
        });
        text.replace(steps, &format!("{low}\n{high}"))
    };
    type Edit<'e> = (&'e str, &'e dyn Fn(&str) -> String);
    let edits: [Edit; 5] = [
        (
            "emulate(bf16x3); promote(every = 32); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(2)",
            &twice,
        ),
        (
            "emulate(bf16x3); promote(every = 64); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(3); \
          specialize(producers = 1 warp); persistent",
            &twice,
        ),
        (
            "emulate(bf16x3); promote(every = 64); tile(32, 32, 32); warp(16, 16); atom(mma(16, 8, 16)); load(cp_async); stages(3)",
            &twice,
        ),
        ("types(bf16); tile(64, 64, 32); atom(wgmma(64, 64, 16)); load(tma); stages(2)", &halves),
        ("types(bf16); tile(32, 32, 32); warp(16, 16); atom(mma(16, 8, 16)); load(cp_async); stages(3)", &halves),
    ];
    for (schedule, edit) in edits {
        let program = print(&module(&schedule.parse().unwrap()));
        let edited = edit(&program);
        assert_ne!(edited, program, "{schedule}");
        let gemm =
            CompiledGemm::from_tile(&edited, &interpreter()).unwrap_or_else(|e| panic!("{schedule}: {e}\n{edited}"));
        for k in [0, 24, 32, 64, 96, 130] {
            let outcome = check(&gemm, &Request::exact(72, 40, k)).unwrap();
            assert!(outcome.is_right(), "{schedule}, k = {k}: {outcome}");
        }
    }
}

/// Entries are whole programs: here with different tiles, threads, slots, loads and parameters, for the operands that
/// each accepts.
#[test]
fn entries_of_one_module_may_differ_in_everything() {
    let of = |text: &str| module(&text.parse().unwrap());
    let wide = of("tile(32, 32, 8); thread(4, 4); vector(4); load(cp_async); stages(3); target(sm_80)");
    let narrow = of("tile(16, 16); thread(1, 1); shared(none); target(sm_80)");
    let mut both = wide.clone();
    both.entries.truncate(1);
    both.entries.extend(narrow.entries.clone());
    both.entries[1].params.rotate_left(2);
    let gemm = CompiledGemm::from_tile(&print(&both), &interpreter()).unwrap();
    for (k, entry, threads) in [(64, "gemm_v4", 64), (63, "gemm_v1", 256)] {
        let outcome = check(&gemm, &Request::exact(40, 36, k)).unwrap();
        assert!(outcome.is_right(), "{outcome:?}");
        assert_eq!(outcome.run.entry.as_deref(), Some(entry));
        let found = gemm.interface().entries.iter().find(|found| found.name == entry).unwrap();
        assert_eq!(found.launches[0].threads, threads);
    }
}
