//! The cases of this run's part, executed in the interpreter on sizes that cover every edge: exact data must
//! agree bit for bit, random data within the error bound, and NaN and infinities must appear where they are expected
//! and nowhere else. All checks of the interpreter are on. Some of the sizes also run in other orders of warps.

use std::collections::BTreeSet;

use ptx_gemm_check::mechanisms::MECHANISMS;
use ptx_gemm_check::part::Part;
use ptx_gemm_check::{
    Case, Data, Request, Size, Verdict, cases, check, edge_requests, edge_sizes, quick_requests, quick_sizes, work,
};
use ptx_gemm_interp::{Checks, Options, WarpOrder};
use ptx_gemm_runtime::{CompiledGemm, Device, InterpreterOptions, Kernel};
use rayon::prelude::*;

/// The budget of a case's products, in multiply-adds: of a case of this run's part, and of a mechanism that every run tries.
const BUDGET: usize = 40_000_000;
const SMALL_BUDGET: usize = 10_000_000;

/// Sizes that each case runs at least.
const SEVERAL: usize = 8;

fn device(misalign: u32, order: WarpOrder) -> Device {
    let options = Options { checks: Checks::Full, order, ..Options::default() };
    Device::interpreter_with(InterpreterOptions { options, misalign })
}

/// Returns the entry that ran.
fn run(case: &Case, gemm: &CompiledGemm, request: &Request) -> Option<String> {
    let outcome = check(gemm, request).unwrap_or_else(|e| panic!("{}: {request:?}: {e}", case.name));
    // Special data may leave no element of a small product to compare; exact data do not.
    if outcome.verdict() == Verdict::Uncompared && request.data != Data::Exact {
        return run(case, gemm, &Request { data: Data::Exact, ..request.clone() });
    }
    assert!(outcome.is_right(), "{}: {request:?}: {outcome:?}", case.name);
    outcome.run.entry
}

/// All sizes if they fit the budget, else a few: evenly spread from the smallest to the largest of which several fit.
fn affordable(kernel: &Kernel, budget: usize) -> Vec<Size> {
    let mut sizes: Vec<(usize, Size)> =
        edge_sizes(kernel).into_iter().map(|size| (work(kernel, &size), size)).collect();
    sizes.sort_by_key(|(work, _)| *work);
    let several = sizes.partition_point(|(work, _)| SEVERAL * work <= budget);
    sizes.truncate(several.max(SEVERAL));
    let all: usize = sizes.iter().map(|(work, _)| work).sum();
    let step = if several < SEVERAL { 1 } else { all.div_ceil(budget).max(1) };
    sizes.into_iter().map(|(_, size)| size).step_by(step).collect()
}

#[test]
fn every_case_is_right_on_every_edge() {
    // Most products have few blocks: case by case, one core would be busy for minutes.
    let part = Part::of_this_run();
    let own: BTreeSet<&str> = part.of(cases()).map(|case| case.name).collect();
    all_cases().par_iter().for_each(|case| {
        if own.contains(case.name) {
            right_on_every_edge(case, BUDGET);
        } else if Tried::of(part, case) == Tried::OnEdges {
            right_on_every_edge(case, SMALL_BUDGET);
        }
    });
}

/// What a run tries with a mechanism outside its part: edges, orders, and nothing, in three parts out of three. The
/// ladder runs each of them every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    OnEdges,
    InOrders,
    Neither,
}

impl Tried {
    fn of(part: Part, case: &Case) -> Tried {
        let index = MECHANISMS.iter().position(|mechanism| mechanism.case == case.name).unwrap_or(0);
        match part {
            Part::All => Tried::OnEdges,
            Part::Tenth(number) => [Tried::OnEdges, Tried::InOrders, Tried::Neither][(number + index) % 3],
        }
    }
}

fn all_cases() -> Vec<Case> {
    Part::of_this_run().of_cases(cases()).collect()
}

