//! `gemmc draw`: pictures of a schedule or of tile programs.

use std::fs;
use std::path::Path;

use ptx_gemm_bench::report;
use ptx_gemm_choose::Gpu;
use ptx_gemm_draw::{DrawError, Measured, Picture, Scheme, Subject, What, draw};
use serde_json::{Value, json};

use crate::cli;
use crate::reply::{Failure, Reply};
use crate::source::{self, Loaded, unusable};

pub(crate) fn run(args: &cli::Draw) -> Result<Reply, Failure> {
    let as_png = cli::ends_in(&args.output, "png");
    let scheme = scheme(args, as_png)?;
    let loaded = source::load(&args.compile)?;
    let (name, clauses) = match &loaded {
        Loaded::Schedule { schedule, name, .. } => {
            let lines: Vec<String> = schedule.to_string().lines().map(str::to_string).collect();
            (titled(name), Some(lines.join(" ")))
        }
        Loaded::Tile { .. } => {
            (args.compile.source.source.as_ref().map_or("tile program".into(), |name| stem(Path::new(name))), None)
        }
    };
    let gpu = gpu(args, &loaded)?;
    let mut subject = Subject::new(name, clauses, loaded.kernel()?, gpu);
    if let Some(results) = &args.results {
        subject.measured = Some(measured(results, &subject.name, &gpu.title)?);
    }
    let what: Vec<What> = match args.what.is_empty() {
        true => What::ALL.into(),
        false => args.what.iter().map(|&what| what.into()).collect(),
    };
    let picture = draw(&subject, &what, scheme).map_err(failure)?;
    let bytes = match as_png {
        true => as_pixels(&picture.svg, args.zoom)?,
        false => picture.svg.clone().into_bytes(),
    };
    source::write(&args.output, bytes)?;
    Ok(reply(args, &loaded, &picture))
}

#[cfg(feature = "png")]
fn as_pixels(svg: &str, zoom: f32) -> Result<Vec<u8>, Failure> {
    ptx_gemm_draw::png(svg, zoom).map_err(failure)
}

#[cfg(not(feature = "png"))]
fn as_pixels(_: &str, _: f32) -> Result<Vec<u8>, Failure> {
    Err(Failure::refused("usage", "this gemmc draws SVG: write to a file.svg, or build it with `--features png`"))
}

/// The requested GPU, or one that runs the program.
fn gpu(args: &cli::Draw, loaded: &Loaded) -> Result<&'static Gpu, Failure> {
    let target = loaded.target();
    let found = args.compile.gpu.or_else(|| Gpu::for_target(target));
    found.ok_or_else(|| source::other_gpu("a GPU that is known", target))
}

/// A PNG has one scheme.
fn scheme(args: &cli::Draw, as_png: bool) -> Result<Scheme, Failure> {
    match (args.scheme, args.dark) {
        (_, true) => Ok(Scheme::Dark),
        (Some(cli::Scheme::Auto), _) if as_png => {
            Err(Failure::refused("usage", "a PNG has one scheme: --scheme light or --scheme dark"))
        }
        (Some(scheme), _) => Ok(scheme.into()),
        (None, _) if as_png => Ok(Scheme::Light),
        (None, _) => Ok(Scheme::Auto),
    }
}

/// The name of a schedule: that of a case, or the stem of a file.
fn titled(name: &str) -> String {
    match name.strip_prefix("case ") {
        Some(case) => case.into(),
        None if name == "-e" || name == "stdin" => "schedule".into(),
        None => stem(Path::new(name)),
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// The fastest run of the schedule of that name in a file of results of that GPU.
fn measured(path: &Path, name: &str, gpu: &str) -> Result<Measured, Failure> {
    let text = fs::read_to_string(path).map_err(|error| unusable(path, error))?;
    let results: Option<Value> = serde_json::from_str(&text).ok();
    let read = results.as_ref().and_then(|results| Some((results["device"].as_str()?, report::read(results)?)));
    let Some((device, (rows, _))) = read else {
        return Err(Failure::refused("file", format!("{} is not a file of results of gemmc bench", path.display())));
    };
    if !device.starts_with(gpu) && !gpu.starts_with(device) {
        let text =
            format!("{} has results of {device}, and the picture is for {gpu}: choose it with --gpu", path.display());
        return Err(Failure::refused("results", text));
    }
    let fastest = rows.iter().filter(|row| row.schedule == name).max_by(|a, b| a.tflops().total_cmp(&b.tflops()));
    fastest.map(|row| Measured { size: [row.size.m, row.size.n, row.size.k], tflops: row.tflops() }).ok_or_else(|| {
        Failure::refused("results", format!("{} has no results of a schedule named {name}", path.display()))
    })
}

fn reply(args: &cli::Draw, loaded: &Loaded, picture: &Picture) -> Reply {
    let path = args.output.display().to_string();
    let shown: Vec<&str> = picture.shown.iter().map(|what| what.name()).collect();
    let mut text = format!("wrote {path}: {}\n", shown.join(", "));
    for (what, why) in &picture.left_out {
        text.push_str(&format!("left out: {}: {why}\n", what.name()));
    }
    let left_out = picture.left_out.iter().map(|(what, why)| (what.name().to_string(), json!(why)));
    let left_out: serde_json::Map<String, Value> = left_out.collect();
    Reply::fine(
        text,
        json!({ "file": path, "target": loaded.target().to_string(), "shown": shown, "left_out": left_out }),
    )
}

fn failure(error: DrawError) -> Failure {
    Failure::refused("draw", error.to_string())
}
