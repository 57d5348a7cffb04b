//! The contents of plans: every part of the product once, within the budget.

use ptx_gemm_dsl::types::{DType, Layout, Layouts, Types};

use crate::large::plan::{Addend, Division, Links, Plan, PlanError, Rates, Request, Tuning};
use crate::large::{Action, Part, Region};

/// A small f32 product with slabs of 8 and tiles of 16 x 16 x 8.
pub(super) fn request(m: usize, n: usize, k: usize, devices: usize) -> Request {
    let types = Types { a: DType::F32, b: DType::F32, acc: DType::F32, c: DType::F32, d: DType::F32 };
    let row = Layout::Row;
    Request {
        m,
        n,
        k,
        types,
        layouts: Layouts { a: row, b: row, c: row, d: row },
        addend: Addend::Absent,
        division: Division::Slabs,
        tile: [16, 16, 8],
        devices,
        links: Links::All,
        budget: 1 << 30,
        vector_bytes: 0,
        tuning: Tuning { depth: Some(8), ring: Some(2), strips: Some(2) },
        rates: Rates::h200(55e12),
    }
}

pub(super) fn plan(request: Request) -> Plan {
    Plan::new(request, &|_, _, _| 0).unwrap()
}

/// Requests of every kind that leads to different operations.
pub(super) fn requests() -> Vec<Request> {
    let types = |c, d| Types { c, d, ..request(0, 0, 0, 1).types };
    let col = Layout::Col;
    let two = |to: usize, from: usize| to / 2 == from / 2;
    let pairs = Links::Pairs((0..4).map(|to| (0..4).map(|from| two(to, from)).collect()).collect());
    let base = |devices| request(70, 90, 30, devices);
    vec![
        base(1),
        base(2),
        base(3),
        base(4),
        Request { links: Links::Host, ..base(4) },
        Request { links: pairs, ..base(4) },
        // Several rounds.
        Request { budget: 12_000, ..base(2) },
        Request { budget: 12_000, addend: Addend::Read, ..base(2) },
        Request { budget: 14_000, addend: Addend::Read, types: types(DType::F16, DType::F16), ..base(2) },
        Request { budget: 16_000, addend: Addend::Read, types: types(DType::F16, DType::F32), ..base(4) },
        Request { layouts: Layouts { a: col, b: col, c: col, d: col }, budget: 12_000, ..base(4) },
        // One slab.
        Request { division: Division::Whole, addend: Addend::Read, budget: 25_000, ..base(2) },
        request(70, 90, 0, 2),
        request(1, 1, 1, 4),
        request(40, 5, 100, 4),
        request(0, 5, 5, 2),
    ]
}

/// A product has a slab of each operand in each round; slots beyond these would only take memory from blocks.
#[test]
fn a_ring_has_no_slot_without_a_slab() {
    let long = Tuning { ring: Some(40), ..request(0, 0, 0, 1).tuning };
    for request in requests().into_iter().map(|of| Request { tuning: long, ..of }) {
        let Ok(plan) = Plan::new(request, &|_, _, _| 0) else { continue };
        let (ring, slabs, rounds) = (plan.geometry.ring, plan.geometry.slabs, plan.geometry.rounds);
        assert!(ring == 40 || ring == slabs * rounds[0] * rounds[1], "{ring} slots of {slabs} slabs in {rounds:?}");
    }
    let geometry = plan(Request { tuning: long, ..request(70, 90, 30, 2) }).geometry;
    assert_eq!((geometry.slabs, geometry.rounds, geometry.ring), (4, [1, 1], 4));
}

#[test]
fn every_term_of_every_element_is_summed_once() {
    for request in requests() {
        let (m, n, k) = (request.m, request.n, request.k);
        let plan = plan(request.clone());
        // How much of K each element has been multiplied by, and whether it has been written.
        let mut done = vec![(0, 0); m * n];
        let each = |region: &Region, change: &mut dyn FnMut(usize)| {
            for row in region.row..region.row + region.rows {
                (region.col..region.col + region.cols).for_each(|col| change(row * n + col));
            }
        };
        for operation in &plan.operations {
            match &operation.action {
                Action::Multiply(product) => each(&product.host, &mut |at| {
                    assert_eq!(done[at].0 == 0, matches!(product.part, Part::Whole | Part::First) || k == 0);
                    done[at].0 += product.a.region.cols;
                    let ends = matches!(product.part, Part::Whole | Part::Last);
                    assert_eq!(done[at].0 == k, ends, "{request:?}");
                }),
                Action::Download { host, .. } => each(host, &mut |at| done[at].1 += 1),
                _ => {}
            }
        }
        assert!(done.iter().all(|done| *done == (k, 1)), "{request:?}");
        assert!(plan.device_bytes() <= request.budget, "{plan}");
    }
}

