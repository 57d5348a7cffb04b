//! Figures of plans.

use ptx_gemm_dsl::clause::{Emulation, Metric, Relation};
use ptx_gemm_dsl::diagnostic::Edit;
use ptx_gemm_dsl::terms::{
    Along, Edges, FmaOrder, Load, LoadC, Operand, Operands, Pace, Param, Reads, Reduce, Rounding, StageMemory, Store,
    Swizzle, Tail,
};
use ptx_gemm_dsl::words::Word;
use ptx_gemm_dsl::{DType, Diagnostics, Layout, Plan, Problem, Schedule, Target};
use serde::Serialize;

fn plan(text: &str) -> Plan {
    text.parse::<Schedule>().and_then(|schedule| schedule.plan(None)).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_plan_shows_every_figure() {
    insta::assert_snapshot!(plan(
        "tile(128, 96, 8); warp(32, 48); thread(8, 6); fragment(4, 3); vector(4); shared(a = km + pad(4)); \
         double_buffer; epilogue(|acc, c, alpha, bias| alpha * acc + c + bias[n]); layout(c = col)"
    ));
}

/// A plan in JSON uses the language's names.
#[test]
fn names_in_json_are_those_of_the_language() {
    fn check<W: Word + Serialize>() {
        for (word, value) in W::TABLE {
            assert_eq!(serde_json::to_value(value).unwrap(), *word, "{}", W::WHAT);
        }
    }
    let checks = [
        check::<DType>,
        check::<Layout>,
        check::<Target>,
        check::<Along>,
        check::<Operands>,
        check::<Load>,
        check::<FmaOrder>,
        check::<Reads>,
        check::<Rounding>,
        check::<Pace>,
        check::<Reduce>,
        check::<Store>,
        check::<LoadC>,
        check::<StageMemory>,
        check::<Emulation>,
        check::<Edges>,
        check::<Tail>,
        check::<Metric>,
        check::<Relation>,
    ];
    checks.into_iter().for_each(|check| check());
    let of_warps = "types(bf16); atom(mma(16, 8, 16)); tile(64, 64, 32); warp(32, 32); expect { occupancy >= 5 %; shared <= 48 KiB }";
    let json = serde_json::to_value(plan(of_warps)).unwrap();
    assert_eq!(json["atom"], "mma(16, 8, 16)");
    assert_eq!(serde_json::to_value(plan("tile(32, 32, 8); thread(4, 4)")).unwrap()["atom"], "fma");
    let contract = |metric, relation, limit, unit| serde_json::json!({ "metric": metric, "relation": relation, "limit": limit, "unit": unit });
    let contracts = [contract("occupancy", ">=", 5, "%"), contract("shared", "<=", 48 * 1024, "B")];
    assert_eq!(json["resources"]["expect"], serde_json::json!(contracts));
}

#[test]
fn a_direct_plan_stages_nothing() {
    insta::assert_snapshot!(plan("tile(24, 40); thread(1, 4); shared(none); vector(4); raster(group = 4, along = m)"));
}

/// Every number equals the transposed problem's plan; parameter names are those of the requested product.
#[test]
fn a_transposed_plan_is_the_plan_of_the_transposed_problem() {
    let how = "tile(64, 16, 8); thread(4, 4); vector(4); shared(a = km); double_buffer; batch(strided);";
    let asked = "types(a = bf16, b = f16, d = f32); layout(a = row, b = row, c = row, d = col); \
                 epilogue(|acc, c, x, y| acc * x[m] + c + y[n]);";
    let mirrored = "types(a = f16, b = bf16, d = f32); layout(a = col, b = col, c = col, d = row); \
                    epilogue(|acc, c, x, y| acc * x[n] + c + y[m]);";
    let (transposed, direct) = (plan(&format!("{asked} transposed; {how}")), plan(&format!("{mirrored} {how}")));
    assert_eq!(transposed.problem.asked(), plan(&format!("{asked} {how}")).problem);
    let orientation = transposed.problem.orientation;
    assert_eq!(transposed.problem, Problem { orientation, ..direct.problem.clone() });
    let mut same = Plan { problem: direct.problem.clone(), clauses: direct.clauses.clone(), ..transposed };
    for (of_transposed, of_direct) in same.variants.iter_mut().zip(&direct.variants) {
        let named: Vec<_> = of_transposed.params.iter().map(|param| transposed.problem.asked_param(param)).collect();
        assert_eq!(named, of_direct.params);
        of_transposed.params = named;
    }
    assert_eq!(same, direct);
}

#[test]
fn a_plan_is_data() -> Result<(), serde_json::Error> {
    let json = serde_json::to_value(plan("tile(128, 128, 8); thread(8, 8); vector(4); double_buffer"))?;
    assert_eq!(json["target"], "sm_75");
    assert_eq!(json["geometry"]["threads"], 256);
    assert_eq!(json["resources"]["shared_bytes"], 16384);
    assert_eq!(json["problem"]["types"]["acc"], "f32");
    assert_eq!(json["problem"]["epilogue"], "|acc| acc");
    assert_eq!(json["variants"][0]["entry"], "gemm_v4");
    assert_eq!(json["variants"][0]["params"][0]["matrix"], "a");
    Ok(())
}

#[test]
fn the_default_target_is_the_first_that_suffices() -> Result<(), Diagnostics> {
    let target = |text: &str| plan(text).target;
    assert_eq!(target("tile(128, 128, 8); thread(8, 8)"), Target::SM_75);
    assert_eq!(target("tile(128, 128, 64); thread(8, 8)"), Target::SM_75);
    assert_eq!(target("tile(128, 128, 65); thread(8, 8)"), Target::SM_80);
    assert_eq!(target("tile(128, 128, 170); thread(8, 8)"), Target::SM_90);
    assert_eq!(target("tile(128, 128, 8); thread(8, 8); target(sm_120)"), Target::SM_120);
    assert_eq!(target("tile(128, 128, 8); thread(4, 4); blocks_per_sm(2)"), Target::SM_80);
    let schedule: Schedule = "tile(128, 128, 8); thread(8, 8)".parse()?;
    assert_eq!(schedule.plan(Some(Target::SM_89))?.target, Target::SM_89);
    assert_eq!(Plan::new(&schedule.problem()?, &schedule, Target::SM_86)?.target, Target::SM_86);
    Ok(())
}

#[test]
fn widths_follow_the_contiguous_runs() {
    let widths = |text: &str| {
        let plan = plan(text);
        let widest = &plan.variants[0];
        (
            widest.a.width,
            widest.a.store_width,
            widest.b.width,
            widest.b.store_width,
            widest.d_width,
            plan.ring.a.read_width,
        )
    };
    assert_eq!(widths("tile(128, 128, 8); thread(8, 8); vector(4)"), (4, 4, 4, 4, 4, 4));
    assert_eq!(widths("tile(128, 128, 8); thread(8, 8); vector(2)"), (2, 2, 2, 2, 2, 2));
    assert_eq!(widths("tile(128, 128, 8); thread(8, 8); vector(8)"), (4, 4, 4, 4, 4, 4));
    assert_eq!(widths("tile(128, 128, 6); thread(8, 8); vector(4)"), (2, 2, 4, 4, 4, 2));
    // Transposed on the way to shared memory: stored one by one, read along m.
    assert_eq!(widths("tile(128, 128, 8); thread(8, 8); vector(4); shared(a = km)"), (4, 1, 4, 4, 4, 4));
    // A pad that breaks the rows' alignment.
    assert_eq!(widths("tile(128, 128, 8); thread(8, 8); vector(4); shared(a = mk + pad(2))"), (4, 2, 4, 4, 4, 2));
    assert_eq!(widths("tile(128, 128, 8); thread(8, 8); vector(4); unroll(2)"), (4, 4, 4, 4, 4, 2));
    assert_eq!(widths("tile(128, 128, 8); thread(8, 8); vector(4); fragment(8, 2)"), (4, 4, 4, 4, 2, 4));
    assert_eq!(widths("tile(128, 128, 8); thread(8, 8); vector(b = 2)"), (1, 1, 2, 2, 1, 1));
    assert_eq!(widths("tile(64, 64); thread(4, 2); shared(none); vector(4)"), (4, 0, 2, 0, 2, 1));
}

#[test]
fn entries_ask_for_the_alignment_of_their_widths() {
    let plan = plan("tile(128, 128, 8); thread(8, 8); vector(4, d = 2)");
    let entries: Vec<&str> = plan.variants.iter().map(|variant| variant.entry.as_str()).collect();
    assert_eq!(entries, ["gemm_v4", "gemm_v1"]);
    let text = plan.to_string();
    let needs: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("needs multiples of")).collect();
    let needs: Vec<&str> = needs.into_iter().map(str::trim).collect();
    assert_eq!(needs, ["a 16 B, ld 4; b 16 B, ld 4; d 8 B, ld 2", "nothing"]);
}

