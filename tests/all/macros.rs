//! `gemm!` where it succeeds: spellings, values from the surrounding code, schedules that extend others.

use ptx_gemm::builder::{Atom, BatchKind, Edges, Emulation, Load, Metric, Roles};
use ptx_gemm::{DType, Diagnostics, Gemm, Layout, Schedule, Target, gemm};

const BM: usize = 128;

macro_rules! square {
    ($size:expr, $depth:literal, $target:ident) => {
        gemm! { tile({$size}, {$size}, $depth); thread(8, 8); target($target); }
    };
}

#[test]
fn three_spellings_text_and_builder_are_the_same() {
    let braces: Gemm = gemm! { tile(128, 128, 8); thread(8, 8); vector(4); double_buffer; };
    let parentheses: Gemm = gemm!(tile(128, 128, 8); thread(8, 8); vector(4); double_buffer);
    let brackets: Gemm = gemm!(< tile(128, 128, 8); thread(8, 8); vector(4); double_buffer; >);
    let text = "tile(128, 128, 8); /* a comment */ thread(8, 8); vector(4); double_buffer // another".parse::<Gemm>();
    let built = Schedule::new().tile(128, 128, 8).thread(8, 8).vector(4).double_buffer();
    assert_eq!(braces, parentheses);
    assert_eq!(braces, brackets);
    assert_eq!(Ok(braces.clone()), text);
    assert_eq!(braces.schedule(), &built);
}

#[test]
fn a_file_is_found_from_the_source_file() -> Result<(), Diagnostics> {
    let written = gemm! { tile(64, 64, 8); thread(4, 4) };
    let kernel: Gemm = gemm!(file "../ui/schedules/good.gemm");
    assert_eq!(kernel, written);
    assert_eq!(gemm!(< file "../ui/schedules/good.gemm"; >), written);
    let deeper = gemm! { ..gemm!(file "../ui/schedules/good.gemm"); double_buffer }?;
    assert_eq!(deeper, gemm! { tile(64, 64, 8); thread(4, 4); double_buffer });
    Ok(())
}

/// The macro and the text are filled in alike, and what was chosen is in the plan and in the PTX.
#[test]
fn open_values_are_chosen_while_the_crate_is_compiled() -> Result<(), Box<dyn std::error::Error>> {
    let kernel: Gemm =
        gemm! { types(f16); tile(64, ?, 64); atom(wgmma(64, ?, 16)); load(tma); stages(?); shape(64, 4096, 4096) };
    let text: Gemm =
        "types(f16); tile(64, ?, 64); atom(wgmma(64, ?, 16)); load(tma); stages(?); shape(64, 4096, 4096)".parse()?;
    assert_eq!(kernel, text);
    assert_eq!(kernel.schedule().filled(), text.schedule().filled());
    let chosen = kernel.schedule().filled().expect("what was chosen").to_string();
    assert!(chosen.contains("; stages(") && chosen.contains("for 64 x 4096 x 4096 on H200"), "{chosen}");
    assert!(kernel.plan(None)?.to_string().starts_with("chosen\n  clauses             tile(64, "));
    assert!(kernel.ptx(None)?.contains("// chosen: tile(64, "));
    // A clause that is replaced was not chosen.
    let other = gemm! { ..kernel; stages(2) }?;
    assert!(!other.schedule().filled().expect("the tile").to_string().contains("stages("));
    let whole: Gemm = gemm! { schedule(?); shape(64, 64, 64); target(sm_80) };
    assert!(whole.schedule().filled().is_some_and(|chosen| chosen.gpu == "A100"));
    assert_eq!(gemm!(file "../ui/schedules/open.gemm"), kernel);
    Ok(())
}

