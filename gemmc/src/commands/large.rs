//! `gemmc large`: plans and runs products of matrices on the host.

use std::time::Instant;

use ptx_gemm::large::{Arguments, Bounds, Large, LargeRun, OnFailure, Plan, plan};
use ptx_gemm::{DType, Device, Element, Error, PinnedMatrix, Problem, Schedule, Shape};
use ptx_gemm_check::case;
use serde_json::{Value, json};

use crate::cli::{self, LargeCommand, OnFailureName, Place, Sizes};
use crate::progress;
use crate::reply::{self, Failure, Format, Reply, Status};
use crate::source::{self, Loaded};
use ptx_gemm_bench::cpu::available;
use ptx_gemm_bench::large::{Checked, Host, assumed_tflops, fill};

mod scale;

/// The default schedule of a plan: the fastest f32 schedule with f32 accumulators.
const DEFAULT: &str = "nn_128x256_tma";

/// Bytes of a device in a plan without one: nine tenths of an H200's memory.
const BUDGET: u64 = 141 * (1 << 30) / 10 * 9;

pub(crate) fn run(args: &cli::Large, format: Format) -> Result<Reply, Failure> {
    match &args.command {
        LargeCommand::Plan(args) => planned(args),
        LargeCommand::Run(args) => performed(args, format),
        LargeCommand::Scale(args) => scale::run(args),
    }
}

fn planned(args: &cli::LargePlan) -> Result<Reply, Failure> {
    let (large, schedule) = large(&args.sizes)?;
    let Sizes { m, n, k, budget, .. } = args.sizes;
    let plan = large.plan_for(args.devices, budget.unwrap_or(BUDGET), m, n, k)?;
    let mut text = plan.to_string();
    text.push_str(&format!("assumed    {} TFLOP/s of each device\n", tflops(args.sizes.tflops, &schedule)?));
    if args.operations {
        text.push('\n');
        plan.operations.iter().for_each(|operation| text.push_str(&format!("{operation}\n")));
    }
    Ok(Reply::fine(text, figures(&plan)))
}

/// The product of a schedule, without devices.
fn large(sizes: &Sizes) -> Result<(Large, Schedule), Failure> {
    let schedule = schedule(&sizes.compile)?;
    let tuning = plan::Tuning { depth: sizes.depth, ring: sizes.ring, strips: sizes.strips };
    let rates = plan::Rates::h200(tflops(sizes.tflops, &schedule)? * 1e12);
    let large = Large::new(&schedule)?.tuning(tuning).rates(rates);
    let large = if sizes.no_links { large.links(plan::Links::Host) } else { large };
    // Also the given ones, so that an unknown name is rejected before anything is reserved.
    let set = [scalars(sizes, &schedule.problem()?), sizes.set.clone()].concat();
    let values = large.scalars(&set)?;
    let large = large.planned_with(&values);
    Ok((sizes.budget.iter().fold(large, |large, &budget| large.budget(budget)), schedule))
}

/// The speed of a device that an estimate assumes.
fn tflops(given: Option<f64>, schedule: &Schedule) -> Result<f64, Failure> {
    Ok(match given {
        Some(given) => given,
        None => assumed_tflops(&schedule.plan(None)?),
    })
}

fn schedule(compile: &cli::Compile) -> Result<Schedule, Failure> {
    let named = compile.source.source.is_some() || compile.source.clauses.is_some();
    if let Some(case) = case(DEFAULT).filter(|_| !named) {
        return Ok(case.schedule()?);
    }
    let Loaded::Schedule { schedule, plan, .. } = source::load(compile)? else {
        let message = "a large product is divided by changing its schedule, and a .tile file has none";
        return Err(Failure::refused("large", message));
    };
    let asked = compile.target.or(compile.gpu.map(|_| plan.target));
    Ok(asked.map_or(schedule.clone(), |target| source::for_target(&schedule, target)))
}

