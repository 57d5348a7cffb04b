//! Every case names its origin, and every named schedule is legal.

use ptx_gemm_check::{Case, cases};

/// Runs `body` on each of at least `least` schedules, and reports all failures together.
#[track_caller]
fn each(schedules: impl ExactSizeIterator<Item = Case>, least: usize, body: impl Fn(&Case) -> Result<(), String>) {
    assert!(schedules.len() >= least, "only {} schedules are embedded", schedules.len());
    let wrong: Vec<String> =
        schedules.filter_map(|case| body(&case).err().map(|what| format!("{}: {what}", case.name))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn is_legal(case: &Case) -> Result<(), String> {
    let schedule = case.schedule().map_err(|errors| errors.to_string())?;
    schedule.plan(None).map(|_| ()).map_err(|errors| errors.to_string())
}

#[test]
fn every_case_names_its_origin_and_its_point() {
    let known = ["CUDA SGEMM", "cuda_learning_03", "course project", "The project's own"];
    each(cases(), 30, |case| match case.origin() {
        origin if !known.iter().any(|name| origin.contains(name)) => Err(format!("no origin in `{origin}`")),
        origin if origin.contains("eed 00") => Err(format!("only the project knows `{origin}`")),
        _ if !case.point().ends_with('.') => Err(format!("the point is not a sentence: `{}`", case.point())),
        _ => Ok(()),
    });
}

#[test]
fn every_case_is_a_legal_schedule() {
    each(cases(), 30, is_legal);
}