fn right_on_every_edge(case: &Case, budget: usize) {
    let schedule = case.schedule().unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let (aligned, unaligned) = (device(0, WarpOrder::RunToBarrier), device(1, WarpOrder::RunToBarrier));
    let gemm = CompiledGemm::new(&schedule, &aligned).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let scalar = CompiledGemm::new(&schedule, &unaligned).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let sizes = affordable(gemm.kernel(), budget);
    assert!(sizes.len() >= SEVERAL, "{}: only {} sizes", case.name, sizes.len());
    let mut left: Vec<_> = gemm.interface().entries.iter().map(|entry| Some(entry.name.clone())).collect();
    for (i, size) in sizes.into_iter().enumerate() {
        let [exact, other] = edge_requests(gemm.kernel(), size, i);
        let first = run(case, &gemm, &exact);
        // Every third time without alignment, so that the scalar entry also runs on interior tiles.
        let unaligned = i % 3 == 1;
        let second = run(case, if unaligned { &scalar } else { &gemm }, &other);
        left.retain(|entry| *entry != first && *entry != second);
    }
    assert!(left.is_empty(), "{}: no product ran in {left:?}", case.name);
}

/// Without products, nothing keeps the warps of a group together: an ordered barrier must not complete a second phase before the
/// last warp has observed the first.
#[test]
fn a_turn_waits_for_every_warp() {
    let schedule = "types(bf16); tile(64, 16, 16); atom(wgmma(64, 16, 16)); load(tma); stages(3); \
                    specialize(producers = 1, pingpong); persistent(1)";
    // With arrivals of one thread alone, the first of these orders ends in a deadlock.
    for seed in (0..8).map(|step| 879_285_734_279_345_199 + step) {
        let gemm = CompiledGemm::new(&schedule.parse().unwrap(), &device(0, WarpOrder::Seeded(seed))).unwrap();
        for request in [Request::exact(1, 17, 0), Request::exact(1, 50, 0), Request::exact(70, 33, 40)] {
            let outcome = check(&gemm, &request).unwrap_or_else(|e| panic!("{seed}: {request:?}: {e}"));
            assert!(outcome.is_right(), "{seed}: {request:?}: {outcome:?}");
        }
    }
}

/// Two blocks and three panels: each block starts half the rows of every panel.
#[test]
fn blocks_share_parts_of_every_panel() {
    let schedule = "types(bf16); tile(64, 192, 64); atom(wgmma(64, 192, 16)); load(tma); stages(2); \
                    specialize(producers = 1); cluster(2, 1); multicast(b)";
    for order in [WarpOrder::Forward, WarpOrder::Backward] {
        let gemm = CompiledGemm::new(&schedule.parse().unwrap(), &device(0, order)).unwrap();
        for request in [Request::exact(130, 200, 136), Request::exact(64, 400, 208)] {
            let outcome = check(&gemm, &request).unwrap_or_else(|e| panic!("{order:?}: {request:?}: {e}"));
            assert!(outcome.is_right(), "{order:?}: {request:?}: {outcome:?}");
        }
    }
}

/// Boxes that do not divide evenly: one block starts three of five, and three of four blocks start two of seven.
#[test]
fn blocks_share_boxes_unequally() {
    for clauses in [
        "tile(64, 200, 64); atom(wgmma(64, 200, 16)); cluster(2, 1); multicast(b)",
        "tile(64, 56, 64); atom(wgmma(64, 56, 16)); cluster(4, 1); multicast(b); persistent",
        "tile(192, 40, 128); warp(64, 40); atom(wgmma(64, 40, 16)); cluster(2, 2); multicast(a, b)",
    ] {
        let schedule =
            format!("types(bf16); layout(b = col); load(tma); stages(2); specialize(producers = 1); {clauses}");
        for order in [WarpOrder::Forward, WarpOrder::Late(3)] {
            let gemm = CompiledGemm::new(&schedule.parse().unwrap(), &device(0, order)).unwrap();
            for request in [Request::exact(130, 210, 136), Request::exact(1, 1, 1), Request::exact(400, 90, 200)] {
                let outcome =
                    check(&gemm, &request).unwrap_or_else(|e| panic!("{clauses}, {order:?}: {request:?}: {e}"));
                assert!(outcome.is_right(), "{clauses}, {order:?}: {request:?}: {outcome:?}");
            }
        }
    }
}

