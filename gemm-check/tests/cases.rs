//! Every case says where it comes from, is a legal schedule, and is right on every edge.

use ptx_gemm_check::{Case, Output, Request, cases, check, edge_sizes};
use ptx_gemm_runtime::{CompiledGemm, Device, InterpreterOptions};

/// Runs `body` on every case; all that went wrong at once.
#[track_caller]
fn each(body: impl Fn(&Case) -> Result<(), String>) {
    assert!(cases().len() >= 30, "only {} cases are embedded", cases().len());
    let wrong: Vec<String> =
        cases().filter_map(|case| body(&case).err().map(|what| format!("{}: {what}", case.name))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_case_names_its_seed_and_its_point() {
    each(|case| match case.seed() {
        seed if !seed.contains("eed 00") && !seed.contains("project's own") => Err(format!("no seed in `{seed}`")),
        _ if !case.point().ends_with('.') => Err(format!("the point is no sentence: `{}`", case.point())),
        _ => Ok(()),
    });
}

fn run(case: &Case, device: &Device, requests: impl Fn(&CompiledGemm) -> Vec<Request>) -> Result<(), String> {
    let schedule = case.schedule().map_err(|errors| errors.to_string())?;
    let gemm = CompiledGemm::new(&schedule, device).map_err(|error| error.to_string())?;
    for request in requests(&gemm) {
        let Request { m, n, k, .. } = request;
        let outcome = check(&gemm, &request).map_err(|error| format!("{m} x {n} x {k}: {error}"))?;
        if !outcome.is_right() {
            return Err(format!("{m} x {n} x {k}: {outcome}"));
        }
    }
    Ok(())
}

#[test]
fn every_case_is_exact_on_every_edge() {
    let device = Device::interpreter();
    each(|case| {
        run(case, &device, |gemm| {
            edge_sizes(gemm.plan()).into_iter().map(|size| Request::exact(size.m, size.n, size.k)).collect()
        })
    });
}

#[test]
fn every_case_is_within_its_bound_with_odd_leading_dimensions_and_pointers() {
    let device = Device::interpreter_with(InterpreterOptions { misalign: 1, ..InterpreterOptions::default() });
    each(|case| {
        run(case, &device, |gemm| {
            let problem = &gemm.plan().problem;
            let [m, n, k] =
                [gemm.plan().block.m, gemm.plan().block.n, gemm.plan().block.k].map(|extent| extent as usize);
            let request = Request::random(m + 3, n + 5, 2 * k + 7).padded(problem, 3);
            let in_place = Request { output: Output::InPlace, ..request.clone() }.set("alpha", -0.7).set("beta", 1.3);
            let has_scalars = !problem.epilogue.scalars.is_empty();
            if has_scalars { vec![request, in_place] } else { vec![request] }
        })
    });
}