#[test]
fn the_largest_matrices_of_the_report_on_four_devices() {
    let size = 1 << 16;
    let request =
        Request { tile: [128, 256, 32], budget: 141 << 30, tuning: Tuning::default(), ..request(size, size, size, 4) };
    insta::assert_snapshot!(plan(request.clone()).to_string());
    let without = plan(Request { links: Links::Host, ..request.clone() });
    insta::assert_snapshot!(without.to_string());
    let eight = Request { m: size / 2, n: size / 2, k: size / 2, devices: 1, budget: 8 << 30, ..request };
    insta::assert_snapshot!(plan(eight).to_string());
}

#[test]
fn a_plan_is_made_of_copies_launches_and_events() {
    let request = Request { addend: Addend::Read, ..request(32, 48, 16, 2) };
    let lines: Vec<String> = plan(request).operations.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn what_cannot_be_planned_says_what_would_be_enough() {
    let refused = |request: Request| Plan::new(request, &|_, _, _| 0).unwrap_err();
    let base = || request(70, 90, 30, 2);
    assert_eq!(refused(Request { devices: 0, ..base() }), PlanError::NoDevice);
    let small = refused(Request { budget: 5000, ..base() });
    let PlanError::Budget { needed, .. } = small else { panic!("{small:?}") };
    insta::assert_snapshot!(small.to_string());
    assert!(plan(Request { budget: needed, ..base() }).device_bytes() <= needed);
    assert!(matches!(refused(Request { budget: needed - 1, ..base() }), PlanError::Budget { .. }));
    let whole = refused(Request { budget: 5000, division: Division::Whole, ..base() });
    assert!(whole.to_string().contains("which the epilogue needs whole"), "{whole}");
    let ring = refused(Request { tuning: Tuning { ring: Some(40), ..Tuning::default() }, budget: 5000, ..base() });
    assert!(
        ring.to_string().contains(" of K, 3 of them at once, as requested") || ring.to_string().contains("at once")
    );
    let huge = refused(request(usize::MAX, 1, 1, 1));
    assert!(matches!(huge, PlanError::Extent { name: "M", .. }), "{huge}");
    // 2^62 elements have 2^64 bytes.
    let many = refused(request(1 << 31, 1 << 31, 1, 1));
    let words =
        "D, 2147483648 x 2147483648 of f32, takes 18446744073709551616 bytes, and a host addresses 140737488355328";
    assert!(many.to_string().starts_with(words), "{many}");
    let zero = refused(Request { tuning: Tuning { ring: Some(0), ..Tuning::default() }, ..base() });
    assert!(matches!(zero, PlanError::Zero { .. }), "{zero}");
}

/// The error names the cause, and its advice is enough.
#[test]
fn a_plan_that_is_too_long_blames_the_argument() {
    let advice = |request: Request| match Plan::new(request, &|_, _, _| 0) {
        Err(PlanError::TooLong { advice, .. }) => advice,
        other => panic!("{:?}", other.map(|plan| plan.to_string())),
    };
    let none = Tuning::default();
    let base = |budget| Request { tuning: none, budget, ..request(1 << 16, 1 << 16, 1 << 16, 2) };
    let strips = |strips| Request {
        tuning: Tuning { strips: Some(strips), ..none },
        ..Request { budget: 1 << 40, ..request(1 << 24, 1 << 8, 1 << 8, 2) }
    };
    let words = advice(strips(1 << 20));
    let most = words.strip_prefix("1048576 strips of a block are too many, ").expect(&words);
    let most: usize = most.strip_suffix(" are allowed here").and_then(|most| most.parse().ok()).expect(&words);
    assert!(advice(strips(most + 1)).contains(&format!(" {most} are allowed")));
    let ring = Request { tuning: Tuning { ring: Some(64), ..none }, ..base(64 << 20) };
    assert_eq!(advice(ring), "64 slabs at once leave little memory for blocks, 3 are enough");
    let depth = Request { tuning: Tuning { depth: Some(8), ..none }, ..base(64 << 20) };
    assert_eq!(advice(depth), "slabs of 8 of K are too shallow or too deep, leave the depth out");
    let devices = Request { tuning: none, budget: 27 << 10, ..request(16, 16, 1 << 22, 64) };
    assert_eq!(advice(devices), "64 devices are too many for so short a product, one is enough");
    assert_eq!(advice(base(2 << 20)), "a budget above 2097152 bytes per device gives larger blocks");
    // If more strips are requested than there are rows of tiles, the plan has one for each row.
    let most = Request { tuning: Tuning { strips: Some(usize::MAX), ..none }, ..request(999, 99, 99, 2) };
    assert!(Plan::new(most, &|_, _, _| 0).is_ok());
}

/// The same for a product with more arithmetic operations than fit 64 bits.
#[test]
fn an_enormous_product_has_figures() {
    let tile = [4096, 4096, 64];
    let size = 4 << 20;
    let enormous = plan(Request { tile, tuning: Tuning::default(), budget: 1 << 39, ..request(size, size, size, 1) });
    assert_eq!(enormous.traffic().flops, [2 * (size as u128).pow(3)]);
    assert!(enormous.to_string().contains(" 147573952.590 TFLOP"), "{enormous}");
}