/// Warp groups that divide a tile along n or along both extents, in every way to store D and to divide k.
#[test]
fn warp_groups_divide_tiles_along_both_extents() {
    for clauses in [
        "tile(128, 48, 64); warp(128, 24); atom(wgmma(64, 24, 16)); store(tma, memory = ring); persistent",
        "tile(128, 48, 64); warp(64, 24); atom(wgmma(64, 8, 16)); stream_k; store(staged)",
        "tile(64, 64, 32); warp(64, 32); atom(wgmma(64, 16, 16)); split_k(2, reduce = workspace)",
        "tile(64, 64, 32); warp(64, 32); atom(wgmma(64, 32, 16)); split_k(2, reduce = cluster)",
        "tile(64, 64, 64); warp(64, 32); atom(wgmma(64, 32, 16)); transposed; cluster(1, 2); multicast(a); store(tma)",
        "tile(64, 272, 32); warp(64, 272); atom(wgmma(64, 136, 16)); store(tma)",
    ] {
        let schedule =
            format!("types(bf16); layout(b = col); load(tma); stages(3); specialize(producers = 1); {clauses}");
        for order in [WarpOrder::Forward, WarpOrder::Late(3)] {
            let gemm = CompiledGemm::new(&schedule.parse().unwrap(), &device(0, order)).unwrap();
            for request in [Request::exact(130, 304, 136), Request::exact(1, 1, 1), Request::exact(64, 90, 200)] {
                let outcome =
                    check(&gemm, &request).unwrap_or_else(|e| panic!("{clauses}, {order:?}: {request:?}: {e}"));
                assert!(outcome.is_right(), "{clauses}, {order:?}: {request:?}: {outcome:?}");
            }
        }
    }
}

/// Where copies reach along both extents of a cluster, a block's second arrival never counts as that of the block between.
#[test]
fn a_slot_that_a_block_across_the_cluster_returns_is_not_free_for_its_neighbours() {
    let text = "types(a = bf16, b = bf16, d = f32); tile(64, 48, 32); atom(wgmma(64, 16, 16)); load(tma); stages(2); \
                specialize(producers = 1 warp); layout(d = col); cluster(2, 2); multicast(a, b); ";
    for store in ["store(staged, memory = ring)", "store(tma, memory = ring); persistent"] {
        let schedule = format!("{text}{store}").parse().unwrap();
        for seed in [1, 5, 9] {
            let gemm = CompiledGemm::new(&schedule, &device(0, WarpOrder::Late(seed))).unwrap();
            for (m, n, k) in [(1, 1, 1), (200, 150, 70)] {
                let outcome = check(&gemm, &Request::exact(m, n, k)).unwrap_or_else(|e| panic!("{store}, {seed}: {e}"));
                assert!(outcome.is_right(), "{store}, {seed}: {outcome:?}");
            }
        }
    }
}

/// Split K with clusters: the blocks of a cluster sum the same part of k, including blocks outside D, which have flags and sums
/// in the workspace too.
#[test]
fn clusters_sum_parts_of_k() {
    let shared =
        "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma); stages(2); specialize(producers = 1)";
    for clauses in [
        "cluster(2, 1); multicast(b); split_k(3)",
        "cluster(1, 2); multicast(a); split_k(2, reduce = workspace)",
        "cluster(2, 2); multicast(a, b); split_k(2); persistent(8)",
    ] {
        for order in [WarpOrder::Forward, WarpOrder::Seeded(5)] {
            let schedule = format!("{shared}; {clauses}").parse().unwrap();
            let gemm = CompiledGemm::new(&schedule, &device(0, order)).unwrap();
            // One tile of D and the others of its cluster outside; a part without K-tiles; several clusters.
            for (m, n, k) in [(1, 1, 200), (70, 60, 64), (150, 200, 400)] {
                let request = Request::exact(m, n, k);
                let outcome =
                    check(&gemm, &request).unwrap_or_else(|e| panic!("{clauses} {order:?}: {request:?}: {e}"));
                assert!(outcome.is_right(), "{clauses} {order:?}: {request:?}: {outcome:?}");
            }
        }
    }
}

