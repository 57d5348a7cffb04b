//! The cost of cases, as counted by the interpreter: a summary in a snapshot, and the properties that the cases
//! demonstrate. The ladder counts every case, every time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use ptx_gemm_check::part::Part;
use ptx_gemm_check::{Case, Profile, Size, Verdict, case, cases};
use ptx_gemm_dsl::Schedule;
use ptx_gemm_dsl::terms::Operand;
use ptx_gemm_runtime::Kernel;

/// The cases of this run's part and those of the claims, counted once for all tests of this file.
fn profiles() -> &'static BTreeMap<&'static str, Profile> {
    static PROFILES: LazyLock<BTreeMap<&'static str, Profile>> = LazyLock::new(|| {
        let profile = |case: Case| {
            let schedule = case.schedule().unwrap_or_else(|e| panic!("{}: {e}", case.name));
            (case.name, Profile::new(&schedule).unwrap_or_else(|e| panic!("{}: {e}", case.name)))
        };
        let part = Part::of_this_run();
        let own: BTreeSet<&str> = part.of(cases()).map(|case| case.name).collect();
        let claimed =
            |name: &str| CONFLICT_FREE.contains(&name) || CLAIMS.iter().any(|claim| claim.2 == name || claim.3 == name);
        cases().filter(|case| own.contains(case.name) || claimed(case.name)).map(profile).collect()
    });
    &PROFILES
}

fn snapshot_name(case: &str) -> String {
    format!("{case}__cost")
}

/// Every snapshot of this file.
pub(crate) fn snapshot_names() -> Vec<String> {
    cases().map(|case| snapshot_name(case.name)).collect()
}

#[test]
fn every_case_costs_what_it_did() {
    let profiles = profiles();
    crate::snapshots().bind(|| {
        for (name, profile) in profiles {
            assert_eq!(
                profile.verdict,
                Verdict::Right,
                "{name}: the largest error is {} of its bound",
                profile.max_error
            );
            insta::assert_snapshot!(snapshot_name(name), profile.to_string());
        }
    });
}

/// The formula of the CUDA SGEMM worklog for the bytes loaded, in every case.
#[test]
fn bytes_from_global_memory_are_those_of_the_formula() {
    for (name, profile) in profiles() {
        let plan = case(name).unwrap().schedule().unwrap().plan(None).unwrap();
        // The formula is of one launch.
        if plan.sums.strassen.is_none() {
            assert_eq!(profile.bytes(), profile.formula_bytes, "{name}: bytes of A and B");
        }
        let written = profile.traffic(Operand::D).written;
        let elements = (profile.size.m * profile.size.n) as u64;
        let bytes = plan.problem.types.d.bytes();
        assert_eq!(written, u64::from(bytes) * elements, "{name}: each element of D is stored once");
    }
}

/// Boxes are as wide as narrow tiles: each row of A is copied once for each tile of B's columns, and no other.
#[test]
fn boxes_of_narrow_tiles_hold_nothing_else() {
    let narrow = "types(bf16); transposed; tile(64, 128, 64); load(tma); stages(3); batch(grouped);";
    for clauses in [
        "atom(wgmma(64, 128, 16));",
        "atom(wgmma(64, 128, 16)); cluster(2, 1); multicast(b);",
        "atom(wgmma(64, 128, 16)); store(tma);",
    ] {
        let schedule: Schedule = format!("{narrow} {clauses}").parse().unwrap();
        let kernel = Kernel::compile(&schedule, None).unwrap();
        for m in [16, 144, 250] {
            let profile = Profile::at(&kernel, Size::new(m, 128, 64)).unwrap_or_else(|e| panic!("{clauses}: {e}"));
            let tiles = if clauses.contains("multicast") { 1 } else { 2 };
            assert_eq!(
                profile.verdict,
                Verdict::Right,
                "{clauses}: the largest error is {} of its bound",
                profile.max_error
            );
            assert_eq!(profile.traffic(Operand::A).read, tiles * (m * 64 * 2) as u64, "{clauses}, {m} rows");
        }
    }
}