/// A thread visits its accumulators in D's order.
#[test]
fn a_c_that_lies_the_other_way_is_read_element_by_element() {
    let widths = |layout: &str| {
        let text = format!("tile(64, 64, 8); thread(4, 4); vector(4); epilogue(|acc, c| acc + c); layout({layout})");
        let widest = plan(&text).variants.swap_remove(0);
        (widest.c_width, widest.d_width)
    };
    assert_eq!(widths("c = row, d = row"), (4, 4));
    assert_eq!(widths("c = col, d = col"), (4, 4));
    assert_eq!(widths("c = col, d = row"), (1, 4));
    assert_eq!(widths("c = row, d = col"), (1, 4));
}

#[test]
fn parameters_follow_the_order_of_the_abi() {
    let plan = plan(
        "tile(64, 64, 8); thread(4, 4); \
         epilogue(|acc, u, alpha, c, v, beta| alpha * acc + beta * c + u[m] * v[n])",
    );
    use Operand::{A, B, C, D};
    use Param::{K, Ld, M, Matrix, N, Scalar, Vector};
    let matrices = [Matrix(A), Matrix(B), Matrix(C), Matrix(D)];
    let vectors = [Vector(0), Vector(1)];
    let leading = [Ld(A), Ld(B), Ld(C), Ld(D)];
    let expected = [&matrices[..], &vectors, &[M, N, K], &leading, &[Scalar(0), Scalar(1)]].concat();
    assert_eq!(plan.variants[0].params, expected);
    let epilogue = &plan.problem.epilogue;
    assert_eq!(epilogue.scalars, ["alpha", "beta"]);
    assert_eq!(epilogue.vectors.iter().map(|vector| vector.name.as_str()).collect::<Vec<_>>(), ["u", "v"]);
}