/// Blocks of a cluster sum parts of k, and each stores its share of the tile: every way to copy and to multiply, shares with
/// and without enough lines for all threads, parts without k, and an epilogue that reads C, vectors and scalars.
#[test]
fn the_blocks_of_a_cluster_exchange_sums() {
    let groups = "types(bf16); tile(64, 64, 64); atom(wgmma(64, 64, 16)); load(tma)";
    let schedules = [
        // Shared memory of a power of two, without a gap between blocks.
        "tile(1, 1, 1); thread(1, 1); shared(a = mk, b = kn + swizzle(64)); split_k(2, reduce = cluster)".into(),
        "tile(16, 12, 8); thread(2, 2); split_k(3, reduce = cluster); epilogue(|acc, c, beta, bias| acc + beta * c + bias[n])"
            .into(),
        "types(f64); tile(18, 10, 4); thread(3, 5); load(cp_async); stages(3); layout(c = col); split_k(8, reduce = cluster); \
         epilogue(|acc, c, scale| acc * scale[m] + c)"
            .into(),
        "tile(32, 32, 8); thread(4, 4); load(cp_async); stages(2); specialize(producers = 1 warp); batch(strided); \
         split_k(2, reduce = cluster)"
            .into(),
        "types(bf16); tile(64, 64, 32); warp(32, 32); atom(mma(16, 8, 16)); load(cp_async); stages(3); layout(d = col); \
         split_k(4, reduce = cluster)"
            .into(),
        "types(f32); tile(16, 8, 16); warp(16, 8); atom(mma(16, 8, 16)); load(cp_async); stages(3); emulate(f16x3); \
         split_k(3, reduce = cluster)"
            .into(),
        format!("{groups}; stages(2); split_k(5, reduce = cluster)"),
        format!("{groups}; stages(3); specialize(producers = 1); transposed; tail(even); layout(b = col); split_k(3, reduce = cluster)"),
    ];
    let part = Part::of_this_run();
    for (index, text) in schedules.into_iter().enumerate() {
        for (turn, order) in [WarpOrder::Forward, WarpOrder::Seeded(5), WarpOrder::Late(3)].into_iter().enumerate() {
            // Each schedule in one order, and in the others in its part.
            if turn != index % 3 && !part.has(3 * index + turn) {
                continue;
            }
            let schedule = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            let gemm = CompiledGemm::new(&schedule, &device(0, order)).unwrap();
            let sizes = [(1, 1, 0), (1, 7, 3), (70, 60, 64), (33, 64, 400), (64, 128, 700)];
            // Thousands of clusters of one thread a block would take most of the time.
            let few = if text.starts_with("tile(1, 1, 1)") { 3 } else { sizes.len() };
            for (m, n, k) in sizes.into_iter().take(few) {
                let request = Request::exact(m, n, k);
                let outcome = check(&gemm, &request).unwrap_or_else(|e| panic!("{text} {order:?}: {request:?}: {e}"));
                assert!(outcome.is_right(), "{text} {order:?}: {request:?}: {outcome:?}");
            }
        }
    }
}

/// What `gemmc selftest --quick` multiplies, sizes in the interior and at the edges that run every entry, each with two kinds of
/// data in two orders; and one size with K-tiles that fill every stage three times, in both orders.
#[test]
fn every_case_is_right_in_every_order_of_warps() {
    let part = Part::of_this_run();
    let own: BTreeSet<&str> = part.of(cases()).map(|case| case.name).collect();
    let cases: Vec<(usize, Case)> = all_cases().into_iter().enumerate().collect();
    let tried = |(_, case): &&(usize, Case)| own.contains(case.name) || Tried::of(part, case) == Tried::InOrders;
    cases.par_iter().filter(tried).for_each(|(index, case)| {
        let index = *index;
        let schedule = case.schedule().unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let [one, other] = [WarpOrder::Backward, WarpOrder::Seeded(index as u64)].map(|order| {
            CompiledGemm::new(&schedule, &device(0, order)).unwrap_or_else(|e| panic!("{}: {e}", case.name))
        });
        let kernel = one.kernel();
        let mut left: Vec<_> = one.interface().entries.iter().map(|entry| Some(entry.name.clone())).collect();
        for (turn, size) in quick_sizes(kernel).into_iter().enumerate() {
            let (first, second) = if (index + turn).is_multiple_of(2) { (&one, &other) } else { (&other, &one) };
            let [exact, special] = quick_requests(kernel, size, turn);
            let ran = [run(case, first, &exact), run(case, second, &special)];
            left.retain(|entry| !ran.contains(entry));
        }
        assert!(left.is_empty(), "{}: no product ran in {left:?}", case.name);
        let plan = schedule.plan(None).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let tile = plan.problem.asked_extents(plan.block);
        let pairs = plan.sums.emulate.map_or(1, |emulate| emulate.by.pairs().len() as u32);
        let k = tile.k.max(1) * (plan.ring.stages.max(1) * 3).div_ceil(pairs);
        let deep = Request { seed: index as u64, ..Request::exact(tile.m as usize, tile.n as usize, k as usize) };
        run(case, &one, &deep);
        run(case, &other, &deep);
    });
}
