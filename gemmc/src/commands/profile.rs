//! `gemmc profile`: the cost of a schedule, counted by the interpreter, reported by ptxas, and measured on a GPU.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use ptx_gemm::{Device, DeviceKind, Kernel};
use ptx_gemm_bench::ncu::{self, Compared, Ncu};
use ptx_gemm_bench::roofline::Roofline;
use ptx_gemm_bench::session::Reason;
use ptx_gemm_bench::suites::{Named, Size};
use ptx_gemm_bench::timing::{Timed, Untimed, time};
use ptx_gemm_check::figures::{Assembler, Figures, How};
use ptx_gemm_check::ladder::Timing;
use ptx_gemm_check::{Size as Extents, dram_bytes, formula_bytes, sample_size};
use ptx_gemm_choose::{Estimate, Gpu, estimate, with_article};
use serde_json::{Value, json};

use crate::cli::{Compile, DeviceName, Plain, Profile, Source};
use crate::reply::{Failure, Reply, Status};
use crate::source::{self, Loaded};

/// The cube that is timed if no extent is given.
const EXTENT: usize = 4096;

/// No measurement starts after this time.
const BUDGET: Duration = Duration::from_secs(30);

/// Multiply-adds that take the interpreter some seconds.
const MOST_FMA: u128 = 1 << 30;

/// The cases compared with the hardware's counters if no other is named: from no staging to no conflicts.
const CASES: [&str; 10] = [
    "naive",
    "naive_uncoalesced",
    "shared_32",
    "thread_2d",
    "registers",
    "vectorized",
    "vectorized_km",
    "double_buffered",
    "conflict_free",
    "warp_tiled",
];

pub(crate) fn run(args: &Profile) -> Result<Reply, Failure> {
    if args.ncu {
        return compare(args);
    }
    let [source] = compiles(args, &args.sources).try_into().map_err(|_| {
        Failure::refused(
            "usage",
            "one schedule at a time; `gemmc ladder` has a table of all cases, --ncu takes several",
        )
    })?;
    let (loaded, gpu) = opened(&source, args.device)?;
    let kernel = loaded.kernel()?;
    let assembler = assembler(args.wait.0);
    let how =
        How { size: sized(args, &kernel), assembler: assembler.as_ref(), patience: args.wait.0, ..How::default() };
    let figures = Figures::of(&kernel, &how)?;
    let mut text = format!("{}\n{figures}", loaded.name());
    if how.size.is_none() && (args.m.is_some() || args.n.is_some() || args.k.is_some()) {
        text.push_str(
            "\nnote: counted on whole tiles; the interpreter would take minutes for the product that was asked for\n",
        );
    }
    let estimated = estimated(args, &loaded);
    let of = args.gpu.unwrap_or_else(Gpu::h200);
    if let Some((size, Estimate { ms, bound, share, .. })) = &estimated {
        text.push_str(&format!(
            "\nestimate: {ms:.4} ms for {size} on {}; {bound} alone takes {:.0}% of that\n",
            with_article(&of.name),
            100.0 * share
        ));
        of.caveat().into_iter().for_each(|caveat| text.push_str(&format!("{caveat}\n")));
    }
    let mut json = serde_json::to_value(&figures).map_err(|error| Failure::refused("json", error.to_string()))?;
    json["estimate"] = json!(estimated.map(|(_, estimate)| estimate));
    json["estimated_for"] = json!({ "gpu": of.name, "calibrated": of.calibrated });
    json["name"] = loaded.name().into();
    json["assembler"] = assembler.as_ref().map(Assembler::version).into();
    let mut status = Status::from(figures.verdict);
    if let Some(gpu) = gpu {
        let (lines, measured, there) = measured(&gpu, args, loaded, &kernel);
        text.push_str(&lines);
        json["measured"] = measured;
        status = status.worse(there);
    }
    Ok(Reply { text, json, status })
}

/// The estimate of a schedule, for the product that was asked for.
fn estimated(args: &Profile, loaded: &Loaded) -> Option<(Size, Estimate)> {
    let Loaded::Schedule { plan, .. } = loaded else { return None };
    let [m, n, k] = [args.m, args.n, args.k].map(|extent| extent.unwrap_or(EXTENT));
    let size = Size { m, n, k, batch: 1 };
    let gpu = args.gpu.unwrap_or_else(Gpu::h200);
    Some((size, estimate(plan, size, gpu).ok()?))
}

/// The assembler, unless the time to wait for it is 0.
pub(crate) fn assembler(wait: Duration) -> Option<Assembler> {
    if wait.is_zero() { None } else { Assembler::find() }
}

/// A program, for the GPU that times it if there is one.
pub(crate) fn opened(source: &Compile, device: Option<DeviceName>) -> Result<(Loaded, Option<Device>), Failure> {
    match device {
        Some(name) => source::load_on(source, || gpu(name)).map(|(loaded, gpu)| (loaded, Some(gpu))),
        None => Ok((source::load(source)?, None)),
    }
}

/// A device that can measure times.
fn gpu(name: DeviceName) -> Result<Device, Failure> {
    let device = name.open(0)?;
    match device.kind() {
        DeviceKind::Cuda(_) => Ok(device),
        DeviceKind::Interpreter => Err(Failure::refused("device", "times are a GPU's: --device cuda:0")),
    }
}

/// The programs that the arguments name, in order.
fn compiles(args: &Profile, sources: &[OsString]) -> Vec<Compile> {
    let compile = |source: Option<OsString>, clauses| Compile {
        source: Source { source, clauses },
        target: args.target,
        gpu: args.gpu,
        plain: Plain { json: args.plain.json },
    };
    match &args.clauses {
        Some(clauses) => vec![compile(None, Some(clauses.clone()))],
        None => sources.iter().map(|source| compile(Some(source.clone()), None)).collect(),
    }
}