#[test]
fn holes_take_values_from_the_surrounding_code() -> Result<(), Diagnostics> {
    let (columns, scale, order) = (64u8, -0.5f32, Layout::Col);
    let kernel: Gemm = gemm! {
        tile({BM}, {columns}, 8);
        thread(8, {
            let half = 4;
            half * 2
        });
        types({DType::F32});
        layout(b = {order});
        target({Target::SM_80});
        epilogue(|acc, c, alpha| {scale} * acc - alpha * relu(c));
    }?;
    let written = gemm! {
        tile(128, 64, 8);
        thread(8, 8);
        types(f32);
        layout(b = col);
        target(sm_80);
        epilogue(|acc, c, alpha| -0.5 * acc - alpha * relu(c));
    };
    assert_eq!(kernel, written);
    assert_eq!(square!(64, 8, sm_86)?.to_string(), "tile(64, 64, 8);\nthread(8, 8);\ntarget(sm_86);\n");
    Ok(())
}

#[test]
fn holes_take_words_of_every_kind() -> Result<(), Diagnostics> {
    let (roles, atom, metric) = (Roles::Pingpong, Atom::Wgmma(64, 64, 16), Metric::OccupancyPercent);
    let kernel = gemm! {
        types({DType::Bf16});
        batch({BatchKind::Strided});
        tile(64, 64, 64);
        atom({atom});
        load({Load::Tma});
        stages(3);
        persistent;
        specialize(producers = 1, {roles});
        tail({Edges::Predicate});
        expect { {metric} >= 10 %; {Metric::Threads} = 384; spills = 0 }
    }?;
    let written = gemm! {
        types(bf16);
        batch(strided);
        tile(64, 64, 64);
        atom(wgmma(64, 64, 16));
        load(tma);
        stages(3);
        persistent;
        specialize(producers = 1, pingpong);
        tail(predicate);
        expect { occupancy >= 10 %; threads = 384; spills = 0 }
    };
    assert_eq!(kernel, written);
    let emulated = gemm! { emulate({Emulation::Bf16x3}); tile(64, 64, 32); atom(mma(16, 8, 16)); warp(32, 32) }?;
    assert_eq!(emulated, gemm! { emulate(bf16x3); tile(64, 64, 32); atom(mma(16, 8, 16)); warp(32, 32) });
    Ok(())
}

/// `.5` is two tokens of Rust, and a number of the language.
#[test]
fn a_point_has_digits_on_one_side() {
    let half = gemm! { tile(32, 32, 8); thread(4, 4); epilogue(|acc| acc*.5 + 1. - .5e-1); expect { max_error <= .5 } };
    let text = "tile(32, 32, 8); thread(4, 4); epilogue(|acc| acc * 0.5 + 1 - 0.05); expect { max_error <= 0.5 }";
    assert_eq!(Ok(half), text.parse());
    let kernels = (gemm! { tile(32, 32, 8); thread(4, 4) },);
    assert_eq!(gemm! { ..kernels.0; stages(1) }, "tile(32, 32, 8); thread(4, 4); stages(1)".parse());
}

#[test]
fn roles_take_holes() -> Result<(), Diagnostics> {
    let warps = 2;
    let kernel = gemm! { tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = {warps} warps) }?;
    assert_eq!(kernel, gemm! { tile(128, 128, 8); thread(8, 8); load(cp_async); specialize(producers = 2 warps) });
    assert_eq!(kernel.plan(None)?.threads(), 256 + 64);
    Ok(())
}