/// The same with other copies, layouts, rasters and orders of summation.
#[test]
fn the_formula_holds_for_other_clauses() {
    for clauses in [
        "tile(64, 64, 16); thread(4, 4); vector(4); load(cp_async); stages(3);",
        "tile(64, 32, 8); thread(4, 2); vector(4); shared(a = mk + swizzle(32), b = kn + swizzle(128));",
        "tile(32, 64, 8); thread(4, 4); layout(a = col, b = col, d = col); vector(4); double_buffer;",
        "tile(64, 64, 8); thread(4, 4); persistent(3);",
        "tile(64, 64, 8); thread(4, 4); stream_k;",
        "tile(32, 32, 8); thread(2, 2); split_k(2, reduce = serial);",
        "tile(32, 32, 8); thread(2, 2); split_k(3, reduce = workspace);",
        "tile(48, 80, 5); thread(3, 5); raster(group = 2, along = m);",
        "tile(64, 64); thread(8, 4); vector(4); shared(none);",
        "tile(64, 64, 16); thread(4, 4); vector(4); load(tma); stages(3);",
    ] {
        let profile = Profile::new(&clauses.parse().unwrap()).unwrap_or_else(|e| panic!("{clauses}: {e}"));
        assert_eq!(
            profile.verdict,
            Verdict::Right,
            "{clauses}: the largest error is {} of its bound",
            profile.max_error
        );
        assert_eq!(profile.bytes(), profile.formula_bytes, "{clauses}");
    }
}

/// A figure of one case, and the case in which it must be larger.
type Below = (&'static str, fn(&Profile) -> f64, &'static str, &'static str);

/// Each case compared with the one that it improves on, by the figure that it demonstrates.
const CLAIMS: [Below; 14] = [
    ("sectors of global loads", |p| p.per_fma(p.cost.global_loads.sectors), "naive", "naive_uncoalesced"),
    ("bytes of A and B", bytes_per_fma, "shared_32", "naive"),
    ("bytes of A and B", bytes_per_fma, "thread_1d", "shared_32"),
    ("bytes of A and B", bytes_per_fma, "thread_2d", "thread_1d"),
    ("loads", Profile::loads_per_fma, "two_per_thread", "shared_32"),
    ("loads", Profile::loads_per_fma, "registers", "thread_2d"),
    ("loads", Profile::loads_per_fma, "vectorized", "registers"),
    ("instructions that store to shared memory", stores, "vectorized", "vectorized_km"),
    ("passes of loads over the banks", passes, "conflict_free", "double_buffered"),
    ("words read from shared memory", words, "warp_tiled", "conflict_free"),
    ("words read from shared memory", words, "warp_tiled", "double_buffered"),
    ("barriers", barriers, "double_buffered", "vectorized"),
    ("barriers", barriers, "shared_deep", "shared_32"),
    ("loads", Profile::loads_per_fma, "lab3", "lab3_scalar"),
];

fn bytes_per_fma(profile: &Profile) -> f64 {
    profile.per_fma(profile.bytes())
}

fn stores(profile: &Profile) -> f64 {
    profile.per_fma(profile.cost.shared_stores.accesses)
}

fn passes(profile: &Profile) -> f64 {
    profile.per_fma(profile.cost.shared_loads.wavefronts)
}

fn words(profile: &Profile) -> f64 {
    profile.per_fma(profile.cost.shared_loads.words)
}

fn barriers(profile: &Profile) -> f64 {
    profile.per_fma(profile.cost.barriers())
}

#[test]
fn cases_show_what_they_exist_to_show() {
    let profiles = profiles();
    for (what, figure, better, worse) in CLAIMS {
        let (better_figure, worse_figure) = (figure(&profiles[better]), figure(&profiles[worse]));
        let text = format!("{what} per multiply-add: {better} {better_figure:.4}, {worse} {worse_figure:.4}");
        println!("{text}");
        assert!(better_figure < worse_figure, "{text}");
    }
}

const CONFLICT_FREE: [&str; 2] = ["conflict_free", "warp_tiled"];

/// The counted conflicts are 0 where that is claimed; the same tile without padding has some.
#[test]
fn conflict_free_has_no_bank_conflicts() {
    let profiles = profiles();
    for name in CONFLICT_FREE {
        let cost = &profiles[name].cost;
        assert_eq!((cost.shared_loads.conflicts(), cost.shared_stores.conflicts()), (0, 0), "{name}");
    }
    let unpadded = "tile(128, 128, 8); thread(8, 8); fragment(4, 4); vector(4); shared(a = km); double_buffer;";
    let unpadded = Profile::new(&unpadded.parse().unwrap()).unwrap();
    assert!(unpadded.cost.shared_stores.conflicts() > 0, "the pad has no effect");
    assert!(profiles["double_buffered"].cost.shared_loads.conflicts() > 0, "the fragments have no effect");
}

/// Copies that transpose A: one 16-byte load becomes four scattered stores, while B's stay whole.
#[test]
fn vectorized_km_stores_a_transposed() {
    let profiles = profiles();
    let (straight, transposed) = (&profiles["vectorized"].cost, &profiles["vectorized_km"].cost);
    let copies = straight.mix.store_shared;
    assert_eq!(copies, straight.mix.load_global, "one store for one load");
    assert_eq!(transposed.mix.store_shared, copies / 2 + 4 * (copies / 2));
    assert!(transposed.shared_stores.conflicts() > 0 && straight.shared_stores.conflicts() == 0);
}