/// The product to count: the requested extents, and whole tiles for the others. `None` means whole tiles throughout,
/// also in place of a product that would take the interpreter minutes.
fn sized(args: &Profile, kernel: &Kernel) -> Option<Extents> {
    let [m, n, k] = [args.m, args.n, args.k];
    let whole = sample_size(kernel);
    let size = Extents::new(m.unwrap_or(whole.m), n.unwrap_or(whole.n), k.unwrap_or(whole.k));
    let asked = m.is_some() || n.is_some() || k.is_some();
    let fma = [size.m, size.n, size.k].iter().map(|&extent| extent as u128).product::<u128>();
    (asked && fma <= MOST_FMA).then_some(size)
}

/// How a missing time affects the answer of a command that also reports other figures.
pub(crate) fn status_of(why: &Untimed) -> Status {
    match why.reason {
        Reason::Wrong => Status::Wrong,
        Reason::Uncompared => Status::Uncompared,
        Reason::Refused | Reason::Late => Status::Fine,
    }
}

/// Time, share of cuBLAS, and the roofline.
fn measured(gpu: &Device, args: &Profile, loaded: Loaded, kernel: &Arc<Kernel>) -> (String, Value, Status) {
    let [m, n, k] = [args.m, args.n, args.k].map(|extent| extent.unwrap_or(EXTENT));
    let named = Named { name: loaded.name().into(), program: loaded.program() };
    let Timed { properties, timings } = time(gpu, vec![named], Size { m, n, k, batch: 1 }, BUDGET);
    let timing = match timings.first() {
        Some(Ok(timing)) => timing,
        Some(Err(why)) => {
            let json = json!({ "device": gpu.to_string(), "error": why.to_string() });
            return (format!("\n{gpu}: not timed: {why}\n"), json, status_of(why));
        }
        None => return (format!("\n{gpu}: not timed\n"), json!({ "device": gpu.to_string() }), Status::Refused),
    };
    let Timing { ms, noise, cublas_ms, .. } = timing;
    let mut text = format!("\n{gpu}: {m} x {n} x {k}\n");
    text.push_str(&format!("time               {ms:.4} ms (spread {:.1} %)\n", 100.0 * noise));
    text.push_str(&format!("speed              {:.2} TFLOP/s\n", timing.tflops()));
    let mut json = json!({
        "device": gpu.to_string(), "size": [m, n, k], "ms": ms, "spread": noise, "tflops": timing.tflops(),
        "cublas_ms": cublas_ms, "share_of_cublas": timing.share(),
    });
    match timing.share() {
        Some(share) => text.push_str(&format!("share of cuBLAS    {:.1} %\n", 100.0 * share)),
        None => text.push_str("share of cuBLAS    unknown: it does not compute this product here\n"),
    }
    let is_f32 = kernel.problem().types.acc == ptx_gemm::DType::F32;
    if let (Some(properties), Some(program), true) = (properties, kernel.programs().entries.first(), is_f32) {
        let size = Extents::new(m, n, k);
        let (roofline, operations) = (Roofline::of(properties), 2.0 * m as f64 * n as f64 * k as f64);
        let (once, loaded) = (dram_bytes(kernel.problem(), size), formula_bytes(program, size));
        let rows = [
            ("once", "with each matrix read once", once),
            ("formula", "with each block's loads, by the formula", loaded),
        ];
        for (name, words, bytes) in rows {
            let intensity = operations / bytes.max(1) as f64;
            text.push_str(&format!("roofline           {}\n", roofline.line(intensity, words, timing.tflops())));
            json["roofline"][name] = roofline.json(intensity, timing.tflops());
        }
    }
    (text, json, Status::Fine)
}

/// The interpreter's counts next to the hardware's.
fn compare(args: &Profile) -> Result<Reply, Failure> {
    let ncu = Ncu::find().ok_or_else(|| {
        Failure::refused(
            "ncu",
            "ncu was found neither in the path nor in /usr/local/cuda/bin; it is part of the CUDA toolkit",
        )
    })?;
    let mut sources = compiles(args, &args.sources);
    if sources.is_empty() {
        sources = compiles(args, &CASES.map(OsString::from));
    }
    let device = args.device.unwrap_or(DeviceName::Cuda(0));
    let mut all = Vec::new();
    for source in &sources {
        let loaded = source::load(source)?;
        let kernel = loaded.kernel()?;
        let figures = Figures::of(&kernel, &How { size: sized(args, &kernel), ..How::default() })?;
        let counters = ncu.count(&figures.entry, &launch(source, &figures, device));
        all.push(Compared { name: loaded.name().into(), figures, counters });
    }
    let status = if ncu::is_complete(&all) { Status::Fine } else { Status::Refused };
    Ok(Reply { text: ncu::table(&all), json: ncu::json(&all), status })
}

/// The arguments of `gemmc run` that launch the same product on a GPU, once.
fn launch(source: &Compile, figures: &Figures, device: DeviceName) -> Vec<String> {
    let mut args = vec!["run".to_string()];
    match (&source.source.clauses, &source.source.source) {
        (Some(clauses), _) => args.extend(["-e".into(), clauses.clone()]),
        (None, Some(name)) => args.push(name.to_string_lossy().into_owned()),
        (None, None) => {}
    }
    // The kernel that was counted, and not the one for that GPU.
    args.extend(["--target".into(), figures.target.clone()]);
    let [m, n, k] = figures.size;
    for (name, value) in [("-m", m.to_string()), ("-n", n.to_string()), ("-k", k.to_string())] {
        args.extend([name.into(), value]);
    }
    args.extend(["--device".into(), device.to_string()]);
    args
}