/// Producers are separate warps: only they copy, and the ring has mbarriers.
#[test]
fn a_plan_with_roles_shows_both() {
    let text = "tile(128, 128, 8); thread(8, 8); vector(4); load(cp_async); stages(3)";
    let (one, two) = (plan(text), plan(&format!("{text}; specialize(producers = 1 warp)")));
    assert_eq!(
        (one.roles.producer_warps, one.threads(), one.copying_threads(), one.barrier_offset(&one.variants[0])),
        (0, 256, 256, None)
    );
    assert_eq!((two.roles.producer_warps, two.threads(), two.copying_threads()), (1, 288, 32));
    assert_eq!((two.geometry, two.barrier_offset(&two.variants[0])), (one.geometry, Some(one.resources.shared_bytes)));
    assert_eq!(two.resources.shared_bytes, one.resources.shared_bytes + 3 * 16);
    assert_eq!((one.variants[0].a.passes, two.variants[0].a.passes), (1, 8));
    assert_eq!(
        (one.clauses.specialize.as_str(), two.clauses.specialize.as_str()),
        ("one role", "specialize(producers = 1 warp)")
    );
    insta::assert_snapshot!(two);
}

#[test]
fn roles_are_written_in_several_ways() {
    let base = "tile(128, 128, 8); thread(8, 8); load(cp_async)";
    for (roles, warps) in [
        ("producers = 1 warp", 1),
        ("producers = 4 warps", 4),
        ("producers = 1", 4),
        ("producers = 8 warps", 8),
        ("producers = 2 warps, consumers = 8 warps", 2),
        ("producers = 2 warps, consumers = 2, cooperative", 2),
        ("producers = 1 warp, cooperative", 1),
    ] {
        let schedule: Schedule = format!("{base}; specialize({roles})").parse().unwrap();
        assert_eq!(Schedule::parse(&schedule.to_string()).as_ref(), Ok(&schedule));
        assert!(schedule.to_string().ends_with(&format!("specialize({roles});\n")), "{schedule}");
        for more in ["", "pace(free)", "double_buffer", "split_k(2)", "batch(strided)", "tail(none)"] {
            let schedule = schedule.clone().text(more);
            let plan = schedule.plan(None).unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!((plan.roles.producer_warps, plan.geometry.threads), (warps, 256));
        }
    }
}

