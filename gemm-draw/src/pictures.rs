//! Every case as a picture: it is drawn, well-formed and legible, and its figures are the interpreter's.

use ptx_gemm_check::part::Part;
use ptx_gemm_check::{Case, cases};
use ptx_gemm_choose::Gpu;
use ptx_gemm_runtime::Kernel;
use ptx_gemm_runtime::interp::SharedCost;
use rayon::prelude::*;
use roxmltree::{Document, Node};

use crate::{Conflicts, Measured, Picture, Scheme, Subject, What, conflicts, draw};

/// A program that no schedule makes: two rings, two sets of accumulators.
const TWO_SUMS: &str = include_str!("../../examples/tile/two_sums.tile");

fn subject(case: &Case) -> Subject {
    let schedule = case.schedule().unwrap_or_else(|errors| panic!("{}: {errors}", case.name));
    let kernel = Kernel::compile(&schedule, None).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    Subject::new(case.name, Some(schedule.to_string()), kernel, Gpu::h200())
}

fn two_sums() -> Subject {
    let kernel = Kernel::compile_text(TWO_SUMS).unwrap();
    Subject::new("two_sums", None, kernel, Gpu::h200())
}

fn named(name: &str) -> Subject {
    subject(&ptx_gemm_check::case(name).unwrap_or_else(|| panic!("{name}")))
}

fn drawn(subject: &Subject, what: &[What]) -> Picture {
    draw(subject, what, Scheme::Auto).unwrap_or_else(|error| panic!("{}: {error}", subject.name))
}

/// Properties of every picture.
fn sound(name: &str, svg: &str) {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{name}: {error}"));
    let root = document.root_element();
    let extents: Vec<f64> =
        root.attribute("viewBox").expect(name).split(' ').map(|number| number.parse().expect(name)).collect();
    assert!(extents[2] > 100.0 && extents[3] > 100.0, "{name}: {extents:?}");
    assert!(root.attribute("width").is_none_or(|width| width.ends_with('%')), "{name}: it scales with the page");
    assert_eq!(root.attribute("height"), None, "{name}");
    for tag in ["title", "desc"] {
        let text = root.children().find(|node| node.has_tag_name(tag)).and_then(|node| node.text());
        assert!(text.is_some_and(|text| text.trim().len() > 3), "{name}: <{tag}>");
    }
    let texts: Vec<Node<'_, '_>> = root.descendants().filter(|node| node.has_tag_name("text")).collect();
    assert!(!texts.is_empty(), "{name}");
    for text in texts {
        let size = text.attribute("font-size").unwrap_or_default();
        assert!(size.ends_with("em"), "{name}: {:?} has the size {size:?}", text.text());
    }
    for node in root.descendants() {
        for number in ["x", "y", "width", "height", "x1", "y1", "x2", "y2", "cx", "cy", "r"] {
            let value = node.attribute(number).unwrap_or("0");
            assert!(
                value.ends_with('%') || value.parse::<f64>().is_ok_and(f64::is_finite),
                "{name}: {number}={value:?}"
            );
        }
    }
}

/// Exactly the panels without data are left out and reported.
fn complete(subject: &Subject, picture: &Picture) {
    let staged = !subject.program().unwrap().buffers.is_empty();
    let left_out: Vec<What> = picture.left_out.iter().map(|(what, _)| *what).collect();
    let by_threads = picture.svg.contains("threads multiply by themselves");
    let expected = [(by_threads, What::Fragments), (!staged, What::Shared), (!staged, What::Pipeline)];
    let expected: Vec<What> = expected.into_iter().filter(|(out, _)| *out).map(|(_, what)| what).collect();
    assert_eq!(left_out, expected, "{}", subject.name);
    for (what, why) in &picture.left_out {
        assert!(picture.svg.contains(&format!("Left out: {}", what.name())) && !why.is_empty());
    }
}

