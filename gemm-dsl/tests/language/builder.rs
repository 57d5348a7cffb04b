//! The builder, text and extension produce the same schedules, and all report errors when the schedule is checked.

use ptx_gemm_dsl::terms::{
    Along, Edges, Fast, FmaOrder, Load, LoadC, Operands, Pace, Reads, Reduce, StageMemory, Store,
};
use ptx_gemm_dsl::types::Layouts;
use ptx_gemm_dsl::{DType, Diagnostics, Layout, Schedule, Target, clause::*};

#[test]
fn every_clause_has_a_method() {
    let (row, col) = (Layout::Row, Layout::Col);
    let built = Schedule::new()
        .types(DType::F32)
        .layout(Layouts { a: row, b: col, c: row, d: row })
        .epilogue("|acc, bias| relu(acc + bias[n])")
        .batch(BatchKind::Strided)
        .target(Target::SM_90A)
        .tile(128, 128, 8)
        .warp(32, 64)
        .thread(8, 8)
        .fragment(4, 4)
        .lanes(Along::Z)
        .atom(Atom::Fma)
        .vector(4)
        .shared(Some(StagedOrder { fast: Fast::Mn, skew: Skew::Swizzle(128) }), None)
        .operands(Operands::Registers)
        .load_with_c(Load::CpAsync, LoadC::Tma)
        .pack(true, false)
        .stages(3)
        .unroll(4)
        .order(FmaOrder::Snake)
        .prefetch_of(2, Reads::Volatile)
        .pace(Pace::Free)
        .blocks_per_sm(2)
        .spills(Spills::Allow)
        .raster(8, Along::M)
        .persistent(Some(132))
        .split_k(4, Reduce::Workspace)
        .transposed()
        .stream_k()
        .cluster(2, 1)
        .multicast(Fetch::Multicast, Fetch::Own)
        .specialize_of(SpecializeClause {
            producers: WarpCount::Warps(1),
            consumers: Some(WarpCount::Groups(2)),
            roles: Some(Roles::Cooperative),
        })
        .registers(40, 232)
        .store_in(Store::Tma, StageMemory::Ring)
        .promote(4)
        .emulate(Emulation::Bf16x6)
        .strassen(1)
        .tail(Edges::None)
        .expect(Metric::Spills, Relation::Equal, 0)
        .expect(Metric::Shared, Relation::AtMost, 48 * 1024)
        .expect(Metric::LoadsPerFma, Relation::AtMost, 0.5)
        .expect(Metric::OccupancyPercent, Relation::AtLeast, 25);
    insta::assert_snapshot!(built);
    // Methods that set the same clause in other ways.
    let deep = Schedule::new().tile(128, 128, 8).warp_deep(32, 64, 4).thread(8, 8);
    assert_eq!(deep, "tile(128, 128, 8); warp(32, 64, 4); thread(8, 8)".parse().unwrap());
}

#[test]
fn a_builder_reports_its_text_when_it_is_checked() {
    let schedule = Schedule::new()
        .tile(128, 128, 8)
        .thread(8, 8)
        .epilogue("|acc| alpha * acc")
        .vector_of(VectorClause { c: Some(4), ..VectorClause::default() });
    insta::assert_snapshot!(schedule.check().unwrap_err());
    insta::assert_snapshot!(schedule.double_buffer().stages(4).check().unwrap_err());
}

/// An access moves a power of two elements, however the width is given.
#[test]
fn widths_that_no_access_has_are_refused_in_every_spelling() {
    let good = || Schedule::new().tile(128, 128, 8).thread(8, 8);
    let text = |clause: &str| Schedule::parse(&format!("tile(128, 128, 8); thread(8, 8); {clause}")).unwrap();
    for (schedule, said) in [
        (good().vector(3), "vector(3): no access moves 3 elements, only powers of two; vector(2) or vector(4)"),
        (text("vector(3)"), "vector(3): no access moves 3 elements, only powers of two; vector(2) or vector(4)"),
        (
            good().vector_of(VectorClause { a: Some(3), ..VectorClause::default() }),
            "vector(a = 3): no access moves 3 elements, only powers of two: a = 2 or a = 4; write vector(a = 2), for example",
        ),
        (
            text("vector(4, d = 3)"),
            "vector(4, d = 3): no access moves 3 elements, only powers of two: d = 2 or d = 4; write vector(4, d = 2), for example",
        ),
    ] {
        let errors = schedule.check().unwrap_err();
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [said]);
    }
    for legal in ["vector(1)", "vector(8)", "vector(1024)", "vector(2, a = 4)"] {
        assert!(text(legal).check().is_ok(), "{legal}");
    }
}

/// Data that text cannot express is rejected, not printed.
#[test]
fn data_that_text_cannot_say_is_refused() {
    use ptx_gemm_dsl::epilogue::{Epilogue, Expr};
    let good = || Schedule::new().tile(128, 128, 8).thread(8, 8);
    assert!(good().types_of(TypesClause::default()).shared(None, None).check().is_ok());
    let dangling = Epilogue { expr: Expr::Scalar(3), ..Epilogue::identity() };
    let invented = Target { capability: 77, specific: true };
    for (schedule, about) in [
        (good().clause(Clause::Epilogue(dangling)), "does not read back"),
        (good().raster(1, Along::Z), "not z"),
        (good().target(invented), "sm_77a is not a target"),
    ] {
        let errors = schedule.check().unwrap_err();
        assert!(errors.to_string().contains(about), "{errors}");
    }
    assert!(good().plan(Some(invented)).unwrap_err().to_string().contains("sm_77a is not a target"));
}

#[test]
fn changes_replace_clauses_of_their_kind() -> Result<(), Diagnostics> {
    let base: Schedule = "tile(128, 128, 8); thread(8, 8); double_buffer; vector(4)".parse()?;
    let changed = Schedule::new().stages(1).thread(4, 8).extend_from(&base);
    assert_eq!(changed, "tile(128, 128, 8); vector(4); stages(1); thread(4, 8)".parse()?);
    assert_eq!(base.clone().with(Schedule::new()), base);
    assert_eq!(base.clone().extend_from(&Schedule::new()), base);
    // An error of one part is an error of the whole.
    assert!(base.with(Schedule::new().epilogue("oops")).check().is_err());
    Ok(())
}

#[test]
fn schedules_cross_threads() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<Schedule>();
    crosses::<Diagnostics>();
    crosses::<ptx_gemm_dsl::Plan>();
}

#[test]
fn targets_read_back_and_suggest() {
    for target in Target::ALL {
        assert_eq!(target.to_string().parse(), Ok(target));
    }
    assert_eq!("sm90a".parse::<Target>().unwrap_err().to_string(), "unknown target `sm90a`; did you mean `sm_90a`?");
    assert_eq!("90a".parse::<Target>().unwrap_err().help.as_deref(), Some("did you mean `sm_90a`?"));
}