/// The value of each scalar of the epilogue: as given, or else 0 for `beta` and 1 for the others.
fn scalars(sizes: &Sizes, problem: &Problem) -> Vec<(String, f64)> {
    let default = |name: &str| if name == "beta" { 0.0 } else { 1.0 };
    let given = |name: &str| sizes.set.iter().rev().find(|(set, _)| set == name).map(|(_, value)| *value);
    let names = problem.epilogue.scalars.iter();
    names.map(|name| (name.clone(), given(name).unwrap_or_else(|| default(name)))).collect()
}

/// A plan for tools.
fn figures(plan: &Plan) -> Value {
    let (traffic, estimate) = (plan.traffic(), plan.estimate());
    let seconds: serde_json::Map<String, Value> =
        estimate.seconds.iter().map(|(bound, seconds)| (bound.name().to_string(), json!(seconds))).collect();
    json!({
        "m": plan.request.m,
        "n": plan.request.n,
        "k": plan.request.k,
        "devices": plan.request.devices,
        "grid": plan.geometry.grid,
        "rounds": plan.geometry.rounds,
        "block": plan.geometry.block,
        "slabs": plan.geometry.slabs,
        "depth": plan.geometry.depth,
        "ring": plan.geometry.ring,
        "device_bytes": plan.device_bytes(),
        "budget": plan.request.budget,
        "operations": plan.operations.len(),
        "events": plan.events,
        "up_bytes": traffic.up,
        "down_bytes": traffic.down,
        "peer_bytes": traffic.peer,
        "seconds": seconds,
        "fill": estimate.fill,
        "drain": estimate.drain,
        "binds": estimate.bound().0.name(),
        "total": estimate.total(),
    })
}

fn performed(args: &cli::LargeRun, format: Format) -> Result<Reply, Failure> {
    let (large, schedule) = large(&args.sizes)?;
    let on_failure = match args.on_failure {
        OnFailureName::Stop => OnFailure::Stop,
        OnFailureName::Continue => OnFailure::Continue,
    };
    let interpreter = |_| Ok(Device::interpreter_with(Default::default()));
    let (devices, closed) = match (args.interp, args.devices.unwrap_or(1)) {
        (Some(count), _) => opened(count, on_failure, interpreter)?,
        (None, count) => opened(count, on_failure, Device::cuda)?,
    };
    if devices.is_empty() {
        return Err(plan_error(plan::PlanError::NoDevice));
    }
    closed.iter().for_each(|(index, error)| reply::complain(&format!("device {index} does not open: {error}\n")));
    let large = large.devices(&devices).on_failure(on_failure);
    let Sizes { m, n, k, .. } = args.sizes;
    let plan = large.plan(m, n, k)?;
    // What is printed is what runs, however much memory is free by then.
    let large = large.budget(plan.request.budget);
    let problem = schedule.problem()?;
    let types = problem.types;
    if [types.b, types.c, types.d].iter().any(|dtype| *dtype != types.a) {
        let message = "gemmc large run makes matrices of one type, f64, f32 or i32; the library takes any";
        return Err(Failure::refused("types", message));
    }
    if ![DType::F64, DType::F32, DType::I32].contains(&types.a) {
        let message = format!("gemmc large run makes f64, f32 and i32 matrices, not {}", types.a);
        return Err(Failure::refused("types", message));
    }
    let bytes = host_bytes(&problem, [m, n, k]);
    if let Some(available) = available().filter(|available| bytes > (*available).into()) {
        // Three or four square matrices.
        let cube = (u128::from(available) / host_bytes(&problem, [1; 3]).max(1)).isqrt();
        let message = format!(
            "the matrices of a product of {m} x {n} x {k} take {bytes} bytes of the host's memory, {available} are available: \
             -m, -n and -k of {cube} would fit"
        );
        return Err(Failure::refused("memory", message));
    }
    if format == Format::Text {
        reply::print(&plan.to_string());
    }
    let mut reply = match types.a {
        DType::F64 => multiplied::<f64>(args, &large, &devices, &problem, format),
        DType::I32 => multiplied::<i32>(args, &large, &devices, &problem, format),
        _ => multiplied::<f32>(args, &large, &devices, &problem, format),
    }?;
    reply.json["closed"] = closed.iter().map(|(index, _)| json!(index)).collect();
    Ok(reply)
}