/// The conflicts in a picture's words: each access to shared memory belongs to one buffer. Returns how many kinds of access
/// have some.
fn attributed(subject: &Subject, svg: &str) -> usize {
    let found = conflicts(subject).unwrap();
    let cost = &subject.profile().unwrap().cost;
    let sum = |of: &dyn Fn(&Conflicts) -> SharedCost| {
        found.iter().map(of).fold(SharedCost::default(), |mut sum, cost| {
            sum += cost;
            sum
        })
    };
    // A tile of D with memory of its own is not a buffer, and has no panel.
    let program = subject.program().unwrap();
    let apart = program.stage.is_some() && !(0..program.rings.len()).any(|ring| program.is_staged_in(ring));
    let packs = !program.packs.is_empty();
    if !apart && !packs {
        assert_eq!(sum(&|one| one.stores), cost.shared_stores, "{}: stores", subject.name);
    }
    if !packs {
        assert_eq!(sum(&|one| one.loads), cost.shared_loads, "{}: loads", subject.name);
    }
    // Kernels that pack have shared memory of their own, and no thread accesses what TMA copies for tensor cores.
    if packs && !program.rings.is_empty() && program.by_tma(0) && program.read_by_descriptor(0) {
        let exchanged = program.exchange.is_some();
        assert_eq!(sum(&|one| one.loads).accesses > 0, exchanged, "{}: loads", subject.name);
        assert!(
            apart || program.stage.is_some() || exchanged || sum(&|one| one.stores).accesses == 0,
            "{}: stores",
            subject.name
        );
    }
    let mut with_conflicts = 0;
    for one in &found {
        let sides = [(one.stores, "TMA writes the tile"), (one.loads, "tensor cores read it by descriptor")];
        for (cost, nobody) in sides {
            let text = match cost.conflicts() {
                0 if cost.accesses == 0 => format!("none of any thread; {nobody}"),
                0 => format!("no conflicts in {} passes", cost.wavefronts),
                lost => format!("{lost} of {} passes are conflicts", cost.wavefronts),
            };
            assert!(svg.contains(&text), "{}: {}: {text}", subject.name, one.buffer);
            with_conflicts += usize::from(cost.conflicts() > 0);
        }
    }
    with_conflicts
}

/// Cases with conflicts on purpose.
const CONFLICTS: [&str; 2] = ["double_buffered", "vectorized_km"];

/// One pass over the cases of this run's part and those with conflicts, each of which is run once: that is what takes the
/// time.
#[test]
fn every_case_draws() {
    let own: Vec<_> = Part::of_this_run().of(cases()).collect();
    let more = cases().filter(|case| CONFLICTS.contains(&case.name) && !own.contains(case));
    let cases: Vec<_> = own.iter().copied().chain(more).collect();
    let subjects = cases.iter().map(subject).chain([two_sums()]).collect::<Vec<_>>();
    let with_conflicts = subjects.par_iter().map(|subject| {
        let picture = drawn(subject, &What::ALL);
        sound(&subject.name, &picture.svg);
        complete(subject, &picture);
        #[cfg(feature = "png")]
        {
            let faults = crate::png::tests::faults(&picture.svg);
            assert!(
                faults.is_empty(),
                "{}: {} faults: {:#?}",
                subject.name,
                faults.len(),
                &faults[..faults.len().min(8)]
            );
        }
        // Pictures show one launch; `strassen` makes several.
        if subject.kernel.levels().is_some() { 0 } else { attributed(subject, &picture.svg) }
    });
    let with_conflicts: usize = with_conflicts.sum();
    assert!(with_conflicts >= CONFLICTS.len(), "{with_conflicts}: some cases have conflicts on purpose");
}

/// The plan's own count of the same product, where there is a plan.
#[test]
fn the_conflicts_are_those_of_the_contracts() {
    for name in ["conflict_free", "vectorized", "shared_deep", "producer_warps"] {
        let subject = named(name);
        let plan = subject.kernel.plan().unwrap();
        let sample = plan.sample(&plan.variants[0]);
        let found = conflicts(&subject).unwrap();
        let (reads, stores) =
            (found.iter().map(|one| one.loads.conflicts()), found.iter().map(|one| one.stores.conflicts()));
        assert_eq!(
            (reads.sum::<u64>(), stores.sum::<u64>()),
            (sample.reads.conflicts, sample.stores.conflicts),
            "{name}"
        );
    }
}

