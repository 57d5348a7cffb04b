//! A schedule from every method of the builder, using names of `ptx_gemm` alone, as in a crate without other dependencies.

use std::collections::BTreeSet;

use ptx_gemm::builder::{
    Along, Atom, BatchKind, Clause, Edges, Emulation, Fast, Fetch, FmaOrder, LayoutClause, Layouts, Load, LoadC,
    Metric, Operands, Pace, Reads, Reduce, Relation, Roles, Rounding, Skew, SpecializeClause, Spills, StageMemory,
    StagedOrder, Store, TypesClause, VectorClause, WarpCount,
};
use ptx_gemm::{DType, Layout, Schedule, Target};

/// The names of the methods that take a schedule and give one.
fn methods() -> BTreeSet<String> {
    let source = include_str!("../../gemm-dsl/src/builder.rs");
    let signatures = source.lines().filter_map(|line| line.trim().strip_prefix("pub fn "));
    signatures.filter_map(|rest| rest.split_once('(')).map(|(name, _)| name.to_string()).collect()
}

macro_rules! chain {
    ($($method:ident($($argument:expr),*);)*) => {
        (Schedule::new()$(.$method($($argument),*))*, [$(stringify!($method)),*])
    };
}

#[test]
fn every_method_takes_what_the_facade_exports() {
    let staged = StagedOrder { fast: Fast::Mn, skew: Skew::Pad(4) };
    let (row, col) = (Layout::Row, Layout::Col);
    let (schedule, called) = chain! {
        types(DType::F32);
        types_of(TypesClause { acc: Some(DType::F32), ..TypesClause::default() });
        layout(Layouts { a: row, b: col, c: row, d: row });
        layout_of(LayoutClause { a: Some(col), ..LayoutClause::default() });
        epilogue("|acc, bias| relu(acc + bias[n])");
        batch(BatchKind::Strided);
        target(Target::SM_90A);
        shape(300, 11480, 3000);
        gpu("H200");
        transposed();
        tile(128, 128, 8);
        tile_direct(16, 16);
        warp(32, 64);
        warp_deep(32, 64, 8);
        thread(8, 8);
        fragment(4, 4);
        lanes(Along::Z);
        atom(Atom::Fma);
        vector(4);
        vector_of(VectorClause { d: Some(2), ..VectorClause::default() });
        shared(Some(staged), None);
        shared_none();
        operands(Operands::Registers);
        load(Load::CpAsync);
        pack(true, false);
        stages(3);
        double_buffer();
        unroll(4);
        order(FmaOrder::Snake);
        prefetch(2);
        prefetch_of(1, Reads::Volatile);
        pace(Pace::Free);
        blocks_per_sm(2);
        spills(Spills::Allow);
        raster(8, Along::M);
        persistent(Some(132));
        split_k(4, Reduce::Workspace);
        stream_k();
        cluster(2, 1);
        multicast(Fetch::Multicast, Fetch::Own);
        specialize(WarpCount::Warps(1));
        specialize_of(SpecializeClause { producers: WarpCount::Warps(1), consumers: None, roles: Some(Roles::Cooperative) });
        registers(40, 232);
        store(Store::Staged);
        store_in(Store::Tma, StageMemory::Ring);
        load_with_c(Load::Tma, LoadC::Tma);
        promote_by(64, Rounding::Compensated);
        promote(4);
        promote_nothing();
        emulate(Emulation::Bf16x3);
        strassen(1);
        tail(Edges::Predicate);
        expect(Metric::OccupancyPercent, Relation::AtLeast, 25);
        text("vector(2)");
        clause(Clause::Stages(2));
    };
    let called: BTreeSet<String> = called.into_iter().map(str::to_string).collect();
    assert_eq!(called, methods(), "the methods of the builder, and those called here");
    // All of them at once contradict each other; each has become a clause.
    assert!(schedule.to_string().lines().count() >= 40, "{schedule}");
}