/// A device that does not open: its index, and why.
type Closed = (usize, Error);

/// The devices that open, and those that do not: with [`OnFailure::Stop`] the first failure ends the run; otherwise at least
/// one device must open.
fn opened(
    count: usize,
    on_failure: OnFailure,
    open: impl Fn(usize) -> Result<Device, Error>,
) -> Result<(Vec<Device>, Vec<Closed>), Error> {
    let (mut devices, mut closed) = (Vec::new(), Vec::new());
    for index in 0..count {
        match open(index) {
            Ok(device) => devices.push(device),
            Err(error) if on_failure == OnFailure::Stop => return Err(error),
            Err(error) => closed.push((index, error)),
        }
    }
    match closed.pop() {
        Some((_, error)) if devices.is_empty() => Err(error),
        last => {
            closed.extend(last);
            Ok((devices, closed))
        }
    }
}

/// Bytes of the host's matrices.
fn host_bytes(problem: &Problem, [m, n, k]: [usize; 3]) -> u128 {
    let c = if problem.epilogue.uses_c() { m } else { 0 };
    let elements = [(m, k), (k, n), (c, n), (m, n)].map(|(rows, cols)| rows as u128 * cols as u128);
    elements.iter().sum::<u128>() * u128::from(problem.types.a.bytes())
}

fn plan_error(error: plan::PlanError) -> Failure {
    ptx_gemm::large::LargeError::from(error).into()
}

fn multiplied<T: Element>(
    args: &cli::LargeRun,
    large: &Large,
    devices: &[Device],
    problem: &Problem,
    format: Format,
) -> Result<Reply, Failure> {
    let Sizes { m, n, k, .. } = args.sizes;
    let begun = Instant::now();
    // Pageable memory is what a device without page-locking gives.
    let memory = if args.memory == Place::Pinned { devices[0].clone() } else { Device::interpreter() };
    let matrix = |rows, cols, layout, seed: Option<u64>| -> Result<PinnedMatrix<T>, Failure> {
        let mut matrix = memory.pinned(Shape::packed(rows, cols, layout), T::default())?;
        if let Some(seed) = seed {
            fill(matrix.as_mut_slice()?, seed);
        }
        Ok(matrix)
    };
    let layouts = problem.layouts;
    let a = matrix(m, k, layouts.a, Some(args.seed))?;
    let b = matrix(k, n, layouts.b, Some(args.seed + 1))?;
    let c = problem.epilogue.uses_c().then(|| matrix(m, n, layouts.c, Some(args.seed + 2))).transpose()?;
    let mut d = matrix(m, n, layouts.d, None)?;
    let len = |axis| if axis == ptx_gemm::builder::Axis::M { m } else { n };
    let vectors: Vec<(String, Vec<T>)> = problem
        .epilogue
        .vectors
        .iter()
        .enumerate()
        .map(|(index, vector)| {
            let mut elements = vec![T::default(); len(vector.axis)];
            fill(&mut elements, args.seed + 3 + index as u64);
            (vector.name.clone(), elements)
        })
        .collect();
    let preparing = begun.elapsed();
    let scalars = scalars(&args.sizes, problem);
    let bar = progress::bar(100, format);
    let given = || {
        let arguments = scalars.iter().fold(Arguments::new(), |all, (name, x)| all.set(name, *x));
        let arguments = vectors.iter().fold(arguments, |all, (name, elements)| all.vector(name, elements));
        c.iter().fold(arguments, |all, c| all.c(c))
    };
    let mut arguments = given().progress(|done| bar.set_position((done.multiplied * 100.0) as u64));
    let run = large.run(&mut d, &a, &b, &mut arguments);
    drop(arguments);
    bar.finish_and_clear();
    let run = run?;
    let host = Host {
        problem,
        a: (a.as_slice()?, a.shape()),
        b: (b.as_slice()?, b.shape()),
        c: c.as_ref().map(|c| Ok::<_, Failure>((c.as_slice()?, c.shape()))).transpose()?,
        d: (d.as_slice()?, d.shape()),
        scalars: scalars.iter().map(|(_, value)| *value).collect(),
        vectors: vectors.iter().map(|(_, elements)| elements.iter().map(|x| x.to_f64()).collect()).collect(),
    };
    let checked = args.check.then(|| host.check(args.seed));
    // The bounds of the remaining devices are not comparable with it.
    let measurable = args.bounds && run.failures.is_empty();
    let bounds = measurable.then(|| large.bounds(&mut d, &a, &b, &given())).transpose()?;
    Ok(measured(&run, preparing.as_secs_f64(), checked, bounds, devices))
}