/// Pictures show the caller's D, also if the program computes its transpose: rows and columns, the order of tiles, the names of
/// operands.
#[test]
fn a_transposed_schedule_shows_its_own_d() {
    let words = |clauses: &str, what: &[What]| {
        let schedule: ptx_gemm_dsl::Schedule = clauses.parse().unwrap();
        let kernel = Kernel::compile(&schedule, Some(ptx_gemm_dsl::Target::SM_90)).unwrap();
        let svg = drawn(&Subject::new("d", None, kernel, Gpu::h200()), what).svg;
        // Paragraphs are broken into lines, each a text of its own.
        let document = Document::parse(&svg).unwrap();
        let texts = document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text());
        texts.collect::<Vec<_>>().join(" ")
    };
    let tile = "tile(64, 16, 8); thread(4, 2); lanes(along = n);";
    let (plain, transposed) = (words(tile, &What::ALL), words(&format!("{tile} transposed;"), &What::ALL));
    let says = |text: &str, all: &[&str]| all.iter().for_each(|words| assert!(text.contains(words), "{words}: {text}"));
    says(&plain, &["computes 64 × 16 elements of D", "The 64 × 16 tile of D", "tiles of D (1536 × 384)"]);
    says(&transposed, &["computes 16 × 64 elements of D", "The 16 × 64 tile of D", "tiles of D (384 × 1536)"]);
    // Its buffer of A holds what a caller calls B.
    says(&plain, &["As: a K-tile of A, 64 m × 8 k"]);
    says(&transposed, &["As: a K-tile of B, 64 n × 8 k", "D^T = B^T A^T"]);
    // The lanes are those of the schedule that computes D itself, with its clauses transposed.
    let threads = |clauses: &str| {
        let words = words(clauses, &[What::Threads]);
        words.split_once("tile of D, by warp").unwrap().1.to_string()
    };
    assert_eq!(threads(&format!("{tile} transposed;")), threads("tile(16, 64, 8); thread(2, 4); lanes(along = m);"));
}

#[test]
fn a_measured_speed_is_a_point() {
    let mut subject = named("vectorized");
    let without = drawn(&subject, &[What::Roofline]).svg;
    subject.measured = Some(Measured { size: [4096; 3], tflops: 36.25 });
    let with = drawn(&subject, &[What::Roofline]).svg;
    assert!(!without.contains("Measured at") && with.contains("Measured at 4096 × 4096 × 4096"));
    assert!(with.contains("36.2") && with.matches("<circle").count() == without.matches("<circle").count() + 2);
}

#[test]
fn schemes_differ_in_colours_alone() {
    let subject = named("vectorized");
    let svg = |scheme| draw(&subject, &[What::Threads], scheme).unwrap().svg;
    let (light, dark, auto) = (svg(Scheme::Light), svg(Scheme::Dark), svg(Scheme::Auto));
    assert!(auto.contains("prefers-color-scheme: dark") && !light.contains("@media") && !dark.contains("@media"));
    assert!(light != dark && light.lines().count() == dark.lines().count());
    // Every colour that is used has a rule.
    let document = Document::parse(&auto).unwrap();
    for node in document.descendants() {
        for what in ["fill", "stroke"] {
            let Some(hex) = node.attribute(what).filter(|hex| hex.starts_with('#')) else { continue };
            assert!(auto.contains(&format!("[{what}=\"{hex}\"]")), "{hex}");
        }
    }
}

#[test]
fn the_same_picture_each_time() {
    let svg = || drawn(&named("conflict_free"), &What::ALL).svg;
    assert_eq!(svg(), svg());
}

#[test]
fn a_wave_is_what_the_device_holds_or_the_schedule_says() {
    let words = |clauses: &str| {
        let schedule: ptx_gemm_dsl::Schedule = clauses.parse().unwrap();
        let kernel = Kernel::compile(&schedule, Some(ptx_gemm_dsl::Target::SM_90)).unwrap();
        let subject = Subject::new("wave", None, kernel, Gpu::h200());
        drawn(&subject, &[What::Raster]).svg.replace('\n', " ")
    };
    let tile = "tile(64, 64, 8); thread(4, 4); blocks_per_sm(2);";
    assert!(words(tile).contains("wave 1 (264 blocks)"));
    let persistent = words(&format!("{tile} persistent(100);"));
    assert!(persistent.contains("wave 1 (100 blocks)") && persistent.contains("Persistent: 100 blocks"));
    let split = words(&format!("{tile} split_k(4);"));
    assert!(split.contains("Split-K: 4 blocks sum each tile"));
}
