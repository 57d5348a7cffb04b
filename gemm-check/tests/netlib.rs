//! The grid of netlib's SGEMM test, on kernels of different kinds.

use ptx_gemm_check::netlib;
use ptx_gemm_dsl::Schedule;
use ptx_gemm_runtime::{CompiledGemm, Device};

#[track_caller]
fn check(clauses: &str) {
    let device = Device::interpreter();
    let kernel = |a, b| {
        let schedule: Schedule = format!(
            "{clauses} layout(a = {a}, b = {b}, d = col);
             epilogue(|acc, c, alpha, beta| alpha * acc + beta * c);"
        )
        .parse()?;
        CompiledGemm::new(&schedule, &device)
    };
    let summary = netlib::run(kernel).unwrap();
    assert_eq!(summary.calls, 17_496);
    assert!(summary.failures.is_empty(), "{clauses}: {summary}");
}

#[test]
fn one_element_per_thread_without_shared_memory() {
    check("tile(4, 4); thread(1, 1); shared(none);");
}

#[test]
fn staged_in_shared_memory() {
    check("tile(8, 8, 8); thread(1, 1);");
}

#[test]
fn vectorised_and_double_buffered() {
    check("tile(16, 16, 4); thread(4, 4); vector(4); double_buffer;");
}