fn measured(
    run: &LargeRun,
    preparing: f64,
    checked: Option<Checked>,
    bounds: Option<Bounds>,
    devices: &[Device],
) -> Reply {
    let plan = &run.plan;
    let (seconds, estimate) = (run.time.as_secs_f64(), plan.estimate().total());
    let flops = 2.0 * plan.request.m as f64 * plan.request.n as f64 * plan.request.k as f64;
    let tflops = flops / seconds.max(1e-9) / 1e12;
    let mut text = "\n".to_string();
    for (index, device) in devices.iter().enumerate() {
        text.push_str(&format!("device {index}   {device}\n"));
    }
    text.push_str(&format!("prepared   {preparing:.3} s: memory and data\n"));
    text.push_str(&format!("measured   {seconds:.3} s, {tflops:.2} TFLOP/s; estimated {estimate:.3} s\n"));
    for failure in &run.failures {
        text.push_str(&format!("failed     device {}: {}\n", failure.device, failure.error));
    }
    if let Some(bounds) = bounds {
        text.push_str(&format!(
            "bounds     products alone {:.3} s, copies alone {:.3} s: {:.2} x the larger\n",
            bounds.products.as_secs_f64(),
            bounds.copies.as_secs_f64(),
            seconds / bounds.larger().as_secs_f64()
        ));
    }
    let mut json = figures(plan);
    json["bounds"] = bounds.map_or(
        Value::Null,
        |bounds| json!({ "products": bounds.products.as_secs_f64(), "copies": bounds.copies.as_secs_f64() }),
    );
    json["measured"] = json!(seconds);
    json["preparing"] = json!(preparing);
    json["tflops"] = json!(tflops);
    json["failed"] = run.failures.iter().map(|failure| json!(failure.device)).collect();
    let mut status = Status::Fine;
    if let Some(checked) = checked {
        let verdict = checked.verdict();
        status = verdict.into();
        text.push_str(&format!(
            "checked    {} elements, {} of them sums by random vectors; largest error {:.6} of the bound\n{}\n",
            checked.compared, checked.sums, checked.max_error, verdict
        ));
        json["verdict"] = json!(verdict);
        json["max_error"] = json!(checked.max_error.min(f64::MAX));
        json["compared"] = json!(checked.compared);
    }
    Reply { text, json, status }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_goes_on_without_devices_that_do_not_open() {
        let odd = |index: usize| match index % 2 {
            1 => Ok(Device::interpreter()),
            _ => Device::cuda(usize::MAX),
        };
        assert!(opened(3, OnFailure::Stop, odd).is_err());
        let (devices, closed) = opened(3, OnFailure::Continue, odd).expect("one of them opens");
        assert_eq!((devices.len(), closed.iter().map(|(index, _)| *index).collect::<Vec<_>>()), (1, vec![0, 2]));
        assert!(opened(1, OnFailure::Continue, odd).is_err(), "without a device there is nothing to go on with");
    }
}
