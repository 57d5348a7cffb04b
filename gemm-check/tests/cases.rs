//! Every case says where it comes from, and is a legal schedule.

use ptx_gemm_check::{Case, cases};

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

#[test]
fn every_case_is_a_legal_schedule() {
    each(|case| {
        let schedule = case.schedule().map_err(|errors| errors.to_string())?;
        schedule.plan(None).map(|_| ()).map_err(|errors| errors.to_string())
    });
}