#[test]
fn what_holes_make_wrong_is_said_when_it_is_constructed() {
    let three = 3;
    let refused = gemm! { tile(128, 128, 8); thread({three}, 8); }.unwrap_err();
    // The macro's own place, so that an error in a large program is found.
    let place = format!("tests/all/macros.rs:{}:19", line!() - 2);
    assert!(refused.to_string().contains(&place), "{place}: {refused}");
    let refused = refused.to_string().replace(&place, "[macro]");
    insta::assert_snapshot!(refused, @r"
    error: thread(3, 8) does not divide tile(128, 128, 8): along m 128 = 42 x 3 + 2
     --> schedule:2:1
      |
    2 | thread(3, 8);
      | ^^^^^^^^^^^^
      |
      = note: the schedule is that of `gemm!` at [macro]
      = help: thread(4, 8) does
    ");
    let infinite = f64::INFINITY;
    let refused = gemm! { tile(128, 128, 8); thread(8, 8); epilogue(|acc| {infinite} * acc); }.unwrap_err();
    assert!(refused.to_string().contains("inf is not a literal"), "{refused}");
    assert!(refused.to_string().contains("epilogue(|acc| inf * acc);"), "{refused}");
    let grouped = gemm! { tile(128, 128, 8); thread(8, 8); epilogue(|acc, x| 2 * (x[n] - max(acc, {infinite}))); };
    let refused = grouped.unwrap_err();
    assert!(refused.to_string().contains("epilogue(|acc, x| 2 * (x[n] - max(acc, inf)));"), "{refused}");
}

#[test]
fn clauses_beside_a_base_take_the_place_of_its_own() -> Result<(), Diagnostics> {
    let kernel = gemm! { tile(128, 64, 8); thread(8, 8); vector(4); };
    let pipelined = gemm! { ..kernel; double_buffer; vector(2) }?;
    assert_eq!(pipelined.to_string(), "tile(128, 64, 8);\nthread(8, 8);\ndouble_buffer;\nvector(2);\n");
    let again = gemm! { ..&pipelined; stages(1) }?;
    let from_schedule = gemm! { ..pipelined.schedule(); stages({1}) }?;
    assert_eq!(again, from_schedule);
    assert_eq!(again.to_string(), "tile(128, 64, 8);\nthread(8, 8);\nvector(2);\nstages(1);\n");
    Ok(())
}

macro_rules! pipelined {
    ($base:expr) => {
        gemm! { ..$base.clone(); double_buffer }
    };
}

macro_rules! resized {
    ($base:expr, $size:expr) => {
        gemm! { $base; double_buffer; tile({$size * 2}, 64, {$size}) }
    };
}

/// A base and a hole may be any expressions; one that another macro passes on stays one operand.
#[test]
fn bases_and_holes_are_expressions() -> Result<(), Diagnostics> {
    let kernel = gemm! { tile(128, 64, 8); thread(8, 8) };
    let (reference, expected) = (&kernel, gemm! { tile(128, 64, 8); thread(8, 8); double_buffer });
    assert_eq!(pipelined!(*reference)?, expected);
    assert_eq!(resized!(..reference, 8 + 8)?, gemm! { thread(8, 8); double_buffer; tile(32, 64, 16) });
    assert_eq!(gemm! { ..if kernel == expected { &expected } else { reference }; double_buffer }?, expected);
    assert_eq!(gemm! { ..{ let other = &kernel; other.clone() }; double_buffer }?, expected);
    Ok(())
}

/// Clause names do not clash with the user's names, and the expansion causes no warnings under strict lints.
#[deny(warnings)]
mod hygiene {
    use ptx_gemm::{Gemm, gemm};

    mod tile {}
    #[allow(dead_code)]
    fn thread() {}
    #[allow(dead_code)]
    struct Schedule;
    #[allow(dead_code)]
    enum Result {}

    #[test]
    fn every_clause_that_works_is_accepted() {
        let kernel: Gemm = gemm! {
            types(f32);
            layout(a = col, b = row, c = col, d = row);
            epilogue(|acc, c, alpha, bias| clamp(alpha * acc + c, -1, 1) + bias[n]);
            tile(64, 64, 8);
            warp(16, 32);
            thread(4, 4);
            fragment(4, 2);
            lanes(along = m);
            atom(fma);
            vector(4, d = 2);
            shared(a = km + pad(4), b = kn);
            operands(registers);
            load(registers);
            stages(2);
            unroll(4);
            order(snake);
            prefetch(2);
            pace(tile);
            blocks_per_sm(2);
            spills(allow);
            raster(group = 4, along = m);
            store(direct);
            tail(predicate);
            target(sm_80);
        };
        let size = 64;
        let again = gemm! { tile({size}, 64, 8); thread(4, 4) };
        assert!(again.is_ok() && kernel.plan(None).is_ok());
    }
}
