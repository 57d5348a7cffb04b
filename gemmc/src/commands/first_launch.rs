//! `gemmc first-launch`, for `gemmc selftest` alone: the first product of this process, timed from the moment its
//! device is open. A process has only one first launch, so the test needs a separate process for each.

use std::time::{Duration, Instant};

use ptx_gemm::{CompiledGemm, Error, Kernel, Layout, Matrix};
use ptx_gemm_check::case;
use serde_json::json;

use crate::cli::FirstLaunch;
use crate::reply::{Failure, Reply, Status};
use crate::source::no_case;

const SIZE: (usize, usize, usize) = (100, 90, 80);

pub(crate) fn run(args: &FirstLaunch) -> Result<Reply, Failure> {
    let Some(case) = case(&args.case) else {
        return Err(no_case(&args.case));
    };
    // The context exists from here on.
    let device = args.device.open(0)?;
    let (m, n, k) = SIZE;
    let entry = |row: usize, col: usize| ((row * 7 + col * 3) % 11) as f32;
    // Prepared in both layouts: the schedule decides which are used, and compiling it is part of the measured time.
    let both =
        |rows, cols| [Layout::Row, Layout::Col].map(|layout| Matrix::from_fn(rows, cols, entry).to_layout(layout));
    let (a, b) = (both(m, k), both(k, n));
    let of = |matrices: [Matrix<f32>; 2], layout| matrices.into_iter().find(|matrix| matrix.shape().layout == layout);

    let start = Instant::now();
    let schedule = case.schedule().map_err(Error::from)?;
    // The process keeps the kernel, so the next step only loads it.
    Kernel::compile_for(&schedule, device.limits().target)?;
    let compiled = start.elapsed();
    let gemm = CompiledGemm::new(&schedule, &device)?;
    let loaded = start.elapsed();
    let layouts = gemm.problem().layouts;
    let empty = || Matrix::zeros(0, 0);
    let (a, b) = (of(a, layouts.a).unwrap_or_else(empty), of(b, layouts.b).unwrap_or_else(empty));
    let d: Matrix<f32> = gemm.multiply(&a, &b)?;
    let total = start.elapsed();

    let sum = |row, col| (0..k).map(|l| entry(row, l) * entry(l, col)).sum::<f32>();
    let right = (0..m).all(|row| (0..n).all(|col| d.get(row, col) == Some(sum(row, col))));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (compile, load, run) = (ms(compiled), ms(loaded - compiled), ms(total - loaded));
    let total = ms(total);
    let json = json!({ "ok": right, "compile_ms": compile, "load_ms": load, "run_ms": run, "total_ms": total });
    let text = format!("{total:.2} ms: schedule to PTX {compile:.2}, loading {load:.2}, copies and launch {run:.2}\n");
    Ok(Reply { text, json, status: if right { Status::Fine } else { Status::Wrong } })
}
