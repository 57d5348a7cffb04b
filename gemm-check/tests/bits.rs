//! The bits of one kernel on two devices, here two interpreters: one that aligns matrices and one that does not, so
//! that the entry with wide accesses is compared with the one without.

use ptx_gemm_check::{Agreement, Output, Request, agree};
use ptx_gemm_dsl::Schedule;
use ptx_gemm_runtime::{CompiledGemm, Device, InterpreterOptions};

fn compiled(clauses: &str, misalign: u32) -> CompiledGemm {
    let schedule: Schedule = clauses.parse().unwrap();
    let device = Device::interpreter_with(InterpreterOptions { misalign, ..InterpreterOptions::default() });
    CompiledGemm::new(&schedule, &device).unwrap()
}

fn two_entries(clauses: &str, request: &Request) -> Agreement {
    agree(&compiled(clauses, 0), &compiled(clauses, 1), request).unwrap()
}

#[test]
fn entries_agree_to_the_bit() {
    const TILE: &str = "tile(16, 32, 8); thread(2, 4); vector(2);";
    const ALL: &str = "epilogue(|acc, c, alpha, beta, x, y| max(alpha * acc + beta * c, x[m]) * y[n]);";
    let request = Request::random(24, 36, 20);
    let set = request.clone().set("alpha", 0.75).set("beta", -1.25);
    let whole = request.clone().set("alpha", 3.0).set("beta", -2.0);
    for (clauses, request) in [
        ("", request.clone()),
        ("double_buffer; layout(a = col, d = col);", request.clone()),
        ("types(f64);", request.clone()),
        ("types(i32);", request.clone()),
        (ALL, set.clone()),
        (&format!("types(f64); {ALL}"), set.clone()),
        (&format!("types(i32); {ALL}"), whole),
        (ALL, Request { output: Output::InPlace, ..set.clone() }),
        ("batch(strided);", Request { gap: 4, ..request.clone().batch(3) }),
        (&format!("split_k(3); {ALL}"), set.clone()),
        ("split_k(2, reduce = workspace);", request),
    ] {
        let found = two_entries(&format!("{TILE} {clauses}"), &request);
        assert!(found.holds() && found.differing == 0, "{clauses}: {found}");
        assert!(
            found.rule.is_equality() && found.run.entry.as_deref() == Some("gemm_v2"),
            "{clauses}: {:?}",
            found.run
        );
        assert_eq!(found.compared, 24 * 36 * request.batch, "{clauses}");
    }
}

/// The same sums in a different order, which the comparison must detect.
#[test]
fn other_sums_are_other_bits() {
    let plain = compiled("tile(16, 16, 8); thread(2, 2);", 0);
    let split = compiled("tile(16, 16, 8); thread(2, 2); split_k(4);", 0);
    let found = agree(&plain, &split, &Request::random(16, 16, 64)).unwrap();
    assert!(!found.holds() && found.differing > 0 && found.worst.is_some(), "{found}");
    // Sums that are exact are the same in any order.
    let found = agree(&plain, &split, &Request::exact(16, 16, 64)).unwrap();
    assert!(found.holds() && found.differing == 0, "{found}");
}