/// Warp groups of `wgmma`: the atom's implications, and the choices it leaves to other clauses.
#[test]
fn a_plan_of_warp_groups_shows_what_the_atom_implies() {
    let text = "types(bf16); tile(128, 256, 64); atom(wgmma(64, 256, 16)); load(tma); stages(3); \
                specialize(producers = 1); registers(producer = 24, consumer = 240); persistent; store(tma)";
    let whole = plan(text);
    insta::assert_snapshot!(whole);
    assert_eq!((whole.target, whole.geometry.threads, whole.threads()), (Target::SM_90A, 256, 384));
    // One warp group holds 64 x 256 accumulators, 128 per thread.
    assert_eq!((whole.geometry.thread.m * whole.geometry.thread.n, whole.geometry.regions.m), (128, 8));
    // K of A fits one panel of 128 bytes; 256 columns of B are four.
    let panels = [&whole.ring.a, &whole.ring.b].map(|operand| operand.placement.unwrap().panels());
    assert_eq!((panels, whole.variants[0].a.chunks, whole.variants[0].b.chunks), ([1, 4], 1, 4));
    assert_eq!(
        (whole.clauses.shared.as_str(), whole.clauses.pack.as_str(), whole.clauses.pace.as_str()),
        ("shared(a = mk + swizzle(128), b = kn + swizzle(128))", "pack(a, b)", "pace(free)")
    );
    // The widest swizzle that the rows allow, in memory order.
    let shared = |layout: &str, tile: &str| {
        plan(&format!("types(f16); layout(a = {layout}, b = {layout}); {tile}; atom(wgmma(64, 16, 16)); load(tma)"))
            .clauses
            .shared
    };
    assert_eq!(shared("row", "tile(64, 16, 32)"), "shared(a = mk + swizzle(64), b = kn + swizzle(32))");
    assert_eq!(shared("col", "tile(64, 16, 48)"), "shared(a = km + swizzle(128), b = nk + swizzle(32))");
    // If one instruction reads whole rows of B and only 32 bytes divide them, the last panel is partly filled.
    let columns = |columns: u32, shared: &str| {
        let clauses = format!("tile(128, {columns}, 64); atom(wgmma(64, {columns}, 16)); load(tma); {shared}");
        let plan = plan(&format!("types(bf16); {clauses}"));
        let b = plan.ring.b.placement.unwrap();
        (b.swizzle, b.panels(), b.slot_bytes)
    };
    for (n, span, panels, bytes) in
        [(48, 32, 3, 6144), (96, 64, 3, 12_288), (112, 128, 2, 16_384), (208, 128, 4, 32_768), (224, 64, 7, 28_672)]
    {
        assert_eq!(columns(n, ""), (Swizzle::Bytes(span), panels, bytes), "{n} columns");
    }
    assert_eq!(columns(224, "shared(b = kn + swizzle(128))"), (Swizzle::Bytes(128), 4, 32_768));
    // Other tiles and depths of the same atom.
    for (tile, threads) in [("tile(64, 64, 16)", 128), ("tile(192, 128, 32)", 384), ("tile(512, 64, 64)", 1024)] {
        let plan = plan(&format!("types(bf16); {tile}; atom(wgmma(64, 64, 16)); load(tma)"));
        assert_eq!((plan.geometry.threads, plan.body.unroll, plan.body.prefetch), (threads, plan.block.k, 0));
    }
}

/// The tile of D is in shared memory once, whatever the number of stages: the deepest ring that fits is offered.
#[test]
fn the_most_stages_that_fit_are_offered() {
    let text =
        "types(bf16); tile(128, 256, 64); atom(wgmma(64, 256, 16)); load(tma); specialize(producers = 1); store(tma)";
    let with = |stages: u32| Schedule::parse(&format!("{text}; stages({stages})")).unwrap();
    let said = with(60).check().unwrap_err();
    let errors: Vec<_> = said.errors().collect();
    assert_eq!(errors[0].fix.as_ref().map(|fix| &fix.edit), Some(&Edit::Set("stages(3)".into())), "{said}");
    assert!(with(3).check().is_ok() && with(4).check().is_err());
}

/// For any number of blocks, `wgmma` gets the registers that the assembler demands: one accumulator per two columns,
/// and 26.
#[test]
fn blocks_leave_wgmma_its_registers() {
    let mut several = 0;
    for (n, roles) in (16..=256).step_by(16).flat_map(|n| {
        ["", "specialize(producers = 1);", "specialize(producers = 1, consumers = 2, pingpong); persistent;"]
            .into_iter()
            .chain(["specialize(producers = 1, consumers = 3, pingpong); persistent;"])
            .map(move |roles| (n, roles))
    }) {
        let text = format!("types(bf16); tile(64, {n}, 16); atom(wgmma(64, {n}, 16)); load(tma); stages(1); {roles}");
        let Ok(plan) = Schedule::parse(&text).unwrap().plan(None) else { continue };
        let blocks = plan.resident_blocks(&plan.variants[0]);
        several += usize::from(blocks > 1);
        assert!(plan.registers_per_thread(blocks) >= n / 2 + 26, "{text}: {blocks} blocks");
    }
    assert!(several >= 20, "{several}");
}

/// The register limit per thread is the same in the plan, in its text and in the rule.
#[test]
fn registers_are_one_figure() {
    // 320 threads are ten warps, which allocate the registers of twelve.
    let text = "tile(128, 160, 8); thread(8, 8); vector(4)";
    let one = plan(&format!("{text}; blocks_per_sm(1)"));
    assert_eq!((one.threads(), one.registers_per_thread(1)), (320, 168));
    let shown = one.to_string();
    assert_eq!(shown.matches("at most 168 registers a thread").count(), one.variants.len(), "{shown}");
    assert_eq!(shown.matches("at most").count(), one.variants.len() + 1, "and of shared memory: {shown}");
    let refused = Schedule::parse("tile(208, 240, 8); thread(13, 12); load(cp_async)").unwrap().check().unwrap_err();
    assert!(refused.to_string().contains("each of 320 threads gets at most 168"), "{refused}");
    // Producer warps take registers as well.
    let roles = plan("tile(128, 128, 8); thread(8, 8); vector(4); load(cp_async); specialize(producers = 1 warp)");
    assert_eq!((roles.threads(), roles.registers_per_thread(1), roles.registers_per_thread(2)), (288, 168, 96));
}
